/* vocab_keys.c - the keys of a vocabulary. */
#include "vocab.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "write/keys.h"

#include <stdlib.h>
#include <string.h>

gg_status gg_vocab_set_tokens(gg_meta *meta, const gg_vocab_token *tokens, size_t n, bool scores,
                              gg_error *err)
{
    gg_buf texts = GG_BUF_INIT, types = GG_BUF_INIT, floats = GG_BUF_INIT;
    gg_meta_delete(meta, GG_VOCAB_COPY);
    for (size_t i = 0; i < n && err->status == GG_OK; i++) {
        uint8_t bytes[4];
        uint32_t bits;
        gg_array_add_str(&texts, tokens[i].text, tokens[i].len, err);
        gg_put_le32(bytes, (uint32_t)tokens[i].type);
        gg_buf_append(&types, bytes, 4, err);
        memcpy(&bits, &tokens[i].score, 4);
        gg_put_le32(bytes, bits);
        if (scores) gg_buf_append(&floats, bytes, 4, err);
    }
    if (err->status == GG_OK)
        gg_meta_set_array(meta, "tokenizer.ggml.tokens", GG_TYPE_STR, n, &texts, err);
    if (err->status == GG_OK)
        gg_meta_set_array(meta, "tokenizer.ggml.token_type", GG_TYPE_I32, n, &types, err);
    if (err->status == GG_OK && scores)
        gg_meta_set_array(meta, "tokenizer.ggml.scores", GG_TYPE_F32, n, &floats, err);
    gg_buf_free(&texts);
    gg_buf_free(&types);
    gg_buf_free(&floats);
    return err->status;
}

gg_status gg_vocab_set_size(gg_meta *meta, size_t n, gg_error *err)
{
    char key[128];
    if (!gg_arch_key(meta, "vocab_size", key, sizeof key) || !gg_meta_find(meta, key)) return GG_OK;
    return gg_meta_set_u32(meta, key, (uint32_t)n, err);
}

uint32_t *gg_vocab_new_ids(const uint32_t *from, size_t n_new, size_t n, gg_error *err)
{
    uint32_t *to = malloc((n + 1) * sizeof *to);
    if (!to) gg_fail(err, GG_ENOMEM, "no memory for a vocabulary");
    for (size_t i = 0; i < n && to; i++) to[i] = UINT32_MAX;
    for (size_t i = n_new; i-- > 0 && to;)
        if (from[i] < n) to[from[i]] = (uint32_t)i;
    return to;
}

typedef struct renumbering {
    gg_meta *meta;
    const gg_vocab_ids *ids;
    bool tokenizer;
} renumbering;

static gg_status renumber_key(void *ctx, const gg_kv *kv, gg_error *err)
{
    const renumbering *r = ctx;
    size_t size = gg_type_size(kv->type == GG_TYPE_ARR ? kv->elem_type : kv->type);
    gg_buf b = GG_BUF_INIT;
    gg_kv set = *kv;
    if (r->tokenizer != gg_text_begins(kv->key, kv->key_len, "tokenizer.")) return GG_OK;
    gg_buf_append(&b, kv->data, (size_t)kv->size, err);
    for (uint64_t i = 0; i < kv->count && err->status == GG_OK; i++) {
        uint8_t bytes[8];
        uint64_t id = gg_vocab_id_at(kv, i);
        if (id >= r->ids->n) continue;
        if (r->ids->to[id] == UINT32_MAX)
            gg_fail(err, GG_NO, "%.*s has token %llu, which the new vocabulary lacks",
                    kv->key_len < 80 ? (int)kv->key_len : 80, kv->key, (unsigned long long)id);
        else if (size < 4 && r->ids->to[id] >> (8 * size - 1))
            gg_fail(err, GG_EUNSUPPORTED, "%.*s has no room for an id of %lu",
                    kv->key_len < 80 ? (int)kv->key_len : 80, kv->key,
                    (unsigned long)r->ids->to[id]);
        gg_put_le64(bytes, r->ids->to[id]);
        memcpy(b.data + i * size, bytes, size);
    }
    set.data = (const uint8_t *)b.data;
    if (err->status == GG_OK) gg_meta_set(r->meta, &set, err);
    gg_buf_free(&b);
    return err->status;
}

gg_status gg_vocab_renumber(gg_meta *meta, const gg_meta *model, const gg_vocab_ids *ids,
                            bool tokenizer, gg_error *err)
{
    renumbering r = { meta, ids, tokenizer };
    return gg_vocab_each_id(model, renumber_key, &r, err);
}

gg_status gg_vocab_take_keys(gg_meta *meta, const gg_meta *model, const gg_meta *tokenizer,
                             size_t n, const gg_vocab_ids *ids, gg_error *err)
{
    for (int own = 1; own >= 0; own--) {
        const gg_meta *from = own ? model : tokenizer;
        for (size_t i = 0; i < from->n && err->status == GG_OK; i++) {
            const gg_kv *kv = &from->kv[i];
            if (own != gg_text_begins(kv->key, kv->key_len, "tokenizer."))
                gg_meta_set(meta, kv, err);
        }
    }
    if (err->status == GG_OK && ids) gg_vocab_renumber(meta, model, ids, false, err);
    return err->status == GG_OK ? gg_vocab_set_size(meta, n, err) : err->status;
}
