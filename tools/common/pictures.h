/* pictures.h - the options --svg FILE and --heat, shared by the tools that draw a model, and other
 * texts in files. */
#pragma once

#include "cli.h"

#include "picture.h"

#include "base/buf.h"    /* texts */
#include "base/output.h" /* outputs that appear only when whole */

/* The name of a model for a title: the value of general.name, or else its file's name without
 * folders. */
void picture_title(const gg_source *s, char title[128]);

/* Refuse an existing file without --force, and a model. The paths "-" and NULL are always allowed.
 */
gg_status picture_allowed(cli *c, const char *path);

/* Writes the picture of a finished model, which `fill` makes from its history. `text` goes below
 * the title. */
gg_status picture_finished(cli *c, const char *model, const char *svg, const char *text,
                           gg_status (*fill)(gg_picture *p, const gg_source *s, gg_error *err));

/* Write the picture to a file; "-" is stdout. */
gg_status picture_save(cli *c, const gg_picture *p, const char *path);

/* The same for a text. An empty one makes no file. */
gg_status picture_write(cli *c, const char *path, const gg_buf *text);

/* The same in two steps, so that an existing file is refused before long work begins. *out stays
 * NULL for the paths NULL and "-". text_end must follow with the status of the work: unless it is
 * GG_OK, no file is left. Returns the status of the whole. */
gg_status text_open(cli *c, const char *path, gg_output **out);
gg_status text_end(cli *c, const char *path, gg_output *out, const gg_buf *text, gg_status done);

/* Print the picture with characters, as wide as the terminal. */
gg_status picture_show(cli *c, const gg_picture *p);
