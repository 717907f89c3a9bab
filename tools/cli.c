/* cli.c - start, errors, signals and end of the tools. */
#include "cli.h"
#include "hints.h"
#include "model_text.h"
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

#include "base/io.h"               /* whole reads and writes */
#include "organ/output_guard.h"    /* an output must not replace an input */
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
    options_read(c, argc, argv, options);
    const char *level = getenv("GG_ISA");
    if (level && level[0] && (level[0] < '0' || level[0] > '2' || level[1]))
        cli_usage(c, "the variable GG_ISA is '%s', but the levels are 0, 1 and 2", level);
    if (c->quiet) c->run.note = NULL; /* so that nothing is computed for a note */
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
    gg_fix(err, "free some space, or redirect the output elsewhere");
    return GG_EIO;
}

int cli_end(cli *c, gg_status status)
{
    progress_end();
    table_end();
    if (status == GG_OK && !table_any()) status = check_where(c);
    if (!close_stdout() && status != GG_ECANCELLED && c->err.status == GG_OK)
        status = cli_stdout_lost(&c->err, errno);
    if (status == GG_OK) tell_what_was_written(c);
    if (c->err.status != GG_OK && c->err.sys_errno != EPIPE) { /* "| head" wants no more */
        char line[1536];
        if (c->err.fix_hint == GG_HINT_IN_PLACE && !options_has(c, "in-place"))
            c->err.fix_hint = GG_HINT_NONE;
        hint_append(c->err.what_hint, c->err.what, sizeof c->err.what);
        hint_append(c->err.fix_hint, c->err.fix, sizeof c->err.fix);
        gg_error_line(&c->err, c->tool, line, sizeof line);
        fprintf(stderr, "%s\n", line);
    }
    gg_select_free(c->select);
    free(c->where);
    options_free(c);
    if (status == GG_ECANCELLED && got_signal) {
        signal((int)got_signal, SIG_DFL);
        raise((int)got_signal);
    }
    return gg_status_exit(status);
}

gg_status cli_open(cli *c, const char *spec, cli_open_kind kind, gg_source **out)
{
    gg_source_options o = { .header_only = kind == CLI_HEADER_ONLY,
                            .spooled = kind == CLI_SPOOLED,
                            .note = print_note,
                            .ctx = c };
    gg_status st = gg_source_open_with(spec, &o, out, &c->err);
    if (st != GG_OK) return st;
    for (size_t i = 0; st == GG_OK && i < c->n_rows; i++) {
        const cli_row *row = &c->rows[i];
        bool writes = row->o->kind >= CLI_NEW_MODEL && row->o->kind <= CLI_NEW_FILE;
        const char *path = writes && row->to ? *(const char **)row->to : NULL;
        if (path) st = gg_guard_output(path, *out, &c->err);
    }
    if (st != GG_OK) {
        gg_source_close(*out);
        *out = NULL;
    }
    return st;
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
