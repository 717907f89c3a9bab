/* anatomy_rules.h - what the two files of rules share. Internal. */
#ifndef GG_ANATOMY_RULES_H
#define GG_ANATOMY_RULES_H

#include "name_span.h"
#include "organ/gg_organ.h"

/* Digits up to the next dot: at most nine, no leading zero. Returns how many; 0 for none. */
size_t gg_block_number(gg_span x, int64_t *v);

/* Does the stem end like a norm: attn_norm, norm1, post_ln ...? */
bool gg_is_norm_stem(gg_span stem);

/* ---- image and video models (anatomy_diffusion.c) --------------------------------- */

/* Is this a name of a diffusion model? Then *rest is what follows the prefix of a
 * checkpoint and the block, and *block is its number, or -1. *text tells an encoder of
 * text that is in the same file. */
bool gg_diffusion_name(gg_span name, gg_span *rest, int64_t *block, bool *text);

/* The class of a stem that gg_diffusion_name has found. *known is false where no rule
 * fits. `prefix` is what precedes the stem in the name. */
gg_class gg_diffusion_class(gg_span prefix, gg_span stem, bool *known);

#endif
