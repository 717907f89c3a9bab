/* plain.c - the types without blocks: one value after another, little-endian.
 *
 *   F32   s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm    copied
 *   BF16  s eeeeeeee mmmmmmm                    y = the upper half of an F32
 *   F16   s eeeee mmmmmmmmmm                    y = IEEE half
 *   F64   IEEE double, I8..I64 two's complement y = (float)value
 *
 * The integers have no encoder: they hold indices and codes, and a float rounded
 * to one of them would be an invention. F64 is exact from F32.
 */
#include "lanes.h"

static void decode_f32(const uint8_t *in, float *out, size_t n)
{
    memcpy(out, in, n * sizeof *out);
}

static void encode_f32(const float *x, uint8_t *out, size_t n, const float *imatrix)
{
    (void)imatrix;
    memcpy(out, x, n * sizeof *x);
}

static void decode_f16(const uint8_t *in, float *out, size_t n)
{
    size_t i = 0;
#if GG_LEVEL == 1
    for (; i + 8 <= n; i += 8) {
        __m128i h;
        memcpy(&h, in + 2 * i, sizeof h);
        gg_store8(out + i, (gg_f32x8)_mm256_cvtph_ps(h));
    }
#endif
    for (; i < n; i++) out[i] = gg_load_f16(in + 2 * i);
}

static void encode_f16(const float *x, uint8_t *out, size_t n, const float *imatrix)
{
    (void)imatrix;
    size_t i = 0;
#if GG_LEVEL == 1
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm256_cvtps_ph((__m256)gg_load8(x + i), 0);
        memcpy(out + 2 * i, &h, sizeof h);
    }
#endif
    for (; i < n; i++) gg_store_f16(out + 2 * i, x[i]);
}

static void decode_bf16(const uint8_t *in, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = gg_bf16_decode(gg_load_u16(in + 2 * i));
}

static void encode_bf16(const float *x, uint8_t *out, size_t n, const float *imatrix)
{
    (void)imatrix;
    for (size_t i = 0; i < n; i++) gg_store_u16(out + 2 * i, gg_bf16_encode(x[i]));
}

static void decode_f64(const uint8_t *in, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double v;
        memcpy(&v, in + 8 * i, sizeof v);
        out[i] = (float)v;
    }
}

static void encode_f64(const float *x, uint8_t *out, size_t n, const float *imatrix)
{
    (void)imatrix;
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i];
        memcpy(out + 8 * i, &v, sizeof v);
    }
}

static void decode_i8(const uint8_t *in, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = (float)(int8_t)in[i];
}

static void decode_i16(const uint8_t *in, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = (float)(int16_t)gg_load_u16(in + 2 * i);
}

static void decode_i32(const uint8_t *in, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = (float)(int32_t)gg_load_u32(in + 4 * i);
}

static void decode_i64(const uint8_t *in, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t v;
        memcpy(&v, in + 8 * i, sizeof v);
        out[i] = (float)v;
    }
}

const gg_codec GG_K(gg_codec_f32) = { decode_f32, encode_f32, false };
const gg_codec GG_K(gg_codec_f16) = { decode_f16, encode_f16, false };
const gg_codec GG_K(gg_codec_bf16) = { decode_bf16, encode_bf16, false };
const gg_codec GG_K(gg_codec_f64) = { decode_f64, encode_f64, false };
const gg_codec GG_K(gg_codec_i8) = { decode_i8, NULL, false };
const gg_codec GG_K(gg_codec_i16) = { decode_i16, NULL, false };
const gg_codec GG_K(gg_codec_i32) = { decode_i32, NULL, false };
const gg_codec GG_K(gg_codec_i64) = { decode_i64, NULL, false };
