/* vocab.h - the vocabulary of a model, and models with another one. Internal to organ-vocab. */
#pragma once

#include "base/buf.h"
#include "base/names.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

/* Values of tokenizer.ggml.token_type. */
enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER, TOKEN_UNUSED, TOKEN_BYTE };

typedef struct vocab_token {
    const char *text; /* len bytes, of the model's keys */
    size_t len;
    /* The same as bytes of a text: without the letters that stand for bytes and spaces. */
    const char *plain;
    size_t plain_len;
    int32_t type;
    float score;
} vocab_token;

/* A merge of two tokens into a third; UINT32_MAX = no such token. */
typedef struct vocab_merge {
    uint32_t left, right, made;
} vocab_merge;

typedef enum vocab_kind { VOCAB_BPE, VOCAB_SPM, VOCAB_OTHER } vocab_kind;

typedef struct vocab {
    const gg_meta *meta;
    vocab_kind kind;
    vocab_token *tokens;
    size_t n;
    bool scores;
    vocab_merge *merges;
    size_t n_merges;
    gg_names names;
    uint32_t *by_text, *by_plain, *by_pair; /* hash tables of 1 + an index; 0 = empty */
    size_t slots, pair_slots;               /* powers of 2 */
} vocab;

/* Reads the vocabulary of a model. GG_NO if it has none; GG_EFORMAT if its lists do not fit. */
gg_status vocab_read(const gg_source *s, vocab *out, gg_error *err);
void vocab_free(vocab *v);

/* The token with that text, or with these plain bytes that is neither control nor unknown; SIZE_MAX
 * if there is none. */
size_t vocab_find(const vocab *v, const char *text, size_t len);
size_t vocab_find_plain(const vocab *v, const char *bytes, size_t len);

/* Whether a token stands for itself: it is matched as a whole or never, or stands for a byte. */
bool vocab_is_special(const vocab_token *t);

/* Tokens that the bytes are divided into if they are a word. *passed gets, after them, the tokens
 * that were made and merged on the way. Both lists are malloc'd. */
typedef struct vocab_pieces {
    uint32_t *ids, *passed;
    size_t n, n_passed;
} vocab_pieces;
gg_status vocab_divide(const vocab *v, const char *bytes, size_t len, vocab_pieces *out,
                       gg_error *err);
void vocab_pieces_free(vocab_pieces *p);

/* Calls fn for each key that states the id of a token, or a list of them. */
typedef gg_status vocab_id_fn(void *ctx, const gg_kv *kv, gg_error *err);
gg_status vocab_each_id(const gg_meta *meta, vocab_id_fn *fn, void *ctx, gg_error *err);

/* ---- models with another vocabulary -----------------------------------------------------------
 */

/* Where a row of a matrix comes from: a row of the base, or a weighted sum of rows. */
#define ROW_MADE UINT32_MAX
typedef struct vocab_row {
    uint32_t from;        /* the base's row, or ROW_MADE */
    uint32_t n;           /* of a sum; 0 = the mean of all rows */
    uint32_t *ids;        /* malloc'd */
    float *weights;       /* malloc'd; NULL = 1/n each */
    float *other_weights; /* those of the output matrix, with other_ids; NULL = the same */
    uint32_t *other_ids, other_n;
    bool random; /* noise with the spread of the base's rows */
} vocab_row;

typedef struct vocab_edit {
    gg_source *base;
    vocab_row *rows;
    size_t n, before; /* rows of the new and of the old vocabulary */
    gg_meta meta;     /* keys of the new model */
} vocab_edit;

void vocab_edit_free(vocab_edit *e);

/* Writes the model. Rows that are copied keep their bytes. */
typedef struct vocab_written {
    uint64_t bytes;
    size_t tensors; /* of which rows were moved or made */
} vocab_written;
gg_status vocab_write(vocab_edit *e, const char *output, const gg_run *run, vocab_written *out,
                      gg_error *err);

/* A list of tokens that becomes the keys of tokens, types and scores. */
gg_status vocab_set_tokens(gg_meta *meta, const vocab_token *tokens, size_t n, bool scores,
                           gg_error *err);
/* Sets the merges whose tokens have a number in `to`; UINT32_MAX = the token is gone. */
gg_status vocab_set_merges(gg_meta *meta, const vocab *v, const uint32_t *to, gg_error *err);
/* Changes keys that state ids to those in `to`. */
gg_status vocab_renumber(gg_meta *meta, const gg_meta *from, const uint32_t *to, size_t n,
                         gg_error *err);
/* Sets the number of tokens that the architecture states, if it does. */
gg_status vocab_set_size(gg_meta *meta, size_t n, gg_error *err);

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

/* The sums of METHOD_OMP for the rows whose `from` is ROW_MADE and that have no ids yet. `shared`
 * has for each token of the donor the base's token with the same bytes, or UINT32_MAX. */
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
