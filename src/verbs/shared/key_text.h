/* key_text.h - formats values of keys as text and applies lists of edits. Internal. */
#ifndef GG_KEY_TEXT_H
#define GG_KEY_TEXT_H

#include "organ/gg_keys.h"
#include "organ/gg_verbs.h"

/* Output of a value. `write` writes all n bytes or fails. */
typedef struct gg_key_out {
    gg_status (*write)(void *ctx, const char *bytes, size_t n, gg_error *err);
    void *ctx;
} gg_key_out;

/* How gg_key_put_text shortens; 0 = no limit. */
typedef struct gg_key_limits {
    uint64_t elements; /* shown elements of an array, followed by "..." */
    size_t bytes;      /* shown bytes of a string, followed by "..." */
} gg_key_limits;

/* The value on one line: numbers in their shortest exact form, strings escaped as by
 * gg_escape, arrays as [1, 2, ...] with strings in quotation marks. */
gg_status gg_key_put_text(const gg_key_out *o, const gg_kv *kv, const gg_key_limits *limits,
                          gg_error *err);

/* Element i of an array and the number of elements: "[7] 1.5 of 32", or "[7] none of 7". */
gg_status gg_key_put_element(const gg_key_out *o, const gg_kv *kv, uint64_t i,
                             const gg_key_limits *limits, gg_error *err);

/* The plain value: the bytes of a string and nothing else, a number and a newline, or an
 * array with one element per line and strings escaped. */
gg_status gg_key_put_bare(const gg_key_out *o, const gg_kv *kv, gg_error *err);

/* The value as in manifest.json; that of element i of an array, or null if there is none. */
gg_status gg_key_put_json(const gg_key_out *o, const gg_kv *kv, gg_error *err);
gg_status gg_key_put_json_element(const gg_key_out *o, const gg_kv *kv, uint64_t i, gg_error *err);

/* "KEY=FILE": set KEY to a string, the bytes of FILE ("-" is stdin). GG_EUSAGE if it has no
 * "=", if the file is over 2^30 bytes, or if KEY exists with a type other than str. */
gg_status gg_meta_set_file(gg_meta *meta, const char *text, gg_error *err);

/* Applies o->set_kv, then o->set_kv_files. */
gg_status gg_set_keys(gg_meta *meta, const gg_output_options *o, gg_error *err);

#endif
