/* added_blocks.c - adapts block_count and per-layer keys of a base that gets more blocks. */
#include "added_blocks.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "organ/tensor_names.h"
#include "verbs/plan/layer_keys.h"

#include <stdlib.h>
#include <string.h>

/* A block that is added to the base, and its number in the donor. */
typedef struct added {
    uint64_t to, from;
} added;

static int order_added(const void *a, const void *b)
{
    const added *x = a, *y = b;
    return x->to < y->to ? -1 : x->to > y->to;
}

static int64_t block_of(const char *name, size_t len)
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
        int64_t to = block_of(move->name, move->name_len);
        if (move->kind != GG_MOVE_ADD || to < 0 || (uint64_t)to < first) continue;
        const gg_tensor *t = gg_source_tensor(donor, move->donor);
        int64_t from = block_of(t->name, t->name_len);
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

static gg_status grow(const gg_layer_model models[2], const added *list, size_t n, gg_meta *meta,
                      gg_error *err)
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
        st = n ? grow(models, list, n, meta, err) : gg_meta_copy(meta, models[0].meta, err);
    free(list);
    return st;
}
