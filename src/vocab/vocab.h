/* vocab.h - the vocabulary of a model, and models shown with another one. Internal. */
#pragma once

#include "base/buf.h"
#include "base/names.h"
#include "base/text_index.h"
#include "gguf/gguf.h"
#include "organ/gg_organ.h"

typedef struct gg_vocab_token {
    const char *text; /* len bytes, of the model's keys */
    size_t len;
    /* The bytes of a text that the token stands for, where `text` has other letters for bytes and
     * spaces. */
    const char *plain;
    size_t plain_len;
    int32_t type; /* as stored: engines know those up to GG_TOKEN_BYTE */
    float score;
} gg_vocab_token;

/* A merge of two tokens into a third; UINT32_MAX = no such token. */
typedef struct gg_vocab_merge {
    uint32_t left, right, made;
} gg_vocab_merge;

typedef enum gg_vocab_kind { GG_VOCAB_BPE, GG_VOCAB_SPM, GG_VOCAB_OTHER } gg_vocab_kind;

typedef struct gg_vocab {
    const gg_meta *meta;
    gg_vocab_kind kind;
    gg_vocab_token *tokens;
    size_t n;
    bool scores, repeats; /* some tokens have the same text */
    gg_vocab_merge *merges;
    size_t n_merges;
    gg_names names;
    gg_text_index by_text, by_plain, by_pair; /* of merges, by their two tokens */
} gg_vocab;

/* Reads the vocabulary of a model, whose keys must outlive it. GG_NO if it has none; GG_EFORMAT if
 * its lists do not fit. */
gg_status gg_vocab_read(const gg_source *s, gg_vocab *out, gg_error *err);
/* The same for keys. */
gg_status gg_vocab_of(const gg_meta *meta, gg_vocab *out, gg_error *err);
/* Reads a vocabulary in which only gg_vocab_find finds something, which takes half of the time, and
 * makes the tables that all other questions need, unless they exist. */
gg_status gg_vocab_read_texts(const gg_source *s, gg_vocab *out, gg_error *err);
gg_status gg_vocab_index(gg_vocab *v, gg_error *err);
void gg_vocab_free(gg_vocab *v);

/* The token with that text, or with these plain bytes that is neither control nor unknown; SIZE_MAX
 * if there is none. */
size_t gg_vocab_find(const gg_vocab *v, const char *text, size_t len);
size_t gg_vocab_find_plain(const gg_vocab *v, const char *bytes, size_t len);
/* The counterpart of token `t` of vocabulary `of`, or SIZE_MAX: a token with the same text if
 * both vocabularies write texts alike, or else one with the same plain bytes. Control and
 * unused tokens are found only by their text, and a letter is not the token of its byte, unless
 * the vocabularies are of different kinds. */
size_t gg_vocab_same(const gg_vocab *v, const gg_vocab *of, const gg_vocab_token *t);
/* The merge of two tokens; NULL if there is none. */
const gg_vocab_merge *gg_vocab_find_merge(const gg_vocab *v, uint32_t left, uint32_t right);

/* Calls fn for each key that states the id of a token, or a list of them. */
typedef gg_status gg_vocab_id_fn(void *ctx, const gg_kv *kv, gg_error *err);
gg_status gg_vocab_each_id(const gg_meta *meta, gg_vocab_id_fn *fn, void *ctx, gg_error *err);
/* Id number i of such a key; UINT64_MAX for a negative one, which stands for no token. */
uint64_t gg_vocab_id_at(const gg_kv *kv, uint64_t i);

/* ---- keys ---------------------------------------------------------------------------------- */

/* A tokenizer.json that some models have besides the lists, and some engines read instead. */
#define GG_VOCAB_COPY "tokenizer.huggingface.json"

/* Sets the keys of tokens, types and scores to those of a list, and deletes GG_VOCAB_COPY, which
 * would contradict them: the caller notes it. */
gg_status gg_vocab_set_tokens(gg_meta *meta, const gg_vocab_token *tokens, size_t n, bool scores,
                              gg_error *err);
/* Sets the number of tokens that the architecture states, if it does. */
gg_status gg_vocab_set_size(gg_meta *meta, size_t n, gg_error *err);
/* New ids of the tokens of a model; UINT32_MAX = the new vocabulary lacks the token. */
typedef struct gg_vocab_ids {
    const uint32_t *to;
    size_t n;
} gg_vocab_ids;
/* Makes the new ids of a model's n tokens from `from`, which has the token, or UINT32_MAX, that
 * each of n_new tokens was. Of two that were the same the first counts. NULL without memory. */
uint32_t *gg_vocab_new_ids(const uint32_t *from, size_t n_new, size_t n, gg_error *err);
/* Sets the keys of a model that state ids, either those of its tokenizer or all others, to the new
 * ones. Ids beyond the last token, and negative ones, stay. GG_NO if a token is lacking. */
gg_status gg_vocab_renumber(gg_meta *meta, const gg_meta *model, const gg_vocab_ids *ids,
                            bool tokenizer, gg_error *err);
/* Adds all keys of a model to `meta`, with the tokenizer of another one, of n tokens. `ids`: the
 * new ids of the model's tokens in keys other than those of the tokenizer; NULL = they are not
 * used. */
gg_status gg_vocab_take_keys(gg_meta *meta, const gg_meta *model, const gg_meta *tokenizer,
                             size_t n, const gg_vocab_ids *ids, gg_error *err);

/* ---- models with another vocabulary ----------------------------------------------------------
 *
 * Some matrices have one row per token. A view shows a model with other rows in them: each is a row
 * of one of several models, whose bytes are moved as they are if the type is the same, or it is
 * computed. Nothing is stored. */

/* How a row that no model has is computed: as a weighted sum of rows. */
typedef struct gg_vocab_sum {
    uint32_t n;
    uint32_t *ids;     /* n rows */
    uint32_t *sources; /* of which model; NULL = of the first */
    float *weights;    /* NULL = 1/n each */
} gg_vocab_sum;

typedef enum gg_vocab_fill { GG_FILL_MEAN, GG_FILL_NOISE, GG_FILL_ZERO } gg_vocab_fill;

typedef struct gg_vocab_made {
    gg_vocab_sum sum;
    gg_vocab_sum output; /* for the output matrix, unless output.ids is NULL */
    gg_vocab_fill fill;  /* if sum.n is 0: the mean of all rows, noise with their spread, or 0 */
} gg_vocab_made;

#define GG_ROW_MADE UINT32_MAX
typedef struct gg_vocab_row {
    uint32_t source, from; /* a row of a model, or from = GG_ROW_MADE */
    gg_vocab_made *made;   /* malloc'd, as all its lists are; NULL = the mean of all rows */
} gg_vocab_row;

/* The rows of a new vocabulary. Start from all zero. */
typedef struct gg_vocab_rows {
    gg_vocab_row *list;
    size_t n;
} gg_vocab_rows;
void gg_vocab_rows_free(gg_vocab_rows *r);
void gg_vocab_row_free(gg_vocab_row *row);
/* The rule for a row that is computed, which is made if there is none; NULL without memory. */
gg_vocab_made *gg_vocab_make(gg_vocab_row *row, gg_error *err);

#define GG_VOCAB_MODELS 66 /* at most */

typedef struct gg_vocab_view {
    gg_source *const *models; /* the first is shown; all must outlive the view */
    size_t n_models;
    const gg_vocab_rows *rows; /* outlives the view, as meta does */
    const gg_meta *meta;       /* the keys of the view */
} gg_vocab_view;

/* Whether a tensor has a row, or a value, per token. */
bool gg_vocab_is_matrix(const gg_tensor *t);

/* Opens the view. A draft head, whose own rows are named by the tensor d2t, keeps the rows of
 * tokens that are copied, and t2d has values for these tokens only. `note` is called about tensors
 * that may depend on the vocabulary and are not changed. Errors: GG_EFORMAT if a matrix has more or
 * fewer rows than its model has tokens; GG_NO if a model has no such matrix, or one with other
 * rows, or if no token of a draft head is left; GG_EUNSUPPORTED for a tensor that names tokens in
 * another way, and for a row that must be computed in a type that cannot be encoded, when it is
 * read. */
gg_status gg_vocab_view_open(const gg_vocab_view *what, void (*note)(void *, const char *line),
                             void *ctx, gg_source **out, gg_error *err);
