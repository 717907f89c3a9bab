/* buf.c - a byte buffer that grows as needed; every size is checked for overflow. */
#include "buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gg_status gg_buf_reserve(gg_buf *buf, size_t more, gg_error *err)
{
    if (err->status == GG_ENOMEM) return GG_ENOMEM; /* a piece before this one is missing */
    /* malloc and pointer arithmetic cannot go beyond PTRDIFF_MAX. */
    const size_t most = (size_t)PTRDIFF_MAX - 1;
    if (buf->len > most || more > most - buf->len)
        return gg_fail(err, GG_ENOMEM, "a buffer would exceed %zu bytes", most);
    size_t need = buf->len + more + 1;
    if (need <= buf->cap) return GG_OK;
    size_t cap = buf->cap < most / 2 ? buf->cap + buf->cap / 2 : need;
    if (cap < need) cap = need;
    if (cap < 64) cap = 64;
    char *data = realloc(buf->data, cap);
    if (!data) return gg_fail(err, GG_ENOMEM, "no memory for a buffer of %zu bytes", cap);
    buf->data = data;
    buf->cap = cap;
    buf->data[buf->len] = '\0';
    return GG_OK;
}

gg_status gg_buf_append(gg_buf *buf, const void *bytes, size_t n, gg_error *err)
{
    gg_status st = gg_buf_reserve(buf, n, err);
    if (st) return st;
    if (n) memcpy(buf->data + buf->len, bytes, n);
    buf->len += n;
    assert(buf->len < buf->cap);
    buf->data[buf->len] = '\0';
    return GG_OK;
}

gg_status gg_buf_text(gg_buf *buf, const char *text, gg_error *err)
{
    return gg_buf_append(buf, text, strlen(text), err);
}

gg_status gg_buf_printf(gg_buf *buf, gg_error *err, const char *fmt, ...)
{
    gg_status st = gg_buf_reserve(buf, 64, err);
    if (st) return st;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(buf->data + buf->len, buf->cap - buf->len, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n >= buf->cap - buf->len) {
        buf->data[buf->len] = '\0';
        st = gg_buf_reserve(buf, (size_t)n, err);
        if (st) return st;
        va_start(ap, fmt);
        n = vsnprintf(buf->data + buf->len, buf->cap - buf->len, fmt, ap);
        va_end(ap);
    }
    if (n < 0) {
        buf->data[buf->len] = '\0';
        return gg_fail(err, GG_ENOMEM, "cannot format a text");
    }
    buf->len += (size_t)n;
    return GG_OK;
}

void gg_buf_clear(gg_buf *buf)
{
    buf->len = 0;
    if (buf->data) buf->data[0] = '\0';
}

void gg_buf_free(gg_buf *buf)
{
    free(buf->data);
    *buf = (gg_buf)GG_BUF_INIT;
}

char *gg_buf_take(gg_buf *buf, size_t *len)
{
    char *data = buf->data;
    if (len) *len = buf->len;
    *buf = (gg_buf)GG_BUF_INIT;
    return data;
}
