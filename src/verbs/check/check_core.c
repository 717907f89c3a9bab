/* check_core.c - looks up keys and tensors, reports findings, and runs the rules in order. */
#include "check_core.h"
#include "organ/tensor_names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gg_check_level_name(gg_check_level level)
{
    static const char *const names[] = { "note", "warning", "error" };
    return level < GG_CHECK_LEVELS ? names[level] : "?";
}

/* ---- findings -------------------------------------------------------------------- */

static void report(check *c, gg_finding *f, const char *fmt, va_list args)
{
    char text[400], escaped[800];
    if (c->status != GG_OK) return;
    vsnprintf(text, sizeof text, fmt, args);
    gg_escape(text, strlen(text), escaped, sizeof escaped);
    f->message = escaped;
    c->found[f->level]++;
    if (c->fn) c->status = c->fn(c->ctx, f, c->err);
    f->message = NULL; /* it pointed to a variable of this function */
}

void gg_check_say(check *c, gg_check_level level, const char *rule, const char *where,
                  size_t where_len, const char *fmt, ...)
{
    char place[600];
    va_list args;
    gg_escape(where, where_len < 140 ? where_len : 140, place, sizeof place);
    gg_finding f = { level, rule, place, NULL };
    va_start(args, fmt);
    report(c, &f, fmt, args);
    va_end(args);
}

void gg_check_say_block(check *c, gg_check_level level, const char *rule, int64_t block,
                        const char *fmt, ...)
{
    char place[40];
    va_list args;
    snprintf(place, sizeof place, "block %lld", (long long)block);
    gg_finding f = { level, rule, place, NULL };
    va_start(args, fmt);
    report(c, &f, fmt, args);
    va_end(args);
}

/* ---- keys ------------------------------------------------------------------------ */

const gg_kv *gg_check_key(const check *c, const char *key)
{
    return gg_meta_order_find(&c->keys, key, strlen(key));
}

void gg_check_key_name(const check *c, const char *name, char *out, size_t size)
{
    int len = c->arch_len < 64 ? (int)c->arch_len : 64;
    snprintf(out, size, "%.*s.%s", len, c->arch_name ? c->arch_name : "", name);
}

const gg_kv *gg_check_arch_key(const check *c, const char *name)
{
    char key[200];
    if (!c->arch_name || c->arch_len > 64) return NULL;
    gg_check_key_name(c, name, key, sizeof key);
    return gg_check_key(c, key);
}

/* The integer element i of an array, or the value of a scalar. */
static bool element(const gg_kv *kv, uint64_t i, uint64_t *value)
{
    if (!kv || kv->type != GG_TYPE_ARR) return gg_kv_u64(kv, value);
    size_t size = gg_type_size(kv->elem_type);
    if (size == 0 || i >= kv->count) return false;
    gg_kv one = { .type = kv->elem_type, .count = 1, .data = kv->data + i * size, .size = size };
    return gg_kv_u64(&one, value);
}

bool gg_check_number(const check *c, const char *name, uint64_t block, uint64_t *value)
{
    return element(gg_check_arch_key(c, name), block, value);
}

uint64_t gg_check_number_or(const check *c, const char *name, uint64_t otherwise)
{
    uint64_t v;
    return gg_kv_u64(gg_check_arch_key(c, name), &v) ? v : otherwise;
}

uint64_t gg_check_vocabulary(const check *c)
{
    const gg_kv *tokens = gg_check_key(c, "tokenizer.ggml.tokens");
    if (tokens && tokens->type == GG_TYPE_ARR) return tokens->count;
    return gg_check_number_or(c, "vocab_size", 0);
}

/* ---- tensors --------------------------------------------------------------------- */

static int order_name(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t n = a_len < b_len ? a_len : b_len;
    int d = n ? memcmp(a, b, n) : 0;
    return d ? d : (a_len > b_len) - (a_len < b_len);
}

static int order_tensor(const void *a, const void *b)
{
    const gg_tensor *x = *(const gg_tensor *const *)a, *y = *(const gg_tensor *const *)b;
    return order_name(x->name, x->name_len, y->name, y->name_len);
}

size_t gg_check_find(const check *c, const char *name, size_t name_len)
{
    size_t lo = 0, hi = c->in->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const gg_tensor *t = &c->in->tensors[c->by_name[mid]];
        int d = order_name(t->name, t->name_len, name, name_len);
        if (d == 0) return c->by_name[mid];
        if (d < 0) lo = mid + 1;
        else hi = mid;
    }
    return SIZE_MAX;
}

static gg_status index_tensors(check *c)
{
    size_t n = c->in->n, room = n ? n : 1;
    const gg_tensor **list = calloc(room, sizeof *list);
    c->by_name = calloc(room, sizeof *c->by_name);
    c->anatomy = calloc(room, sizeof *c->anatomy);
    c->expected = calloc(room, sizeof *c->expected);
    if (!list || !c->by_name || !c->anatomy || !c->expected) {
        free(list);
        return gg_fail(c->err, GG_ENOMEM, "no memory to check %zu tensors", n);
    }
    for (size_t i = 0; i < n; i++) {
        list[i] = &c->in->tensors[i];
        c->anatomy[i] = gg_anatomy_of(list[i]->name, list[i]->name_len);
    }
    qsort(list, n, sizeof *list, order_tensor);
    for (size_t i = 0; i < n; i++) c->by_name[i] = (size_t)(list[i] - c->in->tensors);
    free(list);
    return GG_OK;
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

/* ---- all rules --------------------------------------------------------------------- */

static void find_architecture(check *c)
{
    const char *type = "";
    size_t type_len = 0;
    if (gg_kv_str(gg_check_key(c, "general.architecture"), &c->arch_name, &c->arch_len) &&
        c->arch_len > 0)
        c->arch = gg_check_arch_of(c->arch_name, c->arch_len);
    gg_kv_str(gg_check_key(c, "general.type"), &type, &type_len);
    bool other = c->arch_name && gg_check_arch_other(c->arch_name, c->arch_len);
    c->text_model = c->in->meta && !other &&
                    !gg_check_word("adapter imatrix mmproj controlvector", type, type_len);
    c->blocks = gg_check_number_or(c, "block_count", 0);
    uint64_t nextn = gg_check_number_or(c, "nextn_predict_layers", 0);
    c->trunk = nextn < c->blocks ? c->blocks - nextn : c->blocks;
}

static gg_status prepare(check *c)
{
    gg_status st = index_tensors(c);
    if (st != GG_OK || !c->in->meta) return st;
    st = gg_meta_order_make(c->in->meta, &c->keys, c->err);
    if (st == GG_OK) find_architecture(c);
    return st;
}

gg_status gg_check_rules(const gg_check_input *in, gg_finding_fn fn, void *ctx,
                         size_t found[GG_CHECK_LEVELS], gg_error *err)
{
    check c = { .in = in, .fn = fn, .ctx = ctx, .err = err };
    gg_status st = prepare(&c);
    if (st == GG_OK) {
        gg_check_file_rules(&c);
        gg_check_adapter_rules(&c);
        if (c.text_model) {
            gg_check_key_rules(&c);
            gg_check_vocabulary_rules(&c);
            gg_check_table_rules(&c);
            gg_check_block_rules(&c);
        }
        st = c.status;
    }
    for (int i = 0; found && i < GG_CHECK_LEVELS; i++) found[i] = c.found[i];
    free((void *)c.keys.list);
    free(c.by_name);
    free(c.anatomy);
    free(c.expected);
    return st;
}
