/* help.c - prints a tool's --help with the paths of where it is installed.
 *
 * The texts name files of the source tree. For an installed tool in PREFIX/bin the same
 * files are in PREFIX/share/organ-suite, so the paths are replaced. The examples then work
 * when pasted, both in the source tree and outside of it.
 */
#include "cli.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXAMPLES "/share/organ-suite/examples"

/* Paths of the source tree, and what replaces each of them after PREFIX. */
static const struct {
    const char *in_source, *installed;
} places[] = { { "tests/data/lab", EXAMPLES },
               { "$PWD/build/bin", "/bin" },
               { "build/bin", "/bin" } };

/* Writes PREFIX to path[size]; false if the tool is not installed. */
static bool find_prefix(char *path, size_t size)
{
    struct stat s;
    ssize_t n = readlink("/proc/self/exe", path, size);
    if (n <= 0 || (size_t)n >= size) return false;
    path[n] = '\0';
    for (int up = 0; up < 2; up++) { /* PREFIX/bin/TOOL */
        char *slash = strrchr(path, '/');
        if (!slash) return false;
        *slash = '\0';
    }
    size_t len = strlen(path);
    if (len + sizeof EXAMPLES > size) return false;
    strcpy(path + len, EXAMPLES);
    bool found = stat(path, &s) == 0 && S_ISDIR(s.st_mode);
    path[len] = '\0';
    return found;
}

void cli_print_help(const char *help)
{
    char prefix[4096];
    bool installed = find_prefix(prefix, sizeof prefix);
    while (*help) {
        size_t skip = 0;
        for (size_t i = 0; installed && !skip && i < sizeof places / sizeof places[0]; i++) {
            size_t n = strlen(places[i].in_source);
            if (strncmp(help, places[i].in_source, n) != 0) continue;
            printf("%s%s", prefix, places[i].installed);
            skip = n;
        }
        if (!skip) putchar(*help++);
        help += skip;
    }
}
