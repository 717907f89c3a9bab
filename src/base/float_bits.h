/* float_bits.h - the bit pattern of a float, and the float of a bit pattern. Internal. */
#ifndef GG_FLOAT_BITS_H
#define GG_FLOAT_BITS_H

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

#endif
