/* patch_write.h - makes patches (patch/gg_patch.h). */
#pragma once

#include "patch/gg_patch.h"

/* Writes the patch that turns `a` into `b` to the file `output`. Equal models give a patch that
 * changes nothing. Errors: GG_EUSAGE unless both are models of one GGUF file each, and if `b` is
 * itself a patch. */
gg_status gg_patch_write(gg_source *a, gg_source *b, const char *output, const gg_run *run,
                         gg_patch_report *report, gg_error *err);
