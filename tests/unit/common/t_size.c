/* The choice of types for a size: the search against all combinations, and losses from tables. */
#include "files.h"

#include "common/size.h"
#include "organ/gg_quant.h"
#include "organ/tensor_names.h"

#include <math.h>

#define T_GOOD(call) T_CHECKF((call) == GG_OK, "%s", err.what)

enum { ITEMS = 6, OPTIONS = 4 };

static uint32_t seed = 1;

static uint32_t next(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static uint64_t bytes_of(const gg_size_item *items, double *loss)
{
    uint64_t bytes = 0;
    *loss = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        bytes += items[i].options[items[i].chosen].bytes;
        *loss += items[i].options[items[i].chosen].loss;
    }
    return bytes;
}

/* The least loss of all combinations within the limit. A search over hulls may exceed it
 * by at most the largest single step. */
static void try_all(gg_size_item *items, uint64_t limit, double *best)
{
    size_t combinations = 1;
    *best = INFINITY;
    for (size_t i = 0; i < ITEMS; i++) combinations *= items[i].n;
    for (size_t c = 0; c < combinations; c++) {
        size_t rest = c;
        double loss;
        for (size_t i = 0; i < ITEMS; rest /= items[i].n, i++) items[i].chosen = rest % items[i].n;
        if (bytes_of(items, &loss) <= limit && loss < *best) *best = loss;
    }
}

static void test_search(void)
{
    size_t optimal = 0, tried = 0;
    for (int round = 0; round < 200; round++) {
        gg_size_option options[ITEMS][OPTIONS];
        gg_size_item items[ITEMS];
        double largest = 0;
        for (size_t i = 0; i < ITEMS; i++) {
            for (size_t k = 0; k < OPTIONS; k++)
                options[i][k] = (gg_size_option){ .bytes = 10 + next(100),
                                                  .loss = (double)next(1000) / 100 };
            items[i] = (gg_size_item){ .options = options[i], .n = 1 + next(OPTIONS) };
            for (size_t k = 0; k < items[i].n; k++)
                if (options[i][k].loss > largest) largest = options[i][k].loss;
        }
        uint64_t limit = 100 + next(500), least;
        double best, loss;
        gg_error err = GG_ERROR_INIT;
        try_all(items, limit, &best);
        T_GOOD(gg_size_search(items, ITEMS, limit, &least, &err));
        uint64_t bytes = bytes_of(items, &loss);
        T_CHECK((least <= limit) == isfinite(best));
        if (!isfinite(best)) {
            T_CHECK(bytes == least);
            continue;
        }
        tried++;
        optimal += loss <= best + 1e-9;
        T_CHECKF(bytes <= limit && loss <= best + largest + 1e-9, "round %d: %g, best %g", round,
                 loss, best);
    }
    T_CHECKF(tried > 100 && optimal * 10 > tried * 6, "%zu of %zu are optimal", optimal, tried);
}

/* A smaller option with no more loss always wins, and equal losses cost no bytes. */
static void test_dominated(void)
{
    gg_size_option options[] = { { .bytes = 50, .loss = 1 },
                                 { .bytes = 20, .loss = 2 },
                                 { .bytes = 30, .loss = 0.5 },
                                 { .bytes = 40, .loss = 0.5 } };
    gg_size_item item = { .options = options, .n = 4 };
    uint64_t least;
    gg_error err = GG_ERROR_INIT;
    T_GOOD(gg_size_search(&item, 1, 1000, &least, &err));
    T_CHECK(item.chosen == 2 && least == 20);
    T_GOOD(gg_size_search(&item, 1, 29, &least, &err));
    T_CHECK(item.chosen == 1);
    T_GOOD(gg_size_search(&item, 1, 19, &least, &err));
    T_CHECK(item.chosen == 1 && least == 20);
}

/* ---- losses --------------------------------------------------------------------------- */

static const uint32_t types[] = { GG_Q2_K, GG_Q3_K, GG_Q4_K, GG_Q8_0 };
static const double errors[] = { 0.08, 0.02, 0.005, 0.0001 };

static gg_tensor named(const char *name)
{
    size_t len = strlen(name);
    return (gg_tensor){ .name = name, .name_len = len, .a = gg_anatomy_of(name, len) };
}

/* A tensor with the types and errors above. */
static gg_size_item item_of(const gg_tensor *t, gg_size_option options[4])
{
    for (size_t k = 0; k < 4; k++)
        options[k] = (gg_size_option){ .dtype = types[k], .error = errors[k] };
    return (gg_size_item){ .t = t, .options = options, .n = 4, .all = 4 };
}

static void losses_of(const gg_losses *l, const char *name, double out[4], const char **basis)
{
    gg_tensor t = named(name);
    gg_size_option options[4];
    gg_size_item item = item_of(&t, options);
    size_t unused;
    gg_error err = GG_ERROR_INIT;
    T_GOOD(gg_losses_of(l, &item, 1, &unused, &err));
    for (size_t k = 0; k < 4; k++) out[k] = options[k].loss;
    *basis = item.basis;
}

static void near(const char *what, double got, double want)
{
    T_CHECKF(fabs(got - want) <= 1e-9 + 1e-9 * fabs(want), "%s: %.12g, not %.12g", what, got, want);
}

static gg_status read_table(const char *text, gg_losses **l, gg_error *err)
{
    const char *path = scratch("losses.tsv");
    spew(path, text, strlen(text));
    *l = NULL;
    return gg_losses_read(path, l, err);
}

static void test_guess(void)
{
    double a[4], b[4];
    const char *basis;
    losses_of(NULL, "output.weight", a, &basis);
    near("output", a[0], 1.2 * 0.08);
    T_CHECK(strcmp(basis, "guess") == 0);
    losses_of(NULL, "blk.0.attn_v.weight", a, &basis);
    losses_of(NULL, "blk.31.attn_v.weight", b, &basis);
    near("later block", b[1], 0.15 * a[1]);
    losses_of(NULL, "blk.0.ffn_down_exps.weight", a, &basis);
    near("stack", a[2], 0.40 * 0.005);
}

static void test_table(void)
{
    gg_losses *l;
    double x[4];
    const char *basis;
    gg_error err = GG_ERROR_INIT;
    T_GOOD(read_table("# measured\ntype\ttensor\tperplexity\tloss\r\n"
                      "Q2_K\tblk.0.ffn_up.weight\t9\t0.1\n\n"
                      "q4_k\tblk.0.ffn_up.weight\t8\t-1e-3\n"
                      "q3_k\tblk.1.ffn_up.weight\t8\t0.03\n"
                      "q8_0\tgone.weight\t8\t0\n",
                      &l, &err));
    losses_of(l, "blk.0.ffn_up.weight", x, &basis);
    T_CHECK(strcmp(basis, "table") == 0);
    near("stated", x[0], 0.1);
    near("negative", x[2], 0);
    near("between", x[1], 0.1 * (0.02 - 0.005) / (0.08 - 0.005));
    near("below", x[3], 0);
    losses_of(l, "blk.1.ffn_up.weight", x, &basis);
    near("above", x[0], 0.03 * 4);
    near("towards none", x[2], 0.03 / 4);
    losses_of(l, "blk.2.ffn_up.weight", x, &basis);
    T_CHECK(strcmp(basis, "scaled guess") == 0);
    near("no scale without others", x[0], 0.25 * 0.15 * 0.08);
    gg_losses_free(l);
}

/* With two tensors, the guess for the second is scaled by the first: here by 10. */
static void test_scale(void)
{
    gg_losses *l;
    gg_error err = GG_ERROR_INIT;
    T_GOOD(read_table("tensor\ttype\tloss\nblk.0.attn_q.weight\tQ3_K\t0.012\n", &l, &err));
    gg_tensor a = named("blk.0.attn_q.weight");
    gg_tensor b = named("token_embd.weight");
    gg_size_option x[4], y[4];
    gg_size_item items[] = { item_of(&a, x), item_of(&b, y) };
    items[1].tied = true;
    size_t unused;
    T_GOOD(gg_losses_of(l, items, 2, &unused, &err));
    near("stated", x[1].loss, 0.012);
    near("scaled, tied", y[0].loss, 10 * (1.1 + 1.2) * 0.08);
    T_CHECK(unused == 0);
    gg_losses_free(l);
}

static void test_mistakes(void)
{
    static const char *const bad[] = {
        "",
        "tensor\ttype\n",
        "tensor\ttype\tloss\n",
        "tensor\ttype\tloss\na\tq2_k\n",
        "tensor\ttype\tloss\na\tq2_z\t1\n",
        "tensor\ttype\tloss\na\tq2_k\tx\n",
        "tensor\ttype\tloss\na\tq2_k\tnan\n",
        "tensor\ttype\tloss\na\tq2_k\t1\na\tQ2_K\t2\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gg_losses *l;
        gg_error err = GG_ERROR_INIT;
        T_CHECKF(read_table(bad[i], &l, &err) == GG_EUSAGE && !l, "%zu: %s", i, err.what);
    }
    gg_losses *l = NULL;
    gg_error err = GG_ERROR_INIT;
    T_CHECK(gg_losses_read("/no/such", &l, &err) == GG_EIO);
}

static const t_case cases[] = {
    { "search against all combinations", test_search },
    { "dominated options", test_dominated },
    { "guessed losses", test_guess },
    { "losses from a table", test_table },
    { "guesses scaled by a table", test_scale },
    { "mistakes in a table", test_mistakes },
};

T_MAIN(cases)
