/* vocab_look.c - prints a vocabulary, and what differs between two. */
#include "vocab_look.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "gguf/gguf.h"
#include "organ/gg_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 0 stands for all types that engines do not know. */
static const char *const type_names[] = { "other", "normal", "unknown", "control",
                                          "user",  "unused", "byte" };

static int type_of(const gg_vocab_token *t)
{
    return t->type > 0 && t->type <= GG_TOKEN_BYTE ? t->type : 0;
}

/* ---- one screen --------------------------------------------------------------------------------
 */

#define SCREEN "item\tname\tvalue\tshare\ttext"

static void row(table *t, const char *item, const char *name, table_cell value, double share,
                const gg_vocab_token *token)
{
    table_line(t, cell_text(item), cell_text_if(name), value, cell_f64_if(share),
               token ? cell_bytes(token->text, token->len) : cell_null());
}

/* Scripts by their first code point; a range ends where the next begins. */
static const struct script {
    uint32_t first;
    const char *name;
} scripts[] = {
    { 0, "spaces" },           { 0x21, "punctuation" },   { 0x30, "digits" },
    { 0x3a, "punctuation" },   { 0x41, "Latin" },         { 0x5b, "punctuation" },
    { 0x61, "Latin" },         { 0x7b, "punctuation" },   { 0xc0, "Latin" },
    { 0x2b0, "other" },        { 0x370, "Greek" },        { 0x400, "Cyrillic" },
    { 0x530, "Armenian" },     { 0x590, "Hebrew" },       { 0x600, "Arabic" },
    { 0x700, "other" },        { 0x750, "Arabic" },       { 0x780, "other" },
    { 0x900, "Devanagari" },   { 0x980, "Bengali" },      { 0xa00, "Gurmukhi" },
    { 0xa80, "Gujarati" },     { 0xb00, "Oriya" },        { 0xb80, "Tamil" },
    { 0xc00, "Telugu" },       { 0xc80, "Kannada" },      { 0xd00, "Malayalam" },
    { 0xd80, "Sinhala" },      { 0xe00, "Thai" },         { 0xe80, "Lao" },
    { 0xf00, "Tibetan" },      { 0x1000, "Myanmar" },     { 0x10a0, "Georgian" },
    { 0x1100, "Hangul" },      { 0x1200, "Ethiopic" },    { 0x13a0, "other" },
    { 0x1780, "Khmer" },       { 0x1800, "other" },       { 0x1e00, "Latin" },
    { 0x1f00, "Greek" },       { 0x2000, "punctuation" }, { 0x2190, "symbols" },
    { 0x2e80, "Han" },         { 0x3000, "punctuation" }, { 0x3040, "Kana" },
    { 0x3130, "Hangul" },      { 0x3190, "other" },       { 0x31f0, "Kana" },
    { 0x3200, "symbols" },     { 0x3400, "Han" },         { 0xa000, "other" },
    { 0xac00, "Hangul" },      { 0xd7b0, "other" },       { 0xf900, "Han" },
    { 0xfb00, "other" },       { 0xfb50, "Arabic" },      { 0xfe00, "other" },
    { 0xff00, "punctuation" }, { 0x10000, "other" },      { 0x1f000, "symbols" },
    { 0x20000, "Han" },        { 0x30000, "other" },
};
enum { SCRIPTS = sizeof scripts / sizeof *scripts };

/* The first row with the same name as that of the token's first letter; SCRIPTS = bytes that are
 * not whole letters. */
static size_t script_of(const gg_vocab_token *t)
{
    const char *s = t->plain;
    size_t n = t->plain_len, at = 0;
    uint32_t c = 0;
    while (n > 1 && *s == ' ') s++, n--;
    if (!gg_utf8_next(s, n, &c)) return SCRIPTS;
    for (size_t i = 0; i < SCRIPTS; i++)
        if (scripts[i].first <= c) at = i;
    for (size_t i = 0; i < at; i++)
        if (strcmp(scripts[i].name, scripts[at].name) == 0) return i;
    return at;
}

static void print_scripts(table *t, const gg_vocab *v)
{
    size_t counts[SCRIPTS + 1] = { 0 }, total = 0;
    for (size_t i = 0; i < v->n; i++) {
        if (v->tokens[i].type != GG_TOKEN_NORMAL || v->tokens[i].plain_len == 0) continue;
        counts[script_of(&v->tokens[i])]++;
        total++;
    }
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i <= SCRIPTS; i++)
            if (counts[i] > counts[best]) best = i;
        if (counts[best] == 0) break;
        row(t, "script", best == SCRIPTS ? "parts of letters" : scripts[best].name,
            cell_u64(counts[best]), (double)counts[best] / (double)total, NULL);
        counts[best] = 0;
    }
}

typedef struct specials {
    table *t;
    const gg_vocab *v;
} specials;

static gg_status print_special(void *ctx, const gg_kv *kv, gg_error *err)
{
    const specials *p = ctx;
    char name[128];
    size_t skip = gg_text_begins(kv->key, kv->key_len, "tokenizer.ggml.") ? 15 : 0;
    (void)err;
    snprintf(name, sizeof name, "%.*s", (int)(kv->key_len - skip), kv->key + skip);
    for (uint64_t i = 0; i < kv->count; i++) {
        uint64_t id = gg_vocab_id_at(kv, i);
        if (id == UINT64_MAX) continue;
        const gg_vocab_token *token = id < p->v->n ? &p->v->tokens[id] : NULL;
        row(p->t, "special", name, cell_u64(id), NAN, token);
    }
    return GG_OK;
}

/* Counts of types, empty and repeated texts, and bytes without a token. */
static void print_counts(table *t, const gg_vocab *v)
{
    size_t types[GG_TOKEN_BYTE + 1] = { 0 }, empty = 0, twice = 0, missing = 0;
    for (size_t i = 0; i < v->n; i++) {
        types[type_of(&v->tokens[i])]++;
        empty += v->tokens[i].len == 0;
        twice += gg_vocab_find(v, v->tokens[i].text, v->tokens[i].len) != i;
    }
    for (int i = 0; i < 256 && v->kind != GG_VOCAB_OTHER; i++) {
        char byte = (char)i;
        missing += gg_vocab_find_plain(v, &byte, 1) == SIZE_MAX;
    }
    for (int i = 0; i <= GG_TOKEN_BYTE; i++)
        if (types[i])
            row(t, "type", type_names[i], cell_u64(types[i]), (double)types[i] / (double)v->n,
                NULL);
    row(t, "count", "empty texts", cell_u64(empty), NAN, NULL);
    row(t, "count", "repeated texts", cell_u64(twice), NAN, NULL);
    if (v->kind != GG_VOCAB_OTHER)
        row(t, "count", "bytes without a token", cell_u64(missing), NAN, NULL);
    if (v->n_merges) row(t, "count", "merges", cell_u64(v->n_merges), NAN, NULL);
}

/* Special tokens that the chat template writes: <|name|> and <name>, as far as they are tokens. */
static void print_template(table *t, const gg_vocab *v)
{
    const char *text;
    size_t len, printed = 0;
    if (!gg_kv_str(gg_meta_find(v->meta, "tokenizer.chat_template"), &text, &len)) return;
    uint8_t *seen = calloc(v->n, 1);
    for (size_t i = 0; seen && i < len && printed < 32; i++) {
        if (text[i] != '<' && text[i] != '[') continue;
        char close = text[i] == '<' ? '>' : ']';
        const char *end = memchr(text + i, close, len - i);
        size_t n = end ? (size_t)(end - (text + i)) + 1 : 0;
        size_t id = n && n < 100 ? gg_vocab_find(v, text + i, n) : SIZE_MAX;
        if (id == SIZE_MAX || seen[id] || v->tokens[id].type == GG_TOKEN_NORMAL) continue;
        seen[id] = 1;
        printed++;
        row(t, "template", type_names[type_of(&v->tokens[id])], cell_u64(id), NAN, &v->tokens[id]);
    }
    free(seen);
}

/* The matrices that have a row per token. */
static void print_matrices(table *t, const gg_source *s, const gg_vocab *v)
{
    uint64_t all = 0;
    for (size_t i = 0; i < gg_source_count(s); i++) all += gg_source_tensor(s, i)->bytes;
    for (size_t i = 0; i < gg_source_count(s); i++) {
        const gg_tensor *m = gg_source_tensor(s, i);
        bool ours = strcmp(m->name, "token_embd.weight") == 0 ||
                    strcmp(m->name, "output.weight") == 0 ||
                    strcmp(m->name, "per_layer_token_embd.weight") == 0;
        if (!ours) continue;
        row(t, "rows", m->name, cell_u64(m->dims[1]), NAN, NULL);
        row(t, "bytes", m->name, cell_u64(m->bytes), all ? (double)m->bytes / (double)all : NAN,
            NULL);
        if (m->dims[1] != v->n)
            row(t, "differs", m->name, cell_i64((int64_t)m->dims[1] - (int64_t)v->n), NAN, NULL);
    }
}

gg_status look_screen(cli *c, const gg_source *s, const gg_vocab *v)
{
    static const char *const words[] = { "model", "pre" };
    table t = table_start(c->json, SCREEN);
    specials p = { &t, v };
    row(&t, "tokens", NULL, cell_u64(v->n), NAN, NULL);
    for (int i = 0; i < 2; i++) {
        char key[64];
        const char *text;
        size_t len;
        snprintf(key, sizeof key, "tokenizer.ggml.%s", words[i]);
        if (gg_kv_str(gg_meta_find(v->meta, key), &text, &len))
            row(&t, words[i], NULL, cell_bytes(text, len), NAN, NULL);
    }
    print_counts(&t, v);
    gg_vocab_each_id(v->meta, print_special, &p, &c->err);
    print_template(&t, v);
    print_matrices(&t, s, v);
    print_scripts(&t, v);
    return c->err.status;
}

/* ---- tokens ------------------------------------------------------------------------------------
 */

/* The number of the first merge that makes each token; UINT32_MAX = none. malloc'd. */
static uint32_t *ranks_of(const gg_vocab *v)
{
    uint32_t *ranks = malloc((v->n + 1) * sizeof *ranks);
    for (size_t i = 0; ranks && i < v->n; i++) ranks[i] = UINT32_MAX;
    for (size_t i = v->n_merges; ranks && i-- > 0;)
        if (v->merges[i].made != UINT32_MAX) ranks[v->merges[i].made] = (uint32_t)i;
    return ranks;
}

static bool contains(const char *text, size_t len, const char *part)
{
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= len; i++)
        if (memcmp(text + i, part, n) == 0) return true;
    return false;
}

gg_status look_list(cli *c, const gg_vocab *v, const char *find)
{
    uint32_t *ranks = ranks_of(v);
    table t = { .json = c->json };
    size_t found = 0;
    if (!ranks) return gg_fail(&c->err, GG_ENOMEM, "no memory for ranks");
    for (size_t i = 0; i < v->n && gg_cancelled(&c->err) == GG_OK; i++) {
        const gg_vocab_token *k = &v->tokens[i];
        if (find && !contains(k->text, k->len, find) && !contains(k->plain, k->plain_len, find))
            continue;
        found++;
        table_begin(&t, "id\ttext\ttype\tscore\trank");
        table_line(&t, cell_u64(i), cell_bytes(k->text, k->len), cell_text(type_names[type_of(k)]),
                   cell_f64_when(v->scores, k->score),
                   ranks[i] == UINT32_MAX ? cell_null() : cell_u64(ranks[i]));
    }
    free(ranks);
    if (found || c->err.status != GG_OK) return c->err.status;
    return gg_fail(&c->err, GG_NO, "no token contains '%s'", find);
}

/* ---- two vocabularies ---------------------------------------------------------------------------
 */

typedef struct drafting {
    table *t;
    size_t errors;
} drafting;

static gg_status print_target(void *ctx, const gg_finding *f, gg_error *err)
{
    drafting *d = ctx;
    (void)err;
    if (strcmp(f->rule, "target") != 0) return GG_OK;
    d->errors += f->level == GG_CHECK_ERROR;
    table_line(d->t, cell_text("draft"), cell_null(), cell_null(), cell_escaped(f->where),
               cell_escaped(f->message));
    return GG_OK;
}

#define COMPARED "item\ta\tb\ttext\tnote"

static void count_row(table *t, const char *note, size_t a, size_t b)
{
    table_line(t, cell_text("count"), cell_u64(a), cell_u64(b), cell_null(), cell_text(note));
}

/* Prints the keys of tokenizer x that differ in y, or, if it is the second, are only there. The
 * lists of tokens and types are compared before. Returns how many there are. */
static size_t compare_keys(table *t, const gg_meta *x, const gg_meta *y, bool second)
{
    static const char lists[] = "tokenizer.ggml.tokens tokenizer.ggml.token_type";
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++) {
        const gg_kv *kv = &x->kv[i], *other = NULL;
        if (!gg_text_begins(kv->key, kv->key_len, "tokenizer.ggml.") ||
            gg_text_has_word(lists, kv->key, kv->key_len))
            continue;
        for (size_t k = 0; k < y->n && !other; k++)
            if (y->kv[k].key_len == kv->key_len && memcmp(y->kv[k].key, kv->key, kv->key_len) == 0)
                other = &y->kv[k];
        if (other && (second || gg_same_value(kv, other))) continue;
        n++;
        table_line(t, cell_text("key"), cell_null(), cell_null(), cell_bytes(kv->key, kv->key_len),
                   cell_text(other    ? "other value"
                             : second ? "only in the second"
                                      : "only in the first"));
    }
    return n;
}

gg_status look_compare(cli *c, gg_source *const s[2], const gg_vocab v[2])
{
    table t = table_start(c->json, COMPARED);
    size_t same = 0, moved = 0, only[2] = { 0 }, retyped = 0;
    drafting d = { &t, 0 };
    gg_check_options o = { .target = gg_source_name(s[1]), .row = print_target, .ctx = &d };
    gg_check_report r;
    for (size_t i = 0; i < v[0].n; i++) {
        const gg_vocab_token *k = &v[0].tokens[i];
        size_t at = gg_vocab_find(&v[1], k->text, k->len);
        if (at == SIZE_MAX) {
            only[0]++;
            table_line(&t, cell_text("only"), cell_u64(i), cell_null(), cell_bytes(k->text, k->len),
                       cell_null());
            continue;
        }
        same += at == i, moved += at != i;
        bool other = k->type != v[1].tokens[at].type;
        retyped += other;
        if (at != i || other)
            table_line(&t, cell_text(at != i ? "moved" : "type"), cell_u64(i), cell_u64(at),
                       cell_bytes(k->text, k->len),
                       other ? cell_text(type_names[type_of(&v[1].tokens[at])]) : cell_null());
    }
    for (size_t i = 0; i < v[1].n; i++) {
        const gg_vocab_token *k = &v[1].tokens[i];
        if (gg_vocab_find(&v[0], k->text, k->len) != SIZE_MAX) continue;
        only[1]++;
        table_line(&t, cell_text("only"), cell_null(), cell_u64(i), cell_bytes(k->text, k->len),
                   cell_null());
    }
    size_t keys = compare_keys(&t, v[0].meta, v[1].meta, false);
    keys += compare_keys(&t, v[1].meta, v[0].meta, true);
    count_row(&t, "tokens", v[0].n, v[1].n);
    count_row(&t, "same id", same, same);
    count_row(&t, "other id", moved, moved);
    count_row(&t, "other type", retyped, retyped);
    count_row(&t, "only here", only[0], only[1]);
    if (gg_check_model(gg_source_name(s[0]), &o, NULL, &r, &c->err) != GG_OK) return c->err.status;
    table_line(&t, cell_text("draft"), cell_null(), cell_null(), cell_null(),
               cell_text(d.errors ? "the first model cannot draft for the second"
                                  : "the first model can draft for the second"));
    return moved || only[0] || only[1] || retyped || keys ? GG_NO : GG_OK;
}
