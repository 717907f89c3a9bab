/* t_dtypes.c - the table of tensor types: every row is at its own id, and every id of the
 * format has a row. */
#include "t.h"

#include "organ/gg_quant.h"

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
        if (id < GG_DTYPE_COUNT && !d) T_CHECKF(d, "no row for id %u", id);
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
};

T_MAIN(cases)
