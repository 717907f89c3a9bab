/* source.h - the inside of gg_source, shared by source*.c. Internal. */
#ifndef GG_SOURCE_H
#define GG_SOURCE_H

#include "base/io.h"
#include "organ/gg_organ.h"

#include "organ/manifest.h"

typedef enum source_kind {
    SOURCE_MODEL,        /* GGUF file or set of shards */
    SOURCE_DIR,          /* organ directory */
    SOURCE_RECORDS,      /* .bin files */
    SOURCE_PIPE_MODEL,   /* GGUF on a pipe */
    SOURCE_PIPE_RECORDS, /* organ stream on a pipe */
} source_kind;

/* Where a record's data lies, for SOURCE_RECORDS. */
typedef struct record_place {
    size_t path;
    uint64_t at;
} record_place;

typedef struct pad_list {
    gg_pad *list;
    size_t n;
} pad_list;

/* One GGUF of a pipe: a model, or a shard of one. */
typedef struct pipe_shard {
    gg_gguf *header;
    size_t first; /* index of its first tensor in the source */
    pad_list pads;
} pipe_shard;

typedef struct source_pipe {
    int fd;
    pipe_shard *shards; /* of a GGUF: the last is the one being read */
    size_t n_shards, cap_shards;
    uint64_t no, count; /* split.no of the last shard and split.count; count 1 = no set */
    uint8_t *buf;       /* bytes read ahead: [pos, len) */
    size_t pos, len, cap;
    bool end;       /* the descriptor is at its end */
    size_t current; /* tensor whose data is being read; SIZE_MAX before the first */
    uint64_t taken; /* bytes of it that were read */
    size_t next;    /* tensor to go on to */
    bool cut;       /* the data ended early (header_only) */
} source_pipe;

struct gg_source {
    source_kind kind;
    gg_source_options o;
    char *name;
    gg_tensor *tensors; /* names belong to whoever holds them, or to `names` */
    size_t n, cap;
    size_t *by_name; /* indices in the order of names; NULL for a pipe of records */
    gg_model *model;
    gg_manifest *manifest;
    char **paths;
    size_t n_paths;
    record_place *places; /* cap entries, as tensors */
    char **names;         /* cap entries: names owned, for records */
    gg_tensor **streamed; /* cap entries, for a pipe that grows, instead of `tensors`: so that
                             addresses stay. Of records each has a block of its own; of shards
                             they are in the headers */
    source_pipe pipe;
    int own_fd;         /* closed with the source; 0 = none, else the descriptor + 1 */
    uint64_t pad_bytes; /* noted so far, of all files (from file 0 on) */
};

/* Append a tensor (records): copies the name. */
gg_status gg_source_append(gg_source *s, const gg_tensor *t, record_place place, gg_error *err);

/* Tell s->o.note that `n` bytes are missing from the end of file `path`. */
void gg_note_cut(const gg_source *s, const char *path, uint64_t missing);

/* Tell s->o.note that only some shards of a set are there: `shards` of `count` from `first`
 * (from 0) on, with `tensors` of `of` tensors (0 = not stated); `missing` is the path of
 * one that is not, or NULL. */
typedef struct gg_partial_set {
    uint64_t first, shards, count, tensors, of;
    const char *missing;
} gg_partial_set;
void gg_note_partial(const gg_source *s, const gg_partial_set *set);

/* Read the header of a GGUF whose first bytes are in the buffer: a model, the first shard
 * of a set, or the shard that follows the last one. */
gg_status gg_pipe_read_header(gg_source *s, gg_error *err);

/* The shards are all read: does another follow? If the set is not complete, that is noted
 * or an error. */
gg_status gg_pipe_next_shard(gg_source *s, bool *more, gg_error *err);

/* Have `want` bytes (at most 64 KiB) in the buffer, or all there is. */
gg_status gg_pipe_fill(source_pipe *p, size_t want, gg_error *err);

gg_status gg_pipe_open(gg_source *s, gg_error *err);
gg_status gg_pipe_next(gg_source *s, size_t i, bool *more, gg_error *err);
gg_status gg_pipe_read(gg_source *s, size_t i, uint64_t offset, void *buf, size_t n, gg_error *err);
gg_status gg_pipe_copy(gg_source *s, size_t i, uint64_t offset, uint64_t n, gg_place out,
                       gg_error *err);
/* Everything left, to out; *bytes is how much. */
gg_status gg_pipe_drain(gg_source *s, int out, uint64_t *bytes, gg_error *err);
void gg_pipe_close(gg_source *s);

/* Odd padding of a source in all: it is held in memory, and in a manifest as text. */
#define GG_MOST_PADDING ((uint64_t)64 << 20)

/* Are the `got` bytes, of a padding of `want`, all there and all zero? */
bool gg_padding_is_plain(const uint8_t *bytes, size_t got, size_t want);

/* Append the padding that follows `after` (NULL = the header) to a list. When there is too
 * much, GG_EUNSUPPORTED; but of a pipe the rest is only counted and gg_source_pads fails,
 * because most of what reads a pipe never asks for padding. */
gg_status gg_pad_note(gg_source *s, pad_list *pads, const gg_tensor *after, const uint8_t *bytes,
                      size_t n, gg_error *err);

#endif
