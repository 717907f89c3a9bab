/* gg_organ.h - sources (the one way to read models), and selections of tensors.
 *
 * A gg_source reads tensors from whatever a user names: a GGUF file, a split model, an organ
 * directory, .bin files, or a pipe. docs/formats.md describes these formats. This loop works for
 * all of them:
 *
 *     gg_error err = GG_ERROR_INIT;
 *     gg_source *source = NULL;
 *     gg_status st = gg_source_open("model.gguf", &source, &err);
 *     for (size_t i = 0; st == GG_OK && i < gg_source_count(source); i++)
 *         printf("%s\n", gg_source_tensor(source, i)->name);
 *     gg_source_close(source);
 *
 * Errors are described in gg_status.h; `err` must not be NULL. No other pointer may be NULL
 * unless its function says so. Each function that opens, makes or parses an object gives it to
 * the caller, who ends it with the matching close or free function; if it fails, *out is not
 * an object and must not be freed.
 *
 * Threads: any number of threads can use a seekable source at the same time, each with its own
 * gg_data. A source that reads a pipe must be used by one thread at a time. Any number of threads
 * can match against the same selection or map, but not while it is changed or freed.
 */
#ifndef GG_ORGAN_H
#define GG_ORGAN_H

#include "gg_gguf.h"
#include "gg_status.h"

GG_BEGIN_DECLS

/* ---- selection --------------------------------------------------------------- */

/* A set of conditions on tensors. Conditions of different kinds are combined with "and", and
 * those of one kind with "or". A new selection has no conditions and selects all tensors. Wherever
 * a selection is an argument, NULL selects all tensors too. */
typedef struct gg_select gg_select;

/* Makes an empty selection. Fails only with GG_ENOMEM. */
gg_status gg_select_new(gg_select **out, gg_error *err);
void gg_select_free(gg_select *s); /* s may be NULL */

/* The kinds of conditions, each with an example of its text. */
typedef enum gg_select_kind {
    GG_SELECT_TYPES,   /* names of classes: "organ,embed" */
    GG_SELECT_PARTS,   /* names of parts: "text,vision" */
    GG_SELECT_LAYERS,  /* blocks, as numbers and ranges: "5-20,25" */
    GG_SELECT_EXPERTS, /* experts, as numbers and ranges: "0-3,17" */
    /* The same, but an item may have the form BASE=DONOR. "2=5,8-9=0-1,12" selects the base's
     * experts 2, 8, 9 and 12; experts 2, 8 and 9 come from the donor's experts 5, 0 and 1. For
     * grafts and transplants. */
    GG_SELECT_EXPERT_MAP,
    GG_SELECT_TENSORS, /* patterns for whole names (* ? []): "blk.*.ffn_up.weight,output*" */
    /* The path of a file with one name per line; "-" is standard input. A name is the first
     * column of a TSV line, escaped as gg_escape does. A first line "name" is skipped as a
     * heading. */
    GG_SELECT_NAMES,
    GG_SELECT_KINDS
} gg_select_kind;

/* Adds a condition. The text is a comma-separated list, or a path, and is not kept.
 * Errors: GG_EUSAGE, with the reason, if the text is wrong; GG_EIO if a file of names cannot be
 * read; GG_ENOMEM. */
gg_status gg_select_add(gg_select *s, gg_select_kind kind, const char *text, gg_error *err);

/* Whether a tensor is selected. `name` has name_len bytes and a NUL after them; `a` is its
 * anatomy; `s` may be NULL. With a condition on experts, only experts and stacks of experts are
 * selected. Of a stack, the verbs then take only the experts that were named. */
bool gg_select_match(const gg_select *s, const char *name, size_t name_len, const gg_anatomy *a);

/* Which donor block goes into which base block. */
typedef struct gg_map gg_map;

/* Parses "10-15=20-25[,...]": base blocks 10 to 15 come from donor blocks 20 to 25. Fails with
 * GG_EUSAGE if the text is wrong, or GG_ENOMEM. */
gg_status gg_map_parse(const char *text, gg_map **out, gg_error *err);
void gg_map_free(gg_map *m); /* m may be NULL */

/* ---- sources ------------------------------------------------------------------ */

/* An open model or set of tensors. What its functions return belongs to the source and stays
 * valid until gg_source_close: the name, the keys, the tensors and their names. This also holds
 * for a pipe, while more tensors arrive. */
typedef struct gg_source gg_source;

/* How gg_source_open_with opens a source. All zero is the default: a pipe is read from front to
 * back, without storing it. */
typedef struct gg_source_options {
    /* Only the header is needed. A file or pipe whose data end too early is opened and noted,
     * instead of refused. Missing data cannot be read, but gg_source_next still visits all
     * tensors. */
    bool header_only;
    /* Store a pipe in an unnamed temporary file (in $TMPDIR or /tmp) first, so that the source is
     * seekable. Has no effect on other sources. */
    bool spooled;
    /* Called with each note about the source: one line without a newline, escaped as gg_escape
     * does, valid during the call. May be NULL. With a function here, a shard whose siblings are
     * missing is opened alone and noted ("shard 2 of 5; 13 of 75 tensors"); for a pipe this may
     * happen as late as its end. Without one, such a shard is refused with GG_EFORMAT. */
    void (*note)(void *ctx, const char *line);
    void *ctx; /* first argument of note */
    /* Show a checkpoint or adapter that cannot be converted under its stored names, with
     * __metadata__ as its keys, and note why, instead of failing. For looking at it: no GGUF file
     * is written from such a source. */
    bool stored_names;
    /* Refuse a checkpoint or adapter of which something is left out or not understood, instead of
     * noting it: GG_NO with the note as the reason. */
    bool strict;
    /* Paths of further .bin files, whose records follow those of the first. They are copied.
     * GG_EUSAGE if one of the files has no organ records. */
    char *const *more;
    size_t n_more;
    /* The model that a PEFT adapter is for, which tells how its matrices are moved, and with which
     * it is compared. Used during the call only. NULL = the base that the adapter names. */
    gg_source *adapter_base;
    bool pairs_only;      /* leave out whole matrices of an adapter, instead of refusing them */
    double adapter_alpha; /* the lora_alpha of an adapter's file without adapter_config.json */
    /* Of a checkpoint: the name that tokenizer.ggml.pre gets. NULL = the one whose expressions its
     * tokenizer.json has. Used during the call only. */
    const char *pre;
    /* A checkpoint whose tokenizer cannot be converted is refused. Without it the source has no
     * keys of a tokenizer, and a note tells why. */
    bool whole;
    /* Set by gg_source_close, unless it holds an error already: GG_EIO if a file of the source has
     * changed since it was opened, so that what was read may be a mixture. May be NULL. */
    gg_error *changed;
} gg_source_options;

/* Opens a source of which all tensors are known, and can be read in any order. A pipe is stored
 * first, as with gg_source_options.spooled. `spec` is
 * - a GGUF file; any shard of a split model opens the whole model,
 * - an organ directory, or a .bin file with one or more organ records,
 * - a Hugging Face checkpoint: a folder with config.json and safetensors files, or one such file.
 * Its tensors have the names, shapes and values of GGUF (docs/safetensors.md). So has a PEFT
 * adapter, a folder with adapter_config.json,
 * - "-" for standard input, or the path of a FIFO. It may carry a GGUF or organ records, which
 *   the first four bytes tell apart.
 * Shards concatenated in one file or on a pipe are one model. A split model keeps one file
 * descriptor per shard open; any other source keeps at most one.
 *
 * gg_source_open_with does the same with options; all zero if `o` is NULL. o->ctx must stay valid
 * until the source is closed. A pipe that is not stored must be read with gg_source_next.
 * Errors: GG_EIO if something cannot be opened or read; GG_EFORMAT for a malformed or incomplete
 * file, a missing shard, or shards that contradict each other; GG_EUNSUPPORTED for GGUF version
 * 1, big-endian files, unknown tensor types and headers over the limits of docs/formats.md;
 * GG_ENOMEM; GG_ECANCELLED. */
gg_status gg_source_open(const char *spec, gg_source **out, gg_error *err);
gg_status gg_source_open_with(const char *spec, const gg_source_options *o, gg_source **out,
                              gg_error *err);

/* Closes the source and all descriptors that it opened. `s` may be NULL. */
void gg_source_close(gg_source *s);

const char *gg_source_name(const gg_source *s); /* the spec it was opened with */

/* Shows *source in the form of another model: if `like` has attn_q, attn_k and attn_v where *source
 * has attn_qkv, or the reverse, and likewise the gate and up matrices of a feed-forward layer
 * (ffn_gate_up_exps, or an ffn_up with the rows of both). *source is then replaced by a source that
 * has the tensors of `like`, and closes the given one when it is closed. Nothing is stored: rows
 * are found when they are read. Parts that have different types become F32 when they are fused.
 * *source stays the same if nothing differs in this way, or if either is a pipe.
 * Errors: GG_ENOMEM; *source is then unchanged. */
gg_status gg_source_like(const gg_source *like, gg_source **source, gg_error *err);

/* Whether tensors can be read in any order. False for a pipe, which is read once from front to
 * back. */
bool gg_source_seekable(const gg_source *s);

/* The keys of the model; of a split model those of its first shard. NULL if the source is bare
 * organ records, which have no keys. */
const gg_meta *gg_source_meta(const gg_source *s);

/* The number of tensors. If the source reads records or shards from a pipe, only those that
 * gg_source_next has reached so far. */
size_t gg_source_count(const gg_source *s);

/* Tensor i, which must be below gg_source_count. */
const gg_tensor *gg_source_tensor(const gg_source *s, size_t i);

/* The index of a tensor by its name of name_len bytes, or SIZE_MAX if there is none. Takes
 * O(log n). Always SIZE_MAX for records and shards on a pipe. */
size_t gg_source_find(const gg_source *s, const char *name, size_t name_len);

/* Advances to tensor i. Call it with 0, 1, 2 and so on; sets *more to false when there are no
 * more tensors. It is necessary for a pipe, where it skips what was not read of the tensor
 * before, and harmless elsewhere. New tensors may appear in a source that reads a pipe.
 * Errors: GG_EIO, GG_EFORMAT, GG_EUNSUPPORTED and GG_ENOMEM, on pipes only. */
gg_status gg_source_next(gg_source *s, size_t i, bool *more, gg_error *err);

/* The data of one tensor, ready to be read. If fd is not -1, the data are at bytes [at, at +
 * bytes) of that descriptor, and may also be read with pread or mapped. */
typedef struct gg_data {
    gg_source *source;
    size_t index;   /* of the tensor */
    int fd;         /* -1 for a pipe, and for values that a checkpoint has in another form */
    uint64_t at;    /* offset of the data in fd */
    uint64_t bytes; /* size of the data */
    bool close_fd;  /* private */
    int hidden;     /* private: descriptor of an aligned source; -1 = none */
    void *cache;    /* private: values of a checkpoint */
} gg_data;

/* Opens the data of tensor i. *d is the caller's to close, before the source is closed. From a
 * pipe only the current tensor or a later one can be read; reading goes on to it.
 * Fails with GG_EIO if the file cannot be opened, or GG_ENOMEM. *d then needs no closing. */
gg_status gg_data_open(gg_source *s, size_t i, gg_data *d, gg_error *err);

/* Reads bytes [offset, offset + n) of the data, in the form that files have, into buf. The range
 * must lie within the data. From a pipe, offsets must ascend.
 * Errors: GG_EIO; GG_EFORMAT if a pipe ends too early; GG_EUSAGE if a pipe has passed them. */
gg_status gg_data_read(gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err);

void gg_data_close(gg_data *d);

GG_END_DECLS

#endif
