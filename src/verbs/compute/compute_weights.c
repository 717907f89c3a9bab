/* compute_weights.c - repeats the importance of columns for the values of a tensor. */
#include "compute_weights.h"

#include "base/error.h"
#include "verbs/shared/type_keys.h"

#include <string.h>

gg_status gg_weights_open(gg_weights *w, const gg_imatrix *imatrix, const gg_tensor *t,
                          uint64_t stack_first, uint64_t stack_size, gg_error *err)
{
    gg_tensor whole = *t;
    *w = (gg_weights){ .first = stack_first * t->dims[0], .rows = t->dims[1] };
    if (!imatrix || !gg_is_quantized(t->dtype)) return GG_OK;
    if (stack_size) whole.dims[2] = stack_size;
    return gg_imatrix_read(imatrix, &whole, &w->of, err);
}

void gg_weights_close(gg_weights *w)
{
    gg_importance_free(&w->of);
}

const float *gg_weights_of(const gg_weights *w, uint64_t first, size_t n, float *room)
{
    uint64_t columns = w->of.columns;
    if (!w->of.mean2) return NULL;
    for (size_t done = 0; done < n;) {
        uint64_t row = (first + done) / columns, column = (first + done) % columns;
        size_t run = columns - column < n - done ? (size_t)(columns - column) : n - done;
        const float *from = w->of.mean2 + w->first + row / w->rows * columns + column;
        memcpy(room + done, from, run * sizeof *room);
        done += run;
    }
    return room;
}
