/* gg_compare_model.h - compare two models tensor by tensor and key by key, and judge whether they
 * share a training lineage.
 *
 * A row depends only on the bytes, dims and dtypes of the two tensors and on `sample`, not on the
 * number of threads or the kind of source. docs/lineage.md explains the verdict. The general rules
 * of organ.h apply.
 */
#pragma once

#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

/* The result of comparing two tensors: the last two values if only one model has it; otherwise the
 * first difference in dims (trailing 1s do not count), dtype or bytes. */
typedef enum gg_sameness {
    GG_SAME_IDENTICAL,
    GG_SAME_DIFFERS,
    GG_SAME_DTYPE,
    GG_SAME_SHAPE,
    GG_SAME_ONLY_A,
    GG_SAME_ONLY_B,
    GG_SAMENESS_COUNT
} gg_sameness;

typedef struct gg_compare_row {
    gg_sameness status;
    const gg_tensor *a, *b; /* NULL if that model lacks it; names are NUL-terminated */
    /* The measures below are valid: the dims agree, both dtypes can be decoded, and at least one
     * pair of values is finite. */
    bool measured;
    uint64_t compared; /* number of pairs of values behind the measures; 0 if not measured */
    double cosine;     /* of the two tensors as vectors; 1 if all values have the same bits */
    double rel_l2;     /* |b - a| / |a| */
    double max_abs;    /* largest |b - a| */
    /* With an importance matrix that has this tensor, otherwise NaN and 0: the damage that the
     * difference is predicted to do, error2 / energy2. error2 is the sum over columns j of
     * in2_j |b_:j - a_:j|^2, where in2_j is the mean squared input of the column on the calibration
     * text: the mean squared error of the tensor's output. energy2 is the same of a, so 0.01 means
     * an error of a tenth of the output. The experts of a stack are weighted with the share of the
     * tokens that were routed to each. */
    double damage, error2, energy2;
} gg_compare_row;

/* The tensor that a row is about: a, or b if that is NULL. */
static inline const gg_tensor *gg_compared(const gg_compare_row *row)
{
    return row->a ? row->a : row->b;
}

/* Tensor `a` of source A and tensor `b` of source B, by index. */
typedef struct gg_tensor_pair {
    size_t a, b;
} gg_tensor_pair;

typedef struct gg_compare_options {
    const gg_select *select; /* NULL = all; names are those of A, or of B if A lacks the tensor */
    const gg_map *map;  /* NULL = same names; otherwise only the blocks that it maps are compared */
    bool split_experts; /* one row per expert of a stack; also if `select` has experts */
    uint64_t sample;    /* rows of a tensor to measure, evenly spread; 0 = all */
    /* An importance matrix of model A, in GGUF or in llama.cpp's older binary format, to predict
     * the damage with. NULL = none. */
    const char *imatrix;
    /* If not NULL, exactly these n_pairs pairs are compared, in this order, whatever their names
     * are. The first three members are then ignored. */
    const gg_tensor_pair *pairs;
    size_t n_pairs;
    /* Called for each row, from the thread that called the verb. */
    gg_status (*row)(void *ctx, const gg_compare_row *row, gg_error *err);
    void *ctx;
} gg_compare_options;

/* ---- lineage: whether two models have been trained from the same weights ----------- */

typedef enum gg_lineage_verdict {
    GG_LINEAGE_IDENTICAL,   /* every tensor has a byte-for-byte equal one */
    GG_LINEAGE_SAME,        /* trained from the same weights: a graft can work */
    GG_LINEAGE_STRANGERS,   /* no trace of common weights: a graft would be noise */
    GG_LINEAGE_UNDECIDABLE, /* no matrices to judge, values in between, or a mixture */
    GG_LINEAGE_PERMUTED     /* the same, but hidden units have changed places: see gg_align */
} gg_lineage_verdict;

/* Thresholds on the median cosine of matching matrices, see docs/lineage.md. */
#define GG_LINEAGE_SAME_FROM 0.8
#define GG_LINEAGE_STRANGE_BELOW 0.1
#define GG_LINEAGE_SAMPLE 128u  /* rows per matrix; a good default */
#define GG_LINEAGE_SIDE 32u     /* only matrices with at least this many rows and columns, */
#define GG_LINEAGE_VALUES 4096u /* and values, count: chance then gives |cosine| < 0.1 */

typedef struct gg_lineage {
    gg_lineage_verdict verdict;
    size_t n;                  /* number of matrices judged */
    double min, median, max;   /* of their cosines; 0 when n is 0 */
    size_t same, strange;      /* number at or above SAME_FROM, and below STRANGE_BELOW */
    size_t tensors, identical; /* number of rows, and of identical ones */
    /* What has changed places: "experts", "FFN units", "heads", "embedding" or several of them,
     * separated by ", "; "" if the verdict is another one. */
    char permuted[48];
    /* Where experts have, for example "block 0 of A has experts 3, 1, 0, 2 of B"; otherwise "". */
    char experts[160];
    /* Which blocks of A are which blocks of B, as gg_map_parse reads it, if they have other
     * numbers or if only one model has some of them; otherwise "". If it is not empty, matrices are
     * those of these pairs of blocks. */
    char map[1024];
} gg_lineage;

/* Returns "identical", "same lineage", "strangers", "undecidable" or "same lineage, permuted"; a
 * static string. */
const char *gg_lineage_name(gg_lineage_verdict v);

/* Writes the verdict in words into out, cut to `size` bytes with its NUL, for example
 * "same lineage: median cosine 0.987 (0.962 to 0.994) of 28 matrices". */
void gg_lineage_text(const gg_lineage *l, char *out, size_t size);

/* ---- tensors ------------------------------------------------------------------ */

/* Sums over the rows of one class, or of the model. */
typedef struct gg_compare_group {
    size_t tensors, by[GG_SAMENESS_COUNT];
    size_t measured;
    double cosine_min, cosine_sum, rel_l2_sum, max_abs; /* of measured rows */
    size_t predicted;                                   /* rows with a damage */
    double damage, error2, energy2; /* of all these rows: sum of error2 / sum of energy2 */
    gg_lineage lineage;             /* of these rows: nothing is looked for in another place */
} gg_compare_group;

typedef struct gg_compare_report {
    gg_compare_group model, of[GG_CLASS_COUNT]; /* all rows, and those of each gg_class */
} gg_compare_report;

/* Compares two models. Rows come in the order of A, then the tensors that only B has in the order
 * of B. One of the two may be a pipe; if that is B, rows come in the order of B, then the tensors
 * that only A has. With `sample`, only that many rows of a tensor are decoded; "identical" still
 * means that every byte was compared. With `imatrix`, all data are decoded.
 *
 * Memory: 2 MiB per thread, up to 5 MiB for a large tensor, 1 KiB for each of up to 1024 tensors;
 * with `imatrix` 16 MiB more, or the importance of one tensor if that is more. Errors: GG_NO if a
 * selection or map leaves no tensor; GG_EUSAGE for two pipes, for a pipe as B with a map, and for
 * any pipe with pairs; GG_EIO or GG_EFORMAT if a source cannot be read; GG_EFORMAT if the
 * importance matrix is malformed or does not fit A. */
gg_status gg_compare_models(gg_source *a, gg_source *b, const gg_compare_options *o,
                            const gg_run *run, gg_compare_report *report, gg_error *err);

/* Judges two models or, with o->pairs, these pairs. `o` is that of gg_compare_models, but o->row is
 * not called. o->sample = GG_LINEAGE_SAMPLE makes it quick for models of any size. If matrices at
 * the same place differ and no model is a pipe, it looks for blocks with other numbers, unless `o`
 * has a map, a selection or pairs, and for hidden units in another order, in at most 8 blocks. That
 * takes up to 200 MiB. Errors are those of gg_compare_models; *out is set in any case. */
gg_status gg_lineage_of(gg_source *a, gg_source *b, const gg_compare_options *o, const gg_run *run,
                        gg_lineage *out, gg_error *err);
