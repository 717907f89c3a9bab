/* error.h - error functions for use inside the library only. Internal. */
#pragma once

#include "organ/gg_status.h"

/* Like gg_fix, and also says which argument fixes the error, by its name in the headers. `arg` is
 * not copied; scripts/check-options.sh tests that it is an option of a tool, or that cli.c knows
 * it. */
gg_status gg_fix_by(gg_error *err, const char *arg, const char *fmt, ...) GG_PRINTF(3, 4);

/* Says which argument the recorded reason is about, unless that is set already. */
gg_status gg_about(gg_error *err, const char *arg);

/* Copies the error of a worker into `to` unless `to` already has an error. */
void gg_error_merge(gg_error *to, const gg_error *from);

/* Whether the system failed or a signal came, and not the input: such an error never means "no". */
bool gg_is_of_system(const gg_error *err);

/* The text of a status, for example "malformed input". */
const char *gg_status_text(gg_status status);

/* The inverse of gg_escape, in place. Updates *len. Returns false if an escape is malformed. */
bool gg_unescape(char *bytes, size_t *len);

/* Like gg_at_file: adds the tensor. `name` has name_len bytes and needs no NUL. */
gg_status gg_at_tensor(gg_error *err, const char *name, size_t name_len);

/* Like gg_at_file: adds the byte in the file. */
gg_status gg_at_offset(gg_error *err, uint64_t offset);
