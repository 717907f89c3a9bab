/* key_compat.c - compares the keys that must agree for an organ to work in both models. */
#include "key_compat.h"

#include "arch/arch.h"
#include "gguf/gguf.h"
#include "layer_keys.h"
#include "json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct checker {
    const gg_meta *base, *donor;
    gg_key_conflict_fn fn;
    void *ctx;
    size_t n;
    uint64_t trunk; /* blocks that both have, without MTP blocks */
    unsigned flags;
} checker;

static void report_conflict(checker *c, gg_conflict kind, const char *line)
{
    if (kind != GG_CONFLICT_UNSURE) c->n++;
    if (c->fn) c->fn(c->ctx, kind, line);
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

static void report_difference(checker *c, gg_conflict kind, const char *what, const gg_kv *x,
                              const gg_kv *y)
{
    char a[64], b[64], line[320];
    value_text(x, a, sizeof a);
    value_text(y, b, sizeof b);
    snprintf(line, sizeof line, "%s differs: base %s, donor %s", what, a, b);
    report_conflict(c, kind, line);
}

/* ---- keys of the architecture --------------------------------------------------------------- */

static bool scales_rope(const gg_meta *meta)
{
    const gg_kv *kv = gg_arch_kv(meta, "rope.scaling.type");
    const char *s;
    size_t n;
    return kv && gg_kv_str(kv, &s, &n) && !(n == 4 && memcmp(s, "none", 4) == 0);
}

/* Whether the only value of two means what engines take where it is missing. *known: whether that
 * can be told. */
static bool means_absent(const checker *c, const char *name, const gg_kv *kv, bool *known)
{
    const char *absent = gg_arch_absent(name), *s;
    const gg_meta *lacking = gg_arch_kv(c->base, name) ? c->donor : c->base;
    uint64_t u = 0, heads = gg_arch_number(lacking, "attention.head_count");
    float f = 0;
    size_t n;
    bool number = gg_kv_u64(kv, &u), real = !number && gg_kv_f32(kv, &f);
    *known = absent != NULL;
    if (!absent) return false;
    if (strcmp(absent, "any") == 0) return true;
    if (strcmp(absent, "unscaled") == 0) return !scales_rope(c->base) && !scales_rope(c->donor);
    if (strcmp(absent, "none") == 0)
        return gg_kv_str(kv, &s, &n) && n == 4 && memcmp(s, "none", 4) == 0;
    if (strcmp(absent, "head") == 0)
        return number && heads && u == gg_arch_number(lacking, "embedding_length") / heads;
    double value = strtod(absent, NULL);
    /* A neutral factor of RoPE may also be 0. */
    if (value == 1 && ((number && u == 0 && strncmp(name, "rope.", 5) == 0) || (real && f == 0)))
        return true;
    return number ? (double)u == value : real && (double)f == value;
}

/* Compares the key NAME of the architecture, which at least one of the models has. */
static void compare_key(checker *c, const char *name)
{
    char key[160];
    const gg_kv *x = gg_arch_kv(c->base, name), *y = gg_arch_kv(c->donor, name);
    bool known = true;
    if (!gg_arch_key(c->base, name, key, sizeof key) || same_layers(c, x, y)) return;
    if ((!x || !y) && means_absent(c, name, x ? x : y, &known)) return;
    gg_conflict kind = gg_arch_agrees("rows", name) ? GG_CONFLICT_ROWS : GG_CONFLICT_VALUES;
    report_difference(c, known ? kind : GG_CONFLICT_UNSURE, key, x, y);
}

/* Compares all keys of the architecture that `meta` has; with `only`, those that the base lacks. */
static void compare_keys(checker *c, const gg_meta *meta, bool only)
{
    const gg_kv *arch = gg_meta_find(meta, "general.architecture");
    const char *prefix;
    size_t len;
    if (!arch || !gg_kv_str(arch, &prefix, &len)) return;
    for (size_t i = 0; i < meta->n; i++) {
        const gg_kv *kv = &meta->kv[i];
        char name[128];
        if (kv->key_len <= len + 1 || kv->key_len - len - 1 >= sizeof name ||
            memcmp(kv->key, prefix, len) != 0 || kv->key[len] != '.')
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(kv->key_len - len - 1), kv->key + len + 1);
        if (gg_arch_agrees("never", name) || (only && gg_arch_kv(c->base, name))) continue;
        if (!(c->flags & GG_COMPAT_BLOCKS) && gg_arch_agrees("blocks", name)) continue;
        compare_key(c, name);
    }
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
    report_conflict(c, GG_CONFLICT_VALUES, line);
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
    checker c = { base, donor, fn, ctx, 0, 0, flags };
    if (!base || !donor) return 0; /* bare records have no keys */
    c.trunk = trunk_of(base) < trunk_of(donor) ? trunk_of(base) : trunk_of(donor);
    const gg_kv *a = gg_meta_find(base, "general.architecture"),
                *b = gg_meta_find(donor, "general.architecture");
    if (!same_value(a, b)) {
        report_difference(&c, GG_CONFLICT_VALUES, "architecture", a, b);
        return c.n;
    }
    compare_keys(&c, base, false);
    compare_keys(&c, donor, true);
    compare_vocabulary(&c);
    return c.n;
}

/* ---- tables of RoPE -------------------------------------------------------------------------- */

/* Programs that write tables differ in how they round. */
static bool are_near(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5f * fabsf(a[i]))) return false;
    return true;
}

/* Whether two tables in F32 have the same values. They do if they cannot be read: whoever needs
 * them tells. */
static bool same_table(gg_source *base, size_t i, gg_source *donor, size_t k)
{
    const gg_tensor *x = gg_source_tensor(base, i), *y = gg_source_tensor(donor, k);
    float a[128], b[128];
    gg_data d[2];
    gg_error none = GG_ERROR_INIT;
    bool same = x->dtype == y->dtype && x->bytes == y->bytes;
    if (!same || x->dtype != GG_F32 || !gg_source_seekable(base) || !gg_source_seekable(donor))
        return same;
    if (gg_data_open(base, i, &d[0], &none) != GG_OK) return true;
    if (gg_data_open(donor, k, &d[1], &none) == GG_OK) {
        for (uint64_t at = 0; same && at < x->bytes; at += sizeof a) {
            size_t n = x->bytes - at < sizeof a ? (size_t)(x->bytes - at) : sizeof a;
            if (gg_data_read(&d[0], at, a, n, &none) != GG_OK ||
                gg_data_read(&d[1], at, b, n, &none) != GG_OK)
                break;
            same = are_near(a, b, n / sizeof *a);
        }
        gg_data_close(&d[1]);
    }
    gg_data_close(&d[0]);
    return same;
}

size_t gg_table_conflicts(gg_source *base, gg_source *donor, gg_key_conflict_fn fn, void *ctx)
{
    static const char *const tables[] = { "rope_freqs.weight", "rope_factors_long.weight",
                                          "rope_factors_short.weight" };
    checker c = { .fn = fn, .ctx = ctx };
    if (!gg_source_meta(base) || !gg_source_meta(donor)) return 0;
    for (size_t n = 0; n < sizeof tables / sizeof *tables; n++) {
        size_t i = gg_source_find(base, tables[n], strlen(tables[n])),
               k = gg_source_find(donor, tables[n], strlen(tables[n]));
        char line[160];
        if (i == k && i == SIZE_MAX) continue;
        if (i != SIZE_MAX && k != SIZE_MAX && same_table(base, i, donor, k)) continue;
        snprintf(line, sizeof line, "%s, which scales RoPE, differs: %s", tables[n],
                 i == SIZE_MAX   ? "only the donor has it"
                 : k == SIZE_MAX ? "only the base has it"
                                 : "base and donor have other values");
        report_conflict(&c, GG_CONFLICT_VALUES, line);
    }
    return c.n;
}
