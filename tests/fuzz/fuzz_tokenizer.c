/* fuzz_tokenizer.c - any bytes as a file of a tokenizer: as tokenizer.json, tokenizer.model,
 * vocab.json or merges.txt, and as the files beside a sound one. Refused with a reason, or the keys
 * have lists of one length, and the vocabulary can be read, searched and shown with other rows. */
#include "room.h"

#include "hf/tokenizer.h"
#include "vocab/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/tokenizer", NULL };

static uint64_t count(const gg_meta *meta, const char *key)
{
    const gg_kv *kv = gg_meta_find(meta, key);
    return kv ? kv->count : 0;
}

/* Every token is found, under its own id or that of an earlier one with the same text. */
static void search(const gg_meta *meta)
{
    gg_error e = GG_ERROR_INIT;
    gg_vocab v;
    if (gg_vocab_of(meta, &v, &e) != GG_OK) {
        FUZZ_MUST(e.what[0]);
        return;
    }
    for (size_t i = 0; i < v.n; i++) {
        const gg_vocab_token *t = &v.tokens[i];
        size_t id = gg_vocab_find(&v, t->text, t->len);
        FUZZ_MUST(id <= i && v.tokens[id].len == t->len);
        size_t same = gg_vocab_same(&v, &v, t);
        FUZZ_MUST(same == SIZE_MAX || same < v.n);
    }
    for (size_t i = 0; i < v.n_merges; i++) {
        const gg_vocab_merge *m = &v.merges[i];
        FUZZ_MUST(m->made == UINT32_MAX || m->made < v.n);
        if (m->left != UINT32_MAX && m->right != UINT32_MAX)
            FUZZ_MUST(gg_vocab_find_merge(&v, m->left, m->right) <= m);
    }
    gg_vocab_free(&v);
}

static void convert(uint8_t how)
{
    static const char *const archs[] = { "llama", "gpt2", "gemma3", "t5", "bert", "", "qwen2" };
    static const char *const pres[] = { NULL, "gpt-2", "llama-bpe" };
    gg_error e = GG_ERROR_INIT;
    gg_meta meta = GG_META_INIT;
    gg_buf notes = GG_BUF_INIT;
    uint64_t n = 0;
    gg_hf_tokenizer_from from = { .folder = room("tk"),
                                  .arch = archs[how % 7],
                                  .pre = pres[how / 7 % 3],
                                  .rows = how < 128 ? 0 : how };
    gg_status counted = gg_hf_count_tokens(from.folder, &n, &e);
    FUZZ_MUST(counted == GG_OK || e.what[0]);
    e = (gg_error)GG_ERROR_INIT;
    if (gg_hf_tokenizer(&from, &meta, &notes, &e) == GG_OK) {
        uint64_t tokens = count(&meta, "tokenizer.ggml.tokens");
        uint64_t types = count(&meta, "tokenizer.ggml.token_type");
        uint64_t scores = count(&meta, "tokenizer.ggml.scores");
        FUZZ_MUST(types == 0 || types == tokens);
        FUZZ_MUST(scores == 0 || scores == tokens);
        FUZZ_MUST(from.rows == 0 || tokens == 0 || tokens == from.rows);
        if (tokens) search(&meta);
    } else {
        FUZZ_MUST(e.what[0]);
    }
    gg_meta_free(&meta);
    gg_buf_free(&notes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const beside[] = { "tk/tokenizer_config.json", "tk/special_tokens_map.json",
                                          "tk/added_tokens.json", "tk/generation_config.json",
                                          "tk/chat_template.jinja" };
    static const char *const sound[] = { "tests/fuzz/seeds/tokenizer/bytes.json",
                                         "tests/fuzz/seeds/tokenizer/fallback.json" };
    uint8_t choice[2] = { 0 };
    size_t n = room_choices(data, size, choice, 2);
    const char *name = n && data[0] == '{' ? "tk/tokenizer.json" : "tk/tokenizer.model",
               *also = NULL;
    mkdir(room("tk"), 0700);
    if (choice[0] % 4 == 1) {
        name = beside[choice[0] / 4 % 5];
        room_copy(sound[choice[0] / 32 % 2], also = "tk/tokenizer.json");
    } else if (choice[0] % 4 == 2 && n && data[0] == '{') {
        name = "tk/vocab.json";
        room_copy("tests/fuzz/seeds/tokenizer/merges.txt", also = "tk/merges.txt");
    } else if (choice[0] % 4 == 2) {
        name = "tk/merges.txt";
        room_copy("tests/fuzz/seeds/tokenizer/vocab.json", also = "tk/vocab.json");
    }
    room_put(name, data, n);
    convert(choice[1]);
    room_remove(name);
    if (also) room_remove(also);
    return 0;
}
