/* merge_rows.h - checks and counts the rows of a merge, for the targets of organ-merge. */
#ifndef MERGE_ROWS_H
#define MERGE_ROWS_H

#include "room.h"

#include "merge/gg_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A gg_merge_fn. ctx is a size_t, the number of rows so far. */
static inline gg_status row(void *ctx, const gg_merge_row *r, gg_error *e)
{
    (void)e;
    FUZZ_MUST(strcmp(r->how, "merge") == 0 || strcmp(r->how, "copy") == 0);
    for (const char *p = r->parameters; *p; p++) FUZZ_MUST((unsigned char)*p >= ' ');
    ++*(size_t *)ctx;
    return GG_OK;
}

/* Merges the models of a configuration, which it opens. */
static inline gg_status merge_config(const gg_merge_config *c, gg_merge_options *o,
                                     const gg_run *run, const char *output, gg_merge_report *r,
                                     gg_error *e)
{
    const gg_source_options spooled = { .spooled = true };
    gg_merge_model *list = calloc(c->n_models + 1, sizeof *list);
    gg_merge_models m = { .list = list, .slices = c->slices, .n_slices = c->n_slices };
    FUZZ_MUST(list);
    o->method = c->method;
    o->parameters = c->parameters;
    if (c->words) {
        o->vocabulary.words = strcmp(c->words, "base") == 0 ? GG_MERGE_WORDS_BASE
                                                            : GG_MERGE_WORDS_UNION;
        o->vocabulary.multiple = c->multiple;
    }
    gg_status st = c->base ? gg_source_open_with(c->base, &spooled, &m.base, e) : GG_OK;
    for (; m.n < c->n_models && st == GG_OK; m.n++) {
        list[m.n].parameters = c->models[m.n].parameters;
        st = gg_source_open_with(c->models[m.n].path, &spooled, &list[m.n].source, e);
    }
    if (st == GG_OK) st = gg_merge(&m, o, output, run, r, e);
    gg_source_close(m.base);
    for (size_t i = 0; i < m.n; i++) gg_source_close(list[i].source);
    free(list);
    return st;
}

#endif
