/* vocab.c - reads the vocabulary of a model, and finds tokens. */
#include "vocab.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/utf8.h"
#include "gguf/gguf.h"

#include <assert.h>
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

/* No letter is shorter than the byte that it means, so the result fits into t->len bytes. */
static gg_status plain_of_bpe(const gg_vocab_token *t, gg_buf *b, gg_error *err)
{
    uint32_t c;
    if (gg_buf_reserve(b, t->len, err) != GG_OK) return err->status;
    for (size_t i = 0, n; i < t->len; i += n) {
        if (!(n = gg_utf8_next(t->text + i, t->len - i, &c))) {
            n = 1;
            c = 0;
        }
        int byte = byte_of_letter(c);
        if (byte >= 0) b->data[b->len++] = (char)byte;
        else
            for (size_t k = 0; k < n; k++) b->data[b->len++] = t->text[i + k];
    }
    return GG_OK;
}

static int byte_of_name(const gg_vocab_token *t)
{
    if (t->len != 6 || memcmp(t->text, "<0x", 3) != 0 || t->text[5] != '>') return -1;
    int high = gg_hex_digit(t->text[3]), low = gg_hex_digit(t->text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static gg_status plain_of_piece(const gg_vocab_token *t, gg_buf *b, gg_error *err)
{
    int byte = t->type == GG_TOKEN_BYTE ? byte_of_name(t) : -1;
    char one = (char)byte;
    if (byte >= 0) return gg_buf_append(b, &one, 1, err);
    for (size_t i = 0; i < t->len && err->status == GG_OK;) {
        bool space = t->len - i >= 3 && memcmp(t->text + i, SPACE, 3) == 0;
        gg_buf_append(b, space ? " " : t->text + i, 1, err);
        i += space ? 3 : 1;
    }
    return err->status;
}

/* Whether the bytes that a token means are those of its text. */
static bool is_plain(const gg_vocab *v, const gg_vocab_token *t)
{
    if (t->type == GG_TOKEN_USER_DEFINED || t->type == GG_TOKEN_CONTROL ||
        t->type == GG_TOKEN_UNKNOWN)
        return true;
    size_t i = 0;
    if (v->kind == GG_VOCAB_BPE)
        while (i < t->len && t->text[i] >= 0x21 && t->text[i] <= 0x7e) i++;
    return v->kind == GG_VOCAB_BPE && i == t->len;
}

static gg_status set_plain(gg_vocab *v, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    for (size_t i = 0; i < v->n && err->status == GG_OK; i++) {
        gg_vocab_token *t = &v->tokens[i];
        t->plain = t->text;
        t->plain_len = t->len;
        if (is_plain(v, t)) continue;
        gg_buf_clear(&b);
        if (v->kind == GG_VOCAB_BPE) plain_of_bpe(t, &b, err);
        else plain_of_piece(t, &b, err);
        if (err->status != GG_OK) break;
        t->plain = gg_names_add(&v->names, b.data ? b.data : "", t->plain_len = b.len, err);
    }
    gg_buf_free(&b);
    return err->status;
}

/* ---- hash tables -------------------------------------------------------------------------------
 */

static const char *text_of(const void *v, size_t i, size_t *len)
{
    const gg_vocab_token *t = &((const gg_vocab *)v)->tokens[i];
    *len = t->len;
    return t->text;
}

static const char *plain_of(const void *v, size_t i, size_t *len)
{
    const gg_vocab_token *t = &((const gg_vocab *)v)->tokens[i];
    *len = t->plain_len;
    return t->plain;
}

/* Of two with the same bytes the first is found, and false is returned for the second. */
static bool index_one(const gg_vocab *v, gg_text_index *x, size_t i, gg_error *err)
{
    size_t was;
    return gg_text_add(x, v, i, &was, err) == GG_OK && was == SIZE_MAX;
}

/* The bytes of the two tokens of a merge, which lie together. */
static const char *pair_of(const void *v, size_t i, size_t *len)
{
    const gg_vocab_merge *m = &((const gg_vocab *)v)->merges[i];
    *len = sizeof m->left + sizeof m->right;
    return (const char *)m;
}

static gg_status index_texts(gg_vocab *v, gg_error *err)
{
    v->by_text = (gg_text_index){ .at = text_of, .expect = v->n };
    for (size_t i = 0; i < v->n && err->status == GG_OK; i++)
        v->repeats |= !index_one(v, &v->by_text, i, err);
    return err->status;
}

/* Of a letter and the byte with the same bytes the letter is found, and of two bytes the last. */
static gg_status index_plain(gg_vocab *v, gg_error *err)
{
    v->by_plain = (gg_text_index){ .at = plain_of, .expect = v->n };
    for (size_t i = 0; i < v->n && err->status == GG_OK; i++) {
        int32_t type = v->tokens[i].type;
        if (type != GG_TOKEN_CONTROL && type != GG_TOKEN_UNKNOWN && type != GG_TOKEN_UNUSED &&
            type != GG_TOKEN_BYTE)
            index_one(v, &v->by_plain, i, err);
    }
    for (size_t i = v->n; i-- > 0 && err->status == GG_OK;)
        if (v->tokens[i].type == GG_TOKEN_BYTE) index_one(v, &v->by_plain, i, err);
    return err->status;
}

static gg_status index_merges(gg_vocab *v, gg_error *err)
{
    v->by_pair = (gg_text_index){ .at = pair_of, .expect = v->n_merges };
    for (size_t i = 0; i < v->n_merges && err->status == GG_OK; i++)
        if (v->merges[i].left != UINT32_MAX && v->merges[i].right != UINT32_MAX)
            index_one(v, &v->by_pair, i, err);
    return err->status;
}

gg_status gg_vocab_index(gg_vocab *v, gg_error *err)
{
    if (v->by_pair.at) return GG_OK;
    return index_plain(v, err) == GG_OK ? index_merges(v, err) : err->status;
}

size_t gg_vocab_find(const gg_vocab *v, const char *text, size_t len)
{
    return gg_text_find(&v->by_text, v, text, len);
}

size_t gg_vocab_find_plain(const gg_vocab *v, const char *bytes, size_t len)
{
    assert(v->by_pair.at);
    return gg_text_find(&v->by_plain, v, bytes, len);
}

const gg_vocab_merge *gg_vocab_find_merge(const gg_vocab *v, uint32_t left, uint32_t right)
{
    assert(v->by_pair.at);
    uint32_t pair[2] = { left, right };
    size_t i = gg_text_find(&v->by_pair, v, (const char *)pair, sizeof pair);
    return i == SIZE_MAX ? NULL : &v->merges[i];
}

size_t gg_vocab_same(const gg_vocab *v, const gg_vocab *of, const gg_vocab_token *t)
{
    bool whole = t->type == GG_TOKEN_CONTROL || t->type == GG_TOKEN_UNKNOWN ||
                 t->type == GG_TOKEN_UNUSED;
    size_t id = whole || v->kind == of->kind ? gg_vocab_find(v, t->text, t->len) : SIZE_MAX;
    if (whole) return id;
    bool same = id != SIZE_MAX && v->tokens[id].plain_len == t->plain_len &&
                memcmp(v->tokens[id].plain, t->plain, t->plain_len) == 0;
    if (same) return id;
    id = gg_vocab_find_plain(v, t->plain, t->plain_len);
    bool byte = id != SIZE_MAX &&
                (v->tokens[id].type == GG_TOKEN_BYTE) != (t->type == GG_TOKEN_BYTE);
    return byte && v->kind == of->kind ? SIZE_MAX : id;
}

/* ---- reading -----------------------------------------------------------------------------------
 */

static uint32_t id_of(const gg_vocab *v, const char *text, size_t len)
{
    size_t id = gg_vocab_find(v, text, len);
    return id == SIZE_MAX ? UINT32_MAX : (uint32_t)id;
}

/* The token that has two texts joined. Most merges are in the order of the tokens that they make,
 * so the one that the merge before made and the next one are tried first. */
static uint32_t made_of(const gg_vocab *v, const char *left, size_t n, const char *right, size_t m,
                        uint32_t before, gg_buf *joined, gg_error *err)
{
    for (size_t i = before; i < v->n && i - before < 2 && !v->repeats; i++) {
        const gg_vocab_token *t = &v->tokens[i];
        if (t->len == n + m && memcmp(t->text, left, n) == 0 && memcmp(t->text + n, right, m) == 0)
            return (uint32_t)i;
    }
    gg_buf_clear(joined);
    gg_buf_append(joined, left, n, err);
    if (gg_buf_append(joined, right, m, err) != GG_OK) return UINT32_MAX;
    return id_of(v, joined->data, joined->len);
}

static gg_status fail_type(const gg_kv *kv, const char *what, gg_error *err)
{
    return gg_fail(err, GG_EFORMAT, "%.*s must be an array of %s",
                   kv->key_len < 80 ? (int)kv->key_len : 80, kv->key, what);
}

static gg_status read_merges(gg_vocab *v, gg_error *err)
{
    uint32_t before = 0;
    const gg_kv *kv = gg_meta_find(v->meta, "tokenizer.ggml.merges");
    const char *s;
    size_t n;
    gg_buf joined = GG_BUF_INIT;
    if (!kv || (kv->type == GG_TYPE_ARR && kv->count == 0)) return GG_OK;
    if (kv->type != GG_TYPE_ARR || kv->elem_type != GG_TYPE_STR)
        return fail_type(kv, "strings", err);
    if (kv->count > UINT32_MAX / 4) return gg_fail(err, GG_EUNSUPPORTED, "too many merges");
    if (!(v->merges = calloc((size_t)kv->count, sizeof *v->merges))) return no_room(err);
    for (uint64_t at = 0; gg_kv_next_str(kv, &at, &s, &n) && err->status == GG_OK;) {
        const char *space = n > 1 ? memchr(s + 1, ' ', n - 1) : NULL;
        gg_vocab_merge *m = &v->merges[v->n_merges++];
        *m = (gg_vocab_merge){ UINT32_MAX, UINT32_MAX, UINT32_MAX };
        if (!space) continue;
        size_t left = (size_t)(space - s), right = n - left - 1;
        *m = (gg_vocab_merge){ id_of(v, s, left), id_of(v, space + 1, right),
                               made_of(v, s, left, space + 1, right, before, &joined, err) };
        if (m->made != UINT32_MAX) before = m->made;
    }
    gg_buf_free(&joined);
    return err->status;
}

static gg_status fail_list(const char *key, uint64_t n, uint64_t tokens, gg_error *err)
{
    return gg_fail(err, GG_EFORMAT, "%s has %llu elements for %llu tokens", key,
                   (unsigned long long)n, (unsigned long long)tokens);
}

static gg_status read_tokens(gg_vocab *v, gg_error *err)
{
    const gg_kv *texts = gg_meta_find(v->meta, "tokenizer.ggml.tokens"),
                *types = gg_meta_find(v->meta, "tokenizer.ggml.token_type"),
                *scores = gg_meta_find(v->meta, "tokenizer.ggml.scores");
    if (!texts || texts->type != GG_TYPE_ARR || texts->elem_type != GG_TYPE_STR ||
        texts->count == 0)
        return gg_fail(err, GG_NO, "it has no vocabulary (tokenizer.ggml.tokens)");
    if (texts->count > UINT32_MAX / 4) return gg_fail(err, GG_EUNSUPPORTED, "too many tokens");
    if (types && (types->type != GG_TYPE_ARR ||
                  (types->elem_type != GG_TYPE_I32 && types->elem_type != GG_TYPE_U32)))
        return fail_type(types, "i32", err);
    if (types && types->count != texts->count)
        return fail_list("tokenizer.ggml.token_type", types->count, texts->count, err);
    if (scores && (scores->type != GG_TYPE_ARR || scores->elem_type != GG_TYPE_F32))
        return fail_type(scores, "f32", err);
    if (scores && scores->count != texts->count)
        return fail_list("tokenizer.ggml.scores", scores->count, texts->count, err);
    v->scores = scores != NULL;
    if (!(v->tokens = calloc((size_t)texts->count, sizeof *v->tokens))) return no_room(err);
    uint64_t at = 0;
    for (gg_vocab_token *t = v->tokens; gg_kv_next_str(texts, &at, &t->text, &t->len); t++) {
        t->type = types ? (int32_t)gg_le32(types->data + 4 * v->n) : GG_TOKEN_NORMAL;
        uint32_t bits = scores ? gg_le32(scores->data + 4 * v->n) : 0;
        memcpy(&t->score, &bits, 4);
        if (++v->n == texts->count) break;
    }
    return GG_OK;
}

static gg_status read_texts(const gg_meta *meta, gg_vocab *out, gg_error *err)
{
    const char *model = "";
    size_t len = 0;
    *out = (gg_vocab){ .meta = meta };
    if (!meta) return gg_fail(err, GG_NO, "organ records have no vocabulary");
    if (read_tokens(out, err) != GG_OK) return err->status;
    gg_kv_str(gg_meta_find(meta, "tokenizer.ggml.model"), &model, &len);
    out->kind = gg_text_is(model, len, "gpt2")    ? GG_VOCAB_BPE
                : gg_text_is(model, len, "llama") ? GG_VOCAB_SPM
                                                  : GG_VOCAB_OTHER;
    if (set_plain(out, err) == GG_OK && index_texts(out, err) == GG_OK) read_merges(out, err);
    return err->status;
}

gg_status gg_vocab_of(const gg_meta *meta, gg_vocab *out, gg_error *err)
{
    if (read_texts(meta, out, err) == GG_OK) gg_vocab_index(out, err);
    if (err->status != GG_OK) gg_vocab_free(out);
    return err->status;
}

gg_status gg_vocab_read(const gg_source *s, gg_vocab *out, gg_error *err)
{
    gg_vocab_of(gg_source_meta(s), out, err);
    return gg_at_file(err, gg_source_name(s));
}

gg_status gg_vocab_read_texts(const gg_source *s, gg_vocab *out, gg_error *err)
{
    if (read_texts(gg_source_meta(s), out, err) != GG_OK) gg_vocab_free(out);
    return gg_at_file(err, gg_source_name(s));
}

void gg_vocab_free(gg_vocab *v)
{
    free(v->tokens);
    free(v->merges);
    gg_text_index_free(&v->by_text);
    gg_text_index_free(&v->by_plain);
    gg_text_index_free(&v->by_pair);
    gg_names_free(&v->names);
    *v = (gg_vocab){ 0 };
}

/* ---- keys with ids ------------------------------------------------------------------------------
 */

static bool is_integer(uint32_t type)
{
    return type != GG_TYPE_STR && type != GG_TYPE_F32 && type != GG_TYPE_F64 &&
           type != GG_TYPE_BOOL && type != GG_TYPE_ARR;
}

/* bos_token_id, eog_token_ids, adapters.token_ids_activate; and lists such as suppress_tokens. */
static bool states_ids(const gg_kv *kv)
{
    static const char *const ends[] = { "token_id", "token_ids", ".token_ids_activate",
                                        ".token_ids_substitute" };
    bool list = kv->type == GG_TYPE_ARR, is = list && gg_text_ends(kv->key, kv->key_len, "_tokens");
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !is; i++)
        is = gg_text_ends(kv->key, kv->key_len, ends[i]);
    return is && is_integer(list ? kv->elem_type : kv->type);
}

gg_status gg_vocab_each_id(const gg_meta *meta, gg_vocab_id_fn *fn, void *ctx, gg_error *err)
{
    for (size_t i = 0; i < meta->n && err->status == GG_OK; i++)
        if (states_ids(&meta->kv[i])) fn(ctx, &meta->kv[i], err);
    return err->status;
}

uint64_t gg_vocab_id_at(const gg_kv *kv, uint64_t i)
{
    uint64_t id;
    return gg_kv_u64_at(kv, i, &id) ? id : UINT64_MAX;
}
