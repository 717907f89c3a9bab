/* gguf_journal.c - the path of the journal of a header change. */
#include "gguf_journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SUFFIX ".keys-undo"

char *gg_journal_path(const char *path)
{
    char *real = realpath(path, NULL);
    size_t size = real ? strlen(real) + sizeof SUFFIX : 0;
    char *out = real ? malloc(size) : NULL;
    if (out) snprintf(out, size, "%s%s", real, SUFFIX);
    free(real);
    return out;
}

bool gg_journal_exists(const char *path)
{
    struct stat s;
    char *journal = gg_journal_path(path);
    bool exists = journal && lstat(journal, &s) == 0;
    free(journal);
    return exists;
}
