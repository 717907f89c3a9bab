/* check_rules.h - runs the rules on keys and tensors, which need not be in a file. Internal. */
#ifndef GG_CHECK_RULES_H
#define GG_CHECK_RULES_H

#include "organ/gg_check.h"

/* The keys and tensors to check. They are not changed. Only name, name_len, n_dims, dims and
 * dtype of the tensors are read. */
typedef struct gg_check_input {
    const gg_meta *meta; /* NULL for bare records, where only the tensor rules are run */
    const gg_tensor *tensors;
    size_t n;
    uint32_t files; /* number of files of the model; 0 counts as 1 */
} gg_check_input;

/* Run all rules. `found` receives the number of findings per level; it may be NULL. Findings
 * are reported in a fixed order. Returns GG_OK even if some findings are errors. */
gg_status gg_check_rules(const gg_check_input *in, gg_finding_fn fn, void *ctx,
                         size_t found[GG_CHECK_LEVELS], gg_error *err);

#endif
