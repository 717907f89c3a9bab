/* merge_config.h - reads configurations of mergekit, as JSON. Internal. */
#ifndef GG_MERGE_CONFIG_H
#define GG_MERGE_CONFIG_H

#include "merge_models.h"

/* A range of blocks of a model, for the method passthrough. */
typedef struct gg_merge_slice {
    char *path;        /* owned */
    uint64_t from, to; /* blocks from <= N < to */
} gg_merge_slice;

typedef struct gg_merge_config {
    const gg_merge_method *method;
    gg_merge_settings global;
    const char *dtype; /* as in gg_merge_options; NULL = none */
    /* The blocks of a passthrough; n_slices = 0 for all other merges. Then there are no models. */
    gg_merge_slice *slices;
    size_t n_slices;
} gg_merge_config;

/* Reads a configuration: the method and its parameters into *c, the models into *m. Members that
 * are not supported are refused by their name (GG_EUNSUPPORTED); GG_EUSAGE and GG_EFORMAT for
 * other mistakes. gg_merge_config_free must follow in any case. */
gg_status gg_merge_config_read(const char *text, size_t len, gg_merge_config *c, gg_merge_models *m,
                               gg_error *err);
/* Adds the parameters of an object of a configuration to the settings. Errors as above. */
gg_status gg_merge_config_parameters(const char *text, size_t len, gg_merge_settings *to,
                                     gg_error *err);
void gg_merge_config_free(gg_merge_config *c);

#endif
