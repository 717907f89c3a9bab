/* ownmath.c - Taylor series after reduction to an eighth of the circle, and Newton's method. */
#include "ownmath.h"

#include <math.h>

/* pi / 2 in parts: the first two have 33 bits, so that their products with small integers are
 * exact. */
#define HALF_PI_1 1.57079632673412561417e+00
#define HALF_PI_2 6.07710050630396597660e-11
#define HALF_PI_3 2.02226624879595063154e-21
#define HALF_PI 1.57079632679489661923
#define HALF_PI_REST 6.12323399573676603587e-17 /* pi/2 - HALF_PI */

/* |x| <= pi/4, where the first omitted term is below 1e-19 */
static double near_sin(double x)
{
    double z = x * x, s = -1.0 / 1307674368000;
    s = 1.0 / 6227020800 + z * s;
    s = -1.0 / 39916800 + z * s;
    s = 1.0 / 362880 + z * s;
    s = -1.0 / 5040 + z * s;
    s = 1.0 / 120 + z * s;
    return x + x * z * (-1.0 / 6 + z * s);
}

static double near_cos(double x)
{
    double z = x * x, s = 1.0 / 20922789888000;
    s = -1.0 / 87178291200 + z * s;
    s = 1.0 / 479001600 + z * s;
    s = -1.0 / 3628800 + z * s;
    s = 1.0 / 40320 + z * s;
    s = -1.0 / 720 + z * s;
    double rest = z * z * (1.0 / 24 + z * s), half = 0.5 * z, most = 1.0 - half;
    return most + ((1.0 - most - half) + rest); /* with what the first subtraction rounded */
}

/* sin(x + quarters pi/2) */
static double turned_sin(double x, int quarters)
{
    if (!(x >= -1e5 && x <= 1e5)) return NAN;
    double n = x * (1 / HALF_PI);
    int k = (int)(n < 0 ? n - 0.5 : n + 0.5);
    double r = ((x - k * HALF_PI_1) - k * HALF_PI_2) - k * HALF_PI_3;
    unsigned q = (unsigned)(k + quarters) % 4;
    double s = q % 2 == 0 ? near_sin(r) : near_cos(r);
    return q < 2 ? s : -s;
}

double gg_own_sin(double x)
{
    return turned_sin(x, 0);
}

double gg_own_cos(double x)
{
    return turned_sin(x, 1);
}

/* |x| <= 1/2. The series is within 1e-4, and each step of Newton's method squares the error. */
static double near_asin(double x)
{
    double z = x * x, y = x + x * z * (1.0 / 6 + z * (3.0 / 40 + z * (15.0 / 336)));
    for (int i = 0; i < 2; i++) y += (x - near_sin(y)) / near_cos(y);
    return y;
}

double gg_own_acos(double x)
{
    if (!(x >= -1 && x <= 1)) return NAN;
    if (x > 0.5) return 2 * near_asin(sqrt((1 - x) / 2));
    if (x < -0.5) return 2 * (HALF_PI - (near_asin(sqrt((1 + x) / 2)) - HALF_PI_REST));
    return HALF_PI - (near_asin(x) - HALF_PI_REST);
}
