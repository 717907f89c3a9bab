/* owntrig.h - sine, cosine and arc cosine with the same bits on every machine. Internal.
 *
 * The last bit of libm's functions differs between C libraries. These use only correctly rounded
 * + - * / and sqrt. Programs that need nothing else from libm also start faster without it.
 */
#pragma once

/* The error is below 2e-16 for |x| <= 10, and grows to 1e-15 at |x| = 1e5. The result for a larger
 * |x|, an infinity or a NaN is NaN. */
double gg_own_sin(double x);
double gg_own_cos(double x);

/* In radians, 0 to pi, with an error below 5e-16. NaN unless -1 <= x <= 1. */
double gg_own_acos(double x);
