/* tensor_names.h - tensor names with blocks and experts, and names of classes. Internal. */
#pragma once

#include "organ/gg_organ.h"
#include "record.h"

/* Returns the anatomy of a name of name_len bytes. The first matching rule of docs/formats.md
 * decides. It needs no source and cannot fail. */
gg_anatomy gg_anatomy_of(const char *name, size_t name_len);

const char *gg_class_folder(gg_class c); /* "skeleton" "organs" "embed" "norm" "adapters" "other" */
bool gg_is_class_folder(const char *name);
/* What people see: "attention" "ffn" "embedding" "norm" "adapter" "other". */
const char *gg_class_label(gg_class c);

/* Makes "blk.7.x.weight" from "blk.3.x.weight" and 7, with any prefix (enc., v.). The result is
 * NUL-terminated. Returns false if the name has no block or the result does not fit. */
bool gg_name_with_block(const char *name, size_t name_len, int64_t block, char *out, size_t size,
                        size_t *out_len);

/* Whether the tensor is the router of a block or a bias of it. These have one row or value per
 * expert. */
bool gg_is_router(const char *name, const gg_anatomy *a);

/* Whether the tensor has one row, value or matrix per expert along its last dimension: stacks,
 * their biases, and the router with its biases. */
bool gg_counts_experts(const gg_tensor *t);

/* Why the experts of its block cannot get other numbers; NULL if nothing in this tensor forbids it.
 */
const char *gg_experts_fixed(const gg_tensor *t);

/* Whether the tensor is a stack of experts ("blk.N.ffn_gate_exps.weight" or .bias). Sets *experts
 * to their number, which is the last dimension. */
bool gg_is_expert_stack(const gg_tensor *t, uint64_t *experts);

/* Makes "blk.N.ffn_gate.E.weight" from the name of the stack. Returns false if it does not fit. */
bool gg_expert_name(const char *stack, size_t stack_len, uint64_t expert, char *out, size_t size,
                    size_t *out_len);

/* The inverse: makes "blk.N.ffn_gate_exps.weight" from "blk.N.ffn_gate.E.weight". Returns false
 * for other names, and if the result does not fit. */
bool gg_stack_name(const char *expert, size_t expert_len, char *out, size_t size, size_t *out_len);

/* Keys of an adapter made by gg_lora_extract: a tensor that it changes, and the SHA-256 of the data
 * that this tensor has in the base. */
#define GG_LORA_BASE_TENSOR "adapter.base.tensor"
#define GG_LORA_BASE_SHA256 "adapter.base.sha256"

#define GG_EXPERTS_MAX 65536 /* maximum number of experts in a stack */

/* Describes one expert of a stack, which gg_is_expert_stack found to have `experts`, as a tensor
 * of its own: *out has one dimension less and bytes / experts, and its offset is that of the
 * expert. Its name is written to `name`, which needs GG_RECORD_NAME + 1 bytes. Returns false if
 * the stack has no such expert, or if the name is too long. */
bool gg_expert_tensor(const gg_tensor *stack, uint64_t experts, uint64_t expert, gg_tensor *out,
                      char *name);

/* Finds a class by its name, its folder or an alias (attention, attn, ffn, embedding,
 * normalization), ignoring case. */
bool gg_class_by_name(const char *name, size_t len, gg_class *c);

/* Finds a part by its name, ignoring case. */
bool gg_part_by_name(const char *name, size_t len, gg_part *p);

/* The separate tensor that scales a weight's values (in NVFP4), such as "blk.0.ffn_up.scale"
 * for "blk.0.ffn_up.weight": its index, SIZE_MAX if none, and its name. */
size_t gg_find_scale(const gg_source *s, const char *weight, size_t len,
                     char name[GG_RECORD_NAME + 1]);
