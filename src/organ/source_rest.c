/* source_rest.c - what a GGUF file holds besides header and tensors: padding that is
 * not zeros, and bytes after the last tensor. */
#include "source.h"

#include "base/io.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"

#include <stdlib.h>

/* Padding from `at` to `end` of a file that holds `size` bytes. */
static gg_status check(gg_source *s, size_t file, uint64_t at, uint64_t end, const gg_tensor *after,
                       gg_pad **pads, size_t *n, gg_error *err)
{
    uint64_t size = s->model->file_sizes[file];
    size_t want = (size_t)(end - at), got = size < end ? (size_t)(size > at ? size - at : 0) : want;
    if (want == 0) return GG_OK;
    uint8_t *bytes = malloc(want);
    if (!bytes) return gg_fail(err, GG_ENOMEM, "no memory for padding");
    gg_status st = gg_pread_all(s->model->fds[file], bytes, got, at, err);
    if (st == GG_OK) st = gg_pad_note(s, pads, n, after, bytes, got, want, err);
    free(bytes);
    return st;
}

gg_status gg_source_pads(gg_source *s, size_t file, gg_pad **pads, size_t *n, gg_error *err)
{
    *pads = NULL;
    *n = 0;
    if (s->kind == SOURCE_PIPE_MODEL) {
        if (s->pad_bytes > GG_MOST_PADDING) return gg_pads_too_much(err), gg_at_file(err, s->name);
        *pads = s->pipe.pads;
        *n = s->pipe.n_pads;
        s->pipe.pads = NULL;
        s->pipe.n_pads = 0;
        return GG_OK;
    }
    if (!s->model) return GG_OK;
    const gg_gguf *g = s->model->files[file];
    if (file == 0) s->pad_bytes = 0;
    if (g->n_tensors == 0) return GG_OK;
    gg_status st = check(s, file, g->header_bytes, g->data_start, NULL, pads, n, err);
    for (size_t i = 0; i < g->n_tensors && st == GG_OK; i++) {
        const gg_tensor *t = &g->tensors[i];
        uint64_t end = g->data_start + t->offset + t->bytes;
        st = check(s, file, end, g->data_start + gg_align_up(t->offset + t->bytes, g->alignment), t,
                   pads, n, err);
    }
    return st == GG_OK ? GG_OK : gg_at_file(err, s->model->paths[file]);
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
    if (!s->model) return gg_pipe_drain(s, out, bytes, err);
    const gg_gguf *g = s->model->files[file];
    *bytes = gg_source_trailing(s, file);
    return gg_copy_from(s->model->paths[file], s->model->fds[file], g->data_start + g->data_bytes,
                        out, GG_AT_POS, *bytes, err);
}
