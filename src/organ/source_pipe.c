/* source_pipe.c - models, shards and organ records on a pipe, which is read once from front to
 * back. A small buffer keeps bytes that were read ahead: the first bytes tell a model from a
 * stream, and the length of a record's header is not known in advance. Tensor data bypasses the
 * buffer. */
#define _GNU_SOURCE /* F_SETPIPE_SZ */
#include "source.h"

#include "base/error.h"
#include "base/grow.h"
#include "gguf/first_bytes.h"
#include "record.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AHEAD ((size_t)64 << 10)
#define MOST_RECORDS ((size_t)1 << 17) /* enough for the largest models, one record per expert */

/* One GGUF on a pipe: a model or a shard of one. */
typedef struct pipe_shard {
    size_t first; /* index of its first tensor in the source */
    gg_pad_list pads;
} pipe_shard;

/* The headers of a model are those of its shards so far; the data of the last one is being read. */
typedef struct source_pipe {
    gg_source s;
    int fd;
    bool records;       /* it is an organ stream */
    gg_stamp stamp;     /* of the file that stdin is, if it is one */
    pipe_shard *shards; /* one per header */
    uint64_t no, count; /* split.no of the last shard, and split.count; count 1 = not split */
    gg_names names;     /* of records */
    uint8_t *buf;       /* bytes read ahead: [pos, len) */
    size_t pos, len, cap;
    bool end;       /* the descriptor is at its end */
    size_t current; /* tensor whose data is being read; SIZE_MAX before the first */
    uint64_t taken; /* bytes of that tensor already read */
    size_t next;    /* the next tensor */
    bool cut;       /* the data ended early (header_only) */
} source_pipe;

static source_pipe *pipe_of(const gg_source *s)
{
    return (source_pipe *)(uintptr_t)s;
}

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
    if (s->n_headers == 1 && !s->grows) {
        s->tensors = g->tensors;
        s->n = g->n_tensors;
        return GG_OK;
    }
    gg_tensor **grown = realloc(s->streamed, (s->n + g->n_tensors + 1) * sizeof *grown);
    if (!grown) return gg_source_no_memory(err);
    s->streamed = grown;
    for (size_t i = 0; i < g->n_tensors; i++) {
        g->tensors[i].file = (uint32_t)(s->n_headers - 1);
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
    source_pipe *p = pipe_of(s);
    uint8_t *surplus;
    size_t surplus_len;
    uint64_t no, count;
    if (GG_ROOM(p->shards, s->n_headers, NULL, err) != GG_OK) return GG_ENOMEM;
    if (GG_ROOM(s->headers, s->n_headers, NULL, err) != GG_OK) return GG_ENOMEM;
    gg_gguf *g;
    gg_status st = gg_gguf_read_pipe(p->fd, p->buf + p->pos, p->len - p->pos, &g, &surplus,
                                     &surplus_len, err);
    if (st != GG_OK) return st;
    p->shards[s->n_headers] = (pipe_shard){ .first = s->n };
    s->headers[s->n_headers++] = g;
    s->meta = &s->headers[0]->meta;
    free(p->buf);
    p->buf = surplus;
    p->pos = 0;
    p->len = p->cap = surplus_len;
    st = gg_split_numbers(&g->meta, &no, &count, err);
    if (st == GG_OK && s->n_headers > 1) st = check_shard_order(p, no, count, err);
    if (st != GG_OK) return st;
    p->no = no;
    p->count = count;
    s->grows = s->n_headers < count; /* after the last shard too: next_shard checks what follows */
    return append_tensors(s, g, err);
}

/* Checks once, over all shards, that no tensor is in two of them. */
static gg_status check_unique_tensors(const gg_source *s, gg_error *err)
{
    size_t *by_name = NULL;
    gg_tensor *list = calloc(s->n + 1, sizeof *list);
    if (!list) return gg_source_no_memory(err);
    for (size_t i = 0; i < s->n; i++) list[i] = *s->streamed[i];
    gg_unique_name_index(list, s->n, "two shards contain a tensor with this name", &by_name, err);
    free(by_name);
    free(list);
    return err->status;
}

/* The input has ended: checks whether the set is complete. */
static gg_status end_of_set(gg_source *s, gg_error *err)
{
    source_pipe *p = pipe_of(s);
    gg_partial_set set = { .first = p->no + 1 - s->n_headers,
                           .shards = s->n_headers,
                           .count = p->count,
                           .tensors = s->n };
    gg_kv_u64(gg_meta_find(s->meta, "split.tensors.count"), &set.of);
    bool whole = set.shards == set.count;
    s->lack.shards = (uint32_t)(set.count - set.shards);
    s->lack.of = (uint32_t)set.count;
    p->count = 1; /* so that this runs only once */
    s->grows = false;
    if (s->n_headers > 1 && check_unique_tensors(s, err) != GG_OK) return err->status;
    if (whole && set.of && set.of != s->n)
        return gg_fail(err, GG_EFORMAT,
                       "split.tensors.count is %llu, but the shards have %zu tensors",
                       (unsigned long long)set.of, s->n);
    if (whole || s->o.note) {
        if (!whole) gg_source_note_partial(s, &set);
        return GG_OK;
    }
    gg_fail(err, GG_EFORMAT, "shard %llu of %llu is missing",
            (unsigned long long)(set.first ? 1 : set.shards + 1), (unsigned long long)set.count);
    return gg_fix(err, "give all shards in order: cat m-*.gguf");
}

static gg_status next_shard(gg_source *s, bool *more, gg_error *err)
{
    source_pipe *p = pipe_of(s);
    *more = false;
    if (p->count < 2) return GG_OK;
    gg_status st = p->cut ? GG_OK : fill_pipe(p, 4, err);
    if (st != GG_OK) return st;
    if (p->no + 1 == p->count && s->n_headers < p->count && buffered(p) >= 4 &&
        memcmp(p->buf + p->pos, "GGUF", 4) == 0)
        return check_shard_order(p, 0, p->count, err);
    if (p->no + 1 == p->count || p->len - p->pos < 4 || memcmp(p->buf + p->pos, "GGUF", 4) != 0)
        return end_of_set(s, err);
    *more = true;
    return read_pipe_header(s, err);
}

/* A record starts with the length of its name, which is so small that its high bytes are 0. */
static gg_status start_pipe(gg_source *s, gg_error *err)
{
    source_pipe *p = pipe_of(s);
    widen_pipe(p->fd);
    p->current = SIZE_MAX;
    s->lack.unread = true;
    gg_status st = fill_pipe(p, GG_FIRST_BYTES, err);
    if (st != GG_OK) return st;
    const uint8_t *m = p->buf;
    size_t n = buffered(p);
    bool model = n >= 4 && memcmp(m, "GGUF", 4) == 0;
    bool zeros = n > 1 && m[0] == 0 && memcmp(m, m + 1, n - 1) == 0;
    bool other = zeros || (n > 0 && !model && (gg_is_safetensors(m, n) || gg_is_other_kind(m, n)));
    p->records = s->grows = n >= 4 && !other && m[1] == 0 && m[2] == 0 && m[3] == 0;
    return p->records ? GG_OK : read_pipe_header(s, err);
}

/* The data of a header_only source may end early. This is noted once, and reading stops. */
static gg_status tolerate_end(gg_source *s, uint64_t missing)
{
    if (!pipe_of(s)->cut) {
        gg_source_note_cut(s, s->name, missing);
        s->lack.bytes = missing;
    }
    pipe_of(s)->cut = true;
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
    gg_status st = pipe_of(s)->cut ? GG_OK : skip_bytes(pipe_of(s), n, &why);
    if (st == GG_EFORMAT) return tolerate_end(s, n);
    gg_error_merge(err, &why);
    return st;
}

static gg_status finish_current(gg_source *s, gg_error *err)
{
    source_pipe *p = pipe_of(s);
    if (p->current == SIZE_MAX) return GG_OK;
    const gg_tensor *t = gg_source_tensor(s, p->current);
    uint64_t left = t->bytes - p->taken;
    p->taken = t->bytes;
    bool may_end = s->o.header_only && !p->records;
    gg_status st = may_end ? skip_or_end(s, left, err) : skip_bytes(p, left, err);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

/* Reads the padding before tensor i of the source, or after the last tensor of the shard. */
static gg_status take_pipe_padding(gg_source *s, size_t i, gg_error *err)
{
    source_pipe *p = pipe_of(s);
    pipe_shard *shard = &p->shards[s->n_headers - 1];
    const gg_gguf *g = s->headers[s->n_headers - 1];
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
    } else if (st == GG_OK && !gg_padding_is_plain(bytes, got, (size_t)want)) {
        st = gg_keep_padding(s, &shard->pads, before, bytes, got, err);
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

/* Appends a tensor of a record; copies its name. */
static gg_status append_record(gg_source *s, const gg_tensor *t, gg_error *err)
{
    const char *name = gg_names_add(&pipe_of(s)->names, t->name, t->name_len, err);
    if (!name) return err->status;
    if (GG_ROOM(s->streamed, s->n, NULL, err) != GG_OK) return err->status;
    gg_tensor *to = malloc(sizeof *to);
    if (!to) return gg_source_no_memory(err);
    *to = *t;
    to->name = name;
    s->streamed[s->n++] = to;
    return GG_OK;
}

static gg_status next_record(gg_source *s, bool *more, gg_error *err)
{
    source_pipe *p = pipe_of(s);
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
    if (st == GG_OK) st = append_record(s, &t, err);
    if (st == GG_OK) p->pos += used;
    return st;
}

static gg_status next_of_pipe(gg_source *s, size_t i, bool *more, gg_error *err)
{
    source_pipe *p = pipe_of(s);
    if (i == p->current) { /* already there, after a read */
        *more = true;
        return GG_OK;
    }
    gg_status st = finish_current(s, err);
    if (st != GG_OK) return st;
    if (p->records) {
        st = next_record(s, more, err);
    } else {
        st = next_of_model(s, i, more, err);
    }
    p->current = st == GG_OK && *more ? i : SIZE_MAX;
    p->taken = 0;
    p->next = i + 1;
    if (st == GG_OK && !*more) s->lack.unread = false;
    return st;
}

/* Reads ahead to `offset` of tensor i, skipping the tensors before it. */
static gg_status read_ahead_to(gg_source *s, size_t i, uint64_t offset, gg_error *err)
{
    source_pipe *p = pipe_of(s);
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

static gg_status read_pipe(gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err)
{
    source_pipe *p = pipe_of(d->source);
    gg_status st = read_ahead_to(d->source, d->index, offset, err);
    size_t got = 0;
    if (st == GG_OK) st = take_from_pipe(p, buf, n, &got, err);
    if (st != GG_OK) return st;
    p->taken += got;
    return got == n ? GG_OK : ends_early(d->bytes - p->taken, err);
}

static gg_status copy_pipe(gg_data *d, uint64_t offset, uint64_t n, gg_place out, gg_error *err)
{
    gg_source *s = d->source;
    source_pipe *p = pipe_of(s);
    gg_status st = read_ahead_to(s, d->index, offset, err);
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
        gg_status st = take_from_pipe(pipe_of(s), scratch, sizeof scratch, &got, err);
        if (st != GG_OK) return gg_at_file(err, s->name);
        if (out >= 0) st = gg_write_all(out, scratch, got, err);
        *bytes += got;
        if (st != GG_OK || got < sizeof scratch) return st;
    }
}

/* Only the last shard can have trailing bytes: all that is left. */
static gg_status copy_trailing_of_pipe(gg_source *s, size_t file, int out, uint64_t *bytes,
                                       gg_error *err)
{
    return file + 1 < s->n_headers ? GG_OK : drain_pipe(s, out, bytes, err);
}

static gg_status pads_of_pipe(gg_source *s, size_t file, gg_pad_list *pads, gg_error *err)
{
    if (s->pad_bytes > GG_MOST_PADDING) {
        gg_too_much_padding(err);
        return gg_at_file(err, s->name);
    }
    if (file >= s->n_headers) return GG_OK;
    *pads = pipe_of(s)->shards[file].pads;
    pipe_of(s)->shards[file].pads = (gg_pad_list){ 0 };
    return GG_OK;
}

static void close_pipe(gg_source *s)
{
    source_pipe *p = pipe_of(s);
    if (p->fd != STDIN_FILENO && p->fd > 0) close(p->fd);
    for (size_t i = 0; i < s->n_headers; i++) {
        gg_pads_free(p->shards[i].pads.list, p->shards[i].pads.n);
        gg_gguf_free(s->headers[i]);
    }
    for (size_t i = 0; p->records && i < s->n; i++) free(s->streamed[i]);
    free(s->streamed);
    free(s->headers);
    free(p->shards);
    free(p->buf);
    gg_names_free(&p->names);
}

static bool is_pipe(const gg_spec *spec)
{
    return spec->pipe;
}

static gg_status open_pipe(gg_source *s, const char *path, gg_error *err)
{
    source_pipe *p = pipe_of(s);
    p->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (p->fd < 0) gg_fail_errno(err, "cannot open");
    else if (isatty(p->fd)) {
        gg_fail(err, GG_EUSAGE,
                p->fd == STDIN_FILENO ? "standard input is a terminal"
                                      : "this is a terminal, not a model");
        gg_fix(err, "pipe a model or an organ stream into the command");
    } else if (gg_stamp_fd(p->fd, &p->stamp, err) == GG_OK) {
        start_pipe(s, err);
    }
    return gg_at_file(err, path);
}

static gg_status each_file_of_pipe(const gg_source *s, gg_source_file_fn *fn, void *ctx,
                                   gg_error *err)
{
    return fn(ctx, &pipe_of(s)->stamp, pipe_of(s)->fd, s->name, err);
}

const gg_source_kind gg_source_pipe = {
    .size = sizeof(source_pipe),
    .pipe = true,
    .is = is_pipe,
    .open = open_pipe,
    .close = close_pipe,
    .next = next_of_pipe,
    .read = read_pipe,
    .copy = copy_pipe,
    .each_file = each_file_of_pipe,
    .pads = pads_of_pipe,
    .copy_trailing = copy_trailing_of_pipe,
};
