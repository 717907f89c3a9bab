/* dtype_text.h - the text of rules of types, with files of rules inserted. Internal. */
#ifndef GG_DTYPE_TEXT_H
#define GG_DTYPE_TEXT_H

#include "organ/gg_status.h"

/* Copies `text`, whose items are separated by commas, with each item "@FILE" replaced by the items
 * of the file: one or more per line, separated by commas. Empty lines and lines that begin with #
 * are skipped. If the first line is the header of a table whose first columns are tensor and type,
 * each line gives one rule. The caller frees *out. GG_EUSAGE names the file and line of a mistake;
 * GG_EIO if a file cannot be read. */
gg_status gg_dtype_text(const char *text, char **out, gg_error *err);

#endif
