/* check_model.c - runs the rules on a source: a file, shards, a directory, a pipe, or the
 * header of a file whose data are incomplete. */
#include "check_data.h"

#include "base/error.h"
#include "check_rules.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "verbs/shared/verb_run.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

gg_status gg_check_report_one(const gg_finding *f, gg_finding_fn fn, void *ctx,
                              size_t found[GG_CHECK_LEVELS], gg_error *err)
{
    found[f->level]++;
    return fn ? fn(ctx, f, err) : GG_OK;
}

/* Reads the header of a GGUF file whose data are damaged or incomplete. Returns NULL if it
 * cannot be read. */
static gg_gguf *header_alone(const char *path, uint64_t *size)
{
    gg_error ignored = GG_ERROR_INIT;
    gg_gguf *g = NULL;
    uint8_t *surplus = NULL;
    size_t surplus_len;
    struct stat s;
    int fd = strcmp(path, "-") == 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) &&
        gg_gguf_read_pipe(fd, NULL, 0, &g, &surplus, &surplus_len, &ignored) != GG_OK)
        g = NULL;
    free(surplus);
    close(fd);
    *size = (uint64_t)s.st_size;
    return g;
}

/* Reports a problem with the file as a whole as a finding. */
static gg_status report_file(const char *rule, const gg_error *why, gg_finding_fn fn, void *ctx,
                             gg_check_report *r, gg_error *err)
{
    gg_finding f = { GG_CHECK_ERROR, rule, why->tensor, why->what };
    return gg_check_report_one(&f, fn, ctx, r->found, err);
}

/* Checks the header of a file that cannot be opened, and reports why it cannot. */
static gg_status check_header(const char *spec, gg_error *why, const gg_run *run, gg_finding_fn fn,
                              void *ctx, gg_check_report *r, gg_error *err)
{
    uint64_t size = 0;
    gg_gguf *g = header_alone(spec, &size);
    if (!g) {
        gg_status st = report_file("format", why, fn, ctx, r, err);
        gg_error_merge(err, why);
        return st == GG_OK ? why->status : st;
    }
    uint64_t count = 0;
    r->incomplete = size < g->data_start + g->data_bytes;
    bool shards = gg_kv_u64(gg_meta_find(&g->meta, "split.count"), &count) && count > 1;
    gg_status st = report_file(shards          ? "split"
                               : r->incomplete ? "incomplete"
                                               : "format",
                               why, fn, ctx, r, err);
    if (st == GG_OK && !shards) {
        gg_note(run, "%s: only the header was checked", spec);
        gg_check_input in = { &g->meta, g->tensors, g->n_tensors, 1 };
        size_t found[GG_CHECK_LEVELS];
        st = gg_check_rules(&in, fn, ctx, found, err);
        for (int i = 0; i < GG_CHECK_LEVELS; i++) r->found[i] += found[i];
    }
    gg_gguf_free(g);
    return st;
}

static uint32_t files_of(const gg_source *s)
{
    const gg_model *m = gg_source_model(s);
    const gg_manifest *d = gg_source_manifest(s);
    size_t n = m ? m->n_files : d ? d->n_files : 1;
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static gg_status check_source(gg_source *s, const gg_check_options *o, const gg_run *run,
                              gg_finding_fn fn, void *ctx, gg_check_report *r, gg_error *err)
{
    size_t n = gg_source_count(s);
    gg_check_input in = { gg_source_meta(s), n ? gg_source_tensor(s, 0) : NULL, n, files_of(s) };
    gg_status st = gg_check_rules(&in, fn, ctx, r->found, err);
    if (st == GG_OK && o && o->data) st = gg_check_data(s, run, fn, ctx, r->found, err);
    return st;
}

gg_status gg_check_model(const char *spec, const gg_check_options *o, const gg_run *run,
                         gg_finding_fn fn, void *ctx, gg_check_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_check_options, o);
    run = GG_OPTIONS(gg_run, run);
    gg_check_report r = { 0 };
    gg_error why = GG_ERROR_INIT;
    gg_source *s = NULL;
    gg_status st = gg_source_open_with(spec, NULL, &s, &why);
    if (st == GG_OK) st = check_source(s, o, run, fn, ctx, &r, err);
    else if (st == GG_EFORMAT || st == GG_EUNSUPPORTED)
        st = check_header(spec, &why, run, fn, ctx, &r, err);
    else gg_error_merge(err, &why);
    gg_source_close(s);
    if (report) *report = r;
    return st;
}
