/* sha256_many.c - SHA-256 of two or four messages with the SHA instructions, or of eight with
 * AVX2. */
#include "sha256_many.h"

#include "isa.h"

#include <string.h>

/* Hash `blocks` blocks of each of k messages. */
typedef void (*compress_many)(gg_sha256_piece *const *list, size_t k, size_t blocks);

#if defined(__x86_64__) && defined(__GNUC__)
#include "sha256_ni.h"

/* ---- two or four messages ------------------------------------------------------------ */

/* Unrolled for each message and each step, which keeps the arrays in registers. */
#define EACH _Pragma("GCC unroll 4") for (size_t i = 0; i < n; i++)

/* Four rounds of each message, with words q of its block. */
#define FOUR_ROUNDS(q, t, more) \
    do { \
        EACH FIRST_ROUNDS(abef[i], cdgh[i], wk[i], m[i][q], (t) + 4 * (q)); \
        if (more) \
            EACH SCHEDULE(m[i][q], m[i][((q) + 1) & 3], m[i][((q) + 2) & 3], m[i][((q) + 3) & 3]); \
        EACH LAST_ROUNDS(abef[i], cdgh[i], wk[i]); \
    } while (0)

#define SIXTEEN_ROUNDS(t) \
    do { \
        FOUR_ROUNDS(0, t, true); \
        FOUR_ROUNDS(1, t, true); \
        FOUR_ROUNDS(2, t, true); \
        FOUR_ROUNDS(3, t, true); \
    } while (0)

/* Hashes `blocks` blocks of each of n messages, n <= 4. */
WITH_SHA static inline __attribute__((always_inline)) void compress_few(
    gg_sha256_piece *const *list, size_t blocks, const size_t n)
{
    __m128i abef[4], cdgh[4];
    EACH LOAD_STATE(abef[i], cdgh[i], list[i]->h->state);
    for (size_t at = 0; at < 64 * blocks; at += 64) {
        __m128i m[4][4], wk[4], abef_in[4], cdgh_in[4];
        EACH
        {
            LOAD_BLOCK(m[i][0], m[i][1], m[i][2], m[i][3], list[i]->bytes + at);
            abef_in[i] = abef[i];
            cdgh_in[i] = cdgh[i];
        }
        /* A loop costs a tenth of the speed of two messages, and a fiftieth of that of four. */
        if (n == 2) {
            SIXTEEN_ROUNDS(0);
            SIXTEEN_ROUNDS(16);
            SIXTEEN_ROUNDS(32);
        } else {
#pragma GCC unroll 1
            for (size_t t = 0; t < 48; t += 16) SIXTEEN_ROUNDS(t);
        }
        FOUR_ROUNDS(0, 48, false);
        FOUR_ROUNDS(1, 48, false);
        FOUR_ROUNDS(2, 48, false);
        FOUR_ROUNDS(3, 48, false);
        EACH
        {
            abef[i] = _mm_add_epi32(abef[i], abef_in[i]);
            cdgh[i] = _mm_add_epi32(cdgh[i], cdgh_in[i]);
        }
    }
    EACH STORE_STATE(list[i]->h->state, abef[i], cdgh[i]);
}

WITH_SHA static void compress_2(gg_sha256_piece *const *list, size_t blocks)
{
    compress_few(list, blocks, 2);
}

/* Four messages need the instructions with three operands. */
__attribute__((target("sha,avx2"))) static void compress_4(gg_sha256_piece *const *list,
                                                           size_t blocks)
{
    compress_few(list, blocks, 4);
}

/* Three messages are hashed as four, of which two are the same. */
static void compress_ni(gg_sha256_piece *const *list, size_t k, size_t blocks)
{
    size_t i = 0;
    for (; k - i >= 3 && gg_isa() >= 1; i += k - i < 4 ? 3 : 4) {
        gg_sha256_piece *four[4] = { list[i], list[i + 1], list[i + 2],
                                     list[k - i < 4 ? i : i + 3] };
        compress_4(four, blocks);
    }
    for (; i + 2 <= k; i += 2) compress_2(list + i, blocks);
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
#define LANES_ROUND(a, b, c, d, e, f, g, h, i) \
    do { \
        vec t1_ = h + gg_sha256_key[t + (i)] + w[i] + (ROR(e, 6) ^ ROR(e, 11) ^ ROR(e, 25)) + \
                  (g ^ (e & (f ^ g))); \
        d += t1_; \
        h = t1_ + (ROR(a, 2) ^ ROR(a, 13) ^ ROR(a, 22)) + ((a & b) | (c & (a | b))); \
    } while (0)
#define EIGHT_ROUNDS(i) \
    do { \
        LANES_ROUND(a, b, c, d, e, f, g, h, i); \
        LANES_ROUND(h, a, b, c, d, e, f, g, i + 1); \
        LANES_ROUND(g, h, a, b, c, d, e, f, i + 2); \
        LANES_ROUND(f, g, h, a, b, c, d, e, i + 3); \
        LANES_ROUND(e, f, g, h, a, b, c, d, i + 4); \
        LANES_ROUND(d, e, f, g, h, a, b, c, i + 5); \
        LANES_ROUND(c, d, e, f, g, h, a, b, i + 6); \
        LANES_ROUND(b, c, d, e, f, g, h, a, i + 7); \
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
static void compress_ni(gg_sha256_piece *const *list, size_t k, size_t blocks)
{
    for (size_t i = 0; i < k; i++) gg_sha256_compress(list[i]->h->state, list[i]->bytes, blocks);
}

#define compress_8 compress_ni
#endif

/* ---- any number --------------------------------------------------------------------- */

/* Eight lanes cost as much as two messages in plain C, however few of them are used. */
#define FEW 2

unsigned gg_sha256_lanes(void)
{
    gg_sha256_code code = gg_sha256_in_use();
    if (code == GG_SHA256_SHA) return gg_isa() >= 1 ? 4 : 2;
    return code == GG_SHA256_AVX2 ? GG_SHA256_LANES : 1;
}

void gg_sha256_update_many(gg_sha256_piece *pieces, size_t k)
{
    gg_sha256_piece *list[GG_SHA256_LANES];
    compress_many many = gg_sha256_in_use() == GG_SHA256_AVX2 ? compress_8 : compress_ni;
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
