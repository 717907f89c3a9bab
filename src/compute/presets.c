/* presets.c - the types that llama-quantize gives to the tensors of a model, as a table. */
#include "presets.h"
#include "dtype_rules.h"

#include "arch/design.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "organ/gg_organ.h"
#include "write/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const gg_preset *gg_preset_by_name(const char *name)
{
    for (size_t i = 0; i < gg_presets_n; i++)
        if (strcasecmp(gg_presets[i].name, name) == 0) return &gg_presets[i];
    return NULL;
}

const char *gg_preset_near(const char *name)
{
    const char **names = calloc(gg_presets_n + 1, sizeof *names), *near = NULL;
    for (size_t i = 0; names && i < gg_presets_n; i++) names[i] = gg_presets[i].name;
    if (names) near = gg_nearest(name, strlen(name), names, gg_presets_n);
    free(names);
    return near;
}

enum { KINDS_MOST = 32 };

const gg_preset *gg_preset_at(size_t i)
{
    return i < gg_presets_n ? &gg_presets[i] : NULL;
}

/* Whether a word is one of a list; "any" has all words, and "!X" all but X. */
static bool in_list(const char *list, const char *word)
{
    size_t n = strlen(word);
    bool all = list[0] == '!' || strcmp(list, "any") == 0, has = false;
    for (const char *at = list + (list[0] == '!'); *at; at += strspn(at, "|")) {
        size_t len = strcspn(at, "|");
        has = has || (len == n && memcmp(at, word, n) == 0);
        at += len;
    }
    return all != has;
}

/* The number of the first kind of this name; gg_preset_kinds_n for other tensors. */
static size_t kind_of(const gg_tensor *t)
{
    size_t i = 0, first = 0;
    for (; i < gg_preset_kinds_n; i++)
        if (gg_preset_kinds[i].whole ? strcmp(t->name, gg_preset_kinds[i].part) == 0
                                     : strstr(t->name, gg_preset_kinds[i].part) != NULL)
            break;
    if (i == gg_preset_kinds_n) return i;
    while (strcmp(gg_preset_kinds[first].kind, gg_preset_kinds[i].kind) != 0) first++;
    return first;
}

static bool is_kind(size_t kind, const char *name)
{
    return kind < gg_preset_kinds_n && in_list(name, gg_preset_kinds[kind].kind);
}

/* The part of an image model that image quantizers keep and that the tensor belongs to, or NULL. */
static const char *image_part(const gg_tensor *t)
{
    bool block = t->a.block >= 0;
    const char *const *parts = block ? gg_delicate_image_blocks : gg_delicate_image_parts;
    size_t most = block ? gg_delicate_image_blocks_n : gg_delicate_image_parts_n;
    if (t->a.part != GG_PART_DIFFUSION) return NULL;
    for (size_t i = 0; i < most; i++) {
        const char *at = strstr(t->name, parts[i]);
        size_t n = strlen(parts[i]);
        if (at && (at == t->name || at[-1] == '.') && (at[n] == '.' || !at[n])) return parts[i];
    }
    return NULL;
}

bool gg_is_delicate(const gg_tensor *t, const char **part)
{
    const char *dot = strrchr(t->name, '.'), *last = dot ? dot + 1 : t->name;
    *part = NULL;
    for (size_t i = 0; i < gg_delicate_parts_n; i++)
        if (strstr(t->name, gg_delicate_parts[i])) {
            *part = gg_delicate_parts[i];
            return true;
        }
    if ((*part = image_part(t))) return true;
    if (strcmp(last, "weight") != 0) {
        *part = last;
        return true;
    }
    return gg_dims_from(t, 1) == 1;
}

/* ---- the model ------------------------------------------------------------------------ */

typedef struct chooser {
    const gg_preset *p;
    const char *name; /* in the rules */
    bool low;
    uint64_t layers, experts;
    bool gqa4, own, large; /* large: llama.cpp calls the model 70B */
    bool imatrix;
    bool any_row; /* the type that is wanted, whatever the rows */
    bool tied;    /* no output.weight: token_embd is used instead */
    uint64_t n_attn_v;
} chooser;

/* The first element of a per-layer array, or the single value. */
static uint64_t first_number(const gg_meta *meta, const char *name)
{
    uint64_t v;
    return gg_kv_u64_at(gg_arch_kv(meta, name), 0, &v) ? v : 0;
}

static void look_at_model(chooser *c, const gg_tensor *tensors, size_t n, const gg_meta *meta)
{
    uint64_t heads = first_number(meta, "attention.head_count");
    uint64_t kv = first_number(meta, "attention.head_count_kv");
    if (!kv) kv = heads;
    c->layers = first_number(meta, "block_count");
    c->experts = first_number(meta, "expert_count");
    c->gqa4 = kv && heads / kv >= 4;
    c->own = gg_arch_has(gg_arch_of(meta), "own_presets");
    c->large = c->layers == 80 && gg_arch_has(gg_arch_of(meta), "large_presets");
    c->tied = true;
    for (size_t i = 0; i < n; i++) {
        size_t kind = kind_of(&tensors[i]);
        if (is_kind(kind, "output")) c->tied = false;
        c->n_attn_v += is_kind(kind, "attn_v");
    }
}

/* ---- choosing -------------------------------------------------------------------------- */

/* Blocks at both ends and every third between, where more bits help most. */
static bool more_bits(uint64_t i, uint64_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i >= n / 8 && (i - n / 8) % 3 == 2);
}

/* Whether tensor t, number i of n of its kind, meets a condition. */
static bool meets(const chooser *c, const gg_tensor *t, uint64_t i, uint64_t n, const char *word,
                  size_t len)
{
    const struct {
        const char *name;
        bool holds;
    } list[] = { { "gqa4", c->gqa4 },
                 { "experts8", c->experts == 8 },
                 { "experts4", c->experts >= 4 },
                 { "own", c->own },
                 { "low", c->low },
                 { "imatrix", c->imatrix },
                 { "stack", t->dims[2] > 1 },
                 { "odd_rows",
                   !c->any_row && t->dims[0] % gg_dtype_get(c->p->dtype)->block_elems != 0 },
                 { "first_2", i < 2 },
                 { "first_4", i < 4 },
                 { "first_8th", i < n / 8 },
                 { "first_16th", i < n / 16 },
                 { "middle", i >= n / 8 && i < 7 * n / 8 },
                 { "more_bits", more_bits(i, n) },
                 { "always", true } };
    for (size_t k = 0; k < sizeof list / sizeof list[0]; k++)
        if (gg_text_is(word, len, list[k].name)) return list[k].holds;
    return false;
}

static bool meets_all(const chooser *c, const gg_tensor *t, uint64_t i, uint64_t n,
                      const char *conditions)
{
    for (const char *at = conditions; *at; at += strspn(at, "&")) {
        size_t len = strcspn(at, "&"), not = *at == '!';
        if (meets(c, t, i, n, at + not, len - not ) == not ) return false;
        at += len;
    }
    return true;
}

static uint32_t by_rules(const chooser *c, size_t kind, const gg_tensor *t, uint64_t i, uint64_t n)
{
    const char *name = kind < gg_preset_kinds_n ? gg_preset_kinds[kind].kind : "other";
    uint32_t dtype = c->p->dtype;
    for (const gg_preset_rule *r = gg_preset_rules; r < gg_preset_rules + gg_preset_rules_n; r++)
        if (in_list(r->kinds, name) && in_list(r->presets, c->name) &&
            meets_all(c, t, i, n, r->when)) {
            dtype = r->dtype;
            break;
        }
    if (is_kind(kind, "attn_v") && c->large && !c->low && (dtype == GG_Q3_K || dtype == GG_Q4_K))
        return GG_Q5_K; /* shared by eight heads there, so more bits cost little */
    return dtype;
}

uint32_t gg_preset_fit_row(uint32_t dtype, uint64_t row)
{
    if (row % gg_dtype_get(dtype)->block_elems == 0) return dtype;
    for (size_t i = 0; i < gg_types_shorter_n; i++)
        if (gg_types_shorter[i].dtype == dtype) dtype = gg_types_shorter[i].instead;
    return row % gg_dtype_get(dtype)->block_elems == 0 ? dtype : (uint32_t)GG_F16;
}

static bool is_plain(uint32_t dtype)
{
    return dtype == GG_F32 || dtype == GG_F16 || dtype == GG_BF16;
}

/* llama-quantize refuses these types without an importance matrix. */
static gg_status check_imatrix(const chooser *c, const gg_tensor *t, size_t kind, uint32_t dtype,
                               gg_error *err)
{
    static const uint32_t list[] = {
        GG_IQ1_S, GG_IQ1_M, GG_IQ2_XXS, GG_IQ2_XS, GG_IQ2_S, GG_IQ3_XXS
    };
    bool needs = strcmp(c->name, "Q2_K_S") == 0 && dtype == GG_Q2_K;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) needs = needs || dtype == list[i];
    if (c->imatrix || !needs || is_kind(kind, "embd|output")) return GG_OK;
    gg_fail(err, GG_EUSAGE, "%s gives it the type %s, which needs an importance matrix", c->p->name,
            gg_dtype_get(dtype)->name);
    gg_fix_by(err, "imatrix",
              "give one, or choose a preset that needs none, for example Q2_K or IQ4_XS");
    return gg_at_tensor(err, t->name, t->name_len);
}

typedef struct place {
    int64_t block;
    size_t i;
} place;

static int by_block(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

/* Sorts tensors by block, because they are numbered within their kind in this order. */
static place *order_blocks(const gg_tensor *tensors, size_t n)
{
    place *list = calloc(n + 1, sizeof *list);
    for (size_t i = 0; list && i < n; i++) {
        int block = -1;
        if (sscanf(tensors[i].name, "blk.%9d.", &block) != 1) block = -1;
        list[i] = (place){ block, i };
    }
    if (list) qsort(list, n, sizeof *list, by_block);
    return list;
}

/* The type of tensor t, and the one it would have if its rows fitted. `seen` counts the earlier
 * tensors of its kind. */
static gg_status choose_by_preset(chooser *c, const gg_tensor *t, int64_t block, uint64_t seen,
                                  uint32_t *dtype, uint32_t *wanted, gg_error *err)
{
    size_t kind = kind_of(t);
    *wanted = *dtype = c->p->dtype;
    if (is_plain(c->p->dtype)) return GG_OK;
    uint64_t n = is_kind(kind, "attn_v") ? c->n_attn_v : c->layers, i = seen;
    if (is_kind(kind, "ffn_up|ffn_gate|ffn_down") && c->experts > 1 && block >= 0)
        i = (uint64_t)block;
    if (c->tied && strcmp(t->name, "token_embd.weight") == 0) kind = 0; /* output */
    c->any_row = true;
    *wanted = by_rules(c, kind, t, i, n);
    c->any_row = false;
    *dtype = gg_preset_fit_row(by_rules(c, kind, t, i, n), t->dims[0]);
    if (t->dims[0] % gg_dtype_get(*wanted)->block_elems == 0) *wanted = *dtype;
    return check_imatrix(c, t, kind, *dtype, err);
}

gg_status gg_preset_choose(const gg_preset *p, const gg_preset_model *m, uint32_t *dtypes,
                           uint32_t *wanted, gg_error *err)
{
    static const gg_meta none = GG_META_INIT;
    const gg_tensor *tensors = m->tensors;
    size_t n = m->n;
    chooser c = { .p = p, .imatrix = m->imatrix };
    uint64_t seen[KINDS_MOST] = { 0 };
    const char *part;
    c.name = gg_presets[0].name;
    for (size_t i = gg_presets_n; i-- > 0;)
        if (gg_presets[i].file_type == p->file_type) c.name = gg_presets[i].name;
    c.low = in_list("IQ1_S|IQ1_M|IQ2_XXS|IQ2_XS|IQ2_S|IQ2_M", c.name);
    look_at_model(&c, tensors, n, m->meta ? m->meta : &none);
    place *order = order_blocks(tensors, n);
    gg_status st = order ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the types of tensors");
    for (size_t k = 0; k < n && st == GG_OK; k++) {
        const gg_tensor *t = &tensors[order[k].i];
        uint32_t *dtype = &dtypes[order[k].i], full;
        *dtype = full = t->dtype;
        if (!gg_is_delicate(t, &part) && !gg_is_integer(t->dtype))
            st = choose_by_preset(&c, t, order[k].block, seen[kind_of(t)]++, dtype, &full, err);
        if (wanted) wanted[order[k].i] = full;
    }
    free(order);
    return st;
}

gg_status gg_preset_keys(const gg_preset *p, gg_meta *meta, gg_error *err)
{
    gg_meta_delete(meta, "general.quantization_version");
    gg_meta_delete(meta, "general.file_type");
    gg_meta_delete_imatrix(meta);
    gg_status st = gg_meta_set_u32(meta, "general.quantization_version", 2, err);
    return st == GG_OK ? gg_meta_set_u32(meta, "general.file_type", p->file_type, err) : st;
}
