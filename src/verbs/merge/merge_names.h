/* merge_names.h - the names of tensors in PyTorch models. Internal. */
#ifndef GG_MERGE_NAMES_H
#define GG_MERGE_NAMES_H

#include "organ/gg_organ.h"

/* Whether a filter of mergekit, a part of a name such as "self_attn" or "q_proj", matches the
 * tensor under the name that PyTorch models use for it, or under its own. "*" matches all. */
bool gg_merge_torch_match(const gg_tensor *t, const char *filter);

#endif
