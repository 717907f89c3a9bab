/* json_number.c - convert the decimal text of a number to a value.
 *
 * strtod expects the decimal point of the current locale. So the text is first split into digits
 * and an exponent: "1.25e-3" is passed to strtod as "125e-5", which is the same in every locale.
 */
#include "json_node.h"

#include "base/error.h"
#include "json/json.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static void split_decimal(const char *s, size_t len, decimal *d)
{
    bool fraction = false, more = false;
    size_t i = 0;
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
    if (i >= len) return;
    bool minus = s[++i] == '-';
    if (minus || s[i] == '+') i++;
    /* Clamped to a limit from which no text of less than 4 GiB could bring it back into range. */
    int64_t e = 0;
    for (; i < len; i++)
        if (e < INT64_C(1000000000000)) e = e * 10 + (s[i] - '0');
    d->exp += minus ? -e : e;
}

static gg_status wrong_type(const gg_json_node *node, gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "JSON: expected a number, found %s",
            gg_json_type_name(gg_json_type_of(node)));
    gg_at_offset(err, gg_json_offset(node));
    return GG_EFORMAT;
}

static gg_status bad_value(const gg_json_node *node, const char *what, gg_error *err)
{
    bool cut = node->len > 40;
    gg_fail(err, GG_EFORMAT, "JSON: %.*s%s is %s", cut ? 40 : (int)node->len, node->text,
            cut ? "..." : "", what);
    gg_at_offset(err, node->offset);
    return GG_EFORMAT;
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

gg_status gg_json_u64(const gg_json_node *node, uint64_t *value, gg_error *err)
{
    if (gg_json_type_of(node) != GG_JSON_NUMBER) return wrong_type(node, err);
    decimal d;
    uint64_t v;
    bool whole;
    split_decimal(node->text, node->len, &d);
    bool fits = magnitude(&d, &v, &whole);
    if (!whole) return bad_value(node, "not a whole number", err);
    if (!fits || (d.negative && v)) return bad_value(node, "outside 0 to 2^64-1", err);
    *value = v;
    return GG_OK;
}

gg_status gg_json_i64(const gg_json_node *node, int64_t *value, gg_error *err)
{
    if (gg_json_type_of(node) != GG_JSON_NUMBER) return wrong_type(node, err);
    decimal d;
    uint64_t v;
    bool whole;
    split_decimal(node->text, node->len, &d);
    bool fits = magnitude(&d, &v, &whole);
    if (!whole) return bad_value(node, "not a whole number", err);
    if (!fits || v > (uint64_t)INT64_MAX + d.negative)
        return bad_value(node, "outside -2^63 to 2^63-1", err);
    /* -2^63 has no positive counterpart to negate. */
    *value = !d.negative ? (int64_t)v : v == 0 ? 0 : -(int64_t)(v - 1) - 1;
    return GG_OK;
}

/* If digits and power of ten are both exact in a double, one operation rounds once. */
static bool exact_f64(const decimal *d, double *value)
{
#if FLT_EVAL_METHOD == 0
    static const double power[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    if (d->n > 15 || d->exp < -22 || d->exp > 22) return false;
    uint64_t m = 0;
    for (size_t i = 0; i < d->n; i++) m = m * 10 + (uint64_t)(d->digits[i] - '0');
    *value = d->exp < 0 ? (double)m / power[-d->exp] : (double)m * power[d->exp];
    return true;
#else
    (void)d, (void)value;
    return false;
#endif
}

/* Makes the text for strtod and strtof. Beyond an exponent of +-9999 every result is zero or
 * infinity. */
static void join_decimal(const decimal *d, char text[DIGITS + 16])
{
    int e = d->exp > 9999 ? 9999 : d->exp < -9999 ? -9999 : (int)d->exp;
    memcpy(text, d->digits, d->n);
    snprintf(text + d->n, 16, "e%d", e);
}

static double to_f64(const decimal *d)
{
    double v;
    char text[DIGITS + 16];
    if (d->n == 0) return 0;
    if (exact_f64(d, &v)) return v;
    join_decimal(d, text);
    return strtod(text, NULL);
}

/* A quick double may be rounded again to float, unless it is exactly the midpoint of two floats:
 * there the first rounding may have hidden a remainder. */
static float to_f32(const decimal *d)
{
    double v;
    char text[DIGITS + 16];
    if (d->n == 0) return 0;
    if (exact_f64(d, &v) && v >= (double)FLT_MIN) {
        uint64_t bits;
        memcpy(&bits, &v, sizeof bits);
        if ((bits & 0x1fffffff) != 0x10000000) return (float)v;
    }
    join_decimal(d, text);
    return strtof(text, NULL);
}

gg_status gg_json_f64(const gg_json_node *node, double *value, gg_error *err)
{
    if (gg_json_type_of(node) != GG_JSON_NUMBER) return wrong_type(node, err);
    decimal d;
    split_decimal(node->text, node->len, &d);
    double v = to_f64(&d);
    if (isinf(v)) return bad_value(node, "too large for an f64", err);
    *value = d.negative ? -v : v;
    return GG_OK;
}

gg_status gg_json_f32(const gg_json_node *node, float *value, gg_error *err)
{
    if (gg_json_type_of(node) != GG_JSON_NUMBER) return wrong_type(node, err);
    decimal d;
    split_decimal(node->text, node->len, &d);
    float v = to_f32(&d);
    if (isinf(v)) return bad_value(node, "too large for an f32", err);
    *value = d.negative ? -v : v;
    return GG_OK;
}
