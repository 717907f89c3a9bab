/* k_merge.c - the hot loops of merging: sums over the models, value by value.
 *
 * The functions for a tile are inlined twice: for whole tiles, whose sums stay in registers, and
 * for what remains. */
#include "merge/merge_values.h"
#include "numeric/nlanes.h"

#include <string.h>

#ifdef __OPTIMIZE_SIZE__ /* plain C on x86-64 */
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif
#define TILE ((size_t)16)
#define WIDES (TILE / 4)
#define LANES ((size_t)8)

/* ---- in double ------------------------------------------------------------------------ */

/* n values as doubles, four at a time; the rest of the tile is 0. With `less`, that is subtracted
 * first, in float32. */
INLINE void load_tile(gg_nk_f64x4 *to, const float *x, const float *less, size_t n)
{
    float rest[2][TILE] = { { 0 } };
    if (n < TILE) {
        x = memcpy(rest[0], x, n * sizeof *x);
        if (less) less = memcpy(rest[1], less, n * sizeof *x);
    }
    GG_UNROLL(4)
    for (size_t v = 0; v < WIDES; v++) {
        gg_nk_f32x4 four = NK_AT4(x + 4 * v);
        if (less) four -= NK_AT4(less + 4 * v);
        to[v] = NK_WIDE(four);
    }
}

INLINE void store_tile(float *out, const gg_nk_f64x4 *from, size_t n)
{
    float rest[TILE], *to = n < TILE ? rest : out;
    GG_UNROLL(4)
    for (size_t v = 0; v < WIDES; v++) {
        gg_nk_f32x4 four = NK_NARROW(from[v]);
        memcpy(to + 4 * v, &four, sizeof four);
    }
    if (n < TILE) memcpy(out, rest, n * sizeof *out);
}

typedef struct combination {
    const float *base;
    float *const *x;
    const double *c;
    size_t n_in;
    bool from; /* the base is subtracted from x */
} combination;

INLINE void combine_tile(float *out, const combination *s, size_t at, size_t n)
{
    gg_nk_f64x4 sum[WIDES] = { { 0 } }, value[WIDES];
    if (s->base) load_tile(sum, s->base + at, NULL, n);
    for (size_t k = 0; k < s->n_in; k++) {
        load_tile(value, s->x[k] + at, s->from ? s->base + at : NULL, n);
        GG_UNROLL(4)
        for (size_t v = 0; v < WIDES; v++) sum[v] += s->c[k] * value[v];
    }
    store_tile(out + at, sum, n);
}

INLINE void combine(float *out, const combination *s, size_t n)
{
    size_t at = 0;
    for (; at + TILE <= n; at += TILE) combine_tile(out, s, at, TILE);
    if (at < n) combine_tile(out, s, at, n - at);
}

void GG_K(gg_mk_combine)(float *out, const float *base, float *const *x, const double *c,
                         size_t n_in, size_t n)
{
    combine(out, &(combination){ base, x, c, n_in, false }, n);
}

void GG_K(gg_mk_combine_from)(float *out, const float *base, float *const *x, const double *c,
                              size_t n_in, size_t n)
{
    combine(out, &(combination){ base, x, c, n_in, true }, n);
}

/* Two arrays, from which base is subtracted unless it is NULL. */
typedef struct pair {
    const float *a, *b, *base;
} pair;

/* Adds a a, a b and b b of a tile. */
INLINE void add_products(gg_nk_acc s[3], const pair *p, size_t at, size_t n)
{
    gg_nk_f64x4 a[WIDES], b[WIDES];
    const float *base = p->base ? p->base + at : NULL;
    load_tile(a, p->a + at, base, n);
    load_tile(b, p->b + at, base, n);
    GG_UNROLL(4)
    for (size_t v = 0; v < WIDES; v++) {
        s[0].half[v % 2] += a[v] * a[v];
        s[1].half[v % 2] += a[v] * b[v];
        s[2].half[v % 2] += b[v] * b[v];
    }
}

INLINE void products(const pair *p, size_t n, double sums[3])
{
    gg_nk_acc s[3] = { 0 };
    size_t at = 0;
    for (; at + TILE <= n; at += TILE) add_products(s, p, at, TILE);
    if (at < n) add_products(s, p, at, n - at);
    for (size_t k = 0; k < 3; k++) sums[k] = gg_nk_fold(&s[k]);
}

/* Two arrays give three products at a time: each square is taken from one pair. The last array may
 * have none, and is its own pair. */
void GG_K(gg_mk_gram)(float *const *x, const float *base, size_t n_in, size_t n, double *sums)
{
    double of[3];
    for (size_t i = 0; i < n_in; i++)
        for (size_t j = i % 2 || i + 1 < n_in ? i + 1 : i; j < n_in; j++) {
            if (base) products(&(pair){ x[i], x[j], base }, n, of);
            else products(&(pair){ x[i], x[j], NULL }, n, of);
            if (j > i) sums[gg_gram_at(i, j, n_in)] += of[1];
            if (i % 2 == 0 && j <= i + 1) sums[gg_gram_at(i, i, n_in)] += of[0];
            if (i % 2 == 0 && j == i + 1) sums[gg_gram_at(j, j, n_in)] += of[2];
        }
}

INLINE void variance_tile(float *out, float *const *x, size_t n_in, size_t at, size_t n)
{
    const double part = 1 / (double)n_in;
    gg_nk_f64x4 mean[WIDES] = { { 0 } }, sum[WIDES] = { { 0 } }, value[WIDES];
    for (size_t k = 0; k < n_in; k++) {
        load_tile(value, x[k] + at, NULL, n);
        GG_UNROLL(4)
        for (size_t v = 0; v < WIDES; v++) mean[v] += value[v];
    }
    GG_UNROLL(4)
    for (size_t v = 0; v < WIDES; v++) mean[v] /= (double)n_in; /* exact if all are equal */
    for (size_t k = 0; k < n_in; k++) {
        load_tile(value, x[k] + at, NULL, n);
        GG_UNROLL(4)
        for (size_t v = 0; v < WIDES; v++) sum[v] += (value[v] - mean[v]) * (value[v] - mean[v]);
    }
    GG_UNROLL(4)
    for (size_t v = 0; v < WIDES; v++) sum[v] *= part;
    store_tile(out + at, sum, n);
}

void GG_K(gg_mk_variances)(float *out, float *const *x, size_t n_in, size_t n)
{
    size_t at = 0;
    for (; at + TILE <= n; at += TILE) variance_tile(out, x, n_in, at, TILE);
    if (at < n) variance_tile(out, x, n_in, at, n - at);
}

/* ---- in float32 ------------------------------------------------------------------------- */

void GG_K(gg_mk_subtract)(float *x, const float *base, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] -= base[i];
}

void GG_K(gg_mk_scale)(float *x, float by, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] *= by;
}

void GG_K(gg_mk_nearswap)(float *out, const float *a, const float *b, float t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float apart = gg_bits_float(gg_magnitude(a[i] - b[i]));
        float w = t / (apart > t ? apart : t);
        out[i] = w * b[i] + (1 - w) * a[i];
    }
}

typedef struct differences {
    const float *base;
    float *const *d;
    size_t n_in;
    const gg_consensus *how;
} differences;

/* Masks of bits choose values, because branches do not vectorise. */
INLINE void agree(float *out, const differences *s, size_t at, size_t n)
{
    const gg_consensus *how = s->how;
    const gg_f32x8 zero = { 0 };
    gg_f32x8 all = zero, sum = zero, share = zero, x = zero;
    for (size_t k = 0; k < s->n_in; k++) {
        memcpy(&x, s->d[k] + at, n * sizeof *out);
        all += (how->unweighted ? 1 : how->w[k]) * x;
    }
    gg_i32x8 up = NK_COMPARE8(f, all, >=, zero);
    for (size_t k = 0; k < s->n_in; k++) {
        memcpy(&x, s->d[k] + at, n * sizeof *out);
        gg_f32x8 part = how->w[k] * x, vote = (how->unweighted ? 1 : how->w[k]) * x;
        gg_i32x8 agrees = (up & NK_COMPARE8(f, vote, >, zero)) |
                          (~up & NK_COMPARE8(f, vote, <, zero));
        sum += (gg_f32x8)((gg_i32x8)part & agrees);
        share += (gg_f32x8)((gg_i32x8)(zero + how->w[k]) & agrees);
    }
    const gg_f32x8 one = zero + 1;
    gg_i32x8 none = NK_COMPARE8(f, share, ==, zero);
    share = (gg_f32x8)(((gg_i32x8)one & none) | ((gg_i32x8)share & ~none));
    memcpy(&x, s->base + at, n * sizeof *out);
    x += (how->normalize ? sum / share : sum) * how->scale;
    memcpy(out + at, &x, n * sizeof *out);
}

void GG_K(gg_mk_consensus)(float *out, const float *base, float *const *d, size_t n_in, size_t n,
                           const gg_consensus *how)
{
    const differences s = { base, d, n_in, how };
    size_t at = 0;
    for (; at + LANES <= n; at += LANES) agree(out, &s, at, LANES);
    if (at < n) agree(out, &s, at, n - at);
}

/* ---- RAM ------------------------------------------------------------------------------------ */

#define RUN 128

/* How many arrays have a magnitude above epsilon, for up to RUN values. */
static void count_changes(int32_t *count, float *const *x, size_t n_in, size_t at, size_t n,
                          float epsilon)
{
    memset(count, 0, n * sizeof *count);
    for (size_t k = 0; k < n_in; k++)
        for (size_t i = 0; i < n; i++)
            count[i] += gg_bits_float(gg_magnitude(x[k][at + i])) > epsilon;
}

void GG_K(gg_mk_count_changes)(float *const *x, size_t n_in, size_t n, float epsilon,
                               uint64_t *counts)
{
    int32_t count[RUN];
    for (size_t at = 0; at < n; at += RUN) {
        size_t m = n - at < RUN ? n - at : RUN;
        count_changes(count, x, n_in, at, m, epsilon);
        for (size_t k = 0; k < n_in; k++) {
            int32_t all = 0, own = 0;
            for (size_t i = 0; i < m; i++) {
                int32_t mine = gg_bits_float(gg_magnitude(x[k][at + i])) > epsilon;
                all += mine;
                own += mine & (count[i] == 1);
            }
            counts[2 * k] += (uint64_t)(all - own);
            counts[2 * k + 1] += (uint64_t)own;
        }
    }
}

void GG_K(gg_mk_add_changes)(float *out, const float *base, float *const *x, size_t n_in, size_t n,
                             const gg_changes *how)
{
    int32_t count[RUN];
    float sum[RUN];
    for (size_t at = 0; at < n; at += RUN) {
        size_t m = n - at < RUN ? n - at : RUN;
        count_changes(count, x, n_in, at, m, how->epsilon);
        memset(sum, 0, m * sizeof *sum);
        for (size_t k = 0; k < n_in; k++) {
            const float *d = x[k] + at, gain = how->gain[k];
            for (size_t i = 0; i < m; i++) {
                uint32_t mine = (uint32_t) - (gg_bits_float(gg_magnitude(d[i])) > how->epsilon);
                uint32_t alone = (uint32_t) - (count[i] == 1);
                float own = d[i] * gain, shared = d[i] / (float)count[i];
                sum[i] += gg_bits_float(
                    ((gg_float_bits(own) & alone) | (gg_float_bits(shared) & ~alone)) & mine);
            }
        }
        for (size_t i = 0; i < m; i++) out[at + i] = base[at + i] + sum[i];
    }
}
