/* gg_patch.h - patches: what has to change in one GGUF file to make another, byte for byte.
 *
 * A patch is itself a GGUF file. docs/formats.md describes it.
 * The general rules of organ.h apply.
 */
#pragma once

#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

typedef struct gg_patch_report {
    size_t tensors, keys;                 /* stored in the patch */
    size_t deleted_tensors, deleted_keys; /* removed by the patch */
    uint64_t bytes;                       /* written */
} gg_patch_report;

/* Writes the patch that turns `a` into `b` to the file `output`. Equal models give a patch that
 * changes nothing. Errors: GG_EUSAGE unless both are models of one GGUF file each, and if `b` is
 * itself a patch. */
gg_status gg_patch_write(gg_source *a, gg_source *b, const char *output, const gg_run *run,
                         gg_patch_report *report, gg_error *err);

/* Whether the source has the keys of a patch. */
bool gg_is_patch(const gg_source *s);

/* Applies `patch` to `base`, a model of one GGUF file, and writes the result to the file `output`,
 * which cannot be "-": the SHA-256 of the result is verified before it gets its name.
 * Errors: GG_NO if the patch was made for another file; GG_EFORMAT if it contradicts itself or the
 * base; GG_EUSAGE for other kinds of sources. */
gg_status gg_patch_apply(gg_source *base, gg_source *patch, const char *output, const gg_run *run,
                         gg_patch_report *report, gg_error *err);
