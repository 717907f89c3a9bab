/* purify.c - the filters of organ-purify.
 *
 * The first pass scans the values (moments, and for haar the energy of each scale). The second
 * subtracts what the filter removes. Both transforms are applied to the part to remove, not to the
 * signal, so the rest loses no accuracy. A third pass restores mean and std. Each pass
 * works on parts of the values. A part writes only to its own slot, and the slots are added in
 * order, so that the results do not depend on the threads.
 */
#include "purify.h"

#include "base/error.h"
#include "base/float_bits.h"
#include "base/io.h"
#include "base/parallel.h"
#include "fft.h"
#include "nkernel.h"
#include "sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Number of values that are processed together. They fit into the first-level cache at all
 * scales. */
#define TILE 4096u
#define TILE_LEVELS 12
#define HAAR_LEVELS 64 /* enough for 2^64 values */

typedef struct moments {
    uint64_t n;
    double mean, m2;
} moments;

/* The sums over a part. */
typedef struct filter_slot {
    moments before;
    uint64_t nonfinite;
    gg_removal removed;
    double energy[TILE_LEVELS + 1]; /* haar, by level from 1 */
} filter_slot;

/* The levels of the Haar tree above the tiles. The tiles are level TILE_LEVELS. */
typedef struct haar_tree {
    size_t tiles;
    unsigned levels;               /* of the whole tree */
    float *sum;                    /* per tile: its node, later the part to remove from it */
    float *work;                   /* 3 x (tiles + 2) floats */
    float *detail;                 /* details of the levels above the tiles, level by level */
    size_t first[HAAR_LEVELS + 1]; /* where each level starts in detail */
    gg_damping how[HAAR_LEVELS + 1];
} haar_tree;

typedef struct filter_job {
    const gg_filter *o;
    float *x;
    uint64_t elements;
    size_t parts;
    uint64_t part_elements; /* elements of every part except the last */
    filter_slot *slots;
    char *scratch; /* per thread, scratch_size bytes */
    size_t scratch_size;
    bool active; /* there is something to filter */
    moments before;
    gg_removal removed;
    double scale, shift;
    haar_tree tree;
    gg_fft_plan *plan;
} filter_job;

/* ---- moments ----------------------------------------------------------------------- */

/* The update of Chan, Golub and LeVeque. */
static void merge_moments(moments *a, const moments *b)
{
    if (b->n == 0) return;
    double na = (double)a->n, nb = (double)b->n, d = b->mean - a->mean, all = na + nb;
    a->m2 += b->m2 + d * d * (na / all) * nb;
    a->mean += d * (nb / all);
    a->n += b->n;
}

/* Adds n > 0 values to the slot. */
static void scan_moments(filter_slot *slot, const float *x, size_t n)
{
    double sum = GG_PICK(gg_nk_range)(x, n).sum, mean = sum / (double)n;
    if (isfinite(sum)) /* finite floats do not overflow a double */
        merge_moments(&slot->before, &(moments){ n, mean, GG_PICK(gg_nk_central)(x, n, mean).m2 });
    else slot->nonfinite += GG_PICK(gg_nk_nonfinite)(x, n);
}

/* Returns the number of elements of a part, and sets *x to them. */
static size_t values_of_part(const filter_job *f, size_t part, float **x)
{
    uint64_t first = (uint64_t)part * f->part_elements, left = f->elements - first;
    *x = f->x + first;
    return (size_t)(left < f->part_elements ? left : f->part_elements);
}

/* ---- Fourier ----------------------------------------------------------------------- */

/* A part is a whole number of batches of rows, with at least about this many values. */
#define FFT_PART 65536u

static gg_status start_fft(filter_job *f, gg_error *err)
{
    uint64_t row = f->o->row, batch = GG_FFT_BATCH * row;
    if (row > SIZE_MAX / 1024) {
        return gg_fail(err, GG_EUNSUPPORTED, "a row of %llu values is too long for the FFT filter",
                       (unsigned long long)row);
    }
    f->plan = gg_fft_plan_new((size_t)row, err);
    if (!f->plan) return err->status;
    f->part_elements = batch * ((FFT_PART + batch - 1) / batch);
    /* The energies of a batch, and the keys of a row with room to sort them. */
    size_t bins = (size_t)row / 2 + 1;
    f->scratch_size = gg_fft_scratch(f->plan) + bins * (sizeof(gg_fft_point) + 2 * sizeof(float));
    return GG_OK;
}

static void scan_fft(filter_job *f, size_t part)
{
    float *x;
    for (size_t left = values_of_part(f, part, &x), n; left; left -= n, x += n) {
        n = left < TILE ? left : TILE;
        scan_moments(&f->slots[part], x, n);
    }
}

#define ENERGY_OCTAVES 256
#define FEW_BINS 24 /* up to this number of bins, sorting all is faster */

/* Finds the energy below which the bins of a row are dropped, in the order of their energy until a
 * share of their sum is used up: first whole octaves, then the octave at the limit, sorted.
 * `energy` has one row of a batch. If only some of the bins with the energy found are to be
 * dropped, these are the ones of the highest frequencies, whose energies become -1. The energy of
 * the strongest bin, which is never dropped, becomes infinite. */
static float find_cut(float *energy, size_t bins, double share, gg_nk_key *keys)
{
    double in_octave[ENERGY_OCTAVES], total = 0, sum = 0;
    size_t octaves = bins > FEW_BINS ? ENERGY_OCTAVES : 1, n = 0, ties = 0;
    unsigned shift = bins > FEW_BINS ? 23 : 31, last = 0;
    float cut = INFINITY, top = 0;
    memset(in_octave, 0, octaves * sizeof *in_octave);
    for (size_t k = 1; k < bins; k++) {
        float e = energy[k * GG_FFT_BATCH];
        in_octave[gg_float_bits(e) >> shift] += (double)e;
        top = e > top ? e : top;
    }
    for (size_t i = 0; i < octaves; i++) total += in_octave[i];
    while (last < gg_float_bits(top) >> shift && sum + in_octave[last] <= share * total)
        sum += in_octave[last++];
    for (size_t k = 1; k < bins; k++) {
        keys[n] = gg_float_bits(energy[k * GG_FFT_BATCH]);
        n += keys[n] >> shift == last; /* no branch: it would be mispredicted */
    }
    const gg_nk_key *sorted = gg_sort_few(keys, n, keys + bins);
    for (size_t i = 0; i < n; i++, ties++) {
        float e = gg_bits_float(sorted[i]);
        if (i == 0 || e > cut) cut = e, ties = 0;
        if (sum + (double)e > share * total) break;
        sum += (double)e;
    }
    if (ties == 0) return cut;
    size_t strongest = 1;
    while (energy[strongest * GG_FFT_BATCH] < top) strongest++;
    energy[strongest * GG_FFT_BATCH] = INFINITY;
    for (size_t k = bins - 1; ties && k > 0; k--) {
        float *e = energy + k * GG_FFT_BATCH;
        if (*e <= cut && *e >= cut) *e = -1.0f, ties--;
    }
    return cut;
}

/* Leaves only the bins to remove in the spectra. */
static void keep_tails(const filter_job *f, const gg_fft_spectra *s, size_t count,
                       gg_fft_point *energy)
{
    size_t n = (size_t)f->o->row, bins = n / 2 + 1;
    gg_fft_rows largest, scale = { 0 }, cut = { 0 };
    GG_PICK(gg_nk_fft_largest)(s, n, 1, largest);
    for (size_t l = 0; l < count; l++) {
        float inverse = 1.0f / largest[l];
        if (isfinite(largest[l]) && isfinite(inverse)) scale[l] = inverse;
    }
    GG_PICK(gg_nk_fft_energies)(s, n, scale, energy);
    double share = f->o->strength * f->o->strength;
    for (size_t l = 0; l < count; l++)
        if (scale[l] > 0)
            cut[l] = find_cut((float *)energy + l, bins, share, (gg_nk_key *)(energy + bins));
    GG_PICK(gg_nk_fft_keep_below)(s, n, energy, cut);
}

static void filter_fft(filter_job *f, size_t part, char *scratch)
{
    size_t n = (size_t)f->o->row, count;
    gg_fft_point *energy = (gg_fft_point *)(void *)(scratch + gg_fft_scratch(f->plan));
    float *x;
    for (size_t left = values_of_part(f, part, &x); left; left -= count * n, x += count * n) {
        count = left / n < GG_FFT_BATCH ? left / n : GG_FFT_BATCH;
        gg_fft_spectra s = gg_fft_forward(f->plan, x, count, scratch);
        keep_tails(f, &s, count, energy);
        const float *removed = gg_fft_inverse(f->plan, &s, count);
        GG_PICK(gg_nk_remove)(x, removed, count * n, f->before.mean, &f->slots[part].removed);
    }
}

/* ---- Haar -------------------------------------------------------------------------- *
 *
 * The values are the leaves of a binary tree. If a level has an odd number of nodes, the last one
 * is doubled. Tiles of 4096 leaves are transformed in cache, once for the energies and once to
 * filter. The tree above the tiles is small and is kept in memory.
 */

#define PART_TILES 64

/* Offsets in the scratch of a thread, in floats: leaves, two node buffers, details per level. */
#define LEAVES 0
#define NODES (LEAVES + TILE + 8)
#define OTHER (NODES + TILE + 8)
#define DETAILS (OTHER + TILE + 8)
#define SCRATCH_FLOATS (DETAILS + TILE + 16 * TILE_LEVELS)

/* The details of a level, with room for (4096 >> level) + 8; the finest level comes first. */
static float *details_of(float *scratch, unsigned level)
{
    return scratch + DETAILS + TILE - (2 * TILE >> level) + (size_t)8 * (level - 1);
}

static gg_status start_haar(filter_job *f, gg_error *err)
{
    haar_tree *t = &f->tree;
    f->part_elements = (uint64_t)PART_TILES * TILE;
    f->scratch_size = SCRATCH_FLOATS * sizeof(float);
    t->tiles = (size_t)((f->elements + TILE - 1) / TILE);
    t->levels = TILE_LEVELS;
    size_t details = 0;
    for (size_t nodes = t->tiles; nodes > 1;) {
        nodes = (nodes + 1) / 2;
        t->first[++t->levels] = details;
        details += nodes;
    }
    t->sum = malloc((t->tiles + 1) * sizeof *t->sum);
    t->detail = malloc((details + 1) * sizeof *t->detail);
    t->work = malloc(3 * (t->tiles + 2) * sizeof *t->work);
    if (!t->sum || !t->detail || !t->work)
        return gg_fail(err, GG_ENOMEM, "no memory for the scales of a tensor");
    return GG_OK;
}

static void exchange_nodes(float **in, float **out)
{
    float *swap = *in;
    *in = *out;
    *out = swap;
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

/* Transforms all levels of a tile and returns the top node; the details are in scratch. */
static float split_tile(const float *x, size_t n, float *scratch)
{
    float *in = scratch + LEAVES, *out = scratch + NODES, *next = scratch + OTHER;
    memcpy(in, x, n * sizeof *x);
    for (unsigned level = 1; level <= TILE_LEVELS; level++) {
        n = split_level(in, n, out, details_of(scratch, level));
        in = out;
        exchange_nodes(&out, &next);
    }
    return in[0];
}

/* The mean of a full tile is its top node divided by 64, and its energy around the mean is that of
 * the details. */
static void scan_haar(filter_job *f, size_t part, float *scratch)
{
    filter_slot *slot = &f->slots[part];
    float *x, *sum = f->tree.sum + part * PART_TILES;
    for (size_t left = values_of_part(f, part, &x), n; left; left -= n, x += n) {
        n = left < TILE ? left : TILE;
        *sum = split_tile(x, n, scratch);
        double m2 = 0;
        size_t details = n;
        for (unsigned level = 1; level <= TILE_LEVELS; level++) {
            details = (details + 1) / 2;
            double energy = GG_PICK(gg_nk_energy)(details_of(scratch, level), details);
            m2 += energy;
            slot->energy[level] += energy;
        }
        moments m = { n, (double)*sum++ / 64.0, m2 };
        if (n == TILE && isfinite(m2)) merge_moments(&slot->before, &m);
        else scan_moments(slot, x, n);
    }
}

/* Computes the damping factors from the mean energies. Details of padding are 0 and not counted. */
static bool set_damping(filter_job *f, const double *energy)
{
    haar_tree *t = &f->tree;
    double mean[HAAR_LEVELS + 2] = { 0 };
    uint64_t nodes = f->elements;
    for (unsigned level = 1; level <= t->levels; level++) {
        uint64_t count = nodes / 2;
        if (!isfinite(energy[level])) return false;
        mean[level] = count ? energy[level] / (double)count : 0;
        nodes = (nodes + 1) / 2;
    }
    for (unsigned level = 1; level <= t->levels; level++) {
        gg_damping *h = &t->how[level];
        double noise = mean[level] > mean[1] ? mean[1] / mean[level] : 1.0;
        h->gain = level < t->levels ? (float)(f->o->strength * noise) : 0.0f;
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
    for (unsigned level = TILE_LEVELS + 1; level <= t->levels; level++) {
        nodes = split_level(in, nodes, out, t->detail + t->first[level]);
        energy[level] = GG_PICK(gg_nk_energy)(t->detail + t->first[level], nodes);
        exchange_nodes(&in, &out);
    }
}

/* Replaces detail[0 .. n) by the part to remove, except details whose parent is padding. */
static void damp_level(gg_damping how, float *detail, const float *parent, size_t n,
                       gg_removal *sums)
{
    GG_PICK(gg_nk_haar_damp)(detail, parent, n, how, sums);
    if (n & 1) detail[n - 1] = 0.0f;
}

/* Inverts the tree with the parts to remove, into t->sum. Works on copies of the details, because
 * t->detail has the parents for the next level and for the top details of the tiles. */
static void remove_tree(haar_tree *t, float *removed, float *in, float *out)
{
    gg_removal unused = { 0, 0, 0 };
    size_t nodes[HAAR_LEVELS + 1], n = t->tiles;
    for (unsigned level = TILE_LEVELS + 1; level <= t->levels; level++)
        nodes[level] = n = (n + 1) / 2;
    in[0] = 0.0f;
    for (unsigned level = t->levels; level > TILE_LEVELS; level--) {
        size_t count = nodes[level];
        memset(removed, 0, count * sizeof *removed);
        if (level < t->levels) {
            memcpy(removed, t->detail + t->first[level], count * sizeof *removed);
            damp_level(t->how[level], removed, t->detail + t->first[level + 1], count, &unused);
        }
        GG_PICK(gg_nk_haar_merge)(in, removed, count, out);
        exchange_nodes(&in, &out);
    }
    memcpy(t->sum, in, t->tiles * sizeof *in);
}

/* Returns false if the energies are too large for floats. */
static bool join_haar(filter_job *f)
{
    haar_tree *t = &f->tree;
    double energy[HAAR_LEVELS + 1] = { 0 };
    for (size_t part = 0; part < f->parts; part++)
        for (unsigned level = 1; level <= TILE_LEVELS; level++)
            energy[level] += f->slots[part].energy[level];
    size_t room = t->tiles + 2;
    float *buf = t->work;
    memcpy(buf, t->sum, t->tiles * sizeof *buf);
    split_tree(t, buf, buf + room, energy);
    if (!set_damping(f, energy)) return false;
    remove_tree(t, buf + 2 * room, buf, buf + room);
    return true;
}

/* Replaces the details of a transformed tile by the parts to remove. */
static void damp_tile(const filter_job *f, size_t tile, size_t n, float *scratch, gg_removal *sums)
{
    const haar_tree *t = &f->tree;
    for (unsigned l = 1; l < TILE_LEVELS; l++) {
        n = (n + 1) / 2;
        damp_level(t->how[l], details_of(scratch, l), details_of(scratch, l + 1), n, sums);
    }
    float *top = details_of(scratch, TILE_LEVELS);
    bool last = t->tiles == 1 || (tile == t->tiles - 1 && t->tiles % 2 == 1);
    if (last) {
        top[0] = 0.0f;
        return;
    }
    const float *above = t->detail + t->first[TILE_LEVELS + 1];
    GG_PICK(gg_nk_haar_damp)(top, above + tile / 2, 1, t->how[TILE_LEVELS], sums);
}

/* Inverts the parts to remove from the top down, and returns the leaves. */
static const float *merge_tile(float node, size_t n, float *scratch)
{
    float *in = scratch + NODES, *out = scratch + OTHER;
    in[0] = node;
    for (unsigned l = TILE_LEVELS; l > 0; l--) {
        size_t count = (n + ((size_t)1 << l) - 1) >> l;
        GG_PICK(gg_nk_haar_merge)(in, details_of(scratch, l), count, out);
        exchange_nodes(&in, &out);
    }
    return in;
}

/* For a full tile the sums over the removed part r follow from the coefficients, because the
 * transform is orthonormal: sum r = 64 r0, sum r^2 = r0^2 + sum over the details, and with
 * u = x - mean, sum u r = (top - 64 mean) r0 + sum over the details. */
static void filter_haar(filter_job *f, size_t part, float *scratch)
{
    gg_removal *total = &f->slots[part].removed;
    float *x;
    size_t tile = part * PART_TILES;
    for (size_t left = values_of_part(f, part, &x), n; left; left -= n, x += n, tile++) {
        n = left < TILE ? left : TILE;
        double top = (double)split_tile(x, n, scratch), node = (double)f->tree.sum[tile];
        gg_removal sums = { 64.0 * node, node * node, (top - 64.0 * f->before.mean) * node };
        damp_tile(f, tile, n, scratch, &sums);
        const float *removed = merge_tile(f->tree.sum[tile], n, scratch);
        gg_removal added = { 0, 0, 0 };
        GG_PICK(gg_nk_remove)(x, removed, n, f->before.mean, &added);
        if (n < TILE) sums = added;
        total->r += sums.r;
        total->rr += sums.rr;
        total->xr += sums.xr;
    }
}

/* ---- all passes ---------------------------------------------------------------------- */

static gg_status scan_part(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    filter_job *f = ctx;
    char *scratch = f->scratch + worker * f->scratch_size;
    if (f->o->method == GG_PURIFY_HAAR) scan_haar(f, i, (float *)(void *)scratch);
    else scan_fft(f, i);
    return gg_cancelled(err);
}

static gg_status filter_part(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    filter_job *f = ctx;
    char *scratch = f->scratch + worker * f->scratch_size;
    if (f->o->method == GG_PURIFY_HAAR) filter_haar(f, i, (float *)(void *)scratch);
    else filter_fft(f, i, scratch);
    return gg_cancelled(err);
}

static gg_status finish_part(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    filter_job *f = ctx;
    float *x;
    size_t n = values_of_part(f, i, &x);
    (void)worker;
    GG_PICK(gg_nk_affine)(x, n, f->scale, f->shift);
    return gg_cancelled(err);
}

static void join_scan(filter_job *f, gg_filtered *out)
{
    for (size_t i = 0; i < f->parts; i++) {
        merge_moments(&f->before, &f->slots[i].before);
        out->nonfinite += f->slots[i].nonfinite;
    }
    const moments *m = &f->before;
    if (m->n == 0 || out->nonfinite) return;
    out->mean = m->mean;
    out->std = sqrt(m->m2 / (double)m->n);
    /* Equal values may have a tiny variance from rounding the mean; treat it as none. */
    double least = (double)m->n * m->mean * m->mean * 1e-30;
    f->active = f->o->strength > 0 && m->n > 1 && m->m2 > least && isfinite(m->m2);
    /* haar computes squares in float32, which limits the range of std. */
    if (f->active && f->o->method == GG_PURIFY_HAAR)
        f->active = out->std > 1e-12 && out->std < 1e12 && join_haar(f);
}

/* Adds the sums of the filter. The mean of y = x - r is mean - r/n. The affine map restores the old
 * mean and std. */
static void join_filter(filter_job *f, gg_filtered *out)
{
    gg_removal all = { 0, 0, 0 };
    for (size_t i = 0; i < f->parts; i++) {
        const gg_removal *r = &f->slots[i].removed;
        all.r += r->r;
        all.rr += r->rr;
        all.xr += r->xr;
    }
    const moments *m = &f->before;
    double n = (double)m->n, left = m->m2 - 2 * all.xr + all.rr - all.r * all.r / n;
    if (!(left > 0)) left = 0;
    f->scale = left > 0 ? sqrt(m->m2 / left) : 1.0;
    f->shift = m->mean - f->scale * (m->mean - all.r / n);
    /* With u = x - mean: after - before = (A - 1) u - A (r - mean of r). */
    double a = f->scale, r0 = all.rr - all.r * all.r / n;
    double change = (a - 1) * (a - 1) * m->m2 - 2 * a * (a - 1) * all.xr + a * a * r0;
    double size = m->m2 + n * m->mean * m->mean;
    out->energy_kept = left / m->m2;
    out->rel_l2 = change > 0 ? sqrt(change / size) : 0;
}

static gg_status run_passes(filter_job *f, gg_filtered *out, gg_error *err)
{
    unsigned threads = f->o->threads;
    gg_status st = gg_parallel(f->parts, threads, scan_part, f, err);
    if (st == GG_OK) join_scan(f, out);
    if (st != GG_OK || !f->active) return st;
    st = gg_parallel(f->parts, threads, filter_part, f, err);
    if (st == GG_OK) join_filter(f, out);
    return st == GG_OK ? gg_parallel(f->parts, threads, finish_part, f, err) : st;
}

static gg_status check_filter(const gg_filter *o, uint64_t elements, gg_error *err)
{
    if (!(o->strength >= 0.0 && o->strength <= 1.0)) {
        gg_fail(err, GG_EUSAGE, "the purification strength %g is not between 0 and 1", o->strength);
        return gg_fix(err, "give a strength from 0 (no change) to 1");
    }
    if (o->row == 0 || elements % o->row) {
        return gg_fail(err, GG_EUSAGE, "the row length %llu does not divide %llu values",
                       (unsigned long long)o->row, (unsigned long long)elements);
    }
    if (elements > SIZE_MAX / sizeof(float))
        return gg_fail(err, GG_EUNSUPPORTED, "too many values for this machine");
    return GG_OK;
}

gg_status gg_filter_values(const gg_filter *o, float *x, uint64_t elements, gg_filtered *out,
                           gg_error *err)
{
    filter_job f = { .o = o, .x = x, .elements = elements };
    *out = (gg_filtered){ .energy_kept = 1.0 };
    gg_status st = check_filter(o, elements, err);
    if (st == GG_OK) st = o->method == GG_PURIFY_FFT ? start_fft(&f, err) : start_haar(&f, err);
    if (st == GG_OK) {
        f.parts = (size_t)((elements + f.part_elements - 1) / f.part_elements);
        f.scratch_size = (f.scratch_size + 63) & ~(size_t)63;
        f.slots = calloc(f.parts + 1, sizeof *f.slots);
        f.scratch = aligned_alloc(64, f.scratch_size * o->threads);
        if (!f.slots || !f.scratch) st = gg_fail(err, GG_ENOMEM, "no memory for a filter");
    }
    if (st == GG_OK) st = run_passes(&f, out, err);
    gg_fft_plan_free(f.plan);
    free(f.tree.sum);
    free(f.tree.work);
    free(f.tree.detail);
    free(f.slots);
    free(f.scratch);
    return st;
}
