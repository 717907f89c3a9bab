/* size.h - chooses the type of every tensor so that the model has at most a given size and little
 * loss. Internal. */
#pragma once

#include "compute/dtype_rules.h"
#include "organ/gg_status.h"
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

/* One tensor of a model whose types are chosen. */
typedef struct gg_size_row {
    const gg_tensor *tensor; /* as planned */
    double error;            /* relative L2 of sampled values in that type, weighed by importance
                                with an importance matrix; 0 if the tensor keeps its type */
    double loss, share;      /* predicted loss, and its share of the sum */
    const char *basis;       /* of the loss: "table", "guess", "scaled guess" (with the scale of a
                                table that lacks the tensor), "-" (unchanged); static */
} gg_size_row;

/* Chooses the types of the matrices that no rule names, so that all files together have at most a
 * given size and little loss.
 *
 * Each of them can have one of several types. Samples of its values are encoded in each of them;
 * the errors give the losses (see above), and gg_size_search chooses. Start from all zero, and end
 * with gg_size_choice_free. */
typedef struct gg_size_choice {
    uint64_t size;           /* in bytes, */
    double bpw;              /* or, if it is above 0, in bits per weight of the model */
    const char *types;       /* to choose from: "q3_k,q4_k,keep"; NULL = organ-assemble(1) */
    const char *sensitivity; /* a table of losses, see organ-sensitivity(1); NULL = guess them */
    /* Called for each tensor in order before writing. */
    gg_status (*row)(void *ctx, const gg_size_row *row, gg_error *err);
    void *ctx;
    /* The result, per tensor of the plan. */
    size_t n;
    uint32_t *dtypes;
    gg_size_row *rows;
    uint64_t limit, bytes;
    double loss; /* the sum */
    bool guess;  /* some of it is guessed */
} gg_size_choice;

/* Errors of the chooser: GG_NO if no choice is small enough; GG_EUSAGE for a wrong list of types or
 * table; GG_EFORMAT, naming the tensor, for values that are not finite. */
gg_type_chooser gg_size_chooser(gg_size_choice *c);
void gg_size_choice_free(gg_size_choice *c);
