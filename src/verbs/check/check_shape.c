/* check_shape.c - expected shapes as formulas over a model's keys, such as
 * "embd,heads*key". A dimension is a sum of products; "*" and "/" are taken from left to
 * right before "+" and "-". */
#include "check_core.h"

#include <stdio.h>
#include <string.h>

/* Names in formulas that refer to a single key. */
static const struct {
    const char *name, *key;
    bool per_block; /* may be an array with one value per block */
} keys[] = {
    { "embd", "embedding_length", false },
    { "context", "context_length", false },
    { "heads", "attention.head_count", true },
    { "ff", "feed_forward_length", true },
    { "experts", "expert_count", false },
    { "shared", "expert_shared_count", false },
    { "qrank", "attention.q_lora_rank", false },
    { "kvrank", "attention.kv_lora_rank", false },
    { "buckets", "attention.relative_buckets_count", false },
    { "inner", "ssm.inner_size", false },
    { "state", "ssm.state_size", false },
    { "conv", "ssm.conv_kernel", false },
    { "dtrank", "ssm.time_step_rank", false },
    { "group", "ssm.group_count", false },
    { "wkv", "wkv.head_size", false },
    { "mix", "time_mix_extra_dim", false },
    { "decay", "time_decay_extra_dim", false },
    { "ldecay", "attention.decay_lora_rank", false },
    { "liclr", "attention.iclr_lora_rank", false },
    { "lvalue", "attention.value_residual_mix_lora_rank", false },
    { "lgate", "attention.gate_lora_rank", false },
};

/* The size of a head: the value of its key, or else the embedding length divided by the number
 * of heads of the first block. */
static bool head_size(const check *c, const char *key, uint64_t *v)
{
    uint64_t embd, heads;
    if (gg_check_number(c, key, 0, v)) return true;
    if (!gg_check_number(c, "embedding_length", 0, &embd) ||
        !gg_check_number(c, "attention.head_count", 0, &heads) || heads == 0)
        return false;
    *v = embd / heads;
    return true;
}

static bool expert_length(const check *c, uint64_t block, uint64_t *v)
{
    uint64_t used;
    if (gg_check_number(c, "expert_feed_forward_length", block, v) && *v) return true;
    if (!gg_check_number(c, "feed_forward_length", block, v) ||
        !gg_check_number(c, "expert_used_count", block, &used) || used == 0)
        return false;
    *v /= used;
    return true;
}

static bool is_name(const char *name, const char *text, size_t len)
{
    return strlen(name) == len && memcmp(name, text, len) == 0;
}

/* Names with a default, and names that are computed from several keys. */
static bool derived(const check *c, const char *name, size_t len, uint64_t block, uint64_t *v)
{
    if (is_name("kvheads", name, len))
        return gg_check_number(c, "attention.head_count_kv", block, v) ||
               (!gg_check_arch_key(c, "attention.head_count_kv") &&
                gg_check_number(c, "attention.head_count", block, v));
    if (is_name("key", name, len)) return head_size(c, "attention.key_length", v);
    if (is_name("value", name, len)) return head_size(c, "attention.value_length", v);
    if (is_name("rot", name, len))
        return gg_check_number(c, "rope.dimension_count", 0, v) ||
               head_size(c, "attention.key_length", v);
    if (is_name("keymla", name, len))
        return (gg_check_number(c, "attention.key_length_mla", 0, v) && *v) ||
               head_size(c, "attention.key_length", v);
    if (is_name("valuemla", name, len))
        return (gg_check_number(c, "attention.value_length_mla", 0, v) && *v) ||
               head_size(c, "attention.value_length", v);
    if (is_name("expff", name, len)) return expert_length(c, block, v);
    if (is_name("sharedff", name, len))
        return (gg_check_number(c, "expert_shared_feed_forward_length", block, v) && *v) ||
               gg_check_number(c, "feed_forward_length", block, v);
    if (is_name("vocab", name, len)) return (*v = gg_check_vocabulary(c)) > 0;
    if (is_name("types", name, len))
        return gg_kv_u64(gg_check_key(c, "tokenizer.ggml.token_type_count"), v);
    return false;
}

static bool factor(const check *c, const char *name, size_t len, uint64_t block, uint64_t *v)
{
    if (len && name[0] >= '0' && name[0] <= '9') {
        *v = 0;
        for (size_t i = 0; i < len; i++) *v = *v * 10 + (uint64_t)(name[i] - '0');
        return true;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (is_name(keys[i].name, name, len))
            return gg_check_number(c, keys[i].key, keys[i].per_block ? block : 0, v);
    return derived(c, name, len, block, v);
}

/* Evaluates one dimension. A hostile file can contain any values, so that an overflow makes the
 * result unknown. */
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

bool gg_check_shape_fits(const check_shape *s, const gg_tensor *t)
{
    for (int i = 0; i < GG_MAX_DIMS; i++)
        if (s->dims[i] != t->dims[i]) return false;
    return true;
}

void gg_check_shape_text(uint32_t n, const uint64_t *dims, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < n && i < GG_MAX_DIMS && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%llu", i ? "x" : "",
                                 (unsigned long long)dims[i]);
    if (n == 0) snprintf(out, size, "one value");
}
