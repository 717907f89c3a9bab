/* stamp.c - records the state of a file, to be compared later. */
#include "stamp.h"

#include <sys/stat.h>

static gg_stamp stamp_of(const struct stat *s)
{
    return (gg_stamp){ .device = (uint64_t)s->st_dev,
                       .inode = (uint64_t)s->st_ino,
                       .size = (uint64_t)s->st_size,
                       .links = (uint64_t)s->st_nlink,
                       .modified = { s->st_mtim.tv_sec, s->st_mtim.tv_nsec },
                       .changed = { s->st_ctim.tv_sec, s->st_ctim.tv_nsec } };
}

gg_stamp gg_stamp_fd(int fd)
{
    struct stat s;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) return (gg_stamp){ 0 };
    return stamp_of(&s);
}

static bool same(const gg_stamp *a, const gg_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified[0] == b->modified[0] && a->modified[1] == b->modified[1] &&
           (a->links != b->links ||
            (a->changed[0] == b->changed[0] && a->changed[1] == b->changed[1]));
}

static bool is_watched(const gg_stamp *was)
{
    return was->inode || was->modified[0] || was->size;
}

bool gg_stamp_holds_fd(const gg_stamp *was, int fd)
{
    struct stat s;
    if (!is_watched(was)) return true;
    if (fstat(fd, &s) != 0) return false;
    gg_stamp now = stamp_of(&s);
    return same(was, &now);
}

bool gg_stamp_holds_name(const gg_stamp *was, const char *path)
{
    struct stat s;
    if (!is_watched(was)) return true;
    if (stat(path, &s) != 0) return false;
    gg_stamp now = stamp_of(&s);
    return same(was, &now);
}
