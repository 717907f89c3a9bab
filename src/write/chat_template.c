/* chat_template.c - compares a chat template with the vocabulary. */
#include "chat_template.h"

#include <string.h>

enum { MAX_NAMES = 32, MAX_NAME = 64 };

typedef struct token_names {
    const char *at[MAX_NAMES];
    size_t len[MAX_NAMES];
    bool known[MAX_NAMES];
    size_t n;
} token_names;

/* U+FF5C, the wide bar in the special tokens of DeepSeek models. */
static const char wide_bar[] = "\xef\xbd\x9c";

/* The length of a special token at the start of p; 0 if there is none. Names in <...> without bars
 * are only counted if they are known to be special, because templates contain much plain text of
 * that form, such as <tool_call>. */
static size_t special_token_length(const char *p, size_t left)
{
    static const char *const plain[] = { "<start_of_turn>", "<end_of_turn>", "<start_of_image>" };
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (left >= strlen(plain[i]) && memcmp(p, plain[i], strlen(plain[i])) == 0)
            return strlen(plain[i]);
    const char *bar = left > 2 && p[1] == '|'                       ? "|"
                      : left > 4 && memcmp(p + 1, wide_bar, 3) == 0 ? wide_bar
                                                                    : NULL;
    if (p[0] != '<' || !bar) return 0;
    size_t w = strlen(bar);
    for (size_t i = 1 + w; i + w < left && i < MAX_NAME; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c <= ' ' || strchr("<>'\"{}+", c)) return 0;
        if (i > 1 + w && memcmp(p + i, bar, w) == 0 && p[i + w] == '>') return i + w + 1;
    }
    return 0;
}

static void collect_name(token_names *names, const char *at, size_t len)
{
    for (size_t i = 0; i < names->n; i++)
        if (names->len[i] == len && memcmp(names->at[i], at, len) == 0) return;
    if (names->n == MAX_NAMES) return;
    names->at[names->n] = at;
    names->len[names->n] = len;
    names->known[names->n++] = false;
}

size_t gg_template_unknown(const char *text, size_t len, const gg_kv *tokens, char *out,
                           size_t size)
{
    token_names names = { .n = 0 };
    for (size_t i = 0; i < len;) {
        size_t n = text[i] == '<' ? special_token_length(text + i, len - i) : 0;
        if (n) collect_name(&names, text + i, n);
        i += n ? n : 1;
    }
    const char *token;
    size_t token_len, unknown = 0, used = 0;
    uint64_t pos = 0;
    while (names.n && gg_kv_next_str(tokens, &pos, &token, &token_len))
        for (size_t k = 0; k < names.n; k++)
            if (names.len[k] == token_len && memcmp(names.at[k], token, token_len) == 0)
                names.known[k] = true;
    if (size) out[0] = 0;
    for (size_t k = 0; k < names.n; k++) {
        char escaped[4 * MAX_NAME + 4];
        if (names.known[k]) continue;
        size_t n = gg_escape(names.at[k], names.len[k], escaped, sizeof escaped);
        if (used + n + 2 < size) {
            if (used) out[used++] = ' ';
            memcpy(out + used, escaped, n + 1);
            used += n;
        }
        unknown++;
    }
    return unknown;
}
