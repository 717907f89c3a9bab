/* t_meta.c - the list of key-values: find, set, delete, typed reads, copies. */
#include "t.h"

#include "gguf/gguf.h"
#include "organ/gg_gguf.h"

static void put(gg_meta *m, const char *key, uint32_t type, const void *data, size_t n)
{
    gg_error e = GG_ERROR_INIT;
    gg_kv kv = { key, strlen(key), type, 0, 1, data, n };
    T_EQ(gg_meta_set(m, &kv, &e), GG_OK);
}

static void set_keeps_the_place(void)
{
    gg_meta m = GG_META_INIT;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_meta_set_u32(&m, "a", 1, &e) == GG_OK && gg_meta_set_u32(&m, "b", 2, &e) == GG_OK);
    T_EQ(gg_meta_set_str(&m, "c", "text", 4, &e), GG_OK);
    T_EQ(gg_meta_set_str(&m, "b", "now text", 8, &e), GG_OK);
    T_CHECK(m.n == 3 && m.kv[1].key_len == 1 && m.kv[1].key[0] == 'b' &&
            m.kv[1].type == GG_TYPE_STR);
    const char *s;
    size_t n;
    T_CHECK(gg_kv_str(gg_meta_find(&m, "b"), &s, &n) && n == 8 && memcmp(s, "now text", 8) == 0);
    T_CHECK(gg_meta_find(&m, "d") == NULL && gg_meta_find(&m, "") == NULL);
    gg_meta_free(&m);
    T_CHECK(m.n == 0 && m.kv == NULL);
}

static void values_are_copied(void)
{
    gg_meta m = GG_META_INIT;
    gg_error e = GG_ERROR_INIT;
    char key[] = "key", text[] = "value";
    T_EQ(gg_meta_set_str(&m, key, text, 5, &e), GG_OK);
    memset(key, 'x', 3);
    memset(text, 'x', 5);
    const char *s;
    size_t n;
    T_CHECK(gg_kv_str(gg_meta_find(&m, "key"), &s, &n) && n == 5 && memcmp(s, "value", 5) == 0);
    /* a value of the list may be set again from itself */
    T_CHECK(gg_meta_set(&m, gg_meta_find(&m, "key"), &e) == GG_OK && m.n == 1);
    T_CHECK(gg_kv_str(gg_meta_find(&m, "key"), &s, &n) && memcmp(s, "value", 5) == 0);
    gg_meta_free(&m);
}

static void delete_closes_the_gap(void)
{
    gg_meta m = GG_META_INIT;
    gg_error e = GG_ERROR_INIT;
    char key[16];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "k%d", i);
        T_EQ(gg_meta_set_u32(&m, key, (uint32_t)i, &e), GG_OK);
    }
    T_CHECK(gg_meta_delete(&m, "k0") && gg_meta_delete(&m, "k50") && gg_meta_delete(&m, "k99") &&
            !gg_meta_delete(&m, "k50"));
    T_EQ(m.n, 97);
    uint64_t last = 0;
    for (size_t i = 0; i < m.n; i++) {
        uint64_t v = 0;
        T_CHECK(gg_kv_u64(&m.kv[i], &v) && v > last && v != 50 && v != 99);
        last = v;
    }
    gg_meta_free(&m);
}

static void bad_entries_are_refused(void)
{
    gg_meta m = GG_META_INIT;
    const uint8_t one = 1;
    const gg_kv bad[] = { { "", 0, GG_TYPE_U8, 0, 1, &one, 1 },
                          { "k", 1, GG_TYPE_COUNT, 0, 1, &one, 1 },
                          { "k", 1, GG_TYPE_ARR, GG_TYPE_ARR, 0, NULL, 0 },
                          { "k", 1, GG_TYPE_ARR, 77, 0, NULL, 0 } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gg_error e = GG_ERROR_INIT;
        T_CHECKF(gg_meta_set(&m, &bad[i], &e) == GG_EUSAGE, "case %zu", i);
    }
    T_EQ(m.n, 0);
    gg_meta_free(&m);
}

static void integers_read_as_integers(void)
{
    static const uint8_t ff[8] = { 255, 255, 255, 255, 255, 255, 255, 255 },
                         low[8] = { 200, 1, 0, 0, 0, 0, 0, 0 };
    static const struct {
        uint32_t type;
        size_t n;
        bool neg_ok;
        uint64_t ff, low;
    } t[] = { { GG_TYPE_U8, 1, true, 255, 200 },         { GG_TYPE_U16, 2, true, 65535, 456 },
              { GG_TYPE_U32, 4, true, UINT32_MAX, 456 }, { GG_TYPE_U64, 8, true, UINT64_MAX, 456 },
              { GG_TYPE_I16, 2, false, 0, 456 },         { GG_TYPE_I32, 4, false, 0, 456 },
              { GG_TYPE_I64, 8, false, 0, 456 },         { GG_TYPE_BOOL, 1, true, 1, 1 } };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        gg_meta m = GG_META_INIT;
        uint64_t v = 7;
        put(&m, "k", t[i].type, ff, t[i].n);
        T_CHECKF(gg_kv_u64(gg_meta_find(&m, "k"), &v) == t[i].neg_ok, "type %u", t[i].type);
        if (t[i].neg_ok) T_EQ(v, t[i].ff);
        put(&m, "k", t[i].type, low, t[i].n);
        T_CHECK(gg_kv_u64(gg_meta_find(&m, "k"), &v) && v == t[i].low);
        float f;
        const char *s;
        size_t n;
        T_CHECK(!gg_kv_f32(gg_meta_find(&m, "k"), &f) && !gg_kv_str(gg_meta_find(&m, "k"), &s, &n));
        gg_meta_free(&m);
    }
    uint64_t v;
    float f;
    T_CHECK(!gg_kv_u64(NULL, &v) && !gg_kv_f32(NULL, &f));
}

static void floats_and_texts(void)
{
    gg_meta m = GG_META_INIT;
    static const uint8_t pi[4] = { 0xdb, 0x0f, 0x49, 0x40 };
    put(&m, "pi", GG_TYPE_F32, pi, 4);
    put(&m, "none", GG_TYPE_STR, NULL, 0);
    float f = 0;
    uint64_t v;
    const char *s;
    size_t n = 9;
    T_CHECK(gg_kv_f32(gg_meta_find(&m, "pi"), &f) && f > 3.14159f && f < 3.1416f);
    T_CHECK(!gg_kv_u64(gg_meta_find(&m, "pi"), &v));
    T_CHECK(gg_kv_str(gg_meta_find(&m, "none"), &s, &n) && n == 0);
    gg_meta_free(&m);
}

/* Lengths that lie must not walk out of the value. */
static void strings_of_arrays(void)
{
    static const uint8_t good[] = { 2, 0, 0, 0, 0, 0, 0, 0, 'h', 'i', 0, 0, 0, 0, 0, 0, 0, 0 };
    static const uint8_t lies[] = { 200, 0, 0, 0, 0, 0, 0, 0, 'h', 'i' };
    static const uint8_t huge[] = { 255, 255, 255, 255, 255, 255, 255, 255, 'h' };
    gg_kv kv = { "k", 1, GG_TYPE_ARR, GG_TYPE_STR, 2, good, sizeof good };
    uint64_t pos = 0;
    const char *s;
    size_t n;
    T_CHECK(gg_kv_next_str(&kv, &pos, &s, &n) && n == 2 && memcmp(s, "hi", 2) == 0);
    T_CHECK(gg_kv_next_str(&kv, &pos, &s, &n) && n == 0);
    T_CHECK(!gg_kv_next_str(&kv, &pos, &s, &n));
    gg_kv bad[] = { { "k", 1, GG_TYPE_ARR, GG_TYPE_STR, 1, lies, sizeof lies },
                    { "k", 1, GG_TYPE_ARR, GG_TYPE_STR, 1, huge, sizeof huge },
                    { "k", 1, GG_TYPE_ARR, GG_TYPE_STR, 1, good, 7 },
                    { "k", 1, GG_TYPE_ARR, GG_TYPE_U8, 1, good, 8 },
                    { "k", 1, GG_TYPE_STR, 0, 1, good, 8 } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pos = 0;
        T_CHECKF(!gg_kv_next_str(&bad[i], &pos, &s, &n), "case %zu", i);
    }
}

static void copies_are_deep(void)
{
    gg_meta a = GG_META_INIT, b = GG_META_INIT;
    gg_error e = GG_ERROR_INIT;
    gg_meta_set_u32(&a, "x", 5, &e);
    gg_meta_set_str(&a, "y", "text", 4, &e);
    T_CHECK(gg_meta_copy(&b, &a, &e) == GG_OK && b.n == 2);
    gg_meta_set_u32(&a, "x", 6, &e);
    gg_meta_free(&a);
    uint64_t v;
    const char *s;
    size_t n;
    T_CHECK(gg_kv_u64(gg_meta_find(&b, "x"), &v) && v == 5);
    T_CHECK(gg_kv_str(gg_meta_find(&b, "y"), &s, &n) && n == 4 && memcmp(s, "text", 4) == 0);
    gg_meta_free(&b);
}

static void alignments(void)
{
    static const struct {
        uint32_t value;
        bool ok;
    } t[] = { { 0, false },  { 1, true },   { 8, true },    { 32, true },
              { 33, false }, { 48, false }, { 4096, true }, { 1u << 31, true } };
    uint64_t a = 0;
    gg_error none = GG_ERROR_INIT;
    gg_meta empty = GG_META_INIT;
    T_CHECK(gg_meta_alignment(&empty, &a, &none) == GG_OK && a == 32);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        gg_meta m = GG_META_INIT;
        gg_error e = GG_ERROR_INIT;
        gg_meta_set_u32(&m, "general.alignment", t[i].value, &e);
        gg_status st = gg_meta_alignment(&m, &a, &e);
        T_CHECKF(t[i].ok ? st == GG_OK && a == t[i].value : st == GG_EFORMAT, "%u", t[i].value);
        gg_meta_free(&m);
    }
    gg_meta m = GG_META_INIT;
    gg_error e = GG_ERROR_INIT;
    static const uint8_t u64[8] = { 32 };
    put(&m, "general.alignment", GG_TYPE_U64, u64, 8);
    T_CHECK(gg_meta_alignment(&m, &a, &e) == GG_EFORMAT && strstr(e.what, "u64"));
    gg_meta_free(&m);
}

static void types_have_names(void)
{
    static const size_t sizes[GG_TYPE_COUNT] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    for (uint32_t i = 0; i < GG_TYPE_COUNT; i++) {
        const char *name = gg_type_name(i);
        uint32_t back = 99;
        T_CHECK(name && gg_type_by_name(name, strlen(name), &back) && back == i &&
                gg_type_size(i) == sizes[i]);
    }
    uint32_t t;
    T_CHECK(gg_type_name(13) == NULL && gg_type_size(13) == 0 && !gg_type_by_name("u7", 2, &t) &&
            !gg_type_by_name("u88", 2 + 1, &t));
}

static const t_case cases[] = {
    { "set keeps the place", set_keeps_the_place },
    { "values are copied", values_are_copied },
    { "delete closes the gap", delete_closes_the_gap },
    { "bad entries are refused", bad_entries_are_refused },
    { "integers read as integers", integers_read_as_integers },
    { "floats and texts", floats_and_texts },
    { "strings of arrays", strings_of_arrays },
    { "copies are deep", copies_are_deep },
    { "alignments", alignments },
    { "types have names", types_have_names },
};

T_MAIN(cases)
