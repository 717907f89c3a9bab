/* sha256.c - SHA-256 (FIPS 180-4) in plain C and with the SHA instructions of x86-64. */
#include "sha256.h"

#include <stdatomic.h>
#include <string.h>

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

static uint32_t ror(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

/* One round. The caller rotates the arguments a..h from round to round, which replaces the
 * shift of all eight words that the standard describes. */
#define ROUND(a, b, c, d, e, f, g, h, t) \
    do { \
        uint32_t t1 = h + (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25)) + (g ^ (e & (f ^ g))) + \
                      round_key[t] + w[t]; \
        d += t1; \
        h = t1 + (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22)) + ((a & b) | (c & (a | b))); \
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
            w[t] = w[t - 16] + w[t - 7] + (ror(x, 7) ^ ror(x, 18) ^ x >> 3) +
                   (ror(y, 17) ^ ror(y, 19) ^ y >> 10);
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (size_t t = 0; t < 64; t += 8) {
            ROUND(a, b, c, d, e, f, g, h, t);
            ROUND(h, a, b, c, d, e, f, g, t + 1);
            ROUND(g, h, a, b, c, d, e, f, t + 2);
            ROUND(f, g, h, a, b, c, d, e, t + 3);
            ROUND(e, f, g, h, a, b, c, d, t + 4);
            ROUND(d, e, f, g, h, a, b, c, t + 5);
            ROUND(c, d, e, f, g, h, a, b, t + 6);
            ROUND(b, c, d, e, f, g, h, a, t + 7);
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

#define WITH_SHA __attribute__((target("sha,sse4.1,ssse3")))

/* Four rounds. The instructions keep the state as ABEF and CDGH, from word 3 down to word 0. */
#define ROUNDS(m, t) \
    do { \
        __m128i wk = _mm_add_epi32(m, _mm_load_si128((const __m128i *)(round_key + (t)))); \
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk); \
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0e)); \
    } while (0)

/* a, b, c, d hold the last 16 words of the schedule, the oldest in a. Replaces a by the next
 * four. */
#define SCHEDULE(a, b, c, d) \
    (a = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(a, b), _mm_alignr_epi8(d, c, 4)), \
                              d))

WITH_SHA static void compress_sha(uint32_t state[8], const unsigned char *p, size_t blocks)
{
    const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)state);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; blocks; blocks--, p += 64) {
        const __m128i abef_in = abef, cdgh_in = cdgh;
        const __m128i *in = (const __m128i *)(const void *)p;
        __m128i a = _mm_shuffle_epi8(_mm_loadu_si128(in), swap);
        __m128i b = _mm_shuffle_epi8(_mm_loadu_si128(in + 1), swap);
        __m128i c = _mm_shuffle_epi8(_mm_loadu_si128(in + 2), swap);
        __m128i d = _mm_shuffle_epi8(_mm_loadu_si128(in + 3), swap);
        for (int t = 0; t < 48; t += 16) {
            ROUNDS(a, t);
            SCHEDULE(a, b, c, d);
            ROUNDS(b, t + 4);
            SCHEDULE(b, c, d, a);
            ROUNDS(c, t + 8);
            SCHEDULE(c, d, a, b);
            ROUNDS(d, t + 12);
            SCHEDULE(d, a, b, c);
        }
        ROUNDS(a, 48);
        ROUNDS(b, 52);
        ROUNDS(c, 56);
        ROUNDS(d, 60);
        abef = _mm_add_epi32(abef, abef_in);
        cdgh = _mm_add_epi32(cdgh, cdgh_in);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* __builtin_cpu_supports of gcc 12 and clang 14 does not know "sha", so this asks the
 * processor. Only 128-bit registers are used, which every x86-64 system saves. */
static bool machine_has_sha(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1)) return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1);
}
#else
static void compress_sha(uint32_t state[8], const unsigned char *p, size_t blocks)
{
    compress_plain(state, p, blocks);
}

static bool machine_has_sha(void)
{
    return false;
}
#endif

/* -1 unknown, 0 plain C, 1 SHA instructions. A race is harmless: all threads find the same. */
static _Atomic int use_sha = -1;

bool gg_sha256_fast(void)
{
    int use = atomic_load_explicit(&use_sha, memory_order_relaxed);
    if (use < 0) {
        use = machine_has_sha();
        atomic_store_explicit(&use_sha, use, memory_order_relaxed);
    }
    return use == 1;
}

void gg_sha256_force_plain(bool plain)
{
    atomic_store_explicit(&use_sha, plain ? 0 : -1, memory_order_relaxed);
}

static void compress(uint32_t state[8], const unsigned char *p, size_t blocks)
{
    if (gg_sha256_fast()) compress_sha(state, p, blocks);
    else compress_plain(state, p, blocks);
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
        compress(h->state, h->block, 1);
        p += take;
        n -= take;
    }
    if (n >= 64) compress(h->state, p, n / 64);
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
    compress(h->state, tail, size / 64);
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
