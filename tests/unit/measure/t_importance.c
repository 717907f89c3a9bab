/* t_importance.c - importance and predicted damage, against sums that are computed here value by
 * value, and the experts that are kept by importance. */
#include "kin/gg_compare_model.h"
#include "measure/gg_measure_model.h"
#include "prune/prune.h"

#include "tensors.h"

#define COLUMNS 37 /* not a multiple of any lane */
#define ROWS 61    /* more values than are decoded at once */
#define EXPERTS 4
#define VALUES (COLUMNS * ROWS)
#define STACK (VALUES * EXPERTS)

static const char *const stacks[] = { "blk.1.ffn_gate_exps.weight", "blk.1.ffn_down_exps.weight" };
static const float tokens = 10, counts[EXPERTS] = { 6, 3, 0, 8 };
static float dense2[COLUMNS], stack2[2][COLUMNS * EXPERTS]; /* sums of squared inputs */
static float *dense, *stack[2], *router, *other;
static char imatrix[64];

static gg_source *model_of(float *q, float *gate)
{
    gg_meta meta = GG_META_INIT;
    gg_error e = GG_ERROR_INIT;
    set_str(&meta, "general.architecture", "llama");
    gg_meta_set_u32(&meta, "llama.expert_count", EXPERTS, &e);
    gg_meta_set_u32(&meta, "llama.expert_used_count", 1, &e);
    const tensor_spec specs[] = {
        { "blk.0.attn_q.weight", GG_F32, 2, { COLUMNS, ROWS }, q },
        { "blk.0.attn_k.weight", GG_F32, 2, { COLUMNS, ROWS }, q }, /* not in the matrix */
        { "blk.1.ffn_gate_inp.weight", GG_F32, 2, { COLUMNS, EXPERTS }, router },
        { stacks[0], GG_F32, 3, { COLUMNS, ROWS, EXPERTS }, gate },
        { stacks[1], GG_F32, 3, { COLUMNS, ROWS, EXPERTS }, stack[1] },
        { "blk.1.ffn_up_exps.weight", GG_F32, 3, { COLUMNS, ROWS, EXPERTS }, other },
    };
    return model(specs, 6, &meta);
}

/* The path of the file that model() wrote last. */
static void last_path(char *path, size_t size)
{
    snprintf(path, size, "%s/%d.gguf", dir, n_files - 1);
}

static void make(void)
{
    gg_meta meta = GG_META_INIT;
    dense = random_values(VALUES);
    router = random_values(COLUMNS * EXPERTS);
    for (int k = 0; k < 2; k++) stack[k] = random_values(STACK);
    /* A stack that the matrix lacks: expert 2, which was never chosen, has the largest weights. */
    other = random_values(STACK);
    for (int i = 0; i < VALUES; i++) other[2 * VALUES + i] *= 100;
    for (int j = 0; j < COLUMNS; j++) dense2[j] = 1 + noise();
    for (int k = 0; k < 2; k++)
        for (int j = 0; j < COLUMNS * EXPERTS; j++)
            stack2[k][j] = counts[j / COLUMNS] > 0 ? 1 + noise() : 0;
    set_str(&meta, "general.type", "imatrix");
    const tensor_spec specs[] = {
        { "blk.0.attn_q.weight.in_sum2", GG_F32, 2, { COLUMNS, 1 }, dense2 },
        { "blk.0.attn_q.weight.counts", GG_F32, 2, { 1, 1 }, &tokens },
        { "blk.1.ffn_gate_exps.weight.in_sum2", GG_F32, 2, { COLUMNS, EXPERTS }, stack2[0] },
        { "blk.1.ffn_gate_exps.weight.counts", GG_F32, 2, { 1, EXPERTS }, counts },
        { "blk.1.ffn_down_exps.weight.in_sum2", GG_F32, 2, { COLUMNS, EXPERTS }, stack2[1] },
        { "blk.1.ffn_down_exps.weight.counts", GG_F32, 2, { 1, EXPERTS }, counts },
    };
    gg_source_close(model(specs, 6, &meta));
    last_path(imatrix, sizeof imatrix);
}

/* The sum over the columns of in_sum2 / tokens times the squares of one matrix. */
static double weighted(const float *sum2, const float *x)
{
    double sum = 0;
    for (int i = 0; i < VALUES; i++)
        sum += (double)sum2[i % COLUMNS] / (double)tokens * (double)x[i] * (double)x[i];
    return sum;
}

static bool near(double x, double y)
{
    return fabs(x - y) <= 1e-6 * fabs(y);
}

/* ---- importance ------------------------------------------------------------------- */

static gg_status keep_row(void *ctx, const gg_tensor_measure *row, gg_error *err)
{
    return gg_measures_add(ctx, row, err);
}

static gg_measures measured(gg_source *s, bool split, unsigned threads)
{
    gg_error e = GG_ERROR_INIT;
    gg_measures list = { 0 };
    gg_run run = { .threads = threads };
    gg_measure_options o = {
        .sample = 3, .imatrix = imatrix, .split_experts = split, .row = keep_row, .ctx = &list
    };
    T_CHECKF(gg_measure_model(s, &o, &run, NULL, &e) == GG_OK, "%s", e.what);
    return list;
}

static void importance(void)
{
    gg_source *s = model_of(dense, stack[0]);
    gg_measures list = measured(s, false, 1), split = measured(s, true, 3);
    double want[2] = { 0, 0 };
    T_EQ(list.n, 6);
    T_EQ(split.n, 3 + 3 * EXPERTS);
    T_CHECK(isnan(list.rows[5].importance));
    T_CHECK(near(list.rows[0].importance, weighted(dense2, dense)));
    T_CHECK(isnan(list.rows[1].importance) && isnan(list.rows[2].importance));
    for (int k = 0; k < 2; k++)
        for (int x = 0; x < EXPERTS; x++) {
            double one = weighted(stack2[k] + x * COLUMNS, stack[k] + x * VALUES);
            const gg_tensor_measure *row = &split.rows[3 + k * EXPERTS + x];
            T_CHECKF(x == 2 ? row->importance == 0 : near(row->importance, one), "%s: %g, %g",
                     row->t.name, row->importance, one);
            want[k] += one;
        }
    for (int k = 0; k < 2; k++) T_CHECK(near(list.rows[3 + k].importance, want[k]));
    gg_group *groups;
    size_t n;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_measures_groups(&list, &groups, &n, &e), GG_OK);
    T_EQ(groups[n - 1].importances, 3);
    T_CHECK(near(groups[n - 1].importance, (weighted(dense2, dense) + want[0] + want[1]) / 3));
    free(groups);
    gg_measures_free(&list);
    gg_measures_free(&split);
    gg_source_close(s);
}

static void ranks(void)
{
    gg_source *s = model_of(dense, stack[0]);
    gg_measures split = measured(s, true, 1);
    gg_error e = GG_ERROR_INIT;
    gg_rank *r;
    size_t n;
    double sum = 0;
    T_EQ(gg_measures_rank(&split, true, &r, &n, &e), GG_OK);
    T_EQ(n, EXPERTS);
    for (size_t i = 0; i < n; i++) {
        const float *const *w = (const float *const *)stack;
        int64_t x = r[i].expert;
        double one = 0;
        for (int k = 0; k < 2; k++) one += weighted(stack2[k] + x * COLUMNS, w[k] + x * VALUES);
        T_CHECK(r[i].block == 1 && r[i].tensors == 2 && (i == 0 || r[i - 1].importance >= one));
        T_CHECK(x == 2 ? r[i].importance == 0 : near(r[i].importance, one));
        sum += r[i].share;
    }
    T_CHECK(near(sum, 1) && r[n - 1].expert == 2 && r[n - 1].share == 0);
    free(r);
    T_EQ(gg_measures_rank(&split, false, &r, &n, &e), GG_OK);
    T_CHECK(n == 2 && r[0].tensors + r[1].tensors == 1 + 2 * EXPERTS && r[0].expert == -1);
    T_CHECK(r[0].importance >= r[1].importance && near(r[0].share + r[1].share, 1));
    free(r);
    gg_measures_free(&split);
    gg_source_close(s);
}

/* Experts of several blocks share the sum of their own block. */
static void shares(void)
{
    static const struct {
        int32_t block, expert;
        double importance, share;
    } want[] = { { 7, 1, 6, 0.75 }, { 3, 1, 3, 0.75 }, { 7, 0, 2, 0.25 }, { 3, 0, 1, 0.25 } };
    gg_error e = GG_ERROR_INIT;
    gg_measures list = { 0 };
    gg_rank *r;
    size_t n;
    for (int i = 3; i >= 0; i--) {
        gg_tensor_measure row = {
            .importance = want[i].importance,
            .t = { .name = "x", .a = { .block = want[i].block, .expert = want[i].expert } }
        };
        T_EQ(gg_measures_add(&list, &row, &e), GG_OK);
    }
    T_EQ(gg_measures_rank(&list, true, &r, &n, &e), GG_OK);
    T_EQ(n, 4);
    for (size_t i = 0; i < n; i++)
        T_CHECK(r[i].block == want[i].block && r[i].expert == want[i].expert &&
                near(r[i].share, want[i].share));
    free(r);
    T_EQ(gg_measures_rank(&list, false, &r, &n, &e), GG_OK);
    T_CHECK(n == 2 && r[0].block == 7 && near(r[0].importance, 8) && near(r[0].share, 8.0 / 12));
    free(r);
    gg_measures_free(&list);
}

/* ---- damage ----------------------------------------------------------------------- */

typedef struct rows {
    double damage[16], error2[16], energy2[16];
    gg_sameness status[16];
    size_t n;
    gg_compare_report sum;
} rows;

static gg_status take(void *ctx, const gg_compare_row *row, gg_error *err)
{
    rows *r = ctx;
    r->damage[r->n] = row->damage;
    r->error2[r->n] = row->error2;
    r->energy2[r->n] = row->energy2;
    r->status[r->n++] = row->status;
    return err->status;
}

static rows compared(gg_source *a, gg_source *b, bool split, uint64_t sample)
{
    rows r = { .n = 0 };
    gg_error e = GG_ERROR_INIT;
    gg_compare_options o = {
        .imatrix = imatrix, .split_experts = split, .sample = sample, .row = take, .ctx = &r
    };
    T_CHECKF(gg_compare_models(a, b, &o, NULL, &r.sum, &e) == GG_OK, "%s", e.what);
    return r;
}

static void damage(void)
{
    float *q = malloc(VALUES * sizeof *q), *gate = malloc(STACK * sizeof *gate), dq[VALUES],
          dg[STACK];
    for (int i = 0; i < VALUES; i++) q[i] = dense[i] + (dq[i] = noise() / 8);
    for (int i = 0; i < STACK; i++) gate[i] = stack[0][i] + (dg[i] = i / VALUES < 3 ? noise() : 0);
    gg_source *a = model_of(dense, stack[0]), *b = model_of(q, gate);
    rows r = compared(a, b, false, 0), split = compared(a, b, true, 0),
         same = compared(a, a, false, 0);
    double dense_damage = weighted(dense2, dq) / weighted(dense2, dense), error2 = 0, energy2 = 0;
    T_CHECKF(fabs(r.damage[0] - dense_damage) < 1e-5 * dense_damage, "%g, %g", r.damage[0],
             dense_damage);
    T_CHECK(isnan(r.damage[1]) && isnan(r.damage[2]) && r.error2[1] == 0 && r.energy2[1] == 0);
    for (int x = 0; x < EXPERTS; x++) {
        double err = weighted(stack2[0] + x * COLUMNS, dg + x * VALUES),
               all = weighted(stack2[0] + x * COLUMNS, stack[0] + x * VALUES),
               got = split.damage[3 + x];
        T_CHECKF(all > 0 ? fabs(got - err / all) <= 1e-5 * err / all : got == 0, "%d: %g", x, got);
        error2 += err;
        energy2 += all;
    }
    T_CHECK(fabs(r.damage[3] - error2 / energy2) < 1e-5 * error2 / energy2);
    /* Identical tensors count with their energy. */
    T_CHECK(r.status[4] == GG_SAME_IDENTICAL && r.damage[4] == 0 && r.energy2[4] > 0);
    const gg_compare_group *all = &r.sum.model;
    T_EQ(all->predicted, 3);
    T_CHECK(near(all->damage,
                 (r.error2[0] + r.error2[3]) / (r.energy2[0] + r.energy2[3] + r.energy2[4])));
    for (int i = 0; i < 5; i++) T_CHECK(same.damage[i] == 0 || isnan(same.damage[i]));
    T_CHECK(same.damage[0] == 0 && same.energy2[0] == r.energy2[0]);
    /* Of sampled rows, the same quotient of fewer squares: the first and the one in the middle. */
    rows few = compared(a, b, false, 2), few_same = compared(a, a, false, 2);
    T_EQ(few_same.energy2[0], few.energy2[0]);
    double part[2] = { 0, 0 };
    for (int i = 0; i < VALUES; i++) {
        if (i / COLUMNS != 0 && i / COLUMNS != ROWS / 2) continue;
        double w = (double)dense2[i % COLUMNS];
        part[0] += w * (double)dq[i] * (double)dq[i];
        part[1] += w * (double)dense[i] * (double)dense[i];
    }
    T_CHECKF(fabs(few.damage[0] - part[0] / part[1]) < 1e-5 * few.damage[0], "%g, %g",
             few.damage[0], part[0] / part[1]);
    /* Values that are not finite are left out; without energy everything is damage. */
    float zero[VALUES] = { 0 };
    q[0] = NAN, q[1] = INFINITY;
    gg_source *c = model_of(q, gate), *z = model_of(zero, gate);
    rows odd = compared(a, c, false, 0), none = compared(z, a, false, 0);
    double left_out = 0;
    for (int j = 0; j < 2; j++)
        left_out += (double)(dense2[j] / tokens) * (double)dense[j] * (double)dense[j];
    T_CHECK(odd.damage[0] > 0 && near(odd.energy2[0], r.energy2[0] - left_out));
    T_EQ(none.damage[0], 1);
    gg_source *const sources[] = { a, b, c, z };
    for (int i = 0; i < 4; i++) gg_source_close(sources[i]);
    free(q);
    free(gate);
}

static gg_status prune_path(const char *path, const gg_prune_options *o, const char *output,
                            const gg_run *run, gg_error *e)
{
    gg_source *s = NULL;
    gg_assemble_report r;
    gg_status st = gg_source_open_with(path, NULL, &s, e);
    if (st == GG_OK) st = gg_prune(s, o, output, run, &r, e);
    gg_source_close(s);
    return st;
}

/* ---- keeping experts -------------------------------------------------------------- */

static void kept(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_source *s = model_of(dense, stack[0]);
    gg_measures split = measured(s, true, 1);
    gg_rank *r;
    size_t n;
    char path[64], out[80];
    last_path(path, sizeof path);
    snprintf(out, sizeof out, "%s/kept.gguf", dir);
    T_EQ(gg_measures_rank(&split, true, &r, &n, &e), GG_OK);
    int64_t first = r[0].expert < r[1].expert ? r[0].expert : r[1].expert,
            second = r[0].expert + r[1].expert - first;
    gg_prune_options o = { .experts = 2, .how.output.imatrix = imatrix };
    gg_run run = { .force = true, .threads = 2 };
    T_CHECKF(prune_path(path, &o, out, &run, &e) == GG_OK, "%s", e.what);
    gg_source *k = NULL;
    T_EQ(gg_source_open(out, &k, &e), GG_OK);
    for (size_t i = 2; i < 6 && k; i++) {
        size_t step = (i == 2 ? COLUMNS : VALUES) * sizeof(float);
        uint8_t *was = raw(s, i), *now = raw(k, i);
        T_EQ(gg_source_tensor(k, i)->bytes, 2 * step);
        T_CHECK(memcmp(now, was + (size_t)first * step, step) == 0);
        T_CHECK(memcmp(now + step, was + (size_t)second * step, step) == 0);
        free(was);
        free(now);
    }
    gg_source_close(k);
    o.experts = 5;
    T_EQ(prune_path(path, &o, out, &run, &e), GG_NO);
    T_CHECKF(strstr(e.what, "5 experts cannot be kept: block 1 has 4"), "%s", e.what);
    e = (gg_error)GG_ERROR_INIT;
    o.experts = 2, o.list = "0-1";
    T_EQ(prune_path(path, &o, out, &run, &e), GG_EUSAGE);
    e = (gg_error)GG_ERROR_INIT;
    o.list = NULL, o.how.output.dtype = "*=f16";
    T_EQ(prune_path(path, &o, out, &run, &e), GG_EUSAGE);
    free(r);
    gg_measures_free(&split);
    gg_source_close(s);
}

/* A matrix with the gates alone: the other stacks of the block do not count. */
static void kept_by_the_gates(void)
{
    gg_meta meta = GG_META_INIT;
    gg_error e = GG_ERROR_INIT;
    char gates[64], path[64], out[80];
    set_str(&meta, "general.type", "imatrix");
    const tensor_spec specs[] = {
        { "blk.1.ffn_gate_exps.weight.in_sum2", GG_F32, 2, { COLUMNS, EXPERTS }, stack2[0] },
        { "blk.1.ffn_gate_exps.weight.counts", GG_F32, 2, { 1, EXPERTS }, counts },
    };
    gg_source_close(model(specs, 2, &meta));
    last_path(gates, sizeof gates);
    gg_source *s = model_of(dense, stack[0]), *k = NULL;
    last_path(path, sizeof path);
    snprintf(out, sizeof out, "%s/gates.gguf", dir);
    gg_prune_options o = { .experts = 3, .how.output.imatrix = gates };
    gg_run run = { .force = true };
    T_CHECKF(prune_path(path, &o, out, &run, &e) == GG_OK, "%s", e.what);
    T_EQ(gg_source_open(out, &k, &e), GG_OK);
    static const size_t stay[] = { 0, 1, 3 }; /* expert 2 was never chosen */
    const size_t size = VALUES * sizeof(float);
    uint8_t *was = raw(s, 3), *now = k ? raw(k, 3) : NULL;
    for (size_t i = 0; i < 3 && now; i++)
        T_CHECK(memcmp(now + i * size, was + stay[i] * size, size) == 0);
    free(was);
    free(now);
    gg_source_close(k);
    gg_source_close(s);
}

static void end(void)
{
    char command[80];
    free(dense);
    free(router);
    free(other);
    for (int k = 0; k < 2; k++) free(stack[k]);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    T_EQ(system(command), 0);
}

static void begin(void)
{
    T_CHECK(mkdtemp(dir) != NULL);
    make();
}

static const t_case cases[] = {
    { "make", begin },
    { "importance", importance },
    { "ranks", ranks },
    { "shares", shares },
    { "damage", damage },
    { "kept", kept },
    { "kept by the gates", kept_by_the_gates },
    { "end", end },
};

T_MAIN(cases)
