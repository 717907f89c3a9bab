/* gg_imatrix.h - importance matrices: add up, convert, describe, and let them follow a model that
 * was restructured.
 *
 * An importance matrix has, for each matrix of a model and each expert of a stack, the sums of the
 * squared inputs per column and the number of inputs on a calibration text. Both formats of
 * llama.cpp are read and written: GGUF, and the older one, which states neither the number of
 * experts nor the tokens of each.
 */
#ifndef GG_IMATRIX_PUBLIC_H
#define GG_IMATRIX_PUBLIC_H

#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

GG_BEGIN_DECLS

#define GG_IMATRIX_FILES 64 /* most files of a sum */

/* An importance matrix, and the model it was computed for. */
typedef struct gg_imatrix_of {
    const char *path; /* NULL ends a list */
    gg_source *model; /* the caller's */
} gg_imatrix_of;

typedef struct gg_imatrix_options {
    bool old_format;     /* write the older format */
    uint32_t chunk_size; /* tokens of a call; 0 = as the first GGUF file states, or 512 */
    /* gives the number of experts of stacks in files of the older format; may be NULL if none of
     * them has stacks */
    gg_source *model;
} gg_imatrix_options;

typedef struct gg_imatrix_report {
    size_t entries; /* tensors written */
    size_t by_name; /* of these, found by name instead of by their data */
    size_t lost;    /* tensors whose entries do not fit any more */
} gg_imatrix_report;

/* Writes the sum of n files: sums and counts are added, so that the parts of a text give the matrix
 * of the whole. One file is converted. Counts of the older format become tokens by the chunk size
 * of the first GGUF file, or 512. `output` is "-" for stdout, except in the older format.
 *
 * Errors: GG_NO, naming tensor and file, for entries of different shapes; GG_EUSAGE for a stack in
 * the older format without a model; GG_EFORMAT for a malformed file; GG_EIO; GG_ENOMEM. */
gg_status gg_imatrix_combine(const char *const *paths, size_t n, const gg_imatrix_options *o,
                             const char *output, const gg_run *run, gg_error *err);

/* Writes an importance matrix for `model`, which was made from other models by organ-stack, by
 * removing or exchanging experts, by a transplant or by joining matrices (attn_qkv, ffn_gate_up).
 * Each matrix and each expert is found in the other models by its data (a sample of 64 KiB is
 * compared). Other matrices, such as routers with fewer rows, joined matrices and matrices in other
 * types, are found by name in the block that the rest of their block came from. Tensors whose entry
 * does not fit are left out and noted. Errors as above; GG_NO if no entry is left. */
gg_status gg_imatrix_follow(gg_source *model, const gg_imatrix_of *from, const char *output,
                            const gg_run *run, gg_imatrix_report *report, gg_error *err);

/* Statistics of the mean squared inputs of a tensor, or of one expert; as those of llama-imatrix.
 * All from `sum` on are NaN without inputs. */
typedef struct gg_imatrix_row {
    const char *name;
    size_t name_len;
    int64_t expert; /* -1 = the whole tensor */
    uint64_t columns;
    double count; /* inputs */
    double share; /* of the tensor's inputs that reached this expert; 1 for a whole tensor */
    double sum, min, max, mean, std;
    double active;   /* share of columns above 1e-5 */
    double entropy;  /* of the values as shares of their sum, in bits */
    double evenness; /* entropy / log2(columns): 1 if all columns are equal */
    double outliers; /* share of columns more than one standard deviation above the mean */
    double cosine;   /* with the same tensor of the block before; NaN = there is none */
} gg_imatrix_row;

/* Calls `row` for each tensor in the order of names, and with `experts` for each expert of a stack
 * after it. o->model as above. */
gg_status gg_imatrix_show(const char *path, bool experts, const gg_imatrix_options *o,
                          gg_status (*row)(void *ctx, const gg_imatrix_row *row, gg_error *err),
                          void *ctx, gg_error *err);

GG_END_DECLS

#endif
