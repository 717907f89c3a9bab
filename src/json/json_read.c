/* json_read.c - a strict JSON parser (RFC 8259) without recursion. */
#include "base/error.h"
#include "base/utf8.h"
#include "json_node.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

struct gg_json {
    gg_json_node *nodes;
    char *text; /* the nodes point into it; strings only shrink when they are decoded */
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
    bool outline;     /* items of the root's arrays are kept as text */
    size_t item_text; /* text_used where the open item began */
    gg_error *err;
} parser;

static gg_status refuse(parser *p, size_t offset, const char *what)
{
    gg_fail(p->err, GG_EFORMAT, "JSON: %s", what);
    gg_at_offset(p->err, offset);
    return GG_EFORMAT;
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

static bool at(const parser *p, char c)
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
        char c = p->s[i];
        int32_t d = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
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
    if (unit < 0) return refuse(p, start, "\\u needs four hexadecimal digits");
    p->pos += 5;
    uint32_t cp = (uint32_t)unit;
    if (cp >= 0xdc00 && cp <= 0xdfff)
        return refuse(p, start, "low surrogate without a high surrogate before it");
    if (cp >= 0xd800 && cp <= 0xdbff) {
        int32_t low = at(p, '\\') && p->pos + 1 < p->len && p->s[p->pos + 1] == 'u'
                          ? hex4(p, p->pos + 2)
                          : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return refuse(p, start, "high surrogate without a low surrogate after it");
        cp = 0x10000 + ((cp - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
        p->pos += 6;
    }
    p->text_used += utf8_encode(cp, p->text + p->text_used);
    return GG_OK;
}

/* pos is after the backslash. */
static gg_status escape(parser *p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (at(p, 'u')) return unicode_escape(p);
    const char *hit = p->pos < p->len ? memchr(from, p->s[p->pos], sizeof from - 1) : NULL;
    if (!hit) return refuse(p, p->pos - 1, "unknown escape in a string");
    p->text[p->text_used++] = to[hit - from];
    p->pos++;
    return GG_OK;
}

/* pos is at the opening quote. */
static gg_status read_string(parser *p, gg_json_node *n)
{
    size_t start = p->pos++, from = p->text_used;
    for (;;) {
        if (p->pos >= p->len) return refuse(p, start, "the closing quote of a string is missing");
        unsigned char c = (unsigned char)p->s[p->pos];
        if (c == '"') break;
        if (c == '\\') {
            p->pos++;
            gg_status st = escape(p);
            if (st) return st;
        } else if (c < 0x20) {
            return refuse(p, p->pos, "a control character in a string must be escaped");
        } else if (c < 0x80) {
            p->text[p->text_used++] = p->s[p->pos++];
        } else {
            uint32_t cp;
            size_t k = gg_utf8_next(p->s + p->pos, p->len - p->pos, &cp);
            if (k == 0) return refuse(p, p->pos, "a string is not valid UTF-8");
            memcpy(p->text + p->text_used, p->s + p->pos, k);
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
    if (at(p, '-')) p->pos++;
    bool zero = at(p, '0');
    if (!skip_digits(p)) return refuse_byte(p, "a digit");
    if (zero && p->pos - start > 1 + (size_t)(p->s[start] == '-'))
        return refuse(p, start, "a number has a leading zero");
    if (at(p, '.')) {
        p->pos++;
        if (!skip_digits(p)) return refuse_byte(p, "a digit");
    }
    if (at(p, 'e') || at(p, 'E')) {
        p->pos++;
        if (at(p, '+') || at(p, '-')) p->pos++;
        if (!skip_digits(p)) return refuse_byte(p, "a digit");
    }
    n->text = p->text + p->text_used;
    n->len = (uint32_t)(p->pos - start);
    memcpy(p->text + p->text_used, p->s + start, n->len);
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

/* Whether the container that begins or ends now is an item of an array that is a member of the
 * root object. Its parents are on the stack. */
static bool is_item(const parser *p)
{
    return p->outline && p->depth == 2 && p->nodes[p->stack[0].node].type == GG_JSON_OBJECT &&
           p->nodes[p->stack[1].node].type == GG_JSON_ARRAY;
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
    if (is_item(p)) p->item_text = p->text_used;
    p->stack[p->depth++] = (frame){ .node = (uint32_t)(p->used - 1) };
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
    case '"': n = add_node(p, GG_JSON_STRING, false); return n ? read_string(p, n) : GG_ENOMEM;
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
    if (!at(p, '"')) return refuse_byte(p, "a key");
    gg_json_node *n = add_node(p, GG_JSON_STRING, true);
    if (!n) return GG_ENOMEM;
    gg_status st = read_string(p, n);
    if (st) return st;
    skip_space(p);
    if (!at(p, ':')) return refuse_byte(p, "':'");
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
    gg_fail(p->err, GG_EFORMAT, "JSON: the key '%.*s' appears twice",
            twice->len < 80 ? (int)twice->len : 80, twice->text);
    gg_at_offset(p->err, twice->offset);
    return GG_EFORMAT;
}

/* Closes a container. The nodes of an item of an outline, which are the last ones, are dropped. */
static void close_container(parser *p)
{
    uint32_t index = p->stack[--p->depth].node;
    p->pos++;
    if (!is_item(p)) return;
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
        if (at(p, object ? '}' : ']')) {
            gg_status st = object ? check_keys(p, open) : GG_OK;
            if (st) return st;
            close_container(p);
            continue;
        }
        if (open->len > 0) {
            if (!at(p, ',')) return refuse_byte(p, object ? "',' or '}'" : "',' or ']'");
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
    return p->pos == p->len ? GG_OK : refuse(p, p->pos, "there is text after the end of the value");
}

/* Parses text[from..len); offsets count from the start of text. */
static gg_status parse(const char *text, size_t from, size_t len, bool outline, gg_json **out,
                       gg_error *err)
{
    parser p = { .s = text, .pos = from, .len = len, .outline = outline, .err = err };
    gg_json *json = calloc(1, sizeof *json);
    p.text = malloc(len - from + 1);
    gg_status st = json && p.text
                       ? read_all(&p)
                       : gg_fail(err, GG_ENOMEM, "no memory for %zu bytes of JSON", len - from);
    if (st) {
        free(json);
        free(p.text);
        free(p.nodes);
        return st;
    }
    gg_json_node *fit = realloc(p.nodes, p.used * sizeof *fit);
    json->nodes = fit ? fit : p.nodes;
    json->text = p.text;
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
        gg_fail(err, GG_EFORMAT, "JSON: there is a byte order mark before the value");
        gg_at_offset(err, 0);
        return GG_EFORMAT;
    }
    return parse(text, 0, len, outline, out, err);
}

gg_status gg_json_parse(const char *text, size_t len, gg_json **out, gg_error *err)
{
    return parse_whole(text, len, false, out, err);
}

gg_status gg_json_outline(const char *text, size_t len, gg_json **out, gg_error *err)
{
    return parse_whole(text, len, true, out, err);
}

gg_status gg_json_item(const gg_json_node *node, gg_json **out, gg_error *err)
{
    *out = NULL;
    if (gg_json_type_of(node) != GG_JSON_TEXT)
        return gg_fail(err, GG_EUSAGE, "JSON: this value is already parsed");
    return parse(node->text - node->offset, node->offset, (size_t)node->offset + node->len, false,
                 out, err);
}

void gg_json_free(gg_json *json)
{
    if (!json) return;
    free(json->nodes);
    free(json->text);
    free(json);
}

const gg_json_node *gg_json_root(const gg_json *json)
{
    return json->nodes;
}
