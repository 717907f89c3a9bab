/* haar.c - the orthonormal Haar transform of a whole array. */
#include "haar_core.h"

#include "numeric/numeric.h"

#include <string.h>

static bool is_power(size_t n)
{
    return n && !(n & (n - 1));
}

bool gg_haar_forward(float *x, size_t n, float *scratch)
{
    if (!is_power(n)) return false;
    for (size_t m = n; m > 1; m /= 2) {
        GG_PICK(gg_nk_haar_split)(x, m / 2, scratch, scratch + m / 2);
        memcpy(x, scratch, m * sizeof *x);
    }
    return true;
}

bool gg_haar_inverse(float *x, size_t n, float *scratch)
{
    if (!is_power(n)) return false;
    for (size_t m = 2; m <= n && m; m *= 2) {
        GG_PICK(gg_nk_haar_merge)(x, x + m / 2, m / 2, scratch);
        memcpy(x, scratch, m * sizeof *x);
    }
    return true;
}
