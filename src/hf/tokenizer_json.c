/* tokenizer_json.c - reads the tokens and merges of tokenizer.json, or of vocab.json and
 * merges.txt. */
#include "base/base64.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "hf.h"
#include "tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#define SPACE "\xe2\x96\x81" /* U+2581, which stands for a space */

/* ---- added tokens ---------------------------------------------------------------------------- */

static gg_status read_added(const gg_json_node *node, gg_tk_added *out, gg_error *err)
{
    *out = (gg_tk_added){ .special = gg_json_is_true(gg_json_get(node, "special")) };
    if (gg_json_string(gg_json_get(node, "content"), &out->text, &out->len, err) != GG_OK)
        return err->status;
    return gg_json_u64(gg_json_get(node, "id"), &out->id, err);
}

static gg_status add_all(gg_tk *tk, const gg_json_node *list, gg_error *err)
{
    gg_tk_added added;
    for (const gg_json_node *a = gg_json_first(list); a && err->status == GG_OK;
         a = gg_json_next(a))
        if (read_added(a, &added, err) == GG_OK) gg_tk_add(tk, &added, err);
    return err->status;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

gg_status gg_tk_count(const gg_json_node *vocab, const gg_json_node *added, uint64_t *n,
                      gg_error *err)
{
    uint64_t id;
    *n = 0;
    for (const gg_json_node *v = gg_json_first(vocab); v; v = gg_json_next(v)) {
        if (gg_json_u64(v, &id, err) != GG_OK) return err->status;
        if (id >= *n) *n = id < UINT64_MAX ? id + 1 : id;
    }
    for (const gg_json_node *a = gg_json_first(added); a; a = gg_json_next(a)) {
        if (gg_json_u64(gg_json_get(a, "id"), &id, err) != GG_OK) return err->status;
        if (id >= *n) *n = id < UINT64_MAX ? id + 1 : id;
    }
    return GG_OK;
}

/* Reads an object of texts and ids. */
static gg_status read_object(gg_tk *tk, const gg_json_node *vocab, const gg_json_node *added,
                             gg_error *err)
{
    uint64_t n, id;
    if (gg_json_type_of(vocab) != GG_JSON_OBJECT)
        return gg_fail(err, GG_EFORMAT, "the tokenizer's vocab is missing, or it is not an object");
    if (gg_tk_count(vocab, added, &n, err) != GG_OK ||
        gg_tk_room(tk, n, gg_json_count(vocab) + gg_json_count(added), err) != GG_OK)
        return err->status;
    for (const gg_json_node *v = gg_json_first(vocab); v; v = gg_json_next(v)) {
        gg_hf_token token = { .type = GG_TOKEN_NORMAL };
        token.text = gg_json_key(v, &token.len);
        if (gg_json_u64(v, &id, err) != GG_OK) return err->status;
        if (gg_tk_set(tk, id, &token, err) != GG_OK) return gg_at_offset(err, gg_json_offset(v));
    }
    return GG_OK;
}

/* What gg_tk_compare_json counts. */
typedef struct comparison {
    gg_tk *tk;
    uint8_t *seen; /* by id */
    size_t n, first;
    const char *text; /* of the first in tokenizer.json; NULL = it has none */
    size_t len;
} comparison;

static void compare_token(comparison *c, uint64_t id, const char *text, size_t len)
{
    const gg_hf_token *t = id < c->tk->n ? &c->tk->tokens[id] : NULL;
    if (t && c->seen[id]) return;
    if (t) c->seen[id] = 1;
    if (t && (text ? t->text && gg_tk_has_text(t, text, len) : !t->text)) return;
    if (c->n++ > 0) return;
    c->first = (size_t)id;
    c->text = text ? text : "";
    c->len = len;
}

gg_status gg_tk_compare_json(gg_tk *tk, gg_error *err)
{
    const gg_json_node *root = gg_json_root(tk->json),
                       *vocab = gg_json_get(gg_json_get(root, "model"), "vocab"),
                       *added = gg_json_get(root, "added_tokens");
    bool object = gg_json_type_of(vocab) == GG_JSON_OBJECT;
    comparison c = { .tk = tk };
    uint64_t id = 0, at = 0;
    if (gg_json_count(vocab) == 0) return GG_OK;
    if (!(c.seen = calloc(tk->n + 1, 1))) return gg_fail(err, GG_ENOMEM, "no memory for tokens");
    for (const gg_json_node *a = gg_json_first(added); a; a = gg_json_next(a)) {
        if (gg_json_u64(gg_json_get(a, "id"), &id, NULL) == GG_OK && id < tk->n) c.seen[id] = 1;
    }
    for (const gg_json_node *v = gg_json_first(vocab); v; v = gg_json_next(v), at++) {
        const char *text = NULL;
        size_t len = 0;
        id = at;
        if (object) text = gg_json_key(v, &len);
        else gg_json_string(gg_json_first(v), &text, &len, NULL);
        if (text && (!object || gg_json_u64(v, &id, NULL) == GG_OK))
            compare_token(&c, id, text, len);
    }
    for (id = 0; id < tk->n; id++) compare_token(&c, id, NULL, 0);
    free(c.seen);
    if (c.n == 0) return err->status;
    const gg_hf_token none = { .text = "" }, *t = c.first < tk->n ? &tk->tokens[c.first] : &none;
    if (!t->text) t = &none;
    return gg_tk_note(tk, err,
                      "tokenizer.json has other tokens than tokenizer.model, which is used: %zu "
                      "differ, such as token %zu, which is '%.*s' there and '%.*s' here",
                      c.n, c.first, c.len < 60 ? (int)c.len : 60, c.text,
                      t->len < 60 ? (int)t->len : 60, t->text);
}

/* Whether a token is <0x00> to <0xFF>, which stands for a byte. */
static bool is_byte(const gg_hf_token *t)
{
    return t->len == 6 && memcmp(t->text, "<0x", 3) == 0 && t->text[5] == '>' &&
           gg_hex_digit(t->text[3]) >= 0 && gg_hex_digit(t->text[4]) >= 0;
}

static void mark_bytes(gg_tk *tk)
{
    for (size_t i = 0; i < tk->n; i++)
        if (tk->tokens[i].text && is_byte(&tk->tokens[i])) tk->tokens[i].type = GG_TOKEN_BYTE;
}

/* ---- merges ---------------------------------------------------------------------------------- */

typedef struct pair {
    const char *text[2];
    size_t len[2];
} pair;

/* Splits "a b" at its first space, which does not begin it. */
static bool split_pair(const char *s, size_t n, pair *out)
{
    const char *space = n > 1 ? memchr(s + 1, ' ', n - 1) : NULL;
    if (!space || space + 1 == s + n) return false;
    *out = (pair){ { s, space + 1 }, { (size_t)(space - s), n - (size_t)(space + 1 - s) } };
    return true;
}

static gg_status read_pair(const gg_json_node *node, pair *out, gg_error *err)
{
    const char *s;
    size_t n;
    const gg_json_node *first = gg_json_first(node), *second = gg_json_next(first);
    if (gg_json_type_of(node) == GG_JSON_ARRAY && gg_json_count(node) == 2) {
        gg_json_string(first, &out->text[0], &out->len[0], err);
        return gg_json_string(second, &out->text[1], &out->len[1], err);
    }
    if (gg_json_string(node, &s, &n, err) != GG_OK) return err->status;
    if (split_pair(s, n, out)) return GG_OK;
    return gg_fail_at(gg_json_offset(node), err, "a merge is not two texts");
}

/* Merges while they are read, and what is wrong with them. */
typedef struct merges {
    gg_tk *tk;
    gg_buf joined; /* scratch */
    bool keep;     /* they are written */
    size_t missing, produced;
    pair first; /* of those that are missing */
} merges;

/* Adds a merge. The tokens that merges make get scores that fall in their order, which is how a
 * SentencePiece model ranks them. */
static gg_status add_merge(merges *m, const pair *p, gg_error *err)
{
    gg_tk *tk = m->tk;
    gg_buf_clear(&m->joined);
    gg_buf_append(&m->joined, p->text[0], p->len[0], err);
    if (gg_buf_append(&m->joined, p->text[1], p->len[1], err) != GG_OK) return err->status;
    size_t id = gg_tk_find(tk, m->joined.data, m->joined.len);
    bool known = id != SIZE_MAX && gg_tk_find(tk, p->text[0], p->len[0]) != SIZE_MAX &&
                 gg_tk_find(tk, p->text[1], p->len[1]) != SIZE_MAX;
    if (!known && m->missing++ == 0) m->first = *p;
    if (known && tk->scores && tk->tokens[id].score > 0)
        tk->tokens[id].score = (float)-(int64_t)m->produced++;
    return m->keep ? gg_tk_add_merge(tk, p->text, p->len, err) : GG_OK;
}

/* Notes merges that name no token, and gives scores to tokens that none makes. */
static gg_status end_merges(merges *m, gg_error *err)
{
    gg_tk *tk = m->tk;
    gg_buf_free(&m->joined);
    for (size_t i = 0; i < tk->n && tk->scores; i++) {
        gg_hf_token *t = &tk->tokens[i];
        if (t->text && t->score > 0)
            t->score = t->type == GG_TOKEN_NORMAL ? -(float)(m->produced + i) : 0;
    }
    if (m->missing == 0 || err->status != GG_OK) return err->status;
    return gg_tk_note(tk, err,
                      "%zu merges name a token that the vocabulary lacks; the first is "
                      "'%.*s %.*s'",
                      m->missing, m->first.len[0] < 60 ? (int)m->first.len[0] : 60,
                      m->first.text[0], m->first.len[1] < 60 ? (int)m->first.len[1] : 60,
                      m->first.text[1]);
}

static gg_status read_merges(gg_tk *tk, const gg_json_node *list, bool keep, gg_error *err)
{
    merges m = { .tk = tk, .keep = keep };
    pair p;
    for (size_t i = 0; i < tk->n && tk->scores; i++) tk->tokens[i].score = 1; /* none yet */
    if (gg_json_count(list) == 0) gg_tk_note(tk, err, "tokenizer.json has no merges");
    for (const gg_json_node *n = gg_json_first(list); n && err->status == GG_OK;
         n = gg_json_next(n))
        if (read_pair(n, &p, err) == GG_OK) add_merge(&m, &p, err);
    return end_merges(&m, err);
}

/* ---- normalizers ----------------------------------------------------------------------------- */

/* Unless there was an error, calls fn for a normalizer or pre-tokenizer, or for each of a sequence.
 */
typedef gg_status part_fn(gg_tk *tk, const gg_json_node *part, gg_error *err);
static gg_status each_part(gg_tk *tk, const gg_json_node *node, const char *list, part_fn *fn,
                           gg_error *err)
{
    const gg_json_node *parts = gg_json_get(node, list);
    bool sequence = gg_json_is(gg_json_get(node, "type"), "Sequence");
    if (err->status != GG_OK || gg_json_type_of(node) <= GG_JSON_NULL) return err->status;
    if (gg_json_type_of(node) != GG_JSON_OBJECT ||
        (sequence && gg_json_type_of(parts) != GG_JSON_ARRAY))
        return gg_fail_at(gg_json_offset(node), err, "a step of the tokenizer is not an object");
    if (!sequence) return fn(tk, node, err);
    for (const gg_json_node *p = gg_json_first(parts); p; p = gg_json_next(p))
        each_part(tk, p, list, fn, err);
    return err->status;
}

/* What engines do with a SentencePiece vocabulary: spaces become U+2581. */
static bool is_space_replaced(const gg_json_node *n)
{
    return gg_json_is(gg_json_get(n, "type"), "Replace") &&
           gg_json_is(gg_json_get(n, "content"), SPACE) &&
           gg_json_is(gg_json_get(gg_json_get(n, "pattern"), "String"), " ");
}

/* Whether a space, as U+2581, is put before each text. */
static bool is_prefix(const gg_json_node *n)
{
    return gg_json_is(gg_json_get(n, "type"), "Prepend") &&
           gg_json_is(gg_json_get(n, "prepend"), SPACE);
}

static const char lowercase_key[] = "tokenizer.ggml.normalizer.lowercase";

static gg_status note_normalizer(gg_tk *tk, const gg_json_node *n, gg_error *err)
{
    const gg_json_node *type = gg_json_get(n, "type");
    const char *name;
    size_t len;
    bool pieces = strcmp(tk->model, "gpt2") != 0;
    if (gg_json_string(type, &name, &len, err) != GG_OK) return err->status;
    if (pieces && is_space_replaced(n)) tk->spaces = true;
    if (pieces && (is_space_replaced(n) || is_prefix(n))) return GG_OK;
    if (gg_json_is(type, "Lowercase") &&
        gg_meta_set_bool(tk->meta, lowercase_key, true, err) != GG_OK)
        return err->status;
    return gg_tk_note(tk, err,
                      "the tokenizer changes text before it is split (%.*s), which engines do not "
                      "do: text that is changed gets other tokens",
                      len < 40 ? (int)len : 40, name);
}

static gg_status note_steps(gg_tk *tk, const char *name, size_t len, gg_error *err)
{
    return gg_tk_note(tk, err,
                      "the tokenizer splits a text before its pieces are joined (%.*s), which "
                      "engines do not do with such a vocabulary",
                      len < 40 ? (int)len : 40, name);
}

/* Steps that engines do not take with a vocabulary of pieces. Metaspace takes spaces for U+2581; to
 * split at spaces changes nothing if no piece has one inside. */
static gg_status note_pieces(gg_tk *tk, const gg_json_node *pre, gg_error *err)
{
    const gg_json_node *type = gg_json_get(pre, "type"),
                       *replacement = gg_json_get(pre, "replacement");
    const char *name;
    size_t len;
    if (gg_json_string(type, &name, &len, err) != GG_OK) return err->status;
    if (gg_json_is(type, "Metaspace")) {
        tk->spaces = true;
        if (!replacement || gg_json_is(replacement, SPACE)) return GG_OK;
        return gg_fail_at(gg_json_offset(replacement), err,
                          "its pieces have another letter than U+2581 for a space, which engines "
                          "do not know");
    }
    bool split = gg_json_is(type, "Split") &&
                 gg_json_is(gg_json_get(gg_json_get(pre, "pattern"), "String"), " ") &&
                 !gg_json_is(gg_json_get(pre, "behavior"), "Removed") &&
                 !gg_json_is_true(gg_json_get(pre, "invert"));
    if (split || gg_json_is(type, "WhitespaceSplit")) return GG_OK;
    return note_steps(tk, name, len, err);
}

static gg_status note_all_pieces(gg_tk *tk, gg_error *err)
{
    const gg_json_node *pre = gg_json_get(gg_json_root(tk->json), "pre_tokenizer");
    if (each_part(tk, pre, "pretokenizers", note_pieces, err) == GG_OK && !tk->spaces)
        gg_tk_note(tk, err, "the tokenizer does not write spaces as U+2581, but engines do");
    return err->status;
}

static gg_status note_pre(gg_tk *tk, const gg_json_node *pre, gg_error *err)
{
    if (gg_json_is(gg_json_get(pre, "type"), "ByteLevel") &&
        gg_json_is_true(gg_json_get(pre, "add_prefix_space")))
        gg_tk_note(tk, err, "the tokenizer puts a space before each text, which engines do not do");
    return err->status;
}

/* ---- the kinds of models --------------------------------------------------------------------- */

static gg_status read_byte_bpe(gg_tk *tk, const gg_json_node *model, gg_error *err)
{
    const gg_json_node *root = gg_json_root(tk->json), *pre = gg_json_get(root, "pre_tokenizer");
    gg_buf steps = GG_BUF_INIT;
    tk->model = "gpt2";
    if (gg_pre_steps(pre, &steps, err) == GG_OK)
        gg_tk_choose_pre(tk, steps.data ? steps.data : "",
                         gg_json_is_true(gg_json_get(model, "ignore_merges")), err);
    gg_buf_free(&steps);
    if (err->status == GG_OK) read_merges(tk, gg_json_get(model, "merges"), true, err);
    each_part(tk, gg_json_get(root, "normalizer"), "normalizers", note_normalizer, err);
    return each_part(tk, pre, "pretokenizers", note_pre, err);
}

/* Whether a space is put before each text. */
static gg_status find_prefix(gg_tk *tk, const gg_json_node *part, gg_error *err)
{
    const gg_json_node *type = gg_json_get(part, "type"),
                       *scheme = gg_json_get(part, "prepend_scheme"),
                       *flag = gg_json_get(part, "add_prefix_space");
    bool stated = gg_json_type_of(scheme) > GG_JSON_NULL,
         meta = gg_json_is(type, "Metaspace") && !gg_json_is(scheme, "never") &&
                (stated || !flag || gg_json_is_true(flag));
    if (stated && !gg_json_is(scheme, "never") && !gg_json_is(scheme, "first") &&
        !gg_json_is(scheme, "always"))
        return gg_fail_at(gg_json_offset(scheme), err, "this prepend_scheme is unknown");
    if (!is_prefix(part) && !meta) return GG_OK;
    return gg_meta_set_bool(tk->meta, "tokenizer.ggml.add_space_prefix", true, err);
}

/* BPE that falls back to bytes is what llama.cpp calls SPM. */
static gg_status read_piece_bpe(gg_tk *tk, const gg_json_node *model, gg_error *err)
{
    const gg_json_node *root = gg_json_root(tk->json);
    bool own = gg_hf_is(tk->from->arch, GG_HF_OWN_MERGES);
    tk->model = own ? tk->from->arch : "llama";
    tk->pre = tk->from->pre ? tk->from->pre : "default";
    tk->scores = true;
    mark_bytes(tk);
    read_merges(tk, gg_json_get(model, "merges"), own, err);
    gg_meta_set_bool(tk->meta, "tokenizer.ggml.add_space_prefix", false, err);
    each_part(tk, gg_json_get(root, "normalizer"), "normalizers", find_prefix, err);
    each_part(tk, gg_json_get(root, "pre_tokenizer"), "pretokenizers", find_prefix, err);
    each_part(tk, gg_json_get(root, "normalizer"), "normalizers", note_normalizer, err);
    return err->status == GG_OK ? note_all_pieces(tk, err) : err->status;
}

/* Keys that the normalizers of a Unigram model give. */
static gg_status read_unigram_normalizer(gg_tk *tk, const gg_json_node *n, gg_error *err)
{
    const gg_json_node *map = gg_json_get(n, "precompiled_charsmap");
    const char *text;
    size_t len;
    if (gg_json_is(gg_json_get(n, "type"), "Replace") &&
        gg_json_is(gg_json_get(gg_json_get(n, "pattern"), "Regex"), " {2,}"))
        return gg_meta_set_bool(tk->meta, "tokenizer.ggml.remove_extra_whitespaces", true, err);
    if (!map) return note_normalizer(tk, n, err);
    if (gg_json_string(map, &text, &len, err) != GG_OK) return err->status;
    uint8_t *bytes = malloc(len / 4 * 3 + 4);
    gg_kv kv = { .key = "tokenizer.ggml.precompiled_charsmap",
                 .type = GG_TYPE_ARR,
                 .elem_type = GG_TYPE_U8,
                 .data = bytes };
    kv.key_len = strlen(kv.key);
    if (!bytes) return gg_fail(err, GG_ENOMEM, "no memory for a table of letters");
    if (gg_base64_decode(text, len, bytes, &kv.size)) {
        kv.count = kv.size;
        gg_meta_set(tk->meta, &kv, err);
    } else gg_fail_at(gg_json_offset(map), err, "the precompiled_charsmap is not base64");
    free(bytes);
    return err->status;
}

static gg_status read_unigram(gg_tk *tk, const gg_json_node *model, gg_error *err)
{
    const gg_json_node *root = gg_json_root(tk->json), *vocab = gg_json_get(model, "vocab");
    uint64_t n, id = 0, unknown = UINT64_MAX;
    if (gg_tk_count(NULL, gg_json_get(root, "added_tokens"), &n, err) != GG_OK) return err->status;
    if (gg_json_count(vocab) > n) n = gg_json_count(vocab);
    if (gg_tk_room(tk, n, gg_json_count(vocab), err) != GG_OK) return err->status;
    gg_json_u64(gg_json_get(model, "unk_id"), &unknown, NULL);
    for (const gg_json_node *v = gg_json_first(vocab); v && err->status == GG_OK;
         v = gg_json_next(v), id++) {
        gg_hf_token token = { .type = id == unknown ? GG_TOKEN_UNKNOWN : GG_TOKEN_NORMAL };
        gg_json_string(gg_json_first(v), &token.text, &token.len, err);
        if (gg_json_f32(gg_json_next(gg_json_first(v)), &token.score, err) == GG_OK)
            gg_tk_set(tk, id, &token, err);
    }
    if (gg_json_is_true(gg_json_get(model, "byte_fallback"))) mark_bytes(tk);
    tk->model = "t5";
    tk->pre = tk->from->pre ? tk->from->pre : "default";
    tk->scores = true;
    gg_meta_set_bool(tk->meta, "tokenizer.ggml.add_space_prefix", false, err);
    each_part(tk, gg_json_get(root, "pre_tokenizer"), "pretokenizers", find_prefix, err);
    each_part(tk, gg_json_get(root, "normalizer"), "normalizers", read_unigram_normalizer, err);
    return err->status == GG_OK ? note_all_pieces(tk, err) : err->status;
}

static bool is_false(const gg_json_node *node)
{
    return gg_json_type_of(node) == GG_JSON_BOOL && !gg_json_is_true(node);
}

static const char accents_key[] = "tokenizer.ggml.normalizer.strip_accents";

/* Engines make letters small unless a key says otherwise, and then strip accents unless another one
 * does. */
static gg_status read_word_normalizer(gg_tk *tk, const gg_json_node *n, gg_error *err)
{
    const gg_json_node *type = gg_json_get(n, "type"), *lower = gg_json_get(n, "lowercase"),
                       *accents = gg_json_get(n, "strip_accents");
    bool small = !lower || gg_json_is_true(lower);
    if (gg_json_is(type, "Lowercase")) return gg_meta_set_bool(tk->meta, lowercase_key, true, err);
    if (gg_json_is(type, "StripAccents")) return gg_meta_set_bool(tk->meta, accents_key, true, err);
    if (gg_json_is(type, "NFD")) return GG_OK;
    if (!gg_json_is(type, "BertNormalizer")) return note_normalizer(tk, n, err);
    gg_meta_delete(tk->meta, accents_key);
    gg_meta_set_bool(tk->meta, lowercase_key, small, err);
    if (err->status == GG_OK && gg_json_type_of(accents) == GG_JSON_BOOL &&
        gg_json_is_true(accents) != small)
        gg_meta_set_bool(tk->meta, accents_key, !small, err);
    if (err->status == GG_OK && (is_false(gg_json_get(n, "clean_text")) ||
                                 is_false(gg_json_get(n, "handle_chinese_chars"))))
        gg_tk_note(tk, err,
                   "the tokenizer keeps control characters, or does not split at Chinese letters, "
                   "but engines do otherwise");
    return err->status;
}

static gg_status note_words(gg_tk *tk, const gg_json_node *pre, gg_error *err)
{
    const char *name;
    size_t len;
    if (gg_json_string(gg_json_get(pre, "type"), &name, &len, err) != GG_OK) return err->status;
    return gg_text_is(name, len, "BertPreTokenizer") ? GG_OK : note_steps(tk, name, len, err);
}

/* Words begin with U+2581 in llama.cpp, and their other pieces have no ##. */
static gg_status read_word_pieces(gg_tk *tk, gg_error *err)
{
    const gg_json_node *root = gg_json_root(tk->json),
                       *inner = gg_json_get(gg_json_get(root, "model"),
                                            "continuing_subword_prefix");
    gg_buf text = GG_BUF_INIT;
    if (gg_json_type_of(inner) > GG_JSON_NULL && !gg_json_is(inner, "##"))
        return gg_fail_at(
            gg_json_offset(inner), err,
            "tokens inside of a word begin with something else than ##, which engines "
            "do not know");
    tk->model = "bert";
    tk->pre = tk->from->pre ? tk->from->pre : "default";
    for (size_t i = 0; i < tk->n && err->status == GG_OK; i++) {
        gg_hf_token *t = &tk->tokens[i];
        if (!t->text || t->type == GG_TOKEN_CONTROL) continue;
        if (gg_text_begins(t->text, t->len, "##")) {
            t->text += 2;
            t->len -= 2;
            continue;
        }
        gg_buf_clear(&text);
        gg_buf_text(&text, SPACE, err);
        if (gg_buf_append(&text, t->text, t->len, err) != GG_OK) break;
        t->text = gg_names_add(&tk->names, text.data, t->len = text.len, err);
    }
    gg_buf_free(&text);
    gg_meta_set_bool(tk->meta, lowercase_key, false, err);
    gg_meta_set_bool(tk->meta, accents_key, false, err);
    each_part(tk, gg_json_get(root, "normalizer"), "normalizers", read_word_normalizer, err);
    each_part(tk, gg_json_get(root, "pre_tokenizer"), "pretokenizers", note_words, err);
    if (err->status == GG_OK && gg_json_type_of(gg_json_get(root, "pre_tokenizer")) < GG_JSON_BOOL)
        note_steps(tk, "not at all", 10, err);
    return err->status;
}

static gg_status refuse_affix(const gg_json_node *model, const char *name, gg_error *err)
{
    const char *text;
    size_t len;
    if (gg_json_string(gg_json_get(model, name), &text, &len, NULL) != GG_OK || len == 0)
        return err->status;
    return gg_fail(err, GG_EUNSUPPORTED, "its tokens have a %s, which engines do not know", name);
}

static gg_status read_bpe(gg_tk *tk, const gg_json_node *model, gg_error *err)
{
    const gg_json_node *added = gg_json_get(gg_json_root(tk->json), "added_tokens");
    bool fallback = gg_json_is_true(gg_json_get(model, "byte_fallback"));
    refuse_affix(model, "continuing_subword_prefix", err);
    refuse_affix(model, "end_of_word_suffix", err);
    if (err->status == GG_OK) read_object(tk, gg_json_get(model, "vocab"), added, err);
    if (err->status == GG_OK) gg_tk_index(tk, err);
    if (err->status != GG_OK) return err->status;
    return fallback ? read_piece_bpe(tk, model, err) : read_byte_bpe(tk, model, err);
}

/* Refuses truth values that are something else, which would be taken for false. */
static gg_status check_flags(const gg_json_node *node, gg_error *err)
{
    static const char flags[] = "special add_prefix_space use_regex individual_digits invert "
                                "byte_fallback ignore_merges lowercase strip_accents clean_text "
                                "handle_chinese_chars";
    for (const gg_json_node *n = gg_json_first(node); n && err->status == GG_OK;
         n = gg_json_next(n)) {
        size_t len = 0;
        const char *key = gg_json_key(n, &len);
        gg_json_type type = gg_json_type_of(n);
        if (key && gg_text_has_word("vocab merges", key, len)) continue;
        if (key && type > GG_JSON_BOOL && gg_text_has_word(flags, key, len))
            gg_fail_at(gg_json_offset(n), err, "%.*s is neither true nor false", (int)len, key);
        else check_flags(n, err);
    }
    return err->status;
}

gg_status gg_tk_read_json(gg_tk *tk, gg_error *err)
{
    const gg_json_node *root = gg_json_root(tk->json), *model = gg_json_get(root, "model"),
                       *type = gg_json_get(model, "type"),
                       *added = gg_json_get(root, "added_tokens");
    if (check_flags(root, err) != GG_OK) return err->status;
    if (gg_json_type_of(added) > GG_JSON_NULL && gg_json_type_of(added) != GG_JSON_ARRAY)
        return gg_fail_at(gg_json_offset(added), err, "added_tokens is not an array");
    if (gg_json_is(type, "WordPiece")) {
        read_object(tk, gg_json_get(model, "vocab"), added, err);
        if (err->status == GG_OK) add_all(tk, added, err);
        return err->status == GG_OK ? read_word_pieces(tk, err) : err->status;
    }
    if (gg_json_is(type, "BPE") || (!type && gg_json_get(model, "merges")))
        read_bpe(tk, model, err);
    else if (gg_json_is(type, "Unigram")) read_unigram(tk, model, err);
    else
        gg_fail(err, GG_EUNSUPPORTED,
                "tokenizer.json has no model of a kind that engines know: BPE, Unigram, WordPiece");
    return err->status == GG_OK ? add_all(tk, added, err) : err->status;
}

/* ---- vocab.json and merges.txt --------------------------------------------------------------- */

/* The class of the tokenizer tells, for lack of a tokenizer.json. */
static gg_status choose_by_class(gg_tk *tk, gg_error *err)
{
    const gg_json_node *class = gg_json_get(gg_json_root(tk->config), "tokenizer_class");
    const char *name = NULL;
    size_t len = 0;
    tk->pre = tk->from->pre;
    gg_json_string(class, &name, &len, NULL);
    for (const gg_pre_row *row = gg_pre_rows; row->name && name && !tk->pre; row++)
        if (row->classes && gg_text_has_word(row->classes, name, len)) tk->pre = row->name;
    if (tk->pre) return GG_OK;
    gg_fail(err, GG_EUNSUPPORTED,
            "vocab.json does not say how text is split before its merges are applied");
    return gg_fix_by(err, "pre", "name the pre-tokenizer that the model's family has");
}

/* A line of merges.txt: two words. Others are skipped. */
static bool line_pair(const char *s, size_t n, pair *out)
{
    static const char spaces[] = " \t\r";
    while (n && memchr(spaces, s[n - 1], 3)) n--;
    while (n && memchr(spaces, *s, 3)) {
        s++;
        n--;
    }
    return split_pair(s, n, out) && !memchr(out->text[1], ' ', out->len[1]);
}

gg_status gg_tk_read_vocab(gg_tk *tk, const char *text, size_t len, gg_error *err)
{
    const gg_json_node *vocab = gg_json_root(tk->vocab);
    merges m = { .tk = tk, .keep = true };
    size_t skipped = 0;
    pair p;
    tk->model = "gpt2";
    if (read_object(tk, vocab, NULL, err) != GG_OK || choose_by_class(tk, err) != GG_OK ||
        gg_tk_index(tk, err) != GG_OK)
        return err->status;
    for (const char *s = text, *end = text + len; s < end && err->status == GG_OK;) {
        const char *line = memchr(s, '\n', (size_t)(end - s));
        size_t n = line ? (size_t)(line - s) : (size_t)(end - s);
        bool head = s == text && gg_text_begins(s, n, "#version");
        if (!head && line_pair(s, n, &p)) add_merge(&m, &p, err);
        else if (!head && n > 0) skipped++;
        s += n + 1;
    }
    end_merges(&m, err);
    if (skipped && err->status == GG_OK)
        gg_tk_note(tk, err, "%zu lines of merges.txt are not two words and are left out", skipped);
    return err->status;
}
