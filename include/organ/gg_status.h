/* gg_status.h - errors as values, text that is safe to print, and stopping.
 *
 * A function that can fail returns a gg_status and takes a gg_error as its last argument:
 *
 *     gg_error err = GG_ERROR_INIT;
 *     gg_source *source = NULL;
 *     if (gg_source_open("model.gguf", &source, &err) != GG_OK) {
 *         char line[1536];
 *         gg_error_line(&err, "program", line, sizeof line);
 *         fprintf(stderr, "%s\n", line);
 *     }
 *
 * `err` must not be NULL. It keeps the first error that it receives, so that one error
 * can be passed to a series of calls and be examined at the end: later failures return their
 * status but do not change it. To use the same variable for a new attempt, assign
 * GG_ERROR_INIT again. The library never exits, aborts or prints.
 *
 * The functions of this header can be called from any thread. A gg_error must not be used by
 * two threads at the same time.
 */
#ifndef GG_STATUS_H
#define GG_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Around declarations, for C++. */
#ifdef __cplusplus
#define GG_BEGIN_DECLS extern "C" {
#define GG_END_DECLS }
#else
#define GG_BEGIN_DECLS
#define GG_END_DECLS
#endif

GG_BEGIN_DECLS

#if defined(__GNUC__)
#define GG_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define GG_PRINTF(fmt, first)
#endif

/* A list of texts. */
typedef struct gg_texts {
    const char *const *items;
    size_t n;
} gg_texts;

/* Each status with its exit status (see gg_status_exit) and a text. GG_NO means that nothing
 * failed but the request cannot be fulfilled, for example because no tensor is selected. */
#define GG_STATUS_LIST(X) \
    X(GG_OK, 0, "done") \
    X(GG_NO, 1, "the answer is no") \
    X(GG_EUSAGE, 2, "wrong usage") \
    X(GG_EFORMAT, 3, "malformed input") \
    X(GG_EUNSUPPORTED, 3, "unsupported input") \
    X(GG_EIO, 4, "input/output failure") \
    X(GG_ENOMEM, 4, "out of memory") \
    X(GG_ECANCELLED, 4, "interrupted")

typedef enum gg_status {
#define GG_STATUS_ENUM(name, exit_code, text) name,
    GG_STATUS_LIST(GG_STATUS_ENUM)
#undef GG_STATUS_ENUM
} gg_status;

/* Returns the exit status, 0 to 4, of a program that ends with this status. The tools use it. */
int gg_status_exit(gg_status status);

/* The value of gg_error.offset if the error has no place in a file. */
#define GG_ERROR_NO_OFFSET UINT64_MAX

/* What failed, where, and what to do about it. Initialise it with GG_ERROR_INIT. All strings
 * are NUL-terminated, cut to the size of their array, and safe to print: control characters and
 * bytes that are not valid UTF-8 are escaped as gg_escape does. The struct owns no memory and
 * can be copied. */
typedef struct gg_error {
    gg_status status;
    int sys_errno;    /* errno of a failed system call, else 0 */
    uint64_t offset;  /* byte in `file`, or GG_ERROR_NO_OFFSET */
    char file[512];   /* "" = none; "<stdin>" for a pipe */
    char tensor[160]; /* "" = none */
    char what[320];   /* the reason, no trailing period */
    char fix[200];    /* what to do about it, may be "" */
    /* The arguments that `what` and `fix` are about, or NULL: the word that the library's headers
     * have for them, such as "force" for gg_run.force. A program can add its own option's name. */
    const char *what_arg, *fix_arg;
} gg_error;

/* clang-format off */
#define GG_ERROR_INIT { .status = GG_OK, .offset = GG_ERROR_NO_OFFSET }
/* clang-format on */

/* Records an error with a printf-style reason, unless err already holds one. Returns `status`
 * in both cases, so that a callback can say
 *     return gg_fail(err, GG_EFORMAT, "value %zu is negative", i);
 * The reason is escaped and cut to the size of err->what. It should not end with a period. */
gg_status gg_fail(gg_error *err, gg_status status, const char *fmt, ...) GG_PRINTF(3, 4);

/* Like gg_fail with GG_EIO, but also stores errno and appends its text. Returns GG_EIO. */
gg_status gg_fail_errno(gg_error *err, const char *fmt, ...) GG_PRINTF(2, 3);

/* Adds the file to a recorded error. Does nothing if err holds no error or already has a file,
 * so the function closest to the failure decides. The path "-" is recorded as "<stdin>". Returns
 * err->status:
 *     return gg_at_file(err, path); */
gg_status gg_at_file(gg_error *err, const char *path);

/* Adds advice, a printf-style text, to a recorded error, unless it already has some. Returns
 * err->status. */
gg_status gg_fix(gg_error *err, const char *fmt, ...) GG_PRINTF(2, 3);

/* Writes the error as one line without a newline into out:
 *     TOOL: FILE: tensor 'T': offset N: WHAT; FIX
 * Parts that are not set are left out. If no advice was recorded, the line ends with general
 * advice for err->sys_errno, if there is any. The line is cut to `size` bytes including its NUL;
 * `out` may be NULL only if size is 0. Returns the length of the line in out. */
size_t gg_error_line(const gg_error *err, const char *tool, char *out, size_t size);

/* Escapes `len` bytes for a TSV cell or a terminal. A backslash becomes \\, a tab \t and a
 * newline \n. Other control characters, characters that change the direction of text, and
 * bytes that are not valid UTF-8 become \xNN. The result is cut to `size` bytes and always
 * ends with a NUL, if size > 0. Returns the length that the whole result would have, as
 * snprintf does. */
size_t gg_escape(const char *bytes, size_t len, char *out, size_t size);

/* ---- stopping ----------------------------------------------------------- */

/* Asks all work of the library in this process to stop, on whatever thread it runs. Every call
 * that reads, writes or computes for long soon returns GG_ECANCELLED, and removes what it has
 * written under a temporary name. Calls that begin later are cancelled too, until
 * gg_cancel_clear, which must be called only while no other call is running.
 *
 * This flag is shared by the whole process. gg_cancel may be called from a signal handler and from
 * any thread. The only other such state, besides tables that are filled once, is the list of
 * outputs that wait for each other; only the tools let them wait, each with one thread that writes.
 */
void gg_cancel(void);
void gg_cancel_clear(void);

/* Returns GG_ECANCELLED, and records it in err, if gg_cancel was called; GG_OK otherwise. Use it
 * in your own long loops. */
gg_status gg_cancelled(gg_error *err);

GG_END_DECLS

#endif
