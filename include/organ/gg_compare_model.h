/* gg_compare_model.h - two models tensor by tensor, and whether they share a training
 * lineage. Measures are those of gg_compare (gg_numeric.h), over decoded values;
 * docs/lineage.md says what the verdict rests on.
 *
 * A row depends on the bytes, dims and dtypes of the two tensors and on `sample`: not
 * on the threads, and not on where the tensors come from (GGUF, shards, organ
 * directory, records, a pipe).
 */
#ifndef GG_COMPARE_MODEL_H
#define GG_COMPARE_MODEL_H

#include "gg_organ.h"
#include "gg_verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first that holds: a tensor that is only in A, only in B, of other dims (trailing
 * 1s do not count), of another dtype; of the same dtype with all bytes equal, or not. */
typedef enum gg_sameness {
    GG_SAME_IDENTICAL,
    GG_SAME_DIFFERS,
    GG_SAME_DTYPE,
    GG_SAME_SHAPE,
    GG_SAME_ONLY_A,
    GG_SAME_ONLY_B,
    GG_SAMENESS_COUNT
} gg_sameness;

const char *gg_sameness_name(
    gg_sameness s); /* "identical" "differs" "dtype" "shape" "only-a" "only-b" */

typedef struct gg_compare_row {
    gg_sameness status;
    const gg_tensor *a, *b; /* NULL where there is none; names are NUL-terminated */
    gg_anatomy anatomy;     /* of a; of b when there is only b */
    bool measured; /* same dims, both dtypes can be decoded, not all pairs have a value that is not
                      finite */
    uint64_t compared; /* values that the three below are taken over; 0 when not measured */
    double cosine, rel_l2,
        max_abs; /* as gg_compare_result; 1, 0, 0 where all values are the same bits */
} gg_compare_row;

/* Called for each row, one call at a time, from the thread that called. Row and
 * tensors are valid during the call. A status other than GG_OK ends the run. */
typedef gg_status (*gg_compare_fn)(void *ctx, const gg_compare_row *row, gg_error *err);

/* Tensor `a` of source A against tensor `b` of source B. */
typedef struct gg_tensor_pair {
    size_t a, b;
} gg_tensor_pair;

typedef struct gg_compare_options {
    const gg_select *select; /* NULL = all; by A's names, for what is only in B by B's */
    const gg_map *map; /* NULL = by name; else A's blocks that it names against B's, nothing else */
    bool split_experts; /* a row an expert of a stacked tensor; experts in `select` does so too */
    uint64_t sample;    /* rows of a tensor that are measured, evenly spread; 0 = all */
    const gg_tensor_pair
        *pairs;        /* not NULL: exactly these n_pairs pairs, in this order and whatever */
    size_t n_pairs;    /* their names; the three members at the top are not looked at */
    gg_compare_fn row; /* called for each row with row_ctx; may be NULL */
    void *row_ctx;
} gg_compare_options;

typedef struct gg_compare_report {
    size_t tensors;
    size_t by[GG_SAMENESS_COUNT];
} gg_compare_report;

/* Rows in the order of A's tensors, then what is only in B in B's order. One of the two
 * may be a pipe; if that is B, rows come in B's order and then what is only in A.
 * With `sample` only so many rows are decoded; "identical" still means every byte: where
 * all sampled rows are equal the rest is read and compared too.
 * Memory: 2 MiB a thread, up to 72 bytes for each 64 Ki values of one tensor (at most
 * 5 MiB), 1 KiB for each of up to 1024 tensors.
 * GG_NO when a selection or map leaves no tensor; GG_EUSAGE for two pipes, and for a
 * pipe as B with a map, and for any pipe with pairs; GG_EIO, GG_EFORMAT when a source cannot be
 * read. `report` may be NULL. */
gg_status gg_compare_models(gg_source *a, gg_source *b, const gg_compare_options *o,
                            const gg_run *run, gg_compare_report *report, gg_error *err);

/* ---- keys --------------------------------------------------------------------- */

/* One metadata key in which two models differ. */
typedef struct gg_key_diff {
    gg_sameness status; /* GG_SAME_DTYPE: another type; never identical or shape */
    const gg_kv *a, *b; /* NULL where there is none */
    uint64_t index;     /* of two arrays of one type, the first element that differs; it is
                           the length of the shorter where all of that is equal */
} gg_key_diff;

typedef gg_status (*gg_key_diff_fn)(void *ctx, const gg_key_diff *diff, gg_error *err);

/* Compare the metadata of two models, and call fn (may be NULL) for each key that differs:
 * in A's order, then what is only in B in B's order. Values are equal if type and bytes
 * are. The keys that number shards (split.no and so on) are left out, because they say
 * nothing of the model. report->tensors counts the keys of both; it is 0 where one of the
 * two is bare records, which have no metadata. */
gg_status gg_compare_keys(const gg_source *a, const gg_source *b, gg_key_diff_fn fn, void *ctx,
                          gg_compare_report *report, gg_error *err);

/* ---- lineage ------------------------------------------------------------------ */

typedef enum gg_lineage_verdict {
    GG_LINEAGE_IDENTICAL,  /* every tensor has its twin, byte for byte */
    GG_LINEAGE_SAME,       /* trained from the same weights: a graft can work */
    GG_LINEAGE_STRANGERS,  /* no trace of common weights: a graft gives noise */
    GG_LINEAGE_UNDECIDABLE /* no matrices to judge by, in between, or a mixture */
} gg_lineage_verdict;

/* Thresholds on the median cosine of matching matrices, see docs/lineage.md. */
#define GG_LINEAGE_SAME_FROM 0.8
#define GG_LINEAGE_STRANGE_BELOW 0.1
#define GG_LINEAGE_SAMPLE 128u  /* rows a matrix: a good default */
#define GG_LINEAGE_SIDE 32u     /* a matrix has at least so many rows and columns, */
#define GG_LINEAGE_VALUES 4096u /* and so many values: chance then gives |cosine| < 0.1 */

typedef struct gg_lineage {
    gg_lineage_verdict verdict;
    size_t n;                  /* matrices judged */
    double min, median, max;   /* of their cosines; 0 when n is 0 */
    size_t same, strange;      /* how many are at or above SAME_FROM, below STRANGE_BELOW */
    size_t tensors, identical; /* rows seen, and those that are identical */
} gg_lineage;

const char *gg_lineage_name(
    gg_lineage_verdict v); /* "identical" "same lineage" "strangers" "undecidable" */

/* "same lineage: median cosine 0.987 (0.962 to 0.994) of 28 matrices" into out, cut to
 * size, NUL-terminated. */
void gg_lineage_text(const gg_lineage *l, char *out, size_t size);

/* Gather rows, judge at the end. Start from { 0 }; free when done. */
typedef struct gg_lineage_rows {
    double *cosines;
    size_t n, cap, tensors, identical;
} gg_lineage_rows;

void gg_lineage_of_rows(gg_lineage_rows *rows, gg_lineage *out);

/* The verdict on two models or, with o->pairs, on those that a graft would move. o is as for
 * gg_compare_models, but o->row is not called; o->sample GG_LINEAGE_SAMPLE makes it quick for
 * any size. */
gg_status gg_lineage_of(gg_source *a, gg_source *b, const gg_compare_options *o, const gg_run *run,
                        gg_lineage *out, gg_error *err);

/* ---- summary ------------------------------------------------------------------ */

/* Rows gathered by class and over all. Start from { 0 }. */
typedef struct gg_compare_group {
    size_t tensors, by[GG_SAMENESS_COUNT];
    size_t measured;
    double cosine_min, cosine_sum, rel_l2_sum, max_abs; /* over the measured */
    gg_lineage_rows rows;
} gg_compare_group;

typedef struct gg_compare_summary {
    gg_compare_group of[GG_CLASS_COUNT + 1]; /* by gg_class; the last is the model */
} gg_compare_summary;

gg_status gg_compare_summary_add(gg_compare_summary *s, const gg_compare_row *row, gg_error *err);
void gg_compare_summary_free(gg_compare_summary *s);

#ifdef __cplusplus
}
#endif

#endif
