/* anatomy_rules.h - shared by the two files of rules. Internal. */
#ifndef GG_ANATOMY_RULES_H
#define GG_ANATOMY_RULES_H

#include "name_span.h"
#include "organ/gg_organ.h"

/* Reads the digits up to the next dot: at most nine, without a leading zero. Returns their number,
 * or 0 if there are none. */
size_t gg_block_number(gg_span x, int64_t *v);

/* Whether the stem ends like a norm: attn_norm, norm1, post_ln ... */
bool gg_is_norm_stem(gg_span stem);

/* ---- image and video models (anatomy_diffusion.c) --------------------------------- */

/* Whether this is a name of a diffusion model. If so, *rest is the part after the prefix of the
 * checkpoint and the block, *block is the number of the block or -1, and *text is set if the tensor
 * belongs to a text encoder in the same file. */
bool gg_diffusion_name(gg_span name, gg_span *rest, int64_t *block, bool *text);

/* The class of a stem that gg_diffusion_name has found. *known is false if no rule
 * matches. `prefix` is the part of the name before the stem. */
gg_class gg_diffusion_class(gg_span prefix, gg_span stem, bool *known);

#endif
