/* markdown.c - text in Markdown. */
#include "markdown.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Whether this character would mean something in Markdown. An underscore within a word and a colon
 * without slashes mean nothing. */
static bool is_markup(const char *text, const char *p)
{
    bool inside = p > text && isalnum((unsigned char)p[-1]) && isalnum((unsigned char)p[1]);
    return *p == '_'   ? !inside
           : *p == ':' ? p[1] == '/'
           : *p == '.' ? p - text >= 3 && strncasecmp(p - 3, "www", 3) == 0
                       : strchr("\\`*{}[]<>#|!~&$@", *p) != NULL;
}

gg_status markdown_put(gg_buf *b, const void *text, size_t len, gg_error *err)
{
    char safe[4 * 200 + 1];
    gg_escape(text, len < 200 ? len : 200, safe, sizeof safe);
    for (const char *p = safe; *p; p++)
        gg_buf_printf(b, err, "%s%c", is_markup(safe, p) ? "\\" : "", *p);
    if (len > 200) gg_buf_text(b, "...", err);
    return err->status;
}
