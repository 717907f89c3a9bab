/* source.h - what a kind of source is, for the files that have one. Internal.
 *
 * Each kind is a table of functions in its own file: source_gguf.c, source_dir.c, source_records.c,
 * source_pipe.c, source_view.c, source_join.c, and source_checkpoint.c. source_open.c lists those
 * that a path may name. All others use the functions in gg_organ.h, source_layout.h and
 * source_watch.h.
 */
#pragma once

#include "base/names.h"
#include "source_layout.h"
#include "source_watch.h"

typedef struct gg_pad_list {
    gg_pad *list;
    size_t n;
} gg_pad_list;

/* Facts about a path, before it is opened. */
typedef struct gg_spec {
    const char *path;
    bool pipe, folder;    /* neither: a regular file */
    const uint8_t *bytes; /* the first ones of a file */
    size_t n;
    gg_error *err; /* of `is`, if it cannot find out */
} gg_spec;

/* A kind of source. A function that is NULL does nothing, unless stated otherwise. */
typedef struct gg_source_kind gg_source_kind;
struct gg_source_kind {
    size_t size; /* of what it keeps, which begins with a gg_source */
    bool pipe;   /* it is read once, from front to back, with `next` */
    bool knows;  /* the anatomy of its tensors is set; otherwise gg_source_admit sets it by name */

    /* Whether the path is of this kind. NULL for a kind that shows another source. */
    bool (*is)(const gg_spec *spec);
    /* Opens the path, with the options in s->o: sets s->tensors and what else the source knows. */
    gg_status (*open)(gg_source *s, const char *path, gg_error *err);
    /* Frees what the kind has allocated, but not *s and what source.c frees. It is called after a
     * failed `open`, too. */
    void (*close)(gg_source *s);

    /* gg_source_next; NULL if all tensors are known. */
    gg_status (*next)(gg_source *s, size_t i, bool *more, gg_error *err);
    /* Sets d->fd and d->at if the bytes of tensor i are stored in one place, as they are. */
    gg_status (*place)(gg_source *s, size_t i, gg_data *d, gg_error *err);
    /* gg_data_read and gg_data_copy of other tensors. Without `copy` they are read and written. */
    gg_status (*read)(gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err);
    gg_status (*copy)(gg_data *d, uint64_t offset, uint64_t n, gg_place out, gg_error *err);
    /* Frees d->cache. */
    void (*end)(gg_data *d);
    /* The file that has the data of tensor i, for errors. NULL: the name of the source. */
    const char *(*file_of)(const gg_source *s, size_t i);
    /* gg_source_each_file; after a failed `open`, those that it has opened. */
    gg_status (*each_file)(const gg_source *s, gg_source_file_fn *fn, void *ctx, gg_error *err);

    /* What GGUF files have between and after the tensors: see source_layout.h. */
    gg_status (*pads)(gg_source *s, size_t file, gg_pad_list *pads, gg_error *err);
    uint64_t (*trailing)(const gg_source *s, size_t file);
    gg_status (*copy_trailing)(gg_source *s, size_t file, int out, uint64_t *bytes, gg_error *err);
    void (*reads)(const gg_source *s, size_t i, gg_reads r);
};

extern const gg_source_kind gg_source_gguf, gg_source_dir, gg_source_records, gg_source_pipe;

struct gg_source {
    const gg_source_kind *kind;
    gg_source_options o;
    char *name;
    gg_tensor *tensors; /* the kind's, as are the names */
    size_t n;
    /* Instead of `tensors` if more are found while reading, so that their addresses stay valid. */
    gg_tensor **streamed;
    bool grows;                  /* more tensors may be found */
    const gg_meta *meta;         /* NULL = none */
    const gg_model *model;       /* of GGUF files */
    const gg_manifest *manifest; /* of a directory */
    gg_gguf **headers;           /* of GGUF files and pipes, and of a checkpoint; the kind's */
    size_t n_headers;
    gg_source *of;      /* that a view or a join shows */
    bool owned;         /* and closes */
    size_t *by_name;    /* indices sorted by name; NULL if it grows */
    bool admitted_keys; /* gg_source_admit has checked them */
    size_t admitted;    /* tensors that gg_source_admit has checked */
    int own_fd;         /* descriptor to close with the source, plus 1; 0 = none */
    uint64_t pad_bytes; /* unusual padding noted so far, of all files */
    gg_source_lack lack;
};

/* Makes an empty source. NULL without memory. */
gg_source *gg_source_new(const gg_source_kind *kind, const char *name, gg_error *err);

/* Ends the opening of a source: checks what it shows, and returns it in *out; or closes it if that
 * fails, or if st is an error. */
gg_status gg_source_opened(gg_source *s, gg_status st, gg_source **out, gg_error *err);

/* Checks the tensors and keys that have not been checked yet. Every source passes it when it is
 * opened and after gg_source_next. Errors: GG_EUNSUPPORTED for a name over GG_MAX_NAME bytes, more
 * than GG_MAX_DIMS dimensions, or more than GG_LIMIT_ENTRIES tensors or keys; GG_EFORMAT for a size
 * that contradicts the shape, a key that occurs twice, a damaged value, and for numbers of
 * shards that no reader accepts. */
gg_status gg_source_admit(gg_source *s, gg_error *err);
/* The part of it for kinds that must know earlier. */
gg_status gg_admit_name(const char *name, size_t len, gg_error *err);

gg_status gg_source_no_memory(gg_error *err);
void gg_source_advise_records(gg_error *err);

/* Appends the records of one more file to a source of records. */
gg_status gg_source_add_records(gg_source *s, const char *path, gg_error *err);

/* ---- notes (o.note) ---- */

/* That only a part of a split set is available: `shards` of `count` shards from number `first`
 * (counted from 0) on, with `tensors` of `of` tensors (0 = unknown). `missing` is the path of a
 * missing shard, or NULL. */
typedef struct gg_partial_set {
    uint64_t first, shards, count, tensors, of;
    const char *missing;
} gg_partial_set;

void gg_source_note(const gg_source *s, const char *path, const char *text);
void gg_source_note_cut(const gg_source *s, const char *path, uint64_t missing);
void gg_source_note_partial(const gg_source *s, const gg_partial_set *set);

/* GG_EUNSUPPORTED: rows of the tensor cannot be moved alone (gg_rows_together). */
gg_status gg_refuse_rows_together(const gg_tensor *t, gg_error *err);

/* ---- padding ---- */

/* Maximum of unusual padding in a source: it is kept in memory, and as text in a manifest. */
#define GG_MOST_PADDING ((uint64_t)64 << 20)

gg_status gg_too_much_padding(gg_error *err);
/* Whether these bytes are zeros, as many as there should be. */
bool gg_padding_is_plain(const uint8_t *bytes, size_t got, size_t want);
/* Appends a copy. With more than GG_MOST_PADDING it fails, or keeps none if the source is a pipe.
 */
gg_status gg_keep_padding(gg_source *s, gg_pad_list *pads, const gg_tensor *after,
                          const uint8_t *bytes, size_t n, gg_error *err);
