/* gguf_limits.h - all limits of the GGUF reader. Internal.
 *
 * The first three are limits of ggml, the others are ours. ggml accepts any power of two as
 * alignment, but then padding could reach 4 GiB per tensor; no known model uses more than 4096.
 * GG_LIMIT_ENTRIES and GG_LIMIT_HEADER bound the memory that a header can use. The size of the
 * input cannot bound it: a pipe has no known size, and a huge sparse file costs nothing to
 * make. */
#ifndef GG_GGUF_LIMITS_H
#define GG_GGUF_LIMITS_H

#define GG_LIMIT_STRING ((uint64_t)1 << 30)    /* bytes of a key, name or text */
#define GG_LIMIT_ARRAY ((uint64_t)1 << 30)     /* elements of an array */
#define GG_LIMIT_NAME 63                       /* bytes of a tensor name */
#define GG_LIMIT_ALIGNMENT ((uint64_t)1 << 20) /* if the file has tensors */
#define GG_LIMIT_ENTRIES ((uint64_t)1 << 22)   /* tensors, and also keys; 100 bytes each or so */
#define GG_LIMIT_HEADER ((uint64_t)1 << 31)    /* bytes up to the last tensor info */
#define GG_LIMIT_SHARDS 99999                  /* shard names have five digits */

#define GG_MIN_KV 14     /* key length (8), key (1), type (4), value (1) */
#define GG_MIN_TENSOR 24 /* name length (8), n_dims (4), dtype (4), offset (8) */

#endif
