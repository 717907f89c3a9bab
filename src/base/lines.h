/* lines.h - read a text file line by line, within limits. Internal. */
#pragma once

#include "organ/gg_status.h"

#define GG_LINE_MAX ((size_t)1 << 20) /* bytes of a line */

typedef struct gg_lines {
    const char *path; /* NULL = standard input */
    const char *what; /* for messages, such as "the list of names" */
    size_t most;      /* bytes of the whole text */
} gg_lines;

/* Gets a line without its newline. Its text may be changed, and ends with a NUL. `number` counts
 * from 1. Any status but GG_OK ends the reading. */
typedef gg_status gg_line_fn(void *ctx, char *text, size_t number, gg_error *err);

/* Calls fn for each line, with one line in memory. Fails with GG_EUSAGE if a line is longer than
 * GG_LINE_MAX or contains a NUL, or if the text has more than `most` bytes; GG_EIO; GG_ENOMEM; and
 * as fn does. All errors name the file. */
gg_status gg_each_line(const gg_lines *from, gg_line_fn *fn, void *ctx, gg_error *err);
