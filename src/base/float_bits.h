/* float_bits.h - floats and their bit patterns, and powers of two. Internal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t gg_float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float gg_bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* The e of f = m 2^e with 1 <= |m| < 2, or -127 if f is subnormal or zero. */
static inline int gg_float_exponent(float f)
{
    return (int)(gg_float_bits(f) >> 23 & 255) - 127;
}

/* 2^e for -1022 <= e <= 1023. */
static inline double gg_power_of_two(int e)
{
    uint64_t u = (uint64_t)(e + 1023) << 52;
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

/* Whether x >= 0 has no fraction. floor would need libm, with which programs start later. */
static inline bool gg_is_whole(double x)
{
    return x >= 0x1p53 || x == (double)(uint64_t)x;
}
