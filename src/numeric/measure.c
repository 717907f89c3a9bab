/* measure.c - moments, entropy, gap variation and dimension of an array of values. */
#include "numeric/numeric.h"

#include "measure_parts.h"
#include "nkernel.h"
#include "owntrig.h"
#include "profile.h"
#include "sort.h"

#include <math.h>
#include <string.h>

size_t gg_measure_scratch(size_t n)
{
    return n > (SIZE_MAX - 64) / 8 ? SIZE_MAX : 8 * n + 64;
}

size_t gg_copy_finite(const float *x, size_t n, float *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        float v = x[i];
        if (isfinite(v)) out[kept++] = v;
    }
    return kept;
}

double gg_measure_set_range(gg_measure *out, const gg_nk_range *r, uint64_t n)
{
    double range = (double)r->max - (double)r->min;
    out->min = (double)r->min;
    out->max = (double)r->max;
    out->mean = range > 0 ? r->sum / (double)n : out->min;
    return range;
}

void gg_measure_set_moments(gg_measure *out, uint64_t n, gg_nk_central sums, uint64_t *count)
{
    double m2 = sums.m2 / (double)n, m4 = sums.m4 / (double)n;
    out->std = sqrt(m2);
    if (m2 > 0) out->kurtosis = m4 / (m2 * m2) - 3.0;
    gg_entropy_profile(count, (double)n, out);
}

void gg_measure_set_gaps(gg_measure *out, uint64_t n, double squares)
{
    double gaps = (double)(n - 1), mean = (out->max - out->min) / gaps;
    out->cv = sqrt(squares / gaps) / mean;
    out->theta = gg_theta(out->entropy, out->kurtosis, out->cv);
    out->signal = gg_own_sin(out->theta * (3.14159265358979323846 / 180.0));
}

static void measure_finite(const float *x, size_t n, const gg_nk_range *r, gg_nk_key *keys,
                           gg_nk_key *tmp, gg_measure *out)
{
    uint64_t count[GG_DIM_BINS_MAX] = { 0 };
    double range = gg_measure_set_range(out, r, n);
    if (!(range > 0)) return;
    gg_nk_central c = GG_PICK(gg_nk_central)(x, n, out->mean);
    GG_PICK(gg_nk_keys)(x, n, keys);
    gg_nk_key *sorted = gg_sort_keys(keys, n, tmp);
    GG_PICK(gg_nk_histogram_sorted)(sorted, n, out->min, range, count);
    gg_measure_set_moments(out, n, c, count);
    gg_measure_set_gaps(out, n, GG_PICK(gg_nk_gaps)(sorted, n, range / (double)(n - 1)));
}

void gg_measure_values(const float *values, size_t n, void *scratch, gg_measure *out)
{
    memset(out, 0, sizeof *out);
    out->sampled = n;
    uintptr_t skew = (uintptr_t)scratch & 63;
    char *base = (char *)scratch + (skew ? 64 - skew : 0);
    gg_nk_key *keys = (gg_nk_key *)(void *)base, *tmp = keys + n;
    if (n == 0) return;
    gg_nk_range r = GG_PICK(gg_nk_range)(values, n);
    if (!isfinite(r.sum)) { /* not all values are finite; finite floats do not overflow a double */
        /* The keys replace the copy in place; see gg_sort_floats. */
        float *kept = (float *)(void *)base;
        n = gg_copy_finite(values, n, kept);
        out->nonfinite = out->sampled - n;
        if (n == 0) return;
        values = kept;
        r = GG_PICK(gg_nk_range)(values, n);
    }
    measure_finite(values, n, &r, keys, tmp, out);
}
