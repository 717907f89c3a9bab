/* status.c - the error record: keeps the first error, callers add the place; and the version of
 * the compiled library. */
#include "organ/gg_status.h"
#include "organ/gg_version.h"

#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Formats a text, truncates it to size and escapes it for a terminal. */
static void put_safe(char *out, size_t size, const char *fmt, va_list ap)
{
    char raw[sizeof((gg_error *)0)->what];
    int n = vsnprintf(raw, sizeof raw, fmt, ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof raw ? (size_t)n : sizeof raw - 1;
    gg_escape(raw, len, out, size);
}

static gg_status fail_va(gg_error *err, gg_status status, int sys_errno, const char *fmt,
                         va_list ap)
{
    if (err->status != GG_OK) return status;
    err->status = status;
    err->sys_errno = sys_errno;
    put_safe(err->what, sizeof err->what, fmt, ap);
    if (sys_errno) {
        size_t used = strlen(err->what);
        snprintf(err->what + used, sizeof err->what - used, ": %s", strerror(sys_errno));
    }
    return status;
}

gg_status gg_fail(gg_error *err, gg_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_va(err, status, 0, fmt, ap);
    va_end(ap);
    return status;
}

gg_status gg_fail_errno(gg_error *err, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    fail_va(err, GG_EIO, saved, fmt, ap);
    va_end(ap);
    return GG_EIO;
}

gg_status gg_at_file(gg_error *err, const char *path)
{
    if (err->status != GG_OK && err->file[0] == '\0') {
        const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
        gg_escape(name, strlen(name), err->file, sizeof err->file);
    }
    return err->status;
}

gg_status gg_at_offset(gg_error *err, uint64_t offset)
{
    if (err->status != GG_OK && err->offset == GG_ERROR_NO_OFFSET) err->offset = offset;
    return err->status;
}

gg_status gg_at_tensor(gg_error *err, const char *name, size_t name_len)
{
    if (err->status != GG_OK && err->tensor[0] == '\0')
        gg_escape(name, name_len, err->tensor, sizeof err->tensor);
    return err->status;
}

gg_status gg_fix(gg_error *err, const char *fmt, ...)
{
    if (err->status != GG_OK && err->fix[0] == '\0') {
        va_list ap;
        va_start(ap, fmt);
        put_safe(err->fix, sizeof err->fix, fmt, ap);
        va_end(ap);
    }
    return err->status;
}

gg_status gg_fix_by(gg_error *err, const char *arg, const char *fmt, ...)
{
    if (err->status != GG_OK && err->fix[0] == '\0') {
        va_list ap;
        va_start(ap, fmt);
        put_safe(err->fix, sizeof err->fix, fmt, ap);
        va_end(ap);
        err->fix_arg = arg;
    }
    return err->status;
}

gg_status gg_about(gg_error *err, const char *arg)
{
    if (err->status != GG_OK && !err->what_arg) err->what_arg = arg;
    return err->status;
}

void gg_error_merge(gg_error *to, const gg_error *from)
{
    if (to->status == GG_OK) *to = *from;
}

/* Appends to out at *used, truncating at size. */
static void add(char *out, size_t size, size_t *used, const char *fmt, ...) GG_PRINTF(4, 5);
static void add(char *out, size_t size, size_t *used, const char *fmt, ...)
{
    if (*used + 1 >= size) return;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out + *used, size - *used, fmt, ap);
    va_end(ap);
    if (n > 0) *used = *used + (size_t)n < size ? *used + (size_t)n : size - 1;
}

/* Advice for errors that were recorded without any. */
static const char *advice(const gg_error *err)
{
    if (err->status == GG_ENOMEM) return "free some memory or raise its limit, then run again";
    switch (err->sys_errno) {
    case ENOENT: return "check the path";
    case ENOTDIR: return "check the path: part of it is not a folder";
    case EISDIR: return "give a file, not a folder";
    case EACCES:
    case EPERM: return "change the permissions or choose another folder";
    case EROFS: return "choose another folder: this file system is read-only";
    case ENOSPC:
    case EDQUOT: return "free some disk space or choose another folder";
    case EFBIG: return "raise the file size limit (ulimit -f) or choose another folder";
    case EMFILE:
    case ENFILE: return "raise the limit on open files (ulimit -n)";
    case ENAMETOOLONG: return "choose a shorter name";
    case EPIPE: return "the program that reads this output ended too early: check why";
    case EBADF: return "this descriptor is closed: redirect it to a file or a pipe";
    case EIO: return "check the disk and the system's log";
    default: return NULL;
    }
}

size_t gg_error_line(const gg_error *err, const char *tool, char *out, size_t size)
{
    size_t used = 0;
    if (size > 0) out[0] = '\0';
    add(out, size, &used, "%s: ", tool);
    if (err->file[0]) add(out, size, &used, "%s: ", err->file);
    if (err->tensor[0]) add(out, size, &used, "tensor '%s': ", err->tensor);
    if (err->offset != GG_ERROR_NO_OFFSET)
        add(out, size, &used, "offset %llu: ", (unsigned long long)err->offset);
    add(out, size, &used, "%s", err->what[0] ? err->what : gg_status_text(err->status));
    const char *fix = err->fix[0] ? err->fix : advice(err);
    if (fix) add(out, size, &used, "; %s", fix);
    return used;
}

bool gg_is_of_system(const gg_error *err)
{
    return err->status == GG_EIO || err->status == GG_ENOMEM || err->status == GG_ECANCELLED;
}

const char *gg_status_text(gg_status status)
{
    switch (status) {
#define TEXT(name, exit_code, text) \
    case name: return text;
        GG_STATUS_LIST(TEXT)
#undef TEXT
    }
    return "unknown status";
}

int gg_status_exit(gg_status status)
{
    switch (status) {
#define EXIT_CODE(name, exit_code, text) \
    case name: return exit_code;
        GG_STATUS_LIST(EXIT_CODE)
#undef EXIT_CODE
    }
    return 4;
}

const char *gg_version(void)
{
    return GG_VERSION_STRING;
}
