/* t_output_guard.c - which outputs would overwrite an input, and are refused. */
#include "files.h"

#include "base/output.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"
#include "organ/output_guard.h"

#define MODEL "tests/data/gguf/types-all.gguf"
#define SHARD "tests/data/gguf/x-00002-of-00003.gguf"

static gg_source *source(const char *spec)
{
    gg_source *s = NULL;
    gg_error e = GG_ERROR_INIT;
    T_CHECKF(gg_source_open(spec, &s, &e) == GG_OK, "%s: %s", spec, e.what);
    if (!s) exit(1);
    return s;
}

/* An organ directory, open. */
static gg_source *directory(const char *dir)
{
    gg_source *s = source(MODEL);
    gg_error e = GG_ERROR_INIT;
    gg_remove_tree(dir);
    T_CHECKF(gg_extract(s, NULL, dir, NULL, NULL, &e) == GG_OK, "%s", e.what);
    gg_source_close(s);
    return source(dir);
}

static void guard(const gg_source *s, const char *path, gg_status want)
{
    gg_error e = GG_ERROR_INIT;
    gg_status got = gg_guard_output(path, s, &e);
    T_CHECKF(got == want, "%s: %s", path, got == GG_OK ? "allowed" : "refused");
    T_CHECKF(got == GG_OK || (e.file[0] && strstr(e.what, "inside the organ directory")), "%s: %s",
             path, e.what);
}

static void inside_a_directory(void)
{
    static const char *const allowed[] = { "/new.gguf",
                                           "/new.gguf/",
                                           "/manifest.jso",
                                           "/anifest.json",
                                           "/xmanifest.json",
                                           "/manifest.jsonx",
                                           "/organ",
                                           "/xorgans",
                                           "/rgans",
                                           "/trailing",
                                           "/x.y",
                                           "/no such folder/manifest.json" },
                             *const refused[] = {
                                 "/manifest.json",  "/manifest.json/",  "/manifest.json//",
                                 "//manifest.json", "/./manifest.json", "/other/../manifest.json",
                                 "/other/x.bin",    "/other/new.gguf",  "/other",
                                 "/organs/",        "/skeleton",        "/embed",
                                 "/norm",           "/adapters",        "/trailing-",
                                 "/trailing-0.bin", "/.new.gguf",       "/..."
                             };
    char dir[300], path[800], beside[320];
    snprintf(dir, sizeof dir, "%s", scratch("g"));
    gg_source *s = directory(dir);
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        snprintf(path, sizeof path, "%s%s", dir, allowed[i]);
        guard(s, path, GG_OK);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        snprintf(path, sizeof path, "%s%s", dir, refused[i]);
        guard(s, path, GG_EUSAGE);
    }
    /* A name of 255 bytes is the longest that can be compared. */
    snprintf(path, sizeof path, "%s/%0255d", dir, 0);
    guard(s, path, GG_OK);
    snprintf(path, sizeof path, "%s/%0256d", dir, 0);
    guard(s, path, GG_EUSAGE);
    /* A folder whose name only begins like that of the directory. */
    snprintf(beside, sizeof beside, "%s2", dir);
    T_CHECK(mkdir(beside, 0777) == 0 || there(beside));
    snprintf(path, sizeof path, "%s/manifest.json", beside);
    guard(s, path, GG_OK);
    guard(s, "-", GG_OK);
    guard(NULL, dir, GG_OK);
    gg_source_close(s);
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    s = source(MODEL); /* is not a directory, so nothing is refused */
    guard(s, path, GG_OK);
    gg_source_close(s);
}

/* Relative names, seen from within the directory. */
static void in_the_working_folder(void)
{
    char was[1024];
    gg_source *s = directory(scratch("g"));
    gg_source_close(s);
    if (!getcwd(was, sizeof was) || chdir(scratch("g")) != 0) exit(1);
    s = source(".");
    guard(s, "manifest.json", GG_EUSAGE);
    guard(s, "m", GG_OK);
    guard(s, "anifest.json", GG_OK);
    guard(s, "other/x", GG_EUSAGE);
    guard(s, "./manifest.json", GG_EUSAGE);
    guard(s, "../manifest.json", GG_OK);
    gg_source_close(s);
    if (chdir(was) != 0) exit(1);
}

static void same_file(const gg_source *s, const char *path, gg_status want)
{
    gg_error e = GG_ERROR_INIT;
    gg_status got = gg_guard_output(path, s, &e);
    T_CHECKF(got == want && (got == GG_OK || e.file[0]), "%s: %d", path, (int)got);
}

static void input_is_output(void)
{
    gg_source *s = source(MODEL);
    unlink(scratch("link"));
    char link_to[1200];
    if (!getcwd(link_to, 1000)) exit(1);
    strcat(link_to, "/" MODEL);
    T_CHECK(symlink(link_to, scratch("link")) == 0);
    same_file(s, MODEL, GG_EUSAGE);
    same_file(s, "tests/../" MODEL, GG_EUSAGE);
    same_file(s, scratch("link"), GG_EUSAGE);
    same_file(s, SHARD, GG_OK);
    same_file(s, scratch("no such file"), GG_OK);
    same_file(s, "-", GG_OK);
    same_file(NULL, MODEL, GG_OK);
    gg_source_close(s);
    s = source(SHARD); /* all shards are inputs, not only the one that was named */
    same_file(s, SHARD, GG_EUSAGE);
    same_file(s, "tests/data/gguf/x-00001-of-00003.gguf", GG_EUSAGE);
    same_file(s, "tests/data/gguf/x-00003-of-00003.gguf", GG_EUSAGE);
    same_file(s, MODEL, GG_OK);
    gg_source_close(s);
}

static void hard_links(void)
{
    gg_error e = GG_ERROR_INIT;
    int fd;
    char one[300];
    unlink(scratch("two"));
    spew(scratch("one"), "x", 1);
    snprintf(one, sizeof one, "%s", scratch("one"));
    T_CHECK(gg_open_in_place(one, -1, (gg_in_place){ 0 }, &fd, &e) == GG_OK && fd >= 0);
    close(fd);
    T_CHECK(link(one, scratch("two")) == 0);
    T_CHECK(gg_open_in_place(one, -1, (gg_in_place){ .links = true }, &fd, &e) == GG_OK && fd >= 0);
    close(fd);
    T_CHECK(gg_open_in_place(one, -1, (gg_in_place){ 0 }, &fd, &e) == GG_EUSAGE &&
            strstr(e.what, "2 names"));
    T_STR(e.fix_arg, "force");
    close(fd);
}

/* A file that is changed has a lock, and another file under its name is not changed. */
static void in_place(void)
{
    gg_error e = GG_ERROR_INIT;
    int first, fd;
    char one[300];
    spew(scratch("locked"), "x", 1);
    snprintf(one, sizeof one, "%s", scratch("locked"));
    T_EQ(gg_open_in_place(one, -1, (gg_in_place){ 0 }, &first, &e), GG_OK);
    T_CHECK(gg_open_in_place(one, first, (gg_in_place){ 0 }, &fd, &e) == GG_EIO &&
            strstr(e.what, "another"));
    close(fd);
    e = (gg_error)GG_ERROR_INIT;
    unlink(one);
    spew(one, "x", 1);
    T_CHECK(gg_open_in_place(one, first, (gg_in_place){ 0 }, &fd, &e) == GG_EIO &&
            strstr(e.what, "replaced"));
    close(fd);
    close(first);
}

static const t_case cases[] = {
    { "outputs inside an organ directory", inside_a_directory },
    { "outputs in the working folder", in_the_working_folder },
    { "outputs that are inputs", input_is_output },
    { "hard links", hard_links },
    { "changes in place", in_place },
};

T_MAIN(cases)
