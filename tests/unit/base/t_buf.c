/* t_buf.c - the growable buffer: growth, formatting, overflow, hand-over. */
#include "t.h"

#include "base/buf.h"

static void grows(void)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf b = GG_BUF_INIT;
    for (unsigned i = 0; i < 10000; i++) {
        unsigned char c = (unsigned char)(i * 7);
        T_EQ(gg_buf_append(&b, &c, 1, &err), GG_OK);
    }
    T_CHECK(b.len == 10000 && b.cap > b.len && b.data[b.len] == '\0');
    int wrong = 0;
    for (unsigned i = 0; i < 10000; i++)
        wrong += (unsigned char)b.data[i] != (unsigned char)(i * 7);
    T_EQ(wrong, 0);
    T_CHECK(gg_buf_append(&b, NULL, 0, &err) == GG_OK && b.len == 10000);
    size_t cap = b.cap;
    gg_buf_clear(&b);
    T_CHECK(b.len == 0 && b.cap == cap && b.data[0] == '\0');
    gg_buf_free(&b);
    T_CHECK(b.data == NULL && b.len == 0 && b.cap == 0);
}

static void formats(void)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf b = GG_BUF_INIT;
    T_EQ(gg_buf_printf(&b, &err, "%d-%s", 12, "ab"), GG_OK);
    T_STR(b.data, "12-ab");
    /* Every length around the room left, the exact fit included. */
    for (int n = 0; n < 300; n++) {
        gg_buf_free(&b);
        T_EQ(gg_buf_text(&b, "x", &err), GG_OK);
        T_EQ(gg_buf_printf(&b, &err, "%*s", n, ""), GG_OK);
        T_CHECK(b.len == (size_t)n + 1 && strlen(b.data) == b.len);
    }
    gg_buf_free(&b);
}

static void refuses_overflow(void)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf b = GG_BUF_INIT;
    T_EQ(gg_buf_text(&b, "kept", &err), GG_OK);
    T_EQ(gg_buf_reserve(&b, SIZE_MAX, &err), GG_ENOMEM);
    T_EQ(err.status, GG_ENOMEM);
    T_EQ(gg_buf_reserve(&b, SIZE_MAX - 4, &err), GG_ENOMEM);
    T_EQ(gg_buf_reserve(&b, (size_t)PTRDIFF_MAX, &err), GG_ENOMEM);
    T_EQ(gg_buf_reserve(&b, (size_t)PTRDIFF_MAX - 4, &err), GG_ENOMEM);
    T_CHECK(b.len == 4 && strcmp(b.data, "kept") == 0);
    gg_buf_free(&b);
}

static void hands_over(void)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf b = GG_BUF_INIT;
    size_t n = 1;
    T_CHECK(gg_buf_take(&b, &n) == NULL && n == 0);
    T_EQ(gg_buf_append(&b, "a\0b", 3, &err), GG_OK);
    char *p = gg_buf_take(&b, &n);
    T_CHECK(n == 3 && memcmp(p, "a\0b", 4) == 0 && b.data == NULL && b.cap == 0);
    free(p);
}

static const t_case cases[] = {
    { "grows", grows },
    { "formats", formats },
    { "refuses overflow", refuses_overflow },
    { "hands over", hands_over },
};
T_MAIN(cases)
