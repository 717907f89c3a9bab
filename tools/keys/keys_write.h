/* keys_write.h - changes the keys of a model, in a new file or in place. The keys of a split model
 * are in its first shard; every function here accepts any shard. */
#pragma once

#include "common/key_text.h"

/* What to change, in this order, each list from its start. */
typedef struct gg_key_edits {
    gg_texts deletes; /* KEY */
    gg_texts renames; /* OLD=NEW; the key keeps its position */
    gg_texts sets;    /* KEY=TYPE:VALUE, see gg_meta_set_text */
    gg_texts files;   /* KEY=FILE: a string, the bytes of FILE ("-" is stdin) */
    bool in_place;    /* change the model's own file; see gg_keys_write */
} gg_key_edits;

typedef struct gg_keys_report {
    size_t files;
    uint64_t bytes; /* written; in place, those of the header that changed */
    bool same;      /* in place: nothing had to change */
    uint64_t lacks; /* in place, with GG_NO: bytes by which the new header is too long; 0 = it is
                       refused for another reason */
} gg_keys_report;

/* Writes the model with the edited keys to `output`; "-" is stdout. Tensor data are copied. A
 * split model becomes one file, or a set if `output` is the name of one of as many shards. Odd
 * padding and bytes after the tensors are kept as far as they fit.
 *
 * With edits->in_place, and `output` NULL, the keys are edited in the model's own (first) file.
 * Before a byte is changed, the old bytes are saved beside it in FILE.keys-undo. While that file
 * exists, no function of the library opens the model, and gg_keys_recover repairs it. Afterwards
 * `model` can only be closed.
 *
 * Errors: GG_NO if a key to delete or rename is absent, and in place if the tensor data would have
 * to move; GG_EUSAGE for a wrong text, a new name that is taken, keys that number shards, and in
 * place for other sources than GGUF files; GG_EFORMAT. */
gg_status gg_keys_write(gg_source *model, const gg_key_edits *edits, const char *output,
                        const gg_run *run, gg_keys_report *report, gg_error *err);

typedef enum gg_recovery {
    GG_RECOVERY_NONE,     /* no change was interrupted */
    GG_RECOVERY_FINISHED, /* the interrupted change had been completed */
    GG_RECOVERY_UNDONE,   /* the keys are as they were before it */
} gg_recovery;

/* Finishes or undoes a change that was interrupted, using the FILE.keys-undo of `path` or of its
 * first shard. `what` may be NULL. Errors: GG_EIO if the change is still running or the file
 * cannot be written; GG_EFORMAT if FILE.keys-undo belongs to another model. */
gg_status gg_keys_recover(const char *path, gg_recovery *what, gg_error *err);
