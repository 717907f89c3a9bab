/* gg_merge.h - merge several models into one.
 *
 *     gg_merge_model list[] = { { verse, "weight=0.6" }, { code, "weight=0.4,density=0.3" } };
 *     gg_merge_models models = { .base = base, .list = list, .n = 2 };
 *     gg_merge_options o = { .method = "ties", .parameters = "lambda=0.7" };
 *     gg_status st = gg_merge(&models, &o, "merged.gguf", NULL, NULL, &err);
 *
 * The general rules of organ.h apply.
 */
#ifndef GG_MERGE_H
#define GG_MERGE_H

#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

GG_BEGIN_DECLS

/* ---- methods ------------------------------------------------------------------ */

/* The part that the base plays in a method. */
typedef enum gg_merge_base {
    GG_MERGE_BASE_KEYS,  /* none: it only gives keys, types and, if asked for, embeddings */
    GG_MERGE_BASE_FIRST, /* it is the first of the models */
    GG_MERGE_BASE_MAY,   /* if there is one, the differences of the models from it are merged */
    GG_MERGE_BASE_MUST,  /* there must be one, for the same purpose */
} gg_merge_base;

#define GG_MERGE_PARAMETERS 8 /* most parameters of a method */

typedef struct gg_merge_parameter {
    const char *name, *alias; /* alias: NULL = none */
    const char *meaning;      /* a line without a period */
    double least, most;
    bool above;   /* `least` itself is not allowed */
    bool each;    /* models may have different values; else one counts for the whole merge */
    double value; /* the default; NaN = it must be given */
} gg_merge_parameter;

typedef struct gg_merge_method_info {
    const char *name, *alias; /* alias: NULL = none. In both, - and _ are the same. */
    const char *meaning;      /* a line without a period */
    gg_merge_base base;
    size_t least, most; /* number of models; a base counts only with GG_MERGE_BASE_FIRST */
    bool random;        /* drops values at random, so the seed counts */
    gg_merge_parameter parameters[GG_MERGE_PARAMETERS];
    size_t n_parameters;
    const char *parts; /* defaults for parts of a model, "t:embed=0.7,..."; NULL = none */
} gg_merge_method_info;

/* Describes method i of all. Returns false if there are not so many. The texts are static. */
bool gg_merge_method_at(size_t i, gg_merge_method_info *out);

/* ---- merging ------------------------------------------------------------------ */

/* Parameters are a text such as "weight=0.6,density:ffn=0.3", or NULL for none. Each is NAME=VALUE
 * or NAME:FILTER=VALUE. VALUE is a number, true or false, a ramp over the blocks such as 0.2..0.8,
 * or a list such as [0,0.5,1] that is interpolated over the blocks. FILTER is a class (ffn), a role
 * (ffn_down) or a pattern for whole names. A text that begins with { is the JSON object
 * "parameters" of a mergekit configuration. */

typedef struct gg_merge_model {
    gg_source *source;      /* seekable (gg_source_options.spooled) */
    const char *parameters; /* of this model */
    gg_source *activations; /* samples of the inputs of its matrices (docs/formats.md), which some
                               methods need; NULL = none */
} gg_merge_model;

/* A source of a slice: blocks from <= N < to of models.list[model]. */
typedef struct gg_merge_slice {
    size_t model; /* SIZE_MAX = the base */
    uint64_t from, to;
    bool more; /* it belongs to the slice of the one before, and has as many blocks */
} gg_merge_slice;

typedef struct gg_merge_models {
    gg_source *base; /* NULL = none */
    const gg_merge_model *list;
    size_t n;
    /* If there are any, the result consists of these slices, one after another, and each is merged
     * from its sources. The first source of a slice gives the types of its tensors, that of the
     * first slice the keys. Tensors before the blocks are merged from the models of the first
     * slice, those after them from the models of the last. NULL = none. */
    const gg_merge_slice *slices;
    size_t n_slices;
} gg_merge_models;

/* One tensor of the result. */
typedef struct gg_merge_row {
    const gg_tensor *t;
    const char *how; /* "merge", or "copy" if it is copied or converted from one model */
    /* Its parameters, as text: "weight=0.6,0.4 lambda=0.7", with one value per model where they
     * differ, and "experts 0-2: weight=1; experts 3-3: weight=0" where experts of a stack differ.
     * For slices, which are copied, it is the name of the model. */
    const char *parameters;
} gg_merge_row;

typedef gg_status (*gg_merge_fn)(void *ctx, const gg_merge_row *row, gg_error *err);

/* ---- vocabularies --------------------------------------------------------------- */

typedef enum gg_merge_words {
    GG_MERGE_WORDS_SAME, /* all models must have the same */
    GG_MERGE_WORDS_BASE, /* that of the base or, without one, of the first model */
    GG_MERGE_WORDS_OF,   /* that of another model */
    /* That of the base or first model, and then the tokens that only other models have: in the
     * order of the models, first those that are divided like words, and then special and
     * user-defined ones. */
    GG_MERGE_WORDS_UNION,
} gg_merge_words;

/* The row of one token. A text that the vocabulary does not have is added to it. */
typedef struct gg_merge_token {
    const char *text;
    gg_source *model;  /* one of the models, or the base; NULL = zeros */
    const char *token; /* of that model, if it is another one; or NULL, and */
    uint64_t id;       /* its number; UINT64_MAX = the token with the same text */
    bool forced;       /* also for models that have the token */
} gg_merge_token;

/* Before any method runs, the matrices with one row per token get the rows of one vocabulary.
 * Tokens are matched by their text or, between different kinds of tokenizers, by the bytes that
 * they stand for. A model without a token gets the row of the only model that has it or, if there
 * are several, that of the base, or without a base their mean. A row of no model is 0. */
typedef struct gg_merge_vocabulary {
    gg_merge_words words;
    gg_source *of; /* GG_MERGE_WORDS_OF: only its keys are read */
    const gg_merge_token *tokens;
    size_t n_tokens;
    uint64_t multiple; /* add unused tokens up to a multiple of it; 0 = none */
} gg_merge_vocabulary;

typedef struct gg_merge_options {
    const char *method;        /* name, see gg_merge_method_at */
    const char *parameters;    /* of the whole merge */
    uint64_t seed;             /* of methods that drop values at random */
    bool embeddings_from_base; /* copy the tensors of class GG_EMBED from the base (or the first
                                  model), whatever the vocabularies of the others are */
    gg_merge_vocabulary vocabulary; /* not with embeddings_from_base */
    bool align;       /* bring all models into the order of the base (or the first model)
                         before they are merged, see gg_align.h */
    bool no_hash;     /* do not store the sha256 of the models */
    const char *card; /* also write a model card in Markdown to this file; NULL = none. It
                         gets its name after the model, which stays if that fails */
    gg_output_options output;
    gg_merge_fn row; /* called for each tensor in order, before anything is written; may be NULL */
    void *ctx;
} gg_merge_options;

typedef struct gg_merge_report {
    size_t merged, copied; /* tensors */
    uint64_t bytes;        /* written */
} gg_merge_report;

/* Merges models tensor by tensor. The first model is the base, if there is one: it gives the keys,
 * the order of the tensors and their dtypes, which output.dtype changes. Keys below "organ.merge."
 * store the method, the parameters and the models. `output` is "-" for stdout, or NULL to check
 * only.
 *
 * Memory does not depend on the models, except for methods that need whole matrices.
 * Errors: GG_EUSAGE for a wrong option or parameter, a missing base, a wrong number of models, a
 * model of bare records, and a file that is given under two names; GG_NO for models whose
 * architecture, tensors or vocabularies differ, and with run->strict for models that share no
 * lineage; GG_EFORMAT for values that are NaN or infinite; GG_EUNSUPPORTED for a dtype that cannot
 * be decoded or encoded. */
gg_status gg_merge(const gg_merge_models *models, const gg_merge_options *o, const char *output,
                   const gg_run *run, gg_merge_report *report, gg_error *err);

/* Calls `row` for each tensor of a model that gg_merge wrote, by the keys that it left, with the
 * texts that gg_merge gave it. Errors: GG_NO if the model has no such keys; GG_EFORMAT if they do
 * not describe a merge; GG_ENOMEM; any status of `row`. */
gg_status gg_merge_recall(const gg_source *model, gg_merge_fn row, void *ctx, gg_error *err);

/* ---- configurations ------------------------------------------------------------- */

/* A configuration of mergekit. The members are those of gg_merge_options and gg_merge_models; open
 * the models by their paths. */
typedef struct gg_merge_config {
    /* Set before reading: NAME=PATH texts that tell what names of models mean, or NULL; and whether
     * models with adapters are listed in `adapters` instead of refused. */
    const gg_texts *named;
    bool list;
    bool (*is_model)(void *ctx, const char *name); /* whether there is a model of this name, in
                                                      which a "+" is part of the name; or NULL */
    void *ctx;
    char *name; /* that of the result, for the configurations after it; NULL = none */
    struct gg_merge_config_adapter {
        char *name, *base, *lora; /* BASE+LORA, and the paths of both */
    } * adapters;
    size_t n_adapters;
    char *method, *parameters;
    char *base;        /* path; NULL = none */
    const char *dtype; /* for gg_output_options; static; NULL = none */
    /* "auto", for that of most models, or a template; NULL = the base's or first model's. */
    char *chat_template;
    struct gg_merge_config_model {
        char *path, *parameters;
    } * models;
    size_t n_models;
    gg_merge_slice *slices;
    size_t n_slices;
    char *words; /* "base", "union" or the path of a model; NULL = all must have the same */
    struct gg_merge_config_token {
        char *text, *model, *token; /* as in gg_merge_token; model is a path */
        uint64_t id;
        bool forced;
    } * tokens;
    size_t n_tokens;
    uint64_t multiple;
    bool has_seed; /* it names a seed: */
    uint64_t seed;
    char *notes; /* what was left out of it, one per line; NULL = nothing */
} gg_merge_config;

/* Reads a configuration as JSON, len bytes. gg_merge_config_free must follow in any case. Errors:
 * GG_EFORMAT for malformed text; GG_EUSAGE for a parameter out of its range; GG_EUNSUPPORTED for
 * what a configuration asks for and this library does not do. */
gg_status gg_merge_config_read(const char *text, size_t len, gg_merge_config *c, gg_error *err);
void gg_merge_config_free(gg_merge_config *c);

GG_END_DECLS

#endif
