/* gguf_emit.c - write a header, and compute the offsets of the tensor data. */
#include "organ/gg_gguf.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "gguf.h"

#include <stdlib.h>
#include <string.h>

gg_status gg_plan_offsets(gg_tensor *tensors, size_t n, uint64_t alignment, uint64_t *data_bytes,
                          gg_error *err)
{
    uint64_t next = 0, most = (uint64_t)INT64_MAX - alignment;
    if (n > 0 && alignment > GG_LIMIT_ALIGNMENT)
        return gg_fail(err, GG_EUNSUPPORTED, "general.alignment is %llu; the maximum is 2^20",
                       (unsigned long long)alignment);
    for (size_t i = 0; i < n; i++) {
        tensors[i].offset = next;
        if (next > most || tensors[i].bytes > most - next) {
            gg_fail(err, GG_EFORMAT, "the model would exceed 2^63 bytes");
            return gg_at_tensor(err, tensors[i].name, tensors[i].name_len);
        }
        next = gg_align_up(next + tensors[i].bytes, alignment);
    }
    *data_bytes = next;
    return GG_OK;
}

typedef struct out {
    uint8_t *p;
} out;

static void put32(out *o, uint32_t v)
{
    gg_put_le32(o->p, v);
    o->p += 4;
}

static void put64(out *o, uint64_t v)
{
    gg_put_le64(o->p, v);
    o->p += 8;
}

static void put_bytes(out *o, const void *bytes, size_t n)
{
    if (n) memcpy(o->p, bytes, n);
    o->p += n;
}

static size_t kv_size(const gg_kv *kv)
{
    return 8 + kv->key_len + 4 +
           (kv->type == GG_TYPE_ARR   ? 12u
            : kv->type == GG_TYPE_STR ? 8u
                                      : 0u) +
           kv->size;
}

static bool is_long(const gg_kv *kv, const gg_header *h)
{
    return kv->size > h->longest;
}

/* Puts a key and its value, or notes the value if it is long. */
static gg_status put_kv(out *o, const gg_kv *kv, gg_header *h, gg_error *err)
{
    put64(o, kv->key_len);
    put_bytes(o, kv->key, kv->key_len);
    put32(o, kv->type);
    if (kv->type == GG_TYPE_ARR) {
        put32(o, kv->elem_type);
        put64(o, kv->count);
    } else if (kv->type == GG_TYPE_STR) {
        put64(o, kv->size);
    }
    if (!is_long(kv, h)) {
        put_bytes(o, kv->data, kv->size);
        return GG_OK;
    }
    if (GG_ROOM(h->longs, h->n_longs, NULL, err) != GG_OK) return GG_ENOMEM;
    h->longs[h->n_longs++] = (gg_long_value){ (size_t)(o->p - h->bytes), kv->data, kv->size };
    return GG_OK;
}

static gg_status measure_header(const gg_meta *meta, const gg_tensor *tensors, size_t n,
                                gg_header *h, gg_error *err)
{
    size_t left_out = 0;
    h->size = 24;
    for (size_t i = 0; i < meta->n; i++) {
        h->size += kv_size(&meta->kv[i]);
        if (is_long(&meta->kv[i], h)) left_out += meta->kv[i].size;
    }
    for (size_t i = 0; i < n; i++) {
        if (tensors[i].name_len > GG_MAX_NAME) {
            gg_fail(err, GG_EFORMAT, "the tensor name has %zu bytes; the maximum in GGUF is %d",
                    tensors[i].name_len, GG_MAX_NAME);
            return gg_at_tensor(err, tensors[i].name, tensors[i].name_len);
        }
        h->size += GG_MIN_TENSOR + tensors[i].name_len + (size_t)8 * tensors[i].n_dims;
    }
    h->n = h->size - left_out;
    if (h->size <= GG_LIMIT_HEADER) return GG_OK;
    return gg_fail(err, GG_EUNSUPPORTED, "the header would have %zu bytes; the maximum is 2^31",
                   h->size);
}

/* h->longest must be set. */
static gg_status emit(uint32_t version, const gg_meta *meta, const gg_tensor *tensors, size_t n,
                      gg_header *h, gg_error *err)
{
    gg_status st = measure_header(meta, tensors, n, h, err);
    if (st != GG_OK) return st;
    out o = { h->bytes = malloc(h->n) };
    if (!o.p) return gg_fail(err, GG_ENOMEM, "no memory for a header of %zu bytes", h->n);
    put_bytes(&o, "GGUF", 4);
    put32(&o, version);
    put64(&o, n);
    put64(&o, meta->n);
    for (size_t i = 0; i < meta->n && st == GG_OK; i++) st = put_kv(&o, &meta->kv[i], h, err);
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        const gg_tensor *t = &tensors[i];
        put64(&o, t->name_len);
        put_bytes(&o, t->name, t->name_len);
        put32(&o, t->n_dims);
        for (uint32_t d = 0; d < t->n_dims; d++) put64(&o, t->dims[d]);
        put32(&o, t->dtype);
        put64(&o, t->offset);
    }
    if (st != GG_OK) gg_header_free(h);
    return st;
}

gg_status gg_header_emit(uint32_t version, const gg_meta *meta, const gg_tensor *tensors, size_t n,
                         uint8_t **bytes, size_t *len, gg_error *err)
{
    gg_header h = { .longest = SIZE_MAX };
    gg_status st = emit(version, meta, tensors, n, &h, err);
    if (st != GG_OK) return st;
    *bytes = h.bytes;
    *len = h.n;
    return GG_OK;
}

#define LONG_VALUE ((size_t)1 << 20)

gg_status gg_header_plan(uint32_t version, const gg_meta *meta, const gg_tensor *tensors, size_t n,
                         gg_header *h, gg_error *err)
{
    *h = (gg_header){ .longest = LONG_VALUE };
    return emit(version, meta, tensors, n, h, err);
}

gg_status gg_header_put(const gg_header *h, int fd, uint64_t at, gg_error *err)
{
    gg_status st = GG_OK;
    size_t done = 0;
    for (size_t i = 0; i < h->n_longs && st == GG_OK; i++) {
        const gg_long_value *v = &h->longs[i];
        st = gg_put_all(fd, h->bytes + done, v->at - done, at, err);
        at = gg_offset_after(at, v->at - done);
        if (st == GG_OK) st = gg_put_all(fd, v->data, v->n, at, err);
        at = gg_offset_after(at, v->n);
        done = v->at;
    }
    return st == GG_OK ? gg_put_all(fd, h->bytes + done, h->n - done, at, err) : st;
}

void gg_header_free(gg_header *h)
{
    free(h->bytes);
    free(h->longs);
    *h = (gg_header){ 0 };
}
