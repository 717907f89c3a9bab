/* room.c - see room.h. */
#include "room.h"

#include "base/isa.h"
#include "base/output.h"
#include "organ/gg_check.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const gg_run room_run = { .threads = 1, .review = gg_check_review };

static char folder[200];

static void remove_folder(void)
{
    gg_remove_tree(folder);
}

static void make_folder(void)
{
    const char *in = getenv("FUZZ_ROOM");
    if (!in) in = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/organ-fuzz.XXXXXX", in);
    FUZZ_MUST(mkdtemp(folder));
    atexit(remove_folder);
}

const char *room(const char *name)
{
    static char paths[16][300];
    static unsigned turn;
    if (!folder[0]) make_folder();
    char *p = paths[turn++ % 16];
    snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

/* A file that is there is written over and then cut, which is faster than making it empty first. */
void room_put(const char *name, const void *bytes, size_t n)
{
    int fd = open(room(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    FUZZ_MUST(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    FUZZ_MUST(ftruncate(fd, (off_t)n) == 0 && close(fd) == 0);
}

bool room_has(const char *name)
{
    struct stat s;
    return lstat(room(name), &s) == 0;
}

static uint8_t *slurp(const char *path, size_t *n)
{
    struct stat s;
    FILE *f = fopen(path, "rb");
    if (!f) perror(path);
    FUZZ_MUST(f && fstat(fileno(f), &s) == 0);
    uint8_t *bytes = malloc((size_t)s.st_size + 1);
    *n = (size_t)s.st_size;
    FUZZ_MUST(bytes && fread(bytes, 1, *n, f) == *n);
    fclose(f);
    return bytes;
}

uint8_t *room_get(const char *name, size_t *n)
{
    return slurp(room(name), n);
}

bool room_is(const char *name, const void *bytes, size_t n)
{
    size_t m;
    uint8_t *now = room_get(name, &m);
    bool same = n == m && memcmp(now, bytes, n) == 0;
    free(now);
    return same;
}

void room_remove(const char *name)
{
    if (unlink(room(name)) != 0) gg_remove_tree(room(name));
}

size_t room_count(void)
{
    if (!folder[0]) make_folder();
    DIR *d = opendir(folder);
    size_t n = 0;
    FUZZ_MUST(d);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

void room_copy(const char *from, const char *name)
{
    size_t n;
    uint8_t *bytes = slurp(from, &n);
    room_put(name, bytes, n);
    free(bytes);
}

size_t room_choices(const uint8_t *data, size_t size, uint8_t *choices, size_t n)
{
    size_t have = size < n ? size : n;
    memset(choices, 0, n);
    if (have) memcpy(choices, data + size - have, have);
    return size - have;
}

bool room_settle(gg_status st, const gg_error *e, const char *output, size_t count)
{
    if (st != GG_OK) {
        FUZZ_MUST(e->status != GG_OK && e->what[0]);
        FUZZ_MUST(!room_has(output) && room_count() == count);
        return false;
    }
    FUZZ_MUST(room_has(output) && room_count() == count + 1);
    gg_source *s = room_open(output);
    FUZZ_MUST(s);
    gg_source_close(s);
    room_remove(output);
    return true;
}

/* Whether the values of a tensor are those of another, of the same type and shape. */
static bool same_values(gg_source *a, gg_source *b, size_t i)
{
    const gg_tensor *t = gg_source_tensor(a, i), *u = gg_source_tensor(b, i);
    gg_error e = GG_ERROR_INIT;
    gg_data d;
    uint8_t *bytes[2];
    bool same = t->dtype == u->dtype && t->bytes == u->bytes;
    for (size_t k = 0; k < 2; k++) {
        gg_source *s = k ? b : a;
        bytes[k] = malloc((size_t)t->bytes + 1);
        FUZZ_MUST(bytes[k] && gg_data_open(s, i, &d, &e) == GG_OK);
        FUZZ_MUST(gg_data_read(&d, 0, bytes[k], (size_t)t->bytes, &e) == GG_OK);
        gg_data_close(&d);
    }
    if (same && memcmp(bytes[0], bytes[1], (size_t)t->bytes) != 0 && gg_can_decode(t->dtype)) {
        size_t n = (size_t)t->elements;
        float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
        FUZZ_MUST(x && y && gg_decode(t->dtype, bytes[0], x, n, &e) == GG_OK &&
                  gg_decode(t->dtype, bytes[1], y, n, &e) == GG_OK);
        for (size_t k = 0; k < n; k++)
            same = same && (memcmp(&x[k], &y[k], sizeof *x) == 0 || (isnan(x[k]) && isnan(y[k])));
        free(x), free(y);
    }
    free(bytes[0]), free(bytes[1]);
    return same;
}

void room_same(gg_source *a, gg_source *b)
{
    FUZZ_MUST(a && b && gg_source_count(a) == gg_source_count(b));
    for (size_t i = 0; i < gg_source_count(a); i++) FUZZ_MUST(same_values(a, b, i));
}

void room_repeat(size_t size, room_writer write, void *ctx)
{
    gg_error e = GG_ERROR_INIT;
    const gg_run lanes = { .threads = 3 };
    size_t n;
    int top = gg_isa();
    if (size % 8 != 3 || !room_has("out.gguf")) return;
    gg_isa_set(0);
    gg_status st = write(ctx, &lanes, room("again.gguf"), &e);
    gg_isa_set(top);
    if (st != GG_OK) fprintf(stderr, "%s: %s\n", e.tensor, e.what);
    FUZZ_MUST(st == GG_OK);
    uint8_t *bytes = room_get("again.gguf", &n);
    if (!room_is("out.gguf", bytes, n)) {
        gg_source *a = room_open("out.gguf"), *b = room_open("again.gguf");
        room_same(a, b);
        gg_source_close(a);
        gg_source_close(b);
    }
    free(bytes);
    room_remove("again.gguf");
}

gg_source *room_open(const char *name)
{
    gg_source *s = NULL;
    gg_error e = GG_ERROR_INIT;
    if (gg_source_open(room(name), &s, &e) == GG_OK) return s;
    FUZZ_MUST(!s && e.what[0]);
    return NULL;
}

gg_status room_assemble(const char *path, const gg_assemble_options *o, const char *output,
                        const gg_run *run, gg_assemble_report *report, gg_error *e)
{
    gg_source *s = NULL;
    gg_status st = gg_source_open_with(path, NULL, &s, e);
    if (st == GG_OK) st = gg_assemble(s, o, output, run, report, e);
    gg_source_close(s);
    return st;
}

gg_status room_prune(const char *path, const gg_prune_options *o, const char *output,
                     const gg_run *run, gg_error *e)
{
    gg_source *s = NULL;
    gg_assemble_report report;
    gg_status st = gg_source_open_with(path, NULL, &s, e);
    if (st == GG_OK) st = gg_prune(s, o, output, run, &report, e);
    gg_source_close(s);
    return st;
}
