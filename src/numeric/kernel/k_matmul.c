/* k_matmul.c - a blocked product of float32 matrices.
 *
 * Blocks of a and b are packed so that the innermost loop reads both in order: a in panels of TALL
 * rows, b in panels of WIDE columns. A tile of TALL x WIDE sums stays in registers while it runs
 * over at most GG_MATMUL_DEPTH terms. The size of the tile depends on the number of registers of
 * the level and does not change the order in which an element is summed.
 */
#include "numeric/matrix.h"
#include "numeric/nlanes.h"

#include <string.h>

#if GG_LEVEL == 1
enum { TALL = 6, LANES = 8 };
#else
enum { TALL = 4, LANES = 4 };
#endif
enum { VECTORS = 2, WIDE = LANES * VECTORS };

/* A register of floats, and the same at any address. Copies through memcpy would make gcc keep the
 * sums in memory. */
typedef float floats __attribute__((vector_size(LANES * 4)));
typedef float floats_at __attribute__((vector_size(LANES * 4), aligned(4), __may_alias__));

_Static_assert(GG_MATMUL_ROWS % TALL == 0 && GG_MATMUL_COLS % WIDE == 0, "whole panels");

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Rows of a or columns of b: value `term` of line l is x[l * line_step + term * term_step]. */
typedef struct strip {
    const float *x;
    size_t lines, depth, line_step, term_step;
} strip;

/* Packs lines into panels of `across` lines: term by term, one value per line. Missing lines of the
 * last panel are 0. */
static inline void pack(float *to, const strip *s, size_t across)
{
    for (size_t first = 0; first < s->lines; first += across, to += across * s->depth) {
        size_t n = least(across, s->lines - first);
        const float *x = s->x + first * s->line_step;
        if (n < across) memset(to, 0, across * s->depth * sizeof *to);
        size_t p = 0;
        if (s->line_step == 1 && n == across) {
            for (; p < s->depth; p++)
                memcpy(to + p * across, x + p * s->term_step, across * sizeof *to);
        } else if (s->term_step == 1 && n == across && across % 4 == 0) {
            for (; p + 4 <= s->depth; p += 4)
                for (size_t l = 0; l < across; l += 4) {
                    gg_nk_square q;
                    GG_UNROLL(4)
                    for (size_t i = 0; i < 4; i++) q.v[i] = NK_AT4(x + (l + i) * s->line_step + p);
                    gg_nk_exchange_sides(&q);
                    GG_UNROLL(4)
                    for (size_t i = 0; i < 4; i++)
                        memcpy(to + (p + i) * across + l, &q.v[i], sizeof q.v[i]);
                }
        }
        for (; p < s->depth; p++)
            for (size_t l = 0; l < n; l++)
                to[p * across + l] = x[l * s->line_step + p * s->term_step];
    }
}

/* The sums of one tile over `depth` terms of two packed panels. */
static inline void tile(floats *sum, const float *a, const float *b, size_t depth)
{
    floats s[TALL][VECTORS];
    GG_UNROLL(6)
    for (int i = 0; i < TALL; i++) {
        GG_UNROLL(2)
        for (int v = 0; v < VECTORS; v++) s[i][v] = (floats){ 0 };
    }
    for (size_t p = 0; p < depth; p++, a += TALL, b += WIDE) {
        floats y[VECTORS];
        GG_UNROLL(2)
        for (int v = 0; v < VECTORS; v++) y[v] = *(const floats_at *)(b + v * LANES);
        GG_UNROLL(6)
        for (int i = 0; i < TALL; i++) {
            GG_UNROLL(2)
            for (int v = 0; v < VECTORS; v++) s[i][v] += y[v] * a[i];
        }
    }
    GG_UNROLL(6)
    for (int i = 0; i < TALL; i++) {
        GG_UNROLL(2)
        for (int v = 0; v < VECTORS; v++) sum[i * VECTORS + v] = s[i][v];
    }
}

/* c = or += one row of sums; only the first n of them belong to c. */
static inline void store(float *c, const floats *sum, size_t n, bool add)
{
    if (n < WIDE) {
        float row[WIDE];
        memcpy(row, sum, sizeof row);
        for (size_t j = 0; j < n; j++) c[j] = add ? c[j] + row[j] : row[j];
        return;
    }
    GG_UNROLL(2)
    for (size_t v = 0; v < VECTORS; v++) {
        floats_at *to = (floats_at *)(c + v * LANES);
        if (add) *to += sum[v];
        else *to = sum[v];
    }
}

/* A block of c from a packed block of a (rows x depth) and one of b (depth x cols). */
typedef struct block {
    const float *a, *b;
    float *c;
    size_t rows, cols, depth, c_step;
    bool add;
} block;

static void multiply(const block *k)
{
    for (size_t j = 0; j < k->cols; j += WIDE) {
        for (size_t i = 0; i < k->rows; i += TALL) {
            floats sum[TALL * VECTORS];
            tile(sum, k->a + i * k->depth, k->b + j * k->depth, k->depth);
            size_t rows = least(TALL, k->rows - i), cols = least(WIDE, k->cols - j);
            for (size_t r = 0; r < rows; r++)
                store(k->c + (i + r) * k->c_step + j, sum + r * VECTORS, cols, k->add);
        }
    }
}

void GG_K(gg_nk_matmul)(const gg_matrix *c, const gg_matrix *a, const gg_matrix *b, float *scratch)
{
    float *packed_a = (float *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    float *packed_b = packed_a + gg_matmul_packed(c->rows, GG_MATMUL_ROWS, a->cols);
    for (size_t i = 0; i < c->rows && a->cols == 0; i++)
        memset(c->x + i * c->row_step, 0, c->cols * sizeof *c->x);
    for (size_t p = 0; p < a->cols; p += GG_MATMUL_DEPTH) {
        block k = { packed_a, packed_b, NULL, 0, 0, 0, c->row_step, p > 0 };
        k.depth = least(GG_MATMUL_DEPTH, a->cols - p);
        for (size_t i = 0; i < c->rows; i += GG_MATMUL_ROWS) {
            k.rows = least(GG_MATMUL_ROWS, c->rows - i);
            strip rows = { a->x + i * a->row_step + p * a->col_step, k.rows, k.depth, a->row_step,
                           a->col_step };
            pack(packed_a, &rows, TALL);
            for (size_t j = 0; j < c->cols; j += GG_MATMUL_COLS) {
                k.cols = least(GG_MATMUL_COLS, c->cols - j);
                strip cols = { b->x + p * b->row_step + j * b->col_step, k.cols, k.depth,
                               b->col_step, b->row_step };
                pack(packed_b, &cols, WIDE);
                k.c = c->x + i * c->row_step + j;
                multiply(&k);
            }
        }
    }
}
