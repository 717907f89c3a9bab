/* purify.c - the phases of a purification, and the affine map at the end. */
#include "purify_core.h"

#include "nkernel.h"
#include "numeric/numeric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static gg_status check(uint64_t elements, uint64_t row, double strength, gg_error *err)
{
    if (!(strength >= 0.0 && strength <= 1.0)) {
        gg_fail(err, GG_EUSAGE, "the purification strength %g is not between 0 and 1", strength);
        return gg_fix(err, "give a strength from 0 (no change) to 1");
    }
    if (row == 0 || elements % row) {
        return gg_fail(err, GG_EUSAGE, "the row length %llu does not divide %llu values",
                       (unsigned long long)row, (unsigned long long)elements);
    }
    if (elements > SIZE_MAX / sizeof(float))
        return gg_fail(err, GG_EUNSUPPORTED, "too many values for this machine");
    return GG_OK;
}

gg_purify *gg_purify_new(gg_purify_method method, uint64_t elements, uint64_t row, double strength,
                         gg_error *err)
{
    if (check(elements, row, strength, err) != GG_OK) return NULL;
    gg_purify *p = calloc(1, sizeof *p);
    if (!p) {
        gg_fail(err, GG_ENOMEM, "no memory for a purification");
        return NULL;
    }
    p->method = method;
    p->elements = elements;
    p->row = row;
    p->strength = strength;
    p->scale = 1.0;
    p->active = strength > 0 && elements > 0;
    gg_status status = method == GG_PURIFY_FFT ? gg_purify_fft_init(p, err)
                                               : gg_purify_haar_init(p, err);
    if (status == GG_OK) {
        p->parts = (size_t)((elements + p->part_elements - 1) / p->part_elements);
        p->slot = calloc(p->parts + 1, sizeof *p->slot);
        if (!p->slot) status = gg_fail(err, GG_ENOMEM, "no memory for a purification");
    }
    if (status == GG_OK) return p;
    gg_purify_free(p);
    return NULL;
}

void gg_purify_free(gg_purify *p)
{
    if (!p) return;
    gg_fft_plan_free(p->plan);
    free(p->tree.sum);
    free(p->tree.work);
    free(p->tree.plain);
    free(p->tree.detail);
    free(p->slot);
    free(p);
}

unsigned gg_purify_phases(const gg_purify *p)
{
    (void)p;
    return PURIFY_PHASES;
}

/* If there is nothing to filter, only the scan runs, for the report. */
size_t gg_purify_parts(const gg_purify *p, unsigned phase)
{
    return phase == 0 || (p->active && phase < PURIFY_PHASES) ? p->parts : 0;
}

size_t gg_purify_scratch(const gg_purify *p)
{
    size_t scan = HAAR_TILE * sizeof(float);
    size_t own = p->method == GG_PURIFY_FFT ? gg_purify_fft_scratch(p) : gg_purify_haar_scratch();
    return (own > scan ? own : scan) + 64;
}

static void scan(gg_purify *p, size_t part, const float *x, float *buf)
{
    uint64_t first, left = gg_purify_extent(p, part, &first);
    for (x += first; left;) {
        size_t n = left < HAAR_TILE ? (size_t)left : HAAR_TILE;
        moments m = gg_purify_moments(x, n, buf);
        gg_purify_merge(&p->slot[part].before, &m);
        x += n;
        left -= n;
    }
}

void gg_purify_part(gg_purify *p, unsigned phase, size_t part, float *x, void *scratch)
{
    uintptr_t skew = (uintptr_t)scratch & 63;
    float *own = (float *)(void *)((char *)scratch + (skew ? 64 - skew : 0));
    if (phase == 0) {
        if (p->method == GG_PURIFY_HAAR && p->active) gg_purify_haar_scan(p, part, x, own);
        else scan(p, part, x, own);
    } else if (p->method == GG_PURIFY_HAAR) {
        gg_purify_haar_filter(p, part, x, own);
    } else {
        gg_purify_fft_filter(p, part, x, own);
    }
}

void gg_purify_finish(const gg_purify *p, const float *x, float *out, size_t n)
{
    if (p->active) GG_PICK(gg_nk_affine)(x, out, n, p->scale, p->shift);
    else if (out != x) memcpy(out, x, n * sizeof *x);
}

/* Sum of squares after the filter, around the new mean. */
static double energy_left(const gg_purify *p)
{
    const removal *r = &p->removed;
    double n = (double)p->before.n, e = p->before.m2 - 2 * r->xr + r->rr - r->r * r->r / n;
    return e > 0 ? e : 0;
}

static void join_scan(gg_purify *p)
{
    for (size_t i = 0; i < p->parts; i++) gg_purify_merge(&p->before, &p->slot[i].before);
    const moments *m = &p->before;
    /* Equal values may have a tiny variance from rounding the mean; treat it as none. */
    double least = (double)m->n * m->mean * m->mean * 1e-30;
    p->active = p->active && m->n > 1 && m->m2 > least && isfinite(m->m2);
    /* haar computes squares in float32, which limits the range of std. */
    double std = m->n ? sqrt(m->m2 / (double)m->n) : 0;
    if (p->method == GG_PURIFY_HAAR) p->active = p->active && std > 1e-12 && std < 1e12;
    if (p->active && p->method == GG_PURIFY_HAAR) gg_purify_haar_join(p);
}

/* The mean of y = x - r is mean - r/n. The affine map restores the old mean and std. */
static void join_filter(gg_purify *p)
{
    for (size_t i = 0; i < p->parts; i++) {
        const removal *r = &p->slot[i].removed;
        p->removed.r += r->r;
        p->removed.rr += r->rr;
        p->removed.xr += r->xr;
    }
    double left = energy_left(p), mean = p->before.mean - p->removed.r / (double)p->before.n;
    p->scale = left > 0 ? sqrt(p->before.m2 / left) : 1.0;
    p->shift = p->before.mean - p->scale * mean;
}

void gg_purify_join(gg_purify *p, unsigned phase)
{
    if (phase == 0) join_scan(p);
    else if (phase == 1 && p->active) join_filter(p);
}

void gg_purify_result(const gg_purify *p, gg_purify_report *out)
{
    const moments *m = &p->before;
    double n = (double)m->n;
    memset(out, 0, sizeof *out);
    out->values = p->elements;
    out->nonfinite = p->elements - m->n;
    out->energy_kept = 1.0;
    if (m->n == 0) return;
    out->mean = m->mean;
    out->std = sqrt(m->m2 / n);
    if (!p->active) return;
    /* With u = x - mean: after - before = (A - 1) u - A (r - mean of r). */
    double a = p->scale, r0 = p->removed.rr - p->removed.r * p->removed.r / n;
    double change = (a - 1) * (a - 1) * m->m2 - 2 * a * (a - 1) * p->removed.xr + a * a * r0;
    double size = m->m2 + n * m->mean * m->mean;
    out->energy_kept = energy_left(p) / m->m2;
    out->rel_l2 = change > 0 ? sqrt(change / size) : 0;
}

gg_status gg_purify_values(gg_purify_method method, float *x, uint64_t elements, uint64_t row,
                           double strength, gg_purify_report *out, gg_error *err)
{
    gg_purify *p = gg_purify_new(method, elements, row, strength, err);
    if (!p) return err->status;
    void *scratch = malloc(gg_purify_scratch(p));
    if (!scratch) {
        gg_purify_free(p);
        return gg_fail(err, GG_ENOMEM, "no memory for a purification");
    }
    for (unsigned phase = 0; phase < gg_purify_phases(p); phase++) {
        for (size_t part = 0; part < gg_purify_parts(p, phase); part++)
            gg_purify_part(p, phase, part, x, scratch);
        gg_purify_join(p, phase);
    }
    gg_purify_finish(p, x, x, (size_t)elements);
    gg_purify_result(p, out);
    free(scratch);
    gg_purify_free(p);
    return GG_OK;
}
