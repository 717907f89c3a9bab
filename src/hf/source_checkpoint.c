/* source_checkpoint.c - checkpoints, safetensors files and PEFT adapters as sources. */
#include "base/error.h"
#include "checkpoint.h"
#include "gguf/first_bytes.h"
#include "organ/source.h"

#include <stdlib.h>
#include <string.h>

typedef struct checkpoint_source {
    gg_source s;
    gg_checkpoint *ck;
    gg_gguf *header;
} checkpoint_source;

static const gg_checkpoint *checkpoint_of(const gg_source *s)
{
    return ((const checkpoint_source *)s)->ck;
}

static void show(checkpoint_source *c)
{
    gg_source *s = &c->s;
    c->header = &c->ck->header;
    s->headers = &c->header;
    s->n_headers = 1;
    s->tensors = c->header->tensors;
    s->n = c->header->n_tensors;
    s->meta = c->ck->has_keys ? &c->header->meta : NULL;
}

/* A file by its contents, whatever its name; by its name, if its contents are damaged or an index.
 */
static bool is_checkpoint(const gg_spec *spec)
{
    if (!spec->folder && spec->n >= 4 && memcmp(spec->bytes, "GGUF", 4) == 0) return false;
    if (!spec->folder && gg_is_safetensors(spec->bytes, spec->n)) return true;
    return gg_is_checkpoint(spec->path, spec->err);
}

static gg_status open_checkpoint(gg_source *s, const char *path, gg_error *err)
{
    checkpoint_source *c = (checkpoint_source *)s;
    gg_ck_adapter adapter = { .base = s->o.adapter_base,
                              .alpha = s->o.adapter_alpha,
                              .stored = s->o.stored_names,
                              .pairs_only = s->o.pairs_only,
                              .pre = s->o.pre };
    gg_status st = gg_checkpoint_open(path, &adapter, &c->ck, err);
    if (st != GG_OK) return st;
    if (s->o.whole && c->ck->no_tokenizer.status != GG_OK) {
        *err = c->ck->no_tokenizer;
        return err->status;
    }
    show(c);
    if (s->o.strict && c->ck->doubt) {
        gg_fail(err, GG_NO, "%s", c->ck->doubt);
        gg_fix_by(err, "strict", "correct it, or write it anyway");
        return gg_at_file(err, path);
    }
    for (char *p = c->ck->notes; p && *p;) { /* one per line */
        size_t n = strcspn(p, "\n");
        p[n] = '\0';
        gg_source_note(s, path, p + 1);
        p[n] = '\n';
        p += n + 1;
    }
    return GG_OK;
}

static void close_checkpoint(gg_source *s)
{
    checkpoint_source *c = (checkpoint_source *)s;
    gg_checkpoint_close(c->ck);
}

static gg_status place_in_checkpoint(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    gg_place place;
    (void)err;
    if (gg_checkpoint_place(checkpoint_of(s), i, &place)) {
        d->fd = place.fd;
        d->at = place.at;
    }
    return GG_OK;
}

static gg_status read_checkpoint(gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err)
{
    return gg_checkpoint_read(checkpoint_of(d->source), d->index, &d->cache,
                              (gg_ck_span){ offset, buf, n }, err);
}

static void end_checkpoint(gg_data *d)
{
    gg_checkpoint_end_reading(d->cache);
}

static const char *file_of_checkpoint(const gg_source *s, size_t i)
{
    return gg_checkpoint_file(checkpoint_of(s), i);
}

static gg_status each_file_of_checkpoint(const gg_source *s, gg_source_file_fn *fn, void *ctx,
                                         gg_error *err)
{
    const gg_checkpoint *ck = checkpoint_of(s);
    gg_status st = GG_OK;
    for (size_t i = 0; ck && i < ck->n_files && st == GG_OK; i++)
        st = fn(ctx, &ck->files[i].stamp, ck->files[i].fd, ck->files[i].path, err);
    for (size_t i = 0; ck && i < ck->n_others && st == GG_OK; i++)
        st = fn(ctx, &ck->others[i].stamp, -1, ck->others[i].path, err);
    return st;
}

const gg_source_kind gg_source_checkpoint = {
    .size = sizeof(checkpoint_source),
    .is = is_checkpoint,
    .open = open_checkpoint,
    .close = close_checkpoint,
    .place = place_in_checkpoint,
    .read = read_checkpoint,
    .end = end_checkpoint,
    .file_of = file_of_checkpoint,
    .each_file = each_file_of_checkpoint,
};

gg_status gg_source_of_checkpoint(gg_checkpoint *ck, const char *name, gg_source **out,
                                  gg_error *err)
{
    gg_source *s = gg_source_new(&gg_source_checkpoint, name, err);
    if (!s) {
        gg_checkpoint_close(ck);
        return GG_ENOMEM;
    }
    ((checkpoint_source *)s)->ck = ck;
    show((checkpoint_source *)s);
    return gg_source_opened(s, GG_OK, out, err);
}

bool gg_source_is_checkpoint(const gg_source *s)
{
    while (s->of) s = s->of;
    return s->kind == &gg_source_checkpoint && s->meta && !checkpoint_of(s)->stored &&
           !checkpoint_of(s)->adapter;
}

bool gg_source_lacks_vocabulary(const gg_source *s)
{
    return gg_source_is_checkpoint(s) && !gg_meta_find(s->meta, "tokenizer.ggml.tokens");
}

const gg_error *gg_source_refusal(const gg_source *s)
{
    while (s->of) s = s->of;
    return s->kind == &gg_source_checkpoint && checkpoint_of(s)->stored ? &checkpoint_of(s)->refusal
                                                                        : NULL;
}

gg_stored gg_source_stored(const gg_source *s)
{
    if (!gg_source_refusal(s)) return GG_STORED_NOTHING;
    while (s->of) s = s->of;
    const gg_checkpoint *ck = checkpoint_of(s);
    return ck->adapter ? GG_STORED_ADAPTER : ck->config ? GG_STORED_MODEL : GG_STORED_FILE;
}

const char *gg_source_remarks(const gg_source *s)
{
    while (s->of) s = s->of;
    return s->kind == &gg_source_checkpoint ? checkpoint_of(s)->notes : NULL;
}

gg_hf_beside gg_source_hf_beside(const gg_source *s)
{
    const gg_checkpoint *ck = checkpoint_of(s);
    return (gg_hf_beside){ ck->beside_name, ck->beside, ck->order, ck->note };
}
