/* gg_purify.h - purify the tensors of a model: decode them, apply a filter of gg_numeric.h, and
 * encode them again.
 *
 * Haar wavelets run along all values of a tensor, the Fourier transform along each row. Each expert
 * of a stack is filtered on its own. Dims, mean and standard deviation are kept, and the dtype
 * too unless another is requested. If nothing is removed (strength 0, no variance) and the dtype
 * stays, the bytes stay. NaN and infinities are refused.
 *
 * Memory: 4 bytes per value of one tensor (or expert), on which all threads work together.
 * GG_PURIFY_FFT needs another 194 to 350 bytes per value of a row for each thread: 0.8 MiB for rows
 * of 4096 values, 203 MB for rows of 2^20.
 *
 * The general rules of organ.h apply.
 */
#ifndef GG_PURIFY_H
#define GG_PURIFY_H

#include "numeric/gg_numeric.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

GG_BEGIN_DECLS

/* The outcome of a selected tensor. Tensors left alone are copied. A vector or an integer tensor is
 * purified nevertheless if the selection has its exact name; a vector also if it is the only
 * record of a .bin file. */
typedef enum gg_purify_outcome {
    GG_PURIFY_DONE,      /* filtered, or encoded in another dtype */
    GG_PURIFY_IDENTICAL, /* nothing to remove: same bytes */
    GG_PURIFY_VECTOR,    /* left alone: fewer than two dims (a norm, a bias) */
    GG_PURIFY_INTEGER,   /* left alone: integers */
    GG_PURIFY_NO_CODEC,  /* left alone: no codec decodes its dtype */
} gg_purify_outcome;

/* Returns "purified", "identical", "vector" and so on; a static string. */
const char *gg_purify_outcome_name(gg_purify_outcome o);

/* One row per selected tensor, or per expert if the selection has experts. */
typedef struct gg_purify_row {
    gg_tensor t;    /* before; an expert has its own name and dims */
    uint32_t dtype; /* of the output */
    gg_purify_outcome outcome;
    /* Of the filter, before encoding; of a stack, over all its experts. */
    double energy_kept; /* of the energy around the mean: 0..1 */
    double rel_l2;      /* |after - before| / |before| */
    /* As gg_measure_model computes them, for the stored values before and after. */
    double theta_before, theta_after;
} gg_purify_row;

typedef enum gg_purify_form {
    GG_PURIFY_DIR,    /* an organ directory */
    GG_PURIFY_STREAM, /* organ records one after another: a .bin file or a pipe */
    GG_PURIFY_MODEL,  /* a GGUF file, from a source that is one too */
} gg_purify_form;

typedef struct gg_purify_options {
    const gg_select *select; /* NULL = all; other tensors are copied */
    gg_purify_method method;
    double strength;            /* 0..1; 0 changes nothing */
    const gg_dtype_info *dtype; /* of purified tensors, see gg_dtype_get; NULL = unchanged */
    const char *imatrix;        /* for the encoders, as in gg_output_options; NULL = none */
    gg_purify_form form;        /* of the output */
    /* Called for each row in order: when everything is written, or, for a source that is a pipe,
     * after each tensor. */
    gg_status (*row)(void *ctx, const gg_purify_row *row, gg_error *err);
    void *ctx;
} gg_purify_options;

typedef struct gg_purify_report {
    size_t tensors, purified, identical, left_alone; /* rows, and how they ended */
    uint64_t bytes;                                  /* of the purified tensors, before */
} gg_purify_report;

/* Purifies a model and writes it to the path `output`. "-" is stdout, for streams and GGUF files.
 * If output is NULL, does the same work and writes nothing.
 *
 * A directory keeps the manifest of a source directory: order, keys, layout and history, to which
 * {"op": "purify", ...} is added. The "z" of changed tensors is removed. The source may be the
 * directory that run->force replaces. A GGUF file keeps odd padding and trailing bytes of a single
 * file. The source of a directory or a GGUF file must be seekable.
 *
 * Errors: GG_NO if nothing is selected or nothing can be purified; GG_EUSAGE if the strength is not
 * in 0..1 or the output exists; GG_EUNSUPPORTED for a dtype that cannot be encoded (before anything
 * is written, unless the source is a pipe); GG_EFORMAT for NaN or infinities, with their number,
 * and for data that do not match their hash in a manifest. */
gg_status gg_purify(gg_source *s, const gg_purify_options *o, const char *output, const gg_run *run,
                    gg_purify_report *report, gg_error *err);

GG_END_DECLS

#endif
