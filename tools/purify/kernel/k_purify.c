/* k_purify.c - the filters of organ-purify.
 *
 * The first pass scans the values (moments, and for haar the energy of each scale). The second
 * subtracts what the filter removes. Both transforms are applied to the part to remove, not to the
 * signal, so the rest loses no accuracy. A third pass restores mean and std. Each pass
 * works on parts of the values. A part writes only to its own slot, and the slots are added in
 * order, so that the results do not depend on the threads.
 */
#include "purify/purify.h"

#include "base/error.h"
#include "base/float_bits.h"
#include "base/io.h"
#include "base/parallel.h"
#include "numeric/nkernel.h"
#include "numeric/nlanes.h"
#include "numeric/numeric.h"
#include "purify/fft.h"

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

/* Sums over the removed part r of the values: r, r^2 and (x - mean) r. */
typedef struct removal {
    double r, rr, xr;
} removal;

/* The sums over a part. */
typedef struct filter_slot {
    moments before;
    uint64_t nonfinite;
    removal removed;
    double energy[TILE_LEVELS + 1]; /* haar, by level from 1 */
} filter_slot;

/* How the details d of a level are damped: the part to remove is gain (1 - q) d. q compares
 * (d inv)^2 with (p inv_parent)^2, where p is the parent. */
typedef struct damping {
    float gain, inv, inv_parent;
} damping;

/* Some levels of the Haar tree. Every array has room for 8 more values, because details are taken
 * eight at a time; those of the last eight that do not exist are 0. */
typedef struct haar_levels {
    unsigned from, to;              /* the finest level, and the coarsest */
    float *detail[HAAR_LEVELS + 1]; /* of each level */
    float *node[2];                 /* the nodes below `from`, and room for those of other levels */
} haar_levels;

/* The levels above the tiles, which are the nodes of level TILE_LEVELS. */
typedef struct haar_tree {
    size_t tiles;
    float *memory; /* of all arrays */
    float *sum;    /* per tile: its node, later the part to remove from it */
    float *parent; /* the details of the finest level */
    haar_levels levels;
    damping how[HAAR_LEVELS + 1];
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
    double sum = GG_K(gg_nk_range)(x, n).sum, mean = sum / (double)n;
    if (isfinite(sum)) /* finite floats do not overflow a double */
        merge_moments(&slot->before, &(moments){ n, mean, GG_K(gg_nk_central)(x, n, mean).m2 });
    else slot->nonfinite += GG_K(gg_mix_beyond)(x, n, INFINITY);
}

/* Returns the number of elements of a part, and sets *x to them. */
static size_t values_of_part(const filter_job *f, size_t part, float **x)
{
    uint64_t first = (uint64_t)part * f->part_elements, left = f->elements - first;
    *x = f->x + first;
    return (size_t)(left < f->part_elements ? left : f->part_elements);
}

static void add_removal(removal *to, const removal *r)
{
    to->r += r->r;
    to->rr += r->rr;
    to->xr += r->xr;
}

/* x -= r; adds to *sums. Value i belongs to lane i mod 8, but at the end to lane i mod 4. */
static void subtract(float *x, const float *r, size_t n, double mean, removal *sums)
{
    gg_nk_acc s[3] = { 0 };
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        GG_UNROLL(2)
        for (size_t h = 0; h < 2; h++) {
            gg_nk_f32x4 v = NK_AT4(x + i + 4 * h), t = NK_AT4(r + i + 4 * h);
            gg_nk_f64x4 d = NK_WIDE(t);
            s[0].half[h] += d;
            s[1].half[h] += d * d;
            s[2].half[h] += (NK_WIDE(v) - mean) * d;
            v -= t;
            memcpy(x + i + 4 * h, &v, sizeof v);
        }
    }
    for (; i < n; i++) {
        double d = (double)r[i];
        s[0].half[0][i % 4] += d;
        s[1].half[0][i % 4] += d * d;
        s[2].half[0][i % 4] += ((double)x[i] - mean) * d;
        x[i] -= r[i];
    }
    add_removal(sums, &(removal){ gg_nk_fold(&s[0]), gg_nk_fold(&s[1]), gg_nk_fold(&s[2]) });
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
    f->plan = GG_K(gg_fft_plan_new)((size_t)row, err);
    if (!f->plan) return err->status;
    /* not 0: check_filter refuses rows of 0 */
    f->part_elements = batch * ((FFT_PART + batch - 1) / batch);
    /* The energies of a batch, as many keys, and room to sort those of a row. */
    size_t bins = (size_t)row / 2 + 1;
    f->scratch_size = GG_K(gg_fft_scratch)(f->plan) +
                      bins * (2 * sizeof(gg_fft_rows) + sizeof(gg_nk_key));
    return GG_OK;
}

/* The cuts of a batch of rows: the sum of the energies below the cut of a row is within its
 * budget. */
typedef struct fft_cuts {
    gg_fft_rows from, to; /* the cut is in this range */
    double budget[GG_FFT_BATCH], total[GG_FFT_BATCH];
    double below[GG_FFT_BATCH]; /* the sum of the energies below `from` */
    size_t n[GG_FFT_BATCH]; /* energies in the range, whose bits are keys[row * bins] and more */
    gg_nk_key *keys;
} fft_cuts;

/* Sums the energies below the limit of each row. */
static void sum_below(gg_fft_rows *energy, size_t bins, const float *limit, double *sum)
{
    gg_nk_f64x4 s[GG_FFT_BATCH / 4] = { { 0 } };
    for (size_t k = 1; k < bins; k++) {
        GG_UNROLL(4)
        for (size_t q = 0; q < GG_FFT_BATCH / 4; q++) {
            gg_nk_f32x4 e = NK_AT4(energy[k] + 4 * q);
            s[q] += NK_WIDE(NK_AND4(e, e < NK_AT4(limit + 4 * q)));
        }
    }
    memcpy(sum, s, sizeof s);
}

#define SWEEPS 5

/* Narrows the ranges. In noise, and near the cut, the sum of the energies below a limit grows with
 * the square of the limit. Ranges that remain wide take longer to sort. */
static void approach_cuts(gg_fft_rows *energy, size_t bins, double share, fft_cuts *c)
{
    gg_fft_rows limit;
    double sum[GG_FFT_BATCH], start = sqrt(2 * share);
    bool wide = true;
    for (size_t l = 0; l < GG_FFT_BATCH; l++) c->from[l] = 0, c->below[l] = 0, c->to[l] = INFINITY;
    sum_below(energy, bins, c->to, c->total);
    for (size_t l = 0; l < GG_FFT_BATCH; l++) {
        c->budget[l] = share * c->total[l];
        limit[l] = (float)(start * (1 + start / 3) * c->total[l] / (double)bins);
    }
    for (int i = 0; i < SWEEPS && wide; i++) {
        sum_below(energy, bins, limit, sum);
        wide = false;
        for (size_t l = 0; l < GG_FFT_BATCH; l++) {
            double step = sqrt(c->budget[l] / sum[l]);
            if (c->from[l] > 0 && c->to[l] < INFINITY) continue;
            if (sum[l] <= c->budget[l] && sum[l] < c->total[l]) {
                c->from[l] = limit[l];
                c->below[l] = sum[l];
                step *= 1.1;
            } else {
                c->to[l] = limit[l];
                step *= 0.9;
            }
            wide = wide || c->from[l] <= 0 || c->to[l] >= INFINITY;
            limit[l] *= (float)(step < 8 ? step > 0.125 ? step : 0.125 : 8);
        }
    }
}

/* Values of rows 0-7 and of rows 8-15. */
#define OF_ROWS(values, h) (((gg_f32x8 *)(void *)(values))[h])

/* Lists the energies that are in the range of their row. */
static void list_energies(gg_fft_rows *energy, size_t bins, fft_cuts *c)
{
    memset(c->n, 0, sizeof c->n);
    for (size_t k = 1; k < bins; k++) {
        unsigned in = 0;
        for (size_t h = 0; h < 2; h++) {
            const gg_f32x8 e = OF_ROWS(energy[k], h);
            const gg_i32x8 inside = NK_COMPARE8(f, e, >=, OF_ROWS(c->from, h)) &
                                    NK_COMPARE8(f, e, <, OF_ROWS(c->to, h));
            in |= gg_nk_mask8(&inside) << 8 * h;
        }
        for (; in; in &= in - 1) {
            size_t l = (size_t)__builtin_ctz(in);
            c->keys[l * bins + c->n[l]++] = gg_float_bits(energy[k][l]);
        }
    }
}

/* Finds the energy below which the bins of row l are dropped, in the order of their energy until
 * the budget is used up. `energy` begins with that row. If only some of the bins with the energy
 * found are to be dropped, these are the ones of the highest frequencies, whose energies become -1.
 * The energy of the strongest bin, which is never dropped, then becomes infinite. */
static float find_cut(float *energy, size_t bins, const fft_cuts *c, size_t l)
{
    double sum = c->below[l];
    size_t ties = 0, strongest = 1;
    float cut = INFINITY;
    const gg_nk_key *sorted = gg_sort_keys(c->keys + l * bins, c->n[l],
                                           c->keys + GG_FFT_BATCH * bins);
    for (size_t i = 0; i < c->n[l]; i++, ties++) {
        float e = gg_bits_float(sorted[i]);
        if (i == 0 || e > cut) cut = e, ties = 0;
        if (sum + (double)e > c->budget[l]) break;
        sum += (double)e;
    }
    if (ties == 0) return cut;
    for (size_t k = 2; k < bins; k++)
        if (energy[k * GG_FFT_BATCH] > energy[strongest * GG_FFT_BATCH]) strongest = k;
    energy[strongest * GG_FFT_BATCH] = INFINITY;
    for (size_t k = bins - 1; ties && k > 0; k--) {
        float *e = energy + k * GG_FFT_BATCH;
        if (*e <= cut && *e >= cut) *e = -1.0f, ties--;
    }
    return cut;
}

/* Leaves only the bins to remove in the spectra. */
static void keep_tails(const filter_job *f, const gg_fft_spectra *s, size_t count,
                       gg_fft_rows *energy)
{
    size_t n = (size_t)f->o->row, bins = n / 2 + 1;
    gg_fft_rows largest, scale = { 0 }, cut = { 0 };
    GG_K(gg_fft_largest)(s, n, 1, largest);
    for (size_t l = 0; l < count; l++) {
        float inverse = 1.0f / largest[l];
        if (isfinite(largest[l]) && isfinite(inverse)) scale[l] = inverse;
    }
    /* The energies 2 |scale X[k]|^2; half of that for the last bin of even n, which has no mirror
     * image. */
    for (size_t k = 1; k < bins; k++)
        for (size_t h = 0; h < 2; h++) {
            gg_f32x8 re = s->bin[k][h].re * OF_ROWS(scale, h),
                     im = s->bin[k][h].im * OF_ROWS(scale, h);
            OF_ROWS(energy[k], h) = 2.0f * (re * re + im * im) * (2 * k == n ? 0.5f : 1.0f);
        }
    fft_cuts c = { .keys = (void *)(energy + bins) };
    approach_cuts(energy, bins, f->o->strength * f->o->strength, &c);
    list_energies(energy, bins, &c);
    for (size_t l = 0; l < count; l++)
        if (scale[l] > 0) cut[l] = find_cut(energy[0] + l, bins, &c, l);
    memset(s->bin[0], 0, sizeof s->bin[0]);
    for (size_t k = 1; k < bins; k++)
        for (size_t h = 0; h < 2; h++) {
            gg_i32x8 keep = NK_COMPARE8(f, OF_ROWS(energy[k], h), <, OF_ROWS(cut, h));
            gg_fft_point *p = &s->bin[k][h];
            p->re = (gg_f32x8)((gg_i32x8)p->re & keep);
            p->im = (gg_f32x8)((gg_i32x8)p->im & keep);
        }
}

static void filter_fft(filter_job *f, size_t part, char *scratch)
{
    size_t n = (size_t)f->o->row, count;
    gg_fft_rows *energy = (gg_fft_rows *)(void *)(scratch + GG_K(gg_fft_scratch)(f->plan));
    float *x;
    for (size_t left = values_of_part(f, part, &x); left; left -= count * n, x += count * n) {
        count = left / n < GG_FFT_BATCH ? left / n : GG_FFT_BATCH;
        gg_fft_spectra s = GG_K(gg_fft_forward)(f->plan, x, count, scratch);
        keep_tails(f, &s, count, energy);
        const float *removed = GG_K(gg_fft_inverse)(f->plan, &s, count);
        subtract(x, removed, count * n, f->before.mean, &f->slots[part].removed);
    }
}

/* ---- levels of the Haar tree ------------------------------------------------------- *
 *
 * The values are the leaves of a binary tree. If a level has an odd number of nodes, the last one
 * is doubled. Tiles of 4096 leaves are transformed in cache, once for the energies and once to
 * filter. The tree above the tiles is small and is kept in memory.
 */

#define ROOM 8 /* values behind the end of an array */
#define ROOT_HALF 0.707106781186547524f

/* Sums of squares are computed in float lanes within a short run and in double across runs. The
 * relative error is below 1e-6, at half the cost. */
#define SQUARES_RUN 256

/* ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)) */
static inline double fold_squares(const void *lanes)
{
    const float *v = lanes;
    const gg_nk_f64x4 s = NK_WIDE_AT(v) + NK_WIDE_AT(v + 4);
    return (s[0] + s[2]) + (s[1] + s[3]);
}

/* The nodes and the details of as many pairs as a register has lanes. */
#if GG_LEVEL == 1
typedef gg_f32x8 haar_lanes;

static inline void split_lanes(const float *in, haar_lanes *node, haar_lanes *detail)
{
    const __m256 a = _mm256_loadu_ps(in), b = _mm256_loadu_ps(in + 8);
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88)),
                  odd = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
    const gg_f32x8 x = (gg_f32x8)_mm256_permute4x64_pd(even, 0xd8),
                   y = (gg_f32x8)_mm256_permute4x64_pd(odd, 0xd8);
    *node = (x + y) * ROOT_HALF;
    *detail = (x - y) * ROOT_HALF;
}
#else
typedef gg_nk_f32x4 haar_lanes;

static inline void split_lanes(const float *in, haar_lanes *node, haar_lanes *detail)
{
    const gg_nk_f32x4 x = { in[0], in[2], in[4], in[6] }, y = { in[1], in[3], in[5], in[7] };
    *node = (x + y) * ROOT_HALF;
    *detail = (x - y) * ROOT_HALF;
}
#endif

enum { HAAR_LANES = sizeof(haar_lanes) / sizeof(float) };

/* Splits eight pairs. Detail i of a run adds its square to lane i mod 8. */
static inline void split8(const float *in, float *out, float *detail, haar_lanes *squares)
{
    for (size_t i = 0; i < 8; i += HAAR_LANES) {
        haar_lanes node, d;
        split_lanes(in + 2 * i, &node, &d);
        squares[i / HAAR_LANES] += d * d;
        memcpy(out + i, &node, sizeof node);
        memcpy(detail + i, &d, sizeof d);
    }
}

/* Transforms one level, whose nodes are pairs. Returns the energy of the details. Fetches the nodes
 * `ahead` bytes behind these into the cache. */
static double split_level(const float *in, uintptr_t ahead, size_t pairs, float *out, float *detail)
{
    double energy = 0;
    while (pairs) {
        haar_lanes squares[8 / HAAR_LANES] = { { 0 } };
        size_t n = pairs < SQUARES_RUN ? pairs : SQUARES_RUN, i = 0, full = n & ~(size_t)7;
        for (; i < full; i += 8) {
            __builtin_prefetch((const void *)((uintptr_t)(in + 2 * i) + ahead));
            split8(in + 2 * i, out + i, detail + i, squares);
        }
        if (i < n) {
            float rest[16] = { 0 };
            memcpy(rest, in + 2 * i, 2 * (n - i) * sizeof *rest);
            split8(rest, out + i, detail + i, squares);
        }
        energy += fold_squares(squares);
        in += 2 * n, out += n, detail += n, pairs -= n;
    }
    return energy;
}

static void merge_level(const float *restrict in, const float *restrict detail, size_t pairs,
                        float *restrict out)
{
    for (size_t i = 0; i < pairs; i++) {
        float a = (in[i] + detail[i]) * ROOT_HALF, b = (in[i] - detail[i]) * ROOT_HALF;
        out[2 * i] = a;
        out[2 * i + 1] = b;
    }
}

static void exchange_nodes(float **in, float **out)
{
    float *swap = *in;
    *in = *out;
    *out = swap;
}

/* Transforms n nodes and returns the top node. Adds the energies of the details. */
static float split_levels(const haar_levels *t, const float *nodes, size_t n, double *energy)
{
    float *in = t->node[0], *out = t->node[1];
    if (n % 2) nodes = memcpy(in, nodes, n * sizeof *in);
    for (unsigned l = t->from; l <= t->to; l++) {
        if (n % 2) in[n] = in[n - 1];
        n = (n + 1) / 2;
        energy[l] += split_level(nodes, l == 1 ? TILE * sizeof *nodes : 0, n, out, t->detail[l]);
        exchange_nodes(&in, &out);
        nodes = in;
    }
    return nodes[0];
}

/* The inverse for n nodes, which are returned. */
static const float *merge_levels(const haar_levels *t, float top, size_t n)
{
    float *in = t->node[0], *out = t->node[1];
    in[0] = top;
    for (unsigned l = t->to; l >= t->from; l--) {
        unsigned below = l - t->from + 1;
        merge_level(in, t->detail[l], (n + ((size_t)1 << below) - 1) >> below, out);
        exchange_nodes(&in, &out);
    }
    return in;
}

/* Replaces n details by the parts to remove. The parent of detail i is at i / 2. Adds the squares
 * of the removed parts to sums->rr and their products with the details to sums->xr. Computes
 * 1 - q = (max - min) / max of e and f without a branch: max is half of e + f + |e - f|. The tiny
 * term turns 0 / 0 into 0, which means agreement. */
static void damp_level(damping how, float *detail, const float *parent, size_t n, removal *sums)
{
    gg_f32x8 rr = { 0 }, dr = { 0 }, d;
    for (size_t i = 0; i < n; i += 8) {
        const float *p = parent + i / 2;
#if NK_SHUFFLE
        const gg_nk_f32x4 four = NK_AT4(p);
        gg_f32x8 twice = __builtin_shufflevector(four, four, 0, 0, 1, 1, 2, 2, 3, 3);
#else
        gg_f32x8 twice = { p[0], p[0], p[1], p[1], p[2], p[2], p[3], p[3] };
#endif
        memcpy(&d, detail + i, sizeof d);
        gg_f32x8 a = d * how.inv, b = twice * how.inv_parent, e = a * a, f = b * b;
        gg_f32x8 apart = (gg_f32x8)((gg_i32x8)(e - f) & INT32_MAX);
        gg_f32x8 twice_max = ((e + f) + apart) + 1e-37f;
        gg_f32x8 r = d * ((apart * (2.0f * how.gain)) / twice_max);
        rr += r * r;
        dr += d * r;
        memcpy(detail + i, &r, sizeof r);
        if (i + 8 < n && (i + 8) % SQUARES_RUN) continue;
        sums->rr += fold_squares(&rr);
        sums->xr += fold_squares(&dr);
        rr = dr = (gg_f32x8){ 0 };
    }
}

/* The same for all levels of n nodes but the coarsest, except details whose parent is padding. */
static void damp_levels(const haar_levels *t, const damping *how, size_t n, removal *sums)
{
    for (unsigned l = t->from; l < t->to; l++) {
        n = (n + 1) / 2;
        damp_level(how[l], t->detail[l], t->detail[l + 1], n, sums);
        if (n % 2) t->detail[l][n - 1] = 0.0f;
    }
}

/* ---- Haar -------------------------------------------------------------------------- */

#define PART_TILES 64
#define SCRATCH_FLOATS (3 * TILE + (TILE_LEVELS + 2) * ROOM)

static haar_levels levels_of_tile(char *scratch)
{
    float *at = (float *)(void *)scratch;
    haar_levels t = { .from = 1, .to = TILE_LEVELS, .node = { at, at + TILE + ROOM } };
    at += 2 * (TILE + ROOM);
    for (unsigned l = 1; l <= TILE_LEVELS; at += (TILE >> l++) + ROOM) t.detail[l] = at;
    return t;
}

static gg_status start_haar(filter_job *f, gg_error *err)
{
    haar_tree *t = &f->tree;
    haar_levels *levels = &t->levels;
    f->part_elements = (uint64_t)PART_TILES * TILE;
    f->scratch_size = SCRATCH_FLOATS * sizeof(float);
    t->tiles = (size_t)((f->elements + TILE - 1) / TILE);
    size_t side = t->tiles + ROOM;
    /* Five arrays of at most `side` values, and the details of the other levels. */
    t->memory = calloc(6 * side + HAAR_LEVELS * (ROOM + 1), sizeof *t->memory);
    if (!t->memory) return gg_fail(err, GG_ENOMEM, "no memory for the scales of a tensor");
    t->sum = t->memory;
    t->parent = t->sum + side;
    levels->node[0] = t->parent + side;
    levels->node[1] = levels->node[0] + side;
    levels->from = TILE_LEVELS + 1;
    levels->to = TILE_LEVELS;
    float *at = levels->node[1] + side;
    for (size_t nodes = t->tiles; nodes > 1; at += nodes + ROOM) {
        nodes = (nodes + 1) / 2;
        levels->detail[++levels->to] = at;
    }
    return GG_OK;
}

/* Scans a tile. The mean of a full one is its top node divided by 64, and its energy around the
 * mean is that of the details. */
static void scan_tile(filter_job *f, filter_slot *slot, size_t tile, const haar_levels *t,
                      const float *x, size_t n)
{
    double energy[TILE_LEVELS + 1] = { 0 }, m2 = 0;
    float top = f->tree.sum[tile] = split_levels(t, x, n, energy);
    for (unsigned level = 1; level <= TILE_LEVELS; level++) {
        m2 += energy[level];
        slot->energy[level] += energy[level];
    }
    moments m = { n, (double)top / 64.0, m2 };
    if (n == TILE && isfinite(m2)) merge_moments(&slot->before, &m);
    else scan_moments(slot, x, n);
}

/* Computes the damping factors from the mean energies. Details of padding are 0 and not counted. */
static bool set_damping(filter_job *f, const double *energy)
{
    haar_tree *t = &f->tree;
    unsigned levels = t->levels.to;
    double mean[HAAR_LEVELS + 2] = { 0 };
    uint64_t nodes = f->elements;
    for (unsigned level = 1; level <= levels; level++) {
        uint64_t count = nodes / 2;
        if (!isfinite(energy[level])) return false;
        mean[level] = count ? energy[level] / (double)count : 0;
        nodes = (nodes + 1) / 2;
    }
    for (unsigned level = 1; level <= levels; level++) {
        damping *h = &t->how[level];
        double noise = mean[level] > mean[1] ? mean[1] / mean[level] : 1.0;
        h->gain = level < levels ? (float)(f->o->strength * noise) : 0.0f;
        h->inv = mean[level] > 1e-60 ? (float)(1.0 / sqrt(mean[level])) : 0.0f;
    }
    for (unsigned level = 1; level < levels; level++)
        t->how[level].inv_parent = t->how[level + 1].inv;
    return true;
}

/* Transforms the tree above the tiles, and sets t->sum to the parts to remove. Returns false if the
 * energies are too large for floats. */
static bool join_haar(filter_job *f)
{
    haar_tree *t = &f->tree;
    const haar_levels *levels = &t->levels;
    double energy[HAAR_LEVELS + 1] = { 0 };
    removal unused = { 0, 0, 0 };
    for (size_t part = 0; part < f->parts; part++)
        for (unsigned level = 1; level <= TILE_LEVELS; level++)
            energy[level] += f->slots[part].energy[level];
    split_levels(levels, t->sum, t->tiles, energy);
    if (!set_damping(f, energy)) return false;
    if (t->tiles > 1) {
        memcpy(t->parent, levels->detail[levels->from], (t->tiles + 1) / 2 * sizeof *t->parent);
        damp_levels(levels, t->how, t->tiles, &unused);
        levels->detail[levels->to][0] = 0.0f; /* the coarsest detail is kept */
    }
    memcpy(t->sum, merge_levels(levels, 0.0f, t->tiles), t->tiles * sizeof *t->sum);
    return true;
}

/* For a full tile the sums over the removed part r follow from the coefficients, because the
 * transform is orthonormal: sum r = 64 r0, sum r^2 = r0^2 + sum over the details, and with
 * u = x - mean, sum u r = (top - 64 mean) r0 + sum over the details. */
static void filter_tile(const filter_job *f, size_t tile, const haar_levels *levels, float *x,
                        size_t n, removal *total)
{
    const haar_tree *t = &f->tree;
    float *coarsest = levels->detail[TILE_LEVELS];
    double unused[TILE_LEVELS + 1] = { 0 };
    double top = (double)split_levels(levels, x, n, unused), node = (double)t->sum[tile];
    removal sums = { 64.0 * node, node * node, (top - 64.0 * f->before.mean) * node };
    damp_levels(levels, t->how, n, &sums);
    if (tile == t->tiles - 1 && t->tiles % 2 == 1) coarsest[0] = 0.0f; /* its parent is padding */
    else damp_level(t->how[TILE_LEVELS], coarsest, t->parent + tile / 2, 1, &sums);
    const float *removed = merge_levels(levels, t->sum[tile], n);
    if (n < TILE) {
        subtract(x, removed, n, f->before.mean, total);
        return;
    }
    for (size_t i = 0; i < TILE; i++) x[i] -= removed[i];
    add_removal(total, &sums);
}

/* ---- all passes ---------------------------------------------------------------------- */

static gg_status scan_part(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    filter_job *f = ctx;
    bool haar = f->o->method == GG_PURIFY_HAAR;
    haar_levels levels = { 0 };
    float *x;
    size_t tile = i * PART_TILES;
    if (haar) levels = levels_of_tile(f->scratch + worker * f->scratch_size);
    /* the details themselves are not needed, and one array for all levels stays in the cache */
    for (unsigned l = 2; l <= TILE_LEVELS; l++) levels.detail[l] = levels.detail[1];
    for (size_t left = values_of_part(f, i, &x), n; left; left -= n, x += n, tile++) {
        n = left < TILE ? left : TILE;
        if (haar) scan_tile(f, &f->slots[i], tile, &levels, x, n);
        else scan_moments(&f->slots[i], x, n);
    }
    return gg_cancelled(err);
}

static void filter_haar(filter_job *f, size_t part, char *scratch)
{
    const haar_levels levels = levels_of_tile(scratch);
    float *x;
    size_t tile = part * PART_TILES;
    for (size_t left = values_of_part(f, part, &x), n; left; left -= n, x += n, tile++) {
        n = left < TILE ? left : TILE;
        filter_tile(f, tile, &levels, x, n, &f->slots[part].removed);
    }
}

static gg_status filter_part(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    filter_job *f = ctx;
    char *scratch = f->scratch + worker * f->scratch_size;
    if (f->o->method == GG_PURIFY_HAAR) filter_haar(f, i, scratch);
    else filter_fft(f, i, scratch);
    return gg_cancelled(err);
}

/* x + (x (scale - 1) + shift). The scale is near 1, so the correction is small and float is as
 * accurate as double here. */
static gg_status finish_part(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    const filter_job *f = ctx;
    float *x, gain = (float)(f->scale - 1.0), offset = (float)f->shift;
    (void)worker;
    for (size_t k = 0, n = values_of_part(f, i, &x); k < n; k++) x[k] += x[k] * gain + offset;
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
    removal all = { 0, 0, 0 };
    for (size_t i = 0; i < f->parts; i++) add_removal(&all, &f->slots[i].removed);
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

gg_status GG_K(gg_filter_values)(const gg_filter *o, float *x, uint64_t elements, gg_filtered *out,
                                 gg_error *err)
{
    filter_job f = { .o = o, .x = x, .elements = elements };
    *out = (gg_filtered){ .energy_kept = 1.0 };
    gg_status st = check_filter(o, elements, err);
    if (st == GG_OK) st = o->method == GG_PURIFY_FFT ? start_fft(&f, err) : start_haar(&f, err);
    if (st == GG_OK) {
        /* not 0: both filters set it */
        f.parts = (size_t)((elements + f.part_elements - 1) / f.part_elements);
        f.scratch_size = (f.scratch_size + 63) & ~(size_t)63;
        f.slots = calloc(f.parts + 1, sizeof *f.slots);
        f.scratch = aligned_alloc(64, f.scratch_size * o->threads);
        if (!f.slots || !f.scratch) st = gg_fail(err, GG_ENOMEM, "no memory for a filter");
    }
    if (st == GG_OK) st = run_passes(&f, out, err);
    GG_K(gg_fft_plan_free)(f.plan);
    free(f.tree.memory);
    free(f.slots);
    free(f.scratch);
    return st;
}
