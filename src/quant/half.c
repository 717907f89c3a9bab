/* half.c - convert single values between float and f16.
 *
 *   f16   s eeeee mmmmmmmmmm          value = (-1)^s * 2^(e-15) * (1 + m/1024), e = 1..30
 *                                             (-1)^s * 2^-14 * m/1024,           e = 0
 */
#include "quant/kernel/lanes.h"

#include "quant/quant.h"

float gg_f16_to_f32(uint16_t h)
{
    return gg_half_decode(h);
}
uint16_t gg_f32_to_f16(float f)
{
    return gg_half_encode(f);
}
