/* verb_transplant.c - makes a chimera from base and donor: copies the base, but takes some parts
 * from the donor, or folds in an adapter. The result is a model or an organ directory. */
#include "transplant.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "organ/manifest_json.h"
#include "organ/output_guard.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"
#include "write/history.h"
#include "write/keys.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

/* ---- keys -------------------------------------------------------------------- */

/* Whether the key is selected by a pattern, a name or "PREFIX*". With the split keys of a donor's
 * shard, engines would look for more shards. */
static bool key_fits(const gg_kv *kv, const char *pattern)
{
    size_t n = strlen(pattern);
    bool all = n > 0 && pattern[n - 1] == '*';
    bool fits = all ? kv->key_len >= n - 1 && memcmp(kv->key, pattern, n - 1) == 0
                    : gg_text_is(kv->key, kv->key_len, pattern);
    return fits && !gg_is_split_key(kv);
}

/* Copies the donor's keys of a pattern: existing keys are replaced, others are appended. */
static gg_status copy_keys(const gg_source *donor, const char *pattern, gg_meta *meta,
                           gg_error *err)
{
    static const gg_meta none = GG_META_INIT; /* for a donor of bare records */
    const gg_meta *from = gg_source_meta(donor) ? gg_source_meta(donor) : &none;
    gg_meta made = GG_META_INIT;
    gg_meta_order mine = { 0 }, theirs = { 0 }; /* because gg_meta_set searches linearly */
    size_t fitting = 0;
    gg_status st = gg_meta_order_make(meta, &mine, err);
    if (st == GG_OK) st = gg_meta_order_make(from, &theirs, err);
    for (size_t i = 0; i < meta->n && st == GG_OK; i++) {
        const gg_kv *kv = &meta->kv[i], *other = NULL;
        if (key_fits(kv, pattern)) other = gg_meta_order_find(&theirs, kv->key, kv->key_len);
        fitting += other != NULL;
        st = gg_meta_append(&made, other ? other : kv, err);
    }
    for (size_t i = 0; i < from->n && st == GG_OK; i++) {
        const gg_kv *kv = &from->kv[i];
        if (!key_fits(kv, pattern) || gg_meta_order_find(&mine, kv->key, kv->key_len)) continue;
        fitting++;
        st = gg_meta_append(&made, kv, err);
    }
    free(mine.list);
    free(theirs.list);
    gg_meta_free(st == GG_OK ? meta : &made);
    if (st == GG_OK) *meta = made;
    if (st != GG_OK || fitting) return st;
    return gg_fail_in(err, GG_EUSAGE, donor, NULL,
                      "%s: the donor has no key with this name that can be copied (--copy-kv)",
                      pattern);
}

/* ---- the bytes of a move ---------------------------------------------------------------- */

static uint64_t highest_block_count(const gg_source *s)
{
    uint64_t blocks = 0;
    for (size_t i = 0; i < gg_source_count(s); i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        if (t->a.block >= 0 && (uint64_t)t->a.block + 1 > blocks) blocks = (uint64_t)t->a.block + 1;
    }
    return blocks;
}

static gg_input input_of(const gg_plan_part *part)
{
    return (gg_input){ gg_source_tensor(part->source, part->index)->dtype, part, 1 };
}

/* The ancestor's tensor for the donor's; gg_match_tensors has checked that it has one. */
static size_t in_ancestor(const transplant *job, const gg_move *move)
{
    const gg_tensor *d = gg_source_tensor(job->donor, move->donor);
    return gg_source_find(job->blend->ancestor, d->name, d->name_len);
}

/* A range of experts of a tensor: n experts from `at` on, along its last dimension. n = 0 means
 * all experts. */
typedef struct share {
    uint64_t at, n;
} share;

static gg_plan_part part_of(gg_source *s, size_t index, share some)
{
    const gg_tensor *t = gg_source_tensor(s, index);
    uint64_t of = some.n ? t->dims[t->n_dims - 1] : 0;
    if (of == 0 || some.n == of) return gg_plan_whole(s, index);
    uint64_t size = t->bytes / of;
    return (gg_plan_part){ s, index, some.at * size, some.n * size, NULL };
}

/* The donor's experts that replace these of the base. */
static share in_donor(const transplant *job, share some)
{
    return (share){ gg_select_donor_expert(job->select, some.at), some.n };
}

static gg_status make_blend(transplant *job, const gg_move *move, share some, const gg_tensor *out,
                            gg_producer *p)
{
    gg_plan_part parts[3] = { part_of(job->base, move->base, some),
                              part_of(job->donor, move->donor, in_donor(job, some)) };
    gg_mixture mix = { .mode = job->blend->mode,
                       .in = { input_of(&parts[0]), input_of(&parts[1]) } };
    if (mix.mode == GG_BLEND_TASK) {
        parts[2] = part_of(job->blend->ancestor, in_ancestor(job, move), in_donor(job, some));
        mix.in[2] = input_of(&parts[2]);
    }
    mix.t = gg_ramp_at(job->blend->first, job->blend->last, gg_source_tensor(job->base, move->base),
                       job->blocks);
    return gg_compute_blend(&job->made, out, &mix, p, job->err);
}

/* Consecutive experts of a stack, all from the base or consecutive in the donor too. */
static gg_status make_share(transplant *job, const gg_move *move, share some, bool donor,
                            gg_joint *joint)
{
    gg_tensor *t = &joint->t;
    t->dims[t->n_dims - 1] = some.n;
    gg_status st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes,
                                    job->err);
    if (st != GG_OK) return st;
    if (donor && job->blend->mode) return make_blend(job, move, some, t, &joint->p);
    gg_plan_part part = donor ? part_of(job->donor, move->donor, in_donor(job, some))
                              : part_of(job->base, move->base, some);
    gg_input in = input_of(&part);
    joint->stays = job->model && !donor;
    return gg_compute_convert(&job->made, t, &in, &joint->p, job->err);
}

/* The end of the run of experts that begins at e. Its experts are all selected and consecutive
 * in the donor too, or none is selected. */
static uint64_t run_end(const transplant *job, uint64_t e, uint64_t n)
{
    bool donor = gg_select_expert(job->select, e);
    uint64_t from = gg_select_donor_expert(job->select, e);
    do e++, from++;
    while (e < n && gg_select_expert(job->select, e) == donor &&
           (!donor || gg_select_donor_expert(job->select, e) == from));
    return e;
}

/* Makes a stack (or router) with some experts converted or blended. Each expert is blended as
 * a separate tensor, because the arc of a slerp depends on that expert alone. */
static gg_status join_experts(transplant *job, const gg_move *move, const gg_tensor *out,
                              gg_producer *p)
{
    uint64_t n = out->dims[out->n_dims - 1];
    gg_joint *joints = calloc((size_t)n + 1, sizeof *joints);
    size_t k = 0;
    gg_status st = joints ? GG_OK : gg_fail(job->err, GG_ENOMEM, "no memory for the moves");
    for (uint64_t e = 0, end; e < n && st == GG_OK; e = end) {
        bool donor = gg_select_expert(job->select, e);
        end = donor && job->blend->mode ? e + 1 : run_end(job, e, n);
        joints[k].t = *out;
        st = make_share(job, move, (share){ e, end - e }, donor, &joints[k]);
        k++;
    }
    gg_whole of[3] = { { job->base, move->base }, { job->donor, move->donor }, { NULL, 0 } };
    if (job->blend->mode == GG_BLEND_TASK)
        of[2] = (gg_whole){ job->blend->ancestor, in_ancestor(job, move) };
    if (st == GG_OK) st = gg_compute_join(&job->made, joints, k, of, p, job->err);
    free(joints);
    return st;
}

gg_tensor gg_moved_tensor(const transplant *job, const gg_move *move)
{
    const gg_tensor *d = gg_source_tensor(job->donor, move->donor);
    gg_tensor t = move->base == SIZE_MAX ? *d : *gg_source_tensor(job->base, move->base);
    t.name = move->name;
    t.name_len = move->name_len;
    if (move->base == SIZE_MAX) t.a = gg_anatomy_of(t.name, t.name_len);
    if (move->experts || move->kind == GG_MOVE_CONVERT) return t;
    t.dtype = d->dtype;
    t.bytes = d->bytes;
    return t;
}

/* Blends convert. */
gg_status gg_fill_moved(transplant *job, const gg_move *move, gg_plan_tensor *pt)
{
    gg_producer p = { 0 };
    gg_plan_part whole = gg_plan_whole(job->donor, move->donor);
    gg_input in = input_of(&whole);
    uint64_t experts;
    bool converts = move->kind == GG_MOVE_CONVERT,
         arcs = job->blend->mode == GG_BLEND_SLERP && gg_is_expert_stack(&pt->t, &experts);
    if (!move->experts && !converts) return gg_plan_add_part(pt, &whole, job->err);
    gg_status st = move->experts || arcs ? join_experts(job, move, &pt->t, &p)
                   : job->blend->mode    ? make_blend(job, move, (share){ 0 }, &pt->t, &p)
                                      : gg_compute_convert(&job->made, &pt->t, &in, &p, job->err);
    pt->make = p.make;
    pt->ctx = p.ctx;
    return st;
}

/* ---- history -------------------------------------------------------------------------------- */

/* Lists the experts of the stack that were replaced and, if one has another number there, those of
 * the donor in the same order. */
static void put_experts(const gg_tensor *stack, const gg_select *select, gg_json_out *o,
                        gg_error *err)
{
    bool moved = false;
    for (int donor = 0; donor == 0 || (donor == 1 && moved); donor++) {
        const char *before = donor ? ", \"donor_experts\": [" : ", \"experts\": [";
        for (uint64_t e = 0; e < stack->dims[stack->n_dims - 1]; e++) {
            if (!gg_select_expert(select, e)) continue;
            uint64_t from = gg_select_donor_expert(select, e);
            gg_json_put_text(o, before, err);
            gg_json_put_u64(o, donor ? from : e, err);
            moved = moved || from != e;
            before = ", ";
        }
        gg_json_put_text(o, "]", err);
    }
}

/* {"op": "graft", "from": MODEL, "tensor": NAME, "how": ...}, or without a move
 * {"op": "adapter", "from": MODEL, "scale": S} */
static gg_status put_history(const transplant *job, gg_dir_item *item, const gg_move *move)
{
    gg_buf b = GG_BUF_INIT;
    gg_json_out o = gg_json_to_buf(&b);
    gg_error *err = job->err;
    const char *from = gg_source_name(job->donor);
    const gg_blend *blend = job->blend;
    gg_json_put_text(
        &o, move ? "{\"op\": \"graft\", \"from\": " : "{\"op\": \"adapter\", \"from\": ", err);
    gg_mj_put_bytes(&o, from, strlen(from), err);
    if (move) {
        const gg_tensor *d = gg_source_tensor(job->donor, move->donor);
        const char *how = blend->mode     ? blend->text
                          : move->experts ? "experts"
                                          : gg_move_name(move->kind);
        gg_json_put_text(&o, ", \"tensor\": ", err);
        gg_mj_put_bytes(&o, d->name, d->name_len, err);
        gg_json_put_text(&o, ", \"how\": ", err);
        gg_json_put_string(&o, how, strlen(how), err);
        if (move->experts)
            put_experts(gg_source_tensor(job->base, move->base), job->select, &o, err);
        if (gg_source_view_moved(job->donor, move->donor))
            gg_json_put_text(&o, ", \"aligned\": true", err);
    } else {
        gg_json_put_text(&o, ", \"scale\": ", err);
        gg_json_put_f64(&o, job->o->scale, err);
    }
    gg_json_put_text(&o, "}", err);
    if (err->status == GG_OK) item->history = gg_buf_take(&b, NULL);
    else gg_buf_free(&b);
    return err->status;
}

/* ---- tensors -------------------------------------------------------------------------- */

/* Get the producer of tensor i of the base with the adapter folded in. If the adapter does not
 * change the tensor, p->make is NULL and GG_OK is returned. GG_EUNSUPPORTED if the values are
 * scaled by a separate tensor. */
static gg_status fold_tensor(transplant *job, size_t i, gg_producer *p)
{
    const gg_tensor *of = gg_source_tensor(job->base, i);
    gg_plan_part whole = gg_plan_whole(job->base, i);
    gg_input in = { of->dtype, &whole, 1 };
    gg_status st = gg_compute_lora(&job->made, &job->lora, of, &in, p, job->err);
    char scale[GG_RECORD_NAME + 1];
    if (st != GG_OK || !p->make ||
        gg_find_scale(job->base, of->name, of->name_len, scale) == SIZE_MAX)
        return st;
    gg_fail(job->err, GG_EUNSUPPORTED,
            "its values are scaled by %s, so an adapter cannot be applied", scale);
    return gg_at_tensor(job->err, of->name, of->name_len);
}

/* Adds a tensor to the model or directory: instead of tensor `base` of the base, or SIZE_MAX. */
static gg_status add_tensor(transplant *job, const gg_tensor *out, size_t base, gg_plan_tensor **pt)
{
    if (!job->o->directory) return gg_plan_add(&job->plan, out, pt, job->err);
    gg_selected p = { .t = *out, .source = base };
    return gg_organ_dir_add(&job->dir, &p, pt, job->err);
}

static gg_status add_unchanged(transplant *job, size_t i)
{
    gg_plan_tensor *pt;
    gg_plan_part part = gg_plan_whole(job->base, i);
    gg_status st = add_tensor(job, gg_source_tensor(job->base, i), i, &pt);
    return st == GG_OK ? gg_plan_add_part(pt, &part, job->err) : st;
}

/* Adds a tensor with other bytes than those of tensor `base` of the base (SIZE_MAX: of none): those
 * of a move, or with the adapter those of a producer. */
static gg_status add_changed(transplant *job, const gg_tensor *out, size_t base,
                             const gg_producer *p, const gg_move *move)
{
    gg_plan_tensor *pt;
    gg_status st = add_tensor(job, out, base, &pt);
    if (st != GG_OK) return st;
    if (move) st = gg_fill_moved(job, move, pt);
    else pt->make = p->make, pt->ctx = p->ctx;
    if (move && move->kind == GG_MOVE_ADD) job->report->added++;
    else job->report->moved++;
    if (move && move->kind == GG_MOVE_CONVERT) job->report->converted++;
    job->report->bytes_moved += out->bytes;
    if (st != GG_OK || !job->o->directory) return st;
    return put_history(job, &job->dir.items[job->dir.plan.n - 1], move);
}

static gg_status add_moved(transplant *job, const gg_move *move)
{
    gg_tensor out = gg_moved_tensor(job, move);
    return add_changed(job, &out, move->base, NULL, move);
}

/* Moves are in the base's order, added tensors at the end. */
static gg_status add_tensors(transplant *job)
{
    const gg_moves *moves = &job->moves;
    gg_status st = GG_OK;
    size_t next = 0;
    for (size_t i = 0; i < gg_source_count(job->base) && st == GG_OK; i++) {
        gg_producer p = { 0 };
        if (next < moves->n && moves->list[next].base == i) {
            st = add_moved(job, &moves->list[next++]);
            continue;
        }
        if (job->o->adapter) st = fold_tensor(job, i, &p);
        if (st != GG_OK) break;
        st = p.make ? add_changed(job, gg_source_tensor(job->base, i), i, &p, NULL)
                    : add_unchanged(job, i);
    }
    for (; next < moves->n && st == GG_OK; next++) st = add_moved(job, &moves->list[next]);
    return st;
}

/* ---- keys ---------------------------------------------------------------------------------- */

/* Whether every tensor that moves takes its own place, from the base itself. */
static bool moves_nothing(const transplant *job, gg_error *err)
{
    for (size_t i = 0; i < job->moves.n; i++)
        if (job->moves.list[i].base != job->moves.list[i].donor) return false;
    return !job->o->adapter && gg_source_is_same(job->base, job->donor, err);
}

/* Records the step in the keys of the result, unless all tensors are those of the donor, no
 * tensor changes, or prediction blocks are added. Bare records have no keys. */
static gg_status record_step(transplant *job)
{
    const gg_transplant_report *r = job->report;
    gg_source *const others[] = { job->donor };
    gg_buf step = GG_BUF_INIT;
    gg_error *err = job->err;
    if (!gg_source_meta(job->base) || (job->o->match.mtp && !job->o->adapter)) return GG_OK;
    size_t moved = r->moved + r->added, all = gg_source_count(job->base) + r->added;
    bool experts = false;
    for (size_t i = 0; i < job->moves.n; i++) experts = experts || job->moves.list[i].experts;
    if (moved == all && !experts && !job->blend->mode && !job->o->adapter) return GG_OK;
    if ((!experts && moves_nothing(job, err)) || err->status != GG_OK) return err->status;
    gg_buf_printf(&step, err, "%s: %s%zu of %zu tensors", job->o->adapter ? "adapter" : "graft",
                  experts ? "experts in " : "", moved, all);
    if (job->blend->mode && !job->o->adapter)
        gg_buf_printf(&step, err, ", blend %s,", job->blend->text);
    if (job->o->adapter && job->o->scale != 1) {
        char scale[32];
        gg_format_f64(job->o->scale, scale);
        gg_buf_printf(&step, err, ", scale %s,", scale);
    }
    gg_buf_text(&step, " from ", err);
    gg_put_model_name(&step, job->donor, err);
    if (err->status == GG_OK) gg_record_step(&job->meta, others, 1, &step, job->run, err);
    gg_buf_free(&step);
    return err->status;
}

/* The keys of the base, with those of blocks that are added, and with the types of the new tensors.
 * Bare records have none. */
static gg_status make_keys(transplant *job, const gg_plan *p)
{
    bool mtp = job->o->match.mtp && !job->o->adapter;
    gg_tensor *list = gg_plan_list(p, 0, p->n, job->err);
    gg_status st = list ? GG_OK : GG_ENOMEM;
    if (st == GG_OK && gg_source_meta(job->base))
        st = gg_added_blocks_meta(job->base, job->donor, &job->moves, mtp, &job->meta, job->err);
    if (st == GG_OK) st = gg_type_keys_change(&job->meta, job->base, list, p->n, job->err);
    free(list);
    return st == GG_OK ? record_step(job) : st;
}

static gg_status check_imatrix_out(const transplant *job)
{
    const gg_manifest *m = gg_source_manifest(job->base);
    if (!job->o->imatrix_out) return GG_OK;
    if (!job->o->output.imatrix) {
        gg_fail(job->err, GG_EUSAGE, "there is no importance matrix of the base");
        return gg_fix_by(job->err, "imatrix", "give it");
    }
    if (!m || !m->n_stacks) return GG_OK;
    return gg_fail_in(
        job->err, GG_EUSAGE, job->base, NULL,
        "an importance matrix has entries for stacks, but this directory has single experts");
}

static gg_status write_imatrix(const transplant *job)
{
    const gg_transplant_options *o = job->o;
    gg_moved_models m = { job->base, job->donor, &job->moves, &o->match, job->imatrix };
    if (!o->imatrix_out) return GG_OK;
    return gg_transplant_imatrix(&m, o->donor_imatrix, o->imatrix_out, job->run, job->err);
}

/* ---- files ------------------------------------------------------------------------------------
 */

static gg_status refuse_mismatches(const transplant *job, const gg_move *move, size_t mismatches)
{
    if (gg_source_count(job->donor) && gg_source_tensor(job->donor, 0)->a.part == GG_PART_ADAPTER) {
        gg_fail(job->err, GG_NO, "this is an adapter, which has no tensors of a model");
        gg_fix_by(job->err, "adapter", "fold it into the base");
        return gg_at_file(job->err, gg_source_name(job->donor));
    }
    if (move->option) gg_fail(job->err, GG_NO, "%s (%s)", move->reason, move->option);
    else gg_fail(job->err, GG_NO, "%s", move->reason);
    gg_fix(job->err,
           "%zu tensors do not match: list them, or leave them out (--check, --skip-mismatched)",
           mismatches);
    gg_at_tensor(job->err, move->name, move->name_len);
    return gg_at_file(job->err, gg_source_name(move->donor == SIZE_MAX ? job->donor : job->base));
}

/* Drop mismatches (counted in t->report->skipped) or fail with the first one. GG_NO if no move is
 * left. */
static gg_status drop_mismatched(transplant *job)
{
    gg_moves *moves = &job->moves;
    size_t kept = 0, mismatches = 0;
    const gg_move *list = moves->list;
    for (size_t i = 0; i < moves->n; i++) mismatches += list[i].kind == GG_MOVE_MISMATCH;
    /* A donor of which shards are missing is enough if all that is selected is there. */
    if (mismatches || job->o->match.add) {
        gg_status st = gg_require_whole(job->donor, job->run, job->err);
        if (st != GG_OK) return st;
    }
    for (size_t i = 0; i < moves->n; i++) {
        if (list[i].kind != GG_MOVE_MISMATCH) moves->list[kept++] = list[i];
        else if (!job->o->skip_mismatched) return refuse_mismatches(job, &list[i], mismatches);
    }
    job->report->skipped = mismatches;
    moves->n = kept;
    if (kept) return GG_OK;
    gg_fail_in(job->err, GG_NO, job->donor, NULL, "no selected tensor can be moved");
    return gg_fix(job->err, "list the tensors and the pairs (organ-extract --list, --check)");
}

gg_status gg_transplant_find(transplant *job)
{
    const gg_transplant_options *o = job->o;
    gg_match_options match = o->match;
    gg_status st;
    job->made.imatrix = job->imatrix;
    if (o->adapter) return gg_lora_open(job->donor, job->base, o->scale, &job->lora, job->err);
    match.weighed = match.weighed || job->imatrix;
    st = gg_match_tensors(job->base, job->donor, &match, &job->moves, job->err);
    if (st != GG_OK) return st;
    return drop_mismatched(job);
}

/* Notes what base and donor do not have in common. Engines use only the pairs of an adapter. */
static gg_status note_differences(const transplant *job, gg_held_notes *notes)
{
    size_t n = job->lora.norms;
    gg_status st = job->run->note ? gg_note_kinship(job, notes) : GG_OK;
    if (st != GG_OK || n == 0) return st;
    return gg_held_add(notes, job->err,
                       "%zu norm%s of the adapter replace%s the base's; engines that load the "
                       "adapter beside the model leave %s out",
                       n, n == 1 ? "" : "s", n == 1 ? "s" : "", n == 1 ? "it" : "them");
}

static gg_status write_model(transplant *job, const char *output)
{
    size_t changed = 0;
    gg_split split = { (uint32_t)job->o->output.shards, job->o->output.shard_size };
    gg_plan *p = &job->plan;
    gg_status st = make_keys(job, p);
    if (st == GG_OK && job->rules)
        st = gg_dtype_rules_apply(job->rules, p, &job->meta, &job->made, &changed, job->run,
                                  job->err);
    if (st == GG_OK && job->imatrix && !job->o->imatrix_out)
        st = gg_imatrix_review(job->imatrix, p, NULL, job->run, job->err);
    if (st == GG_OK)
        st = gg_plan_output(p, &split, output, &job->meta, job->base, job->run, job->err);
    gg_meta *first = st == GG_OK ? &p->files[0].meta : NULL;
    if (st != GG_OK && job->rules) gg_at_file(job->err, gg_source_name(job->base));
    if (first && changed) st = gg_dtype_rules_keys(job->rules, p, first, job->err);
    for (size_t i = 0; i < job->o->copy_kv.n && st == GG_OK; i++)
        st = copy_keys(job->donor, job->o->copy_kv.items[i], first, job->err);
    if (st == GG_OK) st = gg_set_keys(first, &job->o->output, job->err);
    if (st == GG_OK) st = gg_watch_add(&p->watch, job->donor, job->err);
    if (st == GG_OK) st = gg_watch_add(&p->watch, job->o->match.blend.ancestor, job->err);
    if (st == GG_OK) st = write_imatrix(job); /* first: it may not fit, and the model takes long */
    return st == GG_OK ? gg_plan_write(p, job->run, &job->report->bytes_written, job->err) : st;
}

static gg_status make_model(transplant *job, const char *output)
{
    const gg_output_options *out = &job->o->output;
    const gg_match_options *match = &job->o->match;
    gg_status st = gg_require_model(job->base, job->err);
    if (st == GG_OK) st = gg_require_whole(job->base, job->run, job->err);
    if (st == GG_OK && (match->mtp || match->add))
        st = gg_refuse_split_experts(job->donor, job->err);
    if (st == GG_OK && (out->dtype || out->fallback))
        st = gg_dtype_rules_parse(out->dtype, out->fallback, job->imatrix, &job->rules, job->err);
    if (st == GG_OK) st = gg_transplant_find(job);
    if (st == GG_OK) st = note_differences(job, &job->notes);
    if (st == GG_OK) st = add_tensors(job);
    if (st == GG_OK) st = write_model(job, output);
    gg_held_end(&job->notes, job->run, st == GG_OK);
    return st;
}

/* Updates the metadata for the new tensors, then writes records and manifest. */
static gg_status make_directory(transplant *job, const char *output)
{
    gg_source *ancestor = job->o->adapter ? NULL : job->o->match.blend.ancestor;
    gg_organ_dir *d = &job->dir;
    gg_error *err = job->err;
    size_t weighed = 0;
    gg_status st = gg_require_whole(job->base, job->run, err);
    if (st == GG_OK && !job->o->adapter) st = gg_guard_output(output, job->donor, err);
    if (st == GG_OK) st = gg_guard_output(output, ancestor, err);
    if (st == GG_OK) st = gg_transplant_find(job);
    if (st == GG_OK) st = gg_organ_dir_open(d, job->base, output, job->run, err); /* guards it */
    if (st == GG_OK) {
        d->whole = true;
        d->link = job->o->link;
        st = gg_watch_add(&d->plan.watch, job->donor, err);
        if (st == GG_OK) st = gg_watch_add(&d->plan.watch, ancestor, err);
        if (st == GG_OK) st = note_differences(job, &d->notes);
        if (st == GG_OK) st = add_tensors(job);
        if (st == GG_OK) st = gg_organ_dir_names(d, err);
        if (st == GG_OK) st = make_keys(job, &d->plan);
        if (st == GG_OK) st = gg_imatrix_review(job->imatrix, &d->plan, &weighed, job->run, err);
        if (st == GG_OK && weighed) st = gg_imatrix_keys(job->imatrix, &job->meta, err);
        d->meta = &job->meta;
        if (st == GG_OK) st = gg_organ_dir_check(d, err);
        if (st == GG_OK) st = write_imatrix(job);
        if (st == GG_OK) st = gg_organ_dir_records(d, err);
        st = gg_organ_dir_close(d, st, err);
    }
    if (st != GG_OK) gg_at_file(err, st == GG_EIO ? output : gg_source_name(job->base));
    return st;
}

void gg_transplant_open(transplant *job)
{
    const gg_match_options *match = &job->o->match;
    job->blend = &match->blend;
    job->select = match->select;
    job->blocks = highest_block_count(job->base);
}

gg_status gg_transplant_close(transplant *job, gg_status st)
{
    gg_plan_free(&job->plan);
    if (job->rules) gg_dtype_rules_free(job->rules);
    if (job->imatrix) gg_imatrix_close(job->imatrix);
    gg_computations_free(&job->made);
    gg_moves_free(&job->moves);
    gg_meta_free(&job->meta);
    free(job->fds);
    return st;
}

gg_status gg_transplant(gg_source *base, gg_source *donor, const gg_transplant_options *o,
                        const char *output, const gg_run *run, gg_transplant_report *report,
                        gg_error *err)
{
    transplant job = { .base = base,
                       .donor = donor,
                       .o = GG_OPTIONS(gg_transplant_options, o),
                       .run = GG_OPTIONS(gg_run, run),
                       .plan = { .verify = true },
                       .report = GG_REPORT(gg_transplant_report, report),
                       .err = err };
    if (job.o->read) {
        gg_match_options match = job.o->match;
        match.weighed = job.o->output.imatrix != NULL;
        gg_status st = gg_match_tensors(base, donor, &match, &job.moves, err);
        gg_reads r = { .read = job.o->read, .ctx = job.o->ctx };
        if (st == GG_OK) gg_transplant_reads(base, donor, &match, &job.moves, r);
        gg_moves_free(&job.moves);
        return st;
    }
    if (job.o->directory && !job.o->adapter && job.o->match.mtp)
        return gg_fail(err, GG_EUSAGE,
                       "multi-token-prediction blocks can only be moved into a GGUF file");
    gg_transplant_open(&job);
    gg_status st = check_imatrix_out(&job);
    if (st == GG_OK && job.o->output.imatrix)
        st = gg_imatrix_open(job.o->output.imatrix, &job.imatrix, err);
    if (st == GG_OK)
        st = job.o->directory ? make_directory(&job, output) : make_model(&job, output);
    return gg_transplant_close(&job, st);
}
