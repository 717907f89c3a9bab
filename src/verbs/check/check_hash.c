/* check_hash.c - lists the SHA-256 of files, keys and tensors, and compares a model with
 * such a list. */
#include "organ/gg_check.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/lines.h"
#include "base/names.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "gguf/gguf.h"
#include "organ/source_layout.h"
#include "verbs/shared/copy.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP ((size_t)1 << 20)
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

static const char *keep(rows *r, const char *bytes, size_t len, gg_error *err)
{
    char stack[512], *text = stack;
    size_t n = gg_escape(bytes, len, stack, sizeof stack);
    if (n >= sizeof stack) {
        if (!(text = malloc(n + 1))) return gg_fail(err, GG_ENOMEM, "no memory for a name"), NULL;
        gg_escape(bytes, len, text, n + 1);
    }
    const char *kept = gg_names_add(&r->names, text, n, err);
    if (text != stack) free(text);
    return kept;
}

static row *add(rows *r, const char *kind, const char *name, size_t len, const char *detail,
                gg_error *err)
{
    row *grown = gg_grow(r->list, r->n, &r->cap, sizeof *grown, err);
    if (!grown) return NULL;
    r->list = grown;
    row *x = &r->list[r->n];
    *x = (row){ .kind = kind, .place = r->n };
    x->name = keep(r, name, len, err);
    x->detail = x->name ? keep(r, detail, strlen(detail), err) : NULL;
    if (!x->detail) return NULL;
    r->n++;
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

static void finish(gg_sha256 *h, char sha[65])
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
    if (!add(r, "metadata", "-", 1, "-", err)) return err->status;
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
            snprintf(detail, sizeof detail, "%s[%llu]", gg_type_name(kv->elem_type),
                     (unsigned long long)kv->count);
        else snprintf(detail, sizeof detail, "%s", gg_type_name(kv->type));
        row *x = add(r, "key", kv->key, kv->key_len, detail, err);
        if (!x) return err->status;
        finish(&h, x->sha);
    }
    finish(&all, r->list[at].sha);
    return GG_OK;
}

typedef struct hashing {
    gg_source *source;
    const gg_run *run;
    row *rows; /* one row per task */
} hashing;

static gg_status hash_file(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    hashing *j = ctx;
    const gg_model *m = gg_source_model(j->source);
    uint64_t size = m->file_sizes[i];
    uint8_t *buf = malloc(size < STEP ? (size_t)size + 1 : STEP);
    gg_sha256 h;
    gg_status st = buf ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory to read a file");
    (void)worker;
    gg_sha256_init(&h);
    for (uint64_t at = 0; at < size && st == GG_OK; at += STEP) {
        size_t n = size - at < STEP ? (size_t)(size - at) : STEP;
        st = gg_cancelled(err);
        if (st == GG_OK) st = gg_pread_all(m->fds[i], buf, n, at, err);
        if (st == GG_OK) gg_sha256_update(&h, buf, n);
        gg_progress_add(j->run, n);
    }
    finish(&h, j->rows[i].sha);
    free(buf);
    return st == GG_OK ? st : gg_at_file(err, m->paths[i]);
}

static gg_status hash_tensor(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    hashing *j = ctx;
    gg_plan_part part = { j->source, i, 0, gg_source_tensor(j->source, i)->bytes, NULL };
    gg_place nowhere = { -1, 0 };
    (void)worker;
    return gg_copy_part(&part, nowhere, j->rows[i].sha, j->run, err);
}

static gg_status add_tensor(const gg_tensor *t, rows *r, gg_error *err)
{
    char detail[160];
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    size_t n = (size_t)snprintf(detail, sizeof detail, "%s ", info ? info->name : "?");
    for (uint32_t k = 0; k < t->n_dims; k++)
        n += (size_t)snprintf(detail + n, sizeof detail - n, "%s%llu", k ? "x" : "",
                              (unsigned long long)t->dims[k]);
    return add(r, "tensor", t->name, t->name_len, detail, err) ? GG_OK : err->status;
}

static gg_status tensor_rows(gg_source *s, const gg_run *run, rows *r, gg_error *err)
{
    size_t n = gg_source_count(s), first = r->n;
    gg_status st = GG_OK;
    if (gg_source_seekable(s)) {
        for (size_t i = 0; i < n && st == GG_OK; i++)
            st = add_tensor(gg_source_tensor(s, i), r, err);
        hashing j = { s, run, r->list + first };
        return st == GG_OK ? gg_parallel(n, run ? run->threads : 0, hash_tensor, &j, err) : st;
    }
    for (size_t i = 0; st == GG_OK; i++) {
        bool more;
        st = gg_source_next(s, i, &more, err);
        if (st != GG_OK || !more) break;
        st = add_tensor(gg_source_tensor(s, i), r, err);
        hashing j = { s, run, r->list + first };
        if (st == GG_OK) st = hash_tensor(&j, i, 0, err);
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
        snprintf(detail, sizeof detail, "%llu", (unsigned long long)m->file_sizes[i]);
        if (!add(r, "file", name, strlen(name), detail, err)) return err->status;
    }
    hashing j = { s, run, r->list };
    return gg_parallel(m->n_files, run ? run->threads : 0, hash_file, &j, err);
}

static gg_status all_rows(gg_source *s, const gg_run *run, rows *r, gg_error *err)
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

gg_status gg_check_hash(const char *spec, const gg_run *run, gg_hash_fn fn, void *ctx,
                        gg_error *err)
{
    rows r = { 0 };
    gg_source *s = NULL;
    run = GG_OPTIONS(gg_run, run);
    gg_status st = gg_source_open_with(spec, NULL, &s, err);
    if (st == GG_OK) st = all_rows(s, run, &r, err);
    for (size_t i = 0; i < r.n && fn && st == GG_OK; i++) {
        gg_hash_row out = { r.list[i].sha, r.list[i].kind, r.list[i].name, r.list[i].detail };
        st = fn(ctx, &out, err);
    }
    gg_source_close(s);
    rows_free(&r);
    return st;
}

/* ---- a list ------------------------------------------------------------------------------ */

static gg_status bad_line(size_t line, gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "line %zu: expected sha256, kind, name and detail", line);
    return gg_fix_hint(err, GG_HINT_HASHES, "make the list from the original model");
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

static gg_status parse_line(void *ctx, char *line, size_t number, gg_error *err)
{
    rows *r = ctx;
    static const char *const kinds[] = { "file", "metadata", "key", "tensor" };
    char *cell[4] = { line, NULL, NULL, NULL };
    line[strcspn(line, "\r")] = 0;
    if (line[0] == 0 || line[0] == '#' || strncmp(line, "sha256\t", 7) == 0) return GG_OK;
    for (int i = 1; i < 4; i++) {
        char *tab = strchr(cell[i - 1], '\t');
        if (!tab) return bad_line(number, err);
        *tab = 0;
        cell[i] = tab + 1;
    }
    int k = 0;
    while (k < 4 && strcmp(kinds[k], cell[1]) != 0) k++;
    if (k == 4 || strlen(cell[0]) != 64 || strspn(cell[0], "0123456789abcdef") != 64 ||
        !is_escaped(cell[2]) || !is_escaped(cell[3]))
        return bad_line(number, err);
    row *grown = gg_grow(r->list, r->n, &r->cap, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    r->list = grown;
    row x = { .kind = kinds[k], .place = r->n };
    memcpy(x.sha, cell[0], 65);
    x.name = gg_names_add(&r->names, cell[2], strlen(cell[2]), err);
    x.detail = gg_names_add(&r->names, cell[3], strlen(cell[3]), err);
    if (!x.name || !x.detail) return GG_ENOMEM;
    r->list[r->n++] = x;
    return r->n <= MOST_LINES ? GG_OK : gg_fail(err, GG_EUNSUPPORTED, "the list is too long");
}

static gg_status read_list(const char *path, rows *r, gg_error *err)
{
    gg_lines from = { path, "the list of hashes", MOST_BYTES };
    gg_status st = gg_each_line(&from, parse_line, r, err);
    if (st != GG_OK || r->n > 0) return st;
    bad_line(1, err);
    return gg_at_file(err, path);
}

/* ---- comparison --------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const row *x = a, *y = b;
    int d = strcmp(x->kind, y->kind);
    if (d == 0 && strcmp(x->kind, "file") != 0) d = strcmp(x->name, y->name);
    return d ? d : (x->place > y->place) - (x->place < y->place);
}

static int by_sha(const void *a, const void *b)
{
    const row *x = *(const row *const *)a, *y = *(const row *const *)b;
    int d = strcmp(x->sha, y->sha);
    return d ? d : (x > y) - (x < y);
}

typedef struct verdict {
    gg_finding_fn fn;
    void *ctx;
    size_t *found;
    size_t differ; /* number of keys and tensors that differ */
    gg_error *err;
} verdict;

static gg_status say(verdict *v, const row *r, const char *fmt, const char *a, const char *b)
{
    char text[400];
    snprintf(text, sizeof text, fmt, a, b);
    gg_finding f = { GG_CHECK_ERROR, "hash", r->name, text };
    v->found[GG_CHECK_ERROR]++;
    return v->fn ? v->fn(v->ctx, &f, v->err) : GG_OK;
}

static bool is(const row *r, const char *kind)
{
    return strcmp(r->kind, kind) == 0;
}

/* Compares two rows with the same name. Files and the order of the keys are compared last, in
 * others(). */
static gg_status compare(verdict *v, row *want, row *have)
{
    want->matched = have->matched = true;
    if (is(want, "file") || is(want, "metadata")) return GG_OK;
    bool same = strcmp(want->sha, have->sha) == 0;
    if (same && strcmp(want->detail, have->detail) == 0) return GG_OK;
    v->differ++;
    if (strcmp(want->detail, have->detail) != 0)
        return say(v, have,
                   is(want, "key") ? "this key is %.100s, but %.100s in the list"
                                   : "this tensor is %.100s, but %.100s in the list",
                   have->detail, want->detail);
    return say(v, have,
               is(want, "key") ? "the value of this key differs from the list%s%s"
                               : "the data of this tensor differ from the list%s%s",
               "", "");
}

/* Reports rows that only one side has. Two such rows with the same hash are a renamed entry. */
static gg_status unmatched(verdict *v, rows *want, rows *have)
{
    size_t n = 0;
    gg_status st = GG_OK;
    row **gone = calloc(want->n + 1, sizeof *gone);
    if (!gone) return gg_fail(v->err, GG_ENOMEM, "no memory to compare a list");
    for (size_t i = 0; i < want->n; i++)
        if (!want->list[i].matched && !is(&want->list[i], "file")) gone[n++] = &want->list[i];
    v->differ += n;
    qsort(gone, n, sizeof *gone, by_sha);
    for (size_t i = 0; i < have->n && st == GG_OK; i++) {
        row *h = &have->list[i];
        row **old = NULL;
        if (h->matched || is(h, "file")) continue;
        v->differ++;
        size_t lo = 0, hi = n;
        while (lo < hi) {
            size_t mid = lo + (hi - lo) / 2;
            if (strcmp(gone[mid]->sha, h->sha) < 0) lo = mid + 1;
            else hi = mid;
        }
        for (; lo < n && !old && strcmp(gone[lo]->sha, h->sha) == 0; lo++)
            if (!gone[lo]->matched && strcmp(gone[lo]->kind, h->kind) == 0) old = &gone[lo];
        if (old) (*old)->matched = true;
        st = old ? say(v, h, "it has this name now; in the list it is %.200s%s", (*old)->name, "")
                 : say(v, h, "the model has this %s, but the list does not%s", h->kind, "");
    }
    for (size_t i = 0; i < want->n && st == GG_OK; i++)
        if (!want->list[i].matched && !is(&want->list[i], "file"))
            st = say(v, &want->list[i], "the list has this %s, but the model does not%s",
                     want->list[i].kind, "");
    free(gone);
    return st;
}

/* Reports differences of files and of the order of keys that keys and tensors do not explain. */
static gg_status others(verdict *v, const rows *want, const rows *have, const char *kind)
{
    const row *w = NULL, *h = NULL;
    size_t i = 0, k = 0, nw = 0, nh = 0;
    gg_status st = GG_OK;
    for (size_t x = 0; x < want->n; x++) nw += is(&want->list[x], kind);
    for (size_t x = 0; x < have->n; x++) nh += is(&have->list[x], kind);
    if (nw == 0 || nh == 0) return GG_OK; /* a pipe and a directory have no files */
    bool file = strcmp(kind, "file") == 0;
    if (nw != nh) {
        char a[24], b[24];
        snprintf(a, sizeof a, "%zu", nh);
        snprintf(b, sizeof b, "%zu", nw);
        for (k = 0; !is(&have->list[k], kind); k++) {}
        return say(v, &have->list[k], "the model has %s files, but %s in the list", a, b);
    }
    for (size_t x = 0; x < nw && st == GG_OK; x++, i++, k++) {
        for (; !is(&want->list[i], kind); i++) {}
        for (; !is(&have->list[k], kind); k++) {}
        w = &want->list[i];
        h = &have->list[k];
        if (strcmp(w->sha, h->sha) == 0) continue;
        if (file)
            st = say(v, h,
                     v->differ ? "the file differs from the list%s%s"
                               : "the file differs from the list, outside of keys and "
                                 "tensor data%s%s",
                     "", "");
        else if (v->differ == 0)
            st = say(v, h, "the keys are in a different order than in the list%s%s", "", ""),
            v->differ++;
    }
    return st;
}

static gg_status compare_lists(verdict *v, rows *want, rows *have)
{
    gg_status st = GG_OK;
    if (want->n) qsort(want->list, want->n, sizeof *want->list, by_name);
    if (have->n) qsort(have->list, have->n, sizeof *have->list, by_name);
    for (size_t i = 0, k = 0; i < want->n && k < have->n && st == GG_OK;) {
        row *w = &want->list[i], *h = &have->list[k];
        int d = strcmp(w->kind, h->kind);
        if (d == 0 && !is(w, "file")) d = strcmp(w->name, h->name);
        if (d == 0) st = compare(v, w, h);
        i += d <= 0;
        k += d >= 0;
    }
    if (st == GG_OK) st = unmatched(v, want, have);
    if (st == GG_OK) st = others(v, want, have, "metadata");
    return st == GG_OK ? others(v, want, have, "file") : st;
}

gg_status gg_check_verify(const char *spec, const char *list, const gg_run *run, gg_finding_fn fn,
                          void *ctx, size_t found[GG_CHECK_LEVELS], gg_error *err)
{
    rows want = { 0 }, have = { 0 };
    size_t unused[GG_CHECK_LEVELS] = { 0 };
    verdict v = { fn, ctx, found ? found : unused, 0, err };
    gg_source *s = NULL;
    run = GG_OPTIONS(gg_run, run);
    gg_status st = read_list(list, &want, err);
    if (st == GG_OK) st = gg_source_open_with(spec, NULL, &s, err);
    if (st == GG_OK) st = all_rows(s, run, &have, err);
    if (st == GG_OK) st = compare_lists(&v, &want, &have);
    gg_source_close(s);
    rows_free(&want);
    rows_free(&have);
    return st;
}
