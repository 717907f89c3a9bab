/* check_tokens.c - rules on single tokens: those that engines look for by their text, empty ones,
 * and those that the chat template writes.
 *
 * Source: llama.cpp v0.5.0, src/llama-vocab.cpp. */
#include "check_context.h"

#include "base/text.h"
#include "write/chat_template.h"

#include <string.h>

/* Engines set attributes of these tokens if general.name has "phi-3" or "phi3". */
static const char *const of_phi3[] = { "</s>", "<unk>", "<s>", "<|endoftext|>" };
#define N_PHI3 (sizeof of_phi3 / sizeof of_phi3[0])

typedef struct token_facts {
    uint64_t empty, first_empty;
    bool bytes[256]; /* there is a token of that byte */
    bool phi3[N_PHI3];
} token_facts;

/* The byte of a token "<0xE3>", or -1. */
static int byte_of(const char *s, size_t len)
{
    if (len == 1) return (uint8_t)s[0];
    if (len != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return -1;
    int high = gg_hex_digit(s[3]), low = gg_hex_digit(s[4]);
    bool small = s[3] >= 'a' || s[4] >= 'a'; /* engines write capitals */
    return high < 0 || low < 0 || small ? -1 : high * 16 + low;
}

static void gather(const gg_kv *tokens, token_facts *f)
{
    uint64_t pos = 0;
    const char *s;
    size_t len;
    for (uint64_t id = 0; gg_kv_next_str(tokens, &pos, &s, &len); id++) {
        int byte = byte_of(s, len);
        if (byte >= 0) f->bytes[byte] = true;
        if (len == 0 && f->empty++ == 0) f->first_empty = id;
        for (size_t i = 0; i < N_PHI3; i++)
            if (gg_text_is(s, len, of_phi3[i])) f->phi3[i] = true;
    }
}

/* Engines spell out what no other token covers with the tokens of single bytes. */
static void check_bytes(check *c, const gg_kv *tokens, const token_facts *f)
{
    size_t missing = 0, used = 0;
    char list[60] = "";
    for (size_t i = 0; i < 256; i++) {
        if (f->bytes[i]) continue;
        if (missing++ < 5)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s<0x%02zX>",
                                     used ? " " : "", i);
    }
    /* a vocabulary that has no room for them is not meant for any text */
    if (missing)
        gg_check_say(c, tokens->count > 256 ? GG_CHECK_ERROR : GG_CHECK_WARNING, "vocabulary",
                     at_key(tokens),
                     "it lacks %zu of the 256 tokens for single bytes, and an engine stops at a "
                     "text that needs "
                     "one: %s%s",
                     missing, list, missing > 5 ? " ..." : "");
}

static bool name_has(const char *name, size_t len, const char *part)
{
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= len; i++) {
        size_t k = 0;
        while (k < n && (name[i + k] >= 'A' && name[i + k] <= 'Z' ? name[i + k] + 32
                                                                  : name[i + k]) == part[k])
            k++;
        if (k == n) return true;
    }
    return false;
}

static void check_phi3(check *c, const token_facts *f)
{
    const gg_kv *kv = gg_design_key(&c->d, "general.name");
    const char *name;
    size_t len, used = 0;
    char list[60] = "";
    if (!gg_kv_str(kv, &name, &len) ||
        !(name_has(name, len, "phi-3") || name_has(name, len, "phi3")))
        return;
    for (size_t i = 0; i < N_PHI3; i++)
        if (!f->phi3[i])
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? " " : "",
                                     of_phi3[i]);
    if (used)
        say_error(c, "vocabulary", at_key(kv),
                  "llama.cpp looks for tokens of Phi-3 because of this name, and stops, as the "
                  "vocabulary lacks %s; "
                  "give the model another name",
                  list);
}

/* Engines know the types 0 to 6, and treat others as if there were none. */
static void check_types(check *c)
{
    const gg_kv *types = gg_design_key(&c->d, "tokenizer.ggml.token_type");
    uint64_t n = 0, first = 0, v;
    if (!types || types->type != GG_TYPE_ARR) return;
    for (uint64_t i = 0; i < types->count; i++)
        if (!gg_kv_u64_at(types, i, &v) || v > 6) first = n++ ? first : i;
    if (n)
        say_warning(c, "vocabulary", at_key(types),
                    "%" PRIu64 " token%s a type that no engine knows, the first of them token "
                    "%" PRIu64,
                    n, n == 1 ? " has" : "s have", first);
}

void gg_check_token_rules(check *c, const gg_kv *tokens)
{
    token_facts f = { 0 };
    const char *model = "";
    size_t len = 0;
    gather(tokens, &f);
    gg_kv_str(gg_design_key(&c->d, "tokenizer.ggml.model"), &model, &len);
    if (f.empty)
        say_warning(c, "vocabulary", at_key(tokens),
                    "%" PRIu64 " token%s empty, the first of them token %" PRIu64
                    ": its text was lost",
                    f.empty, f.empty == 1 ? " is" : "s are", f.first_empty);
    if (gg_text_is(model, len, "llama")) check_bytes(c, tokens, &f);
    check_phi3(c, &f);
    check_types(c);
}

void gg_check_template_tokens(check *c)
{
    check_place where = at_name("tokenizer.chat_template");
    gg_template_tokens found;
    if (!gg_template_tokens_find(c->in->meta, &found)) return;
    if (found.unknown)
        say_warning(c, "chat-template", where,
                    "it writes %zu special token%s that the vocabulary lacks, and that become "
                    "plain text: %s",
                    found.unknown, found.unknown == 1 ? "" : "s", found.unknown_list);
    if (found.split)
        say_warning(c, "chat-template", where,
                    "it writes %zu token%s of a type that engines split into pieces; "
                    "tokenizer.ggml.token_type must "
                    "be 3 (control) or 4 (user-defined): %s",
                    found.split, found.split == 1 ? "" : "s", found.split_list);
}
