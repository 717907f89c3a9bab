/* cursor.c - bounded little-endian reads. */
#include "cursor.h"

#include "error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

gg_status gg_cursor_need(gg_cursor *c, uint64_t n, const char *what, gg_error *err)
{
    assert(c->pos <= c->size);
    if (c->size - c->pos >= n) return GG_OK;
    uint64_t left = c->size - c->pos;
    if (c->more) {
        gg_status st = c->end - c->pos >= n ? c->more(c, n, err) : GG_OK;
        if (st != GG_OK || c->size - c->pos >= n) return st;
        left = (c->end == UINT64_MAX ? c->size : c->end) - c->pos;
    }
    if (c->pos == 0 && left == 0) gg_fail(err, GG_EFORMAT, "the file is empty");
    else
        gg_fail(err, GG_EFORMAT, "the file ends within %s: %llu bytes needed, %llu left", what,
                (unsigned long long)n, (unsigned long long)left);
    if (n <= UINT64_MAX - c->pos)
        gg_fix(err, "fetch the file again: it has %llu of at least %llu bytes, or is damaged",
               (unsigned long long)(c->pos + left), (unsigned long long)(c->pos + n));
    else gg_fix(err, "fetch the file again: it is damaged");
    return gg_at_offset(err, c->pos);
}

gg_status gg_cursor_u32(gg_cursor *c, uint32_t *v, const char *what, gg_error *err)
{
    gg_status st = gg_cursor_need(c, 4, what, err);
    if (st == GG_OK) {
        *v = gg_le32(c->base + c->pos);
        c->pos += 4;
    }
    return st;
}

gg_status gg_cursor_u64(gg_cursor *c, uint64_t *v, const char *what, gg_error *err)
{
    gg_status st = gg_cursor_need(c, 8, what, err);
    if (st == GG_OK) {
        *v = gg_le64(c->base + c->pos);
        c->pos += 8;
    }
    return st;
}

gg_status gg_fail_at(uint64_t at, gg_error *err, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    gg_fail(err, GG_EFORMAT, "%s", text);
    return gg_at_offset(err, at);
}
