/* check_vocabulary.c - compares the tokenizer's lists with each other and with the rows of
 * the embedding. */
#include "check_core.h"

#include <stdlib.h>
#include <string.h>

#define TOKENS "tokenizer.ggml.tokens"

typedef struct text {
    const char *bytes;
    size_t len;
} text;

static int order_tokens(const void *a, const void *b)
{
    const text *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int d = n ? memcmp(x->bytes, y->bytes, n) : 0;
    return d ? d : (x->len > y->len) - (x->len < y->len);
}

static void report_key(check *c, gg_check_level level, const char *rule, const char *key,
                       const char *what)
{
    gg_check_say(c, level, rule, key, strlen(key), "%s", what);
}

/* ---- lists ----------------------------------------------------------------------------- */

/* The sorted tokens, or NULL if there are none or memory is exhausted. */
static text *sorted_tokens(const gg_kv *tokens, size_t *n)
{
    text *list = calloc((size_t)tokens->count + 1, sizeof *list);
    uint64_t pos = 0;
    for (*n = 0; list && *n < tokens->count; ++*n)
        if (!gg_kv_next_str(tokens, &pos, &list[*n].bytes, &list[*n].len)) break;
    if (list && *n) qsort(list, *n, sizeof *list, order_tokens);
    return list;
}

/* Engines refuse duplicate tokens. Empty tokens are ignored, because engines rename them. */
static void duplicates(check *c, const text *list, size_t n)
{
    size_t twice = 0, first = 0;
    for (size_t i = 1; i < n; i++)
        if (list[i].len && order_tokens(&list[i - 1], &list[i]) == 0 && twice++ == 0) first = i;
    if (twice == 0) return;
    char shown[200];
    gg_escape(list[first].bytes, list[first].len < 40 ? list[first].len : 40, shown, sizeof shown);
    gg_check_say(c, GG_CHECK_ERROR, "vocabulary-duplicate", TOKENS, strlen(TOKENS),
                 "%zu token%s in it more than once, for example '%s'", twice,
                 twice == 1 ? " is" : "s are", shown);
}

/* Merges name pairs of tokens that become one: "a b" makes "ab". */
static void merges(check *c, const gg_kv *kv, const text *list, size_t n)
{
    static const char key[] = "tokenizer.ggml.merges";
    uint64_t pos = 0, broken = 0, unknown = 0;
    const char *s;
    size_t len;
    if (kv->type != GG_TYPE_ARR || kv->elem_type != GG_TYPE_STR) {
        report_key(c, GG_CHECK_ERROR, "vocabulary", key, "it must be an array of strings");
        return;
    }
    while (gg_kv_next_str(kv, &pos, &s, &len)) {
        const char *space = len > 1 ? memchr(s + 1, ' ', len - 1) : NULL;
        char joined[512];
        if (!space) {
            broken++;
            continue;
        }
        size_t left = (size_t)(space - s), right = len - left - 1;
        if (left + right > sizeof joined) continue;
        memcpy(joined, s, left);
        memcpy(joined + left, space + 1, right);
        text want = { joined, left + right };
        if (n && !bsearch(&want, list, n, sizeof *list, order_tokens)) unknown++;
    }
    if (broken)
        gg_check_say(c, GG_CHECK_WARNING, "merges", key, sizeof key - 1,
                     "%llu of %llu merges are not two tokens with a space between them",
                     (unsigned long long)broken, (unsigned long long)kv->count);
    if (unknown)
        gg_check_say(c, unknown * 2 > kv->count ? GG_CHECK_WARNING : GG_CHECK_NOTE, "merges", key,
                     sizeof key - 1,
                     "%llu of %llu merges produce a token that the vocabulary lacks",
                     (unsigned long long)unknown, (unsigned long long)kv->count);
}

static void same_length(check *c, const char *key, uint64_t tokens, bool integers)
{
    const gg_kv *kv = gg_check_key(c, key);
    if (!kv) return;
    bool typed = kv->type == GG_TYPE_ARR &&
                 (kv->elem_type == GG_TYPE_I32 || (!integers && kv->elem_type == GG_TYPE_F32));
    if (!typed)
        report_key(c, GG_CHECK_ERROR, "vocabulary", key,
                   integers ? "engines read it only as an array of i32"
                            : "engines read it only as an array of f32 or i32");
    else if (kv->count != tokens)
        gg_check_say(c, kv->count < tokens ? GG_CHECK_ERROR : GG_CHECK_WARNING, "vocabulary", key,
                     strlen(key), "it has %llu values for %llu tokens",
                     (unsigned long long)kv->count, (unsigned long long)tokens);
}

/* ---- special tokens ---------------------------------------------------------------------- */

static void special(check *c, uint64_t tokens)
{
    for (size_t i = 0; i < c->in->meta->n; i++) {
        const gg_kv *kv = &c->in->meta->kv[i];
        static const char start[] = "tokenizer.ggml.", end[] = "_token_id";
        uint64_t id;
        if (kv->key_len < sizeof start + sizeof end ||
            memcmp(kv->key, start, sizeof start - 1) != 0 ||
            memcmp(kv->key + kv->key_len - (sizeof end - 1), end, sizeof end - 1) != 0)
            continue;
        if (!gg_kv_u64(kv, &id) || id < tokens) continue;
        bool none = id == UINT32_MAX; /* this value means "no such token" */
        gg_check_say(c, none ? GG_CHECK_NOTE : GG_CHECK_WARNING, "special-token", kv->key,
                     kv->key_len, "token %llu does not exist; the vocabulary has %llu",
                     (unsigned long long)id, (unsigned long long)tokens);
    }
}

/* ---- the kind of tokenizer ------------------------------------------------------------------ */

static void tokenizer(check *c, const char *model, size_t len)
{
    static const char known[] =
        "llama bert gpt2 hybriddna whitespace t5 rwkv test plamo2 gemma4 no_vocab none";
    static const char bpe[] = "gpt2 hybriddna whitespace";
    const gg_kv *pre = gg_check_key(c, "tokenizer.ggml.pre");
    const char *name = "";
    size_t n = 0;
    if (!gg_check_word(known, model, len)) {
        report_key(c, GG_CHECK_ERROR, "tokenizer", "tokenizer.ggml.model",
                   "llama.cpp v0.5.0 does not know this tokenizer");
        return;
    }
    if (!gg_check_word("gpt2 hybriddna whitespace gemma4", model, len)) return;
    gg_kv_str(pre, &name, &n);
    if (!gg_check_key(c, "tokenizer.ggml.merges") && !gg_check_word("kimi-k2", name, n))
        report_key(c, GG_CHECK_ERROR, "tokenizer", "tokenizer.ggml.merges",
                   "this key is missing; the tokenizer needs it");
    if (!gg_check_word(bpe, model, len)) return;
    if (n == 0)
        report_key(
            c, GG_CHECK_WARNING, "tokenizer", "tokenizer.ggml.pre",
            "without a pre-tokenizer engines split text by a default, which degrades the output");
    else if (!gg_check_pre_known(name, n))
        report_key(c, GG_CHECK_ERROR, "tokenizer", "tokenizer.ggml.pre",
                   "llama.cpp v0.5.0 does not know this pre-tokenizer");
}

/* Checks the rows of the embedding and the output. For architectures with a table, the rule for
 * shapes does this. */
static void check_rows(check *c, uint64_t tokens)
{
    static const char *const names[] = { "token_embd.weight", "output.weight" };
    for (int k = 0; k < 2 && !c->arch; k++) {
        size_t i = gg_check_find(c, names[k], strlen(names[k]));
        if (i == SIZE_MAX || c->in->tensors[i].dims[1] == tokens) continue;
        report_key(c, GG_CHECK_ERROR, "vocabulary", names[k],
                   "its number of rows differs from the number of tokens in the vocabulary");
    }
}

void gg_check_vocabulary_rules(check *c)
{
    const gg_kv *kv = gg_check_key(c, TOKENS);
    const char *model = "";
    size_t len = 0;
    bool named = gg_kv_str(gg_check_key(c, "tokenizer.ggml.model"), &model, &len);
    if (!named) {
        report_key(c, GG_CHECK_ERROR, "tokenizer", "tokenizer.ggml.model",
                   "this key is missing; an engine requires it");
    } else {
        tokenizer(c, model, len);
    }
    if (named && gg_check_word("no_vocab none", model, len)) return;
    if (!kv || kv->type != GG_TYPE_ARR || kv->elem_type != GG_TYPE_STR) {
        report_key(c, GG_CHECK_ERROR, "vocabulary", TOKENS,
                   kv ? "it must be an array of strings"
                      : "this key is missing; an engine requires it");
        return;
    }
    same_length(c, "tokenizer.ggml.scores", kv->count, false);
    same_length(c, "tokenizer.ggml.token_type", kv->count, true);
    special(c, kv->count);
    check_rows(c, kv->count);
    uint64_t stated = gg_check_number_or(c, "vocab_size", kv->count);
    if (stated != kv->count)
        gg_check_say(c, GG_CHECK_NOTE, "vocabulary", TOKENS, strlen(TOKENS),
                     "it has %llu tokens, but vocab_size is %llu", (unsigned long long)kv->count,
                     (unsigned long long)stated);
    size_t n = 0;
    text *list = sorted_tokens(kv, &n);
    const gg_kv *pairs = gg_check_key(c, "tokenizer.ggml.merges");
    if (list) duplicates(c, list, n);
    if (list && pairs) merges(c, pairs, list, n);
    free(list);
}
