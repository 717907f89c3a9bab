/* json_read.c - a strict JSON parser (RFC 8259) without recursion, and its tree of values. */
#include "base/cursor.h"
#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All nodes are in one array, in the order of the text. A member of an object takes two nodes, the
 * key and then the value. {"a": [1, 2], "b": 3} is
 *
 *     0 object   1 key "a"   2 array   3 "1"   4 "2"   5 key "b"   6 "3"
 *       len 2                  len 2     next 1             `- has_key
 *                              next 4 ----------------------> 6
 *
 * The first child directly follows its container, and `next` leads to the other children.
 */
struct gg_json_node {
    const char *text; /* string, key: decoded bytes; number, GG_JSON_TEXT: original text */
    uint32_t len;     /* length of text; container: number of children; bool: its value */
    uint32_t next;    /* distance to the next sibling value in nodes, 0 = last */
    uint32_t offset;  /* where it begins in the parsed text */
    uint16_t type;    /* gg_json_type; a key is a GG_JSON_STRING */
    uint16_t has_key; /* the node before is this value's key */
};

/* ---- parsing ----------------------------------------------------------------------------- */

struct gg_json {
    gg_json_node *nodes;
    char *text; /* the nodes point into it; strings only shrink when they are decoded */
    bool lent;  /* text belongs to the caller */
};

typedef struct frame {
    uint32_t node; /* the open container */
    uint32_t last; /* its last child so far, 0 = none yet */
} frame;

typedef struct parser {
    const char *s;
    size_t len, pos;
    gg_json_node *nodes;
    size_t used, cap;
    char *text;
    size_t text_used;
    frame stack[GG_JSON_DEPTH];
    uint32_t depth;
    bool outline;     /* items of arrays that are members of the root are kept as text */
    uint32_t item;    /* the open one, 0 = none */
    size_t item_text; /* text_used where it began */
    gg_error *err;
} parser;

static gg_status refuse_at(parser *p, size_t offset, const char *what)
{
    return gg_fail_at(offset, p->err, "JSON: %s", what);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Whether a bracket follows a comma, as after removing the last line of a list by hand. */
static bool closes_after_comma(const parser *p)
{
    size_t i = p->pos;
    if (i >= p->len || (p->s[i] != ']' && p->s[i] != '}')) return false;
    while (i > 0 && is_space(p->s[i - 1])) i--;
    return i > 0 && p->s[i - 1] == ',';
}

static gg_status refuse_byte(parser *p, const char *expected)
{
    if (p->pos >= p->len)
        gg_fail(p->err, GG_EFORMAT, "JSON: expected %s, but the text ends", expected);
    else gg_fail(p->err, GG_EFORMAT, "JSON: expected %s, found '%c'", expected, p->s[p->pos]);
    gg_at_offset(p->err, p->pos);
    if (closes_after_comma(p)) gg_fix(p->err, "remove the comma before it");
    return GG_EFORMAT;
}

static void skip_space(parser *p)
{
    while (p->pos < p->len && is_space(p->s[p->pos])) p->pos++;
}

static bool is_at(const parser *p, char c)
{
    return p->pos < p->len && p->s[p->pos] == c;
}

/* Adds a node and links it to the open container. A key is not linked; it belongs to the value
 * that follows it. Returns NULL without memory. */
static gg_json_node *add_node(parser *p, gg_json_type type, bool is_key)
{
    if (p->used == p->cap) {
        size_t cap = p->cap + p->cap / 2 + 16;
        gg_json_node *grown = cap <= SIZE_MAX / sizeof *grown
                                  ? realloc(p->nodes, cap * sizeof *grown)
                                  : NULL;
        if (!grown) {
            gg_fail(p->err, GG_ENOMEM, "no memory for %zu JSON values", cap);
            return NULL;
        }
        p->nodes = grown;
        p->cap = cap;
    }
    uint32_t index = (uint32_t)p->used++;
    gg_json_node *n = &p->nodes[index];
    *n = (gg_json_node){ .offset = (uint32_t)p->pos, .type = (uint16_t)type };
    if (p->depth == 0 || is_key) return n;
    frame *f = &p->stack[p->depth - 1];
    if (f->last) p->nodes[f->last].next = index - f->last;
    f->last = index;
    p->nodes[f->node].len++;
    n->has_key = p->nodes[f->node].type == GG_JSON_OBJECT;
    return n;
}

/* Four hex digits at offset `at`, or -1. */
static int32_t hex4(const parser *p, size_t from)
{
    if (p->len - from < 4) return -1;
    int32_t v = 0;
    for (size_t i = from; i < from + 4; i++) {
        int d = gg_hex_digit(p->s[i]);
        if (d < 0) return -1;
        v = v << 4 | d;
    }
    return v;
}

static size_t utf8_encode(uint32_t cp, char *out)
{
    unsigned char b[4];
    size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; cp >>= 6) b[i] = (unsigned char)(0x80 | (cp & 0x3f));
    static const unsigned char lead[5] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    b[0] = (unsigned char)(lead[n] | cp);
    memcpy(out, b, n);
    return n;
}

/* pos is at the 'u' of an escape. A pair of surrogates gives one code point. */
static gg_status unicode_escape(parser *p)
{
    size_t start = p->pos - 1;
    int32_t unit = hex4(p, p->pos + 1);
    if (unit < 0) return refuse_at(p, start, "\\u needs four hexadecimal digits");
    p->pos += 5;
    uint32_t cp = (uint32_t)unit;
    if (cp >= 0xdc00 && cp <= 0xdfff)
        return refuse_at(p, start, "low surrogate without a high surrogate before it");
    if (cp >= 0xd800 && cp <= 0xdbff) {
        int32_t low = is_at(p, '\\') && p->pos + 1 < p->len && p->s[p->pos + 1] == 'u'
                          ? hex4(p, p->pos + 2)
                          : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return refuse_at(p, start, "high surrogate without a low surrogate after it");
        cp = 0x10000 + ((cp - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
        p->pos += 6;
    }
    p->text_used += utf8_encode(cp, p->text + p->text_used);
    return GG_OK;
}

/* pos is after the backslash. */
static gg_status read_escape(parser *p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (is_at(p, 'u')) return unicode_escape(p);
    const char *hit = p->pos < p->len ? memchr(from, p->s[p->pos], sizeof from - 1) : NULL;
    if (!hit) return refuse_at(p, p->pos - 1, "unknown escape in a string");
    p->text[p->text_used++] = to[hit - from];
    p->pos++;
    return GG_OK;
}

/* pos is at the opening quote. A value whose node will be dropped takes no memory. */
static gg_status read_string(parser *p, gg_json_node *n, bool key)
{
    size_t start = p->pos++, from = p->text_used;
    bool drop = !key && p->item;
    for (;;) {
        if (drop) p->text_used = from;
        if (p->pos >= p->len)
            return refuse_at(p, start, "the closing quote of a string is missing");
        unsigned char c = (unsigned char)p->s[p->pos];
        if (c == '"') break;
        if (c == '\\') {
            p->pos++;
            gg_status st = read_escape(p);
            if (st) return st;
        } else if (c < 0x20) {
            return refuse_at(p, p->pos, "a control character in a string must be escaped");
        } else if (c < 0x80) {
            p->text[p->text_used++] = p->s[p->pos++];
        } else {
            uint32_t cp;
            size_t k = gg_utf8_next(p->s + p->pos, p->len - p->pos, &cp);
            if (k == 0) return refuse_at(p, p->pos, "a string is not valid UTF-8");
            memmove(p->text + p->text_used, p->s + p->pos, k); /* the text may be p->s itself */
            p->text_used += k;
            p->pos += k;
        }
    }
    p->pos++;
    n->text = p->text + from;
    n->len = (uint32_t)(p->text_used - from);
    return GG_OK;
}

static bool skip_digits(parser *p)
{
    size_t start = p->pos;
    while (p->pos < p->len && p->s[p->pos] >= '0' && p->s[p->pos] <= '9') p->pos++;
    return p->pos > start;
}

static gg_status read_number(parser *p, gg_json_node *n)
{
    size_t start = p->pos;
    if (is_at(p, '-')) p->pos++;
    bool zero = is_at(p, '0');
    if (!skip_digits(p)) return refuse_byte(p, "a digit");
    if (zero && p->pos - start > 1 + (size_t)(p->s[start] == '-'))
        return refuse_at(p, start, "a number has a leading zero");
    if (is_at(p, '.')) {
        p->pos++;
        if (!skip_digits(p)) return refuse_byte(p, "a digit");
    }
    if (is_at(p, 'e') || is_at(p, 'E')) {
        p->pos++;
        if (is_at(p, '+') || is_at(p, '-')) p->pos++;
        if (!skip_digits(p)) return refuse_byte(p, "a digit");
    }
    n->text = p->text + p->text_used;
    n->len = (uint32_t)(p->pos - start);
    memmove(p->text + p->text_used, p->s + start, n->len);
    p->text_used += n->len;
    return GG_OK;
}

static gg_status read_word(parser *p, const char *word)
{
    size_t n = strlen(word);
    if (p->len - p->pos < n || memcmp(p->s + p->pos, word, n) != 0)
        return refuse_byte(p, "a value");
    p->pos += n;
    return GG_OK;
}

static gg_status open_container(parser *p, gg_json_type type)
{
    if (p->depth == GG_JSON_DEPTH) {
        gg_fail(p->err, GG_EUNSUPPORTED, "JSON: more than %d nested arrays and objects",
                GG_JSON_DEPTH);
        gg_at_offset(p->err, p->pos);
        return GG_EUNSUPPORTED;
    }
    if (!add_node(p, type, false)) return GG_ENOMEM;
    uint32_t index = (uint32_t)(p->used - 1);
    if (p->outline && p->depth == 2 && p->nodes[p->stack[0].node].type == GG_JSON_OBJECT &&
        p->nodes[p->stack[1].node].type == GG_JSON_ARRAY)
        p->item = index, p->item_text = p->text_used;
    p->stack[p->depth++] = (frame){ .node = index };
    p->pos++;
    return GG_OK;
}

static gg_status read_value(parser *p)
{
    gg_json_node *n;
    char c = p->pos < p->len ? p->s[p->pos] : '\0';
    switch (c) {
    case '{': return open_container(p, GG_JSON_OBJECT);
    case '[': return open_container(p, GG_JSON_ARRAY);
    case '"':
        n = add_node(p, GG_JSON_STRING, false);
        return n ? read_string(p, n, false) : GG_ENOMEM;
    case 't':
    case 'f':
        n = add_node(p, GG_JSON_BOOL, false);
        if (n) n->len = c == 't';
        return n ? read_word(p, c == 't' ? "true" : "false") : GG_ENOMEM;
    case 'n': return add_node(p, GG_JSON_NULL, false) ? read_word(p, "null") : GG_ENOMEM;
    default:
        if (c != '-' && (c < '0' || c > '9')) return refuse_byte(p, "a value");
        n = add_node(p, GG_JSON_NUMBER, false);
        return n ? read_number(p, n) : GG_ENOMEM;
    }
}

static gg_status read_key(parser *p)
{
    if (!is_at(p, '"')) return refuse_byte(p, "a key");
    gg_json_node *n = add_node(p, GG_JSON_STRING, true);
    if (!n) return GG_ENOMEM;
    gg_status st = read_string(p, n, true);
    if (st) return st;
    skip_space(p);
    if (!is_at(p, ':')) return refuse_byte(p, "':'");
    p->pos++;
    return GG_OK;
}

/* Orders by length, bytes and position, so that equal keys are adjacent and in order. */
static int compare_keys(const void *a, const void *b)
{
    const gg_json_node *x = *(const gg_json_node *const *)a, *y = *(const gg_json_node *const *)b;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    int c = memcmp(x->text, y->text, x->len);
    return c ? c : x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Finds duplicate keys by sorting. Hostile keys could make a hash table quadratic. */
static gg_status check_keys(parser *p, const gg_json_node *object)
{
    enum { SMALL = 16 };
    const gg_json_node *few[SMALL], **keys = few, *twice = NULL;
    size_t n = 0;
    if (object->len < 2) return GG_OK;
    if (object->len > SMALL && !(keys = malloc(object->len * sizeof *keys)))
        return gg_fail(p->err, GG_ENOMEM, "no memory to compare %u JSON keys", object->len);
    for (const gg_json_node *m = gg_json_first(object); m; m = gg_json_next(m)) keys[n++] = m - 1;
    qsort(keys, n, sizeof *keys, compare_keys);
    for (size_t i = 1; i < n; i++) {
        if (keys[i]->len != keys[i - 1]->len ||
            memcmp(keys[i]->text, keys[i - 1]->text, keys[i]->len) != 0)
            continue;
        if (!twice || keys[i]->offset < twice->offset) twice = keys[i];
    }
    if (keys != few) free(keys);
    if (!twice) return GG_OK;
    gg_fail_at(twice->offset, p->err, "JSON: the key '%.*s' appears twice",
               twice->len < 80 ? (int)twice->len : 80, twice->text);
    return gg_fix(p->err, "remove one of them");
}

/* Closes a container. The nodes of an item of an outline, which are the last ones, are dropped. */
static void close_container(parser *p)
{
    uint32_t index = p->stack[--p->depth].node;
    p->pos++;
    if (index != p->item || !index) return;
    p->item = 0;
    gg_json_node *n = &p->nodes[index];
    n->type = GG_JSON_TEXT;
    n->text = p->s + n->offset;
    n->len = (uint32_t)(p->pos - n->offset);
    p->used = index + 1;
    p->text_used = p->item_text;
}

/* Reads everything between a value and the start of the next one. Sets *done if the outermost
 * value is complete. */
static gg_status after_value(parser *p, bool *done)
{
    while (p->depth > 0) {
        const gg_json_node *open = &p->nodes[p->stack[p->depth - 1].node];
        bool object = open->type == GG_JSON_OBJECT;
        skip_space(p);
        if (is_at(p, object ? '}' : ']')) {
            gg_status st = object ? check_keys(p, open) : GG_OK;
            if (st) return st;
            close_container(p);
            continue;
        }
        if (open->len > 0) {
            if (!is_at(p, ',')) return refuse_byte(p, object ? "',' or '}'" : "',' or ']'");
            p->pos++;
            skip_space(p);
        }
        return object ? read_key(p) : GG_OK;
    }
    *done = true;
    return GG_OK;
}

static gg_status read_all(parser *p)
{
    for (bool done = false; !done;) {
        skip_space(p);
        gg_status st = read_value(p);
        if (!st) st = after_value(p, &done);
        if (st) return st;
    }
    skip_space(p);
    return p->pos == p->len ? GG_OK
                            : refuse_at(p, p->pos, "there is text after the end of the value");
}

/* Parses p->s[p->pos..p->len); offsets count from the start of p->s. Strings are decoded to p->text
 * unless that is NULL. */
static gg_status parse_text(parser p, gg_json **out, gg_error *err)
{
    gg_json *json = calloc(1, sizeof *json);
    bool lent = p.text != NULL;
    size_t size = p.len - p.pos;
    p.err = err;
    if (!lent) p.text = malloc(size + 1);
    gg_status st = json && p.text
                       ? read_all(&p)
                       : gg_fail(err, GG_ENOMEM, "no memory for %zu bytes of JSON", size);
    if (st) {
        free(json);
        if (!lent) free(p.text);
        free(p.nodes);
        return st;
    }
    gg_json_node *fit = realloc(p.nodes, p.used * sizeof *fit);
    json->nodes = fit ? fit : p.nodes;
    json->text = p.text;
    json->lent = lent;
    *out = json;
    return GG_OK;
}

static gg_status parse_whole(const char *text, size_t len, bool outline, gg_json **out,
                             gg_error *err)
{
    *out = NULL;
    if (len >= UINT32_MAX)
        return gg_fail(err, GG_EUNSUPPORTED, "JSON: the text is 4 GiB or larger");
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        gg_fail_at(0, err, "JSON: there is a byte order mark before the value");
        return gg_fix(err, "save it as UTF-8 without this mark");
    }
    return parse_text((parser){ .s = text, .len = len, .outline = outline }, out, err);
}

gg_status gg_json_parse(const char *text, size_t len, gg_json **out, gg_error *err)
{
    return parse_whole(text, len, false, out, err);
}

gg_status gg_json_outline(const char *text, size_t len, gg_json **out, gg_error *err)
{
    return parse_whole(text, len, true, out, err);
}

static gg_status parse_item(const gg_json_node *node, bool lend, gg_json **out, gg_error *err)
{
    *out = NULL;
    if (gg_json_type_of(node) != GG_JSON_TEXT)
        return gg_fail(err, GG_EUSAGE, "JSON: this value is already parsed");
    parser p = { .s = node->text - node->offset,
                 .pos = node->offset,
                 .len = (size_t)node->offset + node->len,
                 .text = lend ? (char *)(uintptr_t)node->text : NULL };
    return parse_text(p, out, err);
}

gg_status gg_json_item(const gg_json_node *node, gg_json **out, gg_error *err)
{
    return parse_item(node, false, out, err);
}

gg_status gg_json_item_once(const gg_json_node *node, gg_json **out, gg_error *err)
{
    return parse_item(node, true, out, err);
}

void gg_json_free(gg_json *json)
{
    if (!json) return;
    free(json->nodes);
    if (!json->lent) free(json->text);
    free(json);
}

const gg_json_node *gg_json_root(const gg_json *json)
{
    return json ? json->nodes : NULL;
}

/* ---- the tree ---------------------------------------------------------------------------- */

gg_json_type gg_json_type_of(const gg_json_node *node)
{
    return node ? (gg_json_type)node->type : GG_JSON_NONE;
}

static const char *json_type_name(gg_json_type type)
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

static gg_status expect_type(const gg_json_node *node, gg_json_type type, gg_error *err)
{
    if (gg_json_type_of(node) == type) return GG_OK;
    if (!err) return GG_EFORMAT;
    return gg_fail_at(gg_json_offset(node), err, "JSON: expected a %s, found %s",
                      json_type_name(type), json_type_name(gg_json_type_of(node)));
}

gg_status gg_json_string(const gg_json_node *node, const char **ptr, size_t *len, gg_error *err)
{
    gg_status st = expect_type(node, GG_JSON_STRING, err);
    if (st) return st;
    *ptr = node->text;
    *len = node->len;
    return GG_OK;
}

gg_status gg_json_bool(const gg_json_node *node, bool *value, gg_error *err)
{
    gg_status st = expect_type(node, GG_JSON_BOOL, err);
    if (st) return st;
    *value = node->len != 0;
    return GG_OK;
}

bool gg_json_is(const gg_json_node *node, const char *text)
{
    return gg_json_type_of(node) == GG_JSON_STRING && node->len == strlen(text) &&
           memcmp(node->text, text, node->len) == 0;
}

bool gg_json_is_true(const gg_json_node *node)
{
    return gg_json_type_of(node) == GG_JSON_BOOL && node->len != 0;
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

/* Writes the key and the start of a value: everything, unless it has children. */
static gg_status put_head(const gg_json_out *out, const gg_json_node *n, bool with_key,
                          gg_error *err)
{
    size_t len;
    const char *key = with_key ? gg_json_key(n, &len) : NULL;
    if (key) {
        gg_json_put_string(out, key, len, err);
        gg_json_put_raw(out, ": ", 2, err);
    }
    switch (gg_json_type_of(n)) {
    case GG_JSON_BOOL: return gg_json_put_bool(out, n->len != 0, err);
    case GG_JSON_TEXT:
    case GG_JSON_NUMBER: return gg_json_put_raw(out, n->text, n->len, err);
    case GG_JSON_STRING: return gg_json_put_string(out, n->text, n->len, err);
    case GG_JSON_ARRAY: return gg_json_put_raw(out, n->len ? "[" : "[]", n->len ? 1 : 2, err);
    case GG_JSON_OBJECT: return gg_json_put_raw(out, n->len ? "{" : "{}", n->len ? 1 : 2, err);
    case GG_JSON_NONE:
    case GG_JSON_NULL: break;
    }
    return gg_json_put_text(out, "null", err);
}

gg_status gg_json_put_node(const gg_json_out *out, const gg_json_node *node, gg_error *err)
{
    const gg_json_node *open[GG_JSON_DEPTH], *n = node;
    size_t depth = 0;
    put_head(out, n, false, err);
    while (err->status == GG_OK) {
        const gg_json_node *child = gg_json_first(n);
        if (child) {
            open[depth++] = n;
            n = child;
        } else {
            while (depth > 0 && !n->next) {
                n = open[--depth];
                gg_json_put_raw(out, n->type == GG_JSON_OBJECT ? "}" : "]", 1, err);
            }
            if (depth == 0) break;
            n = gg_json_next(n);
            gg_json_put_raw(out, ", ", 2, err);
        }
        put_head(out, n, true, err);
    }
    return err->status;
}

/* ---- numbers ----------------------------------------------------------------------------- */

/* strtod expects the decimal point of the current locale. So the text is first split into digits
 * and an exponent: "1.25e-3" is passed to strtod as "125e-5", which is the same in every locale. */

/* The midpoint of two doubles has at most 767 digits. If a number agrees with a midpoint so far,
 * rounding depends on whether any nonzero digit follows, and one more digit can record that. */
enum { DIGITS = 800 };

/* value = -1^negative x digits x 10^exp; no leading zeros; n = 0 for zero. */
typedef struct decimal {
    char digits[DIGITS + 1];
    size_t n;
    int64_t exp;
    bool negative;
} decimal;

/* Splits the text of a number, which the parser has already checked. */
static gg_status split_decimal(const gg_json_node *node, decimal *d, gg_error *err)
{
    const char *s = node ? node->text : NULL;
    size_t len = node ? node->len : 0, i;
    bool fraction = false, more = false;
    if (expect_type(node, GG_JSON_NUMBER, err) != GG_OK) return GG_EFORMAT;
    d->n = 0;
    d->exp = 0;
    d->negative = s[0] == '-';
    for (i = d->negative; i < len && s[i] != 'e' && s[i] != 'E'; i++) {
        if (s[i] == '.') {
            fraction = true;
        } else if (d->n == 0 && s[i] == '0') {
            d->exp -= fraction;
        } else if (d->n < DIGITS) {
            d->digits[d->n++] = s[i];
            d->exp -= fraction;
        } else {
            more = more || s[i] != '0';
            d->exp += !fraction;
        }
    }
    if (more) {
        d->digits[d->n++] = '1';
        d->exp--;
    }
    if (i >= len) return GG_OK;
    bool minus = s[++i] == '-';
    if (minus || s[i] == '+') i++;
    /* Clamped to a limit from which no text of less than 4 GiB could bring it back into range. */
    int64_t e = 0;
    for (; i < len; i++)
        if (e < INT64_C(1000000000000)) e = e * 10 + (s[i] - '0');
    d->exp += minus ? -e : e;
    return GG_OK;
}

static gg_status bad_value(const gg_json_node *node, const char *what, gg_error *err)
{
    bool cut = node->len > 40;
    if (!err) return GG_EFORMAT;
    return gg_fail_at(node->offset, err, "JSON: %.*s%s is %s", cut ? 40 : (int)node->len,
                      node->text, cut ? "..." : "", what);
}

/* Computes the magnitude of a whole number. Returns false if it exceeds 64 bits or, with *whole
 * false, if the number is not whole. */
static bool magnitude(decimal *d, uint64_t *value, bool *whole)
{
    *value = 0;
    while (d->n > 0 && d->digits[d->n - 1] == '0') {
        d->n--;
        d->exp++;
    }
    *whole = d->n == 0 || d->exp >= 0;
    if (d->n == 0) return true;
    if (!*whole || d->n > 20 || d->exp > 20) return false;
    size_t places = d->n + (size_t)d->exp;
    for (size_t i = 0; i < places; i++) {
        uint64_t digit = i < d->n ? (uint64_t)(d->digits[i] - '0') : 0;
        if (*value > (UINT64_MAX - digit) / 10) return false;
        *value = *value * 10 + digit;
    }
    return true;
}

/* The sign and magnitude of a whole number; *fits is false if the magnitude exceeds 64 bits. */
static gg_status whole_number(const gg_json_node *node, uint64_t *value, bool *negative, bool *fits,
                              gg_error *err)
{
    decimal d;
    bool whole;
    if (split_decimal(node, &d, err) != GG_OK) return GG_EFORMAT;
    *fits = magnitude(&d, value, &whole);
    *negative = d.negative;
    return whole ? GG_OK : bad_value(node, "not a whole number", err);
}

gg_status gg_json_u64(const gg_json_node *node, uint64_t *value, gg_error *err)
{
    uint64_t v;
    bool negative, fits;
    gg_status st = whole_number(node, &v, &negative, &fits, err);
    if (st != GG_OK) return st;
    if (!fits || (negative && v)) return bad_value(node, "outside 0 to 2^64-1", err);
    *value = v;
    return GG_OK;
}

gg_status gg_json_i64(const gg_json_node *node, int64_t *value, gg_error *err)
{
    uint64_t v;
    bool negative, fits;
    gg_status st = whole_number(node, &v, &negative, &fits, err);
    if (st != GG_OK) return st;
    if (!fits || v > (uint64_t)INT64_MAX + negative)
        return bad_value(node, "outside -2^63 to 2^63-1", err);
    /* -2^63 has no positive counterpart to negate. */
    *value = !negative ? (int64_t)v : v == 0 ? 0 : -(int64_t)(v - 1) - 1;
    return GG_OK;
}

/* Makes the text for strtod and strtof: up to DIGITS + 1 digits and 16 bytes. Beyond an exponent of
 * +-9999 every result is zero or infinity. */
static void join_decimal(const decimal *d, char text[DIGITS + 17])
{
    int e = d->exp > 9999 ? 9999 : d->exp < -9999 ? -9999 : (int)d->exp;
    snprintf(text, DIGITS + 17, "%.*s%se%d", (int)d->n, d->digits, d->n ? "" : "0", e);
}

gg_status gg_json_f64(const gg_json_node *node, double *value, gg_error *err)
{
    decimal d;
    char text[DIGITS + 17];
    if (split_decimal(node, &d, err) != GG_OK) return GG_EFORMAT;
    join_decimal(&d, text);
    double v = strtod(text, NULL);
    if (isinf(v)) return bad_value(node, "too large for an f64", err);
    *value = d.negative ? -v : v;
    return GG_OK;
}

gg_status gg_json_f32(const gg_json_node *node, float *value, gg_error *err)
{
    decimal d;
    char text[DIGITS + 17];
    if (split_decimal(node, &d, err) != GG_OK) return GG_EFORMAT;
    join_decimal(&d, text);
    float v = strtof(text, NULL);
    if (isinf(v)) return bad_value(node, "too large for an f32", err);
    *value = d.negative ? -v : v;
    return GG_OK;
}
