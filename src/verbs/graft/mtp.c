/* mtp.c - transplants multi-token-prediction (MTP) blocks: every block, every tensor of each,
 * and every key that counts blocks.
 *
 *     donor  blk.0 ... blk.D-n-1 | blk.D-n ... blk.D-1      D = block_count, n = nextn
 *     base   blk.0 ... blk.B-1   | blk.B   ... blk.B+n-1    blocks that it gets
 */
#include "mtp.h"

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

typedef struct mtp {
    const gg_source *base, *donor;
    const gg_meta *bm, *dm;
    uint64_t base_blocks, donor_blocks, nextn;
    uint64_t base_said; /* the base's block_count: more, if it announces blocks that are in another
                           file */
    gg_error *err;
} mtp;

static gg_status no(const mtp *m, const char *what)
{
    gg_fail(m->err, GG_NO, "%s", what);
    return gg_at_file(m->err, gg_source_name(m->donor));
}

static void first_conflict(void *ctx, const char *line)
{
    const mtp *m = ctx;
    no(m, line);
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

static gg_status start(mtp *m, const gg_source *base, const gg_source *donor, gg_error *err)
{
    *m = (mtp){ .base = base,
                .donor = donor,
                .bm = gg_source_meta(base),
                .dm = gg_source_meta(donor),
                .err = err };
    if (!m->bm || !m->dm) return no(m, "both must be models, not bare organ records");
    if (gg_key_conflicts(m->bm, m->dm, GG_COMPAT_BLOCKS, first_conflict, m) > 0) return GG_NO;
    m->donor_blocks = gg_arch_number(m->dm, "block_count");
    m->nextn = gg_arch_number(m->dm, "nextn_predict_layers");
    if (m->nextn == 0)
        return no(
            m,
            "the donor has no multi-token-prediction blocks (nextn_predict_layers is 0 or absent)");
    if (m->nextn >= m->donor_blocks || m->donor_blocks > GG_LAYERS_MAX ||
        gg_arch_number(m->bm, "block_count") > GG_LAYERS_MAX)
        return no(m, "the donor's nextn_predict_layers and block_count contradict each other");
    gg_layer_model from = { m->dm, gg_source_name(donor), m->donor_blocks };
    gg_status st = measure_base(m);
    return st == GG_OK ? gg_layer_lengths(&from, err) : st;
}

/* Every engine requires eh_proj [2 n_embd, n_embd], enorm and hnorm [n_embd]. */
static gg_status check_block(const mtp *m, uint64_t block)
{
    static const char *const needed[] = { "eh_proj", "enorm", "hnorm" };
    uint64_t n_embd = gg_arch_number(m->dm, "embedding_length");
    for (size_t i = 0; i < 3; i++) {
        char name[64], what[120];
        int len = snprintf(name, sizeof name, "blk.%llu.nextn.%s.weight", (unsigned long long)block,
                           needed[i]);
        size_t k = gg_source_find(m->donor, name, (size_t)len);
        snprintf(what, sizeof what, "the donor has no %s", name);
        if (k == SIZE_MAX) return no(m, what);
        const gg_tensor *t = gg_source_tensor(m->donor, k);
        bool fits = i == 0 ? t->dims[0] == 2 * n_embd && t->dims[1] == n_embd
                           : t->dims[0] == n_embd && t->elements == n_embd;
        snprintf(what, sizeof what, "the donor's %s does not match its embedding length of %llu",
                 name, (unsigned long long)n_embd);
        if (!fits) return no(m, what);
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
    gg_status st = start(&m, base, donor, err);
    uint64_t first = m.donor_blocks - m.nextn;
    if (st == GG_OK) st = check_room(&m);
    for (uint64_t b = first; st == GG_OK && b < m.donor_blocks; b++) st = check_block(&m, b);
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
    gg_status st = start(&m, base, donor, err);
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
