/* vocab_add.c - more tokens, and rows without tokens. */
#include "vocab_edit.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/lines.h"
#include "base/text.h"
#include "gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text of a line. */
typedef struct added_line {
    const char *text;
    size_t len, number;
} added_line;

typedef struct adding {
    const gg_vocab *v;
    gg_vocab_token *tokens; /* of the new vocabulary */
    vocab_edit *e;
    size_t n, cap, next; /* `next`: where to look for an unused token */
    gg_names names;
    added_line *lines;
    size_t n_lines;
    gg_text_index texts; /* of the lines */
    const gg_kv **named; /* for each token a key that states its id, or NULL */
    vocab_add_report *r;
} adding;

static const char *text_of_line(const void *a, size_t i, size_t *len)
{
    const added_line *l = &((const adding *)a)->lines[i];
    *len = l->len;
    return l->text;
}

/* Makes room for one more token. */
static gg_status room(adding *a, gg_error *err)
{
    if (a->n < a->cap) return GG_OK;
    size_t cap = 2 * a->cap + 64;
    gg_vocab_token *tokens = realloc(a->tokens, cap * sizeof *tokens);
    if (tokens) a->tokens = tokens;
    gg_vocab_row *rows = realloc(a->e->rows.list, cap * sizeof *rows);
    if (rows) a->e->rows.list = rows;
    if (!tokens || !rows) return gg_fail(err, GG_ENOMEM, "no memory for a vocabulary");
    a->cap = cap;
    return GG_OK;
}

static gg_status add_token(adding *a, const gg_vocab_token *t, const gg_vocab_row *row,
                           gg_error *err)
{
    if (room(a, err) != GG_OK) return err->status;
    a->tokens[a->n] = *t;
    a->e->rows.list[a->n++] = *row;
    a->e->rows.n = a->n;
    return GG_OK;
}

/* The tokens whose rows a new one is made of: ids in a column, or the pieces of its text. */
static gg_status read_pieces(const adding *a, const char *ids, const gg_vocab_token *t,
                             gg_vocab_row *row, gg_error *err)
{
    vocab_pieces p = { 0 };
    gg_vocab_made *made = gg_vocab_make(row, err);
    if (!made) return err->status;
    gg_vocab_sum *sum = &made->sum;
    if (!ids || !*ids) {
        vocab_divide(a->v, t->text, t->len, &p, err);
        sum->ids = p.ids;
        sum->n = (uint32_t)p.n;
        p.ids = NULL;
        vocab_pieces_free(&p);
        return err->status;
    }
    if (!(sum->ids = malloc((strlen(ids) / 2 + 1) * sizeof *sum->ids)))
        return gg_fail(err, GG_ENOMEM, "no memory for a row");
    for (const char *p1 = ids; *p1;) {
        char *end;
        unsigned long long id = strtoull(p1, &end, 10);
        if (end == p1 || *p1 < '0' || *p1 > '9' || id >= a->v->n)
            return gg_fail(err, GG_EUSAGE, "'%.60s' are not ids of tokens below %zu", ids, a->v->n);
        sum->ids[sum->n++] = (uint32_t)id;
        p1 = end + strspn(end, " \r");
    }
    return GG_OK;
}

/* A line: text, type (user or control), and ids of pieces. The last two may be left out. */
static gg_status read_token(void *ctx, char *line, size_t number, gg_error *err)
{
    adding *a = ctx;
    char *type = strchr(line, '\t'), *ids = type ? strchr(type + 1, '\t') : NULL;
    gg_vocab_row row = { .from = GG_ROW_MADE };
    gg_vocab_token t = { .type = GG_TOKEN_USER_DEFINED, .score = -1000 };
    if (type) *type++ = '\0';
    if (ids) *ids++ = '\0';
    t.len = strcspn(line, "\r");
    line[t.len] = '\0';
    if (t.len == 0) return GG_OK;
    if (!gg_unescape(line, &t.len) ||
        !(t.text = gg_names_add((gg_names *)&a->names, line, t.len, err)))
        return gg_fail(err, GG_EUSAGE, "line %zu: a broken escape", number);
    size_t word = type ? strcspn(type, "\r") : 0;
    if (type && gg_text_is(type, word, "control")) t.type = GG_TOKEN_CONTROL;
    else if (type && word && !gg_text_is(type, word, "user"))
        return gg_fail(err, GG_EUSAGE, "line %zu: the type of a token is user or control", number);
    size_t twin = gg_vocab_find(a->v, t.text, t.len);
    if (twin != SIZE_MAX && a->tokens[twin].text == a->v->tokens[twin].text)
        return gg_fail(err, GG_NO, "line %zu: token %zu has the text '%.100s' already", number,
                       twin, line);
    if (GG_ROOM(a->lines, a->n_lines, NULL, err) != GG_OK) return err->status;
    a->lines[a->n_lines++] = (added_line){ t.text, t.len, number };
    size_t before;
    if (gg_text_add(&a->texts, a, a->n_lines - 1, &before, err) != GG_OK) return err->status;
    if (before != SIZE_MAX)
        return gg_fail(err, GG_NO, "line %zu: line %zu has the same text", number,
                       a->lines[before].number);
    if (read_pieces(a, ids, &t, &row, err) != GG_OK) {
        gg_vocab_row_free(&row);
        return err->status;
    }
    while (a->next < a->v->n &&
           (a->v->tokens[a->next].type != GG_TOKEN_UNUSED || a->named[a->next]))
        a->next++;
    a->r->added++;
    if (a->next < a->v->n) {
        a->tokens[a->next] = t;
        a->e->rows.list[a->next++] = row;
        a->r->reused++;
        return GG_OK;
    }
    return add_token(a, &t, &row, err);
}

static gg_status add_padding(adding *a, size_t n, gg_error *err)
{
    gg_vocab_row row = { .from = GG_ROW_MADE };
    char text[32];
    for (size_t number = a->n; a->n < n && err->status == GG_OK; number++) {
        gg_vocab_token t = { .type = GG_TOKEN_UNUSED, .score = -10000 };
        t.len = (size_t)snprintf(text, sizeof text, "[PAD%zu]", number);
        bool taken = gg_vocab_find(a->v, text, t.len) != SIZE_MAX ||
                     gg_text_find(&a->texts, a, text, t.len) != SIZE_MAX;
        if (taken || !(t.text = gg_names_add(&a->names, text, t.len, err))) continue;
        add_token(a, &t, &row, err);
        a->r->padding++;
    }
    return err->status;
}

/* Removes unused tokens from the end. */
static gg_status cut(adding *a, size_t n, gg_error *err)
{
    for (; a->n > n; a->n--) {
        const gg_vocab_token *t = &a->tokens[a->n - 1];
        const gg_kv *key = a->n <= a->v->n ? a->named[a->n - 1] : NULL;
        if (t->type == GG_TOKEN_UNUSED && !key) continue;
        gg_fail(err, GG_NO, "token %zu, '%.*s', is used%s%.*s: at least %zu tokens must stay",
                a->n - 1, t->len < 100 ? (int)t->len : 100, t->text, key ? " by " : "",
                key ? (int)(key->key_len < 100 ? key->key_len : 100) : 0, key ? key->key : "",
                a->n);
        return gg_fix(err, "trim the vocabulary instead");
    }
    a->e->rows.n = a->n;
    return GG_OK;
}

static gg_status find_named(void *ctx, const gg_kv *kv, gg_error *err)
{
    adding *a = ctx;
    (void)err;
    for (uint64_t i = 0; i < kv->count; i++) {
        uint64_t id = gg_vocab_id_at(kv, i);
        if (id < a->v->n) a->named[id] = kv;
    }
    return GG_OK;
}

/* An id that was not one of a token must not become that of a new one. */
static gg_status refuse_far_id(void *ctx, const gg_kv *kv, gg_error *err)
{
    const adding *a = ctx;
    for (uint64_t i = 0; i < kv->count; i++) {
        uint64_t id = gg_vocab_id_at(kv, i);
        if (id < a->v->n || id >= a->n) continue;
        gg_fail(err, GG_NO, "%.*s has the id %llu, which only a new token would have",
                kv->key_len < 100 ? (int)kv->key_len : 100, kv->key, (unsigned long long)id);
        return gg_fix(err, "correct or delete this key with organ-keys first");
    }
    return GG_OK;
}

gg_status vocab_add(gg_source *base, const vocab_add_options *o, vocab_edit *e, vocab_add_report *r,
                    gg_error *err)
{
    gg_vocab v;
    *r = (vocab_add_report){ 0 };
    *e = (vocab_edit){ .base = base };
    if (gg_vocab_read(base, &v, err) != GG_OK) return err->status;
    adding a = { .v = &v, .e = e, .r = r, .texts = { .at = text_of_line } };
    gg_lines list = { o->tokens, "the list of tokens", (size_t)64 << 20 };
    r->before = v.n;
    if (!(a.named = calloc(v.n, sizeof(gg_kv *))))
        gg_fail(err, GG_ENOMEM, "no memory for a vocabulary");
    else gg_vocab_each_id(v.meta, find_named, &a, err);
    for (size_t i = 0; i < v.n && err->status == GG_OK; i++)
        add_token(&a, &v.tokens[i], &(gg_vocab_row){ .from = (uint32_t)i }, err);
    if (err->status == GG_OK && o->tokens) gg_each_line(&list, read_token, &a, err);
    uint64_t most = (uint64_t)1 << 24, n = a.n;
    if (o->pad) n = (n + o->pad - 1) / o->pad * o->pad;
    if (o->resize) n = o->resize;
    if (err->status == GG_OK && n > most)
        gg_fail(err, GG_EUSAGE, "%llu tokens are too many", (unsigned long long)n);
    if (err->status == GG_OK && n < a.n) cut(&a, (size_t)n, err);
    if (err->status == GG_OK) add_padding(&a, (size_t)n, err);
    if (err->status == GG_OK) gg_vocab_each_id(v.meta, refuse_far_id, &a, err);
    r->after = a.n;
    if (err->status == GG_OK) gg_meta_copy(&e->meta, v.meta, err);
    if (err->status == GG_OK) gg_vocab_set_tokens(&e->meta, a.tokens, a.n, v.scores, err);
    if (err->status == GG_OK) gg_vocab_set_size(&e->meta, a.n, err);
    free(a.tokens);
    free(a.lines);
    gg_text_index_free(&a.texts);
    free(a.named);
    gg_names_free(&a.names);
    gg_vocab_free(&v);
    return err->status;
}
