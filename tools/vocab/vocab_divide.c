/* vocab_divide.c - divides words into tokens. */
#include "vocab_edit.h"

#include "base/grow.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

bool vocab_is_special(const gg_vocab_token *t)
{
    return t->type == GG_TOKEN_UNKNOWN || t->type == GG_TOKEN_CONTROL ||
           t->type == GG_TOKEN_USER_DEFINED || t->type == GG_TOKEN_BYTE;
}

static gg_status add_id(uint32_t **list, size_t *n, size_t id, gg_error *err)
{
    if (GG_ROOM(*list, *n, NULL, err) != GG_OK) return err->status;
    (*list)[(*n)++] = (uint32_t)id;
    return GG_OK;
}

/* Starts with one token per byte or, in a SentencePiece vocabulary, per letter. */
static gg_status start_pieces(const gg_vocab *v, const char *s, size_t len, vocab_pieces *out,
                              gg_error *err)
{
    uint32_t c;
    for (size_t i = 0, n; i < len && err->status == GG_OK; i += n) {
        n = v->kind == GG_VOCAB_BPE ? 1 : gg_utf8_next(s + i, len - i, &c);
        if (n == 0) n = 1;
        size_t id = gg_vocab_find_plain(v, s + i, n);
        if (id != SIZE_MAX) {
            add_id(&out->ids, &out->n, id, err);
            continue;
        }
        for (size_t k = 0; k < n && err->status == GG_OK; k++)
            if ((id = gg_vocab_find_plain(v, s + i + k, 1)) != SIZE_MAX)
                add_id(&out->ids, &out->n, id, err);
    }
    return err->status;
}

/* The token that two neighbours become, or SIZE_MAX; *rank is the lower the earlier. */
static size_t joined(const gg_vocab *v, uint32_t a, uint32_t b, gg_buf *room, double *rank,
                     gg_error *err)
{
    if (v->kind == GG_VOCAB_BPE) {
        const gg_vocab_merge *m = gg_vocab_find_merge(v, a, b);
        *rank = m ? (double)(m - v->merges) : 0;
        return m && m->made != UINT32_MAX ? m->made : SIZE_MAX;
    }
    const gg_vocab_token *x = &v->tokens[a], *y = &v->tokens[b];
    if (x->type == GG_TOKEN_BYTE || y->type == GG_TOKEN_BYTE) return SIZE_MAX;
    gg_buf_clear(room);
    gg_buf_append(room, x->text, x->len, err);
    if (gg_buf_append(room, y->text, y->len, err) != GG_OK) return SIZE_MAX;
    size_t id = gg_vocab_find(v, room->data, room->len);
    if (id == SIZE_MAX) return id;
    *rank = -(double)v->tokens[id].score;
    return id;
}

gg_status vocab_divide(const gg_vocab *v, const char *bytes, size_t len, vocab_pieces *out,
                       gg_error *err)
{
    gg_buf room = GG_BUF_INIT;
    *out = (vocab_pieces){ 0 };
    start_pieces(v, bytes, len < 512 ? len : 512, out, err);
    while (err->status == GG_OK && out->n > 1) {
        size_t best = SIZE_MAX, at = 0;
        double best_rank = 0, rank = 0;
        for (size_t i = 0; i + 1 < out->n; i++) {
            size_t id = joined(v, out->ids[i], out->ids[i + 1], &room, &rank, err);
            if (id == SIZE_MAX || (best != SIZE_MAX && rank >= best_rank)) continue;
            best = id, at = i, best_rank = rank;
        }
        if (best == SIZE_MAX) break;
        add_id(&out->passed, &out->n_passed, out->ids[at], err);
        add_id(&out->passed, &out->n_passed, out->ids[at + 1], err);
        out->ids[at] = (uint32_t)best;
        memmove(out->ids + at + 1, out->ids + at + 2, (out->n - at - 2) * sizeof *out->ids);
        out->n--;
    }
    gg_buf_free(&room);
    return err->status;
}

void vocab_pieces_free(vocab_pieces *p)
{
    free(p->ids);
    free(p->passed);
    *p = (vocab_pieces){ 0 };
}
