/* purify_job.h - internals of the purify verb. */
#ifndef GG_PURIFY_JOB_H
#define GG_PURIFY_JOB_H

#include "base/io.h"
#include "base/names.h"
#include "numeric/numeric.h"
#include "organ/gg_purify.h"
#include "verbs/compute/imatrix_use.h"

#include <pthread.h>

#define PURIFY_SHARED \
    (UINT64_C(4) << 20)              /* larger signals are purified one at a time by all threads */
#define PURIFY_CHUNK ((size_t)65536) /* values encoded at once; whole blocks of any dtype */

typedef struct purify_row {
    gg_purify_row r; /* r.t.name belongs to the source or, for an expert, to the job */
    uint64_t expert; /* expert number, if the row is one expert */
} purify_row;

/* A tensor of the source, selected or not. */
typedef struct purify_unit {
    struct purify_job *job;
    size_t source;
    gg_tensor t;        /* as it will be written */
    size_t first, n;    /* rows of this tensor */
    bool experts;       /* one row per selected expert */
    bool touched;       /* at least one row is changed */
    const char *sha256; /* expected hash of the data; NULL or "" if unknown */
} purify_unit;

/* Memory for the values of a signal. */
typedef struct purify_memory {
    float *x;
    size_t bytes;
} purify_memory;

typedef struct purify_job {
    gg_source *source;
    const gg_purify_options *o;
    const gg_run *run;
    unsigned threads;
    purify_unit *units;
    size_t n_units, cap_units;
    purify_row *rows;
    size_t n_rows, cap_rows;
    gg_imatrix *imatrix;    /* owned; NULL = none */
    gg_imatrix_use weighed; /* the importance matrix, and the tensors planned so far */
    bool sole;              /* the source is one bare record; purify it even if it is a vector */
    gg_names names;
    pthread_mutex_t big;  /* held while a signal above PURIFY_SHARED is in memory */
    pthread_mutex_t lock; /* guards `spare` */
    purify_memory *spare; /* of finished tensors: at most one per thread; x is NULL where none is */
} purify_job;

/* ---- verb_purify_rows.c: planning ---- */

/* Appends the unit of tensor i. Returns GG_EUNSUPPORTED if the tensor cannot be written. */
gg_status gg_purify_plan(purify_job *j, size_t i, gg_error *err);
gg_status gg_purify_plan_all(purify_job *j, gg_error *err);

/* Returns GG_NO if nothing is selected or no selected tensor can be purified. */
gg_status gg_purify_plan_check(const purify_job *j, gg_error *err);

/* ---- verb_purify_tensor.c: purifying ---- */

/* Purifies unit u, writes it to the sink unless the sink's fd is -1, and fills its rows. Any
 * thread may call this. */
gg_status gg_purify_unit_run(purify_unit *u, gg_place sink, gg_error *err);

/* ---- purify_memory.c ---- */

/* Takes the memory of an earlier tensor, which the system does not have to clear again, or
 * allocates it. Memory that is too small, or more than twice as large, is freed first, so that no
 * small tensor keeps the memory of a large one. x is NULL if there is none. */
purify_memory gg_purify_take(purify_job *j, size_t bytes);
void gg_purify_leave(purify_job *j, purify_memory m);

#endif
