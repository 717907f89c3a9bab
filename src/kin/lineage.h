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

/* ---- a quick look at two models before their tensors are combined ---- */

#define GG_JUDGED 12      /* most matrices compared: enough to recognize unrelated models */
#define GG_JUDGED_ROWS 32 /* of each */

/* Whether two seekable models share no lineage, or their hidden units have changed places, as far
 * as the pairs of matrices of `few` tell. With `experts`, also whether the experts of mixtures
 * have, which takes a sample of at most 8 blocks; attention may be in place although they are not.
 */
gg_status gg_judge_strangers(gg_source *a, gg_source *b, const gg_compare_options *few,
                             bool experts, bool *doubtful, gg_error *err);
