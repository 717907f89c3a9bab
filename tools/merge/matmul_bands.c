/* matmul_bands.c - products with a square matrix in place, in bands of rows or columns. */
#include "matmul_bands.h"

#include <stdlib.h>
#include <string.h>

typedef struct job {
    const gg_matrix *c, *b;
    size_t tall; /* lines of a band */
    bool right;
    float **scratch; /* one per thread */
    size_t packed;   /* floats of scratch for a product */
    size_t room;     /* floats per copy of a band */
    const double *k;
    double *sums;
} job;

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t steps(size_t n, size_t step)
{
    /* not 0: the side of a tile */
    return n / step + (n % step != 0);
}

/* Bands are whole rows of x, or whole columns. Each task has room for `copies` of its band. */
static gg_matrix band_of(const job *j, size_t i)
{
    const gg_matrix *x = j->c;
    size_t from = i * j->tall, lines = least(j->tall, (j->right ? x->rows : x->cols) - from);
    return j->right ? gg_matrix_part(x, from, 0, lines, x->cols)
                    : gg_matrix_part(x, 0, from, x->rows, lines);
}

static gg_matrix copy_of(const gg_matrix *band, float *to)
{
    for (size_t r = 0; r < band->rows; r++)
        memcpy(to + r * band->cols, band->x + r * band->row_step, band->cols * sizeof *to);
    return gg_matrix_of(to, band->rows, band->cols);
}

static void times(const job *j, const gg_matrix *to, const gg_matrix *from, float *scratch)
{
    if (j->right) GG_PICK(gg_nk_matmul)(to, from, j->b, scratch);
    else GG_PICK(gg_nk_matmul)(to, j->b, from, scratch);
}

static gg_status run_bands(job *j, size_t copies, gg_task task, unsigned threads, gg_error *err)
{
    const gg_matrix *x = j->c;
    size_t lines = j->right ? x->rows : x->cols, length = j->right ? x->cols : x->rows;
    j->tall = j->right ? GG_MATMUL_ROWS : 256;
    if (threads == 0) threads = gg_thread_count();
    while (threads > 1 && j->tall > 48 && steps(lines, j->tall) < 2 * (size_t)threads) j->tall /= 2;
    size_t side = least(j->tall, lines ? lines : 1);
    j->packed = gg_matmul_scratch(j->right ? side : length, j->right ? length : side, length);
    /* not 0: both are at least 1 */
    if (length > (SIZE_MAX / sizeof(float) - j->packed) / side / copies)
        return gg_fail(err, GG_ENOMEM, "no memory to multiply matrices");
    j->room = side * length;
    return gg_matmul_run(&j->scratch, j->packed + copies * j->room, steps(lines, j->tall), task, j,
                         threads, err);
}

static gg_status multiply_band(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)err;
    job *j = ctx;
    float *scratch = j->scratch[worker];
    gg_matrix band = band_of(j, i), old = copy_of(&band, scratch + j->packed);
    times(j, &band, &old, scratch);
    return GG_OK;
}

gg_status gg_matmul_in_place(const gg_matrix *x, const gg_matrix *p, bool right, unsigned threads,
                             gg_error *err)
{
    job j = { .c = x, .b = p, .right = right };
    return run_bands(&j, 1, multiply_band, threads, err);
}

static gg_status polynomial_band(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)err;
    job *j = ctx;
    float *scratch = j->scratch[worker], *x0 = scratch + j->packed, *x1 = x0 + j->room;
    gg_matrix band = band_of(j, i), old = copy_of(&band, x0),
              once = gg_matrix_of(x1, band.rows, band.cols);
    times(j, &once, &old, scratch);
    times(j, &band, &once, scratch);
    for (size_t r = 0; r < band.rows; r++) {
        float *x = band.x + r * band.row_step;
        for (size_t c = 0; c < band.cols; c++) {
            size_t at = r * band.cols + c;
            x[c] = (float)(j->k[0] * (double)x0[at] +
                           (j->k[1] * (double)x1[at] + j->k[2] * (double)x[c]));
        }
    }
    return GG_OK;
}

gg_status gg_matmul_polynomial(const gg_matrix *x, const gg_matrix *g, const double *k, bool right,
                               unsigned threads, gg_error *err)
{
    job j = { .c = x, .b = g, .right = right, .k = k };
    return run_bands(&j, 2, polynomial_band, threads, err);
}

/* Sums the squares of each row, so that the bands do not matter. */
static gg_status square_band(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)err;
    job *j = ctx;
    float *scratch = j->scratch[worker];
    gg_matrix band = band_of(j, i),
              square = gg_matrix_of(scratch + j->packed, band.rows, band.cols);
    times(j, &square, &band, scratch);
    for (size_t r = 0; r < band.rows; r++) {
        double sum = 0;
        for (size_t c = 0; c < band.cols; c++) {
            double v = (double)square.x[r * band.cols + c];
            sum += v * v;
        }
        j->sums[i * j->tall + r] = sum;
    }
    return GG_OK;
}

gg_status gg_matmul_square_norm(const gg_matrix *g, unsigned threads, double *sum, gg_error *err)
{
    job j = { .c = g, .b = g, .right = true };
    j.sums = calloc(g->rows ? g->rows : 1, sizeof *j.sums);
    if (!j.sums) return gg_fail(err, GG_ENOMEM, "no memory to multiply matrices");
    gg_status st = run_bands(&j, 1, square_band, threads, err);
    *sum = 0;
    for (size_t i = 0; i < g->rows; i++) *sum += j.sums[i];
    free(j.sums);
    return st;
}
