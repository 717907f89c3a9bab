/* output_guard.h - refuse outputs that would overwrite an input. Internal. */
#pragma once

#include "organ/gg_organ.h"

/* Fails with GG_EUSAGE if the output `path` would destroy what s reads, also through a link: it is
 * a file of s (any shard, or stdin if that is a file) or the organ directory itself, or lies inside
 * that directory, where it could replace the manifest or a record. A new name at its top level that
 * organ directories do not use is allowed. s may be NULL or any source. */
gg_status gg_guard_output(const char *path, const gg_source *s, gg_error *err);

/* GG_EUSAGE if the open file has several names (hard links), which would all change. */
gg_status gg_refuse_links(int fd, gg_error *err);
