/* legacy.c - the 32-value blocks of ggml, with one scale and at most one offset.
 *
 *          0     2     4     6     8                       q               y
 *   Q4_0   | d   | nibbles 16 .............. 18 |         n - 8           q*d
 *   Q4_1   | d   | m   | nibbles 16 ........ 20 |         n               q*d + m
 *   Q5_0   | d   | high 32 bit | nibbles 16  22 |        (n | h<<4) - 16  q*d
 *   Q5_1   | d   | m   | high 32 bit | nibbles 16  24 |   n | h<<4        q*d + m
 *   Q8_0   | d   | int8 32 ................. 34 |         int8            q*d
 *   Q8_1   | d   | s   | int8 32 ........... 36 |         int8            q*d      s = d*sum(q)
 *
 * d, m and s are f16. The nibble of value j < 16 is the low half of byte j, that of value j + 16
 * the high half. Bit h of value j is bit j of the 32.
 *
 * Encoding without an importance matrix uses the closed form of the reference. The scale follows
 * from the extreme value or from the range. (Q4_0 and Q5_0 use the sign of the extreme value, so
 * that it gets the level -8 or -16, which has no positive counterpart.) The levels are computed
 * with the scale before it is rounded to f16. With an importance matrix, the searches of ksearch.h
 * are used.
 */
#include "ksearch.h"

enum { N = 32, H = 16 };

/* Expands sixteen fifth bits to bytes 0 or 16. Bytes are tested with a table of bits, because SSE2
 * cannot shift each lane by its own count. */
static inline gg_u8x16 high_bits(const uint8_t *p)
{
    const gg_u8x16 bit = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
    typedef uint64_t u64x2 __attribute__((vector_size(16)));
    const uint64_t spread = UINT64_C(0x0101010101010101);
    gg_u8x16 v = (gg_u8x16)(u64x2){ p[0] * spread, p[1] * spread };
    return (gg_u8x16)((v & bit) == bit) & 16;
}

static void decode_q4_0(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 18, out += N) {
        float d = gg_load_f16(b);
        gg_u8x16 q = gg_load_u8x16(b + 2);
        gg_scaled16(out, (q & 15) - 8, d);
        gg_scaled16(out + H, (q >> 4) - 8, d);
    }
}

static void decode_q4_1(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 20, out += N) {
        float d = gg_load_f16(b), m = gg_load_f16(b + 2);
        gg_u8x16 q = gg_load_u8x16(b + 4);
        gg_affine16(out, q & 15, d, m);
        gg_affine16(out + H, q >> 4, d, m);
    }
}

static void decode_q5_0(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 22, out += N) {
        float d = gg_load_f16(b);
        gg_u8x16 q = gg_load_u8x16(b + 6);
        gg_scaled16(out, ((q & 15) | high_bits(b + 2)) - 16, d);
        gg_scaled16(out + H, ((q >> 4) | high_bits(b + 4)) - 16, d);
    }
}

static void decode_q5_1(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 24, out += N) {
        float d = gg_load_f16(b), m = gg_load_f16(b + 2);
        gg_u8x16 q = gg_load_u8x16(b + 8);
        gg_affine16(out, (q & 15) | high_bits(b + 4), d, m);
        gg_affine16(out + H, (q >> 4) | high_bits(b + 6), d, m);
    }
}

static inline void decode_q8(const uint8_t *b, float *restrict out, float d)
{
    gg_scaled16(out, gg_load_u8x16(b), d);
    gg_scaled16(out + H, gg_load_u8x16(b + H), d);
}

static void decode_q8_0(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 34, out += N) decode_q8(b + 2, out, gg_load_f16(b));
}

static void decode_q8_1(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 36, out += N) decode_q8(b + 4, out, gg_load_f16(b));
}

/* ---- encoding ------------------------------------------------------------ */

/* Returns 0 if the reciprocal is not finite; such a scale is 0 in f16. */
static inline float reciprocal(float d)
{
    float id = d != 0.0f ? 1.0f / d : 0.0f;
    return id <= 3.4e38f && id >= -3.4e38f ? id : 0.0f;
}

/* L = trunc((x - base) * id + half), clamped to 0..top; half includes the level of zero. */
static inline gg_i32x8 plain_levels8(const float *x, float base, float id, float half, float top)
{
    gg_f32x8 v = (gg_load8(x) - gg_splat8(base)) * gg_splat8(id) + gg_splat8(half);
    return gg_trunc8(gg_max8(gg_min8(v, gg_splat8(top + 0.5f)), gg_splat8(0.0f)));
}

static inline void plain_levels(const float *x, float base, float id, float half, float top,
                                uint8_t L[N])
{
    for (int j = 0; j < N; j += 16)
        gg_store_bytes16(L + j, plain_levels8(x + j, base, id, half, top),
                         plain_levels8(x + j + 8, base, id, half, top));
}

static inline void store_nibbles(uint8_t *p, const uint8_t L[N])
{
    gg_u8x16 q = (gg_load_u8x16(L) & 15) | gg_load_u8x16(L + H) << 4;
    memcpy(p, &q, sizeof q);
}

/* Gathers the fifth bits. The multiplication moves bit 0 of byte i to bit 56 + i. */
static inline void store_high_bits(uint8_t *p, const uint8_t L[N])
{
    for (int b = 0; b < 4; b++) {
        uint64_t v;
        memcpy(&v, L + 8 * b, sizeof v);
        p[b] = (uint8_t)((v >> 4 & UINT64_C(0x0101010101010101)) * UINT64_C(0x0102040810204080) >>
                         56);
    }
}

/* The variance for gg_weigh, limited to the range of a block. */
static float row_variance(const float *x, size_t n, const float *imatrix)
{
    if (!imatrix) return 0.0f;
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
    sum /= (float)n;
    return sum < GG_SEARCH_LIMIT * GG_SEARCH_LIMIT ? sum : GG_SEARCH_LIMIT * GG_SEARCH_LIMIT;
}

enum { TOGETHER = 8 }; /* blocks that are searched together, with an importance matrix */

typedef struct weighed_blocks {
    float scale[TOGETHER], min[TOGETHER]; /* min: with an offset */
    uint8_t L[TOGETHER][N];
} weighed_blocks;

/* Computes scales, minima and levels of n <= TOGETHER blocks. */
static void search_blocks(const float *x, size_t n, int nmax, bool affine, const float *imatrix,
                          float variance, weighed_blocks *b)
{
    const gg_affine_plan plan = { nmax, -0.9f, 0.05f, 36, false };
    float v[TOGETHER * N], w[TOGETHER * N], room[N];
    for (size_t i = 0; i < n * N; i += N) {
        memcpy(v + i, gg_clamped(x + i, N, 65504.0f * (float)nmax, room), N * sizeof *v);
        gg_weigh(N, v + i, imatrix + i, variance, w + i);
    }
    if (affine) GG_K(gg_search_affine)((int)n, N, &plan, v, w, b->L[0], b->scale, b->min);
    else GG_K(gg_search_symmetric)((int)n, N, nmax, v, w, b->L[0], b->scale);
}

/* Computes scale and levels of a block without offset; nmax is 8 or 16. */
static inline float encode_symmetric(const float *x, int nmax, uint8_t L[N])
{
    float d = gg_saturate(gg_extreme(x, N) / (float)-nmax);
    plain_levels(x, 0.0f, reciprocal(d), (float)nmax + 0.5f, (float)(2 * nmax - 1), L);
    return d;
}

/* Computes scale, offset and levels of a block with an offset; nmax is 15 or 31. */
static inline float encode_affine(const float *x, int nmax, uint8_t L[N], float *offset)
{
    gg_f32x8 top = gg_load8(x), low = top;
    for (int j = 8; j < N; j += 8) {
        top = gg_max8(top, gg_load8(x + j));
        low = gg_min8(low, gg_load8(x + j));
    }
    float min = -gg_top8(-low), d = gg_saturate((gg_top8(top) - min) / (float)nmax);
    *offset = gg_saturate(min);
    plain_levels(x, *offset, reciprocal(d), 0.5f, (float)nmax, L);
    return d;
}

/* Inlined once per type. `high`: levels have a fifth bit; `affine`: blocks have an offset. */
__attribute__((always_inline)) static inline void encode_levels(const float *x, uint8_t *b,
                                                                size_t nblocks,
                                                                const float *imatrix,
                                                                const bool high, const bool affine)
{
    const int nmax = affine ? high ? 31 : 15 : high ? 16 : 8;
    float variance = row_variance(x, nblocks * N, imatrix), offset;
    weighed_blocks f;
    uint8_t L[N];
    for (size_t i = 0; i < nblocks; i++, x += N) {
        const size_t k = i % TOGETHER, left = nblocks - i;
        if (imatrix) {
            if (k == 0)
                search_blocks(x, left < TOGETHER ? left : TOGETHER, nmax, affine, imatrix + i * N,
                              variance, &f);
            gg_store_scale(b, f.scale[k]);
            offset = -f.min[k];
            memcpy(L, f.L[k], N);
        } else {
            gg_store_scale(b, affine ? encode_affine(x, nmax, L, &offset)
                                     : encode_symmetric(x, nmax, L));
        }
        b += 2;
        if (affine) gg_store_scale(b, offset), b += 2;
        if (high) store_high_bits(b, L), b += 4;
        store_nibbles(b, L);
        b += 16;
    }
}

#define ENCODES(name, high, affine) \
    static void name(const float *x, uint8_t *b, size_t nblocks, const float *imatrix) \
    { \
        encode_levels(x, b, nblocks, imatrix, high, affine); \
    }
ENCODES(encode_q4_0, false, false)
ENCODES(encode_q5_0, true, false)
ENCODES(encode_q4_1, false, true)
ENCODES(encode_q5_1, true, true)

/* Rounds half away from zero: adds the largest float below 0.5, with the sign of the value, and
 * truncates. */
static inline gg_i32x8 q8_levels8(const float *x, float id)
{
    gg_f32x8 v = gg_max8(gg_min8(gg_load8(x) * gg_splat8(id), gg_splat8(127.0f)),
                         gg_splat8(-127.0f));
    gg_i32x8 half = ((gg_i32x8)v & INT32_MIN) | (gg_i32x8)gg_splat8(0x1.fffffep-2f);
    return gg_trunc8(v + (gg_f32x8)half);
}

/* Returns the scale and sets *sum to the sum of the levels. */
static inline float encode_q8(const float *x, uint8_t *q, int32_t *sum)
{
    gg_f32x8 top = gg_abs8(gg_load8(x));
    GG_UNROLL(3)
    for (int j = 8; j < N; j += 8) top = gg_max8(top, gg_abs8(gg_load8(x + j)));
    float d = gg_saturate(gg_top8(top) / 127.0f), id = reciprocal(d);
    gg_i32x8 total = { 0 };
    GG_UNROLL(2)
    for (int j = 0; j < N; j += 16) {
        gg_i32x8 a = q8_levels8(x + j, id), b = q8_levels8(x + j + 8, id);
        total += a + b;
        gg_store_bytes16(q + j, a, b);
    }
    *sum = 0;
    for (int j = 0; j < 8; j++) *sum += total[j];
    return d;
}

static void encode_q8_0(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    (void)imatrix;
    int32_t sum;
    for (; nblocks > 0; nblocks--, b += 34, x += N) gg_store_scale(b, encode_q8(x, b + 2, &sum));
}

#if GG_LEVEL == 1
enum { GROUP = 8 }; /* blocks whose scales are computed together */

/* Eight rounded levels, as by q8_levels8, of values that need no clamp. */
static inline __m256i q8_round8(const float *x, __m256 id)
{
    __m256 v = _mm256_mul_ps((__m256)gg_load8(x), id);
    __m256 sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0f));
    return _mm256_cvttps_epi32(
        _mm256_add_ps(v, _mm256_or_ps(sign, _mm256_set1_ps(0x1.fffffep-2f))));
}

static inline void q8_store(const float *x, uint8_t *q, float id)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256 s = _mm256_set1_ps(id);
    __m256i a = _mm256_packs_epi32(q8_round8(x, s), q8_round8(x + 8, s));
    __m256i b = _mm256_packs_epi32(q8_round8(x + 16, s), q8_round8(x + 24, s));
    __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
    _mm256_storeu_si256((__m256i *)(void *)q, bytes);
}

/* The largest of the magnitudes of each block, all blocks at once: neighbours are merged until lane
 * k has that of block k. */
static inline __m256i q8_tops(const float *x)
{
    __m256i v[GROUP];
    GG_UNROLL(8)
    for (int k = 0; k < GROUP; k++, x += N) {
        v[k] = gg_larger_bits8(gg_larger_bits8(_mm256_setzero_si256(), x), x + 8);
        v[k] = gg_larger_bits8(gg_larger_bits8(v[k], x + 16), x + 24);
    }
    GG_UNROLL(4)
    for (int k = 0; k < GROUP; k += 2)
        v[k / 2] = _mm256_max_epi32(_mm256_unpacklo_epi32(v[k], v[k + 1]),
                                    _mm256_unpackhi_epi32(v[k], v[k + 1]));
    GG_UNROLL(2)
    for (int k = 0; k < GROUP / 2; k += 2)
        v[k / 2] = _mm256_max_epi32(_mm256_unpacklo_epi64(v[k], v[k + 1]),
                                    _mm256_unpackhi_epi64(v[k], v[k + 1]));
    return _mm256_max_epi32(_mm256_permute2x128_si256(v[0], v[1], 0x20),
                            _mm256_permute2x128_si256(v[0], v[1], 0x31));
}

/* False if one is so large or so small, from 2^21 on or below 2^-63, that its scale or its
 * reciprocal is not an ordinary number; zero is small too. */
static inline bool q8_plain(__m256i tops)
{
    __m256i large = _mm256_cmpgt_epi32(tops, _mm256_set1_epi32(0x49ffffff)),
            small = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x20000000), tops);
    return _mm256_testz_si256(large, large) && _mm256_testz_si256(small, small);
}

static bool quick_q8_0(const float *x, uint8_t *b, size_t nblocks)
{
    for (; nblocks >= GROUP; nblocks -= GROUP, x += GROUP * N, b += GROUP * 34) {
        const __m256i tops = q8_tops(x);
        float id[GROUP];
        uint16_t half[GROUP];
        if (!q8_plain(tops)) return false;
        __m256 d = _mm256_div_ps((__m256)tops, _mm256_set1_ps(127.0f));
        _mm256_storeu_ps(id, _mm256_div_ps(_mm256_set1_ps(1.0f), d));
        _mm_storeu_si128((__m128i *)(void *)half, _mm256_cvtps_ph(d, 0));
        for (int k = 0; k < GROUP; k++) {
            gg_store_u16(b + k * 34, half[k]);
            q8_store(x + k * N, b + k * 34 + 2, id[k]);
        }
    }
    if (nblocks && !GG_K(gg_all_finite)(x, nblocks * N)) return false;
    encode_q8_0(x, b, nblocks, NULL);
    return true;
}
#else
#define quick_q8_0 NULL
#endif

static void encode_q8_1(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    (void)imatrix;
    int32_t sum;
    for (; nblocks > 0; nblocks--, b += 36, x += N) {
        float d = encode_q8(x, b + 4, &sum);
        gg_store_scale(b, d);
        gg_store_scale(b + 2, (float)sum * d);
    }
}

GG_CODEC(q4_0, decode_q4_0, encode_q4_0, NULL)
GG_CODEC(q4_1, decode_q4_1, encode_q4_1, NULL)
GG_CODEC(q5_0, decode_q5_0, encode_q5_0, NULL)
GG_CODEC(q5_1, decode_q5_1, encode_q5_1, NULL)
GG_CODEC(q8_0, decode_q8_0, encode_q8_0, quick_q8_0)
GG_CODEC(q8_1, decode_q8_1, encode_q8_1, NULL)
