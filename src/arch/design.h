/* design.h - the design of a model: what its keys and the record of its architecture tell about its
 * blocks and the shapes of its tensors. Internal. */
#pragma once

#include "arch.h"
#include "gguf/gguf.h"

#define GG_DESIGN_BLOCKS 512 /* LLAMA_MAX_LAYERS; a header can claim far more */

typedef struct gg_design {
    const gg_meta *meta; /* NULL for bare records, which have no keys */
    gg_meta_order keys;
    const char *name; /* of the architecture, not NUL-terminated; NULL if it is not stated */
    size_t name_len;
    const gg_arch *arch; /* NULL if there is no record of it */
    uint64_t blocks;     /* block_count; 0 when absent */
    uint64_t trunk;      /* number of blocks before the prediction (MTP) blocks */
    uint64_t read; /* blocks that engines read: the trunk, if the architecture has no prediction
                      blocks */
} gg_design;

/* Reads the keys, which stay the caller's. End it with gg_design_close, also after an error. */
gg_status gg_design_open(gg_design *d, const gg_meta *meta, gg_error *err);
void gg_design_close(gg_design *d);

/* The record of the model's architecture, or NULL. */
const gg_arch *gg_arch_of(const gg_meta *meta);

/* ---- keys --------------------------------------------------------------------------------- */

const gg_kv *gg_design_key(const gg_design *d, const char *key); /* by its full name */
/* The key "ARCH.NAME", or NULL if it is absent. A name that begins with "/" is a full name. */
const gg_kv *gg_design_arch_key(const gg_design *d, const char *name);
/* Writes its full name. */
void gg_design_key_name(const gg_design *d, const char *name, char out[200]);

/* The integer value of ARCH.NAME for a block: a scalar, or element `block` of an array. */
bool gg_design_number(const gg_design *d, const char *name, uint64_t block, uint64_t *value);
/* The value of a scalar, or `otherwise` if it is absent. */
uint64_t gg_design_number_or(const gg_design *d, const char *name, uint64_t otherwise);
/* Whether ARCH.NAME, or its first element, is above 0. */
bool gg_design_positive(const gg_design *d, const char *name);

/* The number of tokens in the vocabulary, or else vocab_size; 0 if unknown. */
uint64_t gg_design_vocabulary(const gg_design *d);

static inline bool gg_design_has(const gg_design *d, const char *trait)
{
    return gg_arch_has(d->arch, trait);
}

/* Whether each block has its own value of that key. Engines use the first value of an array for all
 * blocks otherwise. */
bool gg_design_per_block(const gg_design *d, const char *key);

/* ---- formulas of shapes ------------------------------------------------------------------- */

/* An expected shape. */
typedef struct gg_design_shape {
    uint32_t n;
    uint64_t dims[GG_MAX_DIMS];
} gg_design_shape;

/* Computes a formula over the model's keys, such as "heads*key". Returns false if a key that it
 * depends on is absent. */
bool gg_design_formula(const gg_design *d, const char *text, size_t len, uint64_t block,
                       uint64_t *value);
/* The same for a shape: formulas with commas between them. */
bool gg_design_eval(const gg_design *d, const char *text, size_t len, uint64_t block,
                    gg_design_shape *out);
/* Whether a name in a formula is known. Numbers are, and so are "vocab", "mostused",
 * "labels" and "#KEY".
 */
bool gg_design_name_known(const char *name, size_t len);

/* ---- kinds of blocks ---------------------------------------------------------------------- */

/* How an architecture has sliding windows where no array sliding_window_pattern tells. */
typedef struct gg_window_rule {
    uint64_t every;  /* every Nth block sees everything; 0: none */
    uint64_t tokens; /* the window without a key; 0: none */
    bool first;      /* the first of N blocks sees everything, not the last */
    bool keyed;      /* blocks differ in kind only if attention.sliding_window is not 0 */
    bool order;      /* only for the order of blocks: which of them have a window is not known */
    bool of64;       /* but in models of 64 blocks it is */
    bool fixed;      /* the key is only compared with 0 */
    bool always;     /* all blocks have a window */
} gg_window_rule;

/* The rule of an architecture. Returns false if it has none. */
bool gg_design_window_rule(const gg_arch *a, gg_window_rule *out);

/* Every how many blocks one has attention and the others a state, if full_attention_interval does
 * not tell. 0 if the record has no such rule. */
uint64_t gg_design_usual_interval(const gg_arch *a);

/* The number of tokens that a block attends to, or 0 if it attends to all. */
uint64_t gg_design_window(const gg_design *d, uint64_t block);
/* Whether a block keeps a state instead of keys and values of all tokens (or beside them). */
bool gg_design_recurrent(const gg_design *d, uint64_t block);
/* Whether a block is of a kind that a record names. `prefix` is "", "enc." or "dec.". */
bool gg_design_block_is(const gg_design *d, const char *prefix, uint64_t block, const char *kind,
                        size_t len);
/* Whether there is such a kind: words of the list in design.c with "&" between them. */
bool gg_design_kind_known(const char *kind, size_t len);

/* GG_NO, with the kind, if the second model has no block of a kind that the first has, and that
 * engines expect: recurrent blocks of a hybrid, windows, and the reverse. */
gg_status gg_design_kinds_kept(const gg_meta *before, const gg_meta *after, gg_error *err);
