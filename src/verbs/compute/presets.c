/* presets.c - the types that llama-quantize gives to tensors, as a table. */
#include "presets.h"

#include "base/error.h"
#include "base/nearest.h"
#include "gguf/gguf.h"
#include "organ/gg_organ.h"
#include "verbs/shared/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Values of llama_ftype; under 64, as they are bits in a rule's `presets`. */
enum {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q8_0 = 7,
    Q5_0 = 8,
    Q5_1 = 9,
    Q2_K = 10,
    Q3_K_S = 11,
    Q3_K_M = 12,
    Q3_K_L = 13,
    Q4_K_S = 14,
    Q4_K_M = 15,
    Q5_K_S = 16,
    Q5_K_M = 17,
    Q6_K = 18,
    IQ2_XXS = 19,
    IQ2_XS = 20,
    Q2_K_S = 21,
    IQ3_XS = 22,
    IQ3_XXS = 23,
    IQ1_S = 24,
    IQ4_NL = 25,
    IQ3_S = 26,
    IQ3_M = 27,
    IQ2_S = 28,
    IQ2_M = 29,
    IQ4_XS = 30,
    IQ1_M = 31,
    BF16 = 32,
    TQ1_0 = 36,
    TQ2_0 = 37,
    MXFP4_MOE = 38
};

static const gg_preset presets[] = {
    { "F32", F32, GG_F32 },          { "F16", F16, GG_F16 },
    { "BF16", BF16, GG_BF16 },       { "Q4_0", Q4_0, GG_Q4_0 },
    { "Q4_1", Q4_1, GG_Q4_1 },       { "Q5_0", Q5_0, GG_Q5_0 },
    { "Q5_1", Q5_1, GG_Q5_1 },       { "Q8_0", Q8_0, GG_Q8_0 },
    { "Q2_K", Q2_K, GG_Q2_K },       { "Q2_K_S", Q2_K_S, GG_Q2_K },
    { "Q3_K_S", Q3_K_S, GG_Q3_K },   { "Q3_K_M", Q3_K_M, GG_Q3_K },
    { "Q3_K_L", Q3_K_L, GG_Q3_K },   { "Q3_K", Q3_K_M, GG_Q3_K },
    { "Q4_K_S", Q4_K_S, GG_Q4_K },   { "Q4_K_M", Q4_K_M, GG_Q4_K },
    { "Q4_K", Q4_K_M, GG_Q4_K },     { "Q5_K_S", Q5_K_S, GG_Q5_K },
    { "Q5_K_M", Q5_K_M, GG_Q5_K },   { "Q5_K", Q5_K_M, GG_Q5_K },
    { "Q6_K", Q6_K, GG_Q6_K },       { "IQ1_S", IQ1_S, GG_IQ1_S },
    { "IQ1_M", IQ1_M, GG_IQ1_M },    { "IQ2_XXS", IQ2_XXS, GG_IQ2_XXS },
    { "IQ2_XS", IQ2_XS, GG_IQ2_XS }, { "IQ2_S", IQ2_S, GG_IQ2_XS },
    { "IQ2_M", IQ2_M, GG_IQ2_S },    { "IQ3_XXS", IQ3_XXS, GG_IQ3_XXS },
    { "IQ3_XS", IQ3_XS, GG_IQ3_S },  { "IQ3_S", IQ3_S, GG_IQ3_S },
    { "IQ3_M", IQ3_M, GG_IQ3_S },    { "IQ4_NL", IQ4_NL, GG_IQ4_NL },
    { "IQ4_XS", IQ4_XS, GG_IQ4_XS }, { "TQ1_0", TQ1_0, GG_TQ1_0 },
    { "TQ2_0", TQ2_0, GG_TQ2_0 },    { "MXFP4_MOE", MXFP4_MOE, GG_MXFP4 },
};

const gg_preset *gg_preset_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        if (strcasecmp(presets[i].name, name) == 0) return &presets[i];
    return NULL;
}

const char *gg_preset_near(const char *name)
{
    const char *names[sizeof presets / sizeof presets[0]];
    size_t n = sizeof names / sizeof names[0];
    for (size_t i = 0; i < n; i++) names[i] = presets[i].name;
    return gg_nearest(name, strlen(name), names, n);
}

const gg_preset *gg_preset_at(size_t i)
{
    return i < sizeof presets / sizeof presets[0] ? &presets[i] : NULL;
}

/* ---- conditions of a rule ----------------------------------------------------------- */

/* Kinds of tensors, as bits. */
enum {
    OUTPUT = 1,
    EMBD = 2,
    ATTN_V = 4,
    ATTN_K = 8,
    ATTN_Q = 16,
    ATTN_OUT = 32,
    FFN_UP = 64,
    FFN_GATE = 128,
    FFN_DOWN = 256,
    OTHER = 512,
    ANY = 1023
};

/* Conditions, as bits: all must be true. GQA4: four or more heads share a key. Parts of the
 * model are given by the number of the tensor among those of its kind. */
enum {
    GQA4 = 1,
    EXPERTS8 = 2,
    EXPERTS4 = 4,
    FALCON = 8,
    NOT_FALCON = 16,
    STACK = 32,
    ODD_ROWS = 64,
    FIRST_2 = 128,
    FIRST_4 = 256,
    FIRST_8TH = 512,
    FIRST_16TH = 1024,
    MORE_BITS = 2048,
    MIDDLE = 4096,
    NOT_EXPERTS8 = 8192,
    IMATRIX = 16384, /* encoded with an importance matrix */
    NO_IMATRIX = 32768
};

/* A set of presets. */
#define P(name) ((uint64_t)1 << (name))
#define ALL (~(uint64_t)0)
#define IQ1 (P(IQ1_S) | P(IQ1_M))
#define IQ2_XX (P(IQ2_XXS) | P(IQ2_XS))
#define IQ2_SM (P(IQ2_S) | P(IQ2_M))
#define LOW (IQ1 | IQ2_XX | IQ2_SM)

typedef struct preset_rule {
    unsigned kinds, when;
    uint64_t presets;
    uint32_t dtype;
} preset_rule;

/* The first matching rule is used, or else the preset's own type. */
/* clang-format off */
static const preset_rule rules[] = {
    { OUTPUT, 0, P(MXFP4_MOE), GG_Q8_0 },
    { OUTPUT, FALCON, ALL, GG_Q8_0 },
    { OUTPUT, ODD_ROWS, ALL, GG_Q8_0 },
    { OUTPUT, 0, LOW | P(IQ3_XXS), GG_Q5_K },
    { OUTPUT, 0, ~P(Q8_0), GG_Q6_K },
    { OUTPUT, 0, ALL, GG_Q8_0 },

    { ANY, STACK, P(MXFP4_MOE), GG_MXFP4 },
    { ANY, 0, P(MXFP4_MOE), GG_Q8_0 },

    { EMBD, 0, IQ1 | IQ2_XX, GG_Q2_K },
    { EMBD, 0, IQ2_SM | P(IQ3_XXS), GG_IQ3_S },
    { EMBD, 0, P(TQ1_0) | P(TQ2_0), GG_Q4_K },

    { ATTN_V, GQA4, LOW, GG_Q4_K },
    { ATTN_V, EXPERTS4, LOW, GG_Q4_K },
    { ATTN_V | FFN_DOWN, FIRST_8TH, IQ2_SM, GG_IQ3_S },
    { ATTN_V | FFN_DOWN, FIRST_8TH, LOW, GG_Q2_K },
    { ATTN_V, 0, IQ2_SM, GG_IQ3_S },
    { ATTN_V, 0, LOW, GG_Q2_K },
    { ATTN_K, EXPERTS8, LOW, GG_Q4_K },
    { ATTN_OUT, EXPERTS8, LOW, GG_Q5_K },
    { ATTN_OUT, 0, IQ1, GG_IQ2_XXS },
    { ATTN_OUT, 0, IQ2_SM, GG_IQ3_S },

    { ATTN_V, EXPERTS8, ~LOW, GG_Q8_0 },
    { ATTN_V, GQA4, P(Q2_K) | P(Q2_K_S) | P(IQ3_XXS) | P(IQ3_XS) | P(IQ3_S), GG_Q4_K },
    { ATTN_V, 0, P(Q2_K), GG_Q3_K },
    { ATTN_V, NO_IMATRIX, P(IQ3_XXS), GG_IQ3_S },
    { ATTN_V, 0, P(IQ3_M), GG_Q4_K },
    { ATTN_V, FIRST_2, P(Q3_K_M), GG_Q5_K },
    { ATTN_V, 0, P(Q3_K_M), GG_Q4_K },
    { ATTN_V, 0, P(Q3_K_L), GG_Q5_K },
    { ATTN_V, GQA4, P(IQ4_NL) | P(IQ4_XS), GG_Q5_K },
    { ATTN_V, MORE_BITS, P(Q4_K_M) | P(Q5_K_M), GG_Q6_K },
    { ATTN_V, FIRST_4, P(Q4_K_S), GG_Q5_K },

    { ATTN_K, EXPERTS8, ~LOW, GG_Q8_0 },
    { ATTN_K | ATTN_Q, 0, P(IQ3_XS), GG_IQ3_XXS },
    { ATTN_K | ATTN_Q, 0, P(IQ3_XXS), GG_IQ2_S },

    { FFN_DOWN, 0, P(Q2_K), GG_Q3_K },
    { FFN_DOWN, FIRST_8TH, P(Q2_K_S) | P(IQ3_M), GG_Q4_K },
    { FFN_DOWN, NO_IMATRIX | FIRST_8TH, P(IQ3_XXS), GG_Q4_K },
    { FFN_DOWN, NO_IMATRIX, P(IQ3_XXS), GG_Q3_K },
    { FFN_DOWN, FIRST_16TH, P(Q3_K_M), GG_Q5_K },
    { FFN_DOWN, NOT_FALCON, P(Q3_K_M), GG_Q4_K },
    { FFN_DOWN, MORE_BITS, P(Q3_K_M), GG_Q4_K },
    { FFN_DOWN, EXPERTS8 | MORE_BITS, P(IQ3_M), GG_Q4_K },
    { FFN_DOWN, FALCON, P(Q3_K_L), GG_Q4_K },
    { FFN_DOWN, 0, P(Q3_K_L), GG_Q5_K },
    { FFN_DOWN, FALCON | FIRST_16TH, P(Q4_K_M), GG_Q6_K },
    { FFN_DOWN, FALCON | MORE_BITS, P(Q4_K_M), GG_Q5_K },
    { FFN_DOWN, NOT_FALCON | MORE_BITS, P(Q4_K_M), GG_Q6_K },
    { FFN_DOWN, NO_IMATRIX | FIRST_8TH, P(IQ4_NL) | P(IQ4_XS), GG_Q5_K },
    { FFN_DOWN, MORE_BITS, P(Q5_K_M), GG_Q6_K },
    { FFN_DOWN, NOT_FALCON | FIRST_8TH, P(Q4_K_S), GG_Q5_K },
    { FFN_DOWN, IMATRIX | FIRST_8TH, P(Q4_0), GG_Q4_1 },
    { FFN_DOWN, IMATRIX | FIRST_8TH, P(Q5_0), GG_Q5_1 },

    { ATTN_OUT, NOT_FALCON | EXPERTS8,
      P(Q2_K) | P(IQ3_XS) | P(IQ3_XXS) | P(Q3_K_S) | P(Q3_K_M) | P(IQ4_NL) | P(Q4_K_S) |
      P(Q4_K_M) | P(IQ3_S) | P(IQ3_M) | P(IQ4_XS), GG_Q5_K },
    { ATTN_OUT, NOT_FALCON | NOT_EXPERTS8, P(Q2_K), GG_Q3_K },
    { ATTN_OUT, NOT_FALCON | NOT_EXPERTS8, P(IQ3_XXS), GG_IQ3_S },
    { ATTN_OUT, NOT_FALCON | NOT_EXPERTS8, P(Q3_K_M) | P(IQ3_M), GG_Q4_K },
    { ATTN_OUT, NOT_FALCON | NOT_EXPERTS8, P(Q3_K_L), GG_Q5_K },
    { ATTN_OUT, FALCON, P(Q3_K_L), GG_Q4_K },

    { FFN_UP | FFN_GATE, MIDDLE, P(IQ3_XS), GG_IQ3_XXS },
};

/* The type of a tensor whose rows are not whole blocks of `dtype`. */
static const struct { uint32_t dtype, instead; } shorter[] = {
    { GG_IQ1_S, GG_IQ4_NL }, { GG_IQ1_M, GG_IQ4_NL }, { GG_IQ2_XXS, GG_IQ4_NL },
    { GG_IQ2_XS, GG_IQ4_NL }, { GG_IQ2_S, GG_IQ4_NL }, { GG_IQ3_XXS, GG_IQ4_NL },
    { GG_IQ3_S, GG_IQ4_NL }, { GG_IQ4_XS, GG_IQ4_NL }, { GG_Q2_K, GG_Q4_0 },
    { GG_Q3_K, GG_Q4_0 }, { GG_TQ1_0, GG_Q4_0 }, { GG_TQ2_0, GG_Q4_0 },
    { GG_Q4_K, GG_Q5_0 }, { GG_Q5_K, GG_Q5_1 }, { GG_Q6_K, GG_Q8_0 },
};

/* Parts of the names of tensors that are never quantized. They are small, and engines accept
 * only one type for them, or quantizing them would cost too much quality. */
static const char *const delicate[] = {
    "ffn_gate_inp", "ffn_gate_tid2eid", "_norm", "altup", "laurel", "per_layer_model_proj",
    "position_embd", "token_types", "ssm_conv1d", "shortconv.conv", "indexer.k_proj",
    "indexer.q_proj", "attn_rel_b", "patch_embd", "patch_merger", "sam.", "rel_pos",
    "time_mix_first", "time_mix_w0", "time_mix_w1", "time_mix_w2", "time_mix_v0", "time_mix_v1",
    "time_mix_v2", "time_mix_a0", "time_mix_a1", "time_mix_a2", "time_mix_g1", "time_mix_g2",
    "time_mix_decay_w1", "time_mix_decay_w2", "time_mix_lerp_fused",
};

static const struct { const char *part; unsigned kind; } kinds[] = {
    { "attn_qkv.weight", ATTN_V }, { "attn_kv_b.weight", ATTN_V }, { "attn_v.weight", ATTN_V },
    { "attn_k.weight", ATTN_K }, { "attn_q.weight", ATTN_Q }, { "attn_output.weight", ATTN_OUT },
    { "ffn_up", FFN_UP }, { "ffn_gate", FFN_GATE }, { "ffn_down", FFN_DOWN },
};
/* clang-format on */

static unsigned kind_of(const gg_tensor *t)
{
    if (strcmp(t->name, "output.weight") == 0) return OUTPUT;
    if (strcmp(t->name, "token_embd.weight") == 0 ||
        strcmp(t->name, "per_layer_token_embd.weight") == 0)
        return EMBD;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strstr(t->name, kinds[i].part)) return kinds[i].kind;
    return OTHER;
}

bool gg_is_delicate(const gg_tensor *t, const char **part)
{
    const char *dot = strrchr(t->name, '.'), *last = dot ? dot + 1 : t->name;
    *part = NULL;
    for (size_t i = 0; i < sizeof delicate / sizeof delicate[0]; i++)
        if (strstr(t->name, delicate[i])) return *part = delicate[i], true;
    if (strcmp(last, "weight") != 0) return *part = last, true;
    return t->dims[1] == 1 && t->dims[2] == 1 && t->dims[3] == 1;
}

/* ---- the model ------------------------------------------------------------------------ */

typedef struct chooser {
    const gg_preset *p;
    uint64_t layers, experts;
    bool gqa4, falcon, large; /* large: llama.cpp calls the model 70B */
    bool imatrix;
    bool tied; /* no output.weight: token_embd is used instead */
    uint64_t n_attn_v;
} chooser;

/* The first element of a per-layer array, or the single value. */
static uint64_t first_number(const gg_meta *meta, const char *name)
{
    char key[128];
    uint64_t v = 0;
    if (!gg_arch_key(meta, name, key, sizeof key)) return 0;
    const gg_kv *kv = gg_meta_find(meta, key);
    if (!kv) return 0;
    gg_kv one = *kv;
    if (kv->type == GG_TYPE_ARR) {
        if (kv->count == 0 || gg_type_size(kv->elem_type) == 0) return 0;
        one = (gg_kv){
            .type = kv->elem_type, .count = 1, .data = kv->data, .size = gg_type_size(kv->elem_type)
        };
    }
    return gg_kv_u64(&one, &v) ? v : 0;
}

static bool arch_is(const gg_meta *meta, const char *name)
{
    const char *text;
    size_t n;
    return gg_kv_str(gg_meta_find(meta, "general.architecture"), &text, &n) && n == strlen(name) &&
           memcmp(text, name, n) == 0;
}

static void look_at_model(chooser *c, const gg_tensor *tensors, size_t n, const gg_meta *meta)
{
    uint64_t heads = first_number(meta, "attention.head_count");
    uint64_t kv = first_number(meta, "attention.head_count_kv");
    if (!kv) kv = heads;
    c->layers = first_number(meta, "block_count");
    c->experts = first_number(meta, "expert_count");
    c->gqa4 = kv && heads / kv >= 4;
    c->falcon = arch_is(meta, "falcon");
    c->large = c->layers == 80 && (arch_is(meta, "llama") || arch_is(meta, "qwen2"));
    c->tied = true;
    for (size_t i = 0; i < n; i++) {
        unsigned kind = kind_of(&tensors[i]);
        if (kind == OUTPUT) c->tied = false;
        c->n_attn_v += kind == ATTN_V;
    }
}

/* ---- choosing -------------------------------------------------------------------------- */

/* Blocks at both ends and every third between, where more bits help most. */
static bool more_bits(uint64_t i, uint64_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i >= n / 8 && (i - n / 8) % 3 == 2);
}

/* The conditions that tensor t, number i of n of its kind, meets. */
static unsigned conditions(const chooser *c, const gg_tensor *t, uint64_t i, uint64_t n)
{
    unsigned when = 0;
    if (c->gqa4) when |= GQA4;
    when |= c->experts == 8 ? EXPERTS8 : NOT_EXPERTS8;
    if (c->experts >= 4) when |= EXPERTS4;
    when |= c->falcon ? FALCON : NOT_FALCON;
    if (t->dims[2] > 1) when |= STACK;
    if (t->dims[0] % gg_dtype_get(c->p->dtype)->block_elems) when |= ODD_ROWS;
    if (i < 2) when |= FIRST_2;
    if (i < 4) when |= FIRST_4;
    if (i < n / 8) when |= FIRST_8TH;
    else if (i < 7 * n / 8) when |= MIDDLE;
    if (i < n / 16) when |= FIRST_16TH;
    if (more_bits(i, n)) when |= MORE_BITS;
    when |= c->imatrix ? IMATRIX : NO_IMATRIX;
    return when;
}

static uint32_t by_rules(const chooser *c, unsigned kind, unsigned when)
{
    uint32_t dtype = c->p->dtype;
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++) {
        const preset_rule *r = &rules[k];
        if (!(r->kinds & kind) || (r->when & when) != r->when || !(r->presets & P(c->p->file_type)))
            continue;
        dtype = r->dtype;
        break;
    }
    bool low = LOW & P(c->p->file_type);
    if (kind == ATTN_V && c->large && !low && (dtype == GG_Q3_K || dtype == GG_Q4_K))
        return GG_Q5_K; /* shared by eight heads there, so more bits cost little */
    return dtype;
}

uint32_t gg_preset_fit_row(uint32_t dtype, uint64_t row)
{
    if (row % gg_dtype_get(dtype)->block_elems == 0) return dtype;
    for (size_t i = 0; i < sizeof shorter / sizeof shorter[0]; i++)
        if (shorter[i].dtype == dtype) dtype = shorter[i].instead;
    return row % gg_dtype_get(dtype)->block_elems == 0 ? dtype : (uint32_t)GG_F16;
}

static bool is_plain(uint32_t dtype)
{
    return dtype == GG_F32 || dtype == GG_F16 || dtype == GG_BF16;
}

/* llama-quantize refuses these types without an importance matrix. */
static gg_status check_imatrix(const chooser *c, const gg_tensor *t, unsigned kind, uint32_t dtype,
                               gg_error *err)
{
    static const uint32_t list[] = {
        GG_IQ1_S, GG_IQ1_M, GG_IQ2_XXS, GG_IQ2_XS, GG_IQ2_S, GG_IQ3_XXS
    };
    bool needs = c->p->file_type == Q2_K_S && dtype == GG_Q2_K;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) needs = needs || dtype == list[i];
    if (c->imatrix || !needs || kind == EMBD || kind == OUTPUT) return GG_OK;
    gg_fail(err, GG_EUNSUPPORTED, "%s gives it the type %s, which needs an importance matrix",
            c->p->name, gg_dtype_get(dtype)->name);
    gg_fix_hint(err, GG_HINT_IMATRIX,
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

/* The type of tensor t. `seen` counts the earlier tensors of its kind. */
static gg_status choose_by_preset(const chooser *c, const gg_tensor *t, int64_t block,
                                  uint64_t seen, uint32_t *dtype, gg_error *err)
{
    unsigned kind = kind_of(t);
    if (is_plain(c->p->dtype)) return *dtype = c->p->dtype, GG_OK;
    uint64_t n = kind == ATTN_V ? c->n_attn_v : c->layers, i = seen;
    bool ffn = kind & (FFN_UP | FFN_GATE | FFN_DOWN);
    if (ffn && c->experts > 1 && block >= 0) i = (uint64_t)block;
    unsigned when = conditions(c, t, i, n);
    if (kind == EMBD && c->tied && strcmp(t->name, "token_embd.weight") == 0) kind = OUTPUT;
    *dtype = gg_preset_fit_row(by_rules(c, kind, when), t->dims[0]);
    return check_imatrix(c, t, kind, *dtype, err);
}

gg_status gg_preset_choose(const gg_preset *p, const gg_preset_model *m, uint32_t *dtypes,
                           gg_error *err)
{
    static const gg_meta none = GG_META_INIT;
    const gg_tensor *tensors = m->tensors;
    size_t n = m->n;
    chooser c = { .p = p, .imatrix = m->imatrix };
    uint64_t seen[OTHER + 1] = { 0 };
    const char *part;
    look_at_model(&c, tensors, n, m->meta ? m->meta : &none);
    place *order = order_blocks(tensors, n);
    gg_status st = order ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the tensors' types");
    for (size_t k = 0; k < n && st == GG_OK; k++) {
        const gg_tensor *t = &tensors[order[k].i];
        uint32_t *dtype = &dtypes[order[k].i];
        *dtype = t->dtype;
        if (gg_is_delicate(t, &part) || gg_is_integer(t->dtype)) continue;
        st = choose_by_preset(&c, t, order[k].block, seen[kind_of(t)]++, dtype, err);
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
