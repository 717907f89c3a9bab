/* verb_measure_update.c - writes rows into the manifest of an organ directory. Only the text of
 * each "z" is replaced or inserted; everything else, also its formatting, is kept. */
#include "gg_measure_model.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"
#include "base/output.h"
#include "organ/manifest.h"
#include "organ/manifest_json.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of elements, and all that was measured without an option. */
static void put_z(gg_buf *b, const gg_tensor_measure *r, gg_error *err)
{
    gg_buf_printf(b, err, "{\"elements\": %llu", (unsigned long long)r->t.elements);
    const gg_measure_column *column;
    for (size_t i = 0; (column = gg_measure_column_at(i)) != NULL; i++) {
        char text[32];
        if (column->kind != GG_COLUMN_MEASURE) continue;
        if (column->value) gg_format_f64(column->value(r), text);
        else snprintf(text, sizeof text, "%llu", (unsigned long long)column->count(r));
        gg_buf_printf(b, err, ", \"%s\": %s", column->name, text);
    }
    gg_buf_text(b, "}", err);
}

/* ---- the text -------------------------------------------------------------------- */

static size_t string_end(const char *s, size_t at)
{
    for (at++; s[at] != '"'; at++)
        if (s[at] == '\\') at++;
    return at + 1;
}

/* Returns the end of the value that begins at `at`. The text was parsed before, so it is valid. */
static size_t value_end(const char *s, size_t at)
{
    size_t depth = 0;
    if (s[at] != '"' && s[at] != '{' && s[at] != '[') return at + strcspn(s + at, ",]} \t\r\n");
    do {
        char c = s[at];
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        at = c == '"' ? string_end(s, at) : at + 1;
    } while (depth > 0);
    return at;
}

/* The member after which a new "z" is inserted: the last one before the history, as in manifests
 * that the writer makes. */
static const gg_json_node *member_before_z(const gg_json_node *entry)
{
    const gg_json_node *before = NULL, *m = gg_json_first(entry);
    for (; m && !gg_json_key_is(m, "history"); m = gg_json_next(m)) before = m;
    for (; m && !before; m = gg_json_next(m))
        if (!gg_json_next(m)) before = m;
    return before;
}

/* Copies the text of the manifest into the new file and inserts the rows. */
typedef struct splice {
    const char *text;
    size_t from; /* everything before this offset has been copied */
    gg_buf out;  /* text that is not written yet */
    int fd;
} splice;

static gg_status copy_up_to(splice *s, size_t at, gg_error *err)
{
    const char *piece = s->text + s->from;
    size_t n = at - s->from;
    gg_status st = GG_OK;
    s->from = at;
    if (s->out.len + n < 65536) return gg_buf_append(&s->out, piece, n, err);
    if (s->out.len) st = gg_write_all(s->fd, s->out.data, s->out.len, err);
    gg_buf_clear(&s->out);
    return st == GG_OK ? gg_write_all(s->fd, piece, n, err) : st;
}

/* Whether the entry is that of the tensor. */
static gg_status check_entry(const gg_json_node *entry, const gg_tensor *t, gg_error *err)
{
    char *name = NULL;
    size_t n = 0;
    gg_status st = gg_mj_bytes(gg_json_get(entry, "name"), "name", &name, &n, err);
    if (st == GG_OK && (n != t->name_len || memcmp(name, t->name, n) != 0)) {
        st = gg_fail(err, GG_EUSAGE, "the manifest has another tensor at the place of this one");
        gg_at_tensor(err, t->name, t->name_len);
    }
    free(name);
    return st;
}

static gg_status put_row(splice *s, const gg_json_node *item, const gg_tensor_measure *row,
                         gg_error *err)
{
    gg_json *tree = NULL;
    if (gg_json_type_of(item) != GG_JSON_TEXT)
        return gg_fail(err, GG_EFORMAT, "the manifest was changed during the run");
    gg_status st = gg_json_item(item, &tree, err);
    if (st != GG_OK) return st;
    const gg_json_node *entry = gg_json_root(tree), *was = gg_json_get(entry, "z"),
                       *last = member_before_z(entry);
    if (check_entry(entry, &row->t, err) == GG_OK && (was || last)) {
        size_t at = was ? (size_t)gg_json_offset(was)
                        : value_end(s->text, (size_t)gg_json_offset(last));
        if (copy_up_to(s, at, err) == GG_OK && !was) gg_buf_text(&s->out, ", \"z\": ", err);
        put_z(&s->out, row, err);
        s->from = was ? value_end(s->text, at) : at;
    }
    gg_json_free(tree);
    return err->status;
}

/* Rows are in the order of the tensors, which is that of the entries. */
static gg_status put_rows(splice *s, size_t len, const gg_measures *list, gg_error *err)
{
    gg_json *json;
    size_t at = 0;
    gg_status st = gg_json_outline(s->text, len, &json, err);
    if (st != GG_OK) return st;
    const gg_json_node *item = gg_json_first(gg_json_get(gg_json_root(json), "tensors"));
    for (size_t i = 0; i < list->n && st == GG_OK; i++) {
        const gg_tensor_measure *row = &list->rows[i];
        for (; item && at < row->source; at++) item = gg_json_next(item);
        if (row->decoded) st = put_row(s, item, row, err);
    }
    if (st == GG_OK) st = copy_up_to(s, len, err);
    if (st == GG_OK) st = gg_write_all(s->fd, s->out.data, s->out.len, err);
    gg_json_free(json);
    return st;
}

/* The manifest, whose source has its own copy of what it says, is in memory only as a text. */
static gg_status replace(const gg_measures *list, const char *path, gg_error *err)
{
    gg_output *out;
    gg_stamp stamp;
    char *text = NULL;
    size_t len = 0;
    gg_status st = gg_output_open(path, true, &out, err);
    if (st != GG_OK) return st;
    splice s = { .fd = gg_output_fd(out) };
    st = gg_manifest_slurp(path, &text, &len, &stamp, err);
    s.text = text;
    if (st == GG_OK) st = put_rows(&s, len, list, err);
    if (st == GG_OK) st = gg_check_stamp(&stamp, -1, path, err);
    gg_buf_free(&s.out);
    free(text);
    if (st == GG_OK) return gg_output_commit(out, err);
    gg_output_abort(out);
    return gg_at_file(err, path);
}

gg_status gg_measures_update(const gg_measures *list, const char *dir, gg_error *err)
{
    gg_buf path = GG_BUF_INIT;
    gg_status st = gg_buf_printf(&path, err, "%s/%s", dir, GG_MANIFEST);
    if (st == GG_OK) st = replace(list, path.data, err);
    gg_buf_free(&path);
    return st;
}
