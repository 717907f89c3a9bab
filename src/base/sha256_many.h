/* sha256_many.h - hash several messages at once. Internal.
 *
 * One message keeps a processor waiting for its own results. With the SHA instructions, two
 * messages at once are about 1.5 times as fast, and four about 1.75 times. Eight with AVX2 are
 * about four times as fast as in plain C. The digests are the same.
 */
#ifndef GG_SHA256_MANY_H
#define GG_SHA256_MANY_H

#include "sha256.h"

#define GG_SHA256_LANES 8 /* the largest result of gg_sha256_lanes */

/* The number of messages that gg_sha256_update_many hashes fastest: 1, 2, 4 or 8. */
unsigned gg_sha256_lanes(void);

/* The next n bytes of a message. */
typedef struct gg_sha256_piece {
    gg_sha256 *h;
    const unsigned char *bytes;
    size_t n;
} gg_sha256_piece;

/* Like gg_sha256_update for each of k pieces, k <= GG_SHA256_LANES. Their messages differ; their
 * lengths may. Changes the pieces. */
void gg_sha256_update_many(gg_sha256_piece *pieces, size_t k);

/* For sha256*.c: the first 32 bits of the fractional parts of the cube roots of the first 64
 * primes; and hash whole blocks of one message. */
extern const uint32_t gg_sha256_key[64];
void gg_sha256_compress(uint32_t state[8], const unsigned char *p, size_t blocks);

#endif
