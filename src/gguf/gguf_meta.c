/* gguf_meta.c - the types of metadata, and the ordered list of keys: find, set, delete, typed
 * reads. */
#include "organ/gg_gguf.h"

#include "base/cursor.h"
#include "base/float_bits.h"
#include "base/grow.h"
#include "base/text.h"
#include "gguf.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} types[GG_TYPE_COUNT] = {
    [GG_TYPE_U8] = { "u8", 1 },   [GG_TYPE_I8] = { "i8", 1 },     [GG_TYPE_U16] = { "u16", 2 },
    [GG_TYPE_I16] = { "i16", 2 }, [GG_TYPE_U32] = { "u32", 4 },   [GG_TYPE_I32] = { "i32", 4 },
    [GG_TYPE_F32] = { "f32", 4 }, [GG_TYPE_BOOL] = { "bool", 1 }, [GG_TYPE_STR] = { "str", 0 },
    [GG_TYPE_ARR] = { "arr", 0 }, [GG_TYPE_U64] = { "u64", 8 },   [GG_TYPE_I64] = { "i64", 8 },
    [GG_TYPE_F64] = { "f64", 8 },
};

const char *gg_type_name(uint32_t type)
{
    return type < GG_TYPE_COUNT ? types[type].name : NULL;
}

size_t gg_type_size(uint32_t type)
{
    return type < GG_TYPE_COUNT ? types[type].size : 0;
}

bool gg_type_by_name(const char *name, size_t len, uint32_t *type)
{
    for (uint32_t i = 0; i < GG_TYPE_COUNT; i++)
        if (strlen(types[i].name) == len && memcmp(types[i].name, name, len) == 0) {
            *type = i;
            return true;
        }
    return false;
}

/* A long value, which all copies of an entry share. */
#define LONG_VALUE ((size_t)1 << 16)
typedef struct long_value {
    atomic_size_t users;
    uint8_t bytes[];
} long_value;

/* A copied key together with its data, unless that is long. */
typedef struct block {
    struct block *next;
    long_value *value;
    uint8_t bytes[];
} block;

/* What a gg_meta owns: linked lists of blocks with long values and of others. */
typedef struct owner {
    block *longs, *others;
} owner;

static void release(long_value *v)
{
    if (v && atomic_fetch_sub(&v->users, 1) == 1) free(v);
}

static void free_blocks(block *b)
{
    for (block *next; b; b = next) {
        next = b->next;
        release(b->value);
        free(b);
    }
}

void gg_meta_free(gg_meta *meta)
{
    owner *o = meta->owned;
    if (o) {
        free_blocks(o->longs);
        free_blocks(o->others);
    }
    free(o);
    free(meta->kv);
    *meta = (gg_meta)GG_META_INIT;
}

static gg_kv *find_key(const gg_meta *meta, const char *key, size_t key_len)
{
    for (size_t i = 0; i < meta->n; i++)
        if (meta->kv[i].key_len == key_len && memcmp(meta->kv[i].key, key, key_len) == 0)
            return &meta->kv[i];
    return NULL;
}

const gg_kv *gg_meta_find(const gg_meta *meta, const char *key)
{
    return find_key(meta, key, strlen(key));
}

/* The long value of an entry for one more user: that of `from` if the entry is there, else a copy.
 * Returns NULL without memory. */
static long_value *use_value(const gg_meta *from, const gg_kv *kv)
{
    const owner *o = from ? from->owned : NULL;
    for (const block *b = o ? o->longs : NULL; b; b = b->next)
        if (b->value->bytes == kv->data) {
            atomic_fetch_add(&b->value->users, 1);
            return b->value;
        }
    long_value *v = malloc(sizeof *v + kv->size);
    if (!v) return NULL;
    atomic_init(&v->users, 1);
    memcpy(v->bytes, kv->data, kv->size);
    return v;
}

static block *make_block(const gg_meta *from, const gg_kv *kv)
{
    bool is_long = kv->size >= LONG_VALUE;
    block *b = malloc(sizeof *b + kv->key_len + (is_long ? 0 : kv->size) + 1);
    if (!b) return NULL;
    b->value = is_long ? use_value(from, kv) : NULL;
    if (is_long && !b->value) {
        free(b);
        return NULL;
    }
    memcpy(b->bytes, kv->key, kv->key_len);
    if (!is_long && kv->size) memcpy(b->bytes + kv->key_len, kv->data, kv->size);
    return b;
}

/* Copies an entry, which may belong to `from`, with its key and data into *slot; NULL appends
 * it. */
static gg_status store_copy(gg_meta *meta, const gg_meta *from, const gg_kv *kv, gg_kv *slot,
                            gg_error *err)
{
    if (!slot && GG_ROOM(meta->kv, meta->n, &meta->cap, err) != GG_OK) return GG_ENOMEM;
    if (!meta->owned) meta->owned = calloc(1, sizeof(owner));
    owner *o = meta->owned;
    block *b = o ? make_block(from, kv) : NULL;
    if (!b) return gg_fail(err, GG_ENOMEM, "no memory for a metadata value of %zu bytes", kv->size);
    block **list = b->value ? &o->longs : &o->others;
    b->next = *list;
    *list = b;
    gg_kv copy = *kv;
    copy.key = (const char *)b->bytes;
    copy.data = b->value ? b->value->bytes : b->bytes + kv->key_len;
    *(slot ? slot : &meta->kv[meta->n++]) = copy;
    return GG_OK;
}

gg_status gg_meta_set(gg_meta *meta, const gg_kv *kv, gg_error *err)
{
    bool arr = kv->type == GG_TYPE_ARR;
    if (kv->key_len == 0 || kv->type >= GG_TYPE_COUNT ||
        (arr && (kv->elem_type >= GG_TYPE_COUNT || kv->elem_type == GG_TYPE_ARR)))
        return gg_fail(err, GG_EUSAGE, "a metadata key needs a name and a type that GGUF supports");
    return store_copy(meta, NULL, kv, find_key(meta, kv->key, kv->key_len), err);
}

/* The block of `meta` that alone has these bytes of an entry's value; NULL if they are the source's
 * or shared with a copy of the entry. *link gets the place of its link in the list. */
static block *own_block(const gg_meta *meta, const gg_kv *kv, block ***link)
{
    owner *o = meta->owned;
    for (int k = 0; o && k < 2; k++)
        for (block **at = k ? &o->others : &o->longs; *at; at = &(*at)->next) {
            const uint8_t *data = (*at)->value ? (*at)->value->bytes : (*at)->bytes + kv->key_len;
            if (data != kv->data) continue;
            *link = at;
            return (*at)->value && atomic_load(&(*at)->value->users) != 1 ? NULL : *at;
        }
    return NULL;
}

/* Replaces text i of an array of texts. */
static gg_status set_text_element(gg_meta *meta, gg_kv *kv, uint64_t i, const gg_kv *value,
                                  gg_error *err)
{
    uint64_t pos = 0, at = 0;
    const char *text;
    size_t len = 0;
    block **link = NULL, *old = own_block(meta, kv, &link);
    for (uint64_t k = 0; k <= i; k++) {
        at = pos;
        if (!gg_kv_next_str(kv, &pos, &text, &len))
            return gg_fail(err, GG_EUSAGE, "the array has no such element");
    }
    gg_kv made = *kv;
    made.size = kv->size - len + value->size;
    uint8_t *bytes = malloc(made.size + 1);
    if (!bytes) return gg_fail(err, GG_ENOMEM, "no memory for a metadata value");
    memcpy(bytes, kv->data, (size_t)at);
    gg_put_le64(bytes + at, value->size);
    memcpy(bytes + at + 8, value->data, value->size);
    memcpy(bytes + at + 8 + value->size, kv->data + pos, kv->size - (size_t)pos);
    made.data = bytes;
    gg_status st = store_copy(meta, NULL, &made, kv, err);
    free(bytes);
    if (st != GG_OK || !old) return st;
    (void)own_block(meta,
                    &(gg_kv){ .key_len = made.key_len,
                              .data = old->value ? old->value->bytes : old->bytes + made.key_len },
                    &link);
    *link = old->next;
    release(old->value);
    free(old);
    return st;
}

gg_status gg_meta_set_element(gg_meta *meta, const char *key, uint64_t i, const gg_kv *value,
                              gg_error *err)
{
    gg_kv *kv = find_key(meta, key, strlen(key)), one;
    block **link;
    if (!kv || kv->type != GG_TYPE_ARR || kv->elem_type != value->type)
        return gg_fail(err, GG_EUSAGE, "there is no array '%s' of this type", key);
    if (kv->elem_type == GG_TYPE_STR) return set_text_element(meta, kv, i, value, err);
    if (!own_block(meta, kv, &link) && store_copy(meta, NULL, kv, kv, err) != GG_OK)
        return err->status;
    if (!gg_kv_element(kv, i, &one))
        return gg_fail(err, GG_EUSAGE, "the array has no such element");
    memcpy((uint8_t *)(uintptr_t)one.data, value->data, one.size);
    return GG_OK;
}

gg_status gg_meta_set_bits(gg_meta *meta, const char *key, uint32_t type, uint32_t bits,
                           gg_error *err)
{
    uint8_t le[4];
    gg_put_le32(le, bits);
    gg_kv kv = { key, strlen(key), type, 0, 1, le, gg_type_size(type) };
    return gg_meta_set(meta, &kv, err);
}

gg_status gg_meta_set_u32(gg_meta *meta, const char *key, uint32_t value, gg_error *err)
{
    return gg_meta_set_bits(meta, key, GG_TYPE_U32, value, err);
}

gg_status gg_meta_set_f32(gg_meta *meta, const char *key, float value, gg_error *err)
{
    return gg_meta_set_bits(meta, key, GG_TYPE_F32, gg_float_bits(value), err);
}

gg_status gg_meta_set_bool(gg_meta *meta, const char *key, bool value, gg_error *err)
{
    return gg_meta_set_bits(meta, key, GG_TYPE_BOOL, value, err);
}

gg_status gg_meta_set_str(gg_meta *meta, const char *key, const char *text, size_t len,
                          gg_error *err)
{
    gg_kv kv = { key, strlen(key), GG_TYPE_STR, 0, 1, (const uint8_t *)text, len };
    return gg_meta_set(meta, &kv, err);
}

gg_status gg_meta_append(gg_meta *meta, const gg_kv *kv, gg_error *err)
{
    gg_kv copy = *kv;
    gg_meta one = { .kv = &copy, .n = 1, .cap = 1 };
    return gg_meta_copy(meta, &one, err);
}

gg_status gg_array_add_str(gg_buf *bytes, const char *text, size_t len, gg_error *err)
{
    uint8_t le[8];
    gg_put_le64(le, len);
    gg_status st = gg_buf_append(bytes, le, sizeof le, err);
    return st == GG_OK ? gg_buf_append(bytes, text, len, err) : st;
}

gg_status gg_meta_set_array(gg_meta *meta, const char *key, uint32_t elem_type, uint64_t count,
                            const gg_buf *bytes, gg_error *err)
{
    const void *data = bytes->data ? bytes->data : "";
    gg_kv kv = { key, strlen(key), GG_TYPE_ARR, elem_type, count, data, bytes->len };
    return gg_meta_set(meta, &kv, err);
}

bool gg_meta_delete(gg_meta *meta, const char *key)
{
    gg_kv *kv = find_key(meta, key, strlen(key));
    if (!kv) return false;
    size_t at = (size_t)(kv - meta->kv);
    memmove(kv, kv + 1, (meta->n - at - 1) * sizeof *kv);
    meta->n--;
    return true;
}

gg_status gg_meta_copy(gg_meta *to, const gg_meta *from, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < from->n && st == GG_OK; i++)
        st = store_copy(to, from, &from->kv[i], NULL, err);
    return st;
}

static bool nonnegative(int64_t v, uint64_t *out)
{
    *out = (uint64_t)v;
    return v >= 0;
}

bool gg_kv_u64(const gg_kv *kv, uint64_t *value)
{
    if (!kv) return false;
    switch (kv->type) {
    case GG_TYPE_U8: *value = kv->data[0]; return true;
    case GG_TYPE_BOOL: *value = kv->data[0] != 0; return true;
    case GG_TYPE_U16: *value = gg_le16(kv->data); return true;
    case GG_TYPE_U32: *value = gg_le32(kv->data); return true;
    case GG_TYPE_U64: *value = gg_le64(kv->data); return true;
    case GG_TYPE_I8: return nonnegative((int8_t)kv->data[0], value);
    case GG_TYPE_I16: return nonnegative((int16_t)gg_le16(kv->data), value);
    case GG_TYPE_I32: return nonnegative((int32_t)gg_le32(kv->data), value);
    case GG_TYPE_I64: return nonnegative((int64_t)gg_le64(kv->data), value);
    default: return false;
    }
}

bool gg_kv_element(const gg_kv *kv, uint64_t i, gg_kv *out)
{
    uint32_t type = kv->type == GG_TYPE_ARR ? kv->elem_type : kv->type;
    size_t size = gg_type_size(type);
    if (size == 0 || i >= kv->count) return false;
    *out = *kv;
    out->type = type;
    out->count = 1;
    out->data = kv->data + (size_t)i * size;
    out->size = size;
    return true;
}

bool gg_kv_u64_at(const gg_kv *kv, uint64_t i, uint64_t *value)
{
    gg_kv one;
    if (!kv || kv->type != GG_TYPE_ARR) return gg_kv_u64(kv, value);
    return gg_kv_element(kv, i, &one) && gg_kv_u64(&one, value);
}

bool gg_kv_f32(const gg_kv *kv, float *value)
{
    if (!kv || kv->type != GG_TYPE_F32) return false;
    uint32_t bits = gg_le32(kv->data);
    memcpy(value, &bits, sizeof bits);
    return true;
}

bool gg_kv_str(const gg_kv *kv, const char **text, size_t *len)
{
    if (!kv || kv->type != GG_TYPE_STR) return false;
    *text = (const char *)kv->data;
    *len = kv->size;
    return true;
}

bool gg_meta_text_is(const gg_meta *meta, const char *key, const char *text)
{
    const char *value;
    size_t n;
    return gg_kv_str(gg_meta_find(meta, key), &value, &n) && gg_text_is(value, n, text);
}

bool gg_same_value(const gg_kv *a, const gg_kv *b)
{
    return a && b && a->type == b->type && a->elem_type == b->elem_type && a->count == b->count &&
           a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

bool gg_same_dims(const gg_tensor *a, const gg_tensor *b)
{
    for (uint32_t i = 0; i < a->n_dims || i < b->n_dims; i++)
        if ((i < a->n_dims ? a->dims[i] : 1) != (i < b->n_dims ? b->dims[i] : 1)) return false;
    return true;
}

bool gg_kv_next_str(const gg_kv *kv, uint64_t *pos, const char **text, size_t *len)
{
    if (!kv || kv->type != GG_TYPE_ARR || kv->elem_type != GG_TYPE_STR || *pos + 8 > kv->size)
        return false;
    uint64_t n = gg_le64(kv->data + *pos);
    if (n > kv->size - *pos - 8) return false;
    *text = (const char *)kv->data + *pos + 8;
    *len = (size_t)n;
    *pos += 8 + n;
    return true;
}

gg_status gg_meta_alignment(const gg_meta *meta, uint64_t *alignment, gg_error *err)
{
    const gg_kv *kv = gg_meta_find(meta, "general.alignment");
    *alignment = GG_DEFAULT_ALIGNMENT;
    if (!kv) return GG_OK;
    if (kv->type != GG_TYPE_U32)
        return gg_fail(err, GG_EFORMAT, "general.alignment has type %s instead of u32",
                       gg_type_name(kv->type));
    *alignment = gg_le32(kv->data);
    if (*alignment == 0 || (*alignment & (*alignment - 1)) != 0)
        return gg_fail(err, GG_EFORMAT, "general.alignment is %llu, which is not a power of two",
                       (unsigned long long)*alignment);
    return GG_OK;
}

bool gg_arch_key(const gg_meta *meta, const char *name, char *key, size_t size)
{
    const char *arch;
    size_t n;
    if (!gg_kv_str(gg_meta_find(meta, "general.architecture"), &arch, &n) || n == 0) return false;
    int len = snprintf(key, size, "%.*s.%s", (int)n, arch, name);
    return len > 0 && (size_t)len < size;
}

const gg_kv *gg_arch_kv(const gg_meta *meta, const char *name)
{
    char key[160];
    return gg_arch_key(meta, name, key, sizeof key) ? gg_meta_find(meta, key) : NULL;
}

uint64_t gg_arch_number(const gg_meta *meta, const char *name)
{
    uint64_t v;
    return gg_kv_u64(gg_arch_kv(meta, name), &v) ? v : 0;
}
