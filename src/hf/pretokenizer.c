/* pretokenizer.c - which of llama.cpp's pre-tokenizers a tokenizer.json describes. */
#include "base/cursor.h"
#include "base/error.h"
#include "base/text.h"
#include "tokenizer_parts.h"

#include <stdio.h>
#include <string.h>

/* ---- steps ----------------------------------------------------------------------------------- */

/* Appends a text of the file in lower case, or with line ends and tabs as escapes. */
static void put_word(gg_buf *steps, const gg_json_node *node, bool lower, gg_error *err)
{
    const char *s;
    size_t n;
    if (gg_json_string(node, &s, &n, NULL) != GG_OK) return;
    for (size_t i = 0; i < n && err->status == GG_OK; i++) {
        char c = s[i];
        if (lower && c >= 'A' && c <= 'Z') c |= 0x20;
        if (c == '\n') gg_buf_text(steps, "\\n", err);
        else if (c == '\r') gg_buf_text(steps, "\\r", err);
        else if (c == '\t') gg_buf_text(steps, "\\t", err);
        else gg_buf_append(steps, &c, 1, err);
    }
}

/* A Split. Removing what does not match leaves the same pieces as isolating what does. */
static void put_split(gg_buf *steps, const gg_json_node *pre, gg_error *err)
{
    const gg_json_node *behavior = gg_json_get(pre, "behavior"),
                       *pattern = gg_json_get(pre, "pattern"),
                       *text = gg_json_get(pattern, "String");
    bool invert = gg_json_is_true(gg_json_get(pre, "invert"));
    if (gg_json_is(behavior, invert ? "Removed" : "Isolated")) gg_buf_text(steps, "split", err);
    else {
        if (invert) gg_buf_text(steps, "inverted ", err);
        put_word(steps, behavior, true, err);
    }
    gg_buf_text(steps, text ? " \"" : " ", err);
    put_word(steps, text ? text : gg_json_get(pattern, "Regex"), false, err);
    gg_buf_text(steps, text ? "\"" : "", err);
}

static void put_step(gg_buf *steps, const gg_json_node *pre, gg_error *err)
{
    const gg_json_node *type = gg_json_get(pre, "type");
    if (gg_json_is(type, "Split")) {
        put_split(steps, pre, err);
    } else if (gg_json_is(type, "ByteLevel")) {
        bool expression = true;
        gg_json_bool(gg_json_get(pre, "use_regex"), &expression, NULL);
        gg_buf_text(steps, expression ? "gpt2\nbytes" : "bytes", err);
    } else if (gg_json_is(type, "Digits")) {
        bool each = gg_json_is_true(gg_json_get(pre, "individual_digits"));
        gg_buf_text(steps, each ? "split \\p{N}" : "split \\p{N}+", err);
    } else if (gg_json_is(type, "Punctuation")) {
        const gg_json_node *behavior = gg_json_get(pre, "behavior");
        gg_buf_text(steps, behavior ? "punctuation " : "punctuation isolated", err);
        put_word(steps, behavior, true, err);
    } else {
        put_word(steps, type, false, err);
    }
    gg_buf_text(steps, "\n", err);
}

gg_status gg_pre_steps(const gg_json_node *pre, gg_buf *steps, gg_error *err)
{
    if (gg_json_type_of(pre) <= GG_JSON_NULL) return err->status;
    if (gg_json_type_of(pre) != GG_JSON_OBJECT)
        return gg_fail_at(gg_json_offset(pre), err, "the pre_tokenizer is not an object");
    if (!gg_json_is(gg_json_get(pre, "type"), "Sequence")) {
        put_step(steps, pre, err);
        return err->status;
    }
    const gg_json_node *list = gg_json_get(pre, "pretokenizers");
    for (const gg_json_node *p = gg_json_first(list); p && err->status == GG_OK;
         p = gg_json_next(p)) {
        if (!gg_json_is(gg_json_get(p, "type"), "Sequence")) put_step(steps, p, err);
        else gg_fail(err, GG_EUNSUPPORTED, "a pre-tokenizer has sequences within a sequence");
    }
    return err->status;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* How well a row fits: 0 = not at all. */
static int fit_of(const gg_pre_row *row, const char *steps, const char *arch, bool ignores_merges)
{
    if (strcmp(row->steps, steps) != 0) return 0;
    bool named = row->archs && gg_text_has_word(row->archs, arch, strlen(arch));
    if (row->archs && !named) return 0;
    return 1 + (named ? 2 : 0) + ((row->merges != NULL) == ignores_merges ? 4 : 0);
}

gg_status gg_tk_choose_pre(gg_tk *tk, const char *steps, bool ignores_merges, gg_error *err)
{
    const gg_pre_row *best = NULL;
    int best_fit = 0;
    if (tk->from->pre) {
        tk->pre = tk->from->pre;
        return GG_OK;
    }
    for (const gg_pre_row *row = gg_pre_rows; row->name; row++) {
        int fit = fit_of(row, steps, tk->from->arch, ignores_merges);
        if (fit > best_fit) {
            best = row;
            best_fit = fit;
        }
    }
    if (best) {
        tk->pre = best->name;
        if (best->differs)
            gg_tk_note(tk, err, "engines split some texts in another way than the tokenizer: %s",
                       best->differs);
        return err->status;
    }
    if (!*steps) steps = "not at all";
    size_t n = strcspn(steps, "\n"), shown = n < 150 ? n : 150;
    gg_fail(err, GG_EUNSUPPORTED,
            "no pre-tokenizer of llama.cpp is known to split text as tokenizer.json does: %.*s%s",
            (int)shown, steps, strlen(steps) > shown + 1 ? " ..." : "");
    return gg_fix_by(err, "pre", "name the one that the model's family has");
}
