/* bench_matmul.c - products of float32 matrices against the machine's peak.
 *
 * The peak is that of a loop without memory: independent chains of a multiplication and an
 * addition on registers of 8 floats. The products use no fused multiply-add, because their bits
 * must not depend on the machine, so neither does the loop. Each time is the best of several runs.
 */
#include "base/isa.h"
#include "base/parallel.h"
#include "numeric/matrix.h"
#include "numeric/numeric.h"
#include "organ/gg_quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 3, CHAINS = 14, LOOPS = 2000000 };

#if defined(__x86_64__)
#define PEAK __attribute__((target("avx2"), noinline))
#else
#define PEAK __attribute__((noinline))
#endif

/* CPU time for one thread, which other programs disturb less; else wall-clock time. */
static double now(unsigned threads)
{
    struct timespec t;
    clock_gettime(threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static PEAK void chains(float *x)
{
    gg_f32x8 s[CHAINS], a, b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, x + 8, sizeof b);
#pragma GCC unroll 14
    for (int c = 0; c < CHAINS; c++) s[c] = a * (float)c; /* equal chains would become one */
    for (int i = 0; i < LOOPS; i++) {
#pragma GCC unroll 14
        for (int c = 0; c < CHAINS; c++) s[c] = s[c] * a + b;
    }
#pragma GCC unroll 14
    for (int c = 1; c < CHAINS; c++) s[0] += s[c];
    memcpy(x, &s[0], sizeof s[0]);
}

static gg_status one_peak(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)ctx, (void)i, (void)worker, (void)err;
    float x[16];
    for (int k = 0; k < 16; k++) x[k] = 0.5f;
    chains(x);
    return x[0] > 0 ? GG_OK : GG_EIO;
}

/* Floating-point operations per second of so many threads. */
static double peak(unsigned threads)
{
    double best = 0;
    for (int i = 0; i < RUNS; i++) {
        double start = now(threads);
        gg_error err = GG_ERROR_INIT;
        if (gg_parallel(threads, threads, one_peak, NULL, &err) != GG_OK) exit(1);
        double rate = 2.0 * 8 * CHAINS * LOOPS * threads / (now(threads) - start);
        if (rate > best) best = rate;
    }
    return best;
}

static void product(size_t m, size_t k, size_t n, unsigned threads, double most)
{
    float *x = malloc((m * k + k * n + m * n) * sizeof *x);
    if (!x) exit(1);
    gg_gauss_fill(x, m * k + k * n, 1);
    gg_matrix a = gg_matrix_of(x, m, k), b = gg_matrix_of(x + m * k, k, n),
              c = gg_matrix_of(x + m * k + k * n, m, n);
    for (int level = 0; level <= gg_isa_set(1); level++) {
        double best = 0;
        gg_isa_set(level);
        for (int i = 0; i < RUNS; i++) {
            double start = now(threads);
            gg_error err = GG_ERROR_INIT;
            if (gg_matmul(&c, &a, &b, threads, &err) != GG_OK) exit(1);
            double rate = 2.0 * (double)m * (double)k * (double)n / (now(threads) - start);
            if (rate > best) best = rate;
        }
        printf("matmul %5zu x %-5zu x %-5zu  threads %u  level %d  %6.1f GFLOP/s  %3.0f %% of the "
               "peak of AVX2\n",
               m, k, n, threads, level, best * 1e-9, 100 * best / most);
        gg_isa_set(1);
    }
    free(x);
}

int main(void)
{
    unsigned all = gg_thread_count();
    for (unsigned threads = 1; threads <= all; threads = threads < all ? all : all + 1) {
        double most = peak(threads);
        printf("peak of multiplications and additions, threads %u: %.1f GFLOP/s\n", threads,
               most * 1e-9);
        product(1024, 1024, 1024, threads, most);
        product(2048, 2048, 2048, threads, most);
        product(8192, 256, 256, threads, most);
        product(256, 8192, 256, threads, most);
    }
    return 0;
}
