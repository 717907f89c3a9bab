/* picture.h - draw a model as a grid: one column per block, one row per role, and a list of the
 * tensors outside the blocks. Squares are coloured by a value, or by the source of the tensor.
 *
 *     gg_picture p = { .title = "my model", .column = "theta", .unit = "degrees" };
 *     for each row of a table:
 *         gg_picture_add(&p, &row->t, row->m.theta, &err);
 *     gg_status st = gg_picture_draw(&p, GG_PICTURE_SVG, 0, &text, &len, &err);
 *     gg_picture_free(&p);
 */
#ifndef GG_PICTURE_H
#define GG_PICTURE_H

#include "organ/gg_organ.h"

GG_BEGIN_DECLS

/* Set the texts, which remain the caller's, and leave the rest zero. */
typedef struct gg_picture {
    const char *title;  /* NULL = "model" */
    const char *text;   /* lines below the title, such as a verdict; NULL = none */
    const char *column; /* what the colours show: "theta" */
    const char *unit;   /* "degrees"; NULL = none. Limits in degrees are multiples of five. */
    /* Made by gg_picture_source: if there are any, the value of a tensor is the index of its
     * source, and each source has its own colour. From the ninth on they share one. */
    char **sources;
    size_t n_sources;
    struct gg_picture_cell *cells; /* made by gg_picture_add */
    size_t n, cap;
} gg_picture;

/* Adds a tensor; its name is copied. NaN = no value, which is drawn as an empty square.
 * Fails only with GG_ENOMEM. */
gg_status gg_picture_add(gg_picture *p, const gg_tensor *t, double value, gg_error *err);
/* Finds or adds a source by its name, such as a model's file. Fails only with GG_ENOMEM. */
gg_status gg_picture_source(gg_picture *p, const char *name, double *index, gg_error *err);

/* Adds all tensors of an organ directory and their sources: a tensor with a history, as grafts
 * and purifications leave it, comes from "code.gguf, linear:0.5"; all others share the first
 * source. If none has a history, p->text says so instead. Errors: GG_NO if it is not an organ
 * directory; GG_EFORMAT for a malformed history;
 * GG_ENOMEM. */
gg_status gg_picture_origins(gg_picture *p, const gg_source *dir, gg_error *err);

void gg_picture_free(gg_picture *p); /* frees what was added; p can be filled again */

/* The colours go from dark to light. They span the values from the 5 % to the 95 % quantile, so
 * that a few outliers do not hide the differences between the others; values beyond have the colour
 * of the limit. Tensors of one role and block, such as experts, share a square with their mean.
 *
 * *out gets the text, *len bytes, to be freed with free(). An SVG file is self-contained and
 * without scripts; it follows the reader's light or dark scheme and is readable from a width of 400
 * pixels. The other forms are lines for a terminal of `width` columns. Fails only with GG_ENOMEM.
 */
typedef enum gg_picture_form {
    GG_PICTURE_SVG,
    GG_PICTURE_PLAIN, /* without colours */
    GG_PICTURE_256,
    GG_PICTURE_TRUE /* 24-bit colours */
} gg_picture_form;
gg_status gg_picture_draw(const gg_picture *p, gg_picture_form form, unsigned width, char **out,
                          size_t *len, gg_error *err);

GG_END_DECLS

#endif
