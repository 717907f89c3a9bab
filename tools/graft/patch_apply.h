/* patch_apply.h - applies patches (patch/gg_patch.h). */
#pragma once

#include "patch/gg_patch.h"

/* Applies `patch` to `base`, a model of one GGUF file, and writes the result to the file `output`,
 * which cannot be "-": the SHA-256 of the result is verified before it gets its name.
 * Errors: GG_NO if the patch was made for another file; GG_EFORMAT if it contradicts itself or the
 * base; GG_EUSAGE for other kinds of sources. */
gg_status gg_patch_apply(gg_source *base, gg_source *patch, const char *output, const gg_run *run,
                         gg_patch_report *report, gg_error *err);
