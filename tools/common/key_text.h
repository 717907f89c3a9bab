/* key_text.h - find the keys of a model, and write their values as text or bytes.
 *
 * The keys of a split model are in its first shard; every function here accepts any shard.
 * The general rules of organ.h apply.
 */
#pragma once

#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

/* Returns the entry of a key, or NULL if it is absent. If no key has exactly these bytes, escapes
 * (gg_escape) are undone first, so that keys can be named as tables print them. */
const gg_kv *gg_keys_find(const gg_meta *meta, const char *key);

/* Writes the type as gg_meta_set_text takes it, for example "u32" or "str[]", with a NUL. */
#define GG_KEY_TYPE 16
void gg_key_type(const gg_kv *kv, char out[GG_KEY_TYPE]);

/* How gg_key_put writes a value. All zero: the whole value on one line, as in tables. */
typedef struct gg_key_form {
    enum {
        GG_KEY_LINE,  /* numbers in their shortest exact form, strings escaped (gg_escape), arrays
                         as [1, 2, ...] with strings in quotation marks */
        GG_KEY_PLAIN, /* the bytes of a string and nothing else, a number and a newline, or an array
                         with one element per line and strings escaped, also a quotation mark at
                         their start */
        GG_KEY_JSON,  /* as in manifest.json */
    } as;
    uint64_t elements; /* GG_KEY_LINE: shown elements of an array, followed by "..."; 0 = all */
    size_t bytes;      /* GG_KEY_LINE: shown bytes of a string, followed by "..."; 0 = all */
    /* Only element *element of an array: "[7] 1.5 of 32" or, if there is none, "[7] none of 7"; in
     * JSON its value or null. NULL = the whole value. Not for GG_KEY_PLAIN. */
    const uint64_t *element;
} gg_key_form;

/* Writes a value with calls of `write`, which writes all n bytes or fails. Returns the first error
 * of `write`, or GG_ENOMEM. */
gg_status gg_key_put(const gg_kv *kv, const gg_key_form *form,
                     gg_status (*write)(void *ctx, const char *bytes, size_t n, gg_error *err),
                     void *ctx, gg_error *err);
