/* peft.c - the tensors of a PEFT adapter as those of a GGUF adapter.
 *
 * A pair is lora_A [r, in] and lora_B [out, r]. What moves the rows of a matrix moves the rows of
 * lora_B, and what moves its columns moves those of lora_A. Engines multiply a pair by
 * adapter.lora.alpha / r; where PEFT means another strength, the difference is folded into lora_B.
 */
#include "base/cursor.h"
#include "base/error.h"
#include "base/float_bits.h"
#include "base/text.h"
#include "base/text_index.h"
#include "checkpoint.h"

#include "gguf/gguf.h"
#include "organ/gg_quant.h"
#include "quant/quant.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of modules, or of their parameters, that a field of the configuration has. */
typedef struct listed {
    const gg_json_node *node;
    uint32_t first; /* the number of the first of the same name, which has what follows */
    uint32_t n[3];  /* how many parameters have it: all, gate_up_proj, down_proj */
    uint8_t found;  /* marks of what it names that is there */
} listed;

typedef struct name_list {
    listed *items;
    size_t n;
    size_t regular;        /* the first that is a regular expression; SIZE_MAX = none */
    bool parameters;       /* each is a module and its parameter */
    gg_text_index by_name; /* of modules, without "$" at the end */
} name_list;

typedef struct peft {
    gg_checkpoint *ck;
    const gg_json_node *config;
    const gg_meta *base;
    char arch[64];
    gg_hf_sizes sizes;
    uint64_t blocks, trunk; /* with and without prediction blocks */
    double alpha, rank;     /* rank: that of the configuration; 0 = none */
    gg_source *model;       /* the base, if it is open; else NULL */
    bool mlx;               /* halves are [in, r] and [r, out] */
    bool pairs_only;        /* leave whole matrices out */
    bool rslora, folded;
    size_t odd; /* pairs of another rank than that of the configuration, and the first of them */
    char odd_rank[240];
    size_t skipped, whole; /* tensors of other parts, and whole matrices, that are left out */
    size_t unlike;         /* matrices of pairs that were not compared, and the first of them */
    const char *unlike_name;
    name_list alphas, ranks;            /* alpha_pattern and rank_pattern */
    name_list targets, excluded, saved; /* target_modules, exclude_modules, modules_to_save */
    name_list parameters;               /* target_parameters */
    double *layers;                     /* layers_to_transform, sorted */
    size_t n_layers;
} peft;

/* ---- refusals ------------------------------------------------------------------------------- */

static gg_status refuse_name(const peft *p, const gg_st_tensor *t, gg_error *err)
{
    static const struct {
        const char *part, *what, *fix;
    } kinds[] = {
        { "lora_magnitude_vector", "it belongs to DoRA, which GGUF adapters cannot express",
          "merge the adapter into its base with PEFT" },
        { ".lora_B.bias", "the adapter has biases (lora_bias), which GGUF adapters cannot express",
          "merge the adapter into its base with PEFT" },
        { ".lora_A.", "its name has the adapter's name in it",
          "save the adapter again with save_pretrained of PEFT" },
        { ".lora_B.", "its name has the adapter's name in it",
          "save the adapter again with save_pretrained of PEFT" },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(t->name, kinds[i].part))
            return gg_ck_refuse(p->ck, t, GG_EUNSUPPORTED, kinds[i].fix, err, "%s", kinds[i].what);
    gg_ck_refuse(p->ck, t, GG_EUNSUPPORTED,
                 "merge the adapter into its base with PEFT, or take its pairs only", err,
                 "it is a whole matrix (modules_to_save), which GGUF adapters cannot hold");
    return gg_fix_by(err, "pairs_only",
                     "merge the adapter into its base with PEFT, or take its pairs only");
}

/* Refuses a tensor outside of pairs, unless pairs are all that is wanted. */
static gg_status leave_whole(peft *p, const gg_st_tensor *t, gg_error *err)
{
    bool matrix = !strstr(t->name, "lora_");
    if (p->pairs_only && matrix) {
        p->whole++;
        return GG_OK;
    }
    return refuse_name(p, t, err);
}

/* ---- strength ------------------------------------------------------------------------------- */

static double adapter_number(const gg_json_node *config, const char *name, double otherwise)
{
    double x;
    return gg_json_f64(gg_json_get(config, name), &x, NULL) == GG_OK ? x : otherwise;
}

/* ---- lists of names --------------------------------------------------------------------------
 * An adapter may have as many names as pairs, so that they are looked up, not compared one by one.
 */

/* A name as it was written. */
static const char *written_name(const gg_json_node *node, size_t *len)
{
    const char *text = gg_json_key(node, len);
    if (text || gg_json_string(node, &text, len, NULL) == GG_OK) return text;
    *len = 0;
    return "";
}

/* The bytes before the last dot of a name, and the dot; 0 = it has none. */
static size_t after_dot(const char *name, size_t len)
{
    while (len > 0 && name[len - 1] != '.') len--;
    return len;
}

static const char *name_at(const void *list, size_t i, size_t *len)
{
    const name_list *l = list;
    const char *text = written_name(l->items[i].node, len);
    size_t dot = l->parameters ? after_dot(text, *len) : 0;
    if (dot > 0) *len = dot - 1;
    else if (!l->parameters && *len > 0 && text[*len - 1] == '$') --*len;
    return text;
}

static gg_status read_names(name_list *l, const gg_json_node *config, const char *field,
                            gg_json_type type, gg_error *err)
{
    const gg_json_node *node = gg_json_get(config, field), *m = gg_json_first(node);
    size_t n = gg_json_count(node), was;
    l->by_name.at = name_at;
    l->regular = SIZE_MAX;
    if (gg_json_type_of(node) != type || n == 0) return err->status;
    if (!(l->items = calloc(n, sizeof *l->items))) return gg_ck_no_room(err);
    for (; m && err->status == GG_OK; m = gg_json_next(m)) {
        size_t len, dot;
        const char *text = written_name(m, &len);
        for (size_t i = 0; i < len && l->regular == SIZE_MAX; i++)
            if (strchr("*+?()[]{}|\\", text[i])) l->regular = l->n;
        l->items[l->n] = (listed){ .node = m, .first = (uint32_t)l->n };
        if (gg_text_add(&l->by_name, l, l->n, &was, err) == GG_OK && was != SIZE_MAX)
            l->items[l->n].first = (uint32_t)was;
        listed *first = &l->items[l->items[l->n++].first];
        if (!l->parameters || (dot = after_dot(text, len)) == 0) continue;
        first->n[0]++;
        first->n[1] += gg_text_is(text + dot, len - dot, "gate_up_proj");
        first->n[2] += gg_text_is(text + dot, len - dot, "down_proj");
    }
    return err->status;
}

/* Finds a name, and marks it. SIZE_MAX = it is not in the list. */
static size_t find_name(name_list *l, const char *name, size_t len, uint8_t mark)
{
    size_t i = len ? gg_text_find(&l->by_name, l, name, len) : SIZE_MAX;
    if (i != SIZE_MAX) l->items[i].found |= mark;
    return i;
}

/* The first name in the list that the module has, whole or behind a dot; a name with "^" before it
 * must be the whole one. SIZE_MAX = none. All such names are marked. */
static size_t find_module(name_list *l, const char *module, size_t len, uint8_t mark)
{
    char whole[512] = "^";
    size_t first = SIZE_MAX, i;
    if (len + 1 >= sizeof whole || l->n == 0) return first; /* no matrix has such a name */
    for (size_t at = 0; at < len; at++)
        if ((at == 0 || module[at - 1] == '.') &&
            (i = find_name(l, module + at, len - at, mark)) < first)
            first = i;
    memcpy(whole + 1, module, len);
    i = l->parameters ? SIZE_MAX : find_name(l, whole, len + 1, mark);
    return i < first ? i : first;
}

static void free_names(name_list *l)
{
    gg_text_index_free(&l->by_name);
    free(l->items);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* The halves of a pair, and the module's name. */
typedef struct peft_pair {
    const gg_st_tensor *a, *b;
    const char *module;
    size_t len;
    bool embedding;
} peft_pair;

/* A half of a pair, or of the pair of an expert. */
typedef struct peft_half {
    const gg_st_tensor *t;
    gg_hf_move move;
    float times;
} peft_half;

static gg_status add_half(const peft *p, const peft_half *h, const char *name, int64_t expert,
                          gg_error *err)
{
    const gg_st_tensor *t = h->t;
    const gg_hf_move *move = &h->move;
    gg_ck_tensor *m = gg_ck_tensor_named(p->ck, name, strlen(name), err);
    if (!m) return err->status;
    if (m->n_pieces == 0) {
        m->times = h->times;
    } else if (expert < 0 || memcmp(m->dims, move->dims, 2 * sizeof *m->dims) != 0 ||
               m->times != h->times) {
        return gg_ck_refuse(p->ck, t, GG_EUNSUPPORTED,
                            "train an adapter with one rank for all experts", err,
                            "it does not have the shape, rank or strength of other experts");
    }
    return gg_ck_add_moved(p->ck, m, t, expert, move, err);
}

/* The value that alpha_pattern or rank_pattern has for a module, whose name has no
 * "base_model.model." before it. *value keeps what it has if there is none. */
static gg_status pattern_value(peft *p, name_list *l, const peft_pair *pair, const char *name,
                               double *value, gg_error *err)
{
    size_t i = find_module(l, pair->module, pair->len, 1);
    if (l->regular < i)
        return gg_ck_refuse(p->ck, pair->b, GG_EUNSUPPORTED, "write whole names of modules there",
                            err, "%s has a regular expression", name);
    return i == SIZE_MAX ? GG_OK : gg_json_f64(l->items[i].node, value, err);
}

/* Sets *factor to what lora_B needs with this rank; 0 = none. */
static gg_status strength_of(peft *p, const peft_pair *pair, uint64_t rank, float *factor,
                             gg_error *err)
{
    double alpha = p->alpha, r = p->rank, x;
    gg_status st = pattern_value(p, &p->alphas, pair, "alpha_pattern", &alpha, err);
    if (st == GG_OK) st = pattern_value(p, &p->ranks, pair, "rank_pattern", &r, err);
    if (st == GG_OK && rank > 0 && r > 0 && r != (double)rank && p->odd++ == 0)
        snprintf(
            p->odd_rank, sizeof p->odd_rank, "%.*s has rank %llu, but adapter_config.json has %g",
            (int)(pair->len < 120 ? pair->len : 120), pair->module, (unsigned long long)rank, r);
    if (st != GG_OK) return st;
    x = alpha / p->alpha * (p->rslora ? sqrt((double)rank) : 1);
    if (p->mlx && rank > 0 && r > 0) x = (double)rank / r; /* its scale is for every rank */
    if (!((x > 1e-30 && x < 1e30) || (x < -1e-30 && x > -1e30))) {
        gg_fail(err, GG_EUNSUPPORTED,
                "alpha_pattern gives it a strength of 0, or one out of range");
        gg_at_tensor(err, pair->b->name, pair->b->name_len);
        return gg_fix(err, "remove the pair, or correct alpha_pattern");
    }
    *factor = x == 1 ? 0 : (float)x;
    if (x != 1) p->folded = true;
    return GG_OK;
}

/* The rank of a pair; 0 if its halves do not fit each other. */
static uint64_t rank_of(const peft *p, const peft_pair *pair)
{
    if (pair->a->n_dims != 2 || pair->b->n_dims != 2) return 0;
    uint64_t a = pair->a->dims[p->mlx], b = pair->b->dims[!p->mlx];
    return a == b ? a : 0;
}

/* Whether the halves have the shapes of a pair of that rank if each is transposed, or if they are
 * exchanged, but not as they are. */
static bool is_turned(const peft *p, const peft_pair *pair)
{
    if (pair->a->n_dims != 2 || pair->b->n_dims != 2) return false;
    uint64_t a = pair->a->dims[p->mlx], b = pair->b->dims[!p->mlx], rank = pair->a->dims[!p->mlx];
    return rank == pair->b->dims[p->mlx] && rank < a && rank < b &&
           (a != b || (double)rank == p->rank);
}

/* Moves the rows of lora_B, or the columns of lora_A, as `ops` moves those of the matrix. MLX
 * stores both halves transposed, but those of an embedding as GGUF does. */
static bool move_pair(const peft *p, const peft_pair *pair, const char *ops, gg_hf_move *a,
                      gg_hf_move *b, bool *fits)
{
    const char *of_a, *of_b;
    char text_a[200], text_b[200];
    bool columns = gg_hf_pair_ops(ops, pair->embedding, &of_a, &of_b);
    if (p->mlx) {
        snprintf(text_a, sizeof text_a, "swap0,1%s%s", of_a ? " " : "", of_a ? of_a : "");
        snprintf(text_b, sizeof text_b, "swap0,1%s%s", of_b ? " " : "", of_b ? of_b : "");
        of_a = pair->embedding ? NULL : text_a;
        of_b = text_b;
    }
    *fits = gg_hf_views(of_a, &p->sizes, 2, pair->a->dims, a) &&
            gg_hf_views(of_b, &p->sizes, 2, pair->b->dims, b);
    if (!*fits || a->n_dims != 2 || b->n_dims != 2) return false;
    uint64_t step = p->mlx ? pair->b->dims[1] : 1;
    for (uint32_t i = 0; i < b->n_views && !columns; i++) {
        const gg_hf_view *v = &b->view[i];
        if (v->step[v->n - 1] != step || v->count[v->n - 1] != rank_of(p, pair)) return false;
    }
    return true;
}

static gg_status refuse_module(const peft *p, const gg_st_tensor *t, gg_error *err)
{
    return gg_ck_refuse(p->ck, t, GG_EUNSUPPORTED, "use the model that the adapter was trained for",
                        err, "the base has no such tensor");
}

/* Adds the halves, lora_A and lora_B, as those of one tensor of the base. */
static gg_status add_halves(const peft *p, const char *name, int64_t expert,
                            const peft_half half[2], gg_error *err)
{
    char full[GG_HF_NAME + 8];
    snprintf(full, sizeof full, "%s.lora_a", name);
    gg_status st = add_half(p, &half[0], full, expert, err);
    snprintf(full, sizeof full, "%s.lora_b", name);
    return st == GG_OK ? add_half(p, &half[1], full, expert, err) : st;
}

static gg_status add_pair(peft *p, const peft_pair *pair, gg_error *err)
{
    char hf[512], name[GG_HF_NAME];
    peft_half half[2] = { { .t = pair->a }, { .t = pair->b } };
    snprintf(hf, sizeof hf, "%.*s.weight", (int)(pair->len < 480 ? pair->len : 480), pair->module);
    gg_hf_match m = gg_hf_find(p->arch, hf, strlen(hf));
    if (m.part) {
        p->skipped++;
        return GG_OK;
    }
    if (m.mtp && m.block >= 0) m.block += (int64_t)p->trunk;
    if (!m.rule || m.rule->gguf[0] == '-' || (m.block >= 0 && (uint64_t)m.block >= p->blocks))
        return refuse_module(p, pair->b, err);
    bool turned = is_turned(p, pair), fits = true;
    if (turned || rank_of(p, pair) == 0)
        return gg_ck_refuse(p->ck, pair->b, GG_EUNSUPPORTED, "save the adapter again", err,
                            turned ? "the halves of the pair are transposed, or exchanged"
                                   : "the halves of the pair do not fit each other");
    for (const gg_hf_name *r = m.rule; r; r = gg_hf_further(r)) {
        if (!gg_hf_gguf_name(r, &m, name) ||
            !move_pair(p, pair, r->ops, &half[0].move, &half[1].move, &fits))
            return gg_ck_refuse(p->ck, pair->b, GG_EUNSUPPORTED,
                                fits ? "merge the adapter into its base with PEFT"
                                     : "use the model that the adapter was trained for",
                                err,
                                fits ? "adapters of this matrix cannot be converted, because it "
                                       "becomes several transposed ones"
                                     : "the base has this matrix in another shape");
        gg_status st = strength_of(p, pair, rank_of(p, pair), &half[1].times, err);
        if (st == GG_OK) st = add_halves(p, name, m.expert, half, err);
        if (st != GG_OK) return st;
    }
    return GG_OK;
}

/* ---- target_parameters -------------------------------------------------------------------- */

/* Whether a pair for all experts fits them, and its rank. */
static bool experts_fit(const peft *p, const peft_pair *pair, bool inner, uint64_t *rank)
{
    uint64_t experts = gg_arch_number(p->base, "expert_count"),
             embd = gg_arch_number(p->base, "embedding_length");
    const gg_st_tensor *a = pair->a, *b = pair->b;
    if (a->n_dims != 2 || b->n_dims != 2 || experts == 0) return false;
    *rank = a->dims[0] / experts;
    return *rank && a->dims[0] == *rank * experts && b->dims[1] == a->dims[0] &&
           (inner ? a->dims[1] : b->dims[0]) == embd;
}

/* How many parameters of a module target_parameters names, such as MODULE.down_proj. `which` is
 * that of listed.n. */
static size_t count_targets(const peft *p, const char *module, size_t len, int which)
{
    const name_list *l = &p->parameters;
    size_t n = 0;
    for (size_t at = 0; at < len && len < 512; at++) {
        size_t i = at == 0 || module[at - 1] == '.'
                       ? gg_text_find(&l->by_name, l, module + at, len - at)
                       : SIZE_MAX;
        if (i != SIZE_MAX) n += l->items[i].n[which];
    }
    return n;
}

/* Whether the pair is for gate_up_proj: its name has base_layer if there is one for down_proj too.
 * Of a single pair, target_parameters tells, or else its shape. */
static bool is_inner(const peft *p, const peft_pair *pair, bool inner)
{
    char name[640];
    uint64_t embd = gg_arch_number(p->base, "embedding_length");
    snprintf(name, sizeof name, "%.*s.base_layer.lora_A.weight",
             (int)(pair->module + pair->len - pair->a->name), pair->a->name);
    if (inner || gg_ck_stored(p->ck, name)) return inner;
    size_t gate_up = count_targets(p, pair->module, pair->len, 1),
           down = count_targets(p, pair->module, pair->len, 2);
    if (!gate_up != !down) return gate_up > 0;
    return pair->a->dims[1] == embd && pair->b->dims[0] != embd;
}

/* Takes what a pair for all experts has for one matrix: all rows of lora_B, or a half of them. */
static bool move_experts(const peft *p, const peft_pair *pair, uint64_t rank, const char *rows,
                         peft_half half[2])
{
    char a[80], b[120];
    unsigned long long r = rank, n = gg_arch_number(p->base, "expert_count");
    snprintf(a, sizeof a, "cut0:%llu,%llu keep", n, r);
    snprintf(b, sizeof b, "%scut1:%llu,%llu swap0,2 swap1,2 keep", rows, r, n);
    return gg_hf_views(a, &p->sizes, 2, pair->a->dims, &half[0].move) &&
           gg_hf_views(b, &p->sizes, 2, pair->b->dims, &half[1].move);
}

/* A pair for the parameters of all experts at once: lora_A is [experts * r, in], and lora_B
 * [out, r * experts]. The pair of gate_up_proj is in the base_layer of that of down_proj. */
static gg_status add_experts(peft *p, const peft_pair *pair, bool inner, gg_error *err)
{
    static const struct {
        const char *name, *rows;
    } made[] = { { "ffn_gate_exps", "half0:0 " },
                 { "ffn_up_exps", "half0:1 " },
                 { "ffn_down_exps", "" } };
    char hf[512], name[GG_HF_NAME];
    uint64_t rank;
    peft_half half[2] = { { .t = pair->a }, { .t = pair->b } };
    gg_status st = GG_OK;
    inner = is_inner(p, pair, inner);
    snprintf(hf, sizeof hf, "%.*s.%s_proj", (int)(pair->len < 480 ? pair->len : 480), pair->module,
             inner ? "gate_up" : "down");
    gg_hf_match m = gg_hf_find(p->arch, hf, strlen(hf));
    if (!m.rule || m.block < 0 || (uint64_t)m.block >= p->blocks)
        return refuse_module(p, pair->a, err);
    if (!experts_fit(p, pair, inner, &rank))
        return gg_ck_refuse(p->ck, pair->b, GG_EUNSUPPORTED,
                            "use the model that the adapter was trained for", err,
                            "the pair (target_parameters) does not fit the experts of the base");
    for (int i = inner ? 0 : 2; i < (inner ? 2 : 3) && st == GG_OK; i++) {
        if (!move_experts(p, pair, rank, made[i].rows, half)) return refuse_module(p, pair->b, err);
        snprintf(name, sizeof name, "blk.%lld.%s.weight", (long long)m.block, made[i].name);
        st = strength_of(p, pair, rank, &half[1].times, err);
        if (st == GG_OK) st = add_halves(p, name, -1, half, err);
    }
    return st;
}

/* ---- switch_mlp of MLX -------------------------------------------------------------------- */

/* The stack of experts that a module of MLX stands for, or NULL. */
static const char *stack_of_switch(const char *module, size_t len)
{
    static const char *const made[][2] = { { ".switch_mlp.gate_proj", "ffn_gate_exps" },
                                           { ".switch_mlp.up_proj", "ffn_up_exps" },
                                           { ".switch_mlp.down_proj", "ffn_down_exps" } };
    for (int i = 0; i < 3; i++)
        if (gg_text_ends(module, len, made[i][0])) return made[i][1];
    return NULL;
}

/* A pair for all experts: lora_a is [experts, r, in], or [experts * r, in] in older versions, and
 * lora_b [experts, out, r], as in GGUF. */
static gg_status add_switch(peft *p, const peft_pair *pair, const char *stack, gg_error *err)
{
    const gg_st_tensor *a = pair->a, *b = pair->b;
    uint64_t experts = gg_arch_number(p->base, "expert_count"),
             rank = b->n_dims == 3 ? b->dims[2] : 0;
    peft_half half[2] = { { .t = a }, { .t = b } };
    char cut[40], name[GG_HF_NAME];
    gg_hf_match m = gg_hf_find(p->arch, pair->module, pair->len);
    if (m.block < 0 || (uint64_t)m.block >= p->blocks) return refuse_module(p, b, err);
    snprintf(cut, sizeof cut, "cut0:%llu,* keep", (unsigned long long)experts);
    bool fits = experts && rank && b->dims[0] == experts &&
                (a->n_dims == 3 ? a->dims[0] == experts && a->dims[1] == rank
                                : a->n_dims == 2 && a->dims[0] == experts * rank) &&
                gg_hf_views(a->n_dims == 2 ? cut : NULL, &p->sizes, a->n_dims, a->dims,
                            &half[0].move) &&
                gg_hf_views(NULL, &p->sizes, 3, b->dims, &half[1].move);
    if (!fits)
        return gg_ck_refuse(p->ck, b, GG_EUNSUPPORTED,
                            "use the model that the adapter was trained for", err,
                            "the pair (switch_mlp) does not fit the experts of the base");
    snprintf(name, sizeof name, "blk.%lld.%s.weight", (long long)m.block, stack);
    gg_status st = strength_of(p, pair, rank, &half[1].times, err);
    return st == GG_OK ? add_halves(p, name, -1, half, err) : st;
}

static const char *after_prefix(const char *name)
{
    static const char prefix[] = "base_model.model.";
    return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

static const gg_st_tensor *other_half(const peft *p, const gg_st_tensor *t, size_t stem,
                                      const char *end)
{
    char name[640];
    if (stem > 600) return NULL;
    snprintf(name, sizeof name, "%.*s%s", (int)stem, t->name, end);
    return gg_ck_stored(p->ck, name);
}

/* A vector of a norm that was saved whole. */
static gg_status add_norm(peft *p, const gg_st_tensor *t, gg_error *err)
{
    const char *hf = after_prefix(t->name);
    char name[GG_HF_NAME];
    gg_hf_move move;
    gg_hf_match m = gg_hf_find(p->arch, hf, strlen(hf));
    if (!m.rule || m.rule->gguf[0] == '-' || !gg_hf_gguf_name(m.rule, &m, name) ||
        !gg_hf_views(NULL, &p->sizes, t->n_dims, t->dims, &move))
        return refuse_name(p, t, err);
    gg_ck_tensor *made = gg_ck_tensor_named(p->ck, name, strlen(name), err);
    if (!made) return err->status;
    if (made->n_pieces) return refuse_name(p, t, err);
    made->op = gg_hf_is_plus_one(p->arch, hf, strlen(hf)) ? GG_CK_PLUS_ONE : GG_CK_NONE;
    return gg_ck_add_moved(p->ck, made, t, -1, &move, err);
}

/* Whether a name ends so; if it does, *len becomes the length of the rest before it. */
static bool cut_end(const char *name, size_t *len, const char *end)
{
    if (!gg_text_ends(name, *len, end)) return false;
    *len -= strlen(end);
    return true;
}

/* Compares n values of the base's tensor with stored ones. */
static gg_status same_as_base(const peft *p, const gg_st_tensor *t, size_t index, bool *same,
                              gg_error *err)
{
    enum { STEP = 1 << 14 };
    const gg_tensor *of = gg_source_tensor(p->model, index);
    size_t size = gg_st_type_size(t->type), width = gg_dtype_get(of->dtype)->block_bytes;
    uint8_t *raw = malloc((size_t)STEP * 16);
    float *x = malloc(2 * (size_t)STEP * sizeof *x);
    gg_data d;
    gg_status st = raw && x ? gg_ck_check_type(p->ck, t, err) : gg_ck_no_room(err);
    if (st == GG_OK) st = gg_data_open(p->model, index, &d, err);
    if (st != GG_OK) {
        free(raw);
        free(x);
        return st;
    }
    for (uint64_t at = 0; at < t->elements && *same && st == GG_OK; at += STEP) {
        size_t n = t->elements - at < STEP ? (size_t)(t->elements - at) : STEP;
        st = gg_pread_all(p->ck->files[t->file].fd, raw, n * size, t->at + at * size, err);
        if (st == GG_OK) gg_st_decode(t->type, raw, x, n);
        if (st == GG_OK) st = gg_data_read(&d, at * width, raw, n * width, err);
        if (st == GG_OK) st = gg_decode_plain(of->dtype, raw, x + STEP, n, err);
        *same = memcmp(x, x + STEP, n * sizeof *x) == 0;
    }
    gg_data_close(&d);
    free(raw);
    free(x);
    return st;
}

/* The matrix that a pair is for, which PEFT saves with those of the embeddings. It must be that of
 * the base: it was not if the vocabulary was resized, or the matrix was trained. */
static gg_status check_base_layer(peft *p, const gg_st_tensor *t, const char *module, size_t len,
                                  gg_error *err)
{
    char hf[512], name[GG_HF_NAME];
    bool same = true;
    cut_end(module, &len, ".base_layer");
    snprintf(hf, sizeof hf, "%.*s.weight", (int)(len < 480 ? len : 480), module);
    gg_hf_match m = gg_hf_find(p->arch, hf, strlen(hf));
    size_t i = SIZE_MAX;
    if (m.part) {
        p->skipped++;
        return GG_OK;
    }
    if (!m.rule || !gg_hf_gguf_name(m.rule, &m, name)) return refuse_module(p, t, err);
    if (p->model) i = gg_source_find(p->model, name, strlen(name));
    if (!p->model || m.rule->ops ||
        (i != SIZE_MAX && gg_dtype_get(gg_source_tensor(p->model, i)->dtype)->block_elems > 1)) {
        if (p->unlike++ == 0) p->unlike_name = t->name;
        return GG_OK;
    }
    const gg_tensor *of = i == SIZE_MAX ? NULL : gg_source_tensor(p->model, i);
    same = of && t->n_dims == 2 && of->dims[0] == t->dims[1] && of->dims[1] == t->dims[0];
    gg_status st = same ? same_as_base(p, t, i, &same, err) : GG_OK;
    if (st != GG_OK || same) return st;
    return gg_ck_refuse(p->ck, t, GG_EUNSUPPORTED, "merge the adapter into its base with PEFT", err,
                        "this matrix is saved with the adapter, and differs from that of the base: "
                        "it was trained or resized, which GGUF adapters cannot hold");
}

static gg_status add_adapter_tensor(peft *p, const gg_st_tensor *t, gg_error *err)
{
    static const struct {
        const char *end, *other;
        bool second, embedding;
    } halves[] = {
        { ".lora_A.weight", ".lora_B.weight", false, false },
        { ".lora_B.weight", ".lora_A.weight", true, false },
        { ".lora_embedding_A", ".lora_embedding_B", false, true },
        { ".lora_embedding_B", ".lora_embedding_A", true, true },
        { ".lora_a", ".lora_b", false, false },
        { ".lora_b", ".lora_a", true, false },
    };
    size_t stem = t->name_len;
    for (int i = p->mlx ? 4 : 0; i < (p->mlx ? 6 : 4); i++) {
        if (!cut_end(t->name, &stem, halves[i].end)) continue;
        const gg_st_tensor *other = other_half(p, t, stem, halves[i].other);
        if (!other)
            return gg_ck_refuse(p->ck, t, GG_EUNSUPPORTED, "save the adapter again", err,
                                "the other half of this pair is missing");
        if (halves[i].second) return GG_OK;
        const char *module = after_prefix(t->name);
        size_t len = stem - (size_t)(module - t->name);
        bool inner = cut_end(module, &len, ".base_layer"), embedding = halves[i].embedding;
        if (p->mlx && len >= 12 && memcmp(module + len - 12, "embed_tokens", 12) == 0)
            embedding = true;
        peft_pair pair = { t, other, module, len, embedding };
        const char *stack = p->mlx ? stack_of_switch(module, len) : NULL;
        if (stack) return add_switch(p, &pair, stack, err);
        if (gg_text_ends(module, len, ".experts")) return add_experts(p, &pair, inner, err);
        return add_pair(p, &pair, err);
    }
    const char *module = after_prefix(t->name);
    if (cut_end(t->name, &stem, ".base_layer.weight") && stem > (size_t)(module - t->name))
        return check_base_layer(p, t, module, stem - (size_t)(module - t->name), err);
    bool norm = strstr(t->name, "_layernorm") || strstr(t->name, ".norm");
    return norm && t->n_dims == 1 ? add_norm(p, t, err) : leave_whole(p, t, err);
}

/* ---- the base's tensors ------------------------------------------------------------------- */

/* The tensors of the base, whether it was given or is the folder that the adapter names. */
static const gg_tensor *tensor_of_base(const peft *p, const gg_checkpoint *named, const char *name,
                                       size_t len)
{
    const gg_gguf *g = named ? &named->header : NULL;
    size_t i = p->model ? gg_source_find(p->model, name, len)
               : g      ? gg_name_index_find(g->tensors, g->by_name, g->n_tensors, name, len)
                        : SIZE_MAX;
    return i == SIZE_MAX ? NULL : p->model ? gg_source_tensor(p->model, i) : &g->tensors[i];
}

/* Compares lora_a or lora_b, `t`, with the tensor of the base that it is for. */
static gg_status check_half(const peft *p, const gg_tensor *t, const gg_tensor *of,
                            const gg_st_tensor *in, gg_error *err)
{
    bool a = t->name[t->name_len - 1] == 'a',
         embedding = of->name_len == 17 && memcmp(of->name, "token_embd.weight", 17) == 0;
    uint64_t have = a && !embedding ? t->dims[0] : t->dims[1],
             want = a == embedding ? of->dims[1] : of->dims[0];
    if (have == want && (t->n_dims < 3 || t->dims[2] == of->dims[2])) return GG_OK;
    return gg_ck_refuse(
        p->ck, in, GG_EUNSUPPORTED, "use the model that the adapter was trained for", err,
        "it is for a matrix with %llu %s, but that of the base has %llu%s",
        (unsigned long long)have, a == embedding ? "rows" : "columns", (unsigned long long)want,
        have != want && !gg_text_begins(of->name, of->name_len, "blk.")
            ? " (was the vocabulary resized?)"
            : "");
}

/* Compares tensor i of the adapter with the base. */
static gg_status check_tensor(const peft *p, const gg_checkpoint *named, size_t i, gg_error *err)
{
    const gg_tensor *t = &p->ck->header.tensors[i];
    size_t len = t->name_len;
    bool a = gg_text_ends(t->name, len, ".lora_a"), b = gg_text_ends(t->name, len, ".lora_b");
    if (a || b) len -= strlen(".lora_a");
    const gg_tensor *of = tensor_of_base(p, named, t->name, len);
    const gg_st_tensor *in = &p->ck->in.items[p->ck->made[i].pieces[0].in];
    if (of && (a || b)) return check_half(p, t, of, in, err);
    if (of && t->elements != of->elements)
        return gg_ck_refuse(p->ck, in, GG_EUNSUPPORTED,
                            "use the model that the adapter was trained for", err,
                            "it has another length than the norm of the base");
    if (of) return GG_OK;
    if (len != 13 || memcmp(t->name, "output.weight", 13) != 0) return refuse_module(p, in, err);
    return a ? gg_ck_note(
                   p->ck, true, err,
                   "it has a pair for lm_head, but the base has none of its own, because its "
                   "embeddings are tied: engines refuse such an adapter")
             : GG_OK;
}

static gg_status check_against_base(const peft *p, const gg_checkpoint *named, gg_error *err)
{
    gg_status st = GG_OK;
    if (!tensor_of_base(p, named, "token_embd.weight", 17)) return GG_OK; /* only keys are known */
    for (size_t i = 0; i < p->ck->header.n_tensors && st == GG_OK; i++)
        st = check_tensor(p, named, i, err);
    bool pair = gg_ck_has(p->ck, "token_embd.weight.lora_a");
    if (st == GG_OK && pair && !tensor_of_base(p, named, "output.weight", 13))
        st = gg_ck_note(p->ck, true, err,
                        "it has a pair for the embeddings of a base whose embeddings are tied: "
                        "engines abort when they apply it, but it can be folded into the model");
    return st;
}

/* ---- keys ------------------------------------------------------------------------------------ */

void gg_peft_base(const gg_json_node *config, bool mlx, char path[GG_PEFT_BASE])
{
    const char *name = "";
    size_t len = 0;
    gg_error none = GG_ERROR_INIT;
    gg_json_string(gg_json_get(config, mlx ? "model" : "base_model_name_or_path"), &name, &len,
                   &none);
    if (!gg_text_copy(path, GG_PEFT_BASE, name, len)) path[0] = '\0';
}

/* Opens the base that the adapter names, if that is a folder here with its files; takes only its
 * keys if it has no files. A folder that is an adapter itself, perhaps this one, is not followed.
 */
static gg_status open_named_base(const peft *p, const char *folder, gg_checkpoint **out,
                                 gg_meta *meta, gg_error *err)
{
    char path[GG_PEFT_BASE];
    gg_error why = GG_ERROR_INIT;
    gg_json *config = NULL;
    gg_peft_base(p->config, p->mlx, path);
    if (path[0] && gg_hf_has_file(path, GG_HF_CONFIG, err)) {
        const gg_source_options none = { 0 };
        if (gg_hf_form_of(path, false, err) == GG_HF_MODEL &&
            gg_checkpoint_open(path, &none, out, &why) == GG_OK && !(*out)->stored) {
            gg_ck_list_other(p->ck, *out, err);
            return err->status == GG_OK ? gg_meta_copy(meta, &(*out)->header.meta, err)
                                        : err->status;
        }
        gg_checkpoint_close(*out);
        *out = NULL;
        if (gg_is_of_system(&why)) {
            *err = why;
            return err->status;
        }
        gg_status st = gg_ck_list_beside(p->ck, path, err);
        if (st == GG_OK) st = gg_hf_parse(path, GG_HF_CONFIG, &config, err);
        bool by_type;
        const gg_json_node *root = gg_json_root(config);
        const gg_hf_class *class = st == GG_OK ? gg_ck_class(root, &by_type, err) : NULL;
        st = class ? gg_ck_keys(root, class, path, meta, err) : err->status;
        gg_json_free(config);
        return st;
    }
    if (path[0])
        gg_fail(err, GG_EUSAGE,
                "this adapter is for the model '%.100s', which is not a folder here", path);
    else gg_fail(err, GG_EUSAGE, "this adapter does not name its base");
    gg_fix_by(err, "base", "give the base, or work in the folder that contains it");
    return gg_at_file(err, folder);
}

/* The tokens after which an activated LoRA acts. */
static gg_status set_invocation(const peft *p, gg_error *err)
{
    const gg_json_node *list = gg_json_get(p->config, "alora_invocation_tokens"),
                       *t = gg_json_first(list);
    gg_buf tokens = GG_BUF_INIT;
    for (; t && err->status == GG_OK; t = gg_json_next(t)) {
        uint64_t token = 0;
        uint8_t le[4];
        char value[80];
        gg_hf_value_text(t, value);
        if (gg_json_u64(t, &token, NULL) != GG_OK || token > UINT32_MAX)
            gg_fail(err, GG_EFORMAT,
                    "adapter_config.json has %s in alora_invocation_tokens, which is not the "
                    "number of a token",
                    value);
        gg_put_le32(le, (uint32_t)token);
        gg_buf_append(&tokens, le, sizeof le, err);
    }
    if (err->status == GG_OK && tokens.len)
        gg_meta_set_array(&p->ck->header.meta, "adapter.alora.invocation_tokens", GG_TYPE_U32,
                          gg_json_count(list), &tokens, err);
    gg_buf_free(&tokens);
    return err->status;
}

/* Names the base in the keys. Of a path on the machine where the adapter was trained only the last
 * part is taken. */
static gg_status set_base_name(gg_meta *meta, const gg_json_node *config, bool mlx, gg_error *err)
{
    char text[GG_PEFT_BASE];
    gg_peft_base(config, mlx, text);
    size_t len = strlen(text);
    while (len > 1 && text[len - 1] == '/') text[--len] = '\0';
    const char *slash = strrchr(text, '/'),
               *name = strchr("/.~", text[0]) && slash ? slash + 1 : text;
    if (!*name) return GG_OK;
    gg_meta_set_u32(meta, "general.base_model.count", 1, err);
    return gg_meta_set_str(meta, "general.base_model.0.name", name, strlen(name), err);
}

static gg_status set_adapter_keys(const peft *p, const char *folder, gg_error *err)
{
    gg_meta *meta = &p->ck->header.meta;
    const char *name = strrchr(folder, '/');
    name = name && name[1] ? name + 1 : folder;
    gg_meta_set_str(meta, "general.architecture", p->arch, strlen(p->arch), err);
    gg_meta_set_str(meta, "general.type", "adapter", 7, err);
    gg_meta_set_str(meta, "adapter.type", "lora", 4, err);
    if (!gg_meta_find(meta, "general.name")) { /* else the keys of a GGUF adapter are stored */
        gg_meta_set_str(meta, "general.name", name, strlen(name), err);
        set_base_name(meta, p->config, p->mlx, err);
    }
    gg_meta_set_f32(meta, "adapter.lora.alpha", (float)p->alpha, err);
    gg_meta_set_u32(meta, "general.quantization_version", 2, err);
    p->ck->has_keys = true;
    return err->status;
}

/* Whether the values of a pattern are numbers, and ranks are those of matrices. */
static gg_status check_pattern(const gg_json_node *config, const char *name, bool ranks,
                               gg_error *err)
{
    const gg_json_node *m = gg_json_first(gg_json_get(config, name));
    for (; m; m = gg_json_next(m)) {
        char key[120], value[80];
        size_t n;
        double x;
        if (gg_json_type_of(m) == GG_JSON_NUMBER && gg_json_f64(m, &x, NULL) == GG_OK &&
            (!ranks || (x >= 1 && gg_is_whole(x))))
            continue;
        const char *text = gg_json_key(m, &n);
        gg_escape(text, n < 100 ? n : 100, key, sizeof key);
        gg_hf_value_text(m, value);
        return gg_fail(err, GG_EFORMAT, "adapter_config.json has %s of %s = %s, which must be %s",
                       name, key, value, ranks ? "a whole number above 0" : "a number");
    }
    return GG_OK;
}

/* Compares the fields of adapter_config.json with their table. */
static gg_status check_adapter_config(const peft *p, const char *folder, gg_error *err)
{
    gg_fields f = { gg_adapter_fields, p->mlx ? "mlx" : "peft", false, "adapter_config.json" };
    static const struct {
        const char *name;
        gg_json_type type;
    } typed[] = { { "r", GG_JSON_NUMBER },
                  { "lora_alpha", GG_JSON_NUMBER },
                  { "use_rslora", GG_JSON_BOOL },
                  { "rank_pattern", GG_JSON_OBJECT },
                  { "alpha_pattern", GG_JSON_OBJECT },
                  { "alora_invocation_tokens", GG_JSON_ARRAY } };
    gg_status st = p->config ? gg_ck_check_fields(p->ck, &f, p->config, err) : GG_OK;
    for (size_t i = 0; i < sizeof typed / sizeof *typed && p->config && st == GG_OK; i++) {
        const gg_json_node *node = gg_json_get(p->config, typed[i].name);
        char value[80];
        if (!node || gg_json_type_of(node) == GG_JSON_NULL ||
            gg_json_type_of(node) == typed[i].type)
            continue;
        gg_hf_value_text(node, value);
        st = gg_fail(err, GG_EFORMAT, "adapter_config.json has %s = %s, which has the wrong type",
                     typed[i].name, value);
    }
    if (st == GG_OK && !p->mlx) st = check_pattern(p->config, "rank_pattern", true, err);
    if (st == GG_OK && !p->mlx) st = check_pattern(p->config, "alpha_pattern", false, err);
    return st == GG_OK ? GG_OK : gg_at_file(err, folder);
}

/* Adapters of MLX have a scale in place of alpha / r. */
static double alpha_of_mlx(const gg_json_node *config)
{
    const gg_json_node *o = gg_json_get(config, "lora_parameters");
    double rank = adapter_number(o, "rank", 0), alpha = adapter_number(o, "alpha", 0);
    return adapter_number(o, "scale", rank > 0 ? alpha / rank : 0) * rank;
}

static gg_status read_adapter_config(peft *p, const char *folder, const gg_source_options *o,
                                     gg_error *err)
{
    if (check_adapter_config(p, folder, err) != GG_OK) return err->status;
    p->alpha = p->mlx && p->config ? alpha_of_mlx(p->config)
                                   : adapter_number(p->config, "lora_alpha", o->adapter_alpha);
    p->rank = adapter_number(p->mlx ? gg_json_get(p->config, "lora_parameters") : p->config,
                             p->mlx ? "rank" : "r", 0);
    p->rslora = gg_json_is_true(gg_json_get(p->config, "use_rslora"));
    bool ranked = !gg_json_get(p->config, "r") || p->mlx || (p->rank >= 1 && gg_is_whole(p->rank));
    if (ranked && (p->alpha > 0) && (p->alpha < 1e30)) return GG_OK;
    gg_fail(err, GG_EUSAGE, "the %s of this adapter is not known, or no %snumber above 0",
            p->mlx    ? "rank or scale (lora_parameters)"
            : !ranked ? "rank (r)"
                      : "lora_alpha",
            ranked ? "" : "whole ");
    gg_fix(err, p->config ? "correct adapter_config.json"
                          : "give its folder with adapter_config.json, or the alpha");
    return gg_at_file(err, folder);
}

static gg_status base_of_adapter(peft *p, gg_error *err)
{
    if (!gg_hf_arch(p->base, p->arch))
        return gg_fail(err, GG_EUNSUPPORTED,
                       "adapters in safetensors for the architecture '%s' are not covered",
                       p->arch);
    p->sizes = gg_hf_sizes_of(p->base);
    p->sizes.vocab = UINT64_MAX;
    p->blocks = p->trunk = gg_arch_number(p->base, "block_count");
    uint64_t mtp = gg_arch_number(p->base, "nextn_predict_layers");
    if (mtp < p->trunk) p->trunk -= mtp;
    return GG_OK;
}

static gg_status check_expert_count(const peft *p, gg_error *err)
{
    uint64_t experts = gg_arch_number(p->base, "expert_count");
    for (size_t i = 0; i < p->ck->header.n_tensors; i++) {
        const gg_ck_tensor *t = &p->ck->made[i];
        const gg_st_tensor *in = &p->ck->in.items[t->pieces[0].in];
        if (t->pieces[0].expert >= 0 && t->n_pieces != experts)
            return gg_ck_refuse(
                p->ck, in, GG_EUNSUPPORTED, "train all experts, or merge with PEFT", err,
                "only %zu of the base's %llu experts have an adapter for this matrix", t->n_pieces,
                (unsigned long long)experts);
    }
    return GG_OK;
}

/* Adapters for image models have other names, and no base that is a language model. */
static gg_status check_names(peft *p, gg_error *err)
{
    for (size_t i = 0; i < p->ck->in.n; i++) {
        const gg_st_tensor *t = &p->ck->in.items[i];
        if (gg_text_ends(t->name, t->name_len, ".lora_down.weight") ||
            gg_text_ends(t->name, t->name_len, ".lora.down.weight") ||
            strncmp(t->name, "lora_unet_", 10) == 0 || strncmp(t->name, "lora_te", 7) == 0 ||
            strncmp(t->name, "unet.", 5) == 0 || strncmp(t->name, "transformer.", 12) == 0)
            return gg_ck_refuse(p->ck, t, GG_EUNSUPPORTED,
                                "use it as it is: GGUF adapters are for language models", err,
                                "this is an adapter for an image model");
        if (gg_text_ends(t->name, t->name_len, ".lora_a")) p->mlx = true;
    }
    return GG_OK;
}

/* The module of a pair's tensor, and the length of its name; NULL if `t` is none. */
static const char *module_of(const gg_st_tensor *t, const char *half, size_t *len)
{
    const char *module = after_prefix(t->name), *end = strstr(module, half);
    *len = end ? (size_t)(end - module) : 0;
    return end ? module : NULL;
}

/* How many names there are, and the first of them, escaped. */
typedef struct name_count {
    size_t n;
    char first[200];
} name_count;

static void count_name(name_count *c, const char *name, size_t len)
{
    if (c->n++ == 0) gg_escape(name, len < 60 ? len : 60, c->first, sizeof c->first);
}

/* Notes keys of a pattern that no pair has. */
static gg_status note_unused(const peft *p, name_list *l, const char *name, gg_error *err)
{
    name_count unused = { 0 };
    size_t len;
    for (size_t i = 0; i < p->ck->in.n && l->n; i++) {
        const char *module = module_of(&p->ck->in.items[i], ".lora_", &len);
        if (module) cut_end(module, &len, ".base_layer");
        if (module) find_module(l, module, len, 1);
    }
    for (size_t i = 0; i < l->n; i++) {
        const char *key = written_name(l->items[i].node, &len);
        if (!l->items[l->items[i].first].found) count_name(&unused, key, len);
    }
    if (unused.n == 0) return GG_OK;
    return gg_ck_note(p->ck, true, err, "%s has %zu name%s that no pair has: %s%s", name, unused.n,
                      unused.n == 1 ? "" : "s", unused.first, unused.n == 1 ? "" : " ...");
}

/* Marks the names that a stored tensor has in its own, between dots. */
static void mark_parts(const peft *p, name_list *l)
{
    for (size_t i = 0; i < p->ck->in.n && l->n; i++) {
        const char *at = after_prefix(p->ck->in.items[i].name);
        if (strlen(at) >= 256) continue; /* no matrix has such a name */
        for (; at; at = (at = strchr(at, '.')) ? at + 1 : NULL)
            for (const char *end = at; (end = strchr(end, '.')); end++)
                find_name(l, at, (size_t)(end - at), 1);
    }
}

/* Notes modules of a list for which the adapter has no tensor: a part of it may be lost. */
static gg_status note_lacking(const peft *p, name_list *l, const char *list, gg_error *err)
{
    size_t len, written;
    char more[40] = "";
    name_count lacking = { 0 };
    mark_parts(p, l);
    for (size_t i = 0; i < l->n; i++) {
        const char *module = written_name(l->items[i].node, &written);
        name_at(l, i, &len);
        if (gg_json_type_of(l->items[i].node) == GG_JSON_STRING &&
            !(l->items[l->items[i].first].found && len == written))
            count_name(&lacking, module, written);
    }
    if (lacking.n == 0) return GG_OK;
    if (lacking.n > 1) snprintf(more, sizeof more, " and %zu more", lacking.n - 1);
    return gg_ck_note(p->ck, false, err, "%s names %s%s, for which the adapter has no tensors",
                      list, lacking.first, more);
}

/* Notes parameters of target_parameters for which the adapter has no pair. */
static gg_status note_targets(peft *p, gg_error *err)
{
    name_list *l = &p->parameters;
    name_count lacking = { 0 }, shared = { 0 };
    size_t len, n;
    for (size_t i = 0; i < p->ck->in.n && l->n; i++) {
        const char *module = module_of(&p->ck->in.items[i], ".lora_A.", &len);
        bool of_base = module && cut_end(module, &len, ".base_layer");
        if (module) find_module(l, module, len, of_base ? 2 : 1);
    }
    for (size_t i = 0; i < l->n; i++) {
        const uint8_t found = l->items[l->items[i].first].found;
        const char *text = written_name(l->items[i].node, &len);
        if (gg_json_type_of(l->items[i].node) != GG_JSON_STRING) continue;
        name_at(l, i, &n);
        if (found == 0) count_name(&lacking, text, len);
        if ((found == 1 || found == 2) && shared.n == 0 && count_targets(p, text, n, 0) > 1)
            count_name(&shared, text, len);
    }
    if (lacking.n)
        gg_ck_note(p->ck, true, err,
                   "target_parameters names %s%s, for which the adapter has no tensors",
                   lacking.first, lacking.n > 1 ? " and others" : "");
    if (shared.n && err->status == GG_OK)
        gg_ck_note(p->ck, true, err,
                   "target_parameters names %s and another, but the adapter has one pair for them",
                   shared.first);
    return err->status;
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Whether PEFT would use the pair: target_modules, exclude_modules and layers_to_transform decide.
 */
static bool is_targeted(peft *p, const char *module, size_t len)
{
    double block = (double)gg_hf_find(p->arch, module, len).block; /* the number after "layers." */
    if (p->targets.n && find_module(&p->targets, module, len, 1) == SIZE_MAX) return false;
    if (find_module(&p->excluded, module, len, 1) != SIZE_MAX) return false;
    return !p->layers || bsearch(&block, p->layers, p->n_layers, sizeof block, by_number) != NULL;
}

/* Notes pairs that PEFT leaves out because the configuration does not name their modules. */
static gg_status note_untargeted(peft *p, gg_error *err)
{
    name_count unused = { 0 };
    for (size_t i = 0; i < p->ck->in.n; i++) {
        size_t len;
        const char *module = module_of(p->ck->by_name[i], ".lora_A", &len);
        if (!module) module = module_of(p->ck->by_name[i], ".lora_embedding_A", &len);
        if (!module || cut_end(module, &len, ".base_layer") ||
            gg_text_ends(module, len, ".experts") || count_targets(p, module, len, 0) ||
            is_targeted(p, module, len))
            continue;
        count_name(&unused, module, len);
    }
    if (unused.n == 0) return GG_OK;
    return gg_ck_note(p->ck, true, err,
                      "target_modules, exclude_modules or layers_to_transform leave out %zu pair%s "
                      "that the adapter has, which PEFT does not use: %s%s",
                      unused.n, unused.n == 1 ? "" : "s", unused.first,
                      unused.n == 1 ? "" : " ...");
}

/* Notes matrices of pairs that were not compared. */
static gg_status note_unlike(const peft *p, gg_error *err)
{
    if (p->unlike == 1)
        return gg_ck_note(p->ck, true, err,
                          "%s is saved with the adapter; it was not compared with the base, and is "
                          "left out",
                          p->unlike_name);
    return gg_ck_note(p->ck, true, err,
                      "%s and %zu more are saved with the adapter; they were not compared with the "
                      "base, and are left out",
                      p->unlike_name, p->unlike - 1);
}

/* Names what is left out, or has changed. */
static gg_status note_changes(peft *p, gg_error *err)
{
    gg_status st = GG_OK;
    if (p->unlike) st = note_unlike(p, err);
    if (p->odd && st == GG_OK)
        st = gg_ck_note(p->ck, true, err,
                        p->mlx ? "%s (%zu pair%s of another rank): MLX scales all ranks alike, "
                                 "which is folded into lora_b"
                               : "%s (%zu pair%s of another rank): engines divide alpha by the "
                                 "rank of the tensors, and PEFT by that of the configuration",
                        p->odd_rank, p->odd, p->odd == 1 ? "" : "s");
    if (st == GG_OK && p->folded && !p->mlx)
        st = gg_ck_note(p->ck, false, err,
                        "alpha_pattern or rslora gives its pairs other strengths than lora_alpha / "
                        "r; these are folded into lora_b");
    if (st == GG_OK && p->skipped)
        st = gg_ck_note(p->ck, false, err,
                        "%zu pairs of other parts than the language model are left out",
                        p->skipped);
    if (st == GG_OK && p->whole)
        st = gg_ck_note(p->ck, false, err, "%zu whole matrices are left out", p->whole);
    if (st == GG_OK && !p->mlx) st = note_unused(p, &p->ranks, "rank_pattern", err);
    if (st == GG_OK && !p->mlx) st = note_unused(p, &p->alphas, "alpha_pattern", err);
    if (st == GG_OK && !p->mlx) st = note_lacking(p, &p->targets, "target_modules", err);
    if (st == GG_OK && !p->mlx) st = note_lacking(p, &p->saved, "modules_to_save", err);
    if (st == GG_OK && !p->mlx) st = note_targets(p, err);
    if (st == GG_OK && !p->mlx) st = note_untargeted(p, err);
    return st;
}

/* Reads the fields of the configuration that name modules, parameters and layers. */
static gg_status read_lists(peft *p, gg_error *err)
{
    const gg_json_node *c = p->config, *layers = gg_json_get(c, "layers_to_transform"),
                       *m = gg_json_type_of(layers) == GG_JSON_NUMBER ? layers
                                                                      : gg_json_first(layers);
    p->parameters.parameters = true;
    read_names(&p->alphas, c, "alpha_pattern", GG_JSON_OBJECT, err);
    read_names(&p->ranks, c, "rank_pattern", GG_JSON_OBJECT, err);
    read_names(&p->targets, c, "target_modules", GG_JSON_ARRAY, err);
    read_names(&p->excluded, c, "exclude_modules", GG_JSON_ARRAY, err);
    read_names(&p->saved, c, "modules_to_save", GG_JSON_ARRAY, err);
    read_names(&p->parameters, c, "target_parameters", GG_JSON_ARRAY, err);
    if (err->status != GG_OK || !m) return err->status;
    p->layers = calloc(gg_json_count(layers) + 1, sizeof *p->layers);
    if (!p->layers) return gg_ck_no_room(err);
    for (; m; m = m == layers ? NULL : gg_json_next(m))
        p->n_layers += gg_json_f64(m, &p->layers[p->n_layers], NULL) == GG_OK;
    qsort(p->layers, p->n_layers, sizeof *p->layers, by_number);
    return GG_OK;
}

gg_status gg_peft_open(gg_checkpoint *ck, const char *folder, const gg_json_node *config,
                       const gg_source_options *o, gg_error *err)
{
    gg_meta meta = GG_META_INIT;
    gg_checkpoint *named = NULL;
    peft p = { .ck = ck,
               .config = config,
               .model = o->adapter_base,
               .mlx = ck->form == GG_HF_MLX,
               .pairs_only = o->pairs_only };
    if (p.model) p.base = gg_source_meta(p.model);
    gg_status st = check_names(&p, err);
    if (st == GG_OK) st = read_adapter_config(&p, folder, o, err);
    if (st == GG_OK) st = read_lists(&p, err);
    if (st == GG_OK && !p.base) {
        p.base = &meta;
        st = open_named_base(&p, folder, &named, &meta, err);
    }
    if (st == GG_OK) st = base_of_adapter(&p, err);
    for (size_t i = 0; i < ck->in.n && st == GG_OK; i++)
        st = add_adapter_tensor(&p, ck->by_name[i], err);
    gg_ck_drop_empty(ck);
    if (st == GG_OK && ck->header.n_tensors == 0)
        st = gg_fail(err, GG_EFORMAT, "the adapter has no pairs for the base");
    if (st == GG_OK) st = check_expert_count(&p, err);
    if (st == GG_OK) st = set_adapter_keys(&p, folder, err);
    if (st == GG_OK) st = set_invocation(&p, err);
    if (st == GG_OK) st = note_changes(&p, err);
    if (st == GG_OK) st = gg_ck_finish(ck, false, err);
    if (st == GG_OK) st = check_against_base(&p, named, err);
    gg_checkpoint_close(named);
    gg_meta_free(&meta);
    name_list *lists[] = { &p.alphas, &p.ranks, &p.targets, &p.excluded, &p.saved, &p.parameters };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free_names(lists[i]);
    free(p.layers);
    return st;
}

gg_status gg_peft_stored_keys(gg_checkpoint *ck, const gg_json_node *config, gg_error *err)
{
    gg_meta *meta = &ck->header.meta;
    bool mlx = ck->form == GG_HF_MLX;
    const char *type = "lora";
    size_t len = 4;
    char text[1024], key[200];
    gg_status st = gg_meta_set_str(meta, "general.type", "adapter", 7, err);
    if (!config) return st;
    gg_json_string(gg_json_get(config, mlx ? "fine_tune_type" : "peft_type"), &type, &len, NULL);
    for (size_t i = 0; i < len && i < sizeof text; i++)
        text[i] = (char)tolower((unsigned char)type[i]);
    if (st == GG_OK) st = gg_meta_set_str(meta, "adapter.type", text, len < 1024 ? len : 1024, err);
    double alpha = mlx ? alpha_of_mlx(config) : adapter_number(config, "lora_alpha", 0);
    if (st == GG_OK && alpha > 0)
        st = gg_meta_set_f32(meta, "adapter.lora.alpha", (float)alpha, err);
    if (st == GG_OK) st = set_base_name(meta, config, mlx, err);
    for (const gg_json_node *m = gg_json_first(config); m && st == GG_OK; m = gg_json_next(m)) {
        gg_buf json = GG_BUF_INIT;
        gg_json_out out = gg_json_to_buf(&json);
        const char *name = gg_json_key(m, &len);
        if (gg_json_type_of(m) == GG_JSON_NULL || len > 100) continue;
        snprintf(key, sizeof key, "adapter_config.%.*s", (int)len, name);
        st = gg_json_put_node(&out, m, err);
        if (st == GG_OK) st = gg_meta_set_str(meta, key, json.data, json.len, err);
        gg_buf_free(&json);
    }
    return st;
}
