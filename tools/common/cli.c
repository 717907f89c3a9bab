/* cli.c - what all tools share: reads the arguments by the tool's table of options and checks the
 * conditions of the table; prints the help and --list-options; start, errors, signals and end. */
#include "cli.h"
#include "model_text.h"
#include "organ/gg_version.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"            /* whole reads and writes */
#include "base/nearest.h"       /* the option that was meant */
#include "base/output.h"        /* all outputs get their names at the end */
#include "gguf/gguf.h"          /* names of shards */
#include "organ/output_guard.h" /* an output must not replace an input */
#include "organ/tensor_names.h" /* names of classes for people */
#include "write/verb_run.h"     /* notes as the verbs write them */

#define NAME_MAX_LEN 64

/* ---- mistakes and notes -------------------------------------------------------------- */

/* The text has what was typed, of which control characters are escaped. */
_Noreturn void cli_usage(const cli *c, const char *fmt, ...)
{
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s: ", c->tool);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        fprintf(stderr, *p < ' ' || *p == 0x7f ? "\\x%02x" : "%c", *p);
    fprintf(stderr, "; see %s --help\n", c->tool);
    if (c->card_file) gg_output_abort(c->card_file); /* open before all checks were done */
    exit(2);
}

static void print_note(void *ctx, const char *line)
{
    const cli *c = ctx;
    if (c->quiet) return;
    fprintf(stderr, "%s: %s\n", c->tool, line);
}

void cli_note(const cli *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    gg_note_list(&c->run, fmt, ap);
    va_end(ap);
}

static void *allocated(const cli *c, void *p)
{
    if (p) return p;
    fprintf(stderr, "%s: out of memory for the arguments\n", c->tool);
    exit(4);
}

static void list_add(const cli *c, gg_texts *l, const char *item)
{
    const char **items = allocated(
        c, realloc((void *)(uintptr_t)l->items, (l->n + 1) * sizeof *items));
    items[l->n++] = item;
    l->items = items;
}

/* Arguments of the library whose option has another name, or is that of another tool. */
static const struct {
    const char *arg, *words;
    bool else_only; /* for tools without this option */
} arguments[] = {
    { "base", "organ-lora --base", true },
    { "every_tensor", "organ-extract --tensors '*'", false },
    { "in_place", "or change the model itself: --in-place", false },
    { "lenient", "--no-strict", false },
    { "list", "organ-extract --list", false },
    { "pairs_only", "organ-lora --pairs-only", false },
    { "pre", "organ-assemble --pre NAME", false },
    { "recover", "organ-keys --recover", false },
    { "size", "--size, --bpw", false },
    { "split_experts", "organ-extract --split-experts", false },
    { "strict", "without --strict", false },
};

static bool has_option(const cli *c, const char *name);

/* Appends the option for an argument of the library to a text of an error, if it fits: " (--force)"
 * for "force". An option that the tool does not have is not named. */
static void add_option(const cli *c, const char *arg, char *text, size_t size)
{
    char option[NAME_MAX_LEN];
    if (!arg) return;
    snprintf(option, sizeof option, "--%s", arg);
    for (char *p = option; *p; p++)
        if (*p == '_') *p = '-';
    bool own = has_option(c, option + 2), named = own;
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++) {
        if (strcmp(arg, arguments[i].arg) != 0 || (own && arguments[i].else_only)) continue;
        snprintf(option, sizeof option, "%s", arguments[i].words);
        named = true;
    }
    size_t n = strlen(text);
    if (named && n + strlen(option) + 4 <= size) snprintf(text + n, size - n, " (%s)", option);
}

/* ---- words ------------------------------------------------------------------------- */

/* Copies the next word of a list to `word` and advances; false at its end. */
static bool next_word(const char **list, char word[NAME_MAX_LEN])
{
    if (!*list) return false;
    *list += strspn(*list, " \t");
    size_t n = strcspn(*list, " \t");
    snprintf(word, NAME_MAX_LEN, "%.*s", (int)n, *list);
    *list += n;
    return n > 0;
}

static const char *option_value(const cli_option *o, size_t i, char word[NAME_MAX_LEN])
{
    const char *list = o->values;
    if (o->list) return o->list(i);
    while (next_word(&list, word))
        if (i-- == 0) return word;
    return NULL;
}

/* Appends a word to a list such as "a, b or c". */
static void join_word(char *text, size_t size, const char *dashes, const char *word, bool last)
{
    size_t n = strlen(text);
    snprintf(text + n, size - n, "%s%s%s", n == 0 ? "" : last ? " or " : ", ", dashes, word);
}

/* The options --a, --b or --c of a list of names. */
static void join_options(char text[256], const char *names)
{
    char word[NAME_MAX_LEN], after[NAME_MAX_LEN];
    bool more = next_word(&names, word);
    for (text[0] = '\0'; more; strcpy(word, after)) {
        more = next_word(&names, after);
        join_word(text, 256, "--", word, !more);
    }
}

static const char *kind_name(cli_kind kind)
{
    static const char *const kinds[] = {
        /* in the order of cli_kind */
        "flag",   "flag",   "flag",       "flag",    "text",     "model", "params",
        "dir",    "file",   "new-model",  "new-dir", "new-file", "into",  "key-file",
        "rules",  "ranges", "range-file", "map",     "words",    "where", "word",
        "number", "count",  "size",       "float",
    };
    _Static_assert(sizeof kinds / sizeof kinds[0] == CLI_F64 + 1, "a name for each kind");
    return kinds[kind];
}

/* ---- help ---------------------------------------------------------------------------------
 *
 * The texts of a tool name files of the source tree. For an installed tool in PREFIX/bin the same
 * files are in PREFIX/share/organ-suite, so the paths are replaced. The examples then work
 * when pasted, both in the source tree and outside of it. */

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
    char word[NAME_MAX_LEN];
    const char *value;
    text[0] = '\0';
    for (size_t i = 0; (value = option_value(o, i, word)); i++) {
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

static void print_help(cli *c)
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

static void print_options(cli *c)
{
    table t = table_start(
        c->json, "option\tletter\targ\tkind\tmany\thttp\tplace\tneeds\texcludes\tvalues\thelp");
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_option *o = c->rows[i].o;
        char values[4096];
        if (!o->name || o->act == print_options) continue;
        char letter[] = { o->letter                        ? o->letter
                          : strcmp(o->name, "output") == 0 ? 'o'
                                                           : '\0',
                          '\0' };
        bool acts = o->kind == CLI_ACT || o->kind == CLI_ACT_NOW;
        join_values(o, values, sizeof values);
        table_line(&t, cell_text_if(o->name), cell_text_if(letter), cell_text_if(o->arg),
                   cell_text(kind_name(o->kind)), cell_bool(o->many), cell_bool(!o->local && !acts),
                   cell_i64_if(o->place ? o->place : -1), cell_text_if(o->needs),
                   cell_text_if(o->excludes), cell_text_if(values), cell_text_if(o->help));
    }
}

/* ---- values ------------------------------------------------------------------------ */

/* The factor of a unit such as M or, of a size, MB, and the end of the unit. */
static uint64_t parse_unit(cli_kind kind, const char *text, const char **end)
{
    static const char units[] = "KMGT";
    const char *u = *text ? strchr(units, *text >= 'a' ? *text - 32 : *text) : NULL;
    bool size = kind == CLI_SIZE, bytes = u && size && (text[1] == 'B' || text[1] == 'b');
    uint64_t factor = 1;
    *end = text;
    if (!u || kind == CLI_U64 || (*u == 'T' && !size)) return factor;
    for (long i = 0; i <= u - units; i++) factor *= size && !bytes ? 1024 : 1000;
    *end += bytes ? 2 : 1;
    return factor;
}

/* Reads a value of CLI_U64, CLI_COUNT or CLI_SIZE. */
static uint64_t parse_whole(const cli *c, cli_kind kind, const char *option, const char *text)
{
    char *number_end;
    const char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &number_end, 10);
    if (text[0] < '0' || text[0] > '9') errno = EINVAL; /* strtoull takes signs and blanks */
    uint64_t part = 0, of = 1;                          /* of a size such as 4.5 */
    if (*number_end == '.' && kind == CLI_SIZE)
        for (number_end++; *number_end >= '0' && *number_end <= '9' && of <= 1000; of *= 10)
            part = 10 * part + (uint64_t)(*number_end++ - '0');
    uint64_t factor = parse_unit(kind, number_end, &end);
    /* not 0: units are powers of 1000 and 1024 */
    uint64_t most = kind == CLI_SIZE ? (uint64_t)INT64_MAX / factor - 1 : UINT64_MAX / factor;
    uint64_t value = v * factor + part * factor / of;
    if (errno || *end || v > most || (of > 1 && factor == 1) || (kind == CLI_SIZE && value == 0))
        cli_usage(c, "%s %s: use %s", option, text,
                  kind == CLI_U64     ? "a whole number"
                  : kind == CLI_COUNT ? "a whole number, such as 5000, 100k or 2M"
                                      : "a size such as 500M or 2.5G");
    return value;
}

static double parse_f64(const cli *c, const char *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || errno || v != v || v - v != 0)
        cli_usage(c, "%s %s: use a number", option, text);
    return v;
}

static int parse_word(const cli *c, const cli_option *o, const char *option, const char *text)
{
    char words[32][NAME_MAX_LEN], all[512] = "", meant[GG_MEANT];
    const char *list[32];
    size_t n = 0;
    while (n < 32 && (list[n] = option_value(o, n, words[n]))) n++;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i], text) == 0) return (int)i;
        join_word(all, sizeof all, "", list[i], i + 1 == n);
    }
    cli_usage(c, "%s %s: use %s%s", option, text, all,
              gg_meant(gg_nearest(text, strlen(text), list, n), meant));
}

static void check_range(const cli *c, const cli_option *o, const char *option, double v)
{
    if (o->high > 0 && !(v >= o->low && v <= o->high))
        cli_usage(c, "%s %g: use %g to %g", option, v, o->low, o->high);
}

/* `option` is as it was given: "--threads" or "-j". */
static void set_value(cli *c, cli_row *row, const char *option, const char *value)
{
    const cli_option *o = row->o;
    void *to = row->to;
    c->rows[row->first].given = true;
    switch (o->kind) {
    case CLI_FLAG: *(bool *)to = true; return;
    case CLI_MORE: ++*(int *)to; return;
    case CLI_ACT:
        if (c->act && c->act != o->act) cli_usage(c, "%s: only one list can be printed", option);
        c->act = o->act;
        return;
    case CLI_ACT_NOW: o->act(c); exit(cli_end(c, GG_OK));
    case CLI_WORD: *(int *)to = parse_word(c, o, option, value); return;
    case CLI_F64:
        *(double *)to = parse_f64(c, option, value);
        check_range(c, o, option, *(double *)to);
        return;
    case CLI_U64:
    case CLI_COUNT:
    case CLI_SIZE: *(uint64_t *)to = parse_whole(c, o->kind, option, value); break;
    default:
        if (o->many) list_add(c, to, value);
        else *(const char **)to = value;
        return;
    }
    check_range(c, o, option, (double)*(uint64_t *)to);
}

/* ---- the table --------------------------------------------------------------------- */

static const char *class_at(size_t i)
{
    return i < GG_CLASS_COUNT ? gg_class_label((gg_class)i) : NULL;
}

static const char *part_at(size_t i)
{
    return i < GG_PART_COUNT ? gg_part_name((gg_part)i) : NULL;
}

static void print_version(cli *c)
{
    printf("%s %s\n", c->tool, gg_version());
}

const cli_option cli_selection[] = {
    { .name = NULL, .help = "select:" },
    { "type", CLI_WORDS, .at = offsetof(cli, selected[GG_SELECT_TYPES]), .arg = "CLASS,...",
      .many = true, .list = class_at, .help = "" },
    { "part", CLI_WORDS, .at = offsetof(cli, selected[GG_SELECT_PARTS]), .arg = "PART,...",
      .many = true, .list = part_at, .help = "" },
    { "names-from", CLI_FILE, .at = offsetof(cli, selected[GG_SELECT_NAMES]), .arg = "FILE",
      .many = true, .help = "one tensor name per line (first TSV column); - is stdin" },
    { "layers", CLI_RANGES, .at = offsetof(cli, selected[GG_SELECT_LAYERS]), .arg = "5-20,25",
      .many = true, .help = "" },
    { "tensors", CLI_TEXT, .at = offsetof(cli, selected[GG_SELECT_TENSORS]), .arg = "GLOB,...",
      .many = true, .flow = "   " },
    { 0 },
};

const cli_option cli_experts[] = {
    { "experts", CLI_RANGES, .at = offsetof(cli, selected[GG_SELECT_EXPERTS]), .arg = "0-3,17",
      .many = true, .flow = "   " },
    { 0 },
};

const cli_option cli_expert_map[] = {
    { "experts", CLI_MAP, .at = offsetof(cli, selected[GG_SELECT_EXPERT_MAP]), .arg = "3,2=5",
      .many = true, .help = "of stacks only these: 3 from the donor's 3, 2 from its 5" },
    { 0 },
};

const cli_option cli_strict[] = {
    { "strict", CLI_FLAG, .at = offsetof(cli, run.strict),
      .help = "refuse what no engine would load" },
    { "no-strict", CLI_FLAG, .at = offsetof(cli, run.lenient), .excludes = "strict", .flow = "; ",
      .help = "(note it)" },
    { 0 },
};

const cli_option cli_writes[] = {
    { "force", CLI_FLAG, .at = offsetof(cli, run.force), .help = "replace an output" },
    { "partial", CLI_FLAG, .at = offsetof(cli, run.partial), .flow = "; ",
      .help = "(shards may be missing)" },
    { 0 },
};

const cli_option cli_common[] = {
    { .name = NULL, .help = "common:" },
    { "threads", CLI_U64, .at = offsetof(cli, threads), .arg = "N", .letter = 'j', .low = 1,
      .high = 1024, .flow = " ", .help = "threads" },
    { "quiet", CLI_FLAG, .at = offsetof(cli, quiet), .letter = 'q', .flow = ", ", .help = "quiet" },
    { "verbose", CLI_MORE, .at = offsetof(cli, verbose), .letter = 'v', .flow = ", ",
      .help = "verbose" },
    { "help", CLI_ACT_NOW, .act = print_help, .letter = 'h', .flow = ", " },
    { "version", CLI_ACT_NOW, .act = print_version, .letter = 'V', .flow = ", " },
    { "list-options", CLI_ACT, .act = print_options },
    { 0 },
};

static size_t count_rows(const cli_option *o)
{
    size_t n = 0;
    for (; o->name || o->help || o->group; o++) n += o->group ? count_rows(o->group) : 1;
    return n;
}

static void add_row(cli *c, const cli_option *o, void *base)
{
    cli_row *row = &c->rows[c->n_rows];
    *row = (cli_row){ .o = o, .to = o->to, .first = c->n_rows };
    if (!o->to && (o->at || base != (void *)c)) row->to = (char *)base + o->at;
    for (size_t i = c->n_rows; row->to && i-- > 0;)
        if (c->rows[i].to == row->to) row->first = i;
    c->n_rows++;
}

static void add_rows(cli *c, const cli_option *o, void *base)
{
    for (; o->name || o->help || o->group; o++) {
        if (o->group) add_rows(c, o->group, o->to ? o->to : base);
        else add_row(c, o, base);
    }
}

static cli_row *row_of(const cli *c, const char *name, char letter)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_option *o = c->rows[i].o;
        if (!o->name) continue;
        if (letter ? o->letter == letter : *o->name && strcmp(o->name, name) == 0)
            return &c->rows[i];
    }
    return letter == 'o' ? row_of(c, "output", 0) : NULL;
}

static bool has_option(const cli *c, const char *name)
{
    return row_of(c, name, 0) != NULL;
}

bool cli_given(const cli *c, const char *name)
{
    const cli_row *row = row_of(c, name, 0);
    return row && c->rows[row->first].given;
}

static void free_options(cli *c)
{
    for (size_t i = 0; i < c->n_rows; i++)
        if (c->rows[i].o->many && c->rows[i].first == i && c->rows[i].to)
            free((void *)(uintptr_t)((gg_texts *)c->rows[i].to)->items);
    free(c->rows);
    free((void *)(uintptr_t)c->args.items);
    free(c->files);
    c->n_rows = 0;
}

/* ---- the arguments ------------------------------------------------------------------ */

static bool takes_value(const cli_option *o)
{
    return o->kind > CLI_ACT_NOW;
}

/* Reports an unknown option, and the known option that it resembles. */
static _Noreturn void unknown_option(const cli *c, const char *name)
{
    const char **names = allocated(c, calloc(c->n_rows, sizeof *names));
    for (size_t i = 0; i < c->n_rows; i++) names[i] = c->rows[i].o->name;
    const char *near = gg_nearest(name, strlen(name), names, c->n_rows);
    char dashed[GG_MEANT], meant[GG_MEANT];
    if (near) snprintf(dashed, sizeof dashed, "--%s", near);
    free(names);
    cli_usage(c, "unknown option '--%s'%s", name, gg_meant(near ? dashed : NULL, meant));
}

/* Whether a text consists of words of the option, separated by commas. */
static bool has_words(const cli_option *o, const char *text)
{
    char word[NAME_MAX_LEN];
    for (size_t n; *text; text += n + (text[n] == ',')) {
        const char *known = NULL;
        n = strcspn(text, ",");
        for (size_t i = 0; (known = option_value(o, i, word)); i++)
            if (strlen(known) == n && memcmp(known, text, n) == 0) break;
        if (!known) return false;
    }
    return true;
}

/* Handles --name, --name=value or --name value; returns the number of arguments used. */
static int long_option(cli *c, int left, char **argv)
{
    char name[NAME_MAX_LEN], option[NAME_MAX_LEN + 2];
    const char *text = argv[0] + 2, *eq = strchr(text, '=');
    size_t n = eq ? (size_t)(eq - text) : strlen(text);
    if (n >= sizeof name) cli_usage(c, "unknown option '%s'", argv[0]);
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    snprintf(option, sizeof option, "--%s", name);
    cli_row *row = row_of(c, name, 0);
    if (!row) unknown_option(c, name);
    bool valued = takes_value(row->o);
    if (!eq && row->o->maybe && (left < 2 || !has_words(row->o, argv[1]))) {
        set_value(c, row, option, "");
        return 1;
    }
    if (eq && !valued) cli_usage(c, "%s takes no value", option);
    if (!eq && valued && left < 2) cli_usage(c, "%s needs a value", option);
    set_value(c, row, option, eq ? eq + 1 : valued ? argv[1] : NULL);
    return valued && !eq ? 2 : 1;
}

/* Handles -q, -qv, -j N and -jN; returns the number of arguments used. */
static int short_options(cli *c, int left, char **argv)
{
    for (const char *p = argv[0] + 1; *p; p++) {
        char option[] = { '-', *p, '\0' };
        cli_row *row = row_of(c, "", *p);
        if (!row) cli_usage(c, "unknown option '%s'", option);
        if (takes_value(row->o)) {
            if (!p[1] && left < 2) cli_usage(c, "%s needs a value", option);
            set_value(c, row, option, p[1] ? p + 1 : argv[1]);
            return p[1] ? 1 : 2;
        }
        set_value(c, row, option, NULL);
    }
    return 1;
}

/* The row of the i-th argument without a name. The last of them are repeated if they may be. */
static cli_row *placed(const cli *c, size_t i)
{
    size_t n = 0, many = 0;
    for (size_t r = 0; r < c->n_rows; r++) {
        if (!c->rows[r].o->place) continue;
        n++;
        many += c->rows[r].o->many;
    }
    if (i >= n && many) i = n - many + (i - n) % many;
    for (size_t r = 0; r < c->n_rows; r++)
        if (c->rows[r].o->place == (int)i + 1) return &c->rows[r];
    return NULL;
}

/* Whether an argument is a file to read, and not an action such as "trim". */
static bool is_input(const cli_row *row, const char *text)
{
    return row && row->o->kind >= CLI_MODEL && row->o->kind <= CLI_FILE &&
           !(row->o->values && gg_text_has_word(row->o->values, text, strlen(text)));
}

static void place_arguments(cli *c)
{
    c->files = allocated(c, calloc(c->args.n + 1, sizeof *c->files));
    for (size_t i = 0; i < c->args.n; i++) {
        const char *item = c->args.items[i];
        cli_row *row = placed(c, i), *last = placed(c, 0);
        if (!row && last && *last->o->name)
            cli_usage(c, "more than one %s given: '%s'", last->o->name, item);
        if (!row) cli_usage(c, "unexpected argument '%s'", item);
        if (*row->o->name && !row->o->many && c->rows[row->first].given)
            cli_usage(c, "more than one %s given: '%s'", row->o->name, item);
        if (row->to) set_value(c, row, item, item);
        if (is_input(row, item)) c->files[c->n_files++] = item;
    }
}

/* ---- conditions ---------------------------------------------------------------------- */

static size_t dashes(const gg_texts *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) n += strcmp(l->items[i], "-") == 0;
    return n;
}

static bool reads(const cli_option *o)
{
    return o->kind == CLI_MODEL || o->kind == CLI_PARAMS || o->kind == CLI_DIR;
}

/* Stdin can be read only once, so at most one input may be "-". */
static void check_stdin(const cli *c)
{
    size_t names = dashes(&c->selected[GG_SELECT_NAMES]), readers = names;
    for (size_t i = 0; i < c->args.n; i++) {
        const cli_row *row = placed(c, i);
        bool model = !row || reads(row->o);
        readers += model && strcmp(c->args.items[i], "-") == 0;
    }
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_row *row = &c->rows[i];
        if (!row->to || row->first != i || !reads(row->o)) continue;
        const char *value = *(const char **)row->to;
        if (row->o->many) readers += dashes(row->to);
        else readers += value && strcmp(value, "-") == 0;
    }
    if (readers <= 1) return;
    if (names == readers)
        cli_usage(c, "--names-from - is given twice, but stdin can be read only once: use a file");
    if (names)
        cli_usage(c, "--names-from - and a model both read stdin: put one of them in a file");
    cli_usage(c, "only one model can be read from stdin: put the other in a file");
}

/* Copies the first of these names that was given. */
static bool given_of(const cli *c, const char *names, char name[NAME_MAX_LEN])
{
    while (next_word(&names, name))
        if (cli_given(c, name)) return true;
    return false;
}

bool cli_given_any(const cli *c, const char *names)
{
    char name[NAME_MAX_LEN];
    return given_of(c, names, name);
}

static void check_conditions(const cli *c, const cli_row *row)
{
    const cli_option *o = row->o;
    char other[NAME_MAX_LEN], text[256];
    if (row->given && o->needs && !given_of(c, o->needs, other)) {
        join_options(text, o->needs);
        cli_usage(c, "--%s needs %s%s%s", o->name, text, o->needs_why ? ": " : "",
                  o->needs_why ? o->needs_why : "");
    }
    if (row->given && given_of(c, o->excludes, other)) {
        if (o->excludes_why)
            cli_usage(c, "--%s %s: leave out --%s", o->name, o->excludes_why, other);
        cli_usage(c, "give --%s or --%s, not both", o->name, other);
    }
    if (row->given || !o->required || given_of(c, o->required, other)) return;
    if (o->place && !*o->required)
        cli_usage(c, "no %s given", *o->name ? o->name : kind_name(o->kind));
    snprintf(text, sizeof text, "%s %s", o->name, o->required);
    char all[256];
    join_options(all, text);
    cli_usage(c, "give %s", all);
}

/* The values of "-": what is written to stdout must be one thing, and no binary on a terminal. */
static void check_stdout(const cli *c)
{
    const cli_option *first = NULL;
    char other[NAME_MAX_LEN];
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_option *o = c->rows[i].o;
        if (o->kind < CLI_NEW_MODEL || o->kind > CLI_NEW_FILE || c->rows[i].first != i) continue;
        const char *value = *(const char **)c->rows[i].to;
        if (!value || strcmp(value, "-") != 0 || given_of(c, o->required, other)) continue;
        if (first)
            cli_usage(c, "--%s - and --%s - both write to stdout: name a file", first->name,
                      o->name);
        first = o;
        if ((o->kind != CLI_NEW_FILE || o->binary) && isatty(STDOUT_FILENO))
            cli_usage(c, "the output is binary and stdout is a terminal: give a file name or use "
                         "a pipe");
    }
}

/* ---- all of it ----------------------------------------------------------------------- */

static void add_input(cli *c, const cli_option *o, const char *path)
{
    struct stat s;
    size_t len = o->kind == CLI_RULES ? strcspn(path, ",") : strlen(path);
    if (len == 1 && path[0] == '-') return;
    char *copy = allocated(c, strndup(path, len));
    c->inputs = allocated(c, realloc(c->inputs, (c->n_inputs + 1) * sizeof *c->inputs));
    cli_input *in = &c->inputs[c->n_inputs];
    *in = (cli_input){ .path = copy, .option = o->name };
    bool file = gg_stat(copy, &s, &c->err) && S_ISREG(s.st_mode);
    int fd = file ? gg_open_read(copy, &c->err) : -1;
    if (fd >= 0) {
        gg_stamp_fd(fd, &in->stamp, &c->err);
        close(fd);
    }
    gg_at_file(&c->err, copy);
    if (c->err.status != GG_OK) exit(cli_end(c, c->err.status));
    if (fd < 0) { /* a pipe, or a list instead of a file; or the verb will fail with a reason */
        free(copy);
        return;
    }
    c->n_inputs++;
}

/* The file that a value of this kind names, or NULL. Models are not among them, because their
 * sources are compared when they are opened and closed. */
static const char *file_of(cli_kind kind, const char *value)
{
    const char *mark = !value                 ? NULL
                       : kind == CLI_KEY_FILE ? strchr(value, '=')
                       : kind == CLI_RULES    ? strchr(value, '@')
                                              : value;
    bool reads = kind == CLI_FILE || kind == CLI_RANGE_FILE;
    return reads || !mark ? mark : kind == CLI_KEY_FILE || kind == CLI_RULES ? mark + 1 : NULL;
}

static void note_inputs(cli *c)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_option *o = c->rows[i].o;
        if (!c->rows[i].to || o->kind < CLI_TEXT || o->kind > CLI_WHERE) continue;
        const gg_texts *l = o->many ? c->rows[i].to : NULL;
        const char *one = l ? NULL : file_of(o->kind, *(const char **)c->rows[i].to);
        if (one) add_input(c, o, one);
        for (size_t k = 0; l && k < l->n; k++)
            if ((one = file_of(o->kind, l->items[k]))) add_input(c, o, one);
    }
}

/* The path that the option of a row writes, or NULL. */
static const char *output_of(const cli_row *row)
{
    bool writes = row->o->kind >= CLI_NEW_MODEL && row->o->kind <= CLI_NEW_FILE;
    return writes && row->to ? *(const char **)row->to : NULL;
}

/* The first model that is read, in the order of the options; NULL if there is none. */
static const char *first_model(const cli *c)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_row *row = &c->rows[i];
        if (row->o->kind < CLI_MODEL || row->o->kind > CLI_DIR || !row->to) continue;
        const gg_texts *list = row->o->many ? row->to : NULL;
        const char *one = !list ? *(const char **)row->to : list->n > 0 ? list->items[0] : NULL;
        if (one) return one;
    }
    return c->n_files ? c->files[0] : NULL;
}

bool cli_stat(cli *c, const char *path, struct stat *s)
{
    bool exists = gg_stat(path, s, &c->err);
    if (c->err.status != GG_OK) exit(cli_end(c, c->err.status));
    return exists;
}

static bool has_manifest(cli *c, const char *folder)
{
    struct stat s;
    char manifest[4096];
    int n = snprintf(manifest, sizeof manifest, "%s/manifest.json", folder);
    return n > 0 && (size_t)n < sizeof manifest && cli_stat(c, manifest, &s);
}

static bool is_folder(cli *c, const char *path)
{
    struct stat s;
    return cli_stat(c, path, &s) && S_ISDIR(s.st_mode);
}

/* The name of what a source becomes: of a split model without the number of the shard, and with
 * .gguf; of a folder that becomes another one without. NULL if the source is stdin or has no name.
 */
static char *name_of(cli *c, const char *source, bool or_dir)
{
    size_t end = source ? strlen(source) : 0, stem;
    uint32_t no, count;
    while (end > 0 && source[end - 1] == '/') end--;
    size_t from = end;
    while (from > 0 && source[from - 1] != '/') from--;
    if (end == from || source[from] == '.' || (end - from == 1 && source[from] == '-')) return NULL;
    char *name = allocated(c, calloc(1, end - from + sizeof ".gguf"));
    memcpy(name, source + from, end - from);
    if (or_dir && is_folder(c, source)) return name;
    if (gg_shard_parse(name, &stem, &no, &count)) name[stem] = 0;
    else if (cli_has_ending(name, ".gguf")) name[strlen(name) - 5] = 0;
    strcat(name, ".gguf");
    return name;
}

/* A folder as the output means a file in it that is named like the source. An organ directory is an
 * output of its own. */
static void place_in_folder(cli *c, const char **output, bool or_dir)
{
    const char *path = *output;
    size_t n = strlen(path);
    if (n > 0 && path[n - 1] == '/' && !is_folder(c, path) && or_dir) return;
    if (n > 0 && path[n - 1] == '/' && !is_folder(c, path))
        cli_usage(c, "%s: there is no such folder: make it, or name a file", path);
    if (!is_folder(c, path) || has_manifest(c, path)) return;
    char *name = name_of(c, first_model(c), or_dir);
    if (!name) cli_usage(c, "%s is a folder: name the file in it", path);
    size_t size = n + strlen(name) + 2;
    char *whole = allocated(c, malloc(size));
    snprintf(whole, size, "%s%s%s", path, path[n - 1] == '/' ? "" : "/", name);
    free(name);
    *output = whole;
}

static void place_outputs(cli *c)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        const cli_row *row = &c->rows[i];
        if (row->o->kind != CLI_NEW_MODEL || strcmp(row->o->name, "output") != 0 || !row->to)
            continue;
        const char **output = row->to;
        if (*output && strcmp(*output, "-") != 0) place_in_folder(c, output, row->o->or_dir);
    }
}

static const char *without_dots(const char *path)
{
    while (strncmp(path, "./", 2) == 0) path += 2;
    return path;
}

/* With --force, the later one of two outputs with the same name would replace the other. */
static void check_outputs(cli *c, const cli_row *row)
{
    struct stat a, b;
    const char *path = output_of(row);
    for (const cli_row *other = c->rows; other < row; other++) {
        const char *to = other->to == row->to ? NULL : output_of(other);
        if (!to || strcmp(to, "-") == 0) continue;
        bool same = cli_stat(c, to, &a) && cli_stat(c, path, &b) && S_ISREG(a.st_mode) &&
                    a.st_dev == b.st_dev && a.st_ino == b.st_ino;
        if (same || strcmp(without_dots(to), without_dots(path)) == 0)
            cli_usage(c, "%s: this is also the output of --%s: choose another name", path,
                      other->o->name);
    }
}

/* An importance matrix or another file that is read must not be replaced. */
static void check_overwriting(cli *c)
{
    struct stat out;
    for (size_t i = 0; i < c->n_rows; i++) {
        const char *path = output_of(&c->rows[i]);
        if (path) check_outputs(c, &c->rows[i]);
        if (!path || !cli_stat(c, path, &out)) continue;
        for (size_t k = 0; k < c->n_inputs; k++)
            if (gg_stamp_is_of(&c->inputs[k].stamp, &out))
                cli_usage(c, "%s: this output is also an input (--%s): choose another name", path,
                          c->inputs[k].option);
    }
}

static void apply_selection(cli *c)
{
    for (size_t k = 0; k < GG_SELECT_KINDS; k++)
        for (size_t i = 0; i < c->selected[k].n; i++)
            if ((!c->select && gg_select_new(&c->select, &c->err) != GG_OK) ||
                gg_select_add(c->select, (gg_select_kind)k, c->selected[k].items[i], &c->err) !=
                    GG_OK)
                exit(cli_end(c, c->err.status));
}

static void set_where(cli *c)
{
    char why[WHERE_WHY];
    for (size_t i = 0; i < c->n_rows; i++)
        if (c->rows[i].o->kind == CLI_WHERE && c->rows[i].o->values)
            c->where_columns = c->rows[i].o->values;
    if (c->wheres.n == 0) return;
    c->where = allocated(c, calloc(c->wheres.n, sizeof *c->where));
    for (size_t i = 0; i < c->wheres.n; i++)
        if (!where_parse(c->wheres.items[i], c->where_columns, &c->where[i], why))
            cli_usage(c, "%s", why);
    table_where(c->where_columns, c->where, c->wheres.n);
}

static void read_options(cli *c, int argc, char **argv, const cli_option *options)
{
    size_t n = count_rows(options);
    c->rows = allocated(c, calloc(n, sizeof *c->rows));
    add_rows(c, options, c);
    for (int i = 1; i < argc;) {
        const char *a = argv[i];
        if (strcmp(a, "--") == 0) {
            for (i++; i < argc; i++) list_add(c, &c->args, argv[i]);
        } else if (a[0] == '-' && a[1] == '-') {
            i += long_option(c, argc - i, argv + i);
        } else if (a[0] == '-' && a[1]) {
            i += short_options(c, argc - i, argv + i);
        } else {
            list_add(c, &c->args, a);
            i++;
        }
    }
    if (c->act) {
        c->act(c);
        exit(cli_end(c, GG_OK));
    }
    check_stdin(c);
    place_arguments(c);
    for (size_t i = 0; i < c->n_rows; i++)
        if (c->rows[i].first == i) check_conditions(c, &c->rows[i]);
    check_stdout(c);
    place_outputs(c);
    note_inputs(c);
    check_overwriting(c);
    apply_selection(c);
    set_where(c);
    c->run.threads = (unsigned)c->threads;
}

/* ---- the progress of a run, on the terminal and to the parent process ------------------ */

static void show_progress(const cli *c, double seconds)
{
    double done = (double)atomic_load(&c->progress.done),
           total = (double)atomic_load(&c->progress.total);
    double rate = seconds > 0 ? done / seconds : 0;
    if (total > 0 && done < total / 50) /* too early for an estimate of the time left */
        fprintf(stderr, "\r%s: %3.0f%%  %.0f of %.0f MB \033[K", c->tool, 100 * done / total,
                done / 1e6, total / 1e6);
    else if (total > 0 && rate > 0)
        fprintf(stderr, "\r%s: %3.0f%%  %.0f of %.0f MB  %.0f MB/s  %.0f s left \033[K", c->tool,
                100 * done / total, done / 1e6, total / 1e6, rate / 1e6, (total - done) / rate);
    else fprintf(stderr, "\r%s: %.0f MB  %.0f MB/s \033[K", c->tool, done / 1e6, rate / 1e6);
    fflush(stderr);
}

/* ORGAN_PROGRESS is the number of a descriptor that the parent process has opened on a
 * regular file. The line "DONE TOTAL\n" (bytes) is written again and again at its start.
 * Its length is fixed, so that a reader never sees the tail of an older line. */
static int progress_file = -1;

static void find_progress_file(void)
{
    const char *text = getenv("ORGAN_PROGRESS");
    struct stat s;
    char *end = NULL;
    long fd = text ? strtol(text, &end, 10) : -1;
    if (fd <= STDERR_FILENO || fd > INT_MAX || *end || fstat((int)fd, &s) != 0 ||
        !S_ISREG(s.st_mode))
        return;
    progress_file = (int)fd;
}

static void write_progress(const cli *c)
{
    char line[48];
    int n = snprintf(line, sizeof line, "%020llu %020llu\n",
                     (unsigned long long)atomic_load(&c->progress.done),
                     (unsigned long long)atomic_load(&c->progress.total));
    if (pwrite(progress_file, line, (size_t)n, 0) != n) progress_file = -1;
}

static pthread_mutex_t progress_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress_ended = PTHREAD_COND_INITIALIZER;
static pthread_t progress_thread;
static bool progress_runs, progress_stop; /* progress_stop is guarded by the lock */

/* Waits for the next tick. Returns false at once when progress_stop is set. */
static bool next_tick(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 200000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    pthread_mutex_lock(&progress_lock);
    while (!progress_stop && pthread_cond_timedwait(&progress_ended, &progress_lock, &t) == 0)
        continue;
    bool on = !progress_stop;
    pthread_mutex_unlock(&progress_lock);
    return on;
}

static void *watch_progress(void *arg)
{
    const cli *c = arg;
    bool terminal = !c->quiet && isatty(STDERR_FILENO), shown = false;
    int began = 0; /* the rate does not count the time before the first bytes */
    for (int ticks = 1; next_tick(); ticks++) {
        if (progress_file >= 0) write_progress(c);
        if (atomic_load(&c->progress.done) == 0) began = ticks;
        if (!terminal || ticks - began < 5) continue;
        show_progress(c, 0.2 * (ticks - began));
        shown = true;
    }
    if (shown) fputs("\r\033[K", stderr);
    if (progress_file >= 0) write_progress(c);
    return NULL;
}

/* Does nothing if nothing was started. */
static void progress_end(void)
{
    if (!progress_runs) return;
    pthread_mutex_lock(&progress_lock);
    progress_stop = true;
    pthread_cond_signal(&progress_ended);
    pthread_mutex_unlock(&progress_lock);
    pthread_join(progress_thread, NULL);
    progress_runs = false;
}

/* Starts to watch c->progress. */
static void progress_start(const cli *c)
{
    find_progress_file();
    if (progress_file >= 0 || (!c->quiet && isatty(STDERR_FILENO)))
        progress_runs = pthread_create(&progress_thread, NULL, watch_progress,
                                       (void *)(uintptr_t)c) == 0;
}

/* ---- start and end ------------------------------------------------------------------ */

static volatile sig_atomic_t got_signal;

/* The first signal asks the verb to clean up; a second one kills. */
static void on_signal(int sig)
{
    got_signal = sig;
    gg_cancel();
}

static void catch_signals(void)
{
    struct sigaction a = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    sigemptyset(&a.sa_mask);
    static const int stop[] = { SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < sizeof stop / sizeof stop[0]; i++) {
        struct sigaction was;
        if (sigaction(stop[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            sigaction(stop[i], &a, NULL);
    }
    signal(SIGPIPE, SIG_IGN); /* write returns EPIPE: exit 4 */
    signal(SIGXFSZ, SIG_IGN); /* write returns EFBIG: exit 4 */
}

/* If the caller closed a standard descriptor, the first file we open would get its number,
 * and messages would be written into that file. Occupy the number with a descriptor on
 * which any use fails. */
void cli_hold_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            return;
}

/* A model of many shards needs more open files than the usual soft limit allows. The
 * library does not change limits, because they belong to the program. */
static void raise_open_files(void)
{
    struct rlimit r;
    const rlim_t plenty = 65536 + 1024; /* a set has at most 65535 shards */
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= plenty) return;
    r.rlim_cur = r.rlim_max < plenty ? r.rlim_max : plenty;
    setrlimit(RLIMIT_NOFILE, &r);
}

/* Whether an argument is a URL, or a name that organ-models resolves: hf:ORG/REPO or ollama:NAME.
 */
static bool is_remote(cli *c, const char *text)
{
    struct stat s;
    static const char *const starts[] = { "http://", "https://", "hf:", "ollama:" };
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncmp(text, starts[i], strlen(starts[i])) == 0)
            return i < 2 || !cli_stat(c, text, &s);
    return false;
}

/* A model behind a URL: organ-remote fetches the parts that are needed and starts this tool again
 * with local files. The script is beside the tool, or in the source tree, or in $PATH. */
static void hand_over_to_remote(cli *c, int argc, char **argv)
{
    bool url = false;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) url |= is_remote(c, argv[i]);
    char **args = url ? calloc((size_t)argc + 2, sizeof *args) : NULL;
    if (!args) return;
    for (int i = 0; i < argc; i++) args[i + 1] = argv[i];
    static const char *const folders[] = { "/", "/../../scripts/" };
    const char *slash = strrchr(argv[0], '/');
    char script[4096] = "organ-remote";
    for (size_t i = 0; slash && i < sizeof folders / sizeof folders[0]; i++) {
        int n = snprintf(script, sizeof script, "%.*s%sorgan-remote", (int)(slash - argv[0]),
                         argv[0], folders[i]);
        args[0] = script;
        if (n > 0 && (size_t)n < sizeof script) execv(script, args);
    }
    args[0] = strcpy(script, "organ-remote");
    execvp(script, args);
    free(args);
    cli_usage(c, "a URL needs the script organ-remote, which was not found; install it beside %s",
              c->tool);
}

void cli_start(cli *c, int argc, char **argv, const cli_option *options)
{
    c->err = c->changed = (gg_error)GG_ERROR_INIT;
    hand_over_to_remote(c, argc, argv);
    cli_hold_descriptors();
    catch_signals();
    raise_open_files();
    c->run.progress = &c->progress;
    c->run.note = print_note;
    c->run.ctx = c;
    read_options(c, argc, argv, options);
    const char *level = getenv("GG_ISA");
    if (level && level[0] && (level[0] < '0' || level[0] > '2' || level[1]))
        cli_usage(c, "the variable GG_ISA is '%s', but the levels are 0, 1 and 2", level);
    if (c->quiet) c->run.note = NULL; /* so that nothing is computed for a note */
    gg_outputs_hold();
    progress_start(c);
}

/* Conditions that no row satisfies are an answer of "no". */
static gg_status check_where(cli *c)
{
    size_t unmet = 0;
    while (unmet < c->wheres.n && c->where[unmet].met) unmet++;
    if (unmet < c->wheres.n)
        gg_fail(&c->err, GG_NO, "no row satisfies the condition '%s'", c->where[unmet].given);
    else gg_fail(&c->err, GG_NO, "no row satisfies all %zu conditions", c->wheres.n);
    gg_fix(&c->err, "run without --where to see all rows");
    return GG_NO;
}

/* Why something that was printed is lost: an errno, -1 if it is not known, or 0. A full disk or a
 * closed pipe may be noticed only when the last bytes are written, and only once. */
static int flush_stdout(void)
{
    int why = fflush(stdout) != 0 ? errno : table_errno();
    return why ? why : ferror(stdout) ? -1 : 0;
}

gg_status cli_stdout_lost(gg_error *err, int why)
{
    errno = why;
    if (why > 0) gg_fail_errno(err, "cannot write to stdout");
    else gg_fail(err, GG_EIO, "cannot write all output to stdout");
    gg_fix(err, "free some space, or redirect the output elsewhere");
    return GG_EIO;
}

/* Gives the outputs their names. Returns `status` if that worked. */
static gg_status named(cli *c, gg_status status)
{
    gg_status st = gg_outputs_release(&c->err);
    return st == GG_OK ? status : st;
}

/* An input that changed while it was read. The sources were compared when they were closed. */
static gg_status check_unchanged(cli *c, gg_status status)
{
    for (size_t i = 0; i < c->n_inputs && c->changed.status == GG_OK; i++)
        gg_check_stamp(&c->inputs[i].stamp, -1, c->inputs[i].path, &c->changed);
    if (c->changed.status == GG_OK || status == GG_ECANCELLED || status == GG_EIO) return status;
    c->err = c->changed; /* a malformed input may be the mixture of an old and a new one */
    return GG_EIO;
}

void cli_print_error(const cli *c, const gg_error *err)
{
    char line[1536];
    gg_error_line(err, c->tool, line, sizeof line);
    fprintf(stderr, "%s\n", line);
}

int cli_end(cli *c, gg_status status)
{
    progress_end();
    table_end();
    if (status == GG_OK && table_errno() == ENOMEM)
        status = gg_fail(&c->err, GG_ENOMEM, "no memory for a row");
    if (c->finish) status = c->finish(c, status);
    status = check_unchanged(c, status);
    if (status == GG_OK && !table_any()) status = check_where(c);
    int lost = flush_stdout();
    /* No output gets its name then. A reader that wants no more, such as head, loses nothing. */
    if (lost && lost != EPIPE && c->err.status == GG_OK && status != GG_ECANCELLED)
        status = cli_stdout_lost(&c->err, lost);
    if (c->err.status == GG_OK) status = named(c, status);
    gg_outputs_drop();
    if (fclose(stdout) != 0 && !lost) lost = errno;
    if (lost && status != GG_ECANCELLED && c->err.status == GG_OK)
        status = cli_stdout_lost(&c->err, lost);
    if (status == GG_OK && !cli_given_any(c, "check dry-run"))
        (c->tell ? c->tell : tell_files_written)(c, cli_given(c, "in-place"));
    if (c->err.status != GG_OK && c->err.sys_errno != EPIPE) { /* "| head" wants no more */
        const char *by = c->err.fix_arg;
        if (by && strcmp(by, "in_place") == 0 &&
            (!has_option(c, "in-place") || cli_given(c, "in-place")))
            by = NULL;
        add_option(c, c->err.what_arg, c->err.what, sizeof c->err.what);
        add_option(c, by, c->err.fix, sizeof c->err.fix);
        cli_print_error(c, &c->err);
    }
    if (c->select) gg_select_free(c->select);
    free(c->where);
    for (size_t i = 0; i < c->n_inputs; i++) free(c->inputs[i].path);
    free(c->inputs);
    free_options(c);
    if (status == GG_ECANCELLED && got_signal) {
        signal((int)got_signal, SIG_DFL);
        raise((int)got_signal);
    }
    return gg_status_exit(status);
}

void cli_require_own(const cli *c, const char *path)
{
    char name[256];
    if (given_name(path, name, sizeof name) != path)
        cli_usage(c, "%s is in the cache of another program, which is never changed: use --output",
                  name);
}

gg_status cli_open(cli *c, const char *spec, cli_open_kind kind, gg_source **out)
{
    gg_source_options o = { .header_only = kind == CLI_HEADER_ONLY,
                            .spooled = kind == CLI_SPOOLED,
                            .strict = c->run.strict,
                            .note = print_note,
                            .ctx = c,
                            .changed = &c->changed,
                            .stored_names = c->stored_names,
                            .adapter_base = c->adapter_base,
                            .pairs_only = c->pairs_only,
                            .adapter_alpha = c->adapter_alpha,
                            .pre = c->pre,
                            .whole = c->whole };
    gg_status st = gg_source_open_with(spec, &o, out, &c->err);
    if (st != GG_OK) return st;
    bool divided = cli_given_any(c, "shards shard-size"); /* the shards have other names */
    for (size_t i = 0; st == GG_OK && i < c->n_rows; i++) {
        const char *path = output_of(&c->rows[i]);
        if (divided && c->rows[i].o->kind == CLI_NEW_MODEL) continue;
        if (path) st = gg_guard_output(path, *out, &c->err);
    }
    if (st != GG_OK) {
        gg_source_close(*out);
        *out = NULL;
    }
    return st;
}

gg_status cli_like(cli *c, const gg_source *like, gg_source **source)
{
    const gg_source *before = *source;
    gg_status st = gg_source_like(like, source, &c->err);
    if (st == GG_OK && *source != before && c->verbose)
        cli_note(c,
                 "%s has fused tensors where %s has separate ones, or the reverse; it is read "
                 "in the form of the latter",
                 gg_source_name(*source), gg_source_name(like));
    return st;
}

gg_status cli_read_file(const char *path, size_t most, gg_buf *text, gg_error *err)
{
    bool piped = strcmp(path, "-") == 0;
    int fd = piped ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) gg_fail_errno(err, "cannot open it");
    for (size_t got = 1; got > 0 && err->status == GG_OK; text->len += got) {
        got = 0;
        if (text->len > most)
            gg_fail(err, GG_EFORMAT, "it is too large: more than %zu bytes", most);
        else if (gg_buf_reserve(text, 65536, err) == GG_OK)
            gg_read_some(fd, text->data + text->len, 65536, &got, err);
    }
    if (fd >= 0 && !piped) close(fd);
    return gg_at_file(err, path);
}

void cli_print_read(void *ctx, const char *file, uint64_t place, uint64_t bytes)
{
    (void)ctx;
    printf("%s\t%llu\t%llu\n", file, (unsigned long long)place, (unsigned long long)bytes);
}

const char *cli_one(const cli *c, const char *option_value, const char *what)
{
    size_t n = c->args.n + (option_value ? 1 : 0);
    if (n == 0) cli_usage(c, "no %s given", what);
    if (n > 1) cli_usage(c, "more than one %s given: '%s'", what, c->args.items[c->args.n - 1]);
    return option_value ? option_value : c->args.items[0];
}
