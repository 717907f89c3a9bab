/* t_cursor.c - reads that never pass the end, and say where it was. */
#include "t.h"

#include "base/cursor.h"

static void little_endian(void)
{
    static const uint8_t bytes[] = { 0x01, 0x82, 0x03, 0xf4, 0x05, 0x06, 0x07, 0x88 };
    T_CHECK(gg_le16(bytes) == 0x8201 && gg_le32(bytes) == 0xf4038201u);
    T_EQ(gg_le64(bytes), 0x88070605f4038201ull);
    uint8_t out[8];
    gg_put_le64(out, 0x88070605f4038201ull);
    T_CHECK(memcmp(out, bytes, 8) == 0);
    gg_put_le32(out, 0x11223344);
    T_CHECK(out[0] == 0x44 && out[3] == 0x11 && out[4] == 0x05);
}

static void reads_move_on(void)
{
    static const uint8_t bytes[12] = { 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1 };
    gg_cursor c = { .base = bytes, .size = 12 };
    gg_error e = GG_ERROR_INIT;
    uint32_t a = 0;
    uint64_t b = 0;
    T_CHECK(gg_cursor_u32(&c, &a, "a", &e) == GG_OK && a == 1 && c.pos == 4);
    T_CHECK(gg_cursor_u64(&c, &b, "b", &e) == GG_OK && b == 0x0100000000000002ull && c.pos == 12);
    T_EQ(gg_cursor_need(&c, 0, "nothing", &e), GG_OK);
    T_CHECK(gg_cursor_need(&c, 1, "more", &e) == GG_EFORMAT && e.offset == 12);
}

/* Every short size fails at the place it should, and no claim of a length wraps. */
static void ends_are_seen(void)
{
    static const uint8_t bytes[8] = { 0 };
    for (uint64_t size = 0; size < 8; size++) {
        gg_cursor c = { .base = bytes, .size = size };
        gg_error e = GG_ERROR_INIT;
        uint64_t v;
        T_CHECK(gg_cursor_u64(&c, &v, "a number", &e) == GG_EFORMAT && e.offset == 0 && c.pos == 0);
        T_CHECK(strstr(e.what, size ? "a number" : "is empty") != NULL);
    }
    gg_cursor c = { .base = bytes, .size = 8, .pos = 3 };
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_cursor_need(&c, UINT64_MAX, "all", &e) == GG_EFORMAT && e.offset == 3);
}

typedef struct feed {
    const uint8_t *all;
    uint64_t n;
    int calls;
} feed;

static gg_status one_more(gg_cursor *c, uint64_t need, gg_error *err)
{
    (void)err;
    feed *f = c->ctx;
    f->calls++;
    c->base = f->all;
    while (c->size < f->n && c->size - c->pos < need) c->size++;
    return GG_OK;
}

static gg_status broken(gg_cursor *c, uint64_t need, gg_error *err)
{
    (void)c, (void)need;
    return gg_fail(err, GG_EIO, "the pipe broke");
}

static void more_is_fetched(void)
{
    static const uint8_t bytes[6] = { 7, 0, 0, 0, 9, 9 };
    feed f = { bytes, 6, 0 };
    gg_cursor c = { .base = NULL, .size = 0, .end = UINT64_MAX, .more = one_more, .ctx = &f };
    gg_error e = GG_ERROR_INIT;
    uint32_t v = 0;
    T_CHECK(gg_cursor_u32(&c, &v, "v", &e) == GG_OK && v == 7 && f.calls == 1 && c.size == 4);
    T_CHECK(gg_cursor_u32(&c, &v, "v", &e) == GG_EFORMAT && e.offset == 4);
    gg_cursor d = { .base = bytes, .size = 2, .end = UINT64_MAX, .more = broken };
    gg_error e2 = GG_ERROR_INIT;
    T_CHECK(gg_cursor_u32(&d, &v, "v", &e2) == GG_EIO && strstr(e2.what, "broke"));
    gg_cursor known = {
        .base = bytes, .size = 1, .end = 3, .more = broken
    }; /* 3 bytes, whatever comes: not asked */
    gg_error e3 = GG_ERROR_INIT;
    T_CHECK(gg_cursor_u32(&known, &v, "v", &e3) == GG_EFORMAT &&
            strstr(e3.what, "4 bytes needed, 3 left"));
    T_CHECK(strstr(e3.fix, "it has 3 of at least 4 bytes"));
}

static const t_case cases[] = {
    { "little-endian", little_endian },
    { "reads move on", reads_move_on },
    { "ends are seen", ends_are_seen },
    { "more is fetched", more_is_fetched },
};

T_MAIN(cases)
