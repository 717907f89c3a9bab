/* text_output.h - a text that a tool writes besides its result: a table, rules. */
#ifndef TEXT_OUTPUT_H
#define TEXT_OUTPUT_H

#include "cli.h"

#include "base/buf.h" /* the text */

typedef struct text_output {
    const char *path; /* NULL = not asked for; "-" is stdout */
    gg_buf text;
    struct gg_output *file; /* NULL until it is opened */
} text_output;

/* Opens the file, so that an existing file is refused before the work begins. */
gg_status text_output_open(cli *c, text_output *o);

/* With GG_OK as the status of the work, writes the text and gives the file its name; otherwise
 * leaves nothing. Returns the status of the whole. Frees the text. */
gg_status text_output_end(cli *c, text_output *o, gg_status done);

#endif
