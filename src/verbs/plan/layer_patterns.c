/* layer_patterns.c - checks the kinds of block that an engine derives from block numbers. A
 * block must have the same kind at its new place. Otherwise the model does not load, or it
 * loads and computes something else.
 *
 * The kinds follow from keys that state a period. For sliding windows and rotary positions
 * they may follow from the architecture alone, as in llama.cpp's loader.
 */
#include "layer_keys.h"

#include "gguf/gguf.h"

#include <stdio.h>
#include <string.h>

typedef enum rule {
    LAST,   /* of every `period` blocks the last is special */
    FIRST,  /* the first */
    SECOND, /* the second */
    GROUP,  /* each group of `period` blocks is of another kind */
} rule;

typedef struct pattern {
    const char *what; /* the key without architecture, or a description */
    uint64_t period;
    rule rule;
} pattern;

static uint64_t kind_of(const pattern *p, uint64_t block)
{
    uint64_t at = block % p->period;
    switch (p->rule) {
    case LAST: return at == p->period - 1;
    case FIRST: return at == 0;
    case SECOND: return at == 1;
    case GROUP: return block / p->period;
    }
    return 0;
}

/* ---- which patterns a model has --------------------------------------------------- */

static const struct {
    const char *key;
    rule rule;
} by_key[] = { { "interleave_moe_layer_step", LAST },
               { "moe_every_n_layers", SECOND },
               { "rescale_every_n_layers", GROUP } };

/* Architectures with a sliding window on some blocks; a key may state another period. */
static const struct {
    const char *arch;
    uint64_t period;
    rule rule;
    bool only_with_window; /* where attention.sliding_window is not 0 */
} windows[] = { { "gemma2", 2, LAST, false },
                { "gemma3", 6, LAST, false },
                { "gemma-embedding", 6, LAST, false },
                { "cohere2", 4, LAST, false },
                { "llama4", 4, LAST, false },
                { "gpt-oss", 2, LAST, false },
                { "exaone4", 4, LAST, true },
                { "exaone-moe", 4, LAST, true },
                { "olmo2", 4, LAST, true },
                { "afmoe", 4, LAST, true },
                { "modern-bert", 3, FIRST, true },
                { "smallthinker", 4, FIRST, true } };

/* Architectures without rotary positions in every fourth block. */
static const char *const no_rope[] = { "llama4", "smollm3", "smallthinker", "afmoe" };

static bool arch_is(const gg_meta *meta, const char *name)
{
    const char *text;
    size_t n;
    return gg_kv_str(gg_meta_find(meta, "general.architecture"), &text, &n) && n == strlen(name) &&
           memcmp(text, name, n) == 0;
}

static const gg_kv *arch_kv(const gg_meta *meta, const char *name)
{
    char key[160];
    return gg_arch_key(meta, name, key, sizeof key) ? gg_meta_find(meta, key) : NULL;
}

#define WINDOW "attention.sliding_window_pattern"

/* The pattern of the sliding windows; false if there is none or an array states it. */
static bool window_pattern(const gg_meta *meta, pattern *out)
{
    uint64_t window = gg_arch_number(meta, "attention.sliding_window");
    const gg_kv *kv = arch_kv(meta, WINDOW);
    if (kv && kv->type == GG_TYPE_ARR) return false;
    *out = (pattern){ WINDOW, gg_arch_number(meta, WINDOW), LAST };
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        if (!arch_is(meta, windows[i].arch)) continue;
        if (windows[i].only_with_window && window == 0) return false;
        if (!kv) *out = (pattern){ "the sliding window pattern", windows[i].period, LAST };
        out->rule = windows[i].rule;
        break;
    }
    return out->period > 1;
}

/* Blocks with full attention between linear or recurrent ones. */
static bool attention_pattern(const gg_meta *meta, pattern *out)
{
    static const char key[] = "full_attention_interval";
    const gg_kv *kv = arch_kv(meta, "attention.recurrent_layers");
    if (kv && kv->type == GG_TYPE_ARR) return false; /* an array moves with its blocks */
    *out = (pattern){ key, gg_arch_number(meta, key), LAST };
    bool by_default = arch_is(meta, "qwen3next") || arch_is(meta, "qwen35") ||
                      arch_is(meta, "qwen35moe");
    if (out->period == 0 && by_default) out->period = 4;
    return out->period > 1;
}

/* The patterns of a model, at most 8, in a fixed order. */
static size_t patterns_of(const gg_meta *meta, pattern out[8])
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof by_key / sizeof by_key[0]; i++) {
        uint64_t period = gg_arch_number(meta, by_key[i].key);
        if (period > 1 || (period == 1 && by_key[i].rule == GROUP))
            out[n++] = (pattern){ by_key[i].key, period, by_key[i].rule };
    }
    if (attention_pattern(meta, &out[n])) n++;
    if (window_pattern(meta, &out[n])) n++;
    for (size_t i = 0; i < sizeof no_rope / sizeof no_rope[0]; i++)
        if (arch_is(meta, no_rope[i]))
            out[n++] = (pattern){ "the pattern of rotary positions", 4, LAST };
    return n;
}

/* ---- the checks --------------------------------------------------------------------- */

static gg_status refuse(const gg_layer_model *from, const gg_layer *l, size_t to, const pattern *p,
                        gg_error *err)
{
    gg_fail(err, GG_NO, "block %llu cannot become block %zu: %s is %llu, and they differ in kind",
            (unsigned long long)l->block, to, p->what, (unsigned long long)p->period);
    gg_fix(err, "drop, repeat or move groups of %llu blocks", (unsigned long long)p->period);
    return gg_at_file(err, from->name);
}

static gg_status check_pattern(const gg_layer_model *models, const gg_layer *layers, size_t n,
                               const pattern *p, gg_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (kind_of(p, layers[i].block) != kind_of(p, i))
            return refuse(&models[layers[i].model], &layers[i], i, p, err);
    return GG_OK;
}

/* Refuse models with different patterns, whichever blocks are used. */
static gg_status same_patterns(const gg_layer_model *a, const gg_layer_model *b, gg_error *err)
{
    pattern x[8], y[8];
    size_t n = patterns_of(a->meta, x), m = patterns_of(b->meta, y);
    for (size_t i = 0; i < n || i < m; i++) {
        if (i < n && i < m && strcmp(x[i].what, y[i].what) == 0 && x[i].period == y[i].period)
            continue;
        gg_fail(err, GG_NO, "%s differs from that of %s", i < m ? y[i].what : x[i].what, a->name);
        return gg_at_file(err, b->name);
    }
    return GG_OK;
}

/* Refuses models whose blocks cannot be moved at all. */
static gg_status check_fixed(const gg_layer_model *m, gg_error *err)
{
    static const char *const keys[] = { "attention.shared_kv_layers",
                                        "embedding_length_per_layer_input",
                                        "attention.cross_attention_layers" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const gg_kv *kv = arch_kv(m->meta, keys[i]);
        if (!kv || (kv->type != GG_TYPE_ARR && gg_arch_number(m->meta, keys[i]) == 0)) continue;
        gg_fail(err, GG_NO, "its blocks cannot be moved: %s ties them to their numbers", keys[i]);
        return gg_at_file(err, m->name);
    }
    return GG_OK;
}

/* In RWKV 7 the first block has other tensors than the rest, which use its values. */
static gg_status check_first(const gg_layer_model *models, const gg_layer *layers, size_t n,
                             gg_error *err)
{
    if (!arch_is(models[0].meta, "rwkv7") && !arch_is(models[0].meta, "arwkv7")) return GG_OK;
    for (size_t i = 0; i < n; i++) {
        if ((layers[i].block == 0) == (i == 0)) continue;
        gg_fail(
            err, GG_NO,
            "block %llu cannot become block %zu: the first block differs in kind from the others",
            (unsigned long long)layers[i].block, i);
        return gg_at_file(err, models[layers[i].model].name);
    }
    return GG_OK;
}

gg_status gg_layer_patterns(const gg_layer_model *models, const gg_layer *layers, size_t n,
                            gg_error *err)
{
    pattern list[8];
    gg_status st = check_first(models, layers, n, err);
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        const gg_layer_model *m = &models[layers[i].model];
        if (i > 0 && layers[i].model == layers[i - 1].model) continue;
        st = check_fixed(m, err);
        if (st == GG_OK && m->meta->n > 0) st = same_patterns(&models[0], m, err);
    }
    size_t patterns = patterns_of(models[0].meta, list);
    for (size_t k = 0; k < patterns && st == GG_OK; k++)
        st = check_pattern(models, layers, n, &list[k], err);
    return st;
}

gg_status gg_layer_dense(const gg_layer_model *models, const gg_layer *layers, size_t n,
                         uint64_t *dense, gg_error *err)
{
    static const char key[] = "leading_dense_block_count";
    *dense = 0;
    for (size_t i = 0; i < n; i++) {
        const gg_layer_model *m = &models[layers[i].model];
        if (layers[i].block >= gg_arch_number(m->meta, key)) continue;
        if (*dense == i) {
            (*dense)++;
            continue;
        }
        gg_fail(
            err, GG_NO, "block %llu cannot become block %zu: it is dense (%s), block %llu is not",
            (unsigned long long)layers[i].block, i, key, (unsigned long long)layers[i - 1].block);
        gg_fix(err, "put dense blocks first");
        return gg_at_file(err, m->name);
    }
    return GG_OK;
}
