/* gg_verbs.h - what the tools do, callable from any program: extract, assemble,
 * transplant. A verb takes an options struct and a gg_run, prints nothing, and
 * leaves either a whole output or none. Other verbs: gg_measure_model.h,
 * gg_compare_model.h, gg_purify.h, gg_graft.h.
 */
#ifndef GG_VERBS_H
#define GG_VERBS_H

#include "gg_organ.h"
#include "gg_status.h"

/* Of a size and layout that C and C++ agree on. */
#ifdef __cplusplus
#include <atomic>
typedef std::atomic<uint_least64_t> gg_atomic_u64;
#else
#include <stdatomic.h>
typedef atomic_uint_least64_t gg_atomic_u64;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes done of bytes in all (0 = unknown), for a thread that shows progress. */
typedef struct gg_progress {
    gg_atomic_u64 done, total;
} gg_progress;

/* How to run: the same for every verb. Zero-initialised is a good default. */
typedef struct gg_run {
    unsigned threads;      /* 0 = every processor */
    bool force;            /* replace an existing output */
    bool strict;           /* refuse to write a model in which gg_check_model would find errors */
    gg_progress *progress; /* may be NULL */
    /* A line worth telling (a warning, a note), without newline, escaped as gg_escape
     * does; may be NULL. */
    void (*note)(void *ctx, const char *line);
    void *ctx;
    struct gg_turn *turn; /* set by the library for its own calls; leave it NULL */
} gg_run;

/* ---- extract ---------------------------------------------------------------- */

typedef struct gg_extract_options {
    const gg_select *select; /* NULL = all */
    bool split_experts;      /* a record an expert */
} gg_extract_options;

typedef struct gg_extract_report {
    size_t tensors, unknown; /* unknown: names that only the last anatomy rule fitted */
    uint64_t bytes;          /* of tensor data */
} gg_extract_report;

/* Model into an organ directory. GG_NO when the selection is empty. */
gg_status gg_extract_dir(gg_source *model, const gg_extract_options *o, const char *dir,
                         const gg_run *run, gg_extract_report *report, gg_error *err);

/* Model (or directory, or records) as an organ stream to fd. */
gg_status gg_extract_stream(gg_source *model, const gg_extract_options *o, int fd,
                            const gg_run *run, gg_extract_report *report, gg_error *err);

/* Call fn for each selected tensor, an expert each with split_experts, in order;
 * no data is read (from a pipe it is skipped). */
typedef gg_status (*gg_extract_fn)(void *ctx, const gg_tensor *t, const gg_anatomy *a,
                                   gg_error *err);
gg_status gg_extract_list(gg_source *model, const gg_extract_options *o, gg_extract_fn fn,
                          void *ctx, gg_extract_report *report, gg_error *err);

/* ---- assemble --------------------------------------------------------------- */

typedef struct gg_assemble_options {
    uint32_t shards;           /* 0 = one file (or by shard_size) */
    uint64_t shard_size;       /* bytes of tensor data a shard at most; 0 = no limit */
    const char *const *set_kv; /* KEY=TYPE:VALUE texts, as gg_meta_set_text; the last word */
    size_t n_set_kv;
    const char *const *set_kv_files; /* KEY=FILE texts, as gg_meta_set_file; done last */
    size_t n_set_kv_files;
    bool no_verify;       /* do not hold sha256 of the manifest against the data */
    const char *dtype;    /* PRESET or GLOB=TYPE[,...]: which tensors are re-encoded; NULL = none */
    const char *fallback; /* type for rows that do not fit TYPE, NULL = refuse them */
    /* Experts to keep in every block, such as "0-3,7", or the name of a file with one line per
     * block: number, tab, experts. Stacks, routers, their biases and <arch>.expert_count
     * follow; the kept experts get new numbers from 0 in their order. NULL = all. */
    const char *keep_experts;
} gg_assemble_options;

typedef struct gg_assemble_report {
    size_t files, tensors;
    uint64_t bytes; /* written */
} gg_assemble_report;

/* MODEL (any source with keys: see gg_source_open_with, whose notes go to run->note) into
 * OUTPUT, or into shards PREFIX-0000i-of-0000n.gguf, PREFIX being OUTPUT without ".gguf" (an
 * OUTPUT that is itself a shard's name means that many). With as many shards as the source
 * had, and its tensors all there, the source's shards come back byte for byte. OUTPUT "-" is
 * stdout. A model on a pipe is read once, front to back, and written as it is read; only
 * shards on a pipe that become one file are first stored in a temporary file.
 *
 * `dtype`: a preset of llama-quantize, which then chooses the type of every tensor as
 * llama-quantize does without an importance matrix, and sets general.file_type; or rules; or
 * both: what no rule matches is left to the preset. Names in rules are those of the model (a
 * stack of experts is one tensor), the first glob that matches decides, TYPE "keep" changes
 * nothing. A glob with wildcards leaves alone tensors of one dimension, integers, and what
 * llama-quantize never touches (routers, biases, convolutions, ...) unless it spells that
 * part of the name. With rules alone general.file_type becomes that of most matrices and
 * general.quantization_version 2 or none. GG_NO when nothing matches.
 *
 * Experts missing from a directory made with split_experts: see docs/grafting.md; the
 * model gets fewer, its routers and <arch>.expert_count follow. */
gg_status gg_assemble(const char *model, const gg_assemble_options *o, const char *output,
                      const gg_run *run, gg_assemble_report *report, gg_error *err);

#ifdef __cplusplus
}
#endif

#endif
