/* key_options.c - the options that set keys, shared by several tools. */
#include "key_options.h"

#include <string.h>

void key_options_note(const cli *c, const cli_list *texts, const char *option)
{
    for (size_t i = 0; i < texts->n; i++) {
        const char *text = texts->items[i], *value = strchr(text, '=');
        if (!value++) continue;
        if (strncmp(value, "str:", 4) == 0) value += 4;
        if (value[0] != '@' || !value[1]) continue;
        int key = (int)(strchr(text, '=') - text);
        cli_note(c, "%.*s is set to the text '%s'; to store the content of a file, use %s %.*s=%s",
                 key, text, value, option, key, text, value + 1);
    }
}
