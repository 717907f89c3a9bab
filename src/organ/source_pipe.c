/* source_pipe.c - read a model or an organ stream from a pipe, once from front to back.
 *
 * A small buffer keeps bytes that were read ahead: the first bytes tell a model from a stream, and
 * the length of a record's header is not known in advance. Tensor data bypasses the buffer.
 */
#include "source.h"

#include "base/error.h"
#include "base/io.h"
#include "gguf/gguf.h"
#include "organ/record.h"
#include "organ/source_layout.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AHEAD ((size_t)64 << 10)
#define MOST_RECORDS ((size_t)1 << 17) /* enough for the largest models, one record per expert */

static size_t buffered(const source_pipe *p)
{
    return p->len - p->pos;
}

gg_status gg_pipe_fill(source_pipe *p, size_t want, gg_error *err)
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

static gg_status cut(uint64_t missing, gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "the input ends %llu bytes early", (unsigned long long)missing);
    return gg_fix(err, "fetch it again: the data is incomplete");
}

/* A larger pipe needs fewer switches between the processes. The largest size that everybody may
 * set is 1 MiB; other descriptors refuse, which does no harm. */
static void widen(int fd)
{
#ifdef F_SETPIPE_SZ
    (void)fcntl(fd, F_SETPIPE_SZ, 1 << 20);
#else
    (void)fd;
#endif
}

gg_status gg_pipe_open(gg_source *s, gg_error *err)
{
    source_pipe *p = &s->pipe;
    widen(p->fd);
    p->current = SIZE_MAX;
    s->kind = SOURCE_PIPE_RECORDS;
    gg_status st = gg_pipe_fill(p, 4, err);
    if (st != GG_OK) return st;
    bool record = buffered(p) == 4 && p->buf[1] == 0 && p->buf[2] == 0 && p->buf[3] == 0;
    if (record) return GG_OK;
    s->kind = SOURCE_PIPE_MODEL;
    bool model = buffered(p) < 4 || memcmp(p->buf, "GGUF", 4) == 0;
    if (!model) st = gg_pipe_fill(p, 96, err); /* enough to name another format */
    return st == GG_OK ? gg_pipe_read_header(s, err) : st;
}

/* The data of a header_only source may end early. This is noted once, and reading stops. */
static gg_status tolerate(gg_source *s, uint64_t missing)
{
    if (!s->pipe.cut) gg_note_cut(s, s->name, missing);
    s->pipe.cut = true;
    return GG_OK;
}

/* Reads and discards n bytes. */
static gg_status skip(source_pipe *p, uint64_t n, gg_error *err)
{
    uint8_t scratch[16384];
    while (n > 0) {
        size_t want = n < sizeof scratch ? (size_t)n : sizeof scratch, got = 0;
        gg_status st = take_from_pipe(p, scratch, want, &got, err);
        if (st != GG_OK) return st;
        if (got < want) return cut(n - got, err);
        n -= want;
    }
    return GG_OK;
}

/* Like skip(), but tolerates an early end if the options allow it. */
static gg_status pass(gg_source *s, uint64_t n, gg_error *err)
{
    gg_error why = GG_ERROR_INIT;
    gg_status st = s->pipe.cut ? GG_OK : skip(&s->pipe, n, &why);
    if (st == GG_EFORMAT) return tolerate(s, n);
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
    gg_status st = may_end ? pass(s, left, err) : skip(p, left, err);
    return st == GG_OK ? GG_OK : (gg_at_tensor(err, t->name, t->name_len), st);
}

/* Reads the padding before tensor i of the source, or after the last tensor of the shard. */
static gg_status take_padding(gg_source *s, size_t i, gg_error *err)
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
        st = s->o.header_only ? tolerate(s, missing) : cut(missing, err);
    } else if (st == GG_OK && !gg_padding_is_plain(bytes, got, (size_t)want)) {
        st = gg_pad_note(s, &shard->pads, before, bytes, got, err);
    }
    free(bytes);
    return st;
}

/* Goes to tensor i of a model, in this shard or in the next one with tensors. */
static gg_status next_of_model(gg_source *s, size_t i, bool *more, gg_error *err)
{
    gg_status st = take_padding(s, i, err);
    bool shard = true;
    while (st == GG_OK && i >= s->n && shard) {
        st = gg_pipe_next_shard(s, &shard, err);
        if (st == GG_OK && shard) st = take_padding(s, i, err);
    }
    *more = i < s->n;
    return st;
}

static gg_status next_record(gg_source *s, bool *more, gg_error *err)
{
    source_pipe *p = &s->pipe;
    gg_status st = gg_pipe_fill(p, GG_RECORD_HEADER, err);
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
    if (st == GG_OK) st = gg_source_append(s, &t, (record_place){ 0, 0 }, err);
    if (st == GG_OK) p->pos += used;
    return st;
}

gg_status gg_pipe_next(gg_source *s, size_t i, bool *more, gg_error *err)
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
static gg_status go_to(gg_source *s, size_t i, uint64_t offset, gg_error *err)
{
    source_pipe *p = &s->pipe;
    bool more = true;
    while (p->next <= i && more) {
        gg_status st = gg_pipe_next(s, p->next, &more, err);
        if (st != GG_OK) return st;
    }
    if (i != p->current || offset < p->taken)
        return gg_fail(err, GG_EUSAGE, "a pipe can only be read forward");
    gg_status st = skip(p, offset - p->taken, err);
    p->taken = offset;
    return st;
}

gg_status gg_pipe_read(gg_source *s, size_t i, uint64_t offset, void *buf, size_t n, gg_error *err)
{
    gg_status st = go_to(s, i, offset, err);
    size_t got = 0;
    if (st == GG_OK) st = take_from_pipe(&s->pipe, buf, n, &got, err);
    if (st != GG_OK) return st;
    s->pipe.taken += got;
    return got == n ? GG_OK : cut(gg_source_tensor(s, i)->bytes - s->pipe.taken, err);
}

gg_status gg_pipe_copy(gg_source *s, size_t i, uint64_t offset, uint64_t n, gg_place out,
                       gg_error *err)
{
    source_pipe *p = &s->pipe;
    gg_status st = go_to(s, i, offset, err);
    if (st != GG_OK) return gg_at_file(err, s->name);
    size_t have = buffered(p) < n ? buffered(p) : (size_t)n;
    st = gg_put_all(out.fd, p->buf + p->pos, have, out.at, err);
    if (st != GG_OK) return st;
    p->pos += have;
    p->taken += have;
    out.at = gg_offset_after(out.at, have);
    st = gg_copy_from(s->name, (gg_place){ p->fd, GG_AT_POS }, out, n - have, err);
    p->taken += n - have;
    return st;
}

gg_status gg_pipe_drain(gg_source *s, int out, uint64_t *bytes, gg_error *err)
{
    uint8_t scratch[16384];
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

void gg_pipe_close(gg_source *s)
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
