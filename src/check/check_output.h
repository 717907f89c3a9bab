/* check_output.h - checks a model that need not be in a file, such as the planned output of a run.
 * Internal. */
#pragma once

#include "organ/gg_check.h"

/* The kind of a source, from its keys and its tensors' names. A pipe must have been opened, but
 * nothing needs to have been read from it. */
gg_kind gg_kind_of(const gg_source *s);

/* The keys and tensors to check. They are not changed. Only name, name_len, n_dims, dims and
 * dtype of the tensors are read. */
typedef struct gg_check_input {
    const gg_meta *meta; /* NULL for bare records, where only the tensor rules are run */
    const gg_tensor *tensors;
    size_t n;
    uint32_t files; /* number of files of the model; 0 counts as 1 */
    /* Of a checkpoint: what gg_source_remarks returns, and whether its vocabulary is not read. */
    const char *remarks;
    bool no_vocabulary;
    const gg_error *refusal; /* of gg_source_refusal; then `kind` is that of the source */
    gg_kind kind;
} gg_check_input;

/* Judges an open source: what it lacks, and its keys and tensors. The one function behind all
 * verdicts. Of a pipe it uses what was read so far. `o` must not be NULL; o->data and o->target are
 * ignored. */
gg_status gg_check_source(const gg_source *s, const gg_check_options *o, gg_check_report *report,
                          gg_error *err);

/* Runs all rules on keys and tensors. `report` gets the number of findings per level. Findings do
 * not make it fail. */
gg_status gg_check_rules(const gg_check_input *in, const gg_check_options *o,
                         gg_check_report *report, gg_error *err);
