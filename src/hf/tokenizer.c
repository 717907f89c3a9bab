/* tokenizer.c - which files of a checkpoint have its tokenizer, and the keys of its tokens. */
#include "tokenizer.h"
#include "hf.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/float_bits.h"
#include "gguf/gguf.h"
#include "hf_files.h"
#include "tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fills ids without a token as the converter does, with texts that no token has. */
static gg_status fill_holes(gg_tk *tk, gg_error *err)
{
    size_t inside = 0, last = tk->n;
    char text[32];
    if (gg_tk_index(tk, err) != GG_OK) return err->status;
    while (last > 0 && !tk->tokens[last - 1].text) last--;
    for (size_t i = 0, number; i < tk->n; i++) {
        gg_hf_token *t = &tk->tokens[i];
        if (t->text) continue;
        if (i < last) inside++;
        number = i;
        do t->len = (size_t)snprintf(text, sizeof text, "[PAD%zu]", number);
        while (gg_tk_find(tk, text, t->len) != SIZE_MAX && (number += tk->n));
        t->type = GG_TOKEN_UNUSED;
        t->score = -10000;
        if (!(t->text = gg_names_add(&tk->names, text, t->len, err))) return err->status;
    }
    if (inside)
        gg_tk_note(tk, err, "%zu ids below %zu have no token; they get unused ones", inside, last);
    if (last < tk->n)
        gg_tk_note(tk, err,
                   "the tokenizer has %zu tokens for %zu rows of the embeddings: the last %zu rows "
                   "get unused tokens",
                   last, tk->n, tk->n - last);
    if (tk->replaced > 1)
        gg_tk_note(tk, err, "%zu tokens have the text of an added token with their id",
                   tk->replaced);
    return err->status;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Sets the arrays of texts, scores and types. */
static gg_status set_tokens(gg_tk *tk, gg_error *err)
{
    gg_buf texts = GG_BUF_INIT, scores = GG_BUF_INIT, types = GG_BUF_INIT;
    for (size_t i = 0; i < tk->n && err->status == GG_OK; i++) {
        const gg_hf_token *t = &tk->tokens[i];
        uint8_t bytes[4];
        gg_array_add_str(&texts, t->text, t->len, err);
        gg_put_le32(bytes, gg_float_bits(t->score));
        if (tk->scores) gg_buf_append(&scores, bytes, 4, err);
        gg_put_le32(bytes, (uint32_t)t->type);
        gg_buf_append(&types, bytes, 4, err);
    }
    gg_meta_set_array(tk->meta, "tokenizer.ggml.tokens", GG_TYPE_STR, tk->n, &texts, err);
    gg_buf_free(&texts);
    if (tk->scores)
        gg_meta_set_array(tk->meta, "tokenizer.ggml.scores", GG_TYPE_F32, tk->n, &scores, err);
    gg_meta_set_array(tk->meta, "tokenizer.ggml.token_type", GG_TYPE_I32, tk->n, &types, err);
    if (tk->n_merges)
        gg_meta_set_array(tk->meta, "tokenizer.ggml.merges", GG_TYPE_STR, tk->n_merges, &tk->merges,
                          err);
    gg_buf_free(&scores);
    gg_buf_free(&types);
    return err->status;
}

static gg_status set_keys(gg_tk *tk, gg_error *err)
{
    if (fill_holes(tk, err) != GG_OK) return err->status;
    gg_meta_set_str(tk->meta, "tokenizer.ggml.model", tk->model, strlen(tk->model), err);
    if (err->status == GG_OK && tk->pre)
        gg_meta_set_str(tk->meta, "tokenizer.ggml.pre", tk->pre, strlen(tk->pre), err);
    if (err->status == GG_OK) set_tokens(tk, err);
    return err->status == GG_OK ? gg_tk_special_keys(tk, err) : err->status;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Parses a file of the folder; *out stays NULL if it is absent. */
static gg_status read_json(const char *folder, const char *name, gg_json **out, gg_error *err)
{
    if (err->status != GG_OK || !gg_hf_has_file(folder, name, err)) return err->status;
    return gg_hf_parse(folder, name, out, err);
}

bool gg_hf_has_tokenizer(const char *folder, gg_error *err)
{
    return gg_hf_has_file(folder, "tokenizer.json", err) ||
           gg_hf_has_file(folder, "tokenizer.model", err) ||
           (gg_hf_has_file(folder, "vocab.json", err) && gg_hf_has_file(folder, "merges.txt", err));
}

gg_status gg_hf_count_tokens(const char *folder, uint64_t *n, gg_error *err)
{
    gg_json *json = NULL;
    *n = 0;
    if (read_json(folder, "tokenizer.json", &json, err) != GG_OK || !json) return err->status;
    const gg_json_node *root = gg_json_root(json),
                       *vocab = gg_json_get(gg_json_get(root, "model"), "vocab");
    gg_tk_count(vocab, gg_json_get(root, "added_tokens"), n, err);
    gg_json_free(json);
    return err->status;
}

/* ---- added tokens of other files ------------------------------------------------------------- */

/* added_tokens.json: an object of texts and ids. */
static gg_status add_listed(gg_tk *tk, gg_error *err)
{
    const gg_json_node *list = gg_json_root(tk->added);
    for (const gg_json_node *a = gg_json_first(list); a && err->status == GG_OK;
         a = gg_json_next(a)) {
        gg_tk_added added = { .special = false };
        added.text = gg_json_key(a, &added.len);
        if (!added.text) return gg_fail(err, GG_EFORMAT, "added_tokens.json is not an object");
        if (gg_json_u64(a, &added.id, err) == GG_OK) gg_tk_add(tk, &added, err);
    }
    return err->status;
}

/* The added_tokens_decoder of tokenizer_config.json: an object of ids and tokens. */
static gg_status add_decoded(gg_tk *tk, bool only_new, gg_error *err)
{
    const gg_json_node *list = tk->config
                                   ? gg_json_get(gg_json_root(tk->config), "added_tokens_decoder")
                                   : NULL;
    size_t others = 0;
    gg_tk_added first = { 0 };
    if (gg_json_type_of(list) > GG_JSON_NULL && gg_json_type_of(list) != GG_JSON_OBJECT)
        return gg_fail_at(gg_json_offset(list), err, "added_tokens_decoder is not an object");
    for (const gg_json_node *a = gg_json_first(list); a && err->status == GG_OK;
         a = gg_json_next(a)) {
        gg_tk_added added = { .special = false };
        size_t n, used = 0;
        const char *key = gg_json_key(a, &n);
        while (used < n && used < 10 && key[used] >= '0' && key[used] <= '9')
            added.id = added.id * 10 + (uint64_t)(key[used++] - '0');
        if (n == 0 || used < n)
            return gg_fail_at(gg_json_offset(a), err,
                              "added_tokens_decoder has a key that is not "
                              "the id of a token");
        const gg_json_node *special = gg_json_get(a, "special");
        if (gg_json_bool(special, &added.special, NULL) != GG_OK &&
            gg_json_type_of(special) > GG_JSON_NULL)
            return gg_fail_at(gg_json_offset(special), err, "special is neither true nor false");
        if (gg_json_string(gg_json_get(a, "content"), &added.text, &added.len, err) != GG_OK) break;
        const gg_hf_token *t = added.id < tk->n ? &tk->tokens[added.id] : NULL;
        if (!only_new || !t || !t->text || t->type == GG_TOKEN_NORMAL) gg_tk_add(tk, &added, err);
        else if (!gg_tk_has_text(t, added.text, added.len) && others++ == 0) first = added;
    }
    if (others && err->status == GG_OK)
        gg_tk_note(tk, err,
                   "tokenizer_config.json has another text for %zu added tokens, which is not "
                   "used: token %llu is '%.*s' there and '%.*s' here",
                   others, (unsigned long long)first.id, first.len < 60 ? (int)first.len : 60,
                   first.text, tk->tokens[first.id].len < 60 ? (int)tk->tokens[first.id].len : 60,
                   tk->tokens[first.id].text);
    return err->status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Reads the added tokens that belong to a SentencePiece model, in the converter's order. */
static gg_status add_to_pieces(gg_tk *tk, gg_error *err)
{
    bool decoder = gg_json_get(gg_json_root(tk->config), "added_tokens_decoder") != NULL;
    if (add_listed(tk, err) != GG_OK) return gg_hf_at(tk->from->folder, "added_tokens.json", err);
    if (add_decoded(tk, false, err) != GG_OK)
        return gg_hf_at(tk->from->folder, "tokenizer_config.json", err);
    if (decoder && !gg_hf_is(tk->from->arch, GG_HF_ADDED_TOKENS)) return GG_OK;
    const gg_json_node *list = gg_json_get(gg_json_root(tk->json), "added_tokens");
    for (const gg_json_node *a = gg_json_first(list); a && err->status == GG_OK;
         a = gg_json_next(a)) {
        gg_tk_added added = { .special = false };
        gg_json_bool(gg_json_get(a, "special"), &added.special, NULL);
        gg_json_u64(gg_json_get(a, "id"), &added.id, err);
        if (gg_json_string(gg_json_get(a, "content"), &added.text, &added.len, err) == GG_OK)
            gg_tk_add(tk, &added, err);
    }
    return gg_hf_at(tk->from->folder, "tokenizer.json", err);
}

/* Reads the tokens from the first of the files that the folder has. */
static gg_status read_tokens(gg_tk *tk, gg_error *err)
{
    const char *folder = tk->from->folder;
    size_t len = 0;
    if (gg_hf_read(folder, "tokenizer.model", &tk->bytes, &len, err) != GG_OK) return err->status;
    if (tk->bytes &&
        (gg_tk_is_sp(tk->bytes, len) || !gg_hf_has_file(folder, "tokenizer.json", err))) {
        read_json(folder, "tokenizer.json", &tk->json, err);
        if (err->status == GG_OK) gg_tk_read_sp(tk, tk->bytes, len, err);
        gg_hf_at(tk->from->folder, "tokenizer.model", err);
        if (err->status == GG_OK) gg_tk_compare_json(tk, err);
        return err->status == GG_OK ? add_to_pieces(tk, err) : err->status;
    }
    if (gg_hf_has_file(folder, "tokenizer.json", err)) {
        read_json(folder, "tokenizer.json", &tk->json, err);
        if (err->status == GG_OK) gg_tk_read_json(tk, err);
        gg_hf_at(tk->from->folder, "tokenizer.json", err);
    } else {
        free(tk->bytes);
        tk->bytes = NULL;
        read_json(folder, "vocab.json", &tk->vocab, err);
        if (err->status == GG_OK) gg_hf_read(folder, "merges.txt", &tk->bytes, &len, err);
        if (err->status == GG_OK && (!tk->vocab || !tk->bytes))
            return gg_fail(err, GG_EUNSUPPORTED, "the checkpoint has no files of a tokenizer");
        if (err->status == GG_OK) gg_tk_read_vocab(tk, tk->bytes, len, err);
        gg_hf_at(tk->from->folder, "vocab.json", err);
        if (err->status == GG_OK) add_listed(tk, err);
        gg_hf_at(tk->from->folder, "added_tokens.json", err);
    }
    if (err->status == GG_OK) add_decoded(tk, true, err);
    return gg_hf_at(tk->from->folder, "tokenizer_config.json", err);
}

gg_status gg_hf_tokenizer(const gg_hf_tokenizer_from *from, gg_meta *meta, gg_buf *notes,
                          gg_error *err)
{
    gg_tk tk = { .from = from, .meta = meta, .notes = notes };
    read_json(from->folder, "tokenizer_config.json", &tk.config, err);
    read_json(from->folder, "special_tokens_map.json", &tk.map, err);
    read_json(from->folder, "added_tokens.json", &tk.added, err);
    read_json(from->folder, "generation_config.json", &tk.generation, err);
    if (err->status == GG_OK) read_tokens(&tk, err);
    if (err->status == GG_OK) set_keys(&tk, err);
    gg_tk_end_notes(&tk, err);
    gg_json_free(tk.json);
    gg_json_free(tk.config);
    gg_json_free(tk.map);
    gg_json_free(tk.added);
    gg_json_free(tk.generation);
    gg_json_free(tk.vocab);
    gg_names_free(&tk.names);
    gg_buf_free(&tk.merges);
    free(tk.bytes);
    free(tk.tokens);
    gg_text_index_free(&tk.by_text);
    if (err->status == GG_EUNSUPPORTED)
        gg_fix_by(err, "vocab-from", "take the vocabulary of a converted model");
    return gg_at_file(err, from->folder);
}
