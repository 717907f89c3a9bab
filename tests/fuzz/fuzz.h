/* fuzz.h - a fuzz target: one entry that takes any bytes, and where its seeds are.
 * With clang:  -fsanitize=fuzzer and without replay.c, for coverage-guided runs;
 * else with replay.c, which mutates the seeds by itself. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Files and folders, from the top of the tree, NULL at the end. */
extern const char *const fuzz_seeds[];

/* What must never be: prints and aborts, so that a sanitizer or an engine sees it. */
#define FUZZ_MUST(cond) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
            abort(); \
        } \
    } while (0)

#endif
