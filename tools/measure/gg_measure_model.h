/* gg_measure_model.h - measure every tensor of a model, and summarise or draw the results.
 *
 * docs/method.md explains the measures. A row depends only on the tensor's bytes, dims and dtype
 * and on `sample`, not on the number of threads or the kind of source. The general rules of
 * organ.h apply. A gg_measures list must not be used by several threads while it is changed.
 */
#ifndef GG_MEASURE_MODEL_H
#define GG_MEASURE_MODEL_H

#include "numeric/gg_numeric.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

GG_BEGIN_DECLS

/* row_theta is computed from runs of this many values of a row. All runs of a row count, unless it
 * is longer than GG_ROW_MOST and the tensor has several rows; then only the first run counts. */
#define GG_ROW_RUN 65536u
#define GG_ROW_MOST (UINT64_C(1) << 22)

/* null_theta is simulated for the tensor's own number of samples up to this number. For more
 * samples, the theta of noise is underestimated by up to 1 degree at 2^24 values and 2.5 degrees at
 * 2^26. */
#define GG_NULL_MAX (UINT64_C(1) << 22)

typedef struct gg_tensor_measure {
    gg_tensor t;   /* an expert has its own name and dims */
    size_t source; /* index of the tensor in its source */
    bool decoded;  /* false if the dtype cannot be decoded; the members below are then 0 */
    gg_measure m;
    double null_theta; /* theta of Gaussian noise with the same dtype and count */
    double calibrated; /* m.theta relative to null_theta, in degrees */
    double row_theta;  /* degrees, 0..90 */
    double edge;       /* see gg_measure_options.spectral; NaN if it was not computed */
    double importance; /* see gg_measure_options.imatrix; NaN if it was not computed */
} gg_tensor_measure;

typedef struct gg_measure_report {
    size_t tensors, undecoded;
    uint64_t elements, sampled;
} gg_measure_report;

/* How the values of a class are distributed. Bin i counts the values between (first + i) * width
 * and (first + i + 1) * width; the edge that is nearer to 0 belongs to it. The width is a power of
 * two, chosen such that at most 0.1 % of the values lie below the bins, and as many above. A value
 * that was sampled counts for elements / sampled values of its tensor. Those that are not finite
 * are left out. n = 0: the class has no values. */
#define GG_HISTOGRAM_BINS 64
typedef struct gg_histogram {
    double first, width;
    size_t n;
    double bins[GG_HISTOGRAM_BINS], below, above;
} gg_histogram;

typedef struct gg_measure_options {
    const gg_select *select; /* NULL = all */
    uint64_t sample;         /* values per tensor to measure; 0 = all; see GG_SAMPLE_DEFAULT */
    bool blocks;             /* sample runs of 256 values; see docs/method.md */
    uint64_t runs;           /* of large tensors, take the sample from so many runs; 0 = evenly */
    bool split_experts;      /* one row per expert of a stack; also if `select` has experts */
    /* Compute `edge`, sigma1^2 / (var (sqrt m + sqrt n)^2) of an m x n matrix, where sigma1 is the
     * largest singular value and var the variance of the values: about 1 for random values, above 1
     * if rows have something in common. For a stack of experts it is the median over the experts.
     * Tensors with a single row have none. All data are read once, whatever `sample` is. A matrix
     * is held in memory as floats; of a matrix of more than 512 MiB evenly spread rows that fit are
     * held, and the edge is an estimate. Matrices of more than 16 MiB are held one at a time. The
     * error is at most 1 % unless it is an estimate. */
    bool spectral;
    /* An importance matrix, in GGUF or in llama.cpp's older binary format, for `importance`: the
     * sum over columns j of in2_j |W_:j|^2, where in2_j is the mean squared input of the column on
     * the calibration text. It is the mean squared output of the tensor. The experts of a stack are
     * weighted with the share of the tokens that were routed to each, also as rows of their own;
     * the older format does not state these shares, which are then 1. Tensors that the file lacks
     * have none. All data are read once, whatever `sample` is. NULL = none. */
    const char *imatrix;
    /* Receives the histograms of all classes, GG_CLASS_COUNT of them, if the run succeeds. They do
     * not depend on the number of threads. This needs 3 MiB of memory, and one more pass by one
     * thread over each tensor of 2^17 or more values that is measured as a whole. NULL = none. */
    gg_histogram *histograms;
    gg_status (*row)(void *ctx, const gg_tensor_measure *row, gg_error *err); /* in order */
    /* Not NULL: nothing is measured. Called by one thread for the bytes of files that would be
     * read. Of organ directories, records and checkpoints nothing is listed. */
    void (*read)(void *ctx, const char *file, uint64_t place, uint64_t bytes);
    void *ctx;
} gg_measure_options;

/* Measures the selected tensors of a source. A dtype that cannot be decoded is not an error: its
 * rows are not `decoded`, and run->note gets one note per such dtype.
 *
 * Each thread needs about 3 MiB of memory and 4 bytes per sampled value. From 2^17 sampled values
 * of a tensor on, all threads work on one such tensor at a time. They then need another 29 MiB
 * together and 0.3 MiB each, and 16 MiB for Q8_0. If these are all values of the tensor, they are
 * not kept, so that the 4 bytes per value are not needed. Such a tensor is read several times; on
 * a pipe it is copied to a temporary file first. A row that is longer than GG_ROW_RUN needs 8 bytes
 * per value, up to GG_ROW_MOST.
 *
 * Errors: GG_NO if nothing is selected; GG_EIO or GG_EFORMAT if the source or the importance matrix
 * cannot be read to its end, or the matrix does not fit the model. */
gg_status gg_measure_model(gg_source *s, const gg_measure_options *o, const gg_run *run,
                           gg_measure_report *report, gg_error *err);

/* ---- lists of rows ------------------------------------------------------------- */

/* A list of rows. Initialise it with { 0 }; end it with gg_measures_free. */
typedef struct gg_measures {
    gg_tensor_measure *rows;
    size_t n, cap;
} gg_measures;

/* Appends a copy of the row and of its name. Fails only with GG_ENOMEM; the list is then
 * unchanged. */
gg_status gg_measures_add(gg_measures *list, const gg_tensor_measure *row, gg_error *err);

/* Frees the list and makes it all zero again. */
void gg_measures_free(gg_measures *list);

/* Finds the k rows with the lowest theta, in ascending order; rows with equal theta keep the order
 * of the tensors. Rows that were not decoded are left out. *wells gets their indices, to be freed
 * with free(), and *n their number. Fails only with GG_ENOMEM. */
gg_status gg_measures_wells(const gg_measures *list, size_t k, size_t **wells, size_t *n,
                            gg_error *err);

/* The importance of a block, or of an expert of a block. */
typedef struct gg_rank {
    gg_part part;
    int64_t block, expert; /* expert is -1 for a block */
    size_t tensors;
    double importance; /* sum over its tensors */
    double share;      /* of the sum over all blocks, or over all experts of its block */
} gg_rank;

/* Ranks blocks, or with `experts` the experts of all blocks, by importance, the highest first;
 * equal ones keep their order in the model. Rows without an importance do not count, and experts
 * must be rows of their own (split_experts). *ranks is to be freed with free(). Fails only with
 * GG_ENOMEM. */
gg_status gg_measures_rank(const gg_measures *list, bool experts, gg_rank **ranks, size_t *n,
                           gg_error *err);

typedef enum gg_column_kind {
    GG_COLUMN_TENSOR,  /* describes the tensor: its name, its class, ... */
    GG_COLUMN_MEASURE, /* measured in every row that is decoded; gg_measures_update writes it */
    GG_COLUMN_OPTION   /* measured only with an option; NaN without it */
} gg_column_kind;

/* A column of the table of measures. All strings are static. */
typedef struct gg_measure_column {
    const char *name;
    const char *unit; /* "degrees"; "" if the column has none */
    const char *meaning;
    gg_column_kind kind;
    /* Read the column from a row. At most one is not NULL; both are for text. */
    double (*value)(const gg_tensor_measure *row);
    uint64_t (*count)(const gg_tensor_measure *row);
} gg_measure_column;

/* Returns column i in the order of the table, from 0, or NULL past the last. */
const gg_measure_column *gg_measure_column_at(size_t i);

/* ---- groups ------------------------------------------------------------------- */

typedef enum gg_group_kind { GG_GROUP_CLASS, GG_GROUP_ROLE, GG_GROUP_MODEL } gg_group_kind;

/* Means over the decoded tensors of a group; each tensor has the same weight. */
typedef struct gg_group {
    gg_group_kind kind;
    const char *name; /* class, role (without the number of an expert), or "model" */
    size_t name_len;
    size_t tensors, measured; /* all tensors, and the decoded ones */
    double theta, theta_min, theta_max, signal, calibrated, row_theta;
    double edge;        /* mean over the tensors that have one; NaN if there is none */
    size_t edges;       /* number of these tensors */
    double importance;  /* mean over the tensors that have one; NaN if there is none */
    size_t importances; /* number of these tensors */
    gg_part part;       /* of a role; each part has its own groups of roles */
    unsigned stars; /* 1..3 by mean theta: 2 from 80 degrees, 3 from 89; 0 if nothing was decoded */
} gg_group;

/* Groups the rows: first the classes in their fixed order, then the roles in the order in which
 * they first appear, then the model. *groups is to be freed with free(); its names point into the
 * rows. Fails only with GG_ENOMEM. */
gg_status gg_measures_groups(const gg_measures *list, gg_group **groups, size_t *n, gg_error *err);

/* ---- manifest ----------------------------------------------------------------- */

/* Writes the measures into the "z" of each entry in the manifest of the organ directory `dir`.
 * Entries without a row, and rows that were not decoded, keep their "z". The manifest is replaced
 * as a whole. Errors: GG_EUSAGE if a row has no entry at the place that it has in its
 * source; GG_EIO; GG_EFORMAT. */
gg_status gg_measures_update(const gg_measures *list, const char *dir, gg_error *err);

GG_END_DECLS

#endif
