/* k_spectrum.c - energies of the bins of a spectrum, and selection by energy. */
#include "numeric/haar_core.h"

#include <string.h>

/* Bits of the largest magnitude. At least 0x7f800000 if a value is not finite. */
uint32_t GG_K(gg_nk_largest)(const float *x, size_t n)
{
    int32_t top = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t u;
        memcpy(&u, x + i, sizeof u);
        u &= INT32_MAX;
        top = u > top ? u : top;
    }
    return (uint32_t)top;
}

void GG_K(gg_nk_bin_energies)(const float *restrict spectrum, size_t bins, float scale,
                              float *restrict energy)
{
    for (size_t k = 0; k < bins; k++) {
        float re = spectrum[2 * k] * scale, im = spectrum[2 * k + 1] * scale;
        energy[k] = 2.0f * (re * re + im * im);
    }
}

void GG_K(gg_nk_keep_below)(float *restrict spectrum, const float *restrict energy, size_t bins,
                            float cut)
{
    for (size_t k = 0; k < bins; k++) {
        float keep = energy[k] < cut ? 1.0f : 0.0f;
        spectrum[2 * k] *= keep;
        spectrum[2 * k + 1] *= keep;
    }
}
