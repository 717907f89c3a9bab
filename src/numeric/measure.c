/* measure.c - moments, entropy, gap variation and dimension of an array of values. */
#include "numeric/numeric.h"

#include "nkernel.h"
#include "profile.h"
#include "sort.h"

#include <math.h>
#include <string.h>

size_t gg_measure_scratch(size_t n)
{
    return n > (SIZE_MAX - 64) / 8 ? SIZE_MAX : 8 * n + 64;
}

/* C: std / mean of the gaps between sorted values. Their mean is always range / (n - 1). */
static double gap_cv(const float *x, size_t n, gg_nk_range r, gg_nk_key *keys, gg_nk_key *tmp)
{
    double gaps = (double)(n - 1), mean = ((double)r.max - (double)r.min) / gaps;
    double sum = GG_PICK(gg_nk_gaps)(gg_sort_values(x, n, r.min, r.max, keys, tmp), n, mean);
    return sqrt(sum / gaps) / mean;
}

static size_t copy_finite(const float *x, size_t n, float *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        out[kept] = x[i];
        kept += isfinite(x[i]) != 0;
    }
    return kept;
}

static void measure_finite(const float *x, size_t n, gg_nk_key *keys, gg_nk_key *tmp,
                           gg_measure *out)
{
    uint64_t count[GG_DIM_BINS_MAX] = { 0 };
    gg_nk_range r = GG_PICK(gg_nk_range)(x, n);
    double range = (double)r.max - (double)r.min;
    out->min = (double)r.min;
    out->max = (double)r.max;
    out->mean = range > 0 ? r.sum / (double)n : out->min;
    if (!(range > 0)) return;
    gg_nk_central c = GG_PICK(gg_nk_central)(x, n, out->mean);
    double m2 = c.m2 / (double)n, m4 = c.m4 / (double)n;
    out->std = sqrt(m2);
    if (m2 > 0) out->kurtosis = m4 / (m2 * m2) - 3.0;
    GG_PICK(gg_nk_histogram)(x, n, out->min, range, count);
    gg_entropy_profile(count, (double)n, out);
    out->cv = gap_cv(x, n, r, keys, tmp);
    out->theta = gg_theta(out->entropy, out->kurtosis, out->cv);
    out->signal = sin(out->theta * (3.14159265358979323846 / 180.0));
}

void gg_measure_values(const float *values, size_t n, void *scratch, gg_measure *out)
{
    memset(out, 0, sizeof *out);
    out->sampled = n;
    uintptr_t skew = (uintptr_t)scratch & 63;
    char *base = (char *)scratch + (skew ? 64 - skew : 0);
    gg_nk_key *keys = (gg_nk_key *)(void *)base, *tmp = keys + n;
    size_t bad = GG_PICK(gg_nk_nonfinite)(values, n);
    out->nonfinite = bad;
    if (n == bad) return;
    if (bad) {
        /* The keys replace the copy in place; see gg_sort_floats. While copying, one more slot
         * than the kept values is needed, which is available because n > kept. */
        float *kept = (float *)(void *)base;
        n = copy_finite(values, n, kept);
        values = kept;
    }
    measure_finite(values, n, keys, tmp, out);
}
