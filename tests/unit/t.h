/* t.h - the unit-test runner: a table of {name, function} per program.
 *
 * A program defines `static const t_case cases[]` and ends with T_MAIN(cases).
 * Its last line is "NAME: P passed, F failed"; exit 1 if any failed.
 */
#ifndef T_H
#define T_H

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
