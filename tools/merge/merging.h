/* merging.h - how organ-merge is built. Internal.
 *
 * A method (merge_methods.c) turns the values of several models into those of one, tensor by
 * tensor. It reads a tensor in pieces, any number of times: each pass collects sums or counts,
 * and a last pass computes the result. Memory therefore does not depend on the tensor. The
 * engine (merge_tensor.c) reads, decodes, encodes and writes, and runs chunks in parallel.
 *
 * A method that needs the whole matrix has a function `whole` instead: see gg_whole_matrix.
 */
#pragma once

#include "compute/compute.h"
#include "compute/samples.h"
#include "gg_merge.h"
#include "organ/record.h"
#include "vocab/vocab.h"
#include "write/verb_run.h"

#include <pthread.h>

#define GG_MERGE_CHUNK ((size_t)32768)  /* values; a multiple of every block of a dtype */
#define GG_MERGE_PIECE ((size_t)2048)   /* values; the same, and a divisor of the chunk */
#define GG_MERGE_MODELS 64              /* most models of a merge */
#define GG_MERGE_NAME 256               /* bytes of a model's name that are shown */
#define GG_MERGE_KEPT ((size_t)8 << 20) /* most bytes of gg_merge_job.keep */

/* ---- parameters (methods.txt, merge_config.c) ---------------------------------------------- */

typedef enum gg_merge_param {
    GG_MP_WEIGHT,
    GG_MP_DENSITY,
    GG_MP_GAMMA,
    GG_MP_EPSILON,
    GG_MP_LAMBDA,
    GG_MP_NORMALIZE,
    GG_MP_RESCALE,
    GG_MP_RESCALE_NORM,
    GG_MP_T,
    GG_MP_SELECT_TOPK,
    GG_MP_FILTER_WISE,
    GG_MP_MAX_ITER,
    GG_MP_TOL,
    GG_MP_R,
    GG_MP_ALPHA,
    GG_MP_EPS,
    GG_MP_FLATTEN,
    GG_MP_SCALE,
    GG_MP_RIDGE,
    GG_MP_SHARE,
    GG_MP_COUNT
} gg_merge_param;

extern const gg_merge_parameter gg_merge_params[GG_MP_COUNT]; /* without defaults */

/* Roles in blocks, and tensors outside them, with what PyTorch models of the llama family call
 * them. The last has no role. */
typedef struct gg_merge_torch_name {
    const char *role, *torch;
} gg_merge_torch_name;
extern const gg_merge_torch_name gg_merge_torch_names[];

typedef struct gg_merge_setting {
    gg_merge_param param;
    /* Owned; NULL = every tensor. The name of a stack applies to all of its experts, or with
     * numbers in brackets at its end, "ffn_up_exps[0-3]", to these. */
    char *filter;
    bool by_substring; /* mergekit's filters: a part of the name that PyTorch models use */
    double *values;    /* owned; spread evenly over the blocks and interpolated */
    size_t n;
    size_t used; /* number of tensors that the filter matched, for unused ones */
    /* Of a slice: only blocks from <= N < to, over which the values are spread; the first slice has
     * the tensors before the blocks, and the last one those after them. to = 0: all tensors. */
    uint64_t from, to;
    bool last;
} gg_merge_setting;

/* Start from all zero. The first setting of a parameter that matches a tensor decides. */
typedef struct gg_merge_settings {
    gg_merge_setting *list;
    size_t n, cap;
} gg_merge_settings;

void gg_merge_settings_free(gg_merge_settings *s);

/* Adds the parameters of a text, see gg_merge_options. NULL and "" add none. GG_EUSAGE for a
 * mistake, and for JSON also GG_EFORMAT and GG_EUNSUPPORTED. */
gg_status gg_merge_settings_add(gg_merge_settings *s, const char *text, gg_error *err);

/* The value for a tensor in a model of `blocks` blocks. Returns false if no setting applies. */
bool gg_merge_setting_value(const gg_merge_settings *s, gg_merge_param p, const gg_tensor *t,
                            uint64_t blocks, double *value);

/* Counts the tensor for each filter that matches it. */
void gg_merge_settings_visit(gg_merge_settings *s, const gg_tensor *t);

/* GG_NO if a filter matched no tensor. */
gg_status gg_merge_settings_used(const gg_merge_settings *s, gg_error *err);

/* ---- methods (merge_methods.c) ------------------------------------------------------------- */

struct gg_merge_method;

/* A tensor that is being merged, or one expert of a stack, which is a tensor of its own with the
 * name that gg_expert_name makes. A job must not be copied. */
typedef struct gg_merge_job {
    const struct gg_merge_method *method;
    gg_tensor t;
    char name[GG_RECORD_NAME + 1]; /* of an expert */
    uint64_t skip;                 /* values of the stack before those of the expert */
    size_t n;                      /* number of models, without a base that is subtracted */
    bool has_base; /* x[k] of a chunk are differences from the base, see work->subtracts */
    bool rows;     /* pieces are whole rows; set by the method's start */
    /* Parameters of model k in p[k]. Those of the whole merge are in p[n]. */
    double (*p)[GG_MP_COUNT];
    uint64_t seed;
    gg_error *err;     /* of the functions of the method */
    void *state;       /* the method's */
    uint64_t keep;     /* bytes that the method could keep from pass to pass; set by its start */
    void *kept;        /* these bytes, or NULL if they are too many: compute the values anew */
    float *whole;      /* of a method with `whole`: the matrix in memory, */
    uint64_t whole_at; /* and the index of its first value */
    size_t only;       /* the model whose difference is added to it; SIZE_MAX: all, weighted */
} gg_merge_job;

/* A piece of all inputs, with whole rows if the job has `rows`. The method may change the values of
 * x. */
typedef struct gg_merge_chunk {
    uint64_t first; /* index of the first value in the tensor */
    size_t n;       /* number of values */
    const float *base;
    float **x;
    float *out;    /* n values */
    void *scratch; /* work->scratch bytes per value of a row; NULL if that is 0 */
} gg_merge_chunk;

/* The numbers that pass number `pass` adds to, zero at its start: sums are kept per chunk and added
 * in the order of the chunks; counters are kept per thread. */
typedef struct gg_merge_tally {
    unsigned pass;
    double *sums;
    uint64_t *counters;
} gg_merge_tally;

typedef struct gg_merge_pass {
    size_t sums, counters; /* how many numbers it needs */
    uint64_t from, to;     /* values to read; to = 0: all */
    bool in_order;         /* one thread reads the chunks in their order */
    void (*scan)(const gg_merge_job *j, const gg_merge_chunk *c, gg_merge_tally *t);
    gg_status (*end)(gg_merge_job *j, const gg_merge_tally *t); /* sets j->err if it fails */
} gg_merge_pass;

/* A whole matrix in memory; for a vector with rows = 1.
 * Matrices are computed one at a time, whatever the number of threads, so that the memory is that
 * of one: `d`, and what the function allocates itself (at most twice the size of d). */
typedef struct gg_whole_matrix {
    /* In: the sum over all models of weight * (model - base), row by row. Out: the change to add to
     * the base. All values are finite on entry; the engine checks those of the result. */
    float *d;
    size_t rows, cols; /* rows = 1 for a tensor of one dimension */
    size_t models;     /* how many differences were added up */
    const double *p;   /* parameters of the merge, by gg_merge_param */
    unsigned threads;  /* that the function may use; at least 1 */
} gg_whole_matrix;

typedef struct gg_merge_default {
    gg_merge_param param;
    double value;
} gg_merge_default;

/* What methods do: some share it, and differ in their traits. */
typedef struct gg_merge_work {
    bool subtracts;  /* subtracts the base itself, so the values of a chunk are the models' */
    size_t scratch;  /* bytes per value of a row */
    size_t counters; /* most counters of a pass, per model */
    size_t state;    /* bytes of state that it needs */
    /* Checks the parameters (GG_EUSAGE) and fills in the state. May be NULL. */
    gg_status (*start)(gg_merge_job *j);
    /* Describes pass number k; false when there are no more. NULL: none. */
    bool (*pass)(gg_merge_job *j, unsigned k, gg_merge_pass *pass);
    /* Of methods about angles: the weights c of the models, from their Gram matrix. */
    gg_status (*solve)(const gg_merge_job *j, const double *gram, double *c);
    /* Computes c->out. Called for pieces in any order by several threads. NULL with `whole`. */
    void (*make)(const gg_merge_job *j, const gg_merge_chunk *c);
    /* The model whose tensor is the result unchanged, n for the base, or SIZE_MAX. May be NULL. */
    size_t (*unchanged)(const gg_merge_job *j);
    gg_status (*whole)(const gg_whole_matrix *w, gg_error *err); /* or NULL */
} gg_merge_work;

extern const gg_merge_work gg_merge_work_linear, gg_merge_work_task, gg_merge_work_passthrough,
    gg_merge_work_slerp, gg_merge_work_nuslerp, gg_merge_work_multislerp, gg_merge_work_karcher,
    gg_merge_work_model_stock, gg_merge_work_sparse, gg_merge_work_sce, gg_merge_work_nearswap,
    gg_merge_work_fusion, gg_merge_work_ram, gg_merge_work_ramplus, gg_merge_work_iso;

typedef struct gg_merge_method {
    const char *name, *alias; /* alias may be NULL */
    const char *meaning;
    gg_merge_base base;
    size_t least, most; /* number of models, counted as in gg_merge_job.n */
    /* The parameters that it takes, with their defaults (NAN: must be given). */
    gg_merge_default takes[GG_MERGE_PARAMETERS];
    size_t n_takes;
    const char *parts; /* settings for parts of a model that have no other; NULL = none */
    const gg_merge_work *work;
    /* Traits. Sparse methods keep the `largest` values of a difference, or random ones: by `rank`
     * if larger values of a row are kept more often. */
    bool largest, rank;
    bool signs;  /* adds only values that agree in sign */
    bool random; /* uses the seed */
    bool slices; /* a configuration may list slices, which are copied */
    bool grams;  /* of methods with work->whole: the mean is that of regmean, and the share of
                    `whole` in the result is GG_MP_SHARE, or 0 if the method does not take it */
} gg_merge_method;

extern const gg_merge_method gg_merge_methods[];
extern const size_t gg_merge_methods_n;

/* The method with this name; _ and - are the same. NULL if there is none. */
const gg_merge_method *gg_merge_method_by_name(const char *name, size_t len);

/* The value of a parameter of the whole merge. */
static inline double gg_merge_global(const gg_merge_job *j, gg_merge_param p)
{
    return j->p[j->n][p];
}

static inline bool gg_merge_flag(const gg_merge_job *j, gg_merge_param p)
{
    return j->p[j->n][p] != 0;
}

/* ---- Gram matrices (merge_regmean.c) --------------------------------------------------------- */

/* The samples of the inputs of one matrix of a model. */
typedef struct gg_regmean_samples {
    gg_samples of;
    double weight;
} gg_regmean_samples;

/* The equations for a matrix. gg_regmean_close ends it, also after an error. */
typedef struct gg_regmean {
    size_t rows, cols;
    float *sum;    /* of the products, rows x cols; after gg_regmean_solve the result */
    double *grams; /* their sum */
} gg_regmean;

/* cols: 0 if there are no samples. `values`: those of the matrix. */
gg_status gg_regmean_open(gg_regmean *r, size_t rows, size_t cols, size_t values, gg_error *err);
/* Adds a model with the values d, which are overwritten. `ridge`: the multiple of the mean diagonal
 * that is added. Memory: cols x cols floats, and the samples. */
gg_status gg_regmean_add(gg_regmean *r, float *d, const gg_regmean_samples *from, double ridge,
                         unsigned threads, gg_error *err);
gg_status gg_regmean_solve(gg_regmean *r, unsigned threads, gg_error *err);
void gg_regmean_close(gg_regmean *r);

/* ---- vocabularies (merge_vocabulary.c) ------------------------------------------------------- */

/* The models as they are shown with one vocabulary. Start from all zero. */
typedef struct gg_merge_shown {
    gg_source **views; /* of each model; NULL = unchanged */
    gg_vocab_rows *rows;
    gg_meta *metas;
    size_t n;
} gg_merge_shown;

/* Shows n models, of which the first gives keys, with the vocabulary. `based`: the first is a base,
 * whose rows are preferred. Rows that are made, and tokens that get lost, are noted. */
gg_status gg_merge_show(const gg_merge_vocabulary *what, gg_source *const *models, size_t n,
                        bool based, gg_held_notes *notes, gg_merge_shown *out, gg_error *err);
void gg_merge_shown_free(gg_merge_shown *s);

/* ---- tensors (merge_tensor.c) ---------------------------------------------------------------- */

/* A merge, as far as its tensors need it. */
typedef struct gg_merging {
    const gg_merge_method *method;
    gg_source *base; /* NULL if there is none */
    /* The models, as in gg_merge_job: with the base if it is the first of them; the activations of
     * each, for methods with Gram matrices; and their parameters. */
    gg_source *models[GG_MERGE_MODELS + 1], *inputs[GG_MERGE_MODELS + 1];
    gg_merge_settings of_model[GG_MERGE_MODELS + 1];
    size_t n;
    bool has_base;
    gg_merge_settings global;
    uint64_t seed;
    uint64_t blocks;       /* block_count of the first model */
    pthread_mutex_t whole; /* held while a whole matrix is in memory */
} gg_merging;

/* The number of jobs of a tensor: the experts of a stack, or 1. */
uint64_t gg_merge_experts(const gg_tensor *t);

/* Fill in the job for a tensor, or for an expert of a stack: its parameters, and the state.
 * gg_merge_job_free ends it, also after an error. */
gg_status gg_merge_job_start(const gg_merging *m, const gg_tensor *t, uint64_t expert,
                             gg_merge_job *j, gg_error *err);
void gg_merge_job_free(gg_merge_job *j);

/* Make a producer for a tensor of the result. at[k] is the index of the tensor in model k; at[n]
 * that in the base. `copies`: the method's `unchanged` applies to some experts of a stack. The
 * merging must outlive the list. */
gg_status gg_merge_producer(gg_computations *list, gg_merging *m, const size_t *at, bool copies,
                            gg_producer *p, gg_error *err);

/* The run with fewer threads if their buffers would need too much memory; `row` is the length of
 * the longest row. */
gg_run gg_merge_bounded(const gg_merging *m, uint64_t row, const gg_run *run);

/* How a tensor is merged. */
typedef struct gg_merge_how {
    char text[600]; /* the parameters; those of experts one after another where they differ */
    size_t from;    /* the input that it is a copy of, as gg_merge_method.unchanged; or SIZE_MAX */
    bool copies;    /* only some of its experts are copies of an input, or of different ones */
} gg_merge_how;

/* Starts the jobs of a tensor to see what they do. how->text is set only if it is asked for. */
gg_status gg_merge_describe(const gg_merging *m, const gg_tensor *t, bool text, gg_merge_how *how,
                            gg_error *err);
