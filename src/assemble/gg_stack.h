/* gg_stack.h - make a model from the blocks of one or more models: drop, repeat, move or join
 * blocks.
 *
 *     gg_block_order order = { 0 };
 *     gg_status st = gg_block_order_add(&order, model, "0-7,4-11", &err);
 *     if (st == GG_OK) st = gg_stack_blocks(&order, NULL, "taller.gguf", NULL, NULL, &err);
 *     gg_block_order_free(&order);
 *
 * The general rules of organ.h apply.
 */
#pragma once

#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

/* One block of the new model. */
typedef struct gg_block_ref {
    size_t model;   /* index into gg_block_order.models */
    uint64_t block; /* its number in that model */
} gg_block_ref;

/* The blocks of the new model, in order. Start from all zero. The models remain the caller's and
 * must outlive the order. models[0], the first that was added, gives the keys and all tensors
 * outside the blocks. */
typedef struct gg_block_order {
    gg_source **models;
    size_t n_models, models_cap;
    gg_block_ref *blocks;
    size_t n, cap;
    const char *part; /* "enc" or "dec": blocks of an encoder or a decoder; else NULL. Static */
} gg_block_order;

/* Appends blocks of a seekable model in the order of the text: numbers and ranges such as
 * "0-3,6,2-4". A block may occur several times. Of a model with an encoder and a decoder (t5), the
 * text begins with "enc:" or "dec:", the same in all texts; the other blocks stay. Errors:
 * GG_EUSAGE for another text, bare organ records and split experts; GG_NO for a block that does not
 * exist, and for a model without block_count. After an error the order must still be freed. */
gg_status gg_block_order_add(gg_block_order *o, gg_source *model, const char *blocks,
                             gg_error *err);

/* Appends all blocks of a model except those of the text (NULL = none) and, with `mtp`, except its
 * multi-token-prediction blocks. Errors as above; GG_NO also if there are no such blocks or
 * none is left. */
gg_status gg_block_order_drop(gg_block_order *o, gg_source *model, const char *blocks, bool mtp,
                              gg_error *err);

void gg_block_order_free(gg_block_order *o); /* all zero again; models stay open */

/* A block of the new model, with its number of tensors and their bytes. */
typedef struct gg_stack_row {
    size_t block;
    gg_block_ref from;
    size_t tensors;
    uint64_t bytes;
} gg_stack_row;

/* A tensor of the new model, with the index of its model in the order. */
typedef struct gg_stack_tensor {
    const gg_tensor *t;
    size_t model;
    bool last;
    struct gg_plan_tensor *planned; /* internal: the copy, which other verbs may compute instead */
} gg_stack_tensor;

typedef struct gg_stack_options {
    /* Write the multi-token-prediction blocks, and the tensors outside the blocks, without the
     * trunk. The order must be all blocks of one model. Keys and numbers stay, as engines expect of
     * such a file. GG_NO if the model has no such blocks. */
    bool mtp_only;
    /* The importance matrix of the only model, and where to write that of the new model; or NULL.
     */
    const char *imatrix, *imatrix_out;
    /* Changes the keys of the new model before it is written. */
    gg_status (*keys)(void *ctx, gg_meta *meta, gg_error *err);
    /* Called for each block, and then for each tensor, in order, after all checks and before
     * anything is written. */
    gg_status (*row)(void *ctx, const gg_stack_row *row, gg_error *err);
    gg_status (*tensor)(void *ctx, const gg_stack_tensor *row, gg_error *err);
    void *ctx;
    gg_source **also; /* further sources that `tensor` reads from: they must not change */
    size_t n_also;
} gg_stack_options;

typedef struct gg_stack_report {
    size_t blocks, tensors;
    uint64_t bytes; /* written */
} gg_stack_report;

/* Writes the new model as one file; "-" is stdout, and NULL only checks.
 *
 * Tensors are copied byte for byte. The numbers in their names, block_count,
 * nextn_predict_layers, leading_dense_block_count, keys with one value per block, and
 * general.file_type follow. All blocks of one model in their order give that model byte for byte.
 *
 * Errors: GG_NO, with the key, tensor or block, for models whose architecture, embedding length,
 * heads, vocabulary, rope, feed-forward length or experts differ; for tensors with other dims;
 * for multi-token-prediction blocks before others; and for a block that would change its kind,
 * because an engine derives the kind from the number (sliding windows, leading dense blocks). */
gg_status gg_stack_blocks(const gg_block_order *order, const gg_stack_options *o,
                          const char *output, const gg_run *run, gg_stack_report *report,
                          gg_error *err);
