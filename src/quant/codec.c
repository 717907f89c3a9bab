/* codec.c - decode and encode by dtype: checks the arguments, then calls the codec of the type
 * (codec.h). */
#include "codec.h"
#include "quant/kernel/lanes.h"
#include "quant/quant.h"

#include <math.h>

/* The functions of level 2 for n values, or NULL. */
static const gg_wide *wide(uint32_t dtype, size_t n)
{
    return n >= GG_WIDE_LEAST && gg_isa() >= 2 ? gg_wide_get(dtype) : NULL;
}

bool gg_can_decode(uint32_t dtype)
{
    const gg_codec *c = gg_codec_get(dtype);
    return c && c->decode;
}

bool gg_encode_needs_imatrix(uint32_t dtype)
{
    const gg_codec *c = gg_codec_get(dtype);
    return c && c->encode && c->needs_imatrix;
}

bool gg_can_encode(uint32_t dtype)
{
    const gg_codec *c = gg_codec_get(dtype);
    return c && c->encode && !c->needs_imatrix;
}

gg_status gg_decode(uint32_t dtype, const void *blocks, float *out, size_t elems, gg_error *err)
{
    const gg_codec *c = gg_codec_get(dtype);
    if (!c || !c->decode)
        return gg_fail(err, GG_EUNSUPPORTED, "cannot decode tensor type %u (%s)", dtype,
                       gg_dtype_name(dtype));
    size_t block = gg_dtype_get(dtype)->block_elems;
    if (elems % block != 0)
        return gg_fail(err, GG_EUSAGE, "%zu values are not a whole number of %s blocks", elems,
                       gg_dtype_name(dtype));
    const gg_wide *w = wide(dtype, elems);
    (w ? w->decode : c->decode)(blocks, out, elems / block);
    return GG_OK;
}

/* Reports the first value from x[i] on that is not finite. There must be one. */
static gg_status fail_not_finite(const float *x, size_t i, gg_error *err)
{
    while (isfinite(x[i])) i++;
    return gg_fail(err, GG_EFORMAT, "value %zu is %s and cannot be encoded", i,
                   isnan(x[i]) ? "NaN" : "infinite");
}

gg_status gg_encode(uint32_t dtype, const float *x, void *blocks, size_t elems, size_t row_elems,
                    const float *imatrix, gg_error *err)
{
    const gg_codec *c = gg_codec_get(dtype);
    if (!c || !c->encode) {
        gg_fail(err, GG_EUNSUPPORTED, "cannot encode tensor type %u (%s)", dtype,
                gg_dtype_name(dtype));
        return gg_fix(err, "choose another dtype, for example Q8_0 or F16");
    }
    if (c->needs_imatrix && !imatrix) {
        gg_fail(err, GG_EUNSUPPORTED, "%s cannot be encoded without an importance matrix",
                gg_dtype_name(dtype));
        return gg_fix(err, "choose another dtype, for example Q2_K or IQ4_XS");
    }
    const gg_dtype_info *info = gg_dtype_get(dtype);
    if (row_elems == 0 || row_elems % info->block_elems != 0 || elems % row_elems != 0)
        return gg_fail(err, GG_EUSAGE,
                       "%zu values in rows of %zu are not a whole number of %s blocks", elems,
                       row_elems, info->name);
    size_t nblocks = row_elems / info->block_elems;
    uint8_t *out = blocks;
    const gg_wide *w = wide(dtype, row_elems);
    bool (*quick)(const float *, uint8_t *, size_t) = w && w->quick ? w->quick : c->quick;
    for (size_t done = 0; done < elems; done += row_elems, out += nblocks * info->block_bytes) {
        if (!imatrix && quick && quick(x + done, out, nblocks)) continue;
        if (!GG_PICK(gg_all_finite)(x + done, row_elems)) return fail_not_finite(x, done, err);
        c->encode(x + done, out, nblocks, imatrix);
    }
    return GG_OK;
}

/* ---- single values ------------------------------------------------------------------ */

float gg_f16_to_f32(uint16_t h)
{
    return gg_half_decode(h);
}

uint16_t gg_f32_to_f16(float f)
{
    return gg_half_encode(f);
}
