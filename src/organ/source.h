/* source.h - the structures of gg_source, shared by source*.c. Internal. */
#ifndef GG_SOURCE_H
#define GG_SOURCE_H

#include "base/io.h"
#include "base/stamp.h"
#include "gguf/gguf.h"
#include "organ/gg_organ.h"

#include "organ/manifest.h"

typedef enum source_kind {
    SOURCE_MODEL,        /* GGUF file or set of shards */
    SOURCE_DIR,          /* organ directory */
    SOURCE_RECORDS,      /* .bin files */
    SOURCE_PIPE_MODEL,   /* GGUF on a pipe */
    SOURCE_PIPE_RECORDS, /* organ stream on a pipe */
    SOURCE_VIEW,         /* another source in a different order */
} source_kind;

/* Position of a record's data, for SOURCE_RECORDS. */
typedef struct record_place {
    size_t path; /* index in paths */
    uint64_t at; /* offset in that file */
} record_place;

typedef struct pad_list {
    gg_pad *list;
    size_t n;
} pad_list;

/* One GGUF on a pipe: a model or a shard of one. */
typedef struct pipe_shard {
    gg_gguf *header;
    size_t first; /* index of its first tensor in the source */
    pad_list pads;
} pipe_shard;

typedef struct source_pipe {
    int fd;
    gg_stamp stamp;     /* of the file that stdin is, if it is one */
    pipe_shard *shards; /* GGUF only: the shards so far; the last one is being read */
    size_t n_shards, cap_shards;
    uint64_t no, count; /* split.no of the last shard, and split.count; count 1 = not split */
    uint8_t *buf;       /* bytes read ahead: [pos, len) */
    size_t pos, len, cap;
    bool end;       /* the descriptor is at its end */
    size_t current; /* tensor whose data is being read; SIZE_MAX before the first */
    uint64_t taken; /* bytes of that tensor already read */
    size_t next;    /* the next tensor */
    bool cut;       /* the data ended early (header_only) */
} source_pipe;

typedef struct gg_view gg_view;

struct gg_source {
    source_kind kind;
    gg_source_options o;
    char *name;
    gg_tensor *tensors; /* the names belong to model, manifest, pipe or names */
    size_t n, cap;
    size_t *by_name; /* indices sorted by name; NULL for a pipe of records */
    gg_model *model;
    gg_manifest *manifest;
    char **paths;
    size_t n_paths;
    gg_stamp *stamps;     /* of each path */
    record_place *places; /* cap entries, parallel to tensors */
    char **names;         /* cap entries: owned names of records */
    gg_tensor **streamed; /* cap entries, used instead of `tensors` for a pipe that finds tensors
                             while reading, so that their addresses stay valid. Tensors of records
                             are allocated one by one; those of shards are in the headers */
    gg_view *view;
    source_pipe pipe;
    int own_fd;         /* descriptor to close with the source, plus 1; 0 = none */
    uint64_t pad_bytes; /* unusual padding noted so far, of all files */
};

/* Store a pipe in an unnamed temporary file and open that. */
gg_status gg_source_open_pipe_spooled(const char *spec, const gg_source_options *o, gg_source **out,
                                      gg_error *err);

/* Bytes of a tensor to read: n from `at` on, into `to`. */
typedef struct gg_view_span {
    uint64_t at;
    void *to;
    size_t n;
} gg_view_span;

/* Frees a view of n tensors; v may be NULL. */
void gg_view_free(gg_view *v, size_t n);
gg_source *gg_view_source(const gg_view *v);
/* Reads a span of tensor `index` as the view shows it; `in` is the same tensor of its source. */
gg_status gg_view_read(gg_data *in, const gg_view *v, size_t index, gg_view_span span,
                       gg_error *err);

/* Appends a tensor of a record; copies its name. */
gg_status gg_source_append(gg_source *s, const gg_tensor *t, record_place place, gg_error *err);

/* Notes (s->o.note) that at least `missing` bytes are missing at the end of file `path`. */
void gg_note_cut(const gg_source *s, const char *path, uint64_t missing);

/* Notes (s->o.note) that only a part of a split set is available: `shards` of `count` shards from
 * number `first` (counted from 0) on, with `tensors` of `of` tensors (0 = unknown). `missing` is
 * the path of a missing shard, or NULL. */
typedef struct gg_partial_set {
    uint64_t first, shards, count, tensors, of;
    const char *missing;
} gg_partial_set;
void gg_note_partial(const gg_source *s, const gg_partial_set *set);

/* Reads the header of a GGUF whose first bytes are in the buffer: a model, the first shard of a
 * set, or the next shard. */
gg_status gg_pipe_read_header(gg_source *s, gg_error *err);

/* At the end of a shard: sets *more if another one follows. If none follows and the set is
 * incomplete, it notes that or fails, depending on the options. */
gg_status gg_pipe_next_shard(gg_source *s, bool *more, gg_error *err);

/* Fills the buffer with `want` bytes (at most 64 KiB), or with fewer at the end of the input. */
gg_status gg_pipe_fill(source_pipe *p, size_t want, gg_error *err);

gg_status gg_pipe_open(gg_source *s, gg_error *err);
gg_status gg_pipe_next(gg_source *s, size_t i, bool *more, gg_error *err);
gg_status gg_pipe_read(gg_source *s, size_t i, uint64_t offset, void *buf, size_t n, gg_error *err);
gg_status gg_pipe_copy(gg_source *s, size_t i, uint64_t offset, uint64_t n, gg_place out,
                       gg_error *err);
/* Copies all remaining bytes to out and sets *bytes to their number. */
gg_status gg_pipe_drain(gg_source *s, int out, uint64_t *bytes, gg_error *err);
void gg_pipe_close(gg_source *s);

/* Maximum of unusual padding in a source: it is kept in memory, and as text in a manifest. */
#define GG_MOST_PADDING ((uint64_t)64 << 20)

/* Whether the padding is complete (got == want) and all zero. */
bool gg_padding_is_plain(const uint8_t *bytes, size_t got, size_t want);

/* Appends the padding that follows `after` (NULL = the header) to a list. Too much padding fails
 * with GG_EUNSUPPORTED. On a pipe the rest is only counted and gg_source_pads fails later,
 * because most verbs that read a pipe never use the padding. */
gg_status gg_pad_note(gg_source *s, pad_list *pads, const gg_tensor *after, const uint8_t *bytes,
                      size_t n, gg_error *err);

#endif
