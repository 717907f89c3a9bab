/* buf.h - a byte buffer that grows as needed. Internal.
 *
 * Initialise a buffer with GG_BUF_INIT; release it with gg_buf_free or gg_buf_take. After the
 * first reserve or append, data[len] is a NUL that len does not count, so text is a C string.
 * A call that fails leaves the contents unchanged. Once memory lacked, calls with the same error
 * fail, so that the status of the last of several calls tells whether all pieces are there.
 */
#pragma once

#include "organ/gg_status.h"

typedef struct gg_buf {
    char *data; /* NULL while nothing is allocated */
    size_t len;
    size_t cap; /* bytes allocated */
} gg_buf;

/* clang-format off */
#define GG_BUF_INIT { NULL, 0, 0 }
/* clang-format on */

/* Reserves room for `more` bytes after len and for the NUL. Fails with GG_ENOMEM, also if the
 * size overflows. */
gg_status gg_buf_reserve(gg_buf *buf, size_t more, gg_error *err);

/* `bytes` may be NULL if n is 0. It must not point into buf. */
gg_status gg_buf_append(gg_buf *buf, const void *bytes, size_t n, gg_error *err);
gg_status gg_buf_text(gg_buf *buf, const char *text, gg_error *err);
gg_status gg_buf_printf(gg_buf *buf, gg_error *err, const char *fmt, ...) GG_PRINTF(3, 4);

void gg_buf_clear(gg_buf *buf); /* sets len to 0 and keeps the memory */
void gg_buf_free(gg_buf *buf);  /* resets buf to GG_BUF_INIT */

/* Returns the bytes, which the caller must free(), and resets buf. Returns NULL if nothing was
 * ever reserved. len may be NULL. */
char *gg_buf_take(gg_buf *buf, size_t *len);
