/* plan.h - describes a model to be written: every file, every tensor and the source of its
 * bytes. No file is opened for writing before the plan is complete, so errors are found
 * before anything is written. Internal.
 */
#pragma once

#include "base/io.h"
#include "base/names.h"
#include "base/sha256.h"
#include "copy.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"
#include "organ/imatrix.h"
#include "organ/manifest.h"
#include "verb_run.h"

#include <stdatomic.h>

/* Of a tensor, or of all of its parts: whether a value is not 0 as written, or may not be; whether
 * one is that was not 0 before it was encoded. */
typedef struct gg_zeros {
    atomic_bool kept, vanished;
} gg_zeros;

/* The place of a computed tensor. */
typedef struct gg_target {
    const gg_tensor *t;
    int fd;
    uint64_t at;
    const gg_run *run;
    /* Hash of what is written, or NULL. A producer adds either all bytes to it, in order, or none;
     * after none, the caller has to read the bytes again. */
    gg_sha256 *hash;
    gg_zeros *zeros; /* NULL = not noticed */
} gg_target;

/* Computes a tensor instead of copying it: writes t->bytes bytes at offset `at` of fd, or in
 * sequence if `at` is GG_AT_POS (base/io.h). It is called once per tensor, from any thread. In
 * sequence it is called only from the calling thread and may then use run->threads itself. */
typedef gg_status (*gg_plan_make)(void *ctx, const gg_target *to, gg_error *err);

typedef struct gg_plan_tensor {
    gg_tensor t;         /* as written; the plan owns t.name */
    gg_plan_part *parts; /* owned; copied one after another */
    size_t n_parts;
    gg_plan_make make; /* instead of parts */
    void *ctx;
    gg_zeros zeros; /* known when it was written */
} gg_plan_tensor;

typedef struct gg_plan_file {
    char *path; /* owned */
    uint32_t version;
    gg_meta meta;       /* owned */
    size_t first, n;    /* its tensors */
    const gg_pad *pads; /* unusual padding to restore, not owned */
    size_t n_pads;
    gg_pad *own_pads; /* n_pads of them if the plan owns pads, else NULL */
    char *trailing;   /* file with bytes to append after the data, owned; NULL = none */
    uint64_t trailing_at, trailing_bytes;
    gg_stamp trailing_stamp;     /* of that file when it was planned */
    const char *trailing_sha256; /* of those bytes, NULL = unknown */
} gg_plan_file;

typedef struct gg_plan {
    gg_plan_tensor *tensors;
    size_t n, cap;
    gg_names names; /* of the tensors */
    gg_plan_file *files;
    size_t n_files;
    bool verify;       /* compare copied data with the sha256 of the parts */
    gg_source *base;   /* findings that it has too are not reported; may be NULL */
    bool all_findings; /* they are reported */
    gg_source *pipe;   /* a source that is a pipe, or NULL: see gg_plan_write */
    /* sha256 of the only file, compared before it gets its name (GG_EFORMAT); NULL = unknown.
     * Not for a plan that is written in sequence. */
    const char *result_sha256;
    gg_watch watch; /* sources of computed tensors, besides those of the parts */
    bool records;   /* of an organ directory, where names may be longer */
    bool keep_odd;  /* keep the pipe's unusual padding and trailing bytes (one file) */
    /* For a .safetensors file whose tensors have the names of Hugging Face: their GGUF names in
     * their order, one per line; NULL = they have GGUF names. */
    const char *hf_order;
    bool stored; /* names and keys are those of a safetensors file (gg_source_refusal) */
} gg_plan;

struct gg_computations;

/* Changes of a plan by a caller of gg_assemble. Functions may be NULL. */
typedef struct gg_plan_edit {
    void *ctx; /* first argument of all */
    /* Shows the source of a .safetensors file under other names, in *out, which gg_assemble closes.
     * `typed` tells that types were chosen. `output` is NULL if nothing is written. */
    gg_status (*names)(void *ctx, gg_source *of, bool typed, const char *output, gg_source **out,
                       gg_error *err);
    /* Changes tensors, which are planned as copies. Producers belong to the list `made`. The
     * importance matrix is that of the options, which stays open, or NULL. */
    gg_status (*tensors)(void *ctx, gg_plan *p, struct gg_computations *made, gg_imatrix *imatrix,
                         gg_error *err);
    /* Then changes the keys. */
    gg_status (*keys)(void *ctx, gg_meta *meta, gg_error *err);
    /* Writes what belongs to the model, before it. */
    gg_status (*beside)(void *ctx, const gg_plan *p, gg_error *err);
    /* The same after it. */
    gg_status (*after)(void *ctx, const char *output, const gg_run *run, gg_error *err);
} gg_plan_edit;

/* Append a tensor (name and shape of t) without parts; *out is valid until the
 * next append. GG_EFORMAT when the name is too long for a model. */
gg_status gg_plan_add(gg_plan *p, const gg_tensor *t, gg_plan_tensor **out, gg_error *err);
gg_status gg_plan_add_part(gg_plan_tensor *t, const gg_plan_part *part, gg_error *err);

/* Append a tensor that is computed. Its name, dtype and dims must be set. */
gg_status gg_plan_add_made(gg_plan *p, const gg_tensor *t, gg_plan_make make, void *ctx,
                           gg_error *err);

/* Has a planned tensor computed instead of copied, and frees its parts. */
void gg_plan_compute(gg_plan_tensor *t, gg_plan_make make, void *ctx);

/* A malloc'd copy of n tensors from number `first` on, or NULL with GG_ENOMEM. */
gg_tensor *gg_plan_list(const gg_plan *p, size_t first, size_t n, gg_error *err);

/* Adapts keys to the types of all tensors: gg_type_keys_update. */
gg_status gg_plan_type_keys(const gg_plan *p, gg_meta *meta, gg_error *err);

/* All bytes of tensor i of a source, with the sha256 of an organ directory. */
gg_plan_part gg_plan_whole(gg_source *source, size_t i);

/* Append tensor i of a source, which is copied unchanged. The source must outlive the plan.
 * With p->verify, its data is compared with the sha256 of the organ directory, if any. */
gg_status gg_plan_add_copy(gg_plan *p, gg_source *source, size_t i, gg_error *err);

/* GG_EUSAGE for an organ directory with single experts. No engine reads them in a GGUF file,
 * so its tensors cannot be copied one by one. */
gg_status gg_refuse_split_experts(const gg_source *s, gg_error *err);

/* The same, and GG_EUSAGE for organ records, which have no keys. */
gg_status gg_require_model(const gg_source *s, gg_error *err);

/* The GGUF version of a model or of the one that an organ directory came from. */
uint32_t gg_plan_version(const gg_source *s);

/* Put all tensors into one file. meta is copied. */
gg_status gg_plan_one_file(gg_plan *p, const char *path, uint32_t version, const gg_meta *meta,
                           gg_error *err);

/* Put a changed model into one file, like gg_plan_one_file. If the base is a single GGUF file,
 * or was extracted from one, its unusual padding and trailing bytes are kept. If the base has
 * several files, the split keys are removed. The base must outlive the plan. */
gg_status gg_plan_changed_file(gg_plan *p, const char *path, uint32_t version, const gg_meta *meta,
                               gg_source *base, gg_error *err);

/* Check the planned model by the rules of gg_check_model and report the findings. Then write
 * every file and give the files their names. *bytes is the number of bytes written.
 *
 * A file with the path "-" is written to stdout in sequence, so that stdout may be a pipe;
 * GG_EUSAGE if there are several files. With p->pipe set, files are written in sequence too,
 * and the plan must use the tensors of the pipe in their order. In both cases the memory used
 * does not depend on the size of the model. */
gg_status gg_plan_write(gg_plan *p, const gg_run *run, uint64_t *bytes, gg_error *err);

/* The sum of the sizes of all files. */
gg_status gg_plan_size(gg_plan *p, uint64_t *bytes, gg_error *err);

/* Adds all sources of the plan to p->watch. Part of gg_plan_write, which refuses files of sources
 * as outputs, and GG_EIO if a source was changed since it was opened. */
gg_status gg_plan_watch(gg_plan *p, gg_error *err);

void gg_plan_free(gg_plan *p);

/* How to divide a model: into a number of shards, or by their size. Both 0 = one file. */
typedef struct gg_split {
    uint32_t shards;
    uint64_t shard_size; /* bytes of tensor data per shard at most */
} gg_split;

static inline bool gg_is_split(const gg_split *s)
{
    return s->shards || s->shard_size;
}

/* Fill p->files with shards of the tensors planned, named after `output` (a shard's name, or
 * PREFIX.gguf). meta is copied to the first shard. GG_EUSAGE for more shards than tensors,
 * for too many, and for the output "-". */
gg_status gg_plan_shards(gg_plan *p, const gg_split *split, const char *output, uint32_t version,
                         const gg_meta *meta, gg_error *err);

/* Puts a changed model into one file or several: gg_plan_changed_file, or gg_plan_shards without
 * the split keys of the base in meta. */
gg_status gg_plan_output(gg_plan *p, const gg_split *split, const char *output, gg_meta *meta,
                         gg_source *base, const gg_run *run, gg_error *err);

/* Note the largest tensor if it alone exceeds `shard_size` (0 = no limit): a tensor is never
 * split, so its shard becomes larger than that. */
void gg_note_large_shard(const gg_plan *p, uint64_t shard_size, const gg_run *run);

/* Notes tensors that were written as 0, because all their values are too small for their types. */
void gg_note_zeroed(const gg_plan *p, const gg_run *run);

/* The number of GGUF files of a source, or of those that an organ directory came from. */
size_t gg_plan_file_count(const gg_source *s);

/* Whether these files have fewer tensors than the plan (> 0), more (< 0) or as many (0). */
int gg_plan_compare_files(const gg_plan *p, const gg_source *s);

/* Plan the files of the source again: the same number of tensors, keys and unusual bytes in each,
 * which gg_plan_compare_files must allow. `meta` replaces the keys of the first. They are named
 * after `output`. */
gg_status gg_plan_restore_files(gg_plan *p, gg_source *s, const gg_meta *meta, const char *output,
                                gg_error *err);
