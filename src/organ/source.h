/* source.h - the inside of gg_source, shared by source*.c. Internal. */
#ifndef GG_SOURCE_H
#define GG_SOURCE_H

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

typedef struct source_pipe {
    int fd;
    gg_gguf *header; /* of a GGUF */
    uint8_t *buf;    /* bytes read ahead: [pos, len) */
    size_t pos, len, cap;
    bool end;       /* the descriptor is at its end */
    size_t current; /* tensor whose data is being read; SIZE_MAX before the first */
    uint64_t taken; /* bytes of it that were read */
    size_t next;    /* tensor to go on to */
    pad_list pads;
} source_pipe;

struct gg_source {
    source_kind kind;
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
    gg_tensor **streamed; /* cap entries, for a pipe of records, instead of `tensors`: each has
                             a block of its own, so that its address stays as the list grows */
    source_pipe pipe;
    int own_fd;         /* closed with the source; 0 = none, else the descriptor + 1 */
    uint64_t pad_bytes; /* noted so far, of all files (from file 0 on) */
};

/* Append a tensor (records): copies the name. */
gg_status gg_source_append(gg_source *s, const gg_tensor *t, record_place place, gg_error *err);

gg_status gg_pipe_open(gg_source *s, gg_error *err);
gg_status gg_pipe_next(gg_source *s, size_t i, bool *more, gg_error *err);
gg_status gg_pipe_read(gg_source *s, size_t i, uint64_t offset, void *buf, size_t n, gg_error *err);
gg_status gg_pipe_copy(gg_source *s, size_t i, uint64_t offset, uint64_t n, int out,
                       uint64_t out_offset, gg_error *err);
/* Everything left, to out; *bytes is how much. */
gg_status gg_pipe_drain(gg_source *s, int out, uint64_t *bytes, gg_error *err);
void gg_pipe_close(gg_source *s);

/* Odd padding of a source in all: it is held in memory, and in a manifest as text. */
#define GG_MOST_PADDING ((uint64_t)64 << 20)

gg_status gg_pads_too_much(gg_error *err); /* GG_EUNSUPPORTED, with what to do */

/* Are the `got` bytes, of a padding of `want`, all there and all zero? */
bool gg_padding_is_plain(const uint8_t *bytes, size_t got, size_t want);

/* Append the padding that follows `after` (NULL = the header) to a list. When there is too
 * much, GG_EUNSUPPORTED; but of a pipe the rest is only counted and gg_source_pads fails,
 * because most of what reads a pipe never asks for padding. */
gg_status gg_pad_note(gg_source *s, pad_list *pads, const gg_tensor *after, const uint8_t *bytes,
                      size_t n, gg_error *err);

#endif
