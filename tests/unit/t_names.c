/* t_names.c - strings that stay where they are. */
#include "t.h"

#include "../../src/base/names.h"

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

static const t_case cases[] = {
    { "addresses stay", addresses_stay },
    { "any bytes, any length", any_bytes_and_lengths },
};

T_MAIN(cases)
