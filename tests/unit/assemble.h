/* assemble.h - gg_assemble for the model at a path. */
#ifndef ASSEMBLE_H
#define ASSEMBLE_H

#include "organ/gg_verbs.h"

static inline gg_status assemble_path(const char *path, const gg_assemble_options *o,
                                      const char *output, const gg_run *run, gg_error *e)
{
    gg_source *s = NULL;
    gg_status st = gg_source_open_with(path, NULL, &s, e);
    if (st == GG_OK) st = gg_assemble(s, o, output, run, NULL, e);
    gg_source_close(s);
    return st;
}

#endif
