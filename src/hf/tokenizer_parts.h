/* tokenizer_parts.h - what the files that read tokenizers share. Internal. */
#pragma once

#include "base/names.h"
#include "base/text_index.h"
#include "gguf/gguf.h"
#include "tokenizer.h"

typedef struct gg_hf_token {
    const char *text; /* NULL = no token has this id */
    size_t len;
    int32_t type; /* a gg_token_type */
    float score;
} gg_hf_token;

/* A tokenizer while it is read. Texts belong to the JSON trees, to `bytes` or to `names`. */
typedef struct gg_tk {
    const gg_hf_tokenizer_from *from;
    gg_meta *meta;
    gg_buf *notes;
    size_t n_notes;
    gg_json *json;       /* tokenizer.json; NULL = absent, as below */
    gg_json *config;     /* tokenizer_config.json */
    gg_json *map;        /* special_tokens_map.json */
    gg_json *added;      /* added_tokens.json */
    gg_json *generation; /* generation_config.json */
    gg_json *vocab;      /* vocab.json */
    char *bytes;         /* tokenizer.model or merges.txt */
    gg_names names;
    const char *model; /* tokenizer.ggml.model */
    const char *pre;   /* tokenizer.ggml.pre; NULL = not written */
    bool scores;       /* tokens have scores */
    gg_hf_token *tokens;
    size_t n;
    gg_buf merges; /* as the elements of a GGUF array */
    uint64_t n_merges;
    gg_text_index by_text;
    size_t replaced; /* tokens whose text an added token has changed */
    bool spaces;     /* a step of tokenizer.json writes spaces as U+2581 */
    bool no_prefix;  /* tokenizer.model puts no space before a text */
} gg_tk;

/* Whether a token has a text, in which U+2581 may stand for a space. */
bool gg_tk_has_text(const gg_hf_token *t, const char *text, size_t len);

/* Appends a line to the notes, escaped for a terminal. Those beyond the first 64 are counted. */
gg_status gg_tk_note(gg_tk *tk, gg_error *err, const char *fmt, ...) GG_PRINTF(3, 4);
/* Appends how many there were besides. */
gg_status gg_tk_end_notes(gg_tk *tk, gg_error *err);

/* Makes room for ids below n, which must be the rows of the embeddings or fewer. `given` tokens are
 * listed; the other ids will get unused ones, of which there is a limit. */
gg_status gg_tk_room(gg_tk *tk, uint64_t n, uint64_t given, gg_error *err);

/* Gives an id its first token. Fails with GG_EFORMAT if it has one. */
gg_status gg_tk_set(gg_tk *tk, uint64_t id, const gg_hf_token *token, gg_error *err);

/* Builds the hash table of all texts; of those with the same text the one with the lowest id is
 * found. */
gg_status gg_tk_index(gg_tk *tk, gg_error *err);
/* The id of a text, or SIZE_MAX. Needs gg_tk_index. */
size_t gg_tk_find(const gg_tk *tk, const char *text, size_t len);

/* An added token as files describe it. */
typedef struct gg_tk_added {
    const char *text;
    size_t len;
    uint64_t id;
    bool special;
} gg_tk_added;

/* Gives an id the text and type of an added token, in place of what it had. */
gg_status gg_tk_add(gg_tk *tk, const gg_tk_added *added, gg_error *err);

/* Appends the merge of two tokens. */
gg_status gg_tk_add_merge(gg_tk *tk, const char *const text[2], const size_t len[2], gg_error *err);

/* One more than the largest id of a vocabulary, an object or NULL, and its added tokens. */
gg_status gg_tk_count(const gg_json_node *vocab, const gg_json_node *added, uint64_t *n,
                      gg_error *err);

/* tokenizer_json.c: the tokens and merges of tokenizer.json, or of vocab.json and merges.txt. */
gg_status gg_tk_read_json(gg_tk *tk, gg_error *err);
gg_status gg_tk_read_vocab(gg_tk *tk, const char *merges, size_t len, gg_error *err);
/* Notes how the tokens that were read differ from those of tokenizer.json. */
gg_status gg_tk_compare_json(gg_tk *tk, gg_error *err);

/* tokenizer_sp.c: the tokens of a tokenizer.model of len bytes. */
gg_status gg_tk_read_sp(gg_tk *tk, const char *bytes, size_t len, gg_error *err);
/* Whether these are the first bytes of a SentencePiece model. */
bool gg_tk_is_sp(const char *bytes, size_t len);

/* tokenizer_keys.c: sets the special tokens, the flags, the templates and what
 * generation_config.json has. */
gg_status gg_tk_special_keys(gg_tk *tk, gg_error *err);

/* ---- pre-tokenizers (pretokenizer.c) --------------------------------------------------------- */

/* A name that llama.cpp knows, and what the tokenizer.json of its models has. */
typedef struct gg_pre_row {
    const char *name;
    const char *archs;   /* architectures that have it, separated by spaces; NULL = all */
    const char *classes; /* of tokenizers without a tokenizer.json; NULL = none */
    const char *merges; /* "ignored": whole words that are tokens are not merged; NULL = they are */
    const char *differs; /* texts that the engine splits in another way; NULL = none are known */
    const char *steps;   /* one per line, see gg_pre_steps */
} gg_pre_row;
extern const gg_pre_row
    gg_pre_rows[]; /* tables.awk, from pretokenizers.txt; the last has no name */

/* Writes the steps of a pre-tokenizer of tokenizer.json, one per line:
 *     split REGEX          each match is a piece
 *     BEHAVIOR REGEX       the same with another behavior, or BEHAVIOR "TEXT"
 *     punctuation BEHAVIOR
 *     bytes                bytes become letters
 *     TYPE                 any other
 * Line ends and tabs in an expression are written as \r, \n and \t. */
gg_status gg_pre_steps(const gg_json_node *pre, gg_buf *steps, gg_error *err);

/* Sets tk->pre from the name that the caller gives, or else from these steps. */
gg_status gg_tk_choose_pre(gg_tk *tk, const char *steps, bool ignores_merges, gg_error *err);
