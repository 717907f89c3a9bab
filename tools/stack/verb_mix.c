/* verb_mix.c - makes a mixture of experts of dense models: the feed-forward layers of a block
 * become the experts of stacks, and a router chooses among them. */
#include "verb_mix.h"

#include "arch/design.h"
#include "base/error.h"
#include "base/text.h"
#include "compute/compute.h"
#include "compute/samples.h"
#include "gguf/gguf.h"
#include "kin/gg_compare_model.h"
#include "numeric/arc.h"
#include "numeric/numeric.h"
#include "organ/record.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"
#include "write/history.h"
#include "write/key_compat.h"
#include "write/plan.h"
#include "write/verb_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPREAD 0.02f /* standard deviation of a random router */
#define SHARED 32    /* units of a shared expert that does nothing */

/* Which architecture a mixture of dense models has. */
typedef struct mix_arch {
    const char *dense;
    char mixture[64];
    bool shared;  /* engines require a shared expert */
    bool partial; /* the weights of the experts in use add to 1, though not all are in use */
} mix_arch;

static const char *const roles[] = { "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight" };

typedef struct mixer {
    const gg_expert_mix *m;
    const gg_run *run;
    mix_arch arch; /* dense is NULL if there are no such mixtures */
    uint64_t used, embd, units;
    gg_plan plan;
    gg_computations made;
    gg_stack_report *report;
    gg_error *err;
} mixer;

/* ---- the models ---------------------------------------------------------------------------- */

static bool can_mix(const gg_arch *a)
{
    return a->mixture.text[0] != '\0';
}

/* The architectures of which mixtures can be made: "a, b and c". */
static void list_dense(char *out, size_t size)
{
    size_t used = 0, left = 0;
    for (const gg_arch *a = gg_arch_all(); a->name; a++) left += can_mix(a);
    for (const gg_arch *a = gg_arch_all(); a->name && used < size; a++)
        if (can_mix(a))
            used += (size_t)snprintf(out + used, size - used, "%s%s", a->name,
                                     --left > 1 ? ", "
                                     : left     ? " and "
                                                : "");
}

static gg_status find_arch(mixer *x)
{
    char list[160] = "";
    const gg_meta *meta = gg_source_meta(x->m->base);
    const gg_arch *a = gg_arch_of(meta);
    const char *words = a ? a->mixture.text : "", *word;
    size_t len;
    if (gg_text_next_word(&words, &word, &len)) {
        x->arch.dense = a->name;
        snprintf(x->arch.mixture, sizeof x->arch.mixture, "%.*s", (int)len, word);
        x->arch.shared = gg_text_has_word(words, "shared", 6);
        x->arch.partial = gg_text_has_word(words, "partial", 7);
    }
    if (!x->arch.dense) {
        list_dense(list, sizeof list);
        gg_fail(x->err, GG_EUNSUPPORTED,
                "mixtures can be made of dense models of the architectures %s", list);
    } else if (gg_arch_number(meta, "expert_count"))
        gg_fail(x->err, GG_NO, "it is a mixture of experts already");
    else return GG_OK;
    return gg_at_file(x->err, gg_source_name(x->m->base));
}

/* The number of the role if the tensor is a matrix of a feed-forward layer; 3 for others. */
static size_t role_of(const gg_tensor *t)
{
    size_t k = 0;
    if (t->a.block < 0 || t->n_dims != 2 || !gg_text_begins(t->name, t->name_len, "blk.")) return 3;
    while (k < 3 && !gg_text_is(t->name + t->a.role_at, t->name_len - t->a.role_at, roles[k])) k++;
    return k;
}

/* The counterpart of a matrix of the base in an expert. */
static gg_status find_twin(const mixer *x, const gg_tensor *t, size_t expert, size_t *index)
{
    const gg_source *s = x->m->experts[expert];
    *index = gg_source_find(s, t->name, t->name_len);
    const gg_tensor *d = *index == SIZE_MAX ? NULL : gg_source_tensor(s, *index);
    if (!d) gg_fail(x->err, GG_NO, "the model lacks this tensor of the base");
    else if (!gg_same_dims(t, d)) gg_fail(x->err, GG_NO, "its dims are not those of the base");
    else return GG_OK;
    gg_at_tensor(x->err, t->name, t->name_len);
    return gg_at_file(x->err, gg_source_name(s));
}

/* The feed-forward layers of an expert work with the keys of the base, but not with its heads. */
static void note_key(void *ctx, gg_conflict kind, const char *line)
{
    if (kind == GG_CONFLICT_VALUES) gg_note(ctx, "%s; the mixture has that of the base", line);
}

/* Experts must have the architecture of the base. Notes other keys and those of another lineage. */
static gg_status check_expert(const mixer *x, size_t i, const gg_run *run)
{
    gg_source *s = x->m->experts[i];
    const gg_meta *meta = gg_source_meta(s);
    gg_lineage l;
    gg_compare_options o = { .sample = 32 };
    gg_run quiet = { .threads = run->threads };
    for (size_t k = 0; k < i; k++)
        if (x->m->experts[k] == s) return GG_OK;
    gg_status st = gg_require_model(s, x->err);
    if (st == GG_OK) st = gg_require_whole(s, run, x->err);
    if (st != GG_OK || s == x->m->base) return st;
    if (!gg_meta_text_is(meta, "general.architecture", x->arch.dense) ||
        gg_arch_number(meta, "expert_count"))
        return gg_fail_in(x->err, GG_NO, s, NULL,
                          "it is not a dense model of the architecture %s, as the base is",
                          x->arch.dense);
    if (!run->note) return GG_OK;
    gg_run named = *run;
    gg_key_conflicts(gg_source_meta(x->m->base), meta, GG_COMPAT_BLOCKS, note_key, &named);
    st = gg_lineage_of(x->m->base, s, &o, &quiet, &l, x->err);
    if (st == GG_OK && (l.verdict == GG_LINEAGE_STRANGERS || l.verdict == GG_LINEAGE_UNDECIDABLE))
        gg_note(run, "%s shares no lineage with the base: as an expert it will be noise",
                gg_source_name(s));
    return st;
}

static gg_status check_models(mixer *x, const gg_run *run)
{
    const gg_expert_mix *m = x->m;
    gg_status st = gg_require_model(m->base, x->err);
    if (st == GG_OK) st = gg_require_whole(m->base, run, x->err);
    if (st == GG_OK) st = find_arch(x);
    if (st != GG_OK) return st;
    if (m->n < 2 || m->n > GG_EXPERTS_MAX)
        return gg_fail(x->err, GG_EUSAGE, "a mixture has 2 to %d experts, not %zu", GG_EXPERTS_MAX,
                       m->n);
    x->used = m->used ? m->used : x->arch.partial ? 2 : m->n;
    if (x->used > m->n)
        return gg_fail(x->err, GG_EUSAGE, "%llu of %zu experts cannot be used at once",
                       (unsigned long long)x->used, m->n);
    if (x->used < m->n && !x->arch.partial)
        gg_note(run,
                "engines do not scale the weights of the experts in use to 1 for %s, so the output "
                "of its feed-forward layers will be too small",
                x->arch.mixture);
    for (size_t i = 0; i < m->n && st == GG_OK; i++) st = check_expert(x, i, run);
    return st;
}

/* ---- the router ----------------------------------------------------------------------------- */

typedef struct router_ctx {
    gg_computation base; /* first: see compute.h; without inputs */
    const gg_expert_mix *m;
    uint64_t embd, key, rows;
    size_t *samples; /* the tensor with the inputs of the block in each file; NULL = random rows */
} router_ctx;

/* Called for each input in the sample of an expert. */
typedef void (*each_input)(const router_ctx *c, size_t expert, const float *x, double *sums);

static gg_status read_inputs(const router_ctx *c, size_t expert, each_input each, double *sums,
                             gg_error *err)
{
    const gg_samples s = { c->m->router[expert], c->samples[expert], 0 };
    float *x = NULL;
    size_t rows = 0;
    gg_status st = gg_samples_read(&s, &x, &rows, err);
    for (size_t r = 0; r < rows && st == GG_OK; r++) each(c, expert, x + r * c->embd, sums);
    free(x);
    return st;
}

/* Sums per expert: of the inputs, and behind them the number of inputs. */
static void add_input(const router_ctx *c, size_t expert, const float *x, double *sums)
{
    double *to = sums + expert * (c->embd + 1);
    for (uint64_t i = 0; i < c->embd; i++) to[i] += (double)x[i];
    to[c->embd]++;
}

/* Adds the squares of all logits of an input behind the last sum. */
static void add_logits(const router_ctx *c, size_t expert, const float *x, double *sums)
{
    double *total = sums + c->m->n * (c->embd + 1);
    (void)expert;
    for (size_t e = 0; e < c->m->n; e++) {
        double logit = 0;
        for (uint64_t i = 0; i < c->embd; i++) logit += sums[e * (c->embd + 1) + i] * (double)x[i];
        total[0] += logit * logit;
        total[1]++;
    }
}

/* The row of an expert is the mean of the inputs on its text, minus the mean over all experts.
 * All rows are scaled by one factor, so that the logits on these inputs have a mean square of 1. */
static gg_status mean_rows(const router_ctx *c, float *rows, gg_error *err)
{
    size_t n = c->m->n, step = (size_t)c->embd + 1;
    double *sums = calloc(n * step + 2, sizeof *sums), *total = sums ? sums + n * step : NULL;
    gg_status st = sums ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the router");
    for (size_t e = 0; e < n && st == GG_OK; e++) st = read_inputs(c, e, add_input, sums, err);
    for (size_t i = 0; i < c->embd && st == GG_OK; i++) {
        double mean = 0;
        for (size_t e = 0; e < n; e++) {
            double count = sums[e * step + c->embd];
            sums[e * step + i] /= count > 0 ? count : 1;
            mean += sums[e * step + i] / (double)n;
        }
        for (size_t e = 0; e < n; e++) sums[e * step + i] -= mean;
    }
    for (size_t e = 0; e < n && st == GG_OK; e++) st = read_inputs(c, e, add_logits, sums, err);
    if (st == GG_OK && !(total[0] > 0 && isfinite(total[0]))) {
        st = gg_fail(
            err, GG_NO,
            "the inputs on the texts of all experts are the same, or not finite, so that a "
            "router cannot tell them apart");
    }
    for (size_t i = 0; i < n * (size_t)c->embd && st == GG_OK; i++)
        rows[i] = (float)(sums[i / (size_t)c->embd * step + i % (size_t)c->embd] *
                          sqrt(total[1] / total[0]));
    free(sums);
    return st;
}

/* Writes the bytes of a whole tensor. */
static gg_status put_all(const gg_target *to, const void *bytes, gg_error *err)
{
    gg_status st = gg_put_all(to->fd, bytes, (size_t)to->t->bytes, to->at, err);
    if (st == GG_OK && to->hash) gg_sha256_update(to->hash, bytes, (size_t)to->t->bytes);
    return st;
}

static gg_status make_router(void *ctx, const gg_target *to, gg_error *err)
{
    const router_ctx *c = ctx;
    size_t n = (size_t)(c->rows * c->embd);
    float *rows = malloc(n * sizeof *rows);
    gg_status st = rows ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the router");
    if (st == GG_OK && c->samples) st = mean_rows(c, rows, err);
    if (st == GG_OK && !c->samples) {
        gg_gauss_fill(rows, n, c->key);
        for (size_t i = 0; i < n; i++) rows[i] *= SPREAD;
    }
    if (st == GG_OK) st = put_all(to, rows, err);
    free(rows);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, to->t->name, to->t->name_len);
}

/* Finds the inputs of the block's feed-forward layer in the files of activations. */
static gg_status find_samples(const mixer *x, router_ctx *c, int64_t block)
{
    static const char *const names[] = { "ffn_gate", "ffn_up" };
    for (size_t e = 0; e < x->m->n; e++) {
        const gg_source *s = x->m->router[e];
        size_t at = SIZE_MAX;
        char name[64];
        for (int k = 0; k < 2 && at == SIZE_MAX; k++) {
            int len = snprintf(name, sizeof name, "blk.%lld.%s.weight.sample", (long long)block,
                               names[k]);
            at = gg_source_find(s, name, (size_t)len);
        }
        const gg_tensor *t = at == SIZE_MAX ? NULL : gg_source_tensor(s, at);
        c->samples[e] = at;
        if (t && t->dims[0] == x->embd && t->elements > 0 && gg_can_decode(t->dtype)) continue;
        gg_fail_in(x->err, GG_NO, s, NULL,
                   "it has no inputs of the feed-forward layer of block %lld", (long long)block);
        return gg_fix(x->err, "write it with organ-probe for the base");
    }
    return GG_OK;
}

/* Rows of a router, random unless they get samples, for which there is room. */
static router_ctx *new_rows(mixer *x, const gg_tensor *t, uint64_t rows)
{
    router_ctx *c = gg_compute_new(&x->made, sizeof *c + (size_t)rows * sizeof *c->samples, x->err);
    if (!c) return NULL;
    c->m = x->m;
    c->embd = x->embd;
    c->rows = rows;
    c->key = gg_random_key(x->m->seed, t->name, t->name_len, 0);
    return c;
}

static gg_status add_router(mixer *x, int64_t block)
{
    char name[64];
    gg_tensor t = {
        .name = name, .dtype = GG_F32, .n_dims = 2, .dims = { x->embd, x->m->n, 1, 1 }
    };
    t.name_len = (size_t)snprintf(name, sizeof name, "blk.%lld.ffn_gate_inp.weight",
                                  (long long)block);
    router_ctx *c = new_rows(x, &t, x->m->n);
    if (!c) return GG_ENOMEM;
    c->samples = x->m->router ? (size_t *)(c + 1) : NULL;
    gg_status st = c->samples ? find_samples(x, c, block) : GG_OK;
    return st == GG_OK ? gg_plan_add_made(&x->plan, &t, make_router, c, x->err) : st;
}

/* ---- the stacks ---------------------------------------------------------------------------- */

typedef struct noise_ctx {
    gg_computation base;
    const gg_expert_mix *m;
    uint64_t of_expert, key; /* values per expert */
} noise_ctx;

/* Whether an earlier expert is the same model. */
static bool is_copy(const gg_expert_mix *m, size_t expert)
{
    for (size_t i = 0; i < expert; i++)
        if (m->experts[i] == m->experts[expert]) return true;
    return false;
}

/* Multiplies values of copies by 1 + noise. The sum of four uniform numbers is close to normal. */
static gg_status mix_noise(void *state, uint64_t first, size_t n, float *const *x, gg_error *err)
{
    const noise_ctx *c = state;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = first + i, bits = gg_random_bits(c->key, at);
        /* not 0: a value of the stack is computed */
        if (!is_copy(c->m, (size_t)(at / c->of_expert))) {
            i += (size_t)(c->of_expert - at % c->of_expert) - 1;
            continue;
        }
        double sum = 0;
        for (int k = 0; k < 4; k++) sum += ((double)(bits >> 16 * k & 0xffff) + 0.5) / 65536 - 0.5;
        x[0][i] *= (float)(1 + c->m->noise * 1.7320508075688772 * sum);
    }
    return GG_OK;
}

static gg_status make_noise(void *ctx, const gg_target *to, gg_error *err)
{
    return gg_compute_all(ctx, mix_noise, ctx, to, err);
}

/* Computes the stack with noise in its copies, in place of copying its parts. */
static gg_status add_noise(mixer *x, gg_plan_tensor *pt, uint64_t of_expert)
{
    gg_input in = { pt->t.dtype, pt->parts, pt->n_parts };
    noise_ctx *c = gg_compute_new(&x->made, sizeof *c, x->err);
    if (!c) return GG_ENOMEM;
    c->m = x->m;
    c->of_expert = of_expert;
    c->key = gg_random_key(x->m->seed, pt->t.name, pt->t.name_len, 1);
    gg_status st = gg_compute_check_decode(&pt->t, &in, x->err);
    if (st == GG_OK) st = gg_compute_check_output(&pt->t, NULL, x->err);
    if (st == GG_OK) st = gg_compute_input(&c->base, &in, x->err);
    gg_plan_compute(pt, make_noise, c);
    return st;
}

/* Joins a matrix of all experts, which must have one type. */
static gg_status add_stack(mixer *x, const gg_tensor *t, const gg_anatomy *a, size_t role)
{
    char name[GG_RECORD_NAME + 8];
    gg_tensor stack = *t;
    gg_plan_tensor *pt;
    size_t index, copies = 0;
    gg_status st = find_twin(x, t, 0, &index);
    if (st != GG_OK) return st;
    stack.name = name;
    stack.name_len = (size_t)snprintf(name, sizeof name, "blk.%lld.%.*s_exps.weight",
                                      (long long)a->block, (int)strlen(roles[role]) - 7,
                                      roles[role]);
    stack.n_dims = 3;
    stack.dims[2] = x->m->n;
    stack.dtype = gg_source_tensor(x->m->experts[0], index)->dtype;
    st = gg_tensor_extent(stack.dtype, 3, stack.dims, &stack.elements, &stack.bytes, x->err);
    if (st == GG_OK) st = gg_plan_add(&x->plan, &stack, &pt, x->err);
    for (size_t e = 0; e < x->m->n && st == GG_OK; e++) {
        st = find_twin(x, t, e, &index);
        if (st != GG_OK) break;
        const gg_tensor *d = gg_source_tensor(x->m->experts[e], index);
        gg_plan_part part = gg_plan_whole(x->m->experts[e], index);
        if (d->dtype == stack.dtype) st = gg_plan_add_part(pt, &part, x->err);
        else {
            gg_fail_in(x->err, GG_NO, x->m->experts[e], t,
                       "its type is %s, but that of the first expert is %s",
                       gg_dtype_name(d->dtype), gg_dtype_name(stack.dtype));
            return gg_fix(x->err, "give all experts the same types: organ-assemble, like:MODEL");
        }
        copies += is_copy(x->m, e);
    }
    if (st != GG_OK || !(x->m->noise > 0) || copies == 0) return st;
    return add_noise(x, pt, t->elements);
}

/* ---- the shared expert that some engines require ----------------------------------------------
 */

static gg_status make_zeros(void *ctx, const gg_target *to, gg_error *err)
{
    void *zeros = calloc(1, (size_t)to->t->bytes + 1);
    (void)ctx;
    gg_status st = zeros ? put_all(to, zeros, err) : gg_fail(err, GG_ENOMEM, "no memory for zeros");
    free(zeros);
    return st;
}

/* Adds a shared expert whose output is 0. Its own router is not 0, because engines divide by its
 * product with the input. */
static gg_status add_shared(mixer *x, int64_t block)
{
    const struct {
        const char *role;
        uint32_t dtype, n_dims;
        uint64_t dims[GG_MAX_DIMS];
    } list[] = { { "ffn_gate_inp_shexp", GG_F32, 1, { x->embd, 1, 1, 1 } },
                 { "ffn_gate_shexp", GG_F16, 2, { x->embd, SHARED, 1, 1 } },
                 { "ffn_up_shexp", GG_F16, 2, { x->embd, SHARED, 1, 1 } },
                 { "ffn_down_shexp", GG_F16, 2, { SHARED, x->embd, 1, 1 } } };
    gg_status st = GG_OK;
    for (size_t i = 0; i < sizeof list / sizeof list[0] && st == GG_OK; i++) {
        char name[64];
        gg_tensor t = { .name = name, .dtype = list[i].dtype, .n_dims = list[i].n_dims };
        memcpy(t.dims, list[i].dims, sizeof list[i].dims);
        t.name_len = (size_t)snprintf(name, sizeof name, "blk.%lld.%s.weight", (long long)block,
                                      list[i].role);
        router_ctx *c = i == 0 ? new_rows(x, &t, 1) : NULL;
        st = i == 0 && !c ? GG_ENOMEM
                          : gg_plan_add_made(&x->plan, &t, c ? make_router : make_zeros, c, x->err);
    }
    return st;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Whether tensor i is the first matrix of the feed-forward layer of its block. */
static bool leads_block(const gg_source *s, size_t i, int64_t block)
{
    char name[64];
    for (int k = 0; k < 3; k++) {
        int n = snprintf(name, sizeof name, "blk.%lld.%s", (long long)block, roles[k]);
        if (gg_source_find(s, name, (size_t)n) < i) return false;
    }
    return true;
}

/* Adds a copy of the embeddings as the head, if engines require one of the mixture and the base has
 * none because its embeddings are tied. */
static gg_status add_head(mixer *x)
{
    static const char embd[] = "token_embd.weight", head[] = "output.weight";
    const gg_arch *a = gg_arch_find(x->arch.mixture, strlen(x->arch.mixture));
    size_t from = gg_source_find(x->m->base, embd, strlen(embd));
    gg_plan_tensor *pt;
    if (!a || !gg_text_has_word(a->globals.text, "output", 6) || from == SIZE_MAX ||
        gg_source_find(x->m->base, head, strlen(head)) != SIZE_MAX)
        return GG_OK;
    gg_tensor t = *gg_source_tensor(x->m->base, from);
    gg_plan_part part = gg_plan_whole(x->m->base, from);
    t.name = head;
    t.name_len = (uint32_t)strlen(head);
    gg_status st = gg_plan_add(&x->plan, &t, &pt, x->err);
    if (st == GG_OK) st = gg_plan_add_part(pt, &part, x->err);
    if (st == GG_OK)
        gg_note(x->run,
                "output.weight is a copy of the embeddings, because engines require a head of "
                "%s",
                x->arch.mixture);
    return st;
}

static gg_status plan_tensors(mixer *x)
{
    gg_source *base = x->m->base;
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(base) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(base, i);
        size_t role = role_of(t);
        if (role < 3 && t->elements == 0) /* of which a router could have any size */
            return gg_fail_in(x->err, GG_NO, base, t, "it has no values");
        if (role < 3) {
            x->embd = role < 2 ? t->dims[0] : t->dims[1];
            x->units = role < 2 ? t->dims[1] : t->dims[0];
            bool leads = leads_block(base, i, t->a.block);
            x->report->blocks += leads;
            if (leads) st = add_router(x, t->a.block);
            if (st == GG_OK) st = add_stack(x, t, &t->a, role);
            if (st == GG_OK && leads && x->arch.shared) st = add_shared(x, t->a.block);
            continue;
        }
        const char *name = t->name + t->a.role_at;
        size_t len = t->name_len - t->a.role_at;
        if (t->a.block < 0 || !gg_text_begins(name, len, "ffn_") ||
            gg_text_begins(name, len, "ffn_norm"))
            st = gg_plan_add_copy(&x->plan, base, i, x->err);
        else
            return gg_fail_in(x->err, GG_EUNSUPPORTED, base, t,
                              "a mixture of experts has no place for this tensor");
    }
    if (st != GG_OK) return st;
    if (x->units) return add_head(x);
    return gg_fail(x->err, GG_NO, "%s has no feed-forward layers", gg_source_name(base));
}

static gg_status set_number(const mixer *x, gg_meta *meta, const char *name, uint64_t value)
{
    char key[160];
    if (!gg_arch_key(meta, name, key, sizeof key)) return GG_OK;
    return gg_meta_set_u32(meta, key, (uint32_t)value, x->err);
}

/* Records whose layers the experts are. */
static gg_status record_step(const mixer *x, const gg_run *run, gg_meta *meta)
{
    const gg_expert_mix *m = x->m;
    gg_buf step = GG_BUF_INIT;
    gg_buf_text(&step, "mixture: experts from ", x->err);
    for (size_t i = 0; i < m->n && x->err->status == GG_OK; i++) {
        if (i) gg_buf_text(&step, ", ", x->err);
        gg_put_model_name(&step, m->experts[i], x->err);
    }
    if (x->err->status == GG_OK) gg_record_step(meta, NULL, 0, &step, run, x->err);
    gg_buf_free(&step);
    return x->err->status;
}

/* The keys of the base under the name of the new architecture, and those of experts. */
static gg_status mixed_keys(const mixer *x, gg_meta *meta)
{
    const gg_meta *old = gg_source_meta(x->m->base);
    const char *dense = x->arch.dense, *mixture = x->arch.mixture;
    size_t len = strlen(dense);
    gg_status st = GG_OK;
    for (size_t i = 0; i < old->n && st == GG_OK; i++) {
        char key[300];
        gg_kv kv = old->kv[i];
        if (kv.key_len > len && kv.key_len < 200 && memcmp(kv.key, dense, len) == 0 &&
            kv.key[len] == '.') {
            kv.key_len = (size_t)snprintf(key, sizeof key, "%s%.*s", mixture,
                                          (int)(kv.key_len - len), kv.key + len);
            kv.key = key;
        }
        st = gg_meta_set(meta, &kv, x->err);
    }
    if (st == GG_OK)
        st = gg_meta_set_str(meta, "general.architecture", mixture, strlen(mixture), x->err);
    if (st == GG_OK) st = set_number(x, meta, "expert_count", x->m->n);
    if (st == GG_OK) st = set_number(x, meta, "expert_used_count", x->used);
    if (st == GG_OK && mixture != dense && strcmp(mixture, dense) != 0)
        st = set_number(x, meta, "expert_feed_forward_length", x->units);
    if (st == GG_OK && x->arch.shared)
        st = set_number(x, meta, "expert_shared_feed_forward_length", SHARED);
    return st;
}

/* The output must not be one of the inputs, and these must not change while they are read. */
static gg_status watch_inputs(mixer *x)
{
    const gg_expert_mix *m = x->m;
    gg_status st = GG_OK;
    for (size_t i = 0; i < m->n && st == GG_OK; i++) {
        st = gg_watch_add(&x->plan.watch, m->experts[i], x->err);
        if (st == GG_OK && m->router) st = gg_watch_add(&x->plan.watch, m->router[i], x->err);
    }
    return st;
}

gg_status gg_stack_mixture(const gg_expert_mix *m, const char *output, const gg_run *run,
                           gg_stack_report *report, gg_error *err)
{
    mixer x = { .m = m,
                .run = run,
                .plan = { .verify = true, .base = m->base },
                .report = report,
                .err = err };
    gg_meta meta = GG_META_INIT;
    gg_status st = check_models(&x, run);
    if (st == GG_OK) st = watch_inputs(&x);
    if (st == GG_OK) st = plan_tensors(&x);
    if (st == GG_OK) st = mixed_keys(&x, &meta);
    if (st == GG_OK) st = record_step(&x, run, &meta);
    if (st == GG_OK)
        st = gg_plan_changed_file(&x.plan, output ? output : "-", gg_plan_version(m->base), &meta,
                                  m->base, err);
    report->tensors = x.plan.n;
    if (st == GG_OK && output) st = gg_plan_write(&x.plan, run, &report->bytes, err);
    gg_meta_free(&meta);
    gg_plan_free(&x.plan);
    gg_computations_free(&x.made);
    return st;
}
