/* manifest_new.h - the manifest of an organ directory being written. Internal. */
#ifndef GG_MANIFEST_NEW_H
#define GG_MANIFEST_NEW_H

#include "gg_organ.h"
#include "pieces.h"

/* A manifest for pieces of a source: metadata and layout of the source, an entry a
 * piece with its file and hash, stacks noted where pieces are experts. z and
 * history of a source directory go along. */
gg_status gg_manifest_new(gg_source *source, const gg_piece *pieces, size_t n, char *const *names,
                          char (*sha)[65], gg_manifest **out, gg_error *err);

/* Bytes after the tensors of file `file` stand in `name`, open as fd. */
gg_status gg_manifest_note_trailing(gg_manifest *m, size_t file, const char *name, int fd, uint64_t bytes, gg_error *err);

#endif
