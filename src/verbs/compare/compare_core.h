/* compare_core.h - the inside of organ-compare's verb: which tensor meets which, and
 * how two tensors are cut into tasks. Internal.
 */
#ifndef GG_COMPARE_CORE_H
#define GG_COMPARE_CORE_H

#include "numeric/numeric.h"
#include "organ/gg_compare_model.h"
#include "organ/gg_numeric.h"
#include "verbs/shared/selected_tensors.h"

#include <stdatomic.h>

#define COMPARE_CHUNK ((uint64_t)65536)         /* values a chunk; a multiple of every block */
#define COMPARE_RAW ((size_t)COMPARE_CHUNK * 8) /* bytes of a chunk at most (F64) */
#define COMPARE_TASKS ((uint64_t)65536)         /* tasks a tensor at most */
#define COMPARE_PAIRS 1024                      /* pairs a batch at most */
#define COMPARE_BATCH ((uint64_t)4096)          /* tasks that fill a batch */

/* How the values of a pair are cut. What is measured is `taken` of `rows` rows; a chunk
 * is COMPARE_CHUNK values in a row when all are, else `per` whole rows, or one of
 * `segments` parts of a row too long for a chunk. A task is `group` chunks. Tasks have
 * a sum each, so the cut depends on the tensor alone. */
typedef struct compare_cut {
    bool reads, decodes; /* anything to read; values rather than bare bytes */
    bool same_type;
    uint64_t elements, row, rows, taken; /* of bytes when !decodes */
    uint64_t per, segments, chunks, group, tasks;
} compare_cut;

typedef struct compare_pair {
    gg_selected a, b;
    bool has_a, has_b;
    compare_cut cut;
    uint64_t first_task; /* in its batch */
    uint64_t passed;     /* on a pipe: bytes of the piece gone by */
    atomic_bool differs; /* same dtype, but bytes do */
} compare_pair;

compare_cut gg_compare_cut(const gg_tensor *a, const gg_tensor *b, uint64_t sample);
bool gg_compare_same_dims(const gg_tensor *a, const gg_tensor *b);

/* The i-th run of chunk k: *n values from *first on; false when the chunk has no more. */
bool gg_compare_run(const compare_cut *c, uint64_t k, uint64_t i, uint64_t *first, uint64_t *n);

/* ---- pairing ---- */

typedef struct compare_key { /* a piece of the source that does not lead */
    size_t source;
    uint64_t at;
} compare_key;

typedef struct compare_pairer {
    gg_source *lead, *other; /* lead is read in order; other is looked up */
    bool b_leads;
    const gg_compare_options *o;
    gg_status (*fn)(void *ctx, const compare_pair *p, gg_error *err);
    void *ctx;
    compare_key *used;
    size_t n_used, cap_used;
    int64_t *donors; /* blocks of B that the map gave; in order for the rest */
    size_t n_donors, cap_donors;
} compare_pairer;

/* Pairs of the lead's tensor i, each handed to fn with only a, b, has_a, has_b set. */
gg_status gg_pair_lead(compare_pairer *p, size_t i, gg_error *err);
/* After the last: what is only in the other. */
gg_status gg_pair_rest(compare_pairer *p, gg_error *err);
void gg_pair_free(compare_pairer *p);

/* Copy a piece: its name pointer goes with it. */
void gg_selected_copy(gg_selected *to, const gg_selected *from);

#endif
