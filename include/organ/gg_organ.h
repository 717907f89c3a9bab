/* gg_organ.h - anatomy, organ records, organ directories, and one way to read
 * tensors from whatever a user names: a GGUF file, a split model, an organ
 * directory, .bin files, or a pipe. Interfaces: docs/formats.md.
 */
#ifndef GG_ORGAN_H
#define GG_ORGAN_H

#include "gg_gguf.h"
#include "gg_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- anatomy --------------------------------------------------------------- */

typedef enum gg_class {
    GG_SKELETON,
    GG_ORGAN,
    GG_EMBED,
    GG_NORM,
    GG_ADAPTER,
    GG_OTHER,
    GG_CLASS_COUNT
} gg_class;

const char *gg_class_name(gg_class c);   /* "skeleton" "organ" "embed" "norm" "adapter" "other" */
const char *gg_class_folder(gg_class c); /* "skeleton" "organs" "embed" "norm" "adapters" "other" */
bool gg_class_by_name(const char *name, size_t len, gg_class *c); /* either spelling */

typedef struct gg_anatomy {
    gg_class cls;
    int64_t block;            /* the N of blk.N., -1 = none */
    int64_t expert;           /* the E of ffn_gate.E, -1 = none */
    size_t role_at, role_len; /* the role's place in the name: after blk.N., without .weight */
    bool known;               /* false when only the last rule ("anything else") fitted */
    bool mtp;                 /* nextn.* / mtp.*: multi-token prediction */
    bool stack;               /* ffn_*_exps: all experts of a block in one tensor */
} gg_anatomy;

/* By name alone; rules and order as in docs/formats.md, first match wins. */
gg_anatomy gg_anatomy_of(const char *name, size_t name_len);

/* "blk.7.x.weight" from "blk.3.x.weight" and 7, in any prefix (enc., v.); false
 * when the name has no block or the result exceeds size. NUL-terminated. */
bool gg_name_with_block(const char *name, size_t name_len, int64_t block, char *out, size_t size,
                        size_t *out_len);

/* Is this a stack of experts ("blk.N.ffn_gate_exps.weight" or .bias), and of how
 * many (its last dimension)? */
bool gg_is_expert_stack(const gg_tensor *t, uint64_t *experts);

/* "blk.N.ffn_gate.E.weight" from the stack's name. False when it exceeds size. */
bool gg_expert_name(const char *stack, size_t stack_len, uint64_t expert, char *out, size_t size,
                    size_t *out_len);

/* The other way: "blk.N.ffn_gate_exps.weight" from "blk.N.ffn_gate.E.weight". False for
 * other names, and when it exceeds size. */
bool gg_stack_name(const char *expert, size_t expert_len, char *out, size_t size, size_t *out_len);

#define GG_EXPERTS_MAX 65536 /* of a stack; a tensor that claims more is no stack */

/* The tensor of one expert: name into `name` (of GG_RECORD_NAME + 1 bytes), one
 * dimension less, bytes / experts; offset moved to the expert's place. */
bool gg_expert_tensor(const gg_tensor *stack, uint64_t expert, gg_tensor *out, char *name);

/* ---- organ records (.bin) -------------------------------------------------- */

/* [name_len:u32][name][n_dims:u32][dims:u64 x n][dtype:u32][data], little-endian. */
#define GG_RECORD_NAME 255                                 /* bytes of a name at most */
#define GG_RECORD_HEADER (4 + GG_RECORD_NAME + 4 + 32 + 4) /* bytes before the data at most */

/* Header bytes of t into out; returns how many. name_len <= GG_RECORD_NAME. */
size_t gg_record_header(const gg_tensor *t, uint8_t out[GG_RECORD_HEADER]);

/* Parse a header from `size` bytes. *used 0 and GG_OK when more bytes are needed
 * (size < GG_RECORD_HEADER and nothing wrong so far). t->name points into `bytes`
 * and is NOT NUL-terminated; t->offset is 0. */
gg_status gg_record_parse(const uint8_t *bytes, size_t size, gg_tensor *t, size_t *used,
                          gg_error *err);

/* ---- organ directories ------------------------------------------------------ */

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

typedef struct gg_stack { /* a stacked tensor that --split-experts took apart */
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
 * not? (for outputs that --force may replace) */
bool gg_is_organ_dir(const char *path);

/* Append an object (JSON text, e.g. {"op": "purify", ...}) to e->history. */
gg_status gg_entry_add_history(gg_entry *e, const char *json_object, gg_error *err);

/* File names ("organs/blk_0_ffn_gate.bin") for n tensors, each safe and unique
 * even where case does not count; malloc'd list of malloc'd strings. */
gg_status gg_organ_file_names(const gg_tensor *tensors, size_t n, char ***names, gg_error *err);

/* ---- selection --------------------------------------------------------------- */

typedef struct gg_select gg_select; /* empty = everything */

gg_status gg_select_new(gg_select **out, gg_error *err);
void gg_select_free(gg_select *s);
/* Each adds one option's text; GG_EUSAGE says what is wrong in it. */
gg_status gg_select_types(gg_select *s, const char *list, gg_error *err);   /* organ,embed */
gg_status gg_select_layers(gg_select *s, const char *list, gg_error *err);  /* 5-20,25 */
gg_status gg_select_experts(gg_select *s, const char *list, gg_error *err); /* 0-3,17 */
gg_status gg_select_tensors(gg_select *s, const char *globs, gg_error *err);
/* One name a line (first TSV column, escapes as gg_escape; a header line "name" is
 * skipped); "-" is stdin. */
gg_status gg_select_names(gg_select *s, const char *path, gg_error *err);
bool gg_select_empty(const gg_select *s);
bool gg_select_has_experts(const gg_select *s);
bool gg_select_expert(const gg_select *s, uint64_t expert); /* true when no --experts was given */
/* Tensor selected? With --experts only experts are: those named, and stacks, of
 * which the caller then takes the experts that gg_select_expert says. */
bool gg_select_match(const gg_select *s, const char *name, size_t name_len, const gg_anatomy *a);
/* Does --tensors or --names-from have this very name, not a pattern that fits it? */
bool gg_select_by_name(const gg_select *s, const char *name);

/* --map 10-15=20-25[,...]: base blocks 10-15 come from donor blocks 20-25. */
typedef struct gg_map gg_map;
gg_status gg_map_parse(const char *text, gg_map **out, gg_error *err);
void gg_map_free(gg_map *m);
/* Donor block for a base block; block itself when m is NULL; -1 if a map was
 * given that does not name it. */
int64_t gg_map_donor(const gg_map *m, int64_t base_block);
/* The map read backwards: the first base block that a donor block goes to, or -1. */
int64_t gg_map_base(const gg_map *m, int64_t donor_block);

/* Shell-style match (* ? [a-z]) over the whole name, any byte but NUL. */
bool gg_glob(const char *pattern, const char *name);

/* ---- sources ------------------------------------------------------------------ */

typedef struct gg_source gg_source;

/* SPEC: a GGUF file (any shard of a split model gives the whole), an organ
 * directory, a .bin file (one or more records), or "-": a GGUF or an organ stream
 * on stdin, told apart by its first four bytes. */
gg_status gg_source_open(const char *spec, gg_source **out, gg_error *err);
/* Several .bin files (or other specs that hold records) as one. */
gg_status gg_source_open_files(char *const *paths, size_t n, gg_source **out, gg_error *err);
void gg_source_close(gg_source *s);

const char *gg_source_name(const gg_source *s); /* what the user gave */
/* How messages and manifests are to call a GGUF file or records (which stay as they are). */
gg_status gg_source_rename(gg_source *s, const char *name, gg_error *err);
bool gg_source_seekable(const gg_source *s);         /* false: a pipe, read front to back once */
const gg_meta *gg_source_meta(const gg_source *s);   /* NULL when it is bare records */
const gg_model *gg_source_model(const gg_source *s); /* NULL unless GGUF files */
const gg_gguf *gg_source_header(const gg_source *s); /* of a GGUF, file or pipe; else NULL */
const gg_manifest *gg_source_manifest(const gg_source *s); /* NULL unless a directory */

/* Number of tensors; for an organ stream on a pipe those seen so far. */
size_t gg_source_count(const gg_source *s);
const gg_tensor *gg_source_tensor(const gg_source *s, size_t i);
/* What it is in the body: of a directory with the class that its manifest says, which
 * may have been edited; else by name alone. */
gg_anatomy gg_source_anatomy(const gg_source *s, size_t i);
/* Index by name, SIZE_MAX if none (sorted, O(log n)); seekable sources only. */
size_t gg_source_find(const gg_source *s, const char *name, size_t name_len);

/* Go on to tensor i (from 0, each in turn). *more false at the end. Needed for
 * pipes, harmless elsewhere; unread data of the tensor before is skipped. For an
 * organ stream gg_source_count grows by it. */
gg_status gg_source_next(gg_source *s, size_t i, bool *more, gg_error *err);

/* The data of tensor i. Seekable sources: any tensor, any offset, any thread with
 * its own gg_data. Pipes: the current tensor or a later one, to which reading goes on (what
 * lies between is skipped), ascending offsets, one thread. */
typedef struct gg_data {
    gg_source *source;
    size_t index;
    int fd;      /* where the bytes are; -1 for a pipe */
    uint64_t at; /* byte of the data's start in fd */
    uint64_t bytes;
    bool close_fd;
} gg_data;

gg_status gg_data_open(gg_source *s, size_t i, gg_data *d, gg_error *err);
gg_status gg_data_read(gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err);
/* Copy [offset, offset+n) to out (out_offset GG_AT_POS of base/io.h = in sequence),
 * through the kernel where possible. */
gg_status gg_data_copy(gg_data *d, uint64_t offset, uint64_t n, int out, uint64_t out_offset,
                       gg_error *err);
void gg_data_close(gg_data *d);

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

#ifdef __cplusplus
}
#endif

#endif
