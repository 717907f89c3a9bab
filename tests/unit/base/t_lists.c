/* t_lists.c - strings that stay where they are, and lists that grow. */
#include "t.h"

#include "base/grow.h"
#include "base/names.h"

static void addresses_stay(void)
{
    enum { COUNT = 5000 };
    static const char *at[COUNT];
    gg_names names = { 0 };
    gg_error e = GG_ERROR_INIT;
    char text[32];
    for (int i = 0; i < COUNT; i++) {
        int n = snprintf(text, sizeof text, "blk.%d.ffn_up.weight", i);
        at[i] = gg_names_add(&names, text, (size_t)n, &e);
    }
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) {
        snprintf(text, sizeof text, "blk.%d.ffn_up.weight", i);
        wrong += !at[i] || strcmp(at[i], text) != 0;
    }
    T_CHECKF(wrong == 0, "%d of %d names are not what was added", wrong, COUNT);
    gg_names_free(&names);
    T_CHECK(names.last == NULL);
    gg_names_free(&names);
}

static void any_bytes_and_lengths(void)
{
    static const size_t lengths[] = { 0, 1, 16382, 16383, 16384, 16385, 100000, 3 };
    gg_names names = { 0 };
    gg_error e = GG_ERROR_INIT;
    const char *at[8];
    char *bytes = malloc(100000);
    if (!bytes) exit(1);
    for (size_t i = 0; i < 8; i++) {
        memset(bytes, (int)i, lengths[i]);
        at[i] = gg_names_add(&names, bytes, lengths[i], &e);
    }
    for (size_t i = 0; i < 8; i++) {
        memset(bytes, (int)i, lengths[i]);
        T_CHECK(at[i] && memcmp(at[i], bytes, lengths[i]) == 0 && at[i][lengths[i]] == '\0');
    }
    free(bytes);
    T_CHECK(gg_names_add(&names, "", SIZE_MAX, &e) == NULL && e.status == GG_ENOMEM);
    gg_names_free(&names);
}

static void lists_grow(void)
{
    gg_error e = GG_ERROR_INIT;
    size_t cap = 0, moves = 0;
    uint64_t *list = NULL;
    for (size_t n = 0; n < 100000; n++) {
        size_t before = cap;
        bool room = GG_ROOM(list, n, &cap, &e) == GG_OK;
        T_CHECK(room && cap > n);
        if (!room) break;
        list[n] = n;
        moves += cap != before;
    }
    int wrong = 0;
    for (size_t n = 0; n < 100000; n++) wrong += list[n] != n;
    T_CHECKF(wrong == 0 && moves < 20, "%d wrong, %zu moves", wrong, moves);
    size_t huge = SIZE_MAX / 2, most = SIZE_MAX / 8;
    T_CHECK(GG_ROOM(list, huge, &huge, &e) == GG_ENOMEM && list && huge == SIZE_MAX / 2);
    T_CHECK(GG_ROOM(list, most, &most, &e) == GG_ENOMEM && list && most == SIZE_MAX / 8);
    free(list);
}

static const t_case cases[] = {
    { "addresses stay", addresses_stay },
    { "any bytes, any length", any_bytes_and_lengths },
    { "lists grow", lists_grow },
};

T_MAIN(cases)
