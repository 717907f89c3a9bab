/* json_access.c - navigate the JSON tree and read values. */
#include "json_node.h"

#include "base/error.h"
#include "json/json.h"

#include <string.h>

gg_json_type gg_json_type_of(const gg_json_node *node)
{
    return node ? (gg_json_type)node->type : GG_JSON_NONE;
}

const char *gg_json_type_name(gg_json_type type)
{
    switch (type) {
    case GG_JSON_NONE: return "nothing";
    case GG_JSON_NULL: return "null";
    case GG_JSON_BOOL: return "bool";
    case GG_JSON_NUMBER: return "number";
    case GG_JSON_STRING: return "string";
    case GG_JSON_ARRAY: return "array";
    case GG_JSON_OBJECT: return "object";
    case GG_JSON_TEXT: return "array or object";
    }
    return "unknown";
}

uint64_t gg_json_offset(const gg_json_node *node)
{
    return node ? node->offset : GG_ERROR_NO_OFFSET;
}

size_t gg_json_count(const gg_json_node *node)
{
    gg_json_type type = gg_json_type_of(node);
    return type == GG_JSON_ARRAY || type == GG_JSON_OBJECT ? node->len : 0;
}

const gg_json_node *gg_json_first(const gg_json_node *node)
{
    if (gg_json_count(node) == 0) return NULL;
    return node->type == GG_JSON_OBJECT ? node + 2 : node + 1;
}

const gg_json_node *gg_json_next(const gg_json_node *node)
{
    return node && node->next ? node + node->next : NULL;
}

const char *gg_json_key(const gg_json_node *member, size_t *len)
{
    if (!member || !member->has_key) {
        *len = 0;
        return NULL;
    }
    *len = member[-1].len;
    return member[-1].text;
}

bool gg_json_key_is(const gg_json_node *member, const char *key)
{
    size_t len;
    const char *have = gg_json_key(member, &len);
    return have && strlen(key) == len && memcmp(have, key, len) == 0;
}

const gg_json_node *gg_json_get(const gg_json_node *object, const char *key)
{
    if (gg_json_type_of(object) != GG_JSON_OBJECT) return NULL;
    size_t len = strlen(key);
    for (const gg_json_node *m = gg_json_first(object); m; m = gg_json_next(m))
        if (m[-1].len == len && memcmp(m[-1].text, key, len) == 0) return m;
    return NULL;
}

static gg_status expect(const gg_json_node *node, gg_json_type type, gg_error *err)
{
    if (gg_json_type_of(node) == type) return GG_OK;
    gg_fail(err, GG_EFORMAT, "JSON: expected a %s, found %s", gg_json_type_name(type),
            gg_json_type_name(gg_json_type_of(node)));
    gg_at_offset(err, gg_json_offset(node));
    return GG_EFORMAT;
}

gg_status gg_json_string(const gg_json_node *node, const char **ptr, size_t *len, gg_error *err)
{
    gg_status st = expect(node, GG_JSON_STRING, err);
    if (st) return st;
    *ptr = node->text;
    *len = node->len;
    return GG_OK;
}

gg_status gg_json_bool(const gg_json_node *node, bool *value, gg_error *err)
{
    gg_status st = expect(node, GG_JSON_BOOL, err);
    if (st) return st;
    *value = node->len != 0;
    return GG_OK;
}

const char *gg_json_number_text(const gg_json_node *node, size_t *len)
{
    if (gg_json_type_of(node) != GG_JSON_NUMBER) {
        *len = 0;
        return NULL;
    }
    *len = node->len;
    return node->text;
}
