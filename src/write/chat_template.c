/* chat_template.c - compares a chat template with the vocabulary. */
#include "chat_template.h"

#include "base/text.h"
#include "gguf/gguf.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAMES = 128, MAX_NAME = 64 };

/* Types of tokens: those that engines look for in a text before they split it. */
enum { UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4 };

typedef struct token_names {
    const char *at[MAX_NAMES];
    size_t len[MAX_NAMES];
    bool known[MAX_NAMES];
    bool if_known[MAX_NAMES];  /* plain text if the vocabulary lacks it */
    bool in_angles[MAX_NAMES]; /* and of the form <name>, which may be an ordinary token */
    uint64_t starts[MAX_NAMES], ends[MAX_NAMES]; /* lengths at which other tokens divide it */
    bool split[MAX_NAMES];
    uint64_t id[MAX_NAMES];
    size_t n;
} token_names;

/* ---- names in a template ------------------------------------------------------------------ */

/* U+FF5C, the wide bar in the special tokens of DeepSeek models. */
static const char wide_bar[] = "\xef\xbd\x9c";

/* Names in <...> without bars that are known to be special. Templates contain much plain text of
 * that form, such as <tool_call>. */
static const char plain[] = "<start_of_turn> <end_of_turn> <start_of_image>";

/* Names in square brackets that are always tokens, and those that some models write as plain text.
 */
static const char brackets[] =
    "[TOOL_CALLS] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] "
    "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT] [/TOOL_CONTENT] [IMG] [IMG_BREAK] "
    "[IMG_END] [ARGS] [CALL_ID] [BEGIN_AUDIO] [AUDIO] [gMASK]";

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/* The length of <|name|> at the start of p, with either bar; 0 if there is none. */
static size_t two_bars(const char *p, size_t left)
{
    const char *bar = left > 2 && p[1] == '|'                       ? "|"
                      : left > 4 && memcmp(p + 1, wide_bar, 3) == 0 ? wide_bar
                                                                    : NULL;
    if (!bar) return 0;
    size_t w = strlen(bar);
    for (size_t i = 1 + w; i + w < left && i < MAX_NAME; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c <= ' ' || strchr("<>'\"{}+", c)) return 0;
        if (i > 1 + w && memcmp(p + i, bar, w) == 0 && p[i + w] == '>') return i + w + 1;
    }
    return 0;
}

/* The same of <|name> and <name|>. */
static size_t one_bar(const char *p, size_t left)
{
    size_t at = left > 1 && p[1] == '|' ? 2 : 1, n = at;
    while (n < left && n < MAX_NAME && is_name_byte(p[n])) n++;
    if (n == at || n >= left) return 0;
    if (at == 2) return p[n] == '>' ? n + 1 : 0;
    return n + 1 < left && p[n] == '|' && p[n + 1] == '>' ? n + 2 : 0;
}

/* The same of a known name in <...>. */
static size_t plain_name(const char *p, size_t left)
{
    const char *end = memchr(p, '>', left < MAX_NAME ? left : MAX_NAME);
    size_t n = end ? (size_t)(end + 1 - p) : 0;
    return n && gg_text_has_word(plain, p, n) ? n : 0;
}

/* The same of any <name> and </name>. */
static size_t any_name(const char *p, size_t left)
{
    size_t at = left > 1 && p[1] == '/' ? 2 : 1, n = at;
    while (n < left && n + 1 < MAX_NAME && (is_name_byte(p[n]) || p[n] == ':')) n++;
    return n > at && n < left && p[n] == '>' ? n + 1 : 0;
}

/* The same of [NAME] and [/NAME] in capitals, and [gMASK]. */
static size_t bracket_name(const char *p, size_t left)
{
    size_t at = left > 1 && p[1] == '/' ? 2 : 1, n = at;
    while (n < left && n < MAX_NAME &&
           ((p[n] >= 'A' && p[n] <= 'Z') || p[n] == '_' || (n == 1 && p[n] == 'g')))
        n++;
    return n > at + 1 && n < left && p[n] == ']' ? n + 1 : 0;
}

static void collect_name(token_names *names, const char *at, size_t len, bool if_known)
{
    for (size_t i = 0; i < names->n; i++)
        if (names->len[i] == len && memcmp(names->at[i], at, len) == 0) return;
    if (names->n == MAX_NAMES) return;
    names->at[names->n] = at;
    names->len[names->n] = len;
    names->in_angles[names->n] = if_known && *at == '<';
    names->if_known[names->n++] = if_known;
}

/* In Llama 2 [INST] is plain text. With a token that no such model has, it is one too. */
static void decide_instructions(token_names *names)
{
    bool tokens = false;
    for (size_t i = 0; i < names->n; i++) tokens |= names->at[i][0] == '[' && !names->if_known[i];
    for (size_t i = 0; i < names->n && tokens; i++)
        if (gg_text_has_word("[INST] [/INST]", names->at[i], names->len[i]))
            names->if_known[i] = false;
}

static void collect(token_names *names, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        const char *p = text + i;
        size_t n = 0, left = len - i;
        if (*p == '<') {
            n = two_bars(p, left);
            if (!n) n = one_bar(p, left);
            if (!n) n = plain_name(p, left);
            if (n) collect_name(names, p, n, false);
            else if ((n = any_name(p, left)) > 0) collect_name(names, p, n, true);
        } else if (*p == '[' && (n = bracket_name(p, left)) > 0) {
            collect_name(names, p, n, !gg_text_has_word(brackets, p, n));
        }
        i += n ? n : 1;
    }
    decide_instructions(names);
}

/* ---- the vocabulary ----------------------------------------------------------------------- */

/* Notes where a token of `len` bytes begins or ends name k. */
static void divide(token_names *names, size_t k, const char *token, size_t len)
{
    size_t n = names->len[k];
    if (!names->in_angles[k] || len == 0 || len >= n) return;
    if (memcmp(names->at[k], token, len) == 0) names->starts[k] |= 1ull << len;
    if (memcmp(names->at[k] + n - len, token, len) == 0) names->ends[k] |= 1ull << (n - len);
}

static void look_up(token_names *names, const gg_kv *tokens, const gg_kv *types)
{
    const char *token;
    size_t len;
    uint64_t pos = 0, type;
    for (uint64_t id = 0; names->n && gg_kv_next_str(tokens, &pos, &token, &len); id++)
        for (size_t k = 0; k < names->n; k++) {
            divide(names, k, token, len);
            if (names->len[k] != len || memcmp(names->at[k], token, len) != 0) continue;
            if (!gg_kv_u64_at(types, id, &type)) type = 0;
            names->known[k] = true;
            names->id[k] = id;
            names->split[k] = type != UNKNOWN && type != CONTROL && type != USER_DEFINED;
        }
}

/* Appends a name, and the number of its token if it has one, if there is room. */
static void append(char *out, size_t size, const token_names *names, size_t k)
{
    char text[4 * MAX_NAME + 64];
    size_t used = strlen(out), n;
    gg_escape(names->at[k], names->len[k], text, sizeof text);
    n = strlen(text);
    if (names->known[k])
        n += (size_t)snprintf(text + n, sizeof text - n, " (%llu)",
                              (unsigned long long)names->id[k]);
    if (used + n + 2 > size) return;
    if (used) out[used++] = ' ';
    memcpy(out + used, text, n + 1);
}

bool gg_template_tokens_find(const gg_meta *meta, gg_template_tokens *out)
{
    token_names names = { .n = 0 };
    const gg_kv *tokens = gg_meta_find(meta, "tokenizer.ggml.tokens");
    const char *text;
    size_t len;
    *out = (gg_template_tokens){ 0 };
    if (!tokens || !gg_kv_str(gg_meta_find(meta, "tokenizer.chat_template"), &text, &len))
        return false;
    collect(&names, text, len);
    look_up(&names, tokens, gg_meta_find(meta, "tokenizer.ggml.token_type"));
    for (size_t k = 0; k < names.n; k++) {
        /* A tokenizer may join an ordinary token of two others, as any word. */
        if (names.starts[k] & names.ends[k]) continue;
        if (names.known[k] && names.split[k]) {
            out->split++;
            append(out->split_list, sizeof out->split_list, &names, k);
        } else if (!names.known[k] && !names.if_known[k]) {
            out->unknown++;
            append(out->unknown_list, sizeof out->unknown_list, &names, k);
        }
    }
    return true;
}
