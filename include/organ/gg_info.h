/* gg_info.h - what a model is: its kind, size and shape, its vocabulary, where it comes from, and
 * the memory that an engine needs for it.
 *
 *     gg_info info;
 *     gg_status st = gg_info_of(source, &run, &info, &err);
 *     if (st == GG_OK && info.cache.known)
 *         printf("%llu\n", (unsigned long long)gg_cache_bytes(&info.cache, 4096, GG_F16));
 *
 * The general rules of organ.h apply.
 */
#ifndef GG_INFO_H
#define GG_INFO_H

#include "gg_check.h"
#include "gg_organ.h"

GG_BEGIN_DECLS

/* What the cache of keys and values of a model holds for one sequence. An engine stores, per token
 * of the context, `full` values, and for at most `window` tokens `windowed` more; and, for the
 * whole sequence, `state` bytes of recurrent layers. Tokens are counted in steps of 256, and a
 * window has room for a batch of 512 tokens more, as in llama.cpp with its defaults. */
typedef struct gg_cache {
    bool known; /* false: the architecture's cache cannot be computed, and the rest is 0 */
    uint64_t full, windowed, window, state;
} gg_cache;

/* The bytes of a cache for `context` tokens in the type `dtype`, such as GG_F16 or GG_Q8_0.
 * UINT64_MAX if they cannot be counted, or if the type is unknown. */
uint64_t gg_cache_bytes(const gg_cache *cache, uint64_t context, uint32_t dtype);

/* The largest context of at most `most` tokens, in steps of 256, whose cache fits into `bytes`; 0
 * if none does. */
uint64_t gg_cache_fit(const gg_cache *cache, uint64_t most, uint32_t dtype, uint64_t bytes);

/* A text within the keys of a source, valid as long as the source. Not NUL-terminated and not
 * escaped. at is NULL if the key is absent. */
typedef struct gg_text {
    const char *at;
    size_t len;
} gg_text;

/* The tensors of one type. */
typedef struct gg_info_type {
    uint32_t dtype;
    size_t tensors;
    uint64_t elements, bytes;
} gg_info_type;

#define GG_INFO_TYPES 64   /* more types than exist */
#define GG_INFO_ORIGINS 16 /* further ones are left out */

/* Whether a chat template refers to tokens that the vocabulary lacks. */
typedef enum gg_template_state {
    GG_TEMPLATE_NONE,
    GG_TEMPLATE_SOUND,
    GG_TEMPLATE_UNKNOWN_TOKENS
} gg_template_state;

typedef struct gg_info {
    gg_kind kind;
    const char *form; /* "file", "shards", "organ directory", "records" or "pipe"; static */
    gg_text name, architecture, size_label, license, description;
    gg_text tokenizer, tokenizer_pre; /* tokenizer.ggml.model and .pre */
    size_t tensors;
    uint64_t elements, bytes; /* of all tensors; bytes without padding */
    uint64_t active;          /* elements that one token uses: of stacks of experts, the share of
                                 those that are used at once. Equal to elements without experts */
    /* From keys of the architecture; 0 if absent. head_count_kv and feed_forward are those of the
     * block with the most. */
    uint64_t blocks, mtp_blocks, context, embedding, feed_forward, heads, heads_kv, experts,
        experts_used, vocabulary;
    gg_info_type types[GG_INFO_TYPES]; /* in descending order of bytes */
    size_t n_types;
    gg_template_state template_state;
    char template_unknown[200]; /* the first of those tokens, escaped, separated by spaces */
    /* What the model was made from: general.base_model.N.name, organ.merge.models,
     * imatrix.datasets and similar keys, in the order of the keys. */
    gg_text origins[GG_INFO_ORIGINS];
    size_t n_origins;
    gg_text made_by;                 /* organ.merge.method; at is NULL if it is not a merge */
    uint32_t shards, shards_missing; /* that are there, and that are not; 1 and 0 for a single
                                        file. If one is missing, only one is read. */
    gg_cache cache;
    gg_check_report check; /* as of gg_check_model; of a pipe after it was read */
} gg_info;

/* Fills *info. Reads the header only. Errors: those of gg_check_model. */
gg_status gg_info_of(gg_source *s, const gg_run *run, gg_info *info, gg_error *err);

GG_END_DECLS

#endif
