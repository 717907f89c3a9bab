/* kinship.c - checks whether the models of a graft belong together: as notes before a graft, and as
 * a report on whether it would work. */
#include "grafting.h"

#include "gguf/gguf.h"
#include "organ/gg_compare_model.h"
#include "organ/gg_transplant.h"
#include "organ/tensor_names.h"
#include "verbs/plan/key_compat.h"
#include "verbs/plan/layer_keys.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JUDGED 12         /* number of matrices compared: enough to recognize unrelated models */
#define SHOWN ((size_t)3) /* notes of one kind */

typedef struct kinship {
    gg_check_notes *notes;
    size_t n; /* findings of the current kind */
    gg_error *err;
} kinship;

static void note_key_conflict(void *ctx, const char *line)
{
    kinship *k = ctx;
    if (k->n++ < SHOWN) gg_check_notes_add(k->notes, k->err, "%s", line);
}

static void note_rest(kinship *k, const char *what)
{
    if (k->n > SHOWN) gg_check_notes_add(k->notes, k->err, "%zu more %s", k->n - SHOWN, what);
    k->n = 0;
}

/* Compared by name, whatever the map, because blocks at different depths never match. */
static gg_status note_strangers(kinship *k, gg_source *base, gg_source *donor,
                                const gg_moves *moves)
{
    gg_tensor_pair pairs[JUDGED];
    size_t n = 0, step = moves->n / JUDGED + 1;
    for (size_t i = 0; i < moves->n && n < JUDGED; i += step) {
        const gg_move *m = &moves->list[i];
        size_t twin = m->base == SIZE_MAX ? SIZE_MAX : gg_source_find(donor, m->name, m->name_len);
        if (twin != SIZE_MAX && gg_source_tensor(base, m->base)->dims[1] > 1)
            pairs[n++] = (gg_tensor_pair){ m->base, twin };
    }
    if (n == 0) return GG_OK;
    gg_lineage l;
    gg_run quiet = { .threads = 1 };
    gg_compare_options o = { .sample = 32, .pairs = pairs, .n_pairs = n };
    gg_status st = gg_lineage_of(base, donor, &o, &quiet, &l, k->err);
    if (st == GG_OK && l.verdict == GG_LINEAGE_STRANGERS)
        st = gg_check_notes_add(k->notes, k->err,
                                "the models share no lineage: the moved tensors will not fit the "
                                "others");
    if (st == GG_OK && l.verdict == GG_LINEAGE_PERMUTED)
        st = gg_check_notes_add(k->notes, k->err,
                                "hidden units of the donor have changed places (%s): blends and "
                                "parts of layers will not fit unless the donor is aligned",
                                l.permuted);
    return st;
}

static bool key_ends(const gg_kv *kv, const char *end)
{
    size_t n = strlen(end);
    return kv->key_len > n && memcmp(kv->key + kv->key_len - n, end, n) == 0;
}

/* The value of a per-layer key for a block, as bits; false if there is none. The key may also
 * be a period, by which every n-th block differs. */
static bool layer_value(const gg_kv *kv, uint64_t block, uint64_t *bits)
{
    uint64_t n;
    if (kv->type != GG_TYPE_ARR) {
        if (!key_ends(kv, ".sliding_window_pattern") && !key_ends(kv, ".full_attention_interval"))
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
            gg_check_notes_add(
                k->notes, k->err,
                "block %lld gets tensors of the donor's block %lld, which has a different "
                "%.*s; the base's value is used",
                (long long)to, (long long)from, (int)(kv->key_len < 100 ? kv->key_len : 100),
                kv->key);
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
        int64_t to = gg_anatomy_of(t->name, t->name_len).block;
        int64_t from = gg_anatomy_of(d->name, d->name_len).block;
        if (to < 0 || from < 0 || (to == last_to && from == last_from)) continue;
        compare_block(k, gg_source_meta(base), gg_source_meta(donor), to, from);
        last_to = to;
        last_from = from;
    }
}

gg_status gg_kinship_notes(gg_source *base, gg_source *donor, const gg_moves *moves,
                           const gg_run *run, gg_check_notes *notes, gg_error *err)
{
    kinship k = { notes, 0, err };
    if (!run || !run->note || moves->n == 0 || !gg_source_seekable(base) ||
        !gg_source_seekable(donor) || !gg_source_meta(base) || !gg_source_meta(donor))
        return GG_OK;
    gg_key_conflicts(gg_source_meta(base), gg_source_meta(donor), 0, note_key_conflict, &k);
    note_rest(&k, "keys differ");
    compare_layers(&k, base, donor, moves);
    note_rest(&k, "per-layer keys differ");
    return err->status != GG_OK ? err->status : note_strangers(&k, base, donor, moves);
}

/* ---- would it work?
 * ------------------------------------------------------------------------------ */

static void note_conflict(void *run, const char *line)
{
    gg_note(run, "%s", line);
}

gg_status gg_graft_check(gg_source *base, gg_source *donor, const gg_moves *moves,
                         const gg_run *run, gg_graft_check_report *out, gg_error *err)
{
    run = GG_OPTIONS(gg_run, run);
    *out = (gg_graft_check_report){ 0 };
    gg_tensor_pair *pairs = calloc(moves->n ? moves->n : 1, sizeof *pairs);
    if (!pairs) return gg_fail(err, GG_ENOMEM, "no memory for %zu pairs", moves->n);
    size_t k = 0;
    for (size_t i = 0; i < moves->n; i++) {
        const gg_move *move = &moves->list[i];
        if (move->kind == GG_MOVE_MISMATCH) {
            out->mismatched++;
            continue;
        }
        out->move++;
        /* Compared by name, whatever the map, because blocks at different depths are orthogonal
         * even within one model. */
        size_t twin = move->base == SIZE_MAX ? SIZE_MAX
                                             : gg_source_find(donor, move->name, move->name_len);
        if (twin != SIZE_MAX) pairs[k++] = (gg_tensor_pair){ move->base, twin };
    }
    gg_run quiet = *run; /* no progress for the check */
    quiet.progress = NULL;
    out->conflicts = gg_key_conflicts(gg_source_meta(base), gg_source_meta(donor), 0, note_conflict,
                                      &quiet);
    gg_lineage l;
    gg_compare_options o = { .sample = GG_LINEAGE_SAMPLE, .pairs = pairs, .n_pairs = k };
    gg_status st = gg_lineage_of(base, donor, &o, &quiet, &l, err);
    free(pairs);
    if (st != GG_OK) return st;
    out->strangers = l.verdict == GG_LINEAGE_STRANGERS;
    gg_lineage_text(&l, out->lineage, sizeof out->lineage);
    return GG_OK;
}
