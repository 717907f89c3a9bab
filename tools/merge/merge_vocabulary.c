/* merge_vocabulary.c - shows models with different vocabularies with one: the tokens that it has,
 * and the rows of each model. */
#include "merging.h"

#include "base/grow.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "write/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct showing {
    const gg_merge_vocabulary *what;
    gg_source *const *models;
    size_t n;
    bool based;
    gg_vocab *own;   /* of each model */
    gg_vocab chosen; /* of another model, if one is chosen */
    gg_meta words;   /* the keys of the new vocabulary */
    gg_vocab target;
    /* Its tokens, while they are listed, and the models that added tokens come from. */
    gg_vocab_token *tokens;
    uint32_t *owner;
    size_t n_tokens, padded; /* padded: tokens before the padding */
    gg_names names;
    gg_held_notes *notes;
    gg_error *err;
} showing;

static const char *name_of(const showing *s, size_t k)
{
    return gg_source_name(s->models[k]);
}

/* ---- the tokens --------------------------------------------------------------------------------
 */

static gg_status add_token(showing *s, const gg_vocab_token *t, size_t owner)
{
    if (GG_ROOM(s->tokens, s->n_tokens, NULL, s->err) != GG_OK ||
        GG_ROOM(s->owner, s->n_tokens, NULL, s->err) != GG_OK)
        return s->err->status;
    s->owner[s->n_tokens] = (uint32_t)owner;
    s->tokens[s->n_tokens++] = *t;
    return GG_OK;
}

static bool is_added(const gg_vocab_token *t)
{
    return t->type == GG_TOKEN_CONTROL || t->type == GG_TOKEN_USER_DEFINED ||
           t->type == GG_TOKEN_UNKNOWN;
}

/* Whether a model before model k has the token. */
static bool known_before(const showing *s, size_t k, const gg_vocab_token *t)
{
    for (size_t j = 0; j < k; j++) {
        size_t id = gg_vocab_same(&s->own[j], &s->own[k], t);
        if (id != SIZE_MAX && (j == 0 || s->own[j].tokens[id].type != GG_TOKEN_UNUSED)) return true;
        if (gg_vocab_find(&s->own[j], t->text, t->len) != SIZE_MAX)
            return true; /* as another type */
    }
    return false;
}

/* SentencePiece merges the pair with the highest score first. Returns a number to add to the scores
 * of a model's words, so that they come after all of those before, in their order. */
static float shift_after(const showing *s, size_t k)
{
    float lowest = 0, highest = -3e38F;
    if (s->own[0].kind != GG_VOCAB_SPM) return 0;
    for (size_t i = 0; i < s->n_tokens; i++)
        if (s->tokens[i].type == GG_TOKEN_NORMAL && s->tokens[i].score < lowest)
            lowest = s->tokens[i].score;
    for (size_t i = 0; i < s->own[k].n; i++)
        if (s->own[k].tokens[i].type == GG_TOKEN_NORMAL && s->own[k].tokens[i].score > highest)
            highest = s->own[k].tokens[i].score;
    return lowest - 1 - highest;
}

/* The tokenizers must be of one kind, because all tokens are divided in one way. */
static gg_status check_kinds(const showing *s, size_t k)
{
    static const char *const keys[] = { "tokenizer.ggml.model", "tokenizer.ggml.pre" };
    const char *text[2][2] = { { "", "" }, { "", "" } };
    size_t len[2][2] = { { 0 } };
    for (int i = 0; i < 2; i++) {
        gg_kv_str(gg_meta_find(s->own[0].meta, keys[i]), &text[i][0], &len[i][0]);
        gg_kv_str(gg_meta_find(s->own[k].meta, keys[i]), &text[i][1], &len[i][1]);
        if (len[i][0] == len[i][1] && memcmp(text[i][0], text[i][1], len[i][0]) == 0) continue;
        if (i == 1)
            return gg_held_add(s->notes, s->err,
                               "%.100s: its pre-tokenizer is '%.*s', but texts will be divided by "
                               "'%.*s'",
                               name_of(s, k), (int)(len[1][1] < 60 ? len[1][1] : 60), text[1][1],
                               (int)(len[1][0] < 60 ? len[1][0] : 60), text[1][0]);
        gg_fail(s->err, GG_NO,
                "its tokenizer is '%.*s', but that of %.200s is '%.*s', so their tokens have no "
                "union",
                (int)(len[0][1] < 60 ? len[0][1] : 60), text[0][1], name_of(s, 0),
                (int)(len[0][0] < 60 ? len[0][0] : 60), text[0][0]);
        gg_fix(s->err, "choose the vocabulary of one of the models");
        return gg_at_file(s->err, name_of(s, k));
    }
    return GG_OK;
}

static gg_status add_union(showing *s)
{
    for (size_t k = 1; k < s->n; k++)
        if (check_kinds(s, k) != GG_OK) return s->err->status;
    for (int added = 0; added < 2; added++)
        for (size_t k = 1; k < s->n; k++) {
            float shift = added ? 0 : shift_after(s, k);
            for (size_t i = 0; i < s->own[k].n && s->err->status == GG_OK; i++) {
                gg_vocab_token t = s->own[k].tokens[i];
                if (t.type == GG_TOKEN_UNUSED || is_added(&t) != added || known_before(s, k, &t) ||
                    gg_vocab_find(&s->own[k], t.text, t.len) != i)
                    continue;
                if (t.type == GG_TOKEN_NORMAL) t.score += shift;
                add_token(s, &t, k);
            }
        }
    return s->err->status;
}

static const char *listed_text(const void *showing_of, size_t i, size_t *len)
{
    const gg_vocab_token *t = &((const showing *)showing_of)->tokens[i];
    *len = t->len;
    return t->text;
}

/* Tokens that a configuration names, and unused ones, unless there is a token with their text. */
static gg_status add_others(showing *s)
{
    gg_text_index all = { .at = listed_text, .expect = s->n_tokens };
    size_t was, number;
    char text[32];
    for (size_t i = 0; i < s->n_tokens && s->err->status == GG_OK; i++)
        gg_text_add(&all, s, i, &was, s->err);
    for (size_t i = 0; i < s->what->n_tokens && s->err->status == GG_OK; i++) {
        gg_vocab_token t = { .text = s->what->tokens[i].text,
                             .type = GG_TOKEN_USER_DEFINED,
                             .score = -1000 };
        t.len = strlen(t.text);
        if (gg_text_find(&all, s, t.text, t.len) == SIZE_MAX &&
            add_token(s, &t, UINT32_MAX) == GG_OK)
            gg_text_add(&all, s, s->n_tokens - 1, &was, s->err);
    }
    s->padded = number = s->n_tokens;
    while (s->what->multiple && s->n_tokens % s->what->multiple && s->err->status == GG_OK) {
        gg_vocab_token t = { .type = GG_TOKEN_UNUSED, .score = -10000 };
        t.len = (size_t)snprintf(text, sizeof text, "[PAD%zu]", number++);
        if (gg_text_find(&all, s, text, t.len) == SIZE_MAX &&
            (t.text = gg_names_add(&s->names, text, t.len, s->err)))
            add_token(s, &t, UINT32_MAX);
    }
    gg_text_index_free(&all);
    return s->err->status;
}

/* The merges of the first model, and those by which each added token is made in its own. */
static gg_status set_merges(showing *s)
{
    static const char key[] = "tokenizer.ggml.merges";
    gg_buf b = GG_BUF_INIT;
    uint64_t n = 0;
    for (size_t k = 0; k < s->n && s->err->status == GG_OK; k++) {
        const gg_vocab *v = &s->own[k];
        const gg_kv *kv = gg_meta_find(v->meta, key);
        uint64_t at = 0;
        const char *text;
        size_t len;
        for (size_t i = 0; i < v->n_merges && gg_kv_next_str(kv, &at, &text, &len); i++) {
            const gg_vocab_merge *m = &v->merges[i];
            if (k) {
                if (m->left == UINT32_MAX || m->right == UINT32_MAX || m->made == UINT32_MAX)
                    continue;
                size_t made = gg_vocab_same(&s->target, v, &v->tokens[m->made]);
                if (made == SIZE_MAX || made < s->own[0].n || s->owner[made] != k) continue;
            }
            if (gg_array_add_str(&b, text, len, s->err) != GG_OK) break;
            n++;
        }
    }
    if (s->err->status == GG_OK && n) gg_meta_set_array(&s->words, key, GG_TYPE_STR, n, &b, s->err);
    gg_buf_free(&b);
    return s->err->status;
}

static gg_status make_target(showing *s)
{
    const gg_vocab *of = s->what->words == GG_MERGE_WORDS_OF ? &s->chosen : &s->own[0];
    for (size_t i = 0; i < of->n && s->err->status == GG_OK; i++) add_token(s, &of->tokens[i], 0);
    if (s->err->status == GG_OK && s->what->words == GG_MERGE_WORDS_UNION) add_union(s);
    if (s->err->status == GG_OK) add_others(s);
    for (size_t i = 0; i < of->meta->n && s->err->status == GG_OK; i++)
        if (gg_text_begins(of->meta->kv[i].key, of->meta->kv[i].key_len, "tokenizer."))
            gg_meta_set(&s->words, &of->meta->kv[i], s->err);
    bool copy = gg_meta_find(&s->words, GG_VOCAB_COPY) != NULL;
    if (s->err->status == GG_OK && s->n_tokens > of->n) {
        gg_vocab_set_tokens(&s->words, s->tokens, s->n_tokens, of->scores, s->err);
        if (copy)
            gg_held_add(s->notes, s->err, "%s is left out, because it has the tokens of before",
                        GG_VOCAB_COPY);
    }
    if (s->err->status == GG_OK) gg_vocab_of(&s->words, &s->target, s->err);
    if (s->err->status == GG_OK && s->what->words == GG_MERGE_WORDS_UNION && of->n_merges)
        set_merges(s);
    return s->err->status;
}

/* ---- the rows ----------------------------------------------------------------------------------
 */

/* What the notes of a model count. */
typedef struct counts {
    size_t of[GG_VOCAB_MODELS]; /* rows of other models */
    size_t means, zeros;
    size_t zero; /* a token whose row is 0 */
} counts;

/* The model and the row that a rule names. */
static gg_status follow_rule(const showing *s, const gg_merge_token *rule, uint32_t *const *at,
                             size_t token, size_t *model, uint32_t *row)
{
    for (*model = 0; *model < s->n && s->models[*model] != rule->model; ++*model) {}
    if (*model == s->n)
        return gg_fail(s->err, GG_EUSAGE,
                       "token '%.100s' gets the row of a model that is not merged", rule->text);
    const gg_vocab *v = &s->own[*model];
    if (rule->token) {
        size_t id = gg_vocab_find(v, rule->token, strlen(rule->token));
        *row = id == SIZE_MAX ? GG_ROW_MADE : (uint32_t)id;
    } else {
        *row = rule->id == UINT64_MAX ? at[*model][token]
               : rule->id < v->n      ? (uint32_t)rule->id
                                      : GG_ROW_MADE;
    }
    if (*row != GG_ROW_MADE) return GG_OK;
    gg_fail(s->err, GG_NO, "it has no token for the row of '%.100s'", rule->text);
    return gg_at_file(s->err, name_of(s, *model));
}

/* In the view of model k that model is the first, and all others follow in their order. */
static uint32_t number_in(size_t k, size_t model)
{
    return (uint32_t)(model == k ? 0 : model < k ? model + 1 : model);
}

/* The row of a token for a model that has none, or whose own is not used. */
static gg_status default_row(const showing *s, size_t k, size_t token, uint32_t *const *at,
                             const gg_merge_token *rule, counts *c, gg_vocab_row *out)
{
    size_t model = 0, have = 0;
    uint32_t row = 0;
    for (size_t j = s->n; j-- > 0;)
        if (at[j][token] != GG_ROW_MADE) have++, model = j;
    if (rule && rule->model) {
        if (follow_rule(s, rule, at, token, &model, &row) != GG_OK) return s->err->status;
        *out = (gg_vocab_row){ number_in(k, model), row, NULL };
    } else if (rule || have == 0 || token >= s->padded) {
        if (!gg_vocab_make(out, s->err)) return s->err->status;
        out->made->fill = GG_FILL_ZERO;
        if (token < s->padded && c->zeros++ == 0) c->zero = token;
        return GG_OK;
    } else if (have == 1 || (s->based && at[0][token] != GG_ROW_MADE)) {
        *out = (gg_vocab_row){ number_in(k, model), at[model][token], NULL };
    } else {
        gg_vocab_made *made = gg_vocab_make(out, s->err);
        if (!made) return s->err->status;
        made->sum.ids = malloc(have * sizeof *made->sum.ids);
        made->sum.sources = malloc(have * sizeof *made->sum.sources);
        if (!made->sum.ids || !made->sum.sources)
            return gg_fail(s->err, GG_ENOMEM, "no memory for a row");
        for (size_t j = 0; j < s->n; j++) {
            if (at[j][token] == GG_ROW_MADE) continue;
            made->sum.ids[made->sum.n] = at[j][token];
            made->sum.sources[made->sum.n++] = number_in(k, j);
        }
        c->means++;
        return GG_OK;
    }
    if (model != k) c->of[model]++;
    return GG_OK;
}

/* Notes what rows of a model are made of, and which tokens it loses. */
static gg_status note_rows(const showing *s, size_t k, const counts *c)
{
    gg_buf b = GG_BUF_INIT;
    size_t lost = 0, first = 0;
    char shown[64];
    for (size_t j = 0; j < s->n; j++)
        if (c->of[j])
            gg_buf_printf(&b, s->err, "%s%zu of %.100s", b.len ? ", " : "", c->of[j],
                          name_of(s, j));
    if (c->means)
        gg_buf_printf(&b, s->err, "%s%zu means of several models", b.len ? ", " : "", c->means);
    if (c->zeros) {
        const gg_vocab_token *t = &s->target.tokens[c->zero];
        gg_escape(t->text, t->len < 15 ? t->len : 15, shown, sizeof shown);
        gg_buf_printf(&b, s->err, "%s%zu zero, for example '%s'", b.len ? ", " : "", c->zeros,
                      shown);
    }
    if (b.len && s->err->status == GG_OK)
        gg_held_add(s->notes, s->err, "%.100s: rows of the vocabulary that are not its own: %s",
                    name_of(s, k), b.data);
    gg_buf_free(&b);
    for (size_t i = 0; i < s->own[k].n; i++) {
        const gg_vocab_token *t = &s->own[k].tokens[i];
        if (t->type == GG_TOKEN_UNUSED || gg_vocab_same(&s->target, &s->own[k], t) != SIZE_MAX)
            continue;
        if (lost++ == 0) first = i;
    }
    if (!lost || s->err->status != GG_OK) return s->err->status;
    const gg_vocab_token *t = &s->own[k].tokens[first];
    gg_escape(t->text, t->len < 15 ? t->len : 15, shown, sizeof shown);
    return gg_held_add(
        s->notes, s->err,
        "%.100s: %zu of its tokens are not in the vocabulary, and their rows are left "
        "out, for example '%s'",
        name_of(s, k), lost, shown);
}

/* The rules of the configuration by token; NULL if there are none, or with the error. */
static const gg_merge_token **find_rules(const showing *s)
{
    const gg_merge_token **rules = NULL;
    if (s->what->n_tokens && !(rules = calloc(s->target.n, sizeof(gg_merge_token *))))
        gg_fail(s->err, GG_ENOMEM, "no memory for a vocabulary");
    for (size_t i = s->what->n_tokens; rules && i-- > 0;) {
        const char *text = s->what->tokens[i].text;
        size_t id = gg_vocab_find(&s->target, text, strlen(text));
        if (id != SIZE_MAX) rules[id] = &s->what->tokens[i];
    }
    return rules;
}

static gg_status make_rows(const showing *s, size_t k, uint32_t *const *at,
                           const gg_merge_token *const *rules, gg_merge_shown *out)
{
    gg_vocab_rows *rows = &out->rows[k];
    counts c = { { 0 }, 0, 0, 0 };
    if (!(rows->list = calloc(s->target.n, sizeof *rows->list)))
        return gg_fail(s->err, GG_ENOMEM, "no memory for a vocabulary");
    rows->n = s->target.n;
    for (size_t i = 0; i < rows->n && s->err->status == GG_OK; i++) {
        const gg_merge_token *rule = rules ? rules[i] : NULL;
        rows->list[i].from = at[k][i];
        if (at[k][i] == GG_ROW_MADE || (rule && rule->forced))
            default_row(s, k, i, at, rule, &c, &rows->list[i]);
    }
    return s->err->status == GG_OK ? note_rows(s, k, &c) : s->err->status;
}

/* ---- the views ---------------------------------------------------------------------------------
 */

static void note_unchanged(void *ctx, const char *line)
{
    const showing *s = ctx;
    gg_held_add(s->notes, s->err, "%s", line);
}

static gg_status open_view(showing *s, size_t k, const uint32_t *at, gg_merge_shown *out)
{
    gg_source *list[GG_VOCAB_MODELS];
    for (size_t j = 0; j < s->n; j++) list[number_in(k, j)] = s->models[j];
    gg_vocab_view what = { list, s->n, &out->rows[k], &out->metas[k] };
    const gg_meta *own = gg_source_meta(s->models[k]);
    gg_vocab_ids ids = { NULL, s->own[k].n };
    uint32_t *to = k ? NULL : gg_vocab_new_ids(at, s->target.n, ids.n, s->err);
    ids.to = to;
    gg_vocab_take_keys(&out->metas[k], own, &s->words, s->target.n, k ? NULL : &ids, s->err);
    free(to);
    if (s->err->status != GG_OK) return gg_at_file(s->err, name_of(s, k));
    return gg_vocab_view_open(&what, k ? NULL : note_unchanged, s, &out->views[k], s->err);
}

/* Whether all models have the new vocabulary already, and no row changes. */
static bool nothing_changes(const showing *s, uint32_t *const *at)
{
    for (size_t k = 0; k < s->n; k++) {
        if (s->own[k].n != s->target.n) return false;
        for (size_t i = 0; i < s->target.n; i++)
            if (at[k][i] != i) return false;
    }
    for (size_t i = 0; i < s->what->n_tokens; i++)
        if (s->what->tokens[i].forced) return false;
    return s->what->words != GG_MERGE_WORDS_OF;
}

static gg_status show(showing *s, gg_merge_shown *out)
{
    uint32_t **at = calloc(s->n, sizeof *at);
    if (!at) return gg_fail(s->err, GG_ENOMEM, "no memory for a vocabulary");
    for (size_t k = 0; k < s->n && s->err->status == GG_OK; k++) {
        at[k] = malloc(s->target.n * sizeof **at);
        if (!at[k]) gg_fail(s->err, GG_ENOMEM, "no memory for a vocabulary");
        for (size_t i = 0; at[k] && i < s->target.n; i++) {
            size_t id = i < s->padded ? gg_vocab_same(&s->own[k], &s->target, &s->target.tokens[i])
                                      : SIZE_MAX;
            at[k][i] = id == SIZE_MAX ? GG_ROW_MADE : (uint32_t)id;
        }
    }
    const gg_merge_token **rules = find_rules(s);
    bool all = s->err->status == GG_OK && !nothing_changes(s, at);
    for (size_t k = 0; k < s->n && all && s->err->status == GG_OK; k++)
        if (make_rows(s, k, at, rules, out) == GG_OK) open_view(s, k, at[k], out);
    free(rules);
    for (size_t k = 0; k < s->n; k++) free(at[k]);
    free(at);
    return s->err->status;
}

gg_status gg_merge_show(const gg_merge_vocabulary *what, gg_source *const *models, size_t n,
                        bool based, gg_held_notes *notes, gg_merge_shown *out, gg_error *err)
{
    showing s = { .what = what, .models = models, .n = n, .based = based };
    s.notes = notes;
    s.err = err;
    s.words = (gg_meta)GG_META_INIT;
    out->n = n;
    out->views = calloc(n, sizeof(gg_source *));
    out->rows = calloc(n, sizeof *out->rows);
    out->metas = calloc(n, sizeof *out->metas);
    s.own = calloc(n, sizeof *s.own);
    if (!out->views || !out->rows || !out->metas || !s.own)
        gg_fail(err, GG_ENOMEM, "no memory for a vocabulary");
    for (size_t k = 0; k < n && err->status == GG_OK; k++) gg_vocab_read(models[k], &s.own[k], err);
    if (err->status == GG_OK && what->words == GG_MERGE_WORDS_OF)
        gg_vocab_read(what->of, &s.chosen, err);
    if (err->status == GG_OK && make_target(&s) == GG_OK) show(&s, out);
    for (size_t k = 0; s.own && k < n; k++) gg_vocab_free(&s.own[k]);
    gg_vocab_free(&s.chosen);
    gg_vocab_free(&s.target);
    gg_meta_free(&s.words);
    gg_names_free(&s.names);
    free(s.own);
    free(s.tokens);
    free(s.owner);
    return err->status;
}

void gg_merge_shown_free(gg_merge_shown *s)
{
    for (size_t k = 0; k < s->n; k++) {
        if (s->views) gg_source_close(s->views[k]);
        if (s->rows) gg_vocab_rows_free(&s->rows[k]);
        if (s->metas) gg_meta_free(&s->metas[k]);
    }
    free(s->views);
    free(s->rows);
    free(s->metas);
    *s = (gg_merge_shown){ 0 };
}
