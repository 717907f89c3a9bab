/* compare_core.h - internals of the compare verb: how tensors are paired, and how a pair is
 * divided into tasks. Internal.
 */
#ifndef GG_COMPARE_CORE_H
#define GG_COMPARE_CORE_H

#include "numeric/numeric.h"
#include "organ/gg_compare_model.h"
#include "organ/gg_numeric.h"
#include "verbs/shared/column_weights.h"
#include "verbs/shared/selected_tensors.h"

#include <stdatomic.h>

#define COMPARE_CHUNK ((uint64_t)65536) /* values per chunk; a multiple of every block length */
#define COMPARE_RAW ((size_t)COMPARE_CHUNK * 8) /* maximum bytes per chunk (F64) */
#define COMPARE_TASKS ((uint64_t)65536)         /* maximum tasks per tensor */
#define COMPARE_PAIRS 1024                      /* maximum pairs per batch */
#define COMPARE_BATCH ((uint64_t)4096)          /* tasks that fill a batch */
#define COMPARE_WEIGHTS ((uint64_t)16 << 20)    /* bytes of weights that fill a batch */

/* How the values of a pair are divided. `taken` of the `rows` rows are measured. If these are all
 * rows, a chunk is COMPARE_CHUNK consecutive values. Otherwise a chunk is `per` whole rows, or one
 * of the `segments` parts of a row that is too long for one chunk. A task is `group` chunks. Each
 * task has its own sum, so the division must depend only on the tensor. */
typedef struct compare_cut {
    bool reads, decodes; /* there is data to read; values are decoded */
    bool same_type;
    uint64_t elements, row, rows, taken; /* in bytes if !decodes */
    uint64_t per, segments, chunks, group, tasks;
} compare_cut;

typedef struct compare_pair {
    gg_selected a, b;
    bool has_a, has_b;
    compare_cut cut;
    uint64_t first_task; /* index in the batch */
    uint64_t passed;     /* on a pipe: bytes of the piece already read */
    atomic_bool differs; /* same dtype, but different bytes */
    gg_column_weights weights;
} compare_pair;

compare_cut gg_compare_cut(const gg_tensor *a, const gg_tensor *b, uint64_t sample);
gg_sameness gg_compare_sameness(const compare_pair *p);

/* Gets the i-th run of chunk k: *n values starting at *first. Returns false if the chunk has no
 * more runs. */
bool gg_compare_run(const compare_cut *c, uint64_t k, uint64_t i, uint64_t *first, uint64_t *n);

/* Adds the values of chunk k, which a and b hold, to the sums that the weights weigh. */
void gg_damage_add(const compare_pair *p, uint64_t k, const float *a, const float *b,
                   double sums[2]);
/* Fills the members for the damage of a row. */
void gg_damage_of(const compare_pair *p, const double sums[2], gg_compare_row *row);
/* error2 / energy2; 1 if a tensor without energy got some. */
double gg_damage_ratio(double error2, double energy2);

/* ---- pairing ---- */

typedef struct compare_key { /* a piece of the other source */
    size_t source;
    uint64_t at;
} compare_key;

typedef struct compare_pairer {
    gg_source *lead, *other; /* lead is read in order; pieces of other are looked up */
    bool b_leads;
    const gg_compare_options *o;
    gg_status (*fn)(void *ctx, const compare_pair *p, gg_error *err);
    void *ctx;
    compare_key *used;
    size_t n_used, cap_used;
    int64_t *donors; /* blocks of B that the map names, sorted for the second pass */
    size_t n_donors, cap_donors;
} compare_pairer;

/* Calls fn for each pair of the lead's tensor i. Only a, b, has_a and has_b are set. */
gg_status gg_pair_lead(compare_pairer *p, size_t i, gg_error *err);
/* Call this last: it calls fn for the tensors that are only in the other source. */
gg_status gg_pair_rest(compare_pairer *p, gg_error *err);
void gg_pair_free(compare_pairer *p);

/* Copies a piece and makes its name point into the copy. */
void gg_selected_copy(gg_selected *to, const gg_selected *from);

#endif
