/* nlanes.h - eight double lanes for the kernels, as two vectors of four.
 *
 * Value i of a run goes to lane i mod 8, and the lanes are added in one fixed tree. The vectors are
 * explicit, because compilers may not reorder floating-point sums to vectorise these loops.
 * Everything is a macro or uses pointers: vectors as arguments cause ABI warnings without AVX.
 */
#pragma once

#include "base/float_bits.h"
#include "nkernel.h"

#if GG_LEVEL == 1
#include "base/x86.h"
#endif
#include <string.h>

typedef float gg_nk_f32x4 __attribute__((vector_size(16)));
typedef int32_t gg_nk_i32x4 __attribute__((vector_size(16)));
typedef double gg_nk_f64x4 __attribute__((vector_size(32)));
typedef int64_t gg_nk_i64x4 __attribute__((vector_size(32)));

typedef struct gg_nk_acc {
    gg_nk_f64x4 half[2];
} gg_nk_acc;

/* gcc 12 and clang have this; with other compilers the kernels shuffle in plain loops. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define NK_SHUFFLE 1
#endif
#endif
#ifndef NK_SHUFFLE
#define NK_SHUFFLE 0
#endif

#define NK_EXPONENT 0x7f800000

/* Four floats at any address, as floats or as doubles. */
typedef float gg_nk_f32x4_at __attribute__((vector_size(16), aligned(4), __may_alias__));
#define NK_AT4(p) (*(const gg_nk_f32x4_at *)(p))
#define NK_WIDE_AT(p) NK_WIDE(NK_AT4(p))
#if GG_LEVEL == 1 /* gcc converts two lanes at a time */
#define NK_WIDE(v) ((gg_nk_f64x4)_mm256_cvtps_pd((__m128)(v)))
#define NK_NARROW(v) ((gg_nk_f32x4)_mm256_cvtpd_ps((__m256d)(v)))
#else
#define NK_WIDE(v) __builtin_convertvector(v, gg_nk_f64x4)
#define NK_NARROW(v) __builtin_convertvector(v, gg_nk_f32x4)
#endif

/* All bits set in each lane whose float is finite. */
#define NK_FINITE4(v) (((gg_nk_i32x4)(v)&NK_EXPONENT) != NK_EXPONENT)
#define NK_AND4(v, mask) ((gg_nk_f32x4)((gg_nk_i32x4)(v) & (mask)))
#define NK_SELECT4(mask, yes, no) \
    ((gg_nk_f32x4)(((gg_nk_i32x4)(yes) & (mask)) | ((gg_nk_i32x4)(no) & ~(mask))))
#define NK_SELECT64(mask, yes, no) \
    ((gg_nk_f64x4)(((gg_nk_i64x4)(yes) & (mask)) | ((gg_nk_i64x4)(no) & ~(mask))))

/* Compares eight lanes: sets all bits or no bits of each. type is f for floats, and i for integers.
 * Without AVX, gcc 12 splits a comparison of 32 bytes into scalars, so level 0 compares halves. */
#if GG_LEVEL == 1
#define NK_COMPARE8(type, x, op, y) ((gg_i32x8)((x)op(y)))
#else
typedef union gg_nk_halves {
    gg_i32x8 v;
    gg_nk_f32x4 f[2];
    gg_nk_i32x4 i[2];
} gg_nk_halves;
#define NK_COMPARE8(type, x, op, y) \
    __extension__({ \
        const gg_nk_halves x_ = { (gg_i32x8)(x) }, y_ = { (gg_i32x8)(y) }; \
        (gg_nk_halves){ .i = { x_.type[0] op y_.type[0], x_.type[1] op y_.type[1] } }.v; \
    })
#endif

/* Four vectors of four floats: the sides of a square, which are exchanged. */
typedef struct gg_nk_square {
    gg_nk_f32x4 v[4];
} gg_nk_square;

static inline __attribute__((always_inline)) void gg_nk_exchange_sides(gg_nk_square *s)
{
#if NK_SHUFFLE
    gg_nk_f32x4 a = __builtin_shufflevector(s->v[0], s->v[1], 0, 4, 1, 5),
                b = __builtin_shufflevector(s->v[0], s->v[1], 2, 6, 3, 7),
                c = __builtin_shufflevector(s->v[2], s->v[3], 0, 4, 1, 5),
                d = __builtin_shufflevector(s->v[2], s->v[3], 2, 6, 3, 7);
    s->v[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    s->v[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    s->v[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    s->v[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
#else
    const gg_nk_square t = *s;
    for (size_t i = 0; i < 4; i++)
        s->v[i] = (gg_nk_f32x4){ t.v[0][i], t.v[1][i], t.v[2][i], t.v[3][i] };
#endif
}

/* A bit per lane of *v, whose lanes are 0 or -1. */
static inline unsigned gg_nk_mask8(const gg_i32x8 *v)
{
#if GG_LEVEL == 1
    return (unsigned)_mm256_movemask_ps((__m256)*v);
#else
    const gg_i32x8 b = *v & (gg_i32x8){ 1, 2, 4, 8, 16, 32, 64, 128 };
    return (unsigned)((b[0] | b[1]) | (b[2] | b[3]) | (b[4] | b[5]) | (b[6] | b[7]));
#endif
}

static inline double gg_nk_fold(const gg_nk_acc *acc)
{
    gg_nk_f64x4 sum = acc->half[0] + acc->half[1];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}
