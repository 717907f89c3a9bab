/* isa.h - compile one source file into one object per instruction-set level, and choose a level.
 *
 * Every src/NAME/kernel/x.c is compiled once per level: as plain C (GG_LEVEL 0) and, on x86-64,
 * with -mavx2 -mf16c (GG_LEVEL 1). No level enables FMA, and all are built with
 * -ffp-contract=off; code may ask for it where the product is exact. All levels therefore give the
 * same bits, provided that the code fixes the order of its sums: write reductions over an explicit
 * number of lanes (gg_f32x8 below), and never leave the order to the compiler. Only the signs of
 * NaNs may differ, which clang chooses.
 *
 * Level 2, AVX-512, uses the kernels of level 1, except for the codecs in quant/wide.c, the affine
 * search of quant/kernel/ksearch.c, which is compiled for it too, and the sums of
 * numeric/kernel/k_pairs.c.
 *
 * A kernel defines its global symbols as GG_K(name). Callers write GG_PICK(name) to get the one
 * for this machine.
 */
#pragma once

#include "organ/gg_status.h"

/* The level of the kernels in use: 0 is plain C, on x86-64 1 is AVX2 with F16C, and 2 is AVX-512.
 * It is chosen once at run time from the machine and the environment; GG_ISA=0 or 1 lowers it.
 * gg_isa_set is for tests and must be called before other threads run. It returns the level now in
 * use, which is at most the level that the machine supports. */
int gg_isa(void);
int gg_isa_set(int level);

#define GG_CAT_(a, b) a##b
#define GG_CAT(a, b) GG_CAT_(a, b)

#ifndef GG_LEVEL
#define GG_LEVEL 0
#endif

#if GG_LEVEL == 2
#define GG_K(name) GG_CAT(name, _l2)
#elif GG_LEVEL == 1
#define GG_K(name) GG_CAT(name, _l1)
#else
#define GG_K(name) GG_CAT(name, _l0)
#endif

/* The Makefile defines GG_HAVE_L1 if it builds level 1 objects. */
#ifdef GG_HAVE_L1
#define GG_PICK(name) (gg_isa() >= 1 ? GG_CAT(name, _l1) : GG_CAT(name, _l0))
#define GG_DECLARE_K(type, name) \
    extern type GG_CAT(name, _l0); \
    extern type GG_CAT(name, _l1)
#define GG_DECLARE_KF(ret, name, args) \
    ret GG_CAT(name, _l0) args; \
    ret GG_CAT(name, _l1) args
#else
#define GG_PICK(name) (GG_CAT(name, _l0))
#define GG_DECLARE_K(type, name) extern type GG_CAT(name, _l0)
#define GG_DECLARE_KF(ret, name, args) ret GG_CAT(name, _l0) args
#endif

/* Unrolls the loop after it n times, but not where level 0 is built for size. */
#ifdef __OPTIMIZE_SIZE__
#define GG_UNROLL(n)
#else
#define GG_PRAGMA(text) _Pragma(#text)
#define GG_UNROLL(n) GG_PRAGMA(GCC unroll n)
#endif

/* Eight float lanes: two SSE registers or one AVX register, with the same result. Portable to
 * every gcc and clang target. Use arithmetic and comparisons only. */
typedef float gg_f32x8 __attribute__((vector_size(32)));
typedef int32_t gg_i32x8 __attribute__((vector_size(32)));
