/* gg_purify.h - purify the tensors of a model: the filters of gg_numeric.h on what
 * a file holds, decoded and encoded again.
 *
 * A tensor is one signal: haar runs along all its values, fft along each row. A stack
 * of experts is a signal an expert. dims, mean and std are kept; dtype too unless
 * another is asked for. Where nothing is removed (strength 0, no variance) and the
 * dtype stays, the bytes are those of before. NaN and infinities are refused.
 *
 * Memory: the float32 values of one tensor (of one expert of a stack) a thread; of more
 * than 4 Mi values one tensor at a time, and the threads share it. fft takes for each
 * thread another 262 bytes a value of a row (up to 404 by its length's prime factors, see
 * gg_purify_scratch): 1 MiB for rows of 4096, but 275 MB for rows of 2^20. Results do not
 * depend on the threads.
 */
#ifndef GG_PURIFY_H
#define GG_PURIFY_H

#include "gg_numeric.h"
#include "gg_organ.h"
#include "gg_verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What became of a selected tensor. Those left alone are copied; a vector or integers
 * are purified all the same where the selection has the tensor's very name; a vector
 * also where it is the only record of a .bin file. */
typedef enum gg_purify_outcome {
    GG_PURIFY_DONE,      /* filtered, or encoded in another dtype */
    GG_PURIFY_IDENTICAL, /* nothing to remove: same bytes */
    GG_PURIFY_VECTOR,    /* left alone: fewer than two dims (a norm, a bias) */
    GG_PURIFY_INTEGER,   /* left alone: integers */
    GG_PURIFY_NO_CODEC,  /* left alone: no codec decodes its dtype */
} gg_purify_outcome;

const char *gg_purify_outcome_name(gg_purify_outcome o); /* "purified" "identical" "vector" ... */

/* A row for each selected tensor, or expert where the selection is one of experts. */
typedef struct gg_purify_row {
    gg_tensor t; /* as it was; of an expert: its own name and dims */
    gg_anatomy a;
    uint32_t dtype; /* as it is written */
    gg_purify_outcome outcome;
    /* Of the filter, before encoding; of a stack, over all its experts. */
    double energy_kept; /* of the energy around the mean: 0..1 */
    double rel_l2;      /* |after - before| / |before| */
    /* As gg_measure_model gives them for what was and what is stored. */
    double theta_before, theta_after;
} gg_purify_row;

/* Called for each row in order: when all is written, but on a pipe as each tensor is
 * done. May be NULL. t.name is NUL-terminated, valid during the call. */
typedef gg_status (*gg_purify_fn)(void *ctx, const gg_purify_row *row, gg_error *err);

typedef struct gg_purify_options {
    const gg_select *select; /* NULL = all; what is not selected is copied */
    gg_purify_method method;
    double strength;            /* 0..1, see gg_numeric.h */
    const gg_dtype_info *dtype; /* of what is purified, as of gg_dtype_get; NULL = unchanged */
    gg_purify_fn row;           /* called for each row with row_ctx; may be NULL */
    void *row_ctx;
} gg_purify_options;

typedef struct gg_purify_summary {
    size_t tensors, purified, identical, left_alone; /* rows, and how they ended */
    uint64_t bytes;                                  /* of the purified, as they were */
} gg_purify_summary;

/* Errors of all four: GG_NO nothing is selected, or nothing that can be purified;
 * GG_EUSAGE strength not in 0..1; GG_EUNSUPPORTED a dtype that cannot be encoded, with
 * the choices (for what is no pipe: before anything is written); GG_EFORMAT NaN or
 * infinities, named and counted, or data without the sha256 that a manifest states. */

/* Into an organ directory. A directory's manifest goes along: order, metadata, layout
 * and history, to which {"op": "purify", ...} is added; "z" of what changed is dropped.
 * The source must be seekable, and may be the directory that run->force replaces. */
gg_status gg_purify_dir(gg_source *s, const gg_purify_options *o, const char *dir,
                        const gg_run *run, gg_purify_summary *sum, gg_error *err);

/* As an organ stream to fd: every tensor of the source, in order. */
gg_status gg_purify_stream(gg_source *s, const gg_purify_options *o, int fd, const gg_run *run,
                           gg_purify_summary *sum, gg_error *err);

/* GGUF into one GGUF file; odd padding and trailing bytes of a single file stay. */
gg_status gg_purify_model(gg_source *s, const gg_purify_options *o, const char *path,
                          const gg_run *run, gg_purify_summary *sum, gg_error *err);

/* Everything but writing. */
gg_status gg_purify_check(gg_source *s, const gg_purify_options *o, const gg_run *run,
                          gg_purify_summary *sum, gg_error *err);

#ifdef __cplusplus
}
#endif

#endif
