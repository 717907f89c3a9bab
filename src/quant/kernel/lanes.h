/* lanes.h - small inline helpers shared by the codec families. Internal.
 *
 * Everything here gives the same bits at every level: sums run over eight explicit lanes and are
 * added in one fixed order, rounding is to nearest even, and conversions between half and single
 * follow IEEE 754 (a NaN becomes quiet and keeps the top bits of its payload). Without AVX, gcc 12
 * makes slow code of some 32-byte vector operations; these work on halves with SSE2.
 */
#pragma once

#include "base/float_bits.h"
#include "quant/codec.h"

#include <string.h>

#if GG_LEVEL >= 1
#if GG_LEVEL == 2
#define GG_X86_AVX512
#endif
#include "base/x86.h"
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__) && !defined(GG_NO_NEON)
/* Every aarch64 processor has it. With GG_NO_NEON the compiler has to find it. */
#define GG_NEON 1
#include <arm_neon.h>
#endif

#define GG_INLINE static inline __attribute__((always_inline, unused))

/* Little-endian loads and stores with any alignment. They use memcpy, because compilers do not
 * vectorise bytes that are combined with shifts. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "the codecs read and write little-endian fields in place"
#endif

GG_INLINE uint16_t gg_load_u16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

GG_INLINE uint32_t gg_load_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

GG_INLINE void gg_store_u16(uint8_t *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
}
GG_INLINE void gg_store_u32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

/* Half to single. A subnormal half is an integer times 2^-24, which is exact in single. */
GG_INLINE float gg_half_decode(uint16_t h)
{
#if GG_LEVEL >= 1
    return _cvtsh_ss(h);
#elif defined(GG_NEON)
    __fp16 half;
    memcpy(&half, &h, sizeof half);
    return (float)half;
#else
    uint32_t a = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t small = gg_float_bits((float)(int32_t)a * 0x1p-24f);
    uint32_t normal = (a << 13) + (112u << 23);
    uint32_t huge = 0x7f800000u | a << 13 | (a > 0x7c00u ? 0x00400000u : 0u);
    return gg_bits_float(sign | (a < 0x400u ? small : a < 0x7c00u ? normal : huge));
#endif
}

/* Single to half, to nearest even. Below 2^-14, adding 0.5 makes the FPU round: the last bit of 0.5
 * has the value 2^-24, which is the unit of a subnormal half. */
GG_INLINE uint16_t gg_half_encode(float f)
{
#if GG_LEVEL >= 1
    return _cvtss_sh(f, 0);
#elif defined(GG_NEON)
    const __fp16 half = (__fp16)f;
    uint16_t h;
    memcpy(&h, &half, sizeof h);
    return h;
#else
    uint32_t u = gg_float_bits(f), a = u & 0x7fffffffu;
    uint32_t nan = 0x7e00u | (a >> 13 & 0x3ffu);
    uint32_t small = gg_float_bits(gg_bits_float(a) + 0.5f) - 0x3f000000u;
    uint32_t normal = (a - (112u << 23) + 0xfffu + (a >> 13 & 1u)) >> 13;
    uint32_t r = a < 0x38800000u    ? small
                 : a < 0x477ff000u  ? normal
                 : a <= 0x7f800000u ? 0x7c00u
                                    : nan;
    return (uint16_t)((u >> 16 & 0x8000u) | r);
#endif
}

GG_INLINE float gg_bf16_decode(uint16_t h)
{
    return gg_bits_float((uint32_t)h << 16);
}

/* Rounds to nearest even by carry. A NaN must not be rounded, because it could become infinite. */
GG_INLINE uint16_t gg_bf16_encode(float f)
{
    uint32_t u = gg_float_bits(f);
    uint32_t nan = u >> 16 | 0x40u, r = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : r);
}

/* Load and store an f16 field of a block. */
GG_INLINE float gg_load_f16(const uint8_t *p)
{
    return gg_half_decode(gg_load_u16(p));
}

GG_INLINE void gg_store_f16(uint8_t *p, float f)
{
    gg_store_u16(p, gg_half_encode(f));
}

/* Makes the scale of an encoder storable. Scales above the range of f16 saturate, and NaN (from
 * extreme weights) becomes 0: a block of finite values must never decode to NaN or infinity. */
GG_INLINE float gg_saturate(float f)
{
    f = f > 65504.0f ? 65504.0f : f < -65504.0f ? -65504.0f : f;
    return f == f ? f : 0.0f;
}

GG_INLINE void gg_store_scale(uint8_t *p, float f)
{
    gg_store_f16(p, gg_saturate(f));
}

/* Loads eight lanes. */
GG_INLINE gg_f32x8 gg_load8(const float *p)
{
    gg_f32x8 v;
    memcpy(&v, p, sizeof v);
    return v;
}

GG_INLINE void gg_store8(float *p, gg_f32x8 v)
{
    memcpy(p, &v, sizeof v);
}

typedef float gg_f32x4 __attribute__((vector_size(16)));
typedef union gg_halves {
    gg_f32x8 v;
    gg_f32x4 h[2];
} gg_halves;

/* Works on halves: without AVX, gcc 12 stores eight floats one by one and then stalls loading them
 * as vectors. It does the same for the scalar in "vector * scalar". */
GG_INLINE gg_f32x8 gg_splat8(float f)
{
#if GG_LEVEL >= 1
    return (gg_f32x8){ f, f, f, f, f, f, f, f };
#else
    const gg_f32x4 h = { f, f, f, f };
    return (gg_halves){ .h = { h, h } }.v;
#endif
}

/* The largest magnitude of values that need not be finite, as bits: these are in the order of the
 * magnitudes, with infinity and then NaN at the end. Only with AVX2. */
#if GG_LEVEL >= 1
GG_INLINE __m256i gg_larger_bits8(__m256i most, const float *x)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)x);
    return _mm256_max_epi32(most, _mm256_and_si256(v, _mm256_set1_epi32(0x7fffffff)));
}

GG_INLINE uint32_t gg_largest_bits(__m256i most)
{
    __m128i v = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epi32(v, _mm_shuffle_epi32(v, 0xb1)));
}
#endif

/* Sixteen codes of a block are processed as bytes and converted to floats at the end:
 * out = d * q with q as signed bytes, or d * q + m with q unsigned.
 *
 * SSE2 has no widening with sign. Instead, the byte is moved to the top of its lane:
 *
 *     q 0 0 0 = q * 2^24        times d * 2^-24 gives the same product
 *
 * Multiplying by powers of two is exact if d * 2^-24 is normal. This is true because scales are an
 * f16 times an integer. */
typedef uint8_t gg_u8x16 __attribute__((vector_size(16)));

GG_INLINE gg_u8x16 gg_load_u8x16(const uint8_t *p)
{
    gg_u8x16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

#ifdef GG_NEON
/* Four bytes from 4 * i on, each moved to the top of its lane: the table has no byte 255, so that
 * the lower bytes become 0. */
GG_INLINE uint32x4_t gg_tops4(uint8x16_t q, int i)
{
    static const uint32_t at[4] = { 0x00ffffff, 0x01ffffff, 0x02ffffff, 0x03ffffff };
    return vreinterpretq_u32_u8(vqtbl1q_u8(
        q, vreinterpretq_u8_u32(vaddq_u32(vld1q_u32(at), vdupq_n_u32((uint32_t)i << 26)))));
}

/* The same bytes as floats. */
GG_INLINE float32x4_t gg_signed4(uint8x16_t q, int i)
{
    return vcvtq_n_f32_s32(vreinterpretq_s32_u32(gg_tops4(q, i)), 24);
}

GG_INLINE float32x4_t gg_unsigned4(uint8x16_t q, int i)
{
    return vcvtq_n_f32_u32(gg_tops4(q, i), 24);
}
#endif

GG_INLINE void gg_scaled16(float *restrict out, gg_u8x16 q, float d)
{
#if GG_LEVEL >= 1
    __m128i v = (__m128i)q;
    gg_store8(out, (gg_f32x8)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)) * d);
    gg_store8(out + 8,
              (gg_f32x8)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(v, 8))) * d);
#elif defined(__SSE2__)
    const __m128i z = _mm_setzero_si128(), low = _mm_unpacklo_epi8(z, (__m128i)q),
                  high = _mm_unpackhi_epi8(z, (__m128i)q);
    const __m128 s = _mm_set1_ps(d * 0x1p-24f);
    _mm_storeu_ps(out, _mm_mul_ps(_mm_cvtepi32_ps(_mm_unpacklo_epi16(z, low)), s));
    _mm_storeu_ps(out + 4, _mm_mul_ps(_mm_cvtepi32_ps(_mm_unpackhi_epi16(z, low)), s));
    _mm_storeu_ps(out + 8, _mm_mul_ps(_mm_cvtepi32_ps(_mm_unpacklo_epi16(z, high)), s));
    _mm_storeu_ps(out + 12, _mm_mul_ps(_mm_cvtepi32_ps(_mm_unpackhi_epi16(z, high)), s));
#elif defined(GG_NEON)
    float32x4x4_t y;
    GG_UNROLL(4)
    for (int i = 0; i < 4; i++) y.val[i] = vmulq_n_f32(gg_signed4(q, i), d);
    vst1q_f32_x4(out, y);
#else
    for (int i = 0; i < 16; i++) out[i] = (float)(int8_t)q[i] * d;
#endif
}

GG_INLINE void gg_affine16(float *restrict out, gg_u8x16 q, float d, float m)
{
#if GG_LEVEL >= 1
    __m128i v = (__m128i)q;
    gg_store8(out, (gg_f32x8)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)) * d + m);
    gg_store8(out + 8,
              (gg_f32x8)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(v, 8))) * d + m);
#elif defined(__SSE2__)
    const __m128i z = _mm_setzero_si128(), low = _mm_unpacklo_epi8((__m128i)q, z),
                  high = _mm_unpackhi_epi8((__m128i)q, z);
    const __m128 s = _mm_set1_ps(d), t = _mm_set1_ps(m);
    _mm_storeu_ps(out, _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(_mm_unpacklo_epi16(low, z)), s), t));
    _mm_storeu_ps(out + 4,
                  _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(_mm_unpackhi_epi16(low, z)), s), t));
    _mm_storeu_ps(out + 8,
                  _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(_mm_unpacklo_epi16(high, z)), s), t));
    _mm_storeu_ps(out + 12,
                  _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(_mm_unpackhi_epi16(high, z)), s), t));
#elif defined(GG_NEON)
    float32x4x4_t y;
    GG_UNROLL(4)
    for (int i = 0; i < 4; i++)
        y.val[i] = vaddq_f32(vmulq_n_f32(gg_unsigned4(q, i), d), vdupq_n_f32(m));
    vst1q_f32_x4(out, y);
#else
    for (int i = 0; i < 16; i++) out[i] = (float)q[i] * d + m;
#endif
}

#ifdef GG_NEON
/* Makes what depends on v come after all stores above. Otherwise gcc mixes the steps of unrolled
 * loops and has too few registers for them. */
#define GG_AFTER_STORES(v) __asm__ volatile("" : "+w"(v) : : "memory")

/* Stores the floats of y at the indices p and then q, below 16, and returns the end. The bytes of y
 * are divided among four registers, in which they are looked up, and a store merges them again. It
 * is assembly because gcc copies each list of four registers. */
GG_INLINE float *gg_look_up32(float *out, const float32x4_t y[4], uint8x16_t p, uint8x16_t q)
{
    static const uint8_t at[16] = { 0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60 };
    register float32x4_t y0 __asm__("v16") = y[0], y1 __asm__("v17") = y[1],
                            y2 __asm__("v18") = y[2], y3 __asm__("v19") = y[3];
    uint8x16_t byte[4];
    GG_UNROLL(4)
    for (int i = 0; i < 4; i++) byte[i] = vaddq_u8(vld1q_u8(at), vdupq_n_u8((uint8_t)i));
#define GG_LOOK_UP(q) \
    "tbl v24.16b, {v20.16b}, " q ".16b\n\ttbl v25.16b, {v21.16b}, " q ".16b\n\t" \
    "tbl v26.16b, {v22.16b}, " q ".16b\n\ttbl v27.16b, {v23.16b}, " q ".16b\n\t" \
    "st4 {v24.16b-v27.16b}, [%0], #64\n\t"
    __asm__ volatile("tbl v20.16b, {v16.16b-v19.16b}, %1.16b\n\t"
                     "tbl v21.16b, {v16.16b-v19.16b}, %2.16b\n\t"
                     "tbl v22.16b, {v16.16b-v19.16b}, %3.16b\n\t"
                     "tbl v23.16b, {v16.16b-v19.16b}, %4.16b\n\t" GG_LOOK_UP("%5") GG_LOOK_UP("%6")
                     : "+r"(out)
                     : "w"(byte[0]), "w"(byte[1]), "w"(byte[2]), "w"(byte[3]), "w"(p), "w"(q),
                       "w"(y0), "w"(y1), "w"(y2), "w"(y3)
                     : "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "memory");
#undef GG_LOOK_UP
    return out;
}
#endif

/* Comparison: sets all bits or no bits of each lane. Without AVX, gcc 12 splits a 32-byte
 * comparison into scalars, so level 0 compares halves. */
GG_INLINE gg_i32x8 gg_less8(gg_f32x8 a, gg_f32x8 b)
{
#if GG_LEVEL >= 1
    return a < b;
#else
    const gg_halves x = { a }, y = { b };
    const gg_halves m = { .h = { (gg_f32x4)(x.h[0] < y.h[0]), (gg_f32x4)(x.h[1] < y.h[1]) } };
    return (gg_i32x8)m.v;
#endif
}

/* Selects lanes of yes or no; m is the result of a comparison. */
GG_INLINE gg_f32x8 gg_select8(gg_i32x8 m, gg_f32x8 yes, gg_f32x8 no)
{
    return (gg_f32x8)((m & (gg_i32x8)yes) | (~m & (gg_i32x8)no));
}

/* True if a comparison holds in any lane. */
GG_INLINE bool gg_any8(gg_i32x8 m)
{
#if GG_LEVEL >= 1
    return !_mm256_testz_si256((__m256i)m, (__m256i)m);
#elif defined(__SSE2__)
    const gg_halves h = { (gg_f32x8)m };
    return _mm_movemask_ps(_mm_or_ps((__m128)h.h[0], (__m128)h.h[1])) != 0;
#elif defined(GG_NEON)
    const gg_halves h = { (gg_f32x8)m };
    return vmaxvq_u32(vorrq_u32((uint32x4_t)h.h[0], (uint32x4_t)h.h[1])) != 0;
#else
    int32_t any = 0;
    for (int i = 0; i < 8; i++) any |= m[i];
    return any != 0;
#endif
}

GG_INLINE gg_f32x8 gg_abs8(gg_f32x8 v)
{
    return (gg_f32x8)((gg_i32x8)v & 0x7fffffff);
}

/* Minimum and maximum. If a or b is NaN, the result is b, as with the x86 instructions. */
#if GG_LEVEL >= 1
GG_INLINE gg_f32x8 gg_min8(gg_f32x8 a, gg_f32x8 b)
{
    return (gg_f32x8)_mm256_min_ps((__m256)a, (__m256)b);
}
GG_INLINE gg_f32x8 gg_max8(gg_f32x8 a, gg_f32x8 b)
{
    return (gg_f32x8)_mm256_max_ps((__m256)a, (__m256)b);
}
#elif defined(__SSE2__)
GG_INLINE gg_f32x8 gg_min8(gg_f32x8 a, gg_f32x8 b)
{
    const gg_halves x = { a }, y = { b };
    return (gg_halves){ .h = { _mm_min_ps(x.h[0], y.h[0]), _mm_min_ps(x.h[1], y.h[1]) } }.v;
}

GG_INLINE gg_f32x8 gg_max8(gg_f32x8 a, gg_f32x8 b)
{
    const gg_halves x = { a }, y = { b };
    return (gg_halves){ .h = { _mm_max_ps(x.h[0], y.h[0]), _mm_max_ps(x.h[1], y.h[1]) } }.v;
}
#else
GG_INLINE gg_f32x8 gg_min8(gg_f32x8 a, gg_f32x8 b)
{
    return gg_select8(gg_less8(a, b), a, b);
}
GG_INLINE gg_f32x8 gg_max8(gg_f32x8 a, gg_f32x8 b)
{
    return gg_select8(gg_less8(b, a), a, b);
}
#endif

/* Nearest integer, ties to even, for |v| < 2^22: floats near 1.5 * 2^23 are integers. */
GG_INLINE gg_f32x8 gg_rint8(gg_f32x8 v)
{
    return (v + 12582912.0f) - 12582912.0f;
}

/* Conversion to integer, rounding toward zero. */
GG_INLINE gg_i32x8 gg_trunc8(gg_f32x8 v)
{
#if GG_LEVEL == 0 && defined(__SSE2__)
    const gg_halves x = { v };
    return (gg_i32x8)(gg_halves){
        .h = { (gg_f32x4)_mm_cvttps_epi32(x.h[0]), (gg_f32x4)_mm_cvttps_epi32(x.h[1]) }
    }.v;
#elif defined(GG_NEON)
    const gg_halves x = { v };
    return (gg_i32x8)(gg_halves){
        .h = { (gg_f32x4)vcvtq_s32_f32(x.h[0]), (gg_f32x4)vcvtq_s32_f32(x.h[1]) }
    }.v;
#else
    return __builtin_convertvector(v, gg_i32x8);
#endif
}

/* Stores sixteen integers -128..127 or 0..255 as bytes, in one store. After two stores of eight, a
 * load of all sixteen would stall. */
GG_INLINE void gg_store_bytes16(uint8_t *p, gg_i32x8 a, gg_i32x8 b)
{
    const gg_halves v = { (gg_f32x8)(a & 255) }, w = { (gg_f32x8)(b & 255) };
#if defined(__SSE2__)
    __m128i h = _mm_packs_epi32((__m128i)v.h[0], (__m128i)v.h[1]);
    __m128i l = _mm_packs_epi32((__m128i)w.h[0], (__m128i)w.h[1]);
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packus_epi16(h, l));
#elif defined(GG_NEON)
    const uint16x8_t h = vcombine_u16(vmovn_u32((uint32x4_t)v.h[0]), vmovn_u32((uint32x4_t)v.h[1]));
    const uint16x8_t l = vcombine_u16(vmovn_u32((uint32x4_t)w.h[0]), vmovn_u32((uint32x4_t)w.h[1]));
    vst1q_u8(p, vcombine_u8(vmovn_u16(h), vmovn_u16(l)));
#else
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)((gg_i32x8)v.v)[i];
    for (int i = 0; i < 8; i++) p[8 + i] = (uint8_t)((gg_i32x8)w.v)[i];
#endif
}

GG_INLINE int32_t gg_round1(float v)
{
    return (int32_t)(gg_float_bits(v + 12582912.0f) - 0x4b400000u);
}

/* Adds the lanes. Sums and maxima always combine lanes in this order. */
GG_INLINE float gg_sum8(gg_f32x8 v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

GG_INLINE float gg_top8(gg_f32x8 v)
{
    const gg_halves x = { v };
    gg_f32x4 a = x.h[0], b = x.h[1];
#if defined(__SSE2__)
    a = _mm_max_ps(a, b);
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_shuffle_ps(a, a, 1)));
#elif defined(GG_NEON)
    a = vbslq_f32(vcgtq_f32(a, b), a, b);
    b = vextq_f32(a, a, 2);
    a = vbslq_f32(vcgtq_f32(a, b), a, b);
    return a[0] > a[1] ? a[0] : a[1];
#else
    for (int i = 0; i < 4; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
    for (int i = 0; i < 2; i++) a[i] = a[i] > a[i + 2] ? a[i] : a[i + 2];
    return a[0] > a[1] ? a[0] : a[1];
#endif
}
