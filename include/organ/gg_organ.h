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

const char *gg_class_name(gg_class c); /* "skeleton" "organ" "embed" "norm" "adapter" "other" */

/* The sub-model that a tensor belongs to. */
typedef enum gg_part {
    GG_PART_TEXT,
    GG_PART_VISION,    /* v. mm. resampler. adapter. */
    GG_PART_AUDIO,     /* a. mm.a. */
    GG_PART_ENCODER,   /* enc., and encoders of text in image models */
    GG_PART_DECODER,   /* dec. */
    GG_PART_DIFFUSION, /* image and video models */
    GG_PART_ADAPTER,   /* LoRA, control vectors */
    GG_PART_IMATRIX,   /* importance matrices */
    GG_PART_COUNT
} gg_part;

const char *gg_part_name(gg_part p); /* "text" "vision" ... */

typedef struct gg_anatomy {
    gg_class cls;
    gg_part part;
    int64_t block;            /* the N of blk.N. or of another list of blocks, -1 = none */
    int64_t expert;           /* the E of ffn_gate.E, -1 = none */
    size_t role_at, role_len; /* the role's place in the name: after blk.N., without .weight */
    bool known;               /* false when only the last rule ("anything else") fitted */
    bool mtp;                 /* nextn.* / mtp.*: multi-token prediction */
    bool stack;               /* ffn_*_exps: all experts of a block in one tensor */
} gg_anatomy;

/* By name alone; rules and order as in docs/formats.md, first match wins. */
gg_anatomy gg_anatomy_of(const char *name, size_t name_len);

/* ---- selection --------------------------------------------------------------- */

typedef struct gg_select gg_select; /* empty = everything */

gg_status gg_select_new(gg_select **out, gg_error *err);
void gg_select_free(gg_select *s);
/* Each adds one option's text; GG_EUSAGE says what is wrong in it. */
gg_status gg_select_types(gg_select *s, const char *list, gg_error *err);   /* organ,embed */
gg_status gg_select_parts(gg_select *s, const char *list, gg_error *err);   /* text,vision */
gg_status gg_select_layers(gg_select *s, const char *list, gg_error *err);  /* 5-20,25 */
gg_status gg_select_experts(gg_select *s, const char *list, gg_error *err); /* 0-3,17 */
/* The same, and with BASE=DONOR items a map: "2=5,8-9=0-1,12" means that base expert 2
 * gets the donor's expert 5. For grafts and transplants. */
gg_status gg_select_expert_map(gg_select *s, const char *list, gg_error *err);
gg_status gg_select_tensors(gg_select *s, const char *globs, gg_error *err);
/* One name a line (first TSV column, escapes as gg_escape; a header line "name" is
 * skipped); "-" is stdin. */
gg_status gg_select_names(gg_select *s, const char *path, gg_error *err);
bool gg_select_has_experts(const gg_select *s);
/* Tensor selected? With experts in the selection only experts are: those named, and stacks, of
 * which the caller then takes the experts that gg_select_expert says. */
bool gg_select_match(const gg_select *s, const char *name, size_t name_len, const gg_anatomy *a);
/* "10-15=20-25[,...]": base blocks 10-15 come from donor blocks 20-25. */
typedef struct gg_map gg_map;
gg_status gg_map_parse(const char *text, gg_map **out, gg_error *err);
void gg_map_free(gg_map *m);
/* ---- sources ------------------------------------------------------------------ */

typedef struct gg_source gg_source;

/* SPEC: a GGUF file (any shard of a split model gives the whole), an organ
 * directory, a .bin file (one or more records), or "-": a GGUF or an organ stream
 * on stdin, told apart by its first four bytes. The shards of a model one after another, in
 * a file or on a pipe, are one model. */
gg_status gg_source_open(const char *spec, gg_source **out, gg_error *err);

/* How to open a source. */
typedef struct gg_source_options {
    /* The header is enough: a file or pipe whose data are cut short is opened and noted.
     * Data that are not there cannot be read, but gg_source_next goes through all tensors. */
    bool header_only;
    /* A pipe (stdin, a FIFO) is first stored in an unnamed temporary file ($TMPDIR or /tmp), so
     * that the source is seekable. */
    bool spooled;
    /* Called with a line worth telling, without newline and escaped as gg_escape does. With
     * it a shard whose siblings are missing is opened alone and noted ("shard 2 of 5; 13 of
     * 75 tensors"); for a pipe the call may come as late as its end. Without it such a shard
     * is refused, and a pipe that ends early within a set is GG_EFORMAT. */
    void (*note)(void *ctx, const char *line);
    void *ctx;
} gg_source_options;

/* As gg_source_open; o may be NULL. */
gg_status gg_source_open_with(const char *spec, const gg_source_options *o, gg_source **out,
                              gg_error *err);

/* Replace a pipe, of which no tensor was read yet, by a stored source. Nothing happens to
 * a seekable source. *s stays valid if this fails. */
gg_status gg_source_spool(gg_source **s, gg_error *err);

/* Several .bin files (or other specs that hold records) as one. */
gg_status gg_source_open_files(char *const *paths, size_t n, gg_source **out, gg_error *err);
void gg_source_close(gg_source *s);

const char *gg_source_name(const gg_source *s);    /* what the user gave */
bool gg_source_seekable(const gg_source *s);       /* false: a pipe, read front to back once */
const gg_meta *gg_source_meta(const gg_source *s); /* NULL when it is bare records */

/* Number of tensors; those seen so far of a source that grows. */
size_t gg_source_count(const gg_source *s);
const gg_tensor *gg_source_tensor(const gg_source *s, size_t i);
/* What it is in the body: of a directory with the class that its manifest says, which
 * may have been edited; else by name alone. */
gg_anatomy gg_source_anatomy(const gg_source *s, size_t i);
/* Index by name, SIZE_MAX if none (sorted, O(log n)); seekable sources only. */
size_t gg_source_find(const gg_source *s, const char *name, size_t name_len);

/* Go on to tensor i (from 0, each in turn). *more false at the end. Needed for
 * pipes, harmless elsewhere; unread data of the tensor before is skipped. A source that
 * grows (records or shards on a pipe) may have more tensors afterwards; those that it had stay
 * where they are. */
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
void gg_data_close(gg_data *d);

#ifdef __cplusplus
}
#endif

#endif
