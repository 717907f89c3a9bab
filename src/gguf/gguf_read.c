/* gguf_read.c - the header parser: magic, counts, metadata, tensor infos.
 *
 * The buffer moves as it grows, so the parser stores positions and converts them to pointers at
 * the end, when the buffer has its final size.
 * A count in the file alone never causes an allocation. Lists grow as entries are read, so the
 * memory is proportional to the bytes that the file really has.
 */
#include "organ/gg_gguf.h"

#include "base/cursor.h"
#include "base/error.h"
#include "gguf/gguf.h"
#include "gguf_limits.h"
#include "gguf_read.h"

#include <stdlib.h>
#include <string.h>

typedef struct kv_place {
    uint64_t key, data;
} kv_place;

typedef struct parser {
    gg_cursor *c;
    gg_gguf_keep *keep;
    gg_gguf *g;
    kv_place *kv_at;
    uint64_t *name_at;
    size_t kv_cap, tensor_cap;
    uint64_t names_size;
    uint64_t file_size; /* UINT64_MAX for a pipe */
    gg_error *err;
} parser;

static gg_status no_memory(parser *p)
{
    return gg_fail(p->err, GG_ENOMEM, "no memory for the header");
}

/* Makes room for one more item in two parallel lists. */
static bool grow(void **a, size_t a_size, void **b, size_t b_size, size_t n, size_t *cap)
{
    if (n < *cap) return true;
    size_t want = *cap ? *cap * 2 : 64;
    if (want > SIZE_MAX / (a_size > b_size ? a_size : b_size)) return false;
    void *na = realloc(*a, want * a_size);
    if (!na) return false;
    *a = na;
    void *nb = realloc(*b, want * b_size);
    if (!nb) return false;
    *b = nb;
    *cap = want;
    return true;
}

static gg_status read_version(parser *p)
{
    gg_cursor *c = p->c;
    gg_status st = gg_cursor_need(c, 4, "the magic number", p->err);
    if (st != GG_OK) return st;
    if (memcmp(c->base, "GGUF", 4) != 0) return gg_fail_kind(c->base, c->size, p->err);
    c->pos = 4;
    uint32_t version = 0;
    if ((st = gg_cursor_u32(c, &version, "the version", p->err)) != GG_OK) return st;
    if (version == 0) return gg_fail_at(4, p->err, "the GGUF version is 0");
    if ((version & 0xffff) == 0) {
        gg_fail_at(4, p->err, "the GGUF version is 0x%08x, so this is a big-endian file", version);
        return gg_fix(p->err, "convert it to little-endian with gguf_convert_endian.py of gguf-py");
    }
    if (version == 1) {
        gg_fail_at(4, p->err, "this is GGUF version 1, which no current program reads");
        return gg_fix(p->err, "convert the original model again");
    }
    if (version > 3) {
        gg_fail_at(4, p->err, "the GGUF version is %u; only 2 and 3 are supported", version);
        return gg_fix(p->err, "use a newer version of these tools");
    }
    p->g->version = version;
    return GG_OK;
}

static gg_status read_counts(parser *p, uint64_t *n_kv, uint64_t *n_tensors)
{
    gg_cursor *c = p->c;
    gg_status st = read_version(p);
    if (st != GG_OK) return st;
    if ((st = gg_cursor_u64(c, n_tensors, "the tensor count", p->err)) != GG_OK) return st;
    if ((st = gg_cursor_u64(c, n_kv, "the metadata count", p->err)) != GG_OK) return st;
    uint64_t left = p->file_size == UINT64_MAX ? INT64_MAX : p->file_size - c->pos;
    if (*n_tensors > left / GG_MIN_TENSOR)
        return gg_fail_at(8, p->err, "the tensor count is %llu, but the file is too small for that",
                          (unsigned long long)*n_tensors);
    if (*n_kv > left / GG_MIN_KV)
        return gg_fail_at(16, p->err,
                          "the metadata count is %llu, but the file is too small for that",
                          (unsigned long long)*n_kv);
    if (*n_tensors > GG_LIMIT_ENTRIES || *n_kv > GG_LIMIT_ENTRIES) {
        gg_fail(p->err, GG_EUNSUPPORTED,
                "the header announces %llu tensors and %llu metadata keys; the maximum is 2^22 of "
                "each",
                (unsigned long long)*n_tensors, (unsigned long long)*n_kv);
        return gg_at_offset(p->err, 8);
    }
    return GG_OK;
}

/* Reads a length and that many bytes. Sets *at to the position of the bytes. */
static gg_status read_string(parser *p, const char *what, uint64_t limit, uint64_t *at,
                             uint64_t *len)
{
    uint64_t start = p->c->pos;
    gg_status st = gg_cursor_u64(p->c, len, what, p->err);
    if (st != GG_OK) return st;
    if (*len > limit)
        return gg_fail_at(start, p->err, "the length of %s is %llu bytes; the maximum is %llu",
                          what, (unsigned long long)*len, (unsigned long long)limit);
    if ((st = gg_cursor_need(p->c, *len, what, p->err)) != GG_OK) return st;
    *at = p->c->pos;
    p->c->pos += *len;
    return GG_OK;
}

static gg_status read_array(parser *p, gg_kv *kv)
{
    gg_cursor *c = p->c;
    uint64_t at = c->pos;
    gg_status st = gg_cursor_u32(c, &kv->elem_type, "an array's element type", p->err);
    if (st != GG_OK) return st;
    if (kv->elem_type == GG_TYPE_ARR)
        return gg_fail_at(at, p->err, "a metadata array contains arrays, which is not supported");
    if (kv->elem_type >= GG_TYPE_COUNT)
        return gg_fail_at(at, p->err, "a metadata array has unknown element type %u",
                          kv->elem_type);
    at = c->pos;
    if ((st = gg_cursor_u64(c, &kv->count, "an array's length", p->err)) != GG_OK) return st;
    if (kv->count > GG_LIMIT_ARRAY)
        return gg_fail_at(at, p->err, "the length of an array is %llu; the maximum is 2^30",
                          (unsigned long long)kv->count);
    size_t size = gg_type_size(kv->elem_type);
    if (size > 0) {
        kv->size = (size_t)kv->count * size;
        if ((st = gg_cursor_need(c, kv->size, "an array", p->err)) != GG_OK) return st;
        c->pos += kv->size;
        return GG_OK;
    }
    if (p->file_size != UINT64_MAX && kv->count > (p->file_size - c->pos) / 8)
        return gg_fail_at(at, p->err,
                          "the length of an array of strings is %llu, but the file is too small "
                          "for that",
                          (unsigned long long)kv->count);
    at = c->pos;
    for (uint64_t i = 0; i < kv->count && st == GG_OK; i++) {
        uint64_t where, len;
        st = read_string(p, "a string of an array", GG_LIMIT_STRING, &where, &len);
    }
    kv->size = (size_t)(c->pos - at);
    return st;
}

static gg_status read_kv(parser *p)
{
    gg_cursor *c = p->c;
    gg_meta *m = &p->g->meta;
    void *kv_list = m->kv, *place_list = p->kv_at;
    bool ok = grow(&kv_list, sizeof *m->kv, &place_list, sizeof *p->kv_at, m->n, &p->kv_cap);
    m->kv = kv_list, p->kv_at = place_list;
    if (!ok) return no_memory(p);
    gg_kv *kv = &m->kv[m->n];
    kv_place *place = &p->kv_at[m->n];
    *kv = (gg_kv){ .count = 1 };
    uint64_t len, start = c->pos;
    gg_status st = read_string(p, "a metadata key", GG_LIMIT_STRING, &place->key, &len);
    if (st != GG_OK) return st;
    if (len == 0) return gg_fail_at(start, p->err, "a metadata key is empty");
    kv->key_len = (size_t)len;
    start = c->pos;
    if ((st = gg_cursor_u32(c, &kv->type, "a metadata type", p->err)) != GG_OK) return st;
    place->data = c->pos;
    if (kv->type >= GG_TYPE_COUNT)
        return gg_fail_at(start, p->err, "unknown metadata type %u", kv->type);
    if (kv->type == GG_TYPE_ARR) {
        place->data += 12;
        st = read_array(p, kv);
    } else if (kv->type == GG_TYPE_STR) {
        st = read_string(p, "a metadata string", GG_LIMIT_STRING, &place->data, &len);
        kv->size = (size_t)len;
    } else {
        kv->size = gg_type_size(kv->type);
        st = gg_cursor_need(c, kv->size, "a metadata value", p->err);
        if (st == GG_OK) c->pos += kv->size;
    }
    if (st == GG_OK) m->n++;
    return st;
}

static gg_status read_tensor(parser *p)
{
    gg_cursor *c = p->c;
    gg_gguf *g = p->g;
    void *tensors = g->tensors, *names = p->name_at;
    bool ok = grow(&tensors, sizeof *g->tensors, &names, sizeof *p->name_at, g->n_tensors,
                   &p->tensor_cap);
    g->tensors = tensors, p->name_at = names;
    if (!ok) return no_memory(p);
    gg_tensor *t = &g->tensors[g->n_tensors];
    *t = (gg_tensor){ .dims = { 1, 1, 1, 1 } };
    uint64_t len, *name = &p->name_at[g->n_tensors];
    gg_status st = read_string(p, "a tensor name", GG_LIMIT_NAME, name, &len);
    if (st != GG_OK) return st;
    t->name_len = (size_t)len;
    p->names_size += len + 1;
    uint64_t at = c->pos;
    if ((st = gg_cursor_u32(c, &t->n_dims, "a dimension count", p->err)) != GG_OK) return st;
    if (t->n_dims > GG_MAX_DIMS) {
        gg_fail_at(at, p->err, "the tensor has %u dimensions; the maximum is 4", t->n_dims);
        return gg_at_tensor(p->err, (const char *)c->base + *name, t->name_len);
    }
    for (uint32_t i = 0; i < t->n_dims && st == GG_OK; i++) {
        at = c->pos;
        st = gg_cursor_u64(c, &t->dims[i], "the dimensions", p->err);
        if (st == GG_OK && t->dims[i] > INT64_MAX)
            st = gg_fail_at(at, p->err, "dimension %u is negative", i);
    }
    at = c->pos;
    if (st == GG_OK) st = gg_cursor_u32(c, &t->dtype, "a tensor type", p->err);
    if (st == GG_OK) {
        st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, p->err);
        gg_at_offset(p->err, at);
    }
    if (st == GG_OK) st = gg_cursor_u64(c, &t->offset, "a tensor offset", p->err);
    if (st != GG_OK) return gg_at_tensor(p->err, (const char *)c->base + *name, t->name_len), st;
    g->n_tensors++;
    return GG_OK;
}

static gg_status fail_past_end(parser *p, const gg_tensor *t)
{
    const gg_tensor *last = &p->g->tensors[p->g->n_tensors - 1];
    uint64_t most = UINT64_MAX / 4;
    bool sane = last->offset < most && last->bytes < most && p->g->data_start < most;
    uint64_t whole = p->g->data_start + (sane ? last->offset + last->bytes : t->bytes);
    gg_fail(p->err, GG_EFORMAT,
            "the tensor needs %llu bytes at offset %llu, but the file ends at %llu",
            (unsigned long long)t->bytes, (unsigned long long)(p->g->data_start + t->offset),
            (unsigned long long)p->file_size);
    gg_fix(p->err, "fetch the file again: the download is incomplete, %llu of at least %llu bytes",
           (unsigned long long)p->file_size, (unsigned long long)whole);
    return gg_at_tensor(p->err, t->name, t->name_len);
}

/* The data of the tensors must follow in order, each at the next aligned byte, as ggml requires.
 * It must also lie within the file, as the loader of llama.cpp requires. */
static gg_status check_data(parser *p)
{
    gg_gguf *g = p->g;
    gg_status st = gg_meta_alignment(&g->meta, &g->alignment, p->err);
    if (st != GG_OK) return st;
    if (g->n_tensors == 0) {
        g->data_start = g->header_bytes;
        return GG_OK;
    }
    if (g->alignment > GG_LIMIT_ALIGNMENT)
        return gg_fail(p->err, GG_EUNSUPPORTED, "general.alignment is %llu; the maximum is 2^20",
                       (unsigned long long)g->alignment);
    g->data_start = gg_align_up(g->header_bytes, g->alignment);
    if (g->data_start > p->file_size) {
        gg_fail(p->err, GG_EFORMAT,
                "the tensor data should start at byte %llu, but the file ends at %llu",
                (unsigned long long)g->data_start, (unsigned long long)p->file_size);
        gg_fix(p->err, "fetch the file again: the download is incomplete");
        return gg_at_offset(p->err, g->header_bytes);
    }
    uint64_t room = p->file_size == UINT64_MAX ? (uint64_t)INT64_MAX - g->data_start
                                               : p->file_size - g->data_start;
    uint64_t next = 0;
    for (size_t i = 0; i < g->n_tensors; i++) {
        const gg_tensor *t = &g->tensors[i];
        if (t->offset != next) {
            gg_fail(p->err, GG_EFORMAT,
                    "the data offset is %llu instead of %llu; the data of tensors must follow in "
                    "order without gaps",
                    (unsigned long long)t->offset, (unsigned long long)next);
            return gg_at_tensor(p->err, t->name, t->name_len);
        }
        if (next > room || t->bytes > room - next) {
            return fail_past_end(p, t);
        }
        next = gg_align_up(next + t->bytes, g->alignment); /* cannot wrap: both are below 2^63 */
    }
    g->data_bytes = next;
    return GG_OK;
}

/* Takes over the bytes of the header, appends the tensor names as C strings, and converts
 * positions to pointers. */
static gg_status make_pointers(parser *p)
{
    gg_gguf *g = p->g;
    g->header_bytes = p->c->pos;
    g->raw = p->keep(p->c, (size_t)(g->header_bytes + p->names_size + 1));
    if (!g->raw) return no_memory(p);
    for (size_t i = 0; i < g->meta.n; i++) {
        g->meta.kv[i].key = (const char *)g->raw + p->kv_at[i].key;
        g->meta.kv[i].data = g->raw + p->kv_at[i].data;
    }
    g->meta.cap = p->kv_cap;
    char *names = (char *)g->raw + g->header_bytes;
    for (size_t i = 0; i < g->n_tensors; i++) {
        gg_tensor *t = &g->tensors[i];
        if (t->name_len) memcpy(names, g->raw + p->name_at[i], t->name_len);
        names[t->name_len] = '\0';
        t->name = names;
        names += t->name_len + 1;
    }
    return GG_OK;
}

static gg_status parse_all(parser *p)
{
    uint64_t n_kv = 0, n_tensors = 0;
    gg_status st = read_counts(p, &n_kv, &n_tensors);
    for (uint64_t i = 0; i < n_kv && st == GG_OK; i++) st = read_kv(p);
    for (uint64_t i = 0; i < n_tensors && st == GG_OK; i++) st = read_tensor(p);
    if (st == GG_OK) st = make_pointers(p);
    if (st == GG_OK) st = gg_index_build(p->g, p->err);
    if (st == GG_OK) st = check_data(p);
    return st;
}

gg_status gg_gguf_parse_cursor(gg_cursor *c, uint64_t data_end, gg_gguf_keep *keep, gg_gguf **out,
                               gg_error *err)
{
    parser p = { .c = c, .keep = keep, .file_size = data_end, .err = err };
    p.g = calloc(1, sizeof *p.g);
    if (!p.g) return no_memory(&p);
    gg_status st = parse_all(&p);
    free(p.kv_at);
    free(p.name_at);
    if (st != GG_OK) {
        if (st == GG_EFORMAT)
            gg_fix(err, "fetch the file again; if the error remains, report it to the publisher "
                        "of the model");
        gg_gguf_free(p.g);
        return st;
    }
    *out = p.g;
    return GG_OK;
}

void gg_gguf_free(gg_gguf *g)
{
    if (!g) return;
    gg_meta_free(&g->meta);
    free(g->tensors);
    free(g->raw);
    free(g->by_name);
    free(g);
}
