/* anatomy_grid.h - arranges tensors in a grid with one column per block and one row per role,
 * for the pictures of a model. Internal. */
#ifndef GG_ANATOMY_GRID_H
#define GG_ANATOMY_GRID_H

#include "organ/gg_measure_model.h"

typedef struct grid_role {
    const char *name; /* role within a block, with the prefix of the block */
    size_t name_len;
    const char *prefix; /* "enc." of "enc.blk.0.attn_q", "double_blocks." of an image model */
    size_t prefix_len;
    gg_class cls;
} grid_role;

typedef struct grid_cell { /* mean over the tensors that share a cell, such as experts */
    double sum;
    size_t measured, tensors;
} grid_cell;

typedef struct gg_grid {
    gg_measure_get get;
    grid_role *roles; /* by class, then by first appearance */
    size_t n_roles;
    int64_t *blocks; /* ascending */
    size_t n_blocks;
    grid_cell *cells; /* [role * n_blocks + block] */
    size_t *role_of;  /* for each row that belongs to a block: its role */
    size_t *sides;    /* rows of tensors without a block */
    size_t n_sides;
    double low, high; /* of the colour scale; low < high */
} gg_grid;

/* Whether the row has a value in the column of the grid. */
bool gg_grid_has(const gg_grid *g, const gg_tensor_measure *row);

gg_status gg_grid_make(const gg_measures *list, const char *column, gg_grid *g, gg_error *err);
void gg_grid_free(gg_grid *g);

/* Returns the position on the colour scale, from 0 to 1. */
double gg_grid_place(const gg_grid *g, double value);

/* A colour scale with equal perceptual steps from dark to light (blue, teal, green, yellow) that
 * colour-blind readers can also distinguish. t is 0..1; rgb receives values from 0 to 255. */
void gg_grid_color(double t, unsigned rgb[3]);

#endif
