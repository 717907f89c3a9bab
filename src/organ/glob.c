/* glob.c - shell-style matching of names.
 *
 * There is no recursion: on a mismatch only the last * is extended by one byte. The cost is
 * therefore at most the length of the pattern times the length of the name. */
#include "organ/gg_organ.h"

#include "organ/select.h"

/* Whether the set [..] at *p contains c. Moves *p past the set. A [ without ] is an ordinary
 * character. */
static bool in_set(const char **p, char c)
{
    const char *s = *p + 1;
    bool negate = *s == '!' || *s == '^', found = false;
    if (negate) s++;
    const char *first = s;
    for (; *s && (*s != ']' || s == first); s++) {
        if (s[1] == '-' && s[2] && s[2] != ']') {
            found = found || ((unsigned char)c >= (unsigned char)s[0] &&
                              (unsigned char)c <= (unsigned char)s[2]);
            s += 2;
        } else {
            found = found || *s == c;
        }
    }
    if (*s != ']') {
        found = c == '[', negate = false;
        s = *p;
    }
    *p = s + 1;
    return found != negate;
}

static bool one(const char **p, char c)
{
    if (**p == '\0') return false;
    if (**p == '[') return in_set(p, c);
    bool ok = **p == '?' || **p == c;
    ++*p;
    return ok;
}

bool gg_glob(const char *pattern, const char *name)
{
    const char *star = NULL, *resume = name;
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = name;
            continue;
        }
        const char *p = pattern;
        if (one(&p, *name)) {
            pattern = p;
            name++;
        } else if (star) {
            pattern = star;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}
