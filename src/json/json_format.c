/* json_format.c - find the shortest decimal that reads back to the same bits.
 *
 * Every decimal strictly between the midpoints to the two neighbours of x reads back as x. (A
 * midpoint itself does if x is even.) Among the decimals with p digits, only two need to be
 * tried: the one just below x and the one just above. If p digits are enough, so are p + 1; the
 * search for the smallest p can therefore start at either end.
 *
 * Most values are short decimals, which plain double arithmetic can verify. The others take the
 * exact digits from printf and read them back with strtod. Neither function sees a decimal point,
 * so the locale does not matter.
 */
#include "json/json.h"

#include "base/float_bits.h"

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

static const double power[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

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
 * when the decimal is read. */
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

/* Midpoints of floats are exact doubles. A double near a midpoint is therefore on the same side of
 * it as the decimal that was rounded to that double. */
static bool quick_f32(float f, digits *g)
{
    double x = (double)f;
    if (FLT_EVAL_METHOD != 0 || x < 1e-12 || x >= 1e22) return false;
    if (x < 16777216 && x == floor(x)) {
        from_integer((uint64_t)x, 0, g);
        return true;
    }
    uint32_t bits = gg_float_bits(f);
    double low = (x + (double)gg_bits_float(bits - 1)) / 2,
           high = (x + (double)gg_bits_float(bits + 1)) / 2;
    int exp = -12;
    while (exp < 22 && (exp + 1 < 0 ? x * power[-(exp + 1)] >= 1 : x >= power[exp + 1])) exp++;
    for (int p = 1; p <= 9; p++) {
        int j = p - 1 - exp;
        double scaled = j < 0 ? x / power[-j] : x * power[j];
        double near = rint(scaled), tries[2] = { near, near < scaled ? near + 1 : near - 1 };
        for (int k = 0; k < 2; k++) {
            double back = j < 0 ? tries[k] * power[-j] : tries[k] / power[j];
            if (back == low || back == high) return false;
            if (back < low || back > high) continue;
            from_integer((uint64_t)tries[k], j, g);
            return true;
        }
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
    char text[48];
    memcpy(text, g->d, (size_t)g->n);
    snprintf(text + g->n, sizeof text - (size_t)g->n, "e%d", g->exp - (g->n - 1));
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

/* Most values that come here need all or nearly all digits, so this tries the largest numbers of
 * digits first and then bisects. */
static void slow(double x, bool f32, digits *g)
{
    digits full = { 0 }, best;
    int most = f32 ? 9 : 17;
    exact_digits(x, &full);
    with_digits(&full, most, x, f32, &best);
    int low = 1, high = most - 1, p = high;
    while (low <= high) {
        if (with_digits(&full, p, x, f32, g)) {
            best = *g;
            high = p - 1;
        } else {
            low = p + 1;
        }
        p = high >= most - 3 ? high : (low + high) / 2;
    }
    while (best.n > 1 && best.d[best.n - 1] == '0') best.n--;
    *g = best;
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

size_t gg_format_f64(double value, char out[32])
{
    digits g;
    double x = fabs(value);
    if (!isfinite(value) || x == 0) return special(value, out);
    if (!quick_digits(x, &g)) slow(x, false, &g);
    return spell(value < 0, &g, out);
}

size_t gg_format_f32(float value, char out[32])
{
    digits g;
    float x = fabsf(value);
    if (!isfinite(value) || x == 0) return special((double)value, out);
    if (!quick_f32(x, &g)) slow((double)x, true, &g);
    return spell(value < 0, &g, out);
}
