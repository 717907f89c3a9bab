/* scores.c - compute the angle theta from entropy, kurtosis and gap variation. */
#include "numeric/numeric.h"

#include <math.h>

static double clamp(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

double gg_score_entropy(double h)
{
    if (h > 0.7) return clamp((0.95 - h) / 0.25);
    return h < 0.3 ? clamp(h / 0.3) : 1.0;
}

double gg_score_kurtosis(double k)
{
    return clamp(fabs(k) / 3.0);
}

double gg_score_cv(double c)
{
    return clamp((c - 0.5) / 0.5);
}

double gg_theta(double h, double k, double c)
{
    return 90.0 * (gg_score_entropy(h) + gg_score_kurtosis(k) + gg_score_cv(c)) / 3.0;
}

double gg_calibrated(double theta, double null_theta)
{
    if (!(theta > null_theta) || null_theta >= 90.0) return 0.0;
    return 90.0 * (theta - null_theta) / (90.0 - null_theta);
}
