/* merge_rows.h - checks and counts the rows of a merge, for the targets of organ-merge. */
#ifndef MERGE_ROWS_H
#define MERGE_ROWS_H

#include "room.h"

#include "organ/gg_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A gg_merge_fn. ctx is a size_t, the number of rows so far. */
static gg_status row(void *ctx, const gg_tensor *t, const gg_anatomy *a, const char *how,
                     const char *parameters, gg_error *e)
{
    (void)t, (void)a, (void)e;
    FUZZ_MUST(strcmp(how, "merge") == 0 || strcmp(how, "copy") == 0);
    for (const char *p = parameters; *p; p++) FUZZ_MUST((unsigned char)*p >= ' ');
    ++*(size_t *)ctx;
    return GG_OK;
}

#endif
