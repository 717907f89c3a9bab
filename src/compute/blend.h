/* blend.h - blends: how the values of two tensors, or of two and their ancestor, are combined. */
#pragma once

#include "organ/gg_organ.h"

/* How the values of base (A) and donor (B) are combined. */
typedef enum gg_blend_mode {
    GG_BLEND_NONE,   /* no blend: the donor's values */
    GG_BLEND_LINEAR, /* A + T (B - A) */
    GG_BLEND_SLERP,  /* along the arc: (sin((1-T)w) A + sin(T w) B) / sin w, where w is the angle
                        between A and B as vectors of all their values; linear where
                        |cos w| > 0.9995 or one of them is 0 */
    GG_BLEND_TASK,   /* A + T (B - C), where C is the common ancestor */
} gg_blend_mode;

/* A blend. All zero means none. gg_blend_parse fills it in. */
typedef struct gg_blend {
    gg_blend_mode mode;
    double first, last;  /* T of the first and of the last block */
    gg_source *ancestor; /* not owned; must outlive every use of the blend; read by task only */
    char text[96];       /* the parsed text, for history entries */
} gg_blend;

/* Parse "linear:T", "slerp:T" or "task:T". T is a number or a ramp over the blocks such as
 * 0.2..0.8, within 0..1 for linear and slerp and within -10..10 for task. `text` NULL gives
 * no blend. `ancestor` may be NULL unless the mode is task.
 * Returns GG_EUSAGE if the text is wrong or the ancestor is missing; *out is then unchanged. */
gg_status gg_blend_parse(const char *text, gg_source *ancestor, gg_blend *out, gg_error *err);
