/* t_lowrank.c - truncated singular value decompositions against exact ones. */
#include "base/isa.h"
#include "lora/lowrank.h"
#include "numeric/matrix.h"
#include "numeric/numeric.h"
#include "svd.h"
#include "t.h"

#include <math.h>

/* rows x cols with singular values s[0..n), n the shorter side. */
static float *with_values(size_t rows, size_t cols, const double *s)
{
    size_t m = rows > cols ? rows : cols, n = rows > cols ? cols : rows;
    float *random = malloc(m * n * sizeof *random), *x = malloc(m * n * sizeof *x);
    gg_gauss_fill(random, m * n, rows + 5 * cols);
    svd d = svd_of(random, m, n);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double v = 0;
            for (size_t r = 0; r < n; r++) v += s[r] * d.u[i * n + r] * d.v[j * n + r];
            x[rows > cols ? i * cols + j : j * cols + i] = (float)v;
        }
    }
    svd_free(&d);
    free(random);
    return x;
}

/* Squared distance of d from the product. */
static double error_of(const float *d, size_t rows, size_t cols, const gg_factors *f)
{
    double sum = 0;
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < cols; j++) {
            double v = (double)d[i * cols + j];
            for (size_t r = 0; r < f->rank; r++)
                v -= (double)f->tall[i * f->rank + r] * (double)f->wide[r * cols + j];
            sum += v * v;
        }
    }
    return sum;
}

static gg_factors cut(float *d, size_t rows, size_t cols, size_t rank, double energy)
{
    gg_lowrank o = { rank, energy, 17, 2 };
    gg_factors f;
    gg_error err = GG_ERROR_INIT;
    T_EQ(gg_truncate_matrix(d, rows, cols, &o, &f, &err), GG_OK);
    return f;
}

static double tail(const double *s, size_t n, size_t from)
{
    double sum = 0;
    for (size_t i = from; i < n; i++) sum += s[i] * s[i];
    return sum;
}

/* The product is as near as the best one of that rank, for singular values that fall by so much. */
static void best_product(void)
{
    static const size_t shapes[][2] = { { 150, 60 }, { 60, 150 }, { 64, 64 } };
    static const double falls[] = { 1, 0.99, 0.9, 0.5 };
    for (size_t k = 0; k < 3; k++) {
        for (size_t w = 0; w < 4; w++) {
            size_t rows = shapes[k][0], cols = shapes[k][1], n = rows < cols ? rows : cols;
            double s[64];
            for (size_t i = 0; i < n; i++) s[i] = 3 * pow(falls[w], (double)i);
            float *d = with_values(rows, cols, s);
            for (size_t rank = 1; rank <= n; rank = rank < 16 ? 4 * rank : rank < n ? n : n + 1) {
                gg_factors f = cut(d, rows, cols, rank, 0);
                double e = error_of(d, rows, cols, &f), best = tail(s, n, rank),
                       all = tail(s, n, 0);
                T_EQ(f.rank, rank);
                T_CHECKF(e < 1.02 * best + 1e-10 * all, "%zu x %zu, fall %g, rank %zu: %g, best %g",
                         rows, cols, falls[w], rank, e, best);
                T_CHECKF(fabs(f.total / all - 1) < 1e-5 && fabs(f.total - f.kept - e) < 1e-4 * all,
                         "rank %zu: %g of %g kept, error %g", rank, f.kept, f.total, e);
                gg_factors_free(&f);
            }
            free(d);
        }
    }
}

/* Both factors carry the root of each singular value. */
static void balanced(void)
{
    double s[20] = { 9, 4, 1 };
    float *d = with_values(30, 20, s);
    gg_factors f = cut(d, 30, 20, 3, 0);
    for (size_t r = 0; r < 3; r++) {
        double tall = 0, wide = 0;
        for (size_t i = 0; i < 30; i++) tall += pow((double)f.tall[i * 3 + r], 2);
        for (size_t j = 0; j < 20; j++) wide += pow((double)f.wide[r * 20 + j], 2);
        T_CHECKF(fabs(tall / s[r] - 1) < 1e-5 && fabs(wide / s[r] - 1) < 1e-5, "%g, %g of %g", tall,
                 wide, s[r]);
    }
    gg_factors_free(&f);
    free(d);
}

/* A matrix of rank 3 is found exactly with any larger rank, and the rest is 0. */
static void low_rank(void)
{
    double s[40] = { 7, 5, 2 };
    float *d = with_values(70, 40, s);
    for (size_t rank = 3; rank <= 50; rank += 12) {
        gg_factors f = cut(d, 70, 40, rank, 0);
        double e = error_of(d, 70, 40, &f);
        T_CHECKF(e < 1e-10, "rank %zu: error %g", rank, e);
        T_EQ(f.rank, rank < 40 ? rank : 40u);
        gg_factors_free(&f);
    }
    gg_factors f = cut(d, 70, 40, 0, 0.9999999);
    T_CHECKF(f.rank >= 3 && f.rank < 40, "rank %zu", f.rank);
    gg_factors_free(&f);
    free(d);
}

/* The smallest rank that keeps the share of the sum of squares. */
static void energy(void)
{
    double s[120];
    for (size_t i = 0; i < 120; i++) s[i] = 1 / sqrt(1.0 + (double)i / 10);
    float *d = with_values(120, 130, s);
    static const double shares[] = { 0.1, 0.5, 0.8, 0.9, 0.99, 1 };
    for (size_t k = 0; k < 6; k++) {
        gg_factors f = cut(d, 120, 130, 0, shares[k]);
        double all = tail(s, 120, 0), e = error_of(d, 120, 130, &f);
        size_t least = 1;
        while (least < 120 && all - tail(s, 120, least) < shares[k] * all) least++;
        T_CHECKF(e <= (1 - shares[k]) * all * 1.001 + 1e-6, "share %g: error %g of %g", shares[k],
                 e, all);
        T_CHECKF(f.rank >= least && f.rank <= least + 2 + least / 20,
                 "share %g: rank %zu, least %zu", shares[k], f.rank, least);
        gg_factors_free(&f);
    }
    free(d);
}

static void small_and_zero(void)
{
    float zero[6] = { 0 }, row[3] = { 1, 2, 3 }, tiny[4] = { 1e-20f, 0, 0, 2e-20f };
    gg_factors f = cut(zero, 2, 3, 2, 0);
    T_CHECK(f.rank == 0 && !f.tall && f.total == 0);
    gg_factors_free(&f);
    f = cut(row, 1, 3, 5, 0);
    T_EQ(f.rank, 1u);
    T_CHECK(error_of(row, 1, 3, &f) < 1e-12);
    gg_factors_free(&f);
    f = cut(tiny, 2, 2, 0, 1);
    T_EQ(f.rank, 2u);
    T_CHECK(error_of(tiny, 2, 2, &f) < 1e-50);
    gg_factors_free(&f);
}

static void same_bits(void)
{
    gg_factors first = { 0 };
    float *d = malloc(sizeof *d * 90 * 50);
    gg_gauss_fill(d, 90 * 50, 3);
    for (int level = 0; level < 2; level++) {
        for (unsigned threads = 1; threads < 5; threads += 3) {
            gg_lowrank o = { 7, 0, 5, threads };
            gg_factors f;
            gg_error err = GG_ERROR_INIT;
            gg_isa_set(level);
            T_EQ(gg_truncate_matrix(d, 90, 50, &o, &f, &err), GG_OK);
            if (!first.tall) {
                first = f;
                continue;
            }
            T_CHECK(memcmp(f.tall, first.tall, sizeof *f.tall * 90 * 7) == 0);
            T_CHECK(memcmp(f.wide, first.wide, sizeof *f.wide * 7 * 50) == 0);
            gg_factors_free(&f);
        }
    }
    gg_factors_free(&first);
    free(d);
}

static const t_case cases[] = {
    { "as near as the best product of the rank", best_product },
    { "factors of equal size", balanced },
    { "matrices of low rank", low_rank },
    { "the rank that keeps a share", energy },
    { "zero, single rows and tiny values", small_and_zero },
    { "same bits for every level and number of threads", same_bits },
};

T_MAIN(cases)
