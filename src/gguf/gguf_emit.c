/* gguf_emit.c - write a header, and compute the offsets of the tensor data. */
#include "organ/gg_gguf.h"

#include "base/cursor.h"
#include "base/error.h"
#include "gguf/gguf.h"

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

static void put_kv(out *o, const gg_kv *kv)
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
    put_bytes(o, kv->data, kv->size);
}

gg_status gg_header_emit(uint32_t version, const gg_meta *meta, const gg_tensor *tensors, size_t n,
                         uint8_t **bytes, size_t *len, gg_error *err)
{
    size_t size = 24;
    for (size_t i = 0; i < meta->n; i++) size += kv_size(&meta->kv[i]);
    for (size_t i = 0; i < n; i++) {
        if (tensors[i].name_len > GG_MAX_NAME) {
            gg_fail(err, GG_EFORMAT, "the tensor name has %zu bytes; the maximum in GGUF is %d",
                    tensors[i].name_len, GG_MAX_NAME);
            return gg_at_tensor(err, tensors[i].name, tensors[i].name_len);
        }
        size += GG_MIN_TENSOR + tensors[i].name_len + (size_t)8 * tensors[i].n_dims;
    }
    if (size > GG_LIMIT_HEADER)
        return gg_fail(err, GG_EUNSUPPORTED, "the header would have %zu bytes; the maximum is 2^31",
                       size);
    uint8_t *buf = malloc(size);
    if (!buf) return gg_fail(err, GG_ENOMEM, "no memory for a header of %zu bytes", size);
    out o = { buf };
    put_bytes(&o, "GGUF", 4);
    put32(&o, version);
    put64(&o, n);
    put64(&o, meta->n);
    for (size_t i = 0; i < meta->n; i++) put_kv(&o, &meta->kv[i]);
    for (size_t i = 0; i < n; i++) {
        const gg_tensor *t = &tensors[i];
        put64(&o, t->name_len);
        put_bytes(&o, t->name, t->name_len);
        put32(&o, t->n_dims);
        for (uint32_t d = 0; d < t->n_dims; d++) put64(&o, t->dims[d]);
        put32(&o, t->dtype);
        put64(&o, t->offset);
    }
    *bytes = buf;
    *len = size;
    return GG_OK;
}
