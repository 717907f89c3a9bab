/* purify_job.h - the inside of organ-purify's verb. Internal. */
#ifndef GG_PURIFY_JOB_H
#define GG_PURIFY_JOB_H

#include "base/io.h"
#include "base/names.h"
#include "numeric/numeric.h"
#include "organ/gg_purify.h"

#include <pthread.h>

#define PURIFY_SHARED \
    (UINT64_C(4) << 20)              /* signals of more values: one at a time, threads share it */
#define PURIFY_CHUNK ((size_t)65536) /* values encoded at once: whole blocks of any dtype */

typedef struct purify_row {
    gg_purify_row r; /* r.t.name is the source's, or an expert's of the job's names */
    uint64_t expert; /* of a row that is one expert */
} purify_row;

/* A tensor of the source, selected or not. */
typedef struct purify_unit {
    struct purify_job *job;
    size_t source;
    gg_tensor t;        /* as written */
    size_t first, n;    /* its rows */
    bool experts;       /* a row an expert, maybe not all */
    bool touched;       /* some row is not left alone */
    const char *sha256; /* that its data should have; NULL or "" = unknown */
} purify_unit;

typedef struct purify_job {
    gg_source *source;
    const gg_purify_options *o;
    const gg_run *run;
    unsigned threads;
    purify_unit *units;
    size_t n_units, cap_units;
    purify_row *rows;
    size_t n_rows, cap_rows;
    bool sole; /* one bare record: it is meant, vector or not */
    gg_names names;
    pthread_mutex_t big; /* held while a signal above PURIFY_SHARED is in memory */
} purify_job;

/* ---- verb_purify_rows.c: what is to be done ---- */

/* Append the unit of tensor i. GG_EUNSUPPORTED where it cannot be written. */
gg_status gg_purify_plan(purify_job *j, size_t i, gg_error *err);
gg_status gg_purify_plan_all(purify_job *j, gg_error *err);

/* GG_NO when nothing is selected, or nothing that can be purified. */
gg_status gg_purify_plan_check(const purify_job *j, gg_error *err);

/* ---- verb_purify_tensor.c: doing it ---- */

/* Purify unit u into the sink, nowhere if its fd is -1, and fill its rows. Any thread. */
gg_status gg_purify_unit_run(purify_unit *u, gg_place sink, gg_error *err);

#endif
