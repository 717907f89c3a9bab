/* engine.c - what libFuzzer needs besides a target: the target's own seeds, and replacements for
 * two slow calls. Linked instead of replay.c. */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

/* The Makefile renames these calls in everything that it compiles for libFuzzer. A file in memory
 * needs no sync, and callers do the work themselves if a thread cannot start. */
int fuzz_fsync(int fd);
int fuzz_pthread_create(void *thread, const void *attr, void *(*start)(void *), void *arg);

int fuzz_fsync(int fd)
{
    (void)fd;
    return 0;
}

int fuzz_pthread_create(void *thread, const void *attr, void *(*start)(void *), void *arg)
{
    (void)thread, (void)attr, (void)start, (void)arg;
    return EAGAIN;
}

static char list[65536] = "-seed_inputs=";

static void add(const char *path)
{
    size_t n = strlen(list);
    const char *comma = list[n - 1] == '=' ? "" : ",";
    snprintf(list + n, sizeof list - n, "%s%s", comma, path);
}

static void add_folder(const char *path)
{
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char file[1024];
        struct stat s;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (stat(file, &s) == 0 && S_ISREG(s.st_mode)) add(file);
    }
    if (d) closedir(d);
}

/* Not for runs over given inputs, and not for merges, which take folders alone. */
static int has_seeds(int argc, char **argv)
{
    int any = 0;
    for (int i = 1; i < argc; i++) {
        struct stat s;
        if (strcmp(argv[i], "-merge=1") == 0) return 0;
        if (argv[i][0] != '-' && stat(argv[i], &s) == 0) any |= S_ISDIR(s.st_mode);
    }
    return any;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char *args[64];
    if (*argc > 62 || !has_seeds(*argc, *argv)) return 0;
    for (size_t i = 0; fuzz_seeds[i]; i++) {
        struct stat s;
        if (stat(fuzz_seeds[i], &s) != 0) perror(fuzz_seeds[i]);
        else if (S_ISDIR(s.st_mode)) add_folder(fuzz_seeds[i]);
        else add(fuzz_seeds[i]);
    }
    memcpy(args, *argv, (size_t)*argc * sizeof *args);
    args[*argc] = list;
    *argv = args;
    ++*argc;
    return 0;
}
