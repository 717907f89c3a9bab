/* source_spool.h - copy a tensor that arrives on a pipe to a file, to read it twice. Internal. */
#ifndef GG_SOURCE_SPOOL_H
#define GG_SOURCE_SPOOL_H

#include "organ/gg_organ.h"

/* If d reads a pipe, copies n bytes from `offset` on to a temporary file without a name, and d
 * then reads the copy at the same offsets. Otherwise does nothing. Fails like gg_data_copy. */
gg_status gg_data_spool(gg_data *d, uint64_t offset, uint64_t n, gg_error *err);

#endif
