/* matmul.c - divides products of matrices into tasks. */
#include "matrix.h"

#include "base/parallel.h"

#include <stdlib.h>

gg_matrix gg_matrix_of(float *x, size_t rows, size_t cols)
{
    return (gg_matrix){ x, rows, cols, cols, 1 };
}

gg_matrix gg_matrix_transposed(const gg_matrix *m)
{
    return (gg_matrix){ m->x, m->cols, m->rows, m->col_step, m->row_step };
}

gg_matrix gg_matrix_part(const gg_matrix *m, size_t row, size_t col, size_t rows, size_t cols)
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
    /* not 0: the side of a tile */
    return n / step + (n % step != 0);
}

typedef struct job {
    const gg_matrix *c, *a, *b;
    size_t tall, wide; /* of the part of c that one task computes */
    bool symmetric;
    float **scratch; /* one per thread */
} job;

gg_status gg_matmul_run(float ***scratch, size_t floats, size_t tasks, gg_task task, void *ctx,
                        unsigned threads, gg_error *err)
{
    if (threads == 0) threads = gg_thread_count();
    if (threads > tasks) threads = tasks ? (unsigned)tasks : 1;
    float **all = *scratch = calloc(threads, sizeof *all);
    bool ok = all && floats <= SIZE_MAX / sizeof(float);
    for (unsigned t = 0; ok && t < threads; t++)
        ok = (all[t] = malloc(floats * sizeof(float))) != NULL;
    gg_status st = ok ? gg_parallel(tasks, threads, task, ctx, err)
                      : gg_fail(err, GG_ENOMEM, "no memory to multiply matrices");
    for (unsigned t = 0; all && t < threads; t++) free(all[t]);
    free(all);
    return st;
}

static gg_status multiply_part(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)err;
    job *j = ctx;
    /* not 0: a matrix with parts has columns */
    size_t across = steps(j->c->cols, j->wide), row = i / across * j->tall,
           col = i % across * j->wide;
    size_t rows = least(j->tall, j->c->rows - row), cols = least(j->wide, j->c->cols - col);
    if (j->symmetric && col + cols <= row) return GG_OK; /* below the diagonal */
    gg_matrix c = gg_matrix_part(j->c, row, col, rows, cols),
              a = gg_matrix_part(j->a, row, 0, rows, j->a->cols),
              b = gg_matrix_part(j->b, 0, col, j->b->rows, cols);
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
    size_t floats = gg_matmul_scratch(least(j->tall, j->c->rows), least(j->wide, j->c->cols),
                                      j->a->cols);
    return gg_matmul_run(&j->scratch, floats, tasks, multiply_part, j, threads, err);
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
