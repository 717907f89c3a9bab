/* key_compat.c - compares the keys that must agree for an organ to work in both models. */
#include "key_compat.h"

#include "gguf/gguf.h"
#include "layer_keys.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

typedef struct checker {
    const gg_meta *base, *donor;
    gg_key_conflict_fn fn;
    void *ctx;
    size_t n;
    uint64_t trunk; /* blocks that both have, without MTP blocks */
    unsigned flags;
} checker;

static void report_conflict(checker *c, const char *line)
{
    c->n++;
    if (c->fn) c->fn(c->ctx, line);
}

/* Formats a value briefly for a message. */
static void value_text(const gg_kv *kv, char *out, size_t size)
{
    uint64_t v;
    float f;
    const char *s;
    size_t n;
    if (!kv) snprintf(out, size, "none");
    else if (gg_kv_u64(kv, &v)) snprintf(out, size, "%llu", (unsigned long long)v);
    else if (gg_kv_f32(kv, &f)) {
        char text[32];
        gg_format_f32(f, text);
        snprintf(out, size, "%s", text);
    } else if (gg_kv_str(kv, &s, &n)) gg_escape(s, n < 40 ? n : 40, out, size);
    else snprintf(out, size, "an array of %llu", (unsigned long long)kv->count);
}

/* Element i of two arrays, or of an array and a scalar. */
static bool same_element(const gg_kv *a, const gg_kv *b, uint64_t i)
{
    uint64_t x, y;
    gg_kv p, q;
    if (gg_kv_u64_at(a, i, &x) && gg_kv_u64_at(b, i, &y)) return x == y;
    return a->type == GG_TYPE_ARR && b->type == GG_TYPE_ARR && a->elem_type == b->elem_type &&
           gg_kv_element(a, i, &p) && gg_kv_element(b, i, &q) &&
           memcmp(p.data, q.data, p.size) == 0;
}

static bool same_elements(const gg_kv *a, const gg_kv *b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!same_element(a, b, i)) return false;
    return n > 0;
}

static bool same_value(const gg_kv *a, const gg_kv *b)
{
    if (!a || !b) return a == b;
    if (gg_same_value(a, b)) return true;
    bool array = a->type == GG_TYPE_ARR;
    if (array && b->type == GG_TYPE_ARR && a->count != b->count) return false;
    return same_elements(a, b, array ? a->count : b->type == GG_TYPE_ARR ? b->count : 1);
}

/* Compares a key that one or both models have per block, over the trunk. */
static bool same_layers(const checker *c, const gg_kv *a, const gg_kv *b)
{
    bool per_block = gg_is_layer_array(c->base, a, gg_arch_number(c->base, "block_count")),
         theirs = gg_is_layer_array(c->donor, b, gg_arch_number(c->donor, "block_count"));
    if (per_block && (theirs || (b && b->type != GG_TYPE_ARR))) theirs = true;
    else if (theirs && a && a->type != GG_TYPE_ARR) per_block = true;
    if (!per_block || !theirs || c->trunk == 0) return same_value(a, b);
    return (c->flags & GG_COMPAT_LAYERS_GO) || same_elements(a, b, c->trunk);
}

static void report_difference(checker *c, const char *what, const gg_kv *x, const gg_kv *y)
{
    char a[64], b[64], line[320];
    value_text(x, a, sizeof a);
    value_text(y, b, sizeof b);
    snprintf(line, sizeof line, "%s differs: base %s, donor %s", what, a, b);
    report_conflict(c, line);
}

static void compare_key(checker *c, const char *name)
{
    char key[128];
    if (!gg_arch_key(c->base, name, key, sizeof key)) return;
    const gg_kv *x = gg_meta_find(c->base, key), *y = gg_meta_find(c->donor, key);
    if (!same_layers(c, x, y)) report_difference(c, key, x, y);
}

static void compare_vocabulary(checker *c)
{
    const gg_kv *a = gg_meta_find(c->base, "tokenizer.ggml.tokens"),
                *b = gg_meta_find(c->donor, "tokenizer.ggml.tokens");
    char line[160];
    if (same_value(a, b)) return;
    if (a && b && a->count != b->count)
        snprintf(line, sizeof line, "vocabulary differs: base %llu tokens, donor %llu",
                 (unsigned long long)a->count, (unsigned long long)b->count);
    else
        snprintf(line, sizeof line, "vocabulary differs: %s",
                 a && b ? "the same number of tokens, but different ones" : "one model has none");
    report_conflict(c, line);
}

static uint64_t trunk_of(const gg_meta *meta)
{
    uint64_t blocks = gg_arch_number(meta, "block_count"),
             nextn = gg_arch_number(meta, "nextn_predict_layers");
    return blocks > nextn ? blocks - nextn : 0;
}

size_t gg_key_conflicts(const gg_meta *base, const gg_meta *donor, unsigned flags,
                        gg_key_conflict_fn fn, void *ctx)
{
    static const char *const always[] = {
        "embedding_length",        "attention.head_count",
        "attention.head_count_kv", "attention.key_length",
        "attention.value_length",  "rope.dimension_count",
        "rope.freq_base",          "attention.layer_norm_rms_epsilon"
    };
    static const char *const whole_blocks[] = { "feed_forward_length", "expert_count",
                                                "expert_used_count", "expert_feed_forward_length",
                                                "expert_shared_count" };
    /* Many writers omit these keys, so a missing one does not count as a difference. */
    static const char *const where_said[] = { "expert_shared_feed_forward_length",
                                              "expert_group_count",
                                              "expert_group_used_count",
                                              "expert_gating_func",
                                              "expert_weights_norm",
                                              "expert_weights_scale",
                                              "rope.dimension_sections",
                                              "rope.scaling.type",
                                              "rope.scaling.factor",
                                              "attention.q_lora_rank",
                                              "attention.kv_lora_rank" };
    checker c = { base, donor, fn, ctx, 0, 0, flags };
    bool blocks = flags & GG_COMPAT_BLOCKS;
    if (!base || !donor) return 0; /* bare records have no keys */
    c.trunk = trunk_of(base) < trunk_of(donor) ? trunk_of(base) : trunk_of(donor);
    const gg_kv *a = gg_meta_find(base, "general.architecture"),
                *b = gg_meta_find(donor, "general.architecture");
    if (!same_value(a, b)) return report_difference(&c, "architecture", a, b), c.n;
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) compare_key(&c, always[i]);
    for (size_t i = 0; blocks && i < sizeof whole_blocks / sizeof whole_blocks[0]; i++)
        compare_key(&c, whole_blocks[i]);
    for (size_t i = 0; blocks && i < sizeof where_said / sizeof where_said[0]; i++)
        if (gg_arch_kv(base, where_said[i]) && gg_arch_kv(donor, where_said[i]))
            compare_key(&c, where_said[i]);
    compare_vocabulary(&c);
    return c.n;
}
