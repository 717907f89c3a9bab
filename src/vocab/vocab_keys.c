/* vocab_keys.c - the keys of a vocabulary. */
#include "vocab.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "write/keys.h"

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

gg_status gg_vocab_take_keys(gg_meta *meta, const gg_meta *model, const gg_meta *tokenizer,
                             size_t n, gg_error *err)
{
    for (int own = 1; own >= 0; own--) {
        const gg_meta *from = own ? model : tokenizer;
        for (size_t i = 0; i < from->n && err->status == GG_OK; i++) {
            const gg_kv *kv = &from->kv[i];
            if (own != gg_text_begins(kv->key, kv->key_len, "tokenizer."))
                gg_meta_set(meta, kv, err);
        }
    }
    return err->status == GG_OK ? gg_vocab_set_size(meta, n, err) : err->status;
}
