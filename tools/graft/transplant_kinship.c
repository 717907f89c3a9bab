/* transplant_kinship.c - whether base and donor of a transplant fit: notes on what differs, what
 * --check tells, and which of their bytes are read. */
#include "transplant.h"

#include "base/text.h"
#include "gguf/gguf.h"
#include "kin/gg_compare_model.h"
#include "kin/lineage.h"
#include "numeric/numeric.h"
#include "organ/select.h"
#include "organ/tensor_names.h"
#include "write/copy.h"
#include "write/key_compat.h"
#include "write/layer_keys.h"

#include <stdlib.h>
#include <string.h>

/* ---- kinship ------------------------------------------------------------------------------ */

#define SHOWN ((size_t)3) /* notes of one kind */

typedef struct kinship {
    gg_held_notes *notes;
    size_t n; /* findings of the current kind */
    gg_error *err;
} kinship;

static void note_key_conflict(void *ctx, gg_conflict kind, const char *line)
{
    (void)kind;
    kinship *k = ctx;
    if (k->n++ < SHOWN) gg_held_add(k->notes, k->err, "%s", line);
}

static void note_rest(kinship *k, const char *what)
{
    if (k->n > SHOWN) gg_held_add(k->notes, k->err, "%zu more %s", k->n - SHOWN, what);
    k->n = 0;
}

/* Lists the tensors that move with the donor's of the same name, whatever the map, because blocks
 * at different depths never match: all of them or, with `few`, at most GG_JUDGED matrices. */
static size_t list_pairs(gg_source *base, gg_source *donor, const gg_moves *moves, bool few,
                         gg_tensor_pair *pairs)
{
    size_t n = 0, step = few ? moves->n / GG_JUDGED + 1 : 1;
    for (size_t i = 0; i < moves->n && !(few && n == GG_JUDGED); i += step) {
        const gg_move *m = &moves->list[i];
        if (m->base == SIZE_MAX || (!few && m->kind == GG_MOVE_MISMATCH)) continue;
        size_t twin = gg_source_find(donor, m->name, m->name_len);
        if (twin != SIZE_MAX && (!few || gg_source_tensor(base, m->base)->dims[1] > 1))
            pairs[n++] = (gg_tensor_pair){ m->base, twin };
    }
    return n;
}

/* Whether experts of the base are combined with experts of the donor, so that their order counts:
 * in a blend, or where some stacks or the router of a block move and others stay. */
static bool experts_mix(const transplant *job)
{
    enum { MOVED = 1, STAYS = 2 };
    const gg_moves *moves = &job->moves;
    uint8_t *found = calloc(job->blocks + 1, 1);
    bool mix = !found; /* then look, to be safe */
    for (size_t i = 0, k = 0; i < gg_source_count(job->base) && !mix; i++) {
        const gg_tensor *t = gg_source_tensor(job->base, i);
        while (k < moves->n && (moves->list[k].base == SIZE_MAX || moves->list[k].base < i)) k++;
        if (t->a.block < 0 || !gg_counts_experts(t)) continue;
        bool moved = k < moves->n && moves->list[k].base == i;
        found[t->a.block] |= moved ? MOVED : STAYS;
        mix = found[t->a.block] == (MOVED | STAYS) || (moved && job->blend->mode);
    }
    free(found);
    return mix;
}

static gg_status note_strangers(kinship *k, const transplant *job)
{
    gg_tensor_pair pairs[GG_JUDGED];
    bool doubtful, experts = experts_mix(job);
    size_t n = list_pairs(job->base, job->donor, &job->moves, true, pairs);
    gg_compare_options few = { .sample = GG_JUDGED_ROWS, .pairs = pairs, .n_pairs = n };
    gg_status st = gg_judge_strangers(job->base, job->donor, &few, experts, &doubtful, k->err);
    if (st != GG_OK || !doubtful) return st;
    return gg_held_add(k->notes, k->err,
                       "the models share no lineage, or their hidden units or experts have "
                       "changed places: the moved tensors will not fit the others");
}

/* The value of a per-layer key for a block, as bits; false if there is none. The key may also
 * be a period, by which every n-th block differs. */
static bool layer_value(const gg_kv *kv, uint64_t block, uint64_t *bits)
{
    uint64_t n;
    if (kv->type != GG_TYPE_ARR) {
        if (!gg_text_ends(kv->key, kv->key_len, ".sliding_window_pattern") &&
            !gg_text_ends(kv->key, kv->key_len, ".full_attention_interval"))
            return false;
        if (!gg_kv_u64(kv, &n) || n == 0) return false;
        *bits = block % n == n - 1;
        return true;
    }
    size_t size = gg_type_size(kv->elem_type);
    if (size == 0 || size > 8 || block >= kv->count) return false;
    *bits = 0;
    memcpy(bits, kv->data + block * size, size);
    return true;
}

static void compare_block(kinship *k, const gg_meta *base, const gg_meta *donor, int64_t to,
                          int64_t from)
{
    uint64_t blocks = gg_arch_number(base, "block_count");
    for (size_t i = 0; i < base->n; i++) {
        const gg_kv *kv = &base->kv[i], *other = NULL;
        uint64_t a, b;
        if (kv->type == GG_TYPE_ARR && !gg_is_layer_array(base, kv, blocks)) continue;
        if (!layer_value(kv, (uint64_t)to, &a)) continue;
        for (size_t x = 0; x < donor->n && !other; x++)
            if (donor->kv[x].key_len == kv->key_len &&
                memcmp(donor->kv[x].key, kv->key, kv->key_len) == 0)
                other = &donor->kv[x];
        if (!other || other->type != kv->type || other->elem_type != kv->elem_type ||
            !layer_value(other, (uint64_t)from, &b) || a == b)
            continue;
        if (k->n++ < SHOWN)
            gg_held_add(k->notes, k->err,
                        "block %lld gets tensors of the donor's block %lld, which has a different "
                        "%.*s; the base's value is used",
                        (long long)to, (long long)from,
                        (int)(kv->key_len < 100 ? kv->key_len : 100), kv->key);
    }
}

/* Moves are in the order of the base, so each pair of blocks is compared once. */
static void compare_layers(kinship *k, gg_source *base, gg_source *donor, const gg_moves *moves)
{
    int64_t last_to = -1, last_from = -1;
    for (size_t i = 0; i < moves->n; i++) {
        const gg_move *m = &moves->list[i];
        if (m->base == SIZE_MAX || m->donor == SIZE_MAX) continue;
        const gg_tensor *t = gg_source_tensor(base, m->base),
                        *d = gg_source_tensor(donor, m->donor);
        int64_t to = t->a.block;
        int64_t from = d->a.block;
        if (to < 0 || from < 0 || (to == last_to && from == last_from)) continue;
        compare_block(k, gg_source_meta(base), gg_source_meta(donor), to, from);
        last_to = to;
        last_from = from;
    }
}

/* Adds a note if the base is not the one that the adapter was made from, as far as the adapter
 * tells (organ/tensor_names.h). */
static gg_status note_base(const transplant *job, gg_held_notes *notes)
{
    const gg_meta *keys = gg_source_meta(job->donor);
    const char *name, *sha, *of = "another model";
    size_t len, sha_len, of_len = strlen(of);
    char have[65], shown[120], tensor[120];
    if (!gg_kv_str(gg_meta_find(keys, GG_LORA_BASE_TENSOR), &name, &len) ||
        !gg_kv_str(gg_meta_find(keys, GG_LORA_BASE_SHA256), &sha, &sha_len))
        return GG_OK;
    size_t i = gg_source_find(job->base, name, len);
    if (i == SIZE_MAX) return GG_OK;
    gg_plan_part part = { job->base, i, 0, gg_source_tensor(job->base, i)->bytes, NULL };
    gg_status st = gg_copy_part(&part, (gg_place){ -1, 0 }, have, job->run, job->err);
    if (st != GG_OK || (sha_len == 64 && memcmp(have, sha, 64) == 0)) return st;
    gg_kv_str(gg_meta_find(keys, "general.base_model.0.name"), &of, &of_len);
    gg_escape(of, of_len, shown, sizeof shown);
    gg_escape(name, len, tensor, sizeof tensor);
    return gg_held_add(
        notes, job->err,
        "the adapter was made from %s, whose %s has other bytes than that of this base: "
        "it is another model, or has other types",
        shown, tensor);
}

gg_status gg_note_kinship(const transplant *job, gg_held_notes *notes)
{
    if (job->o->adapter) return note_base(job, notes);
    gg_source *base = job->base, *donor = job->donor;
    kinship k = { notes, 0, job->err };
    if (job->moves.n == 0 || !gg_source_seekable(base) || !gg_source_seekable(donor) ||
        !gg_source_meta(base) || !gg_source_meta(donor))
        return GG_OK;
    gg_key_conflicts(gg_source_meta(base), gg_source_meta(donor), 0, note_key_conflict, &k);
    gg_table_conflicts(base, donor, note_key_conflict, &k);
    note_rest(&k, "keys differ");
    compare_layers(&k, base, donor, &job->moves);
    note_rest(&k, "per-layer keys differ");
    return k.err->status != GG_OK ? k.err->status : note_strangers(&k, job);
}

/* ---- what is read --------------------------------------------------------------------------- */

static void list_move(gg_source *s, size_t i, const gg_move *m, const gg_select *select, gg_reads r)
{
    const gg_tensor *t = gg_source_tensor(s, i);
    uint64_t n = m->experts ? t->dims[t->n_dims - 1] : 1;
    if (n == 0) return;
    r.n = t->bytes / n;
    for (uint64_t e = 0; e < n; e++) {
        if (m->experts && !gg_select_expert(select, e)) continue;
        r.from = m->experts ? gg_select_donor_expert(select, e) * r.n : 0;
        gg_source_reads(s, i, r);
    }
}

void gg_transplant_reads(gg_source *base, gg_source *donor, const gg_match_options *o,
                         const gg_moves *moves, gg_reads r)
{
    gg_tensor_pair pairs[GG_JUDGED];
    gg_source *ancestor = o->blend.ancestor;
    for (size_t i = 0; i < moves->n; i++) {
        const gg_move *m = &moves->list[i];
        if (m->kind == GG_MOVE_MISMATCH || m->donor == SIZE_MAX) continue;
        const gg_tensor *d = gg_source_tensor(donor, m->donor);
        size_t old = ancestor ? gg_source_find(ancestor, d->name, d->name_len) : SIZE_MAX;
        list_move(donor, m->donor, m, o->select, r);
        if (old != SIZE_MAX) list_move(ancestor, old, m, o->select, r);
    }
    size_t n = list_pairs(base, donor, moves, true, pairs);
    for (size_t k = 0; k < n; k++) {
        const gg_tensor *t = gg_source_tensor(donor, pairs[k].b);
        uint64_t rows = t->dims[0] ? t->elements / t->dims[0] : 0,
                 taken = gg_sample_count(rows, GG_JUDGED_ROWS);
        r.n = rows ? t->bytes / rows : 0;
        for (uint64_t i = 0; i < taken; i++) {
            r.from = gg_sample_index(i, rows, taken) * r.n;
            gg_source_reads(donor, pairs[k].b, r);
        }
    }
}

/* ---- would it work? ------------------------------------------------------------------------- */

static void note_line(void *run, gg_conflict kind, const char *line)
{
    (void)kind;
    gg_note(run, "%s", line);
}

gg_status gg_graft_check(gg_source *base, gg_source *donor, const gg_moves *moves,
                         const gg_run *run, gg_graft_check_report *out, gg_error *err)
{
    run = GG_OPTIONS(gg_run, run);
    *out = (gg_graft_check_report){ 0 };
    gg_tensor_pair *pairs = calloc(moves->n ? moves->n : 1, sizeof *pairs);
    if (!pairs) return gg_fail(err, GG_ENOMEM, "no memory for %zu pairs", moves->n);
    size_t k = list_pairs(base, donor, moves, false, pairs);
    for (size_t i = 0; i < moves->n; i++)
        out->mismatched += moves->list[i].kind == GG_MOVE_MISMATCH;
    out->move = moves->n - out->mismatched;
    gg_run quiet = *run; /* no progress for the check */
    quiet.progress = NULL;
    out->conflicts = gg_key_conflicts(gg_source_meta(base), gg_source_meta(donor), 0, note_line,
                                      &quiet) +
                     gg_table_conflicts(base, donor, note_line, &quiet);
    gg_lineage l;
    gg_compare_options o = { .sample = GG_LINEAGE_SAMPLE, .pairs = pairs, .n_pairs = k };
    gg_status st = gg_lineage_of(base, donor, &o, &quiet, &l, err);
    free(pairs);
    if (st != GG_OK) return st;
    out->strangers = l.verdict == GG_LINEAGE_STRANGERS;
    gg_lineage_text(&l, out->lineage, sizeof out->lineage);
    return GG_OK;
}
