/* lines.c - see lines.h. Files that options name come from anywhere, and may be devices without
 * end. */
#include "lines.h"

#include "buf.h"
#include "io.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIECE 65536 /* bytes read at a time */

typedef struct reader {
    const gg_lines *from;
    gg_line_fn *fn;
    void *ctx;
    gg_buf line;
    size_t number, total;
} reader;

static gg_status end_line(reader *r, gg_error *err)
{
    r->number++;
    if (memchr(r->line.data, '\0', r->line.len))
        return gg_fail(err, GG_EUSAGE, "line %zu contains a NUL; it is not a text", r->number);
    r->line.len = 0;
    return r->fn(r->ctx, r->line.data, r->number, err);
}

static gg_status add_piece(reader *r, const char *piece, size_t n, gg_error *err)
{
    gg_status st = GG_OK;
    if (n > r->from->most - r->total)
        return gg_fail(err, GG_EUSAGE, "%s has more than %zu MiB", r->from->what,
                       r->from->most >> 20);
    r->total += n;
    while (n > 0 && st == GG_OK) {
        const char *end = memchr(piece, '\n', n);
        size_t part = end ? (size_t)(end - piece) : n;
        if (part > GG_LINE_MAX - r->line.len)
            return gg_fail(err, GG_EUSAGE, "line %zu has more than 1 MiB; it is not a text",
                           r->number + 1);
        st = gg_buf_append(&r->line, piece, part, err);
        if (end && st == GG_OK) st = end_line(r, err);
        part += end != NULL;
        piece += part;
        n -= part;
    }
    return st;
}

static gg_status read_all(reader *r, int fd, gg_error *err)
{
    char piece[PIECE];
    size_t got = sizeof piece;
    gg_status st = GG_OK;
    while (st == GG_OK && got == sizeof piece) {
        st = gg_read_some(fd, piece, sizeof piece, &got, err);
        if (st == GG_OK) st = add_piece(r, piece, got, err);
    }
    return st == GG_OK && r->line.len > 0 ? end_line(r, err) : st;
}

gg_status gg_each_line(const gg_lines *from, gg_line_fn *fn, void *ctx, gg_error *err)
{
    reader r = { .from = from, .fn = fn, .ctx = ctx, .line = GG_BUF_INIT };
    int fd = from->path ? open(from->path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (fd < 0) { /* before errno has another value */
        gg_fail_errno(err, "cannot open %s", from->what);
        return gg_at_file(err, from->path);
    }
    gg_stamp was;
    gg_status st = gg_stamp_fd(fd, &was, err);
    if (st == GG_OK) st = read_all(&r, fd, err);
    if (st == GG_OK) st = gg_check_stamp(&was, fd, from->path, err);
    if (from->path) close(fd);
    gg_buf_free(&r.line);
    return st == GG_OK ? GG_OK : gg_at_file(err, from->path ? from->path : "<stdin>");
}
