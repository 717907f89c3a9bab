/* help.c - prints a tool's --help and --list-options from its table of options.
 *
 * The texts of a tool name files of the source tree. For an installed tool in PREFIX/bin the same
 * files are in PREFIX/share/organ-suite, so the paths are replaced. The examples then work
 * when pasted, both in the source tree and outside of it.
 */
#include "cli.h"
#include "table.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXAMPLES "/share/organ-suite/examples"

/* Paths of the source tree, and what replaces each of them after PREFIX. */
static const struct {
    const char *in_source, *installed;
} places[] = { { "tests/data/lab", EXAMPLES },
               { "$PWD/build/bin", "/bin" },
               { "build/bin", "/bin" } };

/* Writes PREFIX to path[size]; false if the tool is not installed. */
static bool find_prefix(char *path, size_t size)
{
    struct stat s;
    ssize_t n = readlink("/proc/self/exe", path, size);
    if (n <= 0 || (size_t)n >= size) return false;
    path[n] = '\0';
    for (int up = 0; up < 2; up++) { /* PREFIX/bin/TOOL */
        char *slash = strrchr(path, '/');
        if (!slash) return false;
        *slash = '\0';
    }
    size_t len = strlen(path);
    if (len + sizeof EXAMPLES > size) return false;
    strcpy(path + len, EXAMPLES);
    bool found = stat(path, &s) == 0 && S_ISDIR(s.st_mode);
    path[len] = '\0';
    return found;
}

static void put_installed(const char *help)
{
    char prefix[4096];
    bool installed = find_prefix(prefix, sizeof prefix);
    while (*help) {
        size_t skip = 0;
        for (size_t i = 0; installed && !skip && i < sizeof places / sizeof places[0]; i++) {
            size_t n = strlen(places[i].in_source);
            if (strncmp(help, places[i].in_source, n) != 0) continue;
            printf("%s%s", prefix, places[i].installed);
            skip = n;
        }
        if (!skip) putchar(*help++);
        help += skip;
    }
}

/* ---- the options -------------------------------------------------------------------------- */

#define SCREEN 80
#define TEXT_AT 21 /* column of the explanation of an option */

/* Prints text word by word, with lines of at most SCREEN columns; `*column` is the current one.
 * Lines after the first begin at `indent`. */
static void put_wrapped(const char *text, size_t *column, size_t indent)
{
    bool first = true;
    while (*text) {
        size_t n = strcspn(text, " \n");
        if (!first && *column + 1 + n > SCREEN) {
            printf("\n%*s", (int)indent, "");
            *column = indent;
        } else if (!first) {
            putchar(' ');
            ++*column;
        }
        printf("%.*s", (int)n, text);
        *column += n;
        text += n;
        first = false;
        if (*text == '\n') {
            printf("\n%*s", (int)indent, "");
            *column = indent;
            first = true;
        }
        text += *text != '\0';
    }
}

/* Writes "--name ARG", or "-n ARG" with `letter`. */
static void option_head(const cli_option *o, bool letter, char *text, size_t size)
{
    char short_name[] = { o->letter, '\0' };
    snprintf(text, size, "%s%s%s%s", letter ? "-" : "--", letter ? short_name : o->name,
             o->arg ? " " : "", o->arg ? o->arg : "");
}

/* Prints an option in the line of the row before, or in a new line if that is full. */
static void put_flowing(const cli_option *o, size_t *column)
{
    char head[100], item[256];
    option_head(o, o->letter && o->help, head, sizeof head);
    int n = snprintf(item, sizeof item, "%s%s%s", head, o->help ? " " : "", o->help ? o->help : "");
    if (*column + strlen(o->flow) + (size_t)n > SCREEN - 1) {
        printf("%s\n%*s", o->flow[0] == ',' ? "," : "", 8, "");
        *column = 8;
    } else {
        *column += (size_t)printf("%s", o->flow);
    }
    *column += (size_t)printf("%s", item);
}

/* Writes all words of the value of an option, separated by spaces. */
static void join_values(const cli_option *o, char *text, size_t size)
{
    char word[64];
    const char *value;
    text[0] = '\0';
    for (size_t i = 0; (value = options_value(o, i, word)); i++) {
        size_t n = strlen(text);
        snprintf(text + n, size - n, "%s%s", n ? " " : "", value);
    }
}

/* Prints an option in a line of its own, or a line without an option. */
static void put_row(const cli_option *o, size_t *column)
{
    char head[100], values[1024];
    if (*column) putchar('\n');
    *column = 0;
    if (!o->name) {
        put_wrapped(o->help, column, 0);
        return;
    }
    join_values(o, values, sizeof values);
    const char *text = *o->help ? o->help : values;
    option_head(o, false, head, sizeof head);
    *column = (size_t)printf(*text ? "  %-18s " : "  %s", head);
    if (!*text) return;
    if (*column > TEXT_AT) *column += (size_t)printf(" ");
    put_wrapped(text, column, TEXT_AT);
}

void help_print(cli *c)
{
    size_t column = 0;
    put_installed(c->intro);
    putchar('\n');
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_option *o = c->rows[i].o;
        if (o->flow) put_flowing(o, &column);
        else if (o->help && !o->place) put_row(o, &column);
    }
    printf("\n\nexamples:\n");
    put_installed(c->examples);
}

/* ---- --list-options -------------------------------------------------------------------------- */

void help_list_options(cli *c)
{
    table t = table_start(
        c->json, "option\tletter\targ\tkind\tmany\thttp\tplace\tneeds\texcludes\tvalues\thelp");
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_option *o = c->rows[i].o;
        char values[4096];
        if (!o->name || o->act == help_list_options) continue;
        char letter[] = { o->letter                        ? o->letter
                          : strcmp(o->name, "output") == 0 ? 'o'
                                                           : '\0',
                          '\0' };
        bool acts = o->kind == CLI_ACT || o->kind == CLI_ACT_NOW;
        join_values(o, values, sizeof values);
        table_line(&t, cell_text_if(o->name), cell_text_if(letter), cell_text_if(o->arg),
                   cell_text(options_kind(o->kind)), cell_bool(o->many),
                   cell_bool(!o->local && !acts), cell_i64_if(o->place ? o->place : -1),
                   cell_text_if(o->needs), cell_text_if(o->excludes), cell_text_if(values),
                   cell_text_if(o->help));
    }
}
