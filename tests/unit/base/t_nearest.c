/* t_nearest.c - which known word a misspelt one probably means. */
#include "t.h"

#include "base/nearest.h"

static const char *const words[] = { "theta", NULL,     "calibrated", "row_theta", "type",
                                     "kept",  "output", "outputs",    "x",         "" };

static const char *near(const char *word)
{
    const char *found = gg_nearest(word, strlen(word), words, sizeof words / sizeof words[0]);
    return found ? found : "(none)";
}

static void finds(const char *word, const char *want)
{
    T_CHECKF(strcmp(near(word), want) == 0, "'%s' gives '%s', not '%s'", word, near(word), want);
}

static void all(void)
{
    finds("thata", "theta");
    finds("htета", "(none)");
    finds("hteta", "theta"); /* two letters swapped count once */
    finds("THETA", "theta");
    finds("calib", "calibrated"); /* a beginning */
    finds("calibratde", "calibrated");
    finds("clibratedd", "calibrated");
    finds("rowtheta", "row_theta");
    finds("typ", "type");
    finds("tpe", "type");
    finds("ty", "(none)"); /* too short to be sure */
    finds("outputss", "outputs");
    finds("outptu", "output");
    finds("outpu", "output"); /* the first of equals */
    finds("kep", "kept");
    finds("zzzz", "(none)");
    finds("X", "x"); /* one letter only when its case alone differs */
    finds("y", "(none)");
    finds("", "(none)");
    finds("a very long word that exceeds every known word and the table's row too", "(none)");
    T_CHECK(gg_nearest("theta", 5, words, 0) == NULL);
    T_CHECK(strcmp(gg_nearest("thetaXXXX", 5, words, 1), "theta") == 0); /* len counts */
}

static void texts(void)
{
    char text[GG_MEANT], longest[65];
    memset(longest, 'a', 64);
    longest[64] = '\0';
    T_CHECK(strcmp(gg_meant("theta", text), " (did you mean 'theta'?)") == 0);
    T_CHECK(strlen(gg_meant(longest, text)) == strlen(" (did you mean ''?)") + 64);
    T_CHECK(strcmp(gg_meant(NULL, text), "") == 0);
}

static const t_case cases[] = {
    { "misspelt words", all },
    { "error texts", texts },
};
T_MAIN(cases)
