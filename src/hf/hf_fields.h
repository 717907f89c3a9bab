/* hf_fields.h - what becomes of the fields of the JSON files that checkpoints and adapters have.
 * Internal.
 *
 * A table for each kind of file tells of every known field whether it is used, harmless, noted or
 * refused, and with which values. A field that no row fits is named, so that none is treated as
 * absent.
 */
#pragma once

#include "base/buf.h"
#include "organ/gg_status.h"
#include "json/json.h"

typedef enum gg_field_verdict {
    GG_FIELD_USED,
    GG_FIELD_HARMLESS,
    GG_FIELD_NOTED,
    GG_FIELD_REFUSED
} gg_field_verdict;

/* A row; config.txt describes its parts. NULL = any, always, all, or no reason. */
typedef struct gg_field_rule {
    gg_field_verdict verdict;
    const char *fields, *archs, *values, *when, *why;
} gg_field_rule;

extern const gg_field_rule gg_config_fields[], gg_adapter_fields[], gg_quantization_fields[],
    gg_index_fields[]; /* the last has no fields */

/* A file whose fields are compared with a table. */
typedef struct gg_fields {
    const gg_field_rule *rules;
    const char *arch; /* the architecture, or what stands for it in the table */
    bool config;      /* fields that the keys of hf_tables.txt are made of are used */
    const char *file; /* its name, for errors */
} gg_fields;

/* Compares all fields with the table. Appends those that are noted or that no row fits to
 * `unknown`, with their values and reasons, separated by commas and escaped. Fails with
 * GG_EUNSUPPORTED for a field that is refused, which the error names with its value and the reason;
 * GG_ENOMEM. Appends fields without a value that a row of config.json notes to `missing`. */
gg_status gg_fields_check(const gg_fields *f, const gg_json_node *root, gg_buf *unknown,
                          gg_buf *missing, gg_error *err);
