/* error.h - error functions for use inside the library only. Internal. */
#pragma once

#include "organ/gg_status.h"

/* Like gg_fix, and also sets fix_hint: which argument of the call fixes the error. */
gg_status gg_fix_hint(gg_error *err, gg_hint hint, const char *fmt, ...) GG_PRINTF(3, 4);

/* Sets what_hint, the argument that the recorded reason is about, unless it is set already. */
gg_status gg_about(gg_error *err, gg_hint hint);

/* Copies the error of a worker into `to` unless `to` already has an error. */
void gg_error_merge(gg_error *to, const gg_error *from);

/* Whether the system failed, and not the input: such an error never means "no". */
bool gg_is_of_system(const gg_error *err);

/* The text of a status, for example "malformed input". */
const char *gg_status_text(gg_status status);

/* The inverse of gg_escape, in place. Updates *len. Returns false if an escape is malformed. */
bool gg_unescape(char *bytes, size_t *len);

/* Like gg_at_file: adds the tensor. `name` has name_len bytes and needs no NUL. */
gg_status gg_at_tensor(gg_error *err, const char *name, size_t name_len);

/* Like gg_at_file: adds the byte in the file. */
gg_status gg_at_offset(gg_error *err, uint64_t offset);
