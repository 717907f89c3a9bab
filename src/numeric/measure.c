/* measure.c - moments, entropy, gap variation and dimension of an array of values. */
#include "numeric.h"

#include "nkernel.h"
#include "ownmath.h"

#include <math.h>
#include <string.h>

/* ---- samples, entropy and scores ------------------------------------------------------ */

__extension__ typedef unsigned __int128 u128;

uint64_t gg_sample_count(uint64_t elements, uint64_t wanted)
{
    return wanted == 0 || wanted > elements ? elements : wanted;
}

uint64_t gg_sample_index(uint64_t i, uint64_t elements, uint64_t count)
{
    if (count == 0) return 0;
    if (count == elements) return i;
    if ((i | elements) >> 32 == 0) return i * elements / count;
    return (uint64_t)((u128)i * elements / count);
}

/* Shannon entropy in bits of counts that sum to n. */
static double entropy_bits(const uint64_t *count, size_t bins, double n)
{
    double h = 0, log_n = own_log(n);
    for (size_t b = 0; b < bins; b++)
        if (count[b]) h += (double)count[b] * (log_n - own_log((double)count[b]));
    return h / (n * OWN_LN2);
}

/* Sets entropy and dimension from GG_DIM_BINS_MAX counts that sum to n >= 1, and overwrites the
 * counts. The dimension is the least squares slope of the entropy at 16, 32, ... 1024 bins over
 * log2 of the number of bins. */
static void set_entropy(uint64_t *count, double n, gg_measure *out)
{
    double steps = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    double x = 10; /* log2 of the number of bins */
    for (size_t bins = GG_DIM_BINS_MAX; bins >= GG_DIM_BINS_MIN; bins /= 2, x -= 1) {
        double y = entropy_bits(count, bins, n);
        if (bins == GG_BINS) out->entropy = y / 8;
        steps += 1;
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
        for (size_t b = 0; b < bins / 2; b++) count[b] = count[2 * b] + count[2 * b + 1];
    }
    out->dimension = (steps * sxy - sx * sy) / (steps * sxx - sx * sx);
}

static double clamp_score(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

double gg_score_entropy(double h)
{
    if (h > 0.7) return clamp_score((0.95 - h) / 0.25);
    return h < 0.3 ? clamp_score(h / 0.3) : 1.0;
}

double gg_score_kurtosis(double k)
{
    return clamp_score(fabs(k) / 3.0);
}

double gg_score_cv(double c)
{
    return clamp_score((c - 0.5) / 0.5);
}

double gg_theta(double h, double k, double c)
{
    return 90.0 * (gg_score_entropy(h) + gg_score_kurtosis(k) + gg_score_cv(c)) / 3.0;
}

/* ---- steps of all ways ------------------------------------------------------------- */

size_t gg_keep_finite(const float *x, size_t n, float *out)
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
    set_entropy(count, (double)n, out);
}

void gg_measure_set_gaps(gg_measure *out, uint64_t n, double squares)
{
    double gaps = (double)(n - 1), mean = (out->max - out->min) / gaps;
    out->cv = sqrt(squares / gaps) / mean;
    out->theta = gg_theta(out->entropy, out->kurtosis, out->cv);
    out->signal = gg_own_sin(out->theta * (3.14159265358979323846 / 180.0));
}

/* ---- an array ------------------------------------------------------------------------ */

size_t gg_measure_scratch(size_t n)
{
    return n > (SIZE_MAX - 64) / 8 ? SIZE_MAX : 8 * n + 64;
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
        /* The keys replace the copy in place. */
        float *kept = (float *)(void *)base;
        n = gg_keep_finite(values, n, kept);
        out->nonfinite = out->sampled - n;
        if (n == 0) return;
        values = kept;
        r = GG_PICK(gg_nk_range)(values, n);
    }
    measure_finite(values, n, &r, keys, tmp, out);
}
