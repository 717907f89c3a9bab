/* x86.h - the intrinsics of SSE4.1, AVX2, F16C and SHA, and with GG_X86_AVX512 defined those of
 * AVX-512F. Internal.
 *
 * <immintrin.h> declares thousands of functions for AVX-512 as well, which takes gcc longer than
 * most of the sources here. The headers that it consists of can be included one by one if they find
 * its guard. Other compilers get all of it.
 */
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 9 && __GNUC__ <= 14 && \
    !defined(_IMMINTRIN_H_INCLUDED)
#define _IMMINTRIN_H_INCLUDED
#include <smmintrin.h>

#include <avxintrin.h>

#include <avx2intrin.h>

#include <f16cintrin.h>

#include <shaintrin.h>
#ifdef GG_X86_AVX512
#include <avx512fintrin.h>
#endif
#undef _IMMINTRIN_H_INCLUDED
#else
#include <immintrin.h>
#endif

/* For __attribute__((target)). clang 18 to 21 have a feature for vectors of 64 bytes of their own.
 */
#if defined(__clang__) && __clang_major__ >= 18 && __clang_major__ <= 21
#define GG_AVX512 "avx512f,evex512,avx2,f16c"
#else
#define GG_AVX512 "avx512f,avx2,f16c"
#endif
