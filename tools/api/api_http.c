/* api_http.c - reads CGI/1.1 requests (RFC 3875) and writes responses. */
#include "api.h"

#include "base/io.h"   /* whole reads and writes */
#include "base/utf8.h" /* what JSON can hold */
#include "json/json.h" /* the one JSON reader and writer */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- failures ---------------------------------------------------------------- */

bool api_nothing(api *a)
{
    return api_fail(a, 404, "there is nothing at this path");
}

uint64_t api_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void api_time(uint64_t ms, char out[API_TIME])
{
    char stamp[24];
    time_t t = (time_t)(ms / 1000);
    struct tm tm;
    if (ms && gmtime_r(&t, &tm) && strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm))
        snprintf(out, API_TIME, "\"%s.%03uZ\"", stamp, (unsigned)(ms % 1000));
    else snprintf(out, API_TIME, "null");
}

bool api_fail(api *a, int status, const char *fmt, ...)
{
    if (a->status) return false;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(a->what, sizeof a->what, fmt, ap);
    va_end(ap);
    a->status = status;
    return false;
}

static int status_of(const gg_error *err)
{
    switch (err->status) {
    case GG_NO: return 403;
    case GG_EUSAGE:
    case GG_EFORMAT:
    case GG_EUNSUPPORTED: return 400;
    case GG_EIO: break;
    default: return 500;
    }
    switch (err->sys_errno) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG: return 404;
    case EACCES:
    case EPERM:
    case ELOOP: return 403;
    case EEXIST: return 409;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return 507;
    default: return 500;
    }
}

/* Clients must not learn where the data folder is: remove that prefix from messages. */
bool api_fail_error(api *a, const gg_error *err)
{
    gg_error e = *err;
    size_t n = a->data ? strlen(a->data) : 0;
    if (n && strncmp(e.file, a->data, n) == 0 && e.file[n] == '/')
        memmove(e.file, e.file + n + 1, strlen(e.file + n + 1) + 1);
    char line[sizeof a->what];
    gg_error_line(&e, "organ-api", line, sizeof line);
    return api_fail(a, status_of(err), "%s", line + strlen("organ-api: "));
}

static const struct {
    int status;
    const char *reason, *code;
} reasons[] = {
    { 200, "OK", "" },
    { 201, "Created", "" },
    { 202, "Accepted", "" },
    { 206, "Partial Content", "" },
    { 400, "Bad Request", "bad_request" },
    { 401, "Unauthorized", "unauthorized" },
    { 403, "Forbidden", "forbidden" },
    { 404, "Not Found", "not_found" },
    { 405, "Method Not Allowed", "method_not_allowed" },
    { 409, "Conflict", "conflict" },
    { 411, "Length Required", "length_required" },
    { 413, "Content Too Large", "too_large" },
    { 416, "Range Not Satisfiable", "range" },
    { 503, "Service Unavailable", "unavailable" },
    { 507, "Insufficient Storage", "no_space" },
    { 500, "Internal Server Error", "internal" } /* the last */
};

static size_t reason_of(int status)
{
    size_t i = 0;
    while (reasons[i].status != status && reasons[i].status != 500) i++;
    return i;
}

/* ---- request ------------------------------------------------------------------ */

static bool split_path(api *a, const char *path)
{
    a->path = strdup(path);
    if (!a->path) return api_fail(a, 500, "out of memory for the path");
    for (char *p = a->path; *p;) {
        while (*p == '/') *p++ = '\0';
        if (!*p) break;
        if (a->parts > API_PARTS) return true; /* too many parts: no route matches */
        a->part[a->parts++] = p;
        p += strcspn(p, "/");
    }
    return true;
}

bool api_request(api *a)
{
    const char *method = getenv("REQUEST_METHOD"), *path = getenv("PATH_INFO"),
               *length = getenv("CONTENT_LENGTH");
    const char *query = getenv("QUERY_STRING");
    a->method = method ? method : "";
    a->query = query ? query : "";
    a->length = UINT64_MAX;
    /* busybox httpd does not pass on Range; clients behind it send X-Range instead. */
    a->range = getenv("HTTP_IF_RANGE") ? NULL : getenv("HTTP_RANGE");
    if (!a->range) a->range = getenv("HTTP_X_RANGE");
    if (length && *length) {
        char *end;
        errno = 0;
        unsigned long long n = strtoull(length, &end, 10);
        if (*length < '0' || *length > '9' || *end || errno)
            return api_fail(a, 400, "the value of Content-Length must be a number");
        a->length = n;
    }
    if (path && !gg_utf8_valid(path, strlen(path)))
        return api_fail(a, 400, "the path is not UTF-8");
    return split_path(a, path ? path : "");
}

bool api_is(const api *a, const char *method)
{
    return strcmp(a->method, method) == 0;
}

bool api_allow(api *a, const char *methods)
{
    size_t n = strlen(a->method);
    for (const char *p = methods; *p; p += strspn(p, ", ")) {
        size_t m = strcspn(p, ", ");
        if (n == m && memcmp(p, a->method, n) == 0) return true;
        p += m;
    }
    a->allow = methods;
    return api_fail(a, 405, "use one of: %s", methods);
}

const char *api_query(const api *a, const char *key, size_t *len)
{
    size_t n = strlen(key);
    for (const char *p = a->query; *p; p += *p == '&') {
        size_t m = strcspn(p, "&");
        if (m > n && memcmp(p, key, n) == 0 && p[n] == '=') {
            *len = m - n - 1;
            return p + n + 1;
        }
        p += m;
    }
    return NULL;
}

bool api_query_has(const api *a, const char *key)
{
    size_t len;
    const char *value = api_query(a, key, &len);
    return value && len == 1 && *value == '1';
}

bool api_query_number(api *a, const char *key, uint64_t most, uint64_t *v)
{
    size_t len;
    const char *value = api_query(a, key, &len);
    if (!value) return true;
    bool ok = len > 0 && len < 10 && strspn(value, "0123456789") == len;
    *v = ok ? strtoull(value, NULL, 10) : most + 1;
    return *v <= most || api_fail(a, 400, "%s must be a whole number of at most %llu", key,
                                  (unsigned long long)most);
}

bool api_body(api *a, gg_buf *body)
{
    gg_error err = GG_ERROR_INIT;
    size_t got = 0;
    if (a->length == UINT64_MAX) return api_fail(a, 411, "send Content-Length");
    if (a->length > API_BODY || a->length > a->max_body)
        return api_fail(a, 413, "the body of a request may have at most %zu bytes",
                        API_BODY < a->max_body ? API_BODY : (size_t)a->max_body);
    a->reading = true;
    if (gg_buf_reserve(body, (size_t)a->length, &err) != GG_OK ||
        gg_read_some(STDIN_FILENO, body->data, (size_t)a->length, &got, &err) != GG_OK)
        return api_fail_error(a, &err);
    if (got < a->length)
        return api_fail(a, 400, "the body ended after %zu of %llu bytes", got,
                        (unsigned long long)a->length);
    body->len = got;
    body->data[got] = '\0';
    return true;
}

/* ---- answers ------------------------------------------------------------------- */

static void print_head(int status, const char *type, uint64_t length, const char *extra)
{
    printf("Status: %d %s\r\nContent-Type: %s\r\nContent-Length: %llu\r\n", status,
           reasons[reason_of(status)].reason, type, (unsigned long long)length);
    printf("Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s\r\n",
           extra ? extra : "");
}

void api_answer(const api *a, int status, const char *type, const char *extra, const gg_buf *body)
{
    print_head(status, type, body->len, extra);
    if (!api_is(a, "HEAD")) fwrite(body->data, 1, body->len, stdout);
}

bool api_finish(api *a, int status, const char *extra, gg_buf *body, const gg_error *err)
{
    bool ok = err->status == GG_OK || api_fail_error(a, err);
    if (ok) api_answer(a, status, "application/json", extra, body);
    gg_buf_free(body);
    return ok;
}

/* Includes the script's name (/cgi-bin/organ-api), which is empty on some servers. */
void api_location(char *out, size_t size, const char *what, const char *name)
{
    const char *script = getenv("SCRIPT_NAME");
    size_t n = script ? strlen(script) : 0;
    while (n && script[n - 1] == '/') n--;
    bool plain = n <= 100 &&
                 (n == 0 || (script[0] == '/' && strcspn(script, "\r\n") == strlen(script)));
    snprintf(out, size, "Location: %.*s/v1/%s/%s\r\n", plain ? (int)n : 0, script ? script : "",
             what, name);
}

#define DRAIN ((uint64_t)16 << 20)
#define DRAIN_MS 5000
#define STRANGERS 16

/* Without the right token, at most STRANGERS requests may wait at once. Each locks a byte of a file
 * in the spool, until it ends. */
static bool may_wait(const api *a)
{
    int fd = a->known || !a->spool ? -1 : api_spool_open(a, "strangers", O_RDWR | O_CREAT);
    for (off_t k = 0; fd >= 0 && k < STRANGERS; k++) {
        struct flock place = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = k, .l_len = 1 };
        if (fcntl(fd, F_SETLK, &place) == 0) return true;
    }
    return a->known;
}

/* If we end while the client is still sending, the server closes the connection and the client may
 * never see the response, although it was sent. So read the rest, unless it is long or slow. */
static void drain(const api *a)
{
    char bytes[16384];
    uint64_t left = a->reading || a->length > DRAIN ? 0 : a->length;
    if (left && left < UINT64_MAX && !may_wait(a)) return;
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    for (uint64_t now = api_now(), end = now + DRAIN_MS; left && now < end; now = api_now()) {
        if (poll(&in, 1, (int)(end - now)) <= 0) continue;
        ssize_t n = read(STDIN_FILENO, bytes, left < sizeof bytes ? (size_t)left : sizeof bytes);
        if (n <= 0 && !(n < 0 && errno == EINTR)) return;
        if (n > 0) left -= (uint64_t)n;
    }
}

void api_answer_failure(const api *a)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf body = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&body);
    char extra[200] = "";
    if (a->status == 401) snprintf(extra, sizeof extra, "WWW-Authenticate: Bearer\r\n");
    if (a->status == 405) snprintf(extra, sizeof extra, "Allow: %s\r\n", a->allow);
    if (a->status == 416)
        snprintf(extra, sizeof extra, "Content-Range: bytes */%llu\r\n",
                 (unsigned long long)a->size);
    gg_buf_printf(&body, &err,
                  "{\"error\": {\"status\": %d, \"code\": \"%s\", \"message\": ", a->status,
                  reasons[reason_of(a->status)].code);
    if (gg_json_put_string(&out, a->what, strlen(a->what), &err) !=
        GG_OK) { /* the message was cut inside a character */
        char shown[4 * sizeof a->what + 1];
        gg_error again = GG_ERROR_INIT;
        gg_escape(a->what, strlen(a->what), shown, sizeof shown);
        gg_json_put_string(&out, shown, strlen(shown), &again);
    }
    err = (gg_error)GG_ERROR_INIT;
    gg_buf_text(&body, "}}\n", &err);
    api_answer(a, a->status, "application/json", extra, &body);
    gg_buf_free(&body);
    if (fflush(stdout) == 0) drain(a);
}

/* ---- files and ranges ----------------------------------------------------------- */

static bool digits(const char **p, uint64_t *v)
{
    char *end;
    if (**p < '0' || **p > '9') return false;
    errno = 0;
    *v = strtoull(*p, &end, 10);
    *p = end;
    return errno == 0;
}

/* A single byte range (RFC 9110) gives 206, or 416 if it lies outside the file. Any other
 * value of Range is ignored: 200 and the whole file. */
static int parse_range(const char *text, uint64_t size, uint64_t *from, uint64_t *n)
{
    uint64_t first = 0, last = 0;
    *from = 0;
    *n = size;
    if (!text || strncmp(text, "bytes=", 6) != 0) return 200;
    const char *p = text + 6;
    if (*p == '-') {
        p++;
        if (!digits(&p, &last) || *p) return 200;
        if (last == 0 || size == 0) return 416;
        *n = last < size ? last : size;
        *from = size - *n;
        return 206;
    }
    if (!digits(&p, &first) || *p++ != '-') return 200;
    bool open = *p == '\0';
    if (!open && (!digits(&p, &last) || *p || last < first)) return 200;
    if (first >= size) return 416;
    if (open || last >= size) last = size - 1;
    *from = first;
    *n = last - first + 1;
    return 206;
}

/* The header was sent already, so an error can only cut the body short. The last byte is sent only
 * if the file is still the same one, so that nobody gets a mixture for the whole. */
static void send_body(api *a, int fd, const gg_stamp *was, uint64_t from, uint64_t n)
{
    gg_error err = GG_ERROR_INIT;
    gg_place to = { STDOUT_FILENO, GG_AT_POS };
    char last;
    if (n == 0) return;
    gg_status st = gg_copy(NULL, (gg_place){ fd, from }, to, n - 1, &err);
    if (st == GG_OK) st = gg_pread_all(fd, &last, 1, from + n - 1, &err);
    if (st == GG_OK) st = gg_check_stamp(was, fd, a->part[a->parts - 1], &err);
    if (st == GG_OK) st = gg_write_all(STDOUT_FILENO, &last, 1, &err);
    if (st == GG_OK) return;
    gg_error_line(&err, "organ-api", a->what, sizeof a->what);
    a->cut = true;
}

static bool send_part(api *a, int fd, const gg_stamp *was, uint64_t size, const char *type)
{
    uint64_t from, n;
    char extra[200];
    int status = parse_range(a->range, size, &from, &n);
    a->size = size;
    if (status == 416) return api_fail(a, 416, "the file has %llu bytes", (unsigned long long)size);
    snprintf(extra, sizeof extra, "Accept-Ranges: bytes\r\n");
    if (status == 206)
        snprintf(extra + strlen(extra), sizeof extra - strlen(extra),
                 "Content-Range: bytes %llu-%llu/%llu\r\n", (unsigned long long)from,
                 (unsigned long long)(from + n - 1), (unsigned long long)size);
    print_head(status, type, n, extra);
    if (fflush(stdout) != 0) {
        snprintf(a->what, sizeof a->what, "organ-api: the answer cannot be written to stdout: %s",
                 strerror(errno));
        a->cut = true;
    } else if (!api_is(a, "HEAD")) {
        send_body(a, fd, was, from, n);
    }
    return true;
}

bool api_answer_file(api *a, int fd, const char *type)
{
    struct stat s;
    bool ok;
    gg_stamp was;
    gg_error err = GG_ERROR_INIT;
    if (gg_stamp_fd(fd, &was, &err) != GG_OK) ok = api_fail_error(a, &err);
    else if (fstat(fd, &s) != 0) ok = api_fail(a, 500, "cannot be read: %s", strerror(errno));
    else if (!S_ISREG(s.st_mode)) ok = api_fail(a, 404, "this is not a file");
    else ok = send_part(a, fd, &was, (uint64_t)s.st_size, type);
    close(fd);
    return ok;
}

/* ---- names ------------------------------------------------------------------------ */

bool api_name_ok(const char *name, size_t len)
{
    if (len == 0 || len > API_NAME || name[0] == '.' || name[0] == '-') return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!word && c != '.' && c != '_' && c != '-') return false;
    }
    return true;
}
