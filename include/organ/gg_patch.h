/* gg_patch.h - a patch: what has to change in one GGUF file to make another of it, byte for
 * byte. docs/formats.md describes the file. See gg_verbs.h for gg_run.
 */
#ifndef GG_PATCH_H
#define GG_PATCH_H

#include "gg_organ.h"
#include "gg_verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gg_patch_report {
    size_t tensors, keys;                 /* that the patch holds */
    size_t deleted_tensors, deleted_keys; /* that it removes */
    uint64_t bytes;                       /* written */
} gg_patch_report;

/* Write to `output` what makes `b` of `a`. Both are models of one GGUF file each: GG_EUSAGE
 * for anything else, and for a `b` that is a patch itself. Models without a difference give
 * a patch that changes nothing. */
gg_status gg_patch_write(gg_source *a, gg_source *b, const char *output, const gg_run *run,
                         gg_patch_report *report, gg_error *err);

/* Has this model the keys of a patch? */
bool gg_is_patch(const gg_source *s);

/* Apply `patch` to `base`, a model of one GGUF file, and write the result as `output`. GG_NO,
 * and nothing written, if the patch was made for a file with another sha256. GG_EFORMAT for
 * a patch that contradicts itself or the base; the result's sha256 is verified before its
 * name appears. */
gg_status gg_patch_apply(gg_source *base, gg_source *patch, const char *output, const gg_run *run,
                         gg_patch_report *report, gg_error *err);

#ifdef __cplusplus
}
#endif

#endif
