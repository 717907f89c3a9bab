/* t_changed.c - a source that changes between its opening and the end of a run: the run is
 * refused with GG_EIO, names the file, and leaves nothing. An unchanged source passes. */
#include "files.h"

#include "graft/gg_transplant.h"
#include "lora/gg_lora.h"
#include "merge/gg_merge.h"
#include "organ/gg_verbs.h"

#include "base/output.h"

#include <fcntl.h>

#define BASE "tests/data/gguf/v3-basic.gguf"

static const char *fresh(void)
{
    const char *f = scratch("c");
    gg_remove_tree(f);
    if (mkdir(f, 0777) != 0) perror(f);
    return f;
}

static void copy_to(const char *path)
{
    size_t n;
    char *bytes = slurp(BASE, &n);
    spew(path, bytes, n);
    free(bytes);
}

/* Write the last byte of the file again; the time of change moves on in any case. */
static void touch(const char *path)
{
    size_t n;
    char *bytes = slurp(path, &n);
    int fd = open(path, O_WRONLY);
    const struct timespec then[2] = { { 1000000000, 0 }, { 1000000000, 0 } };
    T_CHECK(fd >= 0 && pwrite(fd, bytes + n - 1, 1, (off_t)n - 1) == 1 && futimens(fd, then) == 0);
    close(fd);
    free(bytes);
}

static void keep(const char *path)
{
    (void)path;
}

/* As another program does that replaces the file: same bytes, another file. */
static void replace(const char *path)
{
    char temp[600];
    size_t n;
    char *bytes = slurp(path, &n);
    snprintf(temp, sizeof temp, "%s.new", path);
    spew(temp, bytes, n);
    T_CHECK(rename(temp, path) == 0);
    free(bytes);
}

typedef gg_status (*writer)(gg_source *s, gg_source *other, gg_error *e);

static gg_status to_dir(gg_source *s, gg_source *other, gg_error *e)
{
    gg_extract_options o = { 0 };
    gg_run run = { .threads = 2 };
    gg_extract_report r;
    (void)other;
    return gg_extract(s, &o, scratch("c/out"), &run, &r, e);
}

static gg_status to_model(gg_source *s, gg_source *other, gg_error *e)
{
    gg_transplant_options o = { 0 };
    gg_run run = { .threads = 2 };
    gg_transplant_report r;
    return gg_transplant(other, s, &o, scratch("c/out"), &run, &r, e);
}

static gg_status to_graft(gg_source *s, gg_source *other, gg_error *e)
{
    gg_transplant_options o = { .directory = true };
    gg_run run = { .threads = 2 };
    gg_transplant_report r;
    return gg_transplant(other, s, &o, scratch("c/out"), &run, &r, e);
}

static gg_status to_merge(gg_source *s, gg_source *other, gg_error *e)
{
    gg_merge_model list[2] = { { .source = other }, { .source = s } };
    gg_merge_models models = { .list = list, .n = 2 };
    gg_merge_options o = { .method = "linear", .no_hash = true };
    gg_run run = { .threads = 2 };
    gg_merge_report r = { 0 };
    return gg_merge(&models, &o, scratch("c/out"), &run, &r, e);
}

/* Open `spec`, change `file` in its way, and write. */
static void run(writer write, const char *spec, const char *file, void (*change)(const char *),
                gg_status want)
{
    gg_source *s = NULL, *other = NULL;
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    size_t before = count_names(scratch("c"));
    T_CHECK(gg_source_open(spec, &s, &e2) == GG_OK && gg_source_open(BASE, &other, &e2) == GG_OK);
    if (e2.status == GG_OK) {
        change(file);
        T_CHECKF(write(s, other, &e) == want, "%s: %s %s", file, e.file, e.what);
        T_EQ(there(scratch("c/out")), want == GG_OK);
        T_EQ(count_names(scratch("c")), before + (want == GG_OK));
        if (want != GG_OK) T_CHECKF(strcmp(e.file, file) == 0, "%s, not %s", e.file, file);
    }
    gg_source_close(s);
    gg_source_close(other);
    gg_remove_tree(scratch("c/out"));
}

static const writer writers[] = { to_dir, to_model, to_graft, to_merge };
enum { WRITERS = sizeof writers / sizeof writers[0] };

static void models(void)
{
    char path[600];
    fresh();
    snprintf(path, sizeof path, "%s", scratch("c/m.gguf"));
    for (int i = 0; i < WRITERS; i++) {
        copy_to(path);
        run(writers[i], path, path, keep, GG_OK);
        run(writers[i], path, path, touch, GG_EIO);
    }
}

static void directories(void)
{
    char dir[600], record[700], manifest[700];
    gg_source *s;
    gg_error e = GG_ERROR_INIT;
    fresh();
    snprintf(dir, sizeof dir, "%s", scratch("c/d"));
    T_CHECK(gg_source_open(BASE, &s, &e) == GG_OK && to_dir(s, NULL, &e) == GG_OK);
    gg_source_close(s);
    T_CHECK(rename(scratch("c/out"), dir) == 0 && gg_source_open(dir, &s, &e) == GG_OK);
    snprintf(manifest, sizeof manifest, "%s/manifest.json", dir);
    gg_source_close(s);
    for (int i = 0; i < WRITERS; i++) {
        run(writers[i], dir, manifest, keep, GG_OK);
        run(writers[i], dir, manifest, replace, GG_EIO);
    }
    snprintf(record, sizeof record, "%s/other/a.bin", dir);
    for (int i = 0; i < WRITERS; i++) {
        run(writers[i], dir, record, touch, GG_EIO);
        run(writers[i], dir, record, replace, GG_EIO);
    }
}

/* Each of the two models of an adapter. They must differ, or there is nothing to write. */
static void adapters(void)
{
    static const char base[] = "tests/data/lab/lab-base-q4_k_m.gguf";
    static const char tuned[] = "tests/data/lab/lab-verse-q4_k_m.gguf";
    char path[600];
    fresh();
    snprintf(path, sizeof path, "%s", scratch("c/m.gguf"));
    for (int k = 0; k < 3; k++) { /* the base changes, the other, none */
        gg_source *s[2] = { NULL, NULL };
        gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
        gg_lora_options o = { .rank = 1 };
        gg_run run = { .threads = 2 };
        gg_lora_report r;
        size_t n;
        char *bytes = slurp(k == 0 ? base : tuned, &n);
        spew(path, bytes, n);
        free(bytes);
        T_EQ(gg_source_open(k == 0 ? path : base, &s[0], &e2), GG_OK);
        T_EQ(gg_source_open(k == 0 ? tuned : path, &s[1], &e2), GG_OK);
        if (k < 2) touch(path);
        T_EQ(gg_lora_extract(s[0], s[1], &o, scratch("c/out"), &run, &r, &e),
             k < 2 ? GG_EIO : GG_OK);
        T_CHECKF(k == 2 || strcmp(e.file, path) == 0, "%s: %s", e.file, e.what);
        T_EQ(there(scratch("c/out")), k == 2);
        gg_source_close(s[0]);
        gg_source_close(s[1]);
    }
}

static const t_case cases[] = {
    { "a model that changes", models },
    { "a model of an adapter that changes", adapters },
    { "a directory that changes", directories },
};

T_MAIN(cases)
