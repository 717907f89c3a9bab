/* vocab_transplant.c - a model that speaks the vocabulary of another one. */
#include "vocab_edit.h"

#include "base/error.h"
#include "base/lines.h"
#include "base/text.h"
#include "gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

typedef struct transplant {
    const gg_vocab *base, *donor;
    uint32_t *to; /* for each token of the donor the base's row; UINT32_MAX = none */
} transplant;

/* ---- tokens that match --------------------------------------------------------------------------
 */

/* A line of a map: the donor's token, a tab, the base's. */
static gg_status read_pair(void *ctx, char *line, size_t number, gg_error *err)
{
    transplant *t = ctx;
    char *second = strchr(line, '\t');
    if (!*line) return GG_OK;
    if (!second)
        return gg_fail(err, GG_EUSAGE,
                       "line %zu: expected a token of the donor, a tab, and one of "
                       "the base",
                       number);
    *second++ = '\0';
    size_t a_len = strlen(line), b_len = strcspn(second, "\r");
    second[b_len] = '\0';
    if (!gg_unescape(line, &a_len) || !gg_unescape(second, &b_len))
        return gg_fail(err, GG_EUSAGE, "line %zu: a broken escape", number);
    size_t a = gg_vocab_find(t->donor, line, a_len), b = gg_vocab_find(t->base, second, b_len);
    if (a == SIZE_MAX)
        return gg_fail(err, GG_NO, "line %zu: the donor has no token '%.100s'", number, line);
    if (b == SIZE_MAX)
        return gg_fail(err, GG_NO, "line %zu: the base has no token '%.100s'", number, second);
    t->to[a] = (uint32_t)b;
    return GG_OK;
}

typedef struct roles {
    transplant *t;
    size_t matched;
} roles;

/* Special tokens with the same role, such as the one that ends a text. */
static gg_status match_role(void *ctx, const gg_kv *kv, gg_error *err)
{
    roles *r = ctx;
    const gg_vocab *base = r->t->base;
    uint64_t ours, theirs;
    char key[128];
    (void)err;
    if (kv->type == GG_TYPE_ARR || kv->key_len >= sizeof key) return GG_OK;
    memcpy(key, kv->key, kv->key_len);
    key[kv->key_len] = '\0';
    if (!gg_kv_u64(kv, &theirs) || !gg_kv_u64(gg_meta_find(base->meta, key), &ours)) return GG_OK;
    if (theirs >= r->t->donor->n || ours >= base->n || r->t->to[theirs] != UINT32_MAX) return GG_OK;
    r->t->to[theirs] = (uint32_t)ours;
    r->matched++;
    return GG_OK;
}

static gg_status match(transplant *t, const vocab_transplant_options *o, vocab_transplant_report *r,
                       gg_error *err)
{
    gg_lines map = { o->map, "the map of tokens", (size_t)256 << 20 };
    roles found = { t, 0 };
    for (size_t i = 0; i < t->donor->n; i++) t->to[i] = UINT32_MAX;
    if (o->map && gg_each_line(&map, read_pair, t, err) != GG_OK) return err->status;
    for (size_t i = 0; i < t->donor->n; i++) r->mapped += t->to[i] != UINT32_MAX;
    gg_vocab_each_id(t->donor->meta, match_role, &found, err);
    r->by_role = found.matched;
    for (size_t i = 0; i < t->donor->n; i++) {
        const gg_vocab_token *k = &t->donor->tokens[i];
        if (t->to[i] != UINT32_MAX) continue;
        size_t id = gg_vocab_same(t->base, t->donor, k);
        if (id == SIZE_MAX || k->type == GG_TOKEN_UNUSED) continue;
        t->to[i] = (uint32_t)id;
        r->same++;
    }
    return err->status;
}

/* ---- rows of the others
 * -------------------------------------------------------------------------- */

/* The sum of the base's pieces of the text. A text without pieces gets the mean of all rows. */
static gg_status make_of_pieces(const gg_vocab *base, const gg_vocab_token *k, bool by_length,
                                gg_vocab_row *row, gg_error *err)
{
    vocab_pieces p;
    double total = 0;
    if (k->type == GG_TOKEN_UNUSED || !gg_vocab_make(row, err)) return err->status;
    gg_vocab_sum *sum = &row->made->sum;
    vocab_divide(base, k->plain, k->plain_len, &p, err);
    if (err->status == GG_OK && p.n && by_length) {
        sum->weights = malloc(p.n * sizeof *sum->weights);
        if (!sum->weights) gg_fail(err, GG_ENOMEM, "no memory for a row");
        for (size_t i = 0; i < p.n; i++) total += (double)base->tokens[p.ids[i]].plain_len;
        for (size_t i = 0; sum->weights && i < p.n; i++)
            sum->weights[i] = (float)((double)base->tokens[p.ids[i]].plain_len / total);
    }
    sum->ids = p.ids;
    sum->n = (uint32_t)p.n;
    p.ids = NULL;
    vocab_pieces_free(&p);
    return err->status;
}

static gg_status make_rows(const transplant *t, const vocab_transplant_options *o, vocab_edit *e,
                           gg_error *err)
{
    e->rows.n = t->donor->n;
    if (!(e->rows.list = calloc(e->rows.n, sizeof *e->rows.list))) {
        e->rows.n = 0;
        return gg_fail(err, GG_ENOMEM, "no memory for a vocabulary");
    }
    for (size_t i = 0; i < e->rows.n && err->status == GG_OK; i++) {
        gg_vocab_row *row = &e->rows.list[i];
        row->from = t->to[i];
        if (row->from != GG_ROW_MADE) continue;
        if (o->method == METHOD_RANDOM && gg_vocab_make(row, err)) row->made->fill = GG_FILL_NOISE;
        if (o->method == METHOD_MEAN || o->method == METHOD_LENGTH)
            make_of_pieces(t->base, &t->donor->tokens[i], o->method == METHOD_LENGTH, row, err);
    }
    return err->status;
}

/* Tokens of the donor whose bytes the base has too, for the sums of METHOD_OMP. */
static gg_status sum_rows(const transplant *t, gg_source *donor, const vocab_transplant_options *o,
                          vocab_edit *e, gg_error *err)
{
    for (size_t i = 0; i < t->donor->n; i++)
        if (t->donor->tokens[i].type != GG_TOKEN_NORMAL) t->to[i] = UINT32_MAX;
    return vocab_omp(donor, t->to, (size_t)o->k, o->run, e, err);
}

/* The donor's tokenizer; and the base's other keys with the new ids of their tokens. */
static gg_status set_keys(const transplant *t, vocab_edit *e, gg_error *err)
{
    gg_vocab_ids ids = { NULL, t->base->n };
    uint32_t *to = gg_vocab_new_ids(t->to, t->donor->n, ids.n, err);
    ids.to = to;
    if (to) gg_vocab_take_keys(&e->meta, t->base->meta, t->donor->meta, t->donor->n, &ids, err);
    if (err->status == GG_NO) gg_fix_by(err, "map", "name its counterpart");
    free(to);
    return err->status;
}

gg_status vocab_transplant(gg_source *base, gg_source *donor, const vocab_transplant_options *o,
                           vocab_edit *e, vocab_transplant_report *r, gg_error *err)
{
    gg_vocab ours, theirs = { 0 };
    *r = (vocab_transplant_report){ 0 };
    *e = (vocab_edit){ .base = base };
    if (gg_vocab_read(base, &ours, err) != GG_OK) return err->status;
    gg_vocab_read(donor, &theirs, err);
    transplant t = { &ours, &theirs, NULL };
    if (err->status == GG_OK && !(t.to = malloc(theirs.n * sizeof *t.to)))
        gg_fail(err, GG_ENOMEM, "no memory for a vocabulary");
    if (err->status == GG_OK) match(&t, o, r, err);
    if (err->status == GG_OK) make_rows(&t, o, e, err);
    if (err->status == GG_OK) set_keys(&t, e, err);
    if (err->status == GG_OK && o->method == METHOD_OMP) sum_rows(&t, donor, o, e, err);
    r->tokens = theirs.n;
    r->made = theirs.n - r->same - r->by_role - r->mapped;
    free(t.to);
    gg_vocab_free(&ours);
    gg_vocab_free(&theirs);
    return err->status;
}
