/* json.h - JSON (RFC 8259) read strictly and written exactly.
 *
 * Reading: a text of known length becomes a tree of nodes owned by one gg_json.
 * Nodes are const pointers into it, valid until gg_json_free. Refused: anything
 * the RFC's grammar does not have (comments, trailing commas, NaN, a byte order
 * mark, bytes after the value), text that is not UTF-8, lone surrogates, an
 * object with the same key twice, more than GG_JSON_DEPTH nested containers
 * (GG_EUNSUPPORTED, as is a text of 4 GiB or more). Errors carry the byte offset.
 * Memory: the bytes of strings and numbers, plus 24 bytes a value and a key.
 *
 * Numbers keep their text, so an integer of 64 bits loses nothing on its way;
 * the accessor a caller picks decides the type and checks its range.
 */
#ifndef GG_JSON_H
#define GG_JSON_H

#include "organ/gg_status.h"

#define GG_JSON_DEPTH 64

typedef struct gg_json gg_json;
typedef struct gg_json_node gg_json_node;

typedef enum gg_json_type {
    GG_JSON_NONE, /* what a NULL node is: a missing key, past the end */
    GG_JSON_NULL,
    GG_JSON_BOOL,
    GG_JSON_NUMBER,
    GG_JSON_STRING,
    GG_JSON_ARRAY,
    GG_JSON_OBJECT,
    GG_JSON_TEXT /* an array or object of which gg_json_outline made no tree */
} gg_json_type;

/* Parse `len` bytes (no NUL needed; they are copied, so may go away afterwards).
 * *out is NULL on failure. GG_EFORMAT, GG_EUNSUPPORTED or GG_ENOMEM. */
gg_status gg_json_parse(const char *text, size_t len, gg_json **out, gg_error *err);
void gg_json_free(gg_json *json); /* NULL is fine */

/* The same for a large text of many items, in little memory: arrays and objects that
 * are items of an array that is a member of the root object are checked like the rest,
 * but stay text, GG_JSON_TEXT, of which gg_json_item makes a tree when it is wanted,
 * with offsets in the whole text (GG_EUSAGE for any other node). `text` must stay where
 * it is until the last of them. */
gg_status gg_json_outline(const char *text, size_t len, gg_json **out, gg_error *err);
gg_status gg_json_item(const gg_json_node *node, gg_json **out, gg_error *err);

const gg_json_node *gg_json_root(const gg_json *json);

/* The functions below take NULL for a node and treat it as GG_JSON_NONE. */
gg_json_type gg_json_type_of(const gg_json_node *node);
const char *gg_json_type_name(gg_json_type type); /* "string" */

/* Byte offset in the text where the value begins, for errors of the caller's
 * own; GG_ERROR_NO_OFFSET for NULL. */
uint64_t gg_json_offset(const gg_json_node *node);

/* Children in the order of the text, each step O(1):
 *     for (const gg_json_node *n = gg_json_first(array); n; n = gg_json_next(n))
 * The count of a node that is no container is 0, its first child NULL. */
size_t gg_json_count(const gg_json_node *node);
const gg_json_node *gg_json_first(const gg_json_node *node);
const gg_json_node *gg_json_next(const gg_json_node *node);

/* Key of a member of an object, NULL for any other node. The bytes are UTF-8,
 * may hold NUL (from \u0000) and are not NUL-terminated. */
const char *gg_json_key(const gg_json_node *member, size_t *len);
bool gg_json_key_is(const gg_json_node *member, const char *key);

/* Member of that key, NULL if absent or no object. Walks the members. */
const gg_json_node *gg_json_get(const gg_json_node *object, const char *key);

/* Typed access. GG_EFORMAT, with the offset, when the node is something else or
 * the number does not fit. *ptr points into the tree, counted, may hold NUL. */
gg_status gg_json_string(const gg_json_node *node, const char **ptr, size_t *len, gg_error *err);
gg_status gg_json_bool(const gg_json_node *node, bool *value, gg_error *err);

/* Integers: any spelling whose value is a whole number in range (1e3 is 1000,
 * as other programs may rewrite it; -0 is 0; 1.5 is refused). */
gg_status gg_json_u64(const gg_json_node *node, uint64_t *value, gg_error *err);
gg_status gg_json_i64(const gg_json_node *node, int64_t *value, gg_error *err);

/* Correctly rounded (nearest, ties to even) in one step from the decimal text,
 * whatever the locale; -0 stays -0; too small becomes (-)0; what would round to
 * infinity is refused. */
gg_status gg_json_f64(const gg_json_node *node, double *value, gg_error *err);
gg_status gg_json_f32(const gg_json_node *node, float *value, gg_error *err);

/* Text of a number as it stood, NULL for any other node. */
const char *gg_json_number_text(const gg_json_node *node, size_t *len);

/* Where a writer sends its bytes. `write` takes all n bytes or fails. */
typedef struct gg_json_out {
    gg_status (*write)(void *ctx, const char *bytes, size_t n, gg_error *err);
    void *ctx;
} gg_json_out;

struct gg_buf;
gg_json_out gg_json_to_buf(struct gg_buf *buf); /* appends to buf (src/base/buf.h) */

/* Each writes one JSON value (no separators) and returns a status. Once err
 * holds an error they write nothing and return it, so a run of puts may be
 * checked once, at its end. */
gg_status gg_json_put_raw(const gg_json_out *out, const char *bytes, size_t n, gg_error *err);
gg_status gg_json_put_text(const gg_json_out *out, const char *text,
                           gg_error *err); /* raw, to the NUL */

/* Quoted. Escapes " \ and U+0000..U+001F (\b \f \n \r \t, else \u00XX), keeps all
 * else as it is. Bytes that are not UTF-8: GG_EFORMAT and nothing is written. */
gg_status gg_json_put_string(const gg_json_out *out, const char *bytes, size_t n, gg_error *err);

gg_status gg_json_put_u64(const gg_json_out *out, uint64_t value, gg_error *err);
gg_status gg_json_put_i64(const gg_json_out *out, int64_t value, gg_error *err);
gg_status gg_json_put_bool(const gg_json_out *out, bool value, gg_error *err);
/* As gg_format_f64/f32, but -0.0 with its point; NaN and infinities have no JSON form: GG_EUSAGE.
 */
gg_status gg_json_put_f64(const gg_json_out *out, double value, gg_error *err);
gg_status gg_json_put_f32(const gg_json_out *out, float value, gg_error *err);

/* A whole parsed value on one line, ", " and ": " between, numbers as they were
 * spelled, members in their order. */
gg_status gg_json_put_node(const gg_json_out *out, const gg_json_node *node, gg_error *err);

/* Fewest digits that read back to the same bits, among those the closest to the
 * value; the same in every locale. Plain notation from 0.00001 up to 16 digits
 * before the point, else like 1.5e-7 or 2e300; whole values have no point (1, -0).
 * NaN and infinities: "nan", "inf", "-inf". Returns the length, under 32. */
size_t gg_format_f64(double value, char out[32]);
size_t gg_format_f32(float value, char out[32]);

#endif
