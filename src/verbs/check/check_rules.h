/* check_rules.h - run the rules on keys and tensors that need not be in a file. Internal. */
#ifndef GG_CHECK_RULES_H
#define GG_CHECK_RULES_H

#include "organ/gg_check.h"

/* What is checked: keys and tensors, neither of which is changed. Only name, name_len,
 * n_dims, dims and dtype of the tensors are read. */
typedef struct gg_check_input {
    const gg_meta *meta; /* NULL: bare records, of which only tensor rules can be run */
    const gg_tensor *tensors;
    size_t n;
    uint32_t files; /* that the model has or will have; 0 counts as 1 */
} gg_check_input;

/* Run all rules. `found` counts the findings per level; it may be NULL. Findings come in
 * a fixed order. GG_OK also when there were errors among the findings. */
gg_status gg_check_rules(const gg_check_input *in, gg_finding_fn fn, void *ctx,
                         size_t found[GG_CHECK_LEVELS], gg_error *err);

#endif
