/* vocab_edit.h - models with another vocabulary. Internal to organ-vocab. */
#pragma once

#include "organ/gg_verbs.h"
#include "vocab/vocab.h"

/* ---- dividing words ---------------------------------------------------------------------------
 */

/* Whether a token stands for itself: it is matched as a whole or never, or stands for a byte. */
bool vocab_is_special(const gg_vocab_token *t);

/* Tokens that the bytes are divided into if they are a word. *passed gets, after them, the tokens
 * that were made and merged on the way. Both lists are malloc'd. */
typedef struct vocab_pieces {
    uint32_t *ids, *passed;
    size_t n, n_passed;
} vocab_pieces;
gg_status vocab_divide(const gg_vocab *v, const char *bytes, size_t len, vocab_pieces *out,
                       gg_error *err);
void vocab_pieces_free(vocab_pieces *p);

/* ---- models with another vocabulary -----------------------------------------------------------
 */

typedef struct vocab_edit {
    gg_source *base;
    gg_vocab_rows rows; /* of the new vocabulary; the base is the only model */
    gg_meta meta;       /* keys of the new model */
} vocab_edit;

void vocab_edit_free(vocab_edit *e);

/* Writes the model. Rows that are copied keep their bytes. */
typedef struct vocab_written {
    uint64_t bytes;
    size_t tensors;            /* of which rows were moved or made */
    uint64_t heads, heads_was; /* rows of a draft head after and before; 0 = it is none */
} vocab_written;
gg_status vocab_write(vocab_edit *e, const char *output, const gg_run *run, vocab_written *out,
                      gg_error *err);

/* ---- what the tool does ------------------------------------------------------------------------
 */

/* trim: which tokens stay. */
typedef struct vocab_trim_options {
    const char *keep, *used; /* files, or NULL */
    uint64_t least, multiple;
} vocab_trim_options;
typedef struct vocab_trim_report {
    size_t before, named, special, needed, padding, after, merges_before, merges_after;
} vocab_trim_report;
gg_status vocab_trim(gg_source *base, const vocab_trim_options *o, vocab_edit *e,
                     vocab_trim_report *r, gg_error *err);

typedef enum vocab_method { METHOD_MEAN, METHOD_LENGTH, METHOD_OMP, METHOD_RANDOM } vocab_method;
typedef struct vocab_transplant_options {
    vocab_method method;
    const char *map; /* a file of pairs, or NULL */
    uint64_t k;      /* tokens of a sum in METHOD_OMP */
    const gg_run *run;
} vocab_transplant_options;
typedef struct vocab_transplant_report {
    size_t tokens, same, by_role, mapped, made;
} vocab_transplant_report;
gg_status vocab_transplant(gg_source *base, gg_source *donor, const vocab_transplant_options *o,
                           vocab_edit *e, vocab_transplant_report *r, gg_error *err);

/* The sums of METHOD_OMP for the rows that are made and have no rule yet. `shared` has for each
 * token of the donor the base's token with the same bytes, or UINT32_MAX. */
gg_status vocab_omp(gg_source *donor, const uint32_t *shared, size_t k, const gg_run *run,
                    vocab_edit *e, gg_error *err);

typedef struct vocab_add_options {
    const char *tokens;   /* a file, or NULL */
    uint64_t pad, resize; /* 0 = not */
} vocab_add_options;
typedef struct vocab_add_report {
    size_t before, added, reused, padding, after;
} vocab_add_report;
gg_status vocab_add(gg_source *base, const vocab_add_options *o, vocab_edit *e, vocab_add_report *r,
                    gg_error *err);
