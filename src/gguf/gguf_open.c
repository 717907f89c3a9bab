/* gguf_open.c - where header bytes come from: memory, a mapped file, a pipe. */
#include "gguf.h"

#include "../base/io.h"
#include "gguf_read.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

gg_status gg_gguf_parse(const void *bytes, uint64_t size, bool whole, gg_gguf **out, gg_error *err)
{
    gg_cursor c = { .base = bytes, .size = size };
    return gg_gguf_parse_cursor(&c, whole ? size : UINT64_MAX, out, err);
}

gg_status gg_gguf_open_fd(int fd, gg_gguf **out, uint64_t *file_size, gg_error *err)
{
    struct stat s;
    if (fstat(fd, &s) != 0) return gg_fail_errno(err, "cannot stat");
    if (!S_ISREG(s.st_mode)) {
        gg_fail(err, GG_EUSAGE, "is not a regular file");
        return gg_fix(err, "pipe it in and give - as the model");
    }
    *file_size = (uint64_t)s.st_size;
    if (s.st_size == 0) return gg_gguf_parse("", 0, true, out, err);
    /* Mapped only while parsing: the header is copied out, so that a file which is
     * truncated later is a short read and no signal. */
    void *map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) return gg_fail_errno(err, "cannot map");
    gg_status st = gg_gguf_parse(map, *file_size, true, out, err);
    munmap(map, (size_t)s.st_size);
    return st;
}

typedef struct pipe_in {
    int fd;
    uint8_t *buf;
    size_t cap;
    bool end;
} pipe_in;

/* Read in steps that double, never past what has really arrived by more than one
 * step: a claimed length alone allocates nothing. */
static gg_status more_from_pipe(gg_cursor *c, uint64_t need, gg_error *err)
{
    pipe_in *p = c->ctx;
    while (!p->end && c->size - c->pos < need) {
        if (c->size == p->cap) {
            size_t cap = p->cap ? p->cap * 2 : (size_t)64 << 10;
            uint8_t *grown = realloc(p->buf, cap);
            if (!grown) return gg_fail(err, GG_ENOMEM, "no memory for a header of over %zu bytes", p->cap);
            p->buf = grown;
            p->cap = cap;
            c->base = grown;
        }
        size_t got = 0, want = p->cap - (size_t)c->size;
        uint64_t missing = need - (c->size - c->pos);
        if (want > (size_t)64 << 10 && missing < want) want = missing > (64 << 10) ? (size_t)missing : (size_t)64 << 10;
        gg_status st = gg_read_some(p->fd, p->buf + c->size, want, &got, err);
        if (st != GG_OK) return st;
        c->size += got;
        p->end = got < want;
    }
    return GG_OK;
}

gg_status gg_gguf_read_pipe(int fd, const void *prefix, size_t prefix_len, gg_gguf **out,
                            uint8_t **surplus, size_t *surplus_len, gg_error *err)
{
    pipe_in p = { .fd = fd, .cap = prefix_len > (64 << 10) ? prefix_len : (size_t)64 << 10 };
    p.buf = malloc(p.cap);
    if (!p.buf) return gg_fail(err, GG_ENOMEM, "no memory for a header");
    if (prefix_len) memcpy(p.buf, prefix, prefix_len);
    gg_cursor c = { .base = p.buf, .size = prefix_len, .more = more_from_pipe, .ctx = &p };
    gg_status st = gg_gguf_parse_cursor(&c, UINT64_MAX, out, err);
    *surplus = NULL;
    *surplus_len = 0;
    if (st == GG_OK) {
        size_t header = (size_t)(*out)->header_bytes;
        *surplus_len = (size_t)c.size - header;
        memmove(p.buf, p.buf + header, *surplus_len);
        *surplus = p.buf;
    } else {
        free(p.buf);
    }
    return st;
}
