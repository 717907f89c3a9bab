/* safetensors.c - reads and writes the header of a .safetensors file; its types of elements. */
#include "safetensors.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/io.h"
#include "base/text.h"
#include "gguf/first_bytes.h"
#include "gguf/gguf.h"
#include "organ/manifest_json.h"
#include "organ/source.h"
#include "quant/quant.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
    const char *name;
    size_t size;
    uint32_t dtype; /* in GGUF; GG_DTYPE_COUNT = none */
} st_types[GG_ST_TYPES] = {
    [GG_ST_F32] = { "F32", 4, GG_F32 },
    [GG_ST_F16] = { "F16", 2, GG_F16 },
    [GG_ST_BF16] = { "BF16", 2, GG_BF16 },
    [GG_ST_F64] = { "F64", 8, GG_F64 },
    [GG_ST_F8_E4M3] = { "F8_E4M3", 1, GG_DTYPE_COUNT },
    [GG_ST_F8_E5M2] = { "F8_E5M2", 1, GG_DTYPE_COUNT },
    [GG_ST_I8] = { "I8", 1, GG_I8 },
    [GG_ST_I16] = { "I16", 2, GG_I16 },
    [GG_ST_I32] = { "I32", 4, GG_I32 },
    [GG_ST_I64] = { "I64", 8, GG_I64 },
    [GG_ST_U8] = { "U8", 1, GG_DTYPE_COUNT },
    [GG_ST_BOOL] = { "BOOL", 1, GG_DTYPE_COUNT },
    [GG_ST_U16] = { "U16", 2, GG_DTYPE_COUNT },
    [GG_ST_U32] = { "U32", 4, GG_DTYPE_COUNT },
    [GG_ST_U64] = { "U64", 8, GG_DTYPE_COUNT },
    [GG_ST_OTHER] = { "", 1, GG_DTYPE_COUNT },
};

size_t gg_st_type_size(gg_st_type type)
{
    return st_types[type].size;
}

bool gg_st_is_integer(gg_st_type type)
{
    return type >= GG_ST_I8 && type != GG_ST_OTHER;
}

/* ---- elements ---------------------------------------------------------------------------- */

/* E4M3: four bits of exponent with bias 7, three of mantissa, no infinities; 0x7f is NaN. E5M2 is
 * the upper half of an F16. */
static float decode_f8(gg_st_type type, uint8_t b)
{
    if (type == GG_ST_F8_E5M2) return gg_f16_to_f32((uint16_t)(b << 8));
    unsigned e = b >> 3 & 15, m = b & 7;
    uint32_t sign = (uint32_t)(b >> 7) << 31, bits;
    float f;
    if (e == 15 && m == 7) bits = 0x7fc00000;
    else if (e == 0) {
        f = (float)m / 512.0f;
        memcpy(&bits, &f, sizeof bits);
    } else {
        bits = (e + 120) << 23 | m << 20;
    }
    bits |= sign;
    memcpy(&f, &bits, sizeof f);
    return f;
}

uint32_t gg_st_dtype(gg_st_type type)
{
    return st_types[type].dtype;
}

void gg_st_decode(gg_st_type type, const uint8_t *raw, float *out, size_t n)
{
    gg_error ignored = GG_ERROR_INIT;
    uint32_t dtype = gg_st_dtype(type);
    if (dtype != GG_DTYPE_COUNT) {
        gg_decode_plain(dtype, raw, out, n, &ignored);
        return;
    }
    for (size_t i = 0; i < n; i++) switch (type) {
        case GG_ST_F8_E4M3:
        case GG_ST_F8_E5M2: out[i] = decode_f8(type, raw[i]); break;
        case GG_ST_U16: out[i] = (float)gg_le16(raw + 2 * i); break;
        case GG_ST_U32: out[i] = (float)gg_le32(raw + 4 * i); break;
        case GG_ST_U64: out[i] = (float)gg_le64(raw + 8 * i); break;
        default: out[i] = (float)raw[i]; break;
        }
}

/* ---- the header -------------------------------------------------------------------------- */

static gg_status bad_tensor(const gg_st_tensor *t, const gg_json_node *node, const char *what,
                            gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "%s", what);
    gg_fix(err, "download the file again: its header is damaged");
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_offset(err, 8 + gg_json_offset(node));
}

static gg_status read_dtype(gg_st_tensor *t, const gg_json_node *node, gg_error *err)
{
    const char *text;
    size_t len;
    if (gg_json_string(node, &text, &len, err) != GG_OK)
        return gg_at_tensor(err, t->name, t->name_len);
    gg_escape(text, len < 12 ? len : 12, t->type_name, sizeof t->type_name);
    t->type = GG_ST_OTHER;
    for (int i = 0; i < GG_ST_OTHER; i++)
        if (gg_text_is(text, len, st_types[i].name)) t->type = (gg_st_type)i;
    return GG_OK;
}

/* Shape and size. Products are checked, because the numbers may be hostile. As in GGUF, a tensor
 * without elements may have any other dimensions. */
static gg_status read_shape(gg_st_tensor *t, const gg_json_node *shape, gg_error *err)
{
    bool empty = false;
    if (gg_json_type_of(shape) != GG_JSON_ARRAY)
        return bad_tensor(t, shape, "the header gives no shape for it", err);
    if (gg_json_count(shape) > GG_ST_DIMS) {
        gg_fail(err, GG_EUNSUPPORTED, "it has more than %d axes", GG_ST_DIMS);
        return gg_at_tensor(err, t->name, t->name_len);
    }
    for (const gg_json_node *d = gg_json_first(shape); d; d = gg_json_next(d)) {
        uint64_t *dim = &t->dims[t->n_dims++];
        if (gg_json_u64(d, dim, err) != GG_OK) return gg_at_tensor(err, t->name, t->name_len);
        empty = empty || *dim == 0;
    }
    t->elements = !empty;
    for (uint32_t i = 0; i < t->n_dims && !empty; i++) {
        /* not 0: it is not empty */
        if (t->elements > ((uint64_t)1 << 60) / t->dims[i])
            return bad_tensor(t, shape, "its shape is impossibly large", err);
        t->elements *= t->dims[i];
    }
    t->bytes = t->elements * gg_st_type_size(t->type);
    return GG_OK;
}

static gg_status read_offsets(gg_st_tensor *t, const gg_json_node *node, uint64_t data,
                              uint64_t size, gg_error *err)
{
    uint64_t from, to;
    const gg_json_node *first = gg_json_first(node);
    if (gg_json_count(node) != 2)
        return bad_tensor(t, node, "the header gives no place for its data", err);
    if (gg_json_u64(first, &from, err) != GG_OK ||
        gg_json_u64(gg_json_next(first), &to, err) != GG_OK)
        return gg_at_tensor(err, t->name, t->name_len);
    if (t->type == GG_ST_OTHER && to >= from) t->bytes = to - from;
    if (to < from || to - from != t->bytes)
        return bad_tensor(t, node, "its shape and the size of its data contradict each other", err);
    if (to > size - data) {
        gg_fail(err, GG_EFORMAT,
                "its data ends at byte %llu, but the file ends at %llu: the download is incomplete",
                (unsigned long long)(to > UINT64_MAX - data ? to : data + to),
                (unsigned long long)size);
        gg_fix(err, "download the file again");
        return gg_at_tensor(err, t->name, t->name_len);
    }
    t->at = data + from;
    return GG_OK;
}

static int by_place(const void *a, const void *b)
{
    const gg_st_tensor *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The header, and how many bytes the file and all before the data have. */
typedef struct st_header {
    gg_json *json;
    uint64_t data, size;
} st_header;

/* The data must follow one another, as for the safetensors library: what lies between them belongs
 * to another file, or the file was damaged. */
static gg_status check_places(const st_header *h, const gg_st_tensor *list, size_t n, gg_error *err)
{
    uint64_t end = h->data;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = list[i].at, before = end;
        end = at + list[i].bytes;
        if (at == before) continue;
        if (at < before)
            gg_fail(err, GG_EFORMAT, "its data overlaps that of tensor '%.100s'", list[i - 1].name);
        else
            gg_fail(err, GG_EFORMAT, "%llu bytes before its data belong to no tensor",
                    (unsigned long long)(at - before));
        gg_fix(err, "download the file again; if the error remains, save it again with the program "
                    "that wrote it");
        gg_at_tensor(err, list[i].name, list[i].name_len);
        return gg_at_offset(err, at);
    }
    if (end == h->size) return GG_OK;
    gg_fail(err, GG_EFORMAT, "%llu bytes after the data belong to no tensor",
            (unsigned long long)(h->size - end));
    gg_fix(err, "download the file again; if the error remains, save it again with the program "
                "that wrote it");
    return gg_at_offset(err, end);
}

static gg_status list_tensors(const st_header *h, gg_names *names, gg_st_tensor *list, size_t *n,
                              gg_error *err)
{
    const gg_json_node *root = gg_json_root(h->json);
    for (const gg_json_node *m = gg_json_first(root); m; m = gg_json_next(m)) {
        gg_st_tensor *t = &list[*n];
        size_t len;
        const char *key = gg_json_key(m, &len);
        if (gg_json_key_is(m, "__metadata__")) continue;
        *t = (gg_st_tensor){ .name_len = len };
        if (!(t->name = gg_names_add(names, key, len, err))) return err->status;
        if (gg_admit_name(t->name, len, err) != GG_OK) return err->status;
        gg_status st = read_dtype(t, gg_json_get(m, "dtype"), err);
        if (st == GG_OK) st = read_shape(t, gg_json_get(m, "shape"), err);
        if (st == GG_OK)
            st = read_offsets(t, gg_json_get(m, "data_offsets"), h->data, h->size, err);
        if (st != GG_OK) return st;
        ++*n;
    }
    if (*n) qsort(list, *n, sizeof *list, by_place);
    return check_places(h, list, *n, err);
}

static gg_status read_header_text(int fd, uint64_t size, char **text, uint64_t *len, gg_error *err)
{
    uint8_t head[GG_FIRST_BYTES];
    size_t n = size < sizeof head ? (size_t)size : sizeof head;
    gg_status st = gg_pread_all(fd, head, n, 0, err);
    if (st == GG_OK && !gg_is_safetensors(head, n))
        st = gg_fail_other_file(fd, size, head, n, "safetensors file", err);
    const char *damage = st == GG_OK && !gg_is_safetensors(head, n) ? gg_text_damage(head, n)
                                                                    : NULL;
    if (damage) {
        gg_fail(err, GG_EFORMAT, "the file is damaged: a program %s", damage);
        gg_fix(err, "fetch it again, and copy it as binary");
    }
    if (st == GG_OK && size < 10) {
        gg_fail(err, GG_EFORMAT, "the file is too short for safetensors");
        gg_fix(err, "download it again");
    }
    if (err->status != GG_OK) return err->status;
    *len = gg_le64(head);
    if (*len > size - 8) {
        gg_fail(err, GG_EFORMAT,
                "the header should have %llu bytes, but the file has only %llu: it is not "
                "safetensors, or the download is incomplete",
                (unsigned long long)*len, (unsigned long long)size);
        return gg_at_offset(err, 0);
    }
    if (*len > GG_ST_HEADER) {
        gg_fail(err, GG_EUNSUPPORTED, "the header has %llu bytes, more than the limit of %llu",
                (unsigned long long)*len, (unsigned long long)GG_ST_HEADER);
        return gg_at_offset(err, 0);
    }
    if (!(*text = malloc((size_t)*len + 1)))
        return gg_fail(err, GG_ENOMEM, "no memory for a header");
    return gg_pread_all(fd, *text, (size_t)*len, 8, err);
}

static gg_status parse_header(int fd, st_header *h, gg_error *err)
{
    struct stat file;
    char *text = NULL;
    uint64_t len = 0;
    if (fstat(fd, &file) != 0) return gg_fail_errno(err, "cannot get the file's size");
    if (!S_ISREG(file.st_mode)) return gg_fail(err, GG_EFORMAT, "it is not a file");
    h->size = (uint64_t)file.st_size;
    gg_status st = read_header_text(fd, h->size, &text, &len, err);
    if (st == GG_OK && (st = gg_json_parse(text, (size_t)len, &h->json, err)) != GG_OK &&
        err->offset != GG_ERROR_NO_OFFSET)
        err->offset += 8;
    free(text);
    h->data = 8 + len;
    if (st == GG_OK && gg_json_type_of(gg_json_root(h->json)) != GG_JSON_OBJECT)
        st = gg_fail(err, GG_EFORMAT, "the header is not a JSON object");
    return st;
}

gg_status gg_st_read(int fd, gg_st_list *to, gg_json **metadata, gg_error *err)
{
    st_header h = { 0 };
    gg_status st = parse_header(fd, &h, err);
    size_t more = st == GG_OK ? gg_json_count(gg_json_root(h.json)) : 0, got = 0;
    gg_st_tensor *list = st == GG_OK ? realloc(to->items, (to->n + more + 1) * sizeof *list) : NULL;
    if (st == GG_OK && !list) st = gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
    if (list) to->items = list;
    if (st == GG_OK) st = list_tensors(&h, &to->names, list + to->n, &got, err);
    to->n += st == GG_OK ? got : 0;
    if (st == GG_OK && metadata && gg_json_get(gg_json_root(h.json), "__metadata__"))
        *metadata = h.json;
    else gg_json_free(h.json);
    return st;
}

/* ---- writing ------------------------------------------------------------------------------- */

static const char *name_of_dtype(uint32_t dtype)
{
    for (int i = 0; i < GG_ST_OTHER; i++)
        if (st_types[i].dtype == dtype) return st_types[i].name;
    return NULL;
}

/* All keys as one JSON text, which becomes a text in the header. */
static gg_status put_keys(gg_buf *to, const gg_meta *meta, gg_error *err)
{
    gg_buf keys = GG_BUF_INIT;
    gg_json_out in = gg_json_to_buf(&keys), out = gg_json_to_buf(to);
    gg_json_put_text(&in, "[", err);
    for (size_t i = 0, n = 0; i < meta->n && err->status == GG_OK; i++) {
        if (gg_is_split_key(&meta->kv[i])) continue;
        if (n++) gg_json_put_text(&in, ", ", err);
        gg_mj_put_kv(&in, &meta->kv[i], err);
    }
    gg_json_put_text(&in, "]", err);
    gg_json_put_text(&out, ",\"gguf.keys\":", err);
    gg_json_put_string(&out, keys.data, keys.len, err);
    gg_buf_free(&keys);
    return err->status;
}

static gg_status put_tensor(gg_buf *to, const gg_tensor *t, bool comma, gg_error *err)
{
    gg_json_out out = gg_json_to_buf(to);
    const char *type = name_of_dtype(t->dtype);
    if (!type) {
        gg_fail(err, GG_EUNSUPPORTED, "safetensors cannot hold the type %s",
                gg_dtype_name(t->dtype));
        gg_fix_by(err, "dtype", "choose f16, bf16 or f32");
        return gg_at_tensor(err, t->name, t->name_len);
    }
    if (gg_text_is(t->name, t->name_len, "__metadata__")) {
        gg_fail(err, GG_EUNSUPPORTED, "safetensors has another use for this name");
        gg_fix(err, "rename the tensor");
        return gg_at_tensor(err, t->name, t->name_len);
    }
    if (comma) gg_json_put_text(&out, ",", err);
    gg_json_put_string(&out, t->name, t->name_len, err);
    gg_buf_printf(to, err, ":{\"dtype\":\"%s\",\"shape\":[", type);
    for (uint32_t i = t->n_dims; i-- > 0;)
        gg_buf_printf(to, err, "%llu%s", (unsigned long long)t->dims[i], i ? "," : "");
    return gg_buf_printf(to, err, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)t->offset,
                         (unsigned long long)(t->offset + t->bytes));
}

/* The metadata by which these tools read the file back as the same model. */
static gg_status put_model(gg_buf *out, const gg_meta *meta, const char *hf_order, gg_error *err)
{
    gg_json_out json = gg_json_to_buf(out);
    gg_buf_text(out, "\"format\":\"pt\"", err);
    put_keys(out, meta, err);
    gg_buf_printf(out, err, ",\"gguf.names\":\"%s\"", hf_order ? "hf" : "gguf");
    if (!hf_order) return err->status;
    gg_buf_text(out, ",\"gguf.order\":", err);
    return gg_json_put_string(&json, hf_order, strlen(hf_order), err);
}

/* The metadata of a file of other programs: texts only. */
static gg_status put_texts(gg_buf *out, const gg_meta *meta, gg_error *err)
{
    gg_json_out json = gg_json_to_buf(out);
    for (size_t i = 0; i < meta->n && err->status == GG_OK; i++) {
        const gg_kv *kv = &meta->kv[i];
        const char *text;
        size_t len;
        if (!gg_kv_str(kv, &text, &len))
            return gg_fail(err, GG_EUSAGE,
                           "the metadata of a safetensors file are texts, but '%.*s' "
                           "is not a str",
                           kv->key_len < 100 ? (int)kv->key_len : 100, kv->key);
        if (i) gg_json_put_text(&json, ",", err);
        gg_json_put_string(&json, kv->key, kv->key_len, err);
        gg_json_put_text(&json, ":", err);
        gg_json_put_string(&json, text, len, err);
    }
    return err->status;
}

gg_status gg_st_header(const gg_meta *meta, const gg_tensor *tensors, size_t n,
                       const gg_st_form *form, gg_buf *out, gg_error *err)
{
    uint8_t length[8] = { 0 };
    bool stored = form->stored, metadata = !stored || meta->n > 0;
    gg_buf_append(out, length, sizeof length, err);
    gg_buf_text(out, metadata ? "{\"__metadata__\":{" : "{", err);
    if (stored) put_texts(out, meta, err);
    else put_model(out, meta, form->hf_order, err);
    if (metadata) gg_buf_text(out, "}", err);
    for (size_t i = 0; i < n && err->status == GG_OK; i++)
        put_tensor(out, &tensors[i], metadata || i > 0, err);
    gg_buf_text(out, "}", err);
    while (err->status == GG_OK && out->len % 8 != 0) gg_buf_text(out, " ", err);
    if (err->status != GG_OK) return err->status;
    if (out->len - 8 > GG_ST_HEADER)
        return gg_fail(err, GG_EUNSUPPORTED, "the header would be larger than safetensors allows");
    gg_put_le64((uint8_t *)out->data, out->len - 8);
    return GG_OK;
}
