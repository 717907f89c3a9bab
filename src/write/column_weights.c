#include "column_weights.h"

#include "numeric/numeric.h"
#include "organ/gg_quant.h"

gg_status gg_column_weights_open(gg_column_weights *w, const gg_imatrix *imatrix,
                                 const gg_tensor *t, gg_error *err)
{
    *w = (gg_column_weights){ .rows = t->dims[1] };
    if (!imatrix || !gg_can_decode(t->dtype) || t->elements == 0) return GG_OK;
    return gg_imatrix_read_per_token(imatrix, t, &w->of, err);
}

void gg_column_weights_close(gg_column_weights *w)
{
    gg_importance_free(&w->of);
}

bool gg_column_weights_any(const gg_column_weights *w)
{
    return w->of.mean2 != NULL;
}

uint64_t gg_column_weights_bytes(const gg_column_weights *w)
{
    return w->of.columns * w->of.matrices * sizeof *w->of.mean2;
}

void gg_column_weights_add(const gg_column_weights *w, uint64_t first, const float *a,
                           const float *b, size_t n, double sums[2])
{
    uint64_t columns = w->of.columns;
    if (!w->of.mean2) return;
    for (size_t done = 0; done < n;) {
        /* not 0: a matrix with weights has columns */
        uint64_t row = (first + done) / columns, column = (first + done) % columns;
        size_t run = columns - column < n - done ? (size_t)(columns - column) : n - done;
        /* not 0: a matrix with weights has rows */
        const float *weights = w->of.mean2 + row / w->rows * columns + column;
        GG_PICK(gg_weighted_add)(weights, a + done, b + done, run, sums);
        done += run;
    }
}
