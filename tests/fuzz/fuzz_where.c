/* fuzz_where.c - any text as the value of --where: refused in one line without control bytes, or a
 * condition of which the opposite holds for exactly the other rows. */
#include "room.h"

#include "common/where.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/where", NULL };

static const char *const columns[] = { "name\tblock\tclass\tdtype\tdims\tbytes",
                                       "name\tpart\trole\tstatus\tcosine\trel_l2", "theta" };

static bool parse(const char *text, const char *of, where *w)
{
    char why[WHERE_WHY];
    if (where_parse(text, of, w, why)) return true;
    FUZZ_MUST(strncmp(why, "--where", 7) == 0);
    return false;
}

/* Each operator and the one that holds where it does not, as numbers that are not NaN. */
static const where_op opposites[] = {
    [WHERE_LESS] = WHERE_GREATER_OR_EQUAL, [WHERE_LESS_OR_EQUAL] = WHERE_GREATER,
    [WHERE_GREATER] = WHERE_LESS_OR_EQUAL, [WHERE_GREATER_OR_EQUAL] = WHERE_LESS,
    [WHERE_EQUAL] = WHERE_NOT_EQUAL,       [WHERE_NOT_EQUAL] = WHERE_EQUAL
};

static void look_at(const where *w, const char *text)
{
    const where_value cells[] = {
        { .kind = WHERE_ABSENT },
        { .kind = WHERE_NUMBER, .number = NAN },
        { .kind = WHERE_NUMBER, .number = -0.5 },
        { .kind = WHERE_NUMBER, .number = INFINITY },
        { .kind = WHERE_NUMBER, .number = w->value.number },
        { .kind = WHERE_WHOLE, .number = 0, .whole = 0 },
        { .kind = WHERE_WHOLE, .number = 18446744073709551615.0, .whole = UINT64_MAX },
        { .kind = WHERE_WHOLE, .number = (double)w->value.whole, .whole = w->value.whole },
        { .kind = WHERE_TEXT, .text = "blk.0.attn_q.weight" },
        { .kind = WHERE_TEXT, .text = text },
    };
    where other = *w;
    other.op = opposites[w->op];
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        bool comparable = w->value.kind == WHERE_TEXT ? cells[i].kind == WHERE_TEXT
                                                      : i > 1 && cells[i].kind != WHERE_TEXT;
        int held = where_holds(w, &cells[i]) + where_holds(&other, &cells[i]);
        FUZZ_MUST(held == comparable);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t c;
    where w;
    size_t n = room_choices(data, size, &c, 1);
    char *text = malloc(n + 1);
    FUZZ_MUST(text);
    if (n) memcpy(text, data, n);
    text[n] = '\0';
    if (parse(text, columns[c % 3], &w)) look_at(&w, text);
    free(text);
    return 0;
}
