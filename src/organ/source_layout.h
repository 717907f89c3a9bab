/* source_layout.h - details of a source that a byte-exact rebuild needs. Internal. */
#ifndef GG_SOURCE_LAYOUT_H
#define GG_SOURCE_LAYOUT_H

#include "base/io.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"

/* Sets the name of a source that messages and manifests show. The files are not renamed. */
gg_status gg_source_rename(gg_source *s, const char *name, gg_error *err);
/* Makes the source close this descriptor when it is closed. At most one per source. */
void gg_source_own_fd(gg_source *s, int fd);
/* The files of a model; NULL unless the source is GGUF files. */
const gg_model *gg_source_model(const gg_source *s);
/* The header of a GGUF file or pipe; NULL for other sources. */
const gg_gguf *gg_source_header(const gg_source *s);

/* Number of GGUF files (shards) of a model, on a pipe those read so far; 0 for records and
 * directories. gg_source_file returns the header of file i. */
size_t gg_source_files(const gg_source *s);
const gg_gguf *gg_source_file(const gg_source *s, size_t i);

const gg_manifest *gg_source_manifest(const gg_source *s); /* NULL unless a directory */

/* Copies n bytes of the data from `offset` on to out, inside the kernel if possible. */
gg_status gg_data_copy(gg_data *d, uint64_t offset, uint64_t n, gg_place out, gg_error *err);

/* Lists the unusual padding of GGUF file `file`: padding that is not zero, or cut off at the end.
 * The list is malloc'd; free it with gg_pads_free. Call it for the files in order, from 0 on; on
 * a pipe only after the last gg_source_next. Fails with GG_EUNSUPPORTED if the files have more
 * than 64 MiB of it together. */
gg_status gg_source_pads(gg_source *s, size_t file, gg_pad **pads, size_t *n, gg_error *err);
void gg_pads_free(gg_pad *pads, size_t n);

/* Trailing bytes are those after the padded data of GGUF file `file`. gg_source_trailing returns
 * their number, or 0 for a pipe. gg_source_copy_trailing writes them to out at its current
 * position and sets *bytes to their number; on a pipe they are all that remains. */
uint64_t gg_source_trailing(const gg_source *s, size_t file);
gg_status gg_source_copy_trailing(gg_source *s, size_t file, int out, uint64_t *bytes,
                                  gg_error *err);

/* Opens a temporary file without a name in $TMPDIR or /tmp. Returns its descriptor, or -1. */
int gg_unnamed_file(gg_error *err);

/* Stores the rest of a pipe, of which no tensor was read yet, in a temporary file and opens that.
 * The caller closes both sources. See gg_source_spool. */
gg_status gg_source_store(gg_source *pipe, gg_source **out, gg_error *err);

/* Whether gg_source_next may find tensors that are not known yet: records or shards on a pipe. */
bool gg_source_grows(const gg_source *s);

#endif
