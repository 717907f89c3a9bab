/* fused.h - matrices that some models store as one tensor and others as several: attn_qkv, and
 * attn_q, attn_k and attn_v; ffn_gate_up_exps, and ffn_gate_exps and ffn_up_exps; ffn_up with twice
 * the rows, and ffn_gate and ffn_up. The rows of the parts follow each other in the fused tensor,
 * in every expert. Biases are joined like rows; scales must be equal. Internal.
 */
#pragma once

#include "organ/gg_organ.h"

typedef enum gg_fused_kind {
    GG_FUSED_QKV,
    GG_FUSED_EXPERTS,
    GG_FUSED_FFN,
    GG_FUSED_KINDS
} gg_fused_kind;

#define GG_FUSED_PARTS 3 /* at most */

typedef struct gg_fused_names {
    const char *fused, *parts[GG_FUSED_PARTS]; /* "attn_qkv"; those that are not used are NULL */
} gg_fused_names;
extern const gg_fused_names gg_fused_names_of[GG_FUSED_KINDS];

/* Which tensors of a kind a block has. */
typedef struct gg_fused_group {
    int64_t block;
    gg_fused_kind kind;
    bool fuse;                     /* to fuse, or else to divide */
    uint64_t rows[GG_FUSED_PARTS]; /* of the parts, if it is to divide */
} gg_fused_group;

/* The indices of a group's tensors with that suffix (".weight"), or SIZE_MAX. ffn_up is the fused
 * tensor if there is no ffn_gate.weight. */
typedef struct gg_fused_members {
    size_t fused, parts[GG_FUSED_PARTS];
    size_t n;    /* number of parts that the kind has */
    size_t have; /* number of parts that are there */
} gg_fused_members;
gg_fused_members gg_fused_find(const gg_source *s, int64_t block, gg_fused_kind kind,
                               const char *suffix);

/* Whether tensor i of a block is the weight of the fused form, or else of the first part. */
bool gg_fused_leads(const gg_source *s, size_t i, gg_fused_kind kind, int64_t *block);

/* Opens a source that shows the groups in their other form, in place of their first tensor; all
 * other tensors are those of `of`. If `owned`, closing it closes `of` too, and parts of different
 * dtypes are decoded; otherwise they are refused. Errors: GG_NO, with the tensor, if parts do not
 * fit together; GG_ENOMEM. */
gg_status gg_fused_open(gg_source *of, const gg_fused_group *groups, size_t n, bool owned,
                        gg_source **out, gg_error *err);

/* Writes name k, from 0, of the tensors that have the inputs of this weight in the other form: the
 * fused one, or its parts. Returns false after the last. */
bool gg_fused_sibling(const char *name, size_t len, size_t k, char *out, size_t size);
