/* analyze.h - tells the static analyzers of gcc and clang what the functions that record an error
 * do (make analyze). They look at one file at a time, and would otherwise assume that a failure may
 * be reported as success. It is included before every file except those that define them. */
#include "base/cursor.h"
#include "base/error.h"

void gg_said(const char *fmt, ...);

#define gg_fail(err, st, ...) (gg_said(__VA_ARGS__), (err)->status = (st))
#define gg_fail_errno(err, ...) (gg_said(__VA_ARGS__), (err)->status = GG_EIO)
#define gg_fail_at(at, err, ...) (gg_said(__VA_ARGS__), (void)(at), (err)->status = GG_EFORMAT)
#define gg_fix(err, ...) (gg_said(__VA_ARGS__), (err)->status)
#define gg_fix_by(err, arg, ...) (gg_said(__VA_ARGS__), (err)->fix_arg = (arg), (err)->status)
#define gg_about(err, arg) ((err)->what_arg = (arg), (err)->status)
#define gg_at_file(err, path) ((void)(path), (err)->status)
#define gg_at_tensor(err, name, len) ((void)(name), (void)(len), (err)->status)
#define gg_at_offset(err, at) ((void)(at), (err)->status)
