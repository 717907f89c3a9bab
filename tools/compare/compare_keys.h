/* compare_keys.h - the metadata keys in which two models differ. */
#pragma once

#include "kin/gg_compare_model.h"

/* One metadata key in which two models differ. */
typedef struct gg_key_diff {
    gg_sameness status; /* GG_SAME_DTYPE: another type; never identical or shape */
    const gg_kv *a, *b; /* NULL if that model lacks the key */
    /* For two arrays of one type, the index of the first element that differs. It is the length of
     * the shorter array if that is the beginning of the longer. */
    uint64_t index;
} gg_key_diff;

typedef struct gg_compare_keys_options {
    /* Called for each key that differs: in the order of A, then those that only B has. */
    gg_status (*row)(void *ctx, const gg_key_diff *row, gg_error *err);
    void *ctx;
} gg_compare_keys_options;

typedef struct gg_compare_keys_report {
    size_t keys; /* of both models; 0 if one of them is bare records, which have no keys */
    size_t by[GG_SAMENESS_COUNT];
} gg_compare_keys_report;

/* Compares the keys of two models. Values are equal if their type and bytes are. Keys that number
 * shards (split.*) are left out. */
gg_status gg_compare_keys(gg_source *a, gg_source *b, const gg_compare_keys_options *o,
                          const gg_run *run, gg_compare_keys_report *report, gg_error *err);
