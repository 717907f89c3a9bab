/* verb_imatrix.c - adds up, converts and describes importance matrices, and writes those of models
 * that were restructured. */
#include "base/text.h"
#include "gg_imatrix.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/sha256.h"
#include "compute/imatrix_write.h"
#include "gguf/gguf.h"
#include "numeric/ownmath.h"
#include "organ/imatrix.h"
#include "organ/output_guard.h"
#include "organ/record.h"
#include "organ/tensor_names.h"
#include "write/verb_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ----------------------------------------------------------------------------- */

/* The matrices of entry i, and their columns. The model may be NULL. */
static gg_status entry_shape(const gg_imatrix *im, size_t i, const gg_source *model,
                             gg_imatrix_entry *e, gg_error *err)
{
    *e = gg_imatrix_entry_at(im, i);
    if (e->columns) return GG_OK;
    size_t at = model ? gg_source_find(model, e->name, e->name_len) : SIZE_MAX;
    const gg_tensor *t = at != SIZE_MAX ? gg_source_tensor(model, at) : NULL;
    e->matrices = t ? gg_dims_from(t, 2) : 1;
    e->columns = e->matrices ? e->values / e->matrices : 0;
    if (t && e->columns == t->dims[0] && e->values == e->columns * e->matrices) return GG_OK;
    if (t)
        gg_fail(err, GG_EFORMAT,
                "the importance matrix has %llu values for it: it was computed for another model",
                (unsigned long long)e->values);
    else if (!gg_anatomy_of(e->name, e->name_len).stack) return GG_OK;
    else {
        gg_fail(err, GG_EUSAGE, "the older format does not state how many experts it has");
        gg_fix(err, "also give the model that the importance matrix was computed for");
    }
    gg_at_tensor(err, e->name, e->name_len);
    return gg_at_file(err, gg_imatrix_info_of(im).file);
}

static void close_files(gg_imatrix **list, size_t n)
{
    for (size_t i = 0; list && i < n; i++) gg_imatrix_close(list[i]);
    free(list);
}

/* ---- sums -------------------------------------------------------------------------------- */

typedef struct imatrix_sums {
    gg_imatrix **list;
    size_t n;
    const gg_imatrix_options *o;
    gg_imatrix_file file;
} imatrix_sums;

/* Plans the sum of the entries that have the name of an entry of file `first`. */
static gg_status add_entry_sum(imatrix_sums *c, size_t first, size_t i, gg_error *err)
{
    gg_imatrix_entry e;
    gg_status st = entry_shape(c->list[first], i, c->o->model, &e, err);
    gg_imatrix_part *parts = st == GG_OK ? calloc((size_t)e.matrices * c->n, sizeof *parts) : NULL;
    gg_imatrix_sum sum = { e.name, e.name_len, 0, e.matrices, e.columns, e.columns, parts };
    if (st == GG_OK && !parts) st = gg_fail(err, GG_ENOMEM, "no memory for an importance matrix");
    size_t at[GG_IMATRIX_FILES], which[GG_IMATRIX_FILES];
    for (size_t k = first; k < c->n && st == GG_OK; k++) {
        gg_imatrix_entry other;
        at[sum.n] = gg_imatrix_find(c->list[k], e.name, e.name_len);
        which[sum.n] = k;
        if (at[sum.n] == SIZE_MAX) continue;
        st = entry_shape(c->list[k], at[sum.n++], c->o->model, &other, err);
        if (st != GG_OK || (other.columns == e.columns && other.matrices == e.matrices)) continue;
        st = gg_fail(
            err, GG_NO,
            "it has %llu x %llu values here, but %llu x %llu in %.200s: the files belong to "
            "different models",
            (unsigned long long)other.columns, (unsigned long long)other.matrices,
            (unsigned long long)e.columns, (unsigned long long)e.matrices,
            gg_imatrix_info_of(c->list[first]).file);
        gg_at_tensor(err, e.name, e.name_len);
        gg_at_file(err, gg_imatrix_info_of(c->list[k]).file);
    }
    for (uint64_t m = 0; m < e.matrices && st == GG_OK; m++)
        for (size_t k = 0; k < sum.n; k++)
            parts[m * sum.n + k] =
                (gg_imatrix_part){ .im = c->list[which[k]], .entry = at[k], .matrix = m };
    if (st == GG_OK) st = gg_imatrix_file_add(&c->file, &sum, err);
    free(parts);
    return st;
}

static gg_status add_all_sums(imatrix_sums *c, const gg_run *run, gg_error *err)
{
    gg_status st = GG_OK;
    size_t partial = 0;
    c->file.from = c->list;
    c->file.n_from = c->n;
    for (size_t k = 0; k < c->n && st == GG_OK; k++)
        for (size_t i = 0; i < gg_imatrix_info_of(c->list[k]).entries && st == GG_OK; i++) {
            gg_imatrix_entry e = gg_imatrix_entry_at(c->list[k], i);
            bool done = false;
            for (size_t j = 0; j < k && !done; j++)
                done = gg_imatrix_find(c->list[j], e.name, e.name_len) != SIZE_MAX;
            partial += !done && k > 0;
            if (!done) st = add_entry_sum(c, k, i, err);
        }
    if (partial)
        gg_note(run, "%zu tensor%s only some of the files", partial,
                partial == 1 ? " is in" : "s are in");
    return st;
}

gg_status gg_imatrix_combine(const char *const *paths, size_t n, const gg_imatrix_options *o,
                             const char *output, const gg_run *run, gg_error *err)
{
    o = GG_OPTIONS(gg_imatrix_options, o);
    run = GG_OPTIONS(gg_run, run);
    imatrix_sums c = { calloc(n + 1, sizeof *c.list), n, o, { 0 } };
    gg_status st = c.list ? GG_OK : gg_fail(err, GG_ENOMEM, "out of memory");
    if (n == 0 || n > GG_IMATRIX_FILES)
        st = gg_fail(err, GG_EUSAGE, "1 to %d files can be added up", GG_IMATRIX_FILES);
    for (size_t i = 0; i < n && st == GG_OK; i++) st = gg_imatrix_open(paths[i], &c.list[i], err);
    c.file.chunk = o->chunk_size;
    if (st == GG_OK) st = add_all_sums(&c, run, err);
    if (st == GG_OK) st = gg_imatrix_file_write(&c.file, output, o->old_format, run, err);
    gg_imatrix_file_free(&c.file);
    close_files(c.list, n);
    return st;
}

/* ---- statistics -------------------------------------------------------------------------- */

/* The means of the matrices `first` to `end` that had inputs, one after another in x. */
static gg_status read_means(const gg_imatrix *im, size_t i, const gg_imatrix_entry *e, float *x,
                            double *counts, gg_error *err)
{
    gg_status st = gg_imatrix_sums(im, i, 0, e->values, x, err);
    for (uint64_t m = 0; m < e->matrices && st == GG_OK; m++) {
        float count;
        st = gg_imatrix_count(im, i, m, &count, err);
        counts[m] = count;
    }
    return st;
}

static double log2_of(double x)
{
    return own_log(x) / OWN_LN2;
}

/* Statistics of the values of matrices [first, end). */
static void describe_inputs(const float *sums, const double *counts, uint64_t first, uint64_t end,
                            gg_imatrix_row *r)
{
    double squares = 0, above = 0, active = 0, n = 0;
    r->sum = r->entropy = r->max = 0;
    r->min = INFINITY;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (uint64_t k = first * r->columns; k < end * r->columns; k++) {
            double count = counts[k / r->columns], v = count > 0 ? (double)sums[k] / count : 0;
            if (!(count > 0)) continue;
            if (pass == 0) {
                r->sum += v;
                squares += v * v;
                active += v > 1e-5;
                n++;
                r->min = v < r->min ? v : r->min;
                r->max = v > r->max ? v : r->max;
            } else {
                double p = r->sum > 0 ? v / r->sum : 0;
                if (p > 0) r->entropy -= p * log2_of(p);
                above += r->std > 0 && v - r->mean > r->std;
            }
        }
        r->mean = r->sum / n;
        double variance = squares / n - r->mean * r->mean;
        r->std = sqrt(variance > 0 ? variance : 0);
    }
    r->active = active / n;
    r->evenness = n > 1 ? r->entropy / log2_of(n) : NAN;
    r->outliers = above / n;
    if (n > 0) return;
    r->sum = r->min = r->max = r->mean = r->std = r->active = NAN;
    r->entropy = r->evenness = r->outliers = NAN;
}

static double cosine_of(const float *x, const float *y, uint64_t from, uint64_t to)
{
    double xy = 0, xx = 0, yy = 0;
    for (uint64_t k = from; k < to; k++) {
        xy += (double)x[k] * (double)y[k];
        xx += (double)x[k] * (double)x[k];
        yy += (double)y[k] * (double)y[k];
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx) / sqrt(yy) : NAN;
}

/* The sums of the same tensor in the block before, if it has as many. */
static bool read_before(const gg_imatrix *im, const gg_imatrix_entry *e, float *y, gg_error *err)
{
    char name[GG_RECORD_NAME + 1];
    size_t len;
    gg_anatomy a = gg_anatomy_of(e->name, e->name_len);
    if (a.block < 1 ||
        !gg_name_with_block(e->name, e->name_len, a.block - 1, name, sizeof name, &len))
        return false;
    size_t i = gg_imatrix_find(im, name, len);
    if (i == SIZE_MAX || gg_imatrix_entry_at(im, i).values != e->values) return false;
    return gg_imatrix_sums(im, i, 0, e->values, y, err) == GG_OK;
}

typedef struct show_to {
    bool experts;
    gg_status (*row)(void *ctx, const gg_imatrix_row *row, gg_error *err);
    void *ctx;
} show_to;

static gg_status show_entry(const gg_imatrix *im, size_t i, const gg_imatrix_entry *e,
                            const show_to *to, gg_error *err)
{
    float *x = malloc((size_t)e->values * sizeof *x), *y = malloc((size_t)e->values * sizeof *y);
    double *counts = calloc((size_t)e->matrices, sizeof *counts), all = 0;
    gg_status st = x && y && counts ? read_means(im, i, e, x, counts, err)
                                    : gg_fail(err, GG_ENOMEM, "no memory for an entry");
    bool before = st == GG_OK && read_before(im, e, y, err);
    if (st == GG_OK) st = err->status;
    for (uint64_t m = 0; m < e->matrices && st == GG_OK; m++) all += counts[m];
    gg_imatrix_row r = { .name = e->name, .name_len = e->name_len, .expert = -1 };
    r.columns = e->columns;
    for (uint64_t m = 0; m <= e->matrices && st == GG_OK; m++) {
        uint64_t first = m ? m - 1 : 0, end = m ? m : e->matrices;
        r.expert = (int64_t)m - 1;
        r.count = m ? counts[m - 1] : all;
        r.share = all > 0 ? r.count / all : 0;
        describe_inputs(x, counts, first, end, &r);
        r.cosine = before ? cosine_of(x, y, first * e->columns, end * e->columns) : NAN;
        st = to->row(to->ctx, &r, err);
        if (!to->experts || e->matrices == 1) break;
    }
    free(x);
    free(y);
    free(counts);
    return st;
}

gg_status gg_imatrix_show(const char *path, bool experts, const gg_imatrix_options *o,
                          gg_status (*row)(void *ctx, const gg_imatrix_row *row, gg_error *err),
                          void *ctx, gg_error *err)
{
    gg_imatrix *im;
    const show_to to = { experts, row, ctx };
    o = GG_OPTIONS(gg_imatrix_options, o);
    gg_status st = gg_imatrix_open(path, &im, err);
    for (size_t i = 0; st == GG_OK && i < gg_imatrix_info_of(im).entries; i++) {
        gg_imatrix_entry e;
        st = entry_shape(im, i, o->model, &e, err);
        if (st == GG_OK) st = show_entry(im, i, &e, &to, err);
    }
    gg_imatrix_close(im);
    return st;
}

/* ---- following a model ------------------------------------------------------------------- */

#define SLICES 16
#define SLICE_BYTES ((size_t)4096)

/* A matrix of a model, or an expert of a stack, with the hash of a sample of its data. */
typedef struct matrix_piece {
    uint8_t hash[32];
    size_t of, tensor; /* the model and its tensor */
    uint64_t expert;   /* of a stack; 0 otherwise */
} matrix_piece;

typedef struct follower {
    gg_source *model;
    const gg_imatrix_of *from;
    size_t n;
    gg_imatrix **list;    /* of each model */
    matrix_piece *pieces; /* of all models, sorted */
    size_t n_pieces, cap;
    /* per tensor of the new model: the piece of its first matrix; SIZE_MAX = none is the same */
    size_t *first;
    gg_imatrix_file file;
    gg_imatrix_report *report;
    const gg_run *run;
} follower;

static int by_hash(const void *a, const void *b)
{
    const matrix_piece *x = a, *y = b;
    int c = memcmp(x->hash, y->hash, sizeof x->hash);
    if (c) return c;
    if (x->of != y->of) return x->of < y->of ? -1 : 1;
    if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
    return x->expert < y->expert ? -1 : x->expert > y->expert;
}

static uint64_t matrices_of(const gg_tensor *t)
{
    uint64_t experts = 0;
    bool stack = t->n_dims == 3 && gg_is_expert_stack(t, &experts);
    return stack ? experts : t->n_dims == 2 && t->dims[0] > 1 && t->bytes ? 1 : 0;
}

/* Hashes the shape of matrix m of a tensor, and slices of its data. */
static gg_status hash_piece(gg_data *d, const gg_tensor *t, uint64_t m, uint8_t hash[32],
                            gg_error *err)
{
    uint8_t room[SLICE_BYTES];
    /* not 0: only matrices with bytes are hashed */
    uint64_t size = t->bytes / matrices_of(t), shape[3] = { t->dtype, t->dims[0], t->dims[1] };
    uint64_t slices = size / SLICE_BYTES + 1 < SLICES ? size / SLICE_BYTES + 1 : SLICES;
    gg_sha256 h;
    gg_status st = gg_cancelled(err);
    gg_sha256_init(&h);
    gg_sha256_update(&h, shape, sizeof shape);
    for (uint64_t k = 0; k < slices && st == GG_OK; k++) {
        /* not 0: there are two slices or more */
        uint64_t at = slices > 1 ? (size - SLICE_BYTES) / (slices - 1) * k : 0;
        size_t n = size - at < SLICE_BYTES ? (size_t)(size - at) : SLICE_BYTES;
        st = gg_data_read(d, m * size + at, room, n, err);
        if (st == GG_OK) gg_sha256_update(&h, room, n);
    }
    gg_sha256_final(&h, hash);
    return st;
}

static gg_status add_pieces(follower *f, size_t of, size_t i, gg_error *err)
{
    gg_source *s = f->from[of].model;
    const gg_tensor *t = gg_source_tensor(s, i);
    gg_data d;
    uint64_t n = matrices_of(t);
    gg_status st = n ? gg_data_open(s, i, &d, err) : GG_OK;
    if (n == 0 || st != GG_OK) return st;
    for (uint64_t m = 0; m < n && st == GG_OK; m++) {
        st = GG_ROOM(f->pieces, f->n_pieces, &f->cap, err);
        if (st != GG_OK) break;
        matrix_piece *p = &f->pieces[f->n_pieces++];
        *p = (matrix_piece){ .of = of, .tensor = i, .expert = m };
        st = hash_piece(&d, t, m, p->hash, err);
    }
    gg_data_close(&d);
    return st;
}

/* The piece with the data of matrix m of a tensor of the new model, if possible that of the same
 * name; SIZE_MAX if there is none. */
static size_t same_piece(const follower *f, const gg_tensor *t, uint64_t m, const uint8_t hash[32])
{
    size_t lo = 0, hi = f->n_pieces, found = SIZE_MAX;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (memcmp(f->pieces[mid].hash, hash, 32) < 0) lo = mid + 1;
        else hi = mid;
    }
    for (; lo < f->n_pieces && memcmp(f->pieces[lo].hash, hash, 32) == 0; lo++) {
        const matrix_piece *p = &f->pieces[lo];
        const gg_tensor *old = gg_source_tensor(f->from[p->of].model, p->tensor);
        bool same = old->name_len == t->name_len && memcmp(old->name, t->name, t->name_len) == 0;
        if (found == SIZE_MAX) found = lo;
        if (same && p->expert == m) return lo;
    }
    return found;
}

/* The matrix of an importance matrix that belongs to a piece. */
static bool part_of_piece(const follower *f, size_t piece, gg_imatrix_part *out)
{
    const matrix_piece *p = &f->pieces[piece];
    const gg_tensor *t = gg_source_tensor(f->from[p->of].model, p->tensor);
    char stack[GG_RECORD_NAME + 8];
    size_t len;
    *out = (gg_imatrix_part){ .im = f->list[p->of], .matrix = p->expert };
    out->entry = gg_imatrix_find(out->im, t->name, t->name_len);
    if (out->entry != SIZE_MAX) return true;
    if (!gg_stack_name(t->name, t->name_len, stack, sizeof stack, &len)) return false;
    out->matrix = (uint64_t)t->a.expert;
    out->entry = gg_imatrix_find(out->im, stack, len);
    return out->entry != SIZE_MAX;
}

/* The columns of a part; 0 if the entry does not have its matrix. */
static uint64_t part_columns(const follower *f, const gg_imatrix_part *p, gg_error *err)
{
    gg_imatrix_entry e;
    for (size_t k = 0; k < f->n; k++)
        if (f->list[k] == p->im && entry_shape(p->im, p->entry, f->from[k].model, &e, err) == GG_OK)
            return p->matrix < e.matrices ? e.columns : 0;
    return 0;
}

/* Finds the entry of a tensor by its name in the block that its own block came from. */
static size_t find_by_name(const follower *f, const gg_tensor *t, size_t *of)
{
    char name[GG_RECORD_NAME + 64];
    size_t len = t->name_len;
    *of = 0;
    if (!gg_text_copy(name, sizeof name, t->name, len)) return SIZE_MAX;
    for (size_t i = 0; i < gg_source_count(f->model) && t->a.block >= 0; i++) {
        gg_anatomy b = gg_source_tensor(f->model, i)->a;
        if (b.block != t->a.block || f->first[i] == SIZE_MAX) continue;
        const matrix_piece *p = &f->pieces[f->first[i]];
        *of = p->of;
        gg_name_with_block(t->name, t->name_len,
                           gg_source_tensor(f->from[p->of].model, p->tensor)->a.block, name,
                           GG_RECORD_NAME, &len);
        break;
    }
    return gg_imatrix_find_form(f->list[*of], name, len);
}

/* Finds the parts of all matrices of a tensor by their data. */
static bool parts_by_data(const follower *f, size_t i, uint64_t n, gg_imatrix_part *parts,
                          gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(f->model, i);
    gg_data d;
    bool all = gg_data_open(f->model, i, &d, err) == GG_OK, opened = all;
    for (uint64_t m = 0; m < n && all; m++) {
        uint8_t hash[32];
        all = hash_piece(&d, t, m, hash, err) == GG_OK;
        size_t piece = all ? same_piece(f, t, m, hash) : SIZE_MAX;
        if (piece != SIZE_MAX && f->first[i] == SIZE_MAX) f->first[i] = piece;
        all = piece != SIZE_MAX && part_of_piece(f, piece, &parts[m]) &&
              part_columns(f, &parts[m], err) == t->dims[0];
    }
    if (opened) gg_data_close(&d);
    return all;
}

static bool parts_by_name(const follower *f, const gg_tensor *t, uint64_t n, gg_imatrix_part *parts,
                          bool *had, gg_error *err)
{
    gg_imatrix_entry e;
    size_t of, at = find_by_name(f, t, &of);
    *had = at != SIZE_MAX;
    if (!*had || entry_shape(f->list[of], at, f->from[of].model, &e, err) != GG_OK) return false;
    for (uint64_t m = 0; m < n; m++)
        parts[m] = (gg_imatrix_part){ .im = f->list[of], .entry = at, .matrix = m };
    return e.columns == t->dims[0] && e.matrices == n;
}

/* `by_data`: only looks for the data, to learn where the blocks come from. */
static gg_status follow_tensor(follower *f, size_t i, bool by_data, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(f->model, i);
    uint64_t n = matrices_of(t);
    gg_imatrix_part *parts = calloc((size_t)n + 1, sizeof *parts);
    gg_imatrix_sum sum = { t->name, t->name_len, 1, n, t->dims[0], t->dims[0], parts };
    bool had = false;
    if (!parts) return gg_fail(err, GG_ENOMEM, "no memory for an importance matrix");
    bool found = n > 0 && parts_by_data(f, i, n, parts, err);
    if (!by_data && n > 0 && !found && err->status == GG_OK) {
        found = parts_by_name(f, t, n, parts, &had, err);
        f->report->by_name += found;
        if (had && !found && f->report->lost++ == 0)
            gg_note(f->run, "%.*s does not fit its entry and is left out", (int)t->name_len,
                    t->name);
    }
    gg_status st = err->status;
    if (st == GG_OK && found && !by_data) st = gg_imatrix_file_add(&f->file, &sum, err);
    f->report->entries += st == GG_OK && found && !by_data;
    free(parts);
    return st;
}

static gg_status open_models(follower *f, gg_error *err)
{
    gg_status st = GG_OK;
    f->list = calloc(f->n + 1, sizeof *f->list);
    f->first = calloc(gg_source_count(f->model) + 1, sizeof *f->first);
    if (!f->list || !f->first) return gg_fail(err, GG_ENOMEM, "out of memory");
    memset(f->first, 0xff, (gg_source_count(f->model) + 1) * sizeof *f->first);
    for (size_t k = 0; k < f->n && st == GG_OK; k++) {
        st = gg_imatrix_open(f->from[k].path, &f->list[k], err);
        for (size_t i = 0; st == GG_OK && i < gg_source_count(f->from[k].model); i++)
            st = add_pieces(f, k, i, err);
    }
    if (st == GG_OK && f->n_pieces) qsort(f->pieces, f->n_pieces, sizeof *f->pieces, by_hash);
    return st;
}

gg_status gg_imatrix_follow(gg_source *model, const gg_imatrix_of *from, const char *output,
                            const gg_run *run, gg_imatrix_report *report, gg_error *err)
{
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_imatrix_report, report);
    *report = (gg_imatrix_report){ 0 };
    follower f = { .model = model, .from = from, .report = report, .run = run };
    while (from[f.n].path) f.n++;
    gg_status st = gg_guard_output(output, model, err);
    for (size_t k = 0; k < f.n && st == GG_OK; k++)
        st = gg_guard_output(output, from[k].model, err);
    if (st == GG_OK) st = open_models(&f, err);
    f.file.from = f.list;
    f.file.n_from = f.n;
    for (size_t i = 0; i < 2 * gg_source_count(model) && st == GG_OK; i++)
        st = follow_tensor(&f, i % gg_source_count(model), i < gg_source_count(model), err);
    bool same = false;
    for (size_t i = 0; i < gg_source_count(model) && f.first; i++)
        same = same || f.first[i] != SIZE_MAX;
    if (st == GG_OK && !same)
        gg_note(run,
                "no matrix of the new model has the data of a given one, so entries are found by "
                "name alone: it was re-encoded, or belongs to another model");
    if (report->lost > 1) gg_note(run, "%zu tensors are left out in all", report->lost);
    if (st == GG_OK) st = gg_imatrix_file_write(&f.file, output, false, run, err);
    gg_imatrix_file_free(&f.file);
    close_files(f.list, f.n);
    free(f.pieces);
    free(f.first);
    return st;
}
