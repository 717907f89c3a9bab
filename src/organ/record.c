/* record.c - headers of organ records:
 *
 *     [name_len:u32][name][n_dims:u32][dims:u64 x n][dtype:u32][data]    little-endian
 *
 * A record is self-delimiting, because dims and dtype determine the length of the data. */

#include "record.h"
#include "base/cursor.h"
#include "base/error.h"
#include "gguf/gguf.h"
#include "quant/quant.h"

#include <assert.h>
#include <string.h>

size_t gg_record_header(const gg_tensor *t, uint8_t out[GG_RECORD_HEADER])
{
    assert(t->name_len <= GG_RECORD_NAME && t->n_dims <= GG_MAX_DIMS);
    uint8_t *p = out;
    gg_put_le32(p, (uint32_t)t->name_len);
    memcpy(p + 4, t->name, t->name_len);
    p += 4 + t->name_len;
    gg_put_le32(p, t->n_dims);
    p += 4;
    for (uint32_t i = 0; i < t->n_dims; i++, p += 8) gg_put_le64(p, t->dims[i]);
    gg_put_le32(p, t->dtype);
    return (size_t)(p + 4 - out);
}

gg_status gg_record_parse(const uint8_t *bytes, size_t size, gg_tensor *t, size_t *used,
                          gg_error *err)
{
    *used = 0;
    *t = (gg_tensor){ .dims = GG_DIMS_ONE };
    if (size < 4) return GG_OK;
    uint32_t name_len = gg_le32(bytes);
    if (name_len > GG_RECORD_NAME) {
        gg_fail(err, GG_EFORMAT,
                "this is not an organ record: the length of the name would be %u bytes; the "
                "maximum is %d",
                name_len, GG_RECORD_NAME);
        gg_fix(err, "give a GGUF model or organ records (.bin)");
        return err->status;
    }
    size_t at = 4 + (size_t)name_len;
    if (size < at + 4) return GG_OK;
    t->name = (const char *)bytes + 4;
    t->name_len = name_len;
    t->n_dims = gg_le32(bytes + at);
    at += 4;
    if (t->n_dims > GG_MAX_DIMS) {
        gg_fail(err, GG_EFORMAT, "an organ record has %u dimensions; the maximum is %d", t->n_dims,
                GG_MAX_DIMS);
        return gg_at_tensor(err, t->name, t->name_len);
    }
    if (size < at + 8u * t->n_dims + 4) return GG_OK;
    for (uint32_t i = 0; i < t->n_dims; i++, at += 8) {
        t->dims[i] = gg_le64(bytes + at);
        if (t->dims[i] <= INT64_MAX) continue;
        gg_fail(err, GG_EFORMAT, "dimension %u is negative", i);
        return gg_at_tensor(err, t->name, t->name_len);
    }
    t->dtype = gg_le32(bytes + at);
    gg_status st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, err);
    if (st != GG_OK) {
        gg_at_tensor(err, t->name, t->name_len);
        return st;
    }
    *used = at + 4;
    return GG_OK;
}

gg_status gg_record_parse_alone(const uint8_t *bytes, size_t size, gg_tensor *t, size_t *used,
                                gg_error *err)
{
    if (size < 4 || gg_le32(bytes) != 0) return gg_record_parse(bytes, size, t, used, err);
    size_t zeros = 4;
    while (zeros < size && bytes[zeros] == 0) zeros++;
    *used = 0;
    if (zeros < size) return gg_fail(err, GG_EFORMAT, "an organ record has an empty name");
    gg_fail(err, GG_EFORMAT, "all zeros: the download did not finish");
    return gg_fix(err, "fetch it again");
}

gg_status gg_record_check_name(const gg_tensor *t, gg_error *err)
{
    if (t->name_len > 0) return GG_OK;
    gg_fail(err, GG_EUNSUPPORTED, "a tensor has an empty name, which no organ stream can hold");
    return gg_fix(err, "leave the tensor out of the selection, or write files");
}
