/* verb_assemble.c - an organ directory back into a model, whole or in shards. */
#include "gg_verbs.h"

#include "assemble_shards.h"
#include "plan.h"
#include "stacks.h"

#include <stdlib.h>
#include <string.h>

/* ---- which tensors ---------------------------------------------------------------- */

static gg_status add_plain(gg_plan *p, gg_source *dir, size_t i, gg_error *err)
{
    const gg_entry *e = &gg_source_manifest(dir)->entries[i];
    gg_plan_tensor *pt;
    gg_status st = gg_plan_add(p, &e->t, &pt, err);
    gg_plan_part part = { dir, i, 0, e->t.bytes, e->sha256 };
    return st == GG_OK ? gg_plan_add_part(pt, &part, err) : st;
}

static gg_status add_tensors(gg_plan *p, gg_source *dir, gg_stacks *stacks, gg_error *err)
{
    const gg_manifest *m = gg_source_manifest(dir);
    gg_status st = GG_OK;
    for (size_t i = 0; i < m->n_entries && st == GG_OK; i++) {
        size_t k = gg_stacks_of(stacks, i);
        if (k == SIZE_MAX) st = add_plain(p, dir, i, err);
        else if (gg_stacks_first(stacks, k) == i) st = gg_stacks_add(stacks, k, dir, p, err);
    }
    return st;
}

/* ---- all of it ------------------------------------------------------------------------ */

gg_status gg_assemble(const char *dir, const gg_assemble_options *o, const char *output,
                      const gg_run *run, gg_assemble_report *report, gg_error *err)
{
    gg_source *s;
    gg_stacks *stacks = NULL;
    gg_plan p = { .verify = !o->no_verify };
    *report = (gg_assemble_report){ 0 };
    gg_status st = gg_source_open(dir, &s, err);
    if (st != GG_OK) return st;
    const gg_manifest *m = gg_source_manifest(s);
    if (!m) {
        gg_fail(err, GG_EUSAGE, "is no organ directory");
        gg_fix(err, "make one with organ-extract");
        st = gg_at_file(err, dir);
    }
    if (st == GG_OK) st = gg_stacks_new(m, &stacks, err);
    if (st == GG_OK) st = add_tensors(&p, s, stacks, err);
    if (st == GG_OK) st = gg_assemble_files(&p, m, dir, o, output, err);
    if (st == GG_OK) st = gg_plan_write(&p, run, &report->bytes, err);
    if (st == GG_OK) {
        report->files = p.n_files;
        report->tensors = p.n;
    } else {
        gg_at_file(err, dir);
    }
    gg_plan_free(&p);
    gg_stacks_free(stacks);
    gg_source_close(s);
    return st;
}
