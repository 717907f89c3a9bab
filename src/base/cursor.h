/* cursor.h - bounded little-endian reads whose errors carry the byte offset. Internal.
 *
 * All parsing of file bytes uses this cursor. Input is never cast to a struct, and no read goes
 * beyond `size`. */
#pragma once

#include "organ/gg_status.h"

#include <string.h>

typedef struct gg_cursor gg_cursor;
struct gg_cursor {
    const uint8_t *base; /* may move when `more` is called: keep positions, not pointers */
    uint64_t size;       /* bytes available now */
    uint64_t pos;
    uint64_t end; /* total size of the input; UINT64_MAX if it is unknown, as on a pipe */
    /* Reads on until `need` bytes are available from pos or the input ends. Never called for
     * bytes beyond `end`. NULL if all bytes are available already; `end` is unused then. */
    gg_status (*more)(gg_cursor *c, uint64_t need, gg_error *err);
    void *ctx;
};

/* Makes n bytes available at pos. Fails with GG_EFORMAT and the offset if the input ends before.
 * `what` is the name of the item that is read, for the message. */
gg_status gg_cursor_need(gg_cursor *c, uint64_t n, const char *what, gg_error *err);

gg_status gg_cursor_u32(gg_cursor *c, uint32_t *v, const char *what, gg_error *err);
gg_status gg_cursor_u64(gg_cursor *c, uint64_t *v, const char *what, gg_error *err);

/* Records GG_EFORMAT about the byte at offset `at`, and returns it. */
gg_status gg_fail_at(uint64_t at, gg_error *err, const char *fmt, ...) GG_PRINTF(3, 4);

/* Each is one instruction, because all hosts are little-endian (host.c). */

static inline uint16_t gg_le16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t gg_le32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t gg_le64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void gg_put_le32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline void gg_put_le64(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}
