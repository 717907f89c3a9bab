/* t_json_number.c - numbers keep every bit, from text and to text. */
#include "t.h"

#include "base/buf.h"
#include "json/json.h"

#include <locale.h>
#include <math.h>

static gg_json *parse(const char *text, size_t len)
{
    gg_error err = GG_ERROR_INIT;
    gg_json *json = NULL;
    T_CHECKF(gg_json_parse(text, len, &json, &err) == GG_OK, "%.60s: %s", text, err.what);
    return json;
}

static uint64_t bits64(double v)
{
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

static uint32_t bits32(float v)
{
    uint32_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

static double from64(uint64_t b)
{
    double v;
    memcpy(&v, &b, sizeof v);
    return v;
}

static float from32(uint32_t b)
{
    float v;
    memcpy(&v, &b, sizeof v);
    return v;
}

static uint64_t rng_state = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t rng(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state;
}

static void integers(void)
{
    static const struct {
        const char *text;
        bool u_ok;
        uint64_t u;
        bool i_ok;
        int64_t i;
    } table[] = {
        { "0", true, 0, true, 0 },
        { "-0", true, 0, true, 0 },
        { "7", true, 7, true, 7 },
        { "-7", false, 0, true, -7 },
        { "18446744073709551615", true, UINT64_MAX, false, 0 },
        { "18446744073709551616", false, 0, false, 0 },
        { "18446744073709551625", false, 0, false, 0 },
        { "99999999999999999999", false, 0, false, 0 },
        { "9223372036854775807", true, INT64_MAX, true, INT64_MAX },
        { "9223372036854775808", true, UINT64_C(1) << 63, false, 0 },
        { "-9223372036854775808", false, 0, true, INT64_MIN },
        { "-9223372036854775809", false, 0, false, 0 },
        { "-18446744073709551616", false, 0, false, 0 },
        { "9007199254740993", true, 9007199254740993, true, 9007199254740993 },
        { "1e3", true, 1000, true, 1000 },
        { "1.50e1", true, 15, true, 15 },
        { "1500e-2", true, 15, true, 15 },
        { "1.0", true, 1, true, 1 },
        { "1.8446744073709551615e19", true, UINT64_MAX, false, 0 },
        { "1e19", true, UINT64_C(10000000000000000000), false, 0 },
        { "1e20", false, 0, false, 0 },
        { "1e999999999999999999999", false, 0, false, 0 },
        { "0e999999999999999999999", true, 0, true, 0 },
        { "1.5", false, 0, false, 0 },
        { "0.1", false, 0, false, 0 },
        { "1e-1", false, 0, false, 0 },
        { "15e-2", false, 0, false, 0 },
        { "1e-99999999999999999999", false, 0, false, 0 },
        { "184467440737095516150e-1", true, UINT64_MAX, false, 0 },
    };
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        gg_error ue = GG_ERROR_INIT, ie = GG_ERROR_INIT;
        uint64_t u = 99;
        int64_t i = 99;
        gg_json *json = parse(table[k].text, strlen(table[k].text));
        if (!json) continue;
        gg_status us = gg_json_u64(gg_json_root(json), &u, &ue),
                  is = gg_json_i64(gg_json_root(json), &i, &ie);
        T_CHECKF(us == (table[k].u_ok ? GG_OK : GG_EFORMAT) &&
                     u == (table[k].u_ok ? table[k].u : 99),
                 "%s", table[k].text);
        T_CHECKF(is == (table[k].i_ok ? GG_OK : GG_EFORMAT) &&
                     i == (table[k].i_ok ? table[k].i : 99),
                 "%s", table[k].text);
        T_CHECK(table[k].u_ok || ue.offset == 0);
        gg_json_free(json);
    }
}

/* Bits an independent reader (exact rational arithmetic) gives. */
static const struct {
    const char *text;
    uint64_t f64;
    uint32_t f32;
} floats[] = {
    { "0", 0, 0 },
    { "-0", UINT64_C(1) << 63, 0x80000000 },
    { "-0.0e5", UINT64_C(1) << 63, 0x80000000 },
    { "1", 0x3ff0000000000000, 0x3f800000 },
    { "0.1", 0x3fb999999999999a, 0x3dcccccd },
    { "-2.5", 0xc004000000000000, 0xc0200000 },
    { "1e22", 0x4480f0cf064dd592, 0x64078678 },
    { "1e23", 0x44b52d02c7e14af6, 0x65a96816 },
    { "9007199254740993", 0x4340000000000000, 0x5a000000 },
    { "9007199254740993.00000000000000000001", 0x4340000000000001, 0x5a000000 },
    /* the middle of two floats: to even; a shade above: up, though a double in between forgets it
     */
    { "16777217", 0x4170000010000000, 0x4b800000 },
    { "16777219", 0x4170000030000000, 0x4b800002 },
    { "1.000000059604644775390625", 0x3ff0000010000000, 0x3f800000 },
    { "1.00000005960464477539062500000001", 0x3ff0000010000000, 0x3f800001 },
    { "1.00000005960464477539062499999999", 0x3ff0000010000000, 0x3f800000 },
    /* the same within 15 digits, where a quick way is taken */
    { "353854164481163e-15", 0x3fd6a58bf0000000, 0x3eb52c5f },
    { "858972454443574e-17", 0x3f81977d50000000, 0x3c0cbbeb },
    { "656922027701512e-18", 0x3f4586a950000000, 0x3a2c354b },
    { "496025040774839e-19", 0x3f0a018910000000, 0x38500c49 },
    /* smallest normal, largest and smallest subnormal, of each width */
    { "2.2250738585072014e-308", 0x0010000000000000, 0 },
    { "2.2250738585072011e-308", 0x000fffffffffffff, 0 },
    { "4.9406564584124654e-324", 1, 0 },
    { "2.4703282292062328e-324", 1, 0 },
    { "2.4703282292062327e-324", 0, 0 },
    { "-1e-400", UINT64_C(1) << 63, 0x80000000 },
    { "1e-99999999999999999999", 0, 0 },
    { "1.17549435e-38", 0x380fffffff9fdba8, 0x00800000 },
    { "1.4e-45", 0x369ff868bf4d956a, 1 },
    { "1e-45", 0x3696d601ad376ab9, 1 },
    { "3.4028234663852886e38", 0x47efffffe0000000, 0x7f7fffff },
    { "3.4028235677973362e38", 0x47efffffefffffff, 0x7f7fffff },
    { "0.000000000000000000000000000000000000000000000000000001e54", 0x3ff0000000000000,
      0x3f800000 },
};

static void known_floats(void)
{
    for (size_t k = 0; k < sizeof floats / sizeof floats[0]; k++) {
        gg_error err = GG_ERROR_INIT;
        double d = 9;
        float f = 9;
        gg_json *json = parse(floats[k].text, strlen(floats[k].text));
        if (!json) continue;
        T_CHECK(gg_json_f64(gg_json_root(json), &d, &err) == GG_OK &&
                gg_json_f32(gg_json_root(json), &f, &err) == GG_OK);
        T_CHECKF(bits64(d) == floats[k].f64, "%s: %016llx", floats[k].text,
                 (unsigned long long)bits64(d));
        T_CHECKF(bits32(f) == floats[k].f32, "%s: %08x", floats[k].text, bits32(f));
        gg_json_free(json);
    }
}

static void too_large(void)
{
    static const struct {
        const char *text;
        bool f64, f32;
    } table[] = {
        { "1.7976931348623157e308", true, false },
        { "1.7976931348623158e308", true, false },
        { "1.7976931348623159e308", false, false },
        { "-1e309", false, false },
        { "1e99999999999999999999", false, false },
        { "3.4028235e38", true, true },
        { "3.4028235677973367e38", true, false },
        { "3.5e38", true, false },
        { "340282356779733661637539395458142568447", true, true },
        { "340282356779733661637539395458142568448", true, false },
    };
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        gg_error e64 = GG_ERROR_INIT, e32 = GG_ERROR_INIT;
        double d = 9;
        float f = 9;
        gg_json *json = parse(table[k].text, strlen(table[k].text));
        if (!json) continue;
        T_CHECKF((gg_json_f64(gg_json_root(json), &d, &e64) == GG_OK) == table[k].f64, "%s",
                 table[k].text);
        T_CHECKF((gg_json_f32(gg_json_root(json), &f, &e32) == GG_OK) == table[k].f32, "%s",
                 table[k].text);
        T_CHECK((table[k].f64 || (e64.offset == 0 && d == 9)) &&
                (table[k].f32 || (e32.offset == 0 && f == 9)));
        gg_json_free(json);
    }
}

/* Half the smallest subnormal is 5^1075 / 10^1075: exactly the middle, so to even,
 * zero; and with a one a hundred places further on, no longer the middle. */
static void very_long_middle(void)
{
    enum { POWER = 1075 };
    unsigned char digit[POWER] = { 1 }; /* least first */
    size_t n = 1;
    for (int k = 0; k < POWER; k++) {
        unsigned carry = 0;
        for (size_t i = 0; i < n || carry; i++) {
            unsigned v = digit[i] * 5u + carry;
            digit[i] = (unsigned char)(v % 10);
            carry = v / 10;
            if (i + 1 > n) n = i + 1;
        }
    }
    char text[2 * POWER];
    size_t used = 0;
    for (size_t i = n; i-- > 0;) text[used++] = (char)('0' + digit[i]);
    memset(text + used, '0', 100);
    gg_error err = GG_ERROR_INIT;
    double v = 9;
    for (int above = 0; above < 2; above++) {
        size_t len = used + 100;
        text[len - 1] = above ? '1' : '0';
        len += (size_t)sprintf(text + len, "e-%d", POWER + 100);
        gg_json *json = parse(text, len);
        T_CHECK(json && gg_json_f64(gg_json_root(json), &v, &err) == GG_OK &&
                bits64(v) == (uint64_t)above);
        gg_json_free(json);
    }
}

static void spelling(void)
{
    static const struct {
        double v;
        const char *text;
    } d[] = {
        { 0, "0" },
        { 1, "1" },
        { -1, "-1" },
        { 1000000, "1000000" },
        { 0.1, "0.1" },
        { 0.3, "0.3" },
        { 0.1 + 0.2, "0.30000000000000004" },
        { 1e15, "1000000000000000" },
        { 1e16, "1e16" },
        { 123456789012345680.0, "1.2345678901234568e17" },
        { 9007199254740993.0, "9007199254740992" },
        { 1e-5, "0.00001" },
        { 1e-6, "1e-6" },
        { 1.5e-7, "1.5e-7" },
        { -12.5, "-12.5" },
        { 1e22, "1e22" },
        { 1e23, "1e23" },
        { 1e300, "1e300" },
        { 5e-324, "5e-324" },
        { 1.7976931348623157e308, "1.7976931348623157e308" },
        { 2.2250738585072014e-308, "2.2250738585072014e-308" },
        { 3.141592653589793, "3.141592653589793" },
        { 5.684341886080802e-14, "5.684341886080802e-14" },
        { 2.98023223876953125e-8, "2.9802322387695312e-8" },
        { 123456.789, "123456.789" },
        { 0.00012345678901234567, "0.00012345678901234567" },
    };
    static const struct {
        float v;
        const char *text;
    } f[] = {
        { 0, "0" },
        { 1, "1" },
        { 0.1f, "0.1" },
        { 16777216, "16777216" },
        { 1e-5f, "0.00001" },
        { 1e-6f, "1e-6" },
        { 3.4028235e38f, "3.4028235e38" },
        { 1.17549435e-38f, "1.1754944e-38" },
        { 1e-45f, "1e-45" },
        { 3.1415927f, "3.1415927" },
        { -500000, "-500000" },
        { 1e10f, "10000000000" },
        { 1.00000012f, "1.0000001" },
        { 1e30f, "1e30" },
        { 9.5367432e-7f, "9.536743e-7" },
    };
    char text[32];
    for (size_t k = 0; k < sizeof d / sizeof d[0]; k++) {
        T_CHECK(gg_format_f64(d[k].v, text) == strlen(text));
        T_CHECKF(strcmp(text, d[k].text) == 0, "%s, not %s", text, d[k].text);
    }
    for (size_t k = 0; k < sizeof f / sizeof f[0]; k++) {
        T_CHECK(gg_format_f32(f[k].v, text) == strlen(text));
        T_CHECKF(strcmp(text, f[k].text) == 0, "%s, not %s", text, f[k].text);
    }
    T_CHECK(gg_format_f64(from64(UINT64_C(1) << 63), text) == 2 && strcmp(text, "-0") == 0);
    T_CHECK(gg_format_f32(from32(0x80000000), text) == 2 && strcmp(text, "-0") == 0);
    T_CHECK(gg_format_f64(HUGE_VAL, text) == 3 && strcmp(text, "inf") == 0);
    T_CHECK(gg_format_f32(-HUGE_VALF, text) == 4 && strcmp(text, "-inf") == 0);
    T_CHECK(gg_format_f64(from64(0xfff8000000000000), text) == 3 && strcmp(text, "nan") == 0);
}

/* Bit patterns worth a visit, then random ones over the whole range. */
static uint64_t pattern64(size_t i)
{
    static const uint64_t edge[] = { 0,
                                     1,
                                     2,
                                     3,
                                     0x000fffffffffffff,
                                     0x0010000000000000,
                                     0x0010000000000001,
                                     0x7fefffffffffffff,
                                     0x7feffffffffffffe,
                                     0x3ff0000000000000,
                                     0x3fefffffffffffff,
                                     0x3ff0000000000001 };
    const size_t edges = sizeof edge / sizeof edge[0];
    if (i < 2 * edges) return edge[i / 2] | (uint64_t)(i & 1) << 63;
    if (i < 2 * edges + 2046)
        return (uint64_t)(i - 2 * edges + 1) << 52; /* powers of two: uneven neighbours */
    uint64_t r = rng();
    switch (i % 4) {
    case 0: return bits64((double)(int64_t)(r % 2000000) / 1000 - 1000);
    case 1: return r & 0x800fffffffffffff; /* subnormal */
    default: return r;
    }
}

static uint32_t pattern32(size_t i)
{
    static const uint32_t edge[] = { 0,          1,          2,          3,
                                     0x007fffff, 0x00800000, 0x00800001, 0x7f7fffff,
                                     0x7f7ffffe, 0x3f800000, 0x3f7fffff, 0x3f800001 };
    const size_t edges = sizeof edge / sizeof edge[0];
    if (i < 2 * edges) return edge[i / 2] | (uint32_t)(i & 1) << 31;
    if (i < 2 * edges + 254) return (uint32_t)(i - 2 * edges + 1) << 23;
    uint64_t r = rng();
    switch (i % 4) {
    case 0: return bits32((float)((double)(int64_t)(r % 2000000) / 1000 - 1000));
    case 1: return (uint32_t)r & 0x807fffff;
    default: return (uint32_t)r;
    }
}

/* Digits of a spelling without leading and trailing zeros. */
static int significant(const char *s)
{
    int n = 0, zeros = 0;
    for (; *s && *s != 'e'; s++) {
        if (*s < '0' || *s > '9' || (*s == '0' && n == 0)) continue;
        zeros = *s == '0' ? zeros + 1 : 0;
        n++;
    }
    return n - zeros;
}

enum { ROUNDS = 200000 };

/* Through writer, reader and accessor; printf at one digit less must not do as well. */
static void round_trip_f64(void)
{
    int wrong = 0, longer = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        double v = from64(pattern64(i)), back = 0;
        if (!isfinite(v)) continue;
        char text[32], fewer[40];
        gg_error err = GG_ERROR_INIT;
        size_t len = gg_format_f64(v, text);
        gg_json *json = NULL;
        if (len >= 32 || gg_json_parse(text, len, &json, &err) ||
            gg_json_f64(gg_json_root(json), &back, &err) || bits64(back) != bits64(v)) {
            if (wrong++ < 5)
                fprintf(stderr, "%016llx -> %s\n", (unsigned long long)bits64(v), text);
        }
        gg_json_free(json);
        int digits = significant(text);
        if (digits < 2) continue;
        snprintf(fewer, sizeof fewer, "%.*e", digits - 2, v);
        longer += strtod(fewer, NULL) == v;
    }
    T_CHECKF(wrong == 0, "%d wrong", wrong);
    T_CHECKF(longer == 0, "%d longer than needed", longer);
}

static void round_trip_f32(void)
{
    int wrong = 0, longer = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        float v = from32(pattern32(i)), back = 0;
        if (!isfinite(v)) continue;
        char text[32], fewer[40];
        gg_error err = GG_ERROR_INIT;
        size_t len = gg_format_f32(v, text);
        gg_json *json = NULL;
        if (len >= 32 || gg_json_parse(text, len, &json, &err) ||
            gg_json_f32(gg_json_root(json), &back, &err) || bits32(back) != bits32(v)) {
            if (wrong++ < 5) fprintf(stderr, "%08x -> %s\n", bits32(v), text);
        }
        gg_json_free(json);
        int digits = significant(text);
        if (digits < 2) continue;
        snprintf(fewer, sizeof fewer, "%.*e", digits - 2, (double)v);
        longer += strtof(fewer, NULL) == v;
    }
    T_CHECKF(wrong == 0, "%d wrong", wrong);
    T_CHECKF(longer == 0, "%d longer than needed", longer);
}

/* Random decimal texts of 1 to 40 digits read as strtod and strtof read them. */
static void reads_as_strtod(void)
{
    int wrong = 0;
    for (int i = 0; i < 100000; i++) {
        char text[80];
        size_t n = 0, digits = 1 + rng() % 40, point = rng() % (digits + 1);
        if (rng() & 1) text[n++] = '-';
        text[n++] = (char)('1' + rng() % 9);
        for (size_t k = 1; k <= digits; k++) {
            if (k == point) text[n++] = '.';
            text[n++] = (char)('0' + rng() % 10);
        }
        n += (size_t)sprintf(text + n, "e%d", (int)(rng() % 90) - 60);
        gg_error err = GG_ERROR_INIT;
        double d = 0;
        float f = 0, want = strtof(text, NULL);
        gg_json *json = NULL;
        if (gg_json_parse(text, n, &json, &err) == GG_OK) {
            wrong += gg_json_f64(gg_json_root(json), &d, &err) != GG_OK ||
                     bits64(d) != bits64(strtod(text, NULL));
            gg_status st = gg_json_f32(gg_json_root(json), &f, &err);
            wrong += (st == GG_OK) != (isfinite(want) != 0) ||
                     (st == GG_OK && bits32(f) != bits32(want));
        } else {
            wrong++;
        }
        gg_json_free(json);
    }
    T_CHECKF(wrong == 0, "%d wrong", wrong);
}

/* Wherever a locale with a decimal comma is installed, all the same results. */
static void decimal_comma(void)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8",  "fr_FR.UTF-8",
                                         "de_DE",       "ru_RU.UTF-8", "pt_BR.UTF-8" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!setlocale(LC_ALL, names[i])) continue;
        fprintf(stderr, "decimal comma: tried in %s\n", names[i]);
        known_floats();
        spelling();
        round_trip_f64();
        break;
    }
    setlocale(LC_ALL, "C");
}

static const t_case cases[] = {
    { "integers", integers },
    { "known floats", known_floats },
    { "too large", too_large },
    { "very long middle", very_long_middle },
    { "spelling", spelling },
    { "round trip f64", round_trip_f64 },
    { "round trip f32", round_trip_f32 },
    { "reads as strtod", reads_as_strtod },
    { "decimal comma", decimal_comma },
};
T_MAIN(cases)
