/* manifest.h - manifest.json of an organ directory, read and written. Internal. */
#ifndef GG_MANIFEST_H
#define GG_MANIFEST_H

#include "organ/gg_organ.h"

#define GG_MANIFEST "manifest.json"

typedef struct gg_entry { /* one line of "tensors" */
    gg_tensor t;          /* t.name owned; t.offset as recorded */
    gg_anatomy a;
    char *file;      /* "organs/blk_0_ffn_gate.bin", owned */
    char sha256[65]; /* of the data; "" = not recorded */
    char *z;         /* JSON text of "z", owned, NULL = none */
    char *history;   /* JSON text of "history" (an array), owned, NULL = none */
} gg_entry;

typedef struct gg_pad { /* padding that is not what a writer makes */
    char *after;        /* tensor name, NULL = the header; owned */
    size_t after_len;
    uint8_t *bytes; /* owned */
    size_t n;
} gg_pad;

typedef struct gg_file_layout { /* what one file needs for a byte-exact rebuild */
    char *name;                 /* its file name, NULL if it came from a pipe */
    size_t n_tensors;
    uint32_t version;
    gg_meta meta; /* of shards after the first; empty for the first */
    gg_pad *pads;
    size_t n_pads;
    char *trailing; /* file in the directory with bytes after the last tensor, NULL = none */
    uint64_t trailing_bytes;
    char trailing_sha256[65];
} gg_file_layout;

typedef struct gg_stack { /* a stacked tensor of which an organ directory has the experts apart */
    gg_tensor t;          /* as it was; t.name owned */
} gg_stack;

typedef struct gg_manifest {
    char *source;
    uint64_t bytes;
    uint32_t version; /* GGUF version */
    gg_meta meta;
    gg_entry *entries;
    size_t n_entries;
    gg_file_layout *files; /* at least one */
    size_t n_files;
    gg_stack *stacks;
    size_t n_stacks;
    char *name, *name_was; /* model.name, and general.name at extraction; NULL = none */
    size_t name_len, name_was_len;
} gg_manifest;

/* Read DIR/manifest.json and check it against the .bin files: each file's record
 * header must say the name, dims and dtype of its line, and hold as many bytes.
 * GG_EFORMAT names what contradicts. Paths must stay within DIR. The metadata has
 * model.name applied where only that was edited. */
gg_status gg_manifest_load(const char *dir, gg_manifest **out, gg_error *err);

/* Its text to fd from the current position, a piece at a time; GG_EIO. */
gg_status gg_manifest_write(const gg_manifest *m, int fd, gg_error *err);
/* The same as malloc'd text of *len bytes. */
gg_status gg_manifest_text(const gg_manifest *m, char **out, size_t *len, gg_error *err);
void gg_manifest_free(gg_manifest *m);

/* Is there a manifest.json in that folder that says it is an organ manifest, whole or
 * not? (for outputs that may be replaced) */
bool gg_is_organ_dir(const char *path);

/* Append an object (JSON text, e.g. {"op": "purify", ...}) to e->history. */
gg_status gg_entry_add_history(gg_entry *e, const char *json_object, gg_error *err);

/* File names ("organs/blk_0_ffn_gate.bin") for n tensors, each safe and unique
 * even where case does not count; malloc'd list of malloc'd strings. */
gg_status gg_organ_file_names(const gg_tensor *tensors, size_t n, char ***names, gg_error *err);

#endif
