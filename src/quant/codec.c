/* codec.c - decode and encode by dtype: checks the arguments, then calls the codec of the type
 * (codec.h). */
#include "codec.h"
#include "base/cursor.h"
#include "iq_grid.h"
#include "qtable.h"
#include "quant.h"
#include "quant/kernel/lanes.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* All codecs. The comments name their files in kernel/. */
/* clang-format off */
#define PLAIN(X) \
    X(F32, f32) X(F16, f16) X(BF16, bf16) X(F64, f64) \
    X(I8, i8) X(I16, i16) X(I32, i32) X(I64, i64)                   /* plain.c */
#define CODECS(X) \
    PLAIN(X) \
    X(Q4_0, q4_0) X(Q4_1, q4_1) X(Q5_0, q5_0) X(Q5_1, q5_1) \
    X(Q8_0, q8_0) X(Q8_1, q8_1)                                     /* legacy.c */ \
    X(Q2_K, q2_k) X(Q3_K, q3_k)                                     /* k23.c */ \
    X(Q4_K, q4_k) X(Q5_K, q5_k) X(Q6_K, q6_k) X(Q8_K, q8_k)         /* k456.c */ \
    X(TQ1_0, tq1_0) X(TQ2_0, tq2_0) X(Q1_0, q1_0) X(Q2_0, q2_0)     /* lowbit.c */ \
    X(MXFP4, mxfp4) X(NVFP4, nvfp4)                                 /* fp4.c */ \
    X(IQ1_S, iq1_s) X(IQ1_M, iq1_m)                                 /* iq1.c */ \
    X(IQ2_XXS, iq2_xxs) X(IQ2_XS, iq2_xs) X(IQ2_S, iq2_s)           /* iq2.c */ \
    X(IQ3_XXS, iq3_xxs) X(IQ3_S, iq3_s)                             /* iq3.c */ \
    X(IQ4_NL, iq4_nl) X(IQ4_XS, iq4_xs)                             /* iq4.c */
#define DECLARE(id, name) \
    GG_DECLARE_K(const gg_decoder, gg_decode_##name); \
    GG_DECLARE_K(const gg_encoder, gg_encode_##name);
CODECS(DECLARE)
#ifdef GG_HAVE_L1
#define LEVELS(x) { &GG_CAT(x, _l0), &GG_CAT(x, _l1) }
#else
#define LEVELS(x) { &GG_CAT(x, _l0) }
#endif
#define DECODER(id, name) [GG_##id] = LEVELS(gg_decode_##name),
#define ENCODER(id, name) [GG_##id] = LEVELS(gg_encode_##name),
/* clang-format on */

static gg_decoder decoder_of(uint32_t dtype)
{
    static const gg_decoder *const decoders[GG_DTYPE_COUNT][2] = { CODECS(DECODER) };
    if (!gg_can_decode(dtype)) return NULL;
    gg_iq_grids_fill(dtype);
    return *decoders[dtype][gg_isa() > 0];
}

static gg_decoder plain_decoder_of(uint32_t dtype)
{
    static const gg_decoder *const decoders[GG_DTYPE_COUNT][2] = { PLAIN(DECODER) };
    bool known = dtype < GG_DTYPE_COUNT && decoders[dtype][0];
    return known ? *decoders[dtype][gg_isa() > 0] : NULL;
}

static const gg_encoder *encoder_of(uint32_t dtype)
{
    static const gg_encoder *const encoders[GG_DTYPE_COUNT][2] = { CODECS(ENCODER) };
    if (!gg_can_encode(dtype) && !gg_encode_needs_imatrix(dtype)) return NULL;
    gg_iq_grids_fill(dtype);
    return encoders[dtype][gg_isa() > 0];
}

/* The functions of level 2 for n values, or NULL. */
static const gg_wide *wide(uint32_t dtype, size_t n)
{
    return n >= GG_WIDE_LEAST && gg_isa() >= 2 ? gg_wide_get(dtype) : NULL;
}

/* Decodes blocks with a decoder of their type, which is NULL if the type has none. */
static gg_status decode_with(gg_decoder decode, uint32_t dtype, const void *blocks, float *out,
                             size_t elems, gg_error *err)
{
    if (!decode)
        return gg_fail(err, GG_EUNSUPPORTED, "cannot decode tensor type %u (%s)", dtype,
                       gg_dtype_name(dtype));
    size_t block = gg_dtype_get(dtype)->block_elems;
    if (elems % block != 0)
        return gg_fail(err, GG_EUSAGE, "%zu values are not a whole number of %s blocks", elems,
                       gg_dtype_name(dtype));
    decode(blocks, out, elems / block);
    return GG_OK;
}

gg_status gg_decode(uint32_t dtype, const void *blocks, float *out, size_t elems, gg_error *err)
{
    gg_decoder decode = decoder_of(dtype);
    const gg_wide *w = decode ? wide(dtype, elems) : NULL;
    return decode_with(w ? w->decode : decode, dtype, blocks, out, elems, err);
}

gg_status gg_decode_plain(uint32_t dtype, const void *values, float *out, size_t elems,
                          gg_error *err)
{
    return decode_with(plain_decoder_of(dtype), dtype, values, out, elems, err);
}

static bool is_rounded(int64_t v)
{
    /* 2^63 does not fit int64_t, but is what INT64_MAX is rounded to */
    float f = (float)v;
    return f >= 0x1p63f || (int64_t)f != v;
}

uint64_t gg_count_narrowed(uint32_t dtype, const void *stored, size_t n)
{
    const uint8_t *p = stored;
    uint64_t count = 0;
    if (dtype != GG_F64 && dtype != GG_I64 && dtype != GG_I32) return 0;
    for (size_t i = 0; i < n; i++) {
        double v = 0;
        if (dtype == GG_I32) count += is_rounded((int32_t)gg_le32(p + 4 * i));
        else if (dtype == GG_I64) count += is_rounded((int64_t)gg_le64(p + 8 * i));
        else {
            memcpy(&v, p + 8 * i, sizeof v);
            count += isfinite(v) && isinf((float)v);
        }
    }
    return count;
}

/* Reports the first value from x[i] on that is not finite. There must be one. */
static gg_status fail_not_finite(const float *x, size_t i, gg_error *err)
{
    while (isfinite(x[i])) i++;
    return gg_fail(err, GG_EFORMAT, "value %zu is %s and cannot be encoded", i,
                   isnan(x[i]) ? "NaN" : "infinite");
}

/* ---- weights ------------------------------------------------------------------------ */

#define LEAST_WEIGHT 0x1p-100f

static bool usable(float w)
{
    return w >= LEAST_WEIGHT && w <= FLT_MAX;
}

size_t gg_settle_weights(uint32_t dtype, const float *w, size_t n, float *out)
{
    const gg_type_row *row = gg_type_row_get(dtype);
    if (!row || row->weighing == GG_ENC_NONE || row->weighing == GG_ENC_BLIND) return 0;
    size_t block = gg_dtype_get(dtype)->block_elems, settled = 0;
    for (size_t first = 0; first < n; first += block) {
        size_t end = n - first < block ? n : first + block;
        float least = FLT_MAX;
        bool any = false;
        for (size_t j = first; j < end; j++) {
            if (!usable(w[j])) continue;
            least = w[j] < least ? w[j] : least;
            any = true;
        }
        for (size_t j = first; j < end; j++) {
            settled += !usable(w[j]);
            if (out) out[j] = usable(w[j]) ? w[j] : any ? least : 1.0f;
        }
    }
    return settled;
}

/* Sets *use to the weights of a row: `imatrix`, or if some must be replaced, *room, which the
 * caller frees. */
static gg_status settle_row(uint32_t dtype, const float *imatrix, size_t n, const float **use,
                            float **room, gg_error *err)
{
    *use = imatrix;
    if (!imatrix || gg_settle_weights(dtype, imatrix, n, NULL) == 0) return GG_OK;
    *use = *room = malloc(n * sizeof **room);
    if (!*room) return gg_fail(err, GG_ENOMEM, "no memory for the weights of %zu columns", n);
    gg_settle_weights(dtype, imatrix, n, *room);
    return GG_OK;
}

gg_status gg_encode(uint32_t dtype, const float *x, void *blocks, size_t elems, size_t row_elems,
                    const float *imatrix, gg_error *err)
{
    const gg_encoder *c = encoder_of(dtype);
    if (!c) {
        gg_fail(err, GG_EUNSUPPORTED, "cannot encode tensor type %u (%s)", dtype,
                gg_dtype_name(dtype));
        return gg_fix(err, "choose another dtype, for example Q8_0 or F16");
    }
    if (gg_encode_needs_imatrix(dtype) && !imatrix) {
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
    gg_quick_encoder quick = w && w->quick ? w->quick : c->quick;
    const float *weights;
    float *room = NULL;
    gg_status st = settle_row(dtype, imatrix, row_elems, &weights, &room, err);
    for (size_t done = 0; done < elems && st == GG_OK;
         done += row_elems, out += nblocks * info->block_bytes) {
        if (!weights && quick && quick(x + done, out, nblocks)) continue;
        if (GG_PICK(gg_all_finite)(x + done, row_elems)) c->encode(x + done, out, nblocks, weights);
        else st = fail_not_finite(x, done, err);
    }
    free(room);
    return st;
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
