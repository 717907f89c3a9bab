/* where.c - parses and checks conditions on the rows of a table. */
#include "where.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"       /* the column that was meant */
#include "organ/select.h"       /* gg_glob */
#include "organ/tensor_names.h" /* aliases of classes */

#define MANY_COLUMNS 40

/* Columns of text. All others hold numbers. */
static const struct {
    const char *name;
    bool folds_case;
} texts[] = { { "name", false },        { "class", true },   { "dtype", true },
              { "part", true },         { "role", false },   { "status", true },
              { "dims", false },        { "dtype_a", true }, { "dtype_b", true },
              { "dims_a", false },      { "dims_b", false }, { "name_b", false },
              { "file", false },        { "kind", true },    { "form", true },
              { "architecture", true }, { "types", true },   { "tokenizer", true },
              { "template", true },     { "license", true }, { "origin", false },
              { "verdict", false } };

static const struct {
    const char *text;
    where_op op;
} operators[] = { { "<=", WHERE_LESS_OR_EQUAL }, { ">=", WHERE_GREATER_OR_EQUAL },
                  { "!=", WHERE_NOT_EQUAL },     { "==", WHERE_EQUAL },
                  { "<", WHERE_LESS },           { ">", WHERE_GREATER },
                  { "=", WHERE_EQUAL } };

/* Text without the blanks around it. */
typedef struct span {
    const char *s;
    size_t n;
} span;

static span trimmed(const char *s, size_t n)
{
    while (n > 0 && isspace((unsigned char)*s)) s++, n--;
    while (n > 0 && isspace((unsigned char)s[n - 1])) n--;
    return (span){ s, n };
}

static bool GG_PRINTF(2, 3) refuse(char why[WHERE_WHY], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, WHERE_WHY, fmt, args);
    va_end(args);
    return false;
}

static bool find_column(span name, const char *columns, size_t *at, char why[WHERE_WHY])
{
    static char copy[1024]; /* one list of columns, in separate words */
    const char *words[MANY_COLUMNS];
    size_t n = 0;
    if (strlen(columns) >= sizeof copy) abort();
    strcpy(copy, columns);
    for (char *p = copy, *tab; p && n < MANY_COLUMNS; p = tab) {
        tab = strchr(p, '\t');
        if (tab) *tab++ = '\0';
        words[n++] = p;
    }
    for (size_t i = 0; i < n; i++)
        if (strlen(words[i]) == name.n && memcmp(words[i], name.s, name.n) == 0) {
            *at = i;
            return true;
        }
    char all[sizeof copy], meant[GG_MEANT];
    gg_meant(gg_nearest(name.s, name.n, words, n), meant);
    strcpy(all, columns);
    for (char *p = all; *p; p++)
        if (*p == '\t') *p = ' ';
    return refuse(why, "--where: unknown column '%.*s'%s; the columns are: %s", (int)name.n, name.s,
                  meant, all);
}

/* Reads a decimal number; NaN is none. */
static bool parse_number(span text, where_value *v)
{
    char copy[128], *end;
    if (text.n == 0 || text.n >= sizeof copy) return false;
    memcpy(copy, text.s, text.n);
    copy[text.n] = '\0';
    if (copy[strcspn(copy, "xXpP")]) return false;
    errno = 0;
    v->number = strtod(copy, &end);
    if (*end || v->number != v->number) return false;
    v->kind = WHERE_NUMBER;
    errno = 0;
    unsigned long long whole = strtoull(copy, &end, 10);
    if (copy[0] < '0' || copy[0] > '9' || errno || *end) return true;
    v->whole = whole;
    v->kind = WHERE_WHOLE;
    return true;
}

/* A text is a pattern; classes may be given by their aliases. */
static bool set_text(const char *given, span name, span value, where *out, char why[WHERE_WHY])
{
    gg_class cls;
    if (out->op != WHERE_EQUAL && out->op != WHERE_NOT_EQUAL)
        return refuse(why, "--where '%s': column %.*s holds text; use = or !=", given, (int)name.n,
                      name.s);
    if (name.n == 5 && memcmp(name.s, "class", 5) == 0 && gg_class_by_name(value.s, value.n, &cls))
        value = (span){ gg_class_name(cls), strlen(gg_class_name(cls)) };
    if (value.n == 0 || value.n >= sizeof out->text)
        return refuse(why, "--where '%s': expected a name or a pattern after the operator", given);
    for (size_t i = 0; i < value.n; i++)
        out->text[i] = out->folds_case ? (char)tolower((unsigned char)value.s[i]) : value.s[i];
    out->text[value.n] = '\0';
    out->value.kind = WHERE_TEXT;
    return true;
}

bool where_parse(const char *given, const char *columns, where *out, char why[WHERE_WHY])
{
    *out = (where){ .given = given };
    size_t at = strcspn(given, "<>=!"), op = 0, n = sizeof operators / sizeof operators[0];
    while (op < n && strncmp(given + at, operators[op].text, strlen(operators[op].text)) != 0) op++;
    if (op == n)
        return refuse(why,
                      "--where '%s': expected COLUMN<VALUE in quotes, such as 'theta<40'; the "
                      "operators are < <= > >= = !=",
                      given);
    span name = trimmed(given, at);
    const char *after = given + at + strlen(operators[op].text);
    span value = trimmed(after, strlen(after));
    out->op = operators[op].op;
    if (!find_column(name, columns, &out->column, why)) return false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strlen(texts[i].name) != name.n || memcmp(texts[i].name, name.s, name.n) != 0) continue;
        out->folds_case = texts[i].folds_case;
        return set_text(given, name, value, out, why);
    }
    if (parse_number(value, &out->value)) return true;
    return refuse(why,
                  "--where '%s': column %.*s holds numbers; expected a number such as 40, -0.5 "
                  "or 1e-3 after the operator",
                  given, (int)name.n, name.s);
}

static bool text_matches(const where *w, const char *text)
{
    char low[256];
    size_t n = strlen(text);
    if (!w->folds_case || n >= sizeof low) return gg_glob(w->text, text);
    for (size_t i = 0; i <= n; i++) low[i] = (char)tolower((unsigned char)text[i]);
    return gg_glob(w->text, low);
}

/* -1, 0 or 1. Neither side is NaN. */
static int order(const where_value *a, const where_value *b)
{
    if (a->kind == WHERE_WHOLE && b->kind == WHERE_WHOLE)
        return (a->whole > b->whole) - (a->whole < b->whole);
    return (a->number > b->number) - (a->number < b->number);
}

bool where_holds(const where *w, const where_value *cell)
{
    if (cell->kind == WHERE_ABSENT) return false;
    if (w->value.kind == WHERE_TEXT)
        return cell->kind == WHERE_TEXT && text_matches(w, cell->text) == (w->op == WHERE_EQUAL);
    if (cell->kind == WHERE_TEXT || cell->number != cell->number) return false;
    int sign = order(cell, &w->value);
    switch (w->op) {
    case WHERE_LESS: return sign < 0;
    case WHERE_LESS_OR_EQUAL: return sign <= 0;
    case WHERE_GREATER: return sign > 0;
    case WHERE_GREATER_OR_EQUAL: return sign >= 0;
    case WHERE_EQUAL: return sign == 0;
    case WHERE_NOT_EQUAL: return sign != 0;
    }
    return false;
}
