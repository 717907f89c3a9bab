/* t.h - the unit-test runner: a table of {name, function} per program.
 *
 * A program defines `static const t_case cases[]` and ends with T_MAIN(cases).
 * Its last line is "NAME: P passed, F failed"; exit 1 if any failed.
 */
#ifndef T_H
#define T_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct t_case {
    const char *name;
    void (*fn)(void);
} t_case;

static int t_failed; /* checks failed in the current case */

#define T_CHECK(cond) \
    do { \
        if (!(cond)) { \
            t_failed++; \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond); \
        } \
    } while (0)

#define T_CHECKF(cond, ...) \
    do { \
        if (!(cond)) { \
            t_failed++; \
            fprintf(stderr, "%s:%d: failed: %s: ", __FILE__, __LINE__, #cond); \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
        } \
    } while (0)

/* A value of any arithmetic or pointer type, for T_EQ. */
typedef struct t_value {
    enum { T_SIGNED, T_UNSIGNED, T_FLOAT, T_POINTER } kind;
    int64_t i;
    uint64_t u;
    double f;
    const void *p;
} t_value;

static inline t_value t_of_i(int64_t i)
{
    return (t_value){ .kind = i < 0 ? T_SIGNED : T_UNSIGNED, .i = i, .u = (uint64_t)i };
}

static inline t_value t_of_u(uint64_t u)
{
    return (t_value){ .kind = T_UNSIGNED, .u = u };
}

static inline t_value t_of_f(double f)
{
    return (t_value){ .kind = T_FLOAT, .f = f };
}

static inline t_value t_of_p(const void *p)
{
    return (t_value){ .kind = T_POINTER, .p = p };
}

/* clang-format off */
#define T_VALUE(x) _Generic((x), \
    char: t_of_i, signed char: t_of_i, short: t_of_i, int: t_of_i, long: t_of_i, \
    long long: t_of_i, \
    bool: t_of_u, unsigned char: t_of_u, unsigned short: t_of_u, unsigned: t_of_u, \
    unsigned long: t_of_u, unsigned long long: t_of_u, \
    float: t_of_f, double: t_of_f, default: t_of_p)(x)
/* clang-format on */

static inline double t_as_double(t_value v)
{
    return v.kind == T_FLOAT ? v.f : v.kind == T_SIGNED ? (double)v.i : (double)v.u;
}

static inline bool t_same(t_value a, t_value b)
{
    if (a.kind == T_POINTER && b.kind == T_POINTER) return a.p == b.p;
    if (a.kind == T_FLOAT || b.kind == T_FLOAT) return t_as_double(a) == t_as_double(b);
    return a.kind == b.kind && (a.kind == T_SIGNED ? a.i == b.i : a.u == b.u);
}

static inline void t_print(t_value v)
{
    switch (v.kind) {
    case T_SIGNED: fprintf(stderr, "%" PRId64, v.i); break;
    case T_UNSIGNED: fprintf(stderr, "%" PRIu64, v.u); break;
    case T_FLOAT: fprintf(stderr, "%.17g", v.f); break;
    case T_POINTER: fprintf(stderr, "%p", v.p); break;
    }
}

static inline void t_eq(t_value a, t_value b, const char *text, const char *file, int line)
{
    if (t_same(a, b)) return;
    t_failed++;
    fprintf(stderr, "%s:%d: failed: %s: ", file, line, text);
    t_print(a);
    fputs(" != ", stderr);
    t_print(b);
    fputc('\n', stderr);
}

static inline void t_str(const char *a, const char *b, const char *text, const char *file, int line)
{
    if (a && b && strcmp(a, b) == 0) return;
    t_failed++;
    fprintf(stderr, "%s:%d: failed: %s: \"%s\" != \"%s\"\n", file, line, text, a ? a : "(null)",
            b ? b : "(null)");
}

/* Equal values, or equal strings; a failure prints both. */
#define T_EQ(a, b) t_eq(T_VALUE(a), T_VALUE(b), #a " == " #b, __FILE__, __LINE__)
#define T_STR(a, b) t_str(a, b, #a " is " #b, __FILE__, __LINE__)

static int t_run(const char *program, const t_case *cases, size_t n)
{
    int passed = 0, failed = 0;
    for (size_t i = 0; i < n; i++) {
        t_failed = 0;
        cases[i].fn();
        if (t_failed) {
            failed++;
            printf("FAIL %s: %s\n", program, cases[i].name);
        } else {
            passed++;
        }
    }
    const char *slash = strrchr(program, '/');
    printf("%s: %d passed, %d failed\n", slash ? slash + 1 : program, passed, failed);
    return failed != 0;
}

#define T_MAIN(cases) \
    int main(int argc, char **argv) \
    { \
        (void)argc; \
        return t_run(argv[0], cases, sizeof(cases) / sizeof((cases)[0])); \
    }

#endif
