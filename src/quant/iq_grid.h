/* iq_grid.h - the grids of the IQ types: their points, and which of them are near. Internal.
 *
 * A group of 8 values with 3 levels is one of 3^8 points of a lattice, and a group of 4 values with
 * 8 levels one of 8^4. A grid contains a few hundred of them, which are numbered in ascending order
 * when the levels are read as the digits of a number, that of element 0 last.
 *
 *   grid       entries x elements   levels
 *   iq2xxs     256 x 8              8 25 43
 *   iq2xs      512 x 8              8 25 43
 *   iq2s      1024 x 8              8 25 43
 *   iq3xxs     256 x 4              4 12 20 28 36 44 52 62
 *   iq3s       512 x 4              1 3 5 7 9 11 13 15
 *   iq1s      2048 x 8              -1 0 1 (IQ1_S and IQ1_M)
 */
#pragma once

#include <stdint.h>

/* The grids as sets of lattice points: bit p % 64 of word p / 64 is set if the grid contains point
 * p. Made of grids.txt. */
enum { GG_IQ_WORDS_8 = (6561 + 63) / 64, GG_IQ_WORDS_4 = 4096 / 64 };
extern const uint64_t gg_iq_set_2xxs[], gg_iq_set_2xs[], gg_iq_set_2s[], gg_iq_set_1s[],
    gg_iq_set_3xxs[], gg_iq_set_3s[];

/* Byte i (little-endian) of an entry is element i of the group, an int8. gg_iq_grids_fill must be
 * called first. */
extern uint64_t gg_iq2xxs_grid[256], gg_iq2xs_grid[512], gg_iq2s_grid[1024], gg_iq1s_grid[2048];
extern uint32_t gg_iq3xxs_grid[256], gg_iq3s_grid[512];

/* Fills the grids if the type has one. Only the first such call does something, which takes less
 * than a tenth of a millisecond. May be called from any thread. codec.c and gg_pick_of call it. */
void gg_iq_grids_fill(uint32_t dtype);

/* Maps a sign byte to a byte mask: byte i is 0xFF if bit i is set, otherwise 0. */
extern const uint64_t gg_iq_sign8[256];

/* Maps the 7 stored sign bits to a sign byte. Bit 7 is set so that the number of set bits is
 * even. */
extern const uint8_t gg_iq_sign7[128];

typedef enum gg_iq_grid {
    GG_GRID_2XXS,
    GG_GRID_2XS,
    GG_GRID_2S,
    GG_GRID_1S,
    GG_GRID_3XXS,
    GG_GRID_3S,
    GG_GRID_COUNT
} gg_iq_grid;

/* For encoders, which first round their values to the lattice. The map then lists the points of the
 * grid that they should compare: the lattice point itself if it is in the grid, otherwise all
 * points of the nearest one to three shells around it.
 *
 *   code, 8 values    15 14  13 12        1  0      the level, 0..2, of each
 *                    |  v7  |  v6  | ... |  v0  |
 *   code, 4 values    15   12 11   8 7    4 3    0  the level, 0..7, of each
 *                    |   v3  |   v2 |   v1 |   v0 |
 *
 * cell[code] is the index in `list` where the candidates of that code start: first their number,
 * at least 1, then one word per candidate, which is its code | its index in the grid << 16. */
typedef struct gg_iq_map {
    const uint32_t *cell;
    const uint32_t *list;
} gg_iq_map;

/* Returns the map of a grid. The first call for each grid builds it, which takes about ten
 * milliseconds. May be called from any thread. Cannot fail, because the memory is static. */
gg_iq_map gg_iq_map_get(gg_iq_grid grid);
