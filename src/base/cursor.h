/* cursor.h - bounded little-endian reads with the byte offset of every failure.
 * Internal. All parsing of file bytes goes through here: no struct is ever laid
 * over input, and no read passes `size`. */
#ifndef GG_CURSOR_H
#define GG_CURSOR_H

#include "organ/gg_status.h"

typedef struct gg_cursor gg_cursor;
struct gg_cursor {
    const uint8_t *base; /* may move when `more` is called: keep positions, not pointers */
    uint64_t size;       /* bytes there now */
    uint64_t pos;
    uint64_t end; /* size when all has come; UINT64_MAX while that is not known */
    /* Fetch until `need` bytes are there from pos, or all; not called for more than
     * `end` allows. NULL when all there is, is there: `end` is not looked at then. */
    gg_status (*more)(gg_cursor *c, uint64_t need, gg_error *err);
    void *ctx;
};

/* n bytes available from pos? GG_EFORMAT with the offset if the input ends. */
gg_status gg_cursor_need(gg_cursor *c, uint64_t n, const char *what, gg_error *err);

gg_status gg_cursor_u32(gg_cursor *c, uint32_t *v, const char *what, gg_error *err);
gg_status gg_cursor_u64(gg_cursor *c, uint64_t *v, const char *what, gg_error *err);

/* GG_EFORMAT because of what stands at byte `at`. */
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

#endif
