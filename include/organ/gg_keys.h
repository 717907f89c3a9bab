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

/* Where a value goes: `write` takes all n bytes or fails. */
typedef struct gg_key_out {
    gg_status (*write)(void *ctx, const char *bytes, size_t n, gg_error *err);
    void *ctx;
} gg_key_out;

/* How gg_key_put_text shortens; 0 = no limit. */
typedef struct gg_key_limits {
    uint64_t elements; /* of an array; "..." follows those shown */
    size_t bytes;      /* of a string; "..." follows */
} gg_key_limits;

/* The value on one line: numbers in their shortest exact form, strings escaped as by
 * gg_escape, arrays as [1, 2, ...] with strings in quotation marks. */
gg_status gg_key_put_text(const gg_key_out *o, const gg_kv *kv, const gg_key_limits *limits,
                          gg_error *err);

/* Element i of an array, and how many there are: "[7] 1.5 of 32", or "[7] none of 7". */
gg_status gg_key_put_element(const gg_key_out *o, const gg_kv *kv, uint64_t i,
                             const gg_key_limits *limits, gg_error *err);

/* The bare value: the bytes of a string and nothing else; a number and a newline; of an
 * array one element per line, strings escaped. */
gg_status gg_key_put_bare(const gg_key_out *o, const gg_kv *kv, gg_error *err);

/* The value as in manifest.json; that of element i of an array, or null if there is none. */
gg_status gg_key_put_json(const gg_key_out *o, const gg_kv *kv, gg_error *err);
gg_status gg_key_put_json_element(const gg_key_out *o, const gg_kv *kv, uint64_t i, gg_error *err);

/* Element i of an array, or the value itself for i = 0: as a value of its own that points
 * into kv. False if there is none. A walk from the start in arrays of strings. */
bool gg_key_element(const gg_kv *kv, uint64_t i, gg_kv *out);

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

/* Edit `meta`. GG_NO when a key to delete or rename is absent; GG_EUSAGE for a text that
 * cannot be understood, a new name that is taken, a file for a key that is not a string, and
 * for split.no, split.count and split.tensors.count, which the other shards depend on. On
 * error `meta` may be partly edited. */
gg_status gg_keys_edit(gg_meta *meta, const gg_key_edits *edits, gg_error *err);

/* "KEY=FILE": set KEY to a string, the bytes of FILE ("-" is stdin). GG_EUSAGE if it has no
 * "=", if the file is over 2^30 bytes, or if KEY exists with a type other than str. */
gg_status gg_meta_set_file(gg_meta *meta, const char *text, gg_error *err);

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
