/* output.c - output files and folders that appear under their name only when complete. */
#include "output.h"

#include "error.h"
#include "io.h"
#include "parallel.h"
#include "platform.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- temporary names and renames --------------------------------------------------------- */

/* Creates a file or folder under a new name. Returns a descriptor or 0, or -1 with errno;
 * EEXIST means that the name is taken. */
typedef int (*temp_maker)(const char *temp);

#define TRIES 100 /* number of temporary names to try */

/* Returns ".NAME.PID-N.tmp" in the folder of path, malloc'd. */
static char *temp_name(const char *path)
{
    static atomic_uint counter;
    size_t end, dir = gg_folder_len(path, &end);
    size_t base = end - dir > 180 ? 180 : end - dir; /* keep within NAME_MAX */
    size_t size = dir + base + 48;
    char *temp = malloc(size);
    if (temp)
        snprintf(temp, size, "%.*s.%.*s.%ld-%u.tmp", (int)dir, path, (int)base, path + dir,
                 (long)getpid(), atomic_fetch_add(&counter, 1));
    return temp;
}

static gg_status cannot_create(const char *what, const char *path, gg_error *err)
{
    int why = errno;
    gg_fail_errno(err, "cannot create %s in the folder of this output", what);
    if (why == ENOENT) gg_fix(err, "create the folder first, or choose another name");
    else if (why == EEXIST)
        gg_fix(err, "remove the files that killed runs left there: they are named .NAME.*.tmp");
    else if (why == EACCES || why == EPERM) gg_fix(err, "choose a folder that you can write to");
    gg_at_file(err, path);
    return GG_EIO;
}

/* Calls `make` with names ".NAME.PID-N.tmp" in the folder of `path` until one is free. Sets
 * *temp to the malloc'd name and *made to the result of `make`. `what` is for messages, such as
 * "a folder". Fails with GG_ENOMEM, or with GG_EIO and advice.
 * In containers every run may have the same PID, and killed runs leave their temporary files. They
 * are not ours to remove. */
static gg_status temp_make(const char *path, const char *what, temp_maker make, char **temp,
                           int *made, gg_error *err)
{
    char *name = NULL;
    for (int i = 0; i < TRIES; i++) {
        free(name);
        name = temp_name(path);
        if (!name) return gg_fail(err, GG_ENOMEM, "no memory for an output name");
        *made = make(name);
        if (*made >= 0) {
            *temp = name;
            return GG_OK;
        }
        if (errno != EEXIST) break;
    }
    gg_status st = cannot_create(what, path, err);
    free(name);
    return st;
}

gg_status gg_refuse_existing(const char *path, bool force, gg_error *err)
{
    struct stat s;
    if (path[0] == '\0') return gg_fail(err, GG_EUSAGE, "the name of the output is empty");
    if (strcmp(path, "-") == 0) {
        gg_fail(err, GG_EUSAGE, "this output cannot be written to a pipe");
        gg_fix(err, "give the name of a file; for a file named -, write ./-");
        return gg_at_file(err, "<stdout>");
    }
    if (force || !gg_lstat(path, &s, err)) return err->status;
    gg_fail(err, GG_EUSAGE, "already exists");
    gg_fix_by(err, "force", "choose another name, or allow it to be replaced");
    return gg_at_file(err, path);
}

gg_status gg_put_in_place(const char *temp, const char *path, bool force, gg_error *err)
{
    if (!force) {
        if (gg_sys_rename_new(temp, path) == 0) return GG_OK;
        int why = errno;
        if (gg_refuse_existing(path, false, err) != GG_OK) return err->status;
        errno = why;
        /* Not every system, and not every file system, can rename to new names only. */
        if (why != EINVAL && why != ENOSYS && why != ENOTSUP)
            return gg_fail_errno(err, "rename failed");
    }
    return rename(temp, path) == 0 ? GG_OK : gg_fail_errno(err, "rename failed");
}

gg_status gg_sync_parent(const char *path, gg_error *err)
{
    char parent[PATH_MAX] = "."; /* no allocation: the output is complete already */
    size_t end, dir = gg_folder_len(path, &end);
    if (dir >= sizeof parent) return GG_OK;
    if (dir > 0) {
        memcpy(parent, path, dir);
        parent[dir] = '\0';
    }
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return GG_OK; /* a folder may be writable but not readable; it cannot be synced */
    gg_status st = GG_OK;
    if (gg_sys_sync(fd) != 0 && errno != EINVAL && errno != EROFS)
        st = gg_fail_errno(err, "fsync of the folder failed");
    close(fd);
    return st;
}

/* ---- outputs ------------------------------------------------------------------------------- */

struct gg_output { /* a file or a folder */
    char *path, *temp;
    int fd;    /* -1 = closed */
    int spare; /* of a folder: one more descriptor, so that it can be removed if none is left */
    bool folder;
    bool force; /* an existing file or folder is replaced */
    bool empty; /* an existing folder is empty; rename() can replace it */
    bool held;  /* it waits for its name */
    bool synced;
    bool replaces; /* a file or folder with this mode exists when the output is opened */
    mode_t mode;
    bool placed;     /* it has its name */
    bool swapped;    /* and what it replaced has the temporary name */
    size_t made;     /* length of the first parent folder in path that was created; 0 = none */
    gg_output *next; /* that waits */
};

/* Complete files and folders. Of all that wait together either each gets its name or none. */
static bool holding;
static gg_output *first_waiting, **last_waiting = &first_waiting;

static void hold(gg_output *o)
{
    *last_waiting = o;
    last_waiting = &o->next;
}

void gg_outputs_hold(void)
{
    holding = true;
}

static gg_output *new_output(const char *path, bool folder, bool force, gg_error *err)
{
    gg_output *o = calloc(1, sizeof *o);
    if (o)
        *o = (gg_output){
            .path = strdup(path), .fd = -1, .spare = -1, .folder = folder, .force = force
        };
    if (o && o->path) {
        o->held = holding;
        return o;
    }
    free(o);
    gg_fail(err, GG_ENOMEM, "no memory for an output");
    return NULL;
}

/* Gives the new file or folder this mode. Some file systems have none; they allow no other. */
static gg_status set_mode(int fd, mode_t mode, gg_error *err)
{
    struct stat s;
    if (fstat(fd, &s) != 0) return gg_fail_errno(err, "cannot read the mode of this output");
    if ((s.st_mode & 07777) == mode || fchmod(fd, mode) == 0) return GG_OK;
    if (errno == EPERM || errno == ENOTSUP || errno == ENOSYS) return GG_OK;
    return gg_fail_errno(err, "cannot keep the mode of what this output replaces");
}

/* What the owner needs until the output is complete. */
static mode_t working_mode(const gg_output *o)
{
    return o->mode | (o->folder ? 0700 : 0600);
}

/* Keeps what cp keeps when it replaces a file: mode and owner, the owner if permitted. If the group
 * cannot be kept, its rights would be those of another group, so only those of all remain. Done
 * before anything is written, so that nobody can read the content of a private file meanwhile. */
static gg_status keep_access(gg_output *o, gg_error *err)
{
    struct stat old, new;
    if (!gg_stat(o->path, &old, err) || (bool)S_ISDIR(old.st_mode) != o->folder) return err->status;
    if (fstat(o->fd, &new) != 0) return gg_fail_errno(err, "cannot read the owner of this output");
    bool owned = old.st_uid == new.st_uid || fchown(o->fd, old.st_uid, (gid_t)-1) == 0;
    bool grouped = old.st_gid == new.st_gid || fchown(o->fd, (uid_t)-1, old.st_gid) == 0;
    o->replaces = true;
    o->mode = old.st_mode & (o->folder && owned ? 07777 : 0777);
    if (!grouped) o->mode &= 0707 | (o->mode & 07) << 3;
    return set_mode(o->fd, working_mode(o), err);
}

static gg_status set_last_mode(const gg_output *o, gg_error *err)
{
    return o->replaces && o->mode != working_mode(o) ? set_mode(o->fd, o->mode, err) : GG_OK;
}

static void close_descriptors(gg_output *o)
{
    if (o->fd >= 0) close(o->fd);
    if (o->spare >= 0) close(o->spare);
    o->fd = o->spare = -1;
}

static void output_free(gg_output *o)
{
    close_descriptors(o);
    free(o->path);
    free(o->temp);
    free(o);
}

/* Adds to the error that a file or folder that was replaced has this name now. */
static void tell_old(const char *temp, gg_error *err)
{
    static const char how[] = "rename back what was replaced: ";
    char before[sizeof err->fix + 2];
    bool more = strncmp(err->fix, how, sizeof how - 1) == 0;
    snprintf(before, sizeof before, "%s%s", more ? err->fix : how, more ? ", " : "");
    err->fix[0] = '\0';
    gg_fix(err, "%s%s", before, temp);
}

static void remove_at(int dirfd, const char *name, int depth);

static void remove_entry(int dirfd, const char *name, void *depth)
{
    remove_at(dirfd, name, *(const int *)depth);
}

/* Organ directories have two levels of folders. More than 16 levels are left in place. */
static void remove_at(int dirfd, const char *name, int depth)
{
    if (unlinkat(dirfd, name, 0) == 0 || depth > 16) return;
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    depth++;
    if (fd >= 0) gg_sys_each_name(fd, remove_entry, &depth);
    unlinkat(dirfd, name, AT_REMOVEDIR);
}

void gg_remove_tree(const char *path)
{
    remove_at(AT_FDCWD, path, 0);
    remove_at(AT_FDCWD, path, 0); /* once more, if a call failed for the moment only */
}

/* Removes the parent folders that were created, if they are empty. */
static void remove_parents(gg_output *o)
{
    for (size_t n = strlen(o->path); o->made && n-- > o->made;) {
        if (o->path[n] != '/') continue;
        o->path[n] = '\0';
        int failed = rmdir(o->path);
        o->path[n] = '/';
        if (failed) return;
    }
    if (!o->made) return;
    char was = o->path[o->made];
    o->path[o->made] = '\0';
    (void)rmdir(o->path);
    o->path[o->made] = was;
}

/* Gives the new file or folder its name, and the old one the temporary name. If the system cannot
 * exchange two names, the name of a folder does not exist for a moment; that of a file only on a
 * file system without hard links. Does nothing if there is no old file or folder, or if a folder
 * now has the name of a file, or a file that of a folder. */
static gg_status swap_names(gg_output *o, gg_error *err)
{
    struct stat s;
    if (!gg_lstat(o->path, &s, err) || (bool)S_ISDIR(s.st_mode) != o->folder) return err->status;
    if (gg_sys_exchange(o->temp, o->path) == 0) {
        o->swapped = true;
        return GG_OK;
    }
    char *old = temp_name(o->path);
    /* link() follows a symbolic link on some systems. */
    bool linked = old && !o->folder && linkat(AT_FDCWD, o->path, AT_FDCWD, old, 0) == 0;
    bool moved = old && !linked && (o->folder || errno != EEXIST) && rename(o->path, old) == 0;
    o->swapped = (linked || moved) && rename(o->temp, o->path) == 0;
    if (o->swapped) {
        free(o->temp);
        o->temp = old;
        return GG_OK;
    }
    if (o->folder) gg_fail_errno(err, "cannot replace the old folder");
    if (linked) unlink(old); /* the second name */
    if (moved && rename(old, o->path) != 0) {
        gg_fail_errno(err, "rename failed");
        tell_old(old, err);
    }
    free(old);
    return err->status;
}

static gg_status name_output(gg_output *o, gg_error *err)
{
    bool swap = o->force && (o->folder || (first_waiting && first_waiting->next));
    gg_status st = swap ? swap_names(o, err) : GG_OK;
    /* An empty folder is replaced by rename(), which fails if files were added to it meanwhile. */
    if (st == GG_OK && !o->swapped)
        st = gg_put_in_place(o->temp, o->path, o->folder ? o->empty : o->force, err);
    o->placed = st == GG_OK;
    gg_at_file(err, o->path);
    return st;
}

static void remove_output(const gg_output *o, const char *name)
{
    if (o->folder) gg_remove_tree(name);
    else unlink(name);
}

/* Frees o. If it has no name, or without `keep`, everything is as before. */
static void end_output(gg_output *o, bool keep, gg_error *err)
{
    keep = keep && o->placed;
    if (o->folder) close_descriptors(o);
    if (!keep && o->placed && (o->folder || !o->swapped)) remove_output(o, o->path);
    if (!keep && o->swapped) { /* the old one */
        if (rename(o->temp, o->path) != 0) tell_old(o->temp, err);
    } else if (o->swapped || !o->placed) remove_output(o, o->temp);
    if (!keep) remove_parents(o);
    output_free(o);
}

/* ---- files ------------------------------------------------------------------------------- */

/* Only regular files are replaced. With a folder the rename would fail, but only after all the
 * work. A device, or a link to one such as /dev/stdout, would be removed by the rename. */
static gg_status check_file_target(const char *path, bool force, gg_error *err)
{
    struct stat s;
    gg_status st = gg_refuse_existing(path, force, err);
    if (st != GG_OK || !gg_stat(path, &s, err) || S_ISREG(s.st_mode)) return err->status;
    gg_fail(err, GG_EUSAGE, "this output is %s; only regular files are replaced",
            S_ISDIR(s.st_mode) ? "a folder" : "not a regular file");
    gg_fix(err, "choose another name");
    return gg_at_file(err, path);
}

static int make_file(const char *temp)
{
    return open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
}

gg_status gg_output_open(const char *path, bool force, gg_output **out, gg_error *err)
{
    gg_status st = check_file_target(path, force, err);
    if (st != GG_OK) return st;
    gg_output *o = new_output(path, false, force, err);
    if (!o) return GG_ENOMEM;
    st = temp_make(path, "a temporary file", make_file, &o->temp, &o->fd, err);
    if (st == GG_OK && (st = keep_access(o, err)) != GG_OK) unlink(o->temp);
    if (st == GG_OK) *out = o;
    else output_free(o);
    gg_at_file(err, path);
    return st;
}

int gg_output_fd(const gg_output *o)
{
    return o->fd;
}

/* In tmpfs, allocating costs two thirds of the time of writing, and no other thread could write
 * meanwhile. Its free space is only compared: 0 or ENOSPC. -1 for other file systems. */
static int fits_in_memory(int fd, uint64_t bytes)
{
    gg_sys_disk disk;
    if (!gg_sys_disk_of(fd, &disk) || disk.type != GG_TMPFS) return -1;
    uint64_t blocks = bytes / disk.block_bytes + (bytes % disk.block_bytes != 0);
    return disk.blocks > 0 && blocks > disk.free_blocks ? ENOSPC : 0;
}

/* Returns 0 or an errno value. */
static int reserve_space(int fd, uint64_t bytes, uint64_t before)
{
    int e = fits_in_memory(fd, bytes < UINT64_MAX - before ? bytes + before : UINT64_MAX);
    return e >= 0 ? e : gg_sys_reserve(fd, 0, bytes, false);
}

gg_status gg_output_reserve(gg_output *o, uint64_t bytes, uint64_t before, gg_error *err)
{
    if (bytes == 0) return GG_OK;
    int e;
    do e = reserve_space(o->fd, bytes, before);
    while (e == EINTR && gg_cancelled(err) == GG_OK);
    if (err->status != GG_OK) return err->status;
    if (e == ENOSPC || e == EFBIG || e == EDQUOT || e == EIO) {
        errno = e;
        gg_fail_errno(err, "cannot reserve %llu bytes", (unsigned long long)bytes);
        gg_fix(err, "free some disk space or choose another folder");
        return gg_at_file(err, o->path);
    }
    return GG_OK; /* not supported here: a full disk will show when writing */
}

gg_status gg_output_sync(gg_output *o, gg_error *err)
{
    gg_status st = gg_cancelled(err);
    if (st == GG_OK && gg_sys_sync(o->fd) != 0 && errno != EINVAL && errno != EROFS)
        st = gg_fail_errno(err, "fsync failed");
    o->synced = st == GG_OK;
    gg_at_file(err, o->path);
    return st;
}

void gg_output_at_once(gg_output *o)
{
    o->held = false;
}

gg_status gg_output_place(gg_output *o, gg_error *err)
{
    gg_status st = o->synced ? GG_OK : gg_output_sync(o, err);
    if (st == GG_OK) st = set_last_mode(o, err);
    if (close(o->fd) != 0 && st == GG_OK) st = gg_fail_errno(err, "close failed");
    o->fd = -1;
    if (st == GG_OK && !o->held) st = name_output(o, err);
    if (st == GG_OK && !o->held) st = gg_sync_parent(o->path, err);
    gg_at_file(err, o->path);
    return st;
}

void gg_output_end(gg_output *o, bool keep)
{
    gg_error none = GG_ERROR_INIT; /* without `keep` it was not placed, or replaced nothing */
    if (o && keep && o->held && o->fd < 0) hold(o);
    else if (o) end_output(o, keep, &none);
}

gg_status gg_output_commit(gg_output *o, gg_error *err)
{
    gg_status st = gg_output_place(o, err);
    gg_output_end(o, st == GG_OK || !o->held);
    return st;
}

void gg_output_abort(gg_output *o)
{
    gg_output_end(o, false);
}

/* ---- folders ----------------------------------------------------------------------------- */

static bool is_empty(const char *path, gg_error *err)
{
    DIR *dir = gg_open_folder(path, err);
    bool empty = dir && !gg_next_name(dir, err) && err->status == GG_OK;
    if (dir) closedir(dir);
    gg_at_file(err, path);
    return empty;
}

static gg_status check_dir_target(const char *path, bool force, gg_outdir_check may_replace,
                                  bool *replace, bool *empty, gg_error *err)
{
    struct stat s;
    *replace = *empty = false;
    if (!gg_lstat(path, &s, err)) return gg_refuse_existing(path, force, err);
    *empty = S_ISDIR(s.st_mode) && is_empty(path, err);
    if (*empty || err->status != GG_OK || gg_refuse_existing(path, force, err) != GG_OK)
        return err->status;
    bool may = S_ISDIR(s.st_mode) && (!may_replace || may_replace(path, err));
    if (err->status != GG_OK) return gg_at_file(err, path);
    if (!may) {
        gg_fail(err, GG_EUSAGE,
                "this is not an organ directory, or it contains other files too; it is not "
                "replaced");
        gg_fix(err, "choose another name or remove it yourself");
        return gg_at_file(err, path);
    }
    *replace = true;
    return GG_OK;
}

static int make_folder(const char *temp)
{
    return mkdir(temp, 0777);
}

/* Creates missing parent folders of d->path and sets d->made. */
static gg_status make_parents(gg_outdir *d, gg_error *err)
{
    for (size_t n = 1; d->path[n]; n++) {
        if (d->path[n] != '/' || d->path[n - 1] == '/') continue;
        d->path[n] = '\0';
        int failed = mkdir(d->path, 0777), why = errno;
        d->path[n] = '/';
        if (!failed && !d->made) d->made = n;
        if (!failed || why == EEXIST || why == EROFS || why == EISDIR) continue;
        errno = why;
        gg_fail_errno(err, "cannot create the folder that it lies in");
        remove_parents(d);
        return gg_at_file(err, d->path);
    }
    return GG_OK;
}

gg_status gg_outdir_open(const char *path, bool force, gg_outdir_check may_replace, gg_outdir **out,
                         gg_error *err)
{
    int made;
    gg_outdir *d = new_output(path, true, false, err);
    if (!d) return GG_ENOMEM;
    /* Before the look at it: with a slash, a link would be the folder to which it leads. */
    for (size_t n = strlen(d->path); n > 1 && d->path[n - 1] == '/';) d->path[--n] = '\0';
    gg_status st = check_dir_target(d->path, force, may_replace, &d->force, &d->empty, err);
    if (st == GG_OK) st = make_parents(d, err);
    if (st == GG_OK) st = temp_make(path, "a folder", make_folder, &d->temp, &made, err);
    if (st == GG_OK &&
        ((d->fd = open(d->temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0 ||
         (d->spare = fcntl(d->fd, F_DUPFD_CLOEXEC, 0)) < 0)) {
        st = gg_fail_errno(err, "cannot open the temporary folder of this output");
        rmdir(d->temp);
    } else if (st == GG_OK && (st = keep_access(d, err)) != GG_OK) rmdir(d->temp);
    if (st == GG_OK) {
        *out = d;
        return GG_OK;
    }
    gg_at_file(err, path);
    remove_parents(d);
    output_free(d);
    return st;
}

int gg_outdir_fd(const gg_outdir *d)
{
    return d->fd;
}

/* Creates the folder SUB of "SUB/NAME". */
static gg_status make_subfolder(gg_outdir *d, const char *name, gg_error *err)
{
    const char *slash = strchr(name, '/');
    if (!slash) return GG_OK;
    char sub[64];
    size_t n = (size_t)(slash - name);
    if (n == 0 || n >= sizeof sub || strchr(slash + 1, '/'))
        return gg_fail(err, GG_EUSAGE, "'%s' is not a valid file name in an organ directory", name);
    memcpy(sub, name, n);
    sub[n] = '\0';
    if (mkdirat(d->fd, sub, 0777) != 0 && errno != EEXIST)
        return gg_fail_errno(err, "cannot create folder %s", sub);
    return GG_OK;
}

gg_status gg_outdir_create(gg_outdir *d, const char *name, int *fd, gg_error *err)
{
    gg_status st = make_subfolder(d, name, err);
    if (st != GG_OK) return st;
    *fd = openat(d->fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return *fd >= 0 ? GG_OK : gg_fail_errno(err, "cannot create %s", name);
}

gg_status gg_outdir_link(gg_outdir *d, const char *source, const char *name, gg_error *err)
{
    gg_status st = make_subfolder(d, name, err);
    if (st != GG_OK) return st;
    return linkat(AT_FDCWD, source, d->fd, name, AT_SYMLINK_FOLLOW) == 0
               ? GG_OK
               : gg_fail_errno(err, "cannot link %s", name);
}

/* ---- sync --------------------------------------------------------------------- */

/* Number of threads that call fsync at the same time, even on few processors. One commit of
 * the file system's journal serves every fsync that waits for it, so waiting together is
 * faster than one after another. syncfs is not an alternative: it waits for the data of every
 * process, and it does not report every write error (none before Linux 5.8, none on
 * overlays). */
#define SYNC_THREADS 8u

typedef struct walk {
    DIR *dir;
    int fd, depth;
    bool failed;          /* tells the other threads to stop */
    pthread_mutex_t lock; /* guards dir and failed */
} walk;

/* Gets the next name in the folder. Returns false at the end or after a failure. */
static bool next_name(walk *w, char *name, size_t size, gg_error *err)
{
    pthread_mutex_lock(&w->lock);
    const char *next = w->failed ? NULL : gg_next_name(w->dir, err);
    if (next) snprintf(name, size, "%s", next);
    pthread_mutex_unlock(&w->lock);
    return next != NULL;
}

static gg_status sync_tree(int dirfd, int depth, gg_error *err);

static gg_status sync_name(const walk *w, const char *name, gg_error *err)
{
    struct stat s;
    int fd = openat(w->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    gg_status st = GG_OK;
    if (fd < 0 || fstat(fd, &s) != 0) st = gg_fail_errno(err, "cannot sync %s", name);
    else if (S_ISDIR(s.st_mode) && w->depth == 0) st = sync_tree(fd, 1, err);
    else if (gg_sys_sync(fd) != 0 && errno != EINVAL)
        st = gg_fail_errno(err, "fsync of %s failed", name);
    if (fd >= 0) close(fd);
    return st;
}

/* The task of one thread: syncs one name after another until none is left. */
static gg_status sync_names(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    walk *w = ctx;
    char name[NAME_MAX + 1];
    gg_status st = GG_OK;
    (void)i, (void)worker;
    while (st == GG_OK && next_name(w, name, sizeof name, err)) {
        st = gg_cancelled(err);
        if (st == GG_OK) st = sync_name(w, name, err);
    }
    st = err->status;
    if (st == GG_OK) return GG_OK;
    pthread_mutex_lock(&w->lock);
    w->failed = true;
    pthread_mutex_unlock(&w->lock);
    return st;
}

/* Organ directories have two levels. The many files are in the lower one, so only that level
 * uses several threads. */
static gg_status sync_tree(int dirfd, int depth, gg_error *err)
{
    int copy = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (!dir) {
        gg_fail_errno(err, "cannot read the new folder");
        if (copy >= 0) close(copy);
        return GG_EIO;
    }
    rewinddir(dir);
    walk w = { .dir = dir, .fd = dirfd, .depth = depth };
    unsigned threads = depth == 0 ? 1 : SYNC_THREADS;
    pthread_mutex_init(&w.lock, NULL);
    gg_status st = gg_parallel(threads, threads, sync_names, &w, err);
    pthread_mutex_destroy(&w.lock);
    closedir(dir);
    if (st == GG_OK && gg_sys_sync(dirfd) != 0 && errno != EINVAL)
        st = gg_fail_errno(err, "fsync failed");
    return st;
}

gg_status gg_outdir_commit(gg_outdir *d, gg_error *err)
{
    gg_status st = sync_tree(d->fd, 0, err);
    if (st == GG_OK) st = set_last_mode(d, err);
    if (st == GG_OK && d->held) {
        hold(d);
        return GG_OK;
    }
    if (st == GG_OK) st = name_output(d, err);
    if (st == GG_OK) st = gg_sync_parent(d->path, err);
    gg_at_file(err, d->path);
    end_output(d, true, err); /* a complete folder stays, even if its name may be lost in a crash */
    return st;
}

void gg_outdir_abort(gg_outdir *d)
{
    gg_output_end(d, false);
}

/* ---- all that wait ------------------------------------------------------------ */

/* Folders that were made for other outputs. */
typedef struct made_folder {
    struct made_folder *next;
    char path[];
} made_folder;

static made_folder *made_folders; /* the last one first */

gg_status gg_output_folder(const char *path, gg_error *err)
{
    struct stat s;
    if (mkdir(path, 0777) != 0) {
        if (errno == EEXIST && stat(path, &s) == 0 && S_ISDIR(s.st_mode)) return GG_OK;
        if (errno == EEXIST) gg_fail(err, GG_EUSAGE, "a file has the name of this folder");
        else gg_fail_errno(err, "cannot make the folder");
        return gg_at_file(err, path);
    }
    size_t size = strlen(path) + 1;
    made_folder *f = holding ? malloc(sizeof *f + size) : NULL;
    if (!f) return GG_OK; /* it stays if the run fails */
    memcpy(f->path, path, size);
    f->next = made_folders;
    made_folders = f;
    return GG_OK;
}

static void end_waiting(bool keep, gg_error *err)
{
    for (gg_output *o = first_waiting, *next; o; o = next) {
        next = o->next;
        end_output(o, keep, err);
    }
    first_waiting = NULL;
    last_waiting = &first_waiting;
    for (made_folder *f = made_folders, *next; f; f = next) {
        next = f->next;
        if (!keep) rmdir(f->path);
        free(f);
    }
    made_folders = NULL;
}

gg_status gg_outputs_release(gg_error *err)
{
    gg_status st = GG_OK;
    for (gg_output *o = first_waiting; o && st == GG_OK; o = o->next) st = name_output(o, err);
    bool named = st == GG_OK;
    for (gg_output *o = first_waiting; o && st == GG_OK; o = o->next) {
        st = gg_sync_parent(o->path, err);
        gg_at_file(err, o->path);
    }
    end_waiting(named, err);
    return st;
}

void gg_outputs_drop(void)
{
    gg_error none = GG_ERROR_INIT; /* no name was given yet */
    end_waiting(false, &none);
}

const char *gg_output_where(const char *path)
{
    for (const gg_output *o = first_waiting; o; o = o->next)
        if (strcmp(o->path, path) == 0) return o->temp;
    return path;
}
