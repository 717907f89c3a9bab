/* replay.c - a fuzzer without an engine: seeds as they are, then mutated, always the
 * same way for the same seed.
 *
 *     fuzz_x [RUNS [SEED]]     RUNS inputs (20000) made of the target's seeds, and of the inputs
 *                              in the folder that FUZZ_CORPUS names
 *     fuzz_x FILE...           these inputs as they are, to look at a finding
 *
 * The input at work is kept in the file that FUZZ_LAST names, so that it can be fed
 * again after a crash. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

size_t LLVMFuzzerMutate(uint8_t *b, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *b, size_t n, size_t max, unsigned seed); /* mutate.c */

#define MOST (1u << 16) /* bytes of an input at most */

typedef struct seed {
    uint8_t *bytes;
    size_t n;
} seed;

static seed *seeds;
static size_t n_seeds;
static uint64_t state;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static size_t below(size_t n)
{
    return n ? (size_t)(next() % n) : 0;
}

static void add_seed(const char *path)
{
    FILE *f = fopen(path, "rb");
    seed *grown = realloc(seeds, (n_seeds + 1) * sizeof *grown);
    uint8_t *bytes = malloc(MOST);
    if (!f || !grown || !bytes) {
        perror(path);
        exit(1);
    }
    seeds = grown;
    seeds[n_seeds].n = fread(bytes, 1, MOST, f);
    seeds[n_seeds++].bytes = bytes;
    fclose(f);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Every regular file of a folder, in the order of their names. */
static void add_folder(const char *path)
{
    DIR *d = opendir(path);
    char **names = NULL;
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char **grown = realloc(names, (n + 1) * sizeof *grown);
        if (!grown) exit(1);
        names = grown;
        names[n++] = strdup(e->d_name);
    }
    if (d) closedir(d);
    if (n) qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        char file[1024];
        struct stat s;
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        if (stat(file, &s) == 0 && S_ISREG(s.st_mode)) add_seed(file);
        free(names[i]);
    }
    free(names);
}

/* The seeds, and the corpus that libFuzzer found, which run.sh unpacks. */
static void load_seeds(void)
{
    const char *corpus = getenv("FUZZ_CORPUS");
    if (corpus) add_folder(corpus);
    for (size_t i = 0; fuzz_seeds[i]; i++) {
        struct stat s;
        if (stat(fuzz_seeds[i], &s) != 0) perror(fuzz_seeds[i]);
        else if (S_ISDIR(s.st_mode)) add_folder(fuzz_seeds[i]);
        else add_seed(fuzz_seeds[i]);
    }
    if (n_seeds == 0) {
        fprintf(stderr, "no seeds: run it from the top of the tree\n");
        exit(1);
    }
}

/* Numbers that break parsers. */
static const uint64_t odd[] = { 0,
                                1,
                                2,
                                4,
                                5,
                                7,
                                12,
                                13,
                                31,
                                63,
                                64,
                                127,
                                128,
                                255,
                                256,
                                65535,
                                65536,
                                0x7fffffff,
                                0x80000000u,
                                0xffffffffu,
                                0x100000000u,
                                0x3fffffffffffffff,
                                0x7fffffffffffffff,
                                0x8000000000000000u,
                                UINT64_MAX };

static size_t mutate_once(uint8_t *b, size_t n, size_t max)
{
    size_t at = below(n), len = 1 + below(16), width = (size_t)1 << below(4);
    uint64_t v = odd[below(sizeof odd / sizeof odd[0])];
    switch (next() % 8) {
    case 0:
        if (n) b[at] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        if (n) b[at] = (uint8_t)next();
        break;
    case 2: /* a number, little-endian */
        for (size_t i = 0; i < width && at + i < n; i++) b[at + i] = (uint8_t)(v >> 8 * i);
        break;
    case 3: /* a little more or less */
        if (n) b[at] = (uint8_t)(b[at] + below(9) - 4);
        break;
    case 4: /* cut */ return below(n + 1);
    case 5: /* take out */
        if (at + len > n) len = n - at;
        memmove(b + at, b + at + len, n - at - len);
        return n - len;
    case 6: /* double a piece */
        if (n == 0 || at + len > n || n + len > max) break;
        memmove(b + at + len, b + at, n - at);
        return n + len;
    default: { /* a piece of another seed */
        const seed *s = &seeds[below(n_seeds)];
        size_t from = below(s->n), k = below(64);
        if (from + k > s->n) k = s->n - from;
        if (at + k > max) k = max - at;
        memcpy(b + at, s->bytes + from, k);
        return at + k > n ? at + k : n;
    }
    }
    return n;
}

size_t LLVMFuzzerMutate(uint8_t *b, size_t n, size_t max)
{
    return mutate_once(b, n, max);
}

static void keep(const uint8_t *b, size_t n)
{
    const char *path = getenv("FUZZ_LAST");
    FILE *f = path ? fopen(path, "wb") : NULL;
    if (!f) return;
    fwrite(b, 1, n, f);
    fclose(f);
}

/* A block of exactly n bytes, so that a read past the end is seen. */
static void run_one(const uint8_t *b, size_t n)
{
    uint8_t *exact = malloc(n ? n : 1);
    if (!exact) exit(1);
    if (n) memcpy(exact, b, n);
    keep(b, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
}

static int given_files(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        add_seed(argv[i]);
        run_one(seeds[n_seeds - 1].bytes, seeds[n_seeds - 1].n);
    }
    printf("%d inputs, no finding\n", argc - 1);
    return 0;
}

static void free_seeds(void)
{
    for (size_t i = 0; i < n_seeds; i++) free(seeds[i].bytes);
    free(seeds);
}

int main(int argc, char **argv)
{
    char *end = NULL;
    unsigned long runs = argc > 1 ? strtoul(argv[1], &end, 10) : 20000;
    const char *slash = strrchr(argv[0], '/');
    atexit(free_seeds);
    if (end && *end) return given_files(argc, argv);
    state = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) * 0x9e3779b97f4a7c15u + 1;
    load_seeds();
    for (size_t i = 0; i < n_seeds; i++) run_one(seeds[i].bytes, seeds[i].n);
    uint8_t *b = malloc(MOST + 64);
    if (!b) return 1;
    for (unsigned long r = 0; r < runs; r++) {
        const seed *s = &seeds[below(n_seeds)];
        size_t n = s->n, times = 1 + below(8);
        memcpy(b, s->bytes, n);
        while (times--) n = LLVMFuzzerCustomMutator(b, n, MOST, (unsigned)next());
        run_one(b, n);
    }
    free(b);
    printf("%s: %zu seeds, %lu mutants, no finding\n", slash ? slash + 1 : argv[0], n_seeds, runs);
    return 0;
}
