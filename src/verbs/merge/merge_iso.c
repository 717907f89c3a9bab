/* merge_iso.c - isotropic merging: see numeric/polar.h. */
#include "merge_kinds.h"
#include "merge_whole.h"

#include "numeric/polar.h"

/* The sum of all differences with equal singular values, times t. A vector has no singular values
 * to make equal: its mean difference is used, times t. */
gg_status gg_merge_iso(const gg_whole_matrix *w, gg_error *err)
{
    float scale = (float)w->p[GG_MP_T];
    if (w->rows > 1 && w->cols > 1) {
        gg_status st = gg_isotropic(w->d, w->rows, w->cols, w->threads, NULL, err);
        if (st != GG_OK) return st;
    } else {
        scale /= (float)w->models;
    }
    for (size_t i = 0; i < w->rows * w->cols; i++) w->d[i] *= scale;
    return GG_OK;
}
