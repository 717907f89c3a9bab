/* refit.h - down projections of the experts that are left, fitted so that a mixture of experts
 * gives the outputs that it had with all of them. Internal. */
#pragma once

#include "compute/samples.h"
#include "gguf/gguf.h"

/* A block of experts as it was, and the experts and units that are left. */
typedef struct gg_refit {
    gg_source *model;
    const gg_meta *meta;
    size_t down, up, gate; /* the stacks; gate == up if they are one */
    size_t router, bias, probs_bias;
    gg_samples inputs;            /* of the router and of the experts */
    uint64_t experts, used, left; /* numbers of experts; */
    const uint64_t *kept;         /* those that are left */
    const uint32_t *units;        /* `n_units` of each of these, or NULL = all */
    uint64_t n_units;
} gg_refit;

/* Finds what the block of tensor `down` of r->model consists of, by r->meta, and the samples of its
 * inputs. The caller fills in the rest. *why is a reason if the outputs of the block cannot be
 * computed here; it is NULL if they can. Errors of gg_samples_find. */
gg_status gg_refit_find(gg_refit *r, gg_source *activations, size_t down, const char **why,
                        gg_error *err);

/* The values of the down projection of the kept expert number k before the fit: rows x n_units. */
typedef struct gg_refit_start {
    gg_status (*read)(void *ctx, uint64_t k, float *out, gg_error *err);
    void *ctx;
} gg_refit_start;

/* The fit: the changes of all down projections together are the ridge regression of what the
 * outputs lack on the samples. It is solved in as many dimensions as there are samples. */
typedef struct gg_refit_fit {
    const gg_refit *r;
    float *x;        /* inputs: samples x width */
    size_t n, width; /* of the samples, and of an input and an output */
    uint32_t *ids;   /* experts that a sample used, and then those of `kept` that it uses */
    float *weights;  /* of these */
    float *lacking;  /* width x samples: what the outputs lack, then the solution */
} gg_refit_fit;

/* Memory: samples x (2 width + samples) values, and 3 matrices of an expert. */
gg_status gg_refit_open(const gg_refit *r, const gg_refit_start *start, gg_refit_fit *f,
                        gg_error *err);
/* The change of the down projection of the kept expert number k: width x n_units. */
gg_status gg_refit_change(const gg_refit_fit *f, uint64_t k, float *out, gg_error *err);
void gg_refit_close(gg_refit_fit *f);
