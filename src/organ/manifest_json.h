/* manifest_json.h - byte strings and metadata values as JSON. Internal. */
#pragma once

#include "organ/gg_organ.h"
#include "json/json.h"

/* Writes any bytes: as a JSON string if they are UTF-8, otherwise as {"base64": "..."}. */
gg_status gg_mj_put_bytes(const gg_json_out *o, const char *bytes, size_t n, gg_error *err);

/* Writes any bytes as gg_escape does, in pieces, as a string may have 1 GiB. */
gg_status gg_mj_put_escaped(const gg_json_out *o, const char *text, size_t n, gg_error *err);

/* The inverse of gg_mj_put_bytes: *out is malloc'd and NUL-terminated. `what` is the name of the
 * item in errors. */
gg_status gg_mj_bytes(const gg_json_node *node, const char *what, char **out, size_t *n,
                      gg_error *err);

/* Writes a text with values: %u is a uint64_t, %i an int64_t or null if it is negative, %t a text
 * as it is, %s a JSON string and %b one with its length (a size_t after the pointer), both of any
 * bytes as above. A NULL pointer becomes null. */
gg_status gg_mj_put(const gg_json_out *o, gg_error *err, const char *format, ...);

/* Writes the value of a key. */
gg_status gg_mj_put_value(const gg_json_out *o, const gg_kv *kv, gg_error *err);

/* Writes {"key": ..., "type": ..., "value": ...}. */
gg_status gg_mj_put_kv(const gg_json_out *o, const gg_kv *kv, gg_error *err);

/* Appends such an object to meta, without checking for duplicate keys. */
gg_status gg_mj_kv(const gg_json_node *node, gg_meta *meta, gg_error *err);
