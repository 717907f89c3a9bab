/* gg_measure_model.h - measure every tensor of a model: docs/method.md says what the
 * numbers mean, gg_numeric.h how each is computed from values in memory.
 *
 * A row depends on the tensor's bytes, dims and dtype, and on `sample`: not on the
 * number of threads, and not on where the tensor comes from (GGUF, shards, organ
 * directory, records, a pipe).
 */
#ifndef GG_MEASURE_MODEL_H
#define GG_MEASURE_MODEL_H

#include "gg_numeric.h"
#include "gg_organ.h"
#include "gg_verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows count for row_theta as a whole, in runs of so many values. Only of a row longer
 * than GG_ROW_MOST that has neighbours the first so many values count: a pipe must
 * hold it until the next has passed. */
#define GG_ROW_RUN 65536u
#define GG_ROW_MOST (UINT64_C(1) << 22)

/* The null model is simulated at the tensor's own count of samples up to this many:
 * beyond it, which only a larger sample can ask for, the theta of noise rises by up to 1
 * degree at 2^24 and 2.5 at 2^26 values. */
#define GG_NULL_MAX (UINT64_C(1) << 22)

typedef struct gg_tensor_measure {
    gg_tensor t; /* of an expert: its own name and dims */
    gg_anatomy a;
    size_t source; /* index of the tensor in its source */
    bool decoded;  /* false: no codec knows the dtype, all that follows is 0 */
    gg_measure m;
    double null_theta; /* theta of Gaussian noise in the same dtype and count */
    double calibrated; /* gg_calibrated(m.theta, null_theta) */
    double row_theta;  /* degrees, 0..90 */
} gg_tensor_measure;

typedef struct gg_measure_report {
    size_t tensors, undecoded;
    uint64_t elements, sampled;
} gg_measure_report;

/* Called for each row in the order of the tensors, one call at a time, from any
 * thread. t.name is NUL-terminated and valid during the call. A status other than
 * GG_OK (with its error) ends the run. */
typedef gg_status (*gg_measure_fn)(void *ctx, const gg_tensor_measure *row, gg_error *err);

typedef struct gg_measure_options {
    const gg_select *select; /* NULL = all */
    uint64_t sample; /* values of a tensor looked at, 0 = all; GG_SAMPLE_DEFAULT is the default */
    bool split_experts; /* a row an expert of a stacked tensor; experts in `select` does so too */
    gg_measure_fn row;  /* called for each row with row_ctx; may be NULL */
    void *row_ctx;
} gg_measure_options;

/* Memory a thread: about 6 MiB, and 4 bytes a sampled value; on a pipe 8 bytes a value of
 * rows longer than GG_ROW_RUN, of one tensor at a time. Of tensors with more than
 * 4 Mi values to look at one at a time is held, at 4 bytes a value, and the threads
 * share it. GG_NO when a selection selects nothing; GG_EIO, GG_EFORMAT when
 * a source cannot be read to its end. A dtype without codec is no error: a row that
 * is not `decoded`, and one note for each such dtype. */
gg_status gg_measure_model(gg_source *s, const gg_measure_options *o, const gg_run *run,
                           gg_measure_report *report, gg_error *err);

/* ---- rows kept ---------------------------------------------------------------- */

typedef struct gg_measures { /* start from { 0 } */
    gg_tensor_measure *rows;
    size_t n, cap;
} gg_measures;

gg_status gg_measures_add(gg_measures *list, const gg_tensor_measure *row,
                          gg_error *err); /* copies the name */
void gg_measures_free(gg_measures *list);

/* The k rows of lowest theta, ascending, equal ones in order of the tensors: indices,
 * malloc'd. Rows that were not decoded are left out. *n gets how many there are. */
gg_status gg_measures_wells(const gg_measures *list, size_t k, size_t **wells, size_t *n,
                            gg_error *err);

/* A measure of a row by the name of its column ("theta", "entropy", ...). */
typedef double (*gg_measure_get)(const gg_tensor_measure *row);
gg_measure_get gg_measure_by_name(const char *column); /* NULL if there is none */

/* ---- groups ------------------------------------------------------------------- */

typedef enum gg_group_kind { GG_GROUP_CLASS, GG_GROUP_ROLE, GG_GROUP_MODEL } gg_group_kind;

/* Means over the tensors of a group that were decoded, each counting once. */
typedef struct gg_group {
    gg_group_kind kind;
    const char *name; /* class or role (an expert's without its number), or "model" */
    size_t name_len;
    size_t tensors, measured; /* all, and those that were decoded */
    double theta, theta_min, theta_max, signal, calibrated, row_theta;
    gg_part part;   /* of a role: equal roles of different parts are different groups */
    unsigned stars; /* 1..3 by mean theta: two from 80, three from 89; 0 with nothing measured */
} gg_group;

/* Classes in their fixed order, roles in order of appearance, the model last.
 * malloc'd list; names point into the rows. */
gg_status gg_measures_groups(const gg_measures *list, gg_group **groups, size_t *n, gg_error *err);

/* ---- manifest ----------------------------------------------------------------- */

/* Write the rows into the "z" of the manifest in `dir`: the columns from elements to
 * row_theta. Rows that were not decoded, and tensors without a row, keep theirs.
 * The manifest is replaced as a whole. GG_EUSAGE for a row of no tensor in it. */
gg_status gg_measures_update(const gg_measures *list, const char *dir, gg_error *err);

/* ---- pictures ----------------------------------------------------------------- */

/* The anatomy as a grid, blocks across and roles down, coloured by a column. Text in
 * malloc'd *out, *len bytes. `title` may be NULL. GG_EUSAGE for an unknown column.
 * svg: one self-contained file without scripts that follows the reader's light or
 * dark scheme. heat: lines for a terminal of `width` columns; colours as below. */
typedef enum gg_heat_colors { GG_HEAT_PLAIN, GG_HEAT_256, GG_HEAT_TRUE } gg_heat_colors;

gg_status gg_anatomy_svg(const gg_measures *list, const char *column, const char *title, char **out,
                         size_t *len, gg_error *err);
typedef struct gg_heat_options {
    const char *column, *title;
    unsigned width;
    gg_heat_colors colors;
} gg_heat_options;

gg_status gg_anatomy_heat(const gg_measures *list, const gg_heat_options *o, char **out,
                          size_t *len, gg_error *err);

#ifdef __cplusplus
}
#endif

#endif
