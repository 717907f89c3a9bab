/* picture_grid.h - arranges tensors in a grid with one column per block and one row per role, for
 * the pictures of a model. Internal. */
#ifndef GG_PICTURE_GRID_H
#define GG_PICTURE_GRID_H

#include "organ/gg_picture.h"

typedef struct gg_picture_cell { /* one tensor */
    char *name;                  /* owned, NUL-terminated */
    size_t name_len;
    gg_anatomy a;
    double value; /* NaN = none */
} gg_picture_cell;

typedef struct grid_role {
    const char *name; /* role within a block, with the prefix of the block */
    size_t name_len;
    const char *prefix; /* "enc." of "enc.blk.0.attn_q", "double_blocks." of an image model */
    size_t prefix_len;
    gg_class cls;
} grid_role;

typedef struct grid_cell { /* mean over the tensors that share a square, such as experts */
    double sum;
    size_t measured, tensors;
} grid_cell;

typedef struct gg_grid {
    const gg_picture *p;
    grid_role *roles; /* by class, then by first appearance */
    size_t n_roles;
    int64_t *blocks; /* ascending */
    size_t n_blocks;
    grid_cell *cells; /* [role * n_blocks + block] */
    size_t *role_of;  /* for each tensor that belongs to a block: its role */
    size_t *sides;    /* tensors without a block */
    size_t n_sides;
    double low, high; /* of the colour scale; low < high */
} gg_grid;

/* Fails only with GG_ENOMEM. */
gg_status gg_grid_make(const gg_picture *p, gg_grid *g, gg_error *err);
void gg_grid_free(gg_grid *g);

/* The colour of a value: of its place on the scale, or of its source. */
void gg_grid_value_color(const gg_grid *g, double value, unsigned rgb[3]);
double gg_grid_place(const gg_grid *g, double value); /* on the scale, 0 to 1 */

/* A colour scale with equal perceptual steps from dark to light (violet, blue, green, yellow) that
 * colour-blind readers can also distinguish. t is 0..1; rgb receives values from 0 to 255. */
void gg_grid_color(double t, unsigned rgb[3]);

/* The name of the source that a value stands for. */
const char *gg_grid_source(const gg_grid *g, double value);

/* A source has a letter as well as a colour. */
char gg_grid_letter(double source);

#endif
