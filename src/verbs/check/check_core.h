/* check_core.h - shared by all rules of a check: the model's keys and tensors with
 * indices, the architecture's table, and the function that reports a finding. Internal.
 */
#ifndef GG_CHECK_CORE_H
#define GG_CHECK_CORE_H

#include "check_rules.h"
#include "gguf/gguf.h"

/* The requirements of an architecture as text. The format is described in check_arch.c. */
typedef struct check_arch {
    const char *names;   /* architectures that share the table, separated by spaces */
    const char *keys;    /* keys an engine requires, without "ARCH." */
    const char *globals; /* tensors outside the blocks */
    const char *block;   /* tensors of a block */
} check_arch;

typedef struct check {
    const gg_check_input *in;
    gg_meta_order keys;
    gg_anatomy *anatomy;   /* per tensor */
    size_t *by_name;       /* tensor indices, sorted by name */
    bool *expected;        /* per tensor: it is in the architecture's table */
    const char *arch_name; /* not NUL-terminated; NULL if unknown */
    size_t arch_len;
    const check_arch *arch; /* NULL if it has no table */
    bool text_model;        /* false for adapters, projectors, imatrix and diffusion files */
    uint64_t blocks;        /* block_count; 0 when absent */
    uint64_t trunk;         /* number of blocks before the prediction (MTP) blocks */
    gg_finding_fn fn;
    void *ctx;
    size_t found[GG_CHECK_LEVELS];
    gg_status status; /* first failure of fn, or GG_OK */
    gg_error *err;
} check;

/* Report a finding. Does nothing if c->status is set. */
void gg_check_say(check *c, gg_check_level level, const char *rule, const char *where,
                  size_t where_len, const char *fmt, ...) GG_PRINTF(6, 7);
/* Report a finding with "block N" as its place. */
void gg_check_say_block(check *c, gg_check_level level, const char *rule, int64_t block,
                        const char *fmt, ...) GG_PRINTF(5, 6);

const gg_kv *gg_check_key(const check *c, const char *key); /* by its full name */
/* The key "ARCH.NAME", or NULL if it is absent. */
const gg_kv *gg_check_arch_key(const check *c, const char *name);
/* Writes "ARCH.NAME" for a message. It is escaped when it is reported. */
void gg_check_key_name(const check *c, const char *name, char *out, size_t size);

/* The integer value of ARCH.NAME for a block: a scalar, or element `block` of an array. */
bool gg_check_number(const check *c, const char *name, uint64_t block, uint64_t *value);
/* The value of a scalar, or `otherwise` if it is absent. */
uint64_t gg_check_number_or(const check *c, const char *name, uint64_t otherwise);

/* The index of a tensor, or SIZE_MAX if it is absent. */
size_t gg_check_find(const check *c, const char *name, size_t name_len);

/* Whether `word` is one of the words in `list`, which are separated by spaces. */
bool gg_check_word(const char *list, const char *word, size_t len);
/* Get the next word of such a list at *at. Returns false at the end. */
bool gg_check_next_word(const char **at, const char **word, size_t *len);

/* The number of tokens in the vocabulary, or else vocab_size; 0 if unknown. */
uint64_t gg_check_vocabulary(const check *c);

/* check_arch.c */
const check_arch *gg_check_arch_of(const char *name, size_t len);
bool gg_check_arch_known(const char *name, size_t len); /* supported by llama.cpp */
bool gg_check_arch_other(const char *name, size_t len); /* known, but not a language model */
bool gg_check_pre_known(const char *name, size_t len);  /* a pre-tokenizer of llama.cpp */
/* Usual shape of a tensor ("attn_q.weight"), or NULL. */
const char *gg_check_shape_of(const char *rest, size_t len);

/* check_shape.c: an expected shape such as "embd,heads*key". */
typedef struct check_shape {
    uint32_t n;
    uint64_t dims[GG_MAX_DIMS];
} check_shape;
/* Returns false if a key that the shape depends on is absent. */
bool gg_check_shape_eval(const check *c, const char *text, size_t len, uint64_t block,
                         check_shape *out);
bool gg_check_shape_fits(const check_shape *s, const gg_tensor *t);
void gg_check_shape_text(uint32_t n, const uint64_t *dims, char *out, size_t size);

/* The rules. Each function checks the whole model. */
void gg_check_file_rules(check *c);       /* check_file.c */
void gg_check_key_rules(check *c);        /* check_keys.c */
void gg_check_vocabulary_rules(check *c); /* check_vocabulary.c */
void gg_check_table_rules(check *c);      /* check_table.c: compares with the table */
void gg_check_block_rules(check *c);      /* check_blocks.c: compares the blocks */
void gg_check_adapter_rules(check *c);    /* check_file.c */

#endif
