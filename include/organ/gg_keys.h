/* gg_keys.h - the metadata of a model: list, read, change. See gg_verbs.h for gg_run.
 *
 * The keys of a split model are in its first shard; every function here takes any shard.
 */
#ifndef GG_KEYS_H
#define GG_KEYS_H

#include "gg_organ.h"
#include "gg_verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading ----------------------------------------------------------------- */

/* The key as given or, if there is none, with its escapes (gg_escape) undone, so that keys
 * can be named as tables print them. NULL if absent. */
const gg_kv *gg_keys_find(const gg_meta *meta, const char *key);

/* "u32", "str", "str[]": as in "KEY=TYPE:VALUE". */
#define GG_KEY_TYPE 16
void gg_key_type(const gg_kv *kv, char out[GG_KEY_TYPE]);

/* ---- changing ---------------------------------------------------------------- */

/* What to change. It is done in this order, each list from its start: delete, rename, set,
 * set from files. */
typedef struct gg_key_edits {
    const char *const *deletes; /* KEY */
    size_t n_deletes;
    const char *const *renames; /* OLD=NEW; the key keeps its place */
    size_t n_renames;
    const char *const *sets; /* KEY=TYPE:VALUE, see gg_meta_set_text */
    size_t n_sets;
    const char *const *files; /* KEY=FILE: a string, the bytes of FILE */
    size_t n_files;
} gg_key_edits;

typedef struct gg_keys_report {
    size_t files;
    uint64_t bytes; /* written; in place, those of the header that changed */
    bool same;      /* in place: nothing had to change */
} gg_keys_report;

/* The model with other keys as `output`; tensor data are copied by the kernel where it can.
 * A split model becomes one file, or a set if `output` is the name of one of as many
 * shards. Odd padding and the bytes after the tensors are kept as far as they fit. */
gg_status gg_keys_write(gg_source *model, const gg_key_edits *edits, const char *output,
                        const gg_run *run, gg_keys_report *report, gg_error *err);

/* Change the header in the model's own (first) file. GG_NO, and nothing changed, where the
 * tensor data would have to move. What changes is first saved in FILE.keys-undo beside it;
 * while that exists, no function here opens the model, and gg_keys_recover repairs it. */
gg_status gg_keys_in_place(const char *path, const gg_key_edits *edits, const gg_run *run,
                           gg_keys_report *report, gg_error *err);

typedef enum gg_recovery {
    GG_RECOVERY_NONE,     /* no change was interrupted */
    GG_RECOVERY_FINISHED, /* the interrupted change had been completed */
    GG_RECOVERY_UNDONE,   /* the keys are as they were before it */
} gg_recovery;

/* Deal with the FILE.keys-undo of a change that was cut off, of `path` or of its first
 * shard. GG_EIO while the change is still running, and where the file cannot be written;
 * GG_EFORMAT when the journal belongs to another model. */
gg_status gg_keys_recover(const char *path, gg_recovery *what, gg_error *err);

#ifdef __cplusplus
}
#endif

#endif
