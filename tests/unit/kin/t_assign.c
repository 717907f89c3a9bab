/* t_assign.c - assignments against the best of all permutations. */
#include "kin/assign.h"
#include "numeric/matrix.h"
#include "t.h"

#include <math.h>

#define MOST 7

static uint32_t state = 1;

static uint32_t draw(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(state >> 8) * below) >> 24);
}

typedef struct graph {
    size_t n;
    uint32_t count[MOST], column[MOST * MOST];
    float weight[MOST * MOST];
    double full[MOST][MOST]; /* NAN = no candidate */
} graph;

/* Each pair is a candidate with probability density / 8. Few different weights make ties. */
static graph random_graph(size_t n, uint32_t density, uint32_t weights)
{
    graph g = { .n = n };
    for (size_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            g.full[i][j] = NAN;
            if (draw(8) >= density) continue;
            float w = (float)draw(weights) / (float)weights * 4 - 2;
            g.full[i][j] = (double)w;
            g.column[i * MOST + g.count[i]] = j;
            g.weight[i * MOST + g.count[i]++] = w;
        }
    return g;
}

/* The value of a matching: candidates count first, then the sum of their weights. */
static double value(const graph *g, const uint32_t *match)
{
    double sum = 0;
    for (size_t i = 0; i < g->n; i++)
        if (!isnan(g->full[i][match[i]])) sum += 1000 + g->full[i][match[i]];
    return sum;
}

static double best_value(const graph *g, uint32_t *match, size_t from)
{
    if (from == g->n) return value(g, match);
    double best = -1;
    for (size_t i = from; i < g->n; i++) {
        uint32_t a = match[from], b = match[i];
        match[from] = b, match[i] = a;
        double v = best_value(g, match, from + 1);
        if (v > best) best = v;
        match[from] = a, match[i] = b;
    }
    return best;
}

static void solve(const graph *g, uint32_t *match)
{
    gg_error err = GG_ERROR_INIT;
    gg_candidates c = { g->n, MOST, g->count, g->column, g->weight };
    T_EQ(gg_assign(&c, match, &err), GG_OK);
}

static void brute_force(void)
{
    for (int round = 0; round < 3000; round++) {
        graph g = random_graph(1 + draw(round % 50 ? 5 : MOST), 1 + draw(8),
                               round % 2 ? 4 : 1000000);
        uint32_t match[MOST], all[MOST] = { 0, 1, 2, 3, 4, 5, 6 };
        bool taken[MOST] = { false };
        solve(&g, match);
        for (size_t i = 0; i < g.n; i++) {
            T_CHECK(match[i] < g.n && !taken[match[i]]);
            taken[match[i] < g.n ? match[i] : 0] = true;
        }
        double got = value(&g, match), want = best_value(&g, all, 0);
        T_CHECKF(fabs(got - want) < 1e-5, "round %d: %g, expected %g", round, got, want);
    }
}

/* Rows without candidates take their own number if it is free, then the lowest free one. */
static void left_over(void)
{
    graph g = { .n = 5 };
    uint32_t match[MOST];
    solve(&g, match);
    for (uint32_t i = 0; i < 5; i++) T_EQ(match[i], i);
    g.count[0] = 1, g.column[0] = 3, g.weight[0] = -5;
    solve(&g, match);
    static const uint32_t want[] = { 3, 1, 2, 0, 4 };
    for (int i = 0; i < 5; i++) T_EQ(match[i], want[i]);
}

/* A long chain in which every new row moves all earlier ones, and the limit of one search. */
static void chain(void)
{
    size_t n = 20000;
    uint32_t *column = malloc(2 * n * sizeof *column), *count = malloc(n * sizeof *count),
             *match = malloc(n * sizeof *match);
    float *weight = malloc(2 * n * sizeof *weight);
    gg_error err = GG_ERROR_INIT;
    for (uint32_t i = 0; i < n; i++) {
        count[i] = 2;
        column[2 * i] = i ? i - 1 : 0;
        column[2 * i + 1] = i ? i : 1;
        weight[2 * i] = 1, weight[2 * i + 1] = 0.5f;
    }
    gg_candidates c = { n, 2, count, column, weight };
    T_EQ(gg_assign(&c, match, &err), GG_OK);
    bool *taken = calloc(n, sizeof *taken);
    size_t twice = 0;
    for (size_t i = 0; i < n; i++) {
        twice += match[i] >= n || taken[match[i]];
        if (match[i] < n) taken[match[i]] = true;
    }
    T_EQ(twice, (size_t)0);
    free(taken);
    free(column);
    free(count);
    free(match);
    free(weight);
}

static void too_many(void)
{
    gg_error err = GG_ERROR_INIT;
    gg_candidates c = { .n = GG_ASSIGN_MAX + 1 };
    T_EQ(gg_assign(&c, NULL, &err), GG_EUNSUPPORTED);
}

static const t_case cases[] = {
    { "brute_force", brute_force },
    { "left_over", left_over },
    { "chain", chain },
    { "too_many", too_many },
};

T_MAIN(cases)
