/* cursor.h - bounded little-endian reads whose errors carry the byte offset. Internal.
 *
 * All parsing of file bytes uses this cursor. Input is never cast to a struct, and no read goes
 * beyond `size`. */
#pragma once

#include "organ/gg_status.h"

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

static inline uint16_t gg_le16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t gg_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t gg_le64(const uint8_t *p)
{
    return (uint64_t)gg_le32(p) | (uint64_t)gg_le32(p + 4) << 32;
}

static inline void gg_put_le32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v, p[1] = (uint8_t)(v >> 8), p[2] = (uint8_t)(v >> 16),
    p[3] = (uint8_t)(v >> 24);
}

static inline void gg_put_le64(uint8_t *p, uint64_t v)
{
    gg_put_le32(p, (uint32_t)v);
    gg_put_le32(p + 4, (uint32_t)(v >> 32));
}
