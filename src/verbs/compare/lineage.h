/* lineage.h - the verdict on a common training lineage, from rows. Internal. */
#ifndef GG_LINEAGE_H
#define GG_LINEAGE_H

#include "organ/gg_compare_model.h"

/* Does the row count? Measured matrices of attention and FFN weights (class skeleton or
 * organ). Norms are near 1 in any model and biases near 0; embeddings have rows that
 * training hardly touched, and some are formulas; routers are small. */
bool gg_lineage_counts(const gg_compare_row *row);

/* The verdict of n cosines, which are sorted in place. Fills all but tensors and
 * identical, which it reads: with tensors > 0 and all identical the verdict is that.
 * Otherwise same: median >= SAME_FROM and at most a quarter strange; strangers: median <
 * STRANGE_BELOW and at most a quarter same; else, and for n = 0, undecidable. */
void gg_lineage_judge(double *cosines, size_t n, gg_lineage *l);

#endif
