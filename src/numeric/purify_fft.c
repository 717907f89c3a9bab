/* purify_fft.c - drop the low-energy tail of each row's spectrum.
 *
 * As in the Haar filter, the part to remove is transformed back and subtracted. Bins that are kept
 * are set to zero for that, so they lose no accuracy.
 */
#include "fft_core.h"
#include "purify_core.h"

#include "base/float_bits.h"
#include "numeric/numeric.h"
#include "sort.h"

#include <math.h>
#include <string.h>

/* A part is a whole number of batches of rows, with at least about this many values. */
#define PART_VALUES 65536u

gg_status gg_purify_fft_init(gg_purify *p, gg_error *err)
{
    if (p->row > SIZE_MAX / 1024) {
        return gg_fail(err, GG_EUNSUPPORTED, "a row of %llu values is too long for the FFT filter",
                       (unsigned long long)p->row);
    }
    p->plan = gg_fft_plan_new((size_t)p->row, err);
    if (!p->plan) return err->status;
    uint64_t batch = GG_FFT_BATCH * p->row;
    p->part_elements = batch * ((PART_VALUES + batch - 1) / batch);
    return GG_OK;
}

/* Up to this number of bins, sorting all is faster than using classes. */
#define FEW 24

/* Number of energies of a row that may be listed near its cut. */
static size_t list_room(size_t bins)
{
    return bins / 4 + 16;
}

/* The scratch of the FFT, the energies of a batch, and the lists of energies with room to sort one
 * of them. The lists are also the room for the energies and the keys of a single row. */
size_t gg_purify_fft_scratch(const gg_purify *p)
{
    size_t bins = gg_fft_bins(p->plan);
    return gg_fft_scratch(p->plan) + bins * sizeof(fft_point) +
           (GG_FFT_BATCH + 1) * list_room(bins) * sizeof(float);
}

/* Energies are grouped into classes of a sixteenth of an octave, taken from the bits of the float.
 * All energies below 2^-40 of the largest are in the lowest class. */
#define CLASSES 704
#define CLASS_SHIFT 19

static uint32_t class_of(float energy, uint32_t base)
{
    uint32_t c = gg_float_bits(energy) >> CLASS_SHIFT;
    return c > base ? c - base : 0;
}

typedef struct cut {
    float energy; /* bins below it are dropped */
    size_t ties;  /* number of bins equal to it that are dropped, highest frequencies first */
} cut;

static size_t collect_energies(const float *energy, size_t bins, uint32_t least, uint32_t end,
                               gg_nk_key *keys)
{
    size_t members = 0;
    for (size_t k = 1; k < bins; k++) {
        uint32_t u = gg_float_bits(energy[k]);
        keys[members] = u; /* no branch: it would be mispredicted */
        members += u - least < end - least;
    }
    return members;
}

/* Drops bins in the order of their energy until the budget is used up. */
static cut cut_sorted(const gg_nk_key *sorted, size_t n, double sum, double budget)
{
    cut at = { INFINITY, 0 };
    for (size_t i = 0; i < n; i++) {
        float e = gg_bits_float(sorted[i]);
        if (i == 0 || e > at.energy) at = (cut){ e, 0 };
        if (sum + (double)e > budget) return at;
        sum += (double)e;
        at.ties++;
    }
    return at;
}

static cut find_cut_few(const float *energy, size_t bins, double share, gg_nk_key *keys)
{
    double total = 0;
    size_t members = collect_energies(energy, bins, 0, UINT32_MAX, keys);
    const gg_nk_key *sorted = gg_sort_few(keys, members, keys + bins);
    for (size_t i = 0; i < members; i++) total += (double)gg_bits_float(sorted[i]);
    return cut_sorted(sorted, members, 0, share * total);
}

/* Finds the smallest energies whose sum is within a share of the total: first whole classes, then
 * the class at the limit, sorted. `top` are the bits of the largest energy. */
static cut find_cut(const float *energy, size_t bins, uint32_t top, double share, gg_nk_key *keys)
{
    double in_class[CLASSES] = { 0 }, part[4] = { 0 }, sum = 0;
    uint32_t base = top >> CLASS_SHIFT, c = CLASSES - 1;
    base = base >= CLASSES ? base - CLASSES + 1 : 0;
    for (size_t k = 1; k < bins; k++) {
        uint32_t in = class_of(energy[k], base);
        in_class[in] += (double)energy[k];
        c = in < c ? in : c;
    }
    for (uint32_t i = c & ~3u; i < CLASSES; i += 4) /* four sums hide the latency of additions */
        for (uint32_t j = 0; j < 4; j++) part[j] += in_class[i + j];
    double budget = share * ((part[0] + part[1]) + (part[2] + part[3]));
    while (c < CLASSES - 1 && sum + in_class[c] <= budget) sum += in_class[c++];
    uint32_t least = c ? (base + c) << CLASS_SHIFT : 0, end = (base + c + 1) << CLASS_SHIFT;
    size_t members = collect_energies(energy, bins, least, end, keys);
    return cut_sorted(gg_sort_few(keys, members, keys + bins), members, sum, budget);
}

/* A batch of rows while its bins are selected. */
typedef struct batch {
    const gg_purify *p;
    size_t bins, count;
    fft_spectra s;
    fft_totals totals;
    fft_values limit; /* near the cut, later the end of the list */
    fft_values from;  /* start of the list */
    fft_values cut;   /* what selects the bins in the end; 0 in rows that remain unchanged */
    fft_sums below;   /* sum of the energies below the limit */
    gg_nk_key *keys;
    size_t listed[GG_FFT_BATCH];
    bool open[GG_FFT_BATCH]; /* rows whose cut is not known yet */
} batch;

#define ROW(values, l) (values)[(l) / FFT_LANES][(l) % FFT_LANES]

/* Never removes the strongest bin. If only some of the bins with the energy of the cut are to be
 * removed, these are the ones of the highest frequencies. */
static void settle(batch *b, size_t l, cut at)
{
    size_t strongest = 1;
    b->open[l] = false;
    ROW(b->cut, l) = at.energy;
    if (at.ties == 0) return;
    float top = gg_bits_float((uint32_t)ROW(b->totals.top, l));
    float *energy = &ROW(*(fft_values *)(void *)b->s.energy, l);
    const size_t step = sizeof(fft_point) / sizeof(float);
    while (energy[strongest * step] < top) strongest++;
    energy[strongest * step] = INFINITY;
    for (size_t k = b->bins - 1; at.ties && k > 0; k--) {
        float *e = energy + k * step;
        if (*e <= at.energy && *e >= at.energy) *e = -1.0f, at.ties--;
    }
}

/* Whether sums of any of the row's energies are exact in double, and so do not depend on the order:
 * they are multiples of the unit of the least and below 2^53 of these. */
static bool exact(const fft_totals *t, size_t l)
{
    uint32_t least = ((uint32_t)ROW(t->least, l) + 1) >> 23;
    return gg_float_exponent((float)ROW(t->sum, l)) + 127 - (int)(least ? least : 1) < 29;
}

/* Selects by sorting, for rows for which the fast way fails. */
static void settle_alone(batch *b, size_t l)
{
    float *energy = (float *)b->keys;
    for (size_t k = 0; k < b->bins; k++)
        energy[k] = ROW(*(fft_values *)(void *)(b->s.energy + k), l);
    double s = b->p->strength * b->p->strength;
    gg_nk_key *keys = b->keys + b->bins;
    settle(b, l,
           b->bins <= FEW ? find_cut_few(energy, b->bins, s, keys)
                          : find_cut(energy, b->bins, (uint32_t)ROW(b->totals.top, l), s, keys));
}

static double budget_of(const batch *b, size_t l)
{
    return b->p->strength * b->p->strength * ROW(b->totals.sum, l);
}

#define TRIES 5

/* Moves the limit of each row until the energies below it sum to about the budget. In noise, and
 * near the cut, this sum grows with the square of the limit. Rows that do not get there have no
 * limit. */
static void approach(batch *b)
{
    double share = b->p->strength * b->p->strength, start = sqrt(2 * share);
    bool far[GG_FFT_BATCH], any = true;
    for (size_t l = 0; l < GG_FFT_BATCH; l++) {
        double mean = ROW(b->totals.sum, l) / (double)b->bins;
        far[l] = b->open[l] && b->bins > FEW && exact(&b->totals, l);
        ROW(b->limit, l) = far[l] ? (float)(start * (1 + start / 3) * mean) : 0;
    }
    for (int i = 0; i < TRIES && any; i++) {
        GG_PICK(gg_nk_fft_sum_below)(&b->s, b->bins, b->limit, b->below);
        any = false;
        for (size_t l = 0; l < GG_FFT_BATCH; l++) {
            double ratio = budget_of(b, l) / ROW(b->below, l);
            if (!far[l] || (ratio > 0.6 && ratio < 1.6)) {
                far[l] = false;
                continue;
            }
            any = true;
            ROW(b->limit, l) *= (float)(ratio < 64 ? ratio > 1.0 / 64 ? sqrt(ratio) : 0.125 : 8);
        }
    }
    for (size_t l = 0; l < GG_FFT_BATCH; l++)
        if (far[l]) ROW(b->limit, l) = 0;
}

/* Turns limits into ranges of energies that contain the cut, unless few energies are unusual. */
static void bracket(batch *b)
{
    double share = b->p->strength * b->p->strength, start = sqrt(2 * share);
    double margin = 0.02 + 2 * (1 + start) / (start * (double)b->bins);
    for (size_t l = 0; l < GG_FFT_BATCH; l++) {
        double limit = (double)ROW(b->limit, l);
        if (limit <= 0) {
            ROW(b->from, l) = 0;
            continue;
        }
        double ratio = budget_of(b, l) / ROW(b->below, l), move = (sqrt(ratio) - 1) * limit;
        if (ratio >= 1) {
            ROW(b->from, l) = ROW(b->limit, l);
            ROW(b->limit, l) = (float)(limit + 1.5 * move + margin * limit);
        } else {
            double from = limit + 1.5 * move - margin * limit;
            ROW(b->from, l) = from > 0 ? (float)from : 0;
        }
    }
}

/* Finds the cut of row l in its list. It is between two energies of the list, or at its start. */
static void settle_listed(batch *b, size_t l, const fft_lists *lists, bool upward)
{
    size_t n = lists->n[l];
    gg_nk_key *keys = lists->keys + l * lists->room;
    if (n == 0 || n > lists->room) return;
    double sum = ROW(b->below, l), listed = 0, budget = budget_of(b, l);
    for (size_t i = 0; i < n; i++) listed += (double)gg_bits_float(keys[i]);
    if (!upward) sum -= listed;
    if (sum > budget || sum + listed <= budget) return;
    keys = gg_sort_few(keys, n, lists->keys + GG_FFT_BATCH * lists->room);
    settle(b, l, cut_sorted(keys, n, sum, budget));
}

static void find_cuts(batch *b)
{
    fft_lists lists = { b->keys, list_room(b->bins), b->listed };
    bool upward[GG_FFT_BATCH];
    approach(b);
    for (size_t l = 0; l < GG_FFT_BATCH; l++) upward[l] = ROW(b->below, l) <= budget_of(b, l);
    bracket(b);
    GG_PICK(gg_nk_fft_collect)(&b->s, b->bins, b->from, b->limit, &lists);
    for (size_t l = 0; l < b->count; l++)
        if (b->open[l]) settle_listed(b, l, &lists, upward[l]);
    for (size_t l = 0; l < b->count; l++)
        if (b->open[l]) settle_alone(b, l);
}

/* Leaves only the bins to remove in the spectra, whose largest parts are given. */
static void keep_tails(batch *b, size_t n, fft_bits largest)
{
    fft_values scale;
    for (size_t l = 0; l < GG_FFT_BATCH; l++) {
        uint32_t most = (uint32_t)ROW(largest, l);
        float s = 1.0f / gg_bits_float(most);
        b->open[l] = most != 0 && most < 0x7f800000 && isfinite(s);
        ROW(scale, l) = b->open[l] ? s : 0;
        ROW(b->cut, l) = 0;
    }
    GG_PICK(gg_nk_fft_energies)(&b->s, n, scale, &b->totals);
    find_cuts(b);
    GG_PICK(gg_nk_fft_keep_below)(&b->s, b->bins, b->cut, largest);
}

/* Copies the rows to buf if a value is not finite, and replaces it. */
static const float *sound_rows(const float *x, size_t n, size_t rows, float *buf)
{
    for (size_t r = 0; r < rows; r++) {
        float *copy = buf + r * n;
        if (gg_purify_sound(x + r * n, n, copy) != copy) memcpy(copy, x + r * n, n * sizeof *copy);
    }
    return buf;
}

/* Returns the part of a batch of rows that the filter removes; it is in the scratch. */
static const float *removed_part(const gg_purify *p, const float *x, size_t count, void *scratch)
{
    size_t n = (size_t)p->row, bins = n / 2 + 1;
    fft_buffers z = gg_fft_buffers(p->plan, scratch);
    fft_lanes lanes;
    fft_bits largest;
    GG_PICK(gg_nk_fft_largest)(x, n, count, largest);
    if (!gg_fft_condition(&lanes, largest, count)) {
        x = sound_rows(x, n, count, (float *)z.other);
        GG_PICK(gg_nk_fft_largest)(x, n, count, largest);
        gg_fft_condition(&lanes, largest, count);
    }
    GG_PICK(gg_nk_fft_load)(&lanes, x, n, count, z.now);
    gg_fft_transform(p->plan, &z);
    fft_point *energy = gg_fft_buffers(p->plan, scratch).other + gg_fft_room(p->plan);
    batch b = { .p = p, .bins = bins, .count = count, .keys = (gg_nk_key *)(energy + bins) };
    b.s = (fft_spectra){ z.other, z.other + bins, energy };
    GG_PICK(gg_nk_fft_split)(&lanes, z.now, n, &b.s, largest);
    keep_tails(&b, n, largest);
    gg_fft_condition(&lanes, largest, count);
    gg_fft_inverse(p->plan, &lanes, count, &z, NULL);
    return (const float *)z.other;
}

void gg_purify_fft_filter(gg_purify *p, size_t part, float *x, float *scratch)
{
    size_t n = (size_t)p->row;
    removal_of of = { p->before.mean, p->before.n == p->elements };
    uint64_t first, left = gg_purify_extent(p, part, &first);
    for (x += first; left;) {
        size_t count = left / n < GG_FFT_BATCH ? (size_t)(left / n) : GG_FFT_BATCH;
        const float *rows = removed_part(p, x, count, scratch);
        GG_PICK(gg_nk_remove)(x, rows, count * n, &of, &p->slot[part].removed);
        x += count * n;
        left -= count * n;
    }
}
