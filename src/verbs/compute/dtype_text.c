/* dtype_text.c - replaces @FILE in the text of rules by the rules in the file. */
#include "dtype_text.h"

#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Far above the rules of any model. */
#define MAX_TEXT ((size_t)64 << 20)

static char *trim(char *line)
{
    line += strspn(line, " \t\r\n");
    size_t n = strlen(line);
    while (n && strchr(" \t\r\n,", line[n - 1])) line[--n] = '\0';
    return line;
}

static gg_status add_item(gg_buf *to, const char *item, gg_error *err)
{
    gg_status st = to->data ? gg_buf_text(to, ",", err) : GG_OK;
    if (st == GG_OK && to->len > MAX_TEXT)
        st = gg_fail(err, GG_EUSAGE, "there are more than 64 MiB of rules");
    return st == GG_OK ? gg_buf_text(to, item, err) : st;
}

/* "tensor<TAB>type<TAB>..." */
static gg_status add_table_row(gg_buf *to, char *line, size_t number, gg_error *err)
{
    char *type = strchr(line, '\t');
    if (!type || type == line)
        return gg_fail(err, GG_EUSAGE, "line %zu has no tensor and type", number);
    *type++ = '\0';
    type[strcspn(type, "\t\r\n")] = '\0';
    if (strpbrk(line, ",*?[")) /* it would be read as a pattern, or as two rules */
        return gg_fail(err, GG_EUSAGE, "line %zu: the name contains ',', '*', '?' or '['", number);
    gg_status st = add_item(to, line, err);
    if (st == GG_OK) st = gg_buf_text(to, "=", err);
    return st == GG_OK ? gg_buf_text(to, type, err) : st;
}

static gg_status add_lines(gg_buf *to, FILE *f, gg_error *err)
{
    char *line = NULL;
    size_t cap = 0, number = 0;
    bool table = false;
    gg_status st = GG_OK;
    for (ssize_t n; st == GG_OK && (n = getline(&line, &cap, f)) >= 0;) {
        if (strlen(line) != (size_t)n)
            st = gg_fail(err, GG_EUSAGE, "line %zu contains a NUL; it is not a text", number + 1);
        bool header = ++number == 1 && strncmp(line, "tensor\ttype", 11) == 0;
        table = table || header;
        if (st != GG_OK || header || line[0] == '#') continue;
        char *item = table ? line : trim(line);
        if (item[0] == '@')
            st = gg_fail(err, GG_EUSAGE, "line %zu: a file of rules cannot name another", number);
        else if (table) st = add_table_row(to, item, number, err);
        else if (item[0]) st = add_item(to, item, err);
    }
    free(line);
    return st == GG_OK && ferror(f) ? gg_fail_errno(err, "cannot read the rules") : st;
}

static gg_status add_file(gg_buf *to, const char *path, gg_error *err)
{
    size_t before = to->len;
    FILE *f = fopen(path, "r");
    if (!f) gg_fail_errno(err, "cannot open the rules");
    gg_status st = f ? add_lines(to, f, err) : err->status;
    if (f) fclose(f);
    if (st == GG_OK && to->len == before) st = gg_fail(err, GG_EUSAGE, "the file has no rules");
    return st == GG_OK ? GG_OK : gg_at_file(err, path);
}

gg_status gg_dtype_text(const char *text, char **out, gg_error *err)
{
    gg_buf to = GG_BUF_INIT;
    char *copy = strdup(text), *next = copy;
    gg_status st = copy ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the rules of types");
    while (next && st == GG_OK) {
        char *item = next;
        next = strchr(item, ',');
        if (next) *next++ = '\0';
        st = item[0] == '@' ? add_file(&to, item + 1, err) : add_item(&to, item, err);
    }
    free(copy);
    if (st == GG_OK) st = gg_buf_reserve(&to, 0, err);
    if (st == GG_OK) *out = gg_buf_take(&to, NULL);
    else gg_buf_free(&to);
    return st;
}
