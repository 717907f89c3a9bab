/* merge_values.h - arithmetic of merging: arrays of float32 values of several models. Internal.
 *
 * Nothing here knows tensors or models. Arrays have n values and belong to the caller. Results do
 * not depend on the instruction set.
 */
#pragma once

#include "base/float_bits.h"
#include "base/isa.h"
#include "numeric/arc.h"

/* ---- combinations ------------------------------------------------------------------ */

/* out = base + sum of c[k] x[k] over the n_in arrays of x, computed in double. base may be NULL.
 * out may be base or one of x. */
GG_DECLARE_KF(void, gg_mk_combine,
              (float *out, const float *base, float *const *x, const double *c, size_t n_in,
               size_t n));

/* out = base + sum of c[k] (x[k] - base), where the differences are rounded to float32. */
GG_DECLARE_KF(void, gg_mk_combine_from,
              (float *out, const float *base, float *const *x, const double *c, size_t n_in,
               size_t n));

/* Adds the dot products of all pairs of arrays x[k] to `sums`, or of x[k] - base if base is not
 * NULL: row i of the upper triangle follows row i - 1. Sums of n_in (n_in + 1) / 2 doubles. */
GG_DECLARE_KF(void, gg_mk_gram,
              (float *const *x, const float *base, size_t n_in, size_t n, double *sums));

/* The place of the product of arrays i <= j in those sums. */
static inline size_t gg_gram_at(size_t i, size_t j, size_t n_in)
{
    return i * n_in - i * (i + 1) / 2 + j;
}

/* x = x - base, in float32. */
GG_DECLARE_KF(void, gg_mk_subtract, (float *x, const float *base, size_t n));

/* out = w b + (1 - w) a, where w is t / |a - b|, but at most 1; t > 0. */
GG_DECLARE_KF(void, gg_mk_nearswap,
              (float *out, const float *a, const float *b, float t, size_t n));

/* ---- masks --------------------------------------------------------------------------- */

/* The magnitude of a float as an integer: the order of these keys is that of the magnitudes. */
static inline uint32_t gg_magnitude(float x)
{
    return gg_float_bits(x) & 0x7fffffffu;
}

/* Sets values to 0 whose magnitude is below `from`, or is `to` or above. */
GG_DECLARE_KF(void, gg_mk_band, (float *x, size_t n, uint32_t from, uint32_t to));

/* The variance over the n_in arrays of x, for each value, computed in double. */
GG_DECLARE_KF(void, gg_mk_variances, (float *out, float *const *x, size_t n_in, size_t n));

/* Sets values of x to 0 whose bit in the mask is 0. Masks have one bit per value, the lowest of a
 * byte first. */
GG_DECLARE_KF(void, gg_mk_apply_mask, (float *x, const uint8_t *mask, size_t n));

/* Sets the mask of the values that are not 0. */
GG_DECLARE_KF(void, gg_mk_pack_mask, (uint8_t * mask, const float *x, size_t n));

/* Returns the number of values that are not 0. */
GG_DECLARE_KF(size_t, gg_mk_count_nonzero, (const float *x, size_t n));

/* x = x * by */
GG_DECLARE_KF(void, gg_mk_scale, (float *x, float by, size_t n));

/* Adds the magnitudes, or the squares, of all values to sums[0], and of the values in the mask to
 * sums[1]. The mask may be NULL. Magnitudes are added with a relative error of at most 2^-19. */
GG_DECLARE_KF(void, gg_mk_norms,
              (const float *x, const uint8_t *mask, size_t n, bool squares, double sums[2]));

/* How differences are mixed where their signs agree. */
typedef struct gg_consensus {
    const float *w;  /* of each array */
    bool unweighted; /* the weights do not count when the sign is chosen */
    bool normalize;  /* divide by the sum of the weights that took part */
    float scale;     /* of the result */
} gg_consensus;

/* out = base + scale * the sum of w[k] d[k] over those arrays whose weighted value has the sign of
 * the sum of all weighted values. A sum of 0 counts as positive. The arithmetic is that of
 * float32. */
GG_DECLARE_KF(void, gg_mk_consensus,
              (float *out, const float *base, float *const *d, size_t n_in, size_t n,
               const gg_consensus *how));

/* ---- RAM ------------------------------------------------------------------------------- */

/* Counts the values with a magnitude above epsilon: those of array k that another array has too in
 * counts[2 k], and those that only array k has in counts[2 k + 1]. */
GG_DECLARE_KF(void, gg_mk_count_changes,
              (float *const *x, size_t n_in, size_t n, float epsilon, uint64_t *counts));

typedef struct gg_changes {
    float epsilon;
    const float *gain; /* of each array */
} gg_changes;

/* out = base + the mean of the values with a magnitude above epsilon. A value that only array k has
 * is multiplied by gain[k]. The arithmetic is that of float32. */
GG_DECLARE_KF(void, gg_mk_add_changes,
              (float *out, const float *base, float *const *x, size_t n_in, size_t n,
               const gg_changes *how));

/* ---- Arcee fusion --------------------------------------------------------------------- */

/* The divergence (Kullback-Leibler) of the softmax of a row x from that of base; n >= 1. `scratch`
 * has 2 n entries. */
GG_DECLARE_KF(float, gg_mk_divergence,
              (const float *base, const float *x, size_t n, float *scratch));

/* out = |x - base| * by */
GG_DECLARE_KF(void, gg_mk_importances,
              (float *out, const float *base, const float *x, float by, size_t n));

/* out = base + (x - base) where out is at least `border`, else base. */
GG_DECLARE_KF(void, gg_mk_take_from,
              (float *out, const float *base, const float *x, float border, size_t n));

/* ---- random numbers -------------------------------------------------------------------- */

/* Sets bit i of the mask if random number first + i, divided by 2^11, is below `limit`. */
GG_DECLARE_KF(void, gg_mk_random_mask,
              (uint8_t * mask, size_t n, uint64_t key, uint64_t first, uint64_t limit));

/* Sets bit i of the mask if random number first + i is below `density` (0..1). */
void gg_random_mask(uint8_t *mask, size_t n, uint64_t key, uint64_t first, double density);

/* Keeps each value of a row with a probability that rises with the rank of its magnitude: from
 * density - epsilon for the smallest to density + epsilon for the largest. Of equal magnitudes
 * the later is the larger. `scratch` has 2 n entries. n < 2^32. */
void gg_random_keep_ranked(float *row, size_t n, uint64_t key, uint64_t first,
                           const double density[2], uint64_t *scratch);

/* ---- quantiles --------------------------------------------------------------------------- */

/* The border of "the K largest": a key above `bits` is among them, and so is a key equal to it
 * at an index below `index`. */
typedef struct gg_cut {
    uint32_t bits;
    uint64_t index;
} gg_cut;

/* clang-format off */
#define GG_CUT_NONE ((gg_cut){ 0x7fffffff, UINT64_MAX }) /* K = 0 */
#define GG_CUT_ALL ((gg_cut){ 0, UINT64_MAX })
/* clang-format on */

/* Finds such borders exactly, without sorting, by counting keys of 31 bits: pass 0 counts their
 * upper 16 bits, pass 1 the lower 15 bits of keys that can be the border, in 4 segments of the
 * indices, and pass 2 (only where equal keys lie on the border) reads one such segment in
 * order. */
#define GG_QUANTILE_SEGMENTS 4
#define GG_QUANTILE_HIGH ((size_t)1 << 16)
#define GG_QUANTILE_LOW_BITS 15
#define GG_QUANTILE_LOW ((size_t)1 << GG_QUANTILE_LOW_BITS)

typedef struct gg_quantile {
    size_t stream;    /* which keys */
    uint64_t wanted;  /* K, at most the number of keys */
    uint32_t high;    /* after pass 0: the upper bits of the border */
    uint64_t left;    /* how many of the keys that are still undecided are wanted */
    unsigned segment; /* after pass 1: where the index lies */
    bool open;        /* pass 2 is needed */
    gg_cut cut;       /* the result */
} gg_quantile;

typedef struct gg_quantiles {
    gg_quantile *list; /* the caller's */
    size_t n, streams;
    bool values_only;      /* the caller does not need cut.index, so pass 2 is left out */
    size_t segments;       /* see gg_quantiles_split */
    uint64_t segment_size; /* number of indices per segment */
} gg_quantiles;

/* Sets segments and segment_size for streams of `keys` keys: a small stream, and one whose indices
 * are not needed, needs only one segment. A run of keys must not cross a multiple of `unit`. */
void gg_quantiles_split(gg_quantiles *q, uint64_t keys, size_t unit);

/* Count values by the upper bits of their keys, and those with the upper bits `high` by the lower
 * bits. */
GG_DECLARE_KF(void, gg_mk_count_high, (const float *x, size_t n, uint64_t *counts));
GG_DECLARE_KF(void, gg_mk_count_low, (const float *x, size_t n, uint32_t high, uint64_t *counts));

/* The number of counters (all zero at the start) that a pass needs. 0: the pass is not needed. */
size_t gg_quantiles_counters(const gg_quantiles *q, unsigned pass);
/* n keys of a stream: the magnitudes of x. The first has the index `first`. */
typedef struct gg_key_run {
    size_t stream;
    const float *x;
    size_t n;
    uint64_t first;
} gg_key_run;

/* Counts keys. Counters of several workers are added before gg_quantiles_end, except in pass 2,
 * which has one worker that sees the keys in order. */
void gg_quantiles_count(const gg_quantiles *q, unsigned pass, const gg_key_run *keys,
                        uint64_t *counters);
void gg_quantiles_end(gg_quantiles *q, unsigned pass, const uint64_t *counters);
/* The range of indices that pass 2 must read. */
void gg_quantiles_range(const gg_quantiles *q, uint64_t *from, uint64_t *to);

/* Sets all values to 0 but those that are among the K largest of `low` and not of `high`. */
void gg_keep_between(float *x, size_t n, uint64_t first, const gg_cut *low, const gg_cut *high);
