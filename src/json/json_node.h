/* json_node.h - how the tree lies in memory. Internal to json.
 *
 * Nodes stand in one array in the order of the text. A member of an object is two
 * of them, key then value. {"a": [1, 2], "b": 3} is
 *
 *     0 object   1 key "a"   2 array   3 "1"   4 "2"   5 key "b"   6 "3"
 *       len 2                  len 2     next 1             `- has_key
 *                              next 4 ----------------------> 6
 *
 * so the first child follows its container and the rest are found by `next`.
 */
#ifndef GG_JSON_NODE_H
#define GG_JSON_NODE_H

#include "json/json.h"

struct gg_json_node {
    const char *text; /* string, key: decoded bytes; number, text: as spelled */
    uint32_t len;     /* of text; of a container its children; of a bool its value */
    uint32_t next;    /* nodes from here to the next sibling value, 0 = last */
    uint32_t offset;  /* where it begins in the parsed text */
    uint16_t type;    /* gg_json_type; a key is a GG_JSON_STRING */
    uint16_t has_key; /* the node before is this value's key */
};

#endif
