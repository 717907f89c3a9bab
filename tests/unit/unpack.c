/* unpack.c - one packed file (a list NAME.tsv: name, offset, size, ...; and the
 * bytes, NAME.pack) back into a folder:  unpack LIST.tsv PACK FOLDER
 * Folders of names ("trunc/x.gguf") are made. For tests/cli; the unit tests read
 * the pack in place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int write_one(const char *folder, const char *name, const char *bytes, size_t n)
{
    char path[1024];
    const char *slash = strchr(name, '/');
    if (slash) {
        snprintf(path, sizeof path, "%s/%.*s", folder, (int)(slash - name), name);
        mkdir(path, 0777);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n) {
        perror(path);
        if (f) fclose(f);
        return 1;
    }
    return fclose(f) != 0;
}

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    long size = ftell(f);
    rewind(f);
    char *bytes = malloc((size_t)size + 1);
    if (!bytes || fread(bytes, 1, (size_t)size, f) != (size_t)size) {
        perror(path);
        exit(1);
    }
    fclose(f);
    bytes[size] = '\0';
    *n = (size_t)size;
    return bytes;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: unpack LIST.tsv PACK FOLDER\n");
        return 2;
    }
    size_t pack_n, list_n;
    char *list = slurp(argv[1], &list_n), *pack = slurp(argv[2], &pack_n);
    int failed = mkdir(argv[3], 0777) != 0;
    for (char *line = strchr(list, '\n'); line && line[1] && !failed;
         line = strchr(line + 1, '\n')) {
        char name[256];
        unsigned long at, n;
        if (sscanf(line + 1, "%255[^\t]\t%lu\t%lu", name, &at, &n) != 3 || at > pack_n ||
            n > pack_n - at) {
            fprintf(stderr, "unpack: %s: a bad line\n", argv[1]);
            failed = 1;
        } else {
            failed = write_one(argv[3], name, pack + at, n);
        }
    }
    free(list);
    free(pack);
    return failed;
}
