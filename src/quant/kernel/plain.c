/* plain.c - types without blocks: single little-endian values.
 *
 *   F32   s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm    copied
 *   BF16  s eeeeeeee mmmmmmm                    y = the upper half of an F32
 *   F16   s eeeee mmmmmmmmmm                    y = IEEE half
 *   F64   IEEE double, I8..I64 two's complement y = (float)value
 *
 * Integer types have no encoder: they contain indices and codes, which rounded floats cannot
 * replace. Encoding F64 is exact. Values too large for F16 or BF16 become the largest finite value,
 * because a single infinity would spoil every result that depends on it.
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

/* Converts eight halves at once. Without F16C the method is that of lanes.h, but with selects,
 * because gcc compiles the scalar version to branches. */
#if GG_LEVEL == 1
static inline void halves_decode8(const uint8_t *in, float *out)
{
    __m128i h;
    memcpy(&h, in, sizeof h);
    gg_store8(out, (gg_f32x8)_mm256_cvtph_ps(h));
}

static inline void halves_encode8(const float *x, uint8_t *out)
{
    const __m256 most = _mm256_set1_ps(65504.0f), least = _mm256_set1_ps(-65504.0f);
    __m128i h = _mm256_cvtps_ph(_mm256_max_ps(_mm256_min_ps((__m256)gg_load8(x), most), least), 0);
    memcpy(out, &h, sizeof h);
}
#else
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef uint16_t u16x4 __attribute__((vector_size(8)));

static inline i32x4 select4(i32x4 m, i32x4 yes, i32x4 no)
{
    return (m & yes) | (~m & no);
}

static inline void halves_decode8(const uint8_t *in, float *out)
{
    for (int i = 0; i < 8; i += 4) {
#ifdef GG_NEON
        vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(in + 2 * i))));
#else
        u16x4 h;
        memcpy(&h, in + 2 * i, sizeof h);
        i32x4 v = __builtin_convertvector(h, i32x4), a = v & 0x7fff;
        i32x4 small = (i32x4)(__builtin_convertvector(a, gg_f32x4) * 0x1p-24f);
        i32x4 normal = (a << 13) + (112 << 23);
        i32x4 huge = 0x7f800000 | a << 13 | ((a > 0x7c00) & 0x00400000);
        i32x4 r = select4(a < 0x400, small, select4(a < 0x7c00, normal, huge)) | (v & 0x8000) << 16;
        memcpy(out + i, &r, sizeof r);
#endif
    }
}

/* Encodes eight finite values. */
static inline void halves_encode8(const float *x, uint8_t *out)
{
    for (int i = 0; i < 8; i += 4) {
        i32x4 u;
        memcpy(&u, x + i, sizeof u);
        i32x4 a = u & 0x7fffffff;
        i32x4 small = (i32x4)((gg_f32x4)a + 0.5f) - 0x3f000000;
        i32x4 normal = (a - (112 << 23) + 0xfff + (a >> 13 & 1)) >> 13;
        i32x4 most = { 0x7bff, 0x7bff, 0x7bff, 0x7bff };
        i32x4 r = select4(a < 0x38800000, small, select4(a < 0x477ff000, normal, most)) |
                  (u >> 16 & 0x8000);
        u16x4 h = __builtin_convertvector(r, u16x4);
        memcpy(out + 2 * i, &h, sizeof h);
    }
}
#endif

static void decode_f16(const uint8_t *in, float *out, size_t n)
{
    size_t i = 0;
    GG_UNROLL(4)
    for (; i + 8 <= n; i += 8) halves_decode8(in + 2 * i, out + i);
    for (; i < n; i++) out[i] = gg_load_f16(in + 2 * i);
}

static void encode_f16(const float *x, uint8_t *out, size_t n, const float *imatrix)
{
    (void)imatrix;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) halves_encode8(x + i, out + 2 * i);
    for (; i < n; i++) gg_store_f16(out + 2 * i, gg_saturate(x[i]));
}

#if GG_LEVEL == 1
/* Only values that round to infinity need more than the conversion. */
static bool quick_f16(const float *x, uint8_t *out, size_t n)
{
    __m256i most = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 a = (__m256)gg_load8(x + i), b = (__m256)gg_load8(x + i + 8);
        most = gg_larger_bits8(gg_larger_bits8(most, x + i), x + i + 8);
        _mm_storeu_si128((__m128i *)(void *)(out + 2 * i), _mm256_cvtps_ph(a, 0));
        _mm_storeu_si128((__m128i *)(void *)(out + 2 * i + 16), _mm256_cvtps_ph(b, 0));
    }
    uint32_t top = gg_largest_bits(most);
    for (; i < n; i++) {
        uint32_t u = gg_float_bits(x[i]) & 0x7fffffff;
        top = u > top ? u : top;
        gg_store_f16(out + 2 * i, x[i]);
    }
    return top < gg_float_bits(65520.0f);
}
#else
#define quick_f16 NULL
#endif

/* From this size on the output does not fit the caches, and 16-byte stores are faster than 32-byte
 * ones. */
#define UNCACHED ((size_t)1 << 18) /* values */

static void decode_bf16(const uint8_t *in, float *out, size_t n)
{
    size_t i = 0;
#if GG_LEVEL == 1
    const __m128i z = _mm_setzero_si128();
    for (; n >= UNCACHED && i + 8 <= n; i += 8) {
        __m128i v;
        memcpy(&v, in + 2 * i, sizeof v);
        _mm_storeu_ps(out + i, _mm_castsi128_ps(_mm_unpacklo_epi16(z, v)));
        _mm_storeu_ps(out + i + 4, _mm_castsi128_ps(_mm_unpackhi_epi16(z, v)));
    }
#endif
    for (; i < n; i++) out[i] = gg_bf16_decode(gg_load_u16(in + 2 * i));
}

#define BF16_RUN 64

static void encode_bf16(const float *x, uint8_t *out, size_t n, const float *imatrix)
{
    (void)imatrix;
    /* Like gg_bf16_encode without the case of NaN, which cannot occur here. Infinities are replaced
     * in lanes of 16 bits, twice as many at a time. */
    uint16_t h[BF16_RUN];
    for (size_t i = 0; i < n; i += BF16_RUN) {
        size_t run = n - i < BF16_RUN ? n - i : BF16_RUN;
        for (size_t k = 0; k < run; k++) {
            uint32_t u = gg_float_bits(x[i + k]);
            h[k] = (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
        }
        for (size_t k = 0; k < run; k++)
            gg_store_u16(out + 2 * (i + k), (uint16_t)(h[k] - ((h[k] & 0x7fff) == 0x7f80)));
    }
}

#if GG_LEVEL == 1
/* The upper half, rounded to nearest even, in the low half of each lane. */
static inline __m256i upper_half8(const float *x)
{
    __m256i u = (__m256i)gg_load8(x), one = _mm256_set1_epi32(1);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), one);
    __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    return _mm256_srli_epi32(r, 16);
}

/* Only values that round to infinity need more than rounding. */
static bool quick_bf16(const float *x, uint8_t *out, size_t n)
{
    __m256i most = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i h = _mm256_packus_epi32(upper_half8(x + i), upper_half8(x + i + 8));
        most = gg_larger_bits8(gg_larger_bits8(most, x + i), x + i + 8);
        _mm256_storeu_si256((__m256i *)(void *)(out + 2 * i), _mm256_permute4x64_epi64(h, 0xd8));
    }
    uint32_t top = gg_largest_bits(most);
    for (; i < n; i++) {
        uint32_t u = gg_float_bits(x[i]) & 0x7fffffff;
        top = u > top ? u : top;
        gg_store_u16(out + 2 * i, gg_bf16_encode(x[i]));
    }
    return top < 0x7f7f8000;
}
#else
#define quick_bf16 NULL
#endif

/* Decodes values of a type of C. */
#define DECODES(name, type) \
    static void name(const uint8_t *in, float *out, size_t n) \
    { \
        for (size_t i = 0; i < n; i++) { \
            type v; \
            memcpy(&v, in + i * sizeof v, sizeof v); \
            out[i] = (float)v; \
        } \
    }
DECODES(decode_f64, double)
DECODES(decode_i8, int8_t)
DECODES(decode_i16, int16_t)
DECODES(decode_i32, int32_t)
DECODES(decode_i64, int64_t)

static void encode_f64(const float *x, uint8_t *out, size_t n, const float *imatrix)
{
    (void)imatrix;
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i];
        memcpy(out + 8 * i, &v, sizeof v);
    }
}

GG_CODEC(f32, decode_f32, encode_f32, NULL)
GG_CODEC(f16, decode_f16, encode_f16, quick_f16)
GG_CODEC(bf16, decode_bf16, encode_bf16, quick_bf16)
GG_CODEC(f64, decode_f64, encode_f64, NULL)
GG_CODEC(i8, decode_i8, NULL, NULL)
GG_CODEC(i16, decode_i16, NULL, NULL)
GG_CODEC(i32, decode_i32, NULL, NULL)
GG_CODEC(i64, decode_i64, NULL, NULL)

/* The loop does not stop early: a test with an early exit would take longer than the simple
 * encodings themselves. */
bool GG_K(gg_all_finite)(const float *x, size_t n)
{
    const uint32_t exponent = 0x7f800000u;
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (gg_float_bits(x[i]) & exponent) == exponent ? 1u : 0u;
    return bad == 0;
}
