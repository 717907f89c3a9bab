/* files.h - what unit tests need of files: whole ones in memory, a scratch folder,
 * hex, the test data's list of valid GGUF files. Paths are from the tree's top. */
#ifndef FILES_H
#define FILES_H

#include "t.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whole file, NUL-terminated; exits when it cannot be read: the test is void then. */
static inline char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    size_t len = 0, cap = 65536;
    char *bytes = malloc(cap + 1);
    while (bytes) {
        len += fread(bytes + len, 1, cap - len, f);
        if (len < cap) break;
        bytes = realloc(bytes, (cap *= 2) + 1);
    }
    fclose(f);
    if (!bytes) exit(1);
    bytes[len] = '\0';
    if (n) *n = len;
    return bytes;
}

static inline void spew(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

static inline bool there(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0;
}

/* Names in a folder, but . and .. */
static inline size_t count_names(const char *folder)
{
    DIR *d = opendir(folder);
    size_t n = 0;
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static char scratch_folder[64];

static inline void scratch_remove(void)
{
    char command[160];
    snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s", scratch_folder, scratch_folder);
    if (system(command) != 0) perror(scratch_folder);
}

/* A path in a scratch folder that goes away at exit; valid until the 8th next call. */
static inline const char *scratch(const char *name)
{
    static char paths[8][512];
    static unsigned turn;
    if (!scratch_folder[0]) {
        strcpy(scratch_folder, "/tmp/unit.XXXXXX");
        if (!mkdtemp(scratch_folder)) {
            perror("mkdtemp");
            exit(1);
        }
        atexit(scratch_remove);
    }
    char *p = paths[turn++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", scratch_folder, name);
    return p;
}

/* Lower-case hex of n bytes, malloc'd. */
static inline char *hex_of(const void *bytes, size_t n)
{
    char *out = malloc(2 * n + 1);
    if (!out) exit(1);
    for (size_t i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
    out[2 * n] = '\0';
    return out;
}

/* Call fn with the stem of every file in tests/data/gguf that is a current,
 * little-endian GGUF ("align-8"). Returns how many. */
static inline size_t each_valid(void (*fn)(const char *stem))
{
    char *list = slurp("tests/data/gguf/index.tsv", NULL);
    size_t n = 0;
    for (char *line = strchr(list, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        char stem[128];
        snprintf(stem, sizeof stem, "%.*s", (int)(strcspn(line + 1, "\t") - 5), line + 1);
        if (strcmp(stem, "big-endian-v3") == 0 || strcmp(stem, "v1-by-hand") == 0) continue;
        fn(stem);
        n++;
    }
    free(list);
    return n;
}

#endif
