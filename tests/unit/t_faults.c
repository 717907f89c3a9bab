/* t_faults.c - system calls that fail: the error names the file that failed, nothing is
 * left of the output, and no write error is lost. The calls are replaced here, in front
 * of the system's own. */
#define _GNU_SOURCE    /* copy_file_range and others */
#undef _FORTIFY_SOURCE /* its inline versions of the calls would come before those here */
#include "assemble.h"
#include "files.h"

#include "base/io.h"
#include "base/output.h"
#include "base/platform.h"
#include "graft/gg_transplant.h"
#include "keys/keys_write.h"
#include "organ/gg_verbs.h"
#include "organ/record.h"
#include "write/copy.h"

#if defined __linux__ && defined __LP64__
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

/* Reads, writes and syncs fail with EIO for files whose path contains this text, or ends in
 * it if the text ends in "$". */
static const char *bad_read, *bad_write, *bad_sync;
static off_t bad_from; /* reads do from here on, or after a copy failed: headers may be read */
static atomic_bool copied;
static bool no_fallocate, short_writes;
/* When the first file is read, the second takes its name. */
static char replaced[512], replacement[512];
static atomic_uint writes; /* how many there were */
static atomic_uint kernel_copies;
static long file_system; /* what fstatfs tells; 0 = the truth */
static bool nearly_full; /* ... and that two blocks of 4096 bytes are free */

static bool is(int fd, const char *part)
{
    char link[64], path[512];
    if (!part) return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    size_t len = strlen(part), end = n > 0 ? (size_t)n : 0;
    if (len && part[len - 1] == '$')
        return end >= len - 1 && memcmp(path + end - (len - 1), part, len - 1) == 0;
    return strstr(path, part) != NULL;
}

static bool broken(int in, int out)
{
    writes += out >= 0;
    if (!(in >= 0 && is(in, bad_read)) && !(out >= 0 && is(out, bad_write))) return false;
    errno = EIO;
    return true;
}

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
    if (replaced[0] && is(fd, replaced)) {
        if (rename(replacement, replaced) != 0) perror(replacement);
        replaced[0] = '\0';
    }
    return (at >= bad_from || copied) && broken(fd, -1) ? -1 : syscall(SYS_pread64, fd, buf, n, at);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    if (short_writes) n = (n + 1) / 2;
    return broken(-1, fd) ? -1 : syscall(SYS_pwrite64, fd, buf, n, at);
}

ssize_t write(int fd, const void *buf, size_t n)
{
    if (short_writes) n = (n + 1) / 2;
    return broken(-1, fd) ? -1 : syscall(SYS_write, fd, buf, n);
}

ssize_t copy_file_range(int in, off_t *from, int out, off_t *to, size_t n, unsigned flags)
{
    kernel_copies++;
    if (!broken(in, out)) return syscall(SYS_copy_file_range, in, from, out, to, n, flags);
    copied = true;
    return -1;
}

ssize_t sendfile(int out, int in, off_t *from, size_t n)
{
    return broken(in, out) ? -1 : syscall(SYS_sendfile, out, in, from, n);
}

int fstatfs(int fd, struct statfs *s)
{
    int result = (int)syscall(SYS_fstatfs, fd, s);
    if (file_system) s->f_type = file_system;
    if (nearly_full) {
        s->f_bsize = 4096;
        s->f_blocks = 100;
        s->f_bavail = 2;
    }
    return result;
}

int fsync(int fd)
{
    if (!is(fd, bad_sync)) return 0; /* the test needs no disk */
    errno = EIO;
    return -1;
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
    if (!no_fallocate) return (int)syscall(SYS_fallocate, fd, mode, at, n);
    errno = EOPNOTSUPP;
    return -1;
}

static off_t back_from, back_end; /* of the last call, and how many there were */
static unsigned backs;

int sync_file_range(int fd, off_t at, off_t n, unsigned flags)
{
    (void)fd, (void)flags;
    back_from = at;
    back_end = n ? at + n : -1;
    backs++;
    return 0;
}

static void all_well(void)
{
    bad_read = bad_write = bad_sync = NULL;
    short_writes = false;
    copied = no_fallocate = nearly_full = false;
    bad_from = file_system = 0;
}

static const char *fresh(void)
{
    const char *f = scratch("f");
    gg_remove_tree(f);
    if (mkdir(f, 0777) != 0) perror(f);
    return f;
}

static void copies_tell_sides(void)
{
    char bytes[100] = "x";
    fresh();
    spew(scratch("f/in"), bytes, sizeof bytes);
    int in = open(scratch("f/in"), O_RDONLY), out = open(scratch("f/out"), O_RDWR | O_CREAT, 0666);
    for (int in_order = 0; in_order < 2; in_order++) {
        gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT;
        uint64_t to = in_order ? GG_AT_POS : 0;
        bad_read = "f/in";
        T_CHECK(gg_copy("IN", (gg_place){ in, 0 }, (gg_place){ out, to }, 100, &e) == GG_EIO &&
                strcmp(e.file, "IN") == 0);
        T_CHECKF(strstr(e.what, "read failed") && e.sys_errno == EIO, "%s", e.what);
        all_well();
        bad_write = "f/out";
        T_CHECK(gg_copy("IN", (gg_place){ in, 0 }, (gg_place){ out, to }, 100, &e2) == GG_EIO &&
                !e2.file[0]);
        T_CHECKF(strstr(e2.what, "write failed") && e2.sys_errno == EIO, "%s", e2.what);
        all_well();
        T_CHECK(gg_copy("IN", (gg_place){ in, 90 }, (gg_place){ out, to }, 11, &e3) == GG_EFORMAT &&
                strcmp(e3.file, "IN") == 0);
    }
    close(in);
    close(out);
}

enum { BIG = 700 * 4096 }; /* bytes of a tensor, in several steps */

/* The kernel is asked for a copy only where that may share extents. Both ways copy the same. */
static void copies_by_file_system(void)
{
    static const long types[] = { 0x9123683e /* btrfs */, GG_TMPFS, GG_EXT4 };
    gg_error e = GG_ERROR_INIT;
    uint8_t *bytes = malloc(GG_RECORD_HEADER + BIG), *got = malloc(BIG + 8);
    gg_tensor t = { .name = "t", .name_len = 1, .n_dims = 2, .dims = { 1024, 700, 1, 1 } };
    size_t head = gg_record_header(&t, bytes);
    for (size_t i = 0; i < BIG; i++) bytes[head + i] = (uint8_t)(i * 7 + i / 4096);
    fresh();
    spew(scratch("f/t.bin"), bytes, head + BIG);
    gg_source *s;
    gg_run run = { 0 };
    T_EQ(gg_source_open(scratch("f/t.bin"), &s, &e), GG_OK);
    gg_plan_part part = { s, 0, 4, BIG - 4, NULL };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        int fd = open(scratch("f/out"), O_RDWR | O_CREAT | O_TRUNC, 0666);
        file_system = types[i];
        kernel_copies = 0;
        T_EQ(gg_copy_part(&part, (gg_place){ fd, 5 }, NULL, &run, &e), GG_OK);
        T_EQ(kernel_copies > 0, i == 0);
        T_EQ(pread(fd, got, BIG, 5), BIG - 4);
        T_CHECK(memcmp(got, bytes + head + 4, BIG - 4) == 0);
        close(fd);
    }
    all_well();
    gg_source_close(s);
    free(bytes), free(got);
}

static void extract_to(const char *model, const char *dir, gg_error *e)
{
    gg_source *s;
    gg_extract_options o = { 0 };
    gg_run run = { .threads = 2 };
    gg_extract_report r;
    gg_error e2 = GG_ERROR_INIT;
    if (gg_source_open(model, &s, &e2) == GG_OK) {
        gg_extract(s, &o, dir, &run, &r, e);
        gg_source_close(s);
    }
    T_CHECKF(e2.status == GG_OK, "%s", e2.what);
}

static bool ends(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

#define SHARD "tests/data/gguf/x-00001-of-00003.gguf"

static void shards_are_told_apart(void)
{
    gg_run run = { .threads = 2 };
    gg_assemble_options o = { .output.shards = 3 };
    gg_assemble_options quick = { .output.shards = 3, .no_verify = true };
    gg_error e0 = GG_ERROR_INIT;
    fresh();
    extract_to(SHARD, scratch("f/d"), &e0);
    T_CHECKF(e0.status == GG_OK, "%s", e0.what);
    for (int k = 0; k < 2; k++) {
        gg_error e = GG_ERROR_INIT;
        bad_write = "m-00003-of-";
        T_EQ(assemble_path(scratch("f/d"), k ? &quick : &o, scratch("f/m.gguf"), &run, &e), GG_EIO);
        T_CHECKF(ends(e.file, "m-00003-of-00003.gguf"), "%s: %s", e.file, e.what);
        T_EQ(count_names(scratch("f")), 1);
        all_well();
        gg_error e2 = GG_ERROR_INIT;
        bad_sync = "m-00002-of-";
        T_EQ(assemble_path(scratch("f/d"), k ? &quick : &o, scratch("f/m.gguf"), &run, &e2),
             GG_EIO);
        T_CHECKF(ends(e2.file, "m-00002-of-00003.gguf"), "%s: %s", e2.file, e2.what);
        T_EQ(count_names(scratch("f")), 1);
        all_well();
    }
    gg_error e = GG_ERROR_INIT;
    bad_read = "gguf/x-00002-of";
    bad_from = 64;
    gg_error e3 = GG_ERROR_INIT;
    extract_to(SHARD, scratch("f/d2"), &e3);
    all_well();
    T_CHECKF(e3.status == GG_EIO && ends(e3.file, "x-00002-of-00003.gguf") && e3.tensor[0],
             "%s: %s", e3.file, e3.what);
    T_CHECK(assemble_path(scratch("f/d"), &o, scratch("f/m.gguf"), &run, &e) == GG_OK &&
            count_names(scratch("f")) == 4);
}

/* A directory copied on: its files are not to blame for the new one's. */
static void clones_tell_sides(void)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT;
    fresh();
    extract_to(SHARD, scratch("f/base"), &e);
    T_CHECKF(e.status == GG_OK, "%s", e.what);
    bad_write = "f/.copy.";
    extract_to(scratch("f/base"), scratch("f/copy"), &e2);
    all_well();
    T_CHECKF(e2.status == GG_EIO && ends(e2.file, "f/copy"), "%s: %s", e2.file, e2.what);
    gg_remove_tree(scratch("f/copy"));
    bad_read = "/f/base/";
    bad_from = 1 << 30;
    extract_to(scratch("f/base"), scratch("f/copy"), &e3);
    all_well();
    T_CHECKF(e3.status == GG_EIO && strstr(e3.file, "f/base/") && ends(e3.file, ".bin"), "%s: %s",
             e3.file, e3.what);
    T_EQ(count_names(scratch("f")), 1);
}

/* One file of many whose data does not reach the disk: no folder appears. */
static void every_sync_counts(void)
{
    static const char *const bad[] = { "/sub/7", "/sub/0", "/sub/199", "/top", "/sub$", ".tmp$" };
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        gg_outdir *d;
        gg_error e = GG_ERROR_INIT;
        fresh();
        T_CHECK(gg_outdir_open(scratch("f/d"), false, NULL, &d, &e) == GG_OK);
        for (int i = -1; i < 200; i++) {
            char name[32] = "top";
            int fd;
            if (i >= 0) snprintf(name, sizeof name, "sub/%d", i);
            if (gg_outdir_create(d, name, &fd, &e) == GG_OK) close(fd);
        }
        bad_sync = bad[k];
        T_CHECKF(gg_outdir_commit(d, &e) == GG_EIO && e.sys_errno == EIO && ends(e.file, "f/d"),
                 "%s: %s", bad[k], e.what);
        all_well();
        T_EQ(count_names(scratch("f")), 0);
    }
}

/* A complete folder stays if the folder around it cannot be synced, but that is an error. */
static void parent_of_folder_is_synced(void)
{
    gg_outdir *d;
    gg_error e = GG_ERROR_INIT;
    fresh();
    T_EQ(gg_outdir_open(scratch("f/d"), false, NULL, &d, &e), GG_OK);
    bad_sync = "/f$";
    T_EQ(gg_outdir_commit(d, &e), GG_EIO);
    all_well();
    T_CHECKF(e.sys_errno == EIO && ends(e.file, "f/d"), "%s: %s", e.file, e.what);
    T_EQ(count_names(scratch("f")), 1);
}

/* The data of a file are synced before it gets its name, and its folder after that. */
static void output_is_synced(void)
{
    static const char *const bad[] = { ".tmp$", "/f$" };
    for (size_t k = 0; k < 2; k++) {
        gg_output *o;
        gg_error e = GG_ERROR_INIT;
        fresh();
        T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_OK);
        T_EQ(gg_write_all(gg_output_fd(o), "x", 1, &e), GG_OK);
        bad_sync = bad[k];
        T_EQ(gg_output_commit(o, &e), GG_EIO);
        all_well();
        T_CHECKF(e.sys_errno == EIO && ends(e.file, "f/x"), "%s: %s", e.file, e.what);
        T_EQ(count_names(scratch("f")), k);
    }
}

/* The system may write less than it is given. */
static void short_writes_go_on(void)
{
    char bytes[1000], *got;
    size_t n;
    gg_error e = GG_ERROR_INIT;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7 + i / 256);
    fresh();
    int fd = open(scratch("f/out"), O_RDWR | O_CREAT, 0666);
    short_writes = true;
    T_EQ(gg_write_all(fd, bytes, 500, &e), GG_OK);
    T_EQ(gg_put_all(fd, bytes + 500, 500, 500, &e), GG_OK);
    all_well();
    close(fd);
    got = slurp(scratch("f/out"), &n);
    T_CHECKF(n == sizeof bytes && memcmp(got, bytes, n) == 0, "%zu bytes", n);
    free(got);
}

/* ---- changes in place -------------------------------------------------------------- */

#define BASE "tests/data/lab/lab-verse-q4_k_m.gguf"
#define DONOR "tests/data/lab/lab-code-q4_k_m.gguf"

static char *base_bytes;
static size_t base_size;

static void fresh_base(void)
{
    fresh();
    if (!base_bytes) base_bytes = slurp(BASE, &base_size);
    spew(scratch("f/m.gguf"), base_bytes, base_size);
}

static bool base_is_untouched(void)
{
    size_t n;
    char *got = slurp(scratch("f/m.gguf"), &n);
    bool same = n == base_size && memcmp(got, base_bytes, n) == 0;
    free(got);
    return same;
}

static gg_status transplant(gg_error *e)
{
    gg_source *base = NULL, *donor = NULL;
    gg_transplant_report r;
    gg_run run = { .threads = 2 };
    gg_status st = gg_source_open(DONOR, &donor, e);
    if (st == GG_OK) st = gg_source_open(scratch("f/m.gguf"), &base, e);
    if (st == GG_OK) st = gg_transplant_in_place(base, donor, NULL, scratch("f/undo"), &run, &r, e);
    gg_source_close(base);
    gg_source_close(donor);
    return st;
}

static gg_status change_keys(gg_error *e)
{
    static const char *const sets[] = { "general.name=lab-versE" };
    const gg_key_edits edits = { .sets = { sets, 1 }, .in_place = true };
    gg_keys_report r;
    gg_run run = { .threads = 1 };
    gg_source *s = NULL;
    gg_status st = gg_source_open_with(scratch("f/m.gguf"), NULL, &s, e);
    if (st == GG_OK) st = gg_keys_write(s, &edits, NULL, &run, &r, e);
    gg_source_close(s);
    return st;
}

/* A sync that fails is an error. Before the undo stream is on disk, the base is untouched. */
static void in_place_is_synced(void)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT, e4 = GG_ERROR_INIT;
    fresh_base();
    bad_sync = "f/m.gguf$";
    T_EQ(transplant(&e), GG_EIO);
    T_CHECKF(e.sys_errno == EIO && ends(e.file, "f/m.gguf"), "%s: %s", e.file, e.what);
    T_CHECK(there(scratch("f/undo")) && !base_is_untouched());
    fresh_base();
    bad_sync = ".tmp$";
    T_EQ(transplant(&e2), GG_EIO);
    T_CHECK(e2.sys_errno == EIO && !there(scratch("f/undo")) && base_is_untouched());
    bad_sync = ".tmp$";
    T_EQ(change_keys(&e3), GG_EIO);
    T_CHECK(e3.sys_errno == EIO && base_is_untouched());
    bad_sync = "f/m.gguf$";
    T_EQ(change_keys(&e4), GG_EIO);
    T_CHECKF(e4.sys_errno == EIO && ends(e4.file, "f/m.gguf"), "%s: %s", e4.file, e4.what);
    all_well();
}

static void in_place_is_locked(void)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT;
    fresh_base();
    int fd = open(scratch("f/m.gguf"), O_RDWR);
    T_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
    T_EQ(transplant(&e), GG_EIO);
    T_CHECKF(e.fix[0] && ends(e.file, "f/m.gguf"), "%s: %s", e.file, e.what);
    T_EQ(change_keys(&e2), GG_EIO);
    T_CHECKF(e2.fix[0] && ends(e2.file, "f/m.gguf"), "%s: %s", e2.file, e2.what);
    T_CHECK(base_is_untouched() && count_names(scratch("f")) == 1);
    close(fd);
    T_CHECKF(change_keys(&e3) == GG_OK && transplant(&e3) == GG_OK, "%s", e3.what);
}

/* Another file that takes the base's name meanwhile is not written to. */
static void replaced_base_is_refused(void)
{
    for (int k = 0; k < 2; k++) {
        gg_error e = GG_ERROR_INIT;
        fresh_base();
        spew(scratch("f/other"), base_bytes, base_size);
        snprintf(replacement, sizeof replacement, "%s", scratch("f/other"));
        snprintf(replaced, sizeof replaced, "%s", scratch("f/m.gguf"));
        T_EQ(k ? change_keys(&e) : transplant(&e), GG_EIO);
        T_CHECKF(!replaced[0] && ends(e.file, "f/m.gguf"), "%s: %s", e.file, e.what);
        T_CHECK(base_is_untouched() && count_names(scratch("f")) == 1);
    }
    free(base_bytes);
    base_bytes = NULL;
}

/* A file system without allocation: nothing is written to make up for it. */
static void room_is_not_written(void)
{
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    fresh();
    T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_OK);
    no_fallocate = true;
    writes = 0;
    struct stat s;
    T_CHECK(gg_output_reserve(o, 1 << 20, 0, &e) == GG_OK && writes == 0);
    T_CHECK(fstat(gg_output_fd(o), &s) == 0 && s.st_blocks == 0);
    all_well();
    gg_output_abort(o);
}

/* In tmpfs, a part of a block takes a whole block. */
static void room_is_counted_in_blocks(void)
{
    gg_output *o;
    gg_error e = GG_ERROR_INIT;
    fresh();
    T_EQ(gg_output_open(scratch("f/x"), false, &o, &e), GG_OK);
    file_system = GG_TMPFS;
    nearly_full = true;
    T_EQ(gg_output_reserve(o, 4097, 0, &e), GG_OK);
    T_EQ(gg_output_reserve(o, 4096, 4096, &e), GG_OK);
    T_EQ(gg_output_reserve(o, 4097, 4096, &e), GG_EIO);
    all_well();
    gg_output_abort(o);
}

/* Many small tensors do not each cost a call, and what they leave is written with the next one. */
static void writeback_has_steps(void)
{
    const uint64_t step = (uint64_t)4 << 20;
    backs = 0;
    for (uint64_t at = 960; at + 2048 < step; at += 2048) gg_writeback_hint(1, at, 2048);
    T_EQ(backs, 0);
    gg_writeback_hint(1, step - 1088, 2048);
    T_CHECK(backs == 1 && back_from == 0 && back_end == (off_t)step + 960);
    gg_writeback_hint(1, step + 960, 3 * step);
    T_CHECK(backs == 2 && back_from == (off_t)step && back_end == (off_t)(4 * step + 960));
    gg_writeback_hint(1, 0, 0);
    T_CHECK(backs == 3 && back_from == 0 && back_end == -1);
}

static const t_case cases[] = {
    { "writeback has steps", writeback_has_steps },
    { "copies tell reading from writing", copies_tell_sides },
    { "copies depend on the file system", copies_by_file_system },
    { "shards are told apart", shards_are_told_apart },
    { "copies of a directory tell sides", clones_tell_sides },
    { "every sync counts", every_sync_counts },
    { "the folder around a folder is synced", parent_of_folder_is_synced },
    { "a file and its folder are synced", output_is_synced },
    { "short writes go on", short_writes_go_on },
    { "changes in place are synced", in_place_is_synced },
    { "changes in place are locked", in_place_is_locked },
    { "a base that was replaced is refused", replaced_base_is_refused },
    { "room is not made by writing", room_is_not_written },
    { "room in memory is counted in blocks", room_is_counted_in_blocks },
};
#else
static void nothing(void)
{
    T_CHECK(true);
}

static const t_case cases[] = { { "no calls to replace here", nothing } };
#endif

T_MAIN(cases)
