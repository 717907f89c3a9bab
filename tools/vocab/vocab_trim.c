/* vocab_trim.c - a vocabulary with fewer tokens. */
#include "vocab_edit.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/lines.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "write/keys.h"

#include <stdlib.h>
#include <string.h>

/* Why a token stays. The first reason counts. */
enum { GONE, NAMED, SPECIAL, NEEDED, PADDING };

typedef struct trimming {
    gg_vocab *v;
    uint8_t *why;
    uint64_t least; /* of the counts that a list has; 0 = a list of tokens */
} trimming;

/* The number at the start of a column, which must be all of it. */
static bool whole_number(const char *s, size_t n, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' || *value > UINT64_MAX / 16) return false;
        *value = *value * 10 + (uint64_t)(s[i] - '0');
    }
    return n > 0;
}

/* A line of a list: an id or the text of a token, and in a list of counts a second column. */
static gg_status keep_line(void *ctx, char *text, size_t number, gg_error *err)
{
    trimming *t = ctx;
    size_t n = strcspn(text, "\t\r"), len = n;
    uint64_t id, count = 1;
    const char *second = text[n] == '\t' ? text + n + 1 : "";
    bool head = number == 1 && (gg_text_is(text, n, "id") || gg_text_is(text, n, "token"));
    if (n == 0 || (head && (*second || gg_vocab_find(t->v, text, n) == SIZE_MAX))) return GG_OK;
    if (t->least && !whole_number(second, strcspn(second, "\t\r"), &count))
        return gg_fail(err, GG_EUSAGE, "line %zu: expected an id, a tab and a count", number);
    if (!whole_number(text, n, &id)) {
        text[n] = '\0';
        if (!gg_unescape(text, &len))
            return gg_fail(err, GG_EUSAGE, "line %zu: a broken escape", number);
        id = gg_vocab_find(t->v, text, len);
        if (id == SIZE_MAX && gg_vocab_index(t->v, err) != GG_OK) return err->status;
        if (id == SIZE_MAX) id = gg_vocab_find_plain(t->v, text, len);
        if (id == SIZE_MAX)
            return gg_fail(err, GG_NO, "line %zu: there is no token '%.100s'", number, text);
    }
    if (id >= t->v->n)
        return gg_fail(err, GG_NO, "line %zu: there is no token %llu; the vocabulary has %zu",
                       number, (unsigned long long)id, t->v->n);
    if (count >= (t->least ? t->least : 1)) t->why[id] = NAMED;
    return GG_OK;
}

static void keep(trimming *t, size_t id, uint8_t why)
{
    if (id < t->v->n && t->why[id] == GONE) t->why[id] = why;
}

static gg_status keep_stated(void *ctx, const gg_kv *kv, gg_error *err)
{
    (void)err;
    for (uint64_t i = 0; i < kv->count; i++) {
        uint64_t id = gg_vocab_id_at(kv, i);
        keep(ctx, id < SIZE_MAX ? (size_t)id : SIZE_MAX, SPECIAL);
    }
    return GG_OK;
}

/* Special tokens, and those that stand for one byte, without which some texts have no tokens. */
static gg_status keep_special(trimming *t, gg_error *err)
{
    for (size_t i = 0; i < t->v->n; i++) {
        const gg_vocab_token *k = &t->v->tokens[i];
        bool byte = t->v->kind == GG_VOCAB_BPE && k->type == GG_TOKEN_NORMAL && k->plain_len == 1;
        if (vocab_is_special(k) || byte) keep(t, i, SPECIAL);
    }
    return gg_vocab_each_id(t->v->meta, keep_stated, t, err);
}

/* All tokens that the merges of tokens that stay need. Merges usually come after those that make
 * their parts, so that one pass from the end finds nearly all. */
static void keep_parts(trimming *t)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = t->v->n_merges; i-- > 0;) {
            const gg_vocab_merge *m = &t->v->merges[i];
            if (m->made == UINT32_MAX || !t->why[m->made] || m->left == UINT32_MAX ||
                m->right == UINT32_MAX || (t->why[m->left] && t->why[m->right]))
                continue;
            keep(t, m->left, NEEDED);
            keep(t, m->right, NEEDED);
            more = true;
        }
    }
}

/* A SentencePiece vocabulary has no list of merges: the tokens that a token is made of are those on
 * the way to it. */
static gg_status keep_passed(trimming *t, gg_error *err)
{
    gg_vocab_index(t->v, err);
    for (size_t i = 0; i < t->v->n && err->status == GG_OK; i++) {
        const gg_vocab_token *k = &t->v->tokens[i];
        vocab_pieces p;
        if (!t->why[i] || k->type != GG_TOKEN_NORMAL || gg_cancelled(err) != GG_OK) continue;
        vocab_divide(t->v, k->plain, k->plain_len, &p, err);
        for (size_t n = 0; n < p.n_passed; n++) keep(t, p.passed[n], NEEDED);
        for (size_t n = 0; n < p.n; n++) keep(t, p.ids[n], NEEDED);
        vocab_pieces_free(&p);
    }
    return err->status;
}

/* Keeps more tokens, in their order, up to a multiple. */
static void keep_multiple(trimming *t, uint64_t multiple)
{
    size_t n = 0;
    for (size_t i = 0; i < t->v->n; i++) n += t->why[i] != GONE;
    for (size_t i = 0; i < t->v->n && multiple && n % multiple; i++)
        if (t->why[i] == GONE && t->v->tokens[i].type != GG_TOKEN_UNUSED) t->why[i] = PADDING, n++;
    for (size_t i = 0; i < t->v->n && multiple && n % multiple; i++)
        if (t->why[i] == GONE) t->why[i] = PADDING, n++;
}

static gg_status choose(trimming *t, const vocab_trim_options *o, gg_error *err)
{
    gg_lines keep_list = { o->keep, "the list of tokens", (size_t)256 << 20 };
    gg_lines used_list = { o->used, "the list of counts", (size_t)256 << 20 };
    if (o->keep) gg_each_line(&keep_list, keep_line, t, err);
    t->least = o->least ? o->least : 1;
    if (o->used && err->status == GG_OK) gg_each_line(&used_list, keep_line, t, err);
    if (err->status == GG_OK) keep_special(t, err);
    if (err->status == GG_OK && t->v->kind == GG_VOCAB_SPM) keep_passed(t, err);
    keep_parts(t);
    keep_multiple(t, o->multiple);
    return err->status;
}

/* ---- keys --------------------------------------------------------------------------------------
 */

/* Sets the merges whose tokens have a number in `to`; UINT32_MAX = the token is gone. */
static gg_status set_merges(gg_meta *meta, const gg_vocab *v, const uint32_t *to, gg_error *err)
{
    static const char key[] = "tokenizer.ggml.merges";
    const gg_kv *kv = gg_meta_find(v->meta, key);
    gg_buf b = GG_BUF_INIT;
    uint64_t at = 0, n = 0;
    const char *s;
    size_t len;
    for (size_t i = 0; i < v->n_merges && gg_kv_next_str(kv, &at, &s, &len); i++) {
        const gg_vocab_merge *m = &v->merges[i];
        if (m->left == UINT32_MAX || m->right == UINT32_MAX || m->made == UINT32_MAX) continue;
        if (to[m->left] == UINT32_MAX || to[m->right] == UINT32_MAX || to[m->made] == UINT32_MAX)
            continue;
        if (gg_array_add_str(&b, s, len, err) != GG_OK) break;
        n++;
    }
    if (err->status == GG_OK && kv) gg_meta_set_array(meta, key, GG_TYPE_STR, n, &b, err);
    gg_buf_free(&b);
    return err->status;
}

/* Sets the rows and keys of the new model. */
static gg_status renumber(const trimming *t, vocab_edit *e, vocab_trim_report *r, gg_error *err)
{
    const gg_vocab *v = t->v;
    uint32_t *to = malloc(v->n * sizeof *to);
    gg_vocab_token *tokens = malloc(v->n * sizeof *tokens);
    e->rows.list = calloc(v->n, sizeof *e->rows.list);
    if (!to || !tokens || !e->rows.list) gg_fail(err, GG_ENOMEM, "no memory for a vocabulary");
    for (size_t i = 0; i < v->n && err->status == GG_OK; i++) {
        to[i] = t->why[i] ? (uint32_t)e->rows.n : UINT32_MAX;
        r->named += t->why[i] == NAMED;
        r->special += t->why[i] == SPECIAL;
        r->needed += t->why[i] == NEEDED;
        r->padding += t->why[i] == PADDING;
        if (!t->why[i]) continue;
        tokens[e->rows.n] = v->tokens[i];
        e->rows.list[e->rows.n++].from = (uint32_t)i;
    }
    r->before = v->n;
    r->after = e->rows.n;
    r->merges_before = v->n_merges;
    if (err->status == GG_OK) gg_meta_copy(&e->meta, v->meta, err);
    if (err->status == GG_OK) gg_vocab_set_tokens(&e->meta, tokens, e->rows.n, v->scores, err);
    if (err->status == GG_OK) set_merges(&e->meta, v, to, err);
    for (int own = 0; own < 2 && err->status == GG_OK; own++)
        gg_vocab_renumber(&e->meta, v->meta, &(gg_vocab_ids){ to, v->n }, own, err);
    if (err->status == GG_OK) gg_vocab_set_size(&e->meta, e->rows.n, err);
    const gg_kv *merges = gg_meta_find(&e->meta, "tokenizer.ggml.merges");
    r->merges_after = merges ? (size_t)merges->count : 0;
    free(to);
    free(tokens);
    return err->status;
}

gg_status vocab_trim(gg_source *base, const vocab_trim_options *o, vocab_edit *e,
                     vocab_trim_report *r, gg_error *err)
{
    gg_vocab v;
    *r = (vocab_trim_report){ 0 };
    *e = (vocab_edit){ .base = base };
    if (gg_vocab_read_texts(base, &v, err) != GG_OK) return err->status;
    trimming t = { .v = &v, .why = calloc(v.n, 1) };
    if (!t.why) gg_fail(err, GG_ENOMEM, "no memory for a vocabulary");
    else if (choose(&t, o, err) == GG_OK) renumber(&t, e, r, err);
    free(t.why);
    gg_vocab_free(&v);
    return err->status;
}
