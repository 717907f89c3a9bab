/* purify_run.c - helpers of both methods for a run of values: its extent, its moments, and a copy
 * with finite values only. */
#include "purify_core.h"

#include "nkernel.h"
#include "numeric/numeric.h"

#include <math.h>

uint64_t gg_purify_extent(const gg_purify *p, size_t part, uint64_t *first)
{
    *first = (uint64_t)part * p->part_elements;
    uint64_t left = p->elements - *first;
    return left < p->part_elements ? left : p->part_elements;
}

static size_t compact(const float *x, size_t n, float *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i])) out[kept++] = x[i];
    return kept;
}

const float *gg_purify_sound(const float *x, size_t n, float *buf)
{
    if (GG_PICK(gg_nk_nonfinite)(x, n) == 0) return x;
    size_t kept = compact(x, n, buf);
    float mean = kept ? (float)(GG_PICK(gg_nk_range)(buf, kept).sum / (double)kept) : 0.0f;
    for (size_t i = 0; i < n; i++) buf[i] = isfinite(x[i]) ? x[i] : mean;
    return buf;
}

/* The update of Chan, Golub and LeVeque. */
void gg_purify_merge(moments *a, const moments *b)
{
    if (b->n == 0) return;
    double na = (double)a->n, nb = (double)b->n, d = b->mean - a->mean, all = na + nb;
    a->m2 += b->m2 + d * d * (na / all) * nb;
    a->mean += d * (nb / all);
    a->n += b->n;
}

moments gg_purify_moments(const float *x, size_t n, float *buf)
{
    moments m = { n, 0, 0 };
    bool finite = true;
    double sum = GG_PICK(gg_nk_sum)(x, n, &finite);
    if (!finite) {
        m.n = compact(x, n, buf);
        x = buf;
        sum = GG_PICK(gg_nk_sum)(x, (size_t)m.n, &finite);
    }
    if (m.n == 0) return m;
    m.mean = sum / (double)m.n;
    m.m2 = GG_PICK(gg_nk_variance)(x, (size_t)m.n, m.mean);
    return m;
}
