/* t_status.c - the error record and the escaping of names. */
#include "t.h"

#include "base/error.h"
#include "organ/gg_status.h"

#include <errno.h>

static void first_error_is_kept(void)
{
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_fail(&e, GG_EFORMAT, "reason %d", 1), GG_EFORMAT);
    T_EQ(gg_fail(&e, GG_EIO, "reason 2"), GG_EIO);
    T_CHECK(e.status == GG_EFORMAT && strcmp(e.what, "reason 1") == 0);
    errno = ENOSPC;
    T_EQ(gg_fail_errno(&e, "late"), GG_EIO);
    T_EQ(e.sys_errno, 0);
}

static void places_once_set_stay(void)
{
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_at_file(&e, "too-early") == GG_OK && e.file[0] == '\0');
    T_CHECK(gg_at_offset(&e, 5) == GG_OK && e.offset == GG_ERROR_NO_OFFSET);
    T_CHECK(gg_fix(&e, "too early") == GG_OK && e.fix[0] == '\0');
    gg_fail(&e, GG_EFORMAT, "bad");
    T_EQ(gg_at_tensor(&e, "a\nb\0c", 5), GG_EFORMAT);
    gg_at_tensor(&e, "other", 5);
    gg_at_offset(&e, 0);
    gg_at_offset(&e, 9);
    gg_at_file(&e, "one");
    gg_at_file(&e, "two");
    gg_fix(&e, "do %s", "this");
    gg_fix(&e, "do that");
    T_STR(e.tensor, "a\\nb\\x00c");
    T_CHECK(e.offset == 0 && strcmp(e.file, "one") == 0 && strcmp(e.fix, "do this") == 0);
    char line[200];
    size_t n = gg_error_line(&e, "organ-x", line, sizeof line);
    T_CHECKF(strcmp(line, "organ-x: one: tensor 'a\\nb\\x00c': offset 0: bad; do this") == 0, "%s",
             line);
    T_EQ(n, strlen(line));
}

static void stdin_has_a_name(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_fail(&e, GG_EIO, "x");
    gg_at_file(&e, "-");
    T_STR(e.file, "<stdin>");
}

static void errno_is_told(void)
{
    gg_error e = GG_ERROR_INIT;
    errno = ENOENT;
    T_EQ(gg_fail_errno(&e, "cannot open %s", "it"), GG_EIO);
    T_CHECK(e.sys_errno == ENOENT && strncmp(e.what, "cannot open it: ", 16) == 0 && e.what[16]);
    char line[200];
    gg_error_line(&e, "organ-x", line, sizeof line);
    T_CHECKF(strstr(line, "; check the path"), "%s", line);
    gg_fix(&e, "look again");
    gg_error_line(&e, "organ-x", line, sizeof line);
    T_CHECKF(strstr(line, "; look again") && !strstr(line, "check the path"), "%s", line);
}

/* Whatever bytes an error is made of, its line is one line, and is cut in time. */
static void hostile_text_is_safe(void)
{
    char big[5000];
    memset(big, 'x', sizeof big);
    memcpy(big, "\x1b[2J\n\xff\t", 7);
    big[sizeof big - 1] = '\0';
    gg_error e = GG_ERROR_INIT;
    gg_fail(&e, GG_EFORMAT, "%s", big);
    gg_at_file(&e, big);
    gg_at_tensor(&e, big, sizeof big);
    gg_fix(&e, "%s", big);
    char line[1536];
    size_t n = gg_error_line(&e, "organ-x", line, sizeof line);
    T_CHECK(n < sizeof line && n == strlen(line));
    for (size_t i = 0; i < n; i++)
        T_CHECKF(line[i] >= 0x20 && line[i] < 0x7f, "byte %02x at %zu", (unsigned char)line[i], i);
    for (size_t size = 0; size < 40; size++) {
        char guard[48];
        memset(guard, 'G', sizeof guard);
        n = gg_error_line(&e, "organ-x", guard, size);
        T_CHECK(guard[size] == 'G' && (size == 0 || guard[n] == '\0') && n + (size > 0) <= size);
    }
}

static void workers_merge(void)
{
    gg_error to = GG_ERROR_INIT, none = GG_ERROR_INIT, a = GG_ERROR_INIT, b = GG_ERROR_INIT;
    gg_fail(&a, GG_EFORMAT, "a");
    gg_fail(&b, GG_EIO, "b");
    gg_error_merge(&to, &none);
    T_EQ(to.status, GG_OK);
    gg_error_merge(&to, &a);
    gg_error_merge(&to, &b);
    T_CHECK(to.status == GG_EFORMAT && strcmp(to.what, "a") == 0);
}

static void exits(void)
{
    static const int want[] = { 0, 1, 2, 3, 3, 4, 4, 4 };
    for (int i = 0; i < 8; i++) {
        T_EQ(gg_status_exit((gg_status)i), want[i]);
        T_CHECK(gg_status_text((gg_status)i)[0] != '\0');
    }
    T_EQ(gg_status_exit((gg_status)99), 4);
}

static const struct {
    const char *bytes;
    size_t n;
    const char *text;
} escapes[] = {
    { "", 0, "" },
    { "blk.0.attn_q.weight", 19, "blk.0.attn_q.weight" },
    { "a\\b", 3, "a\\\\b" },
    { "a\tb\nc", 5, "a\\tb\\nc" },
    { "\0\x01\x1b\x7f", 4, "\\x00\\x01\\x1b\\x7f" },
    { "\xc2\x85", 2, "\\xc2\\x85" },                   /* a C1 control */
    { "\xff\xc3", 2, "\\xff\\xc3" },                   /* not UTF-8 */
    { "\xed\xa0\x80", 3, "\\xed\\xa0\\x80" },          /* a surrogate */
    { "\xc0\xaf", 2, "\\xc0\\xaf" },                   /* overlong */
    { "\xe2\x80\xae", 3, "\\xe2\\x80\\xae" },          /* right-to-left override */
    { "\xe2\x81\xa6", 3, "\\xe2\\x81\\xa6" },          /* isolate */
    { "\xe2\x81\xa9", 3, "\\xe2\\x81\\xa9" },          /* the end of an isolate */
    { "\xe2\x80\xaa", 3, "\\xe2\\x80\\xaa" },          /* left-to-right embedding */
    { "\xe2\x80\x8f", 3, "\\xe2\\x80\\x8f" },          /* right-to-left mark */
    { "\xef\xbb\xbf", 3, "\\xef\\xbb\\xbf" },          /* byte order mark */
    { "\xe2\x80\x8b", 3, "\\xe2\\x80\\x8b" },          /* zero width space */
    { "\xe2\x81\xa0", 3, "\\xe2\\x81\\xa0" },          /* word joiner */
    { "\xe2\x81\xaf", 3, "\\xe2\\x81\\xaf" },          /* nominal digit shapes */
    { "\xc2\xad", 2, "\\xc2\\xad" },                   /* soft hyphen */
    { "\xf3\xa0\x81\xa1", 4, "\\xf3\\xa0\\x81\\xa1" }, /* a tag */
    { "\xc3\xa4\xe6\x97\xa5", 5, "\xc3\xa4\xe6\x97\xa5" },
    { "\xf0\x9f\xa7\xa0", 4, "\xf0\x9f\xa7\xa0" },
};

static void escape_table(void)
{
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        char out[64];
        size_t want = strlen(escapes[i].text);
        T_CHECKF(gg_escape(escapes[i].bytes, escapes[i].n, out, sizeof out) == want, "case %zu", i);
        T_CHECKF(strcmp(out, escapes[i].text) == 0, "case %zu: %s", i, out);
        size_t n = want;
        T_CHECKF(gg_unescape(out, &n) && n == escapes[i].n && memcmp(out, escapes[i].bytes, n) == 0,
                 "case %zu", i);
        for (size_t size = 0; size <= want;
             size++) { /* too small: cut, terminated, whole length told */
            memset(out, 'G', sizeof out);
            T_EQ(gg_escape(escapes[i].bytes, escapes[i].n, out, size), want);
            T_CHECK(out[size] == 'G' && (size == 0 || strlen(out) == size - 1));
        }
    }
}

/* Every pair of bytes, there and back, and nothing a terminal would act on. */
static void escape_is_reversible(void)
{
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++) {
            char in[4] = { (char)a, (char)b, (char)a, '.' }, out[32];
            size_t n = gg_escape(in, 4, out, sizeof out);
            for (size_t i = 0; i < n; i++) T_CHECK((unsigned char)out[i] >= 0x20 && out[i] != 0x7f);
            T_CHECK(gg_unescape(out, &n) && n == 4 && memcmp(in, out, 4) == 0);
        }
}

static void broken_escapes(void)
{
    static const char *const bad[] = { "\\",   "a\\",   "\\q",   "\\x",
                                       "\\x1", "\\xg0", "\\x0g", "\\u0041" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[16];
        strcpy(text, bad[i]);
        size_t n = strlen(text);
        T_CHECKF(!gg_unescape(text, &n), "%s", bad[i]);
    }
}

static const t_case cases[] = {
    { "the first error is kept", first_error_is_kept },
    { "places once set stay", places_once_set_stay },
    { "stdin has a name", stdin_has_a_name },
    { "errno is reported", errno_is_told },
    { "hostile text is safe", hostile_text_is_safe },
    { "errors of workers merge", workers_merge },
    { "exit codes", exits },
    { "escape table", escape_table },
    { "escape is reversible", escape_is_reversible },
    { "broken escapes", broken_escapes },
};

T_MAIN(cases)
