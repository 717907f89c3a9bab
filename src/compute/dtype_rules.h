/* dtype_rules.h - rules such as "blk.*.ffn_*=q4_k,output*=q6_k,*=f16", which choose the tensors
 * of a plan to write in another dtype. Internal.
 *
 * The text is GLOB=TYPE[,GLOB=TYPE]... and at most one preset (see below) for tensors that no
 * glob matches. Globs match the names of the model's tensors, as gg_extract_list gives them (a
 * stack of experts is one tensor), and the first match is used. TYPE is in upper or lower case,
 * or "keep". General globs do not change delicate tensors:
 *   - tensors of one dimension (norms and biases, which llama.cpp expects in F32) and integers
 *     are re-encoded only by a glob without wildcards;
 *   - tensors that llama-quantize never changes (routers, convolutions, expert biases, position
 *     embeddings, ...: see presets.txt) only by a glob that spells out their role, such as
 *     blk.*.ffn_gate_inp.weight=f16.
 */
#pragma once

#include "compute.h"
#include "write/plan.h"

typedef struct gg_dtype_rules gg_dtype_rules;

/* `fallback` is the name of the type for rows that do not fit the requested type, or NULL.
 * `imatrix` is the importance matrix that the encoders will use, or NULL; not owned. If `text` is
 * NULL, *out is NULL. GG_EUSAGE for a mistake in the text, and, with its name, for a
 * type that cannot be encoded, or needs an importance matrix that is not there. */
gg_status gg_dtype_rules_parse(const char *text, const char *fallback, const gg_imatrix *imatrix,
                               gg_dtype_rules **out, gg_error *err);
void gg_dtype_rules_free(gg_dtype_rules *r);

/* Rules that match nothing, for gg_dtype_rules_keys. */
gg_status gg_dtype_rules_none(const gg_imatrix *imatrix, gg_dtype_rules **out, gg_error *err);

/* Parses the name of a type that can be encoded, with `imatrix` if it needs one. Errors as
 * above, about the argument `about`. */
#define GG_DTYPE_KEEP UINT32_MAX
gg_status gg_dtype_rules_type(const char *name, const char *about, const gg_imatrix *imatrix,
                              uint32_t *dtype, gg_error *err);

/* Whether a glob of r, which may be NULL, matches tensor t, and the type it then gets. A preset
 * does not count. GG_EUSAGE as below. */
gg_status gg_dtype_rules_fixed(const gg_dtype_rules *r, const gg_tensor *t, bool *fixed,
                               uint32_t *dtype, gg_error *err);

/* Whether the rules have a preset. */
bool gg_dtype_rules_preset(const gg_dtype_rules *r);

/* Choose the dtypes of the tensors of a plan for a model with keys `meta` (NULL = none). Those
 * that change are computed by producers of `list`, whose imatrix must be that of the rules;
 * *changed is their number. Notes name the
 * rules that match nothing and count the matrices that keep their type. GG_NO if nothing
 * matches at all; GG_EUSAGE names a tensor whose rows fit neither the type nor the fallback;
 * it also names a type that needs an importance matrix, or that cannot be decoded or
 * encoded. */
gg_status gg_dtype_rules_apply(gg_dtype_rules *r, gg_plan *p, const gg_meta *meta,
                               gg_computations *list, size_t *changed, const gg_run *run,
                               gg_error *err);

/* After gg_dtype_rules_apply: the type that the preset has for tensor i of the plan, if the tensor
 * got another one because its rows do not fit it; else GG_DTYPE_KEEP. r may be NULL. */
uint32_t gg_dtype_rules_wanted(const gg_dtype_rules *r, size_t i);

/* Adapt the type keys of the first file: for a preset as llama-quantize does, else by
 * gg_type_keys_update. The imatrix keys are removed if no quantized tensor is unchanged; those of
 * the importance matrix that is used are added. */
gg_status gg_dtype_rules_keys(const gg_dtype_rules *r, const gg_plan *p, gg_meta *meta,
                              gg_error *err);

/* ---- types that are chosen -----------------------------------------------------------------
 *
 * A caller of gg_assemble may choose the types of tensors that no rule names.
 */

typedef struct gg_type_job {
    const gg_plan *plan;         /* its tensors, none of them re-encoded yet */
    const gg_dtype_rules *rules; /* for tensors whose type is given, */
    const char *given;           /* and their text, or NULL */
    const gg_imatrix *imatrix;   /* may be NULL */
    const gg_run *run;
    /* Computes the size of all files if the tensors had these types. */
    gg_status (*measure)(void *ctx, const uint32_t *dtypes, uint64_t *bytes, gg_error *err);
    void *ctx;
} gg_type_job;

typedef struct gg_type_chooser {
    void *ctx; /* first argument of both */
    /* Gives the types as rules, which replace those of the job, freed by the caller. */
    gg_status (*choose)(void *ctx, const gg_type_job *job, char **rules, gg_error *err);
    /* Called when the tensors have these types, before anything is written. */
    gg_status (*chosen)(void *ctx, gg_error *err);
} gg_type_chooser;

/* ---- presets -------------------------------------------------------------------------------
 *
 * A preset chooses the type of each tensor from its name, its block, its row length, and the
 * number of heads and experts of the model. The choices are those of llama-quantize with its
 * default options. They are rows of tables (presets.txt).
 */

/* Find a preset by name or alias (Q4_K is Q4_K_M), in upper or lower case; NULL if unknown. */
const gg_preset *gg_preset_by_name(const char *name);
/* The name that may have been meant; NULL if none is near. */
const char *gg_preset_near(const char *name);

/* What a preset looks at. */
typedef struct gg_preset_model {
    const gg_tensor *tensors;
    size_t n;
    const gg_meta *meta; /* NULL = no keys */
    bool imatrix;        /* the model is encoded with an importance matrix */
} gg_preset_model;

/* Choose the types of all tensors of a model by preset p. dtypes[i] is tensors[i].dtype if
 * llama-quantize does not change the tensor. wanted[i] is the type that the preset has for such a
 * tensor, which differs from dtypes[i] if its rows do not fit that type; wanted may be NULL.
 * Without an importance matrix, GG_EUSAGE names the first tensor whose type needs one. */
gg_status gg_preset_choose(const gg_preset *p, const gg_preset_model *m, uint32_t *dtypes,
                           uint32_t *wanted, gg_error *err);

/* dtype, or the type that llama-quantize uses instead if rows of `row` values are not whole blocks
 * of it; F16 if no other fits. */
uint32_t gg_preset_fit_row(uint32_t dtype, uint64_t row);

/* True if llama-quantize never changes this tensor: it has one dimension, is not a .weight, or
 * has a small and delicate role (routers, convolutions, norms, ...). *part is the part of the
 * name that shows this role, or NULL. */
bool gg_is_delicate(const gg_tensor *t, const char **part);

/* Append general.quantization_version and general.file_type, like llama-quantize. Keys
 * quantize.imatrix.* of an earlier encoding are removed. */
gg_status gg_preset_keys(const gg_preset *p, gg_meta *meta, gg_error *err);

/* ---- importance matrices -----------------------------------------------------------------------
 *
 * Which tensors are encoded with an importance matrix, and the keys that tell of it. Every function
 * does nothing if the matrix is NULL. */

typedef struct gg_imatrix_use {
    const gg_imatrix *imatrix;
    size_t used, lacking;    /* tensors that are encoded: those that it has, and the others */
    bool rows;               /* embeddings are encoded; engines take rows of them, so that no
                                importance matrix has them */
    char names[256];         /* the first of the others */
    size_t settled;          /* tensors with columns whose weights are replaced */
    uint64_t columns;        /* of all of them: see gg_settle_weights */
    char settled_names[384]; /* the first of them, with their columns */
} gg_imatrix_use;            /* start from { .imatrix = ... } */

/* Counts tensor t, which is encoded, and reads its weights. GG_EFORMAT names it if its columns or
 * matrices do not match the importance matrix, or if a weight is negative or not finite. */
gg_status gg_imatrix_use_add(gg_imatrix_use *u, const gg_tensor *t, gg_error *err);

/* Call it when all tensors are counted: notes those that the importance matrix lacks, and those of
 * which it has columns without weights. */
void gg_imatrix_use_note(const gg_imatrix_use *u, const gg_run *run);

/* Both, for the tensors of a plan that are computed. *used, if it is not NULL, is how many are
 * encoded with the importance matrix. */
gg_status gg_imatrix_review(const gg_imatrix *imatrix, const gg_plan *p, size_t *used,
                            const gg_run *run, gg_error *err);

/* Replaces the keys quantize.imatrix.* as llama-quantize does. */
gg_status gg_imatrix_keys(const gg_imatrix *imatrix, gg_meta *meta, gg_error *err);
