/* qtable.c - looks up tensor types in the table that is made of types.txt: sizes, and what can be
 * decoded and encoded. */
#include "qtable.h"

#include "base/nearest.h"
#include "quant.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

const gg_type_row *gg_type_row_get(uint32_t id)
{
    if (id < GG_DTYPE_COUNT) {
        assert(gg_type_rows[id].info.id == id);
        return &gg_type_rows[id];
    }
    size_t low = GG_DTYPE_COUNT, high = gg_type_rows_n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (gg_type_rows[middle].info.id < id) low = middle + 1;
        else high = middle;
    }
    return low < gg_type_rows_n && gg_type_rows[low].info.id == id ? &gg_type_rows[low] : NULL;
}

const gg_dtype_info *gg_dtype_get(uint32_t id)
{
    const gg_type_row *row = gg_type_row_get(id);
    return row ? &row->info : NULL;
}

const char *gg_dtype_name(uint32_t id)
{
    const gg_dtype_info *info = gg_dtype_get(id);
    return info ? info->name : "an unknown type";
}

unsigned gg_rows_together(uint32_t dtype)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    const char *r = info ? strrchr(info->name, 'R') : NULL;
    unsigned n = 0;
    while (r && *++r >= '0' && *r <= '9') n = n * 10 + (unsigned)(*r - '0');
    return n > 1 ? n : 1;
}

const gg_dtype_info *gg_dtype_at(size_t i)
{
    return i < gg_type_rows_n ? &gg_type_rows[i].info : NULL;
}

static bool same_name(const char *a, const char *b)
{
    while (*a && *b && toupper((unsigned char)*a) == toupper((unsigned char)*b)) {
        a++;
        b++;
    }
    return *a == '\0' && *b == '\0';
}

const gg_dtype_info *gg_dtype_by_name(const char *name)
{
    for (size_t i = 0; i < gg_type_rows_n; i++) {
        const gg_dtype_info *info = &gg_type_rows[i].info;
        if (info->kind != GG_DTYPE_REMOVED && same_name(info->name, name)) return info;
    }
    return NULL;
}

const char *gg_dtype_near(const char *name)
{
    const char *names[GG_TYPES_MOST];
    for (size_t i = 0; i < gg_type_rows_n; i++)
        names[i] = gg_type_rows[i].info.kind != GG_DTYPE_REMOVED ? gg_type_rows[i].info.name : NULL;
    return gg_nearest(name, strlen(name), names, gg_type_rows_n);
}

gg_status gg_row_bytes(uint32_t dtype, uint64_t row_elems, uint64_t *bytes, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    if (!info) {
        gg_fail(err, GG_EUNSUPPORTED, "tensor type %u is unknown", dtype);
        return gg_fix(err, "use a newer version of these tools, or requantize the model");
    }
    if (info->kind == GG_DTYPE_REMOVED) {
        gg_fail(err, GG_EUNSUPPORTED, "tensor type %u (%s) was removed from the format", dtype,
                info->name);
        return gg_fix(err, "convert the original model again");
    }
    if (row_elems % info->block_elems != 0)
        return gg_fail(err, GG_EFORMAT,
                       "a row of %llu values is not a multiple of the %u-value block of %s",
                       (unsigned long long)row_elems, info->block_elems, info->name);
    uint64_t n;
    if (__builtin_mul_overflow(row_elems / info->block_elems, (uint64_t)info->block_bytes, &n) ||
        __builtin_add_overflow(n, (uint64_t)info->row_extra, &n) || n > INT64_MAX)
        return gg_fail(err, GG_EFORMAT, "a row of %llu values of %s is too large",
                       (unsigned long long)row_elems, info->name);
    *bytes = row_elems == 0 ? 0 : n;
    return GG_OK;
}

gg_status gg_tensor_extent(uint32_t dtype, uint32_t n_dims, const uint64_t *dims,
                           uint64_t *elements, uint64_t *bytes, gg_error *err)
{
    uint64_t row = n_dims > 0 ? dims[0] : 1, rows = 1, row_bytes = 0, n = 0, total = 0;
    bool zero = row == 0, wraps = false;
    for (uint32_t i = 1; i < n_dims; i++) zero = zero || dims[i] == 0;
    /* If one dimension is 0, the others may have any size; only the block size is checked. */
    const gg_dtype_info *info = gg_dtype_get(dtype);
    uint64_t checked = zero && info && info->block_elems ? row % info->block_elems : row;
    gg_status st = gg_row_bytes(dtype, checked, &row_bytes, err);
    if (st != GG_OK) return st;
    if (!zero) {
        for (uint32_t i = 1; i < n_dims; i++)
            wraps = wraps || __builtin_mul_overflow(rows, dims[i], &rows);
        wraps = wraps || __builtin_mul_overflow(rows, row, &n) || n > INT64_MAX ||
                __builtin_mul_overflow(rows, row_bytes, &total) || total > INT64_MAX;
        if (wraps)
            return gg_fail(err, GG_EFORMAT,
                           "the product of the dimensions exceeds 2^63 values or bytes");
    }
    if (elements) *elements = n;
    if (bytes) *bytes = total;
    return GG_OK;
}

bool gg_can_decode(uint32_t dtype)
{
    const gg_type_row *row = gg_type_row_get(dtype);
    return row && row->info.kind == GG_DTYPE_LIVE;
}

bool gg_encode_needs_imatrix(uint32_t dtype)
{
    const gg_type_row *row = gg_type_row_get(dtype);
    return row && row->weighing == GG_ENC_NEEDS;
}

bool gg_can_encode(uint32_t dtype)
{
    const gg_type_row *row = gg_type_row_get(dtype);
    return row && (row->weighing == GG_ENC_BLIND || row->weighing == GG_ENC_WEIGHS);
}
