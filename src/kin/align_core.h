/* align_core.h - internals of gg_align: groups of units, tables of their values, and the best
 * order. Internal.
 */
#pragma once

#include "organ/gg_align.h"
#include "organ/source_layout.h"

#define GG_ALIGN_HEADS 1024 /* maximum number of heads in a block */

/* What describes a unit in the table: its rows (or columns) one after the other, or if their order
 * is not known, as within experts, the sum of its rows, or the sums of the values of each row. */
typedef enum align_sum { ALIGN_EACH, ALIGN_SUM_ROWS, ALIGN_SUM_COLUMNS } align_sum;

/* The same part of a tensor in both models. */
typedef struct align_part {
    gg_slice slice; /* its index is not used */
    size_t a, b;    /* the tensor, in each model */
    bool counts;    /* a weight by which units are recognized */
    bool stays;     /* only for that; another part moves it */
    align_sum sum;
} align_part;

typedef struct align_group {
    gg_align_kind kind;
    int64_t block, donor_block, expert;
    size_t n;
    align_part *parts;
    size_t n_parts, cap_parts;
} align_group;

void gg_align_group_free(align_group *g);

/* ---- groups --------------------------------------------------------------------------- */

typedef struct align_models {
    gg_source *a, *b;
    gg_source *experts;  /* the view of the donor in which its experts move; b reads it */
    int64_t *strange[2]; /* blocks with unknown attention tensors, of each model; ascending */
    size_t n_strange[2];
} align_models;

gg_status gg_align_models_open(align_models *m, gg_error *err); /* a and b are set */
void gg_align_models_close(align_models *m);

/* The block numbers of "blk.N." names of a model, ascending, each once. The list is malloc'd. */
gg_status gg_align_blocks(const gg_source *s, int64_t **list, size_t *n, gg_error *err);

/* Fills `g`, which is all zero, with one kind of units. g->n is 0 if the block has no such units,
 * or if they cannot be aligned. `stack` is NULL, or gets the number of experts if the units are
 * those of a stack, of which g is `expert`. */
gg_status gg_align_embedding(const align_models *m, align_group *g, gg_error *err);

/* What a tensor has along the dimensions of the embeddings: rows of align.txt. */
typedef enum align_axis { ALIGN_NOTHING, ALIGN_COLUMNS, ALIGN_ROWS, ALIGN_UNKNOWN } align_axis;
typedef struct align_axis_row {
    const char *name;
    align_axis axis;
} align_axis_row;
extern const align_axis_row gg_align_axes[];
extern const char *const gg_align_attention[]; /* attention tensors that are known */
extern const size_t gg_align_axes_n, gg_align_attention_n;
/* clang-format off */
#define AXIS(name, axis) { name, ALIGN_##axis }
/* clang-format on */

typedef struct align_place {
    int64_t block, donor_block;
    const char *suffix; /* of an FFN: "", "_exps" or "_shexp" */
    uint64_t expert;    /* of "_exps" */
} align_place;

gg_status gg_align_ffn(const align_models *m, const align_place *p, align_group *g,
                       uint64_t *experts, gg_error *err);
/* The experts of a stack, as units of the whole block. With `sample`, they are recognized by their
 * rows of the router alone. */
gg_status gg_align_experts(const align_models *m, const align_place *p, bool sample, align_group *g,
                           gg_error *err);
gg_status gg_align_heads(const align_models *m, const align_place *p, align_group *kv,
                         align_group *q, gg_error *err);

/* ---- tables of units ---------------------------------------------------------- */

/* One column per unit. The rows of a part make vectors of length 1, so that the product of two
 * columns is the sum of the cosines of their parts. Vectors longer than `most` are shortened by
 * adding up elements with random signs, which keeps cosines up to noise of 1 / sqrt(most). */
typedef struct unit_table {
    gg_align_kind kind;
    size_t n, dims, parts;
    float *x; /* dims x n, row-major */
} unit_table;

/* Which units of which model: all, or n of them. */
typedef struct unit_choice {
    gg_source *source;
    bool donor;
    const uint32_t *units; /* NULL = all */
    size_t n;
} unit_choice;

gg_status gg_unit_table(const align_group *g, const unit_choice *c, const gg_run *run,
                        unit_table *out, gg_error *err);
void gg_unit_table_free(unit_table *t);

/* ---- the best order ----------------------------------------------------------------------- */

typedef struct unit_order {
    size_t n;
    uint32_t *from;
    float *cosine;
    double mean, before;
    bool found;
    size_t moved;
} unit_order;

gg_status gg_align_order(const unit_table *a, const unit_table *b, unsigned threads,
                         unit_order *out, gg_error *err);
void gg_unit_order_free(unit_order *o);

/* Some units of A and their best partners among all units of B, without an assignment. Only found
 * and moved are set in `out`; two units of A that have the same partner make found false unless
 * they are few. */
gg_status gg_align_partners(const unit_table *a, const uint32_t *units, const unit_table *b,
                            unsigned threads, unit_order *out, gg_error *err);

/* The order of key and value heads, and that of the query heads within it. */
gg_status gg_align_head_order(const unit_table kv[2], const unit_table q[2], unsigned threads,
                              unit_order out[2], gg_error *err);

/* ---- a sample of the model ---------------------------------------------------------------- */

/* Number of groups by kind, of those that both models have, and of those that are permuted. */
typedef struct align_sample {
    size_t groups[GG_ALIGN_KINDS], found[GG_ALIGN_KINDS], permuted[GG_ALIGN_KINDS];
    char experts[160]; /* the order in the first block with permuted experts; "" if there is none */
} align_sample;

/* Looks for common units in a few blocks, and at some of the units if there are many. Base and
 * donor must be seekable. Errors as in gg_align. */
gg_status gg_align_sampled(gg_source *base, gg_source *donor, const gg_align_options *o,
                           const gg_run *run, align_sample *out, gg_error *err);
