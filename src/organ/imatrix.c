#include "imatrix.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/names.h"
#include "base/text.h"
#include "fused.h"
#include "gguf/gguf.h"
#include "numeric/numeric.h"
#include "organ/gg_quant.h"
#include "tensor_names.h"

#define MOST_ENTRIES ((uint32_t)1 << 24)
#define MOST_NAME ((uint32_t)1024)

typedef struct entry {
    const char *name; /* of the tensor that it describes */
    size_t name_len;
    size_t sums, counts; /* GGUF: indices of its tensors; counts is SIZE_MAX until it is found */
    uint64_t at, n;      /* older format: offset and number of its values */
    uint32_t calls;
} entry;

struct gg_imatrix {
    gg_source *source; /* GGUF; NULL for the older format */
    int fd;            /* of a regular file; -1 otherwise */
    gg_stamp stamp;    /* of that file */
    gg_names names;
    const char *path, *dataset;
    uint64_t chunks;
    double tokens;  /* the largest count; 0 for the older format */
    entry *entries; /* sorted by name */
    size_t n, cap;
};

static int by_name(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return gg_text_order(x->name, x->name_len, y->name, y->name_len);
}

static const entry *find(const gg_imatrix *im, const char *name, size_t len)
{
    entry key = { .name = name, .name_len = len };
    return im->n ? bsearch(&key, im->entries, im->n, sizeof key, by_name) : NULL;
}

static gg_status sort_entries(gg_imatrix *im, gg_error *err)
{
    if (im->n == 0) return gg_fail(err, GG_EFORMAT, "the importance matrix has no entries");
    qsort(im->entries, im->n, sizeof *im->entries, by_name);
    for (size_t i = 1; i < im->n; i++) {
        const entry *e = &im->entries[i];
        if (by_name(e - 1, e) != 0) continue;
        gg_fail(err, GG_EFORMAT, "the importance matrix has two entries for one tensor");
        return gg_at_tensor(err, e->name, e->name_len);
    }
    return GG_OK;
}

static gg_status add(gg_imatrix *im, const entry *e, gg_error *err)
{
    if (GG_ROOM(im->entries, im->n, &im->cap, err) != GG_OK) return err->status;
    im->entries[im->n] = *e;
    im->entries[im->n].name = gg_names_add(&im->names, e->name, e->name_len, err);
    if (!im->entries[im->n].name) return err->status;
    im->n++;
    return GG_OK;
}

/* ---- GGUF ------------------------------------------------------------------------------- */

/* The length of a name without the suffix, or 0 if it does not have it. */
static size_t stem(const gg_tensor *t, const char *suffix)
{
    return gg_text_ends(t->name, t->name_len, suffix) ? t->name_len - strlen(suffix) : 0;
}

/* What was read must be of the file that was opened. */
static gg_status check_unchanged(const gg_imatrix *im, gg_error *err)
{
    return gg_check_stamp(&im->stamp, im->fd, im->path, err);
}

static gg_status read_floats(const gg_imatrix *im, size_t tensor, uint64_t first, float *to,
                             uint64_t n, gg_error *err)
{
    gg_data d;
    gg_status st = gg_data_open(im->source, tensor, &d, err);
    if (st != GG_OK) return st;
    st = gg_data_read(&d, 4 * first, to, 4 * n, err);
    gg_data_close(&d);
    return st == GG_OK ? check_unchanged(im, err) : st;
}

static gg_status check_pair(const gg_imatrix *im, const entry *e, gg_error *err)
{
    const gg_tensor *s = gg_source_tensor(im->source, e->sums);
    if (e->counts == SIZE_MAX) {
        gg_fail(err, GG_EFORMAT, "the importance matrix has sums but no counts for this tensor");
        return gg_at_tensor(err, e->name, e->name_len);
    }
    const gg_tensor *c = gg_source_tensor(im->source, e->counts);
    if (s->dtype == GG_F32 && c->dtype == GG_F32 && s->elements && c->dims[0] == 1 &&
        /* not 0: it has elements */
        c->elements == s->elements / s->dims[0])
        return GG_OK;
    gg_fail(err, GG_EFORMAT, "the sums and counts of the importance matrix do not match");
    return gg_at_tensor(err, e->name, e->name_len);
}

/* A tensor that is not an expert gets every token, so the largest count is the number of tokens. */
static gg_status count_tokens(gg_imatrix *im, const entry *e, gg_error *err)
{
    uint64_t n = gg_source_tensor(im->source, e->counts)->elements;
    float count[256];
    gg_status st = GG_OK;
    for (uint64_t i = 0; i < n && st == GG_OK; i += 256) {
        uint64_t got = n - i < 256 ? n - i : 256;
        st = read_floats(im, e->counts, i, count, got, err);
        for (uint64_t k = 0; k < got && st == GG_OK; k++)
            if (isfinite(count[k]) && count[k] > im->tokens) im->tokens = count[k];
    }
    return st;
}

static gg_status read_keys(gg_imatrix *im, gg_error *err)
{
    const gg_meta *m = gg_source_meta(im->source);
    const char *text;
    size_t len;
    uint64_t pos = 0;
    if (!m || !gg_meta_text_is(m, "general.type", "imatrix"))
        return gg_fail(err, GG_EFORMAT, "this GGUF file is not an importance matrix");
    (void)gg_kv_u64(gg_meta_find(m, "imatrix.chunk_count"), &im->chunks);
    const gg_kv *sets = gg_meta_find(m, "imatrix.datasets");
    if (!sets || !gg_kv_next_str(sets, &pos, &text, &len)) return GG_OK;
    im->dataset = gg_names_add(&im->names, text, len, err);
    return im->dataset ? GG_OK : err->status;
}

static gg_status read_gguf(gg_imatrix *im, gg_error *err)
{
    gg_source_options o = { .spooled = true };
    gg_status st = gg_source_open_with(im->path, &o, &im->source, err);
    if (st == GG_OK) st = read_keys(im, err);
    size_t n = st == GG_OK ? gg_source_count(im->source) : 0;
    for (size_t i = 0; st == GG_OK && i < n; i++) {
        const gg_tensor *t = gg_source_tensor(im->source, i);
        entry e = { t->name, stem(t, ".in_sum2"), i, SIZE_MAX, 0, 0, 0 };
        if (e.name_len) st = add(im, &e, err);
    }
    if (st == GG_OK) st = sort_entries(im, err);
    for (size_t i = 0; st == GG_OK && i < n; i++) {
        const gg_tensor *t = gg_source_tensor(im->source, i);
        size_t len = stem(t, ".counts");
        const entry *e = len ? find(im, t->name, len) : NULL;
        if (e) im->entries[e - im->entries].counts = i;
    }
    for (size_t i = 0; st == GG_OK && i < im->n; i++) st = check_pair(im, &im->entries[i], err);
    for (size_t i = 0; st == GG_OK && i < im->n; i++) st = count_tokens(im, &im->entries[i], err);
    return st;
}

/* ---- the older format ------------------------------------------------------------------- */

typedef struct reader {
    int fd;
    uint64_t at, size;
} reader;

static gg_status take(reader *r, void *to, uint64_t n, gg_error *err)
{
    if (n > r->size - r->at)
        return gg_fail_at(r->at, err, "the importance matrix ends early; it was cut short");
    gg_status st = gg_pread_all(r->fd, to, n, r->at, err);
    r->at += n;
    return st;
}

static gg_status take_u32(reader *r, uint32_t most, const char *what, uint32_t *value,
                          gg_error *err)
{
    uint8_t b[4];
    gg_status st = take(r, b, 4, err);
    if (st != GG_OK) return st;
    *value = gg_le32(b);
    if (*value <= most) return GG_OK;
    return gg_fail_at(r->at - 4, err, "%s %" PRIu32 " is too large for an importance matrix", what,
                      *value);
}

static gg_status take_entry(gg_imatrix *im, reader *r, gg_error *err)
{
    char name[MOST_NAME];
    uint32_t len = 0, n = 0;
    entry e = { .name = name };
    gg_status st = take_u32(r, MOST_NAME, "name length", &len, err);
    if (st == GG_OK && len == 0) st = gg_fail_at(r->at - 4, err, "an entry has no name");
    if (st == GG_OK) st = take(r, name, len, err);
    if (st == GG_OK) st = take_u32(r, INT32_MAX, "number of calls", &e.calls, err);
    if (st == GG_OK) st = take_u32(r, INT32_MAX, "number of values", &n, err);
    if (st == GG_OK && n == 0) st = gg_fail_at(r->at - 4, err, "an entry has no values");
    if (st == GG_OK && n > (r->size - r->at) / 4)
        st = gg_fail_at(r->at, err, "the importance matrix ends early; it was cut short");
    if (st != GG_OK) return st;
    e.name_len = len;
    e.n = n;
    e.at = r->at;
    r->at += 4 * (uint64_t)n;
    return add(im, &e, err);
}

static gg_status take_end(gg_imatrix *im, reader *r, gg_error *err)
{
    char name[MOST_NAME];
    uint32_t chunks = 0, len = 0;
    if (r->at == r->size) return GG_OK;
    gg_status st = take_u32(r, INT32_MAX, "number of chunks", &chunks, err);
    im->chunks = chunks;
    if (st != GG_OK || r->at == r->size) return st;
    st = take_u32(r, MOST_NAME, "length of the text's name", &len, err);
    if (st == GG_OK) st = take(r, name, len, err);
    if (st != GG_OK) return st;
    im->dataset = gg_names_add(&im->names, name, len, err);
    return im->dataset ? GG_OK : err->status;
}

static gg_status read_old(gg_imatrix *im, uint64_t size, gg_error *err)
{
    reader r = { im->fd, 0, size };
    uint32_t n = 0;
    gg_status st = take_u32(&r, MOST_ENTRIES, "number of entries", &n, err);
    for (uint32_t i = 0; st == GG_OK && i < n; i++) st = take_entry(im, &r, err);
    if (st == GG_OK) st = take_end(im, &r, err);
    if (st == GG_OK && r.at != size)
        st = gg_fail_at(r.at, err, "unexpected bytes after the importance matrix");
    return st == GG_OK ? sort_entries(im, err) : st;
}

/* ---- opening and reading ---------------------------------------------------------------- */

/* Reads the file of im->path. A regular file that does not begin as a GGUF has the older
 * format; anything else is left to the source. */
static gg_status read_file(gg_imatrix *im, gg_error *err)
{
    struct stat s;
    uint8_t magic[4] = { 0 };
    if (strcmp(im->path, "-") == 0 || (gg_stat(im->path, &s, err) && !S_ISREG(s.st_mode)))
        return read_gguf(im, err);
    if (err->status != GG_OK) return err->status;
    if ((im->fd = gg_open_read(im->path, err)) < 0) return err->status;
    if (fstat(im->fd, &s) != 0) return gg_fail_errno(err, "cannot open");
    if (gg_stamp_fd(im->fd, &im->stamp, err) != GG_OK) return err->status;
    gg_status st = s.st_size < 4 ? gg_fail(err, GG_EFORMAT, "the file is too short")
                                 : gg_pread_all(im->fd, magic, 4, 0, err);
    if (st != GG_OK) return st;
    if (memcmp(magic, "GGUF", 4) == 0) return read_gguf(im, err);
    return read_old(im, (uint64_t)s.st_size, err);
}

gg_status gg_imatrix_open(const char *path, gg_imatrix **out, gg_error *err)
{
    *out = NULL;
    if (!path) return GG_OK;
    gg_imatrix *im = calloc(1, sizeof *im);
    if (!im) return gg_fail(err, GG_ENOMEM, "out of memory");
    im->fd = -1;
    im->dataset = "";
    im->path = gg_names_add(&im->names, path, strlen(path), err);
    gg_status st = im->path ? read_file(im, err) : err->status;
    if (st == GG_OK) st = check_unchanged(im, err);
    if (st == GG_OK) {
        *out = im;
        return st;
    }
    gg_at_file(err, path);
    gg_imatrix_close(im);
    return st;
}

void gg_imatrix_close(gg_imatrix *im)
{
    if (!im) return;
    gg_source_close(im->source);
    if (im->fd >= 0) close(im->fd);
    gg_names_free(&im->names);
    free(im->entries);
    free(im);
}

gg_imatrix_info gg_imatrix_info_of(const gg_imatrix *im)
{
    gg_imatrix_info info = { im->path, im->dataset, im->n, im->chunks };
    return info;
}

/* How the matrices of a tensor and of its entry must compare. */
typedef enum matrices_rule { MATRICES_EQUAL, MATRICES_WITHIN, MATRICES_ONE } matrices_rule;

/* Which matrices of an entry a tensor needs. */
typedef struct span {
    const entry *e;
    uint64_t first; /* matrix */
    matrices_rule rule;
} span;

/* The entry of a name, or of the same matrix in a model that has it fused, or separate. Parts of a
 * fused tensor have the same inputs. */
static const entry *find_either_form(const gg_imatrix *im, const char *name, size_t len)
{
    char other[256];
    const entry *e = find(im, name, len);
    for (size_t k = 0; !e && gg_fused_sibling(name, len, k, other, sizeof other); k++)
        e = find(im, other, strlen(other));
    return e;
}

/* The entry of the tensor, or of the stack that a single expert belongs to. */
static span find_span(const gg_imatrix *im, const gg_tensor *t, matrices_rule rule)
{
    char stack[256];
    size_t len = 0;
    span s = { find_either_form(im, t->name, t->name_len), 0, rule };
    if (s.e || !gg_stack_name(t->name, t->name_len, stack, sizeof stack, &len)) return s;
    if (t->a.expert < 0) return s;
    return (span){ find_either_form(im, stack, len), (uint64_t)t->a.expert, MATRICES_ONE };
}

/* Checks that the entry has the tensor's columns and matrices. */
static gg_status check_shape(const gg_imatrix *im, const span *s, const gg_tensor *t, gg_error *err)
{
    uint64_t columns = t->dims[0], matrices = gg_dims_from(t, 2), n = s->e->n;
    if (im->source) {
        const gg_tensor *sums = gg_source_tensor(im->source, s->e->sums);
        n = sums->elements;
        if (sums->dims[0] != columns) {
            gg_fail(err, GG_NO,
                    "its rows have %" PRIu64 " columns, but the importance matrix has %" PRIu64,
                    columns, sums->dims[0]);
            return gg_at_tensor(err, t->name, t->name_len);
        }
    }
    uint64_t have = columns ? n / columns : 0;
    bool fits = s->rule == MATRICES_EQUAL    ? have == matrices
                : s->rule == MATRICES_WITHIN ? matrices <= have
                                             : s->first < have;
    if (columns && n % columns == 0 && fits) return GG_OK;
    gg_fail(err, GG_NO,
            "it has %" PRIu64 " matrices of %" PRIu64
            " columns, but the importance matrix has %" PRIu64 " values",
            matrices, columns, n);
    return gg_at_tensor(err, t->name, t->name_len);
}

static gg_status read_sums(const gg_imatrix *im, const entry *e, uint64_t first, float *to,
                           uint64_t n, gg_error *err)
{
    if (im->source) return read_floats(im, e->sums, first, to, n, err);
    gg_status st = gg_pread_all(im->fd, to, 4 * n, e->at + 4 * first, err);
    return st == GG_OK ? check_unchanged(im, err) : st;
}

/* Reads sums and counts into out, which has room for them. */
static gg_status fill(const gg_imatrix *im, const span *s, gg_importance *out, gg_error *err)
{
    uint64_t n = out->columns * out->matrices;
    gg_status st = GG_OK;
    if (im->source) st = read_floats(im, s->e->counts, s->first, out->counts, out->matrices, err);
    return st == GG_OK ? read_sums(im, s->e, s->first * out->columns, out->mean2, n, err) : st;
}

/* Turns the sums into means, as llama.cpp's quantizer does. */
static gg_status divide(const gg_tensor *t, uint32_t calls, gg_importance *out, gg_error *err)
{
    for (uint64_t m = 0; m < out->matrices; m++) {
        float *v = out->mean2 + m * out->columns;
        float count = out->counts ? out->counts[m] : (float)calls;
        bool valid = isfinite(count) && count >= 0;
        for (uint64_t j = 0; j < out->columns; j++) {
            valid = valid && isfinite(v[j]) && v[j] >= 0;
            v[j] = count > 0 ? v[j] / count : 1.0f;
            valid = valid && isfinite(v[j]); /* a count below 1 may overflow it */
        }
        if (valid) continue;
        gg_fail(err, GG_EFORMAT,
                "the importance matrix has values that are negative or not finite");
        return gg_at_tensor(err, t->name, t->name_len);
    }
    return GG_OK;
}

gg_status gg_imatrix_check(const gg_imatrix *im, const gg_tensor *t, bool part, bool *has,
                           gg_error *err)
{
    span s = find_span(im, t, part ? MATRICES_WITHIN : MATRICES_EQUAL);
    *has = s.e != NULL;
    if (!s.e || check_shape(im, &s, t, err) == GG_OK) return GG_OK;
    return gg_at_file(err, im->path);
}

gg_status gg_imatrix_read(const gg_imatrix *im, const gg_tensor *t, gg_importance *out,
                          gg_error *err)
{
    span s = find_span(im, t, MATRICES_EQUAL);
    memset(out, 0, sizeof *out);
    if (!s.e) return GG_OK;
    gg_status st = check_shape(im, &s, t, err);
    if (st != GG_OK) return gg_at_file(err, im->path);
    out->columns = t->dims[0];
    out->matrices = gg_dims_from(t, 2);
    out->rows = t->dims[1];
    out->mean2 = calloc(out->columns * out->matrices, sizeof *out->mean2);
    if (im->source) out->counts = calloc(out->matrices, sizeof *out->counts);
    if (!out->mean2 || (im->source && !out->counts)) st = gg_fail(err, GG_ENOMEM, "out of memory");
    if (st == GG_OK) st = fill(im, &s, out, err);
    if (st == GG_OK) st = divide(t, s.e->calls, out, err);
    if (st == GG_OK) return st;
    gg_importance_free(out);
    return gg_at_file(err, im->path);
}

gg_status gg_imatrix_read_per_token(const gg_imatrix *im, const gg_tensor *t, gg_importance *out,
                                    gg_error *err)
{
    *out = (gg_importance){ 0 };
    if (!im || !gg_can_decode(t->dtype) || t->elements == 0) return GG_OK;
    gg_status st = gg_imatrix_read(im, t, out, err);
    if (st != GG_OK || !out->counts) return st;
    for (uint64_t m = 0; m < out->matrices; m++) {
        float share = im->tokens > 0 ? (float)(out->counts[m] / im->tokens) : 0.0f;
        for (uint64_t j = 0; j < out->columns; j++) out->mean2[m * out->columns + j] *= share;
    }
    return st;
}

const float *gg_importance_run(const gg_importance *w, uint64_t first, size_t n, size_t *run)
{
    /* not 0: a matrix with importance has columns */
    uint64_t row = first / w->columns, column = first % w->columns, left = w->columns - column;
    *run = left < n ? (size_t)left : n;
    /* not 0: and rows */
    return w->mean2 + row / w->rows * w->columns + column;
}

void gg_importance_sum(const gg_importance *w, uint64_t first, const float *a, const float *b,
                       size_t n, double sums[2])
{
    for (size_t done = 0, run; w->mean2 && done < n; done += run) {
        const float *weights = gg_importance_run(w, first + done, n - done, &run);
        GG_PICK(gg_weighted_add)(weights, a + done, b + done, run, sums);
    }
}

void gg_importance_free(gg_importance *importance)
{
    free(importance->mean2);
    free(importance->counts);
    memset(importance, 0, sizeof *importance);
}

/* ---- entries ---------------------------------------------------------------------------- */

gg_imatrix_entry gg_imatrix_entry_at(const gg_imatrix *im, size_t i)
{
    const entry *e = &im->entries[i];
    gg_imatrix_entry out = { e->name, e->name_len, e->n, 0, 0, e->calls };
    if (!im->source) return out;
    const gg_tensor *t = gg_source_tensor(im->source, e->sums);
    out.values = t->elements;
    out.columns = t->dims[0];
    /* not 0: check_pair wants elements */
    out.matrices = t->elements / t->dims[0];
    return out;
}

size_t gg_imatrix_find(const gg_imatrix *im, const char *name, size_t len)
{
    const entry *e = find(im, name, len);
    return e ? (size_t)(e - im->entries) : SIZE_MAX;
}

size_t gg_imatrix_find_form(const gg_imatrix *im, const char *name, size_t len)
{
    const entry *e = find_either_form(im, name, len);
    return e ? (size_t)(e - im->entries) : SIZE_MAX;
}

gg_status gg_imatrix_sums(const gg_imatrix *im, size_t i, uint64_t first, uint64_t n, float *out,
                          gg_error *err)
{
    const entry *e = &im->entries[i];
    gg_status st = read_sums(im, e, first, out, n, err);
    return st == GG_OK ? GG_OK : gg_at_file(err, im->path);
}

gg_status gg_imatrix_count(const gg_imatrix *im, size_t i, uint64_t matrix, float *out,
                           gg_error *err)
{
    const entry *e = &im->entries[i];
    gg_status st = GG_OK;
    *out = (float)e->calls;
    if (im->source) st = read_floats(im, e->counts, matrix, out, 1, err);
    if (st == GG_OK && isfinite(*out) && *out >= 0) return GG_OK;
    if (st == GG_OK) {
        gg_fail(err, GG_EFORMAT,
                "the importance matrix has a count that is negative or not finite");
        gg_at_tensor(err, e->name, e->name_len);
    }
    return gg_at_file(err, im->path);
}

const gg_meta *gg_imatrix_meta(const gg_imatrix *im)
{
    return im->source ? gg_source_meta(im->source) : NULL;
}
