/* merge_run.h - a merge that is planned: verb_merge.c plans whole models, merge_slices.c models of
 * slices, and merge_models.c has what both need of the models. Internal. */
#pragma once

#include "merging.h"

#include "compute/compute.h"
#include "compute/dtype_rules.h"
#include "write/plan.h"
#include "write/verb_run.h"

#define GG_MERGE_HEAD "output.weight"

/* A model, or the base. */
typedef struct merge_member {
    gg_source *source;  /* the caller's; NULL = there is no base */
    gg_source *shown;   /* with another vocabulary; NULL = with its own */
    gg_source *aligned; /* owned; NULL = used as it is */
    const char *text;   /* its parameters as given; NULL = none */
    char sha256[65];    /* "" = not computed */
} merge_member;

typedef struct merge_run {
    const gg_merge_models *given;
    const gg_merge_options *o;
    const gg_run *run;
    merge_member all[1 + GG_MERGE_MODELS]; /* the base, and n models */
    size_t n;
    char *slices; /* the slices, as parameters; owned; NULL = none */
    gg_merging m;
    gg_source *first;  /* gives keys, order and dtypes; a view if the vocabulary changes, */
    gg_source *origin; /* and what it shows */
    gg_merge_shown shown;
    gg_plan plan;
    gg_computations made;
    gg_imatrix *imatrix; /* NULL = none */
    gg_dtype_rules *rules;
    gg_held_notes notes;
    gg_merge_report *report;
    bool sliced;    /* the result has other blocks than the models */
    bool head;      /* the result has a head although the first model has none of its own */
    bool defaulted; /* note_default has noted a tensor */
    gg_error *err;
} merge_run;

/* ---- merge_models.c ---------------------------------------------------------------------- */

/* Takes the models, each of which must be a file of its own. A base that only gives keys may also
 * be one of the models. */
gg_status gg_merge_take_models(merge_run *g, gg_merge_base use);

/* Refuse a parameter that the method does not take, and another number of models. */
gg_status gg_merge_check_settings(const merge_run *g, const gg_merge_settings *s);
gg_status gg_merge_check_number(const merge_run *g, size_t n);

/* Compares a model with the first. Differences of keys other than the architecture and the tokens,
 * and a model without a common lineage, become notes, or the lineage an error with run->strict. */
gg_status gg_merge_check_kinship(merge_run *g, gg_source *s);

/* Hashes the models. The samples must be those of the model. */
gg_status gg_merge_hash_models(merge_run *g);

/* Sets general.name and the keys organ.merge.*. The first error ends up in g->err. */
gg_status gg_merge_set_history(const merge_run *g, gg_meta *meta);

/* Writes the card to the open file `fd`, from `at` on. */
gg_status gg_merge_write_card(const merge_run *g, int fd, uint64_t at);

/* Neither the result nor its card replaces a model, or the other one. */
gg_status gg_merge_guard(const merge_run *g, const char *output);

/* Whether a tensor stays that of the first model: integers, tables of RoPE, which are computed from
 * the keys of the first model, and embeddings if the base gives them. */
bool gg_merge_keeps(const merge_run *g, const gg_tensor *t);

/* Finds the tensor t of the first model in another one. GG_NO if it is missing or has other dims;
 * GG_EUNSUPPORTED if it cannot be decoded. */
gg_status gg_merge_find(const merge_run *g, const gg_source *s, const gg_tensor *t, size_t *at);

/* Plans a tensor, which may be planned as a copy, as that of a source, in its dtype. */
gg_status gg_merge_copy(merge_run *g, gg_plan_tensor *pt, gg_source *s, size_t at);

/* Values that a separate tensor scales (in NVFP4) are not those of the weight alone. */
gg_status gg_merge_refuse_scaled(const merge_run *g, const gg_source *s, const gg_tensor *t);

/* Notes a tensor that no filter of a parameter matches which mergekit requires. */
gg_status gg_merge_note_default(merge_run *g, const gg_merging *m, const gg_tensor *t);

/* Calls o->row. */
gg_status gg_merge_tell(const merge_run *g, const gg_tensor *t, const char *how, const char *text);

/* ---- merge_slices.c ---------------------------------------------------------------------- */

/* Whether each slice has the same blocks of all models, so that all of them are one merge. */
bool gg_merge_whole_models(const merge_run *g);

/* Writes a model of slices that are copied, or scaled; and one of slices that are merged, each from
 * its own sources. */
gg_status gg_merge_join_slices(merge_run *g, const char *output);
gg_status gg_merge_slices(merge_run *g, const char *output);
