/* manifest.h - read and write manifest.json, the index of an organ directory. Internal. */
#pragma once

#include "base/io.h"
#include "organ/gg_organ.h"

#define GG_MANIFEST "manifest.json"

typedef struct gg_entry { /* one item of "tensors" */
    gg_tensor t;          /* t.name owned; t.offset as recorded */
    char *file;           /* "organs/blk_0_ffn_gate.bin", owned */
    char sha256[65];      /* hash of the data; "" = not recorded */
    char *z;              /* JSON text of "z", owned, NULL = none */
    gg_stamp stamp;       /* of the file, when it was compared */
    char *history;        /* JSON text of "history" (an array), owned, NULL = none */
} gg_entry;

typedef struct gg_pad { /* padding that differs from the usual zeros */
    char *after;        /* tensor name, NULL = the header; owned */
    size_t after_len;
    uint8_t *bytes; /* owned */
    size_t n;
} gg_pad;

typedef struct gg_file_layout { /* details of one GGUF file, for a byte-exact rebuild */
    char *name;                 /* file name, NULL if the model came from a pipe */
    size_t n_tensors;
    uint32_t version;
    gg_meta meta; /* metadata of a shard after the first; empty for the first file */
    gg_pad *pads;
    size_t n_pads;
    char *trailing; /* name of a file with the bytes after the last tensor, NULL = none */
    uint64_t trailing_bytes;
    char trailing_sha256[65];
} gg_file_layout;

typedef struct gg_stack { /* a stack of experts that was split into one record per expert */
    gg_tensor t;          /* the original tensor; t.name owned */
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
    gg_stamp stamp; /* of the manifest's own file */
} gg_manifest;

/* Reads DIR/manifest.json and compares it with the .bin files: the header of each record must
 * have the same name, dims and dtype, and the file must have the right size. Fails with
 * GG_EFORMAT if something contradicts or if a path leaves DIR. If only model.name was edited,
 * the metadata key general.name is changed accordingly. Two entries may have the same name. */
gg_status gg_manifest_load(const char *dir, gg_manifest **out, gg_error *err);

/* Parses the manifest at `path` without opening the record files. */
gg_status gg_manifest_read(const char *path, gg_manifest **out, gg_error *err);

/* Maximum size of a manifest in bytes. A larger one is neither read nor written. */
#define GG_MANIFEST_MOST ((uint64_t)1 << 30)

/* Reads the whole file and takes its stamp; *text is malloc'd, or NULL on failure. The file must be
 * a regular file. */
gg_status gg_manifest_slurp(const char *path, char **text, size_t *len, gg_stamp *stamp,
                            gg_error *err);

/* Writes the text of the manifest to fd at the current position, in pieces. */
gg_status gg_manifest_write(const gg_manifest *m, int fd, gg_error *err);
void gg_manifest_free(gg_manifest *m);
void gg_pads_free(gg_pad *pads, size_t n);

/* Whether the folder contains a manifest.json with the organ-manifest format, complete or not.
 * Used to decide whether an output folder may be replaced. If that cannot be found out, err has the
 * reason. */
bool gg_is_organ_dir(const char *path, gg_error *err);

/* Makes the JSON text of a history of an object such as {"op": "purify", ...}, which is malloc'd:
 * with what was there before (NULL = nothing). */
gg_status gg_history_add(const char *before, char **object, gg_error *err);

/* Makes file names such as "organs/blk_0_ffn_gate.bin" for n tensors. They are safe on every
 * system and unique even if case is ignored. *names is a malloc'd list of malloc'd strings. */
gg_status gg_organ_file_names(const gg_tensor *tensors, size_t n, char ***names, gg_error *err);
