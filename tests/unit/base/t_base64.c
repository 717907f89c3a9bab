/* t_base64.c - RFC 4648 vectors, round trips, and what must be refused. */
#include "t.h"

#include "base/base64.h"

#include <stdint.h>

/* RFC 4648 section 10. */
static const struct {
    const char *bytes, *text;
} vectors[] = {
    { "", "" },
    { "f", "Zg==" },
    { "fo", "Zm8=" },
    { "foo", "Zm9v" },
    { "foob", "Zm9vYg==" },
    { "fooba", "Zm9vYmE=" },
    { "foobar", "Zm9vYmFy" },
    { "\xff\xfe\xfb", "//77" },
    { "\xfb\xef\xbe", "++++" },
};

static void rfc_vectors(void)
{
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        size_t len = strlen(vectors[i].bytes), n = 99;
        char text[64] = "", back[64];
        T_EQ(gg_base64_length(len), strlen(vectors[i].text));
        gg_base64_encode(vectors[i].bytes, len, text);
        T_CHECKF(strcmp(text, vectors[i].text) == 0, "'%s' not '%s'", text, vectors[i].text);
        T_CHECK(gg_base64_decode(text, strlen(text), back, &n));
        T_CHECK(n == len && memcmp(back, vectors[i].bytes, n) == 0);
    }
}

static void must_fail(void)
{
    static const char *const bad[] = {
        "Z",     "Zg",   "Zg=",  "Zg===",    "=",        "==",         "====",     "Z===",
        "Zg=a",  "=Zg=", "Zm=v", "Zg==Zg==", "Zm8=Zm9v", "Zm9v\n",     "Zm9 ",     " m9v",
        "Zm9v ", "Zm-_", "Zh==", "Zm9=",     "Zm9v=",    "Zm\xc3\xa9", "Zm9v====",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char out[64];
        size_t n;
        T_CHECKF(!gg_base64_decode(bad[i], strlen(bad[i]), out, &n), "'%s' accepted", bad[i]);
    }
    char out[8];
    size_t n;
    T_CHECK(!gg_base64_decode("Zm\0v", 4, out, &n));
}

/* Every one of the 256 characters in turn: 64 are good, '=' never in place 0..2. */
static void alphabet_is_exact(void)
{
    char seen[256] = { 0 };
    for (size_t place = 0; place < 4; place++) {
        int good = 0;
        for (int c = 0; c < 256; c++) {
            char text[4] = { 'A', 'A', 'A', 'A' };
            unsigned char out[3];
            size_t n;
            text[place] = (char)c;
            if (!gg_base64_decode(text, 4, out, &n)) continue;
            good++;
            seen[c] = 1;
        }
        T_EQ(good, (place == 3 ? 65 : 64));
    }
    T_CHECK(seen['='] && seen['+'] && seen['/'] && !seen['-'] && !seen[0]);
}

static void round_trips(void)
{
    unsigned char bytes[200], back[200];
    char text[400];
    uint32_t x = 12345;
    for (size_t len = 0; len <= sizeof bytes; len++) {
        for (size_t i = 0; i < len; i++)
            bytes[i] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
        size_t chars = gg_base64_length(len), n;
        text[chars] = '!';
        gg_base64_encode(bytes, len, text);
        T_CHECK(text[chars] == '!' && chars / 4 * 3 >= len && chars / 4 * 3 <= len + 2);
        T_CHECK(gg_base64_decode(text, chars, back, &n) && n == len &&
                memcmp(back, bytes, len) == 0);
        T_CHECK(gg_base64_decode(text, chars, text, &n) && n == len &&
                memcmp(text, bytes, len) == 0);
    }
}

static const t_case cases[] = {
    { "RFC vectors", rfc_vectors },
    { "must fail", must_fail },
    { "alphabet", alphabet_is_exact },
    { "round trips", round_trips },
};
T_MAIN(cases)
