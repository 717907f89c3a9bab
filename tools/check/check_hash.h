/* check_hash.h - lists the SHA-256 of the parts of a model, and compares a model with such a list.
 */
#pragma once

#include "organ/gg_check.h"

/* The SHA-256 of a file, of all keys in their order ("metadata"), of one key (type and value), or
 * of the data of one tensor. */
typedef struct gg_hash_row {
    const char *sha256; /* 64 lower-case hex digits */
    const char *kind;   /* "file" "metadata" "key" "tensor" */
    const char *name;   /* of the file, key or tensor, escaped as gg_escape does; "-" = all keys */
    const char *detail; /* bytes of a file; type of a key; type and shape of a tensor */
} gg_hash_row;

typedef struct gg_hash_options {
    /* A file with such rows, as TSV with the columns of gg_hash_row, to compare the model with.
     * NULL = none. */
    const char *list;
    /* Called for each row of the model if `list` is NULL. */
    gg_status (*row)(void *ctx, const gg_hash_row *row, gg_error *err);
    /* Called for each difference from the list: a finding of the rule "hash". Renamed tensors and
     * keys are recognised by their hash. */
    gg_status (*finding)(void *ctx, const gg_finding *row, gg_error *err);
    void *ctx; /* first argument of both */
} gg_hash_options;

/* Computes the SHA-256 of the parts of a model. Pipes and directories have no file rows. Keys that
 * number shards (split.*) are left out. report->found counts the differences from o->list. Errors:
 * GG_EFORMAT for a malformed list, and those of reading the source. */
gg_status gg_check_hash(gg_source *model, const gg_hash_options *o, const gg_run *run,
                        gg_check_report *report, gg_error *err);
