/* gguf_limits.h - every cap of the reader in one place. Internal.
 *
 * The first three are ggml's own, the others ours. A power of two of any size would
 * do for ggml, but padding is then up to 4 GiB a tensor, and no model is known above
 * 4096. A pipe has no size to hold a claim against, and that of a sparse file costs
 * its maker nothing: entries and header are what memory is taken for. */
#ifndef GG_GGUF_LIMITS_H
#define GG_GGUF_LIMITS_H

#define GG_LIMIT_STRING ((uint64_t)1 << 30) /* bytes of a key, name or text */
#define GG_LIMIT_ARRAY ((uint64_t)1 << 30)  /* elements */
#define GG_LIMIT_NAME 63
#define GG_LIMIT_ALIGNMENT ((uint64_t)1 << 20) /* with tensors in the file */
#define GG_LIMIT_ENTRIES ((uint64_t)1 << 22)   /* tensors, and keys; about 100 bytes each */
#define GG_LIMIT_HEADER ((uint64_t)1 << 31)    /* bytes up to the last tensor info */
#define GG_LIMIT_SHARDS 99999                  /* what five digits hold */

#define GG_MIN_KV 14     /* key length, one byte of key, type, one byte of value */
#define GG_MIN_TENSOR 24 /* name length, n_dims, dtype, offset */

#endif
