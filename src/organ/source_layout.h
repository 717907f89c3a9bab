/* source_layout.h - details of sources that a byte-exact rebuild needs, and views. Internal. */
#pragma once

#include "base/io.h"
#include "gguf/gguf.h"
#include "manifest.h"

/* The files of a model; NULL unless the source is GGUF files. */
const gg_model *gg_source_model(const gg_source *s);
/* Whether both are one source, or are read from the same first file or directory. */
bool gg_source_is_same(const gg_source *a, const gg_source *b, gg_error *err);
/* The header of a GGUF file or pipe; NULL for other sources. */
const gg_gguf *gg_source_header(const gg_source *s);

/* Number of GGUF files (shards) of a model, on a pipe those read so far; 0 for records and
 * directories. gg_source_file returns the header of file i. */
size_t gg_source_files(const gg_source *s);
const gg_gguf *gg_source_file(const gg_source *s, size_t i);

/* What a source lacks that was opened for its header, or alone of its set. Of a pipe this is known
 * once gg_source_next has reached its end. */
typedef struct gg_source_lack {
    bool unread;           /* a pipe whose data was not read to its end */
    uint32_t shards;       /* number of missing shards; 0 = none */
    uint32_t of;           /* the number of shards of the set */
    const char *shard;     /* path of the first missing shard, or NULL if it is not known */
    uint64_t bytes;        /* of data that are missing, at least; 0 = none */
    const gg_tensor *cut;  /* the first tensor whose data are missing; NULL = not known */
    uint64_t offset, size; /* offset of its data in its file, and the size of that file */
} gg_source_lack;
gg_source_lack gg_source_lacks(const gg_source *s);

/* Whether a file's name is that of a part of a file, such as m.gguf.part1of2. */
bool gg_is_part_name(const char *path);
#define GG_PART_ADVICE "by its name this is a part of a file: join all parts with cat"

const gg_manifest *gg_source_manifest(const gg_source *s); /* NULL unless a directory */

/* Whether the source, or what it shows, is a checkpoint that is converted, so that its keys come
 * from config.json; and whether such a checkpoint has no vocabulary. */
bool gg_source_is_checkpoint(const gg_source *s);
bool gg_source_lacks_vocabulary(const gg_source *s);

/* Remarks about a checkpoint or adapter as a whole: lines that begin with "!" if something
 * is left out or not understood, else with a space. NULL = nothing. */
const char *gg_source_remarks(const gg_source *s);

/* If the source shows safetensors under their stored names, with __metadata__ as keys: the reason
 * why they are not those of GGUF. Else NULL. */
const gg_error *gg_source_refusal(const gg_source *s);

/* What such a source shows. */
typedef enum gg_stored {
    GG_STORED_NOTHING, /* the source is of another kind */
    GG_STORED_FILE,    /* a file with nothing beside it */
    GG_STORED_MODEL,   /* a checkpoint */
    GG_STORED_ADAPTER,
} gg_stored;
gg_stored gg_source_stored(const gg_source *s);

/* Opens the tensors of a GGUF file under Hugging Face names, in the shapes and with the values that
 * checkpoints have, and its keys; of a GGUF adapter, as PEFT has them (hf_write.c). `of` must stay
 * open as long. `base` is the model that an adapter is for, else NULL. Errors: GG_EUNSUPPORTED,
 * with the tensor, if it has no counterpart; GG_EUSAGE for an adapter without a base; GG_EIO;
 * GG_ENOMEM. Quantized tensors are decoded as F16, or as F32 if `wide`. */
gg_status gg_source_hf_open(gg_source *of, const gg_source *base, bool wide, gg_source **out,
                            gg_error *err);

/* Of such a source: the text of config.json or adapter_config.json, and the GGUF names of the
 * tensors in their order, one per line. */
typedef struct gg_hf_beside {
    const char *name, *text, *order, *note; /* a note about the text, or "" */
} gg_hf_beside;
gg_hf_beside gg_source_hf_beside(const gg_source *s);

/* Copies n bytes of the data from `offset` on to out, inside the kernel if possible. */
gg_status gg_data_copy(gg_data *d, uint64_t offset, uint64_t n, gg_place out, gg_error *err);

/* Lists the unusual padding of GGUF file `file`: padding that is not zero, or cut off at the end.
 * The list is malloc'd; free it with gg_pads_free. Call it for the files in order, from 0 on; on
 * a pipe only after the last gg_source_next. Fails with GG_EUNSUPPORTED if the files have more
 * than 64 MiB of it together. */
gg_status gg_source_pads(gg_source *s, size_t file, gg_pad **pads, size_t *n, gg_error *err);

/* Trailing bytes are those after the padded data of GGUF file `file`. gg_source_trailing returns
 * their number, or 0 for a pipe. gg_source_copy_trailing writes them to out at its current
 * position and sets *bytes to their number; on a pipe they are all that remains, and if out is -1
 * they are only counted. */
uint64_t gg_source_trailing(const gg_source *s, size_t file);
gg_status gg_source_copy_trailing(gg_source *s, size_t file, int out, uint64_t *bytes,
                                  gg_error *err);

/* Calls `read` with the file, the place in it and the number of bytes, for the bytes [from, from +
 * n) of tensor i. Only GGUF files are listed, also below views; of a joined tensor all strips are.
 */
typedef struct gg_reads {
    void (*read)(void *ctx, const char *file, uint64_t place, uint64_t bytes);
    void *ctx;
    uint64_t from, n;
} gg_reads;
void gg_source_reads(const gg_source *s, size_t i, gg_reads r);

/* Opens a temporary file without a name in $TMPDIR or /tmp. Returns its descriptor, or -1. */
int gg_unnamed_file(gg_error *err);

/* Stores the rest of a pipe, of which no tensor was read yet, in a temporary file and opens that.
 * The caller closes both sources. Errors: GG_EIO (for example if the temporary folder is full), and
 * those of gg_source_open. */
gg_status gg_source_store(gg_source *pipe, gg_source **out, gg_error *err);

/* If d reads a pipe, copies n bytes from `offset` on to a temporary file without a name, and d
 * then reads the copy at the same offsets. Otherwise does nothing. Fails like gg_data_copy. */
gg_status gg_data_spool(gg_data *d, uint64_t offset, uint64_t n, gg_error *err);

/* Whether gg_source_next may find tensors that are not known yet: records or shards on a pipe. */
bool gg_source_grows(const gg_source *s);
/* Notes that the keys on a pipe are those of a shard that is not the first. Of shards whose
 * tensors are read, this is noted anyway. */
void gg_source_note_keys(const gg_source *s);

/* ---- views --------------------------------------------------------------------------------
 *
 * A view is a gg_source that reads another one, so that every verb can take it in place of that
 * one. Nothing is stored except the orders: bytes are moved when they are read. Rows move as they
 * are stored. Columns move as they are stored too if units consist of whole blocks of the dtype.
 * Otherwise the tensor becomes F32 in the view, and whoever writes it chooses how to encode it. */

/* Units of a tensor that move: unit u is the rows (or columns) from first + u * per on. Rows are
 * counted over all dimensions after the first. Columns move in the rows [row, row + rows) only. */
typedef struct gg_slice {
    size_t index; /* of the tensor */
    bool columns;
    uint64_t first, per;
    uint64_t row, rows; /* if `columns` */
} gg_slice;

/* Opens a view of a seekable source, in which nothing has moved yet. `of` must stay open until the
 * view is closed with gg_source_close, which closes it too if it is `owned`. The view has no
 * manifest and no files of its own; its name, keys and anatomy are those of `of`. */
gg_status gg_source_view_open(gg_source *of, bool owned, gg_source **out, gg_error *err);

/* Moves units in all n slices: unit u of the view is unit from[u] of the source. `from` is a
 * permutation of n_units numbers and is copied. No part of a tensor may move twice along the same
 * axis. Must not be called while another thread uses the view. Errors: GG_EUNSUPPORTED, with the
 * tensor, if its columns have to be decoded and cannot be; GG_ENOMEM. */
gg_status gg_source_view_move(gg_source *view, const gg_slice *slices, size_t n,
                              const uint32_t *from, size_t n_units, gg_error *err);

/* Whether some of the tensor's rows or columns have moved, and whether it is F32 in the view only.
 * False for a source that is not a view. */
bool gg_source_view_moved(const gg_source *view, size_t index);
bool gg_source_view_decoded(const gg_source *view, size_t index);

/* Where row `row` and column *column of a tensor are below all views: returns the row, and changes
 * the column. */
uint64_t gg_source_view_place(const gg_source *s, size_t index, uint64_t row, uint64_t *column);

/* ---- joined and divided tensors -----------------------------------------------------------
 *
 * A source that shows some tensors of another one joined, or one tensor as several. Bytes are found
 * when they are read, and decoded to F32 if joined tensors differ in dtype. */

/* Rows of a tensor that are a part of a joined one: of each slice (a matrix of a stack, else the
 * whole tensor) of `every` rows, `rows` rows from `first` on. */
typedef struct gg_strip {
    size_t index; /* of the tensor */
    uint64_t first, rows, every;
} gg_strip;
#define GG_STRIPS 3 /* at most */

/* Opens a source without tensors, for at most `most`. gg_source_join_add appends tensor t, whose
 * slices consist of the strips in this order; `unit` is the number of values per row. With n = 0
 * it is tensor strips[0].index, unchanged except for its name. t->elements and t->bytes are
 * computed. gg_source_join_end must follow before anything else; if it succeeds and with `owned`,
 * closing the source closes `of` too. Name, keys and files are those of `of`, which must be
 * seekable. */
gg_status gg_source_join_open(gg_source *of, size_t most, gg_source **out, gg_error *err);
gg_status gg_source_join_add(gg_source *s, const gg_tensor *t, const gg_strip *strips, size_t n,
                             uint64_t unit, gg_error *err);
gg_status gg_source_join_end(gg_source *s, bool owned, gg_error *err);
