/* codec_list.h - declarations of all codecs, which are defined in kernel/. Internal. */
#ifndef GG_CODEC_LIST_H
#define GG_CODEC_LIST_H

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
/* clang-format on */

#define GG_CODEC_DECLARE(x) GG_DECLARE_K(const gg_codec, gg_codec_##x);
GG_CODECS(GG_CODEC_DECLARE)
#undef GG_CODEC_DECLARE

#endif
