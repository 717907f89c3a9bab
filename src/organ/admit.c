/* admit.c - the limits and rules that the tensors and keys of every source keep, whatever its kind.
 * The tools rely on them: that a name fits into GG_MAX_NAME + 1 bytes, that sizes are products
 * which do not wrap, and that a model with these keys can be read again after it was written. */
#include "source.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "quant/quant.h"

#include <string.h>

/* ---- tensors ----------------------------------------------------------------------------- */

gg_status gg_admit_name(const char *name, size_t len, gg_error *err)
{
    if (len > GG_MAX_NAME) {
        gg_fail(err, GG_EUNSUPPORTED, "its name has %zu bytes, but the limit is %d", len,
                GG_MAX_NAME);
        gg_fix(err, "rename the tensor");
    } else if (!name || name[len] != '\0') {
        gg_fail(err, GG_EFORMAT, "a tensor has no name");
    }
    return gg_at_tensor(err, name ? name : "", name ? len : 0);
}

static gg_status check_shape(const gg_tensor *t, gg_error *err)
{
    uint64_t elements, bytes;
    if (t->n_dims > GG_MAX_DIMS)
        return gg_fail(err, GG_EUNSUPPORTED, "it has %u dimensions; the maximum is %d", t->n_dims,
                       GG_MAX_DIMS);
    for (uint32_t i = 0; i < GG_MAX_DIMS; i++)
        if (t->dims[i] > INT64_MAX || (i >= t->n_dims && t->dims[i] != 1))
            return gg_fail(err, GG_EFORMAT, "dimension %u is impossible", i);
    gg_status st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &elements, &bytes, err);
    if (st == GG_OK && (elements != t->elements || bytes != t->bytes))
        st = gg_fail(err, GG_EFORMAT, "its size contradicts its shape");
    return st;
}

gg_status gg_admit_tensor(const gg_tensor *t, gg_error *err)
{
    gg_status st = gg_admit_name(t->name, t->name_len, err);
    if (st == GG_OK) st = check_shape(t, err);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

/* ---- keys -------------------------------------------------------------------------------- */

/* Whether the strings of an array fill its bytes. */
static bool strings_fit(const gg_kv *kv)
{
    uint64_t pos = 0, n = 0;
    const char *text;
    size_t len;
    while (n < kv->count && gg_kv_next_str(kv, &pos, &text, &len)) n++;
    return n == kv->count && pos == kv->size;
}

static bool value_fits(const gg_kv *kv)
{
    uint64_t size;
    if (kv->type == GG_TYPE_STR) return true;
    if (kv->type != GG_TYPE_ARR) return kv->size == gg_type_size(kv->type);
    if (kv->elem_type == GG_TYPE_STR) return strings_fit(kv);
    return !__builtin_mul_overflow(kv->count, gg_type_size(kv->elem_type), &size) &&
           size == kv->size;
}

static gg_status check_key(const gg_kv *kv, gg_error *err)
{
    bool array = kv->type == GG_TYPE_ARR;
    int shown = kv->key_len < 64 ? (int)kv->key_len : 64;
    if (kv->key_len == 0) return gg_fail(err, GG_EFORMAT, "a metadata key is empty");
    if (kv->type >= GG_TYPE_COUNT ||
        (array && (kv->elem_type >= GG_TYPE_COUNT || kv->elem_type == GG_TYPE_ARR)))
        return gg_fail(err, GG_EFORMAT, "metadata key %.*s has an unknown type", shown, kv->key);
    if (!value_fits(kv))
        return gg_fail(err, GG_EFORMAT, "the value of metadata key %.*s is damaged", shown,
                       kv->key);
    return GG_OK;
}

gg_status gg_admit_keys(const gg_meta *meta, gg_error *err)
{
    uint64_t no, count;
    gg_status st = GG_OK;
    if (meta->n > GG_LIMIT_ENTRIES)
        return gg_fail(err, GG_EUNSUPPORTED, "it has %zu metadata keys; the maximum is 2^22",
                       meta->n);
    for (size_t i = 0; i < meta->n && st == GG_OK; i++) st = check_key(&meta->kv[i], err);
    if (st == GG_OK) st = gg_unique_keys(meta, NULL, err);
    if (st == GG_OK) st = gg_split_numbers(meta, &no, &count, err);
    return st;
}
