/* gg_verbs.h - how to run a verb; extract and assemble.
 *
 * A verb is a function that does the work of a tool. It takes options and a gg_run, prints
 * nothing, and leaves either a whole output or none:
 *
 *     gg_run run = { .threads = 4, .force = true };
 *     gg_status st = gg_assemble(source, NULL, "model.gguf", &run, NULL, &err);
 *
 * The other verbs are in the headers that include this one.
 * The general rules of organ.h apply.
 */
#ifndef GG_VERBS_H
#define GG_VERBS_H

#include "gg_organ.h"
#include "gg_status.h"

/* An atomic number with the same size and layout in C and C++. */
#ifdef __cplusplus
#include <atomic>
typedef std::atomic<uint_least64_t> gg_atomic_u64;
#else
#include <stdatomic.h>
typedef atomic_uint_least64_t gg_atomic_u64;
#endif

GG_BEGIN_DECLS

/* The number of bytes done and the number of all bytes (0 = unknown). Another thread may read
 * them while a verb runs. */
typedef struct gg_progress {
    gg_atomic_u64 done, total;
} gg_progress;

/* A model before it is written. */
typedef struct gg_planned {
    const gg_meta *meta;      /* NULL for bare records */
    const gg_tensor *tensors; /* name, name_len, n_dims, dims and dtype are set */
    size_t n;
    uint32_t files;    /* number of its files */
    gg_source *base;   /* the model that it was made from; NULL = none */
    bool all_findings; /* keep lines also for what the base has */
    const struct gg_run *run;
    /* Keeps a line, which becomes a note once the output is complete. */
    gg_status (*note)(void *ctx, const char *line, gg_error *err);
    void *ctx; /* first argument of note */
} gg_planned;

/* How to run: the same for every verb. All zero is the default. A run is not changed, and can be
 * used for several calls at the same time. */
typedef struct gg_run {
    unsigned threads; /* 0 = one per processor */
    bool force;       /* replace an existing output */
    bool partial;     /* go on although something is missing: shards of an input, or in gg_align
                         the counterparts of most units */
    bool follow;      /* in place: change the file that a symbolic link leads to */
    bool strict;      /* refuse to write a model in which the review finds errors */
    bool lenient;     /* write also what the review refuses otherwise; strict prevails */
    bool no_history;  /* do not record in general.name and organ.history what was done */
    gg_progress *progress; /* may be NULL */
    /* Called with each note or warning: one line without a newline, escaped as gg_escape does,
     * valid during the call. May be NULL. */
    void (*note)(void *ctx, const char *line);
    void *ctx; /* first argument of note */
    /* Called with each model before it is written. An error refuses the output. gg_check_review is
     * such a function. NULL = no review, and `strict` is refused. */
    gg_status (*review)(const gg_planned *planned, gg_error *err);
    struct gg_turn *turn; /* private; leave it NULL */
} gg_run;

/* The model that a verb writes: its keys, types and files. All zero is the default. */
typedef struct gg_output_options {
    gg_texts set_kv;       /* KEY=TYPE:VALUE texts of keys to set, see gg_meta_set_text */
    gg_texts set_kv_files; /* KEY=FILE texts: the key becomes a string, the bytes of FILE; done
                              after set_kv */
    /* PRESET or GLOB=TYPE[,...]: which tensors are re-encoded; "@FILE" reads rules from a file, see
     * organ-assemble(1). NULL = none. */
    const char *dtype;
    const char *fallback; /* type for rows that do not fit the blocks of TYPE; NULL = refuse them */
    /* An importance matrix (imatrix), as llama.cpp writes it, in GGUF or in its older binary
     * format: weights for the encoders. Some types can be encoded only with one. NULL = none. */
    const char *imatrix;
    uint64_t shards;     /* 0 = one file (or by shard_size) */
    uint64_t shard_size; /* most bytes of tensor data per shard; 0 = no limit */
} gg_output_options;

/* ---- extract ---------------------------------------------------------------- */

/* One selected tensor; with split_experts, one expert of a stack. */
typedef struct gg_extract_row {
    const gg_tensor *tensor;
    uint64_t place; /* where its data begins in its file; 0 if it is not in a GGUF file as such */
} gg_extract_row;

typedef struct gg_extract_options {
    const gg_select *select; /* NULL = all */
    bool split_experts;      /* write one record per expert of a stack */
    /* Called for each selected tensor in order, before its data are read. */
    gg_status (*row)(void *ctx, const gg_extract_row *row, gg_error *err);
    void *ctx; /* first argument of row */
} gg_extract_options;

typedef struct gg_extract_report {
    size_t tensors;
    size_t unknown; /* tensors whose name only the last rule of the anatomy matched */
    uint64_t bytes; /* of tensor data */
} gg_extract_report;

/* Writes the selected tensors into the organ directory `output`; "-" writes them to stdout as an
 * organ stream, of which part may have been written after an error. With NULL the tensors are only
 * counted and passed to o->row, and no data are read. Errors: GG_NO if nothing is selected;
 * GG_EUSAGE if the directory exists (without run->force) or contains the source; GG_EFORMAT. */
gg_status gg_extract(gg_source *model, const gg_extract_options *o, const char *output,
                     const gg_run *run, gg_extract_report *report, gg_error *err);

/* ---- assemble --------------------------------------------------------------- */

/* A mixture of types by the name that llama-quantize gives it. */
typedef struct gg_preset {
    const char *name;   /* "Q4_K_M" */
    uint32_t file_type; /* the value of general.file_type */
    uint32_t dtype;     /* type of most tensors */
} gg_preset;

/* Returns preset i, from 0, or NULL past the last. Several may be names of one mixture. The presets
 * are static. */
const gg_preset *gg_preset_at(size_t i);

/* One tensor of a result, compared with its source: over the values that were encoded. */
typedef struct gg_encode_row {
    const gg_tensor *tensor; /* as written */
    uint32_t from;           /* its dtype in the source */
    double rmse, rel_l2;     /* root mean square error; |y - x| / |x|. 0 if it was copied */
    double weighted;         /* rel_l2 with each column weighed by its importance. NaN if the
                                tensor was encoded without an importance matrix */
} gg_encode_row;

/* One tensor of a model before it is written. */
typedef struct gg_planned_row {
    const gg_tensor *tensor; /* as planned */
    uint32_t from;           /* its type in the source */
    uint32_t wanted;         /* the type that the preset has for it, if its rows do not fit that
                                type; else UINT32_MAX */
    const char *file;        /* in which it will be */
} gg_planned_row;

typedef struct gg_assemble_options {
    gg_output_options output;
    bool no_verify; /* do not compare the data with the hashes in the manifest */
    /* Keys of another model, whose tokenizer.* keys replace those of `model`: for checkpoints,
     * which have none. token_embd.weight must have as many rows as there are tokens, or up to 512
     * more if their number is a multiple of 32: they get unused tokens. May be NULL. */
    const gg_meta *vocabulary;
    /* Called for each tensor in order, after the model is complete. NULL = no comparison. */
    gg_status (*encoded)(void *ctx, const gg_encode_row *row, gg_error *err);
    void *encoded_ctx;
    bool dry_run; /* write nothing. `output` may be NULL */
    /* Called for each tensor in order before writing. */
    gg_status (*planned)(void *ctx, const gg_planned_row *row, gg_error *err);
    void *planned_ctx;
    const struct gg_plan_edit *edit;       /* private; leave it NULL, */
    const struct gg_type_chooser *chooser; /* and this */
} gg_assemble_options;

typedef struct gg_assemble_report {
    size_t files, tensors;
    uint64_t bytes; /* written, or planned by a dry run */
} gg_assemble_report;

/* Writes `model`, any source that has keys (gg_source_open_with), as the GGUF file `output`; "-" is
 * stdout. With several shards they are named PREFIX-0000i-of-0000n.gguf, where PREFIX is `output`
 * without ".gguf"; an output that is itself the name of a shard asks for as many shards. A source
 * whose tensors are all present comes back byte for byte if the number of shards is the same. A
 * model on a pipe is written as it is read; only shards on a pipe that become one file are first
 * stored in a temporary file. A pipe must not have been read yet.
 *
 * output.dtype is the name of a llama-quantize preset, or rules, or both. A preset chooses the type
 * of each tensor as llama-quantize does, and sets general.file_type. Rules use the names of the
 * model, where a stack of experts is one tensor. The first matching glob decides, and the TYPE
 * "keep" changes nothing. What no rule matches is left to the preset. A glob with wildcards leaves
 * alone vectors, integers, and what llama-quantize never changes (routers, biases, convolutions)
 * unless it spells out that part of the name. With rules alone, general.file_type becomes that of
 * most matrices.
 *
 * Experts that are missing from a directory made with split_experts are removed from the model:
 * its routers and <arch>.expert_count follow (docs/grafting.md).
 *
 * Errors: GG_NO if no tensor matches the rules; GG_EUSAGE for a wrong option or an existing output;
 * also for a dtype that cannot be encoded, and for rows and values that do not fit their type;
 * GG_EFORMAT for a source without keys, and for data that do not match their hash. */
gg_status gg_assemble(gg_source *model, const gg_assemble_options *o, const char *output,
                      const gg_run *run, gg_assemble_report *report, gg_error *err);

GG_END_DECLS

#endif
