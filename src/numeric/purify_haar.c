/* purify_haar.c - damp wavelet details that are not coherent with their parents.
 *
 * The values are the leaves of a binary tree. If a level has an odd number of nodes, the last one
 * is doubled (see numeric.h on padding). Tiles of 4096 leaves are transformed in cache, once for
 * the energies and once to filter, so memory is read twice and written once. The tree above the
 * tiles is small and is kept in memory. The inverse transform is applied to the part to remove, not
 * to the signal, so values that the filter does not change keep their bits until mean and std are
 * restored.
 */
#include "purify_core.h"

#include "numeric/numeric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PART_TILES 64

/* Offsets in the scratch of a thread, in floats: leaves, two node buffers, details per level. */
#define LEAVES 0
#define NODES (LEAVES + HAAR_TILE + 8)
#define OTHER (NODES + HAAR_TILE + 8)
#define DETAILS (OTHER + HAAR_TILE + 8)
#define SCRATCH_FLOATS (DETAILS + HAAR_TILE + 16 * HAAR_TILE_LEVELS)

/* The details of a level, with room for (4096 >> level) + 8; the finest level comes first. */
static float *details_of(float *scratch, unsigned level)
{
    return scratch + DETAILS + HAAR_TILE - (2 * HAAR_TILE >> level) + (size_t)8 * (level - 1);
}

size_t gg_purify_haar_scratch(void)
{
    return SCRATCH_FLOATS * sizeof(float);
}

gg_status gg_purify_haar_init(gg_purify *p, gg_error *err)
{
    haar_tree *t = &p->tree;
    p->part_elements = (uint64_t)PART_TILES * HAAR_TILE;
    t->tiles = (size_t)((p->elements + HAAR_TILE - 1) / HAAR_TILE);
    t->levels = HAAR_TILE_LEVELS;
    size_t details = 0;
    for (size_t nodes = t->tiles; nodes > 1;) {
        nodes = (nodes + 1) / 2;
        t->first[++t->levels] = details;
        details += nodes;
    }
    t->sum = malloc((t->tiles + 1) * sizeof *t->sum);
    t->detail = malloc((details + 1) * sizeof *t->detail);
    t->work = malloc(3 * (t->tiles + 2) * sizeof *t->work);
    t->plain = malloc(t->tiles + 1);
    if (!t->sum || !t->detail || !t->work || !t->plain)
        return gg_fail(err, GG_ENOMEM, "no memory for the scales of a tensor");
    return GG_OK;
}

/* Transforms one level: takes `nodes` nodes and returns the number of nodes of the next level. `in`
 * has room for one more node. */
static size_t split_level(float *in, size_t nodes, float *out, float *detail)
{
    if (nodes & 1) in[nodes] = in[nodes - 1];
    nodes = (nodes + 1) / 2;
    GG_PICK(gg_nk_haar_split)(in, nodes, out, detail);
    return nodes;
}

/* Transforms all levels of a full tile and returns the top node; the details are in scratch. A
 * value that is not finite makes the energies of the details non-finite. */
static float split_full(const float *x, float *scratch)
{
    float *in = scratch + NODES, *out = scratch + OTHER;
    GG_PICK(gg_nk_haar_split)(x, HAAR_TILE / 2, in, details_of(scratch, 1));
    for (unsigned level = 2; level <= HAAR_TILE_LEVELS; level++) {
        GG_PICK(gg_nk_haar_split)(in, HAAR_TILE >> level, out, details_of(scratch, level));
        float *swap = in;
        in = out;
        out = swap;
    }
    return in[0];
}

/* Computes the energies of the levels of a full tile and its top node, without keeping the details.
 * Returns the sum of the energies. */
static double scan_full(const float *x, float *scratch, double *energy, float *top,
                        const float *soon)
{
    float *in = scratch + NODES, *out = scratch + OTHER;
    double sum = energy[1] = GG_PICK(gg_nk_haar_energy)(x, HAAR_TILE / 2, in, soon);
    for (unsigned level = 2; level <= HAAR_TILE_LEVELS; level++) {
        sum += energy[level] = GG_PICK(gg_nk_haar_energy)(in, HAAR_TILE >> level, out, NULL);
        float *swap = in;
        in = out;
        out = swap;
    }
    *top = in[0];
    return sum;
}

/* Like split_full, for any tile. */
static float split_any(const float *x, size_t n, float *scratch)
{
    float *in = scratch + LEAVES, *out = scratch + NODES, *next = scratch + OTHER;
    if (gg_purify_sound(x, n, in) != in) memcpy(in, x, n * sizeof *x);
    for (unsigned level = 1; level <= HAAR_TILE_LEVELS; level++) {
        n = split_level(in, n, out, details_of(scratch, level));
        in = out;
        out = next;
        next = in;
    }
    return in[0];
}

static size_t tile_length(const gg_purify *p, size_t tile)
{
    uint64_t first = (uint64_t)tile * HAAR_TILE;
    return p->elements - first < HAAR_TILE ? (size_t)(p->elements - first) : HAAR_TILE;
}

/* The next tile if it is full, for prefetching; else NULL. */
static const float *next_tile(const gg_purify *p, size_t tile, const float *x)
{
    return tile + 1 < p->tree.tiles && tile_length(p, tile + 1) == HAAR_TILE ? x + HAAR_TILE : NULL;
}

static size_t last_tile(const gg_purify *p, size_t part)
{
    size_t end = (part + 1) * PART_TILES;
    return end < p->tree.tiles ? end : p->tree.tiles;
}

/* Computes the energies per level of a transformed tile of n values. */
static void tile_energies(size_t n, float *scratch, double *energy)
{
    for (unsigned level = 1; level <= HAAR_TILE_LEVELS; level++) {
        n = (n + 1) / 2;
        energy[level] = GG_PICK(gg_nk_energy)(details_of(scratch, level), n);
    }
}

/* A plain tile (full and finite) gives its moments without another pass: the mean is the top node
 * divided by 64, and the energy around the mean is that of the details. */
void gg_purify_haar_scan(gg_purify *p, size_t part, const float *x, float *scratch)
{
    purify_slot *slot = &p->slot[part];
    for (size_t tile = part * PART_TILES; tile < last_tile(p, part); tile++) {
        const float *values = x + (uint64_t)tile * HAAR_TILE;
        size_t n = tile_length(p, tile);
        double energy[HAAR_TILE_LEVELS + 1] = { 0 }, m2 = INFINITY;
        float top = 0;
        if (n == HAAR_TILE)
            m2 = scan_full(values, scratch, energy, &top, next_tile(p, tile, values));
        moments m = { n, (double)top / 64.0, m2 };
        p->tree.plain[tile] = isfinite(m2) != 0;
        if (!isfinite(m2)) {
            m = gg_purify_moments(values, n, scratch + LEAVES);
            top = split_any(values, n, scratch);
            tile_energies(n, scratch, energy);
        }
        p->tree.sum[tile] = top;
        gg_purify_merge(&slot->before, &m);
        for (unsigned level = 1; level <= HAAR_TILE_LEVELS; level++)
            slot->energy[level] += energy[level];
    }
}

/* Computes the damping factors from the mean energies. Details of padding are 0 and not counted. */
static bool set_damping(gg_purify *p, const double *energy)
{
    haar_tree *t = &p->tree;
    double mean[HAAR_LEVELS + 2] = { 0 };
    uint64_t nodes = p->elements;
    for (unsigned level = 1; level <= t->levels; level++) {
        uint64_t count = nodes / 2;
        if (!isfinite(energy[level])) return false;
        mean[level] = count ? energy[level] / (double)count : 0;
        nodes = (nodes + 1) / 2;
    }
    for (unsigned level = 1; level <= t->levels; level++) {
        haar_damping *h = &t->how[level];
        double noise = mean[level] > mean[1] ? mean[1] / mean[level] : 1.0;
        h->gain = level < t->levels ? (float)(p->strength * noise) : 0.0f;
        h->inv = mean[level] > 1e-60 ? (float)(1.0 / sqrt(mean[level])) : 0.0f;
    }
    for (unsigned level = 1; level < t->levels; level++)
        t->how[level].inv_parent = t->how[level + 1].inv;
    return true;
}

/* Transforms the tree above the tiles. Overwrites the node buffer `in`. */
static void split_tree(haar_tree *t, float *in, float *out, double *energy)
{
    size_t nodes = t->tiles;
    for (unsigned level = HAAR_TILE_LEVELS + 1; level <= t->levels; level++) {
        nodes = split_level(in, nodes, out, t->detail + t->first[level]);
        energy[level] = GG_PICK(gg_nk_energy)(t->detail + t->first[level], nodes);
        float *swap = in;
        in = out;
        out = swap;
    }
}

/* Replaces detail[0 .. n) by the part to remove, except details whose parent is padding. */
static void damp_level(haar_damping how, float *detail, const float *parent, size_t n,
                       removal *sums, const float *soon)
{
    GG_PICK(gg_nk_haar_damp)(detail, parent, n, how, sums, soon);
    if (n & 1) detail[n - 1] = 0.0f;
}

/* Inverts the tree with the parts to remove, into t->sum. Works on copies of the details, because
 * t->detail has the parents for the next level and for the top details of the tiles. */
static void remove_tree(haar_tree *t, float *removed, float *in, float *out)
{
    removal unused = { 0, 0, 0 };
    size_t nodes[HAAR_LEVELS + 1], n = t->tiles;
    for (unsigned level = HAAR_TILE_LEVELS + 1; level <= t->levels; level++)
        nodes[level] = n = (n + 1) / 2;
    in[0] = 0.0f;
    for (unsigned level = t->levels; level > HAAR_TILE_LEVELS; level--) {
        size_t count = nodes[level];
        memset(removed, 0, count * sizeof *removed);
        if (level < t->levels) {
            memcpy(removed, t->detail + t->first[level], count * sizeof *removed);
            damp_level(t->how[level], removed, t->detail + t->first[level + 1], count, &unused,
                       NULL);
        }
        GG_PICK(gg_nk_haar_merge)(in, removed, count, out);
        float *swap = in;
        in = out;
        out = swap;
    }
    memcpy(t->sum, in, t->tiles * sizeof *in);
}

void gg_purify_haar_join(gg_purify *p)
{
    haar_tree *t = &p->tree;
    double energy[HAAR_LEVELS + 1] = { 0 };
    for (size_t part = 0; part < p->parts; part++)
        for (unsigned level = 1; level <= HAAR_TILE_LEVELS; level++)
            energy[level] += p->slot[part].energy[level];
    size_t room = t->tiles + 2;
    float *buf = t->work;
    memcpy(buf, t->sum, t->tiles * sizeof *buf);
    split_tree(t, buf, buf + room, energy);
    if (set_damping(p, energy)) remove_tree(t, buf + 2 * room, buf, buf + room);
    else p->active = false;
}

/* Replaces the details of a transformed tile by the parts to remove. */
static void damp_tile(const gg_purify *p, size_t tile, size_t n, float *scratch, removal *sums,
                      const float *soon)
{
    const haar_tree *t = &p->tree;
    for (unsigned l = 1; l < HAAR_TILE_LEVELS; l++) {
        n = (n + 1) / 2;
        damp_level(t->how[l], details_of(scratch, l), details_of(scratch, l + 1), n, sums,
                   l == 1 ? soon : NULL);
    }
    float *top = details_of(scratch, HAAR_TILE_LEVELS);
    bool last = t->tiles == 1 || (tile == t->tiles - 1 && t->tiles % 2 == 1);
    if (last) {
        top[0] = 0.0f;
        return;
    }
    const float *above = t->detail + t->first[HAAR_TILE_LEVELS + 1];
    GG_PICK(gg_nk_haar_damp)(top, above + tile / 2, 1, t->how[HAAR_TILE_LEVELS], sums, NULL);
}

/* Inverts the parts to remove from the top down to level 1, and returns the nodes of level 1. */
static const float *merge_tile(float node, size_t n, float *scratch)
{
    float *in = scratch + NODES, *out = scratch + OTHER;
    in[0] = node;
    for (unsigned l = HAAR_TILE_LEVELS; l > 1; l--) {
        size_t count = (n + ((size_t)1 << l) - 1) >> l;
        GG_PICK(gg_nk_haar_merge)(in, details_of(scratch, l), count, out);
        float *swap = in;
        in = out;
        out = swap;
    }
    return in;
}

/* For a plain tile the sums over the removed part r follow from the coefficients, because the
 * transform is orthonormal: sum r = 64 r0, sum r^2 = r0^2 + sum over the details, and with
 * u = x - mean, sum u r = (top - 64 mean) r0 + sum over the details. */
void gg_purify_haar_filter(gg_purify *p, size_t part, float *x, float *scratch)
{
    haar_tree *t = &p->tree;
    removal *total = &p->slot[part].removed;
    removal_of of = { p->before.mean, p->before.n == p->elements };
    for (size_t tile = part * PART_TILES; tile < last_tile(p, part); tile++) {
        float *values = x + (uint64_t)tile * HAAR_TILE, *d1 = details_of(scratch, 1),
              *leaves = scratch + LEAVES;
        size_t n = tile_length(p, tile);
        double top = (double)(t->plain[tile] ? split_full(values, scratch)
                                             : split_any(values, n, scratch));
        double node = (double)t->sum[tile];
        removal sums = { 64.0 * node, node * node, (top - 64.0 * p->before.mean) * node };
        damp_tile(p, tile, n, scratch, &sums, next_tile(p, tile, values));
        const float *nodes = merge_tile(t->sum[tile], n, scratch);
        if (t->plain[tile]) {
            GG_PICK(gg_nk_haar_subtract)(nodes, d1, n / 2, values);
            total->r += sums.r;
            total->rr += sums.rr;
            total->xr += sums.xr;
        } else {
            GG_PICK(gg_nk_haar_merge)(nodes, d1, (n + 1) / 2, leaves);
            GG_PICK(gg_nk_remove)(values, leaves, n, &of, total);
        }
    }
}
