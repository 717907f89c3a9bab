/* json.h - a strict JSON parser (RFC 8259) and an exact writer.
 *
 * The parser turns a text of known length into a tree of nodes that one gg_json owns. Nodes are
 * const pointers, valid until gg_json_free. Refused with GG_EFORMAT: anything that the grammar of
 * the RFC does not allow (comments, trailing commas, NaN, a byte order mark, bytes after the
 * value), text that is not UTF-8, lone surrogates, and duplicate keys in an object. Refused with
 * GG_EUNSUPPORTED: more than GG_JSON_DEPTH nested containers, and a text of 4 GiB or more. Errors
 * carry the byte offset. Memory: the bytes of strings and numbers, plus 24 bytes per value and
 * per key.
 *
 * A number keeps its text, so 64-bit integers are exact. The accessor that the caller chooses
 * determines the type and checks the range.
 */
#pragma once

#include "organ/gg_status.h"

#define GG_JSON_DEPTH 64

typedef struct gg_json gg_json;
typedef struct gg_json_node gg_json_node;

typedef enum gg_json_type {
    GG_JSON_NONE, /* the type of a NULL node: a missing key, or the end of a list */
    GG_JSON_NULL,
    GG_JSON_BOOL,
    GG_JSON_NUMBER,
    GG_JSON_STRING,
    GG_JSON_ARRAY,
    GG_JSON_OBJECT,
    GG_JSON_TEXT /* an array or object that gg_json_outline left as text */
} gg_json_type;

/* Parses `len` bytes. A NUL is not needed. The bytes are copied, so `text` may be freed
 * afterwards. On failure *out is NULL and the status is GG_EFORMAT, GG_EUNSUPPORTED or
 * GG_ENOMEM. */
gg_status gg_json_parse(const char *text, size_t len, gg_json **out, gg_error *err);
void gg_json_free(gg_json *json); /* accepts NULL */

/* The same for a large text with many items, using little memory. If an array is a member of the
 * root object, its items that are arrays or objects are checked but kept as text (GG_JSON_TEXT).
 * gg_json_item makes a tree of such an item, whose offsets count from the start of the whole text;
 * it fails with GG_EUSAGE for any other node. `text` must remain valid until the last call. */
gg_status gg_json_outline(const char *text, size_t len, gg_json **out, gg_error *err);
gg_status gg_json_item(const gg_json_node *node, gg_json **out, gg_error *err);

/* The same, but strings are decoded in the text itself, which must be writable. The item can then
 * not be parsed again. */
gg_status gg_json_item_once(const gg_json_node *node, gg_json **out, gg_error *err);

const gg_json_node *gg_json_root(const gg_json *json); /* NULL for NULL */

/* The functions below accept NULL as a node and treat it as GG_JSON_NONE. */
gg_json_type gg_json_type_of(const gg_json_node *node);

/* Byte offset in the text where the value begins, for errors of the caller. GG_ERROR_NO_OFFSET
 * for NULL. */
uint64_t gg_json_offset(const gg_json_node *node);

/* Children in the order of the text, each step O(1):
 *     for (const gg_json_node *n = gg_json_first(array); n; n = gg_json_next(n))
 * If a node is not a container, its count is 0 and its first child is NULL. */
size_t gg_json_count(const gg_json_node *node);
const gg_json_node *gg_json_first(const gg_json_node *node);
const gg_json_node *gg_json_next(const gg_json_node *node);

/* Key of a member of an object; NULL for any other node. The bytes are UTF-8, may contain NUL
 * (from \u0000) and are not NUL-terminated. */
const char *gg_json_key(const gg_json_node *member, size_t *len);
bool gg_json_key_is(const gg_json_node *member, const char *key);

/* The member with that key, or NULL if it is absent or the node is not an object. Linear
 * search. */
const gg_json_node *gg_json_get(const gg_json_node *object, const char *key);

/* Whether the node is a string with this text, or true. */
bool gg_json_is(const gg_json_node *node, const char *text);
bool gg_json_is_true(const gg_json_node *node);

/* Typed access. These fail with GG_EFORMAT and the offset if the node has another type or the
 * number is out of range; `err` is NULL if the reason does not matter. *ptr points into the tree;
 * the string may contain NUL. */
gg_status gg_json_string(const gg_json_node *node, const char **ptr, size_t *len, gg_error *err);
gg_status gg_json_bool(const gg_json_node *node, bool *value, gg_error *err);

/* Integers: any spelling of a whole number in range is accepted. 1e3 is 1000, because other
 * programs may rewrite it so, and -0 is 0. 1.5 is refused. */
gg_status gg_json_u64(const gg_json_node *node, uint64_t *value, gg_error *err);
gg_status gg_json_i64(const gg_json_node *node, int64_t *value, gg_error *err);

/* Floats: rounded once from the decimal text (to nearest, ties to even), in any locale. -0 remains
 * -0, and a value that is too small becomes 0 or -0. A value that would round to infinity is
 * refused. */
gg_status gg_json_f64(const gg_json_node *node, double *value, gg_error *err);
gg_status gg_json_f32(const gg_json_node *node, float *value, gg_error *err);

/* The original text of a number; NULL for any other node. */
const char *gg_json_number_text(const gg_json_node *node, size_t *len);

/* The destination of a writer. `write` must accept all n bytes or fail. */
typedef struct gg_json_out {
    gg_status (*write)(void *ctx, const char *bytes, size_t n, gg_error *err);
    void *ctx;
} gg_json_out;

struct gg_buf;
gg_json_out gg_json_to_buf(struct gg_buf *buf); /* appends to buf (src/base/buf.h) */

/* Each function writes one JSON value, without separators. If err already has an error, it writes
 * nothing and returns that error, so the caller can check a sequence of calls once at the end. */
gg_status gg_json_put_raw(const gg_json_out *out, const char *bytes, size_t n, gg_error *err);
gg_status gg_json_put_text(const gg_json_out *out, const char *text,
                           gg_error *err); /* raw, up to the NUL */

/* Writes a quoted string. Escapes " \ and whatever could hide, reorder text or move a cursor, such
 * as U+0000..U+001F and U+202E (as \b \f \n \r \t or \uXXXX). Fails with
 * GG_EFORMAT and writes nothing if the bytes are not UTF-8. */
gg_status gg_json_put_string(const gg_json_out *out, const char *bytes, size_t n, gg_error *err);

gg_status gg_json_put_u64(const gg_json_out *out, uint64_t value, gg_error *err);
gg_status gg_json_put_i64(const gg_json_out *out, int64_t value, gg_error *err);
gg_status gg_json_put_bool(const gg_json_out *out, bool value, gg_error *err);
/* Format like gg_format_f64/f32, except that -0.0 is written with its point. NaN and infinities
 * fail with GG_EUSAGE, because JSON cannot represent them. */
gg_status gg_json_put_f64(const gg_json_out *out, double value, gg_error *err);
gg_status gg_json_put_f32(const gg_json_out *out, float value, gg_error *err);

/* Writes a parsed value on one line, separated by ", " and ": ". Numbers keep their spelling and
 * members their order. */
gg_status gg_json_put_node(const gg_json_out *out, const gg_json_node *node, gg_error *err);

/* Writes the shortest decimal that reads back to the same bits; of several, the closest to the
 * value. The result is the same in every locale. Plain notation is used from 0.00001 up to 16
 * digits before the point, otherwise 1.5e-7 or 2e300. Whole values have no point (1, -0). NaN and
 * infinities are "nan", "inf" and "-inf". Returns the length, which is less than 32. */
size_t gg_format_f64(double value, char out[32]);
size_t gg_format_f32(float value, char out[32]);
