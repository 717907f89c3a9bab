/* gg_merge.h - merge several models into one.
 *
 *     const char *models[] = { "verse.gguf,weight=0.6", "code.gguf,weight=0.4,density=0.3" };
 *     gg_merge_options o = {
 *         .method = "ties,lambda=0.7", .base = "base.gguf", .models = models, .n_models = 2
 *     };
 *     gg_status st = gg_merge(&o, "merged.gguf", NULL, NULL, &err);
 *
 * docs/man/organ-merge.1 describes the methods and their parameters.
 * The general rules of organ.h apply: run and report may be NULL.
 */
#ifndef GG_MERGE_H
#define GG_MERGE_H

#include "gg_organ.h"
#include "gg_verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The part that the base plays in a method. */
typedef enum gg_merge_base {
    GG_MERGE_BASE_KEYS,  /* none: it only gives keys, types and, if asked for, embeddings */
    GG_MERGE_BASE_FIRST, /* it is the first of the models */
    GG_MERGE_BASE_MAY,   /* if there is one, the differences of the models from it are merged */
    GG_MERGE_BASE_MUST   /* there must be one, for the same purpose */
} gg_merge_base;

#define GG_MERGE_PARAMETERS 8 /* most parameters of a method */

/* A method of merging. All strings are static. */
typedef struct gg_merge_method_info {
    const char *name, *alias; /* alias may be NULL. In both, _ and - are the same */
    const char *meaning;
    gg_merge_base base;
    size_t least, most; /* number of models, without a base from which differences are taken */
    struct {
        const char *name, *meaning;
        double value; /* the default; NaN if it must be given */
    } parameters[GG_MERGE_PARAMETERS];
    size_t n_parameters;
} gg_merge_method_info;

/* Describes method i, from 0. Returns false past the last. */
bool gg_merge_method_at(size_t i, gg_merge_method_info *info);

/* Called for each tensor of the result in order, before anything is written. `how` is "merge",
 * or "copy" if the tensor is copied or converted from one model. `parameters` are those of this
 * tensor, as text: "weight=0.6,0.4 lambda=0.7", with one value per model where they differ. For
 * slices, which are copied, it is the name of the model.
 * Another status than GG_OK ends the run. */
typedef gg_status (*gg_merge_fn)(void *ctx, const gg_tensor *t, const gg_anatomy *a,
                                 const char *how, const char *parameters, gg_error *err);

typedef struct gg_merge_options {
    /* A configuration of mergekit as JSON, config_len bytes. It replaces `method`, `base` and
     * `models`, which must then be NULL. NULL = none. */
    const char *config;
    size_t config_len;
    /* NAME[,PARAMETER=VALUE]...: the method, and parameters of the whole merge. */
    const char *method;
    const char *base; /* path of the base model; NULL = none */
    /* PATH[,PARAMETER=VALUE]...: the models, and their own parameters. */
    const char *const *models;
    size_t n_models;
    uint64_t seed;             /* of methods that drop values at random */
    bool embeddings_from_base; /* copy the tensors of class GG_EMBED from the base (or the first
                                  model), whatever the vocabularies of the others are */
    bool align;                /* bring all models into the order of the base (or the first model)
                                  before they are merged, see gg_align.h */
    bool no_hash;              /* do not store the sha256 of the models */
    const char *card;          /* also write a model card in Markdown to this file; NULL = none. It
                                  gets its name after the model, which stays if that fails */
    gg_output_options output;
    gg_merge_fn row; /* may be NULL */
    void *row_ctx;
} gg_merge_options;

typedef struct gg_merge_report {
    size_t merged, copied; /* tensors */
    uint64_t bytes;        /* written */
} gg_merge_report;

/* Merges models tensor by tensor. The first model is the base, if there is one: it gives the keys,
 * the order of the tensors and their dtypes, which output.dtype changes. Keys below "organ.merge."
 * store the method, the parameters and the models. A path is whatever gg_source_open takes; one of
 * them may be "-". `output` is "-" for stdout, or NULL to check only.
 *
 * A parameter is NAME=VALUE or NAME:FILTER=VALUE. VALUE is a number, true or false, a ramp over the
 * blocks such as 0.2..0.8, or a list such as [0,0.5,1] that is interpolated over the blocks. FILTER
 * is a class (ffn), a role (ffn_down) or a pattern for whole names.
 *
 * Memory does not depend on the models, except for methods that need whole matrices.
 * Errors: GG_EUSAGE for a wrong option, parameter or configuration, a missing base, a wrong number
 * of models, and a file that is given under two names; GG_NO for models whose architecture, tensors
 * or vocabularies differ, and with run->strict for models that share no lineage; GG_EFORMAT for
 * values that are NaN or infinite; GG_EUNSUPPORTED for what a configuration asks for and this
 * library does not do, and for a dtype that cannot be decoded or encoded. */
gg_status gg_merge(const gg_merge_options *o, const char *output, const gg_run *run,
                   gg_merge_report *report, gg_error *err);

/* Calls `row` for each tensor of a model that gg_merge wrote, by the keys that it left, with the
 * texts that gg_merge gave it. Errors: GG_NO if the model has no such keys; GG_EFORMAT if they do
 * not describe a merge; GG_ENOMEM; any status of `row`. */
gg_status gg_merge_recall(const gg_source *model, gg_merge_fn row, void *ctx, gg_error *err);

#ifdef __cplusplus
}
#endif

#endif
