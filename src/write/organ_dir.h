/* organ_dir.h - writes an organ directory: records in parallel, then the manifest, then its
 * name. Shared by all verbs that write one. Internal. */
#pragma once

#include "base/output.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"
#include "plan.h"
#include "selected_tensors.h"

/* What a directory has in addition about a tensor of its plan. */
typedef struct gg_dir_item {
    uint8_t cls;   /* its class, which may be that of an edited manifest */
    size_t source; /* the tensor of the base that it is, or replaces; SIZE_MAX = none */
    bool expert;   /* one expert of a stack */
    char *history; /* JSON object to append to its history; owned, NULL = unchanged */
    char *file;    /* its file name; owned */
    char sha[65];
} gg_dir_item;

typedef struct gg_organ_dir {
    gg_source *base; /* metadata, layout, and everything unchanged */
    const gg_run *run;
    gg_outdir *out;
    gg_plan plan;       /* the tensors; without files */
    gg_dir_item *items; /* one per tensor; owned */
    size_t cap;
    const gg_meta *meta; /* instead of the base's, or NULL */
    gg_held_notes notes; /* of gg_organ_dir_check */
    bool whole; /* nothing of the base is left out: keep its unusual padding and trailing bytes */
    bool link;  /* unchanged files of a base directory are hard links */
} gg_organ_dir;

/* GG_EUSAGE if the name exists and run->force is false. */
gg_status gg_organ_dir_open(gg_organ_dir *d, gg_source *base, const char *path, const gg_run *run,
                            gg_error *err);

/* Append a tensor, which the caller gives parts or a producer; *out is valid until the next append.
 * p->source = SIZE_MAX: the base has none. */
gg_status gg_organ_dir_add(gg_organ_dir *d, const gg_selected *p, gg_plan_tensor **out,
                           gg_error *err);

/* Append a tensor, or an expert, with the bytes of the base. */
gg_status gg_organ_dir_copy(gg_organ_dir *d, const gg_selected *p, gg_error *err);

/* Give every item its file name. Call it when all items are added. */
gg_status gg_organ_dir_names(gg_organ_dir *d, gg_error *err);

/* Has the run review the planned directory, see gg_review. Notes are
 * given when the directory is complete. A directory with experts in separate records is not a
 * model and is not checked. */
gg_status gg_organ_dir_check(gg_organ_dir *d, gg_error *err);

/* Write record i, whose bytes are those of the base, under any name in the directory. Records of a
 * pipe are written in order. */
gg_status gg_organ_dir_record(gg_organ_dir *d, size_t i, const char *name, gg_error *err);

/* Write all records in parallel. The base must be seekable. */
gg_status gg_organ_dir_records(gg_organ_dir *d, gg_error *err);

/* If st is GG_OK, write the manifest and commit the directory, else remove what was written.
 * Frees everything that d owns. Returns the final status. */
gg_status gg_organ_dir_close(gg_organ_dir *d, gg_status st, gg_error *err);
