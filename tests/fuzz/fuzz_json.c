/* fuzz_json.c - any bytes as JSON. An accepted text stays the same when it is written, read
 * and written again. Numbers keep their value through every accessor. */
#include "fuzz.h"

#include "base/buf.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/json", "tests/fuzz/seeds/manifest", NULL };

static void look_at(const gg_json_node *n, int depth)
{
    gg_error e = GG_ERROR_INIT;
    uint64_t u;
    int64_t i;
    double d;
    float f;
    bool b;
    const char *s;
    size_t len;
    FUZZ_MUST(depth <= GG_JSON_DEPTH);
    gg_json_u64(n, &u, &e);
    gg_json_i64(n, &i, &e);
    gg_json_bool(n, &b, &e);
    gg_json_string(n, &s, &len, &e);
    gg_error e2 = GG_ERROR_INIT;
    if (gg_json_f64(n, &d, &e2) == GG_OK) {
        char text[32];
        gg_json *again = NULL;
        double back = 0;
        size_t k = gg_format_f64(d, text);
        FUZZ_MUST(gg_json_parse(text, k, &again, &e2) == GG_OK &&
                  gg_json_f64(gg_json_root(again), &back, &e2) == GG_OK);
        FUZZ_MUST(memcmp(&d, &back, sizeof d) == 0);
        gg_json_free(again);
    }
    gg_json_f32(n, &f, &e2);
    for (const gg_json_node *c = gg_json_first(n); c; c = gg_json_next(c)) look_at(c, depth + 1);
}

static char *text_of(const gg_json *j, size_t *n)
{
    gg_buf b = GG_BUF_INIT;
    gg_json_out o = gg_json_to_buf(&b);
    gg_error e = GG_ERROR_INIT;
    FUZZ_MUST(gg_json_put_node(&o, gg_json_root(j), &e) == GG_OK);
    return gg_buf_take(&b, n);
}

/* An outline has the same values, some of them still text. */
static void outline_is_same(const gg_json_node *a, const gg_json_node *b)
{
    gg_error e = GG_ERROR_INIT;
    gg_json *item = NULL;
    if (gg_json_type_of(a) == GG_JSON_TEXT) {
        FUZZ_MUST(gg_json_item(a, &item, &e) == GG_OK);
        a = gg_json_root(item);
    }
    FUZZ_MUST(gg_json_type_of(a) == gg_json_type_of(b) && gg_json_offset(a) == gg_json_offset(b) &&
              gg_json_count(a) == gg_json_count(b));
    const gg_json_node *x = gg_json_first(a), *y = gg_json_first(b);
    for (; x && y; x = gg_json_next(x), y = gg_json_next(y)) outline_is_same(x, y);
    FUZZ_MUST(!x && !y);
    gg_json_free(item);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gg_json *j = NULL, *k = NULL;
    gg_error e = GG_ERROR_INIT;
    gg_error e2 = GG_ERROR_INIT;
    gg_json *outline;
    gg_status st = gg_json_outline((const char *)data, size, &outline, &e2);
    FUZZ_MUST(gg_json_parse((const char *)data, size, &j, &e) == st && e.offset == e2.offset);
    if (st != GG_OK) {
        FUZZ_MUST(!j && e.what[0] && (e.offset <= size || e.offset == GG_ERROR_NO_OFFSET));
        return 0;
    }
    look_at(gg_json_root(j), 0);
    outline_is_same(gg_json_root(outline), gg_json_root(j));
    gg_json_free(outline);
    size_t n, m;
    char *once = text_of(j, &n);
    FUZZ_MUST(gg_json_parse(once, n, &k, &e) == GG_OK);
    char *twice = text_of(k, &m);
    FUZZ_MUST(n == m && memcmp(once, twice, n) == 0);
    free(once);
    free(twice);
    gg_json_free(j);
    gg_json_free(k);
    return 0;
}
