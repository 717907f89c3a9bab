/* plan.h - a model about to be written: every tensor, where its bytes come from,
 * every file. Nothing is opened for writing before the plan is complete, so what
 * can be refused is refused first. Internal.
 */
#ifndef GG_PLAN_H
#define GG_PLAN_H

#include "base/names.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"
#include "organ/manifest.h"
#include "verbs/shared/hashcopy.h"
#include "verbs/shared/watch.h"

/* Computes a tensor instead of copying it: writes t->bytes bytes at `at` of fd, or in
 * sequence if `at` is GG_AT_POS (base/io.h). Called once per tensor, from any thread; in
 * sequence from the calling thread only, and it may then use run->threads itself. */
typedef gg_status (*gg_plan_make)(void *ctx, const gg_tensor *t, int fd, uint64_t at,
                                  const gg_run *run, gg_error *err);

typedef struct gg_plan_tensor {
    gg_tensor t;         /* as written; the plan owns t.name */
    gg_plan_part *parts; /* owned; copied one after another */
    size_t n_parts;
    gg_plan_make make; /* instead of parts */
    void *ctx;
} gg_plan_tensor;

typedef struct gg_plan_file {
    char *path; /* owned */
    uint32_t version;
    gg_meta meta;       /* owned */
    size_t first, n;    /* its tensors */
    const gg_pad *pads; /* odd padding to restore, not owned */
    size_t n_pads;
    gg_pad *own_pads; /* pads, where they are the plan's own; n_pads of them */
    char *trailing;   /* file with bytes to append after the data, owned; NULL = none */
    uint64_t trailing_at, trailing_bytes;
    const char *trailing_sha256; /* of those bytes, NULL = unknown */
} gg_plan_file;

typedef struct gg_plan {
    gg_plan_tensor *tensors;
    size_t n, cap;
    gg_names names; /* of the tensors */
    gg_plan_file *files;
    size_t n_files;
    bool verify;     /* hold sha256 of parts against what is copied */
    gg_source *base; /* whose faults are not reported again, or NULL */
    gg_source *pipe; /* a source that is a pipe, or NULL: see gg_plan_write */
    /* Of the one file: compared before it gets its name (GG_EFORMAT); NULL = not known. Not
     * for a plan that is written in sequence. */
    const char *result_sha256;
    gg_watch watch; /* sources besides those of parts: of what is computed */
    bool keep_odd;  /* take over the pipe's odd padding and trailing bytes (one file) */
} gg_plan;

/* Append a tensor (name and shape of t) without parts; *out is valid until the
 * next append. GG_EFORMAT when the name is too long for a model. */
gg_status gg_plan_add(gg_plan *p, const gg_tensor *t, gg_plan_tensor **out, gg_error *err);
gg_status gg_plan_add_part(gg_plan_tensor *t, const gg_plan_part *part, gg_error *err);

/* Append tensor i of a source, which is copied unchanged; the source must outlive the
 * plan. The sha256 that an organ directory states for it is checked with p->verify. */
gg_status gg_plan_add_copy(gg_plan *p, gg_source *source, size_t i, gg_error *err);

/* GG_EUSAGE for an organ directory whose stacks of experts are taken apart: no engine
 * reads such tensors in a GGUF file, so it cannot become one tensor by tensor. */
gg_status gg_refuse_split_experts(const gg_source *s, gg_error *err);

/* The GGUF version of a model or of the one that an organ directory came from. */
uint32_t gg_plan_version(const gg_source *s);

/* One file of all tensors. meta is copied. */
gg_status gg_plan_one_file(gg_plan *p, const char *path, uint32_t version, const gg_meta *meta,
                           gg_error *err);

/* Padding and bytes after the tensors that the layout of an organ directory has kept;
 * the layout must outlive the plan. */
gg_status gg_plan_odd_bytes(gg_plan_file *f, const gg_file_layout *layout, const char *dir,
                            gg_error *err);

/* The same of GGUF file `file` of a seekable model, which must outlive the plan. */
gg_status gg_plan_source_bytes(gg_plan_file *f, gg_source *source, size_t file, gg_error *err);

/* The one file of a changed model: as gg_plan_one_file, and of a base that is one GGUF
 * file, or was before it became a directory, the odd padding and the bytes after the
 * tensors stay; of one that is several the keys that number its shards go. The base must outlive
 * the plan. */
gg_status gg_plan_changed_file(gg_plan *p, const char *path, uint32_t version, const gg_meta *meta,
                               gg_source *base, gg_error *err);

/* Check what will be written by the rules of organ-check, report it, and then write
 * every file and give them their names. *bytes is what was written.
 *
 * One file whose path is "-" goes to stdout: front to back, in one pass, so that stdout
 * may be a pipe. GG_EUSAGE if there are several. With p->pipe set, files are written front
 * to back too, and the plan must use the tensors of the pipe in their order. Both need
 * no more memory for a larger model. */
gg_status gg_plan_write(gg_plan *p, const gg_run *run, uint64_t *bytes, gg_error *err);

/* GG_EIO if a source of the plan was changed since it was opened. Part of gg_plan_write. */
gg_status gg_plan_sources_unchanged(gg_plan *p, gg_error *err);

void gg_plan_free(gg_plan *p);

#endif
