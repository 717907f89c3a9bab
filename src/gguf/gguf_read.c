/* gguf_read.c - read the header of a GGUF file: magic, counts, metadata, tensor infos.
 *
 * The buffer moves as it grows, so the parser stores positions and converts them to pointers at
 * the end, when the buffer has its final size.
 * A count in the file alone never causes an allocation. Lists grow as entries are read, so the
 * memory is proportional to the bytes that the file really has.
 *
 * A file is read, not mapped. If the file is truncated meanwhile or the disk fails, a read
 * returns an error, while a mapping would kill the process. Only the header has to fit into the
 * address space.
 */
#include "organ/gg_gguf.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/text.h"
#include "first_bytes.h"
#include "gguf.h"
#include "quant/quant.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define STEP ((size_t)64 << 10)

/* ---- sorted indices of keys and tensor names --------------------------------------------- */

/* Hostile input cannot make look-ups in a sorted list quadratic, as it can with a hash table. */

static int order_kv(const void *a, const void *b)
{
    const gg_kv *x = *(const gg_kv *const *)a, *y = *(const gg_kv *const *)b;
    return gg_text_order(x->key, x->key_len, y->key, y->key_len);
}

/* Tensors with the same name keep their order. */
static int order_tensor(const void *a, const void *b)
{
    const gg_tensor *x = *(const gg_tensor *const *)a, *y = *(const gg_tensor *const *)b;
    int c = gg_text_order(x->name, x->name_len, y->name, y->name_len);
    return c ? c : x < y ? -1 : x > y;
}

gg_status gg_meta_order_make(const gg_meta *meta, gg_meta_order *out, gg_error *err)
{
    *out = (gg_meta_order){ .list = calloc(meta->n ? meta->n : 1, sizeof *out->list),
                            .n = meta->n };
    if (!out->list) return gg_fail(err, GG_ENOMEM, "no memory for an index of %zu keys", meta->n);
    for (size_t i = 0; i < meta->n; i++) out->list[i] = &meta->kv[i];
    if (out->n) qsort(out->list, out->n, sizeof *out->list, order_kv);
    return GG_OK;
}

const gg_kv *gg_meta_order_find(const gg_meta_order *o, const char *key, size_t key_len)
{
    gg_kv wanted = { .key = (char *)(uintptr_t)key, .key_len = key_len };
    const gg_kv *k = &wanted, *const *found = o->n ? bsearch(&k, o->list, o->n, sizeof *o->list,
                                                             order_kv)
                                                   : NULL;
    return found ? *found : NULL;
}

gg_status gg_unique_keys(const gg_meta *meta, const uint8_t *raw, gg_error *err)
{
    gg_meta_order o;
    gg_status st = gg_meta_order_make(meta, &o, err);
    for (size_t i = 1; st == GG_OK && i < o.n; i++) {
        const gg_kv *twice = o.list[i - 1] > o.list[i] ? o.list[i - 1] : o.list[i];
        if (order_kv(&o.list[i - 1], &o.list[i]) != 0) continue;
        st = gg_fail(err, GG_EFORMAT, "metadata key %.*s appears twice",
                     twice->key_len < 64 ? (int)twice->key_len : 64, twice->key);
        if (raw) gg_at_offset(err, (uint64_t)((const uint8_t *)twice->key - raw));
    }
    free(o.list);
    return st;
}

gg_status gg_name_index(const gg_tensor *tensors, size_t n, size_t **by_name, gg_error *err)
{
    const gg_tensor **list = calloc(n ? n : 1, sizeof *list);
    *by_name = calloc(n ? n : 1, sizeof **by_name);
    if (!list || !*by_name) {
        free(list);
        return gg_fail(err, GG_ENOMEM, "no memory for an index of %zu tensors", n);
    }
    for (size_t i = 0; i < n; i++) list[i] = &tensors[i];
    qsort(list, n, sizeof *list, order_tensor);
    for (size_t i = 0; i < n; i++) (*by_name)[i] = (size_t)(list[i] - tensors);
    free(list);
    return GG_OK;
}

size_t gg_name_index_find(const gg_tensor *tensors, const size_t *by_name, size_t n,
                          const char *name, size_t name_len)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const gg_tensor *t = &tensors[by_name[mid]];
        int c = gg_text_order(t->name, t->name_len, name, name_len);
        if (c == 0) return by_name[mid];
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    return SIZE_MAX;
}

gg_status gg_unique_name_index(const gg_tensor *tensors, size_t n, const char *reason,
                               size_t **by_name, gg_error *err)
{
    gg_status st = gg_name_index(tensors, n, by_name, err);
    for (size_t i = 1; i < n && st == GG_OK; i++) {
        const gg_tensor *t = &tensors[(*by_name)[i]];
        if (strcmp(tensors[(*by_name)[i - 1]].name, t->name) != 0) continue;
        st = gg_fail(err, GG_EFORMAT, "%s", reason);
        gg_at_tensor(err, t->name, t->name_len);
    }
    return st;
}

/* ---- the parser -------------------------------------------------------------------------- */

/* Reads a header into a buffer that then becomes gg_gguf.raw. */
typedef struct intake {
    int fd;
    uint64_t from; /* first byte of the header in the file */
    bool pipe, cut;
    uint8_t *buf;
    size_t cap;
    uint8_t *surplus; /* pipe only: bytes read beyond the header */
    size_t surplus_len;
} intake;

typedef struct kv_place {
    uint64_t key, data;
} kv_place;

typedef struct parser {
    gg_cursor *c;
    gg_gguf *g;
    kv_place *kv_at;
    uint64_t *name_at;
    size_t kv_cap, tensor_cap, name_cap;
    uint64_t names_size;
    uint64_t file_size; /* UINT64_MAX for a pipe */
    gg_error *err;
} parser;

static gg_status no_memory(parser *p)
{
    return gg_fail(p->err, GG_ENOMEM, "no memory for the header");
}

/* Fails with GG_EFORMAT for a file that is not GGUF, and names its real format if the first bytes,
 * of which there are at least four, or the end of the file tell. */
static gg_status fail_not_gguf(const gg_cursor *c, gg_error *err)
{
    const intake *in = c->ctx;
    const uint8_t *m = c->base;
    size_t n = c->size < GG_FIRST_BYTES ? (size_t)c->size : GG_FIRST_BYTES;
    gg_status st = in && !in->pipe && in->from == 0
                       ? gg_fail_other_file(in->fd, c->end, m, n, "GGUF model", err)
                       : gg_fail_other_kind(m, n, "GGUF model", err);
    if (st != GG_OK) return st;
    gg_fail_at(0, err, "this is not a GGUF model (first bytes %02x %02x %02x %02x)", m[0], m[1],
               m[2], m[3]);
    return gg_fix(err, "give a GGUF model");
}

static gg_status read_version(parser *p)
{
    gg_cursor *c = p->c;
    gg_status st = gg_cursor_need(c, 4, "the magic number", p->err);
    if (st != GG_OK) return st;
    if (memcmp(c->base, "GGUF", 4) != 0) return fail_not_gguf(c, p->err);
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

/* Passes over the strings of an array that are in the buffer, and returns their number. The next
 * one is read by read_string, which reports what is wrong with it. */
static uint64_t pass_strings(gg_cursor *c, uint64_t n)
{
    uint64_t i = 0;
    for (; i < n && c->size - c->pos >= 8; i++) {
        uint64_t len = gg_le64(c->base + c->pos);
        if (len > GG_LIMIT_STRING || len > c->size - c->pos - 8) break;
        c->pos += 8 + len;
    }
    return i;
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
    for (uint64_t i = 0, where, len; st == GG_OK; i++) {
        i += pass_strings(c, kv->count - i);
        if (i == kv->count) break;
        st = read_string(p, "a string of an array", GG_LIMIT_STRING, &where, &len);
    }
    kv->size = (size_t)(c->pos - at);
    return st;
}

static gg_status read_kv(parser *p)
{
    gg_cursor *c = p->c;
    gg_meta *m = &p->g->meta;
    if (GG_ROOM(m->kv, m->n, &m->cap, p->err) != GG_OK ||
        GG_ROOM(p->kv_at, m->n, &p->kv_cap, p->err) != GG_OK)
        return GG_ENOMEM;
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
    if (GG_ROOM(g->tensors, g->n_tensors, &p->tensor_cap, p->err) != GG_OK ||
        GG_ROOM(p->name_at, g->n_tensors, &p->name_cap, p->err) != GG_OK)
        return GG_ENOMEM;
    gg_tensor *t = &g->tensors[g->n_tensors];
    *t = (gg_tensor){ .dims = GG_DIMS_ONE };
    uint64_t len, *name = &p->name_at[g->n_tensors];
    gg_status st = read_string(p, "a tensor name", GG_MAX_NAME, name, &len);
    if (st != GG_OK) return st;
    t->name_len = (size_t)len;
    p->names_size += len + 1;
    uint64_t at = c->pos;
    if ((st = gg_cursor_u32(c, &t->n_dims, "a dimension count", p->err)) != GG_OK) return st;
    if (t->n_dims > GG_MAX_DIMS) {
        gg_fail_at(at, p->err, "the tensor has %u dimensions; the maximum is %d", t->n_dims,
                   GG_MAX_DIMS);
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
    if (st != GG_OK) {
        gg_at_tensor(p->err, (const char *)c->base + *name, t->name_len);
        return st;
    }
    g->n_tensors++;
    return GG_OK;
}

static gg_status fail_past_end(parser *p, const gg_tensor *t)
{
    const gg_tensor *last = &p->g->tensors[p->g->n_tensors - 1];
    uint64_t most = UINT64_MAX / 4;
    if (p->file_size == UINT64_MAX) { /* a pipe */
        gg_fail(p->err, GG_EFORMAT,
                "the tensor needs %llu bytes at offset %llu, more than any file can have",
                (unsigned long long)t->bytes, (unsigned long long)(p->g->data_start + t->offset));
        return gg_at_tensor(p->err, t->name, t->name_len);
    }
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

/* Hands over the buffer, which begins with the header, resized to `room`. Returns NULL without
 * memory. The bytes of the cursor are not used after it. */
static uint8_t *keep_buffer(gg_cursor *c, size_t room)
{
    intake *in = c->ctx;
    if (in->pipe) {
        in->surplus_len = (size_t)(c->size - c->pos);
        in->surplus = malloc(in->surplus_len + 1);
        if (!in->surplus) return NULL;
        memcpy(in->surplus, in->buf + c->pos, in->surplus_len);
    }
    uint8_t *raw = realloc(in->buf, room);
    if (raw) in->buf = NULL;
    return raw;
}

/* Takes over the bytes of the header, appends the tensor names as C strings, and converts
 * positions to pointers. */
static gg_status make_pointers(parser *p)
{
    gg_gguf *g = p->g;
    g->header_bytes = p->c->pos;
    g->raw = keep_buffer(p->c, (size_t)(g->header_bytes + p->names_size + 1));
    if (!g->raw) return no_memory(p);
    for (size_t i = 0; i < g->meta.n; i++) {
        g->meta.kv[i].key = (const char *)g->raw + p->kv_at[i].key;
        g->meta.kv[i].data = g->raw + p->kv_at[i].data;
    }
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
    if (st == GG_OK) st = gg_unique_keys(&p->g->meta, p->g->raw, p->err);
    if (st == GG_OK)
        st = gg_unique_name_index(p->g->tensors, p->g->n_tensors, "two tensors have this name",
                                  &p->g->by_name, p->err);
    if (st == GG_OK) st = check_data(p);
    return st;
}

#define MANGLED ((uint64_t)1 << 16) /* so many bytes tell */

/* Replaces an error in a header that was read and written as text. Advises in any case. */
static void explain_damage(const parser *p, gg_error *err)
{
    /* The cursor has no buffer any more after keep_buffer. */
    const uint8_t *bytes = p->g->raw ? p->g->raw : p->c->base;
    uint64_t size = p->g->raw ? p->g->header_bytes : p->c->size, offset = err->offset;
    const char *damage = bytes ? gg_text_damage(bytes, (size_t)(size < MANGLED ? size : MANGLED))
                               : NULL;
    if (damage) {
        *err = (gg_error)GG_ERROR_INIT;
        gg_fail(err, GG_EFORMAT, "the file is damaged: a program %s", damage);
        gg_fix(err, "fetch it again, and copy it as binary");
        gg_at_offset(err, offset);
    }
    gg_fix(err, "fetch the file again; if the error remains, report it to the publisher "
                "of the model");
}

/* Parses a header from the start of the cursor. Tensor data must end before `data_end`, which is
 * UINT64_MAX if the size is unknown or the data may be incomplete. */
static gg_status parse_cursor(gg_cursor *c, uint64_t data_end, gg_gguf **out, gg_error *err)
{
    parser p = { .c = c, .file_size = data_end, .err = err };
    p.g = calloc(1, sizeof *p.g);
    if (!p.g) return no_memory(&p);
    gg_status st = parse_all(&p);
    free(p.kv_at);
    free(p.name_at);
    if (st != GG_OK) {
        if (st == GG_EFORMAT) explain_damage(&p, err);
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

/* ---- headers in files and on pipes -------------------------------------------- */

/* Fills the buffer. The buffer grows with the bytes that really arrive, so a claimed length
 * alone allocates nothing. Reads at most one step beyond the bytes needed. */
static gg_status fill_header(gg_cursor *c, uint64_t need, gg_error *err)
{
    intake *in = c->ctx;
    if (c->pos + need > GG_LIMIT_HEADER) {
        gg_fail(err, GG_EUNSUPPORTED, "the header exceeds the maximum of %llu bytes",
                (unsigned long long)GG_LIMIT_HEADER);
        return gg_at_offset(err, c->pos);
    }
    while (c->size - c->pos < need && c->size < c->end) {
        if (c->size == in->cap) {
            uint8_t *grown = realloc(in->buf, in->cap * 2);
            if (!grown)
                return gg_fail(err, GG_ENOMEM, "no memory for a header of more than %zu bytes",
                               in->cap);
            c->base = in->buf = grown;
            in->cap *= 2;
        }
        uint64_t want = need - (c->size - c->pos);
        if (want < STEP) want = STEP;
        if (want > in->cap - c->size) want = in->cap - c->size;
        if (want > c->end - c->size) want = c->end - c->size;
        size_t got = (size_t)want;
        gg_status st = in->pipe ? gg_read_some(in->fd, in->buf + c->size, (size_t)want, &got, err)
                                : gg_pread_all(in->fd, in->buf + c->size, (size_t)want,
                                               in->from + c->size, err);
        if (st != GG_OK) return st;
        c->size += got;
        if (got < want) c->end = c->size;
    }
    return GG_OK;
}

static gg_status take_in(intake *in, const void *prefix, size_t prefix_len, uint64_t size,
                         gg_gguf **out, gg_error *err)
{
    in->cap = prefix_len > STEP ? prefix_len : STEP;
    in->buf = malloc(in->cap);
    if (!in->buf) return gg_fail(err, GG_ENOMEM, "no memory for a header");
    if (prefix_len) memcpy(in->buf, prefix, prefix_len);
    gg_cursor c = {
        .base = in->buf, .size = prefix_len, .end = size, .more = fill_header, .ctx = in
    };
    gg_status st = parse_cursor(&c, in->cut ? UINT64_MAX : size, out, err);
    free(in->buf);
    return st;
}

gg_status gg_gguf_read_part(int fd, uint64_t from, uint64_t size, bool cut, gg_gguf **out,
                            gg_error *err)
{
    intake in = { .fd = fd, .from = from, .cut = cut };
    gg_status st = take_in(&in, NULL, 0, size - from, out, err);
    if (st != GG_OK) {
        if (from && err->offset != GG_ERROR_NO_OFFSET) err->offset += from;
        return st;
    }
    (*out)->header_bytes += from;
    (*out)->data_start += from;
    return GG_OK;
}

gg_status gg_gguf_open_fd(int fd, bool cut, gg_gguf **out, uint64_t *file_size, gg_error *err)
{
    struct stat s;
    if (fstat(fd, &s) != 0) return gg_fail_errno(err, "cannot get the file's size");
    if (!S_ISREG(s.st_mode)) {
        gg_fail(err, GG_EUSAGE, "not a regular file");
        return gg_fix(err, "pass it on standard input and give - as the model");
    }
    *file_size = (uint64_t)s.st_size;
    return gg_gguf_read_part(fd, 0, *file_size, cut, out, err);
}

gg_status gg_gguf_read_pipe(int fd, const void *prefix, size_t prefix_len, gg_gguf **out,
                            uint8_t **surplus, size_t *surplus_len, gg_error *err)
{
    intake in = { .fd = fd, .pipe = true };
    gg_status st = take_in(&in, prefix, prefix_len, UINT64_MAX, out, err);
    if (st != GG_OK) free(in.surplus);
    *surplus = st == GG_OK ? in.surplus : NULL;
    *surplus_len = st == GG_OK ? in.surplus_len : 0;
    return st;
}
