/* picture_origins.c - where the tensors of an organ directory come from, by the history of its
 * manifest. */
#include "base/buf.h"
#include "base/grow.h"
#include "organ/gg_picture.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

/* Appends a member that is text; a path without its folders. Returns whether there is one. */
static bool put_member(gg_buf *b, const gg_json_node *entry, const char *key, const char *before,
                       gg_error *err)
{
    gg_error ignored = GG_ERROR_INIT;
    const char *text;
    size_t len;
    if (gg_json_string(gg_json_get(entry, key), &text, &len, &ignored) != GG_OK) return false;
    for (size_t i = len; i-- > 1;)
        if (text[i - 1] == '/' && strcmp(key, "from") == 0) {
            text += i;
            len -= i;
            break;
        }
    gg_buf_text(b, before, err);
    gg_buf_append(b, text, len, err);
    return true;
}

/* {"op": "graft", "from": "a/code.gguf", "how": "linear:0.5"} is "code.gguf, linear:0.5". */
static void put_entry(gg_buf *b, const gg_json_node *entry, gg_error *err)
{
    if (b->len) gg_buf_text(b, "; ", err);
    if (!put_member(b, entry, "from", "", err)) put_member(b, entry, "op", "", err);
    put_member(b, entry, "how", ", ", err);
    put_member(b, entry, "method", ", ", err);
}

/* Describes a tensor's history; "" if it has none. */
static gg_status describe(const gg_entry *e, gg_buf *b, gg_error *err)
{
    gg_json *json;
    gg_buf_clear(b);
    gg_buf_text(b, "", err);
    if (!e->history) return err->status;
    gg_status st = gg_json_parse(e->history, strlen(e->history), &json, err);
    if (st != GG_OK) return st;
    const gg_json_node *n = gg_json_first(gg_json_root(json));
    for (; n; n = gg_json_next(n)) put_entry(b, n, err);
    gg_json_free(json);
    return err->status;
}

gg_status gg_picture_origins(gg_picture *p, const gg_source *dir, gg_error *err)
{
    const gg_manifest *m = gg_source_manifest(dir);
    if (!m)
        return gg_fail(err, GG_NO,
                       "only organ directories have a history of grafts: give the "
                       "directory that organ-graft wrote");
    gg_buf b = GG_BUF_INIT;
    bool any = false;
    double index;
    gg_status st = gg_picture_source(p, "as in the base", &index, err);
    for (size_t i = 0; i < m->n_entries && st == GG_OK; i++) {
        const gg_entry *e = &m->entries[i];
        st = describe(e, &b, err);
        index = 0;
        any = any || b.len;
        if (st == GG_OK && b.len) st = gg_picture_source(p, b.data, &index, err);
        if (st == GG_OK) st = gg_picture_add(p, &e->t, &e->a, index, err);
    }
    gg_buf_free(&b);
    if (!any) p->text = "This organ directory has no history: no tensor was replaced or changed.";
    return st;
}
