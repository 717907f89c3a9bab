/* merge_models.h - opens the models of a merge, and finds the tensors that belong together.
 * Internal. */
#ifndef GG_MERGE_MODELS_H
#define GG_MERGE_MODELS_H

#include "merge_core.h"
#include "verbs/check/check_output.h"

/* A model as it was given. */
typedef struct gg_merge_model {
    char *path; /* owned */
    char *text; /* its parameters as given, owned; "" if there are none */
    gg_source *source;
    gg_source *aligned; /* NULL = used as it is */
    char sha256[65];    /* "" = not computed */
    uint64_t blocks;    /* how many blocks it must have; 0 = any number */
    gg_merge_settings settings;
} gg_merge_model;

typedef struct gg_merge_models {
    gg_merge_model *list; /* in the order given */
    size_t n;
    gg_merge_model base; /* path NULL = none */
    char *parameters;    /* of the whole merge, as given; owned */
} gg_merge_models;

void gg_merge_models_free(gg_merge_models *m);

/* Adds a model. `len` bytes of `path`; `text` may be NULL. */
gg_status gg_merge_models_add(gg_merge_models *m, const char *path, size_t len, const char *text,
                              gg_error *err);

/* The model with this path, or NULL; and the same, which adds it if there is none. */
gg_merge_model *gg_merge_models_find(const gg_merge_models *m, const char *path);
gg_status gg_merge_models_add_once(gg_merge_models *m, const char *path, gg_error *err);

/* Opens all models, and refuses a file that was given twice. A base that only gives keys may also
 * be one of the models. */
gg_status gg_merge_models_open(gg_merge_models *m, gg_merge_base use, const gg_run *run,
                               gg_error *err);

/* Replaces every model of m->models but `first` by its aligned version, as gg_align makes it. */
gg_status gg_merge_align(gg_merge_models *models, const gg_merging *m, gg_source *first,
                         const gg_run *run, gg_error *err);

/* Checks that all models have the architecture and the tokens of the first. `embeddings`: tokens
 * may differ. Differences of other keys, and models without a common lineage, become notes, or
 * an error with run->strict. */
gg_status gg_merge_kinship(const gg_merging *m, gg_source *first, bool embeddings,
                           const gg_run *run, gg_check_notes *notes, gg_error *err);

/* Finds tensor i of the first model in all others: at[k] as in gg_merge_producer. GG_NO if it is
 * missing or has other dims; GG_EUNSUPPORTED if it cannot be decoded. */
gg_status gg_merge_find(const gg_merging *m, const gg_source *first, size_t i, size_t *at,
                        gg_error *err);

#endif
