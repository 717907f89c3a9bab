/* purify_fft.c - drop the low-energy tail of each row's spectrum.
 *
 * As in the Haar filter, the part to remove is transformed back and subtracted. Bins that are kept
 * are set to zero for that, so they lose no accuracy.
 */
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

/* Number of floats of our own scratch: rows to remove, spectra, energies, keys and their copy. The
 * scratch of the FFT follows. */
static size_t own_floats(const gg_purify *p)
{
    size_t n = (size_t)p->row, bins = n / 2 + 1;
    return GG_FFT_BATCH * (n + 2 * bins) + 3 * bins + 16;
}

size_t gg_purify_fft_scratch(const gg_purify *p)
{
    return own_floats(p) * sizeof(float) + gg_fft_scratch(p->plan);
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

/* Up to this number of bins, sorting all is faster than using classes. */
#define FEW 24

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

/* Leaves only the bins to remove in the spectrum. The mean and the strongest bin get an energy
 * above every cut, and ties that are dropped get one below. */
static void keep_tail(float *spectrum, size_t n, double share, float *energy, gg_nk_key *keys)
{
    size_t bins = n / 2 + 1, strongest = 1;
    uint32_t most = bins > 1 ? GG_PICK(gg_nk_largest)(spectrum + 2, 2 * bins - 2) : 0;
    float scale = 1.0f / gg_bits_float(most);
    if (most == 0 || most >= 0x7f800000 || !isfinite(scale)) {
        memset(spectrum, 0, 2 * bins * sizeof *spectrum);
        return;
    }
    GG_PICK(gg_nk_bin_energies)(spectrum, bins, scale, energy);
    if (n % 2 == 0) energy[n / 2] *= 0.5f; /* this bin has no mirror image, the others have one */
    uint32_t top = GG_PICK(gg_nk_largest)(energy + 1, bins - 1);
    cut at = bins <= FEW ? find_cut_few(energy, bins, share, keys)
                         : find_cut(energy, bins, top, share, keys);
    while (gg_float_bits(energy[strongest]) != top) strongest++;
    energy[0] = energy[strongest] = INFINITY;
    for (size_t k = bins; at.ties && k-- > 0;)
        if (energy[k] <= at.energy && energy[k] >= at.energy) energy[k] = -1.0f, at.ties--;
    GG_PICK(gg_nk_keep_below)(spectrum, energy, bins, at.energy);
}

static const float *sound_rows(const float *x, size_t n, size_t rows, float *buf)
{
    bool sound = true;
    for (size_t r = 0; r < rows && sound; r++) sound = gg_purify_sound(x + r * n, n, buf) != buf;
    if (sound) return x;
    for (size_t r = 0; r < rows; r++) {
        float *copy = buf + r * n;
        if (gg_purify_sound(x + r * n, n, copy) != copy) memcpy(copy, x + r * n, n * sizeof *copy);
    }
    return buf;
}

void gg_purify_fft_filter(gg_purify *p, size_t part, float *x, float *scratch)
{
    size_t n = (size_t)p->row, bins = n / 2 + 1;
    float *rows = scratch, *spectra = rows + GG_FFT_BATCH * n,
          *energy = spectra + 2 * bins * GG_FFT_BATCH;
    gg_nk_key *keys = (gg_nk_key *)(energy + bins);
    void *fft = scratch + own_floats(p);
    uint64_t first, left = gg_purify_extent(p, part, &first);
    x += first;
    while (left) {
        size_t count = left / n < GG_FFT_BATCH ? (size_t)(left / n) : GG_FFT_BATCH;
        gg_rfft(p->plan, sound_rows(x, n, count, rows), count, spectra, fft);
        for (size_t r = 0; r < count; r++)
            keep_tail(spectra + r * 2 * bins, n, p->strength * p->strength, energy, keys);
        gg_irfft(p->plan, spectra, count, rows, fft);
        GG_PICK(gg_nk_remove)(x, rows, count * n, p->before.mean, &p->slot[part].removed);
        x += count * n;
        left -= count * n;
    }
}
