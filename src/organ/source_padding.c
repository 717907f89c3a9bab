/* source_padding.c - unusual bytes of a GGUF file outside header and tensors: padding that is not
 * zero, and trailing bytes after the last tensor. */
#include "source.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "gguf/gguf.h"
#include "organ/source_layout.h"

#include <stdlib.h>
#include <string.h>

void gg_pads_free(gg_pad *pads, size_t n)
{
    for (size_t i = 0; pads && i < n; i++) {
        free(pads[i].after);
        free(pads[i].bytes);
    }
    free(pads);
}

static gg_status too_much(gg_error *err)
{
    gg_fail(err, GG_EUNSUPPORTED,
            "the padding between tensors contains more than %llu MiB that are not zero",
            (unsigned long long)(GG_MOST_PADDING >> 20));
    return gg_fix_hint(err, GG_HINT_EVERY_TENSOR,
                       "select every tensor by name, which leaves out the padding");
}

bool gg_padding_is_plain(const uint8_t *bytes, size_t got, size_t want)
{
    size_t i = 0;
    while (i < got && bytes[i] == 0) i++;
    return i == want;
}

gg_status gg_pad_note(gg_source *s, pad_list *pads, const gg_tensor *after, const uint8_t *bytes,
                      size_t n, gg_error *err)
{
    s->pad_bytes += n;
    if (s->pad_bytes > GG_MOST_PADDING) /* on a pipe gg_source_pads reports it */
        return s->kind == SOURCE_PIPE_MODEL ? GG_OK : too_much(err);
    gg_pad *grown = gg_grow_pow2(pads->list, pads->n, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    pads->list = grown;
    gg_pad *pad = &pads->list[pads->n++];
    *pad = (gg_pad){ .n = n, .bytes = malloc(n ? n : 1), .after_len = after ? after->name_len : 0 };
    pad->after = after ? malloc(after->name_len + 1) : NULL;
    if (!pad->bytes || (after && !pad->after))
        return gg_fail(err, GG_ENOMEM, "no memory for padding");
    if (n) memcpy(pad->bytes, bytes, n);
    if (after) memcpy(pad->after, after->name, after->name_len + 1);
    return GG_OK;
}

/* Checks the padding of a file that follows `after`, or the header if it is NULL. */
static gg_status check(gg_source *s, size_t file, const gg_tensor *after, pad_list *pads,
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
        st = gg_pad_note(s, pads, after, bytes, got, err);
    free(bytes);
    return st;
}

gg_status gg_source_pads(gg_source *s, size_t file, gg_pad **pads, size_t *n, gg_error *err)
{
    pad_list found = { 0 };
    gg_status st = GG_OK;
    if (s->kind == SOURCE_PIPE_MODEL) {
        if (s->pad_bytes > GG_MOST_PADDING) st = (too_much(err), gg_at_file(err, s->name));
        else if (file < s->pipe.n_shards) {
            found = s->pipe.shards[file].pads;
            s->pipe.shards[file].pads = (pad_list){ 0 };
        }
    } else if (s->model) {
        const gg_gguf *g = s->model->files[file];
        if (file == 0) s->pad_bytes = 0;
        if (g->n_tensors) st = check(s, file, NULL, &found, err);
        for (size_t i = 0; i < g->n_tensors && st == GG_OK; i++)
            st = check(s, file, &g->tensors[i], &found, err);
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
    if (!s->model && file + 1 < s->pipe.n_shards) return GG_OK;
    if (!s->model) return gg_pipe_drain(s, out, bytes, err);
    const gg_gguf *g = s->model->files[file];
    *bytes = gg_source_trailing(s, file);
    gg_place in = { s->model->fds[file], g->data_start + g->data_bytes };
    return gg_copy_from(s->model->paths[file], in, (gg_place){ out, GG_AT_POS }, *bytes, err);
}
