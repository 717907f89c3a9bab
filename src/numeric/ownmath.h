/* ownmath.h - logarithm, exponential, sine, cosine and arc cosine with the same bits on every
 * machine. Internal.
 *
 * The last bit of libm's functions differs between C libraries. These use only correctly rounded
 * + - * / and sqrt. Programs that need nothing else from libm also start faster without it.
 */
#pragma once

#include <stdint.h>
#include <string.h>

/* The error is below 2e-16 for |x| <= 10, and grows to 1e-15 at |x| = 1e5. The result for a larger
 * |x|, an infinity or a NaN is NaN. */
double gg_own_sin(double x);
double gg_own_cos(double x);

/* In radians, 0 to pi, with an error below 5e-16. NaN unless -1 <= x <= 1. */
double gg_own_acos(double x);

/* The natural logarithm: x = m 2^e with m in [0.7, 1.42), and
 * log m = 2 atanh t = 2 (t + t^3/3 + t^5/5 ...), t = (m - 1) / (m + 1), |t| < 0.172.
 * x must be normal and positive. The error is below 3e-16 of 1 + |log x|.
 */
#define OWN_LN2 0.69314718055994530942

/* log(m 2^e) */
static inline double own_log_of(double e, double m)
{
    double t = (m - 1.0) / (m + 1.0), z = t * t, w = z * z;
    /* Odd and even terms are summed separately, which halves the latency. */
    double even = 1.0 / 3 + w * (1.0 / 7 + w * (1.0 / 11 + w * (1.0 / 15 + w * (1.0 / 19))));
    double odd = 1.0 / 5 + w * (1.0 / 9 + w * (1.0 / 13 + w * (1.0 / 17 + w * (1.0 / 21))));
    return e * OWN_LN2 + 2.0 * (t + t * z * (even + z * odd));
}

static inline double own_log(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    /* After subtracting the bits of 0.7071, the exponent field counts whole octaves. */
    uint64_t shifted = u - UINT64_C(0x3fe6a09e667f3bcd);
    double e = (double)((int64_t)shifted >> 52);
    u -= shifted & UINT64_C(0xfff0000000000000);
    double m;
    memcpy(&m, &u, sizeof m);
    return own_log_of(e, m);
}

/* e^x = 2^k e^r with |r| <= ln 2 / 2: the series of e^r. The error is below 1e-14 of the result.
 * 0 below e^-700; e^700 above. */
static inline double own_exp(double x)
{
    if (!(x > -700)) return 0;
    if (x > 700) x = 700;
    int64_t k = (int64_t)(x / OWN_LN2 + (x < 0 ? -0.5 : 0.5));
    double r = x - (double)k * OWN_LN2, term = 1, sum = 1, scale;
    for (int i = 1; i < 16; i++) {
        term *= r / i;
        sum += term;
    }
    uint64_t u = (uint64_t)(k + 1023) << 52;
    memcpy(&scale, &u, sizeof scale);
    return sum * scale;
}
