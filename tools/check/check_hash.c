/* check_hash.c - lists the SHA-256 of files, keys and tensors, and compares a model with
 * such a list. */
#include "check_hash.h"

#include "check/check_context.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/lines.h"
#include "base/names.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "organ/source_layout.h"
#include "write/copy.h"
#include "write/verb_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LINES ((size_t)1 << 23) /* maximum length of a list */
#define MOST_BYTES ((size_t)1 << 30)

/* One row. The list owns the texts. */
typedef struct row {
    const char *kind, *name, *detail;
    char sha[65];
    size_t place; /* position in its list; files are compared by position */
    bool matched;
} row;

typedef struct rows {
    row *list;
    size_t n, cap;
    gg_names names;
} rows;

static void rows_free(rows *r)
{
    free(r->list);
    gg_names_free(&r->names);
}

/* Adds a row; the texts are copied, and are escaped already. */
static row *add_hash_row(rows *r, const char *kind, const char *name, const char *detail,
                         gg_error *err)
{
    if (GG_ROOM(r->list, r->n, &r->cap, err) != GG_OK) return NULL;
    row *x = &r->list[r->n];
    *x = (row){ .kind = kind, .place = r->n };
    x->name = gg_names_add(&r->names, name, strlen(name), err);
    x->detail = gg_names_add(&r->names, detail, strlen(detail), err);
    if (!x->name || !x->detail) return NULL;
    r->n++;
    return x;
}

/* The same for a name of `len` bytes that is not escaped. */
static row *add_named_row(rows *r, const char *kind, const char *name, size_t len,
                          const char *detail, gg_error *err)
{
    char stack[512], *text = stack;
    size_t n = gg_escape(name, len, stack, sizeof stack);
    if (n >= sizeof stack) {
        if (!(text = malloc(n + 1))) {
            gg_fail(err, GG_ENOMEM, "no memory for a name");
            return NULL;
        }
        gg_escape(name, len, text, n + 1);
    }
    row *x = add_hash_row(r, kind, text, detail, err);
    if (text != stack) free(text);
    return x;
}

/* ---- a model's rows ---------------------------------------------------------------------- */

static void hash_key(gg_sha256 *h, const gg_kv *kv)
{
    uint8_t head[16];
    gg_put_le32(head, kv->type);
    gg_put_le32(head + 4, kv->type == GG_TYPE_ARR ? kv->elem_type : 0);
    gg_put_le64(head + 8, kv->count);
    gg_sha256_update(h, head, sizeof head);
    gg_sha256_update(h, kv->data, kv->size);
}

static void finish_sha(gg_sha256 *h, char sha[65])
{
    unsigned char digest[32];
    gg_sha256_final(h, digest);
    gg_sha256_hex(digest, sha);
}

static bool counts_shards(const gg_kv *kv)
{
    return kv->key_len > 6 && memcmp(kv->key, "split.", 6) == 0;
}

/* Adds one row per key, and one for all keys in their order. Keys that number the shards of a
 * model are left out, so that shards and the merged model have the same rows. */
static gg_status key_rows(const gg_meta *meta, rows *r, gg_error *err)
{
    gg_sha256 all;
    char detail[64];
    size_t at = r->n;
    gg_sha256_init(&all);
    if (!add_hash_row(r, "metadata", "-", "-", err)) return err->status;
    for (size_t i = 0; i < meta->n; i++) {
        const gg_kv *kv = &meta->kv[i];
        gg_sha256 h;
        uint8_t len[8];
        if (counts_shards(kv)) continue;
        gg_sha256_init(&h);
        hash_key(&h, kv);
        gg_put_le64(len, kv->key_len);
        gg_sha256_update(&all, len, sizeof len);
        gg_sha256_update(&all, kv->key, kv->key_len);
        hash_key(&all, kv);
        if (kv->type == GG_TYPE_ARR)
            snprintf(detail, sizeof detail, "%s[%" PRIu64 "]", gg_type_name(kv->elem_type),
                     kv->count);
        else snprintf(detail, sizeof detail, "%s", gg_type_name(kv->type));
        row *x = add_named_row(r, "key", kv->key, kv->key_len, detail, err);
        if (!x) return err->status;
        finish_sha(&h, x->sha);
    }
    finish_sha(&all, r->list[at].sha);
    return GG_OK;
}

typedef struct hashing {
    gg_source *source;
    const gg_run *run;
    row *rows; /* one row per task */
} hashing;

static gg_status hash_model_file(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    hashing *j = ctx;
    const gg_model *m = gg_source_model(j->source);
    (void)worker;
    gg_status st = gg_file_sha256(m->fds[i], 0, m->file_sizes[i], j->rows[i].sha, j->run, err);
    return st == GG_OK ? st : gg_at_file(err, m->paths[i]);
}

static gg_status hash_tensor_row(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    hashing *j = ctx;
    gg_plan_part part = { j->source, i, 0, gg_source_tensor(j->source, i)->bytes, NULL };
    gg_place nowhere = { -1, 0 };
    (void)worker;
    return gg_copy_part(&part, nowhere, j->rows[i].sha, j->run, err);
}

static gg_status add_tensor_row(const gg_tensor *t, rows *r, gg_error *err)
{
    char detail[160], shape[100];
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    gg_check_shape_text(t->n_dims, t->dims, shape, sizeof shape);
    snprintf(detail, sizeof detail, "%s %s", info ? info->name : "?", t->n_dims ? shape : "");
    return add_named_row(r, "tensor", t->name, t->name_len, detail, err) ? GG_OK : err->status;
}

static gg_status tensor_rows(gg_source *s, const gg_run *run, rows *r, gg_error *err)
{
    size_t n = gg_source_count(s), first = r->n;
    gg_status st = GG_OK;
    if (gg_source_seekable(s)) {
        for (size_t i = 0; i < n && st == GG_OK; i++)
            st = add_tensor_row(gg_source_tensor(s, i), r, err);
        hashing j = { s, run, r->list + first };
        return st == GG_OK ? gg_parallel(n, run ? run->threads : 0, hash_tensor_row, &j, err) : st;
    }
    for (size_t i = 0; st == GG_OK; i++) {
        bool more;
        st = gg_source_next(s, i, &more, err);
        if (st != GG_OK || !more) break;
        st = add_tensor_row(gg_source_tensor(s, i), r, err);
        hashing j = { s, run, r->list + first };
        if (st == GG_OK) st = hash_tensor_row(&j, i, 0, err);
    }
    return st;
}

static gg_status file_rows(gg_source *s, const gg_run *run, rows *r, gg_error *err)
{
    const gg_model *m = gg_source_model(s);
    if (!m) return GG_OK;
    for (size_t i = 0; i < m->n_files; i++) {
        char detail[32];
        const char *slash = strrchr(m->paths[i], '/'), *name = slash ? slash + 1 : m->paths[i];
        snprintf(detail, sizeof detail, "%" PRIu64, m->file_sizes[i]);
        if (!add_named_row(r, "file", name, strlen(name), detail, err)) return err->status;
    }
    hashing j = { s, run, r->list };
    return gg_parallel(m->n_files, run ? run->threads : 0, hash_model_file, &j, err);
}

static gg_status model_rows(gg_source *s, const gg_run *run, rows *r, gg_error *err)
{
    const gg_model *m = gg_source_model(s);
    uint64_t total = 0;
    for (size_t i = 0; i < gg_source_count(s); i++) total += gg_source_tensor(s, i)->bytes;
    for (size_t i = 0; m && i < m->n_files; i++) total += m->file_sizes[i];
    gg_progress_total(run, total);
    gg_status st = file_rows(s, run, r, err);
    if (st == GG_OK && gg_source_meta(s)) st = key_rows(gg_source_meta(s), r, err);
    return st == GG_OK ? tensor_rows(s, run, r, err) : st;
}

/* ---- a list ------------------------------------------------------------------------------ */

static gg_status bad_list_line(size_t line, gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "line %zu: expected sha256, kind, name and detail", line);
    return gg_fix(err, "make the list from the original model (organ-check --hash MODEL > LIST)");
}

/* Whether the text is escaped, as it must be in a list. Findings contain it and are printed
 * unchanged. */
static bool is_escaped(const char *text)
{
    char none[1];
    size_t len = strlen(text), backslashes = 0;
    for (const char *p = text; (p = strchr(p, '\\')); p++) backslashes++;
    return gg_escape(text, len, none, sizeof none) == len + backslashes;
}

static gg_status parse_list_line(void *ctx, char *line, size_t number, gg_error *err)
{
    rows *r = ctx;
    static const char *const kinds[] = { "file", "metadata", "key", "tensor" };
    char *cell[4] = { line, NULL, NULL, NULL };
    line[strcspn(line, "\r")] = 0;
    if (line[0] == 0 || line[0] == '#' || strncmp(line, "sha256\t", 7) == 0) return GG_OK;
    for (int i = 1; i < 4; i++) {
        char *tab = strchr(cell[i - 1], '\t');
        if (!tab) return bad_list_line(number, err);
        *tab = 0;
        cell[i] = tab + 1;
    }
    int k = 0;
    while (k < 4 && strcmp(kinds[k], cell[1]) != 0) k++;
    if (k == 4 || strlen(cell[0]) != 64 || strspn(cell[0], "0123456789abcdef") != 64 ||
        !is_escaped(cell[2]) || !is_escaped(cell[3]))
        return bad_list_line(number, err);
    row *x = add_hash_row(r, kinds[k], cell[2], cell[3], err);
    if (!x) return GG_ENOMEM;
    memcpy(x->sha, cell[0], 65);
    return r->n <= MOST_LINES ? GG_OK : gg_fail(err, GG_EUNSUPPORTED, "the list is too long");
}

static gg_status read_hash_list(const char *path, rows *r, gg_error *err)
{
    gg_lines from = { path, "the list of hashes", MOST_BYTES };
    gg_status st = gg_each_line(&from, parse_list_line, r, err);
    if (st != GG_OK || r->n > 0) return st;
    bad_list_line(1, err);
    return gg_at_file(err, path);
}

/* ---- comparison --------------------------------------------------------------------------- */

static bool is_kind(const row *r, const char *kind)
{
    return strcmp(r->kind, kind) == 0;
}

/* Rows with the same kind and name; files are compared by their position. */
static int compare_names(const row *x, const row *y)
{
    int d = strcmp(x->kind, y->kind);
    return d || is_kind(x, "file") ? d : strcmp(x->name, y->name);
}

static int by_row_name(const void *a, const void *b)
{
    const row *x = a, *y = b;
    int d = compare_names(x, y);
    return d ? d : (x->place > y->place) - (x->place < y->place);
}

static int by_sha(const void *a, const void *b)
{
    const row *x = *(const row *const *)a, *y = *(const row *const *)b;
    int d = strcmp(x->sha, y->sha);
    return d ? d : (x > y) - (x < y);
}

typedef struct comparison {
    check c; /* only to report findings */
    rows want, have;
    size_t differ;      /* number of keys and tensors that differ */
    const row *reorder; /* the keys as a whole, if they differ; NULL = they do not */
} comparison;

static void report_row(comparison *v, const row *r, const char *fmt, ...) GG_PRINTF(3, 4);
static void report_row(comparison *v, const row *r, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    gg_check_report_finding(&v->c, &(gg_finding){ GG_CHECK_ERROR, "hash", r->name, text });
}

/* Compares two rows with the same name. Files are compared last, in compare_files(). */
static void compare_rows(comparison *v, row *want, row *have)
{
    bool same = strcmp(want->sha, have->sha) == 0;
    want->matched = have->matched = true;
    if (is_kind(want, "metadata") && !same) v->reorder = have;
    if (is_kind(want, "file") || is_kind(want, "metadata")) return;
    if (same && strcmp(want->detail, have->detail) == 0) return;
    v->differ++;
    if (strcmp(want->detail, have->detail) != 0)
        report_row(v, have, "this %s is %.100s, but %.100s in the list", have->kind, have->detail,
                   want->detail);
    else if (is_kind(want, "key"))
        report_row(v, have, "the value of this key differs from the list");
    else report_row(v, have, "the data of this tensor differ from the list");
}

/* The first row of this kind and hash in the sorted list that has no counterpart yet. */
static row *find_renamed(row **list, size_t n, const row *like)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(list[mid]->sha, like->sha) < 0) lo = mid + 1;
        else hi = mid;
    }
    for (; lo < n && strcmp(list[lo]->sha, like->sha) == 0; lo++)
        if (!list[lo]->matched && is_kind(list[lo], like->kind)) return list[lo];
    return NULL;
}

/* Reports rows that only one side has. Two such rows with the same hash are a renamed entry. */
static gg_status report_unmatched(comparison *v)
{
    size_t n = 0;
    row **gone = calloc(v->want.n + 1, sizeof *gone);
    if (!gone) return gg_fail(v->c.err, GG_ENOMEM, "no memory to compare a list");
    for (size_t i = 0; i < v->want.n; i++) {
        row *w = &v->want.list[i];
        if (!w->matched && !is_kind(w, "file")) gone[n++] = w;
    }
    v->differ += n;
    qsort(gone, n, sizeof *gone, by_sha);
    for (size_t i = 0; i < v->have.n; i++) {
        row *h = &v->have.list[i];
        if (h->matched || is_kind(h, "file")) continue;
        v->differ++;
        row *old = find_renamed(gone, n, h);
        if (old) report_row(v, h, "it has this name now; in the list it is %.200s", old->name);
        else report_row(v, h, "the model has this %s, but the list does not", h->kind);
        if (old) old->matched = true;
    }
    free(gone);
    for (size_t i = 0; i < v->want.n; i++) {
        const row *w = &v->want.list[i];
        if (!w->matched && !is_kind(w, "file"))
            report_row(v, w, "the list has this %s, but the model does not", w->kind);
    }
    return v->c.status;
}

/* The number of files, which are first in a sorted list. */
static size_t count_files(const rows *r)
{
    size_t n = 0;
    while (n < r->n && is_kind(&r->list[n], "file")) n++;
    return n;
}

/* Reports differences of files, and whether keys and tensors explain them. */
static void compare_files(comparison *v)
{
    size_t nw = count_files(&v->want), nh = count_files(&v->have);
    const row *w = v->want.list, *h = v->have.list;
    if (nw == 0 || nh == 0) return; /* a pipe and a directory have no files */
    if (nw != nh) report_row(v, h, "the model has %zu files, but %zu in the list", nh, nw);
    for (size_t i = 0; i < nw && nw == nh; i++)
        if (strcmp(w[i].sha, h[i].sha) != 0)
            report_row(v, &h[i], "the file differs from the list%s",
                       v->differ ? "" : ", outside of keys and tensor data");
}

static gg_status compare_lists(comparison *v)
{
    rows *want = &v->want, *have = &v->have;
    qsort(want->list, want->n, sizeof *want->list, by_row_name);
    if (have->n) qsort(have->list, have->n, sizeof *have->list, by_row_name);
    for (size_t i = 0, k = 0; i < want->n && k < have->n;) {
        row *w = &want->list[i], *h = &have->list[k];
        int d = compare_names(w, h);
        if (d == 0) compare_rows(v, w, h);
        i += d <= 0;
        k += d >= 0;
    }
    gg_status st = report_unmatched(v);
    if (st != GG_OK) return st;
    if (v->reorder && v->differ++ == 0)
        report_row(v, v->reorder, "the keys are in a different order than in the list");
    compare_files(v);
    return v->c.status;
}

gg_status gg_check_hash(gg_source *model, const gg_hash_options *o, const gg_run *run,
                        gg_check_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_hash_options, o);
    run = GG_OPTIONS(gg_run, run);
    comparison v = { .c = { .o = &(gg_check_options){ .row = o->finding, .ctx = o->ctx },
                            .err = err } };
    gg_status st = o->list ? read_hash_list(o->list, &v.want, err) : GG_OK;
    if (st == GG_OK) st = model_rows(model, run, &v.have, err);
    if (st == GG_OK && o->list) st = compare_lists(&v);
    for (size_t i = 0; i < v.have.n && !o->list && o->row && st == GG_OK; i++) {
        const row *r = &v.have.list[i];
        st = o->row(o->ctx, &(gg_hash_row){ r->sha, r->kind, r->name, r->detail }, err);
    }
    rows_free(&v.want);
    rows_free(&v.have);
    if (report) *report = (gg_check_report){ 0 };
    if (report) memcpy(report->found, v.c.found, sizeof v.c.found);
    return st;
}
