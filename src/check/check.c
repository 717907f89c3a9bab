/* check.c - runs the rules: on a source, on the header of a file whose data are incomplete, and on
 * a model that is about to be written. */
#include "check_context.h"

#include "base/error.h"
#include "base/grow.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "write/verb_run.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *gg_check_level_name(gg_check_level level)
{
    static const char *const names[] = { "note", "warning", "error" };
    return level < GG_CHECK_LEVELS ? names[level] : "?";
}

const gg_check_rule *gg_check_rule_at(size_t i)
{
    size_t n = 0;
    while (n < i && gg_check_rule_list[n].name) n++;
    return gg_check_rule_list[n].name ? &gg_check_rule_list[n] : NULL;
}

/* ---- what a file is ------------------------------------------------------------------------ */

const char *gg_kind_name(gg_kind kind)
{
    static const char *const names[] = { "language model",    "adapter",       "control vector",
                                         "importance matrix", "projector",     "patch",
                                         "vocabulary",        "organ records", "draft head",
                                         "prediction blocks" };
    return (unsigned)kind < GG_KIND_COUNT ? names[kind] : "unknown";
}

/* Reports a file that no engine loads as a model. */
static void check_kind(check *c)
{
    static const char *const uses[GG_KIND_COUNT] = {
        [GG_KIND_ADAPTER] = "an adapter: engines apply it to its base",
        [GG_KIND_CONTROL] = "a control vector: engines add it to a model",
        [GG_KIND_IMATRIX] = "an importance matrix: it tells how to quantize a model",
        [GG_KIND_PROJECTOR] = "a projector: engines load it beside its language model",
        [GG_KIND_PATCH] = "a patch: apply it to its base to get a model",
        [GG_KIND_RECORDS] = "organ records without keys: graft them, or assemble a directory",
    };
    if (uses[c->kind])
        say_error(c, "kind", at_name(""), "this is not a model but %s", uses[c->kind]);
}

/* Reports the remarks about a checkpoint as a whole. */
static void report_remarks(check *c)
{
    char line[1000];
    for (const char *p = c->in->remarks; p && *p; p += strcspn(p, "\n") + 1) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(p + 1, "\n"), p + 1);
        gg_check_report_finding(c, &(gg_finding){ *p == '!' ? GG_CHECK_WARNING : GG_CHECK_NOTE,
                                                  "checkpoint", "", line });
    }
}

/* Runs all rules on c->in. Findings are reported in a fixed order. */
static gg_status run_rules(check *c)
{
    gg_status st = gg_check_open(c);
    c->kind = GG_KIND_RECORDS;
    if (st == GG_OK && c->in->meta) gg_check_find_architecture(c);
    if (st == GG_OK && c->names_kind) check_kind(c);
    if (st == GG_OK) report_remarks(c);
    if (st == GG_OK) {
        gg_check_file_rules(c);
        if (c->text_model) {
            gg_check_key_rules(c);
            gg_check_vocabulary_rules(c);
            gg_check_table_rules(c);
            gg_check_block_rules(c);
        }
        st = c->status;
    }
    if (c->d.name) gg_escape(c->d.name, c->d.name_len, c->architecture, sizeof c->architecture);
    c->tensors = c->in->n;
    gg_check_close(c);
    return st;
}

gg_status gg_check_rules(const gg_check_input *in, const gg_check_options *o,
                         gg_check_report *report, gg_error *err)
{
    check c = { .o = o, .err = err, .in = in };
    gg_status st = run_rules(&c);
    memcpy(report->found, c.found, sizeof c.found);
    return st;
}

/* ---- a model ---------------------------------------------------------------------------- */

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

/* Checks the header of a file that cannot be opened, and reports why it cannot. Returns that error
 * if there is no usable header. */
static gg_status check_header(check *c, const char *spec, const gg_error *why, const gg_run *run,
                              bool *incomplete)
{
    uint64_t size = 0, count = 0;
    gg_gguf *g = header_alone(spec, &size);
    *incomplete = g && size < g->data_start + g->data_bytes;
    bool shards = g && gg_kv_u64(gg_meta_find(&g->meta, "split.count"), &count) && count > 1;
    const char *rule = shards ? "split" : *incomplete ? "incomplete" : "format";
    gg_check_report_finding(c, &(gg_finding){ GG_CHECK_ERROR, rule, why->tensor, why->what });
    gg_status st = c->status;
    if (!g) {
        gg_error_merge(c->err, why);
        return st == GG_OK ? why->status : st;
    }
    if (st == GG_OK && !shards) {
        gg_note(run, "%s: only the header was checked", spec);
        c->in = &(gg_check_input){ &g->meta, g->tensors, g->n_tensors, 1 };
        st = run_rules(c);
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

gg_status gg_check_model(const char *spec, const gg_check_options *o, const gg_run *run,
                         gg_check_report *report, gg_error *err)
{
    check c = { .o = GG_OPTIONS(gg_check_options, o), .err = err, .names_kind = true };
    bool incomplete = false;
    gg_error why = GG_ERROR_INIT, changed = GG_ERROR_INIT;
    gg_source_options watched = { .changed = &changed };
    gg_source *s = NULL;
    run = GG_OPTIONS(gg_run, run);
    gg_status st = gg_source_open_with(spec, &watched, &s, &why);
    if (st == GG_OK) {
        size_t n = gg_source_count(s);
        c.in = &(gg_check_input){ .meta = gg_source_meta(s),
                                  .tensors = n ? gg_source_tensor(s, 0) : NULL,
                                  .n = n,
                                  .files = files_of(s),
                                  .remarks = gg_source_remarks(s),
                                  .no_vocabulary = gg_source_is_checkpoint(s) };
        st = run_rules(&c);
        if (st == GG_OK && c.o->target) st = gg_check_target(&c, s, c.o->target);
        if (st == GG_OK && c.o->data) st = gg_check_data(&c, s, run);
    } else if (st == GG_EFORMAT || st == GG_EUNSUPPORTED) {
        st = check_header(&c, spec, &why, run, &incomplete);
    } else {
        gg_error_merge(err, &why);
    }
    gg_source_close(s);
    if (st == GG_OK) gg_error_merge(err, &changed);
    if (st == GG_OK) st = changed.status;
    if (report) {
        *report =
            (gg_check_report){ .incomplete = incomplete, .kind = c.kind, .tensors = c.tensors };
        memcpy(report->found, c.found, sizeof c.found);
        memcpy(report->architecture, c.architecture, sizeof c.architecture);
    }
    return st;
}

/* ---- a model that is about to be written ---------------------------------------------- */

#define SHOWN 8 /* number of findings with their own note */

typedef struct output_findings {
    const gg_planned *planned;
    uint64_t *known; /* hashes of the findings in the base */
    size_t n, cap;
    size_t fresh;    /* errors and warnings that the base does not have */
    char first[400]; /* first error, for the message of a refusal */
} output_findings;

static uint64_t hash_text(uint64_t h, const char *text)
{
    for (; *text; text++) h = (h ^ (uint8_t)*text) * 1099511628211u;
    return (h ^ 0xff) * 1099511628211u;
}

/* Findings in two models are the same if their rule and place are the same. */
static uint64_t identity(const gg_finding *f)
{
    return hash_text(hash_text(14695981039346656037u, f->rule), f->where);
}

static int by_identity(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static gg_status remember_finding(void *ctx, const gg_finding *f, gg_error *err)
{
    output_findings *all = ctx;
    if (GG_ROOM(all->known, all->n, &all->cap, err) != GG_OK) return GG_ENOMEM;
    all->known[all->n++] = identity(f);
    return GG_OK;
}

static gg_status note_finding(void *ctx, const gg_finding *f, gg_error *err)
{
    output_findings *all = ctx;
    if (f->level == GG_CHECK_ERROR && !all->first[0])
        snprintf(all->first, sizeof all->first, "%s%s%s (%s)", f->where, f->where[0] ? ": " : "",
                 f->message, f->rule);
    uint64_t id = identity(f);
    if (f->level == GG_CHECK_NOTE ||
        (all->n && bsearch(&id, all->known, all->n, sizeof id, by_identity)))
        return GG_OK;
    if (all->fresh++ >= SHOWN) return GG_OK;
    char line[500];
    snprintf(line, sizeof line, "check: %s%s%s (%s)", f->where, f->where[0] ? ": " : "", f->message,
             f->rule);
    return all->planned->note(all->planned->ctx, line, err);
}

static gg_status learn_base(output_findings *all, gg_source *base, gg_error *err)
{
    size_t n = base ? gg_source_count(base) : 0;
    if (n == 0 || !gg_source_meta(base)) return GG_OK;
    check c = { .o = &(gg_check_options){ .row = remember_finding, .ctx = all },
                .in = &(gg_check_input){ gg_source_meta(base), gg_source_tensor(base, 0), n, 1 },
                .err = err };
    gg_status st = run_rules(&c);
    if (all->n) qsort(all->known, all->n, sizeof *all->known, by_identity);
    return st;
}

gg_status gg_check_review(const gg_planned *planned, gg_error *err)
{
    const gg_run *run = planned->run;
    gg_check_input in = { planned->meta, planned->tensors, planned->n, planned->files };
    output_findings all = { .planned = planned };
    check c = { .o = &(gg_check_options){ .row = note_finding, .ctx = &all },
                .in = &in,
                .err = err };
    gg_status st = learn_base(&all, planned->base, err);
    if (st == GG_OK) st = run_rules(&c);
    if (st == GG_OK && all.fresh > SHOWN) {
        char line[80];
        snprintf(line, sizeof line, "check: %zu more findings; organ-check lists all of them",
                 all.fresh - SHOWN);
        st = planned->note(planned->ctx, line, err);
    }
    free(all.known);
    if (st != GG_OK || !run->strict || c.found[GG_CHECK_ERROR] == 0) return st;
    gg_fail(err, GG_NO, "an engine would refuse the result: %s", all.first);
    return gg_fix_hint(err, GG_HINT_STRICT, "correct it, or write it anyway");
}
