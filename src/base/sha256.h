/* sha256.h - SHA-256 (FIPS 180-4), streaming. Internal.
 *
 *     gg_sha256 h;
 *     gg_sha256_init(&h);
 *     gg_sha256_update(&h, bytes, n);       any number of times, any n
 *     gg_sha256_final(&h, digest);          call gg_sha256_init before using h again
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gg_sha256 {
    uint32_t state[8];
    uint64_t total;          /* bytes so far */
    unsigned char block[64]; /* the total % 64 bytes not yet compressed */
} gg_sha256;

void gg_sha256_init(gg_sha256 *h);
void gg_sha256_update(gg_sha256 *h, const void *bytes, size_t n);
void gg_sha256_final(gg_sha256 *h, unsigned char digest[32]);

/* Writes 64 lower-case hex digits and a NUL. */
void gg_sha256_hex(const unsigned char digest[32], char out[65]);

/* Which code runs: plain C, plain C and AVX2 for several messages, or the SHA
 * instructions of x86-64. The choice is made at run time and does not change the digests. */
typedef enum gg_sha256_code { GG_SHA256_PLAIN, GG_SHA256_AVX2, GG_SHA256_SHA } gg_sha256_code;
gg_sha256_code gg_sha256_in_use(void);

/* For tests: use this code from now on. Returns false if the machine cannot run it. */
bool gg_sha256_force(gg_sha256_code wanted);

/* ---- several messages at once ------------------------------------------------------
 *
 * One message keeps a processor waiting for its own results. With the SHA instructions of x86-64,
 * two messages at once are about 1.5 times as fast. Eight with AVX2 are about four times as fast as
 * in plain C. The digests are the same. */

#define GG_SHA256_LANES 8 /* the largest result of gg_sha256_lanes */

/* The number of messages that gg_sha256_update_many hashes fastest: 1, 2 or 8. */
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
