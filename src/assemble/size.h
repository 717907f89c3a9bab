/* size.h - chooses the type of every tensor so that the model has at most a given size and little
 * loss. Internal. */
#pragma once

#include "compute/dtype_rules.h"
#include "organ/gg_status.h"
#include "organ/gg_verbs.h"
#include "write/plan.h"

/* How much worse a model gets if one of its tensors is encoded: from a table of measured losses, or
 * guessed.
 *
 * The loss is a difference of log perplexities. It is nearly proportional to e, the squared
 * relative error of the tensor's values (weighed by the importance matrix), with a factor that
 * depends on the tensor. The guess for the factor is a number per role: see size.c.
 *
 * The table is a TSV with a header line. Its columns tensor, type and loss are used, in any order.
 * Lines that begin with # are skipped. A negative loss counts as 0.
 *
 * For a tensor with rows in the table, a type in the table has the loss stated there. The losses of
 * other types are interpolated by e: linear between the two nearest types, with no loss at e = 0.
 * Above the largest e of the table, the loss grows in proportion to e. For a tensor without rows
 * the guess is used, multiplied by the median ratio of the table's losses to their guesses. */
typedef struct gg_losses gg_losses;

/* Reads a table. GG_EUSAGE names the line of a mistake; GG_EIO; GG_ENOMEM. */
gg_status gg_losses_read(const char *path, gg_losses **out, gg_error *err);
void gg_losses_free(gg_losses *l); /* l may be NULL */

/* A type that a tensor can have. */
typedef struct gg_size_option {
    uint32_t dtype;
    double error; /* squared relative error of its values in that type */
    double loss;  /* predicted; 0 or more, finite */
    uint64_t bytes;
} gg_size_option;

/* A tensor and its options. */
typedef struct gg_size_item {
    const gg_tensor *t;
    size_t index; /* in the plan */
    bool tied;    /* token_embd is used as the output too */
    gg_size_option *options;
    size_t n, all;     /* options to choose from, n > 0, and with those for interpolation */
    size_t chosen;     /* the result of the search */
    const char *basis; /* how the losses were found; static */
} gg_size_item;

/* Computes the losses of n tensors from the errors. l may be NULL. *unused is the number of rows of
 * the table whose tensor is not among them. */
gg_status gg_losses_of(const gg_losses *l, gg_size_item *items, size_t n, size_t *unused,
                       gg_error *err);

/* Sets `chosen` of all items so that the sum of bytes is at most `limit` and the sum of losses is
 * small: for a factor L, each item has the option with the least loss + L bytes. L is the least
 * for which the sum is within the limit. Better options that still fit are taken afterwards. *least
 * is the smallest possible sum of bytes; if it is above the limit, the smallest options are chosen.
 * Takes O(n log n) for n options in all. */
gg_status gg_size_search(gg_size_item *items, size_t n, uint64_t limit, uint64_t *least,
                         gg_error *err);

/* Chooses the type of every tensor so that the model has at most a given size and
 * little loss.
 *
 * Each matrix that no rule names can have one of several types. Samples of its values are encoded
 * in each of them; the errors give the losses (see above), and gg_size_search chooses. */

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
    gg_size_row *rows; /* for the caller's callback, complete after the choice */
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
