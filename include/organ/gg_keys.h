/* gg_keys.h - find and change the keys of a model.
 *
 * The keys of a split model are in its first shard; every function here accepts any shard.
 * The general rules of organ.h apply.
 */
#ifndef GG_KEYS_H
#define GG_KEYS_H

#include "gg_organ.h"
#include "gg_verbs.h"

GG_BEGIN_DECLS

/* ---- reading ----------------------------------------------------------------- */

/* Returns the entry of a key, or NULL if it is absent. If no key has exactly these bytes, escapes
 * (gg_escape) are undone first, so that keys can be named as tables print them. */
const gg_kv *gg_keys_find(const gg_meta *meta, const char *key);

/* Writes the type as gg_meta_set_text takes it, for example "u32" or "str[]", with a NUL. */
#define GG_KEY_TYPE 16
void gg_key_type(const gg_kv *kv, char out[GG_KEY_TYPE]);

/* How gg_key_put writes a value. All zero: the whole value on one line, as in tables. */
typedef struct gg_key_form {
    enum {
        GG_KEY_LINE,  /* numbers in their shortest exact form, strings escaped (gg_escape), arrays
                         as [1, 2, ...] with strings in quotation marks */
        GG_KEY_PLAIN, /* the bytes of a string and nothing else, a number and a newline, or an array
                         with one element per line and strings escaped */
        GG_KEY_JSON,  /* as in manifest.json */
    } as;
    uint64_t elements; /* GG_KEY_LINE: shown elements of an array, followed by "..."; 0 = all */
    size_t bytes;      /* GG_KEY_LINE: shown bytes of a string, followed by "..."; 0 = all */
    /* Only element *element of an array: "[7] 1.5 of 32" or, if there is none, "[7] none of 7"; in
     * JSON its value or null. NULL = the whole value. Not for GG_KEY_PLAIN. */
    const uint64_t *element;
} gg_key_form;

/* Writes a value with calls of `write`, which writes all n bytes or fails. Returns the first error
 * of `write`, or GG_ENOMEM. */
gg_status gg_key_put(const gg_kv *kv, const gg_key_form *form,
                     gg_status (*write)(void *ctx, const char *bytes, size_t n, gg_error *err),
                     void *ctx, gg_error *err);

/* ---- changing ---------------------------------------------------------------- */

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

GG_END_DECLS

#endif
