/* encode_error.c - sums over values and their decoded encodings. */
#include "encode_error.h"

#include <math.h>

gg_status gg_encode_error_add(gg_encode_error *e, const gg_encoded *v, gg_error *err)
{
    gg_encode_error part = { .n = v->n, .weighed = v->weights != NULL };
    gg_status st = gg_decode(v->dtype, v->blocks, v->room, v->n, err);
    for (size_t i = 0; i < v->n && st == GG_OK; i++) {
        double x = v->x[i], d = v->room[i] - x, w = v->weights ? v->weights[i] : 0;
        part.error += d * d;
        part.signal += x * x;
        part.weighed_error += w * d * d;
        part.weighed_sum += w * x * x;
    }
    if (st == GG_OK) gg_encode_error_merge(e, &part);
    return st;
}

void gg_encode_error_merge(gg_encode_error *e, const gg_encode_error *part)
{
    e->n += part->n;
    e->error += part->error;
    e->signal += part->signal;
    e->weighed_error += part->weighed_error;
    e->weighed_sum += part->weighed_sum;
    e->weighed = e->weighed || part->weighed;
}

double gg_encode_rmse(const gg_encode_error *e)
{
    return e->n ? sqrt(e->error / (double)e->n) : 0;
}

double gg_encode_relative2(const gg_encode_error *e, bool weighed)
{
    double error = weighed ? e->weighed_error : e->error;
    double sum = weighed ? e->weighed_sum : e->signal;
    return sum > 0 ? error / sum : 0;
}
