/* strangers.h - a quick look at two models before their tensors are combined. Internal. */
#pragma once

#include "kin/gg_compare_model.h"

#define GG_JUDGED 12      /* most matrices compared: enough to recognize unrelated models */
#define GG_JUDGED_ROWS 32 /* of each */

/* Whether two seekable models share no lineage, or their hidden units have changed places, as far
 * as the pairs of matrices of `few` tell. With `experts`, also whether the experts of mixtures
 * have, which takes a sample of at most 8 blocks; attention may be in place although they are not.
 */
gg_status gg_judge_strangers(gg_source *a, gg_source *b, const gg_compare_options *few,
                             bool experts, bool *doubtful, gg_error *err);
