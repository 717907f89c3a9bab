/* new_blocks.c - blocks that a base gets in addition: their keys, and multi-token-prediction
 * blocks, see the section on MTP in docs/grafting.md. */
#include "new_blocks.h"

#include "base/error.h"
#include "base/names.h"
#include "gguf/gguf.h"
#include "organ/record.h"
#include "organ/tensor_names.h"
#include "verbs/plan/key_compat.h"
#include "verbs/plan/layer_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- blocks that are added to the base ------------------------------------------------------ */

/* A block that is added to the base, and its number in the donor. */
typedef struct added {
    uint64_t to, from;
} added;

static int order_added(const void *a, const void *b)
{
    const added *x = a, *y = b;
    return x->to < y->to ? -1 : x->to > y->to;
}

static int64_t block_number(const char *name, size_t len)
{
    if (len < 4 || memcmp(name, "blk.", 4) != 0) return -1;
    return gg_anatomy_of(name, len).block;
}

/* The distinct blocks from `first` on that moves add, sorted. */
static size_t list_added(const gg_source *donor, const gg_moves *moves, uint64_t first, added *out)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < moves->n; i++) {
        const gg_move *move = &moves->list[i];
        int64_t to = block_number(move->name, move->name_len);
        if (move->kind != GG_MOVE_ADD || to < 0 || (uint64_t)to < first) continue;
        const gg_tensor *t = gg_source_tensor(donor, move->donor);
        int64_t from = block_number(t->name, t->name_len);
        out[n++] = (added){ (uint64_t)to, from < 0 ? UINT64_MAX : (uint64_t)from };
    }
    if (n) qsort(out, n, sizeof *out, order_added);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || out[i].to != out[i - 1].to) out[kept++] = out[i];
    return kept;
}

/* They must follow the base's last block without a gap and exist in the donor. */
static gg_status check_added(const gg_layer_model *base, const gg_layer_model *donor,
                             const added *list, size_t n, gg_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].to != base->blocks + i) {
            gg_fail(err, GG_NO, "block %llu would be added, but there is no block %llu",
                    (unsigned long long)list[i].to, (unsigned long long)(base->blocks + i));
            gg_fix_hint(err, GG_HINT_MAP,
                        "choose the number of the block with a map such as %llu=N",
                        (unsigned long long)(base->blocks + i));
            return gg_at_file(err, base->name);
        }
        if (donor->blocks == 0 || list[i].from < donor->blocks) continue;
        gg_fail(err, GG_NO, "it has tensors of block %llu, but block_count is %llu",
                (unsigned long long)list[i].from, (unsigned long long)donor->blocks);
        return gg_at_file(err, donor->name);
    }
    return GG_OK;
}

static gg_status add_layers(const gg_layer_model models[2], const added *list, size_t n,
                            gg_meta *meta, gg_error *err)
{
    size_t blocks = (size_t)models[0].blocks;
    gg_layer *layers = calloc(blocks + n, sizeof *layers);
    if (!layers) return gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; i < blocks; i++) layers[i] = (gg_layer){ 0, i };
    for (size_t i = 0; i < n; i++) layers[blocks + i] = (gg_layer){ 1, list[i].from };
    gg_status st = gg_layer_keys(models, 2, layers, blocks + n, meta, err);
    free(layers);
    return st;
}

gg_status gg_added_blocks_meta(const gg_source *base, const gg_source *donor, const gg_moves *moves,
                               gg_meta *meta, gg_error *err)
{
    static const gg_meta none = GG_META_INIT; /* for a donor of bare records */
    const gg_meta *theirs = gg_source_meta(donor) ? gg_source_meta(donor) : &none;
    gg_layer_model models[2] = { { gg_source_meta(base), gg_source_name(base), 0 },
                                 { theirs, gg_source_name(donor), 0 } };
    models[0].blocks = gg_arch_number(models[0].meta, "block_count");
    models[1].blocks = gg_arch_number(theirs, "block_count");
    if (models[0].blocks == 0 || models[0].blocks > GG_LAYERS_MAX)
        return gg_meta_copy(meta, models[0].meta, err);
    added *list = calloc(moves->n + 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for the moves");
    size_t n = list_added(donor, moves, models[0].blocks, list);
    gg_status st = check_added(&models[0], &models[1], list, n, err);
    if (st == GG_OK)
        st = n ? add_layers(models, list, n, meta, err) : gg_meta_copy(meta, models[0].meta, err);
    free(list);
    return st;
}

/* ---- multi-token-prediction blocks -------------------------------------------------------------
 */

typedef struct mtp {
    const gg_source *base, *donor;
    const gg_meta *bm, *dm;
    uint64_t base_blocks, donor_blocks, nextn;
    uint64_t base_said; /* the base's block_count: more, if it announces blocks that are in another
                           file */
    gg_error *err;
} mtp;

static gg_status refuse_donor(const mtp *m, const char *what)
{
    gg_fail(m->err, GG_NO, "%s", what);
    return gg_at_file(m->err, gg_source_name(m->donor));
}

static void refuse_first_conflict(void *ctx, const char *line)
{
    const mtp *m = ctx;
    refuse_donor(m, line);
}

/* The index of the base's first tensor of this block or a later one; SIZE_MAX if none. */
static size_t tensor_from(const gg_source *base, uint64_t block)
{
    for (size_t i = 0; i < gg_source_count(base); i++) {
        const gg_tensor *t = gg_source_tensor(base, i);
        gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
        if (a.block >= 0 && (uint64_t)a.block >= block) return i;
    }
    return SIZE_MAX;
}

/* A base may announce prediction blocks that it does not have, because they are in a separate
 * file. It counts as having none, but its arrays have the announced length. */
static gg_status measure_base(mtp *m)
{
    uint64_t announced = gg_arch_number(m->bm, "nextn_predict_layers");
    m->base_said = gg_arch_number(m->bm, "block_count");
    m->base_blocks = m->base_said - (announced < m->base_said ? announced : 0);
    if (m->base_said == 0) {
        gg_fail(m->err, GG_NO, "the base has no block_count");
    } else if (announced > 0 &&
               (announced >= m->base_said || tensor_from(m->base, m->base_blocks) != SIZE_MAX)) {
        gg_fail(m->err, GG_NO, "the base already has multi-token-prediction blocks");
        gg_fix_hint(m->err, GG_HINT_BLOCK_TENSORS, "replace their tensors by name");
    } else {
        gg_layer_model base = { m->bm, gg_source_name(m->base), m->base_said };
        return gg_layer_lengths(&base, m->err);
    }
    return gg_at_file(m->err, gg_source_name(m->base));
}

static gg_status start_mtp(mtp *m, const gg_source *base, const gg_source *donor, gg_error *err)
{
    *m = (mtp){ .base = base,
                .donor = donor,
                .bm = gg_source_meta(base),
                .dm = gg_source_meta(donor),
                .err = err };
    if (!m->bm || !m->dm) return refuse_donor(m, "both must be models, not bare organ records");
    if (gg_key_conflicts(m->bm, m->dm, GG_COMPAT_BLOCKS, refuse_first_conflict, m) > 0)
        return GG_NO;
    m->donor_blocks = gg_arch_number(m->dm, "block_count");
    m->nextn = gg_arch_number(m->dm, "nextn_predict_layers");
    if (m->nextn == 0)
        return refuse_donor(
            m,
            "the donor has no multi-token-prediction blocks (nextn_predict_layers is 0 or absent)");
    if (m->nextn >= m->donor_blocks || m->donor_blocks > GG_LAYERS_MAX ||
        gg_arch_number(m->bm, "block_count") > GG_LAYERS_MAX)
        return refuse_donor(
            m, "the donor's nextn_predict_layers and block_count contradict each other");
    gg_layer_model from = { m->dm, gg_source_name(donor), m->donor_blocks };
    gg_status st = measure_base(m);
    return st == GG_OK ? gg_layer_lengths(&from, err) : st;
}

/* Every engine requires eh_proj [2 n_embd, n_embd], enorm and hnorm [n_embd]. */
static gg_status check_mtp_block(const mtp *m, uint64_t block)
{
    static const char *const needed[] = { "eh_proj", "enorm", "hnorm" };
    uint64_t n_embd = gg_arch_number(m->dm, "embedding_length");
    for (size_t i = 0; i < 3; i++) {
        char name[64], what[120];
        int len = snprintf(name, sizeof name, "blk.%llu.nextn.%s.weight", (unsigned long long)block,
                           needed[i]);
        size_t k = gg_source_find(m->donor, name, (size_t)len);
        snprintf(what, sizeof what, "the donor has no %s", name);
        if (k == SIZE_MAX) return refuse_donor(m, what);
        const gg_tensor *t = gg_source_tensor(m->donor, k);
        bool fits = i == 0 ? t->dims[0] == 2 * n_embd && t->dims[1] == n_embd
                           : t->dims[0] == n_embd && t->elements == n_embd;
        snprintf(what, sizeof what, "the donor's %s does not match its embedding length of %llu",
                 name, (unsigned long long)n_embd);
        if (!fits) return refuse_donor(m, what);
    }
    return GG_OK;
}

/* The base must not have tensors of blocks from block_count on. */
static gg_status check_room(const mtp *m)
{
    size_t i = tensor_from(m->base, m->base_blocks);
    if (i == SIZE_MAX) return GG_OK;
    const gg_tensor *t = gg_source_tensor(m->base, i);
    gg_fail(m->err, GG_NO, "the base has a tensor of block %lld, but a block_count of %llu",
            (long long)gg_anatomy_of(t->name, t->name_len).block,
            (unsigned long long)m->base_blocks);
    gg_at_tensor(m->err, t->name, t->name_len);
    return gg_at_file(m->err, gg_source_name(m->base));
}

/* The name that the donor's tensor gets in the base. */
static gg_status renumber(const mtp *m, const gg_tensor *t, int64_t block, gg_move *move,
                          gg_names *names)
{
    char name[GG_RECORD_NAME + 1];
    int64_t to = (int64_t)m->base_blocks + block - (int64_t)(m->donor_blocks - m->nextn);
    if (!gg_name_with_block(t->name, t->name_len, to, name, sizeof name, &move->name_len)) {
        gg_fail(m->err, GG_NO, "its name cannot be changed to block %lld", (long long)to);
        gg_at_tensor(m->err, t->name, t->name_len);
        return gg_at_file(m->err, gg_source_name(m->donor));
    }
    if (gg_source_find(m->base, name, move->name_len) != SIZE_MAX) {
        gg_fail(m->err, GG_NO, "the base already has a tensor with this name");
        gg_at_tensor(m->err, name, move->name_len);
        return gg_at_file(m->err, gg_source_name(m->base));
    }
    move->name = gg_names_add(names, name, move->name_len, m->err);
    return move->name ? GG_OK : GG_ENOMEM;
}

gg_status gg_mtp_moves(const gg_source *base, const gg_source *donor, gg_moves *moves,
                       gg_error *err)
{
    mtp m;
    gg_status st = start_mtp(&m, base, donor, err);
    uint64_t first = m.donor_blocks - m.nextn;
    if (st == GG_OK) st = check_room(&m);
    for (uint64_t b = first; st == GG_OK && b < m.donor_blocks; b++) st = check_mtp_block(&m, b);
    if (st != GG_OK) return st;
    gg_names names = { 0 };
    moves->list = calloc(gg_source_count(donor) + 1, sizeof *moves->list);
    if (!moves->list) return gg_fail(err, GG_ENOMEM, "no memory for the moves");
    for (size_t i = 0; i < gg_source_count(donor) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(donor, i);
        gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
        if (a.block < (int64_t)first || a.block >= (int64_t)m.donor_blocks) continue;
        gg_move *move = &moves->list[moves->n++];
        *move = (gg_move){ .kind = GG_MOVE_ADD, .base = SIZE_MAX, .donor = i };
        st = renumber(&m, t, a.block, move, &names);
    }
    moves->texts = names.last;
    return st;
}

gg_status gg_mtp_meta(const gg_source *base, const gg_source *donor, gg_meta *meta, gg_error *err)
{
    mtp m;
    gg_status st = start_mtp(&m, base, donor, err);
    if (st != GG_OK) return st;
    gg_layer_model models[2] = { { m.bm, gg_source_name(base), m.base_said },
                                 { m.dm, gg_source_name(donor), m.donor_blocks } };
    gg_layer *layers = calloc((size_t)(m.base_blocks + m.nextn), sizeof *layers);
    if (!layers) return gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (uint64_t i = 0; i < m.base_blocks; i++) layers[i] = (gg_layer){ 0, i };
    for (uint64_t i = 0; i < m.nextn; i++)
        layers[m.base_blocks + i] = (gg_layer){ 1, m.donor_blocks - m.nextn + i };
    st = gg_layer_keys(models, 2, layers, (size_t)(m.base_blocks + m.nextn), meta, err);
    free(layers);
    return st;
}
