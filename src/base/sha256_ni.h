/* sha256_ni.h - steps of SHA-256 with the SHA instructions of x86-64. Internal to sha256*.c.
 *
 * The instructions keep the state as two registers, ABEF and CDGH, from word 3 down to word 0.
 */
#ifndef GG_SHA256_NI_H
#define GG_SHA256_NI_H

#include "sha256_many.h"

#include "x86.h"

#define WITH_SHA __attribute__((target("sha,sse4.1,ssse3")))

/* Two rounds, and the next two: wk is set by the first. */
#define FIRST_ROUNDS(abef, cdgh, wk, m, t) \
    do { \
        wk = _mm_add_epi32(m, \
                           _mm_load_si128((const __m128i *)(const void *)(gg_sha256_key + (t)))); \
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk); \
    } while (0)
#define LAST_ROUNDS(abef, cdgh, wk) \
    (abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0e)))

/* Four rounds. */
#define ROUNDS(abef, cdgh, m, t) \
    do { \
        __m128i wk_; \
        FIRST_ROUNDS(abef, cdgh, wk_, m, t); \
        LAST_ROUNDS(abef, cdgh, wk_); \
    } while (0)

/* a, b, c, d hold the last 16 words of the schedule, the oldest in a. Replaces a by the next
 * four. */
#define SCHEDULE(a, b, c, d) \
    (a = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(a, b), _mm_alignr_epi8(d, c, 4)), \
                              d))

#define LOAD_STATE(abef, cdgh, state) \
    do { \
        __m128i dcba_ = _mm_loadu_si128((const __m128i *)(const void *)(state)); \
        __m128i hgfe_ = _mm_loadu_si128((const __m128i *)(const void *)((state) + 4)); \
        __m128i cdab_ = _mm_shuffle_epi32(dcba_, 0xb1), efgh_ = _mm_shuffle_epi32(hgfe_, 0x1b); \
        abef = _mm_alignr_epi8(cdab_, efgh_, 8); \
        cdgh = _mm_blend_epi16(efgh_, cdab_, 0xf0); \
    } while (0)

#define STORE_STATE(state, abef, cdgh) \
    do { \
        __m128i feba_ = _mm_shuffle_epi32(abef, 0x1b), dchg_ = _mm_shuffle_epi32(cdgh, 0xb1); \
        _mm_storeu_si128((__m128i *)(void *)(state), _mm_blend_epi16(feba_, dchg_, 0xf0)); \
        _mm_storeu_si128((__m128i *)(void *)((state) + 4), _mm_alignr_epi8(dchg_, feba_, 8)); \
    } while (0)

/* The 16 words of a block, which are stored with the highest byte first. */
#define LOAD_BLOCK(a, b, c, d, p) \
    do { \
        const __m128i swap_ = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3); \
        const __m128i *in_ = (const __m128i *)(const void *)(p); \
        a = _mm_shuffle_epi8(_mm_loadu_si128(in_), swap_); \
        b = _mm_shuffle_epi8(_mm_loadu_si128(in_ + 1), swap_); \
        c = _mm_shuffle_epi8(_mm_loadu_si128(in_ + 2), swap_); \
        d = _mm_shuffle_epi8(_mm_loadu_si128(in_ + 3), swap_); \
    } while (0)

#endif
