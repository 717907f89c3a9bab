/* t_json.c - the JSON reader: what it takes, what it refuses and where, its limits. */
#include "t.h"

#include "base/buf.h"
#include "json/json.h"

/* Parse a copy of exactly the text's size, so that a sanitizer sees any byte too many. */
static gg_json *parse(const char *text, size_t len, gg_error *err)
{
    *err = (gg_error)GG_ERROR_INIT;
    gg_json *json = NULL;
    char *copy = malloc(len ? len : 1);
    if (!copy) exit(2);
    memcpy(copy, text, len);
    gg_status st = gg_json_parse(copy, len, &json, err);
    gg_error same = GG_ERROR_INIT; /* an outline refuses the same, at the same place */
    gg_json *outline = NULL;
    T_CHECK(gg_json_outline(copy, len, &outline, &same) == st && same.offset == err->offset &&
            !outline == !json);
    gg_json_free(outline);
    free(copy);
    T_CHECK((st == GG_OK) == (json != NULL) && st == err->status);
    return json;
}

static gg_json *parse_text(const char *text, gg_error *err)
{
    return parse(text, strlen(text), err);
}

/* The '@' marks where the error must be placed; it is not part of the text. */
static const char *const malformed[] = {
    "@",
    " \n@",
    "@nul",
    "null@l1",
    "true@x",
    "@True",
    "@tru",
    "@NaN",
    "@Infinity",
    "-@Infinity",
    "@'a'",
    "@,",
    "@]",
    "@}",
    "@\xef\xbb\xbf{}",
    "@// c\n1",
    "1 @// c",
    "1 @2",
    "{}@{}",
    "[]@]",
    "1@,",
    "\"a\"@\"b\"",
    /* arrays and objects */
    "[@",
    "[1@",
    "[1,@",
    "[1,@]",
    "[@,1]",
    "[1 @2]",
    "[1,@,2]",
    "[1@}",
    "[1@:2]",
    "{@",
    "{@1:2}",
    "{@a:1}",
    "{@,}",
    "{\"a\"@",
    "{\"a\"@}",
    "{\"a\"@,",
    "{\"a\":@",
    "{\"a\":@}",
    "{\"a\":1@",
    "{\"a\":1,@",
    "{\"a\":1,@}",
    "{\"a\":1 @\"b\":2}",
    "{\"a\":1@]",
    "{\"a\"@=1}",
    "{\"a\":1@;}",
    "{@null:1}",
    "{@'a':1}",
    /* the same key twice, however it is spelled */
    "{\"a\":1,@\"a\":1}",
    "{\"a\":1,\"b\":2,@\"\\u0061\":3}",
    "[{\"\":{},@\"\":1}]",
    "{\"x\\u0000\":1,@\"x\\u0000\":2}",
    "{\"a\":1,\"b\":{\"c\":1,@\"c\":2},\"a\":1}",
    "{\"b\":1,\"a\":1,@\"a\":2,\"b\":2}",
    /* numbers */
    "-@",
    "@+1",
    "@.5",
    "1.@",
    "1.@e3",
    "1e@",
    "1e+@",
    "1E-@x",
    "@01",
    "@-01",
    "@00",
    "@-00.5",
    "0@x10",
    "1@_000",
    "1@,5",
    "-@-",
    "-@-1",
    "-@.5",
    "1.2@.3",
    "1e5@.5",
    "1e5@e5",
    "[1234567890123456789012345678901234567890123@f]",
    "[1@f]",
    "1@\xc2\xa0",
    /* strings */
    "@\"",
    "@\"a",
    "@\"a\\\"",
    "\"a@\\",
    "\"@\\x41\"",
    "\"@\\'\"",
    "\"@\\ \"",
    "\"@\\U0041\"",
    "\"@\\u\"",
    "\"@\\u004\"",
    "\"@\\u004g\"",
    "\"@\\u 041\"",
    "\"@\\u+041\"",
    "\"@\\u00",
    "\"@\n\"",
    "\"a@\t\"",
    "\"@\x1f\"",
    "\"@\x01\"",
    "\"@\\ud800\"",
    "\"@\\udc00\"",
    "\"@\\udbff\\ud800\"",
    "\"@\\ud800\\u0041\"",
    "\"@\\ud800x\"",
    "\"@\\ud800\\n\"",
    "\"@\\udfff\\ud800\"",
    "\"@\\ud83d\\ude0\"",
    "\"@\\ud83d\\u",
    "\"@\\ud83d\\",
    "\"@\\ud83d",
    /* UTF-8: stray, overlong, surrogate, above U+10FFFF, cut short */
    "\"@\x80\"",
    "\"@\xff\"",
    "\"@\xc0\x80\"",
    "\"@\xc1\xbf\"",
    "\"@\xe0\x80\x80\"",
    "\"@\xed\xa0\x80\"",
    "\"@\xf4\x90\x80\x80\"",
    "\"@\xf8\x88\x80\x80\x80\"",
    "\"@\xc3\"",
    "\"@\xe2\x82\"",
    "\"@\xf0\x9f\x98\"",
    "\"a@\xc3",
    "{\"@\xff\":1}",
    "@\x80",
};

static void must_fail(void)
{
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        char text[128];
        const char *mark = strchr(malformed[i], '@');
        size_t at = (size_t)(mark - malformed[i]);
        memcpy(text, malformed[i], at);
        strcpy(text + at, mark + 1);
        gg_error err;
        gg_json *json = parse_text(text, &err);
        T_CHECKF(json == NULL, "accepted: %s", text);
        T_CHECKF(err.status == GG_EFORMAT, "%s: %s", text, err.what);
        T_CHECKF(err.offset == at, "%s: offset %llu, not %zu: %s", text,
                 (unsigned long long)err.offset, at, err.what);
        T_CHECK(err.what[0] != '\0');
        gg_json_free(json);
    }
    gg_error err;
    T_CHECK(parse("1\0", 2, &err) == NULL && err.offset == 1);
    T_CHECK(parse("\"\0\"", 3, &err) == NULL && err.offset == 1);
    T_CHECK(parse("\0", 1, &err) == NULL && err.offset == 0);
}

static const char *const good[] = {
    "0",
    "-0",
    "1",
    "-1.5e+3",
    "1E5",
    "0.0",
    "1e0005",
    " \t\r\n1 \t\r\n",
    "true",
    "false",
    "null",
    "\"\"",
    "[]",
    "{}",
    "[ ]",
    "{ }",
    "[[],{},[{}]]",
    "{\"\":0}",
    "{\"a\":{\"a\":{\"a\":1}}}",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\x7f\"",
    "[1,[2,3],{\"x\":[4]},5]",
    "\"\\u0000\"",
    "\"\\uD83D\\uDE00\"",
    "\"\xf4\x8f\xbf\xbf\"",
    "\"\xef\xbf\xbf\"",
    "{\"a\":1,\"A\":2,\"a\\u0000\":3}",
    "\"\\ud7ff\\ue000\"",
    "123456789012345678901234567890e-5000000000",
};

static void must_parse(void)
{
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        gg_error err;
        gg_json *json = parse_text(good[i], &err);
        T_CHECKF(json != NULL, "%s: %s", good[i], err.what);
        gg_json_free(json);
    }
}

static const char document[] = " {\"format\": \"organ-manifest\", \"version\": 1, \"ok\": true, "
                               "\"no\": false, \"none\": null,\n"
                               "  \"tensors\": [{\"name\": \"t\\u00e9\\ud83d\\ude00\\u0000x\", "
                               "\"dims\": [4096, 32]}, \"last\"], \"e\": [], \"o\": {}}";

static void text_is(const gg_json_node *node, const char *want)
{
    gg_buf b = GG_BUF_INIT;
    gg_json_out o = gg_json_to_buf(&b);
    gg_error err = GG_ERROR_INIT;
    T_EQ(gg_json_put_node(&o, node, &err), GG_OK);
    T_CHECKF(b.data && strcmp(b.data, want) == 0, "\n  got  %s\n  want %s", b.data ? b.data : "",
             want);
    gg_buf_free(&b);
}

/* Items of a member's array stay text, nothing else does; strings before and after them
 * are right; an item's tree knows its place in the whole. */
static void outlines(void)
{
    static const char text[] = "{\"a\": \"x\\n\", \"list\": [{\"n\": \"b\\t\", \"deep\": [[1]]}, "
                               "7, \"s\", [], [{\"k\":1 }]],"
                               " \"object\": {\"list\": [{\"in\": [2]}]}, \"z\": \"y\\n\"}";
    gg_error err = GG_ERROR_INIT;
    gg_json *json = NULL, *item = NULL;
    T_EQ(gg_json_outline(text, sizeof text - 1, &json, &err), GG_OK);
    if (!json) return;
    const gg_json_node *root = gg_json_root(json), *list = gg_json_get(root, "list"),
                       *n = gg_json_first(list);
    T_CHECK(gg_json_count(root) == 4 && gg_json_count(list) == 5);
    text_is(gg_json_get(root, "a"), "\"x\\n\"");
    text_is(gg_json_get(root, "z"), "\"y\\n\"");
    text_is(gg_json_get(root, "object"), "{\"list\": [{\"in\": [2]}]}");
    T_CHECK(gg_json_type_of(n) == GG_JSON_TEXT && gg_json_count(n) == 0 &&
            gg_json_first(n) == NULL);
    T_EQ(gg_json_item(n, &item, &err), GG_OK);
    text_is(gg_json_root(item), "{\"n\": \"b\\t\", \"deep\": [[1]]}");
    T_CHECK(gg_json_offset(gg_json_root(item)) == gg_json_offset(n) &&
            text[gg_json_offset(n)] == '{');
    T_EQ(text[gg_json_offset(gg_json_get(gg_json_root(item), "deep"))], '[');
    gg_json_free(item);
    n = gg_json_next(n);
    T_CHECK(gg_json_type_of(n) == GG_JSON_NUMBER && gg_json_item(n, &item, &err) == GG_EUSAGE &&
            item == NULL);
    n = gg_json_next(n);
    text_is(n, "\"s\"");
    n = gg_json_next(n);
    text_is(n, "[]");
    text_is(gg_json_next(n), "[{\"k\":1 }]"); /* as it was spelled */
    T_CHECK(gg_json_next(gg_json_next(n)) == NULL);
    gg_json_free(json);
    T_CHECK(gg_json_outline("[{}]", 4, &json, &err) == GG_OK &&
            gg_json_type_of(gg_json_first(gg_json_root(json))) == GG_JSON_OBJECT);
    gg_json_free(json);
}

/* Items that are decoded where they are: the text moves by less than its length. */
static void items_in_place(void)
{
    char text[] =
        "{\"list\":[[123456789012345678,1],{\"\xe2\x82\xac\":1234567890},{\"k\":\"\\u00e9\"}]}";
    gg_error err = GG_ERROR_INIT;
    gg_json *json = NULL, *item = NULL;
    T_EQ(gg_json_outline(text, sizeof text - 1, &json, &err), GG_OK);
    const gg_json_node *n = gg_json_first(gg_json_get(gg_json_root(json), "list"));
    static const char *const want[] = { "[123456789012345678, 1]", "{\"\xe2\x82\xac\": 1234567890}",
                                        "{\"k\": \"\xc3\xa9\"}" };
    for (size_t i = 0; i < 3; i++, n = gg_json_next(n)) {
        T_EQ(gg_json_item_once(n, &item, &err), GG_OK);
        text_is(gg_json_root(item), want[i]);
        gg_json_free(item);
    }
    gg_json_free(json);
}

/* Every text cut short is refused: at each length, without reading past it. */
static void every_prefix_fails(void)
{
    for (size_t n = 0; n < sizeof document - 1; n++) {
        gg_error err;
        gg_json *json = parse(document, n, &err);
        T_CHECKF(json == NULL && err.offset <= n, "accepted %zu bytes", n);
        gg_json_free(json);
    }
}

static void walks(void)
{
    gg_error err;
    gg_json *json = parse_text(document, &err);
    T_CHECK(json != NULL);
    if (!json) return;
    const gg_json_node *root = gg_json_root(json), *tensors = gg_json_get(root, "tensors");
    const char *s;
    size_t n;
    uint64_t v = 0;
    bool b = false;
    T_CHECK(gg_json_type_of(root) == GG_JSON_OBJECT && gg_json_count(root) == 8 &&
            gg_json_offset(root) == 1);
    T_CHECK(gg_json_key(root, &n) == NULL && gg_json_next(root) == NULL);
    T_CHECK(gg_json_string(gg_json_get(root, "format"), &s, &n, &err) == GG_OK && n == 14 &&
            !memcmp(s, "organ-manifest", n));
    T_CHECK(gg_json_u64(gg_json_get(root, "version"), &v, &err) == GG_OK && v == 1);
    T_CHECK(gg_json_bool(gg_json_get(root, "ok"), &b, &err) == GG_OK && b);
    T_CHECK(gg_json_bool(gg_json_get(root, "no"), &b, &err) == GG_OK && !b);
    T_CHECK(gg_json_type_of(gg_json_get(root, "none")) == GG_JSON_NULL);
    T_CHECK(gg_json_get(root, "missing") == NULL && gg_json_get(root, "") == NULL &&
            gg_json_get(tensors, "name") == NULL);
    T_CHECK(gg_json_count(tensors) == 2 && gg_json_key_is(tensors, "tensors") &&
            !gg_json_key_is(tensors, "tensor"));
    const gg_json_node *first = gg_json_first(tensors), *last = gg_json_next(first);
    T_CHECK(gg_json_key(first, &n) == NULL && gg_json_next(last) == NULL &&
            gg_json_first(last) == NULL);
    T_CHECK(gg_json_string(gg_json_get(first, "name"), &s, &n, &err) == GG_OK && n == 9);
    T_CHECK(n == 9 && memcmp(s, "t\xc3\xa9\xf0\x9f\x98\x80\0x", 9) == 0);
    T_CHECK(gg_json_u64(gg_json_next(gg_json_first(gg_json_get(first, "dims"))), &v, &err) ==
                GG_OK &&
            v == 32);
    T_CHECK(gg_json_first(gg_json_get(root, "e")) == NULL &&
            gg_json_first(gg_json_get(root, "o")) == NULL);
    const char *order = "fvonnteo";
    for (const gg_json_node *m = gg_json_first(root); m; m = gg_json_next(m), order++) {
        s = gg_json_key(m, &n);
        T_CHECK(s && n && s[0] == *order);
    }
    T_CHECK(*order == '\0' && err.status == GG_OK);
    gg_json_free(json);
    gg_json_free(NULL);
}

static void wrong_types_say_where(void)
{
    gg_error err;
    gg_json *json = parse_text("[ 1, \"s\", null]", &err);
    T_CHECK(json != NULL);
    if (!json) return;
    const gg_json_node *one = gg_json_first(gg_json_root(json)), *s = gg_json_next(one);
    const char *p;
    size_t n;
    uint64_t u;
    int64_t i;
    double d;
    float f;
    bool b;
    T_CHECK(gg_json_string(one, &p, &n, &err) == GG_EFORMAT && err.offset == 2);
    T_CHECKF(strstr(err.what, "string") && strstr(err.what, "number"), "%s", err.what);
#define REFUSED(call, where) \
    do { \
        err = (gg_error)GG_ERROR_INIT; \
        T_CHECK((call) == GG_EFORMAT && err.status == GG_EFORMAT && err.offset == (where)); \
    } while (0)
    REFUSED(gg_json_u64(s, &u, &err), 5);
    REFUSED(gg_json_i64(s, &i, &err), 5);
    REFUSED(gg_json_f64(s, &d, &err), 5);
    REFUSED(gg_json_f32(s, &f, &err), 5);
    REFUSED(gg_json_bool(s, &b, &err), 5);
    REFUSED(gg_json_u64(NULL, &u, &err), GG_ERROR_NO_OFFSET);
    REFUSED(gg_json_string(NULL, &p, &n, &err), GG_ERROR_NO_OFFSET);
    T_CHECK(gg_json_u64(s, &u, NULL) == GG_EFORMAT && gg_json_i64(NULL, &i, NULL) == GG_EFORMAT);
    T_CHECK(gg_json_string(one, &p, &n, NULL) == GG_EFORMAT && gg_json_root(NULL) == NULL);
    T_CHECK(!gg_json_is(one, "") && !gg_json_is(NULL, "") && !gg_json_is_true(s));
    T_CHECK(gg_json_type_of(NULL) == GG_JSON_NONE && gg_json_count(NULL) == 0 &&
            gg_json_first(NULL) == NULL);
    T_CHECK(gg_json_next(NULL) == NULL && gg_json_key(NULL, &n) == NULL &&
            gg_json_get(NULL, "a") == NULL);
    T_CHECK(gg_json_number_text(s, &n) == NULL && gg_json_number_text(one, &n) != NULL && n == 1);
    gg_json_free(json);
}

static void depth_is_capped(void)
{
    char text[2 * GG_JSON_DEPTH + 2];
    gg_error err;
    memset(text, '[', GG_JSON_DEPTH);
    memset(text + GG_JSON_DEPTH, ']', GG_JSON_DEPTH);
    gg_json *json = parse(text, 2 * GG_JSON_DEPTH, &err);
    T_CHECKF(json != NULL, "%s", err.what);
    gg_json_free(json);
    memset(text, '[', GG_JSON_DEPTH + 1);
    memset(text + GG_JSON_DEPTH + 1, ']', GG_JSON_DEPTH + 1);
    T_CHECK(parse(text, sizeof text, &err) == NULL && err.status == GG_EUNSUPPORTED &&
            err.offset == GG_JSON_DEPTH);
    size_t many = 10000000;
    char *deep = malloc(many);
    if (!deep) exit(2);
    memset(deep, '[', many);
    T_CHECK(parse(deep, many, &err) == NULL && err.status == GG_EUNSUPPORTED);
    free(deep);
}

/* A vocabulary: 400000 strings in one array; then as many keys, one of them twice. */
static void large_inputs(void)
{
    enum { N = 400000 };
    char *text = malloc(N * 24);
    if (!text) exit(2);
    size_t n = 0;
    text[n++] = '[';
    for (int i = 0; i < N; i++) n += (size_t)sprintf(text + n, "%s\"tok\\n%d\"", i ? "," : "", i);
    text[n++] = ']';
    gg_error err;
    gg_json *json = parse(text, n, &err);
    T_CHECKF(json && gg_json_count(gg_json_root(json)) == N, "%s", err.what);
    int i = 0, wrong = 0;
    for (const gg_json_node *t = json ? gg_json_first(gg_json_root(json)) : NULL; t;
         t = gg_json_next(t), i++) {
        char want[24];
        const char *s = "";
        size_t len = 0, k = (size_t)sprintf(want, "tok\n%d", i);
        wrong += gg_json_string(t, &s, &len, &err) != GG_OK || len != k || memcmp(s, want, k) != 0;
    }
    T_CHECK(i == N && wrong == 0);
    gg_json_free(json);

    for (int twice = 0; twice < 2; twice++) {
        n = 0;
        text[n++] = '{';
        for (i = 0; i < N; i++)
            n += (size_t)sprintf(text + n, "%s\"key%d\":0", i ? "," : "",
                                 twice && i == N - 1 ? 7 : i);
        text[n++] = '}';
        json = parse(text, n, &err);
        T_CHECK((json == NULL) == twice);
        if (twice) T_CHECKF(err.offset == n - 9 && strstr(err.what, "key7"), "%s", err.what);
        gg_json_free(json);
    }
    free(text);
}

static const t_case cases[] = {
    { "must fail", must_fail },
    { "must parse", must_parse },
    { "every prefix fails", every_prefix_fails },
    { "walks", walks },
    { "outlines", outlines },
    { "items decoded in place", items_in_place },
    { "wrong types say where", wrong_types_say_where },
    { "depth is capped", depth_is_capped },
    { "large inputs", large_inputs },
};
T_MAIN(cases)
