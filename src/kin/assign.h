/* assign.h - matches the rows of a sparse matrix of weights with its columns. Internal. */
#pragma once

#include "organ/gg_status.h"

/* ---- matching the rows of a sparse matrix of weights with its columns --------------------- */

#define GG_ASSIGN_MAX ((size_t)1 << 20) /* rows */
#define GG_ASSIGN_REACH 4096            /* columns that one search may settle */

/* The candidates of n rows among n columns. Row i has count[i] <= most of them, at i * most in
 * `column` and `weight`. No column occurs twice in a row. Weights are finite. */
typedef struct gg_candidates {
    size_t n, most;
    const uint32_t *count;
    const uint32_t *column;
    const float *weight;
} gg_candidates;

/* Finds distinct columns for the rows: match[i] is the column of row i. First as many rows as
 * possible are matched with one of their candidates, and among all ways to do so the sum of the
 * weights is the largest. Rows that are left over take their own number if that column is free,
 * and otherwise the free columns in ascending order.
 *
 * Method: shortest augmenting paths (the Hungarian method on a sparse graph). Memory: 40 n bytes
 * and at most 24 bytes per candidate. Time: O(n most log n) if most rows have a column of their
 * own. A search settles at most GG_ASSIGN_REACH columns and then leaves its row over, so that the
 * time is bounded by O(n GG_ASSIGN_REACH most log n), and the result is exact up to
 * n = GG_ASSIGN_REACH. It depends on nothing but the candidates.
 * Errors: GG_EUNSUPPORTED for n above GG_ASSIGN_MAX; GG_ENOMEM. */
gg_status gg_assign(const gg_candidates *c, uint32_t *match, gg_error *err);
