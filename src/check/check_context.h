/* check_context.h - what all rules of a check share: the model's keys and tensors with indices,
 * the tables of architectures, formulas of shapes, and the functions that report findings.
 * Internal.
 */
#pragma once

#include "check_output.h"
#include "gguf/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GG_CHECK_BLOCKS 512 /* LLAMA_MAX_LAYERS; a header can claim far more */

/* The requirements of an architecture as text. architectures.txt describes the format. */
typedef struct check_arch {
    const char *names;   /* architectures that share the table, separated by spaces */
    const char *keys;    /* keys an engine requires, without "ARCH." */
    const char *globals; /* tensors outside the blocks */
    const char *block;   /* tensors of a block */
} check_arch;

/* Keys that engines read with one type only. A type is "u32", "u32|arr" (also an array with one
 * value per block), "arr[u32]" or "arr_len" (any array); "*" stands for all architectures. */
typedef struct check_key_types {
    const char *type, *keys, *archs;
} check_key_types;

typedef struct check_usual_shape {
    const char *names, *shape;
} check_usual_shape;

/* A name in formulas of shapes. */
typedef struct check_name {
    const char *name, *key;
    const char *otherwise; /* the formula without a value; NULL = it is unknown then */
    bool per_block;        /* the key may be an array with one value per block */
    bool positive;         /* 0 counts as absent */
    bool strict; /* `otherwise` is used only if the key is absent, not if it has no usable value */
} check_name;

/* A condition on keys, of rules.txt. */
typedef struct check_limit {
    const char *group;
    gg_check_level level;
    const char *rule, *key;
    bool otherwise; /* only if no rule before it was broken */
    const char *archs, *condition, *text;
} check_limit;

typedef struct check_kind_word {
    const char *key, *value;
    gg_kind kind;
} check_kind_word;

typedef struct check {
    const gg_check_options *o;     /* who gets the findings */
    size_t found[GG_CHECK_LEVELS]; /* number of findings */
    gg_status status;              /* first failure of o->row or of a rule, or GG_OK */
    gg_error *err;
    bool names_kind; /* a file of another kind than a model is an error */
    /* What the report tells. */
    gg_kind kind;
    size_t tensors;
    char architecture[64];
    /* The rest is for the rules on keys and tensors. */
    const gg_check_input *in;
    gg_meta_order keys;
    gg_anatomy *anatomy;   /* per tensor */
    size_t *by_name;       /* tensor indices, sorted by name */
    bool *expected;        /* per tensor: it is in the architecture's table */
    const char *arch_name; /* not NUL-terminated; NULL if unknown */
    size_t arch_len;
    const check_arch *arch; /* NULL if it has no table */
    bool text_model;        /* of kind model or draft head, and no diffusion model */
    uint64_t blocks;        /* block_count; 0 when absent */
    uint64_t trunk;         /* number of blocks before the prediction (MTP) blocks */
} check;

/* ---- findings: check_context.c ------------------------------------------------------------ */

/* The place of a finding. */
typedef struct check_place {
    const char *name; /* NULL = own */
    size_t len;
    char own[200];
} check_place;

/* "" = the whole model. */
static inline check_place at_name(const char *name)
{
    return (check_place){ .name = name, .len = strlen(name) };
}
static inline check_place at_key(const gg_kv *kv)
{
    return (check_place){ .name = kv->key, .len = kv->key_len };
}
static inline check_place at_tensor(const gg_tensor *t)
{
    return (check_place){ .name = t->name, .len = t->name_len };
}
static inline check_place at_block(int64_t block)
{
    check_place p = { .name = NULL };
    p.len = (size_t)snprintf(p.own, sizeof p.own, "block %" PRId64, block);
    return p;
}
/* "ARCH.NAME"; of "/NAME" the name alone. */
static inline check_place at_arch_key(const check *c, const char *name)
{
    check_place p = { .name = NULL };
    int len = c->arch_len < 64 ? (int)c->arch_len : 64;
    if (name[0] == '/') snprintf(p.own, sizeof p.own, "%s", name + 1);
    else snprintf(p.own, sizeof p.own, "%.*s.%s", len, c->arch_name ? c->arch_name : "", name);
    p.len = strlen(p.own);
    return p;
}

/* Reports a finding, escaped. Does nothing if c->status is set. */
void gg_check_say(check *c, gg_check_level level, const char *rule, check_place where,
                  const char *fmt, ...) GG_PRINTF(5, 6);
#define say_error(c, ...) gg_check_say(c, GG_CHECK_ERROR, __VA_ARGS__)
#define say_warning(c, ...) gg_check_say(c, GG_CHECK_WARNING, __VA_ARGS__)
#define say_note(c, ...) gg_check_say(c, GG_CHECK_NOTE, __VA_ARGS__)
/* The same with a finding whose texts are escaped already. */
void gg_check_report_finding(check *c, const gg_finding *f);

/* ---- look-ups: check_context.c ------------------------------------------------------------ */

/* Makes the indices. They end with gg_check_close, also after an error. */
gg_status gg_check_open(check *c);
/* Sets what the keys tell about the architecture: arch_name, arch, text_model, blocks, trunk. */
void gg_check_find_architecture(check *c);
void gg_check_close(check *c);

const gg_kv *gg_check_key(const check *c, const char *key); /* by its full name */
/* The key "ARCH.NAME", or NULL if it is absent. A name that begins with "/" is a full name. */
const gg_kv *gg_check_arch_key(const check *c, const char *name);

/* The integer value of ARCH.NAME for a block: a scalar, or element `block` of an array. */
bool gg_check_number(const check *c, const char *name, uint64_t block, uint64_t *value);
/* The value of a scalar, or `otherwise` if it is absent. */
uint64_t gg_check_number_or(const check *c, const char *name, uint64_t otherwise);
/* Whether ARCH.NAME, or its first element, is above 0. */
bool gg_check_positive(const check *c, const char *name);

/* The index of a tensor, or SIZE_MAX if it is absent. */
size_t gg_check_find(const check *c, const char *name, size_t name_len);

/* Whether `word` is one of the words in `list`, which are separated by spaces. */
bool gg_check_word(const char *list, const char *word, size_t len);
/* Whether the model's architecture is one of them. */
bool gg_check_arch_in(const check *c, const char *list);
/* Get the next word of such a list at *at. Returns false at the end. */
bool gg_check_next_word(const char **at, const char **word, size_t *len);

/* The number of tokens in the vocabulary, or else vocab_size; 0 if unknown. */
uint64_t gg_check_vocabulary(const check *c);

/* ---- kinds of blocks: check_blocks.c ------------------------------------------------------ */

/* The number of tokens that a block attends to, or 0 if it attends to all. */
uint64_t gg_check_block_window(const check *c, uint64_t block);
/* Whether a block keeps a state instead of keys and values of all tokens (or beside them). */
bool gg_check_block_recurrent(const check *c, uint64_t block);
/* Whether a block is of a kind that a table names. `prefix` is "", "enc." or "dec.". */
bool gg_check_block_is(const check *c, const char *prefix, uint64_t block, const char *kind,
                       size_t len);

/* ---- formulas of shapes: check_context.c ------------------------------------------------- */

/* An expected shape. */
typedef struct check_shape {
    uint32_t n;
    uint64_t dims[GG_MAX_DIMS];
} check_shape;

/* Computes a formula over the model's keys, such as "embd,heads*key". Returns false if a key that
 * it depends on is absent. */
bool gg_check_shape_eval(const check *c, const char *text, size_t len, uint64_t block,
                         check_shape *out);
void gg_check_shape_text(uint32_t n, const uint64_t *dims, char *out, size_t size);

/* Applies the conditions on keys of a group. */
void gg_check_limits(check *c, const char *group);

/* ---- tables: made of the texts in this folder ----------------------------------------------- */

/* Each ends with NULL. */
extern const check_arch gg_check_tables[];
extern const check_key_types gg_check_key_types[];
extern const check_usual_shape gg_check_shapes[];
extern const check_name gg_check_names[];
extern const gg_window_rule gg_check_windows[];
extern const check_limit gg_check_limit_rows[];
extern const check_kind_word gg_check_kind_words[];
extern const gg_check_rule gg_check_rule_list[];
extern const char gg_check_archs[];          /* architectures that llama.cpp supports */
extern const char gg_check_other_archs[];    /* of files that are not language models */
extern const char gg_check_pre_tokenizers[]; /* pre-tokenizers of llama.cpp */
/* All blocks are recurrent; those without key-value heads. */
extern const char gg_check_recurrent[], gg_check_hybrids[];
/* Other lists of architectures.txt. */
extern const char gg_check_trunk_apart[], gg_check_mtp_apart[], gg_check_only_f32[],
    gg_check_tokenizers[], gg_check_bpe[], gg_check_chat_starts[], gg_check_chat_ends[];
/* The rows of query, key and value, with ":" between them, that a word of a table gives: "qkv",
 * "qkv_LETTER" or "qkv=Q:K:V". *n gets their length. */
const char *gg_check_qkv_rows(const char *word, size_t len, size_t *n);
/* Usual shape of a tensor ("attn_q.weight"), or NULL. */
const char *gg_check_shape_of(const char *rest, size_t len);

/* ---- rules: each function checks the whole model ------------------------------------------- */

void gg_check_file_rules(check *c);       /* check_header.c: for every kind of file */
void gg_check_key_rules(check *c);        /* check_header.c */
void gg_check_vocabulary_rules(check *c); /* check_header.c */
void gg_check_table_rules(check *c);      /* check_tensors.c: compares with the table */
void gg_check_block_rules(check *c);      /* check_tensors.c: compares the blocks */

/* Compares a draft model with the model for which it drafts, the source `spec`. */
gg_status gg_check_target(check *head, gg_source *s, const char *spec);

/* check_data.c: reads all tensors and reports problems with their values. Of `c` only the part for
 * findings is used. */
gg_status gg_check_data(check *c, gg_source *s, const gg_run *run);
