/* source_layout.h - what a rebuild to the byte needs of a source. Internal. */
#ifndef GG_SOURCE_LAYOUT_H
#define GG_SOURCE_LAYOUT_H

#include "base/io.h"
#include "organ/manifest.h"

/* How messages and manifests are to call a GGUF file or records (which stay as they are). */
gg_status gg_source_rename(gg_source *s, const char *name, gg_error *err);
/* The source closes this descriptor when it is closed. At most one for each source. */
void gg_source_own_fd(gg_source *s, int fd);
const gg_gguf *gg_source_header(const gg_source *s); /* of a GGUF, file or pipe; else NULL */

/* GGUF files (shards) of a model, on a pipe those seen so far; 0 for records and directories.
 * Header of file i. */
size_t gg_source_files(const gg_source *s);
const gg_gguf *gg_source_file(const gg_source *s, size_t i);

const gg_manifest *gg_source_manifest(const gg_source *s); /* NULL unless a directory */

/* Copy [offset, offset+n) to out (out_offset GG_AT_POS of base/io.h = in sequence),
 * through the kernel where possible. */
gg_status gg_data_copy(gg_data *d, uint64_t offset, uint64_t n, gg_place out, gg_error *err);

/* Padding of GGUF file `file` that is not what a writer makes (not zero, or cut at
 * the end): a list for the manifest, malloc'd, freed with gg_pads_free. For a pipe
 * only after the last gg_source_next. Files in order, from 0: GG_EUNSUPPORTED when they
 * have over 64 MiB of it in all. */
gg_status gg_source_pads(gg_source *s, size_t file, gg_pad **pads, size_t *n, gg_error *err);
void gg_pads_free(gg_pad *pads, size_t n);

/* Bytes after the padded data of GGUF file `file`: how many (seekable), and copied
 * to out from its current position. For a pipe they are what is left of it, and
 * *bytes is 0 before the copy. */
uint64_t gg_source_trailing(const gg_source *s, size_t file);
gg_status gg_source_copy_trailing(gg_source *s, size_t file, int out, uint64_t *bytes,
                                  gg_error *err);

/* Are there tensors that only gg_source_next will find: records or shards on a pipe? */
bool gg_source_grows(const gg_source *s);

#endif
