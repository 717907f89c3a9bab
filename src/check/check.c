/* check.c - runs the rules: on a source, on the header of a file whose data are incomplete, and on
 * a model that is about to be written. */
#include "check_context.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/text.h"
#include "hf/hf.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "write/verb_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

typedef struct kind_row {
    const char *word; /* in options */
    const char *use;  /* "this is ..."; NULL for a model */
    const char *gap;  /* why files of this kind are not checked; NULL = there are rules for them */
} kind_row;

static const kind_row kinds[GG_KIND_COUNT] = {
    [GG_KIND_MODEL] = { "model", NULL, NULL },
    [GG_KIND_ADAPTER] = { "adapter", "an adapter: engines apply it to its base", NULL },
    [GG_KIND_CONTROL] = { "control-vector", "a control vector: engines add it to a model", NULL },
    [GG_KIND_IMATRIX] = { "imatrix", "an importance matrix: it tells how to quantize a model",
                          NULL },
    [GG_KIND_PROJECTOR] = { "projector", "a projector: engines load it beside its language model",
                            NULL },
    [GG_KIND_PATCH] = { "patch", "a patch: apply it to its base to get a model",
                        "a patch is judged by its result" },
    [GG_KIND_VOCABULARY] = { "vocabulary", "a vocabulary: keys without tensors", NULL },
    [GG_KIND_RECORDS] = { "records",
                          "organ records without keys: graft them, or assemble a "
                          "directory",
                          "organ records have no keys" },
    [GG_KIND_DRAFT] = { "draft",
                        "a draft head: engines use it beside the model for which it drafts", NULL },
    [GG_KIND_MTP] = { "prediction-blocks", "prediction blocks without the trunk of their model",
                      NULL },
    [GG_KIND_IMAGE] = { "image-model",
                        "an image model; llama.cpp does not load it (stable-diffusion.cpp and "
                        "ComfyUI do)",
                        "llama.cpp does not load image models, and there are no rules for them" },
    [GG_KIND_SPEECH] = { "speech-model", "a speech model; llama.cpp does not load it",
                         "llama.cpp does not load speech models, and there are no rules for them" },
    [GG_KIND_CHECKPOINT] = { "checkpoint", "a checkpoint under its stored names",
                             "there are no rules for models that are not converted" },
    [GG_KIND_TENSORS] = { "safetensors", "a safetensors file without the configuration of a model",
                          "there are no rules for tensors alone" },
    [GG_KIND_EMPTY] = { "empty", "an empty file: it has neither tensors nor a vocabulary", NULL },
};

/* Names the kind of the file, unless it is a model or has the kind that was asked for. */
static void check_kind(check *c)
{
    const char *as = c->o->as, *use = kinds[c->kind].use;
    char text[300];
    if (as && strcmp(as, kinds[c->kind].word) != 0) {
        say_error(c, "kind", at_name(""), "it is not of the kind '%s': this is %s", as,
                  use ? use : "a language model");
        return;
    }
    if (!use || c->status != GG_OK || !c->o->row) return;
    snprintf(text, sizeof text, "this is %s", use);
    c->status = c->o->row(c->o->ctx, &(gg_finding){ GG_CHECK_NOTE, "kind", "", text }, c->err);
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

/* Reports why tensors are not those of GGUF. Without its base an adapter can only be looked at. */
static void report_refusal(check *c)
{
    const gg_error *why = c->in->refusal;
    const char *gap = kinds[c->kind].gap;
    if (c->kind == GG_KIND_TENSORS) {
        gg_check_unchecked(c, "%s", gap);
    } else if (why->status == GG_EUSAGE) {
        gg_check_unchecked(c, "%s", why->what);
    } else {
        gg_check_report_finding(
            c, &(gg_finding){ GG_CHECK_ERROR, "checkpoint", why->tensor, why->what });
        gg_check_unchecked(c, "%s", gap ? gap : "it cannot be converted");
    }
}

/* Runs all rules on c->in. Findings are reported in a fixed order. */
static gg_status run_rules(check *c)
{
    gg_status st = gg_check_open(c);
    c->kind = GG_KIND_RECORDS;
    if (st == GG_OK && c->in->meta) gg_check_find_architecture(c);
    if (st == GG_OK && c->in->refusal) {
        c->kind = c->in->kind;
        c->text_model = false;
    }
    if (st == GG_OK && c->of_file) check_kind(c);
    if (st == GG_OK) report_remarks(c);
    if (st == GG_OK && c->in->refusal) {
        report_refusal(c);
        st = c->status;
    } else if (st == GG_OK) {
        bool runs = c->kind == GG_KIND_MODEL || c->kind == GG_KIND_DRAFT;
        if (kinds[c->kind].gap) gg_check_unchecked(c, "%s", kinds[c->kind].gap);
        else if (runs && !c->text_model)
            gg_check_unchecked(c, "there are no rules for the architecture %.*s",
                               (int)(c->d.name_len < 64 ? c->d.name_len : 64), c->d.name);
        gg_check_file_rules(c);
        if (c->kind == GG_KIND_VOCABULARY) gg_check_vocabulary_rules(c);
        if (c->kind == GG_KIND_EMPTY)
            say_error(c, "tensor-missing", at_name(""),
                      "it has neither tensors nor a vocabulary, so that no program can use it");
        if (c->text_model) {
            gg_check_key_rules(c);
            gg_check_vocabulary_rules(c);
            gg_check_table_rules(c);
            gg_check_block_rules(c);
            if (c->kind == GG_KIND_DRAFT) gg_check_head_rules(c);
        }
        st = c->status;
    }
    if (c->d.name) gg_escape(c->d.name, c->d.name_len, c->architecture, sizeof c->architecture);
    c->tensors = c->in->n;
    gg_check_close(c);
    return st;
}

/* ---- verdicts ------------------------------------------------------------------------------- */

gg_verdict gg_check_verdict(const gg_check_report *r)
{
    if (r->found[GG_CHECK_ERROR] + r->found[GG_CHECK_WARNING] + r->found[GG_CHECK_NOTE])
        return GG_VERDICT_FINDINGS;
    return r->unchecked[0] ? GG_VERDICT_UNCHECKED : GG_VERDICT_SOUND;
}

void gg_check_verdict_text(const gg_check_report *r, char out[700])
{
    const size_t *n = r->found;
    switch (gg_check_verdict(r)) {
    case GG_VERDICT_SOUND: snprintf(out, 700, "no findings"); break;
    case GG_VERDICT_UNCHECKED: snprintf(out, 700, "not checked: %s", r->unchecked); break;
    case GG_VERDICT_FINDINGS:
        snprintf(out, 700, "%zu error%s, %zu warning%s, %zu note%s; %s", n[GG_CHECK_ERROR],
                 n[GG_CHECK_ERROR] == 1 ? "" : "s", n[GG_CHECK_WARNING],
                 n[GG_CHECK_WARNING] == 1 ? "" : "s", n[GG_CHECK_NOTE],
                 n[GG_CHECK_NOTE] == 1 ? "" : "s", r->worst);
    }
}

static void fill_report(const check *c, bool incomplete, gg_check_report *report)
{
    *report = (gg_check_report){ .incomplete = incomplete, .kind = c->kind, .tensors = c->tensors };
    memcpy(report->found, c->found, sizeof c->found);
    memcpy(report->architecture, c->architecture, sizeof c->architecture);
    memcpy(report->worst, c->worst, sizeof c->worst);
    memcpy(report->unchecked, c->unchecked, sizeof c->unchecked);
}

gg_status gg_check_rules(const gg_check_input *in, const gg_check_options *o,
                         gg_check_report *report, gg_error *err)
{
    check c = { .o = o, .err = err, .in = in };
    gg_status st = run_rules(&c);
    fill_report(&c, false, report);
    return st;
}

/* ---- a model ---------------------------------------------------------------------------- */

static uint32_t files_of(const gg_source *s)
{
    const gg_model *m = gg_source_model(s);
    const gg_manifest *d = gg_source_manifest(s);
    size_t n = m ? m->n_files : d ? d->n_files : 1;
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* Reports shards and data that are missing. */
static void check_lack(check *c, const gg_source_lack *lack, const char *path)
{
    if (lack->shards == 1 && lack->shard)
        say_error(c, "split", at_name(""), "a shard of %u is missing: %s", lack->of, lack->shard);
    else if (lack->shards)
        say_error(c, "split", at_name(""), "%u of %u shards are missing%s%s", lack->shards,
                  lack->of, lack->shard ? ", first " : "", lack->shard ? lack->shard : "");
    if (lack->cut)
        say_error(c, "incomplete", at_tensor(lack->cut),
                  "the tensor needs %" PRIu64 " bytes at offset %" PRIu64
                  ", but the file ends at %" PRIu64 "%s",
                  lack->cut->bytes, lack->offset, lack->size,
                  gg_is_part_name(path) ? "; " GG_PART_ADVICE : "");
    else if (lack->bytes)
        say_error(c, "incomplete", at_name(""), "at least %" PRIu64 " bytes of data are missing",
                  lack->bytes);
}

static void note_trailing(check *c, uint64_t bytes)
{
    if (bytes)
        say_note(c, "trailing", at_name(""),
                 "%" PRIu64 " bytes follow the data; engines do not read them", bytes);
}

/* Reports bytes after the data of the files, such as those of a second model. */
static void check_trailing(check *c, const gg_source *s)
{
    const gg_manifest *d = gg_source_manifest(s);
    uint64_t bytes = 0;
    for (size_t f = 0; f < gg_source_files(s); f++) bytes += gg_source_trailing(s, f);
    for (size_t f = 0; d && f < d->n_files; f++) bytes += d->files[f].trailing_bytes;
    note_trailing(c, bytes);
}

/* The same for a pipe whose tensors were all read: the rest is read and counted. */
static gg_status check_rest_of_pipe(check *c, gg_source *s)
{
    uint64_t bytes = 0;
    size_t n = gg_source_files(s);
    if (gg_source_seekable(s) || n == 0) return GG_OK;
    gg_status st = gg_source_copy_trailing(s, n - 1, -1, &bytes, c->err);
    if (st == GG_OK) note_trailing(c, bytes);
    return st == GG_OK ? c->status : st;
}

/* The tensors of a source in one list. Those of a pipe that carries several shards are copied to
 * *room, which the caller frees. */
static gg_status list_tensors(const gg_source *s, const gg_tensor **list, gg_tensor **room,
                              gg_error *err)
{
    size_t n = gg_source_count(s);
    *list = n ? gg_source_tensor(s, 0) : NULL;
    if (gg_source_seekable(s)) return GG_OK;
    *room = calloc(n + 1, sizeof **room);
    if (!*room) return gg_fail(err, GG_ENOMEM, "no memory to check %zu tensors", n);
    for (size_t i = 0; i < n; i++) (*room)[i] = *gg_source_tensor(s, i);
    *list = *room;
    return GG_OK;
}

/* Checks what the source has, and tells what it lacks. c->in is set to *in. */
static gg_status check_source(check *c, const gg_source *s, gg_check_input *in, gg_tensor **room)
{
    gg_source_lack lack = gg_source_lacks(s);
    *in = (gg_check_input){ .meta = gg_source_meta(s),
                            .n = gg_source_count(s),
                            .files = files_of(s),
                            .remarks = gg_source_remarks(s),
                            .no_vocabulary = gg_source_lacks_vocabulary(s),
                            .refusal = gg_source_refusal(s),
                            .kind = gg_kind_of(s) };
    gg_status st = list_tensors(s, &in->tensors, room, c->err);
    if (st != GG_OK) return st;
    c->in = in;
    check_lack(c, &lack, gg_source_name(s));
    check_trailing(c, s);
    if (lack.shards) {
        c->kind = gg_kind_of(s);
        c->tensors = in->n;
        gg_check_unchecked(c, "shards are missing");
        st = c->status;
    } else {
        if (lack.bytes) gg_check_unchecked(c, "only the header was checked");
        else if (lack.unread && !c->o->data)
            gg_check_unchecked(c, "only the header of a pipe was read");
        st = run_rules(c);
    }
    return st;
}

gg_status gg_check_source(const gg_source *s, const gg_check_options *o, gg_check_report *report,
                          gg_error *err)
{
    check c = { .o = o, .err = err, .of_file = true };
    gg_source_lack lack = gg_source_lacks(s);
    gg_check_input in;
    gg_tensor *room = NULL;
    gg_status st = check_source(&c, s, &in, &room);
    free(room);
    fill_report(&c, lack.shards || lack.bytes, report);
    return st;
}

/* Reports why a file cannot be opened. */
static void check_format(check *c, const gg_error *why)
{
    gg_check_report_finding(c, &(gg_finding){ GG_CHECK_ERROR, "format", why->tensor, why->what });
    snprintf(c->unchecked, sizeof c->unchecked, "it cannot be opened");
}

static gg_status check_as(const gg_check_options *o, gg_error *err)
{
    if (!o->as) return GG_OK;
    for (size_t k = 0; k < GG_KIND_COUNT; k++)
        if (strcmp(o->as, kinds[k].word) == 0) return GG_OK;
    char shown[80];
    gg_escape(o->as, strlen(o->as), shown, sizeof shown);
    gg_fail(err, GG_EUSAGE, "'%s' is not a kind of file", shown);
    return gg_fix(err, "give model, adapter, projector or imatrix");
}

/* With a function for notes, a shard whose set is incomplete is opened alone. */
static void no_note(void *ctx, const char *line)
{
    (void)ctx, (void)line;
}

gg_status gg_check_model(const char *spec, const gg_check_options *o, const gg_run *run,
                         gg_check_report *report, gg_error *err)
{
    check c = { .o = GG_OPTIONS(gg_check_options, o), .err = err, .of_file = true };
    gg_error why = GG_ERROR_INIT, changed = GG_ERROR_INIT;
    gg_source_options lenient = {
        .header_only = true, .note = no_note, .stored_names = true, .changed = &changed
    };
    gg_source_lack lack = { 0 };
    gg_check_input in;
    gg_tensor *room = NULL;
    gg_source *s = NULL;
    run = GG_OPTIONS(gg_run, run);
    gg_status st = check_as(c.o, err);
    if (st == GG_OK) st = gg_source_open_with(spec, &lenient, &s, &why);
    if (st == GG_OK) {
        lack = gg_source_lacks(s);
        bool whole = !lack.shards && !lack.bytes;
        st = check_source(&c, s, &in, &room);
        if (st == GG_OK && c.o->target && !lack.shards) st = gg_check_target(&c, s, c.o->target);
        if (st == GG_OK && c.o->data && whole && !c.o->target && c.kind == GG_KIND_DRAFT)
            st = gg_check_head_data(&c, s);
        if (st == GG_OK && c.o->data && whole) {
            st = gg_check_data(&c, s, run);
            if (st == GG_OK) st = check_rest_of_pipe(&c, s);
        }
    } else if (why.status == GG_EFORMAT || why.status == GG_EUNSUPPORTED) {
        check_format(&c, &why);
        if (c.status != GG_OK) st = c.status;
        else gg_error_merge(err, &why);
    } else {
        gg_error_merge(err, &why);
    }
    free(room);
    gg_source_close(s);
    if (st == GG_OK) gg_error_merge(err, &changed);
    if (st == GG_OK) st = changed.status;
    if (report) fill_report(&c, lack.shards || lack.bytes, report);
    return st;
}

/* ---- a model that is about to be written ---------------------------------------------- */

#define SHOWN 8 /* number of findings with their own note */

typedef struct output_findings {
    const gg_planned *planned;
    uint64_t *known; /* hashes of the findings in the base */
    size_t n, cap;
    size_t fresh;          /* errors and warnings that the base does not have */
    bool learnt;           /* the base was checked */
    bool unsound;          /* and has such errors */
    size_t contradictions; /* errors for which writing is refused */
    /* The first error, and the first of these, for the message of a refusal. */
    char first[400], contradiction[400];
} output_findings;

/* Findings in two models are the same if their rule and place are the same. */
static uint64_t identity(const gg_finding *f)
{
    uint64_t rule = gg_hash(GG_HASH, f->rule, strlen(f->rule) + 1);
    return gg_hash(rule, f->where, strlen(f->where) + 1);
}

static int by_identity(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool contradicts(const gg_finding *f)
{
    return f->level == GG_CHECK_ERROR && strncmp(f->where, "tokenizer.", 10) != 0 &&
           gg_text_has_word(gg_check_contradictions, f->rule, strlen(f->rule));
}

static gg_status remember_finding(void *ctx, const gg_finding *f, gg_error *err)
{
    output_findings *all = ctx;
    if (contradicts(f)) all->unsound = true;
    if (GG_ROOM(all->known, all->n, &all->cap, err) != GG_OK) return GG_ENOMEM;
    all->known[all->n++] = identity(f);
    return GG_OK;
}

/* Learns the findings of the base, once, and only if there is something to compare with them. */
static gg_status learn_base(output_findings *all, gg_error *err)
{
    gg_source *base = all->planned->base;
    if (all->learnt) return GG_OK;
    all->learnt = true;
    size_t n = base ? gg_source_count(base) : 0;
    if (base && gg_source_is_checkpoint(base)) return GG_OK;
    if (n == 0 || !gg_source_meta(base)) {
        all->unsound = true;
        return GG_OK;
    }
    check c = { .o = &(gg_check_options){ .row = remember_finding, .ctx = all },
                .in = &(gg_check_input){ gg_source_meta(base), gg_source_tensor(base, 0), n, 1 },
                .err = err };
    gg_status st = run_rules(&c);
    if (all->n) qsort(all->known, all->n, sizeof *all->known, by_identity);
    return st;
}

static gg_status note_finding(void *ctx, const gg_finding *f, gg_error *err)
{
    output_findings *all = ctx;
    char text[400], line[500];
    snprintf(text, sizeof text, "%s%s%s (%s)", f->where, f->where[0] ? ": " : "", f->message,
             f->rule);
    if (f->level == GG_CHECK_ERROR && !all->first[0]) memcpy(all->first, text, sizeof text);
    uint64_t id = identity(f);
    if (f->level == GG_CHECK_NOTE) return GG_OK;
    if (learn_base(all, err) != GG_OK) return err->status;
    bool known = all->n && bsearch(&id, all->known, all->n, sizeof id, by_identity);
    if (known && !all->planned->all_findings) return GG_OK;
    if (contradicts(f) && all->contradictions++ == 0) memcpy(all->contradiction, text, sizeof text);
    if (all->fresh++ >= SHOWN) return GG_OK;
    snprintf(line, sizeof line, "check: %s", text);
    return all->planned->note(all->planned->ctx, line, err);
}

static gg_status count_contradiction(void *ctx, const gg_finding *f, gg_error *err)
{
    (void)err;
    *(size_t *)ctx += contradicts(f);
    return GG_OK;
}

/* Counts the errors that the model would have if its architecture were `to`. */
static gg_status judge_as(const gg_planned *planned, const char *from, const char *to, size_t *n,
                          gg_error *err)
{
    gg_meta meta = GG_META_INIT;
    size_t len = strlen(from);
    gg_status st = GG_OK;
    for (size_t i = 0; i < planned->meta->n && st == GG_OK; i++) {
        gg_kv kv = planned->meta->kv[i];
        char key[256];
        if (gg_text_begins(kv.key, kv.key_len, "tokenizer.")) continue;
        if (kv.key_len < 200 && kv.key_len > len && memcmp(kv.key, from, len) == 0 &&
            kv.key[len] == '.') {
            kv.key_len = (size_t)snprintf(key, sizeof key, "%s%.*s", to, (int)(kv.key_len - len),
                                          kv.key + len);
            kv.key = key;
        }
        st = gg_meta_set(&meta, &kv, err);
    }
    if (st == GG_OK) st = gg_meta_set_str(&meta, "general.architecture", to, strlen(to), err);
    gg_check_input in = { &meta, planned->tensors, planned->n, 1 };
    check c = { .o = &(gg_check_options){ .row = count_contradiction, .ctx = n },
                .in = &in,
                .err = err };
    *n = 0;
    if (st == GG_OK) st = run_rules(&c);
    gg_meta_free(&meta);
    return st;
}

/* Writes the architectures whose tensors a converted checkpoint has to `to`; "" for none. */
static gg_status find_fitting(const gg_planned *planned, char to[120], gg_error *err)
{
    char arch[64];
    const char *last = "";
    size_t n, found = 0;
    gg_status st = GG_OK;
    to[0] = '\0';
    if (!gg_hf_arch(planned->meta, arch)) return GG_OK;
    for (const gg_hf_class *k = gg_hf_classes; k->name && st == GG_OK && found < 3; k++) {
        if (strcmp(k->arch, last) == 0 || strcmp(last = k->arch, arch) == 0) continue;
        st = judge_as(planned, arch, k->arch, &n, err);
        if (st != GG_OK || n) continue;
        size_t at = strlen(to);
        snprintf(to + at, 120 - at, "%s%s",
                 found++ ? " or " : "; the tensors fit the architecture ", k->arch);
    }
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
    gg_status st = run_rules(&c);
    if (st == GG_OK && all.fresh > SHOWN) {
        char line[80];
        snprintf(line, sizeof line, "check: %zu more findings; a check of the output lists all",
                 all.fresh - SHOWN);
        st = planned->note(planned->ctx, line, err);
    }
    free(all.known);
    if (st != GG_OK) return st;
    if (run->strict && c.found[GG_CHECK_ERROR]) {
        gg_fail(err, GG_NO, "an engine would refuse the result: %s", all.first);
        return gg_fix_by(err, "strict", "correct it, or write it anyway");
    }
    if (run->lenient || all.unsound || !planned->base || all.contradictions == 0) return GG_OK;
    char more[60] = "";
    if (all.contradictions > 1)
        snprintf(more, sizeof more, ", and %zu more error%s", all.contradictions - 1,
                 all.contradictions == 2 ? "" : "s");
    if (gg_source_is_checkpoint(planned->base)) {
        char fitting[120];
        if (find_fitting(planned, fitting, err) != GG_OK) return err->status;
        gg_fail(err, GG_EFORMAT, "its configuration and its tensors do not agree: %s%s%s",
                all.contradiction, more, fitting);
        gg_fix_by(err, "lenient", "correct config.json or the tensors, or write it anyway");
        return gg_at_file(err, gg_source_name(planned->base));
    }
    gg_fail(err, GG_NO, "an engine would refuse the result: %s%s", all.contradiction, more);
    return gg_fix_by(err, "lenient", "correct it, or write it anyway");
}
