/* tokenizer_tokens.c - the list of tokens and merges of a tokenizer while it is read. */
#include "base/cursor.h"
#include "base/error.h"
#include "base/text.h"
#include "hf.h"
#include "hf_files.h"
#include "tokenizer_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE "\xe2\x96\x81" /* U+2581, which stands for a space */
#define MOST_NOTES 64
#define MOST_TOKENS ((uint64_t)1 << 24)
#define MOST_UNUSED ((uint64_t)1 << 18) /* a short file may have embeddings with many rows */

gg_status gg_tk_note(gg_tk *tk, gg_error *err, const char *fmt, ...)
{
    char line[512], safe[2 * sizeof line];
    va_list args;
    if (tk->n_notes++ >= MOST_NOTES) return err->status;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    gg_escape(line, strlen(line), safe, sizeof safe);
    gg_buf_text(tk->notes, safe, err);
    return gg_buf_text(tk->notes, "\n", err);
}

gg_status gg_tk_end_notes(gg_tk *tk, gg_error *err)
{
    if (tk->n_notes <= MOST_NOTES || err->status != GG_OK) return err->status;
    return gg_buf_printf(tk->notes, err, "%zu more notes on the tokenizer are left out\n",
                         tk->n_notes - MOST_NOTES);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static gg_status fail_rows(const gg_tk *tk, uint64_t n, gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "the tokenizer has %llu tokens, but the embeddings have %llu rows",
            (unsigned long long)n, (unsigned long long)tk->from->rows);
    return gg_fix(err, "use the tokenizer that belongs to these weights");
}

gg_status gg_tk_room(gg_tk *tk, uint64_t n, uint64_t given, gg_error *err)
{
    if (tk->from->rows && n > tk->from->rows) return fail_rows(tk, n, err);
    if (tk->from->rows) n = tk->from->rows;
    if (n > MOST_TOKENS)
        return gg_fail(err, GG_EUNSUPPORTED, "the tokenizer has an id of %llu; %llu is the largest",
                       (unsigned long long)(n - 1), (unsigned long long)MOST_TOKENS - 1);
    if (n > given && n - given > MOST_UNUSED)
        return gg_fail(err, GG_EUNSUPPORTED,
                       "the tokenizer has %llu tokens for %llu ids; at most %llu may be unused",
                       (unsigned long long)given, (unsigned long long)n,
                       (unsigned long long)MOST_UNUSED);
    if (!(tk->tokens = calloc((size_t)n + 1, sizeof *tk->tokens)))
        return gg_fail(err, GG_ENOMEM, "no memory for a tokenizer");
    tk->n = (size_t)n;
    return GG_OK;
}

gg_status gg_tk_set(gg_tk *tk, uint64_t id, const gg_hf_token *token, gg_error *err)
{
    if (id >= tk->n) return fail_rows(tk, id + 1, err);
    gg_hf_token *t = &tk->tokens[id];
    if (t->text)
        return gg_fail(err, GG_EFORMAT, "the tokens '%.*s' and '%.*s' have the same id, %llu",
                       t->len < 80 ? (int)t->len : 80, t->text,
                       token->len < 80 ? (int)token->len : 80, token->text, (unsigned long long)id);
    *t = *token;
    return GG_OK;
}

static const char *text_of(const void *tk, size_t i, size_t *len)
{
    const gg_hf_token *t = &((const gg_tk *)tk)->tokens[i];
    *len = t->len;
    return t->text;
}

gg_status gg_tk_index(gg_tk *tk, gg_error *err)
{
    size_t was;
    gg_text_index_free(&tk->by_text);
    tk->by_text = (gg_text_index){ .at = text_of, .expect = tk->n };
    for (size_t i = 0; i < tk->n && err->status == GG_OK; i++)
        if (tk->tokens[i].text) gg_text_add(&tk->by_text, tk, i, &was, err);
    return err->status;
}

size_t gg_tk_find(const gg_tk *tk, const char *text, size_t len)
{
    return gg_text_find(&tk->by_text, tk, text, len);
}

/* ---- added tokens ---------------------------------------------------------------------------- */

/* Texts that the converter takes for control tokens whatever their flag says. */
static bool looks_special(const char *text, size_t len)
{
    static const char *const whole[] = { "<pad>", "<mask>", "<2mass>", "[@BOS@]" };
    static const char *const ends[][2] = { { "<|", "|>" },
                                           { "<\xef\xbd\x9c", "\xef\xbd\x9c>" },
                                           { "<unused", ">" } };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (gg_text_is(text, len, whole[i])) return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (gg_text_begins(text, len, ends[i][0]) && gg_text_ends(text, len, ends[i][1]))
            return true;
    return false;
}

/* The text with U+2581 as spaces. */
static const char *with_spaces(gg_tk *tk, const char *text, size_t *len, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    const char *at = text, *end = text + *len;
    while (at < end && err->status == GG_OK) {
        bool space = end - at >= 3 && memcmp(at, SPACE, 3) == 0;
        gg_buf_append(&b, space ? " " : at, 1, err);
        at += space ? 3 : 1;
    }
    const char *copy = err->status == GG_OK
                           ? gg_names_add(&tk->names, b.data ? b.data : "", b.len, err)
                           : NULL;
    *len = b.len;
    gg_buf_free(&b);
    return copy;
}

bool gg_tk_has_text(const gg_hf_token *t, const char *text, size_t len)
{
    size_t i = 0, k = 0;
    while (i < t->len && k < len) {
        bool a = gg_text_begins(t->text + i, t->len - i, SPACE),
             b = gg_text_begins(text + k, len - k, SPACE);
        if ((a ? ' ' : t->text[i]) != (b ? ' ' : text[k])) return false;
        i += a ? 3 : 1;
        k += b ? 3 : 1;
    }
    return i == t->len && k == len;
}

gg_status gg_tk_add(gg_tk *tk, const gg_tk_added *added, gg_error *err)
{
    bool more = gg_hf_is(tk->from->arch, GG_HF_ADDED_TOKENS) && tk->scores;
    if (added->id >= tk->n) {
        if (!tk->scores || !tk->from->rows) return fail_rows(tk, added->id + 1, err);
        return gg_tk_note(tk, err,
                          "added token '%.*s' has id %llu, but the embeddings have %zu rows: it is "
                          "left out",
                          added->len < 80 ? (int)added->len : 80, added->text,
                          (unsigned long long)added->id, tk->n);
    }
    gg_hf_token *t = &tk->tokens[added->id];
    bool control = added->special || (!more && looks_special(added->text, added->len));
    gg_hf_token made = { added->text, added->len,
                         control ? GG_TOKEN_CONTROL : GG_TOKEN_USER_DEFINED, -1000 };
    if (!control && !more) made.text = with_spaces(tk, added->text, &made.len, err);
    if (err->status != GG_OK) return err->status;
    bool other = t->text && t->type != GG_TOKEN_UNUSED &&
                 !gg_tk_has_text(t, added->text, added->len);
    if (other && tk->replaced++ == 0)
        gg_tk_note(tk, err, "added token '%.*s' replaces '%.*s', which has the same id, %llu",
                   added->len < 80 ? (int)added->len : 80, added->text,
                   t->len < 80 ? (int)t->len : 80, t->text, (unsigned long long)added->id);
    *t = made;
    return err->status;
}

/* ---- merges ---------------------------------------------------------------------------------- */

gg_status gg_tk_add_merge(gg_tk *tk, const char *const text[2], const size_t len[2], gg_error *err)
{
    static const char encoded[] = "\xc4\xa0"; /* a space, as byte-level tokens have it */
    gg_buf *b = &tk->merges;
    size_t start = b->len;
    if (gg_array_add_str(b, "", 0, err) != GG_OK) return err->status;
    for (int i = 0; i < 2; i++) {
        if (i) gg_buf_text(b, " ", err);
        for (size_t k = 0, n; k < len[i] && err->status == GG_OK; k += n) {
            const char *space = memchr(text[i] + k, ' ', len[i] - k);
            n = space ? (size_t)(space - text[i]) - k : len[i] - k;
            gg_buf_append(b, text[i] + k, n, err);
            if (space) {
                gg_buf_text(b, encoded, err);
                n++;
            }
        }
    }
    if (err->status != GG_OK) return err->status;
    gg_put_le64((uint8_t *)b->data + start, b->len - start - 8);
    tk->n_merges++;
    return GG_OK;
}
