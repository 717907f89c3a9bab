/* matmul.c - divides products of matrices into tasks. */
#include "matmul.h"

#include "base/error.h"
#include "base/parallel.h"
#include "matmul_kernel.h"

#include <stdlib.h>
#include <string.h>

gg_matrix gg_matrix_of(float *x, size_t rows, size_t cols)
{
    return (gg_matrix){ x, rows, cols, cols, 1 };
}

gg_matrix gg_matrix_transposed(const gg_matrix *m)
{
    return (gg_matrix){ m->x, m->cols, m->rows, m->col_step, m->row_step };
}

/* The part of m that starts at (row, col). */
static gg_matrix part_of(const gg_matrix *m, size_t row, size_t col, size_t rows, size_t cols)
{
    gg_matrix part = *m;
    part.x += row * m->row_step + col * m->col_step;
    part.rows = rows;
    part.cols = cols;
    return part;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t steps(size_t n, size_t step)
{
    return n / step + (n % step != 0);
}

typedef struct job {
    const gg_matrix *c, *a, *b;
    size_t tall, wide; /* of the part of c that one task computes */
    bool symmetric, right;
    float **scratch; /* one per thread */
} job;

static void free_scratch(job *j, unsigned threads)
{
    for (unsigned t = 0; j->scratch && t < threads; t++) free(j->scratch[t]);
    free(j->scratch);
}

/* Runs the tasks with `floats` values of scratch per thread. */
static gg_status run(job *j, size_t tasks, size_t floats, gg_task task, unsigned threads,
                     gg_error *err)
{
    if (threads == 0) threads = gg_thread_count();
    if (threads > tasks) threads = tasks ? (unsigned)tasks : 1;
    j->scratch = calloc(threads, sizeof *j->scratch);
    bool ok = j->scratch && floats <= SIZE_MAX / sizeof(float);
    for (unsigned t = 0; ok && t < threads; t++)
        ok = (j->scratch[t] = malloc(floats * sizeof(float))) != NULL;
    gg_status st = ok ? gg_parallel(tasks, threads, task, j, err)
                      : gg_fail(err, GG_ENOMEM, "no memory to multiply matrices");
    free_scratch(j, threads);
    return st;
}

static gg_status multiply_part(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)err;
    job *j = ctx;
    size_t across = steps(j->c->cols, j->wide), row = i / across * j->tall,
           col = i % across * j->wide;
    size_t rows = least(j->tall, j->c->rows - row), cols = least(j->wide, j->c->cols - col);
    if (j->symmetric && col + cols <= row) return GG_OK; /* below the diagonal */
    gg_matrix c = part_of(j->c, row, col, rows, cols), a = part_of(j->a, row, 0, rows, j->a->cols),
              b = part_of(j->b, 0, col, j->b->rows, cols);
    GG_PICK(gg_nk_matmul)(&c, &a, &b, j->scratch[worker]);
    return GG_OK;
}

/* Smaller parts cost more packing, but all threads need work. */
static void choose_parts(job *j, unsigned threads)
{
    if (threads == 0) threads = gg_thread_count();
    j->tall = GG_MATMUL_ROWS;
    j->wide = GG_MATMUL_COLS;
    while (threads > 1 && j->wide > 64 &&
           steps(j->c->rows, j->tall) * steps(j->c->cols, j->wide) < 4 * (size_t)threads) {
        if (j->wide > j->tall) j->wide /= 2;
        else j->tall /= 2;
    }
}

static gg_status multiply(job *j, unsigned threads, gg_error *err)
{
    choose_parts(j, threads);
    size_t tasks = steps(j->c->rows, j->tall) * steps(j->c->cols, j->wide);
    return run(j, tasks, GG_MATMUL_SCRATCH, multiply_part, threads, err);
}

gg_status gg_matmul(const gg_matrix *c, const gg_matrix *a, const gg_matrix *b, unsigned threads,
                    gg_error *err)
{
    job j = { .c = c, .a = a, .b = b };
    return multiply(&j, threads, err);
}

gg_status gg_matmul_symmetric(const gg_matrix *c, const gg_matrix *a, const gg_matrix *b,
                              unsigned threads, gg_error *err)
{
    job j = { .c = c, .a = a, .b = b, .symmetric = true };
    gg_status st = multiply(&j, threads, err);
    for (size_t i = 1; i < c->rows && st == GG_OK; i++)
        for (size_t k = 0; k < i; k++) c->x[i * c->row_step + k] = c->x[k * c->row_step + i];
    return st;
}

/* Copies a band of x, a number of whole rows or columns, and writes its product over it. */
static gg_status multiply_band(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)err;
    job *j = ctx;
    const gg_matrix *x = j->c;
    size_t from = i * j->tall, lines = least(j->tall, (j->right ? x->rows : x->cols) - from);
    gg_matrix band = j->right ? part_of(x, from, 0, lines, x->cols)
                              : part_of(x, 0, from, x->rows, lines);
    float *scratch = j->scratch[worker], *copy = scratch + GG_MATMUL_SCRATCH;
    gg_matrix old = gg_matrix_of(copy, band.rows, band.cols);
    for (size_t r = 0; r < band.rows; r++)
        memcpy(copy + r * band.cols, band.x + r * band.row_step, band.cols * sizeof *copy);
    if (j->right) GG_PICK(gg_nk_matmul)(&band, &old, j->b, scratch);
    else GG_PICK(gg_nk_matmul)(&band, j->b, &old, scratch);
    return GG_OK;
}

gg_status gg_matmul_in_place(const gg_matrix *x, const gg_matrix *p, bool right, unsigned threads,
                             gg_error *err)
{
    size_t lines = right ? x->rows : x->cols, length = right ? x->cols : x->rows;
    job j = { .c = x, .b = p, .right = right, .tall = right ? GG_MATMUL_ROWS : 256 };
    if (threads == 0) threads = gg_thread_count();
    while (threads > 1 && j.tall > 48 && steps(lines, j.tall) < 2 * (size_t)threads) j.tall /= 2;
    if (length > (SIZE_MAX / sizeof(float) - GG_MATMUL_SCRATCH) / j.tall)
        return gg_fail(err, GG_ENOMEM, "no memory to multiply matrices");
    return run(&j, steps(lines, j.tall), GG_MATMUL_SCRATCH + j.tall * length, multiply_band,
               threads, err);
}
