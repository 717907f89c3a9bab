/* gguf_journal.h - the journal of a header change in place. Internal.
 *
 * Before a header is changed in place, the bytes that will change are saved in a journal file
 * next to the model. The journal is removed when the change is on disk. If a journal exists, the
 * header may be half changed, and the model is not opened until the change has been finished or
 * undone.
 */
#ifndef GG_GGUF_JOURNAL_H
#define GG_GGUF_JOURNAL_H

#include "organ/gg_status.h"

/* Returns "FILE.keys-undo", malloc'd. Symbolic links in `path` are resolved, so that every name
 * of a model gives the same journal. Returns NULL without memory or if the file does not
 * exist. */
char *gg_journal_path(const char *path);

/* Whether a journal exists for that model file. */
bool gg_journal_exists(const char *path);

#endif
