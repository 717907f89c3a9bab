/* arc.c - weights on the arc, and random numbers. */
#include "arc.h"

#include "base/text.h"
#include "ownmath.h"

#include <math.h>

#define PARALLEL 0.9995 /* |cos| above which arc and chord are practically equal */

double gg_cosine(const double gram[3])
{
    double norms = sqrt(gram[0]) * sqrt(gram[2]);
    return norms > 0 ? gram[1] / norms : NAN;
}

bool gg_arc_weights(double cosine, double t, double w[2])
{
    double angle = gg_own_acos(gg_within_one(cosine)), whole = gg_own_sin(angle);
    if (!(whole >= 1e-8)) return false;
    w[0] = gg_own_sin((1 - t) * angle) / whole;
    w[1] = gg_own_sin(t * angle) / whole;
    return true;
}

bool gg_slerp_weights(const double gram[3], double t, double w[2])
{
    double cosine = gg_cosine(gram);
    return fabs(cosine) <= PARALLEL && gg_arc_weights(cosine, t, w);
}

/* ---- random numbers ---------------------------------------------------------------- */

uint64_t gg_random_key(uint64_t seed, const char *text, size_t len, uint64_t number)
{
    uint64_t key = gg_random_bits(seed, 0) ^ gg_hash(GG_HASH, text, len);
    return gg_random_bits(gg_random_bits(key, 0) ^ number, 0);
}
