/* iq_map.c - build the lists of neighbours that iq_map.h describes.
 *
 * Distances are unweighted and count in levels. A code is split into its two bytes, whose
 * 256 x 256 distances are tabulated once. The distance of two points then takes two loads, and
 * all 6561 x 2048 pairs of the largest grid take a few milliseconds.
 */
#include "iq_map.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { CODES = 65536, MAX_POINTS = 2048, MAX_DISTANCE = 4 * 49 };

typedef struct grid_spec {
    const uint64_t *points8; /* one of the two is NULL */
    const uint32_t *points4;
    unsigned points;
    unsigned shells; /* number of different distances to list, the nearest first */
    int low, step;   /* value of level 0, and difference between levels */
    uint32_t *cell, *list;
    uint32_t list_size;
} grid_spec;

/* The exact sizes of the lists; build() never writes beyond them. */
enum {
    SIZE_2XXS = 119974,
    SIZE_2XS = 188794,
    SIZE_2S = 52301,
    SIZE_1S = 90977,
    SIZE_3XXS = 23337,
    SIZE_3S = 29341
};
#define MEMORY(name, size) static uint32_t cell_##name[CODES], list_##name[size]
MEMORY(2xxs, SIZE_2XXS);
MEMORY(2xs, SIZE_2XS);
MEMORY(2s, SIZE_2S);
MEMORY(1s, SIZE_1S);
MEMORY(3xxs, SIZE_3XXS);
MEMORY(3s, SIZE_3S);

static const grid_spec specs[GG_GRID_COUNT] = {
    { gg_iq2xxs_grid, NULL, 256, 2, 8, 17, cell_2xxs, list_2xxs, SIZE_2XXS },
    { gg_iq2xs_grid, NULL, 512, 2, 8, 17, cell_2xs, list_2xs, SIZE_2XS },
    { gg_iq2s_grid, NULL, 1024, 1, 8, 17, cell_2s, list_2s, SIZE_2S },
    { gg_iq1s_grid, NULL, 2048, 2, -1, 1, cell_1s, list_1s, SIZE_1S },
    { NULL, gg_iq3xxs_grid, 256, 2, 4, 8, cell_3xxs, list_3xxs, SIZE_3XXS },
    { NULL, gg_iq3s_grid, 512, 3, 1, 2, cell_3s, list_3s, SIZE_3S },
};

/* The last two values of IQ3_XXS, 52 and 62, are not exact multiples of the step, so this
 * rounds to the nearest level. */
static unsigned level_of(const grid_spec *s, int8_t value)
{
    return (unsigned)((value - s->low + s->step / 2) / s->step);
}

static uint16_t point_code(const grid_spec *s, unsigned index)
{
    unsigned code = 0;
    if (s->points8)
        for (int i = 0; i < 8; i++)
            code |= level_of(s, (int8_t)(s->points8[index] >> 8 * i)) << 2 * i;
    else
        for (int i = 0; i < 4; i++)
            code |= level_of(s, (int8_t)(s->points4[index] >> 8 * i)) << 4 * i;
    return (uint16_t)code;
}

/* Whether every level in the code exists; other codes get no list. */
static bool is_code(const grid_spec *s, unsigned code)
{
    return s->points8 ? (code & code >> 1 & 0x5555u) == 0 : (code & 0x8888u) == 0;
}

/* Squared distance between one byte of each of two codes. */
static unsigned half_distance(unsigned a, unsigned b, int bits)
{
    unsigned sum = 0, mask = (1u << bits) - 1;
    for (int i = 0; i < 8; i += bits) {
        const int d = (int)(a >> i & mask) - (int)(b >> i & mask);
        sum += (unsigned)(d * d);
    }
    return sum;
}

static void fill_distances(const grid_spec *s, uint8_t (*half)[256])
{
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            half[a][b] = (uint8_t)half_distance(a, b, s->points8 ? 2 : 4);
}

/* The distance of the outermost shell to list. */
static unsigned shell_limit(const uint8_t *distance, const grid_spec *s)
{
    bool seen[MAX_DISTANCE + 1] = { false };
    for (unsigned j = 0; j < s->points; j++) seen[distance[j]] = true;
    unsigned limit = 0, shells = 0;
    for (unsigned d = 0; d <= MAX_DISTANCE && shells < s->shells; d++)
        if (seen[d]) {
            limit = d;
            shells++;
            if (d == 0) break;
        }
    return limit;
}

/* The lock is needed because all grids share `half`. */
static void build(gg_iq_grid grid)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint8_t half[256][256];
    const grid_spec *s = &specs[grid];
    uint16_t code[MAX_POINTS];
    uint8_t distance[MAX_POINTS];
    uint32_t used = 0;
    pthread_mutex_lock(&lock);
    fill_distances(s, half);
    for (unsigned j = 0; j < s->points; j++) code[j] = point_code(s, j);
    for (unsigned c = 0; c < CODES; c++) {
        if (!is_code(s, c)) continue;
        for (unsigned j = 0; j < s->points; j++)
            distance[j] = (uint8_t)(half[c & 255][code[j] & 255] + half[c >> 8][code[j] >> 8]);
        const unsigned limit = shell_limit(distance, s);
        const uint32_t start = used++;
        for (unsigned j = 0; j < s->points && used < s->list_size; j++)
            if (distance[j] <= limit) s->list[used++] = code[j] | j << 16;
        s->list[start] = used - start - 1;
        s->cell[c] = start;
    }
    pthread_mutex_unlock(&lock);
}

static void build_2xxs(void)
{
    build(GG_GRID_2XXS);
}
static void build_2xs(void)
{
    build(GG_GRID_2XS);
}
static void build_2s(void)
{
    build(GG_GRID_2S);
}
static void build_1s(void)
{
    build(GG_GRID_1S);
}
static void build_3xxs(void)
{
    build(GG_GRID_3XXS);
}
static void build_3s(void)
{
    build(GG_GRID_3S);
}

gg_iq_map gg_iq_map_get(gg_iq_grid grid)
{
    static pthread_once_t once[GG_GRID_COUNT] = { PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
                                                  PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
                                                  PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT };
    static void (*const builder[GG_GRID_COUNT])(void) = { build_2xxs, build_2xs,  build_2s,
                                                          build_1s,   build_3xxs, build_3s };
    pthread_once(&once[grid], builder[grid]);
    return (gg_iq_map){ specs[grid].cell, specs[grid].list };
}
