/* bench_purify.c - the filters of organ-purify, one thread, against memcpy and numpy.
 *
 *   bench_purify [haar|fft]
 *
 * haar   time of memcpy of the values / time of the filter, in memory (64 MiB)
 * fft    time of numpy's rfft and irfft of the rows / time of the filter, for row lengths of
 *        models. Without python3 and numpy: times only.
 * Times are CPU times of this thread, the best of several runs, taken by turns.
 */
#include "base/isa.h"
#include "numeric/numeric.h"
#include "organ/gg_quant.h"
#include "purify/purify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VALUES = 16 << 20, FFT_VALUES = 4 << 20, RUNS = 7 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *floats(size_t n)
{
    float *x = malloc(n * sizeof *x);
    if (!x) exit(1);
    gg_gauss_fill(x, n, 1);
    return x;
}

static double purify(gg_purify_method method, float *x, size_t n, size_t row, double strength)
{
    gg_error err = GG_ERROR_INIT;
    gg_filter f = { method, strength, row, 1 };
    gg_filtered r;
    double start = now();
    if (GG_PICK(gg_filter_values)(&f, x, n, &r, &err) != GG_OK) exit(1);
    return now() - start;
}

static void least(double *best, double t)
{
    if (t < *best) *best = t;
}

static void haar(void)
{
    float *x = floats(VALUES), *y = floats(VALUES);
    for (int level = 0; level <= gg_isa_set(1); level++) {
        double copy = 1e9, filter = 1e9;
        gg_isa_set(level);
        for (int i = 0; i < RUNS; i++) {
            double start = now();
            memcpy(y, x, (size_t)VALUES * sizeof *x);
            least(&copy, now() - start);
            least(&filter, purify(GG_PURIFY_HAAR, y, VALUES, 4096, GG_PURIFY_HAAR_STRENGTH));
        }
        printf("haar   level %d   memcpy %.2f ns/value   filter %.2f ns/value   ratio %.3f\n",
               level, copy * 1e9 / VALUES, filter * 1e9 / VALUES, copy / filter);
    }
    free(x), free(y);
}

/* Seconds that numpy takes for rfft and irfft of float32 rows; 0 without numpy. */
static double numpy(size_t row, size_t rows)
{
    char command[1024];
    double t = 0;
    const char *python = getenv("PYTHON");
    snprintf(command, sizeof command,
             "%s -c 'import time, numpy as np\n"
             "x = np.random.default_rng(1).standard_normal((%zu, %zu)).astype(np.float32)\n"
             "def run():\n"
             "  t = time.thread_time(); np.fft.irfft(np.fft.rfft(x), x.shape[1]); return "
             "time.thread_time() - t\n"
             "print(min(run() for i in range(5)))' 2> /dev/null",
             python ? python : "/usr/bin/python3", rows, row);
    FILE *p = popen(command, "r");
    if (!p) return 0;
    if (fscanf(p, "%lf", &t) != 1) t = 0;
    pclose(p);
    return t;
}

static void fft(void)
{
    static const size_t lengths[] = { 256, 1024, 3584, 4096, 5120, 11008, 4099, 5 };
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        size_t row = lengths[k], rows = FFT_VALUES / row, n = row * rows;
        float *x = floats(n);
        double filter = 1e9;
        for (int i = 0; i < RUNS; i++)
            least(&filter, purify(GG_PURIFY_FFT, x, n, row, GG_PURIFY_FFT_STRENGTH));
        double theirs = numpy(row, rows);
        printf("fft    row %-6zu filter %.2f ns/value", row, filter * 1e9 / (double)n);
        if (theirs > 0)
            printf("   numpy %.2f   ratio %.2f", theirs * 1e9 / (double)n, theirs / filter);
        putchar('\n');
        free(x);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "fft") != 0) haar();
    if (strcmp(what, "haar") != 0) fft();
    return 0;
}
