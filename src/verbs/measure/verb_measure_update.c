/* verb_measure_update.c - writes rows into the manifest of an organ directory. Only the text of
 * each "z" is replaced or inserted; everything else, also its formatting, is kept. */
#include "organ/gg_measure_model.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"
#include "base/output.h"
#include "organ/manifest.h"
#include "organ/source_watch.h"
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

/* Rows are in the order of the entries, so each search continues where the last one ended. */
static size_t entry_of(const gg_manifest *m, const gg_tensor *t, size_t from)
{
    for (size_t k = 0; k < m->n_entries; k++) {
        size_t i = (from + k) % m->n_entries;
        const gg_tensor *e = &m->entries[i].t;
        if (e->name_len == t->name_len && memcmp(e->name, t->name, t->name_len) == 0) return i;
    }
    return SIZE_MAX;
}

/* Sets rows[i] to the row of entry i, or to NULL. */
static gg_status find_rows(const gg_manifest *m, const gg_measures *list,
                           const gg_tensor_measure **rows, gg_error *err)
{
    size_t i = SIZE_MAX;
    for (size_t k = 0; k < list->n; k++) {
        const gg_tensor_measure *r = &list->rows[k];
        if (!r->decoded) continue;
        i = entry_of(m, &r->t, i + 1);
        if (i == SIZE_MAX) {
            gg_fail(err, GG_EUSAGE, "this tensor is not in the manifest");
            return gg_at_tensor(err, r->t.name, r->t.name_len);
        }
        rows[i] = r;
    }
    return GG_OK;
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
    if (was || last) {
        size_t at = was ? (size_t)gg_json_offset(was)
                        : value_end(s->text, (size_t)gg_json_offset(last));
        if (copy_up_to(s, at, err) == GG_OK && !was) gg_buf_text(&s->out, ", \"z\": ", err);
        put_z(&s->out, row, err);
        s->from = was ? value_end(s->text, at) : at;
    }
    gg_json_free(tree);
    return err->status;
}

static gg_status put_rows(splice *s, size_t len, const gg_tensor_measure *const *rows, size_t n,
                          gg_error *err)
{
    gg_json *json;
    gg_status st = gg_json_outline(s->text, len, &json, err);
    if (st != GG_OK) return st;
    const gg_json_node *list = gg_json_get(gg_json_root(json), "tensors"),
                       *item = gg_json_first(list);
    if (gg_json_count(list) != n)
        st = gg_fail(err, GG_EFORMAT, "the manifest was changed during the run");
    for (size_t i = 0; i < n && st == GG_OK; i++, item = gg_json_next(item))
        if (rows[i]) st = put_row(s, item, rows[i], err);
    if (st == GG_OK) st = copy_up_to(s, len, err);
    if (st == GG_OK) st = gg_write_all(s->fd, s->out.data, s->out.len, err);
    gg_json_free(json);
    return st;
}

static gg_status replace(const char *path, const char *text, size_t len,
                         const gg_tensor_measure *const *rows, size_t n, gg_error *err)
{
    gg_output *out;
    gg_status st = gg_output_open(path, true, &out, err);
    if (st != GG_OK) return st;
    splice s = { .text = text, .fd = gg_output_fd(out) };
    st = put_rows(&s, len, rows, n, err);
    gg_buf_free(&s.out);
    if (st == GG_OK) return gg_output_commit(out, err);
    gg_output_abort(out);
    return gg_at_file(err, path);
}

static gg_status update(const gg_manifest *m, const gg_measures *list, const char *path,
                        gg_error *err)
{
    const gg_tensor_measure **rows = calloc(m->n_entries ? m->n_entries : 1, sizeof *rows);
    gg_stamp stamp;
    char *text = NULL;
    size_t len = 0;
    gg_status st = rows ? find_rows(m, list, rows, err)
                        : gg_fail(err, GG_ENOMEM, "no memory for %zu rows", m->n_entries);
    if (st == GG_OK) st = gg_manifest_slurp(path, &text, &len, &stamp, err);
    if (st == GG_OK && !gg_stamp_holds_name(&m->stamp, path)) st = gg_fail_changed(path, err);
    if (st == GG_OK) st = replace(path, text, len, rows, m->n_entries, err);
    free(text);
    free(rows);
    return st;
}

gg_status gg_measures_update(const gg_measures *list, const char *dir, gg_error *err)
{
    gg_manifest *m;
    gg_status st = gg_manifest_load(dir, &m, err);
    if (st != GG_OK) return st;
    gg_buf path = GG_BUF_INIT;
    st = gg_buf_printf(&path, err, "%s/%s", dir, GG_MANIFEST);
    if (st == GG_OK) st = update(m, list, path.data, err);
    gg_buf_free(&path);
    gg_manifest_free(m);
    return st;
}
