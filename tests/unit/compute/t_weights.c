/* The weights of an importance matrix, as the loops over a tensor use them. */
#include "compute/compute.h"
#include "t.h"

static float mean2[3 * 4] = { 0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32 };

/* Columns of 3, matrices of 5 rows: value i has column i % 3 of matrix i / 15. */
static float expected(uint64_t i)
{
    return mean2[i / 15 * 3 + i % 3];
}

static void repeated(void)
{
    gg_weights w = { .of = { mean2, NULL, 3, 4, 5 } };
    float room[64];
    for (uint64_t first = 0; first < 60; first++)
        for (size_t n = 1; first + n <= 60; n++) {
            const float *got = gg_weights_of(&w, first, n, room);
            for (size_t i = 0; i < n; i++)
                T_CHECKF(got[i] == expected(first + i), "value %d of %d: %g", (int)i, (int)first,
                         (double)got[i]);
        }
}

/* Part of a stack: its first matrix is number 2. */
static void part_of_a_stack(void)
{
    gg_weights w = { .of = { mean2, NULL, 3, 4, 5 }, .first = 2 * 3 };
    float room[30];
    const float *got = gg_weights_of(&w, 0, 30, room);
    for (size_t i = 0; i < 30; i++) T_EQ(got[i], expected(30 + i));
}

static void none(void)
{
    gg_weights w = { .of.rows = 5 };
    gg_error e = GG_ERROR_INIT;
    gg_tensor t = { .name = "x", .name_len = 1, .dims = { 256, 1, 1, 1 }, .dtype = GG_Q4_K };
    T_CHECK(!gg_weights_of(&w, 0, 30, NULL));
    T_EQ(gg_weights_open(&w, NULL, &t, 0, 0, &e), GG_OK);
    T_CHECK(!w.of.mean2);
    gg_weights_close(&w);
}

static const t_case cases[] = {
    { "weights of columns repeat for each row", repeated },
    { "weights of part of a stack", part_of_a_stack },
    { "no importance matrix", none },
};

T_MAIN(cases)
