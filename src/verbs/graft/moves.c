/* moves.c - prepares moves: mismatches are left out, each move gets its bytes (copied, converted,
 * blended, or with an adapter folded in), and the keys follow. Everything here can fail before
 * anything is written. */
#include "grafting.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"
#include "verbs/shared/keys.h"

#include <stdlib.h>
#include <string.h>

/* ---- mismatches and keys -------------------------------------------------------------------- */

static gg_status refuse_mismatches(const gg_move *move, size_t mismatches, const gg_source *base,
                                   const gg_source *donor, gg_error *err)
{
    gg_fail(err, GG_NO, "%s", move->reason);
    gg_about(err, move->hint);
    gg_fix_hint(err, GG_HINT_MISMATCHES, "%zu tensors do not match: list them, or leave them out",
                mismatches);
    gg_at_tensor(err, move->name, move->name_len);
    return gg_at_file(err, move->donor == SIZE_MAX ? gg_source_name(donor) : gg_source_name(base));
}

gg_status gg_moves_drop_mismatched(gg_moves *moves, const gg_source *base, const gg_source *donor,
                                   bool skip_mismatched, gg_transplant_report *report,
                                   gg_error *err)
{
    size_t kept = 0, mismatches = 0;
    const gg_move *first = NULL, *list = moves->list;
    for (size_t i = 0; i < moves->n; i++)
        if (list[i].kind == GG_MOVE_MISMATCH) {
            if (!first) first = &list[i];
            mismatches++;
        }
    if (first && !skip_mismatched) return refuse_mismatches(first, mismatches, base, donor, err);
    for (size_t i = 0; i < moves->n; i++)
        if (list[i].kind != GG_MOVE_MISMATCH) moves->list[kept++] = list[i];
    report->skipped = mismatches;
    moves->n = kept;
    if (kept) return GG_OK;
    gg_fail(err, GG_NO, "no selected tensor can be moved");
    gg_fix_hint(err, GG_HINT_LIST_PAIRS, "list the tensors and the pairs");
    return gg_at_file(err, gg_source_name(donor));
}

static gg_status append_key(gg_meta *to, const gg_kv *kv, gg_error *err)
{
    gg_kv copy = *kv;
    gg_meta one = { .kv = &copy, .n = 1, .cap = 1 };
    return gg_meta_copy(to, &one, err);
}

/* Sets the n distinct keys of `list` in meta: existing keys are replaced, others are appended
 * in their order. Sorted once, because gg_meta_set searches linearly. */
static gg_status set_all_keys(gg_meta *meta, const gg_kv *const *list, size_t n, gg_error *err)
{
    gg_meta made = GG_META_INIT;
    gg_meta_order old = { 0 }, sorted = { .list = calloc(n, sizeof *sorted.list), .n = n };
    gg_status st = sorted.list ? gg_meta_order_make(meta, &old, err)
                               : gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; st == GG_OK && i < n; i++) sorted.list[i] = list[i];
    if (st == GG_OK) gg_meta_order_sort(&sorted);
    for (size_t i = 0; i < meta->n && st == GG_OK; i++) {
        const gg_kv *kv = &meta->kv[i], *found = gg_meta_order_find(&sorted, kv->key, kv->key_len);
        st = append_key(&made, found ? found : kv, err);
    }
    for (size_t i = 0; i < n && st == GG_OK; i++)
        if (!gg_meta_order_find(&old, list[i]->key, list[i]->key_len))
            st = append_key(&made, list[i], err);
    free(sorted.list);
    free(old.list);
    if (st == GG_OK) {
        gg_meta_free(meta);
        *meta = made;
    } else {
        gg_meta_free(&made);
    }
    return st;
}

static gg_status copy_keys(const gg_meta *from, const char *pattern, gg_meta *meta,
                           const char *donor, gg_error *err)
{
    size_t n = strlen(pattern), fitting = 0;
    bool all = n > 0 && pattern[n - 1] == '*';
    const gg_kv **list = calloc(from && from->n ? from->n : 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; from && i < from->n; i++) {
        const gg_kv *kv = &from->kv[i];
        bool fits = all ? kv->key_len >= n - 1 && memcmp(kv->key, pattern, n - 1) == 0
                        : kv->key_len == n && memcmp(kv->key, pattern, n) == 0;
        /* with the split keys of a donor's shard, engines would look for more shards */
        if (fits && !gg_is_split_key(kv)) list[fitting++] = kv;
    }
    gg_status st = fitting ? set_all_keys(meta, list, fitting, err) : GG_OK;
    free(list);
    if (fitting) return st;
    gg_fail(err, GG_EUSAGE, "%s: the donor has no key with this name that can be copied", pattern);
    gg_about(err, GG_HINT_COPY_KEYS);
    return gg_at_file(err, donor);
}

gg_status gg_moves_follow_types(const gg_source *base, const gg_plan *plan, gg_meta *meta,
                                gg_error *err)
{
    gg_tensor *list = calloc(plan->n ? plan->n : 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; i < plan->n; i++) list[i] = plan->tensors[i].t;
    gg_status st = gg_type_keys_change(meta, base, list, plan->n, err);
    free(list);
    return st;
}

gg_status gg_moves_edit_keys(const gg_source *donor, const gg_transplant_options *o, gg_meta *meta,
                             gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < o->n_copy_kv && st == GG_OK; i++)
        st = copy_keys(gg_source_meta(donor), o->copy_kv[i], meta, gg_source_name(donor), err);
    if (st != GG_OK) return st;
    return gg_set_keys(meta, &o->output, err);
}

/* ---- the bytes of a move ----------------------------------------------------------------------
 */

static uint64_t highest_block_count(const gg_source *s)
{
    uint64_t blocks = 0;
    for (size_t i = 0; i < gg_source_count(s); i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
        if (a.block >= 0 && (uint64_t)a.block + 1 > blocks) blocks = (uint64_t)a.block + 1;
    }
    return blocks;
}

/* Pointers to parts must stay valid, so parts are allocated in blocks. */
struct gg_mover_parts {
    struct gg_mover_parts *next;
    gg_plan_part list[];
};

static gg_plan_part *new_parts(gg_mover *m, size_t n, gg_error *err)
{
    struct gg_mover_parts *b = calloc(1, sizeof *b + n * sizeof b->list[0]);
    if (!b) {
        gg_fail(err, GG_ENOMEM, "no memory for the moves");
        return NULL;
    }
    b->next = m->parts;
    m->parts = b;
    return b->list;
}

void gg_mover_open(gg_mover *m, gg_source *base, gg_source *donor, const gg_match_options *o)
{
    *m = (gg_mover){ .base = base, .donor = donor, .blend = &o->blend, .select = o->select };
    if (o->blend.mode != GG_BLEND_NONE) m->blocks = highest_block_count(base);
}

void gg_mover_close(gg_mover *m)
{
    gg_computations_free(&m->list);
    for (struct gg_mover_parts *b = m->parts; b;) {
        struct gg_mover_parts *next = b->next;
        free(b);
        b = next;
    }
    *m = (gg_mover){ 0 };
}

static gg_plan_part whole_part(gg_source *s, size_t index)
{
    const gg_manifest *m = gg_source_manifest(s);
    return (gg_plan_part){ s, index, 0, gg_source_tensor(s, index)->bytes,
                           m ? m->entries[index].sha256 : NULL };
}

static gg_input input_of(const gg_plan_part *part)
{
    return (gg_input){ gg_source_tensor(part->source, part->index)->dtype, part, 1 };
}

/* Finds the ancestor's tensor for the donor's. GG_NO if it is missing, GG_EFORMAT if its dims
 * differ; a transposed one would have the same number of bytes. */
static gg_status find_ancestor(const gg_mover *m, const gg_tensor *donor, size_t *index,
                               gg_error *err)
{
    *index = gg_source_find(m->blend->ancestor, donor->name, donor->name_len);
    if (*index == SIZE_MAX) gg_fail(err, GG_NO, "the ancestor does not have this tensor");
    else if (memcmp(gg_source_tensor(m->blend->ancestor, *index)->dims, donor->dims,
                    sizeof donor->dims) != 0)
        gg_fail(err, GG_EFORMAT, "its dims differ from those in base and donor");
    else return GG_OK;
    gg_at_tensor(err, donor->name, donor->name_len);
    return gg_at_file(err, gg_source_name(m->blend->ancestor));
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
    if (some.n == of) return whole_part(s, index);
    uint64_t size = t->bytes / of;
    return (gg_plan_part){ s, index, some.at * size, some.n * size, NULL };
}

/* The donor's experts that replace these of the base. */
static share in_donor(const gg_mover *m, share some)
{
    return (share){ gg_select_donor_expert(m->select, some.at), some.n };
}

static gg_status make_blend(gg_mover *m, const gg_move *move, share some, const gg_tensor *out,
                            gg_producer *p, gg_error *err)
{
    gg_plan_part *parts = new_parts(m, 3, err);
    if (!parts) return err->status;
    parts[0] = part_of(m->base, move->base, some);
    parts[1] = part_of(m->donor, move->donor, in_donor(m, some));
    gg_mixture mix = { .mode = m->blend->mode, .in = { input_of(&parts[0]), input_of(&parts[1]) } };
    if (mix.mode == GG_BLEND_TASK) {
        size_t i;
        if (find_ancestor(m, gg_source_tensor(m->donor, move->donor), &i, err) != GG_OK)
            return err->status;
        parts[2] = part_of(m->blend->ancestor, i, in_donor(m, some));
        mix.in[2] = input_of(&parts[2]);
    }
    mix.t = gg_blend_t(m->blend, move->name, move->name_len, m->blocks);
    return gg_compute_blend(&m->list, out, &mix, p, err);
}

/* Consecutive experts of a stack, all from the base or consecutive in the donor too. */
static gg_status make_share(gg_mover *m, const gg_move *move, share some, bool donor,
                            gg_joint *joint, gg_error *err)
{
    gg_tensor *t = &joint->t;
    t->dims[t->n_dims - 1] = some.n;
    gg_status st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, err);
    if (st != GG_OK) return st;
    if (donor && m->blend->mode) return make_blend(m, move, some, t, &joint->p, err);
    gg_plan_part *part = new_parts(m, 1, err);
    if (!part) return err->status;
    *part = donor ? part_of(m->donor, move->donor, in_donor(m, some))
                  : part_of(m->base, move->base, some);
    gg_input in = input_of(part);
    return gg_compute_convert(&m->list, t, &in, &joint->p, err);
}

/* The end of the run of experts that begins at e. Its experts are all selected and consecutive
 * in the donor too, or none is selected. */
static uint64_t run_end(const gg_mover *m, uint64_t e, uint64_t n)
{
    bool donor = gg_select_expert(m->select, e);
    uint64_t from = gg_select_donor_expert(m->select, e);
    do e++, from++;
    while (e < n && gg_select_expert(m->select, e) == donor &&
           (!donor || gg_select_donor_expert(m->select, e) == from));
    return e;
}

/* Makes a stack (or router) with some experts converted or blended. Each expert is blended as
 * a separate tensor, because the arc of a slerp depends on that expert alone. */
static gg_status join_experts(gg_mover *m, const gg_move *move, const gg_tensor *out,
                              gg_producer *p, gg_error *err)
{
    uint64_t n = out->dims[out->n_dims - 1];
    gg_joint *joints = calloc((size_t)n + 1, sizeof *joints);
    size_t k = 0;
    gg_status st = joints ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the moves");
    for (uint64_t e = 0, end; e < n && st == GG_OK; e = end) {
        bool donor = gg_select_expert(m->select, e);
        end = donor && m->blend->mode ? e + 1 : run_end(m, e, n);
        joints[k].t = *out;
        st = make_share(m, move, (share){ e, end - e }, donor, &joints[k], err);
        k++;
    }
    gg_whole of[3] = { { m->base, move->base }, { m->donor, move->donor }, { NULL, 0 } };
    if (st == GG_OK && m->blend->mode == GG_BLEND_TASK) {
        of[2].source = m->blend->ancestor;
        st = find_ancestor(m, gg_source_tensor(m->donor, move->donor), &of[2].index, err);
    }
    if (st == GG_OK) st = gg_compute_join(&m->list, joints, k, of, p, err);
    free(joints);
    return st;
}

/* Copies a stack, or the rows of a router, in runs of experts, from the donor if selected. */
static gg_status make_experts(gg_mover *m, const gg_move *move, const gg_tensor *out,
                              gg_moved_bytes *made, gg_error *err)
{
    uint64_t n = out->dims[out->n_dims - 1], size = out->bytes / n;
    bool hashed = gg_source_manifest(m->base) || gg_source_manifest(m->donor);
    if (move->kind == GG_MOVE_CONVERT || hashed) return join_experts(m, move, out, &made->p, err);
    size_t runs = 0;
    for (uint64_t e = 0; e < n; e = run_end(m, e, n)) runs++;
    gg_plan_part *parts = new_parts(m, runs, err);
    if (!parts) return err->status;
    for (uint64_t e = 0, end; e < n; e = end) {
        bool donor = gg_select_expert(m->select, e);
        end = run_end(m, e, n);
        uint64_t from = donor ? gg_select_donor_expert(m->select, e) : e;
        parts[made->n_parts++] = (gg_plan_part){ donor ? m->donor : m->base,
                                                 donor ? move->donor : move->base, from * size,
                                                 (end - e) * size, NULL };
    }
    made->parts = parts;
    return GG_OK;
}

gg_status gg_mover_bytes(gg_mover *m, const gg_move *move, gg_tensor *out, gg_moved_bytes *made,
                         gg_error *err)
{
    const gg_tensor *d = gg_source_tensor(m->donor, move->donor);
    *made = (gg_moved_bytes){ 0 };
    *out = move->base == SIZE_MAX ? *d : *gg_source_tensor(m->base, move->base);
    out->name = move->name;
    out->name_len = move->name_len;
    if (move->experts) return make_experts(m, move, out, made, err);
    if (m->blend->mode && move->kind != GG_MOVE_ADD)
        return make_blend(m, move, (share){ 0 }, out, &made->p, err);
    gg_plan_part *part = new_parts(m, 1, err);
    if (!part) return err->status;
    *part = whole_part(m->donor, move->donor);
    if (move->kind == GG_MOVE_CONVERT) {
        gg_input in = input_of(part);
        return gg_compute_convert(&m->list, out, &in, &made->p, err);
    }
    out->dtype = d->dtype;
    out->bytes = d->bytes;
    made->parts = part;
    made->n_parts = 1;
    return GG_OK;
}

/* ---- adapters ---------------------------------------------------------------------------------
 */

gg_status gg_fold_open(gg_fold *f, gg_source *base, gg_source *adapter, double scale, gg_error *err)
{
    *f = (gg_fold){ .base = base };
    return gg_lora_open(adapter, base, scale, &f->lora, err);
}

gg_status gg_fold_tensor(gg_fold *f, size_t i, gg_producer *p, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(f->base, i);
    const gg_manifest *m = gg_source_manifest(f->base);
    gg_plan_part whole = { f->base, i, 0, t->bytes, m ? m->entries[i].sha256 : NULL };
    gg_input in = { t->dtype, &whole, 1 };
    gg_status st = gg_compute_lora(&f->list, &f->lora, t, &in, p, err);
    char scale[GG_RECORD_NAME + 1];
    if (st != GG_OK || !p->make || gg_find_scale(f->base, t->name, t->name_len, scale) == SIZE_MAX)
        return st;
    gg_fail(err, GG_EUNSUPPORTED, "its values are scaled by %s, so an adapter cannot be applied",
            scale);
    return gg_at_tensor(err, t->name, t->name_len);
}

void gg_fold_close(gg_fold *f)
{
    gg_computations_free(&f->list);
}
