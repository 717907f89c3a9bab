/* arc.h - weights on the arc between two arrays, and random numbers that are a function of their
 * index. Internal. */
#pragma once

#include "organ/gg_status.h"

/* The nearest number to c in -1..1; -1 if c is NaN. */
static inline double gg_within_one(double c)
{
    return c < 1 ? (c > -1 ? c : -1) : c >= 1 ? 1 : -1;
}

/* The cosine of two arrays from their products AA, AB, BB; NAN if one of them is 0. */
double gg_cosine(const double gram[3]);

/* Weights of A and B at position t of the arc between them. Returns false if they are parallel:
 * use the straight line. */
bool gg_arc_weights(double cosine, double t, double w[2]);

/* The weights of slerp at t: on the arc, unless the arrays are nearly parallel (|cos| above 0.9995)
 * or one of them is 0. Then false is returned, and the straight line must be used. */
bool gg_slerp_weights(const double gram[3], double t, double w[2]);

/* ---- random numbers ------------------------------------------------------------ */

#define GG_RANDOM_STEP 0x9e3779b97f4a7c15u
#define GG_RANDOM_MIX 0xbf58476d1ce4e5b9u
#define GG_RANDOM_MIX2 0x94d049bb133111ebu

/* The random numbers of merges: number i of a stream is a function of the stream's key and i
 * alone, so it does not depend on the order of the work. It is output i of the generator
 * SplitMix64 (Steele, Lea and Flood, 2014) seeded with the key. */
static inline uint64_t gg_random_bits(uint64_t key, uint64_t i)
{
    uint64_t z = key + (i + 1) * GG_RANDOM_STEP;
    z = (z ^ (z >> 30)) * GG_RANDOM_MIX;
    z = (z ^ (z >> 27)) * GG_RANDOM_MIX2;
    return z ^ (z >> 31);
}

/* The key of a stream: of a seed, a text such as a tensor's name, and a number. */
uint64_t gg_random_key(uint64_t seed, const char *text, size_t len, uint64_t number);
