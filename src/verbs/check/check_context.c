/* check_context.c - reports findings, looks up keys, tensors and tables, and computes expected
 * shapes from keys. */
#include "check_context.h"

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
    if (!c->arch_name || c->arch_len > 64) return NULL;
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

const check_arch *gg_check_arch_of(const char *name, size_t len)
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

/* ---- formulas of shapes ------------------------------------------------------------- */

/* How the key of a name is read. */
enum {
    PER_BLOCK = 1, /* it may be an array with one value per block */
    POSITIVE = 2,  /* 0 counts as absent */
    STRICT = 4 /* `otherwise` is used only if the key is absent, not if it has no usable value */
};

/* Names in formulas: the key that has the value, and the formula that gives it otherwise. */
static const struct {
    const char *name, *key;
    int how;
    const char *otherwise; /* NULL = the value is unknown then */
} names[] = {
    { "embd", "embedding_length", 0, NULL },
    { "context", "context_length", 0, NULL },
    { "heads", "attention.head_count", PER_BLOCK, NULL },
    { "headsize", NULL, 0, "embd/firstheads" },
    { "firstheads", "attention.head_count", 0, NULL },
    { "kvheads", "attention.head_count_kv", PER_BLOCK | STRICT, "heads" },
    { "key", "attention.key_length", 0, "headsize" },
    { "value", "attention.value_length", 0, "headsize" },
    { "rot", "rope.dimension_count", 0, "key" },
    { "keymla", "attention.key_length_mla", POSITIVE, "key" },
    { "valuemla", "attention.value_length_mla", POSITIVE, "value" },
    { "ff", "feed_forward_length", PER_BLOCK, NULL },
    { "experts", "expert_count", 0, NULL },
    { "used", "expert_used_count", PER_BLOCK, NULL },
    { "shared", "expert_shared_count", 0, NULL },
    { "expff", "expert_feed_forward_length", PER_BLOCK | POSITIVE, "ff/used" },
    { "sharedff", "expert_shared_feed_forward_length", PER_BLOCK | POSITIVE, "ff" },
    { "qrank", "attention.q_lora_rank", 0, NULL },
    { "kvrank", "attention.kv_lora_rank", 0, NULL },
    { "buckets", "attention.relative_buckets_count", 0, NULL },
    { "inner", "ssm.inner_size", 0, NULL },
    { "state", "ssm.state_size", 0, NULL },
    { "conv", "ssm.conv_kernel", 0, NULL },
    { "dtrank", "ssm.time_step_rank", 0, NULL },
    { "group", "ssm.group_count", 0, NULL },
    { "wkv", "wkv.head_size", 0, NULL },
    { "mix", "time_mix_extra_dim", 0, NULL },
    { "decay", "time_decay_extra_dim", 0, NULL },
    { "ldecay", "attention.decay_lora_rank", 0, NULL },
    { "liclr", "attention.iclr_lora_rank", 0, NULL },
    { "lvalue", "attention.value_residual_mix_lora_rank", 0, NULL },
    { "lgate", "attention.gate_lora_rank", 0, NULL },
    { "blocks", "block_count", 0, NULL },
    { "keyswa", "attention.key_length_swa", 0, "key" },
    { "valueswa", "attention.value_length_swa", 0, "value" },
    { "rotswa", "rope.dimension_count_swa", 0, "rot" },
    { "kvrankswa", "attention.kv_lora_rank_swa", 0, NULL },
    { "kmlaswa", "attention.key_length_mla_swa", 0, NULL },
    { "vmlaswa", "attention.value_length_mla_swa", 0, NULL },
    { "hidden", "target_hidden_size", 0, NULL },
    { "pergroup", "experts_per_group", 0, NULL },
    { "kdahead", "kda.head_dim", 0, NULL },
    { "latent", "expert_latent_length", 0, "moelatent" },
    { "moelatent", "moe_latent_size", 0, NULL },
    { "ple", "embedding_length_per_layer_input", 0, NULL },
    { "hc", "hyper_connection.count", 0, NULL },
    { "hclow", "hyper_connection.low_rank", 0, NULL },
    { "ixheads", "attention.indexer.head_count", 0, NULL },
    { "ixkey", "attention.indexer.key_length", 0, NULL },
    { "ogroups", "attention.output_group_count", 0, NULL },
    { "olora", "attention.output_lora_rank", 0, NULL },
    { "lcache", "shortconv.l_cache", 0, NULL },
    { "chunkff", "expert_chunk_feed_forward_length", 0, "headsize" },
    { "embdout", "embedding_length_out", 0, NULL },
    { "lorarank", "adapters.lora_rank", 0, NULL },
    { "adapters", "adapters.count", 0, NULL },
    { "posnet", "posnet.embedding_length", 0, NULL },
    { "head", NULL, 0, "headsize" },
    { "stack", "hrm.layers_per_stack", 0, NULL },
    { "cycles", "hrm.h_cycles", 0, NULL },
    { "inner_cycles", "hrm.l_cycles", 0, NULL },
};

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

/* The number of tokens (vocab), of layers that a head reads (targets), or of types of tokens. */
static bool count_of(const check *c, char first, char second, uint64_t *v)
{
    const gg_kv *layers = gg_check_arch_key(c, "target_layers");
    if (first == 'v') return (*v = gg_check_vocabulary(c)) > 0;
    if (second == 'a') return layers && layers->type == GG_TYPE_ARR && (*v = layers->count) > 0;
    return gg_kv_u64(gg_check_key(c, "tokenizer.ggml.token_type_count"), v);
}

/* The value of a name or a number in a formula. */
static bool factor(const check *c, const char *name, size_t len, uint64_t block, uint64_t *v)
{
    if (len && name[0] >= '0' && name[0] <= '9') return decimal_number(name, len, v);
    if (gg_check_word("vocab targets types", name, len)) return count_of(c, name[0], name[1], v);
    if (gg_check_word("key value rot headsize head", name, len) && has_no_heads(c, v)) return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *key = names[i].key, *otherwise = names[i].otherwise;
        int how = names[i].how;
        if (strlen(names[i].name) != len || memcmp(names[i].name, name, len) != 0) continue;
        if (key && gg_check_number(c, key, how & PER_BLOCK ? block : 0, v) &&
            (!(how & POSITIVE) || *v > 0))
            return true;
        if (!otherwise || (how & STRICT && gg_check_arch_key(c, key))) return false;
        return dimension(c, otherwise, strlen(otherwise), block, v);
    }
    return false;
}

/* Computes one dimension: a sum of products. "*" and "/" are taken from left to right before "+"
 * and "-". A hostile file can contain any values, so that an overflow makes the result unknown. */
static bool dimension(const check *c, const char *text, size_t len, uint64_t block, uint64_t *out)
{
    uint64_t sum = 0, product = 0;
    char op = '+', sign = '+';
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        uint64_t v;
        while (at + n < len && !strchr("*/+-", text[at + n])) n++;
        if (!factor(c, text + at, n, block, &v)) return false;
        if (op == '*') {
            if (__builtin_mul_overflow(product, v, &product)) return false;
        } else if (op == '/') {
            if (v == 0) return false;
            product /= v;
        } else {
            product = v;
        }
        at += n;
        op = at < len ? text[at++] : '+';
        if (op == '*' || op == '/') continue;
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

bool gg_check_value(const check *c, const char *text, uint64_t *out)
{
    return dimension(c, text, strlen(text), 0, out);
}

bool gg_check_shape_fits(const check_shape *s, const gg_tensor *t)
{
    return memcmp(s->dims, t->dims, sizeof s->dims) == 0;
}

void gg_check_shape_text(uint32_t n, const uint64_t *dims, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < n && i < GG_MAX_DIMS && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRIu64, i ? "x" : "", dims[i]);
    if (n == 0) snprintf(out, size, "one value");
}
