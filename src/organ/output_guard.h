/* output_guard.h - refuse outputs that would overwrite files of an input directory. Internal. */
#ifndef GG_OUTPUT_GUARD_H
#define GG_OUTPUT_GUARD_H

#include "organ/gg_organ.h"

/* Fails with GG_EUSAGE if s is an organ directory and the output `path` lies inside it, where it
 * could replace the manifest or a record. Two paths are allowed: the directory itself, and a new
 * name at its top level that organ directories do not use. s may be NULL or any source. */
gg_status gg_guard_output(const char *path, const gg_source *s, gg_error *err);

/* Fails with GG_EUSAGE if `path` is a file that s reads, which a replaced output would destroy. s
 * may be NULL or any source. */
gg_status gg_guard_input(const char *path, const gg_source *s, gg_error *err);

/* GG_EUSAGE if the open file has several names (hard links), which would all change. */
gg_status gg_refuse_links(int fd, gg_error *err);

#endif
