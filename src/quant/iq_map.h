/* iq_map.h - find the points of an IQ grid that are near a point of the full lattice. Internal.
 *
 * 8 values with 3 levels can take 3^8 points, and 4 values with 8 levels can take 8^4 points. An
 * IQ grid contains only a few hundred of them. An encoder first rounds its values to the lattice.
 * The map then lists the grid points that it should compare: the point itself if it is in the
 * grid, otherwise all points of the nearest one to three shells around it.
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

/* cell[code] is the index in `list` where the candidates of that code start: first their number,
 * at least 1, then one word per candidate, which is its code | its index in the grid << 16. */
typedef struct gg_iq_map {
    const uint32_t *cell;
    const uint32_t *list;
} gg_iq_map;

/* Returns the map of a grid. The first call for each grid builds it, which takes about ten
 * milliseconds. May be called from any thread. Cannot fail, because the memory is static. */
gg_iq_map gg_iq_map_get(gg_iq_grid grid);

#endif
