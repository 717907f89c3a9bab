/* gg_align.h - bring the hidden units of a model into the order of another one.
 *
 * A model computes the same function if the units of a feed-forward layer change places, or its
 * experts, its attention heads, or the dimensions of its embeddings. Values of such models must not
 * be mixed before they are aligned. docs/lineage.md explains the method.
 *
 *     gg_source *aligned = NULL;
 *     gg_status st = gg_align(base, donor, NULL, &aligned, NULL, NULL, &err);
 *     if (st == GG_OK) st = gg_transplant(base, aligned, &o, "out.gguf", NULL, NULL, &err);
 *     gg_source_close(aligned);
 *
 * The general rules of organ.h apply.
 */
#ifndef GG_ALIGN_H
#define GG_ALIGN_H

#include "gg_organ.h"
#include "gg_verbs.h"

GG_BEGIN_DECLS

typedef enum gg_align_kind {
    GG_ALIGN_EMBEDDING, /* dimensions of the embeddings, in the whole model */
    GG_ALIGN_FFN,       /* units of a feed-forward layer, or of one expert */
    GG_ALIGN_KV,        /* key and value heads of a block */
    GG_ALIGN_HEAD,      /* query heads; they stay with their key and value head */
    GG_ALIGN_EXPERT,    /* experts of a block, with their rows of the router */
    GG_ALIGN_KINDS
} gg_align_kind;

/* Returns "embedding", "ffn", "kv", "head" or "expert"; a static string. */
const char *gg_align_name(gg_align_kind kind);

/* Maximum number of units in a group; larger groups are left alone. */
#define GG_ALIGN_UNITS 65536

/* Units that can change places with each other. */
typedef struct gg_align_group {
    gg_align_kind kind;
    int64_t block, donor_block; /* -1 for the embeddings */
    int64_t expert;             /* of the base, in a stack of experts; -1 = none */
    bool found; /* whether the two models have these units in common; if not, nothing moves */
    size_t n, moved;
    const uint32_t *from; /* n entries: unit u of the base is unit from[u] of the donor */
    const float *cosine;  /* n entries: of the two, the mean over their matrices */
    double mean, before;  /* cosine in the best order, even if not found, and without moving */
} gg_align_group;

typedef struct gg_align_options {
    const gg_select *select; /* only groups of which a tensor is selected; NULL = all */
    const gg_map *map;       /* which donor block goes into which base block; NULL = the same */
    gg_status (*row)(void *ctx, const gg_align_group *row, gg_error *err); /* each group in order */
    void *ctx;
} gg_align_options;

typedef struct gg_align_report {
    size_t groups, found;    /* all groups, and the groups with units in common */
    size_t units, moved;     /* of all groups */
    size_t decoded;          /* quantized tensors whose columns have to be encoded again */
    bool of[GG_ALIGN_KINDS]; /* whether units of this kind moved */
} gg_align_report;

/* Finds the order of the donor's units that fits the base best. If `aligned` is not NULL, it
 * receives the donor in this order: a source that can be used and closed like any other, and that
 * reads `donor`, which must stay open as long. Its rows are those of the donor, byte for byte. A
 * tensor whose columns move is F32 there if its blocks would have to be taken apart. If no unit
 * moves, the source has the same bytes as the donor. Notes tell what moves.
 *
 * Base and donor must be seekable. Blocks are paired by number or by the map. Groups whose tensors
 * differ in shape, are missing or cannot be decoded are left out, and so are the heads of records
 * without keys.
 *
 * Experts are matched first, by their rows of the router and the sums of their units; then the
 * units of each expert.
 *
 * Memory: 180 MiB and 4 bytes per unit. Time: about n^2 * 800 multiplications per group of n units,
 * at most n^2 * 1600.
 * Errors: GG_NO if `aligned` is wanted, but more than half of the groups have no counterpart in the
 * base, unless `run->partial` is set; GG_EUSAGE for a pipe, and for a map that uses a donor block
 * twice; GG_EIO; GG_EFORMAT; any status of the callback. */
gg_status gg_align(gg_source *base, gg_source *donor, const gg_align_options *o,
                   gg_source **aligned, const gg_run *run, gg_align_report *report, gg_error *err);

GG_END_DECLS

#endif
