/* hf_names.h - models under the names of Hugging Face: an edit of a plan for gg_assemble. Internal.
 */
#pragma once

#include "write/plan.h"

typedef struct gg_hf_names {
    const gg_source *base; /* the model that an adapter is for, or NULL */
    gg_source *named;      /* private */
} gg_hf_names;

/* The edit writes a .safetensors file with the names and shapes of Hugging Face. Beside a
 * model.safetensors, config.json is written unless it exists and run.force is not set. An adapter
 * is written as PEFT has it, with adapter_config.json beside adapter_model.safetensors. A missing
 * folder of the output is made. */
gg_plan_edit gg_hf_names_edit(gg_hf_names *h);

/* Writes OUTPUT.index.json for the shards of a checkpoint. */
gg_status gg_write_index(const gg_plan *p, const char *output, const gg_run *run, gg_error *err);
/* GG_EUSAGE if there is one: a file beside the index of older shards would not be read, but these.
 */
gg_status gg_refuse_old_index(const char *output, gg_error *err);
