/* size_plan.h - chooses the type of every tensor so that the model has at most a given size and
 * little loss. Internal.
 *
 * Each matrix that no rule names can have one of several types. Samples of its values are encoded
 * in each of them; the errors give the losses (size_loss.h), and size_search.h chooses. */
#ifndef GG_SIZE_PLAN_H
#define GG_SIZE_PLAN_H

#include "organ/gg_verbs.h"
#include "size_loss.h"
#include "verbs/compute/dtype_rules.h"
#include "verbs/plan/plan.h"

typedef struct gg_size_job {
    const gg_plan *plan; /* its tensors, none of them re-encoded yet */
    const gg_assemble_options *o;
    const gg_dtype_rules *rules; /* for tensors whose type is given */
    const gg_imatrix *imatrix;   /* may be NULL */
    const gg_run *run;
    /* Computes the size of all files if the tensors had these types. */
    gg_status (*measure)(void *ctx, const uint32_t *dtypes, uint64_t *bytes, gg_error *err);
    void *ctx;
} gg_size_job;

/* The result, per tensor of the plan. */
typedef struct gg_size_plan {
    size_t n;
    uint32_t *dtypes;
    double *errors;     /* relative L2 of the sampled values, weighed by importance if possible */
    double *losses;     /* predicted */
    const char **basis; /* of the loss: static texts; "-" for tensors that keep their type */
    uint64_t limit, bytes;
    double loss; /* the sum */
    bool guess;  /* some of it is guessed */
} gg_size_plan;

/* Errors: GG_NO if no choice is small enough; GG_EUSAGE for a wrong list of types or table;
 * GG_EFORMAT, naming the tensor, for values that are not finite. End with gg_size_plan_free also
 * after an error. */
gg_status gg_size_choose(const gg_size_job *job, gg_size_plan *out, gg_error *err);
void gg_size_plan_free(gg_size_plan *p);

/* The types as rules of types: "NAME=TYPE,...", freed by the caller. Tensors whose names would be
 * read as patterns are left out; they keep their type or have the user's. */
gg_status gg_size_rules(const gg_size_plan *p, const gg_plan *plan, const char *rest, char **out,
                        gg_error *err);

#endif
