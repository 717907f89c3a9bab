/* imatrix.h - importance matrices: how strongly a calibration text used each input column of each
 * tensor, in llama.cpp's two file formats. Internal.
 *
 * GGUF (general.type = "imatrix"): for each tensor X
 *     X.in_sum2   F32 [columns, matrices]   sums of the squared inputs per column
 *     X.counts    F32 [1, matrices]         numbers of inputs (tokens)
 * where matrices is the number of experts of a stack, and 1 otherwise.
 *
 * The older binary format, little-endian:
 *     [entries:i32] entries x { [len:i32][name][calls:i32][n:i32][values:f32 x n] }
 *     and at the end, which old files lack, [chunks:i32][len:i32][name of the text]
 * Its values are calls times the mean squared input; n is columns x matrices.
 *
 * Only the list of entries is kept in memory; values are read when they are asked for. An open
 * file can be used by any number of threads. */
#pragma once

#include "organ/gg_organ.h"

typedef struct gg_imatrix gg_imatrix;

/* Opens a file; ends with gg_imatrix_close. With path NULL *out is NULL. `path` may be a pipe,
 * which is stored in a temporary file first if it carries a GGUF. Errors: GG_EIO; GG_EFORMAT if the
 * file is malformed or no importance matrix; GG_ENOMEM. Errors name the file. */
gg_status gg_imatrix_open(const char *path, gg_imatrix **out, gg_error *err);
void gg_imatrix_close(gg_imatrix *im); /* im may be NULL */

/* What the keys quantize.imatrix.* of an encoded model state. The texts belong to im. */
typedef struct gg_imatrix_info {
    const char *file;    /* the path it was opened with */
    const char *dataset; /* the first calibration text; "" if unknown */
    uint64_t entries;    /* tensors */
    uint64_t chunks;     /* of the calibration text; 0 if unknown */
} gg_imatrix_info;
gg_imatrix_info gg_imatrix_info_of(const gg_imatrix *im);

/* The importance of the input columns of one tensor. */
typedef struct gg_importance {
    float *mean2;  /* columns x matrices mean squared inputs; NULL if the file lacks the tensor */
    float *counts; /* inputs per matrix; NULL if the file does not state them (older format) */
    uint64_t columns, matrices;
    uint64_t rows; /* of the tensor, per matrix */
} gg_importance;

/* Reads the importance of tensor t; ends with gg_importance_free. A single expert
 * (blk.N.ffn_gate.E.weight) gets its part of the stack's entry, if it has none of its own.
 * A matrix without any input, such as an expert that was never chosen, gets 1 in every column.
 * If the file lacks the tensor, it returns GG_OK with out->mean2 NULL.
 * Errors: GG_NO, naming t, if the numbers of columns or matrices do not match t's dims; GG_EFORMAT
 * if a value is negative or not finite; GG_EIO; GG_ENOMEM. */
gg_status gg_imatrix_read(const gg_imatrix *im, const gg_tensor *t, gg_importance *out,
                          gg_error *err);

/* The same with mean squares over all tokens of the text instead of over those that reached the
 * matrix: the means of an expert are multiplied by the share of the tokens that were routed to it,
 * which is 0 for an expert without tokens. The older format does not state these shares; they are
 * then 1. If `im` is NULL, or t cannot be decoded, out->mean2 is NULL. */
gg_status gg_imatrix_read_per_token(const gg_imatrix *im, const gg_tensor *t, gg_importance *out,
                                    gg_error *err);

/* Only looks whether the file has the importance of t, and whether its columns and matrices match.
 * With `part`, t may have fewer matrices than the file. Errors: GG_NO, naming t. */
gg_status gg_imatrix_check(const gg_imatrix *im, const gg_tensor *t, bool part, bool *has,
                           gg_error *err);

/* The importance of the columns of *run values from value `first` of the tensor on, which lie in
 * one row: n of them, or those that are left of it. */
const float *gg_importance_run(const gg_importance *w, uint64_t first, size_t n, size_t *run);

/* Adds n values from value `first` on to the sums of gg_weighted_add: the mean squared output of a
 * matrix on the calibration text, and that of an error. Does nothing if w->mean2 is NULL. */
void gg_importance_sum(const gg_importance *w, uint64_t first, const float *a, const float *b,
                       size_t n, double sums[2]);

void gg_importance_free(gg_importance *importance);

/* ---- entries as the file has them, for those who write importance matrices ------------------ */

#define GG_IMATRIX_CHUNK 512 /* tokens of a call, if nothing states them; llama.cpp's default */

typedef struct gg_imatrix_entry {
    const char *name; /* of the tensor; sorted; belongs to im */
    size_t name_len;
    uint64_t values;            /* columns x matrices */
    uint64_t columns, matrices; /* both 0 in the older format, which does not state them */
    uint32_t calls;             /* older format; 0 in GGUF */
} gg_imatrix_entry;

/* Entry i of the gg_imatrix_info.entries of the file. */
gg_imatrix_entry gg_imatrix_entry_at(const gg_imatrix *im, size_t i);
size_t gg_imatrix_find(const gg_imatrix *im, const char *name, size_t len); /* SIZE_MAX: none */
/* The same, or else the entry of the matrix in a model that has it fused, or separate. */
size_t gg_imatrix_find_form(const gg_imatrix *im, const char *name, size_t len);

/* Reads n sums of entry i from value `first` on: sums of squared inputs, or in the older format
 * calls times their mean. */
gg_status gg_imatrix_sums(const gg_imatrix *im, size_t i, uint64_t first, uint64_t n, float *out,
                          gg_error *err);
/* The number of inputs of a matrix, or in the older format of calls. GG_EFORMAT, naming the tensor,
 * unless it is finite and not negative. */
gg_status gg_imatrix_count(const gg_imatrix *im, size_t i, uint64_t matrix, float *out,
                           gg_error *err);

/* The keys; NULL in the older format. */
const gg_meta *gg_imatrix_meta(const gg_imatrix *im);
