/* t_output.c - files and folders appear whole or not at all. */
#include "files.h"

#include "base/io.h"
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

static void put(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text)) T_CHECK(false && "write");
}

static bool holds(const char *path, const char *text)
{
    if (!there(path)) return false;
    size_t n;
    char *bytes = slurp(path, &n);
    bool same = n == strlen(text) && memcmp(bytes, text, n) == 0;
    free(bytes);
    return same;
}

static bool yes(const char *path, gg_error *err)
{
    (void)path, (void)err;
    return true;
}

/* A fresh folder "f" for each case. */
static const char *fresh(void)
{
    const char *f = scratch("f");
    gg_remove_tree(f);
    if (mkdir(f, 0777) != 0) perror(f);
    return f;
}

static void commit_gives_the_name(void)
{
    fresh();
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_OK);
    put(gg_output_fd(o), "hello");
    T_CHECK(!there(scratch("f/x")) && count_names(scratch("f")) == 1);
    T_EQ(gg_output_commit(o, &e), GG_OK);
    T_CHECK(holds(scratch("f/x"), "hello") && count_names(scratch("f")) == 1);
}

/* Nobody may read meanwhile what replaces a private file. */
static void mode_of_the_old_from_the_start(void)
{
    struct stat s;
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    fresh();
    mode_t was = umask(0);
    T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_OK);
    T_CHECK(fstat(gg_output_fd(o), &s) == 0 && (s.st_mode & 07777) == 0666);
    T_EQ(gg_output_commit(o, &e), GG_OK);
    T_CHECK(chmod(scratch("f/x"), 0040) == 0);
    T_EQ(gg_output_open(scratch("f/x"), true, &o, &e), GG_OK);
    T_CHECK(fstat(gg_output_fd(o), &s) == 0 && (s.st_mode & 07777) == 0640);
    put(gg_output_fd(o), "new");
    T_EQ(gg_output_commit(o, &e), GG_OK);
    T_CHECK(stat(scratch("f/x"), &s) == 0 && (s.st_mode & 07777) == 0040 && s.st_size == 3);
    umask(was);
}

static void abort_leaves_nothing(void)
{
    fresh();
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_OK);
    put(gg_output_fd(o), "hello");
    gg_output_abort(o);
    gg_output_abort(NULL);
    T_EQ(count_names(scratch("f")), 0);
}

static void existing_is_refused(void)
{
    fresh();
    spew(scratch("f/x"), "old", 3);
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_EUSAGE);
    T_CHECK(e.fix_arg && strcmp(e.fix_arg, "force") == 0 && holds(scratch("f/x"), "old") &&
            count_names(scratch("f")) == 1);
    gg_error e2 = GG_ERROR_INIT;
    T_EQ(gg_output_open("", false, &o, &e2), GG_EUSAGE);
}

/* A name that appears while the work is done is refused at the end. */
static void late_comer_is_refused(void)
{
    fresh();
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_OK);
    put(gg_output_fd(o), "new");
    spew(scratch("f/x"), "other", 5);
    T_EQ(gg_output_commit(o, &e), GG_EUSAGE);
    T_CHECK(holds(scratch("f/x"), "other") && count_names(scratch("f")) == 1);
}

static void force_replaces(void)
{
    fresh();
    spew(scratch("f/x"), "old", 3);
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_output_open(scratch("f/x"), true, &o, &e), GG_OK);
    put(gg_output_fd(o), "new");
    T_CHECK(holds(scratch("f/x"), "old"));
    T_EQ(gg_output_commit(o, &e), GG_OK);
    T_CHECK(holds(scratch("f/x"), "new") && count_names(scratch("f")) == 1);
}

/* What a link points at is left alone: the link is replaced. */
static void links_are_not_followed(void)
{
    fresh();
    spew(scratch("f/target"), "precious", 8);
    T_EQ(symlink("target", scratch("f/x")), 0);
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_EUSAGE);
    gg_error e2 = GG_ERROR_INIT;
    T_EQ(gg_output_open(scratch("f/x"), true, &o, &e2), GG_OK);
    put(gg_output_fd(o), "new");
    T_EQ(gg_output_commit(o, &e2), GG_OK);
    T_CHECK(holds(scratch("f/target"), "precious") && holds(scratch("f/x"), "new"));
}

/* The N of the one temporary name in "f". */
static unsigned number_in_use(void)
{
    unsigned n = 0;
    DIR *d = opendir(scratch("f"));
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *dash = strrchr(e->d_name, '-');
        if (e->d_name[0] == '.' && dash) n = (unsigned)strtoul(dash + 1, NULL, 10);
    }
    if (d) closedir(d);
    return n;
}

static const char *temp_of(unsigned n)
{
    char name[64];
    snprintf(name, sizeof name, "f/.x.%ld-%u.tmp", (long)getpid(), n);
    return scratch(name);
}

/* Take the `count` temporary names that come next; returns the first of them. */
static unsigned take_names(unsigned count, bool folders)
{
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    fresh();
    T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_OK);
    unsigned first = number_in_use() + 1;
    gg_output_abort(o);
    for (unsigned i = 0; i < count; i++)
        if (!folders) spew(temp_of(first + i), "other", 5);
        else if (mkdir(temp_of(first + i), 0777) != 0) perror("mkdir");
    return first;
}

/* As where every run has the same PID: what another made under the name that would come
 * next is its own, an empty folder too. */
static void names_of_others_stay(void)
{
    for (int folders = 0; folders < 2; folders++) {
        gg_output *o;
        gg_outdir *d;
        gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
        unsigned first = take_names(3, folders);
        T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_OK);
        T_CHECK(e.status != GG_OK || gg_output_commit(o, &e) == GG_OK);
        T_CHECK(there(scratch("f/x")) && count_names(scratch("f")) == 4);
        first = take_names(3, folders);
        T_EQ(gg_outdir_open(scratch("f/x"), false, yes, &d, &e2), GG_OK);
        T_CHECK(e2.status != GG_OK || gg_outdir_commit(d, &e2) == GG_OK);
        T_CHECK(there(scratch("f/x")) && there(temp_of(first)) && count_names(scratch("f")) == 4);
    }
}

static void names_run_out(void)
{
    gg_output *o;
    gg_outdir *d;
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    take_names(300, true);
    T_CHECK(gg_output_open(scratch("f/x"), false, &o, &e) == GG_EIO && e.sys_errno == EEXIST);
    T_CHECKF(strstr(e.fix, ".tmp") && !strstr(e.fix, "written to"), "%s", e.fix);
    T_CHECK(gg_outdir_open(scratch("f/x"), false, yes, &d, &e2) == GG_EIO &&
            e2.sys_errno == EEXIST);
    T_EQ(count_names(scratch("f")), 300);
}

static void no_folder_no_file(void)
{
    fresh();
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_output_open(scratch("f/none/x"), false, &o, &e) == GG_EIO && e.sys_errno != 0 &&
            e.file[0]);
    spew(scratch("f/plain"), "", 0);
    gg_error e2 = GG_ERROR_INIT;
    T_EQ(gg_output_open(scratch("f/plain/x"), false, &o, &e2), GG_EIO);
}

static void long_names_fit(void)
{
    fresh();
    char name[300] = "f/";
    memset(name + 2, 'n', 250);
    strcpy(name + 252, ".gg");
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_output_open(scratch(name), false, &o, &e), GG_OK);
    T_CHECK(e.status != GG_OK || gg_output_commit(o, &e) == GG_OK);
    T_CHECK(there(scratch(name)));
}

static void room_is_made(void)
{
    fresh();
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_OK);
    T_CHECK(gg_output_reserve(o, 0, 0, &e) == GG_OK && gg_output_reserve(o, 10000, 0, &e) == GG_OK);
    T_EQ(gg_put_all(gg_output_fd(o), "end", 3, 9997, &e), GG_OK);
    T_EQ(gg_output_commit(o, &e), GG_OK);
    size_t n;
    char *bytes = slurp(scratch("f/x"), &n);
    T_CHECK(n == 10000 && memcmp(bytes + 9997, "end", 3) == 0);
    free(bytes);
}

/* In tmpfs, space is compared and not allocated. */
static void memory_is_not_allocated(void)
{
#ifdef __linux__
    struct statfs s;
    struct stat file;
    char name[64];
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    snprintf(name, sizeof name, "/dev/shm/t_output.%ld", (long)getpid());
    if (statfs("/dev/shm", &s) != 0 || s.f_type != 0x01021994 || s.f_blocks == 0) return;
    if (gg_output_open(name, false, &o, &e) != GG_OK) return;
    uint64_t free_bytes = (uint64_t)s.f_bsize * (uint64_t)s.f_bavail;
    T_EQ(gg_output_reserve(o, free_bytes / 2, 0, &e), GG_OK);
    T_CHECK(fstat(gg_output_fd(o), &file) == 0 && file.st_blocks == 0);
    const uint64_t all = (uint64_t)s.f_bsize * s.f_blocks;
    const uint64_t sizes[][2] = { { all + 1, 0 }, { 1, all }, { 2, UINT64_MAX } };
    for (size_t i = 0; i < 3; i++) {
        e = (gg_error)GG_ERROR_INIT;
        T_EQ(gg_output_reserve(o, sizes[i][0], sizes[i][1], &e), GG_EIO);
    }
    T_CHECKF(strstr(e.what, "cannot reserve") != NULL, "%s", e.what);
    gg_output_abort(o);
#endif
}

static bool no(const char *path, gg_error *err)
{
    (void)path, (void)err;
    return false;
}

static void fill(gg_outdir *d, const char *name, const char *text)
{
    int fd;
    gg_error e = GG_ERROR_INIT;
    T_CHECKF(gg_outdir_create(d, name, &fd, &e) == GG_OK, "%s: %s", name, e.what);
    if (e.status != GG_OK) return;
    put(fd, text);
    close(fd);
}

static void folder_appears_whole(void)
{
    fresh();
    gg_outdir *d;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_outdir_open(scratch("f/d///"), false, yes, &d, &e), GG_OK);
    fill(d, "a", "1");
    fill(d, "sub/b", "2");
    fill(d, "sub/c", "3");
    T_CHECK(!there(scratch("f/d")) && count_names(scratch("f")) == 1);
    T_EQ(gg_outdir_commit(d, &e), GG_OK);
    T_CHECK(holds(scratch("f/d/a"), "1") && holds(scratch("f/d/sub/c"), "3") &&
            count_names(scratch("f")) == 1);
}

static void folder_abort_leaves_nothing(void)
{
    fresh();
    gg_outdir *d;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_outdir_open(scratch("f/d"), false, yes, &d, &e), GG_OK);
    fill(d, "sub/b", "2");
    gg_outdir_abort(d);
    gg_outdir_abort(NULL);
    T_EQ(count_names(scratch("f")), 0);
}

static void folder_names_are_safe(void)
{
    fresh();
    gg_outdir *d;
    int fd;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_outdir_open(scratch("f/d"), false, yes, &d, &e), GG_OK);
    fill(d, "a", "1");
    static const char *const bad[] = { "a", "x/y/z", "/x", "a/b" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gg_error e2 = GG_ERROR_INIT;
        T_CHECKF(gg_outdir_create(d, bad[i], &fd, &e2) != GG_OK, "%s", bad[i]);
    }
    spew(scratch("f/source"), "linked", 6);
    T_EQ(gg_outdir_link(d, scratch("f/source"), "sub/l", &e), GG_OK);
    T_CHECK(gg_outdir_commit(d, &e) == GG_OK && holds(scratch("f/d/sub/l"), "linked"));
}

static void folder_existing(void)
{
    fresh();
    mkdir(scratch("f/d"), 0777);
    gg_outdir *d;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_outdir_open(scratch("f/d"), false, no, &d, &e), GG_OK); /* empty: as good as none */
    fill(d, "a", "1");
    T_EQ(gg_outdir_commit(d, &e), GG_OK);
    gg_error e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT, e4 = GG_ERROR_INIT;
    T_EQ(gg_outdir_open(scratch("f/d"), false, yes, &d, &e2), GG_EUSAGE);
    T_EQ(gg_outdir_open(scratch("f/d"), true, no, &d, &e3), GG_EUSAGE);
    T_CHECK(holds(scratch("f/d/a"), "1"));
    T_EQ(gg_outdir_open(scratch("f/d"), true, yes, &d, &e4), GG_OK);
    fill(d, "b", "2");
    T_CHECK(holds(scratch("f/d/a"), "1"));
    T_EQ(gg_outdir_commit(d, &e4), GG_OK);
    T_CHECK(holds(scratch("f/d/b"), "2") && !there(scratch("f/d/a")) &&
            count_names(scratch("f")) == 1);
}

static void folder_over_a_file(void)
{
    fresh();
    spew(scratch("f/d"), "file", 4);
    gg_outdir *d;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_outdir_open(scratch("f/d"), true, yes, &d, &e), GG_EUSAGE);
    T_CHECK(holds(scratch("f/d"), "file"));
    gg_error e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT;
    T_EQ(gg_outdir_open(scratch("f/d/"), true, yes, &d, &e2), GG_EUSAGE);
    mkdir(scratch("f/to"), 0777);
    T_EQ(symlink("to", scratch("f/link")), 0);
    T_EQ(gg_outdir_open(scratch("f/link/"), true, yes, &d, &e3), GG_EUSAGE);
}

static void remove_tree_spares_links(void)
{
    fresh();
    mkdir(scratch("f/keep"), 0777);
    spew(scratch("f/keep/x"), "x", 1);
    mkdir(scratch("f/gone"), 0777);
    T_EQ(symlink("../keep", scratch("f/gone/link")), 0);
    gg_remove_tree(scratch("f/gone"));
    T_CHECK(!there(scratch("f/gone")) && holds(scratch("f/keep/x"), "x"));
}

/* Between a pipe, a file and a file, every size around the chunk. */
static void copies_are_exact(void)
{
    fresh();
    size_t n = GG_CHUNK + 12345;
    char *bytes = malloc(n);
    if (!bytes) exit(1);
    for (size_t i = 0; i < n; i++) bytes[i] = (char)(i * 7 + i / 251);
    spew(scratch("f/in"), bytes, n);
    int in = open(scratch("f/in"), O_RDONLY), out = open(scratch("f/out"), O_RDWR | O_CREAT, 0666);
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_copy(NULL, (gg_place){ in, 5 }, (gg_place){ out, 3 }, n - 5, &e), GG_OK);
    char *back = malloc(n);
    if (!back) exit(1);
    T_CHECK(gg_pread_all(out, back, n - 5, 3, &e) == GG_OK && memcmp(back, bytes + 5, n - 5) == 0);
    T_EQ(gg_copy(NULL, (gg_place){ in, n - 4 }, (gg_place){ out, 0 }, 5, &e),
         GG_EFORMAT); /* one byte more than there is */
    gg_error e2 = GG_ERROR_INIT;
    T_EQ(gg_pread_all(out, back, 5, n - 6, &e2), GG_EFORMAT);
    gg_error e3 = GG_ERROR_INIT;
    size_t got = 0;
    lseek(in, (off_t)n - 10, SEEK_SET);
    T_CHECK(gg_read_some(in, back, 100, &got, &e3) == GG_OK && got == 10 &&
            memcmp(back, bytes + n - 10, 10) == 0);
    close(in);
    close(out);
    free(back);
    free(bytes);
}

static gg_outdir *folder(const char *path, gg_error *e)
{
    gg_outdir *d = NULL;
    int fd;
    T_EQ(gg_outdir_open(path, false, yes, &d, e), GG_OK);
    T_EQ(gg_outdir_create(d, "a", &fd, e), GG_OK);
    put(fd, "in it");
    close(fd);
    return d;
}

/* Two files and a folder that wait for their names. */
static void commit_three(gg_error *e)
{
    static const char *const names[] = { "f/x", "f/y" };
    fresh();
    for (int i = 0; i < 2; i++) {
        gg_output *o = NULL;
        T_EQ(gg_output_open(scratch(names[i]), false, &o, e), GG_OK);
        put(gg_output_fd(o), names[i]);
        T_EQ(gg_output_commit(o, e), GG_OK);
    }
    T_EQ(gg_outdir_commit(folder(scratch("f/new/d"), e), e), GG_OK);
    T_CHECK(!there(scratch("f/x")) && !there(scratch("f/y")) && !there(scratch("f/new/d")));
    T_CHECK(holds(gg_output_where(scratch("f/y")), "f/y"));
}

/* From here on all outputs of this program wait. */
static void several_appear_together(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_outputs_hold();
    commit_three(&e);
    T_EQ(gg_outputs_release(&e), GG_OK);
    T_CHECK(holds(scratch("f/x"), "f/x") && holds(scratch("f/y"), "f/y"));
    T_CHECK(holds(scratch("f/new/d/a"), "in it") && count_names(scratch("f")) == 3);
    T_CHECK(strcmp(gg_output_where(scratch("f/y")), scratch("f/y")) == 0);
}

static void or_none_does(void)
{
    gg_error e = GG_ERROR_INIT;
    commit_three(&e);
    gg_outputs_drop();
    T_EQ(count_names(scratch("f")), 0);
    commit_three(&e);
    T_CHECK(mkdir(scratch("f/new/d"), 0777) == 0 && e.status == GG_OK);
    spew(scratch("f/new/d/other"), "x", 1); /* someone else was faster */
    T_EQ(gg_outputs_release(&e), GG_EUSAGE);
    T_CHECK(!there(scratch("f/x")) && !there(scratch("f/y")) && count_names(scratch("f")) == 1);
    T_CHECK(holds(scratch("f/new/d/other"), "x") && count_names(scratch("f/new")) == 1);
}

/* What was replaced comes back if a later name cannot be given, and a folder that has a name by
 * then is never moved away. */
static void replaced_files_come_back(void)
{
    gg_error e = GG_ERROR_INIT;
    fresh();
    spew(scratch("f/x"), "old", 3);
    spew(scratch("f/y"), "old", 3);
    for (const char *const *path = (const char *const[]){ "f/x", "f/y", NULL }; *path; path++) {
        gg_output *o = NULL;
        if (gg_output_open(scratch(*path), true, &o, &e) == GG_OK) {
            put(gg_output_fd(o), "new");
            gg_output_commit(o, &e);
        }
    }
    T_CHECK(e.status == GG_OK && unlink(scratch("f/y")) == 0 && mkdir(scratch("f/y"), 0777) == 0);
    spew(scratch("f/y/kept"), "x", 1);
    T_EQ(gg_outputs_release(&e), GG_EIO);
    T_CHECK(holds(scratch("f/x"), "old") && holds(scratch("f/y/kept"), "x"));
    T_EQ(count_names(scratch("f")), 2);
}

static void at_once_means_at_once(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_output *o;
    fresh();
    T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_OK);
    gg_output_at_once(o);
    T_EQ(gg_output_commit(o, &e), GG_OK);
    T_CHECK(there(scratch("f/x")));
}

static const t_case cases[] = {
    { "commit gives the name", commit_gives_the_name },
    { "the mode of the old file, from the start", mode_of_the_old_from_the_start },
    { "abort leaves nothing", abort_leaves_nothing },
    { "existing is refused", existing_is_refused },
    { "a late comer is refused", late_comer_is_refused },
    { "force replaces", force_replaces },
    { "links are not followed", links_are_not_followed },
    { "names of others stay", names_of_others_stay },
    { "names run out", names_run_out },
    { "no folder, no file", no_folder_no_file },
    { "long names fit", long_names_fit },
    { "room is made", room_is_made },
    { "memory is not allocated in tmpfs", memory_is_not_allocated },
    { "a folder appears whole", folder_appears_whole },
    { "an aborted folder leaves nothing", folder_abort_leaves_nothing },
    { "names in a folder are safe", folder_names_are_safe },
    { "existing folders", folder_existing },
    { "a folder over a file", folder_over_a_file },
    { "removing a tree spares what links point at", remove_tree_spares_links },
    { "copies are exact", copies_are_exact },
    { "several outputs appear together", several_appear_together },
    { "or none of them does", or_none_does },
    { "and replaced files come back", replaced_files_come_back },
    { "an output that does not wait", at_once_means_at_once },
};

T_MAIN(cases)
