/* check_fused.h - which fused tensors an engine loads. */
#pragma once

#include "organ/fused.h"

/* Which forms of a kind of tensors an engine loads in a block, by the table of the architecture. */
typedef struct gg_fused_rule {
    int64_t block;
    gg_fused_kind kind;
    uint64_t rows; /* of the fused tensor */
    bool fused, separate;
    bool divided; /* `parts` has the rows of the parts, which have `rows` together */
    uint64_t parts[GG_FUSED_PARTS];
} gg_fused_rule;

/* Fills the rules, of which block, kind and rows are set. GG_NO if there is no table. */
gg_status gg_fused_rules(const gg_meta *meta, gg_fused_rule *rules, size_t n, gg_error *err);
