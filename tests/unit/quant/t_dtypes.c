/* t_dtypes.c - the table of tensor types: every row is at its own id, and every id of the
 * format has a row. */
#include "t.h"

#include "organ/gg_quant.h"
#include "quant/quant.h"

/* Names of the mainline ids in their order, from ggml's list. */
static const char *const names[GG_DTYPE_COUNT] = {
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",    "Q1_0",
    "Q2_0",
};

static void rows_are_at_their_ids(void)
{
    for (uint32_t id = 0; id < 1000; id++) {
        const gg_dtype_info *d = gg_dtype_get(id);
        if (id < GG_DTYPE_COUNT) T_CHECKF(d, "no row for %s, id %u", names[id], id);
        if (!d) continue;
        T_EQ(d->id, id);
        if (id < GG_DTYPE_COUNT) T_CHECKF(strcmp(d->name, names[id]) == 0, "%u: %s", id, d->name);
        else T_EQ(d->kind, GG_DTYPE_FORK);
        bool sized = d->block_elems > 0 && d->block_bytes > 0;
        T_CHECKF(sized == (d->kind != GG_DTYPE_REMOVED), "%s", d->name);
        const gg_dtype_info *named = gg_dtype_by_name(d->name);
        T_CHECKF(named == (sized ? d : NULL), "%s", d->name);
    }
    T_CHECK(gg_dtype_get(UINT32_MAX) == NULL);
}

/* Values and bytes of a block, as in ggml. */
static void blocks_have_their_sizes(void)
{
    static const struct {
        uint32_t id, elems, bytes;
    } sizes[] = {
        { GG_F32, 1, 4 },        { GG_F16, 1, 2 },        { GG_Q4_0, 32, 18 },
        { GG_Q4_1, 32, 20 },     { GG_Q5_0, 32, 22 },     { GG_Q5_1, 32, 24 },
        { GG_Q8_0, 32, 34 },     { GG_Q8_1, 32, 36 },     { GG_Q2_K, 256, 84 },
        { GG_Q3_K, 256, 110 },   { GG_Q4_K, 256, 144 },   { GG_Q5_K, 256, 176 },
        { GG_Q6_K, 256, 210 },   { GG_Q8_K, 256, 292 },   { GG_IQ2_XXS, 256, 66 },
        { GG_IQ2_XS, 256, 74 },  { GG_IQ3_XXS, 256, 98 }, { GG_IQ1_S, 256, 50 },
        { GG_IQ4_NL, 32, 18 },   { GG_IQ3_S, 256, 110 },  { GG_IQ2_S, 256, 82 },
        { GG_IQ4_XS, 256, 136 }, { GG_I8, 1, 1 },         { GG_I16, 1, 2 },
        { GG_I32, 1, 4 },        { GG_I64, 1, 8 },        { GG_F64, 1, 8 },
        { GG_IQ1_M, 256, 56 },   { GG_BF16, 1, 2 },       { GG_TQ1_0, 256, 54 },
        { GG_TQ2_0, 256, 66 },   { GG_MXFP4, 32, 17 },    { GG_NVFP4, 64, 36 },
        { GG_Q1_0, 128, 18 },    { GG_Q2_0, 64, 18 },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const gg_dtype_info *d = gg_dtype_get(sizes[i].id);
        uint64_t bytes = 0;
        gg_error e = GG_ERROR_INIT;
        T_CHECKF(d, "no row for %s", names[sizes[i].id]);
        if (!d) continue;
        T_CHECKF(d->block_elems == sizes[i].elems && d->block_bytes == sizes[i].bytes, "%s",
                 d->name);
        T_EQ(gg_row_bytes(d->id, 3 * (uint64_t)sizes[i].elems, &bytes, &e), GG_OK);
        T_EQ(bytes, 3 * (uint64_t)sizes[i].bytes);
        if (sizes[i].elems > 1)
            T_EQ(gg_row_bytes(d->id, (uint64_t)sizes[i].elems + 1, &bytes, &e), GG_EFORMAT);
    }
}

/* 2^63 values or bytes are too many, unless a dimension is 0. */
static void extents_do_not_overflow(void)
{
    const uint64_t half = UINT64_C(1) << 31, dims[3] = { half, half, 2 }, zero[2] = { 0, half };
    uint64_t n, bytes;
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT;
    T_EQ(gg_tensor_extent(GG_I8, 2, dims, &n, &bytes, &e), GG_OK);
    T_EQ(bytes, half * half);
    T_EQ(gg_tensor_extent(GG_I8, 3, dims, &n, &bytes, &e2), GG_EFORMAT);
    T_EQ(gg_tensor_extent(GG_F16, 2, dims, &n, &bytes, &e3), GG_EFORMAT);
    T_CHECK(gg_tensor_extent(GG_F64, 2, zero, &n, &bytes, &e) == GG_OK && n == 0 && bytes == 0);
}

/* Only whole blocks are decoded and encoded. */
static void parts_of_blocks_are_refused(void)
{
    float x[64] = { 0 };
    unsigned char blocks[64] = { 0 };
    if (!gg_dtype_get(GG_Q4_0)) return; /* said above */
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT;
    T_EQ(gg_decode(GG_Q4_0, blocks, x, 48, &e), GG_EUSAGE);
    T_EQ(gg_decode(GG_Q4_0, blocks, x, 64, &e2), GG_OK);
    T_EQ(gg_encode(GG_Q4_0, x, blocks, 48, 48, NULL, &e3), GG_EUSAGE);
}

/* gg_dtype_at gives each of them once, by ascending id. */
static void all_are_listed(void)
{
    size_t n = 0, known = 0;
    for (uint32_t id = 0; id < 1000; id++) known += gg_dtype_get(id) != NULL;
    for (; gg_dtype_at(n); n++)
        if (n > 0) T_CHECK(gg_dtype_at(n)->id > gg_dtype_at(n - 1)->id);
    T_EQ(n, known);
    T_CHECK(gg_dtype_at(SIZE_MAX) == NULL);
}

static const t_case cases[] = {
    { "rows are at their ids", rows_are_at_their_ids },
    { "all are listed", all_are_listed },
    { "blocks have their sizes", blocks_have_their_sizes },
    { "extents do not overflow", extents_do_not_overflow },
    { "parts of blocks are refused", parts_of_blocks_are_refused },
};

T_MAIN(cases)
