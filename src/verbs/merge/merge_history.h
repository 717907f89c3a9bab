/* merge_history.h - what a merged model tells about its origin: keys and a model card. Internal. */
#ifndef GG_MERGE_HISTORY_H
#define GG_MERGE_HISTORY_H

#include "merge_models.h"

/* Computes the sha256 of all models that are single files. */
gg_status gg_merge_hash(gg_merge_models *models, const gg_run *run, gg_error *err);

/* Bytes of a model's name that are shown. */
#define GG_MERGE_NAME 256

/* The general.name of a model, or else the last part of its path. */
void gg_merge_model_name(const gg_merge_model *m, char out[GG_MERGE_NAME + 1]);

/* Sets general.name and the keys organ.merge.*. */
gg_status gg_merge_history_keys(const gg_merge_models *models, const gg_merging *m,
                                const gg_merge_options *o, gg_meta *meta, gg_error *err);

/* Writes the card to the open file `fd`. */
gg_status gg_merge_card(const gg_merge_models *models, const gg_merging *m,
                        const gg_merge_report *report, int fd, gg_error *err);

/* The parameters of a tensor as text: "weight=0.6,0.4 lambda=1". Cut to `size`. */
void gg_merge_job_text(const gg_merge_job *j, char *out, size_t size);

#endif
