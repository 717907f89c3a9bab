/* What the reference implementation makes of four small models with each method: tests/data/merge.
 * vectors.tsv has the norm of each result and four sums of its values with random signs. A result
 * within a relative distance d of the reference differs by about d times the norm in each. */
#include "files.h"

#include "merge/gg_merge.h"
#include "numeric/arc.h"

#include <math.h>

#define DATA "tests/data/merge/"
#define SUMS 4

typedef struct vector {
    const char *name, *method, *models[3];
    bool base;
} vector;

/* The parameters of the reference. b's blk.1.ffn_up is the base's negated, and a's blk.1.attn_q is
 * the base's own. */
static const vector vectors[] = {
    { "task", "task", { "a,weight=0.6", "b,weight=0.3", "c,weight=0.5" }, true },
    { "task-normalized",
      "task_arithmetic,normalize=true,lambda=1.5",
      { "a,weight=0.6", "b,weight=0.3", "c,weight=0.5" },
      true },
    { "ties",
      "ties",
      { "a,weight=0.6,density=0.2", "b,weight=0.3,density=0.5", "c,weight=0.5,density=0.8" },
      true },
    { "ties-lambda",
      "ties,normalize=0,lambda=0.7",
      { "a,weight=0.6,density=0.2", "b,weight=0.3,density=0.5", "c,weight=0.5,density=0.8" },
      true },
    { "ties-rescaled",
      "ties,rescale=1",
      { "a,weight=0.6,density=0.2", "b,weight=0.3,density=0.5", "c,weight=0.5,density=0.8" },
      true },
    { "breadcrumbs",
      "breadcrumbs,density=0.6,gamma=0.05",
      { "a,weight=0.6", "b,weight=0.3", "c,weight=0.5" },
      true },
    { "breadcrumbs-ties",
      "breadcrumbs-ties,density=0.6,gamma=0.05",
      { "a,weight=0.6", "b,weight=0.3", "c,weight=0.5" },
      true },
    { "linear", "linear", { "a,weight=0.5", "b,weight=0.2", "c,weight=0.6" }, false },
    { "slerp", "slerp,t=0.35", { "a", "b" }, false },
    { "nuslerp", "nuslerp", { "a,weight=0.65", "b,weight=0.35" }, false },
    { "nuslerp-rows", "nuslerp,flatten=0", { "a,weight=0.65", "b,weight=0.35" }, false },
    { "nuslerp-base", "nuslerp", { "b,weight=0.65", "c,weight=0.35" }, true },
    { "multislerp", "multislerp", { "a,weight=0.5", "b,weight=0.2", "c,weight=0.6" }, false },
    { "multislerp-base", "multislerp", { "a,weight=0.5", "b,weight=0.2", "c,weight=0.6" }, true },
    { "karcher", "karcher,max_iter=10,tol=1e-5", { "a", "b", "c" }, false },
    { "nearswap", "nearswap,t=0.002", { "b" }, true },
    { "sce", "sce,select_topk=0.3", { "a", "b", "c" }, true },
    { "sce-all", "sce", { "a", "b", "c" }, true },
    { "model-stock", "model_stock", { "a", "b", "c" }, true },
    { "model-stock-rows", "model-stock,filter_wise=1", { "a", "b", "c" }, true },
    { "arcee-fusion", "arcee-fusion", { "b" }, true },
    { "ram", "ram,epsilon=0.01", { "a", "b", "c" }, true },
    { "ramplus", "ramplus,epsilon=0.01", { "a", "b", "c" }, true },
};

static gg_status merge(const vector *v, const char *output, gg_error *err)
{
    gg_merge_model list[3] = { { 0 } };
    gg_merge_models models = { .list = list };
    char method[32] = { 0 };
    size_t n = strcspn(v->method, ",");
    memcpy(method, v->method, n);
    gg_merge_options o = { .method = method, .no_hash = true };
    if (v->method[n]) o.parameters = v->method + n + 1;
    gg_run run = { .force = true, .threads = 2 };
    gg_status st = v->base ? gg_source_open(DATA "base.gguf", &models.base, err) : GG_OK;
    for (; st == GG_OK && models.n < 3 && v->models[models.n]; models.n++) {
        const char *m = v->models[models.n];
        char path[100];
        snprintf(path, sizeof path, DATA "%c.gguf", m[0]);
        if (m[1]) list[models.n].parameters = m + 2;
        st = gg_source_open(path, &list[models.n].source, err);
    }
    if (st == GG_OK) st = gg_merge(&models, &o, output, &run, NULL, err);
    gg_source_close(models.base);
    for (size_t i = 0; i < models.n; i++) gg_source_close(list[i].source);
    return st;
}

/* The norm and the sums of a tensor; sums[0] is the norm. */
static bool measure(gg_source *s, const char *name, double sums[SUMS + 1])
{
    gg_error err = GG_ERROR_INIT;
    size_t at = gg_source_find(s, name, strlen(name));
    if (at == SIZE_MAX) return false;
    const gg_tensor *t = gg_source_tensor(s, at);
    float *x = malloc((size_t)t->bytes + 1);
    gg_data d;
    bool ok = x && t->dtype == GG_F32 && gg_data_open(s, at, &d, &err) == GG_OK;
    if (ok) {
        ok = gg_data_read(&d, 0, x, (size_t)t->bytes, &err) == GG_OK;
        gg_data_close(&d);
    }
    memset(sums, 0, (SUMS + 1) * sizeof *sums);
    for (size_t i = 0; ok && i < t->elements; i++) {
        uint64_t signs = gg_random_bits(0, i);
        double v = x[i];
        sums[0] += v * v;
        for (unsigned k = 0; k < SUMS; k++) sums[k + 1] += signs >> k & 1 ? -v : v;
    }
    sums[0] = sqrt(sums[0]);
    free(x);
    return ok;
}

static void compare(const vector *v, gg_source *s, const char *line)
{
    char name[64];
    double want[SUMS + 1], got[SUMS + 1];
    int n = sscanf(line, "%*s %63s %lf %lf %lf %lf %lf", name, &want[0], &want[1], &want[2],
                   &want[3], &want[4]);
    T_CHECKF(n == SUMS + 2 && measure(s, name, got), "%s: no sums of %s", v->name, name);
    double most = strcmp(name, "blk.1.ffn_up.weight") == 0 ? 1e-4 : 1e-5;
    for (unsigned k = 0; n == SUMS + 2 && k <= SUMS; k++)
        T_CHECKF(fabs(got[k] - want[k]) <= most * want[0], "%s, %s, sum %u: %.9g, %.9g wanted",
                 v->name, name, k, got[k], want[k]);
}

static void agreement(void)
{
    char *list = slurp(DATA "vectors.tsv", NULL);
    const char *out = scratch("merged.gguf");
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const vector *v = &vectors[i];
        gg_error err = GG_ERROR_INIT;
        gg_source *s = NULL;
        size_t lines = 0, len = strlen(v->name);
        gg_status st = merge(v, out, &err);
        T_CHECKF(st == GG_OK, "%s: %s", v->name, err.what);
        if (st != GG_OK || gg_source_open(out, &s, &err) != GG_OK) continue;
        for (const char *p = list; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
            if (strncmp(p, v->name, len) != 0 || p[len] != '\t') continue;
            compare(v, s, p);
            lines++;
        }
        T_CHECKF(lines == 3, "%s: %zu lines", v->name, lines);
        gg_source_close(s);
    }
    free(list);
}

/* ---- isotropic merging ------------------------------------------------------------------- */

static float *values(const char *path, const char *name, size_t n)
{
    gg_error err = GG_ERROR_INIT;
    gg_source *s = NULL;
    gg_data d;
    float *x = calloc(n, sizeof *x);
    if (!x || gg_source_open(path, &s, &err) != GG_OK) exit(1);
    size_t at = gg_source_find(s, name, strlen(name));
    bool ok = at != SIZE_MAX && gg_source_tensor(s, at)->elements == n &&
              gg_data_open(s, at, &d, &err) == GG_OK;
    if (!ok || gg_data_read(&d, 0, x, n * sizeof *x, &err) != GG_OK) exit(1);
    gg_data_close(&d);
    gg_source_close(s);
    return x;
}

/* The rows of the change of a square matrix are orthogonal and of one length, and its product with
 * the sum of the differences is positive; a vector gets t / n times the sum. */
static void isotropic(void)
{
    enum { SIDE = 64, N = SIDE * SIDE };
    static const char q[] = "blk.1.attn_q.weight", norm[] = "output_norm.weight";
    const vector v = { "iso", "iso,t=0.5", { "b", "c" }, true };
    gg_error err = GG_ERROR_INIT;
    const char *out = scratch("iso.gguf");
    T_EQ(merge(&v, out, &err), GG_OK);
    float *x = values(out, q, N), *base = values(DATA "base.gguf", q, N);
    float *b = values(DATA "b.gguf", q, N), *c = values(DATA "c.gguf", q, N);
    double length = 0, with = 0;
    for (size_t i = 0; i < N; i++) {
        double change = (double)x[i] - base[i];
        length += change * change / SIDE;
        with += change * ((double)b[i] + c[i] - 2.0 * base[i]);
    }
    /* <U V', D> = SIDE mean(S), and the change is 0.5 mean(S) U V' */
    double mean = sqrt(length) / 0.5;
    T_CHECKF(fabs(with - 0.5 * mean * SIDE * mean) < 0.01 * with, "mean %g, product %g", mean,
             with);
    for (size_t r = 0; r < SIDE; r++)
        for (size_t k = 0; k < SIDE; k++) {
            double dot = 0;
            for (size_t i = 0; i < SIDE; i++)
                dot += ((double)x[r * SIDE + i] - base[r * SIDE + i]) *
                       ((double)x[k * SIDE + i] - base[k * SIDE + i]);
            T_CHECK(fabs(dot - (r == k ? length : 0)) < 0.02 * length);
        }
    free(x), free(base), free(b), free(c);
    x = values(out, norm, SIDE), base = values(DATA "base.gguf", norm, SIDE);
    b = values(DATA "b.gguf", norm, SIDE), c = values(DATA "c.gguf", norm, SIDE);
    for (size_t i = 0; i < SIDE; i++) {
        double want = base[i] + 0.25 * ((double)b[i] + c[i] - 2.0 * base[i]);
        T_CHECK(fabs(x[i] - want) < 1e-6);
    }
    free(x), free(base), free(b), free(c);
}

/* ---- random masks ------------------------------------------------------------------------ */

/* Scaling the values that are kept needs a second pass, which must keep the same values. */
static void same_masks(void)
{
    enum { N = 64 * 64 };
    static const char q[] = "blk.1.attn_q.weight", *const how[] = {
        "dare-linear,density=0.4,rescale=0", "dare-linear,density=0.4,rescale=1",
        "della-linear,density=0.5,rescale=0", "della-linear,density=0.5,rescale=1"
    };
    float *base = values(DATA "base.gguf", q, N), *x[2];
    for (size_t k = 0; k < 4; k += 2) {
        size_t other = 0, changed = 0;
        for (size_t i = 0; i < 2; i++) {
            const vector v = { "masks", how[k + i], { "b,weight=0", "c,weight=1" }, true };
            gg_error err = GG_ERROR_INIT;
            const char *out = scratch("masks.gguf");
            T_EQ(merge(&v, out, &err), GG_OK);
            x[i] = values(out, q, N);
        }
        for (size_t i = 0; i < N; i++) {
            changed += x[0][i] != base[i];
            other += (x[0][i] != base[i]) != (x[1][i] != base[i]);
        }
        T_EQ(other, (size_t)0);
        T_CHECKF(changed > N / 3 && changed < N * 2 / 3, "%zu changed", changed);
        free(x[0]), free(x[1]);
    }
    free(base);
}

/* Every method and parameter has a meaning, and its default is in the range. */
static void list(void)
{
    gg_merge_method_info m;
    size_t n = 0;
    for (; gg_merge_method_at(n, &m); n++) {
        T_CHECK(m.name[0] && m.meaning[0] && m.least >= 1 && m.least <= m.most);
        for (size_t k = 0; k < m.n_parameters; k++) {
            const gg_merge_parameter *p = &m.parameters[k];
            T_CHECKF(p->name[0] && p->meaning[0] && (isnan(p->value) || p->value <= p->most) &&
                         !(p->value < p->least) && !(p->above && p->value == p->least),
                     "%s of %s", p->name, m.name);
        }
    }
    T_CHECKF(n >= 21, "%zu methods", n);
    T_CHECK(!gg_merge_method_at(SIZE_MAX, &m));
    T_CHECK(gg_merge_method_at(2, &m) && strcmp(m.name, "nuslerp") == 0 && m.n_parameters == 2 &&
            m.parameters[1].value == 1 && strcmp(m.parameters[1].alias, "nuslerp_flatten") == 0);
}

static const t_case cases[] = {
    { "agreement", agreement },
    { "isotropic", isotropic },
    { "same_masks", same_masks },
    { "list", list },
};

T_MAIN(cases)
