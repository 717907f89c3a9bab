/* lineage.h - judges from the compared rows whether two models share a training lineage.
 * Internal. */
#ifndef GG_LINEAGE_H
#define GG_LINEAGE_H

#include "organ/gg_compare_model.h"

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

/* Two seekable models, options and run as in gg_lineage_of. */
typedef struct gg_lineage_search {
    gg_source *a, *b;
    const gg_compare_options *o;
    const gg_run *run;
} gg_lineage_search;

/* Changes a verdict if the models have something in common in other places: first blocks, unless
 * the options choose blocks, tensors or pairs, and then hidden units. Errors are those of
 * gg_compare_models. */
gg_status gg_lineage_look_closer(const gg_lineage_search *s, gg_lineage *out, gg_error *err);

#endif
