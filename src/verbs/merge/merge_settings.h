/* merge_settings.h - the parameters of a merge: numbers, ramps over the blocks, and filters.
 * Internal.
 *
 * A setting is NAME[:FILTER]=VALUE. VALUE is a number, true or false, a ramp "0.2..0.8", or a list
 * "[0,0.5,1]" that is spread evenly over the blocks and interpolated. FILTER limits it to some
 * tensors: a class (ffn, attention, ...), a role (ffn_down), or a glob for whole names.
 */
#ifndef GG_MERGE_SETTINGS_H
#define GG_MERGE_SETTINGS_H

#include "organ/gg_organ.h"

typedef enum gg_merge_param {
    GG_MP_WEIGHT,
    GG_MP_DENSITY,
    GG_MP_GAMMA,
    GG_MP_EPSILON,
    GG_MP_LAMBDA,
    GG_MP_NORMALIZE,
    GG_MP_RESCALE,
    GG_MP_RESCALE_NORM,
    GG_MP_T,
    GG_MP_SELECT_TOPK,
    GG_MP_FILTER_WISE,
    GG_MP_MAX_ITER,
    GG_MP_TOL,
    GG_MP_R,
    GG_MP_ALPHA,
    GG_MP_EPS,
    GG_MP_FLATTEN,
    GG_MP_SCALE,
    GG_MP_COUNT
} gg_merge_param;

const char *gg_merge_param_name(gg_merge_param p);
const char *gg_merge_param_meaning(gg_merge_param p);
/* The parameter with this name, which may be one of mergekit's longer names; GG_MP_COUNT if there
 * is none. */
gg_merge_param gg_merge_param_by_name(const char *name, size_t len);

typedef struct gg_merge_setting {
    gg_merge_param param;
    char *filter;      /* owned; NULL = every tensor */
    bool by_substring; /* mergekit's filters: a part of the name that PyTorch models use */
    double *values;    /* owned */
    size_t n;
    size_t used; /* number of tensors that the filter matched, for unused ones */
} gg_merge_setting;

/* Start from all zero. The first setting of a parameter that matches a tensor decides. */
typedef struct gg_merge_settings {
    gg_merge_setting *list;
    size_t n, cap;
} gg_merge_settings;

void gg_merge_settings_free(gg_merge_settings *s);

/* Adds the settings of a text "NAME[:FILTER]=VALUE,...". Settings with a filter come before those
 * without. GG_EUSAGE for a mistake. */
gg_status gg_merge_settings_add(gg_merge_settings *s, const char *text, gg_error *err);

/* Appends one setting. `filter` may be NULL; values are copied. */
gg_status gg_merge_setting_append(gg_merge_settings *s, const gg_merge_setting *one, gg_error *err);

/* The value for a tensor in a model of `blocks` blocks. Returns false if no setting applies. */
bool gg_merge_setting_value(const gg_merge_settings *s, gg_merge_param p, const gg_tensor *t,
                            uint64_t blocks, double *value);

/* Counts the tensor for each filter that matches it. */
void gg_merge_settings_visit(gg_merge_settings *s, const gg_tensor *t);

/* GG_NO if a filter matched no tensor. */
gg_status gg_merge_settings_used(const gg_merge_settings *s, gg_error *err);

/* Where the text after the path of "PATH,NAME=VALUE,..." begins: its first comma that a setting
 * follows, or the end. */
size_t gg_merge_path_length(const char *text);

#endif
