/* t_source.c - one model in every form: file, shards, directory, records, pipe of a
 * GGUF, pipe of records. All give the same tensors and the same bytes. */
#include "files.h"

#include "base/io.h"
#include "base/output.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"
#include "organ/record.h"
#include "organ/source_layout.h"

#include <fcntl.h>
#include <sys/wait.h>

#define BASIC "tests/data/gguf/types-all.gguf"
#define SHARD "tests/data/gguf/x-00002-of-00003.gguf"

static gg_source *source(const char *spec)
{
    gg_source *s = NULL;
    gg_error e = GG_ERROR_INIT;
    T_CHECKF(gg_source_open_with(spec, NULL, &s, &e) == GG_OK, "%s: %s", spec, e.what);
    if (!s) exit(1);
    return s;
}

static void make_dir(const char *model, const char *dir)
{
    gg_source *s = source(model);
    gg_run run = { 0 };
    gg_extract_options o = { 0 };
    gg_extract_report r;
    gg_error e = GG_ERROR_INIT;
    gg_remove_tree(dir);
    T_CHECKF(gg_extract(s, &o, dir, &run, &r, &e) == GG_OK, "%s", e.what);
    gg_source_close(s);
}

static void make_stream(const char *model, const char *path)
{
    gg_source *s = source(model);
    gg_run run = { 0 };
    gg_extract_options o = { 0 };
    gg_extract_report r;
    gg_error e = GG_ERROR_INIT;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    fflush(stdout);
    int keep = dup(STDOUT_FILENO);
    dup2(fd, STDOUT_FILENO);
    gg_status st = gg_extract(s, &o, "-", &run, &r, &e);
    dup2(keep, STDOUT_FILENO);
    close(keep);
    close(fd);
    T_CHECKF(st == GG_OK, "%s", e.what);
    gg_source_close(s);
}

/* Everything a source gives, front to back, in one run of bytes: for each tensor its
 * record header and its data, read in pieces of `step`. */
static char *drink(gg_source *s, size_t step, size_t *n)
{
    char *all = NULL;
    *n = 0;
    for (size_t i = 0;; i++) {
        bool more = false;
        gg_error e = GG_ERROR_INIT;
        gg_data d;
        T_CHECKF(gg_source_next(s, i, &more, &e) == GG_OK, "%s", e.what);
        if (!more) break;
        const gg_tensor *t = gg_source_tensor(s, i);
        all = realloc(all, *n + GG_RECORD_HEADER + t->bytes + 1);
        if (!all) exit(1);
        *n += gg_record_header(t, (uint8_t *)all + *n);
        T_CHECK(gg_data_open(s, i, &d, &e) == GG_OK && d.bytes == t->bytes);
        for (uint64_t at = 0; at < t->bytes; at += step) {
            size_t k = t->bytes - at < step ? (size_t)(t->bytes - at) : step;
            T_CHECKF(gg_data_read(&d, at, all + *n, k, &e) == GG_OK, "%s", e.what);
            *n += k;
        }
        gg_data_close(&d);
    }
    return all;
}

/* The same from a child's stdout on our stdin. */
static void pipe_in(const char *path)
{
    int fd[2];
    if (pipe(fd) != 0) exit(1);
    pid_t child = fork();
    if (child == 0) {
        size_t n;
        char *bytes = slurp(path, &n);
        close(fd[0]);
        for (size_t at = 0; at < n; at += 1000)
            if (write(fd[1], bytes + at, n - at < 1000 ? n - at : 1000) < 0) break;
        _exit(0);
    }
    close(fd[1]);
    dup2(fd[0], STDIN_FILENO);
    close(fd[0]);
}

static void pipe_end(void)
{
    close(STDIN_FILENO);
    if (open("/dev/null", O_RDONLY) != STDIN_FILENO) exit(1);
    while (wait(NULL) > 0) {}
}

static void same_bytes(const char *what, gg_source *s, size_t step, const char *want, size_t want_n)
{
    size_t n;
    char *got = drink(s, step, &n);
    T_CHECKF(n == want_n && memcmp(got, want, n) == 0, "%s, by %zu: other bytes", what, step);
    free(got);
    gg_source_close(s);
}

static void all_ways_agree(const char *model)
{
    static const size_t steps[] = { 1, 13, 4096, 1 << 20 };
    size_t n;
    make_stream(model, scratch("s.bin"));
    make_dir(model, scratch("d"));
    char *want = slurp(scratch("s.bin"), &n);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        same_bytes("model", source(model), steps[i], want, n);
        same_bytes("directory", source(scratch("d")), steps[i], want, n);
        same_bytes("records", source(scratch("s.bin")), steps[i], want, n);
        pipe_in(scratch("s.bin"));
        same_bytes("records on a pipe", source("-"), steps[i], want, n);
        pipe_end();
        if (strcmp(model, SHARD) == 0) continue;
        pipe_in(model);
        same_bytes("model on a pipe", source("-"), steps[i], want, n);
        pipe_end();
    }
    free(want);
}

static void one_file(void)
{
    all_ways_agree(BASIC);
    all_ways_agree("tests/data/gguf/v3-basic.gguf");
    all_ways_agree("tests/data/gguf/zero-element-tensors.gguf");
    all_ways_agree("tests/data/gguf/padding-nonzero.gguf");
    all_ways_agree("tests/data/gguf/names-not-utf8.gguf");
}

static void shards(void)
{
    all_ways_agree(SHARD);
}

static void several_files(void)
{
    make_stream("tests/data/gguf/v3-basic.gguf", scratch("a.bin"));
    make_stream("tests/data/gguf/dims-1-to-4.gguf", scratch("b.bin"));
    char a[300], b[300];
    snprintf(a, sizeof a, "%s", scratch("a.bin"));
    snprintf(b, sizeof b, "%s", scratch("b.bin"));
    char *const second[] = { b }, *const wrong[] = { (char[]){ "tests/data/gguf/v3-basic.gguf" } };
    gg_source_options both = { .more = second, .n_more = 1 }, bad = { .more = wrong, .n_more = 1 };
    gg_source *s = NULL;
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT;
    T_CHECK(gg_source_open_with(a, &both, &s, &e) == GG_OK && gg_source_count(s) == 12 &&
            gg_source_meta(s) == NULL);
    size_t n, x, y;
    char *got = drink(s, 100, &n), *p = slurp(a, &x), *q = slurp(b, &y);
    T_CHECK(n == x + y && memcmp(got, p, x) == 0 && memcmp(got + x, q, y) == 0);
    free(got), free(p), free(q);
    gg_source_close(s);
    T_EQ(gg_source_open_with(a, &bad, &s, &e2), GG_EUSAGE);
    T_CHECK(strcmp(e2.file, wrong[0]) == 0);
    T_EQ(gg_source_open_with(wrong[0], &both, &s, &e3), GG_EUSAGE);
    T_CHECK(strcmp(e3.file, wrong[0]) == 0);
}

static void found_by_name(void)
{
    make_dir(BASIC, scratch("d"));
    make_stream(BASIC, scratch("s.bin"));
    const char *const specs[] = { BASIC, scratch("d"), scratch("s.bin") };
    for (size_t k = 0; k < 3; k++) {
        gg_source *s = source(specs[k]);
        T_CHECK(gg_source_seekable(s) && gg_source_count(s) == 35);
        for (size_t i = 0; i < gg_source_count(s); i++) {
            const gg_tensor *t = gg_source_tensor(s, i);
            T_EQ(gg_source_find(s, t->name, t->name_len), i);
        }
        T_CHECK(gg_source_find(s, "nothing", 7) == SIZE_MAX &&
                gg_source_find(s, "", 0) == SIZE_MAX);
        T_CHECK((gg_source_meta(s) == NULL) == (k == 2) &&
                (gg_source_manifest(s) != NULL) == (k == 1));
        T_CHECK((gg_source_model(s) != NULL) == (k == 0) &&
                (gg_source_header(s) != NULL) == (k == 0));
        gg_source_close(s);
    }
}

/* A pipe is read forward: skipping is fine, going back is an error and no mess. */
static void pipes_go_forward(void)
{
    pipe_in(BASIC);
    gg_source *s = source("-");
    bool more = false;
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    gg_data d;
    char buf[8], want[8];
    T_CHECK(!gg_source_seekable(s) && gg_source_header(s) != NULL);
    T_CHECK(gg_source_next(s, 0, &more, &e) == GG_OK && more &&
            gg_data_open(s, 0, &d, &e) == GG_OK);
    T_EQ(gg_data_read(&d, 4, buf, 8, &e), GG_OK);
    gg_source *file = source(BASIC);
    gg_data f;
    T_CHECK(gg_data_open(file, 0, &f, &e) == GG_OK && gg_data_read(&f, 4, want, 8, &e) == GG_OK &&
            memcmp(buf, want, 8) == 0);
    T_EQ(gg_data_read(&d, 0, buf, 8, &e2), GG_EUSAGE);
    gg_data_close(&d);
    gg_data_close(&f);
    for (size_t i = 1; i < 5; i++)
        T_CHECKF(gg_source_next(s, i, &more, &e) == GG_OK && more, "%s", e.what); /* unread */
    T_CHECK(gg_data_open(s, 4, &d, &e) == GG_OK && gg_data_read(&d, 0, buf, 4, &e) == GG_OK);
    T_CHECK(gg_data_open(file, 4, &f, &e) == GG_OK && gg_data_read(&f, 0, want, 4, &e) == GG_OK &&
            memcmp(buf, want, 4) == 0);
    gg_source_close(file);
    gg_source_close(s);
    pipe_end();
}

static void copies(void)
{
    size_t n;
    char *bytes = slurp(BASIC, &n);
    gg_source *s = source(BASIC);
    const gg_tensor *t = gg_source_tensor(s, 3);
    int fd = open(scratch("copy"), O_RDWR | O_CREAT | O_TRUNC, 0666);
    gg_data d;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_data_open(s, 3, &d, &e), GG_OK);
    T_CHECK(gg_data_copy(&d, 0, t->bytes, (gg_place){ fd, GG_AT_POS }, &e) == GG_OK &&
            gg_data_copy(&d, 4, 8, (gg_place){ fd, 1000 }, &e) == GG_OK);
    char *got = slurp(scratch("copy"), &n);
    T_CHECK(n == 1008 && memcmp(got, bytes + d.at, t->bytes) == 0 &&
            memcmp(got + 1000, bytes + d.at + 4, 8) == 0);
    gg_data_close(&d);
    close(fd);
    free(got);
    free(bytes);
    gg_source_close(s);
}

static void bad_specs(void)
{
    static const char *const bad[] = { "tests/data/none.gguf", "tests/data/none.bin", "tests/data",
                                       "tests/data/README.md" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gg_source *s = NULL;
        gg_error e = GG_ERROR_INIT;
        T_CHECKF(gg_source_open(bad[i], &s, &e) != GG_OK && e.file[0] && e.what[0], "%s", bad[i]);
    }
    spew(scratch("cut.bin"),
         "\x01\0\0\0a\x01\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0"
         "1234567",
         28); /* F32 x 8, 7 bytes there */
    gg_source *s = NULL;
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    T_CHECK(gg_source_open(scratch("cut.bin"), &s, &e) == GG_EFORMAT && strcmp(e.tensor, "a") == 0);
    spew(scratch("empty.bin"), "", 0);
    T_CHECK(gg_source_open(scratch("empty.bin"), &s, &e2) == GG_OK && gg_source_count(s) == 0);
    gg_source_close(s);
}

static const t_case cases[] = {
    { "one file in every form", one_file },
    { "shards in every form", shards },
    { "several files of records", several_files },
    { "tensors are found by name", found_by_name },
    { "pipes go forward", pipes_go_forward },
    { "copies", copies },
    { "bad specs", bad_specs },
};

T_MAIN(cases)
