/* wide.c - some codecs with AVX-512. The layouts of the blocks are drawn in kernel/.
 *
 * In Q4_K, Q5_K and TQ1_0 few values are possible per group. They are computed once, with the
 * operations of the other levels and so with the same bits, and then looked up: the permutations
 * of AVX-512 ignore all bits of an index that are not needed.
 */
#include "codec.h"

#ifdef GG_HAVE_L1
#define GG_X86_AVX512
#include "base/float_bits.h"
#include "base/x86.h"

#include <string.h>

#define WIDE __attribute__((target(GG_AVX512)))
#define INLINE WIDE static inline

INLINE float load_half(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return _cvtsh_ss(h);
}

INLINE __m512i load_bytes(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}

INLINE __m256i load_halves(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* ---- plain ------------------------------------------------------------------------ */

INLINE __m512 widen_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(load_halves(p));
}

INLINE __m512 widen_bf16(const uint8_t *p)
{
    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_halves(p)), 16);
}

/* Decodes n values with `widen`. After the first 16 it continues at a multiple of 64 bytes of the
 * output, because a store to two cache lines costs two. The last 16 may overlap those before. */
#define DECODE_HALVES(name, widen) \
    WIDE static void name(const uint8_t *in, float *out, size_t n) \
    { \
        size_t i = 16 - (size_t)(uintptr_t)out / sizeof *out % 16; \
        _mm512_storeu_ps(out, widen(in)); \
        for (; i + 32 <= n; i += 32) { \
            _mm512_storeu_ps(out + i, widen(in + 2 * i)); \
            _mm512_storeu_ps(out + i + 16, widen(in + 2 * i + 32)); \
        } \
        if (i + 16 <= n) _mm512_storeu_ps(out + i, widen(in + 2 * i)); \
        _mm512_storeu_ps(out + n - 16, widen(in + 2 * n - 32)); \
    }
DECODE_HALVES(decode_f16, widen_f16)
DECODE_HALVES(decode_bf16, widen_bf16)

INLINE __m256i narrow_f16(__m512 x)
{
    return _mm512_cvtps_ph(x, 0);
}

/* Rounds to nearest even. */
INLINE __m256i narrow_bf16(__m512 x)
{
    __m512i u = (__m512i)x, odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
}

/* Encodes values whose magnitudes, as bits, are below `limit`; if others occur, returns false. */
#define ENCODE_HALVES(name, narrow, limit) \
    INLINE void name##_16(const float *x, uint8_t *out, __m512i *most) \
    { \
        __m512 v = _mm512_loadu_ps(x); \
        __m512i magnitude = _mm512_and_si512((__m512i)v, _mm512_set1_epi32(0x7fffffff)); \
        *most = _mm512_max_epi32(*most, magnitude); \
        _mm256_storeu_si256((__m256i *)(void *)out, narrow(v)); \
    } \
    WIDE static bool name(const float *x, uint8_t *out, size_t n) \
    { \
        __m512i most = _mm512_setzero_si512(); \
        size_t i = 16 - (size_t)(uintptr_t)x / sizeof *x % 16; \
        name##_16(x, out, &most); \
        for (; i + 32 <= n; i += 32) { \
            name##_16(x + i, out + 2 * i, &most); \
            name##_16(x + i + 16, out + 2 * i + 32, &most); \
        } \
        if (i + 16 <= n) name##_16(x + i, out + 2 * i, &most); \
        name##_16(x + n - 16, out + 2 * n - 32, &most); \
        return _mm512_reduce_max_epi32(most) < (limit); \
    }
ENCODE_HALVES(quick_f16, narrow_f16, 0x477ff000)   /* 65520 rounds to infinity */
ENCODE_HALVES(quick_bf16, narrow_bf16, 0x7f7f8000) /* so does this */

/* ---- levels times a scale --------------------------------------------------------- */

INLINE void scaled(const uint8_t *q, __m512 d, float *out)
{
    __m512i v = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)q));
    _mm512_storeu_ps(out, _mm512_mul_ps(_mm512_cvtepi32_ps(v), d));
}

WIDE static void decode_q8_0(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 34, out += 32) {
        __m512 d = _mm512_set1_ps(load_half(b));
        scaled(b + 2, d, out);
        scaled(b + 18, d, out + 16);
    }
}

WIDE static void decode_q8_k(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 292, out += 256) {
        uint32_t bits;
        memcpy(&bits, b, sizeof bits);
        __m512 d = _mm512_set1_ps(gg_bits_float(bits));
        for (int j = 0; j < 256; j += 16) scaled(b + 4 + j, d, out + j);
    }
}

/* ---- tables of a group ------------------------------------------------------------ */

/* Computes d * scale of the eight groups, followed by -(m * min). The sign is changed last, as at
 * the other levels: inf * 0 is a NaN whose sign does not depend on that of its factors. */
INLINE void k4_factors(const uint8_t *b, float factor[16])
{
    uint32_t p[3], s[4];
    memcpy(p, b + 4, sizeof p);
    s[0] = p[0] & 0x3f3f3f3f;
    s[1] = (p[2] & 0x0f0f0f0f) | (p[0] >> 2 & 0x30303030);
    s[2] = p[1] & 0x3f3f3f3f;
    s[3] = (p[2] >> 4 & 0x0f0f0f0f) | (p[1] >> 2 & 0x30303030);
    const __m512i minus = _mm512_maskz_set1_epi32(0xff00, INT32_MIN);
    __m512 dm = _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(load_half(b)),
                                     _mm512_set1_ps(load_half(b + 2)));
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(load_bytes((const uint8_t *)s)), dm);
    _mm512_storeu_si512(factor, _mm512_xor_si512((__m512i)v, minus));
}

/* The values of the levels q: q * ds + ms. */
INLINE __m512 affine(__m512 q, float ds, float ms)
{
    return _mm512_add_ps(_mm512_mul_ps(q, _mm512_set1_ps(ds)), _mm512_set1_ps(ms));
}

INLINE __m512 first_levels(void)
{
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

WIDE static void decode_q4_k(const uint8_t *b, float *out, size_t nblocks)
{
    const __m512 q = first_levels();
    for (; nblocks > 0; nblocks--, b += 144) {
        float f[16];
        k4_factors(b, f);
#pragma GCC unroll 4
        for (int k = 0; k < 8; k += 2, out += 64) {
            __m512 low = affine(q, f[k], f[k + 8]), high = affine(q, f[k + 1], f[k + 9]);
#pragma GCC unroll 2
            for (int i = 0; i < 32; i += 16) {
                __m512i v = load_bytes(b + 16 + 16 * k + i);
                _mm512_storeu_ps(out + i, _mm512_permutexvar_ps(v, low));
                v = _mm512_srli_epi32(v, 4);
                _mm512_storeu_ps(out + 32 + i, _mm512_permutexvar_ps(v, high));
            }
        }
    }
}

WIDE static void decode_q5_k(const uint8_t *b, float *out, size_t nblocks)
{
    const __m512 q = first_levels(), more = _mm512_add_ps(q, _mm512_set1_ps(16));
    const __m512i nibble = _mm512_set1_epi32(15);
    for (; nblocks > 0; nblocks--, b += 176) {
        float f[16];
        k4_factors(b, f);
        __m512i fifth[2] = { _mm512_slli_epi32(load_bytes(b + 16), 4),
                             _mm512_slli_epi32(load_bytes(b + 32), 4) };
#pragma GCC unroll 4
        for (unsigned k = 0; k < 8; k++, out += 32) {
            __m512 low = affine(q, f[k], f[k + 8]), high = affine(more, f[k], f[k + 8]);
#pragma GCC unroll 2
            for (unsigned h = 0; h < 2; h++) {
                __m512i v = _mm512_srli_epi32(load_bytes(b + 48 + k / 2 * 32 + 16 * h), k % 2 * 4);
                /* The low four bits of v and the other bits of fifth >> k. */
                v = _mm512_ternarylogic_epi32(nibble, v, _mm512_srli_epi32(fifth[h], k), 0xca);
                _mm512_storeu_ps(out + 16 * h, _mm512_permutex2var_ps(low, v, high));
            }
        }
    }
}

/* Sixteen trits: the digits of the words q after the first n, where pow3 = 3^n * 256. */
INLINE void trits(__m256i q, __m256i pow3, __m512 value, float *out)
{
    __m256i t = _mm256_mulhi_epu16(_mm256_mullo_epi16(q, pow3), _mm256_set1_epi16(3));
    _mm512_storeu_ps(out, _mm512_permutexvar_ps(_mm512_cvtepu16_epi32(t), value));
}

INLINE __m256i load_words(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
}

WIDE static void decode_tq1_0(const uint8_t *b, float *out, size_t nblocks)
{
    static const int16_t pow3[5] = { 256, 3 * 256, 9 * 256, 27 * 256, 81 * 256 };
    const __m256i last = _mm256_set_epi64x(0x1b001b001b001b00, 0x0900090009000900,
                                           0x0300030003000300, 0x0100010001000100);
    const __m512 level = _mm512_setr_ps(-1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    for (; nblocks > 0; nblocks--, b += 54, out += 256) {
        const __m512 value = _mm512_mul_ps(level, _mm512_set1_ps(load_half(b + 52)));
        const __m256i q0 = load_words(b), q1 = load_words(b + 16), q2 = load_words(b + 32);
#pragma GCC unroll 5
        for (int n = 0; n < 5; n++) {
            __m256i p = _mm256_set1_epi16(pow3[n]);
            trits(q0, p, value, out + 32 * n);
            trits(q1, p, value, out + 32 * n + 16);
            trits(q2, p, value, out + 160 + 16 * n);
        }
        int32_t four;
        memcpy(&four, b + 48, sizeof four);
        trits(_mm256_cvtepu8_epi16(_mm_set1_epi32(four)), last, value, out + 240);
    }
}

const gg_wide *gg_wide_get(uint32_t dtype)
{
    static const gg_wide list[GG_DTYPE_COUNT] = {
        [GG_F16] = { decode_f16, quick_f16 }, [GG_BF16] = { decode_bf16, quick_bf16 },
        [GG_Q8_0] = { decode_q8_0, NULL },    [GG_Q8_K] = { decode_q8_k, NULL },
        [GG_Q4_K] = { decode_q4_k, NULL },    [GG_Q5_K] = { decode_q5_k, NULL },
        [GG_TQ1_0] = { decode_tq1_0, NULL },
    };
    return dtype < GG_DTYPE_COUNT && list[dtype].decode ? &list[dtype] : NULL;
}
#else
const gg_wide *gg_wide_get(uint32_t dtype)
{
    (void)dtype;
    return NULL;
}
#endif
