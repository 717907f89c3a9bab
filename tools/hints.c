/* hints.c - translates the library's hints into command-line options. */
#include "hints.h"

#include <stdio.h>
#include <string.h>

#include "options/hints.h"

void hint_append(gg_hint hint, char *text, size_t size)
{
    const char *option = (unsigned)hint < GG_HINT_COUNT ? hints[hint] : NULL;
    size_t n = strlen(text);
    if (option && n + strlen(option) + 4 <= size) snprintf(text + n, size - n, " (%s)", option);
}
