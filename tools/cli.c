/* cli.c - options, errors and signals of the tools. */
#include "cli.h"
#include "hints.h"
#include "progress.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/io.h"      /* whole reads and writes */
#include "base/nearest.h" /* the option that was meant */
#include "organ/gg_version.h"
#include "verbs/shared/verb_run.h" /* notes as the verbs write them */

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

_Noreturn void cli_usage(const cli *c, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "%s: ", c->tool);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "; see %s --help\n", c->tool);
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

/* ---- numbers ------------------------------------------------------------------ */

static uint64_t parse_size(const cli *c, const char *name, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9') errno = EINVAL; /* strtoull takes signs and blanks */
    uint64_t part = 0, of = 1;                          /* of a number such as 4.5 */
    if (*end == '.')
        for (end++; *end >= '0' && *end <= '9' && of <= 1000; end++, of *= 10)
            part = 10 * part + (uint64_t)(*end - '0');
    static const char units[] = "KMGT";
    const char *u = *end ? strchr(units, *end >= 'a' ? *end - 32 : *end) : NULL;
    uint64_t factor = 1;
    if (u && *u) {
        bool decimal = end[1] == 'B' || end[1] == 'b';
        for (long i = 0; i <= u - units; i++) factor *= decimal ? 1000 : 1024;
        end += decimal ? 2 : 1;
    }
    if (errno || *end || v > (uint64_t)INT64_MAX / factor - 1 || (of > 1 && factor == 1) ||
        v * factor + part * factor / of == 0)
        cli_usage(c, "--%s %s: use a size such as 500M or 2.5G", name, text);
    return v * factor + part * factor / of;
}

static uint64_t parse_u64(const cli *c, const char *name, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno || *end)
        cli_usage(c, "--%s %s: use a whole number", name, text);
    return v;
}

/* 100k is 100000. */
static uint64_t parse_count(const cli *c, const char *name, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    uint64_t factor = *end == 'k' || *end == 'K'   ? 1000
                      : *end == 'm' || *end == 'M' ? 1000000
                      : *end == 'g' || *end == 'G' ? 1000000000
                                                   : 1;
    if (text[0] < '0' || text[0] > '9' || errno || end[factor > 1] || v > UINT64_MAX / factor)
        cli_usage(c, "--%s %s: use a whole number, such as 5000, 100k or 2M", name, text);
    return v * factor;
}

static double parse_f64(const cli *c, const char *name, const char *text)
{
    char *end = NULL;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || errno || v != v || v - v != 0)
        cli_usage(c, "--%s %s: use a number", name, text);
    return v;
}

/* ---- options ------------------------------------------------------------------- */

static void list_add(const cli *c, cli_list *l, const char *item)
{
    const char **grown = realloc(l->items, (l->n + 1) * sizeof *grown);
    if (!grown) {
        fprintf(stderr, "%s: out of memory for the arguments\n", c->tool);
        exit(4);
    }
    l->items = grown;
    l->items[l->n++] = item;
}

static void set_option(const cli *c, const cli_option *o, const char *value)
{
    switch (o->kind) {
    case CLI_FLAG: *(bool *)o->to = true; break;
    case CLI_TEXT: *(const char **)o->to = value; break;
    case CLI_LIST: list_add(c, o->to, value); break;
    case CLI_U64: *(uint64_t *)o->to = parse_u64(c, o->name, value); break;
    case CLI_COUNT: *(uint64_t *)o->to = parse_count(c, o->name, value); break;
    case CLI_SIZE: *(uint64_t *)o->to = parse_size(c, o->name, value); break;
    case CLI_F64: *(double *)o->to = parse_f64(c, o->name, value); break;
    }
}

/* The kind of selection that an option adds, or GG_SELECT_KINDS for any other option. */
static gg_select_kind selection_option(const cli *c, const char *name)
{
    static const char *const options[GG_SELECT_KINDS] = {
        [GG_SELECT_TYPES] = "type",      [GG_SELECT_PARTS] = "part",
        [GG_SELECT_LAYERS] = "layers",   [GG_SELECT_TENSORS] = "tensors",
        [GG_SELECT_EXPERTS] = "experts", [GG_SELECT_NAMES] = "names-from",
    };
    size_t k = c->selects ? 0 : GG_SELECT_KINDS;
    while (k < GG_SELECT_KINDS && !(options[k] && strcmp(options[k], name) == 0)) k++;
    if (k == GG_SELECT_EXPERTS && c->maps_experts) return GG_SELECT_EXPERT_MAP;
    return (gg_select_kind)k;
}

static void apply_selection(cli *c, gg_select_kind kind, const char *value)
{
    if ((!c->select && gg_select_new(&c->select, &c->err) != GG_OK) ||
        gg_select_add(c->select, kind, value, &c->err) != GG_OK)
        exit(cli_end(c, c->err.status));
}

static void set_where(cli *c)
{
    if (c->wheres.n == 0) return;
    c->where = calloc(c->wheres.n, sizeof *c->where);
    if (!c->where) {
        fprintf(stderr, "%s: out of memory for the arguments\n", c->tool);
        exit(4);
    }
    for (size_t i = 0; i < c->wheres.n; i++)
        where_parse(c, c->wheres.items[i], c->where_columns, &c->where[i]);
    table_where(c->where_columns, c->where, c->wheres.n);
}

static void set_threads(cli *c, const char *value)
{
    uint64_t n = parse_u64(c, "threads", value);
    if (n < 1 || n > 1024) cli_usage(c, "-j %s: use 1 to 1024 threads", value);
    c->run.threads = (unsigned)n;
}

/* Handles the flags common to all tools; false if `name` is not one of them. */
static bool common_flag(cli *c, const char *name)
{
    if (strcmp(name, "help") == 0) {
        cli_print_help(c->help);
        exit(cli_end(c, GG_OK));
    }
    if (strcmp(name, "version") == 0) {
        printf("%s %s\n", c->tool, gg_version());
        exit(cli_end(c, GG_OK));
    }
    if (strcmp(name, "quiet") == 0) return c->quiet = true;
    if (strcmp(name, "verbose") == 0) return ++c->verbose > 0;
    if (c->has_json && strcmp(name, "json") == 0) return c->json = true;
    if (c->has_force && strcmp(name, "force") == 0) return c->run.force = true;
    if (c->has_strict && strcmp(name, "strict") == 0) return c->run.strict = true;
    return false;
}

static bool is_common_flag(const cli *c, const char *name)
{
    static const char *const always[] = { "help", "version", "quiet", "verbose" };
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        if (strcmp(name, always[i]) == 0) return true;
    return (c->has_json && strcmp(name, "json") == 0) ||
           (c->has_force && strcmp(name, "force") == 0) ||
           (c->has_strict && strcmp(name, "strict") == 0);
}

/* Reports an unknown option, and the known option that it resembles. */
static _Noreturn void unknown_option(const cli *c, const cli_option *options, const char *name)
{
    static const char *const common[] = { "help", "version", "quiet", "verbose", "threads" };
    static const char *const selection[] = { "type",    "part",       "layers", "tensors",
                                             "experts", "names-from", "where" };
    const char *names[96];
    size_t n = 0, room = sizeof names / sizeof names[0];
    for (const cli_option *o = options; o->name && n < room - 16; o++) names[n++] = o->name;
    for (size_t i = 0; i < 5; i++) names[n++] = common[i];
    for (size_t i = 0; i < 7; i++)
        if (i < 6 ? c->selects : c->where_columns != NULL) names[n++] = selection[i];
    if (c->has_json) names[n++] = "json";
    if (c->has_force) names[n++] = "force";
    if (c->has_strict) names[n++] = "strict";
    const char *near = gg_nearest(name, strlen(name), names, n);
    char dashed[GG_MEANT], meant[GG_MEANT];
    if (near) snprintf(dashed, sizeof dashed, "--%s", near);
    cli_usage(c, "unknown option '--%s'%s", name, gg_meant(near ? dashed : NULL, meant));
}

/* Handles --name, --name=value or --name value; returns the number of arguments used. */
static int long_option(cli *c, int left, char **argv, const cli_option *options)
{
    char name[64];
    const char *text = argv[0] + 2, *eq = strchr(text, '=');
    size_t n = eq ? (size_t)(eq - text) : strlen(text);
    if (n >= sizeof name) cli_usage(c, "unknown option '%s'", argv[0]);
    memcpy(name, text, n);
    name[n] = '\0';
    if (!eq && common_flag(c, name)) return 1;
    const cli_option *o = options;
    while (o->name && strcmp(o->name, name) != 0) o++;
    gg_select_kind kind = selection_option(c, name);
    bool selects = kind != GG_SELECT_KINDS;
    bool threads = strcmp(name, "threads") == 0;
    if (eq && is_common_flag(c, name)) cli_usage(c, "--%s takes no value", name);
    bool condition = c->where_columns && strcmp(name, "where") == 0;
    if (!o->name && !selects && !threads && !condition) unknown_option(c, options, name);
    if (o->name && o->kind == CLI_FLAG) {
        if (eq) cli_usage(c, "--%s takes no value", name);
        set_option(c, o, NULL);
        return 1;
    }
    if (!eq && left < 2) cli_usage(c, "--%s needs a value", name);
    const char *value = eq ? eq + 1 : argv[1];
    if (o->name) set_option(c, o, value);
    else if (condition) list_add(c, &c->wheres, value);
    else if (kind == GG_SELECT_NAMES)
        list_add(c, &c->names, value); /* read later: stdin may hold a model, see check_stdin */
    else if (selects) apply_selection(c, kind, value);
    else set_threads(c, value);
    return eq ? 1 : 2;
}

/* Handles -q, -v, -h, -V, -j N, -jN, and -o for tools with --output; returns the number
 * of arguments used. */
static int short_options(cli *c, int left, char **argv, const cli_option *options)
{
    const cli_option *output = options;
    while (output->name && strcmp(output->name, "output") != 0) output++;
    for (const char *p = argv[0] + 1; *p; p++) {
        if (*p == 'j' || (*p == 'o' && output->name)) {
            if (!p[1] && left < 2) cli_usage(c, "-%c needs a value", *p);
            const char *value = p[1] ? p + 1 : argv[1];
            if (*p == 'j') set_threads(c, value);
            else set_option(c, output, value);
            return p[1] ? 1 : 2;
        }
        const char *name = *p == 'q'   ? "quiet"
                           : *p == 'v' ? "verbose"
                           : *p == 'h' ? "help"
                           : *p == 'V' ? "version"
                                       : NULL;
        if (!name) cli_usage(c, "unknown option '-%c'", *p);
        common_flag(c, name);
    }
    return 1;
}

/* ---- start and end ------------------------------------------------------------------ */

/* If the caller closed a standard descriptor, the first file we open would get its number,
 * and messages would be written into that file. Occupy the number with a descriptor on
 * which any use fails. */
static void hold_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            return;
}

static size_t dashes(const cli_list *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) n += strcmp(l->items[i], "-") == 0;
    return n;
}

/* Options that name an input, where "-" means stdin. */
static bool reads(const char *option)
{
    static const char *const names[] = { "model",  "dir",    "base",     "donor",
                                         "source", "target", "ancestor", "adapter" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], option) == 0) return true;
    return false;
}

/* Stdin can be read only once, so at most one input may be "-". */
static void check_stdin(const cli *c, const cli_option *options)
{
    size_t names = dashes(&c->names), readers = names + dashes(&c->args);
    for (const cli_option *o = options; o->name; o++) {
        const cli_option *first = options; /* of several names for one option */
        while (first->to != o->to) first++;
        if (!reads(o->name) || first != o) continue;
        const char *value = o->kind == CLI_TEXT ? *(const char **)o->to : NULL;
        if (o->kind == CLI_LIST) readers += dashes(o->to);
        else readers += value && strcmp(value, "-") == 0;
    }
    if (readers <= 1) return;
    if (names == readers)
        cli_usage(c, "--names-from - is given twice, but stdin can be read only once: use a file");
    if (names)
        cli_usage(c, "--names-from - and a model both read stdin: put one of them in a file");
    cli_usage(c, "only one model can be read from stdin: put the other in a file");
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

void cli_start(cli *c, int argc, char **argv, const cli_option *options)
{
    hold_standard_descriptors();
    catch_signals();
    raise_open_files();
    c->err = (gg_error)GG_ERROR_INIT;
    c->run.progress = &c->progress;
    c->run.note = print_note;
    c->run.ctx = c;
    for (int i = 1; i < argc;) {
        const char *a = argv[i];
        if (strcmp(a, "--") == 0) {
            for (i++; i < argc; i++) list_add(c, &c->args, argv[i]);
        } else if (a[0] == '-' && a[1] == '-') {
            i += long_option(c, argc - i, argv + i, options);
        } else if (a[0] == '-' && a[1]) {
            i += short_options(c, argc - i, argv + i, options);
        } else {
            list_add(c, &c->args, a);
            i++;
        }
    }
    check_stdin(c, options);
    for (size_t i = 0; i < c->names.n; i++) apply_selection(c, GG_SELECT_NAMES, c->names.items[i]);
    set_where(c);
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

/* A full disk or a closed pipe may be noticed only when the last bytes are written. */
static bool close_stdout(void)
{
    int why = fflush(stdout) != 0 ? errno : table_errno();
    bool lost = why || ferror(stdout);
    if (fclose(stdout) != 0) {
        lost = true;
        if (!why) why = errno;
    }
    errno = why;
    return !lost;
}

gg_status cli_stdout_lost(gg_error *err, int why)
{
    errno = why;
    if (why) gg_fail_errno(err, "cannot write to stdout");
    else gg_fail(err, GG_EIO, "cannot write all output to stdout");
    if (why == EPIPE) gg_fix(err, "the reading program ended early");
    else gg_fix(err, "free some space, or redirect the output elsewhere");
    return GG_EIO;
}

int cli_end(cli *c, gg_status status)
{
    progress_end();
    table_end();
    if (status == GG_OK && !table_any()) status = check_where(c);
    if (!close_stdout() && status != GG_ECANCELLED && c->err.status == GG_OK)
        status = cli_stdout_lost(&c->err, errno);
    if (c->err.status != GG_OK) {
        char line[1536];
        hint_append(c->err.what_hint, c->err.what, sizeof c->err.what);
        hint_append(c->err.fix_hint, c->err.fix, sizeof c->err.fix);
        gg_error_line(&c->err, c->tool, line, sizeof line);
        fprintf(stderr, "%s\n", line);
    }
    gg_select_free(c->select);
    free(c->args.items);
    free(c->names.items);
    free(c->wheres.items);
    free(c->where);
    if (status == GG_ECANCELLED && got_signal) {
        signal(got_signal, SIG_DFL);
        raise(got_signal);
    }
    return gg_status_exit(status);
}

gg_status cli_open(cli *c, const char *spec, cli_open_kind kind, gg_source **out)
{
    gg_source_options o = { .header_only = kind == CLI_HEADER_ONLY,
                            .spooled = kind == CLI_SPOOLED,
                            .note = print_note,
                            .ctx = c };
    return gg_source_open_with(spec, &o, out, &c->err);
}

const char *cli_one(const cli *c, const char *option_value, const char *what)
{
    size_t n = c->args.n + (option_value ? 1 : 0);
    if (n == 0) cli_usage(c, "no %s given", what);
    if (n > 1) cli_usage(c, "more than one %s given: '%s'", what, c->args.items[c->args.n - 1]);
    return option_value ? option_value : c->args.items[0];
}

void cli_no_terminal(const cli *c, int fd)
{
    if (isatty(fd))
        cli_usage(c,
                  "the output is binary and stdout is a terminal: give a file name or use a pipe");
}
