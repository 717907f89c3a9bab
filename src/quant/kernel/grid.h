/* grid.h - convert packed small integers to eight float lanes, for types whose values come from a
 * table. Internal. All conversions are exact, so every level gives the same bits.
 */
#pragma once

#include "lanes.h"
#include "quant/iq_grid.h"

#include <math.h>

typedef int8_t gg_i8x16 __attribute__((vector_size(16)));
typedef int16_t gg_i16x8 __attribute__((vector_size(16)));
typedef int32_t gg_i32x4 __attribute__((vector_size(16)));

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define GG_GRID_SHUFFLE 1
#endif
#endif

/* Puts byte i of v, as int8, into lane i. Without AVX2 each byte is duplicated until it fills its
 * lane, and an arithmetic shift of the top copy extends the sign. Compilers do not find this for
 * an 8-byte vector. */
GG_INLINE gg_i32x8 gg_bytes8(uint64_t v)
{
#if GG_LEVEL == 1
    return (gg_i32x8)_mm256_cvtepi8_epi32(_mm_cvtsi64_si128((long long)v));
#elif defined(GG_NEON)
    const int16x8_t w = vmovl_s8(vcreate_s8(v));
    return (gg_i32x8)(gg_halves){
        .h = { (gg_f32x4)vmovl_s16(vget_low_s16(w)), (gg_f32x4)vmovl_high_s16(w) }
    }.v;
#elif defined(GG_GRID_SHUFFLE)
    typedef int64_t i64x2 __attribute__((vector_size(16)));
    const gg_i8x16 b = (gg_i8x16)(i64x2){ (int64_t)v, 0 };
    const gg_i16x8 w = (gg_i16x8)__builtin_shufflevector(b, b, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5,
                                                         6, 6, 7, 7);
    const union {
        gg_i32x4 h[2];
        gg_i32x8 v;
    } r = { {
        (gg_i32x4)__builtin_shufflevector(w, w, 0, 0, 1, 1, 2, 2, 3, 3) >> 24,
        (gg_i32x4)__builtin_shufflevector(w, w, 4, 4, 5, 5, 6, 6, 7, 7) >> 24,
    } };
    return r.v;
#else
    gg_i32x8 r;
    GG_UNROLL(8)
    for (int i = 0; i < 8; i++) r[i] = (int8_t)(v >> 8 * i);
    return r;
#endif
}

GG_INLINE gg_f32x8 gg_int_lanes8(gg_i32x8 v)
{
#if GG_LEVEL == 1
    return (gg_f32x8)_mm256_cvtepi32_ps((__m256i)v);
#else
    const union {
        gg_i32x8 v;
        gg_i32x4 h[2];
    } x = { v };
    const gg_halves r = { .h = { __builtin_convertvector(x.h[0], gg_f32x4),
                                 __builtin_convertvector(x.h[1], gg_f32x4) } };
    return r.v;
#endif
}

GG_INLINE gg_f32x8 gg_grid8(uint64_t v)
{
    return gg_int_lanes8(gg_bytes8(v));
}

/* Negates the bytes whose bit in `signs` is set: complement and add one. Grid values are 1..127,
 * so the +1 never carries into the next byte. */
GG_INLINE uint64_t gg_negate8(uint64_t grid, uint8_t signs)
{
    const uint64_t mask = gg_iq_sign8[signs];
    return (grid ^ mask) + (mask & UINT64_C(0x0101010101010101));
}

/* Expands eight 2-bit fields of w, lowest first, to bytes with values 0..3. */
GG_INLINE uint64_t gg_crumbs8(uint16_t w)
{
    uint64_t x = w;
    x = (x | x << 24) & UINT64_C(0x000000ff000000ff);
    x = (x | x << 12) & UINT64_C(0x000f000f000f000f);
    return (x | x << 6) & UINT64_C(0x0303030303030303);
}

/* Looks up 32 nibbles of 16 bytes and scales them by s. The low nibbles come first: values j and
 * j + 16 share a byte. */
GG_INLINE void gg_nibbles32(const uint8_t *qs, const int8_t *lut, float s, float *out)
{
#if GG_LEVEL == 1
    const __m128i t = _mm_loadu_si128((const __m128i *)(const void *)lut), low = _mm_set1_epi8(15);
    const __m128i q = _mm_loadu_si128((const __m128i *)(const void *)qs);
    const __m128i a = _mm_shuffle_epi8(t, _mm_and_si128(q, low));
    const __m128i b = _mm_shuffle_epi8(t, _mm_and_si128(_mm_srli_epi16(q, 4), low));
    const gg_f32x8 scale = gg_splat8(s);
    gg_store8(out, gg_int_lanes8((gg_i32x8)_mm256_cvtepi8_epi32(a)) * scale);
    gg_store8(out + 8, gg_int_lanes8((gg_i32x8)_mm256_cvtepi8_epi32(_mm_srli_si128(a, 8))) * scale);
    gg_store8(out + 16, gg_int_lanes8((gg_i32x8)_mm256_cvtepi8_epi32(b)) * scale);
    gg_store8(out + 24,
              gg_int_lanes8((gg_i32x8)_mm256_cvtepi8_epi32(_mm_srli_si128(b, 8))) * scale);
#elif defined(GG_NEON)
    const uint8x16_t q = vld1q_u8(qs), t = vld1q_u8((const uint8_t *)lut);
    float32x4_t y[4];
    GG_UNROLL(4)
    for (int i = 0; i < 4; i++) y[i] = vmulq_n_f32(gg_signed4(t, i), s);
    gg_look_up32(out, y, vandq_u8(q, vdupq_n_u8(15)), vshrq_n_u8(q, 4));
#else
    GG_UNROLL(16)
    for (int j = 0; j < 16; j++) {
        out[j] = s * (float)lut[qs[j] & 15];
        out[j + 16] = s * (float)lut[qs[j] >> 4];
    }
#endif
}

/* The same for 16 nibbles of eight bytes. */
GG_INLINE void gg_nibbles16(const uint8_t *qs, const int8_t *lut, float s, float *out)
{
#if GG_LEVEL == 1
    const __m128i t = _mm_loadu_si128((const __m128i *)(const void *)lut), low = _mm_set1_epi8(15);
    const __m128i q = _mm_loadl_epi64((const __m128i *)(const void *)qs);
    const __m128i a = _mm_shuffle_epi8(t, _mm_and_si128(q, low));
    const __m128i b = _mm_shuffle_epi8(t, _mm_and_si128(_mm_srli_epi16(q, 4), low));
    const gg_f32x8 scale = gg_splat8(s);
    gg_store8(out, gg_int_lanes8((gg_i32x8)_mm256_cvtepi8_epi32(a)) * scale);
    gg_store8(out + 8, gg_int_lanes8((gg_i32x8)_mm256_cvtepi8_epi32(b)) * scale);
#elif defined(GG_NEON)
    const uint8x8_t q = vld1_u8(qs);
    const int8x16_t t = vld1q_s8(lut);
    const uint8x16_t both = vcombine_u8(vand_u8(q, vdup_n_u8(15)), vshr_n_u8(q, 4));
    gg_scaled16(out, (gg_u8x16)vqtbl1q_s8(t, both), s);
#else
    GG_UNROLL(8)
    for (int j = 0; j < 8; j++) {
        out[j] = s * (float)lut[qs[j] & 15];
        out[j + 8] = s * (float)lut[qs[j] >> 4];
    }
#endif
}

/* --- encode --- */

/* A block whose largest magnitude is below this gets scale 0, as the smallest F16 is 2^-24. */
#define GG_GRID_TINY 1e-12f

/* Square roots, correctly rounded at every level. */
GG_INLINE gg_f32x8 gg_sqrt8(gg_f32x8 v)
{
#if GG_LEVEL == 1
    return (gg_f32x8)_mm256_sqrt_ps((__m256)v);
#else
    float lane[8];
    gg_store8(lane, v);
    GG_UNROLL(8)
    for (int i = 0; i < 8; i++) lane[i] = sqrtf(lane[i]);
    return gg_load8(lane);
#endif
}

/* The largest magnitude; n is a multiple of 8. */
GG_INLINE float gg_largest(const float *x, int n)
{
    gg_f32x8 top = gg_abs8(gg_load8(x));
    GG_UNROLL(8)
    for (int j = 8; j < n; j += 8) top = gg_max8(top, gg_abs8(gg_load8(x + j)));
    return gg_top8(top);
}

/* A power of two that scales max to 1 .. 8; multiplying by it is exact. 1 if max is zero or
 * subnormal. */
GG_INLINE float gg_norm(float max)
{
    const uint32_t e = gg_float_bits(max) >> 23 & 255u;
    return e == 0 ? 1.0f : gg_bits_float((254u - (e < 252 ? e : 252)) << 23);
}

/* Eight weights of an importance matrix, times norm, which is gg_norm of the largest weight of the
 * block. The lower limit is needed if all weights are zero, for example for an expert that never
 * ran. It also replaces invalid weights: negative, NaN or infinite. */
GG_INLINE gg_f32x8 gg_weights8(const float *imatrix, float norm)
{
    const gg_f32x8 w = gg_load8(imatrix) * gg_splat8(norm), least = gg_splat8(1e-9f);
    return gg_select8(gg_less8(least, w) & gg_less8(w, gg_splat8(16.0f)), w, least);
}

/* Mean of (x * norm)^2. */
GG_INLINE float gg_mean_square(const float *x, int n, float norm)
{
    gg_f32x8 sum = { 0 };
    for (int j = 0; j < n; j += 8) {
        const gg_f32x8 v = gg_load8(x + j) * gg_splat8(norm);
        sum += v * v;
    }
    return gg_sum8(sum) / (float)n;
}

/* Stores d as F16 and returns the value that a reader will see. */
GG_INLINE float gg_settle_scale(uint8_t *p, float d)
{
    gg_store_scale(p, d);
    return gg_load_f16(p);
}
