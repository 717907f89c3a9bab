/* iq1.c - IQ1_S and IQ1_M: 256 values in 50 and 56 bytes.
 *
 * Each group of eight values is an entry of a grid of points with elements -1, 0, 1, all shifted
 * by +0.125 or -0.125. k = 0..7 counts runs of 32 values, l = 0..3 groups of 8 in a run, and
 * t = 4k + l.
 *
 *          0             2              34             50
 *   IQ1_S  | d (f16)     | u8 index[32] | u16 hi[8]    |
 *          0                      32             48             56
 *   IQ1_M  | u8 index[32]         | u8 hi[16]    | u16 sc[4]    |
 *
 *   hi[k] of IQ1_S                              nibble t of hi, IQ1_M
 *    15  14   12 11   9 8    6 5    3 2    0     3   2      0
 *   |sgn|  s    | i 3  | i 2  | i 1  | i 0  |   |sgn| index  |
 *
 *   sc[k/2] of IQ1_M:  | d | s 3 | s 2 | s 1 | s 0 |   bits 15..12 are nibble k/2 of the f16 d,
 *   s 0..3 are 3-bit scales of the half runs of k (even) and k + 1.
 *   hi has the three high bits of each index.
 *
 *   y = (d * (2s + 1)) * (grid[index][e] + (sgn ? -0.125 : 0.125))
 */
#include "fields.h"
#include "gridfit.h"

enum { RUNS = 8, S_BYTES = 50, M_BYTES = 56 };

static void decode_iq1_s(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += S_BYTES) {
        const float d = gg_load_f16(b);
        for (int k = 0; k < RUNS; k++) {
            const unsigned hi = gg_load_u16(b + 34 + 2 * k);
            const gg_f32x8 dl = gg_splat8(d * (float)(int)(2 * (hi >> 12 & 7) + 1));
            const gg_f32x8 delta = gg_splat8(gg_iq1_shift[hi >> 15]);
            const uint8_t *q = b + 2 + 4 * k;
            GG_UNROLL(4)
            for (int l = 0; l < 4; l++, out += 8)
                gg_store8(out,
                          dl * (gg_grid8(gg_iq1s_grid[q[l] | (hi >> 3 * l & 7) << 8]) + delta));
        }
    }
}

static void decode_iq1_m(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += M_BYTES) {
        const float d = gg_iq1_m_scale(b + 48);
        for (int h = 0; h < 2 * RUNS; h++, out += 16) {
            const unsigned s = (unsigned)gg_load_u16(b + 48 + 2 * (h / 4)) >> 3 * (h % 4) & 7u,
                           hi = b[32 + h];
            const gg_f32x8 dl = gg_splat8(d * (float)(int)(2 * s + 1));
            const gg_f32x8 delta0 = gg_splat8(gg_iq1_shift[hi >> 3 & 1]),
                           delta1 = gg_splat8(gg_iq1_shift[hi >> 7]);
            gg_store8(out, dl * (gg_grid8(gg_iq1s_grid[b[2 * h] | (hi & 7) << 8]) + delta0));
            gg_store8(out + 8,
                      dl * (gg_grid8(gg_iq1s_grid[b[2 * h + 1] | (hi & 0x70) << 4]) + delta1));
        }
    }
}

/* --- encode ---------------------------------------------------------------
 *
 * The search is that of gridfit.h, except that values keep their signs and that each group of
 * octets (all four of a run in IQ1_S, one in IQ1_M) has its own shift. The lists of this grid are
 * long, so the scales are tried on the plain lattice {-1, 0, 1} + shift. Only the best one is
 * refined on the grid, in two steps: points for the scale, then the scale for the points.
 */
typedef struct plan {
    int octets; /* octets per scale */
    int group;  /* octets per shift */
} plan;

static const plan s_plan = { 4, 4 }, m_plan = { 2, 1 };

static const fit_spec shifted[2] = {
    { .points8 = gg_iq1s_grid,
      .level = { -0.875f, 0.125f, 1.125f },
      .unit = 1.0f,
      .shift = 0.125f,
      .a = 1.0f,
      .b = 0.875f,
      .top = 2.0f },
    { .points8 = gg_iq1s_grid,
      .level = { -1.125f, -0.125f, 0.875f },
      .unit = 1.0f,
      .shift = -0.125f,
      .a = 1.0f,
      .b = 1.125f,
      .top = 2.0f },
};

typedef struct scalar_sums {
    float xq, qq;
} scalar_sums;

/* Chooses the points of a group at a scale with one shift. If map is NULL, it uses the lattice and
 * does not store the points. */
GG_INLINE scalar_sums group_points(const gg_iq_map *map, octet *o, int group, float scale,
                                   const fit_spec *spec)
{
    const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    fit_sums t = { { 0 }, { 0 } };
    for (int k = 0; k < group; k++) {
        gg_f32x8 q;
        if (map) q = choose(spec, map, &o[k], scale, inverse);
        else q = lattice(spec, gg_load8(o[k].x) * gg_splat8(inverse)) + gg_splat8(spec->level[0]);
        add_octet(&t, &o[k], q);
    }
    return (scalar_sums){ gg_sum8(t.xq), gg_sum8(t.qq) };
}

/* Chooses the points of a run at a scale, with the best shift for each group. The error is
 * sum w (x - scale q)^2, without the constant sum w x^2. */
GG_INLINE scalar_sums run_points(const gg_iq_map *map, octet *o, const plan *p, float scale)
{
    scalar_sums sum = { 0.0f, 0.0f };
    for (int g = 0; g < p->octets; g += p->group) {
        uint16_t index[4];
        scalar_sums a = group_points(map, o + g, p->group, scale, &shifted[0]);
        for (int k = 0; k < p->group; k++) index[k] = o[g + k].index[0];
        const scalar_sums b = group_points(map, o + g, p->group, scale, &shifted[1]);
        const bool minus = scale * b.qq - 2.0f * b.xq < scale * a.qq - 2.0f * a.xq;
        if (minus) a = b;
        for (int k = 0; k < p->group; k++) {
            o[g + k].sign = minus;
            if (!minus) o[g + k].index[0] = index[k];
        }
        sum.xq += a.xq;
        sum.qq += a.qq;
    }
    return sum;
}

static float fit_ternary(const gg_iq_map *map, octet *o, const plan *p)
{
    float max = 0.0f, scale = 0.0f, best = 0.0f;
    for (int k = 0; k < p->octets; k++) {
        const float m = gg_top8(gg_abs8(gg_load8(o[k].x)));
        max = m > max ? m : max;
    }
    if (max < GG_GRID_TINY) return 0.0f;
    /* Try scales that put the largest value on 0.9 .. 3.4: for normally distributed values, level 1
     * is near the standard deviation. */
    for (int t = 0; t <= 5; t++) {
        const scalar_sums sum = run_points(NULL, o, p, max / (0.9f + 0.5f * (float)t));
        if (sum.xq > 0.0f && sum.qq > 0.0f && sum.xq * sum.xq > best * sum.qq) {
            scale = sum.xq / sum.qq;
            best = scale * sum.xq;
        }
    }
    for (int t = 0; t < 2; t++) {
        const scalar_sums sum = run_points(map, o, p, scale);
        if (sum.xq > 0.0f && sum.qq > 0.0f) scale = sum.xq / sum.qq;
    }
    return scale;
}

/* Fits one block: fills o[32] and the 3-bit scales, and returns d. */
static float fit_ternary_block(const float *x, const float *imatrix, octet *o, uint8_t *scale3,
                               const plan *p)
{
    const gg_iq_map map = gg_iq_map_get(GG_GRID_1S);
    /* not 0: a constant of each type */
    const int runs = 32 / p->octets;
    const fit_block_norms n = block_norms(x, imatrix);
    float scale[16], top = 0.0f, yy = 0.0f;
    gg_f32x8 xx = { 0 };
    for (int k = 0; k < 32; k++) {
        load_signed(&o[k], x + 8 * k, imatrix ? imatrix + 8 * k : NULL, &n);
        xx += octet_norm(&o[k]);
    }
    for (int r = 0; r < runs; r++) {
        scale[r] = fit_ternary(&map, o + r * p->octets, p);
        top = scale[r] > top ? scale[r] : top;
    }
    uint8_t half[2];
    const float d = first_d(half, top > 0.0f ? top / n.x : 0.0f, 15.0f) * n.x,
                id = d > 0.0f ? 1.0f / d : 0.0f;
    for (int r = 0; r < runs; r++) {
        float l = 0.5f * (id * scale[r] - 1.0f);
        l = l < 0.0f ? 0.0f : l > 7.0f ? 7.0f : l;
        scale3[r] = (uint8_t)gg_round1(l);
        const float m = (float)(2 * scale3[r] + 1);
        yy += m * m * run_points(&map, o + r * p->octets, p, d * m).qq;
    }
    return d > 0.0f ? __builtin_sqrtf(gg_sum8(xx) / yy) / n.x : 0.0f;
}

static void encode_iq1_s(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    for (; nblocks > 0; nblocks--, x += 256, b += S_BYTES) {
        octet o[32];
        uint8_t s[RUNS];
        gg_store_scale(b, fit_ternary_block(x, imatrix, o, s, &s_plan));
        for (int k = 0; k < RUNS; k++) {
            unsigned hi = (unsigned)o[4 * k].sign << 15 | (unsigned)s[k] << 12;
            for (int l = 0; l < 4; l++) {
                b[2 + 4 * k + l] = (uint8_t)o[4 * k + l].index[0];
                hi |= (unsigned)(o[4 * k + l].index[0] >> 8) << 3 * l;
            }
            gg_store_u16(b + 34 + 2 * k, (uint16_t)hi);
        }
        if (imatrix) imatrix += 256;
    }
}

static void encode_iq1_m(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    for (; nblocks > 0; nblocks--, x += 256, b += M_BYTES) {
        octet o[32];
        uint8_t s[2 * RUNS];
        const unsigned d = gg_half_encode(
            gg_saturate(fit_ternary_block(x, imatrix, o, s, &m_plan)));
        for (int h = 0; h < 2 * RUNS; h++) {
            const octet *e = &o[2 * h];
            b[2 * h] = (uint8_t)e[0].index[0];
            b[2 * h + 1] = (uint8_t)e[1].index[0];
            b[32 + h] = (uint8_t)(e[0].index[0] >> 8 | e[0].sign << 3 | e[1].index[0] >> 8 << 4 |
                                  e[1].sign << 7);
        }
        for (unsigned k = 0; k < 4; k++) {
            const uint8_t *run = s + 4 * k;
            const unsigned scales = run[0] | (unsigned)run[1] << 3 | (unsigned)run[2] << 6 |
                                    (unsigned)run[3] << 9;
            gg_store_u16(b + 48 + 2 * k, (uint16_t)(scales | (d >> 4 * k & 15) << 12));
        }
        if (imatrix) imatrix += 256;
    }
}

GG_CODEC(iq1_s, decode_iq1_s, encode_iq1_s, NULL)
GG_CODEC(iq1_m, decode_iq1_m, encode_iq1_m, NULL)
