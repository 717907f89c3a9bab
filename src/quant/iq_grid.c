/* iq_grid.c - the grids of the IQ types as sets of lattice points, and the maps that iq_grid.h
 * describes.
 *
 * Distances are unweighted and count in levels. A code is split into its two bytes, and the
 * distances of each byte from that byte of all points are tabulated once. The distances of a code
 * from all points are then sums of two rows of bytes, many of which are added and compared at once.
 */
#include "iq_grid.h"

#include "quant.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The mask for sign byte b: byte i is 0xFF if bit i of b is set. */
#define S1(b, i) ((uint64_t)((b) / (1 << (i)) % 2) * UINT64_C(0xFF) << 8 * (i))
#define S(b) S1(b, 0) | S1(b, 1) | S1(b, 2) | S1(b, 3) | S1(b, 4) | S1(b, 5) | S1(b, 6) | S1(b, 7)
#define S4(b) S(b), S((b) + 1), S((b) + 2), S((b) + 3)
#define S16(b) S4(b), S4((b) + 4), S4((b) + 8), S4((b) + 12)
#define S64(b) S16(b), S16((b) + 16), S16((b) + 32), S16((b) + 48)
const uint64_t gg_iq_sign8[256] = { S64(0), S64(64), S64(128), S64(192) };

/* i with bit 7 set so that the number of set bits is even. */
#define ODD(i) (((i) ^ (i) >> 1 ^ (i) >> 2 ^ (i) >> 3 ^ (i) >> 4 ^ (i) >> 5 ^ (i) >> 6) % 2)
#define P(i) (uint8_t)((i) | ODD(i) << 7)
#define P4(i) P(i), P((i) + 1), P((i) + 2), P((i) + 3)
#define P16(i) P4(i), P4((i) + 4), P4((i) + 8), P4((i) + 12)
#define P64(i) P16(i), P16((i) + 16), P16((i) + 32), P16((i) + 48)
const uint8_t gg_iq_sign7[128] = { P64(0), P64(64) };

/* ---- the grids and their maps --------------------------------------------------------------- */

enum { CODES = 65536, MAX_POINTS = 2048, MAX_DISTANCE = 4 * 49 };

typedef struct grid_spec {
    const uint64_t *set;
    uint64_t *points8; /* one of the two is NULL */
    uint32_t *points4;
    unsigned shells; /* number of different distances to list, the nearest first */
    int8_t level[8]; /* value of each level, in the order of the numbering */
    uint32_t *cell, *list;
    uint32_t list_size;
} grid_spec;

/* The exact sizes of the lists; build_map() never writes beyond them. */
#define MEMORY(name, size) static uint32_t cell_##name[CODES], list_##name[size]
MEMORY(2xxs, 119974);
MEMORY(2xs, 188794);
MEMORY(2s, 52301);
MEMORY(1s, 90977);
MEMORY(3xxs, 23337);
MEMORY(3s, 29341);

uint64_t gg_iq2xxs_grid[256], gg_iq2xs_grid[512], gg_iq2s_grid[1024], gg_iq1s_grid[2048];
uint32_t gg_iq3xxs_grid[256], gg_iq3s_grid[512];

#define MAP(name) cell_##name, list_##name, sizeof list_##name / sizeof list_##name[0]
static const grid_spec specs[GG_GRID_COUNT] = {
    { gg_iq_set_2xxs, gg_iq2xxs_grid, NULL, 2, { 8, 25, 43 }, MAP(2xxs) },
    { gg_iq_set_2xs, gg_iq2xs_grid, NULL, 2, { 8, 25, 43 }, MAP(2xs) },
    { gg_iq_set_2s, gg_iq2s_grid, NULL, 1, { 8, 25, 43 }, MAP(2s) },
    { gg_iq_set_1s, gg_iq1s_grid, NULL, 2, { -1, 0, 1 }, MAP(1s) },
    { gg_iq_set_3xxs, NULL, gg_iq3xxs_grid, 2, { 4, 12, 20, 28, 36, 44, 52, 62 }, MAP(3xxs) },
    { gg_iq_set_3s, NULL, gg_iq3s_grid, 3, { 1, 3, 5, 7, 9, 11, 13, 15 }, MAP(3s) },
};

/* Lists the codes of a grid's points in order, and returns their number. */
static unsigned list_codes(const grid_spec *s, uint16_t code[MAX_POINTS])
{
    const unsigned elements = s->points8 ? 8 : 4, levels = s->points8 ? 3 : 8;
    unsigned n = 0;
    for (unsigned p = 0; p < (s->points8 ? 6561 : 4096); p++) {
        if ((s->set[p / 64] >> p % 64) % 2 == 0) continue;
        unsigned c = 0;
        for (unsigned e = 0, digits = p; e < elements; e++, digits /= levels) /* not 0: 3 or 8 */
            c |= digits % levels << 16 / elements * e;
        code[n++] = (uint16_t)c;
    }
    return n;
}

static void fill_grids(void)
{
    uint16_t code[MAX_POINTS];
    for (const grid_spec *s = specs; s < specs + GG_GRID_COUNT; s++) {
        const unsigned n = list_codes(s, code), elements = s->points8 ? 8 : 4;
        for (unsigned j = 0; j < n; j++) {
            uint64_t point = 0;
            for (unsigned e = 0; e < elements; e++) {
                const unsigned level = code[j] >> 16 / elements * e & (s->points8 ? 3u : 7u);
                point |= (uint64_t)(uint8_t)s->level[level] << 8 * e;
            }
            if (s->points8) s->points8[j] = point;
            else s->points4[j] = (uint32_t)point;
        }
    }
}

void gg_iq_grids_fill(uint32_t dtype)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool has = (dtype >= GG_IQ2_XXS && dtype <= GG_IQ1_S) || dtype == GG_IQ3_S ||
               dtype == GG_IQ2_S || dtype == GG_IQ1_M;
    if (has) pthread_once(&once, fill_grids);
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

/* Distances of byte b of a code, at `shift`, from that of each point. */
static void fill_distances(const grid_spec *s, unsigned b, const uint16_t *code, unsigned points,
                           int shift, uint8_t *row)
{
    for (unsigned j = 0; j < points; j++)
        row[j] = (uint8_t)half_distance(b, code[j] >> shift & 255, s->points8 ? 2 : 4);
}

/* The distance of the outermost shell to list. */
static unsigned shell_limit(const uint8_t *distance, unsigned points, unsigned shells)
{
    bool seen[MAX_DISTANCE + 1] = { false };
    for (unsigned j = 0; j < points; j++) seen[distance[j]] = true;
    if (seen[0]) return 0;
    unsigned limit = 0;
    for (unsigned d = 1; d <= MAX_DISTANCE && shells > 0; d++)
        if (seen[d]) {
            limit = d;
            shells--;
        }
    return limit;
}

#define LANES 16 /* points whose distances are added or compared at once: grids have a multiple */
typedef uint8_t lanes __attribute__((vector_size(LANES)));

/* Adds the distances of two bytes. */
static void add_distances(const uint8_t *a, const uint8_t *b, unsigned points, uint8_t *to)
{
    for (unsigned j = 0; j < points; j += LANES) {
        lanes x, y;
        memcpy(&x, a + j, LANES);
        memcpy(&y, b + j, LANES);
        x += y;
        memcpy(to + j, &x, LANES);
    }
}

/* Lists the points that are at most so far away. Most lanes have none. */
static uint32_t list_near(const grid_spec *s, const uint8_t *distance, unsigned limit,
                          const uint16_t *code, unsigned points, uint32_t used)
{
    for (unsigned j = 0; j < points; j += LANES) {
        uint64_t any[2];
        lanes x;
        memcpy(&x, distance + j, LANES);
        x = (lanes)(x <= (uint8_t)limit);
        memcpy(any, &x, LANES);
        for (unsigned k = j; (any[0] | any[1]) && k < j + LANES && used < s->list_size; k++)
            if (distance[k] <= limit) s->list[used++] = code[k] | k << 16;
    }
    return used;
}

static void build_map(const grid_spec *s)
{
    static uint8_t low[256][MAX_POINTS];
    uint16_t code[MAX_POINTS];
    uint8_t high[MAX_POINTS], distance[MAX_POINTS];
    uint32_t used = 0;
    const unsigned points = list_codes(s, code);
    for (unsigned b = 0; b < 256; b++)
        if (is_code(s, b)) fill_distances(s, b, code, points, 0, low[b]);
    for (unsigned c = 0; c < CODES; c++) {
        if (!is_code(s, c)) continue;
        if ((c & 255) == 0) fill_distances(s, c >> 8, code, points, 8, high);
        add_distances(high, low[c & 255], points, distance);
        const unsigned limit = shell_limit(distance, points, s->shells);
        const uint32_t start = used++;
        used = list_near(s, distance, limit, code, points, used);
        s->list[start] = used - start - 1;
        s->cell[c] = start;
    }
}

gg_iq_map gg_iq_map_get(gg_iq_grid grid)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static _Atomic bool built[GG_GRID_COUNT];
    if (!atomic_load_explicit(&built[grid], memory_order_acquire)) {
        pthread_mutex_lock(&lock);
        if (!built[grid]) build_map(&specs[grid]);
        atomic_store_explicit(&built[grid], true, memory_order_release);
        pthread_mutex_unlock(&lock);
    }
    return (gg_iq_map){ specs[grid].cell, specs[grid].list };
}
