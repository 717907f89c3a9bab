/* lineage.h - judges from the compared rows whether two models share a training lineage.
 * Internal. */
#pragma once

#include "kin/gg_compare_model.h"

/* Returns whether the row counts for the verdict. Only measured matrices of attention and FFN
 * weights (class skeleton or organ) count. Norms are near 1 and biases near 0 in every model.
 * Embeddings have rows that training hardly changed, and some are computed from a formula. Routers
 * are small. */
bool gg_lineage_counts(const gg_compare_row *row);

/* Judges n cosines, which are sorted in place. Reads the members tensors and identical, and fills
 * all others. The verdict is:
 *   identical    if tensors > 0 and all of them are identical; otherwise
 *   same         if median >= SAME_FROM and at most a quarter are strange
 *   strangers    if median < STRANGE_BELOW and at most a quarter are the same
 *   undecidable  in all other cases, and if n = 0 */
void gg_lineage_judge(double *cosines, size_t n, gg_lineage *l);

/* The cosines of the rows that count. Initialize with zeros. */
typedef struct gg_lineage_cosine {
    gg_class cls;
    double cosine;
} gg_lineage_cosine;

typedef struct gg_lineage_rows {
    gg_lineage_cosine *list;
    size_t n, cap;
} gg_lineage_rows;

gg_status gg_lineage_add(gg_lineage_rows *rows, const gg_compare_row *row, gg_error *err);
/* Fills the lineage of all groups of the report. */
gg_status gg_lineage_judge_groups(const gg_lineage_rows *rows, gg_compare_report *r, gg_error *err);
void gg_lineage_rows_free(gg_lineage_rows *rows);
