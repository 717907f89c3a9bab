/* iq_data.h - tables of the IQ types, shared by all instruction-set levels. Internal.
 *
 * In a grid entry, byte i (little-endian) is element i of the group, an int8.
 *
 *   grid     entries x elements  values
 *   iq2xxs     256 x 8           8 25 43
 *   iq2xs      512 x 8           8 25 43
 *   iq2s      1024 x 8           8 25 43
 *   iq3xxs     256 x 4           4 12 20 28 36 44 52 62
 *   iq3s       512 x 4           1 3 5 7 9 11 13 15
 *   iq1s      2048 x 8           -1 0 1 (IQ1_S and IQ1_M)
 */
#ifndef GG_IQ_DATA_H
#define GG_IQ_DATA_H

#include <stdint.h>

extern const uint64_t gg_iq2xxs_grid[256];
extern const uint64_t gg_iq2xs_grid[512];
extern const uint64_t gg_iq2s_grid[1024];
extern const uint32_t gg_iq3xxs_grid[256];
extern const uint32_t gg_iq3s_grid[512];
extern const uint64_t gg_iq1s_grid[2048];

/* Maps a sign byte to a byte mask: byte i is 0xFF if bit i is set, otherwise 0. */
extern const uint64_t gg_iq_sign8[256];

/* Maps the 7 stored sign bits to a sign byte. Bit 7 is set so that the number of set bits is
 * even. */
extern const uint8_t gg_iq_sign7[128];

#endif
