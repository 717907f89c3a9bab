/* json_format.c - find the shortest decimal that reads back to the same bits.
 *
 * Every decimal strictly between the midpoints to the two neighbours of x reads back as x. (A
 * midpoint itself does if x is even.) Among the decimals with p digits, only two need to be
 * tried: the one just below x and the one just above. If p digits are enough, so are p + 1; the
 * search for the smallest p can therefore start at either end.
 *
 * Many values are short decimals, which plain double arithmetic can verify. Others need the most
 * digits or nearly so. The exact digits come from printf, and strtod reads decimals back. Neither
 * sees a decimal point, so the locale does not matter.
 */
#include "json.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* d[0].d[1]d[2]... x 10^exp */
typedef struct digits {
    char d[28];
    int n;
    int exp;
} digits;

static char *fill(char *out, char c, int n)
{
    for (int i = 0; i < n; i++) *out++ = c;
    return out;
}

static char *copy(char *out, const char *from, int n)
{
    memcpy(out, from, (size_t)n);
    return out + n;
}

static size_t spell(bool negative, const digits *g, char out[32])
{
    char *o = out;
    if (negative) *o++ = '-';
    if (g->exp < -5 || g->exp > 15) {
        *o++ = g->d[0];
        if (g->n > 1) *o++ = '.';
        o = copy(o, g->d + 1, g->n - 1);
        o += snprintf(o, 8, "e%d", g->exp);
    } else if (g->exp < 0) {
        o = copy(o, "0.", 2);
        o = fill(o, '0', -1 - g->exp);
        o = copy(o, g->d, g->n);
    } else if (g->n <= g->exp + 1) {
        o = copy(o, g->d, g->n);
        o = fill(o, '0', g->exp + 1 - g->n);
    } else {
        o = copy(o, g->d, g->exp + 1);
        *o++ = '.';
        o = copy(o, g->d + g->exp + 1, g->n - g->exp - 1);
    }
    *o = '\0';
    return (size_t)(o - out);
}

static const double power[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

/* m / 10^decimals, m > 0 */
static void from_integer(uint64_t m, int decimals, digits *g)
{
    char back[20];
    int n = 0;
    for (; m % 10 == 0; m /= 10) decimals--;
    for (; m; m /= 10) back[n++] = (char)('0' + m % 10);
    for (int i = 0; i < n; i++) g->d[i] = back[n - 1 - i];
    g->n = n;
    g->exp = n - 1 - decimals;
}

/* A decimal of up to 15 digits identifies a double uniquely, so the smallest number of decimals
 * that gives x back is the shortest. m and 10^j are exact, so m / 10^j is rounded once, as it is
 * when the decimal is read. Returns false if x has more than 15 digits or more than 22 decimals. */
static bool quick_digits(double x, digits *g)
{
    if (FLT_EVAL_METHOD != 0 || x < 1e-22 || x >= 1e15) return false;
    for (int j = 0; j <= 22; j++) {
        double scaled = x * power[j];
        if (scaled >= 1e15) return false;
        double m = (double)(uint64_t)(scaled + 0.5);
        if (m == 0 || fabs(scaled - m) > scaled * 4.5e-16 || m / power[j] != x) continue;
        from_integer((uint64_t)m, j, g);
        return true;
    }
    return false;
}

/* The 25 leading digits, which is more than any decision here needs. */
static void exact_digits(double x, digits *g)
{
    char text[64];
    snprintf(text, sizeof text, "%.24e", x);
    const char *s = text;
    for (g->n = 0; *s && *s != 'e'; s++)
        if (*s >= '0' && *s <= '9' && g->n < 25) g->d[g->n++] = *s;
    g->exp = *s == 'e' ? (int)strtol(s + 1, NULL, 10) : 0;
}

static bool reads_back(const digits *g, double x, bool f32)
{
    char text[48], *to = text + g->n;
    int exp = g->exp - (g->n - 1), left = exp < 0 ? -exp : exp;
    memcpy(text, g->d, (size_t)g->n);
    *to++ = 'e', *to++ = exp < 0 ? '-' : '+';
    for (int unit = 100; unit > 0; left %= unit, unit /= 10) *to++ = (char)('0' + left / unit);
    *to = '\0';
    return f32 ? strtof(text, NULL) == (float)x : strtod(text, NULL) == x;
}

/* The first p digits of `full`, or the next larger decimal with p digits. */
static void cut(const digits *full, int p, bool up, digits *g)
{
    memcpy(g->d, full->d, (size_t)p);
    g->n = p;
    g->exp = full->exp;
    if (!up) return;
    int i = p - 1;
    while (i >= 0 && g->d[i] == '9') g->d[i--] = '0';
    if (i >= 0) {
        g->d[i]++;
    } else {
        g->d[0] = '1';
        g->exp++;
    }
}

/* Whether the nearest p-digit decimal is the larger one. A tie goes to the even digit. */
static bool nearest_is_up(const digits *full, int p)
{
    if (full->d[p] != '5') return full->d[p] > '5';
    for (int i = p + 1; i < full->n; i++)
        if (full->d[i] != '0') return true;
    return (full->d[p - 1] - '0') & 1;
}

/* Finds p digits that read back to x: tries the nearest decimal, then the one on the other side. */
static bool with_digits(const digits *full, int p, double x, bool f32, digits *g)
{
    bool up = nearest_is_up(full, p);
    cut(full, p, up, g);
    if (reads_back(g, x, f32)) return true;
    cut(full, p, !up, g);
    return reads_back(g, x, f32);
}

static void shortest(double x, bool f32, digits *best)
{
    digits full = { 0 }, g;
    int most = f32 ? 9 : 17, least = 1;
    if (!f32 && quick_digits(x, best)) return;
    if (!f32 && FLT_EVAL_METHOD == 0 && x >= 1e-7 && x < 1e15) least = 16; /* quick_digits failed */
    exact_digits(x, &full);
    cut(&full, most, nearest_is_up(&full, most), best); /* so many always read back */
    for (int p = most - 1; p >= least && with_digits(&full, p, x, f32, &g); p--) *best = g;
}

static size_t special(double x, char out[32])
{
    const char *name = isnan(x)     ? "nan"
                       : isinf(x)   ? (x < 0 ? "-inf" : "inf")
                       : signbit(x) ? "-0"
                                    : "0";
    strcpy(out, name);
    return strlen(out);
}

static size_t format(double value, bool f32, char out[32])
{
    digits g = { 0 };
    if (!isfinite(value) || value == 0) return special(value, out);
    shortest(fabs(value), f32, &g);
    return spell(value < 0, &g, out);
}

size_t gg_format_f64(double value, char out[32])
{
    return format(value, false, out);
}

size_t gg_format_f32(float value, char out[32])
{
    return format((double)value, true, out);
}
