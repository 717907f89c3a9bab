/* check_context.c - tells what a file is, reports findings, looks up keys, tensors and tables, and
 * computes expected shapes from keys. */
#include "check_context.h"

#include "base/text.h"
#include "organ/tensor_names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- findings -------------------------------------------------------------------- */

void gg_check_report_finding(check *c, const gg_finding *f)
{
    if (c->status != GG_OK) return;
    c->found[f->level]++;
    if (c->o->row) c->status = c->o->row(c->o->ctx, f, c->err);
}

void gg_check_say(check *c, gg_check_level level, const char *rule, check_place where,
                  const char *fmt, ...)
{
    char place[1100], text[400], escaped[800];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    gg_escape(where.name ? where.name : where.own, where.len < 255 ? where.len : 255, place,
              sizeof place);
    gg_escape(text, strlen(text), escaped, sizeof escaped);
    gg_check_report_finding(c, &(gg_finding){ level, rule, place, escaped });
}

/* ---- keys ------------------------------------------------------------------------ */

const gg_kv *gg_check_key(const check *c, const char *key)
{
    return gg_meta_order_find(&c->keys, key, strlen(key));
}

const gg_kv *gg_check_arch_key(const check *c, const char *name)
{
    if (name[0] != '/' && (!c->arch_name || c->arch_len > 64)) return NULL;
    return gg_check_key(c, at_arch_key(c, name).own);
}

bool gg_check_number(const check *c, const char *name, uint64_t block, uint64_t *value)
{
    return gg_kv_u64_at(gg_check_arch_key(c, name), block, value);
}

uint64_t gg_check_number_or(const check *c, const char *name, uint64_t otherwise)
{
    uint64_t v;
    return gg_kv_u64(gg_check_arch_key(c, name), &v) ? v : otherwise;
}

bool gg_check_positive(const check *c, const char *name)
{
    uint64_t v;
    return gg_check_number(c, name, 0, &v) && v > 0;
}

uint64_t gg_check_vocabulary(const check *c)
{
    const gg_kv *tokens = gg_check_key(c, "tokenizer.ggml.tokens");
    if (tokens && tokens->type == GG_TYPE_ARR) return tokens->count;
    return gg_check_number_or(c, "vocab_size", 0);
}

/* ---- tensors --------------------------------------------------------------------- */

size_t gg_check_find(const check *c, const char *name, size_t name_len)
{
    return gg_name_index_find(c->in->tensors, c->by_name, c->in->n, name, name_len);
}

gg_status gg_check_open(check *c)
{
    size_t n = c->in->n, room = n ? n : 1;
    const gg_tensor *t = c->in->tensors;
    c->anatomy = calloc(room, sizeof *c->anatomy);
    c->expected = calloc(room, sizeof *c->expected);
    if (!c->anatomy || !c->expected)
        return gg_fail(c->err, GG_ENOMEM, "no memory to check %zu tensors", n);
    for (size_t i = 0; i < n; i++) c->anatomy[i] = gg_anatomy_of(t[i].name, t[i].name_len);
    gg_status st = gg_name_index(t, n, &c->by_name, c->err);
    return st == GG_OK && c->in->meta ? gg_meta_order_make(c->in->meta, &c->keys, c->err) : st;
}

void gg_check_close(check *c)
{
    free(c->keys.list);
    free(c->by_name);
    free(c->anatomy);
    free(c->expected);
    c->keys.list = NULL;
    c->by_name = NULL;
    c->anatomy = NULL;
    c->expected = NULL;
}

/* ---- lists of words ---------------------------------------------------------------- */

bool gg_check_next_word(const char **at, const char **word, size_t *len)
{
    const char *p = *at + strspn(*at, " ");
    *word = p;
    *len = strcspn(p, " ");
    *at = p + *len;
    return *len > 0;
}

bool gg_check_word(const char *list, const char *word, size_t len)
{
    const char *w;
    size_t n;
    while (gg_check_next_word(&list, &w, &n))
        if (n == len && memcmp(w, word, len) == 0) return true;
    return false;
}

bool gg_check_arch_in(const check *c, const char *list)
{
    return gg_check_word(list, c->arch_name, c->arch_len);
}

/* ---- tables ------------------------------------------------------------------------- */

/* The table of an architecture, or NULL. */
static const check_arch *table_of(const char *name, size_t len)
{
    for (const check_arch *a = gg_check_tables; a->names; a++)
        if (gg_check_word(a->names, name, len)) return a;
    return NULL;
}

const char *gg_check_shape_of(const char *rest, size_t len)
{
    size_t stem = len > 7 && memcmp(rest + len - 7, ".weight", 7) == 0 ? len - 7 : len;
    for (const check_usual_shape *s = gg_check_shapes; s->names; s++) {
        const char *word, *words = s->names;
        size_t n;
        while (gg_check_next_word(&words, &word, &n)) {
            bool prefix = word[n - 1] == '*', whole = word[n - 1] == '.';
            if (prefix  ? len >= n && memcmp(word, rest, n - 1) == 0
                : whole ? len == n - 1 && memcmp(word, rest, len) == 0
                        : stem == n && memcmp(word, rest, n) == 0)
                return s->shape;
        }
    }
    return NULL;
}

const char *gg_check_qkv_rows(const char *word, size_t len, size_t *n)
{
    static const char *const rows[] = { "heads*key:kvheads*key:kvheads*value",
                                        "eembd:kvheads*value:kvheads*value",
                                        "vheads*key:kvheads*value:kvheads*value",
                                        "rheads*rot:kvheads*rot:kvheads*rot" };
    const char *text = rows[0];
    for (size_t k = 1; k < 4 && len == 5; k++)
        if (rows[k][0] == word[4]) text = rows[k] + 1;
    if (len > 4 && word[3] == '=') text = word + 4;
    *n = text == word + 4 ? len - 4 : strlen(text);
    return text;
}

/* ---- formulas of shapes ------------------------------------------------------------- */

static bool dimension(const check *c, const char *text, size_t len, uint64_t block, uint64_t *out);

/* Engines do not read the sizes of heads if there are none. */
static bool has_no_heads(const check *c, uint64_t *size)
{
    return gg_check_number(c, "attention.head_count", 0, size) && *size == 0;
}

static bool decimal_number(const char *text, size_t len, uint64_t *v)
{
    *v = 0;
    for (size_t i = 0; i < len; i++) *v = *v * 10 + (uint64_t)(text[i] - '0');
    return true;
}

/* The number of experts that any block uses. */
static uint64_t most_used(const check *c)
{
    uint64_t used, most = 0;
    for (uint64_t b = 0; b < (c->blocks ? c->blocks : 1) && b < GG_CHECK_BLOCKS; b++)
        if (gg_check_number(c, "expert_used_count", b, &used) && used > most) most = used;
    return most;
}

/* The value of a name in a formula: its key has it, or else another formula computes it. */
static bool named_value(const check *c, const check_name *n, uint64_t block, uint64_t *v)
{
    if (n->key && gg_check_number(c, n->key, n->per_block ? block : 0, v) &&
        (!n->positive || *v > 0))
        return true;
    if (!n->otherwise || (n->strict && gg_check_arch_key(c, n->key))) return false;
    return dimension(c, n->otherwise, strlen(n->otherwise), block, v);
}

/* The value of a name or a number in a formula. */
static bool factor(const check *c, const char *name, size_t len, uint64_t block, uint64_t *v)
{
    if (len && name[0] >= '0' && name[0] <= '9') return decimal_number(name, len, v);
    if (gg_check_word("vocab", name, len)) return (*v = gg_check_vocabulary(c)) > 0;
    if (gg_check_word("mostused", name, len)) return *v = most_used(c), true;
    if (gg_check_word("key value rot headsize head", name, len) && has_no_heads(c, v)) return true;
    for (const check_name *n = gg_check_names; n->name; n++)
        if (gg_text_is(name, len, n->name)) return named_value(c, n, block, v);
    char key[100];
    snprintf(key, sizeof key, "%.*s", (int)len, name);
    const gg_kv *list = key[0] == '#' ? gg_check_arch_key(c, key + 1) : NULL;
    if (list) *v = list->count;
    return list || gg_check_number(c, key, 0, v);
}

/* Computes one dimension: a sum of products. "*", "/" and "%" are taken from left to right before
 * "+" and "-". A hostile file can contain any values, so that an overflow makes the result unknown.
 */
static bool dimension(const check *c, const char *text, size_t len, uint64_t block, uint64_t *out)
{
    uint64_t sum = 0, product = 0;
    char op = '+', sign = '+';
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        uint64_t v;
        while (at + n < len && !strchr("*/%+-", text[at + n])) n++;
        if (!factor(c, text + at, n, block, &v)) return false;
        if (op == '*') {
            if (__builtin_mul_overflow(product, v, &product)) return false;
        } else if (op == '/' || op == '%') {
            if (v == 0) return false;
            product = op == '/' ? product / v : product % v;
        } else {
            product = v;
        }
        at += n;
        op = at < len ? text[at++] : '+';
        if (op == '*' || op == '/' || op == '%') continue;
        bool bad = sign == '+' ? __builtin_add_overflow(sum, product, &sum)
                               : __builtin_sub_overflow(sum, product, &sum);
        if (bad) return false;
        sign = op;
    }
    *out = sum;
    return true;
}

bool gg_check_shape_eval(const check *c, const char *text, size_t len, uint64_t block,
                         check_shape *out)
{
    *out = (check_shape){ .dims = { 1, 1, 1, 1 } };
    for (size_t at = 0; at <= len && out->n < GG_MAX_DIMS;) {
        size_t n = 0;
        while (at + n < len && text[at + n] != ',') n++;
        if (!dimension(c, text + at, n, block, &out->dims[out->n])) return false;
        out->n++;
        at += n + 1;
    }
    return true;
}

void gg_check_shape_text(uint32_t n, const uint64_t *dims, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < n && i < GG_MAX_DIMS && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRIu64, i ? "x" : "", dims[i]);
    if (n == 0) snprintf(out, size, "one value");
}

/* ---- conditions on keys -------------------------------------------------------------- */

/* A comparison of two formulas, or the presence or absence of a key or of a number above 0. */
static bool holds(const check *c, const char *text, size_t len)
{
    char word[200];
    uint64_t a, b;
    snprintf(word, sizeof word, "%.*s", (int)len, text);
    if (word[0] == '~') return !gg_check_positive(c, word + 1);
    if (word[0] == '!' || word[0] == '?')
        return (word[0] == '?') == (gg_check_arch_key(c, word + 1) != NULL);
    size_t n = strcspn(word, "=!<>"), end = n + strspn(word + n, "=!<>");
    if (!dimension(c, word, n, 0, &a) || !dimension(c, word + end, strlen(word + end), 0, &b))
        return false;
    if (word[n] == '!') return a != b;
    return (word[n] == '<' && a < b) || (word[n] == '>' && a > b) ||
           (word[end - 1] == '=' && a == b);
}

/* Alternatives, each of which may be several comparisons. */
static bool condition_holds(const check *c, const char *text)
{
    bool all = true;
    for (;; text++) {
        size_t n = strcspn(text, "|&");
        all = all && holds(c, text, n);
        text += n;
        if (*text == '&') continue;
        if (all || !*text) return all;
        all = true;
    }
}

/* Writes a text in which values replace the formulas in braces. */
static void expand(const check *c, const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (; *text && used + 24 < size; text++) {
        uint64_t v = 0;
        size_t n = *text == '{' ? strcspn(text, "}") : 0;
        if (n && dimension(c, text + 1, n - 1, 0, &v))
            used += (size_t)snprintf(out + used, size - used, "%" PRIu64, v);
        else out[used++] = *text;
        text += n;
    }
    out[used] = 0;
}

void gg_check_limits(check *c, const char *group)
{
    bool broken = false;
    char text[300];
    for (const check_limit *l = gg_check_limit_rows; l->group; l++) {
        bool but = l->archs[0] == '!';
        if (strcmp(l->group, group) != 0) continue;
        broken = broken && l->otherwise;
        if (broken || (l->archs[0] && gg_check_arch_in(c, l->archs + but) == but) ||
            (l->condition[0] && !condition_holds(c, l->condition)))
            continue;
        broken = true;
        expand(c, l->text, text, sizeof text);
        gg_check_say(c, l->level, l->rule, at_arch_key(c, l->key), "%s", text);
    }
}

/* ---- what a file is ------------------------------------------------------------------------ */

static gg_kind kind_by_keys(const gg_meta *meta)
{
    const char *text;
    size_t len;
    if (!meta) return GG_KIND_RECORDS;
    for (const check_kind_word *w = gg_check_kind_words; w->key; w++) {
        const gg_kv *kv = gg_meta_find(meta, w->key);
        if (kv && (w->value[0] == '*' ||
                   (gg_kv_str(kv, &text, &len) && gg_check_word(w->value, text, len))))
            return w->kind;
    }
    return GG_KIND_MODEL;
}

gg_kind gg_kind_of(const gg_source *s)
{
    gg_kind kind = kind_by_keys(gg_source_meta(s));
    bool empty = kind == GG_KIND_MODEL && gg_source_seekable(s) && gg_source_count(s) == 0;
    return empty ? GG_KIND_VOCABULARY : kind;
}

/* Whether a model has prediction blocks and no block of the trunk before them. */
static bool only_predicts(const check *c)
{
    bool predicts = false;
    if (c->trunk == c->blocks) return false;
    for (size_t i = 0; i < c->in->n; i++) {
        if (c->anatomy[i].block < 0) continue;
        if ((uint64_t)c->anatomy[i].block < c->trunk) return false;
        predicts = true;
    }
    return predicts;
}

void gg_check_find_architecture(check *c)
{
    if (gg_kv_str(gg_check_key(c, "general.architecture"), &c->arch_name, &c->arch_len) &&
        c->arch_len > 0)
        c->arch = table_of(c->arch_name, c->arch_len);
    c->kind = kind_by_keys(c->in->meta);
    /* a dflash head in the form of deepseek4, which has no table */
    if (c->arch_name && gg_check_arch_in(c, "dflash") &&
        gg_check_positive(c, "hyper_connection.count"))
        c->arch = NULL;
    bool other = c->arch_name && gg_check_arch_in(c, gg_check_other_archs);
    c->text_model = !other && (c->kind == GG_KIND_MODEL || c->kind == GG_KIND_DRAFT);
    c->blocks = gg_check_number_or(c, "block_count", 0);
    uint64_t nextn = gg_check_number_or(c, "nextn_predict_layers", 0);
    c->trunk = nextn < c->blocks ? c->blocks - nextn : c->blocks;
    if (c->kind == GG_KIND_MODEL && only_predicts(c)) c->kind = GG_KIND_MTP;
}
