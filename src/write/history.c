/* history.c - what was done to a model, in its own keys. */
#include "history.h"

#include "gguf/gguf.h"
#include "keys.h"

#include <string.h>

gg_status gg_put_model_name(gg_buf *text, const gg_source *s, gg_error *err)
{
    const char *name;
    size_t len;
    gg_model_name(s, &name, &len);
    return gg_buf_append(text, name, len, err);
}

static gg_status add_line(gg_meta *meta, const gg_buf *line, gg_error *err)
{
    static const char key[] = "organ.history";
    const gg_kv *old = gg_meta_find(meta, key);
    bool list = old && old->type == GG_TYPE_ARR && old->elem_type == GG_TYPE_STR;
    gg_buf bytes = GG_BUF_INIT;
    uint64_t lines = 1;
    gg_status st = list ? gg_buf_append(&bytes, old->data, old->size, err) : GG_OK;
    /* gcc 14 makes `list ? old->count + 1 : 1` a multiplication, which reads old->count in any
     * case. */
    if (list) lines += old->count;
    if (st == GG_OK) st = gg_array_add_str(&bytes, line->data, line->len, err);
    if (st == GG_OK) st = gg_meta_set_array(meta, key, GG_TYPE_STR, lines, &bytes, err);
    gg_buf_free(&bytes);
    return st;
}

gg_status gg_record_step(gg_meta *meta, gg_source *const *others, size_t n, const gg_buf *step,
                         const gg_run *run, gg_error *err)
{
    const char *name;
    size_t len;
    gg_buf joined = GG_BUF_INIT;
    if (run && run->no_history) return GG_OK;
    gg_status st = add_line(meta, step, err);
    if (st != GG_OK || !gg_kv_str(gg_meta_find(meta, "general.name"), &name, &len) || !len ||
        len > GG_MODEL_NAME)
        return st;
    st = gg_buf_append(&joined, name, len, err);
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        st = gg_buf_text(&joined, " + ", err);
        if (st == GG_OK) st = gg_put_model_name(&joined, others[i], err);
    }
    int word = (int)strcspn(step->data, ":");
    if (st == GG_OK) st = gg_buf_printf(&joined, err, " (%.*s)", word, step->data);
    if (st == GG_OK) st = gg_meta_set_str(meta, "general.name", joined.data, joined.len, err);
    gg_buf_free(&joined);
    return st;
}
