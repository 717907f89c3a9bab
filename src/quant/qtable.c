/* qtable.c - the table of tensor types: their sizes and codecs.
 *
 * There is one row per id that ggml ever used. Removed types have a row too, so that the error
 * for a file that uses one can give its name. The ids of ik_llama.cpp that ggml does not use
 * follow, with the bytes that precede the blocks of each row. If both use the same id (36, 41),
 * the table has the type of ggml.
 */
#include "codec.h"

#include "base/nearest.h"
#include "iq_grid.h"
#include "quant/quant.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

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
/* clang-format on */

#define GG_CODEC_DECLARE(x) GG_DECLARE_K(const gg_codec, gg_codec_##x);
GG_CODECS(GG_CODEC_DECLARE)
#undef GG_CODEC_DECLARE

/* clang-format off */
#ifdef GG_HAVE_L1
#define CODEC(x) { &GG_CAT(gg_codec_##x, _l0), &GG_CAT(gg_codec_##x, _l1) }
#else
#define CODEC(x) { &GG_CAT(gg_codec_##x, _l0) }
#endif
/* clang-format on */

typedef struct qrow {
    gg_dtype_info info;
    const gg_codec *codec[2];
} qrow;

/* The rows are in the order of the ids. Those of ggml have no gaps, so that the id is the index. */
/* clang-format off */
#define LIVE(id, name, elems, bytes, ftype, x) \
    { { id, name, elems, bytes, 0, GG_DTYPE_LIVE, ftype }, x }
#define GONE(id, name) { { id, name, 0, 0, 0, GG_DTYPE_REMOVED, -1 }, { NULL } }
#define FORK(id, name, elems, bytes, extra) \
    { { id, name, elems, bytes, extra, GG_DTYPE_FORK, -1 }, { NULL } }
/* clang-format on */

/* clang-format off */
static const qrow table[] = {
    LIVE(GG_F32, "F32", 1, 4, 0, CODEC(f32)),
    LIVE(GG_F16, "F16", 1, 2, 1, CODEC(f16)),
    LIVE(GG_Q4_0, "Q4_0", 32, 18, 2, CODEC(q4_0)),
    LIVE(GG_Q4_1, "Q4_1", 32, 20, 3, CODEC(q4_1)),
    GONE(4, "Q4_2"),
    GONE(5, "Q4_3"),
    LIVE(GG_Q5_0, "Q5_0", 32, 22, 8, CODEC(q5_0)),
    LIVE(GG_Q5_1, "Q5_1", 32, 24, 9, CODEC(q5_1)),
    LIVE(GG_Q8_0, "Q8_0", 32, 34, 7, CODEC(q8_0)),
    LIVE(GG_Q8_1, "Q8_1", 32, 36, -1, CODEC(q8_1)),
    LIVE(GG_Q2_K, "Q2_K", 256, 84, 10, CODEC(q2_k)),
    LIVE(GG_Q3_K, "Q3_K", 256, 110, 12, CODEC(q3_k)),
    LIVE(GG_Q4_K, "Q4_K", 256, 144, 15, CODEC(q4_k)),
    LIVE(GG_Q5_K, "Q5_K", 256, 176, 17, CODEC(q5_k)),
    LIVE(GG_Q6_K, "Q6_K", 256, 210, 18, CODEC(q6_k)),
    LIVE(GG_Q8_K, "Q8_K", 256, 292, -1, CODEC(q8_k)),
    LIVE(GG_IQ2_XXS, "IQ2_XXS", 256, 66, 19, CODEC(iq2_xxs)),
    LIVE(GG_IQ2_XS, "IQ2_XS", 256, 74, 20, CODEC(iq2_xs)),
    LIVE(GG_IQ3_XXS, "IQ3_XXS", 256, 98, 23, CODEC(iq3_xxs)),
    LIVE(GG_IQ1_S, "IQ1_S", 256, 50, 24, CODEC(iq1_s)),
    LIVE(GG_IQ4_NL, "IQ4_NL", 32, 18, 25, CODEC(iq4_nl)),
    LIVE(GG_IQ3_S, "IQ3_S", 256, 110, 26, CODEC(iq3_s)),
    LIVE(GG_IQ2_S, "IQ2_S", 256, 82, 28, CODEC(iq2_s)),
    LIVE(GG_IQ4_XS, "IQ4_XS", 256, 136, 30, CODEC(iq4_xs)),
    LIVE(GG_I8, "I8", 1, 1, -1, CODEC(i8)),
    LIVE(GG_I16, "I16", 1, 2, -1, CODEC(i16)),
    LIVE(GG_I32, "I32", 1, 4, -1, CODEC(i32)),
    LIVE(GG_I64, "I64", 1, 8, -1, CODEC(i64)),
    LIVE(GG_F64, "F64", 1, 8, -1, CODEC(f64)),
    LIVE(GG_IQ1_M, "IQ1_M", 256, 56, 31, CODEC(iq1_m)),
    LIVE(GG_BF16, "BF16", 1, 2, 32, CODEC(bf16)),
    GONE(31, "Q4_0_4_4"),
    GONE(32, "Q4_0_4_8"),
    GONE(33, "Q4_0_8_8"),
    LIVE(GG_TQ1_0, "TQ1_0", 256, 54, 36, CODEC(tq1_0)),
    LIVE(GG_TQ2_0, "TQ2_0", 256, 66, 37, CODEC(tq2_0)),
    GONE(36, "IQ4_NL_4_4"),
    GONE(37, "IQ4_NL_4_8"),
    GONE(38, "IQ4_NL_8_8"),
    LIVE(GG_MXFP4, "MXFP4", 32, 17, 38, CODEC(mxfp4)),
    LIVE(GG_NVFP4, "NVFP4", 64, 36, 39, CODEC(nvfp4)),
    LIVE(GG_Q1_0, "Q1_0", 128, 18, 40, CODEC(q1_0)),
    LIVE(GG_Q2_0, "Q2_0", 64, 18, 41, CODEC(q2_0)),
    FORK(133, "Q6_0", 32, 26, 0),
    FORK(134, "IQ1_BN", 64, 13, 2),
    FORK(135, "IQ2_BN", 64, 16, 4),
    FORK(136, "Q8_K64", 64, 68, 0),
    FORK(137, "IQ2_K", 256, 76, 0),
    FORK(138, "IQ3_K", 256, 110, 0),
    FORK(139, "IQ4_K", 256, 144, 0),
    FORK(140, "IQ5_K", 256, 176, 0),
    FORK(141, "IQ6_K", 256, 212, 0),
    FORK(144, "IQ4_KS", 256, 136, 4),
    FORK(145, "IQ2_KS", 256, 70, 2),
    FORK(146, "IQ4_KSS", 256, 128, 4),
    FORK(147, "Q8_K16", 64, 64, 20),
    FORK(148, "Q8_K32", 256, 296, 0),
    FORK(149, "Q8_KR8", 256, 296, 0),
    FORK(150, "Q8_K128", 128, 140, 0),
    FORK(151, "Q8_KV", 32, 32, 8),
    FORK(152, "IQ5_KS", 256, 168, 4),
    FORK(153, "IQ2_KT", 256, 68, 4),
    FORK(154, "IQ3_KT", 256, 100, 4),
    FORK(155, "IQ4_KT", 256, 128, 4),
    FORK(156, "IQ3_KS", 256, 102, 2),
    FORK(157, "IQ2_KL", 256, 86, 2),
    FORK(158, "IQ1_KT", 256, 56, 4),
    /* Rows of 4, 8 or 16 interleaved. */
    FORK(202, "Q4_0_R8", 32, 18, 0),
    FORK(206, "Q5_0_R4", 32, 22, 0),
    FORK(208, "Q8_0_R8", 32, 34, 0),
    FORK(210, "Q2_K_R4", 256, 84, 0),
    FORK(211, "Q3_K_R4", 256, 110, 0),
    FORK(212, "Q4_K_R4", 256, 144, 0),
    FORK(213, "Q5_K_R4", 256, 176, 0),
    FORK(214, "Q6_K_R4", 256, 210, 0),
    FORK(216, "IQ2_XXS_R4", 256, 66, 0),
    FORK(217, "IQ2_XS_R4", 256, 74, 0),
    FORK(218, "IQ3_XXS_R4", 256, 98, 0),
    FORK(219, "IQ1_S_R4", 32, 6, 2),
    FORK(220, "IQ4_NL_R4", 32, 18, 0),
    FORK(221, "IQ3_S_R4", 256, 110, 0),
    FORK(222, "IQ2_S_R4", 256, 82, 0),
    FORK(223, "IQ4_XS_R8", 256, 136, 0),
    FORK(229, "IQ1_M_R4", 32, 7, 2),
    FORK(230, "BF16_R16", 1, 2, 0),
    FORK(233, "Q6_0_R4", 32, 26, 0),
    FORK(335, "IQ2_BN_R4", 64, 16, 4),
    FORK(337, "IQ2_K_R4", 256, 76, 0),
    FORK(338, "IQ3_K_R4", 256, 110, 0),
    FORK(339, "IQ4_K_R4", 256, 144, 0),
    FORK(340, "IQ5_K_R4", 256, 176, 0),
    FORK(344, "IQ4_KS_R4", 256, 136, 4),
    FORK(352, "IQ5_KS_R4", 256, 168, 4),
    FORK(397, "Q8_K_R16", 256, 258, 0),
    FORK(398, "Q8_KV_R8", 32, 32, 4),
    FORK(399, "Q8_K_R8", 256, 258, 0),
};
/* clang-format on */

enum { TABLE_ROWS = sizeof table / sizeof table[0] };

/* Returns NULL if the table has no row for the id. */
static const qrow *find_row(uint32_t id)
{
    if (id < GG_DTYPE_COUNT) {
        assert(table[id].info.id == id);
        return &table[id];
    }
    size_t low = GG_DTYPE_COUNT, high = TABLE_ROWS;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table[middle].info.id < id) low = middle + 1;
        else high = middle;
    }
    return low < TABLE_ROWS && table[low].info.id == id ? &table[low] : NULL;
}

const gg_dtype_info *gg_dtype_get(uint32_t id)
{
    const qrow *row = find_row(id);
    return row ? &row->info : NULL;
}

const char *gg_dtype_name(uint32_t id)
{
    const gg_dtype_info *info = gg_dtype_get(id);
    return info ? info->name : "an unknown type";
}

const gg_dtype_info *gg_dtype_at(size_t i)
{
    return i < TABLE_ROWS ? &table[i].info : NULL;
}

static bool same_name(const char *a, const char *b)
{
    while (*a && *b && toupper((unsigned char)*a) == toupper((unsigned char)*b)) a++, b++;
    return *a == '\0' && *b == '\0';
}

const gg_dtype_info *gg_dtype_by_name(const char *name)
{
    for (size_t i = 0; i < TABLE_ROWS; i++) {
        const gg_dtype_info *info = &table[i].info;
        if (info->kind != GG_DTYPE_REMOVED && same_name(info->name, name)) return info;
    }
    return NULL;
}

const char *gg_dtype_near(const char *name)
{
    const char *names[TABLE_ROWS];
    for (size_t i = 0; i < TABLE_ROWS; i++)
        names[i] = table[i].info.kind != GG_DTYPE_REMOVED ? table[i].info.name : NULL;
    return gg_nearest(name, strlen(name), names, TABLE_ROWS);
}

gg_status gg_row_bytes(uint32_t dtype, uint64_t row_elems, uint64_t *bytes, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    if (!info) {
        gg_fail(err, GG_EUNSUPPORTED, "tensor type %u is unknown", dtype);
        return gg_fix(err, "use a newer version of these tools, or requantize the model");
    }
    if (info->kind == GG_DTYPE_REMOVED) {
        gg_fail(err, GG_EUNSUPPORTED, "tensor type %u (%s) was removed from the format", dtype,
                info->name);
        return gg_fix(err, "convert the original model again");
    }
    if (row_elems % info->block_elems != 0)
        return gg_fail(err, GG_EFORMAT,
                       "a row of %llu values is not a multiple of the %u-value block of %s",
                       (unsigned long long)row_elems, info->block_elems, info->name);
    uint64_t n;
    if (__builtin_mul_overflow(row_elems / info->block_elems, (uint64_t)info->block_bytes, &n) ||
        __builtin_add_overflow(n, (uint64_t)info->row_extra, &n) || n > INT64_MAX)
        return gg_fail(err, GG_EFORMAT, "a row of %llu values of %s is too large",
                       (unsigned long long)row_elems, info->name);
    *bytes = row_elems == 0 ? 0 : n;
    return GG_OK;
}

gg_status gg_tensor_extent(uint32_t dtype, uint32_t n_dims, const uint64_t *dims,
                           uint64_t *elements, uint64_t *bytes, gg_error *err)
{
    uint64_t row = n_dims > 0 ? dims[0] : 1, rows = 1, row_bytes = 0, n = 0, total = 0;
    bool zero = row == 0, wraps = false;
    for (uint32_t i = 1; i < n_dims; i++) zero = zero || dims[i] == 0;
    /* If one dimension is 0, the others may have any size; only the block size is checked. */
    const gg_dtype_info *info = gg_dtype_get(dtype);
    uint64_t checked = zero && info && info->block_elems ? row % info->block_elems : row;
    gg_status st = gg_row_bytes(dtype, checked, &row_bytes, err);
    if (st != GG_OK) return st;
    if (!zero) {
        for (uint32_t i = 1; i < n_dims; i++)
            wraps = wraps || __builtin_mul_overflow(rows, dims[i], &rows);
        wraps = wraps || __builtin_mul_overflow(rows, row, &n) || n > INT64_MAX ||
                __builtin_mul_overflow(rows, row_bytes, &total) || total > INT64_MAX;
        if (wraps)
            return gg_fail(err, GG_EFORMAT,
                           "the product of the dimensions exceeds 2^63 values or bytes");
    }
    if (elements) *elements = n;
    if (bytes) *bytes = total;
    return GG_OK;
}

const gg_codec *gg_codec_get(uint32_t dtype)
{
    const qrow *row = find_row(dtype);
    if (dtype >= GG_IQ2_XXS && dtype <= GG_IQ1_M) gg_iq_grids_fill();
    return row ? row->codec[gg_isa() > 0] : NULL;
}
