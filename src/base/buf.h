/* buf.h - a growable run of bytes. Internal.
 *
 * Start from GG_BUF_INIT, end with gg_buf_free or gg_buf_take. Once anything was
 * reserved or appended, data[len] is a NUL (not counted), so text is a C string.
 * A failed call leaves the contents as they were.
 */
#ifndef GG_BUF_H
#define GG_BUF_H

#include "organ/gg_status.h"

typedef struct gg_buf {
    char *data; /* NULL while nothing is held */
    size_t len;
    size_t cap; /* bytes allocated */
} gg_buf;

/* clang-format off */
#define GG_BUF_INIT { NULL, 0, 0 }
/* clang-format on */

/* Room for `more` bytes after len (and the NUL). GG_ENOMEM, also on overflow. */
gg_status gg_buf_reserve(gg_buf *buf, size_t more, gg_error *err);

/* `bytes` may be NULL when n is 0; it must not point into buf. */
gg_status gg_buf_append(gg_buf *buf, const void *bytes, size_t n, gg_error *err);
gg_status gg_buf_text(gg_buf *buf, const char *text, gg_error *err);
gg_status gg_buf_printf(gg_buf *buf, gg_error *err, const char *fmt, ...) GG_PRINTF(3, 4);

void gg_buf_clear(gg_buf *buf); /* len 0, memory kept */
void gg_buf_free(gg_buf *buf);  /* back to GG_BUF_INIT */

/* Hand the malloc'ed bytes to the caller (free() them) and reset buf. NULL if
 * nothing was ever reserved. len may be NULL. */
char *gg_buf_take(gg_buf *buf, size_t *len);

#endif
