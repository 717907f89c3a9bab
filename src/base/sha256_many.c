/* sha256_many.c - SHA-256 of two messages with the SHA instructions, or of eight with AVX2. */
#include "sha256_many.h"

#include <string.h>

/* Hash `blocks` blocks of each of k messages. */
typedef void (*compress_many)(gg_sha256_piece *const *list, size_t k, size_t blocks);

#if defined(__x86_64__) && defined(__GNUC__)
#include "sha256_ni.h"

/* ---- two messages ------------------------------------------------------------------- */

#define ROUNDS_2(m, n, t) \
    do { \
        ROUNDS(abef0, cdgh0, m, t); \
        ROUNDS(abef1, cdgh1, n, t); \
    } while (0)

/* Repeated by hand: a loop costs a tenth of the speed. */
#define SIXTEEN_ROUNDS_2(t) \
    do { \
        ROUNDS_2(a, e, t); \
        SCHEDULE(a, b, c, d); \
        SCHEDULE(e, f, g, h); \
        ROUNDS_2(b, f, (t) + 4); \
        SCHEDULE(b, c, d, a); \
        SCHEDULE(f, g, h, e); \
        ROUNDS_2(c, g, (t) + 8); \
        SCHEDULE(c, d, a, b); \
        SCHEDULE(g, h, e, f); \
        ROUNDS_2(d, h, (t) + 12); \
        SCHEDULE(d, a, b, c); \
        SCHEDULE(h, e, f, g); \
    } while (0)

WITH_SHA static void compress_2(uint32_t *s0, uint32_t *s1, const unsigned char *p,
                                const unsigned char *q, size_t blocks)
{
    __m128i abef0, cdgh0, abef1, cdgh1;
    LOAD_STATE(abef0, cdgh0, s0);
    LOAD_STATE(abef1, cdgh1, s1);
    for (; blocks; blocks--, p += 64, q += 64) {
        const __m128i abef0_in = abef0, cdgh0_in = cdgh0, abef1_in = abef1, cdgh1_in = cdgh1;
        __m128i a, b, c, d, e, f, g, h;
        LOAD_BLOCK(a, b, c, d, p);
        LOAD_BLOCK(e, f, g, h, q);
        SIXTEEN_ROUNDS_2(0);
        SIXTEEN_ROUNDS_2(16);
        SIXTEEN_ROUNDS_2(32);
        ROUNDS_2(a, e, 48);
        ROUNDS_2(b, f, 52);
        ROUNDS_2(c, g, 56);
        ROUNDS_2(d, h, 60);
        abef0 = _mm_add_epi32(abef0, abef0_in);
        cdgh0 = _mm_add_epi32(cdgh0, cdgh0_in);
        abef1 = _mm_add_epi32(abef1, abef1_in);
        cdgh1 = _mm_add_epi32(cdgh1, cdgh1_in);
    }
    STORE_STATE(s0, abef0, cdgh0);
    STORE_STATE(s1, abef1, cdgh1);
}

static void compress_pairs(gg_sha256_piece *const *list, size_t k, size_t blocks)
{
    size_t i = 0;
    for (; i + 2 <= k; i += 2)
        compress_2(list[i]->h->state, list[i + 1]->h->state, list[i]->bytes, list[i + 1]->bytes,
                   blocks);
    for (; i < k; i++) gg_sha256_compress(list[i]->h->state, list[i]->bytes, blocks);
}

/* ---- eight messages ----------------------------------------------------------------- */

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

#define ROR(x, n) ((x) >> (n) | (x) << (32 - (n)))
#define ROUND(a, b, c, d, e, f, g, h, i) \
    do { \
        vec t1_ = h + gg_sha256_key[t + (i)] + w[i] + (ROR(e, 6) ^ ROR(e, 11) ^ ROR(e, 25)) + \
                  (g ^ (e & (f ^ g))); \
        d += t1_; \
        h = t1_ + (ROR(a, 2) ^ ROR(a, 13) ^ ROR(a, 22)) + ((a & b) | (c & (a | b))); \
    } while (0)
#define EIGHT_ROUNDS(i) \
    do { \
        ROUND(a, b, c, d, e, f, g, h, i); \
        ROUND(h, a, b, c, d, e, f, g, i + 1); \
        ROUND(g, h, a, b, c, d, e, f, i + 2); \
        ROUND(f, g, h, a, b, c, d, e, i + 3); \
        ROUND(e, f, g, h, a, b, c, d, i + 4); \
        ROUND(d, e, f, g, h, a, b, c, i + 5); \
        ROUND(c, d, e, f, g, h, a, b, i + 6); \
        ROUND(b, c, d, e, f, g, h, a, i + 7); \
    } while (0)

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
        EIGHT_ROUNDS(0);
        EIGHT_ROUNDS(8);
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
#else
static void compress_pairs(gg_sha256_piece *const *list, size_t k, size_t blocks)
{
    for (size_t i = 0; i < k; i++) gg_sha256_compress(list[i]->h->state, list[i]->bytes, blocks);
}

#define compress_8 compress_pairs
#endif

/* ---- any number --------------------------------------------------------------------- */

/* Eight lanes cost as much as two messages in plain C, however few of them are used. */
#define FEW 2

unsigned gg_sha256_lanes(void)
{
    static const unsigned lanes[] = {
        [GG_SHA256_PLAIN] = 1, [GG_SHA256_AVX2] = GG_SHA256_LANES, [GG_SHA256_SHA] = 2
    };
    return lanes[gg_sha256_in_use()];
}

void gg_sha256_update_many(gg_sha256_piece *pieces, size_t k)
{
    gg_sha256_piece *list[GG_SHA256_LANES];
    compress_many many = gg_sha256_in_use() == GG_SHA256_AVX2 ? compress_8 : compress_pairs;
    size_t few = gg_sha256_in_use() == GG_SHA256_AVX2 ? FEW : 1;
    for (;;) {
        size_t m = 0, blocks = SIZE_MAX;
        for (size_t i = 0; i < k; i++) {
            gg_sha256_piece *p = &pieces[i];
            if (p->n < 64 || p->h->total & 63) continue;
            list[m++] = p;
            blocks = p->n / 64 < blocks ? p->n / 64 : blocks;
        }
        if (m <= few || gg_sha256_lanes() == 1) break;
        many(list, m, blocks);
        for (size_t i = 0; i < m; i++) {
            list[i]->h->total += 64 * blocks;
            list[i]->bytes += 64 * blocks;
            list[i]->n -= 64 * blocks;
        }
    }
    for (size_t i = 0; i < k; i++) gg_sha256_update(pieces[i].h, pieces[i].bytes, pieces[i].n);
}
