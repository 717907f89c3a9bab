/* k_pairs.c - sums over two arrays: Pearson's r and the comparison of models.
 * A pair with a non-finite side counts as two zeros, without a branch. */
#include "../nkernel.h"

#include <string.h>

#define EXPONENT 0x7f800000u

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* All ones if both are finite, else 0. */
static uint32_t both_finite(uint32_t a, uint32_t b)
{
    return (a & EXPONENT) != EXPONENT && (b & EXPONENT) != EXPONENT ? UINT32_MAX : 0;
}

static double fold(const double *lane)
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* Pairs are handled in runs: the mask first, on integers, then the sums on what is
 * left, so that both loops vectorise. A short last run is filled with masked pairs. */
#define RUN 256

typedef struct run {
    float a[RUN], b[RUN];
    uint32_t finite;    /* pairs of which both are */
    uint32_t differing; /* pairs of which the bits differ */
} run;

static void load_run(run *r, const float *a, const float *b, size_t n)
{
    uint32_t finite = 0, differing = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t ua = bits_of(a[i]), ub = bits_of(b[i]), keep = both_finite(ua, ub);
        finite += keep & 1;
        differing += ua != ub;
        r->a[i] = float_of(ua & keep);
        r->b[i] = float_of(ub & keep);
    }
    for (size_t i = n; i < RUN; i++) r->a[i] = r->b[i] = 0.0f;
    r->finite = finite;
    r->differing = differing;
}

nk_pair_means GG_K(nk_pair_means)(const float *a, const float *b, size_t n)
{
    double sa[NK_LANES] = { 0 }, sb[NK_LANES] = { 0 };
    uint64_t finite = 0;
    run r;
    for (size_t i = 0; i < n; i += RUN) {
        load_run(&r, a + i, b + i, n - i < RUN ? n - i : RUN);
        finite += r.finite;
        for (size_t j = 0; j < RUN; j += NK_LANES) {
            for (size_t l = 0; l < NK_LANES; l++) {
                sa[l] += (double)r.a[j + l];
                sb[l] += (double)r.b[j + l];
            }
        }
    }
    nk_pair_means m = { 0, 0, finite };
    if (finite) {
        m.a = fold(sa) / (double)finite;
        m.b = fold(sb) / (double)finite;
    }
    return m;
}

/* Here a masked pair must count as the means; pairs without a mask are the rule. */
static void centre_run(const float *a, const float *b, size_t n, double ma, double mb, double *da, double *db)
{
    for (size_t i = 0; i < n; i++) {
        bool keep = both_finite(bits_of(a[i]), bits_of(b[i]));
        da[i] = keep ? (double)a[i] - ma : 0.0;
        db[i] = keep ? (double)b[i] - mb : 0.0;
    }
    for (size_t i = n; i < RUN; i++) da[i] = db[i] = 0.0;
}

nk_pair_central GG_K(nk_pair_central)(const float *a, const float *b, size_t n, double mean_a, double mean_b)
{
    double aa[NK_LANES] = { 0 }, bb[NK_LANES] = { 0 }, ab[NK_LANES] = { 0 };
    double da[RUN], db[RUN];
    for (size_t i = 0; i < n; i += RUN) {
        centre_run(a + i, b + i, n - i < RUN ? n - i : RUN, mean_a, mean_b, da, db);
        for (size_t j = 0; j < RUN; j += NK_LANES) {
            for (size_t l = 0; l < NK_LANES; l++) {
                aa[l] += da[j + l] * da[j + l];
                bb[l] += db[j + l] * db[j + l];
                ab[l] += da[j + l] * db[j + l];
            }
        }
    }
    return (nk_pair_central){ fold(aa), fold(bb), fold(ab) };
}

typedef struct pair_sums {
    double dot[NK_LANES], aa[NK_LANES], bb[NK_LANES], diff2[NK_LANES];
    double top[NK_LANES];
} pair_sums;

static void add_run(pair_sums *s, const run *r)
{
    pair_sums t = *s;
    for (size_t j = 0; j < RUN; j += NK_LANES) {
        for (size_t l = 0; l < NK_LANES; l++) {
            double a = (double)r->a[j + l], b = (double)r->b[j + l], d = a - b;
            double size = d < 0 ? -d : d;
            t.dot[l] += a * b;
            t.aa[l] += a * a;
            t.bb[l] += b * b;
            t.diff2[l] += d * d;
            t.top[l] = size > t.top[l] ? size : t.top[l];
        }
    }
    *s = t;
}

void GG_K(nk_compare)(gg_compare *acc, const float *a, const float *b, size_t n)
{
    pair_sums s;
    memset(&s, 0, sizeof s);
    uint64_t finite = 0, differing = 0;
    run r;
    for (size_t i = 0; i < n; i += RUN) {
        load_run(&r, a + i, b + i, n - i < RUN ? n - i : RUN);
        finite += r.finite;
        differing += r.differing;
        add_run(&s, &r);
    }
    acc->n += n;
    acc->nonfinite += n - finite;
    acc->differing += differing;
    acc->dot += fold(s.dot);
    acc->aa += fold(s.aa);
    acc->bb += fold(s.bb);
    acc->diff2 += fold(s.diff2);
    for (int l = 0; l < NK_LANES; l++) acc->maxabs = s.top[l] > acc->maxabs ? s.top[l] : acc->maxabs;
}
