/* verb_prune.c - writes a model with fewer experts or hidden units: assembling with a changed plan.
 */
#include "prune.h"

#include "gguf/gguf.h"
#include "organ/source_layout.h"
#include "write/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pruning {
    gg_source *model;
    const gg_prune_options *o;
    const gg_run *run;
    gg_source *probe;      /* activations; NULL = none */
    gg_keep_experts *keep; /* NULL = all experts are kept */
    gg_imatrix *imatrix;   /* that of the run, or NULL */
} pruning;

/* Whether experts or units are chosen by scores. */
static bool chooses(const gg_prune_options *o)
{
    return o->experts || o->units || o->share > 0 || o->refit;
}

static gg_status check_options(const gg_prune_options *o, gg_error *err)
{
    bool importance = !o->by || strcmp(o->by, "importance") == 0;
    const struct {
        bool wrong;
        const char *what, *fix;
    } list[] = {
        { o->experts && o->list, "experts are listed, and their number is given too", NULL },
        { o->by && !(o->experts || o->share > 0), "the number of experts to keep is not given",
          NULL },
        { ((o->experts && importance) || o->units || o->share > 0) && !o->how.output.imatrix,
          "the importance of experts and units is unknown", "give an importance matrix" },
        { o->imatrix_out && !o->how.output.imatrix,
          "there is no importance matrix that could follow the model", "give one" },
        { o->refit && !(o->units || o->share > 0 || o->experts || o->list),
          "without fewer units or experts there is nothing to fit", NULL },
        { o->units && o->share > 0, "a share of the weights decides the number of units", NULL },
        { chooses(o) && (o->how.output.dtype || o->how.chooser),
          "an importance matrix of the whole model does not fit one with fewer experts",
          "re-encode the whole model first, then remove experts" },
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (!list[i].wrong) continue;
        gg_fail(err, GG_EUSAGE, "%s", list[i].what);
        return list[i].fix ? gg_fix(err, "%s", list[i].fix) : GG_EUSAGE;
    }
    return GG_OK;
}

/* Opens the activations, and notes if they are those of another file. A re-encoded model has nearly
 * the same. */
static gg_status open_activations(pruning *x, gg_error *err)
{
    const gg_model *m = gg_source_model(x->model);
    const gg_meta *meta;
    const char *named;
    char sha[65];
    size_t n;
    gg_status st = gg_source_open(x->o->refit, &x->probe, err);
    const gg_kv *kv = st == GG_OK && (meta = gg_source_meta(x->probe))
                          ? gg_meta_find(meta, "activations.model.sha256")
                          : NULL;
    if (!kv || !gg_kv_str(kv, &named, &n) || !m || m->n_files != 1) return st;
    st = gg_file_sha256(m->fds[0], 0, m->file_sizes[0], sha, NULL, err);
    if (st == GG_OK && (n != 64 || memcmp(named, sha, n) != 0))
        gg_note(x->run,
                "%s: these are the activations of another file; if it is not the same model in "
                "another type, compute them again",
                x->o->refit);
    return st;
}

/* Replaces the list, if there is one, by the part that is kept. Listed experts may lose units. */
static gg_status choose(pruning *x, const gg_plan *p, gg_error *err)
{
    const gg_prune_options *o = x->o;
    bool named = o->by && strcmp(o->by, "importance") != 0;
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)o->experts);
    gg_imatrix **texts = calloc(o->texts.n + 1, sizeof *texts);
    gg_keep_experts *listed = x->keep, *chosen = NULL;
    gg_expert_choice choice = { .number = o->experts ? number : NULL,
                                .listed = listed,
                                .units = o->units,
                                .share = o->share,
                                .scores = named ? o->by : NULL,
                                .imatrix = x->imatrix,
                                .texts = texts,
                                .n_texts = o->texts.n,
                                .tell = o->how.dry_run,
                                .refit = x->probe };
    gg_status st = texts ? GG_OK : gg_fail(err, GG_ENOMEM, "out of memory");
    for (size_t i = 0; i < o->texts.n && st == GG_OK; i++)
        st = gg_imatrix_open(o->texts.items[i], &texts[i], err);
    if (st == GG_OK)
        st = gg_rank_experts(p, gg_source_meta(x->model), &choice, &chosen, x->run, err);
    x->keep = chosen;
    gg_keep_experts_free(listed);
    for (size_t i = 0; texts && i < o->texts.n; i++) gg_imatrix_close(texts[i]);
    free(texts);
    return st;
}

static gg_status cut_tensors(void *ctx, gg_plan *p, gg_computations *made, gg_imatrix *imatrix,
                             gg_error *err)
{
    pruning *x = ctx;
    x->imatrix = imatrix;
    gg_status st = chooses(x->o) ? choose(x, p, err) : GG_OK;
    if (st == GG_OK && x->keep) st = gg_keep_experts_cut(x->keep, p, err);
    return st == GG_OK && x->keep ? gg_units_cut(x->keep, p, made, err) : st;
}

static gg_status change_keys(void *ctx, gg_meta *meta, gg_error *err)
{
    pruning *x = ctx;
    if (!x->keep) return GG_OK;
    gg_status st = gg_units_keys(x->keep, meta, x->run, err);
    if (st == GG_OK) st = gg_keep_experts_keys(x->keep, meta, x->run, err);
    return st == GG_OK ? gg_keep_experts_record(x->keep, meta, x->run, err) : st;
}

static gg_status write_imatrix(void *ctx, const gg_plan *p, gg_error *err)
{
    pruning *x = ctx;
    if (!x->o->imatrix_out) return GG_OK;
    return gg_keep_experts_imatrix(x->keep, p, x->imatrix, x->o->imatrix_out, x->run, err);
}

gg_status gg_prune(gg_source *model, const gg_prune_options *o, const char *output,
                   const gg_run *run, gg_assemble_report *report, gg_error *err)
{
    run = GG_OPTIONS(gg_run, run);
    pruning x = { .model = model, .o = o, .run = run };
    const gg_plan_edit edit = {
        .ctx = &x, .tensors = cut_tensors, .keys = change_keys, .beside = write_imatrix
    };
    gg_assemble_options how = o->how;
    how.edit = &edit;
    gg_status st = check_options(o, err);
    if (st == GG_OK && o->refit) st = open_activations(&x, err);
    if (st == GG_OK && o->list) st = gg_keep_experts_parse(o->list, &x.keep, err);
    if (st == GG_OK) st = gg_assemble(model, &how, output, run, report, err);
    gg_keep_experts_free(x.keep);
    gg_source_close(x.probe);
    return st;
}
