/* verb_lora.c - a LoRA adapter from the difference of two models. With `energy` the ranks are known
 * only after all matrices were decomposed, so the factors are kept in a temporary file until the
 * adapter can be planned. */
#include "lora_core.h"

#include "base/error.h"
#include "base/io.h"
#include "base/output.h"
#include "base/parallel.h"
#include "organ/gg_quant.h"
#include "organ/output_guard.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "verbs/shared/selected_tensors.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SKIP_STEP ((uint64_t)65536)

/* ---- tensors ------------------------------------------------------------------------- */

static bool named(const gg_tensor *t, const char *name)
{
    return t->name_len == strlen(name) && memcmp(t->name, name, t->name_len) == 0;
}

static void describe(const lora_job *x, lora_target *g)
{
    uint64_t experts;
    const gg_tensor *t = &g->t;
    bool stack = gg_is_expert_stack(t, &experts) && t->n_dims == 3;
    g->cols = t->dims[0];
    g->rows = t->dims[1];
    g->experts = stack ? experts : 1;
    g->swapped = named(t, "token_embd.weight");
    g->matrix = t->n_dims >= 2 && g->rows > 1 && g->cols > 1 &&
                t->elements == g->rows * g->cols * g->experts;
    if (g->swapped && gg_source_find(x->base, "output.weight", 13) == SIZE_MAX) g->matrix = false;
}

/* Finds tensor i of the base in the tuned model. */
static gg_status find_target(const lora_job *x, size_t i, lora_target *g, gg_error *err)
{
    *g = (lora_target){ .t = *gg_source_tensor(x->base, i), .base = i };
    g->tuned = gg_source_find(x->tuned, g->t.name, g->t.name_len);
    gg_status st = GG_OK;
    if (g->tuned == SIZE_MAX) {
        st = gg_fail(err, GG_NO, "the tuned model does not have this tensor");
    } else {
        const gg_tensor *t = gg_source_tensor(x->tuned, g->tuned);
        if (memcmp(t->dims, g->t.dims, sizeof t->dims) != 0)
            st = gg_fail(err, GG_NO, "the tuned model has this tensor with other dimensions");
        else if (!gg_can_decode(t->dtype) || !gg_can_decode(g->t.dtype))
            st = gg_fail(err, GG_EUNSUPPORTED, "its dtype cannot be decoded");
    }
    if (st != GG_OK) return gg_at_tensor(err, g->t.name, g->t.name_len);
    describe(x, g);
    st = gg_verify_data(x->base, g->base, err);
    return st == GG_OK ? gg_verify_data(x->tuned, g->tuned, err) : st;
}

static void note_lost(lora_job *x, const gg_tensor *t, gg_error *err)
{
    if (x->lost.len && (!t || x->lost.len + t->name_len > 380)) {
        gg_note(x->run, "not in the adapter, which holds matrices only: %.*s", (int)x->lost.len,
                x->lost.data);
        gg_buf_clear(&x->lost);
    }
    if (t)
        gg_buf_printf(&x->lost, err, "%s%.*s", x->lost.len ? ", " : "", (int)t->name_len, t->name);
}

/* Counts a tensor that no adapter can hold, if it differs. */
static gg_status skip(lora_job *x, const lora_target *g, gg_error *err)
{
    bool differs = false;
    gg_status st = GG_OK;
    float *d = malloc(65536 * sizeof *d);
    if (!d) return gg_fail(err, GG_ENOMEM, "no memory for values");
    for (uint64_t at = 0; at < g->t.elements && st == GG_OK && !differs; at += 65536) {
        uint64_t n = g->t.elements - at < 65536 ? g->t.elements - at : 65536;
        lora_piece p = { x->base, x->tuned, g, at, n };
        st = gg_lora_difference(&p, d, 1, err);
        for (size_t k = 0; k < n && st == GG_OK; k++) differs |= d[k] != 0;
    }
    free(d);
    if (!differs) x->report->equal++;
    else x->report->lost++;
    if (differs) note_lost(x, &g->t, err);
    return st == GG_OK ? err->status : st;
}

/* ---- the adapter --------------------------------------------------------------------- */

static gg_status check_models(const lora_job *x, gg_error *err)
{
    const gg_meta *a = gg_source_meta(x->base), *b = gg_source_meta(x->tuned);
    const char *ta, *tb;
    size_t na, nb;
    if (!a || !b || !gg_kv_str(gg_meta_find(a, "general.architecture"), &ta, &na) ||
        !gg_kv_str(gg_meta_find(b, "general.architecture"), &tb, &nb))
        return gg_fail(err, GG_EFORMAT, "a model has no general.architecture");
    if (na != nb || memcmp(ta, tb, na) != 0)
        return gg_fail(err, GG_NO, "the models have different architectures");
    gg_status st = gg_refuse_split_experts(x->base, err);
    return st == GG_OK ? gg_refuse_split_experts(x->tuned, err) : st;
}

static gg_status take_tensors(lora_job *x, gg_error *err)
{
    size_t n = gg_source_count(x->base), selected = 0;
    gg_status st = GG_OK;
    gg_progress_total(x->run, 2 * gg_selected_bytes(x->base, x->o->select));
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(x->base, i);
        gg_anatomy a = gg_source_anatomy(x->base, i);
        lora_target g;
        if (!gg_select_match(x->o->select, t->name, t->name_len, &a)) continue;
        selected++;
        st = gg_cancelled(err);
        if (st == GG_OK) st = find_target(x, i, &g, err);
        if (st == GG_OK) st = g.matrix ? gg_lora_add_pair(x, &g, err) : skip(x, &g, err);
    }
    note_lost(x, NULL, err);
    if (st != GG_OK) return st;
    if (selected == 0) return gg_fail(err, GG_NO, "no tensor is selected");
    if (x->report->pairs == 0) return gg_fail(err, GG_NO, "no selected matrix differs");
    return GG_OK;
}

static gg_status make_half(void *ctx, const gg_target *to, gg_error *err)
{
    const lora_half *h = ctx;
    gg_place from = { h->fd, h->at };
    gg_status st = gg_copy(from, (gg_place){ to->fd, to->at }, to->t->bytes, err);
    gg_progress_add(to->run, to->t->bytes);
    return st;
}

static gg_status set_keys(const lora_job *x, gg_meta *meta, gg_error *err)
{
    static const char *const fixed[][2] = { { "general.type", "adapter" },
                                            { "adapter.type", "lora" } };
    const char *text;
    size_t len;
    float alpha = (float)gg_lora_alpha(x->o);
    gg_kv kv = { .key = "adapter.lora.alpha",
                 .key_len = 18,
                 .type = GG_TYPE_F32,
                 .count = 1,
                 .data = (const uint8_t *)&alpha,
                 .size = sizeof alpha };
    gg_kv_str(gg_meta_find(gg_source_meta(x->base), "general.architecture"), &text, &len);
    gg_status st = gg_meta_set_str(meta, "general.architecture", text, len, err);
    for (size_t i = 0; i < 2 && st == GG_OK; i++)
        st = gg_meta_set_str(meta, fixed[i][0], fixed[i][1], strlen(fixed[i][1]), err);
    if (st == GG_OK) st = gg_meta_set(meta, &kv, err);
    if (st == GG_OK &&
        gg_kv_str(gg_meta_find(gg_source_meta(x->tuned), "general.name"), &text, &len))
        st = gg_meta_set_str(meta, "general.name", text, len, err);
    return st;
}

static gg_status write_adapter(lora_job *x, const char *output, gg_error *err)
{
    gg_meta meta = GG_META_INIT;
    gg_status st = set_keys(x, &meta, err);
    for (size_t i = 0; i < x->n && st == GG_OK; i++) {
        gg_plan_tensor *pt;
        st = gg_plan_add(&x->plan, &x->halves[i]->t, &pt, err);
        if (st != GG_OK) break;
        pt->make = make_half;
        pt->ctx = x->halves[i];
    }
    if (st == GG_OK) st = gg_plan_one_file(&x->plan, output, 3, &meta, err);
    gg_meta_free(&meta);
    if (st == GG_OK) st = gg_watch_add(&x->plan.watch, x->base, err);
    if (st == GG_OK) st = gg_watch_add(&x->plan.watch, x->tuned, err);
    return st == GG_OK ? gg_plan_write(&x->plan, x->run, &x->report->bytes, err) : st;
}

static gg_status check_call(const lora_job *x, const char *output, gg_error *err)
{
    if (!(x->o->energy >= 0 && x->o->energy <= 1))
        return gg_fail(err, GG_EUSAGE, "the share to keep must be above 0 and at most 1");
    if (!gg_source_seekable(x->base) || !gg_source_seekable(x->tuned))
        return gg_fail(err, GG_EUSAGE, "the models must be files, not pipes");
    if (gg_select_has_experts(x->o->select))
        return gg_fail(err, GG_EUSAGE, "an adapter holds whole stacks: do not select experts");
    gg_status st = gg_guard_output(output, x->base, err);
    if (st == GG_OK) st = gg_guard_output(output, x->tuned, err);
    if (st == GG_OK) st = gg_guard_input(output, x->base, err);
    if (st == GG_OK) st = gg_guard_input(output, x->tuned, err);
    if (st == GG_OK && strcmp(output, "-") != 0)
        st = gg_refuse_existing(output, x->run->force, err);
    return st == GG_OK ? check_models(x, err) : st;
}

gg_status gg_lora_extract(gg_source *base, gg_source *tuned, const gg_lora_options *o,
                          const char *output, const gg_run *run, gg_lora_report *report,
                          gg_error *err)
{
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_lora_report, report);
    *report = (gg_lora_report){ 0 };
    lora_job x = { .base = base,
                   .tuned = tuned,
                   .o = GG_OPTIONS(gg_lora_options, o),
                   .run = run,
                   .threads = run->threads ? run->threads : gg_thread_count(),
                   .report = report,
                   .fd = -1 };
    gg_status st = check_call(&x, output, err);
    if (st == GG_OK && (x.fd = gg_unnamed_file(err)) < 0) st = err->status;
    if (st == GG_OK) st = take_tensors(&x, err);
    if (st == GG_OK) st = write_adapter(&x, output, err);
    if (x.total > 0) report->kept = x.kept < x.total ? x.kept / x.total : 1;
    gg_plan_free(&x.plan);
    gg_buf_free(&x.lost);
    for (size_t i = 0; i < x.n; i++) free(x.halves[i]);
    free(x.halves);
    if (x.fd >= 0) close(x.fd);
    return st;
}
