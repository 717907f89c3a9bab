/* profile.c - entropy and dimension (the growth of entropy with the number of bins). */
#include "profile.h"

#include "numeric/numeric.h"
#include "ownlog.h"

/* Shannon entropy in bits of counts that sum to n. */
static double entropy_bits(const uint64_t *count, size_t bins, double n)
{
    double h = 0, log_n = own_log(n);
    for (size_t b = 0; b < bins; b++)
        if (count[b]) h += (double)count[b] * (log_n - own_log((double)count[b]));
    return h / (n * OWN_LN2);
}

static void halve(uint64_t *count, size_t bins)
{
    for (size_t b = 0; b < bins / 2; b++) count[b] = count[2 * b] + count[2 * b + 1];
}

/* The dimension is the least squares slope of the entropy at 16, 32, ... 1024 bins over log2 of the
 * number of bins. */
void gg_entropy_profile(uint64_t *count, double n, gg_measure *out)
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
        halve(count, bins);
    }
    out->dimension = (steps * sxy - sx * sy) / (steps * sxx - sx * sx);
}
