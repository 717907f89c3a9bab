/* size_loss.h - how much worse a model gets if one of its tensors is encoded: from a table of
 * measured losses, or guessed. Internal.
 *
 * The loss is a difference of log perplexities. It is nearly proportional to e, the squared
 * relative error of the tensor's values (weighed by the importance matrix), with a factor that
 * depends on the tensor. The guess for the factor is a number per role: see size_loss.c.
 *
 * The table is a TSV with a header line. Its columns tensor, type and loss are used, in any order.
 * Lines that begin with # are skipped. A negative loss counts as 0.
 *
 * For a tensor with rows in the table, a type in the table has the loss stated there. The losses of
 * other types are interpolated by e: linear between the two nearest types, with no loss at e = 0.
 * Above the largest e of the table, the loss grows in proportion to e. For a tensor without rows
 * the guess is used, multiplied by the median ratio of the table's losses to their guesses. */
#ifndef GG_SIZE_LOSS_H
#define GG_SIZE_LOSS_H

#include "organ/gg_verbs.h"

typedef struct gg_losses gg_losses;

/* Reads a table. GG_EUSAGE names the line of a mistake; GG_EIO; GG_ENOMEM. */
gg_status gg_losses_read(const char *path, gg_losses **out, gg_error *err);
void gg_losses_free(gg_losses *l); /* l may be NULL */

/* The types that the table has for a tensor, at most `most` of them. Returns their number; 0 if l
 * is NULL. */
size_t gg_losses_types(const gg_losses *l, const char *name, uint32_t *dtypes, size_t most);

/* The number of different types in the table; 0 if l is NULL. */
size_t gg_losses_all_types(const gg_losses *l);

/* A tensor, n types it can have, and its squared relative error in each of them. */
typedef struct gg_loss_query {
    const gg_tensor *t;
    bool tied; /* token_embd is used as the output too */
    const uint32_t *dtypes;
    const double *errors;
    size_t n;
    double *losses;    /* the result: n losses */
    const char *basis; /* the result: how they were found; static */
} gg_loss_query;

/* Computes the losses of n tensors. l may be NULL. *unused is the number of rows of the table whose
 * tensor is not among the queries. */
gg_status gg_losses_of(const gg_losses *l, gg_loss_query *queries, size_t n, size_t *unused,
                       gg_error *err);

#endif
