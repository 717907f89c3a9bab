/* qtable.h - the table of tensor types that is made of types.txt. Internal. */
#pragma once

#include "codec.h"

/* All codecs, which are defined in kernel/. */
/* clang-format off */
#define GG_CODECS(X) \
    X(f32) X(f16) X(bf16) X(f64) X(i8) X(i16) X(i32) X(i64) /* plain.c */ \
    X(q4_0) X(q4_1) X(q5_0) X(q5_1) X(q8_0) X(q8_1)         /* legacy.c */ \
    X(q2_k) X(q3_k)                                         /* k23.c */ \
    X(q4_k) X(q5_k) X(q6_k) X(q8_k)                         /* k456.c */ \
    X(tq1_0) X(tq2_0) X(q1_0) X(q2_0)                       /* lowbit.c */ \
    X(mxfp4) X(nvfp4)                                       /* fp4.c */ \
    X(iq1_s) X(iq1_m)                                       /* iq1.c */ \
    X(iq2_xxs) X(iq2_xs) X(iq2_s)                           /* iq2.c */ \
    X(iq3_xxs) X(iq3_s)                                     /* iq3.c */ \
    X(iq4_nl) X(iq4_xs)                                     /* iq4.c */
#define GG_CODEC_DECLARE(x) GG_DECLARE_K(const gg_codec, gg_codec_##x);
GG_CODECS(GG_CODEC_DECLARE)

/* The table that is made of types.txt, by ascending id. */
typedef struct gg_type_row {
    gg_dtype_info info;
    const gg_codec *codec[2]; /* of the levels 0 and 1 */
} gg_type_row;
#define GG_TYPES_MOST 128
extern const gg_type_row gg_type_rows[];
extern const size_t gg_type_rows_n;

#ifdef GG_HAVE_L1
#define GG_CODEC(x) { &GG_CAT(gg_codec_##x, _l0), &GG_CAT(gg_codec_##x, _l1) }
#else
#define GG_CODEC(x) { &GG_CAT(gg_codec_##x, _l0) }
#endif
#define LIVE(name, elems, bytes, ftype, x) \
    { { GG_##name, #name, elems, bytes, 0, GG_DTYPE_LIVE, ftype }, GG_CODEC(x) }
#define GONE(name, id) { { id, #name, 0, 0, 0, GG_DTYPE_REMOVED, -1 }, { NULL } }
#define FORK(name, id, elems, bytes, extra) \
    { { id, #name, elems, bytes, extra, GG_DTYPE_FORK, -1 }, { NULL } }
/* clang-format on */
