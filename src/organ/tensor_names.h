/* tensor_names.h - names of classes, blocks and experts. Internal. */
#ifndef GG_TENSOR_NAMES_H
#define GG_TENSOR_NAMES_H

#include "organ/gg_organ.h"
#include "organ/record.h"

const char *gg_class_folder(gg_class c); /* "skeleton" "organs" "embed" "norm" "adapters" "other" */

/* "blk.7.x.weight" from "blk.3.x.weight" and 7, in any prefix (enc., v.); false
 * when the name has no block or the result exceeds size. NUL-terminated. */
bool gg_name_with_block(const char *name, size_t name_len, int64_t block, char *out, size_t size,
                        size_t *out_len);

/* Is it the router of a block, or a bias of it? Those have one row or value per expert. */
bool gg_is_router(const char *name, const gg_anatomy *a);

/* Is this a stack of experts ("blk.N.ffn_gate_exps.weight" or .bias), and of how
 * many (its last dimension)? */
bool gg_is_expert_stack(const gg_tensor *t, uint64_t *experts);

/* "blk.N.ffn_gate.E.weight" from the stack's name. False when it exceeds size. */
bool gg_expert_name(const char *stack, size_t stack_len, uint64_t expert, char *out, size_t size,
                    size_t *out_len);

/* The other way: "blk.N.ffn_gate_exps.weight" from "blk.N.ffn_gate.E.weight". False for
 * other names, and when it exceeds size. */
bool gg_stack_name(const char *expert, size_t expert_len, char *out, size_t size, size_t *out_len);

#define GG_EXPERTS_MAX 65536 /* of a stack; a tensor that claims more is no stack */

/* The tensor of one expert: name into `name` (of GG_RECORD_NAME + 1 bytes), one
 * dimension less, bytes / experts; offset moved to the expert's place. */
bool gg_expert_tensor(const gg_tensor *stack, uint64_t expert, gg_tensor *out, char *name);

/* By name, folder or alias (attention, attn, ffn, embedding, normalization), in any case. */
bool gg_class_by_name(const char *name, size_t len, gg_class *c);

/* In any case. */
bool gg_part_by_name(const char *name, size_t len, gg_part *p);

#endif
