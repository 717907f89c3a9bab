/* blend.h - blends: how the values of two tensors, or of two and their ancestor, are combined. */
#pragma once

#include "compute/compute.h"

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

/* A blend of the tensors A and B, and of C in a task blend. */
typedef struct gg_mixture {
    gg_blend_mode mode;
    double t;
    gg_input in[3]; /* A, B, C; without parts if unused */
} gg_mixture;

/* Blend the inputs of the mixture, which have out's dims and any dtypes that can be decoded.
 * Computed in double and written in out's dtype. T = 0 gives A, and T = 1 of linear and slerp
 * gives B, as by gg_compute_convert: byte for byte if the dtype is the same. Errors as there;
 * GG_EUSAGE for task without C. */
gg_status gg_compute_blend(gg_computations *list, const gg_tensor *out, const gg_mixture *m,
                           gg_producer *p, gg_error *err);

/* A part of a tensor along its last dimension with its own producer, for stacks of which some
 * experts are converted and others copied. */
typedef struct gg_joint {
    gg_tensor t; /* of the part; its name must live as long as the list */
    gg_producer p;
    bool stays; /* its bytes are in the target already, which is changed in place */
} gg_joint;

/* The tensors that contain the parts. A part has no sha256 of its own, so these tensors are
 * first read and compared with their sha256, if a manifest states one. source may be NULL. */
typedef struct gg_whole {
    gg_source *source;
    size_t index;
} gg_whole;

gg_status gg_compute_join(gg_computations *list, const gg_joint *joints, size_t n,
                          const gg_whole of[3], gg_producer *p, gg_error *err);
