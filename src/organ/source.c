/* source.c - read tensors from model files, organ directories, record files and pipes.
 *
 * A source is one of these, or a view of another source. First come what only pipes and only views
 * do, then how files are opened, and at the end the functions that work on all sources. */
#include "organ/gg_organ.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/names.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "hf/checkpoint.h"
#include "manifest.h"
#include "quant/quant.h"
#include "record.h"
#include "source_layout.h"
#include "source_watch.h"
#include "tensor_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AHEAD ((size_t)64 << 10)
#define MOST_RECORDS ((size_t)1 << 17) /* enough for the largest models, one record per expert */

/* Maximum of unusual padding in a source: it is kept in memory, and as text in a manifest. */
#define MOST_PADDING ((uint64_t)64 << 20)

#define BATCH ((size_t)256 << 10) /* bytes of consecutive rows that are read at once */

typedef enum source_kind {
    SOURCE_MODEL,        /* GGUF file or set of shards */
    SOURCE_DIR,          /* organ directory */
    SOURCE_RECORDS,      /* .bin files */
    SOURCE_PIPE_MODEL,   /* GGUF on a pipe */
    SOURCE_PIPE_RECORDS, /* organ stream on a pipe */
    SOURCE_CHECKPOINT,   /* safetensors, with the names and shapes of GGUF */
    SOURCE_VIEW,         /* another source in a different order */
    SOURCE_JOIN,         /* another source, some of whose tensors are joined or divided */
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

/* An order of the units that a call of gg_source_view_move has moved. */
typedef struct unit_order {
    struct unit_order *next;
    size_t n;
    uint32_t from[];
} unit_order;

typedef struct moved {
    gg_slice s;
    const unit_order *order;
} moved;

typedef struct tensor_view {
    moved *rows, *cols; /* by first row, and by the first of their rows */
    size_t n_rows, n_cols;
    bool decoded;
} tensor_view;

typedef struct source_view {
    unit_order *orders;
    tensor_view *tensors;
} source_view;

/* A tensor that consists of strips of others. */
typedef struct joined {
    gg_strip strips[GG_STRIPS];
    size_t n;      /* 0: it is strips[0].index, unchanged */
    uint64_t unit; /* values per row */
} joined;

struct gg_source {
    source_kind kind;
    gg_source_options o;
    char *name;
    gg_tensor *tensors; /* the names belong to model, manifest, pipe or names */
    size_t n;
    size_t *by_name; /* indices sorted by name; NULL for a pipe of records */
    gg_model *model;
    gg_manifest *manifest;
    gg_checkpoint *checkpoint;
    char **paths;
    size_t n_paths;
    gg_stamp *stamps;     /* of each path */
    gg_names names;       /* of records */
    record_place *places; /* of SOURCE_RECORDS, one per tensor */
    /* Used instead of `tensors` for a pipe that finds tensors while reading, so that their
     * addresses stay valid. Tensors of records are allocated one by one; those of shards are in the
     * headers. */
    gg_tensor **streamed;
    size_t cap_streamed;
    gg_source *of; /* that a view or a join shows */
    bool owned;    /* and closes */
    source_view view;
    joined *join; /* one per tensor */
    source_pipe pipe;
    int own_fd;         /* descriptor to close with the source, plus 1; 0 = none */
    uint64_t pad_bytes; /* unusual padding noted so far, of all files */
};

static gg_status no_memory(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
}

static gg_source *new_source(source_kind kind, const char *name, gg_error *err)
{
    gg_source *s = calloc(1, sizeof *s);
    if (s) *s = (gg_source){ .kind = kind, .name = strdup(name) };
    if (s && s->name) return s;
    free(s);
    no_memory(err);
    return NULL;
}

/* Makes the index for gg_source_find, unless more tensors may be found. The header of a single file
 * has made it already. */
static gg_status index_names(gg_source *s, gg_error *err)
{
    gg_gguf *header = s->model           ? s->model->files[0]
                      : s->checkpoint    ? &s->checkpoint->header
                      : s->pipe.n_shards ? s->pipe.shards[0].header
                                         : NULL;
    if (gg_source_grows(s) || s->by_name) return GG_OK;
    if (!header || gg_source_files(s) != 1)
        return gg_name_index(s->tensors, s->n, &s->by_name, err);
    s->by_name = header->by_name;
    header->by_name = NULL;
    return GG_OK;
}

/* Ends the opening of a source: returns it in *out, or closes it if st is an error. */
static gg_status opened(gg_source *s, gg_status st, gg_source **out, gg_error *err)
{
    if (st == GG_OK) st = index_names(s, err);
    if (st == GG_OK) *out = s;
    else gg_source_close(s);
    return st;
}

static void advise_records(gg_error *err)
{
    gg_fix(err, "extract the organ records again: this file is truncated or damaged");
}

/* ---- notes ------------------------------------------------------------------------------- */

/* Notes (s->o.note) that only a part of a split set is available: `shards` of `count` shards from
 * number `first` (counted from 0) on, with `tensors` of `of` tensors (0 = unknown). `missing` is
 * the path of a missing shard, or NULL. */
typedef struct partial_set {
    uint64_t first, shards, count, tensors, of;
    const char *missing;
} partial_set;

static void send_note(const gg_source *s, const char *path, const char *text)
{
    char name[512], line[1024];
    if (!s->o.note) return;
    if (s->own_fd) path = s->name; /* that of the pipe, not of the file where it is stored */
    gg_escape(path, strlen(path), name, sizeof name);
    snprintf(line, sizeof line, "%s: %s", strcmp(path, "-") == 0 ? "<stdin>" : name, text);
    s->o.note(s->o.ctx, line);
}

static void note_cut(const gg_source *s, const char *path, uint64_t missing)
{
    char text[160];
    snprintf(text, sizeof text, "the data is incomplete: at least %llu bytes are missing",
             (unsigned long long)missing);
    send_note(s, path, text);
}

static void note_partial(const gg_source *s, const partial_set *set)
{
    char text[640], lost[320];
    unsigned long long first = set->first + 1, last = set->first + set->shards;
    int n = first == last ? snprintf(text, sizeof text, "shard %llu", first)
                          : snprintf(text, sizeof text, "shards %llu-%llu", first, last);
    n += snprintf(text + n, sizeof text - (size_t)n, " of %llu; %llu",
                  (unsigned long long)set->count, (unsigned long long)set->tensors);
    if (set->of)
        n += snprintf(text + n, sizeof text - (size_t)n, " of %llu", (unsigned long long)set->of);
    n += snprintf(text + n, sizeof text - (size_t)n, " tensors");
    if (set->missing) {
        gg_escape(set->missing, strlen(set->missing), lost, sizeof lost);
        snprintf(text + n, sizeof text - (size_t)n, "; %s is missing", lost);
    }
    send_note(s, s->name, text);
}

/* ---- tensors of records ------------------------------------------------------------------ */

/* Appends a tensor of a record; copies its name. */
static gg_status append_record(gg_source *s, const gg_tensor *t, record_place place, gg_error *err)
{
    gg_tensor *to;
    const char *name = gg_names_add(&s->names, t->name, t->name_len, err);
    if (!name) return err->status;
    if (s->kind == SOURCE_PIPE_RECORDS) {
        if (GG_ROOM(s->streamed, s->n, &s->cap_streamed, err) != GG_OK) return err->status;
        if (!(to = s->streamed[s->n] = malloc(sizeof *to))) return no_memory(err);
    } else {
        if (GG_ROOM(s->places, s->n, NULL, err) != GG_OK) return err->status;
        if (GG_ROOM(s->tensors, s->n, NULL, err) != GG_OK) return err->status;
        s->places[s->n] = place;
        to = &s->tensors[s->n];
    }
    *to = *t;
    to->name = name;
    s->n++;
    return GG_OK;
}

/* ---- padding ---------------------------------------------------------- */

static gg_status too_much(gg_error *err)
{
    gg_fail(err, GG_EUNSUPPORTED,
            "the padding between tensors contains more than %llu MiB that are not zero",
            (unsigned long long)(MOST_PADDING >> 20));
    return gg_fix_hint(err, GG_HINT_EVERY_TENSOR,
                       "select every tensor by name, which leaves out the padding");
}

static bool padding_is_plain(const uint8_t *bytes, size_t got, size_t want)
{
    size_t i = 0;
    while (i < got && bytes[i] == 0) i++;
    return i == want;
}

static gg_status keep_padding(gg_source *s, pad_list *pads, const gg_tensor *after,
                              const uint8_t *bytes, size_t n, gg_error *err)
{
    s->pad_bytes += n;
    if (s->pad_bytes > MOST_PADDING) /* on a pipe gg_source_pads reports it */
        return s->kind == SOURCE_PIPE_MODEL ? GG_OK : too_much(err);
    if (GG_ROOM(pads->list, pads->n, NULL, err) != GG_OK) return GG_ENOMEM;
    gg_pad *pad = &pads->list[pads->n++];
    *pad = (gg_pad){ .n = n, .bytes = malloc(n ? n : 1), .after_len = after ? after->name_len : 0 };
    pad->after = after ? malloc(after->name_len + 1) : NULL;
    if (!pad->bytes || (after && !pad->after))
        return gg_fail(err, GG_ENOMEM, "no memory for padding");
    if (n) memcpy(pad->bytes, bytes, n);
    if (after) memcpy(pad->after, after->name, after->name_len + 1);
    return GG_OK;
}

/* ---- pipes ------------------------------------------------------------------------------- */

/* A pipe is read once from front to back. A small buffer keeps bytes that were read ahead: the
 * first bytes tell a model from a stream, and the length of a record's header is not known in
 * advance. Tensor data bypasses the buffer. */

static size_t buffered(const source_pipe *p)
{
    return p->len - p->pos;
}

static gg_status fill_pipe(source_pipe *p, size_t want, gg_error *err)
{
    if (buffered(p) >= want || p->end) return GG_OK;
    if (p->cap < AHEAD) {
        uint8_t *grown = realloc(p->buf, AHEAD);
        if (!grown) return gg_fail(err, GG_ENOMEM, "no memory for a pipe's buffer");
        p->buf = grown;
        p->cap = AHEAD;
    }
    memmove(p->buf, p->buf + p->pos, buffered(p));
    p->len -= p->pos;
    p->pos = 0;
    size_t got = 0, ask = want - p->len;
    gg_status st = gg_read_some(p->fd, p->buf + p->len, ask, &got, err);
    p->len += got;
    p->end = got < ask;
    return st;
}

/* Reads up to n bytes: first from the buffer, then from the descriptor. */
static gg_status take_from_pipe(source_pipe *p, void *buf, size_t n, size_t *got, gg_error *err)
{
    size_t have = buffered(p) < n ? buffered(p) : n, more = 0;
    if (have) memcpy(buf, p->buf + p->pos, have);
    p->pos += have;
    gg_status st = GG_OK;
    if (have < n && !p->end) {
        st = gg_read_some(p->fd, (uint8_t *)buf + have, n - have, &more, err);
        p->end = more < n - have;
    }
    *got = have + more;
    return st;
}

static gg_status ends_early(uint64_t missing, gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "the input ends %llu bytes early", (unsigned long long)missing);
    return gg_fix(err, "fetch it again: the data is incomplete");
}

/* A larger pipe needs fewer switches between the processes. The largest size that everybody may
 * set is 1 MiB; other descriptors refuse, which does no harm. */
static void widen_pipe(int fd)
{
#ifdef F_SETPIPE_SZ
    (void)fcntl(fd, F_SETPIPE_SZ, 1 << 20);
#else
    (void)fd;
#endif
}

/* ---- shards on a pipe ------------------------------------------------------------------- */

static gg_status append_tensors(gg_source *s, gg_gguf *g, gg_error *err)
{
    if (s->pipe.n_shards == 1 && !gg_source_grows(s)) {
        s->tensors = g->tensors;
        s->n = g->n_tensors;
        return GG_OK;
    }
    gg_tensor **grown = realloc(s->streamed, (s->n + g->n_tensors + 1) * sizeof *grown);
    if (!grown) return no_memory(err);
    s->streamed = grown;
    for (size_t i = 0; i < g->n_tensors; i++) {
        g->tensors[i].file = (uint32_t)(s->pipe.n_shards - 1);
        s->streamed[s->n++] = &g->tensors[i];
    }
    return GG_OK;
}

/* The numbers of concatenated shards must be consecutive. */
static gg_status check_shard_order(const source_pipe *p, uint64_t no, uint64_t count, gg_error *err)
{
    if (no == p->no + 1 && count == p->count) return GG_OK;
    gg_fail(err, GG_EFORMAT, "shard %llu of %llu is followed by shard %llu of %llu",
            (unsigned long long)p->no + 1, (unsigned long long)p->count, (unsigned long long)no + 1,
            (unsigned long long)count);
    return gg_fix(err, "give the shards of one model in order: cat m-*.gguf");
}

static gg_status read_pipe_header(gg_source *s, gg_error *err)
{
    source_pipe *p = &s->pipe;
    uint8_t *surplus;
    size_t surplus_len;
    uint64_t no, count;
    if (GG_ROOM(p->shards, p->n_shards, &p->cap_shards, err) != GG_OK) return GG_ENOMEM;
    gg_gguf *g;
    gg_status st = gg_gguf_read_pipe(p->fd, p->buf + p->pos, p->len - p->pos, &g, &surplus,
                                     &surplus_len, err);
    if (st != GG_OK) return st;
    p->shards[p->n_shards++] = (pipe_shard){ .header = g, .first = s->n };
    free(p->buf);
    p->buf = surplus;
    p->pos = 0;
    p->len = p->cap = surplus_len;
    st = gg_shard_numbers(g, &no, &count, err);
    if (st == GG_OK && p->n_shards > 1) st = check_shard_order(p, no, count, err);
    if (st != GG_OK) return st;
    p->no = no;
    p->count = count;
    return append_tensors(s, g, err);
}

/* Checks once, over all shards, that no tensor is in two of them. */
static gg_status check_unique_tensors(const gg_source *s, gg_error *err)
{
    size_t *by_name = NULL;
    gg_tensor *list = calloc(s->n + 1, sizeof *list);
    if (!list) return no_memory(err);
    for (size_t i = 0; i < s->n; i++) list[i] = *s->streamed[i];
    gg_unique_name_index(list, s->n, "two shards contain a tensor with this name", &by_name, err);
    free(by_name);
    free(list);
    return err->status;
}

/* The input has ended: checks whether the set is complete. */
static gg_status end_of_set(gg_source *s, gg_error *err)
{
    source_pipe *p = &s->pipe;
    partial_set set = {
        .first = p->no + 1 - p->n_shards, .shards = p->n_shards, .count = p->count, .tensors = s->n
    };
    gg_kv_u64(gg_meta_find(&p->shards[0].header->meta, "split.tensors.count"), &set.of);
    bool whole = set.shards == set.count;
    p->count = 1; /* so that this runs only once */
    if (p->n_shards > 1 && check_unique_tensors(s, err) != GG_OK) return err->status;
    if (whole && set.of && set.of != s->n)
        return gg_fail(err, GG_EFORMAT,
                       "split.tensors.count is %llu, but the shards have %zu tensors",
                       (unsigned long long)set.of, s->n);
    if (whole || s->o.note) {
        if (!whole) note_partial(s, &set);
        return GG_OK;
    }
    gg_fail(err, GG_EFORMAT, "shard %llu of %llu is missing",
            (unsigned long long)(set.first ? 1 : set.shards + 1), (unsigned long long)set.count);
    return gg_fix(err, "give all shards in order: cat m-*.gguf");
}

static gg_status next_shard(gg_source *s, bool *more, gg_error *err)
{
    source_pipe *p = &s->pipe;
    *more = false;
    if (p->count < 2) return GG_OK;
    gg_status st = p->cut ? GG_OK : fill_pipe(p, 4, err);
    if (st != GG_OK) return st;
    if (p->no + 1 == p->count || p->len - p->pos < 4 || memcmp(p->buf + p->pos, "GGUF", 4) != 0)
        return end_of_set(s, err);
    *more = true;
    return read_pipe_header(s, err);
}

static gg_status start_pipe(gg_source *s, gg_error *err)
{
    source_pipe *p = &s->pipe;
    widen_pipe(p->fd);
    p->current = SIZE_MAX;
    s->kind = SOURCE_PIPE_RECORDS;
    gg_status st = fill_pipe(p, 4, err);
    if (st != GG_OK) return st;
    bool record = buffered(p) == 4 && p->buf[1] == 0 && p->buf[2] == 0 && p->buf[3] == 0;
    if (record) return GG_OK;
    s->kind = SOURCE_PIPE_MODEL;
    bool model = buffered(p) < 4 || memcmp(p->buf, "GGUF", 4) == 0;
    if (!model) st = fill_pipe(p, 96, err); /* enough to name another format */
    return st == GG_OK ? read_pipe_header(s, err) : st;
}

/* The data of a header_only source may end early. This is noted once, and reading stops. */
static gg_status tolerate_end(gg_source *s, uint64_t missing)
{
    if (!s->pipe.cut) note_cut(s, s->name, missing);
    s->pipe.cut = true;
    return GG_OK;
}

/* Reads and discards n bytes. */
static gg_status skip_bytes(source_pipe *p, uint64_t n, gg_error *err)
{
    uint8_t scratch[16384];
    while (n > 0) {
        size_t want = n < sizeof scratch ? (size_t)n : sizeof scratch, got = 0;
        gg_status st = take_from_pipe(p, scratch, want, &got, err);
        if (st != GG_OK) return st;
        if (got < want) return ends_early(n - got, err);
        n -= want;
    }
    return GG_OK;
}

/* Like skip_bytes, but tolerates an early end if the options allow it. */
static gg_status skip_or_end(gg_source *s, uint64_t n, gg_error *err)
{
    gg_error why = GG_ERROR_INIT;
    gg_status st = s->pipe.cut ? GG_OK : skip_bytes(&s->pipe, n, &why);
    if (st == GG_EFORMAT) return tolerate_end(s, n);
    gg_error_merge(err, &why);
    return st;
}

static gg_status finish_current(gg_source *s, gg_error *err)
{
    source_pipe *p = &s->pipe;
    if (p->current == SIZE_MAX) return GG_OK;
    const gg_tensor *t = gg_source_tensor(s, p->current);
    uint64_t left = t->bytes - p->taken;
    p->taken = t->bytes;
    bool may_end = s->o.header_only && s->kind == SOURCE_PIPE_MODEL;
    gg_status st = may_end ? skip_or_end(s, left, err) : skip_bytes(p, left, err);
    return st == GG_OK ? GG_OK : (gg_at_tensor(err, t->name, t->name_len), st);
}

/* Reads the padding before tensor i of the source, or after the last tensor of the shard. */
static gg_status take_pipe_padding(gg_source *s, size_t i, gg_error *err)
{
    source_pipe *p = &s->pipe;
    pipe_shard *shard = &p->shards[p->n_shards - 1];
    const gg_gguf *g = shard->header;
    size_t k = i - shard->first;
    if (g->n_tensors == 0 || p->cut) return GG_OK;
    const gg_tensor *before = k > 0 ? &g->tensors[k - 1] : NULL;
    uint64_t end = before ? before->offset + before->bytes : 0;
    uint64_t want = before ? gg_align_up(end, g->alignment) - end : g->data_start - g->header_bytes;
    if (want == 0) return GG_OK;
    uint8_t *bytes = malloc((size_t)want); /* below the alignment, which is capped */
    if (!bytes) return gg_fail(err, GG_ENOMEM, "no memory for padding");
    size_t got = 0;
    gg_status st = take_from_pipe(p, bytes, (size_t)want, &got, err);
    /* As in a file, only the padding after the last tensor may be cut off. */
    if (st == GG_OK && got < want && k < g->n_tensors) {
        uint64_t missing = want - got;
        for (size_t j = k; j < g->n_tensors; j++) missing += g->tensors[j].bytes;
        st = s->o.header_only ? tolerate_end(s, missing) : ends_early(missing, err);
    } else if (st == GG_OK && !padding_is_plain(bytes, got, (size_t)want)) {
        st = keep_padding(s, &shard->pads, before, bytes, got, err);
    }
    free(bytes);
    return st;
}

/* Goes to tensor i of a model, in this shard or in the next one with tensors. */
static gg_status next_of_model(gg_source *s, size_t i, bool *more, gg_error *err)
{
    gg_status st = take_pipe_padding(s, i, err);
    bool shard = true;
    while (st == GG_OK && i >= s->n && shard) {
        st = next_shard(s, &shard, err);
        if (st == GG_OK && shard) st = take_pipe_padding(s, i, err);
    }
    *more = i < s->n;
    return st;
}

static gg_status next_record(gg_source *s, bool *more, gg_error *err)
{
    source_pipe *p = &s->pipe;
    gg_status st = fill_pipe(p, GG_RECORD_HEADER, err);
    if (st != GG_OK) return st;
    *more = buffered(p) > 0;
    if (!*more) return GG_OK;
    gg_tensor t;
    size_t used = 0;
    if (s->n >= MOST_RECORDS) {
        gg_fail(err, GG_EUNSUPPORTED,
                "the stream has more than %zu organ records, so it is probably not an organ stream",
                s->n);
        return gg_fix(err, "give the organs in several streams");
    }
    st = gg_record_parse_alone(p->buf + p->pos, buffered(p), &t, &used, err);
    if (st == GG_OK && used == 0)
        st = gg_fail(err, GG_EFORMAT, "the input ends within the header of organ record %zu",
                     s->n + 1);
    if (st == GG_OK) st = append_record(s, &t, (record_place){ 0, 0 }, err);
    if (st == GG_OK) p->pos += used;
    return st;
}

static gg_status next_of_pipe(gg_source *s, size_t i, bool *more, gg_error *err)
{
    source_pipe *p = &s->pipe;
    if (i == p->current) return *more = true, GG_OK; /* already there, after a read */
    gg_status st = finish_current(s, err);
    if (st != GG_OK) return st;
    if (s->kind == SOURCE_PIPE_RECORDS) {
        st = next_record(s, more, err);
    } else {
        st = next_of_model(s, i, more, err);
    }
    p->current = st == GG_OK && *more ? i : SIZE_MAX;
    p->taken = 0;
    p->next = i + 1;
    return st;
}

/* Reads ahead to `offset` of tensor i, skipping the tensors before it. */
static gg_status read_ahead_to(gg_source *s, size_t i, uint64_t offset, gg_error *err)
{
    source_pipe *p = &s->pipe;
    bool more = true;
    while (p->next <= i && more) {
        gg_status st = next_of_pipe(s, p->next, &more, err);
        if (st != GG_OK) return st;
    }
    if (i != p->current || offset < p->taken)
        return gg_fail(err, GG_EUSAGE, "a pipe can only be read forward");
    gg_status st = skip_bytes(p, offset - p->taken, err);
    p->taken = offset;
    return st;
}

static gg_status read_pipe(gg_source *s, size_t i, uint64_t offset, void *buf, size_t n,
                           gg_error *err)
{
    gg_status st = read_ahead_to(s, i, offset, err);
    size_t got = 0;
    if (st == GG_OK) st = take_from_pipe(&s->pipe, buf, n, &got, err);
    if (st != GG_OK) return st;
    s->pipe.taken += got;
    return got == n ? GG_OK : ends_early(gg_source_tensor(s, i)->bytes - s->pipe.taken, err);
}

static gg_status copy_pipe(gg_source *s, size_t i, uint64_t offset, uint64_t n, gg_place out,
                           gg_error *err)
{
    source_pipe *p = &s->pipe;
    gg_status st = read_ahead_to(s, i, offset, err);
    if (st != GG_OK) return gg_at_file(err, s->name);
    size_t have = buffered(p) < n ? buffered(p) : (size_t)n;
    st = gg_put_all(out.fd, p->buf + p->pos, have, out.at, err);
    if (st != GG_OK) return st;
    p->pos += have;
    p->taken += have;
    out.at = gg_offset_after(out.at, have);
    st = gg_copy(s->name, (gg_place){ p->fd, GG_AT_POS }, out, n - have, err);
    p->taken += n - have;
    return st;
}

static gg_status drain_pipe(gg_source *s, int out, uint64_t *bytes, gg_error *err)
{
    uint8_t scratch[65536];
    *bytes = 0;
    for (;;) {
        size_t got = 0;
        gg_status st = take_from_pipe(&s->pipe, scratch, sizeof scratch, &got, err);
        if (st != GG_OK) return gg_at_file(err, s->name);
        if (out >= 0) st = gg_write_all(out, scratch, got, err);
        *bytes += got;
        if (st != GG_OK || got < sizeof scratch) return st;
    }
}

static void close_pipe(gg_source *s)
{
    source_pipe *p = &s->pipe;
    if (p->fd != STDIN_FILENO && p->fd > 0) close(p->fd);
    for (size_t i = 0; i < p->n_shards; i++) {
        gg_pads_free(p->shards[i].pads.list, p->shards[i].pads.n);
        gg_gguf_free(p->shards[i].header);
    }
    free(p->shards);
    free(p->buf);
}

/* ---- padding and trailing bytes of files -------------------------------------------- */

/* Checks the padding of a file that follows `after`, or the header if it is NULL. */
static gg_status check_padding(gg_source *s, size_t file, const gg_tensor *after, pad_list *pads,
                               gg_error *err)
{
    const gg_gguf *g = s->model->files[file];
    uint64_t data_end = after ? after->offset + after->bytes : 0;
    uint64_t at = after ? g->data_start + data_end : g->header_bytes;
    uint64_t end = g->data_start + gg_align_up(data_end, g->alignment);
    uint64_t size = s->model->file_sizes[file];
    size_t want = (size_t)(end - at), got = size < end ? (size_t)(size > at ? size - at : 0) : want;
    if (want == 0) return GG_OK;
    uint8_t *bytes = malloc(want);
    if (!bytes) return gg_fail(err, GG_ENOMEM, "no memory for padding");
    gg_status st = gg_pread_all(s->model->fds[file], bytes, got, at, err);
    if (st == GG_OK && !padding_is_plain(bytes, got, want))
        st = keep_padding(s, pads, after, bytes, got, err);
    free(bytes);
    return st;
}

gg_status gg_source_pads(gg_source *s, size_t file, gg_pad **pads, size_t *n, gg_error *err)
{
    pad_list found = { 0 };
    gg_status st = GG_OK;
    if (s->kind == SOURCE_PIPE_MODEL) {
        if (s->pad_bytes > MOST_PADDING) st = (too_much(err), gg_at_file(err, s->name));
        else if (file < s->pipe.n_shards) {
            found = s->pipe.shards[file].pads;
            s->pipe.shards[file].pads = (pad_list){ 0 };
        }
    } else if (s->model) {
        const gg_gguf *g = s->model->files[file];
        if (file == 0) s->pad_bytes = 0;
        if (g->n_tensors) st = check_padding(s, file, NULL, &found, err);
        for (size_t i = 0; i < g->n_tensors && st == GG_OK; i++)
            st = check_padding(s, file, &g->tensors[i], &found, err);
        if (st != GG_OK) gg_at_file(err, s->model->paths[file]);
    }
    *pads = found.list;
    *n = found.n;
    return st;
}

uint64_t gg_source_trailing(const gg_source *s, size_t file)
{
    if (!s->model) return 0;
    uint64_t end = s->model->files[file]->data_start + s->model->files[file]->data_bytes;
    return s->model->file_sizes[file] > end ? s->model->file_sizes[file] - end : 0;
}

gg_status gg_source_copy_trailing(gg_source *s, size_t file, int out, uint64_t *bytes,
                                  gg_error *err)
{
    *bytes = 0;
    /* On a pipe only the last shard can have trailing bytes. */
    if (s->checkpoint) return GG_OK;
    if (!s->model && file + 1 < s->pipe.n_shards) return GG_OK;
    if (!s->model) return drain_pipe(s, out, bytes, err);
    const gg_gguf *g = s->model->files[file];
    *bytes = gg_source_trailing(s, file);
    gg_place in = { s->model->fds[file], g->data_start + g->data_bytes };
    return gg_copy(s->model->paths[file], in, (gg_place){ out, GG_AT_POS }, *bytes, err);
}

/* ---- views ------------------------------------------------------------------------------- */

gg_status gg_source_view_open(gg_source *of, bool owned, gg_source **out, gg_error *err)
{
    size_t n = gg_source_count(of);
    gg_source *s = new_source(SOURCE_VIEW, gg_source_name(of), err);
    if (!s) return GG_ENOMEM;
    s->of = of;
    s->view.tensors = calloc(n + 1, sizeof *s->view.tensors);
    s->tensors = calloc(n + 1, sizeof *s->tensors);
    gg_status st = s->view.tensors && s->tensors ? GG_OK : no_memory(err);
    for (; s->n < n && st == GG_OK; s->n++) s->tensors[s->n] = *gg_source_tensor(of, s->n);
    st = opened(s, st, out, err);
    if (st == GG_OK) s->owned = owned;
    return st;
}

static void free_view(source_view *v, size_t n)
{
    for (unit_order *o = v->orders, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    for (size_t i = 0; v->tensors && i < n; i++) {
        free(v->tensors[i].rows);
        free(v->tensors[i].cols);
    }
    free(v->tensors);
}

bool gg_source_view_moved(const gg_source *view, size_t index)
{
    if (view->kind != SOURCE_VIEW) return false;
    const tensor_view *t = &view->view.tensors[index];
    return t->n_rows + t->n_cols > 0;
}

bool gg_source_view_decoded(const gg_source *view, size_t index)
{
    return view->kind == SOURCE_VIEW && view->view.tensors[index].decoded;
}

static gg_status insert_moved(moved **list, size_t *n, moved m, gg_error *err)
{
    if (GG_ROOM(*list, *n, NULL, err) != GG_OK) return GG_ENOMEM;
    size_t i = (*n)++;
    uint64_t key = m.s.columns ? m.s.row : m.s.first;
    for (; i > 0 && (m.s.columns ? (*list)[i - 1].s.row : (*list)[i - 1].s.first) > key; i--)
        (*list)[i] = (*list)[i - 1];
    (*list)[i] = m;
    return GG_OK;
}

static bool moves_whole_blocks(const gg_dtype_info *info, const gg_slice *s)
{
    return info->row_extra == 0 && s->first % info->block_elems == 0 &&
           s->per % info->block_elems == 0;
}

static gg_status move_slice(gg_source *view, moved m, gg_error *err)
{
    source_view *v = &view->view;
    const gg_tensor *stored = gg_source_tensor(view->of, m.s.index);
    tensor_view *t = &v->tensors[m.s.index];
    if (!m.s.columns) return insert_moved(&t->rows, &t->n_rows, m, err);
    gg_status st = insert_moved(&t->cols, &t->n_cols, m, err);
    if (st != GG_OK || moves_whole_blocks(gg_dtype_get(stored->dtype), &m.s)) return st;
    if (!gg_can_decode(stored->dtype)) {
        gg_fail(err, GG_EUNSUPPORTED, "%s cannot be decoded, so its columns cannot be reordered",
                gg_dtype_name(stored->dtype));
        return gg_at_tensor(err, stored->name, stored->name_len);
    }
    gg_tensor *shown = &view->tensors[m.s.index];
    t->decoded = true;
    shown->dtype = GG_F32;
    return gg_tensor_extent(GG_F32, shown->n_dims, shown->dims, NULL, &shown->bytes, err);
}

gg_status gg_source_view_move(gg_source *view, const gg_slice *slices, size_t n,
                              const uint32_t *from, size_t n_units, gg_error *err)
{
    unit_order *o = malloc(sizeof *o + n_units * sizeof o->from[0]);
    if (!o) return gg_fail(err, GG_ENOMEM, "no memory for an order of %zu units", n_units);
    *o = (unit_order){ .next = view->view.orders, .n = n_units };
    memcpy(o->from, from, n_units * sizeof *from);
    view->view.orders = o;
    gg_status st = GG_OK;
    for (size_t i = 0; i < n && st == GG_OK; i++)
        st = move_slice(view, (moved){ slices[i], o }, err);
    return st;
}

/* Bytes of a tensor to read: n from `at` on, into `to`. */
typedef struct view_span {
    uint64_t at;
    void *to;
    size_t n;
} view_span;

typedef struct view_reader {
    const tensor_view *v;
    const gg_tensor *stored;
    gg_data *in;
    uint64_t row_in, row_out;    /* bytes per row */
    uint64_t cell;               /* bytes that move together; 4 if decoded */
    uint8_t *raw;                /* consecutive rows as stored */
    float *values;               /* of one row, if decoded */
    uint8_t *row;                /* one row as shown */
    uint32_t *from;              /* by cell of a row */
    uint64_t from_row, from_end; /* the rows for which `from` is filled */
} view_reader;

/* The last moved slice that starts at or before the row; NULL if none. */
static const moved *slice_at(const moved *list, size_t n, uint64_t row, bool columns)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if ((columns ? list[mid].s.row : list[mid].s.first) <= row) low = mid + 1;
        else high = mid;
    }
    return low ? &list[low - 1] : NULL;
}

static uint64_t stored_row(const tensor_view *v, uint64_t row)
{
    const moved *m = slice_at(v->rows, v->n_rows, row, false);
    uint64_t unit = m ? (row - m->s.first) / m->s.per : 0;
    if (!m || unit >= m->order->n) return row;
    return m->s.first + m->order->from[unit] * m->s.per + (row - m->s.first) % m->s.per;
}

/* Fills r->from for this row and those that share its order. Slices whose rows start together
 * cover the same rows. */
static void fill_columns(view_reader *r, uint64_t row)
{
    const tensor_view *v = r->v;
    const gg_dtype_info *info = gg_dtype_get(r->stored->dtype);
    uint64_t cell = v->decoded ? 1 : info->block_elems, cells = r->stored->dims[0] / cell;
    const moved *m = slice_at(v->cols, v->n_cols, row, true);
    for (uint64_t c = 0; c < cells; c++) r->from[c] = (uint32_t)c;
    r->from_row = row;
    r->from_end = row + 1;
    if (!m || row - m->s.row >= m->s.rows) return;
    r->from_row = m->s.row;
    r->from_end = m->s.row + m->s.rows;
    for (uint64_t start = m->s.row; m >= v->cols && m->s.row == start; m--) {
        uint64_t first = m->s.first / cell, per = m->s.per / cell;
        for (uint64_t u = 0; u < m->order->n; u++)
            for (uint64_t k = 0; k < per; k++)
                r->from[first + u * per + k] = (uint32_t)(first + m->order->from[u] * per + k);
    }
}

static void move_cells(const view_reader *r, const uint8_t *from, uint64_t cells)
{
    uint8_t *to = r->row;
    size_t size = (size_t)r->cell;
    if (size == 2)
        for (uint64_t c = 0; c < cells; c++) memcpy(to + 2 * c, from + 2 * (size_t)r->from[c], 2);
    else if (size == 4)
        for (uint64_t c = 0; c < cells; c++) memcpy(to + 4 * c, from + 4 * (size_t)r->from[c], 4);
    else
        for (uint64_t c = 0; c < cells; c++) memcpy(to + size * c, from + size * r->from[c], size);
}

uint64_t gg_source_view_place(const gg_source *s, size_t index, uint64_t row, uint64_t *column)
{
    if (s->kind != SOURCE_VIEW) return row;
    const tensor_view *v = &s->view.tensors[index];
    const moved *m = slice_at(v->cols, v->n_cols, row, true);
    bool covers = m && row - m->s.row < m->s.rows;
    for (uint64_t start = m ? m->s.row : 0; covers && m->s.row == start; m--) {
        uint64_t at = *column - m->s.first, unit = at / m->s.per;
        bool found = *column >= m->s.first && unit < m->order->n;
        if (found) *column = m->s.first + m->order->from[unit] * m->s.per + at % m->s.per;
        if (found || m == v->cols) break;
    }
    return gg_source_view_place(s->of, index, stored_row(v, row), column);
}

/* Makes the row that is stored in `raw` as the view shows it, in r->row. */
static gg_status make_row(view_reader *r, uint64_t row, const uint8_t *raw, gg_error *err)
{
    if (row < r->from_row || row >= r->from_end) fill_columns(r, row);
    const uint8_t *from = raw;
    if (r->v->decoded) {
        gg_status st = gg_decode(r->stored->dtype, raw, r->values, (size_t)r->stored->dims[0], err);
        if (st != GG_OK) return st;
        from = (const uint8_t *)r->values;
    }
    move_cells(r, from, r->row_out / r->cell);
    return GG_OK;
}

/* Reads a span that lies in `rows` rows that are stored one after another. */
static gg_status read_run(view_reader *r, uint64_t rows, view_span span, gg_error *err)
{
    uint64_t row = span.at / r->row_out, skip = span.at % r->row_out;
    uint64_t from = stored_row(r->v, row) * r->row_in;
    uint8_t *to = span.to;
    size_t n = span.n;
    if (!r->v->n_cols) return gg_data_read(r->in, from + skip, to, n, err);
    gg_status st = gg_data_read(r->in, from, r->raw, (size_t)(rows * r->row_in), err);
    for (uint64_t i = 0; i < rows && st == GG_OK; i++) {
        size_t part = (size_t)(r->row_out - skip) < n ? (size_t)(r->row_out - skip) : n;
        st = make_row(r, row + i, r->raw + i * r->row_in, err);
        if (st != GG_OK) break;
        memcpy(to, r->row + skip, part);
        to += part;
        n -= part;
        skip = 0;
    }
    return st;
}

static gg_status reader_open(view_reader *r, gg_error *err)
{
    const gg_tensor *t = r->stored;
    gg_status st = gg_row_bytes(t->dtype, t->dims[0], &r->row_in, err);
    if (st != GG_OK) return st;
    r->cell = r->v->decoded ? sizeof(float) : gg_dtype_get(t->dtype)->block_bytes;
    r->row_out = r->v->decoded ? t->dims[0] * sizeof(float) : r->row_in;
    if (!r->v->n_cols) return GG_OK;
    size_t batch = r->row_in < BATCH ? BATCH : (size_t)r->row_in;
    r->raw = malloc(batch);
    r->values = malloc((size_t)t->dims[0] * sizeof *r->values);
    r->row = malloc((size_t)r->row_out);
    r->from = malloc((size_t)t->dims[0] * sizeof *r->from);
    return r->raw && r->values && r->row && r->from
               ? GG_OK
               : gg_fail(err, GG_ENOMEM, "no memory for a row of a tensor");
}

static void reader_close(view_reader *r)
{
    free(r->raw);
    free(r->values);
    free(r->row);
    free(r->from);
}

/* The number of rows from `row` on, below `most`, that are stored one after another. */
static uint64_t run_length(const view_reader *r, uint64_t row, uint64_t most)
{
    uint64_t n = 1, first = stored_row(r->v, row);
    while (n < most && (r->v->n_rows == 0 || stored_row(r->v, row + n) == first + n)) n++;
    return n;
}

static gg_status read_moved(gg_data *in, const source_view *v, size_t index, view_span span,
                            gg_error *err)
{
    view_reader r = { .v = &v->tensors[index],
                      .stored = gg_source_tensor(in->source, index),
                      .in = in };
    if ((!r.v->n_rows && !r.v->n_cols) || span.n == 0)
        return gg_data_read(in, span.at, span.to, span.n, err);
    gg_status st = reader_open(&r, err);
    while (span.n > 0 && st == GG_OK) {
        uint64_t row = span.at / r.row_out, skip = span.at % r.row_out;
        uint64_t most = (skip + span.n + r.row_out - 1) / r.row_out;
        if (r.v->n_cols && most > BATCH / r.row_in) most = BATCH / r.row_in ? BATCH / r.row_in : 1;
        uint64_t rows = run_length(&r, row, most), bytes = rows * r.row_out - skip;
        view_span part = { span.at, span.to, bytes < span.n ? (size_t)bytes : span.n };
        st = read_run(&r, rows, part, err);
        span = (view_span){ span.at + part.n, (uint8_t *)span.to + part.n, span.n - part.n };
    }
    reader_close(&r);
    return st;
}

/* ---- joined and divided tensors ------------------------------------------------------------ */

gg_status gg_source_join_open(gg_source *of, size_t most, gg_source **out, gg_error *err)
{
    gg_source *s = new_source(SOURCE_JOIN, gg_source_name(of), err);
    if (!s) return GG_ENOMEM;
    s->tensors = calloc(most + 1, sizeof *s->tensors);
    s->join = calloc(most + 1, sizeof *s->join);
    s->of = of;
    if (s->tensors && s->join) return *out = s, GG_OK;
    gg_source_close(s);
    return no_memory(err);
}

gg_status gg_source_join_add(gg_source *s, const gg_tensor *t, const gg_strip *strips, size_t n,
                             uint64_t unit, gg_error *err)
{
    gg_tensor *to = &s->tensors[s->n];
    joined *j = &s->join[s->n];
    *to = *t;
    to->name = gg_names_add(&s->names, t->name, t->name_len, err);
    if (!to->name) return err->status;
    *j = (joined){ .n = n, .unit = unit };
    memcpy(j->strips, strips, (n ? n : 1) * sizeof *strips);
    s->n++;
    return gg_tensor_extent(to->dtype, to->n_dims, to->dims, &to->elements, &to->bytes, err);
}

gg_status gg_source_join_end(gg_source *s, bool owned, gg_error *err)
{
    gg_status st = gg_name_index(s->tensors, s->n, &s->by_name, err);
    s->owned = owned && st == GG_OK;
    return st;
}

/* Reads whole rows, or a part of one, that lie in one strip of one slice, and decodes them if they
 * have another dtype than the joined tensor. At most *n bytes; sets *n to their number. */
static gg_status read_strip(gg_source *s, size_t index, uint64_t at, uint8_t *to, size_t *n,
                            gg_error *err)
{
    const joined *j = &s->join[index];
    uint64_t row_out, row_in, rows = 0, row, first;
    size_t k = 0;
    gg_status st = gg_row_bytes(s->tensors[index].dtype, j->unit, &row_out, err);
    if (st != GG_OK) return st;
    for (size_t i = 0; i < j->n; i++) rows += j->strips[i].rows;
    row = at / row_out % rows;
    for (; row >= j->strips[k].rows; k++) row -= j->strips[k].rows;
    const gg_strip *strip = &j->strips[k];
    const gg_tensor *from = gg_source_tensor(s->of, strip->index);
    first = at / row_out / rows * strip->every + strip->first + row;
    bool decoded = from->dtype != s->tensors[index].dtype;
    uint64_t left = (decoded ? 1 : strip->rows - row) * row_out - at % row_out;
    if (left < *n) *n = (size_t)left;
    st = gg_row_bytes(from->dtype, j->unit, &row_in, err);
    gg_data d;
    if (st == GG_OK) st = gg_data_open(s->of, strip->index, &d, err);
    if (st != GG_OK) return st;
    if (!decoded) {
        st = gg_data_read(&d, first * row_in + at % row_out, to, *n, err);
    } else {
        uint8_t *raw = malloc((size_t)row_in);
        float *values = malloc((size_t)row_out);
        st = raw && values ? gg_data_read(&d, first * row_in, raw, (size_t)row_in, err)
                           : gg_fail(err, GG_ENOMEM, "no memory for a row of a tensor");
        if (st == GG_OK) st = gg_decode(from->dtype, raw, values, (size_t)j->unit, err);
        if (st == GG_OK) memcpy(to, (uint8_t *)values + at % row_out, *n);
        free(values);
        free(raw);
    }
    gg_data_close(&d);
    return st;
}

static gg_status read_joined(const gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err)
{
    uint8_t *to = buf;
    gg_status st = GG_OK;
    if (d->source->join[d->index].n == 0) { /* in a view of this source */
        gg_data in;
        st = gg_data_open(d->source, d->index, &in, err);
        if (st != GG_OK) return st;
        st = gg_data_read(&in, offset, buf, n, err);
        gg_data_close(&in);
        return st;
    }
    while (n > 0 && st == GG_OK) {
        size_t got = n;
        st = read_strip(d->source, d->index, offset, to, &got, err);
        to += got;
        offset += got;
        n -= got;
    }
    return st;
}

/* ---- files ------------------------------------------------------------------------------- */

static void note_model(const gg_source *s)
{
    const gg_model *m = s->model;
    if (m->shard_count) {
        partial_set set = { m->first_shard, m->n_files,     m->shard_count,
                            m->n_tensors,   m->set_tensors, m->missing };
        note_partial(s, &set);
    }
    for (size_t f = 0; f < m->n_files && s->o.header_only; f++) {
        const gg_gguf *g = m->files[f];
        const gg_tensor *t = g->n_tensors ? &g->tensors[g->n_tensors - 1] : NULL;
        uint64_t end = t ? g->data_start + t->offset + t->bytes : g->data_start;
        if (end > m->file_sizes[f]) note_cut(s, m->paths[f], end - m->file_sizes[f]);
    }
}

static gg_status open_model(gg_source *s, const char *path, gg_error *err)
{
    s->kind = SOURCE_MODEL;
    gg_model_options o = { .lone_shards = s->o.note != NULL, .cut_data = s->o.header_only };
    gg_status st = gg_model_open(path, &o, &s->model, err);
    if (st != GG_OK) return st;
    s->tensors = s->model->tensors;
    s->n = s->model->n_tensors;
    note_model(s);
    return GG_OK;
}

static gg_status open_dir(gg_source *s, const char *path, gg_error *err)
{
    s->kind = SOURCE_DIR;
    gg_status st = gg_manifest_load(path, &s->manifest, err);
    if (st != GG_OK) return st;
    s->tensors = calloc(s->manifest->n_entries ? s->manifest->n_entries : 1, sizeof *s->tensors);
    if (!s->tensors) return no_memory(err);
    s->n = s->manifest->n_entries;
    for (size_t i = 0; i < s->n; i++) s->tensors[i] = s->manifest->entries[i].t;
    gg_unique_name_index(s->tensors, s->n, "this tensor appears twice in " GG_MANIFEST, &s->by_name,
                         err);
    gg_fix(err, "correct " GG_MANIFEST ", or extract the model again");
    return gg_at_file(err, path);
}

/* Reads the headers of all records of one open file. */
static gg_status scan_records(gg_source *s, size_t path, int fd, gg_error *err)
{
    struct stat st_buf;
    if (fstat(fd, &st_buf) != 0) return gg_fail_errno(err, "cannot get the file's size");
    uint64_t size = (uint64_t)st_buf.st_size, at = 0;
    while (at < size) {
        uint8_t head[GG_RECORD_HEADER];
        size_t n = size - at < sizeof head ? (size_t)(size - at) : sizeof head, used;
        gg_tensor t;
        gg_status st = gg_pread_all(fd, head, n, at, err);
        if (st == GG_OK) st = gg_record_parse_alone(head, n, &t, &used, err);
        if (st == GG_OK && used == 0)
            st = gg_fail(err, GG_EFORMAT, "the file ends within the header of an organ record");
        if (st != GG_OK) return gg_at_offset(err, at);
        at += used;
        if (t.bytes > size - at) {
            gg_fail(err, GG_EFORMAT, "the data is incomplete: the file has %llu of %llu bytes",
                    (unsigned long long)(size - at), (unsigned long long)t.bytes);
            gg_at_tensor(err, t.name, t.name_len);
            return gg_at_offset(err, at);
        }
        if ((st = append_record(s, &t, (record_place){ path, at }, err)) != GG_OK) return st;
        at += t.bytes;
    }
    return GG_OK;
}

static gg_status add_record_file(gg_source *s, const char *path, gg_error *err)
{
    if (GG_ROOM(s->paths, s->n_paths, NULL, err) != GG_OK) return GG_ENOMEM;
    if (GG_ROOM(s->stamps, s->n_paths, NULL, err) != GG_OK) return GG_ENOMEM;
    if (!(s->paths[s->n_paths] = strdup(path))) return no_memory(err);
    s->n_paths++;
    int fd = gg_open_read(path, err);
    if (fd < 0) return err->status;
    s->stamps[s->n_paths - 1] = gg_stamp_fd(fd);
    if (scan_records(s, s->n_paths - 1, fd, err) == GG_EFORMAT) advise_records(err);
    close(fd);
    return gg_at_file(err, path);
}

static gg_status open_checkpoint(gg_source *s, const char *path, gg_error *err)
{
    s->kind = SOURCE_CHECKPOINT;
    gg_ck_adapter adapter = { s->o.adapter_base, s->o.adapter_alpha };
    gg_status st = gg_checkpoint_open(path, &adapter, &s->checkpoint, err);
    if (st != GG_OK) return st;
    s->tensors = s->checkpoint->header.tensors;
    s->n = s->checkpoint->header.n_tensors;
    if (s->checkpoint->note[0]) send_note(s, path, s->checkpoint->note);
    return GG_OK;
}

gg_hf_beside gg_source_hf_beside(const gg_source *s)
{
    const gg_checkpoint *ck = s->checkpoint;
    return (gg_hf_beside){ ck->beside_name, ck->beside, ck->order, ck->note };
}

gg_status gg_source_of_checkpoint(gg_checkpoint *ck, const char *name, gg_source **out,
                                  gg_error *err)
{
    gg_source *s = new_source(SOURCE_CHECKPOINT, name, err);
    if (!s) return gg_checkpoint_close(ck), GG_ENOMEM;
    s->checkpoint = ck;
    s->tensors = ck->header.tensors;
    s->n = ck->header.n_tensors;
    return opened(s, GG_OK, out, err);
}

typedef enum spec_kind {
    SPEC_GGUF,
    SPEC_DIR,
    SPEC_RECORDS,
    SPEC_PIPE,
    SPEC_CHECKPOINT,
    SPEC_BAD
} spec_kind;

/* Whether it is standard input, a FIFO or a device. */
static bool is_pipe(const char *spec)
{
    struct stat s;
    return strcmp(spec, "-") == 0 ||
           (stat(spec, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode));
}

static spec_kind kind_of_spec(const char *spec, gg_error *err)
{
    struct stat s;
    if (is_pipe(spec)) return SPEC_PIPE;
    if (stat(spec, &s) != 0) {
        gg_fail_errno(err, "cannot open");
        if (err->sys_errno == ENOENT) gg_fix(err, "check the path");
        gg_at_file(err, spec);
        return SPEC_BAD;
    }
    if (gg_is_checkpoint(spec)) return SPEC_CHECKPOINT;
    if (S_ISDIR(s.st_mode)) return SPEC_DIR;
    char magic[32] = "";
    int fd = gg_open_read(spec, err);
    if (fd < 0) return SPEC_BAD;
    size_t got = 0;
    gg_status st = gg_read_some(fd, magic, sizeof magic, &got, err);
    close(fd);
    if (st != GG_OK) {
        gg_at_file(err, spec);
        return SPEC_BAD;
    }
    /* A record starts with the length of its name, which is so small that its high bytes are 0. */
    if (memcmp(magic, "GGUF", 4) == 0 || gg_text_ends(spec, strlen(spec), ".gguf"))
        return SPEC_GGUF;
    if (gg_is_other_kind((const uint8_t *)magic, got)) return SPEC_GGUF; /* for its message */
    return gg_text_ends(spec, strlen(spec), ".bin") ||
                   (got >= 4 && magic[1] == 0 && magic[2] == 0 && magic[3] == 0)
               ? SPEC_RECORDS
               : SPEC_GGUF;
}

static gg_status open_pipe(gg_source *s, const char *spec, gg_error *err)
{
    s->pipe.fd = strcmp(spec, "-") == 0 ? STDIN_FILENO : open(spec, O_RDONLY | O_CLOEXEC);
    if (s->pipe.fd < 0) gg_fail_errno(err, "cannot open");
    else if (isatty(s->pipe.fd)) {
        gg_fail(err, GG_EUSAGE,
                s->pipe.fd == STDIN_FILENO ? "standard input is a terminal"
                                           : "this is a terminal, not a model");
        gg_fix(err, "pipe a model or an organ stream into the command");
        if (s->pipe.fd != STDIN_FILENO) close(s->pipe.fd);
    } else {
        s->pipe.stamp = gg_stamp_fd(s->pipe.fd);
        start_pipe(s, err);
    }
    return gg_at_file(err, spec);
}

static gg_status open_pipe_spooled(const char *spec, const gg_source_options *o, gg_source **out,
                                   gg_error *err);

/* Opens `path`, whose name for users is `name`. The source then owns fd, unless it is -1; on
 * failure fd is closed. */
static gg_status open_named(const char *path, const char *name, int fd, const gg_source_options *o,
                            gg_source **out, gg_error *err)
{
    spec_kind kind = kind_of_spec(path, err);
    gg_source *s = kind == SPEC_BAD ? NULL : new_source(SOURCE_RECORDS, name, err);
    if (!s && fd >= 0) close(fd);
    if (!s) return err->status;
    if (o) s->o = *o;
    s->own_fd = fd + 1;
    gg_status st = kind == SPEC_PIPE         ? open_pipe(s, path, err)
                   : kind == SPEC_DIR        ? open_dir(s, path, err)
                   : kind == SPEC_CHECKPOINT ? open_checkpoint(s, path, err)
                   : kind == SPEC_RECORDS    ? add_record_file(s, path, err)
                                             : open_model(s, path, err);
    return opened(s, st, out, err);
}

/* Opens `spec` and o->more as one source. */
static gg_status open_record_files(const char *spec, const gg_source_options *o, gg_source **out,
                                   gg_error *err)
{
    gg_source *s = new_source(SOURCE_RECORDS, spec, err);
    if (!s) return GG_ENOMEM;
    s->o.changed = o->changed;
    gg_status st = GG_OK;
    for (size_t i = 0; i <= o->n_more && st == GG_OK; i++) {
        const char *path = i ? o->more[i - 1] : spec;
        spec_kind kind = kind_of_spec(path, err);
        if (kind == SPEC_BAD) st = err->status;
        else if (kind == SPEC_RECORDS) st = add_record_file(s, path, err);
        else {
            st = gg_fail(err, GG_EUSAGE,
                         "this is not an organ record file; several inputs must all be record "
                         "files");
            gg_at_file(err, path);
        }
    }
    return opened(s, st, out, err);
}

gg_status gg_source_open_with(const char *spec, const gg_source_options *o, gg_source **out,
                              gg_error *err)
{
    if (o && o->n_more) return open_record_files(spec, o, out, err);
    if (o && o->spooled && is_pipe(spec)) return open_pipe_spooled(spec, o, out, err);
    return open_named(spec, spec, -1, o, out, err);
}

gg_status gg_source_open(const char *spec, gg_source **out, gg_error *err)
{
    gg_source_options o = { .spooled = true };
    return gg_source_open_with(spec, &o, out, err);
}

/* ---- contents ---------------------------------------------------------------------------- */

void gg_source_close(gg_source *s)
{
    if (!s) return;
    if (s->o.changed && s->o.changed->status == GG_OK) gg_source_unchanged(s, s->o.changed);
    if (s->kind == SOURCE_PIPE_MODEL || s->kind == SOURCE_PIPE_RECORDS) close_pipe(s);
    for (size_t i = 0; s->kind == SOURCE_PIPE_RECORDS && i < s->n; i++) free(s->streamed[i]);
    free(s->streamed);
    if (s->own_fd) close(s->own_fd - 1);
    free(s->places);
    gg_names_free(&s->names);
    if (s->kind == SOURCE_DIR || s->kind >= SOURCE_VIEW || s->kind == SOURCE_RECORDS)
        free(s->tensors);
    if (s->owned) gg_source_close(s->of);
    free(s->join);
    free_view(&s->view, s->n);
    for (size_t i = 0; i < s->n_paths; i++) free(s->paths[i]);
    free(s->paths);
    free(s->stamps);
    free(s->by_name);
    gg_model_free(s->model);
    gg_checkpoint_close(s->checkpoint);
    gg_manifest_free(s->manifest);
    free(s->name);
    free(s);
}

const char *gg_source_name(const gg_source *s)
{
    return s->name;
}

bool gg_source_seekable(const gg_source *s)
{
    return s->kind != SOURCE_PIPE_MODEL && s->kind != SOURCE_PIPE_RECORDS;
}

const gg_meta *gg_source_meta(const gg_source *s)
{
    if (s->of) return gg_source_meta(s->of);
    if (s->manifest) return &s->manifest->meta;
    const gg_gguf *header = gg_source_header(s);
    if (s->checkpoint && !s->checkpoint->has_keys) return NULL;
    return header ? &header->meta : NULL;
}

const gg_model *gg_source_model(const gg_source *s)
{
    return s->kind == SOURCE_JOIN ? gg_source_model(s->of) : s->model;
}

const gg_gguf *gg_source_header(const gg_source *s)
{
    return gg_source_files(s) ? gg_source_file(s, 0) : NULL;
}

size_t gg_source_files(const gg_source *s)
{
    return s->model ? s->model->n_files : s->checkpoint ? 1 : s->pipe.n_shards;
}

const gg_gguf *gg_source_file(const gg_source *s, size_t i)
{
    if (s->checkpoint) return &s->checkpoint->header;
    return s->model ? s->model->files[i] : s->pipe.shards[i].header;
}

bool gg_source_grows(const gg_source *s)
{
    return s->kind == SOURCE_PIPE_RECORDS ||
           (s->kind == SOURCE_PIPE_MODEL && s->pipe.no + 1 < s->pipe.count);
}

const gg_manifest *gg_source_manifest(const gg_source *s)
{
    return s->manifest;
}

bool gg_source_is_checkpoint(const gg_source *s)
{
    return s->checkpoint && s->checkpoint->has_keys &&
           !gg_meta_find(&s->checkpoint->header.meta, "tokenizer.ggml.tokens");
}

size_t gg_source_count(const gg_source *s)
{
    return s->n;
}

const gg_tensor *gg_source_tensor(const gg_source *s, size_t i)
{
    return s->streamed ? s->streamed[i] : &s->tensors[i];
}

gg_anatomy gg_source_anatomy(const gg_source *s, size_t i)
{
    const gg_tensor *t = gg_source_tensor(s, i);
    if (s->kind == SOURCE_VIEW) return gg_source_anatomy(s->of, i);
    if (s->of && s->join[i].n == 0) return gg_source_anatomy(s->of, s->join[i].strips[0].index);
    return s->manifest ? s->manifest->entries[i].a : gg_anatomy_of(t->name, t->name_len);
}

gg_status gg_source_next(gg_source *s, size_t i, bool *more, gg_error *err)
{
    if (!gg_source_seekable(s)) {
        if (next_of_pipe(s, i, more, err) == GG_EFORMAT) advise_records(err);
        return gg_at_file(err, s->name);
    }
    *more = i < s->n;
    return GG_OK;
}

size_t gg_source_find(const gg_source *s, const char *name, size_t name_len)
{
    if (!s->by_name) return SIZE_MAX;
    return gg_name_index_find(s->tensors, s->by_name, s->n, name, name_len);
}

/* ---- data -------------------------------------------------------------------------------- */

/* The file name for errors: for a split model, that of the shard. */
static const char *data_name(const gg_data *d)
{
    const gg_source *s = d->source;
    if (s->kind == SOURCE_MODEL && s->model->n_files > 1)
        return s->model->paths[s->tensors[d->index].file];
    if (s->checkpoint) return gg_checkpoint_file(s->checkpoint, d->index);
    return s->kind == SOURCE_RECORDS ? s->paths[s->places[d->index].path] : s->name;
}

static gg_status data_error(const gg_data *d, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(d->source, d->index);
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, data_name(d));
}

/* Opens a .bin file of a directory. Its header was checked when the manifest was loaded. */
static gg_status open_entry(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    const gg_entry *e = &s->manifest->entries[i];
    uint8_t head[GG_RECORD_HEADER];
    char *path = gg_path_in(s->name, e->file, err);
    if (path) d->fd = gg_open_read(path, err);
    d->at = gg_record_header(&e->t, head);
    d->close_fd = true;
    free(path);
    return err->status;
}

/* A view must be read with gg_data_read, so its descriptor is hidden. */
static gg_status open_view(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    gg_data in;
    gg_status st = gg_data_open(s->of, i, &in, err);
    if (st != GG_OK) return st;
    d->at = in.at;
    d->close_fd = in.close_fd;
    d->hidden = in.fd >= 0 ? in.fd : in.hidden; /* a view of a view */
    return GG_OK;
}

static gg_status read_view(gg_data *d, view_span span, gg_error *err)
{
    gg_source *of = d->source->of;
    gg_data in = { .source = of, .index = d->index, .fd = -1, .at = d->at, .hidden = -1 };
    *(of->kind == SOURCE_VIEW ? &in.hidden : &in.fd) = d->hidden;
    in.bytes = gg_source_tensor(of, d->index)->bytes;
    in.cache = d->cache;
    gg_status st = read_moved(&in, &d->source->view, d->index, span, err);
    d->cache = in.cache;
    return st;
}

gg_status gg_data_open(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    *d = (gg_data){
        .source = s, .index = i, .fd = -1, .bytes = gg_source_tensor(s, i)->bytes, .hidden = -1
    };
    switch (s->kind) {
    case SOURCE_JOIN:
        if (s->join[i].n) return GG_OK;
        return gg_data_open(s->of, s->join[i].strips[0].index, d, err);
    case SOURCE_MODEL:
        d->fd = s->model->fds[s->tensors[i].file];
        d->at = gg_model_at(s->model, &s->tensors[i]);
        return GG_OK;
    case SOURCE_DIR: return open_entry(s, i, d, err);
    case SOURCE_RECORDS:
        d->fd = gg_open_read(s->paths[s->places[i].path], err);
        d->at = s->places[i].at;
        d->close_fd = true;
        return err->status;
    case SOURCE_CHECKPOINT: {
        gg_place place;
        if (gg_checkpoint_place(s->checkpoint, i, &place)) d->fd = place.fd, d->at = place.at;
        return GG_OK;
    }
    case SOURCE_PIPE_MODEL:
    case SOURCE_PIPE_RECORDS: break;
    case SOURCE_VIEW: return open_view(s, i, d, err);
    }
    return GG_OK;
}

/* All bytes of the strips of a joined tensor. */
static void joined_reads(const gg_source *s, const joined *j, gg_reads r)
{
    for (size_t k = 0; k < j->n; k++) {
        const gg_strip *strip = &j->strips[k];
        const gg_tensor *t = gg_source_tensor(s->of, strip->index);
        uint64_t rows = j->unit ? t->elements / j->unit : 0, row = rows ? t->bytes / rows : 0;
        r.n = strip->rows * row;
        for (uint64_t slice = 0; slice < rows; slice += strip->every) {
            r.from = (slice + strip->first) * row;
            gg_source_reads(s->of, strip->index, r);
        }
    }
}

void gg_source_reads(const gg_source *s, size_t i, gg_reads r)
{
    if (s->kind == SOURCE_VIEW) gg_source_reads(s->of, i, r);
    else if (s->of && s->join[i].n) joined_reads(s, &s->join[i], r);
    else if (s->of) gg_source_reads(s->of, s->join[i].strips[0].index, r);
    else if (s->kind == SOURCE_MODEL)
        r.read(r.ctx, s->model->paths[s->tensors[i].file],
               gg_model_at(s->model, &s->tensors[i]) + r.from, r.n);
}

gg_status gg_data_read(gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err)
{
    if (d->source->kind == SOURCE_VIEW) return read_view(d, (view_span){ offset, buf, n }, err);
    if (d->source->kind == SOURCE_JOIN) return read_joined(d, offset, buf, n, err);
    const gg_checkpoint *ck = d->source->checkpoint;
    gg_status st = d->fd >= 0 ? gg_pread_all(d->fd, buf, n, d->at + offset, err)
                   : ck       ? gg_checkpoint_read(ck, d->index, &d->cache,
                                                   (gg_ck_span){ offset, buf, n }, err)
                              : read_pipe(d->source, d->index, offset, buf, n, err);
    return st == GG_OK ? GG_OK : data_error(d, err);
}

/* Copies what has no place in a file. */
static gg_status copy_made(gg_data *d, uint64_t offset, uint64_t n, gg_place out, gg_error *err)
{
    uint8_t buf[65536];
    gg_status st = GG_OK;
    for (uint64_t done = 0; done < n && st == GG_OK;) {
        size_t step = n - done < sizeof buf ? (size_t)(n - done) : sizeof buf;
        st = gg_data_read(d, offset + done, buf, step, err);
        if (st == GG_OK) st = gg_put_all(out.fd, buf, step, gg_offset_after(out.at, done), err);
        done += step;
    }
    return st;
}

gg_status gg_data_copy(gg_data *d, uint64_t offset, uint64_t n, gg_place out, gg_error *err)
{
    if (d->source->of || (d->source->checkpoint && d->fd < 0))
        return copy_made(d, offset, n, out, err);
    if (d->fd < 0) copy_pipe(d->source, d->index, offset, n, out, err);
    else gg_copy(data_name(d), (gg_place){ d->fd, d->at + offset }, out, n, err);
    bool writing = err->status == GG_EIO && !err->file[0]; /* the caller adds the output's name */
    return err->status == GG_OK || writing ? err->status : data_error(d, err);
}

void gg_data_close(gg_data *d)
{
    int fd = d->hidden >= 0 ? d->hidden : d->fd;
    if (d->close_fd && fd >= 0) close(fd);
    gg_checkpoint_end_reading(d->cache);
    d->cache = NULL;
    d->fd = d->hidden = -1;
}

/* ---- changed files ----------------------------------------------------------------------- */

static gg_status each_file_of_dir(const gg_source *s, gg_source_file_fn *fn, void *ctx,
                                  gg_error *err)
{
    const gg_manifest *m = s->manifest;
    gg_status st = GG_OK;
    for (size_t i = 0; i <= m->n_entries && st == GG_OK; i++) {
        const gg_entry *e = i ? &m->entries[i - 1] : NULL; /* first the manifest itself */
        char *path = gg_path_in(s->name, e ? e->file : GG_MANIFEST, err);
        st = path ? fn(ctx, e ? &e->stamp : &m->stamp, -1, path, err) : GG_ENOMEM;
        free(path);
    }
    return st;
}

gg_status gg_source_each_file(const gg_source *s, gg_source_file_fn *fn, void *ctx, gg_error *err)
{
    while (s && s->of) s = s->of;
    if (!s) return GG_OK;
    if (s->manifest) return each_file_of_dir(s, fn, ctx, err);
    gg_status st = GG_OK;
    const gg_model *m = s->model;
    for (size_t i = 0; m && i < m->n_files && st == GG_OK; i++)
        st = fn(ctx, &m->stamps[i], m->fds[i], s->own_fd ? s->name : m->paths[i], err);
    const gg_checkpoint *ck = s->checkpoint;
    for (size_t i = 0; ck && i < ck->n_files && st == GG_OK; i++)
        st = fn(ctx, &ck->files[i].stamp, ck->files[i].fd, ck->files[i].path, err);
    for (size_t i = 0; i < s->n_paths && st == GG_OK; i++)
        st = fn(ctx, &s->stamps[i], -1, s->paths[i], err);
    if (st == GG_OK && !gg_source_seekable(s))
        st = fn(ctx, &s->pipe.stamp, s->pipe.fd, s->name, err);
    return st;
}

static gg_status check_file(void *ctx, const gg_stamp *was, int fd, const char *path, gg_error *err)
{
    (void)ctx;
    bool same = fd >= 0 ? gg_stamp_holds_fd(was, fd) : gg_stamp_holds_name(was, path);
    return same ? GG_OK : gg_fail_changed(path, err);
}

gg_status gg_source_unchanged(const gg_source *s, gg_error *err)
{
    return gg_source_each_file(s, check_file, NULL, err);
}

/* ---- pipes in temporary files ------------------------------------------------------------ */

/* The file has no name, so nothing is left behind. */

static const char *temp_folder(void)
{
    const char *dir = getenv("TMPDIR");
    return dir && dir[0] ? dir : "/tmp";
}

static gg_status advise_room(const char *what, gg_error *err)
{
    err->fix[0] = '\0';
    gg_fix(err, "set TMPDIR to a folder with room for the %s", what);
    return gg_at_file(err, temp_folder());
}

int gg_unnamed_file(gg_error *err)
{
    char path[512];
    snprintf(path, sizeof path, "%.480s/organ-XXXXXX", temp_folder());
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        gg_fail_errno(err, "cannot create a temporary file");
        advise_room("model", err);
    } else {
        unlink(path);
    }
    return fd;
}

/* Opens the spooled copy of `spec` by the /dev/fd name of its descriptor. */
static gg_status open_spooled(int fd, const char *spec, const gg_source_options *o, gg_source **out,
                              gg_error *err)
{
    char path[48];
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    gg_status st = open_named(path, spec, fd, o, out, err);
    if (st != GG_OK) err->file[0] = '\0'; /* the caller names the pipe instead of /dev/fd */
    return st;
}

/* Copies a pipe, of which no tensor was read yet, to a new file. */
static gg_status store_pipe(gg_source *pipe, int *fd, gg_error *err)
{
    const gg_gguf *g = gg_source_header(pipe);
    uint64_t rest;
    *fd = gg_unnamed_file(err);
    if (*fd < 0) return err->status;
    gg_status st = g ? gg_write_all(*fd, g->raw, (size_t)g->header_bytes, err) : GG_OK;
    if (st == GG_OK) st = drain_pipe(pipe, *fd, &rest, err);
    if (st == GG_EIO && !err->file[0]) advise_room("model", err);
    return st == GG_OK ? gg_source_unchanged(pipe, err) : st;
}

static gg_status open_pipe_spooled(const char *spec, const gg_source_options *o, gg_source **out,
                                   gg_error *err)
{
    gg_source *pipe;
    int fd;
    gg_status st = open_named(spec, spec, -1, o, &pipe, err);
    if (st != GG_OK) return st;
    st = store_pipe(pipe, &fd, err);
    gg_source_close(pipe); /* before its header is read again */
    if (st == GG_OK) st = open_spooled(fd, spec, o, out, err);
    else if (fd >= 0) close(fd);
    return st == GG_OK ? GG_OK : gg_at_file(err, spec);
}

gg_status gg_source_store(gg_source *pipe, gg_source **out, gg_error *err)
{
    int fd;
    gg_status st = store_pipe(pipe, &fd, err);
    if (st == GG_OK) st = open_spooled(fd, gg_source_name(pipe), &pipe->o, out, err);
    else if (fd >= 0) close(fd);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(pipe));
}

gg_status gg_data_spool(gg_data *d, uint64_t offset, uint64_t n, gg_error *err)
{
    if (d->fd >= 0) return GG_OK;
    int fd = gg_unnamed_file(err);
    if (fd < 0) return err->status;
    gg_status st = gg_data_copy(d, offset, n, (gg_place){ fd, offset }, err);
    if (st == GG_EIO && !err->file[0]) advise_room("largest tensor", err);
    if (st != GG_OK) {
        close(fd);
        return st;
    }
    d->fd = fd;
    d->at = 0;
    d->close_fd = true;
    return GG_OK;
}
