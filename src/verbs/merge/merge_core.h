/* merge_core.h - how organ-merge is built. Internal.
 *
 * A method (merge_methods.c) turns the values of several models into those of one, tensor by
 * tensor. It reads a tensor in pieces, any number of times: each pass collects sums or counts,
 * and a last pass computes the result. Memory therefore does not depend on the tensor. The
 * engine (merge_tensor.c) reads, decodes, encodes and writes, and runs chunks in parallel.
 *
 * A method that needs the whole matrix has a function `whole` instead: see merge_whole.h.
 */
#ifndef GG_MERGE_INTERNAL_H
#define GG_MERGE_INTERNAL_H

#include "merge_settings.h"
#include "organ/gg_merge.h"
#include "verbs/compute/compute.h"

#include <pthread.h>

#define GG_MERGE_CHUNK ((size_t)32768)  /* values; a multiple of every block of a dtype */
#define GG_MERGE_PIECE ((size_t)2048)   /* values; the same, and a divisor of the chunk */
#define GG_MERGE_MODELS 64              /* most models of a merge */
#define GG_MERGE_KEPT ((size_t)8 << 20) /* most bytes of gg_merge_job.keep */

typedef enum gg_merge_kind {
    GG_MERGE_LINEAR,
    GG_MERGE_SLERP,
    GG_MERGE_NUSLERP,
    GG_MERGE_MULTISLERP,
    GG_MERGE_KARCHER,
    GG_MERGE_TASK,
    GG_MERGE_TIES,
    GG_MERGE_DARE_LINEAR,
    GG_MERGE_DARE_TIES,
    GG_MERGE_DELLA,
    GG_MERGE_DELLA_LINEAR,
    GG_MERGE_BREADCRUMBS,
    GG_MERGE_BREADCRUMBS_TIES,
    GG_MERGE_SCE,
    GG_MERGE_MODEL_STOCK,
    GG_MERGE_NEARSWAP,
    GG_MERGE_ARCEE_FUSION,
    GG_MERGE_RAM,
    GG_MERGE_RAMPLUS,
    GG_MERGE_PASSTHROUGH,
    GG_MERGE_ISO,
} gg_merge_kind;

struct gg_merge_method;

/* A tensor that is being merged. */
typedef struct gg_merge_job {
    const struct gg_merge_method *method;
    gg_tensor t;
    size_t n;      /* number of models, without a base that is subtracted */
    bool has_base; /* x[k] of a chunk are differences from the base, see method->subtracts */
    bool rows;     /* pieces are whole rows; set by the method's start */
    /* Parameters of model k in p[k]. Those of the whole merge are in p[n]. */
    double (*p)[GG_MP_COUNT];
    uint64_t seed;
    void *state;       /* the method's */
    uint64_t keep;     /* bytes that the method could keep from pass to pass; set by its start */
    void *kept;        /* these bytes, or NULL if they are too many: compute the values anew */
    float *whole;      /* of a method with `whole`: the matrix in memory, */
    uint64_t whole_at; /* and the index of its first value */
} gg_merge_job;

/* A piece of all inputs, with whole rows if the job has `rows`. The method may change the values of
 * x. */
typedef struct gg_merge_chunk {
    uint64_t first; /* index of the first value in the tensor */
    size_t n;       /* number of values */
    const float *base;
    float **x;
    float *out;    /* n values */
    void *scratch; /* method->scratch bytes per value of a row; NULL if that is 0 */
} gg_merge_chunk;

typedef struct gg_merge_pass {
    /* Numbers that scan adds to, zero at the start: sums are kept per chunk and added in the order
     * of the chunks; counters are kept per thread. */
    size_t sums, counters;
    uint64_t from, to; /* values to read; to = 0: all */
    bool in_order;     /* one thread reads the chunks in their order */
    void (*scan)(const gg_merge_job *j, unsigned pass, const gg_merge_chunk *c, double *sums,
                 uint64_t *counters);
    gg_status (*end)(gg_merge_job *j, unsigned pass, const double *sums, const uint64_t *counters,
                     gg_error *err);
} gg_merge_pass;

struct gg_whole_matrix;

typedef struct gg_merge_default {
    gg_merge_param param;
    double value;
} gg_merge_default;

typedef struct gg_merge_method {
    gg_merge_kind kind;
    const char *name, *alias; /* alias may be NULL */
    const char *meaning;
    gg_merge_base base;
    size_t least, most; /* number of models, counted as in gg_merge_job.n */
    bool random;        /* uses the seed */
    bool subtracts;     /* subtracts the base itself, so the values of a chunk are the models' */
    /* The parameters that it takes, with their defaults (NAN: must be given). */
    gg_merge_default takes[GG_MERGE_PARAMETERS];
    size_t n_takes;
    size_t scratch;           /* bytes per value of a row */
    size_t counters;          /* most counters of a pass, per model */
    const size_t *state_size; /* bytes of state that it needs; NULL: none */
    /* Checks the parameters (GG_EUSAGE) and fills in the state. May be NULL. */
    gg_status (*start)(gg_merge_job *j, gg_error *err);
    /* Describes pass number k; false when there are no more. NULL: none. */
    bool (*pass)(gg_merge_job *j, unsigned k, gg_merge_pass *pass);
    /* Computes c->out. Called for pieces in any order by several threads. */
    void (*make)(const gg_merge_job *j, const gg_merge_chunk *c);
    /* The model whose tensor is the result unchanged, n for the base, or SIZE_MAX. May be NULL. */
    size_t (*unchanged)(const gg_merge_job *j);
    gg_status (*whole)(const struct gg_whole_matrix *w, gg_error *err); /* or NULL */
} gg_merge_method;

/* The method with this name; _ and - are the same. NULL if there is none. */
const gg_merge_method *gg_merge_method_by_name(const char *name, size_t len);
/* The method that a misspelt name probably means; NULL if none is near. */
const char *gg_merge_method_near(const char *name, size_t len);

/* The value of a parameter of the whole merge. */
static inline double gg_merge_global(const gg_merge_job *j, gg_merge_param p)
{
    return j->p[j->n][p];
}

static inline bool gg_merge_flag(const gg_merge_job *j, gg_merge_param p)
{
    return j->p[j->n][p] != 0;
}

/* A merge, as far as its tensors need it. */
typedef struct gg_merging {
    const gg_merge_method *method;
    gg_source *base;    /* NULL if there is none */
    gg_source **models; /* as in gg_merge_job: with the base if it is the first of them */
    size_t n;
    bool has_base;
    gg_merge_settings global, *of_model; /* of_model has n */
    uint64_t seed;
    uint64_t blocks;       /* block_count of the first model */
    pthread_mutex_t whole; /* held while a whole matrix is in memory */
} gg_merging;

/* Fill in the job for a tensor: its parameters, and the state. gg_merge_job_free ends it, also
 * after an error. */
gg_status gg_merge_job_start(const gg_merging *m, const gg_tensor *t, gg_merge_job *j,
                             gg_error *err);
void gg_merge_job_free(gg_merge_job *j);

/* Make a producer for a tensor of the result. at[k] is the index of the tensor in model k; at[n]
 * that in the base. The merging must outlive the list. */
gg_status gg_merge_producer(gg_computations *list, gg_merging *m, const size_t *at, gg_producer *p,
                            gg_error *err);

/* `make` of all methods with `whole`: base + the matrix in memory. */
void gg_merge_add_whole(const gg_merge_job *j, const gg_merge_chunk *c);

/* The run with fewer threads if their buffers would need too much memory; `row` is the length of
 * the longest row. */
gg_run gg_merge_bounded(const gg_merging *m, uint64_t row, const gg_run *run);

#endif
