/* gguf_open.c - read a header from memory, a file or a pipe.
 *
 * A file is read, not mapped. If the file is truncated meanwhile or the disk fails, a read
 * returns an error, while a mapping would kill the process. Only the header has to fit into the
 * address space.
 */
#include "organ/gg_gguf.h"

#include "base/error.h"
#include "base/io.h"
#include "gguf/gguf.h"
#include "gguf_limits.h"
#include "gguf_read.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define STEP ((size_t)64 << 10)

static uint8_t *keep_copy(gg_cursor *c, size_t room)
{
    uint8_t *raw = malloc(room);
    if (raw) memcpy(raw, c->base, (size_t)c->pos);
    return raw;
}

gg_status gg_gguf_parse(const void *bytes, uint64_t size, bool whole, gg_gguf **out, gg_error *err)
{
    gg_cursor c = { .base = bytes, .size = size, .end = whole ? size : UINT64_MAX };
    return gg_gguf_parse_cursor(&c, c.end, keep_copy, out, err);
}

/* Reads a header into a buffer that then becomes gg_gguf.raw. */
typedef struct intake {
    int fd;
    uint64_t from; /* first byte of the header in the file */
    bool pipe, cut;
    uint8_t *buf;
    size_t cap;
    uint8_t *surplus; /* pipe only: bytes read beyond the header */
    size_t surplus_len;
} intake;

/* Fills the buffer. The buffer grows with the bytes that really arrive, so a claimed length
 * alone allocates nothing. Reads at most one step beyond the bytes needed. */
static gg_status more(gg_cursor *c, uint64_t need, gg_error *err)
{
    intake *in = c->ctx;
    if (c->pos + need > GG_LIMIT_HEADER) {
        gg_fail(err, GG_EUNSUPPORTED, "the header exceeds the maximum of %llu bytes",
                (unsigned long long)GG_LIMIT_HEADER);
        return gg_at_offset(err, c->pos);
    }
    while (c->size - c->pos < need && c->size < c->end) {
        if (c->size == in->cap) {
            uint8_t *grown = realloc(in->buf, in->cap * 2);
            if (!grown)
                return gg_fail(err, GG_ENOMEM, "no memory for a header of more than %zu bytes",
                               in->cap);
            c->base = in->buf = grown;
            in->cap *= 2;
        }
        uint64_t want = need - (c->size - c->pos);
        if (want < STEP) want = STEP;
        if (want > in->cap - c->size) want = in->cap - c->size;
        if (want > c->end - c->size) want = c->end - c->size;
        size_t got = (size_t)want;
        gg_status st = in->pipe ? gg_read_some(in->fd, in->buf + c->size, (size_t)want, &got, err)
                                : gg_pread_all(in->fd, in->buf + c->size, (size_t)want,
                                               in->from + c->size, err);
        if (st != GG_OK) return st;
        c->size += got;
        if (got < want) c->end = c->size;
    }
    return GG_OK;
}

/* Hands over the buffer itself, resized to `room`. */
static uint8_t *keep_buffer(gg_cursor *c, size_t room)
{
    intake *in = c->ctx;
    if (in->pipe) {
        in->surplus_len = (size_t)(c->size - c->pos);
        in->surplus = malloc(in->surplus_len + 1);
        if (!in->surplus) return NULL;
        memcpy(in->surplus, in->buf + c->pos, in->surplus_len);
    }
    uint8_t *raw = realloc(in->buf, room);
    if (raw) in->buf = NULL;
    return raw;
}

static gg_status take_in(intake *in, const void *prefix, size_t prefix_len, uint64_t size,
                         gg_gguf **out, gg_error *err)
{
    in->cap = prefix_len > STEP ? prefix_len : STEP;
    in->buf = malloc(in->cap);
    if (!in->buf) return gg_fail(err, GG_ENOMEM, "no memory for a header");
    if (prefix_len) memcpy(in->buf, prefix, prefix_len);
    gg_cursor c = { .base = in->buf, .size = prefix_len, .end = size, .more = more, .ctx = in };
    gg_status st = gg_gguf_parse_cursor(&c, in->cut ? UINT64_MAX : size, keep_buffer, out, err);
    free(in->buf);
    return st;
}

gg_status gg_gguf_read_part(int fd, uint64_t from, uint64_t size, bool cut, gg_gguf **out,
                            gg_error *err)
{
    intake in = { .fd = fd, .from = from, .cut = cut };
    gg_status st = take_in(&in, NULL, 0, size - from, out, err);
    if (st != GG_OK) {
        if (from && err->offset != GG_ERROR_NO_OFFSET) err->offset += from;
        return st;
    }
    (*out)->header_bytes += from;
    (*out)->data_start += from;
    return GG_OK;
}

gg_status gg_gguf_read_file(int fd, uint64_t size, gg_gguf **out, gg_error *err)
{
    return gg_gguf_read_part(fd, 0, size, false, out, err);
}

gg_status gg_gguf_open_cut(int fd, bool cut, gg_gguf **out, uint64_t *file_size, gg_error *err)
{
    struct stat s;
    if (fstat(fd, &s) != 0) return gg_fail_errno(err, "cannot get the file's size");
    if (!S_ISREG(s.st_mode)) {
        gg_fail(err, GG_EUSAGE, "not a regular file");
        return gg_fix(err, "pass it on standard input and give - as the model");
    }
    *file_size = (uint64_t)s.st_size;
    return gg_gguf_read_part(fd, 0, *file_size, cut, out, err);
}

gg_status gg_gguf_open_fd(int fd, gg_gguf **out, uint64_t *file_size, gg_error *err)
{
    return gg_gguf_open_cut(fd, false, out, file_size, err);
}

gg_status gg_gguf_read_pipe(int fd, const void *prefix, size_t prefix_len, gg_gguf **out,
                            uint8_t **surplus, size_t *surplus_len, gg_error *err)
{
    intake in = { .fd = fd, .pipe = true };
    gg_status st = take_in(&in, prefix, prefix_len, UINT64_MAX, out, err);
    if (st != GG_OK) free(in.surplus);
    *surplus = st == GG_OK ? in.surplus : NULL;
    *surplus_len = st == GG_OK ? in.surplus_len : 0;
    return st;
}
