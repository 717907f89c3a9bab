/* sha256.c - SHA-256 (FIPS 180-4): of one message in plain C or with the SHA instructions of
 * x86-64 and aarch64, of two with those of x86-64, and of eight with AVX2. */
#include "sha256.h"

#include "isa.h"

#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include "x86.h"

#include <cpuid.h>
#elif defined(__aarch64__) && !defined(GG_NO_NEON)
#define GG_ARM_SHA 1
#include "platform.h"

#include <arm_neon.h>
#endif

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_key[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

#define ROR(x, n) ((x) >> (n) | (x) << (32 - (n)))

/* Round t with word i of w, of one message or of eight in vectors. The caller rotates the arguments
 * a..h from round to round, which replaces the shift of all eight words that the standard
 * describes. */
#define ROUND(a, b, c, d, e, f, g, h, t, i) \
    do { \
        __typeof__(a) t1_ = h + (ROR(e, 6) ^ ROR(e, 11) ^ ROR(e, 25)) + (g ^ (e & (f ^ g))) + \
                            round_key[t] + w[i]; \
        d += t1_; \
        h = t1_ + (ROR(a, 2) ^ ROR(a, 13) ^ ROR(a, 22)) + ((a & b) | (c & (a | b))); \
    } while (0)
#define EIGHT_ROUNDS(t, i) \
    do { \
        ROUND(a, b, c, d, e, f, g, h, t, i); \
        ROUND(h, a, b, c, d, e, f, g, (t) + 1, (i) + 1); \
        ROUND(g, h, a, b, c, d, e, f, (t) + 2, (i) + 2); \
        ROUND(f, g, h, a, b, c, d, e, (t) + 3, (i) + 3); \
        ROUND(e, f, g, h, a, b, c, d, (t) + 4, (i) + 4); \
        ROUND(d, e, f, g, h, a, b, c, (t) + 5, (i) + 5); \
        ROUND(c, d, e, f, g, h, a, b, (t) + 6, (i) + 6); \
        ROUND(b, c, d, e, f, g, h, a, (t) + 7, (i) + 7); \
    } while (0)

static void compress_plain(uint32_t state[8], const unsigned char *p, size_t blocks)
{
    for (; blocks; blocks--, p += 64) {
        uint32_t w[64];
        for (size_t t = 0; t < 16; t++)
            w[t] = (uint32_t)p[4 * t] << 24 | (uint32_t)p[4 * t + 1] << 16 |
                   (uint32_t)p[4 * t + 2] << 8 | p[4 * t + 3];
        for (size_t t = 16; t < 64; t++) {
            uint32_t x = w[t - 15], y = w[t - 2];
            w[t] = w[t - 16] + w[t - 7] + (ROR(x, 7) ^ ROR(x, 18) ^ x >> 3) +
                   (ROR(y, 17) ^ ROR(y, 19) ^ y >> 10);
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (size_t t = 0; t < 64; t += 8) EIGHT_ROUNDS(t, t);
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)

/* ---- one or two messages with the SHA instructions --------------------------------------- */

#define WITH_SHA __attribute__((target("sha,sse4.1,ssse3")))

WITH_SHA static inline __m128i load_words(const void *p)
{
    return _mm_loadu_si128(p);
}

/* Unrolled, which keeps the arrays in registers. */
#define EACH _Pragma("GCC unroll 2") for (size_t i = 0; i < n; i++)

/* Hashes `blocks` blocks of each of n messages: 1 or 2. The instructions keep a state as two
 * registers, ABEF and CDGH, from word 3 down to word 0. */
WITH_SHA static inline __attribute__((always_inline)) void compress_few(
    gg_sha256_piece *const *list, size_t blocks, const size_t n)
{
    const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m128i abef[2], cdgh[2], m[2][4];
    EACH
    {
        __m128i cdab = _mm_shuffle_epi32(load_words(list[i]->h->state), 0xb1);
        __m128i efgh = _mm_shuffle_epi32(load_words(list[i]->h->state + 4), 0x1b);
        abef[i] = _mm_alignr_epi8(cdab, efgh, 8);
        cdgh[i] = _mm_blend_epi16(efgh, cdab, 0xf0);
    }
    for (size_t at = 0; at < 64 * blocks; at += 64) {
        __m128i abef_in[2], cdgh_in[2];
        EACH
        {
            abef_in[i] = abef[i], cdgh_in[i] = cdgh[i];
            for (size_t q = 0; q < 4; q++)
                m[i][q] = _mm_shuffle_epi8(load_words(list[i]->bytes + at + 16 * q), swap);
        }
        /* Four rounds at a time. m holds the last 16 words of the schedule. */
#pragma GCC unroll 16
        for (size_t q = 0; q < 16; q++) EACH
            {
                __m128i *w = &m[i][q % 4], w9 = m[i][(q + 2) % 4], w13 = m[i][(q + 3) % 4];
                const __m128i wk = _mm_add_epi32(*w, load_words(round_key + 4 * q));
                cdgh[i] = _mm_sha256rnds2_epu32(cdgh[i], abef[i], wk);
                if (q < 12)
                    *w = _mm_sha256msg2_epu32(
                        _mm_add_epi32(_mm_sha256msg1_epu32(*w, m[i][(q + 1) % 4]),
                                      _mm_alignr_epi8(w13, w9, 4)),
                        w13);
                abef[i] = _mm_sha256rnds2_epu32(abef[i], cdgh[i], _mm_shuffle_epi32(wk, 0x0e));
            }
        EACH
        {
            abef[i] = _mm_add_epi32(abef[i], abef_in[i]);
            cdgh[i] = _mm_add_epi32(cdgh[i], cdgh_in[i]);
        }
    }
    EACH
    {
        __m128i feba = _mm_shuffle_epi32(abef[i], 0x1b), dchg = _mm_shuffle_epi32(cdgh[i], 0xb1);
        __m128i *state = (__m128i *)(void *)list[i]->h->state;
        _mm_storeu_si128(state, _mm_blend_epi16(feba, dchg, 0xf0));
        _mm_storeu_si128(state + 1, _mm_alignr_epi8(dchg, feba, 8));
    }
}

WITH_SHA static void compress_sha(gg_sha256 *h, const unsigned char *p, size_t blocks)
{
    gg_sha256_piece one = { h, p, 64 * blocks }, *list = &one;
    compress_few(&list, blocks, 1);
}

/* __builtin_cpu_supports of gcc 12 and clang 14 does not know "sha", so this asks the
 * processor. Only 128-bit registers are used, which every x86-64 system saves. */
static bool machine_has_sha(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1)) return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1);
}
#elif defined(GG_ARM_SHA)

/* ---- one message with the SHA-2 instructions of aarch64 ---------------------------------- */

#ifdef __clang__
#define WITH_SHA __attribute__((target("sha2")))
#else
#define WITH_SHA __attribute__((target("+crypto")))
#endif

WITH_SHA static void compress_sha(gg_sha256 *h, const unsigned char *p, size_t blocks)
{
    uint32x4_t abcd = vld1q_u32(h->state), efgh = vld1q_u32(h->state + 4), m[4];
    for (; blocks; blocks--, p += 64) {
        const uint32x4_t abcd_in = abcd, efgh_in = efgh;
#pragma GCC unroll 4
        for (size_t q = 0; q < 4; q++)
            m[q] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p + 16 * q)));
            /* Four rounds at a time. m holds the last 16 words of the schedule. */
#pragma GCC unroll 16
        for (size_t q = 0; q < 16; q++) {
            const uint32x4_t wk = vaddq_u32(m[q % 4], vld1q_u32(round_key + 4 * q)), old = abcd;
            if (q < 12)
                m[q % 4] = vsha256su1q_u32(vsha256su0q_u32(m[q % 4], m[(q + 1) % 4]),
                                           m[(q + 2) % 4], m[(q + 3) % 4]);
            abcd = vsha256hq_u32(abcd, efgh, wk);
            efgh = vsha256h2q_u32(efgh, old, wk);
        }
        abcd = vaddq_u32(abcd, abcd_in);
        efgh = vaddq_u32(efgh, efgh_in);
    }
    vst1q_u32(h->state, abcd);
    vst1q_u32(h->state + 4, efgh);
}

static bool machine_has_sha(void)
{
    return gg_sys_has_sha2();
}
#else
static void compress_sha(gg_sha256 *h, const unsigned char *p, size_t blocks)
{
    compress_plain(h->state, p, blocks);
}

static bool machine_has_sha(void)
{
    return false;
}
#endif

/* ---- one message ------------------------------------------------------------------------- */

/* The code in use, or -1 before the first use. A race is harmless: all threads find the same. */
static _Atomic int code = -1;

static int machine_code(void)
{
    return machine_has_sha() ? GG_SHA256_SHA : gg_isa() >= 1 ? GG_SHA256_AVX2 : GG_SHA256_PLAIN;
}

gg_sha256_code gg_sha256_in_use(void)
{
    int now = atomic_load_explicit(&code, memory_order_relaxed);
    if (now < 0) {
        now = machine_code();
        atomic_store_explicit(&code, now, memory_order_relaxed);
    }
    return (gg_sha256_code)now;
}

bool gg_sha256_force(gg_sha256_code wanted)
{
    if ((wanted == GG_SHA256_SHA && !machine_has_sha()) ||
        (wanted == GG_SHA256_AVX2 && gg_isa() < 1))
        return false;
    atomic_store_explicit(&code, (int)wanted, memory_order_relaxed);
    return true;
}

static void compress(gg_sha256 *h, const unsigned char *p, size_t blocks)
{
    if (gg_sha256_in_use() == GG_SHA256_SHA) compress_sha(h, p, blocks);
    else compress_plain(h->state, p, blocks);
}

void gg_sha256_init(gg_sha256 *h)
{
    /* The first 32 bits of the fractional parts of the square roots of the first 8 primes. */
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    memcpy(h->state, start, sizeof start);
    h->total = 0;
}

void gg_sha256_update(gg_sha256 *h, const void *bytes, size_t n)
{
    if (n == 0) return;
    const unsigned char *p = bytes;
    size_t held = (size_t)(h->total & 63);
    h->total += n;
    if (held) {
        size_t take = n < 64 - held ? n : 64 - held;
        memcpy(h->block + held, p, take);
        if (held + take < 64) return;
        compress(h, h->block, 1);
        p += take;
        n -= take;
    }
    if (n >= 64) compress(h, p, n / 64);
    if (n & 63) memcpy(h->block, p + (n & ~(size_t)63), n & 63);
}

/* The padding is a one bit, zeros up to a whole block, and the length in bits as a 64-bit
 * big-endian number. */
void gg_sha256_final(gg_sha256 *h, unsigned char digest[32])
{
    uint64_t bits = h->total * 8;
    size_t held = (size_t)(h->total & 63);
    unsigned char tail[128] = { 0 };
    memcpy(tail, h->block, held);
    tail[held] = 0x80;
    size_t size = held < 56 ? 64 : 128;
    for (size_t i = 0; i < 8; i++) tail[size - 1 - i] = (unsigned char)(bits >> (8 * i));
    compress(h, tail, size / 64);
    for (size_t i = 0; i < 32; i++)
        digest[i] = (unsigned char)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void gg_sha256_hex(const unsigned char digest[32], char out[65])
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < 32; i++) {
        out[2 * i] = hex[digest[i] >> 4];
        out[2 * i + 1] = hex[digest[i] & 15];
    }
    out[64] = '\0';
}

/* ---- eight messages ---------------------------------------------------------------------- */

#if defined(__x86_64__) && defined(__GNUC__)

#define WITH_AVX2 __attribute__((target("avx2")))

/* Lane l of every vector belongs to message l. */
typedef uint32_t vec __attribute__((vector_size(32)));

/* Turns eight words of each of eight messages into eight vectors. */
WITH_AVX2 static void transpose(vec *out, const unsigned char *const *p)
{
    const __m256i swap = _mm256_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3, 12,
                                         13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m256i r[8], t[8], u[8];
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(const void *)p[i]), swap);
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        u[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        u[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        u[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        out[i] = (vec)_mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
        out[i + 4] = (vec)_mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
    }
}

/* One block of each message: w holds its words, and s the states. */
WITH_AVX2 static void block_8(vec s[8], vec w[16])
{
    vec a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    for (size_t t = 0; t < 64; t += 16) {
        for (size_t i = 0; t && i < 16; i++) {
            vec x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i] += w[(i + 9) & 15] + (ROR(x, 7) ^ ROR(x, 18) ^ x >> 3) +
                    (ROR(y, 17) ^ ROR(y, 19) ^ y >> 10);
        }
        EIGHT_ROUNDS(t, 0);
        EIGHT_ROUNDS(t + 8, 8);
    }
    s[0] += a, s[1] += b, s[2] += c, s[3] += d;
    s[4] += e, s[5] += f, s[6] += g, s[7] += h;
}

/* Missing messages are replaced by the first one, whose result is then stored once. */
WITH_AVX2 static void compress_8(gg_sha256_piece *const *list, size_t k, size_t blocks)
{
    const unsigned char *p[8];
    uint32_t words[8][8]; /* word i of the state of message l */
    vec s[8], w[16];
    for (size_t l = 0; l < 8; l++) {
        const gg_sha256_piece *m = list[l < k ? l : 0];
        p[l] = m->bytes;
        for (size_t i = 0; i < 8; i++) words[i][l] = m->h->state[i];
    }
    memcpy(s, words, sizeof s);
    for (; blocks; blocks--) {
        transpose(w, p);
        for (size_t l = 0; l < 8; l++) p[l] += 32;
        transpose(w + 8, p);
        for (size_t l = 0; l < 8; l++) p[l] += 32;
        block_8(s, w);
    }
    memcpy(words, s, sizeof s);
    for (size_t l = 0; l < k; l++)
        for (size_t i = 0; i < 8; i++) list[l]->h->state[i] = words[i][l];
}

WITH_SHA static void compress_2(gg_sha256_piece *const *list, size_t blocks)
{
    compress_few(list, blocks, 2);
}

#define SHA_LANES 2
#else
#define SHA_LANES 1 /* so the next two are not called */

static void compress_2(gg_sha256_piece *const *list, size_t blocks)
{
    (void)list, (void)blocks;
}

static void compress_8(gg_sha256_piece *const *list, size_t k, size_t blocks)
{
    (void)list, (void)k, (void)blocks;
}
#endif

/* ---- any number of messages -------------------------------------------------------------- */

/* Eight lanes cost as much as two messages in plain C, however few of them are used. */
#define FEW 2

unsigned gg_sha256_lanes(void)
{
    gg_sha256_code used = gg_sha256_in_use();
    return used == GG_SHA256_SHA ? SHA_LANES : used == GG_SHA256_AVX2 ? GG_SHA256_LANES : 1;
}

void gg_sha256_update_many(gg_sha256_piece *pieces, size_t k)
{
    gg_sha256_piece *list[GG_SHA256_LANES];
    bool avx2 = gg_sha256_in_use() == GG_SHA256_AVX2;
    size_t lanes = gg_sha256_lanes();
    for (;;) {
        size_t m = 0, blocks = SIZE_MAX;
        for (size_t i = 0; i < k && m < lanes; i++) {
            gg_sha256_piece *p = &pieces[i];
            if (p->n < 64 || p->h->total & 63) continue;
            list[m++] = p;
            blocks = p->n / 64 < blocks ? p->n / 64 : blocks;
        }
        if (m <= (avx2 ? FEW : 1)) break;
        if (avx2) compress_8(list, m, blocks);
        else compress_2(list, blocks);
        for (size_t i = 0; i < m; i++) {
            list[i]->h->total += 64 * blocks;
            list[i]->bytes += 64 * blocks;
            list[i]->n -= 64 * blocks;
        }
    }
    for (size_t i = 0; i < k; i++) gg_sha256_update(pieces[i].h, pieces[i].bytes, pieces[i].n);
}
