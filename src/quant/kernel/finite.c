/* finite.c - check that every value of a row is finite, as encoders require.
 *
 * The loop does not stop early: a test with an early exit would take longer than the simple
 * encodings themselves. */
#include "finite.h"

#include "lanes.h"

bool GG_K(gg_all_finite)(const float *x, size_t n)
{
    const uint32_t exponent = 0x7f800000u;
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (gg_float_bits(x[i]) & exponent) == exponent ? 1u : 0u;
    return bad == 0;
}
