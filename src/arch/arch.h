/* arch.h - facts about each architecture: the records of architectures.txt, which describes
 * their fields. Internal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The words of a field, separated by spaces and line breaks. "" if the record has no such field. */
typedef struct gg_arch_words {
    const char *text;
    unsigned line; /* of architectures.txt, where the text begins; 0 = the field is not stated */
} gg_arch_words;

/* The fields are in the order that tables.awk knows. */
typedef struct gg_arch {
    const char *name;
    unsigned line;
    gg_arch_words kind;
    gg_arch_words keys, globals, block;
    gg_arch_words experts, weights, mixture;
    gg_arch_words window, recurrent, state, cache;
    gg_arch_words reads, arrays, traits;
} gg_arch;

/* A word that records have as a trait. */
typedef struct gg_arch_trait {
    const char *name, *meaning;
    unsigned line;
} gg_arch_trait;

/* The usual shape of some tensors; "own" = every record states its own. */
typedef struct gg_arch_shape {
    const char *shape, *names;
    unsigned line;
} gg_arch_shape;

/* What keys mean when parts of two models are combined: "never", "blocks", "rows" or
 * "absent=VALUE".
 */
typedef struct gg_arch_agreement {
    const char *what, *keys;
    unsigned line;
} gg_arch_agreement;

/* A name in formulas of shapes. */
typedef struct gg_arch_name {
    const char *name, *key;
    const char *otherwise; /* the formula without a value; NULL = it is unknown then */
    bool per_block;        /* the key may be an array with one value per block */
    bool positive;         /* 0 counts as absent */
    bool strict; /* `otherwise` is used only if the key is absent, not if it has no usable value */
    unsigned line;
} gg_arch_name;

/* Keys that engines read with one type only. */
typedef struct gg_arch_key_type {
    const char *type, *keys;
    bool of_all; /* all architectures read them; otherwise those whose record lists them */
    unsigned line;
} gg_arch_key_type;

/* All records. Like the tables below it ends with an entry whose first member is NULL. */
const gg_arch *gg_arch_all(void);
extern const gg_arch_trait gg_arch_traits[];
extern const gg_arch_shape gg_arch_shapes[];
extern const gg_arch_name gg_arch_names[];
extern const gg_arch_key_type gg_arch_key_types[];
extern const gg_arch_agreement gg_arch_agreements[];

/* The record of an architecture, or NULL. */
const gg_arch *gg_arch_find(const char *name, size_t len);
/* Whether a record has that trait; NULL has none. */
bool gg_arch_has(const gg_arch *a, const char *trait);
/* Whether it has the fields of a language model or a draft head: tensors and keys. */
bool gg_arch_is_text(const gg_arch *a);
/* Whether llama.cpp knows the name as that of a language model or a draft head. */
bool gg_arch_is_known(const gg_arch *a);

/* Usual shape of a tensor ("attn_q.weight"), or NULL. */
const char *gg_arch_shape_of(const char *rest, size_t len);
/* The rows of query, key and value, with ":" between them, that a word of a record gives: "qkv",
 * "qkv_LETTER" or "qkv=Q:K:V". *n gets their length. */
const char *gg_arch_qkv_rows(const char *word, size_t len, size_t *n);

/* Whether that is said of a key ("never", "blocks", "rows"), which is without the architecture. */
bool gg_arch_agrees(const char *what, const char *key);
/* VALUE of "absent=VALUE" for a key, or NULL. */
const char *gg_arch_absent(const char *key);
