/* hash_behind.h - hash tensors in another thread while they are read and written. Internal.
 *
 * The thread hashes the steps of a ring of buffers, and may be some steps behind. It also runs on
 * from one tensor to the next, so that no thread waits at the end of each.
 */
#ifndef GG_HASH_BEHIND_H
#define GG_HASH_BEHIND_H

#include "organ/gg_status.h"

#define GG_BEHIND_STEP ((size_t)512 << 10) /* size of a buffer */

typedef struct gg_hash_behind gg_hash_behind;

/* The SHA-256 of an item in hex. Called in order, by the thread that calls the functions below. */
typedef void (*gg_hashed)(void *ctx, size_t item, const char *sha);

gg_status gg_hash_behind_start(gg_hashed hashed, void *ctx, gg_hash_behind **out, gg_error *err);

/* Returns the buffer of the next step, which remains valid until the next call. May wait. It has
 * the place in a cache line that byte `at` of a file has, which makes writes there up to a tenth
 * faster. */
uint8_t *gg_hash_behind_room(gg_hash_behind *b, uint64_t at);

/* Hashes n bytes of that buffer, which must not change any more. They belong to `item`; with
 * `last`, they are its last ones. */
void gg_hash_behind_put(gg_hash_behind *b, size_t item, size_t n, bool last);

/* Waits for all hashes, and frees b, which may be NULL. */
void gg_hash_behind_end(gg_hash_behind *b);

#endif
