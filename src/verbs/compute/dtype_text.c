/* dtype_text.c - replaces @FILE in the text of rules by the rules in the file. */
#include "dtype_text.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/lines.h"

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

typedef struct rules_file {
    gg_buf *to;
    bool table;
} rules_file;

static gg_status add_line(void *ctx, char *line, size_t number, gg_error *err)
{
    rules_file *f = ctx;
    bool header = number == 1 && strncmp(line, "tensor\ttype", 11) == 0;
    f->table = f->table || header;
    if (header || line[0] == '#') return GG_OK;
    char *item = f->table ? line : trim(line);
    if (item[0] == '@')
        return gg_fail(err, GG_EUSAGE, "line %zu: a file of rules cannot name another", number);
    if (f->table) return add_table_row(f->to, item, number, err);
    return item[0] ? add_item(f->to, item, err) : GG_OK;
}

static gg_status add_file(gg_buf *to, const char *path, gg_error *err)
{
    size_t before = to->len;
    rules_file f = { .to = to };
    gg_lines from = { path, "the file of rules", MAX_TEXT };
    gg_status st = gg_each_line(&from, add_line, &f, err);
    if (st != GG_OK || to->len > before) return st;
    gg_fail(err, GG_EUSAGE, "the file has no rules");
    return gg_at_file(err, path);
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
