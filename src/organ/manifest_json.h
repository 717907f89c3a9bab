/* manifest_json.h - pieces of manifest.json, shared by its reader and writer.
 * Internal. */
#ifndef GG_MANIFEST_JSON_H
#define GG_MANIFEST_JSON_H

#include "organ/gg_organ.h"
#include "json/json.h"

/* Any bytes: a JSON string if they are UTF-8, else {"base64": "..."}. */
gg_status gg_mj_put_bytes(const gg_json_out *o, const char *bytes, size_t n, gg_error *err);

/* The inverse; malloc'd and NUL-terminated. `what` names it in errors. */
gg_status gg_mj_bytes(const gg_json_node *node, const char *what, char **out, size_t *n,
                      gg_error *err);

/* The value of a key. */
gg_status gg_mj_put_value(const gg_json_out *o, const gg_kv *kv, gg_error *err);

/* {"key": ..., "type": ..., "value": ...} */
gg_status gg_mj_put_kv(const gg_json_out *o, const gg_kv *kv, gg_error *err);

/* Append such an object to meta, even where the key is there already. */
gg_status gg_mj_kv(const gg_json_node *node, gg_meta *meta, gg_error *err);

#endif
