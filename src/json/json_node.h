/* json_node.h - the layout of the JSON tree in memory. Internal to json.
 *
 * All nodes are in one array, in the order of the text. A member of an object takes two nodes, the
 * key and then the value. {"a": [1, 2], "b": 3} is
 *
 *     0 object   1 key "a"   2 array   3 "1"   4 "2"   5 key "b"   6 "3"
 *       len 2                  len 2     next 1             `- has_key
 *                              next 4 ----------------------> 6
 *
 * The first child directly follows its container, and `next` leads to the other children.
 */
#ifndef GG_JSON_NODE_H
#define GG_JSON_NODE_H

#include "json/json.h"

struct gg_json_node {
    const char *text; /* string, key: decoded bytes; number, GG_JSON_TEXT: original text */
    uint32_t len;     /* length of text; container: number of children; bool: its value */
    uint32_t next;    /* distance to the next sibling value in nodes, 0 = last */
    uint32_t offset;  /* where it begins in the parsed text */
    uint16_t type;    /* gg_json_type; a key is a GG_JSON_STRING */
    uint16_t has_key; /* the node before is this value's key */
};

#endif
