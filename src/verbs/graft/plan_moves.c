/* plan_moves.c - handles mismatches and edits metadata: the part of a transplant that can fail
 * before anything is written. */
#include "plan_moves.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "verbs/shared/key_text.h"
#include "verbs/shared/type_keys.h"

#include <stdlib.h>
#include <string.h>

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

static gg_status append(gg_meta *to, const gg_kv *kv, gg_error *err)
{
    gg_kv copy = *kv;
    gg_meta one = { .kv = &copy, .n = 1, .cap = 1 };
    return gg_meta_copy(to, &one, err);
}

/* Sets the n distinct keys of `list` in meta: existing keys are replaced, others are appended
 * in their order. Sorted once, because gg_meta_set searches linearly. */
static gg_status merge(gg_meta *meta, const gg_kv *const *list, size_t n, gg_error *err)
{
    gg_meta made = GG_META_INIT;
    gg_meta_order old = { 0 }, sorted = { .list = calloc(n, sizeof *sorted.list), .n = n };
    gg_status st = sorted.list ? gg_meta_order_make(meta, &old, err)
                               : gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; st == GG_OK && i < n; i++) sorted.list[i] = list[i];
    if (st == GG_OK) gg_meta_order_sort(&sorted);
    for (size_t i = 0; i < meta->n && st == GG_OK; i++) {
        const gg_kv *kv = &meta->kv[i], *found = gg_meta_order_find(&sorted, kv->key, kv->key_len);
        st = append(&made, found ? found : kv, err);
    }
    for (size_t i = 0; i < n && st == GG_OK; i++)
        if (!gg_meta_order_find(&old, list[i]->key, list[i]->key_len))
            st = append(&made, list[i], err);
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
    gg_status st = fitting ? merge(meta, list, fitting, err) : GG_OK;
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
