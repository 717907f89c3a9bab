/* gg_check.h - will an engine load a model, and does the model make sense?
 *
 * Rules look at the keys and the list of tensors alone, so they can be run on a model
 * that is only planned, on a pipe, and on a file whose data are incomplete. Each rule
 * has a name and a reason (gg_check_rule_at, docs/checks.md). What a model must have is
 * derived from the model where possible; tables per architecture hold the rest. The
 * facts are those of llama.cpp v0.5.0.
 */
#ifndef GG_CHECK_H
#define GG_CHECK_H

#include "gg_organ.h"
#include "gg_status.h"
#include "gg_verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gg_check_level {
    GG_CHECK_NOTE,    /* unusual, works */
    GG_CHECK_WARNING, /* loads, but does not do what it should */
    GG_CHECK_ERROR,   /* an engine refuses the model, or fails when it runs it */
    GG_CHECK_LEVELS
} gg_check_level;

const char *gg_check_level_name(gg_check_level level); /* "note" "warning" "error" */

/* One thing that a rule found. All strings are NUL-terminated, escaped as gg_escape does,
 * and valid during the call only. */
typedef struct gg_finding {
    gg_check_level level;
    const char *rule;    /* name of the rule */
    const char *where;   /* a key, a tensor or a block; "" = the whole model */
    const char *message; /* what is wrong, without a trailing period */
} gg_finding;

/* Called for each finding, from one thread. Anything but GG_OK ends the check. */
typedef gg_status (*gg_finding_fn)(void *ctx, const gg_finding *f, gg_error *err);

/* A rule: its name, the highest level of its findings, and why it exists. */
typedef struct gg_check_rule {
    const char *name;
    gg_check_level level;
    const char *reason;
} gg_check_rule;

const gg_check_rule *gg_check_rule_at(size_t i); /* i from 0; NULL past the end */

typedef struct gg_check_options {
    bool data; /* read the weights too: NaN, infinite values, zeros, repeated blocks */
} gg_check_options;

typedef struct gg_check_report {
    size_t found[GG_CHECK_LEVELS];
    bool incomplete; /* the file ends before its data do, and the header alone was checked */
} gg_check_report;

/* Check a model, whatever gg_source_open takes. Of a pipe only the header is read, unless
 * the options ask for data. A GGUF file that cannot be opened but has a sound header is
 * checked by its header, with a finding that says what is wrong with the rest; one that
 * is no GGUF gives the finding "format" and the error. Memory is bounded: per thread some
 * hundred KiB, besides the header. */
gg_status gg_check_model(const char *spec, const gg_check_options *o, const gg_run *run,
                         gg_finding_fn fn, void *ctx, gg_check_report *report, gg_error *err);

/* ---- SHA-256 lists -------------------------------------------------------------------- */

/* One row: of a file, of all keys in their order ("metadata"), of one key (its type and
 * value), or of the data of one tensor. */
typedef struct gg_hash_row {
    const char *sha256; /* 64 lower-case hex digits */
    const char *kind;   /* "file" "metadata" "key" "tensor" */
    const char *name;   /* of the file, key or tensor, escaped as gg_escape does; "-" = all keys */
    const char *detail; /* bytes of a file; type of a key; type and shape of a tensor */
} gg_hash_row;

typedef gg_status (*gg_hash_fn)(void *ctx, const gg_hash_row *row, gg_error *err);

/* Hash a model, whatever gg_source_open takes; pipes and directories have no file rows.
 * Keys that number shards (split.*) are left out. */
gg_status gg_check_hash(const char *spec, const gg_run *run, gg_hash_fn fn, void *ctx,
                        gg_error *err);

/* Compare a model with the rows in the file `list` (TSV with the columns of gg_hash_row). A
 * finding of the rule "hash" per difference; renamed tensors and keys are recognised by
 * their hash. `found` counts them. GG_EFORMAT for a list that is not one. */
gg_status gg_check_verify(const char *spec, const char *list, const gg_run *run, gg_finding_fn fn,
                          void *ctx, size_t found[GG_CHECK_LEVELS], gg_error *err);

#ifdef __cplusplus
}
#endif

#endif
