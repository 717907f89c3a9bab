/* vocab.c - reads the vocabulary of a model, finds tokens, and divides words into them. */
#include "vocab.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/utf8.h"
#include "gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

#define SPACE "\xe2\x96\x81" /* U+2581, which stands for a space */

static gg_status no_room(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for a vocabulary");
}

/* ---- plain bytes -------------------------------------------------------------------------------
 */

/* The byte that a letter stands for in byte-level BPE, or -1. Printable bytes stand for themselves,
 * and the others, in their order, are the letters from U+0100 on. */
static int byte_of_letter(uint32_t c)
{
    if ((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xff && c != 0xad)) return (int)c;
    if (c < 0x100 || c > 0x143) return -1;
    c -= 0x100;
    return c < 0x21 ? (int)c : c < 0x43 ? (int)(c - 0x21 + 0x7f) : 0xad;
}

static gg_status plain_of_bpe(const vocab_token *t, gg_buf *b, gg_error *err)
{
    uint32_t c;
    for (size_t i = 0, n; i < t->len; i += n) {
        if (!(n = gg_utf8_next(t->text + i, t->len - i, &c))) n = 1, c = 0;
        int byte = byte_of_letter(c);
        char one = (char)byte;
        if (byte >= 0) gg_buf_append(b, &one, 1, err);
        else gg_buf_append(b, t->text + i, n, err);
    }
    return err->status;
}

static int byte_of_name(const vocab_token *t)
{
    if (t->len != 6 || memcmp(t->text, "<0x", 3) != 0 || t->text[5] != '>') return -1;
    int high = gg_hex_digit(t->text[3]), low = gg_hex_digit(t->text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static gg_status plain_of_piece(const vocab_token *t, gg_buf *b, gg_error *err)
{
    int byte = t->type == TOKEN_BYTE ? byte_of_name(t) : -1;
    char one = (char)byte;
    if (byte >= 0) return gg_buf_append(b, &one, 1, err);
    for (size_t i = 0; i < t->len && err->status == GG_OK;) {
        bool space = t->len - i >= 3 && memcmp(t->text + i, SPACE, 3) == 0;
        gg_buf_append(b, space ? " " : t->text + i, 1, err);
        i += space ? 3 : 1;
    }
    return err->status;
}

bool vocab_is_special(const vocab_token *t)
{
    return t->type == TOKEN_UNKNOWN || t->type == TOKEN_CONTROL || t->type == TOKEN_USER ||
           t->type == TOKEN_BYTE;
}

static gg_status set_plain(vocab *v, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    for (size_t i = 0; i < v->n && err->status == GG_OK; i++) {
        vocab_token *t = &v->tokens[i];
        bool whole = t->type == TOKEN_USER || t->type == TOKEN_CONTROL || t->type == TOKEN_UNKNOWN;
        gg_buf_clear(&b);
        if (whole) gg_buf_append(&b, t->text, t->len, err);
        else if (v->kind == VOCAB_BPE) plain_of_bpe(t, &b, err);
        else plain_of_piece(t, &b, err);
        if (err->status != GG_OK) break;
        t->plain = gg_names_add(&v->names, b.data ? b.data : "", t->plain_len = b.len, err);
    }
    gg_buf_free(&b);
    return err->status;
}

/* ---- hash tables -------------------------------------------------------------------------------
 */

static uint64_t hash(const void *table, const char *s, size_t n)
{
    uint64_t h = (uint64_t)(uintptr_t)table * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (uint8_t)s[i]) * 0x100000001b3u;
        h ^= h >> 29;
    }
    return h ^ h >> 32;
}

static uint32_t *slot_of(const vocab *v, uint32_t *table, const char *s, size_t n)
{
    bool plain = table == v->by_plain;
    for (size_t i = (size_t)hash(table, s, n);; i++) {
        uint32_t *slot = &table[i & (v->slots - 1)];
        const vocab_token *t = *slot ? &v->tokens[*slot - 1] : NULL;
        if (!t ||
            ((plain ? t->plain_len : t->len) == n && memcmp(plain ? t->plain : t->text, s, n) == 0))
            return slot;
    }
}

static uint32_t *slot_of_pair(const vocab *v, uint32_t left, uint32_t right)
{
    char key[8];
    memcpy(key, &left, 4);
    memcpy(key + 4, &right, 4);
    for (size_t i = (size_t)hash(v->by_pair, key, 8);; i++) {
        uint32_t *slot = &v->by_pair[i & (v->pair_slots - 1)];
        const vocab_merge *m = *slot ? &v->merges[*slot - 1] : NULL;
        if (!m || (m->left == left && m->right == right)) return slot;
    }
}

static gg_status make_tables(vocab *v, gg_error *err)
{
    for (v->slots = 1024; v->slots < 2 * v->n;) v->slots *= 2;
    v->by_text = calloc(v->slots, sizeof *v->by_text);
    v->by_plain = calloc(v->slots, sizeof *v->by_plain);
    if (!v->by_text || !v->by_plain) return no_room(err);
    for (size_t i = 0; i < v->n; i++) {
        const vocab_token *t = &v->tokens[i];
        uint32_t *slot = slot_of(v, v->by_text, t->text, t->len);
        if (!*slot) *slot = (uint32_t)i + 1;
        if (t->type == TOKEN_CONTROL || t->type == TOKEN_UNKNOWN || t->type == TOKEN_UNUSED)
            continue;
        slot = slot_of(v, v->by_plain, t->plain, t->plain_len);
        /* A letter is preferred to a byte with the same bytes. */
        if (!*slot || v->tokens[*slot - 1].type == TOKEN_BYTE) *slot = (uint32_t)i + 1;
    }
    return GG_OK;
}

size_t vocab_find(const vocab *v, const char *text, size_t len)
{
    uint32_t slot = *slot_of(v, v->by_text, text, len);
    return slot ? slot - 1 : SIZE_MAX;
}

size_t vocab_find_plain(const vocab *v, const char *bytes, size_t len)
{
    uint32_t slot = *slot_of(v, v->by_plain, bytes, len);
    return slot ? slot - 1 : SIZE_MAX;
}

/* ---- reading -----------------------------------------------------------------------------------
 */

static uint32_t id_of(const vocab *v, const char *text, size_t len)
{
    size_t id = vocab_find(v, text, len);
    return id == SIZE_MAX ? UINT32_MAX : (uint32_t)id;
}

static gg_status read_merges(vocab *v, gg_error *err)
{
    const gg_kv *kv = gg_meta_find(v->meta, "tokenizer.ggml.merges");
    const char *s;
    size_t n;
    gg_buf joined = GG_BUF_INIT;
    if (!kv || kv->type != GG_TYPE_ARR || kv->count == 0) return GG_OK;
    if (kv->count > UINT32_MAX / 4) return gg_fail(err, GG_EUNSUPPORTED, "too many merges");
    if (!(v->merges = calloc((size_t)kv->count, sizeof *v->merges))) return no_room(err);
    for (v->pair_slots = 1024; v->pair_slots < 2 * kv->count;) v->pair_slots *= 2;
    if (!(v->by_pair = calloc(v->pair_slots, sizeof *v->by_pair))) return no_room(err);
    for (uint64_t at = 0; gg_kv_next_str(kv, &at, &s, &n) && err->status == GG_OK;) {
        const char *space = n > 1 ? memchr(s + 1, ' ', n - 1) : NULL;
        vocab_merge *m = &v->merges[v->n_merges++];
        *m = (vocab_merge){ UINT32_MAX, UINT32_MAX, UINT32_MAX };
        if (!space) continue;
        size_t left = (size_t)(space - s), right = n - left - 1;
        gg_buf_clear(&joined);
        gg_buf_append(&joined, s, left, err);
        if (gg_buf_append(&joined, space + 1, right, err) != GG_OK) break;
        *m = (vocab_merge){ id_of(v, s, left), id_of(v, space + 1, right),
                            id_of(v, joined.data, joined.len) };
        uint32_t *slot = slot_of_pair(v, m->left, m->right);
        if (!*slot && m->left != UINT32_MAX && m->right != UINT32_MAX)
            *slot = (uint32_t)v->n_merges;
    }
    gg_buf_free(&joined);
    return err->status;
}

static gg_status fail_list(const char *key, uint64_t n, uint64_t tokens, gg_error *err)
{
    return gg_fail(err, GG_EFORMAT, "%s has %llu elements for %llu tokens", key,
                   (unsigned long long)n, (unsigned long long)tokens);
}

static gg_status read_tokens(vocab *v, gg_error *err)
{
    const gg_kv *texts = gg_meta_find(v->meta, "tokenizer.ggml.tokens"),
                *types = gg_meta_find(v->meta, "tokenizer.ggml.token_type"),
                *scores = gg_meta_find(v->meta, "tokenizer.ggml.scores");
    if (!texts || texts->type != GG_TYPE_ARR || texts->elem_type != GG_TYPE_STR ||
        texts->count == 0)
        return gg_fail(err, GG_NO, "it has no vocabulary (tokenizer.ggml.tokens)");
    if (texts->count > UINT32_MAX / 4) return gg_fail(err, GG_EUNSUPPORTED, "too many tokens");
    if (types && types->count != texts->count)
        return fail_list("tokenizer.ggml.token_type", types->count, texts->count, err);
    if (scores && (scores->elem_type != GG_TYPE_F32 || scores->count != texts->count))
        return fail_list("tokenizer.ggml.scores", scores->count, texts->count, err);
    v->scores = scores != NULL;
    if (!(v->tokens = calloc((size_t)texts->count, sizeof *v->tokens))) return no_room(err);
    uint64_t at = 0;
    for (vocab_token *t = v->tokens; gg_kv_next_str(texts, &at, &t->text, &t->len); t++) {
        uint64_t type = TOKEN_NORMAL;
        gg_kv_u64_at(types, v->n, &type);
        t->type = type > TOKEN_BYTE ? TOKEN_NORMAL : (int32_t)type;
        uint32_t bits = scores ? gg_le32(scores->data + 4 * v->n) : 0;
        memcpy(&t->score, &bits, 4);
        if (++v->n == texts->count) break;
    }
    return GG_OK;
}

gg_status vocab_read(const gg_source *s, vocab *out, gg_error *err)
{
    const char *model = "";
    size_t len = 0;
    *out = (vocab){ .meta = gg_source_meta(s) };
    if (!out->meta) gg_fail(err, GG_NO, "organ records have no vocabulary");
    else if (read_tokens(out, err) == GG_OK) {
        gg_kv_str(gg_meta_find(out->meta, "tokenizer.ggml.model"), &model, &len);
        out->kind = gg_text_is(model, len, "gpt2")    ? VOCAB_BPE
                    : gg_text_is(model, len, "llama") ? VOCAB_SPM
                                                      : VOCAB_OTHER;
        if (set_plain(out, err) == GG_OK && make_tables(out, err) == GG_OK) read_merges(out, err);
    }
    if (err->status == GG_OK) return GG_OK;
    vocab_free(out);
    return gg_at_file(err, gg_source_name(s));
}

void vocab_free(vocab *v)
{
    free(v->tokens);
    free(v->merges);
    free(v->by_text);
    free(v->by_plain);
    free(v->by_pair);
    gg_names_free(&v->names);
    *v = (vocab){ 0 };
}

/* ---- dividing words ----------------------------------------------------------------------------
 */

static gg_status add_id(uint32_t **list, size_t *n, size_t id, gg_error *err)
{
    if (GG_ROOM(*list, *n, NULL, err) != GG_OK) return err->status;
    (*list)[(*n)++] = (uint32_t)id;
    return GG_OK;
}

/* Starts with one token per byte or, in a SentencePiece vocabulary, per letter. */
static gg_status start_pieces(const vocab *v, const char *s, size_t len, vocab_pieces *out,
                              gg_error *err)
{
    uint32_t c;
    for (size_t i = 0, n; i < len && err->status == GG_OK; i += n) {
        n = v->kind == VOCAB_BPE ? 1 : gg_utf8_next(s + i, len - i, &c);
        if (n == 0) n = 1;
        size_t id = vocab_find_plain(v, s + i, n);
        if (id != SIZE_MAX) {
            add_id(&out->ids, &out->n, id, err);
            continue;
        }
        for (size_t k = 0; k < n && err->status == GG_OK; k++)
            if ((id = vocab_find_plain(v, s + i + k, 1)) != SIZE_MAX)
                add_id(&out->ids, &out->n, id, err);
    }
    return err->status;
}

/* The token that two neighbours become, or SIZE_MAX; *rank is the lower the earlier. */
static size_t joined(const vocab *v, uint32_t a, uint32_t b, gg_buf *room, double *rank,
                     gg_error *err)
{
    if (v->kind == VOCAB_BPE) {
        if (!v->by_pair) return SIZE_MAX;
        uint32_t slot = *slot_of_pair(v, a, b);
        *rank = slot;
        return slot && v->merges[slot - 1].made != UINT32_MAX ? v->merges[slot - 1].made : SIZE_MAX;
    }
    const vocab_token *x = &v->tokens[a], *y = &v->tokens[b];
    if (x->type == TOKEN_BYTE || y->type == TOKEN_BYTE) return SIZE_MAX;
    gg_buf_clear(room);
    gg_buf_append(room, x->text, x->len, err);
    if (gg_buf_append(room, y->text, y->len, err) != GG_OK) return SIZE_MAX;
    size_t id = vocab_find(v, room->data, room->len);
    if (id == SIZE_MAX) return id;
    *rank = -(double)v->tokens[id].score;
    return id;
}

gg_status vocab_divide(const vocab *v, const char *bytes, size_t len, vocab_pieces *out,
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

/* ---- keys with ids ------------------------------------------------------------------------------
 */

gg_status vocab_each_id(const gg_meta *meta, vocab_id_fn *fn, void *ctx, gg_error *err)
{
    static const char *const ends[] = { "_token_id", "_token_ids", ".suppress_tokens" };
    for (size_t i = 0; i < meta->n && err->status == GG_OK; i++) {
        const gg_kv *kv = &meta->kv[i];
        bool is = false;
        for (int k = 0; k < 3; k++) is = is || gg_text_ends(kv->key, kv->key_len, ends[k]);
        uint32_t type = kv->type == GG_TYPE_ARR ? kv->elem_type : kv->type;
        if (is && type != GG_TYPE_STR && type != GG_TYPE_F32 && type != GG_TYPE_F64)
            fn(ctx, kv, err);
    }
    return err->status;
}
