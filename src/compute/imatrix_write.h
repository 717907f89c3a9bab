/* imatrix_write.h - writes importance matrices that are made of others: sums of several, and
 * entries with other names, experts or columns. Internal. */
#pragma once

#include "compute.h"
#include "organ/imatrix.h"
#include "write/plan.h"

/* A matrix of an entry of an open importance matrix. */
typedef struct gg_imatrix_part {
    const gg_imatrix *im; /* NULL = nothing is added */
    size_t entry;
    uint64_t matrix;
    const uint32_t *columns; /* which columns of the entry to write; NULL = all */
} gg_imatrix_part;

/* An entry to write. Each of its matrices is the sum of n parts; parts[m * n] is the first of
 * matrix m. All parts have from_columns columns. */
typedef struct gg_imatrix_sum {
    const char *name;
    size_t name_len, n;
    uint64_t matrices, from_columns, columns;
    const gg_imatrix_part *parts;
} gg_imatrix_sum;

/* A file to be written. Start from all zero, with the importance matrices that give the keys. */
typedef struct gg_imatrix_file {
    gg_imatrix *const *from;
    size_t n_from;
    uint32_t chunk; /* tokens of a call; 0: as the first file states that does, or 512 */
    gg_plan plan;
    gg_computations made;
} gg_imatrix_file;

/* Adds an entry, which is copied. The importance matrices and the lists of columns must outlive the
 * file. */
gg_status gg_imatrix_file_add(gg_imatrix_file *f, const gg_imatrix_sum *sum, gg_error *err);

/* Sets *at to the entry of a tensor, SIZE_MAX if there is none. GG_NO, naming the tensor, if
 * `im` belongs to another model, or for a single expert if `im` has its stack. */
gg_status gg_imatrix_entry_of(const gg_imatrix *im, const gg_tensor *t, size_t *at, gg_error *err);

/* The tensor of which another one is a part. */
typedef struct gg_imatrix_cut {
    const gg_tensor *was;
    const uint64_t *matrices; /* those that are left; NULL = all */
    const uint32_t *columns;  /* those that are left of each of these; NULL = all */
} gg_imatrix_cut;

/* Adds an entry for t, unless `im` has none for cut->was. Errors of gg_imatrix_entry_of, and
 * GG_EFORMAT if it lacks one of the matrices. */
gg_status gg_imatrix_file_cut(gg_imatrix_file *f, const gg_imatrix *im, const gg_tensor *t,
                              const gg_imatrix_cut *cut, gg_error *err);

/* Writes the file: as GGUF, or in the older format, which needs a file that can be seeked. Counts
 * of calls become counts of tokens by the chunk size of the first file that states one. */
gg_status gg_imatrix_file_write(gg_imatrix_file *f, const char *path, bool old, const gg_run *run,
                                gg_error *err);
void gg_imatrix_file_free(gg_imatrix_file *f);
