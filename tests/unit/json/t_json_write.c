/* t_json_write.c - the JSON writer: escapes, refusals, failing sinks, whole trees. */
#include "t.h"

#include "base/buf.h"
#include "json/json.h"

#include <math.h>

static void check_string(const char *bytes, size_t n, const char *want)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf b = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&b);
    T_EQ(gg_json_put_string(&out, bytes, n, &err), GG_OK);
    T_CHECKF(b.data && strcmp(b.data, want) == 0, "%s, not %s", b.data ? b.data : "", want);
    gg_buf_free(&b);
}

static void strings(void)
{
    check_string(NULL, 0, "\"\"");
    check_string("plain", 5, "\"plain\"");
    check_string("\"a\\b/", 5, "\"\\\"a\\\\b/\"");
    check_string("\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\"");
    check_string("a\0b\x1f\x01", 5, "\"a\\u0000b\\u001f\\u0001\"");
    check_string("\x7f\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80", 10,
                 "\"\\u007f\xc3\xa9\\u2028\xf0\x9f\x98\x80\"");
    check_string("\xe2\x80\xae\xf3\xa0\x81\x81", 7, "\"\\u202e\\udb40\\udc41\"");
}

/* All that a string may hold comes back through the reader. */
static void every_code_point(void)
{
    int wrong = 0;
    for (uint32_t cp = 0; cp <= 0x10ffff; cp += cp < 0x3000 ? 1 : 251) {
        if (cp >= 0xd800 && cp <= 0xdfff) continue;
        char s[4];
        size_t n = 0, got = 0;
        if (cp < 0x80) s[n++] = (char)cp;
        else if (cp < 0x800) s[n++] = (char)(0xc0 | cp >> 6);
        else if (cp < 0x10000)
            s[n++] = (char)(0xe0 | cp >> 12), s[n++] = (char)(0x80 | (cp >> 6 & 63));
        else
            s[n++] = (char)(0xf0 | cp >> 18), s[n++] = (char)(0x80 | (cp >> 12 & 63)),
            s[n++] = (char)(0x80 | (cp >> 6 & 63));
        if (cp >= 0x80) s[n++] = (char)(0x80 | (cp & 63));
        gg_error err = GG_ERROR_INIT;
        gg_buf b = GG_BUF_INIT;
        gg_json_out out = gg_json_to_buf(&b);
        gg_json *json = NULL;
        const char *back = NULL;
        gg_json_put_string(&out, s, n, &err);
        if (gg_json_parse(b.data, b.len, &json, &err) == GG_OK)
            gg_json_string(gg_json_root(json), &back, &got, &err);
        wrong += err.status != GG_OK || got != n || memcmp(back, s, n) != 0;
        gg_json_free(json);
        /* And as the reader takes it from escapes. */
        char escaped[32];
        if (cp < 0x10000) sprintf(escaped, "\"\\u%04X\"", (unsigned)cp);
        else
            sprintf(escaped, "\"\\u%04x\\u%04x\"", (unsigned)(0xd800 + ((cp - 0x10000) >> 10)),
                    (unsigned)(0xdc00 + (cp & 0x3ff)));
        json = NULL;
        if (gg_json_parse(escaped, strlen(escaped), &json, &err) == GG_OK)
            gg_json_string(gg_json_root(json), &back, &got, &err);
        wrong += err.status != GG_OK || got != n || memcmp(back, s, n) != 0;
        gg_json_free(json);
        gg_buf_free(&b);
    }
    T_CHECKF(wrong == 0, "%d wrong", wrong);
}

static void refuses_what_json_cannot_hold(void)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf b = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&b);
    T_CHECK(gg_json_put_string(&out, "ab\xff", 3, &err) == GG_EFORMAT && b.len == 0);
    err = (gg_error)GG_ERROR_INIT;
    T_CHECK(gg_json_put_f64(&out, (double)NAN, &err) == GG_EUSAGE && b.len == 0);
    err = (gg_error)GG_ERROR_INIT;
    T_CHECK(gg_json_put_f64(&out, -HUGE_VAL, &err) == GG_EUSAGE && b.len == 0);
    err = (gg_error)GG_ERROR_INIT;
    T_CHECK(gg_json_put_f32(&out, HUGE_VALF, &err) == GG_EUSAGE && b.len == 0);
    /* The first error stays and nothing more is written. */
    T_CHECK(gg_json_put_u64(&out, 1, &err) == GG_EUSAGE &&
            gg_json_put_string(&out, "\xff", 1, &err) == GG_EUSAGE);
    T_CHECK(gg_json_put_f32(&out, NAN, &err) == GG_EUSAGE &&
            gg_json_put_text(&out, "x", &err) == GG_EUSAGE && b.len == 0);
    gg_buf_free(&b);
}

static void scalars(void)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf b = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&b);
    gg_json_put_u64(&out, UINT64_MAX, &err);
    gg_json_put_text(&out, " ", &err);
    gg_json_put_i64(&out, INT64_MIN, &err);
    gg_json_put_text(&out, " ", &err);
    gg_json_put_f64(&out, 0.1, &err);
    gg_json_put_text(&out, " ", &err);
    gg_json_put_f32(&out, 0.1f, &err);
    gg_json_put_text(&out, " ", &err);
    gg_json_put_f32(&out, -0.0f, &err);
    gg_json_put_text(&out, " ", &err);
    gg_json_put_bool(&out, true, &err);
    T_EQ(gg_json_put_bool(&out, false, &err), GG_OK);
    T_CHECKF(strcmp(b.data, "18446744073709551615 -9223372036854775808 0.1 0.1 -0.0 truefalse") ==
                 0,
             "%s", b.data);
    gg_buf_free(&b);
}

typedef struct limited {
    size_t left;
    int calls_after_failure;
    bool failed;
} limited;

static gg_status write_limited(void *ctx, const char *bytes, size_t n, gg_error *err)
{
    limited *l = ctx;
    (void)bytes;
    l->calls_after_failure += l->failed;
    if (n > l->left) {
        l->failed = true;
        return gg_fail(err, GG_EIO, "full");
    }
    l->left -= n;
    return GG_OK;
}

static const char tree[] = "{\"a\": [1, -0, 1.50e3, [], {}, [[\"x\\n\"]]], \"\\u0000\": {\"b\": "
                           "null, \"c\": true}, \"d\": false, \"e\": \"\"}";

static void whole_tree(void)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf b = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&b);
    gg_json *json = NULL;
    T_EQ(gg_json_parse(tree, sizeof tree - 1, &json, &err), GG_OK);
    if (!json) return;
    T_EQ(gg_json_put_node(&out, gg_json_root(json), &err), GG_OK);
    T_CHECKF(strcmp(b.data, tree) == 0, "%s", b.data);
    /* A part of the tree comes without its key and without what follows it. */
    gg_buf_clear(&b);
    T_EQ(gg_json_put_node(&out, gg_json_get(gg_json_root(json), "a"), &err), GG_OK);
    T_CHECKF(strcmp(b.data, "[1, -0, 1.50e3, [], {}, [[\"x\\n\"]]]") == 0, "%s", b.data);
    gg_buf_clear(&b);
    T_CHECK(gg_json_put_node(&out, gg_json_get(gg_json_root(json), "d"), &err) == GG_OK &&
            strcmp(b.data, "false") == 0);
    gg_buf_clear(&b);
    T_CHECK(gg_json_put_node(&out, NULL, &err) == GG_OK && strcmp(b.data, "null") == 0);
    /* A sink that fails at any byte is reported and left alone from then on. */
    for (size_t room = 0; room < sizeof tree - 1; room++) {
        limited l = { .left = room };
        gg_json_out full = { write_limited, &l };
        err = (gg_error)GG_ERROR_INIT;
        T_CHECK(gg_json_put_node(&full, gg_json_root(json), &err) == GG_EIO && l.failed &&
                l.calls_after_failure == 0);
    }
    gg_buf_free(&b);
    gg_json_free(json);
}

static void deepest_tree(void)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf in = GG_BUF_INIT, b = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&b);
    for (int i = 0; i < GG_JSON_DEPTH - 1; i++) gg_buf_text(&in, "[", &err);
    gg_buf_text(&in, "{\"a\": 1}", &err);
    for (int i = 0; i < GG_JSON_DEPTH - 1; i++) gg_buf_text(&in, "]", &err);
    gg_json *json = NULL;
    T_EQ(gg_json_parse(in.data, in.len, &json, &err), GG_OK);
    if (json)
        T_CHECK(gg_json_put_node(&out, gg_json_root(json), &err) == GG_OK &&
                strcmp(b.data, in.data) == 0);
    gg_json_free(json);
    gg_buf_free(&in);
    gg_buf_free(&b);
}

static const t_case cases[] = {
    { "strings", strings },
    { "every code point", every_code_point },
    { "refuses what JSON cannot hold", refuses_what_json_cannot_hold },
    { "scalars", scalars },
    { "whole tree", whole_tree },
    { "deepest tree", deepest_tree },
};
T_MAIN(cases)
