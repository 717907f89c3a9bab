/* sha256.c - SHA-256 (FIPS 180-4) in plain C and with the SHA instructions of x86-64. */
#include "sha256.h"

#include "isa.h"
#include "sha256_many.h"

#include <stdatomic.h>
#include <string.h>

const uint32_t gg_sha256_key[64] __attribute__((aligned(16))) = {
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
                      gg_sha256_key[t] + w[t]; \
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
#include "sha256_ni.h"

#include <cpuid.h>

WITH_SHA static void compress_sha(uint32_t state[8], const unsigned char *p, size_t blocks)
{
    __m128i abef, cdgh;
    LOAD_STATE(abef, cdgh, state);
    for (; blocks; blocks--, p += 64) {
        const __m128i abef_in = abef, cdgh_in = cdgh;
        __m128i a, b, c, d;
        LOAD_BLOCK(a, b, c, d, p);
        for (int t = 0; t < 48; t += 16) {
            ROUNDS(abef, cdgh, a, t);
            SCHEDULE(a, b, c, d);
            ROUNDS(abef, cdgh, b, t + 4);
            SCHEDULE(b, c, d, a);
            ROUNDS(abef, cdgh, c, t + 8);
            SCHEDULE(c, d, a, b);
            ROUNDS(abef, cdgh, d, t + 12);
            SCHEDULE(d, a, b, c);
        }
        ROUNDS(abef, cdgh, a, 48);
        ROUNDS(abef, cdgh, b, 52);
        ROUNDS(abef, cdgh, c, 56);
        ROUNDS(abef, cdgh, d, 60);
        abef = _mm_add_epi32(abef, abef_in);
        cdgh = _mm_add_epi32(cdgh, cdgh_in);
    }
    STORE_STATE(state, abef, cdgh);
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

void gg_sha256_compress(uint32_t state[8], const unsigned char *p, size_t blocks)
{
    if (gg_sha256_in_use() == GG_SHA256_SHA) compress_sha(state, p, blocks);
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
        gg_sha256_compress(h->state, h->block, 1);
        p += take;
        n -= take;
    }
    if (n >= 64) gg_sha256_compress(h->state, p, n / 64);
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
    gg_sha256_compress(h->state, tail, size / 64);
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
