/* verb_measure_update.c - rows into the manifest of an organ directory. */
#include "gg_measure_model.h"

#include "../../base/buf.h"
#include "../../base/io.h"
#include "../../base/output.h"
#include "gg_json.h"

#include <stdlib.h>
#include <string.h>

static void number(gg_buf *b, const char *name, double v, gg_error *err)
{
    char text[32];
    gg_format_f64(v, text);
    gg_buf_printf(b, err, ", \"%s\": %s", name, text);
}

/* The columns from elements to row_theta. */
static char *z_text(const gg_tensor_measure *r, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    gg_buf_printf(&b, err, "{\"elements\": %llu, \"sampled\": %llu, \"nonfinite\": %llu", (unsigned long long)r->t.elements,
                  (unsigned long long)r->m.sampled, (unsigned long long)r->m.nonfinite);
    static const char *const columns[] = { "mean", "std", "min", "max", "entropy", "kurtosis", "cv", "theta", "signal",
                                           "dimension", "null_theta", "calibrated", "row_theta" };
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        number(&b, columns[i], gg_measure_by_name(columns[i])(r), err);
    gg_buf_text(&b, "}", err);
    if (err->status == GG_OK) return gg_buf_take(&b, NULL);
    gg_buf_free(&b);
    return NULL;
}

/* Rows come in the order of the entries: the search goes on where the last ended. */
static gg_entry *entry_of(gg_manifest *m, const gg_tensor *t, size_t *from)
{
    for (size_t k = 0; k < m->n_entries; k++) {
        size_t i = (*from + k) % m->n_entries;
        const gg_tensor *e = &m->entries[i].t;
        if (e->name_len != t->name_len || memcmp(e->name, t->name, t->name_len) != 0) continue;
        *from = i + 1;
        return &m->entries[i];
    }
    return NULL;
}

static gg_status set_rows(gg_manifest *m, const gg_measures *list, gg_error *err)
{
    size_t from = 0;
    for (size_t i = 0; i < list->n; i++) {
        const gg_tensor_measure *r = &list->rows[i];
        if (!r->decoded) continue;
        gg_entry *e = entry_of(m, &r->t, &from);
        if (!e) {
            gg_fail(err, GG_EUSAGE, "the manifest has no such tensor to update");
            return gg_at_tensor(err, r->t.name, r->t.name_len);
        }
        char *z = z_text(r, err);
        if (!z) return err->status;
        free(e->z);
        e->z = z;
    }
    return GG_OK;
}

static gg_status replace(const char *path, const char *text, size_t len, gg_error *err)
{
    gg_output *out;
    gg_status st = gg_output_open(path, true, &out, err);
    if (st != GG_OK) return st;
    st = gg_write_all(gg_output_fd(out), text, len, err);
    if (st == GG_OK) return gg_output_commit(out, err);
    gg_output_abort(out);
    return gg_at_file(err, path);
}

gg_status gg_measures_update(const gg_measures *list, const char *dir, gg_error *err)
{
    gg_manifest *m;
    gg_status st = gg_manifest_load(dir, &m, err);
    if (st != GG_OK) return st;
    gg_buf path = GG_BUF_INIT;
    char *text = NULL;
    size_t len = 0;
    st = set_rows(m, list, err);
    if (st == GG_OK) st = gg_manifest_text(m, &text, &len, err);
    if (st == GG_OK) st = gg_buf_printf(&path, err, "%s/%s", dir, GG_MANIFEST);
    if (st == GG_OK) st = replace(path.data, text, len, err);
    gg_buf_free(&path);
    free(text);
    gg_manifest_free(m);
    return st;
}
