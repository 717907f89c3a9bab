#include "measure_importance.h"

#include "organ/gg_quant.h"

#include <math.h>

#define PIECE 1024 /* values decoded at once; a multiple of every block length */

gg_status gg_importance_start(importance_taker *k, const gg_imatrix *imatrix, const gg_tensor *t,
                              bool *any, gg_error *err)
{
    *k = (importance_taker){ .dtype = t->dtype };
    gg_status st = gg_column_weights_open(&k->weights, imatrix, t, err);
    *any = gg_column_weights_any(&k->weights);
    return st;
}

gg_status gg_importance_add(importance_taker *k, const uint8_t *bytes, uint64_t first, uint64_t n,
                            gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(k->dtype);
    float x[PIECE];
    gg_status st = GG_OK;
    for (uint64_t at = 0; at < n && st == GG_OK; at += PIECE) {
        size_t got = n - at < PIECE ? (size_t)(n - at) : PIECE;
        st = gg_decode(k->dtype, bytes + at / info->block_elems * info->block_bytes, x, got, err);
        if (st == GG_OK) gg_column_weights_add(&k->weights, first + at, x, x, got, k->sums);
    }
    return st;
}

double gg_importance_end(importance_taker *k)
{
    double importance = gg_column_weights_any(&k->weights) ? k->sums[0] : NAN;
    gg_column_weights_close(&k->weights);
    *k = (importance_taker){ 0 };
    return importance;
}
