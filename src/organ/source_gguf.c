/* source_gguf.c - GGUF files as sources: one file, or the shards of a model. */
#include "source.h"

#include <stdlib.h>

typedef struct gguf_source {
    gg_source s;
    gg_model *model;
} gguf_source;

/* Finds what the data of a file lacks. Returns the number of bytes. */
static uint64_t find_cut(const gg_model *m, size_t f, gg_source_lack *lack)
{
    const gg_gguf *g = m->files[f];
    const gg_tensor *last = g->n_tensors ? &g->tensors[g->n_tensors - 1] : NULL;
    uint64_t end = last ? g->data_start + last->offset + last->bytes : g->data_start;
    uint64_t size = m->file_sizes[f];
    if (end <= size) return 0;
    lack->bytes += end - size;
    for (size_t i = 0; i < g->n_tensors && !lack->cut; i++) {
        const gg_tensor *t = &g->tensors[i];
        uint64_t at = g->data_start + t->offset;
        if (t->bytes == 0 || at + t->bytes <= size) continue;
        lack->cut = t;
        lack->offset = at;
        lack->size = size;
    }
    return end - size;
}

static void note_model(gg_source *s)
{
    const gg_model *m = s->model;
    if (m->shard_count) {
        gg_partial_set set = { m->first_shard, m->n_files,     m->shard_count,
                               m->n_tensors,   m->set_tensors, m->missing };
        gg_source_note_partial(s, &set);
        s->lack.shards = m->n_missing;
        s->lack.of = m->shard_count;
        s->lack.shard = m->missing;
    }
    for (size_t f = 0; f < m->n_files && s->o.header_only; f++) {
        uint64_t missing = find_cut(m, f, &s->lack);
        if (missing) gg_source_note_cut(s, m->paths[f], missing);
    }
}

/* All that is nothing else, for its message. */
static bool is_gguf(const gg_spec *spec)
{
    (void)spec;
    return true;
}

static gg_status open_gguf(gg_source *s, const char *path, gg_error *err)
{
    gguf_source *g = (gguf_source *)s;
    gg_model_options o = { .lone_shards = s->o.note != NULL, .cut_data = s->o.header_only };
    gg_status st = gg_model_open(path, &o, &g->model, err);
    if (st != GG_OK) return st;
    s->model = g->model;
    s->tensors = g->model->tensors;
    s->n = g->model->n_tensors;
    s->headers = g->model->files;
    s->n_headers = g->model->n_files;
    s->meta = &s->headers[0]->meta;
    note_model(s);
    return GG_OK;
}

static void close_gguf(gg_source *s)
{
    gg_model_free(((gguf_source *)s)->model);
}

static gg_status place_gguf(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    (void)err;
    d->fd = s->model->fds[s->tensors[i].file];
    d->at = gg_model_at(s->model, &s->tensors[i]);
    return GG_OK;
}

/* For a split model, that of the shard; else the name of the source, which may be a pipe that was
 * stored. */
static const char *file_of_gguf(const gg_source *s, size_t i)
{
    return s->model->n_files > 1 ? s->model->paths[s->tensors[i].file] : s->name;
}

static gg_status each_file_of_gguf(const gg_source *s, gg_source_file_fn *fn, void *ctx,
                                   gg_error *err)
{
    const gg_model *m = s->model;
    gg_status st = GG_OK;
    for (size_t i = 0; m && i < m->n_files && st == GG_OK; i++)
        st = fn(ctx, &m->stamps[i], m->fds[i], s->own_fd ? s->name : m->paths[i], err);
    return st;
}

static void reads_of_gguf(const gg_source *s, size_t i, gg_reads r)
{
    r.read(r.ctx, s->model->paths[s->tensors[i].file],
           gg_model_at(s->model, &s->tensors[i]) + r.from, r.n);
}

/* ---- padding and trailing bytes ----------------------------------------------------------- */

/* Checks the padding of a file that follows `after`, or the header if it is NULL. */
static gg_status check_padding(gg_source *s, size_t file, const gg_tensor *after, gg_pad_list *pads,
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
    if (st == GG_OK && !gg_padding_is_plain(bytes, got, want))
        st = gg_keep_padding(s, pads, after, bytes, got, err);
    free(bytes);
    return st;
}

static gg_status pads_of_gguf(gg_source *s, size_t file, gg_pad_list *pads, gg_error *err)
{
    const gg_gguf *g = s->headers[file];
    gg_status st = GG_OK;
    if (file == 0) s->pad_bytes = 0;
    if (g->n_tensors) st = check_padding(s, file, NULL, pads, err);
    for (size_t i = 0; i < g->n_tensors && st == GG_OK; i++)
        st = check_padding(s, file, &g->tensors[i], pads, err);
    return st == GG_OK ? GG_OK : gg_at_file(err, s->model->paths[file]);
}

static uint64_t trailing_of_gguf(const gg_source *s, size_t file)
{
    uint64_t end = s->headers[file]->data_start + s->headers[file]->data_bytes;
    return s->model->file_sizes[file] > end ? s->model->file_sizes[file] - end : 0;
}

static gg_status copy_trailing_of_gguf(gg_source *s, size_t file, int out, uint64_t *bytes,
                                       gg_error *err)
{
    const gg_gguf *g = s->headers[file];
    *bytes = trailing_of_gguf(s, file);
    gg_place in = { s->model->fds[file], g->data_start + g->data_bytes };
    return gg_copy(s->model->paths[file], in, (gg_place){ out, GG_AT_POS }, *bytes, err);
}

const gg_source_kind gg_source_gguf = {
    .size = sizeof(gguf_source),
    .is = is_gguf,
    .open = open_gguf,
    .close = close_gguf,
    .place = place_gguf,
    .file_of = file_of_gguf,
    .each_file = each_file_of_gguf,
    .reads = reads_of_gguf,
    .pads = pads_of_gguf,
    .trailing = trailing_of_gguf,
    .copy_trailing = copy_trailing_of_gguf,
};
