/* gguf_journal.h - the file beside a model that tells of a header change in progress.
 * Internal.
 *
 * Before a header is changed in place, the bytes to be changed are saved in a journal, and
 * it is removed when the change is on disk. So a journal beside a model means that the
 * header may be half changed: the model is not opened until the journal has been dealt with.
 */
#ifndef GG_GGUF_JOURNAL_H
#define GG_GGUF_JOURNAL_H

#include "organ/gg_status.h"

/* "FILE.keys-undo", links in `path` followed, so that every name of a model gives the same;
 * malloc'd. NULL without memory, or if there is no such file. */
char *gg_journal_path(const char *path);

/* Does a journal exist for that model file? */
bool gg_journal_exists(const char *path);

#endif
