/* vocab_edit.c - writes a model with another vocabulary. */
#include "vocab_edit.h"

#include "base/error.h"
#include "write/plan.h"

#include <string.h>

void vocab_edit_free(vocab_edit *e)
{
    gg_vocab_rows_free(&e->rows);
    gg_meta_free(&e->meta);
    *e = (vocab_edit){ 0 };
}

static void note_line(void *ctx, const char *line)
{
    gg_note(ctx, "%s", line);
}

static gg_status write_view(gg_source *view, const vocab_edit *e, const char *output,
                            const gg_run *run, vocab_written *out, gg_error *err)
{
    gg_plan p = { .base = e->base };
    for (size_t i = 0; i < gg_source_count(view) && err->status == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(view, i);
        out->tensors += gg_vocab_is_matrix(t);
        if (strcmp(t->name, "d2t") == 0) {
            out->heads = t->elements;
            out->heads_was = gg_source_tensor(e->base, i)->elements;
        }
        gg_plan_add_copy(&p, view, i, err);
    }
    if (err->status == GG_OK)
        gg_plan_changed_file(&p, output, gg_plan_version(e->base), &e->meta, e->base, err);
    if (err->status == GG_OK) gg_plan_write(&p, run, &out->bytes, err);
    gg_plan_free(&p);
    return err->status;
}

gg_status vocab_write(vocab_edit *e, const char *output, const gg_run *run, vocab_written *out,
                      gg_error *err)
{
    gg_source *view = NULL;
    gg_run notes = *run;
    gg_vocab_view what = { &e->base, 1, &e->rows, &e->meta };
    *out = (vocab_written){ 0 };
    if (gg_vocab_view_open(&what, note_line, &notes, &view, err) == GG_OK)
        write_view(view, e, output, run, out, err);
    gg_source_close(view);
    if (err->status == GG_OK && gg_meta_find(gg_source_meta(e->base), GG_VOCAB_COPY) &&
        !gg_meta_find(&e->meta, GG_VOCAB_COPY))
        gg_note(run, "%s is left out, because it has the tokens of before", GG_VOCAB_COPY);
    return err->status;
}
