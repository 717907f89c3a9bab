/* organ-api - offers the tools over HTTP, as a CGI program behind a web server. */
#include "api.h"
#include "common/cli.h"

#include "base/io.h"     /* whole reads and writes */
#include "base/sha256.h" /* hashes of uploads */
#include "organ/gg_version.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: run by a web server as a CGI program; organ-serve starts such a server\n"
    "Offer models over HTTP: list and upload models, show their anatomy, send organs,\n"
    "and run the tools as jobs. The manual page organ-api(1) lists the routes.\n"
    "\n"
    "environment:\n"
    "  ORGAN_API_DATA        folder of models and organ directories; nothing outside\n"
    "                        it is read or written, not even through links\n"
    "  ORGAN_API_SPOOL       folder of jobs (mode 700)\n"
    "  ORGAN_API_TOKEN_FILE  file with the bearer token that every request must send\n"
    "  ORGAN_API_BIN         folder of the tools\n"
    "  ORGAN_API_SCRIPTS     folder of organ-fleet and the other scripts, if different\n"
    "  ORGAN_API_JOBS        how many jobs may run at once (2)\n"
    "  ORGAN_API_MAX_BODY    largest upload in bytes (68719476736)\n"
    "  ORGAN_API_QUOTA       largest size of the data folder in bytes (none)\n"
    "  ORGAN_API_KEEP_JOBS   how many finished jobs are kept (1000)\n"
    "  ORGAN_API_KEEP_DAYS   for how many days they are kept (30)\n"
    "  ORGAN_API_HOST        a host name to accept besides localhost and 127.0.0.1\n"
    ,
    "  mkdir -p /tmp/data && organ-serve --data /tmp/data\n"
    "  (umask 077; mkdir -p /tmp/spool; echo 0123456789abcdef > /tmp/token)\n"
    "  env ORGAN_API_DATA=tests/data/lab ORGAN_API_SPOOL=/tmp/spool \\\n"
    "    ORGAN_API_TOKEN_FILE=/tmp/token ORGAN_API_BIN=$PWD/build/bin \\\n"
    "    HTTP_AUTHORIZATION='Bearer 0123456789abcdef' REQUEST_METHOD=GET \\\n"
    "    PATH_INFO=/v1/models build/bin/organ-api\n"
    "exit: 0 answered, 2 usage, 4 the answer could not be written\n"
};
/* clang-format on */

#define TOKEN_MAX 4096

/* ---- configuration --------------------------------------------------------------- */

static bool number_from(const char *name, uint64_t otherwise, uint64_t most, uint64_t *v)
{
    const char *text = getenv(name);
    char *end;
    *v = otherwise;
    if (!text || !*text) return true;
    errno = 0;
    *v = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno && *v >= 1 && *v <= most;
}

/* Writes the reason to the server's log; the client learns only that the setup is wrong. */
static bool misconfigured(api *a, const char *what)
{
    fprintf(stderr, "organ-api: %s\n", what);
    return api_fail(a, 500, "the server is not configured correctly: see its log");
}

/* The reason is that of the system, if there is one. */
static bool misconfigured_by(api *a, const char *what, const gg_error *why)
{
    char line[sizeof why->what + 200];
    snprintf(line, sizeof line, "%s%s%s", what, why->what[0] ? ": " : "", why->what);
    return misconfigured(a, line);
}

static bool folder_from(api *a, const char *name, char **real)
{
    gg_error err = GG_ERROR_INIT;
    char what[100];
    const char *path = getenv(name);
    if (path && (*real = gg_real_path(path, &err))) return true;
    snprintf(what, sizeof what, "%s must name an existing folder", name);
    return misconfigured_by(a, what, &err);
}

static bool configure(api *a)
{
    uint64_t jobs;
    const struct {
        const char *name;
        uint64_t otherwise, most, *v;
    } numbers[] = { { "ORGAN_API_JOBS", 2, 1000, &jobs },
                    { "ORGAN_API_MAX_BODY", (uint64_t)64 << 30, INT64_MAX, &a->max_body },
                    { "ORGAN_API_QUOTA", 0, INT64_MAX, &a->quota },
                    { "ORGAN_API_KEEP_JOBS", 1000, 1000000, &a->keep_jobs },
                    { "ORGAN_API_KEEP_DAYS", 30, 36500, &a->keep_days } };
    a->bin = getenv("ORGAN_API_BIN");
    a->scripts = getenv("ORGAN_API_SCRIPTS");
    if (!folder_from(a, "ORGAN_API_DATA", &a->data) ||
        !folder_from(a, "ORGAN_API_SPOOL", &a->spool))
        return false;
    if (!a->bin || a->bin[0] != '/')
        return misconfigured(a, "ORGAN_API_BIN must be an absolute path");
    if (a->scripts && !*a->scripts) a->scripts = NULL;
    if (a->scripts && a->scripts[0] != '/')
        return misconfigured(a, "ORGAN_API_SCRIPTS must be an absolute path");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char what[100];
        if (number_from(numbers[i].name, numbers[i].otherwise, numbers[i].most, numbers[i].v))
            continue;
        snprintf(what, sizeof what, "%s must be a number from 1 to %llu", numbers[i].name,
                 (unsigned long long)numbers[i].most);
        return misconfigured(a, what);
    }
    a->jobs = (unsigned)jobs;
    return true;
}

/* ---- host ------------------------------------------------------------------------ */

/* Whether the Host header names `host`, with or without a port. */
static bool names_host(const char *header, const char *host)
{
    size_t n = strlen(host);
    if (n == 0 || strncasecmp(header, host, n) != 0) return false;
    if (header[n] == '\0') return true;
    size_t digits = header[n] == ':' ? strspn(header + n + 1, "0123456789") : 0;
    return digits > 0 && digits <= 5 && header[n + 1 + digits] == '\0';
}

/* A web page that makes its own name resolve to 127.0.0.1 (DNS rebinding) reaches this server,
 * but its requests carry that name. The port is not compared, because it may be forwarded. */
static bool check_host(api *a)
{
    static const char *const local[] = { "127.0.0.1", "localhost", "[::1]" };
    const char *given = getenv("HTTP_HOST"), *named = getenv("ORGAN_API_HOST");
    if (!given) return true; /* no browser leaves it out */
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        if (names_host(given, local[i])) return true;
    if (named && names_host(given, named)) return true;
    return api_fail(a, 403, "this server does not serve the host of the Host header");
}

/* ---- token ------------------------------------------------------------------------- */

static size_t read_token(const char *path, char token[TOKEN_MAX], gg_error *err)
{
    size_t n = 0;
    int fd = gg_open_read(path, err);
    if (fd < 0) return 0;
    if (gg_read_some(fd, token, TOKEN_MAX, &n, err) != GG_OK) n = 0;
    close(fd);
    const char *line = memchr(token, '\n', n);
    if (line) n = (size_t)(line - token);
    while (n && (token[n - 1] == '\r' || token[n - 1] == ' ')) n--;
    return n;
}

/* Compares digests in constant time, so that the time reveals neither the length of the
 * token nor how much of it was right. */
static bool equal(const char *a, size_t n, const char *b, size_t m)
{
    unsigned char x[32], y[32], differ = 0;
    gg_sha256 h;
    gg_sha256_init(&h);
    gg_sha256_update(&h, a, n);
    gg_sha256_final(&h, x);
    gg_sha256_init(&h);
    gg_sha256_update(&h, b, m);
    gg_sha256_final(&h, y);
    for (size_t i = 0; i < sizeof x; i++) differ |= (unsigned char)(x[i] ^ y[i]);
    return differ == 0;
}

static bool authorize(api *a)
{
    static char token[TOKEN_MAX];
    const char *path = getenv("ORGAN_API_TOKEN_FILE"), *given = getenv("HTTP_AUTHORIZATION");
    gg_error err = GG_ERROR_INIT;
    size_t n = path ? read_token(path, token, &err) : 0;
    if (n == 0)
        return misconfigured_by(a, "ORGAN_API_TOKEN_FILE must name a file that contains a token",
                                &err);
    if (!given || strncasecmp(given, "Bearer ", 7) != 0)
        return api_fail(a, 401, "send the header Authorization: Bearer TOKEN");
    given += 7 + strspn(given + 7, " ");
    a->known = equal(token, n, given, strlen(given));
    return a->known || api_fail(a, 401, "the token is wrong");
}

/* ---- routes --------------------------------------------------------------------------- */

static bool health(api *a)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf body = GG_BUF_INIT;
    if (!api_allow(a, "GET, HEAD")) return false;
    gg_buf_printf(
        &body, &err,
        "{\"status\": \"ok\", \"version\": \"%s\", \"jobs_at_once\": %u, \"max_body\": %llu}\n",
        gg_version(), a->jobs, (unsigned long long)a->max_body);
    return api_finish(a, 200, NULL, &body, &err);
}

bool api_program(api *a, char *const *argv, const char *folder, gg_buf *body)
{
    gg_error err = GG_ERROR_INIT;
    int fds[2], status = -1;
    size_t n = 1;
    if (pipe(fds) != 0) return api_fail(a, 500, "no program can be started: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0) gg_fail_errno(&err, "no program can be started");
    if (child == 0) {
        dup2(fds[1], 1);
        close(fds[0]);
        close(fds[1]);
        if (!folder || chdir(folder) == 0) execv(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    close(fds[1]);
    while (child > 0 && n > 0 && err.status == GG_OK) {
        char piece[4096];
        if (gg_read_some(fds[0], piece, sizeof piece, &n, &err) == GG_OK)
            gg_buf_append(body, piece, n, &err);
    }
    close(fds[0]);
    if (child > 0 && waitpid(child, &status, 0) != child) status = -1;
    if (err.status != GG_OK) return api_fail_error(a, &err);
    return status == 0 ||
           api_fail(a, 500, "%s failed: see the log of the server", strrchr(argv[0], '/') + 1);
}

/* The names that the tools know. */
static bool name_lists(api *a)
{
    static const char *const lists[][2] = {
        { "organ-assemble", "types" },  { "organ-assemble", "presets" },
        { "organ-merge", "methods" },   { "organ-merge", "parameters" },
        { "organ-measure", "columns" }, { "organ-check", "rules" },
        { "organ-extract", "classes" }, { "organ-extract", "parts" },
    };
    char tool[4096], option[64], json[] = "--json";
    char *const argv[] = { tool, option, json, NULL };
    if (!api_allow(a, "GET, HEAD")) return false;
    for (size_t i = 0; a->parts == 3 && i < sizeof lists / sizeof lists[0]; i++) {
        if (strcmp(lists[i][1], a->part[2]) != 0) continue;
        gg_buf body = GG_BUF_INIT;
        snprintf(tool, sizeof tool, "%s/%s", a->bin, lists[i][0]);
        snprintf(option, sizeof option, "--list-%s", lists[i][1]);
        bool ok = api_program(a, argv, NULL, &body);
        if (ok) api_answer(a, 200, "application/jsonl", NULL, &body);
        gg_buf_free(&body);
        return ok;
    }
    return api_nothing(a);
}

static bool route(api *a)
{
    static const struct {
        const char *name;
        bool (*fn)(api *a);
    } routes[] = { { "health", health },    { "models", api_models }, { "texts", api_texts },
                   { "info", api_info },    { "organs", api_organs }, { "files", api_files },
                   { "lists", name_lists }, { "jobs", api_jobs } };
    if (a->parts >= 2 && a->parts <= API_PARTS && strcmp(a->part[0], "v1") == 0)
        for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
            if (strcmp(routes[i].name, a->part[1]) == 0 && (i > 0 || a->parts == 2))
                return routes[i].fn(a);
    return api_nothing(a);
}

static void stop(int sig)
{
    (void)sig;
    gg_cancel(); /* aborts an upload and removes its temporary file */
}

static int serve(void)
{
    api a = { .method = "" };
    cli_hold_descriptors();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* write returns EFBIG, and the unfinished file is removed */
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    if (!configure(&a) || !api_request(&a) || !check_host(&a) || !authorize(&a) || !route(&a)) {
        if (!a.status) api_fail(&a, 500, "failed");
        api_answer_failure(&a);
    }
    errno = 0;
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (a.cut) fprintf(stderr, "%s\n", a.what);
    else if (lost)
        fprintf(stderr, "organ-api: the answer cannot be written to stdout%s%s\n",
                errno ? ": " : "", errno ? strerror(errno) : "");
    free(a.data);
    free(a.spool);
    free(a.path);
    return lost || a.cut ? 4 : 0;
}

int main(int argc, char **argv)
{
    /* Under CGI the arguments may come from the query string of a stranger: ignore them. */
    if (getenv("REQUEST_METHOD")) return serve();
    CLI_TOOL(c, api);
    const cli_option none[] = { { .group = cli_common }, { 0 } };
    if (argc > 1 && argv[1][0] != '-') argc = 1; /* the original's "server" */
    cli_start(&c, argc, argv, none);
    cli_usage(&c, "this program is started by a web server: use organ-serve");
}
