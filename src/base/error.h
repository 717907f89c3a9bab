/* error.h - the part of error handling that only the library uses. Internal. */
#ifndef GG_ERROR_H
#define GG_ERROR_H

#include "organ/gg_status.h"

#include "base/error.h"

/* As gg_fix, and say which argument of the call it is about. */
gg_status gg_fix_hint(gg_error *err, gg_hint hint, const char *fmt, ...) GG_PRINTF(3, 4);

/* Which argument the recorded reason is about, if that is not said yet. */
gg_status gg_about(gg_error *err, gg_hint hint);

/* Copy the error of a worker into `to` if `to` holds none. */
void gg_error_merge(gg_error *to, const gg_error *from);

/* The text of a status, for example "malformed input". */
const char *gg_status_text(gg_status status);

/* The inverse of gg_escape, in place; *len is updated. Returns false on a
 * broken escape. */
bool gg_unescape(char *bytes, size_t *len);

/* As gg_at_file: the byte in the file. */
gg_status gg_at_offset(gg_error *err, uint64_t offset);

/* The exit status of a tool that ends with it: 0..4, see GG_STATUS_LIST. */
int gg_status_exit(gg_status status);

#endif
