/* gg_write.h - write a model in which some tensors and keys are the program's own.
 *
 * gg_write_model copies a base model and puts values of the caller in the place of some
 * of its tensors, adds tensors, and changes keys. Everything else is copied byte for
 * byte. See gg_verbs.h for gg_run.
 */
#ifndef GG_WRITE_H
#define GG_WRITE_H

#include "gg_organ.h"
#include "gg_verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Put bytes [offset, offset + n) of a tensor's data into `out`, in the form that files
 * have them. Called with ascending offsets and at most 1 MiB at a time. */
typedef gg_status (*gg_bytes_fn)(void *ctx, uint64_t offset, void *out, size_t n, gg_error *err);

/* Put the values of rows [first, first + n) into `out`, n times dims[0] of them. The
 * library encodes them in the tensor's dtype. Called with ascending rows, and with as many
 * at a time as 1 MiB holds, but at least one. */
typedef gg_status (*gg_rows_fn)(void *ctx, uint64_t first, size_t n, float *out, gg_error *err);

/* One tensor of the new model. Exactly one of `bytes`, `read_bytes` and `read_rows` gives
 * its data.
 *
 * A callback that fails returns another status than GG_OK and should say why with
 * gg_fail; the library adds the tensor's name. The calls for one tensor come one after
 * another. Those for several tensors come from several threads at the same time, unless
 * run->threads is 1. */
typedef struct gg_override {
    const char *name; /* NUL-terminated */
    bool add;         /* true: a new tensor, after those of the base; false: replace one */
    /* gg_dtype_get(GG_Q8_0) for example; NULL = the dtype that the base's tensor has. */
    const gg_dtype_info *dtype;
    uint32_t n_dims; /* 0 = the dims that the base's tensor has */
    uint64_t dims[GG_MAX_DIMS];
    const void *bytes;      /* data as files have them, `size` bytes; the caller's */
    uint64_t size;          /* must be what dims and dtype make; of `bytes` only */
    gg_bytes_fn read_bytes; /* the same, asked for in pieces */
    gg_rows_fn read_rows;   /* values as float32, to be encoded */
    void *ctx;              /* for the callback */
} gg_override;

typedef struct gg_write_options {
    /* The keys of the new model: all of them, in their order. Make the list with
     * gg_meta_copy from gg_source_meta, and change that. It is written as it is, but for
     * the split.* keys of a base that is several files. NULL = the keys of the base; where
     * dtypes change, general.file_type and general.quantization_version follow. */
    const gg_meta *meta;
    const gg_run *run;       /* NULL = all processors, no progress, no notes */
    uint64_t *bytes_written; /* may be NULL */
} gg_write_options;

/* Write `base` with the overrides as one GGUF file `path`; "-" is stdout. Tensors stay in
 * the base's order. Without overrides and options the result is the base's bytes, if it is
 * one GGUF file or the organ directory of one; shards become one file.
 *
 * `base` is a model, an organ directory, or a pipe that nothing was read from; it must not
 * be used at the same time. NULL writes a model of the added tensors alone, and needs
 * o->meta. `overrides` may be NULL if n is 0, and `o` may be NULL. All arguments remain
 * the caller's and are needed until the call returns.
 *
 * Before anything is written, errors name the tensor: GG_EUSAGE for one that the base
 * has not (or has, with `add`), for one that is overridden twice, and for data of the wrong
 * size; GG_EUNSUPPORTED for a dtype that is unknown or cannot be encoded; GG_EFORMAT for
 * dims that do not fit the dtype. While writing: GG_EFORMAT for values that are not finite
 * (F32 takes any), GG_EIO, GG_ECANCELLED, and whatever a callback returns. After an error
 * there is no file under `path`, or still the old one. */
gg_status gg_write_model(gg_source *base, const gg_override *overrides, size_t n, const char *path,
                         const gg_write_options *o, gg_error *err);

#ifdef __cplusplus
}
#endif

#endif
