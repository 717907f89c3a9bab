/* gg_write.h - write a model in which some tensors and keys are the program's own.
 *
 * gg_write_model copies a base model, replaces some of its tensors by values of the caller, adds
 * tensors, and changes keys. Everything else is copied byte for byte. docs/library.md shows a
 * program. The general rules of organ.h apply.
 */
#ifndef GG_WRITE_H
#define GG_WRITE_H

#include "gg_organ.h"
#include "gg_verbs.h"

GG_BEGIN_DECLS

/* Puts bytes [offset, offset + n) of a tensor's data, in the form that files have, into `out`.
 * Called with ascending offsets and at most 1 MiB at a time. */
typedef gg_status (*gg_bytes_fn)(void *ctx, uint64_t offset, void *out, size_t n, gg_error *err);

/* Puts the values of rows [first, first + n), n * dims[0] of them, into `out`. The library encodes
 * them in the tensor's dtype. Called with ascending rows, as many at a time as fit into 1 MiB, but
 * at least one. */
typedef gg_status (*gg_rows_fn)(void *ctx, uint64_t first, size_t n, float *out, gg_error *err);

/* One tensor of the new model. Exactly one of `bytes`, `read_bytes` and `read_rows` gives its data.
 *
 * A callback that fails returns another status than GG_OK and should give the reason with
 * gg_fail; the library adds the tensor's name. The calls for one tensor come one after another.
 * Those for different tensors can come from several threads at the same time, unless
 * run->threads is 1. */
typedef struct gg_override {
    const char *name; /* NUL-terminated */
    bool add;         /* true: a new tensor, after those of the base; false: replaces one */
    /* gg_dtype_get(GG_Q8_0) for example; NULL = the dtype that the base's tensor has. */
    const gg_dtype_info *dtype;
    uint32_t n_dims; /* 0 = the dims that the base's tensor has */
    uint64_t dims[GG_MAX_DIMS];
    const void *bytes;      /* data in the form that files have, `size` bytes */
    uint64_t size;          /* of `bytes`; must match dims and dtype */
    gg_bytes_fn read_bytes; /* the same, in pieces */
    gg_rows_fn read_rows;   /* values as float32, to be encoded */
    void *ctx;              /* for the callback */
} gg_override;

typedef struct gg_write_options {
    const gg_override *overrides; /* n_overrides of them */
    size_t n_overrides;
    /* All keys of the new model in their order. Make the list with gg_meta_copy from
     * gg_source_meta and change the copy. It is written unchanged, except that the split.* keys
     * of a split base are left out. NULL = the keys of the base; if dtypes change,
     * general.file_type and general.quantization_version follow. */
    const gg_meta *meta;
} gg_write_options;

typedef struct gg_write_report {
    uint64_t bytes; /* written */
} gg_write_report;

/* Writes `base` with the overrides as one GGUF file `output`; "-" is stdout. Tensors keep the
 * base's order. Without overrides and options, the result has the base's bytes if the base is one
 * GGUF file or the organ directory of one; shards become one file.
 *
 * `base` is a model, an organ directory, or a pipe of which nothing was read; it must not be used
 * at the same time. NULL writes a model of the added tensors alone, and requires o->meta.
 *
 * Errors before anything is written name the tensor. GG_EUSAGE: the base lacks the tensor, or
 * already has a tensor to be added, two overrides have the same name, or the data have the wrong
 * size. GG_EUNSUPPORTED: the dtype is unknown or cannot be encoded. GG_EFORMAT: the dims do not
 * fit the dtype. While writing: GG_EFORMAT for values that are not finite (F32 accepts them), and
 * any status of a callback. After an error `output` does not exist or still has its old contents.
 */
gg_status gg_write_model(gg_source *base, const gg_write_options *o, const char *output,
                         const gg_run *run, gg_write_report *report, gg_error *err);

GG_END_DECLS

#endif
