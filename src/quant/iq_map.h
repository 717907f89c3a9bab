/* iq_map.h - from a point of the full lattice to the grid points near it. Internal.
 *
 * An IQ grid holds a few hundred of the 3^8 or 8^4 points that 8 values of 3 levels,
 * or 4 of 8, can take. An encoder rounds its values to the lattice first, and the
 * map says which grid points are worth a comparison: the point itself if it is in
 * the grid, else all points of the one to three nearest shells around it.
 *
 *   code, 8 values    15 14  13 12        1  0      the level, 0..2, of each
 *                    |  v7  |  v6  | ... |  v0  |
 *   code, 4 values    15   12 11   8 7    4 3    0  the level, 0..7, of each
 *                    |   v3  |   v2 |   v1 |   v0 |
 */
#ifndef GG_IQ_MAP_H
#define GG_IQ_MAP_H

#include "iq_data.h"

typedef enum gg_iq_grid {
    GG_GRID_2XXS,
    GG_GRID_2XS,
    GG_GRID_2S,
    GG_GRID_1S,
    GG_GRID_3XXS,
    GG_GRID_3S,
    GG_GRID_COUNT
} gg_iq_grid;

/* cell[code] is where the candidates of a code start in list: their number, at
 * least 1, then a word for each: its code, and its index in the grid << 16. */
typedef struct gg_iq_map {
    const uint32_t *cell;
    const uint32_t *list;
} gg_iq_map;

/* Built at the first call for each grid, some ten milliseconds; safe from any
 * thread. Never fails: the memory is static, and untouched until then. */
gg_iq_map gg_iq_map_get(gg_iq_grid grid);

#endif
