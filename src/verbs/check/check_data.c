/* check_data.c - checks the weights: values that are not numbers, tensors and rows of zeros,
 * blocks with the same bytes. Each tensor is read once, in pieces, and hashed at the same
 * time. */
#include "check_data.h"

#include "base/parallel.h"
#include "base/sha256.h"
#include "organ/tensor_names.h"
#include "verbs/shared/verb_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 32768 /* approximate number of values decoded at a time */

/* The results of reading a tensor. */
typedef struct seen {
    uint64_t nans, infinite, dead_rows, rows;
    bool zeros, constant, decoded;
    unsigned char digest[32];
} seen;

typedef struct job {
    gg_source *source;
    const gg_run *run;
    seen *of; /* one entry per tensor */
} job;

typedef struct reader {
    gg_data data;
    uint8_t *bytes;
    float *values;
    float first;   /* first value of the tensor */
    bool row_zero; /* the current row has only zeros so far */
    uint64_t in_row;
} reader;

static void look_at(reader *r, seen *s, uint64_t row_length, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = r->values[i];
        s->nans += isnan(v) != 0;
        s->infinite += isinf(v) != 0;
        if (v != 0) s->zeros = r->row_zero = false;
        if (v != r->first) s->constant = false;
        if (++r->in_row == row_length) {
            s->dead_rows += r->row_zero;
            s->rows++;
            r->in_row = 0;
            r->row_zero = true;
        }
    }
}

static gg_status read_values(job *j, reader *r, size_t i, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(j->source, i);
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    seen *s = &j->of[i];
    gg_sha256 h;
    size_t step = info && info->block_bytes ? PIECE / info->block_elems * info->block_bytes : PIECE;
    s->decoded = info && info->block_bytes && gg_can_decode(t->dtype);
    s->zeros = s->constant = r->row_zero = true;
    gg_sha256_init(&h);
    gg_status st = gg_data_open(j->source, i, &r->data, err);
    for (uint64_t at = 0; at < t->bytes && st == GG_OK; at += step) {
        size_t n = t->bytes - at < step ? (size_t)(t->bytes - at) : step;
        st = gg_cancelled(err);
        if (st == GG_OK) st = gg_data_read(&r->data, at, r->bytes, n, err);
        if (st != GG_OK) break;
        gg_sha256_update(&h, r->bytes, n);
        gg_progress_add(j->run, n);
        if (!s->decoded) continue;
        size_t elems = n / info->block_bytes * info->block_elems;
        st = gg_decode(t->dtype, r->bytes, r->values, elems, err);
        if (at == 0 && elems) r->first = r->values[0];
        if (st == GG_OK) look_at(r, s, t->dims[0], elems);
    }
    gg_sha256_final(&h, s->digest);
    gg_data_close(&r->data);
    return st;
}

static gg_status read_tensor(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    job *j = ctx;
    reader r = { .data.fd = -1 };
    (void)worker;
    /* the widest block has 292 bytes for 256 values, the widest value 8 bytes */
    r.bytes = malloc((size_t)PIECE * 8);
    r.values = malloc(sizeof *r.values * PIECE);
    gg_status st = r.bytes && r.values ? read_values(j, &r, i, err)
                                       : gg_fail(err, GG_ENOMEM, "no memory to read a tensor");
    free(r.bytes);
    free(r.values);
    return st;
}

static gg_status read_all(job *j, gg_error *err)
{
    bool more = true;
    uint64_t total = 0;
    size_t n = gg_source_count(j->source);
    for (size_t i = 0; i < n; i++) total += gg_source_tensor(j->source, i)->bytes;
    gg_progress_total(j->run, total);
    if (gg_source_seekable(j->source))
        return gg_parallel(n, j->run ? j->run->threads : 0, read_tensor, j, err);
    for (size_t i = 0;; i++) {
        gg_status st = gg_source_next(j->source, i, &more, err);
        if (st != GG_OK || !more) return st;
        if (i >= n) { /* an organ stream grows as it is read */
            seen *grown = realloc(j->of, (i + 1) * sizeof *grown);
            if (!grown) return gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
            j->of = grown;
            j->of[i] = (seen){ 0 };
        }
        st = read_tensor(j, i, 0, err);
        if (st != GG_OK) return st;
    }
}

/* ---- findings ----------------------------------------------------------------------- */

typedef struct teller {
    gg_finding_fn fn;
    void *ctx;
    size_t *found;
    gg_error *err;
} teller;

static gg_status tell(const teller *to, gg_check_level level, const char *rule, const char *where,
                      const char *fmt, uint64_t a, uint64_t b)
{
    char text[200];
    snprintf(text, sizeof text, fmt, (unsigned long long)a, (unsigned long long)b);
    gg_finding f = { level, rule, where, text };
    return gg_check_report_one(&f, to->fn, to->ctx, to->found, to->err);
}

static gg_status tell_tensor(const teller *to, const gg_tensor *t, const seen *s)
{
    char name[1100];
    gg_escape(t->name, t->name_len < 255 ? t->name_len : 255, name, sizeof name);
    bool matrix = t->dims[1] > 1;
    gg_status st = GG_OK;
    if (!s->decoded || t->elements == 0) return GG_OK;
    if (s->nans)
        st = tell(to, GG_CHECK_ERROR, "nan", name, "%llu of %llu values are not numbers", s->nans,
                  t->elements);
    if (st == GG_OK && s->infinite)
        st = tell(to, GG_CHECK_ERROR, "infinite", name, "%llu of %llu values are infinite",
                  s->infinite, t->elements);
    if (st != GG_OK) return st;
    if (s->zeros)
        return tell(to, matrix ? GG_CHECK_WARNING : GG_CHECK_NOTE, "zeros", name,
                    "all its values are zero", 0, 0);
    if (s->constant && matrix)
        return tell(to, GG_CHECK_WARNING, "constant", name, "all its values are the same", 0, 0);
    if (s->dead_rows && matrix)
        return tell(to, GG_CHECK_NOTE, "dead-rows", name, "%llu of %llu rows are zero",
                    s->dead_rows, s->rows);
    return GG_OK;
}

/* ---- blocks with the same bytes ------------------------------------------------------- */

typedef struct piece {
    char part[32]; /* prefix before "blk." */
    int64_t block;
    const char *rest;
    size_t len;
    const unsigned char *digest;
} piece;

typedef struct whole {
    char part[32];
    int64_t block;
    unsigned char digest[32];
} whole;

static int by_piece_block(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    int d = strcmp(x->part, y->part);
    if (d == 0) d = (x->block > y->block) - (x->block < y->block);
    if (d) return d;
    size_t n = x->len < y->len ? x->len : y->len;
    d = n ? memcmp(x->rest, y->rest, n) : 0;
    return d ? d : (x->len > y->len) - (x->len < y->len);
}

static int by_digest(const void *a, const void *b)
{
    const whole *x = a, *y = b;
    int d = memcmp(x->digest, y->digest, sizeof x->digest);
    if (d == 0) d = strcmp(x->part, y->part);
    return d ? d : (x->block > y->block) - (x->block < y->block);
}

static size_t gather_pieces(const gg_source *s, const seen *of, size_t n, piece *pieces)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
        if (a.block < 0) continue;
        piece p = { .block = a.block,
                    .rest = t->name + a.role_at,
                    .len = t->name_len - a.role_at,
                    .digest = of[i].digest };
        const char *at = strstr(t->name, "blk.");
        size_t before = at ? (size_t)(at - t->name) : 0;
        memcpy(p.part, t->name, before < sizeof p.part - 1 ? before : sizeof p.part - 1);
        pieces[k++] = p;
    }
    qsort(pieces, k, sizeof *pieces, by_piece_block);
    return k;
}

static size_t digest_blocks(const piece *pieces, size_t n, whole *blocks)
{
    size_t count = 0;
    for (size_t i = 0; i < n;) {
        gg_sha256 h;
        whole *w = &blocks[count++];
        size_t k = i;
        gg_sha256_init(&h);
        for (; k < n && pieces[k].block == pieces[i].block &&
               strcmp(pieces[k].part, pieces[i].part) == 0;
             k++) {
            gg_sha256_update(&h, pieces[k].rest, pieces[k].len);
            gg_sha256_update(&h, "", 1);
            gg_sha256_update(&h, pieces[k].digest, 32);
        }
        memcpy(w->part, pieces[i].part, sizeof w->part);
        w->block = pieces[i].block;
        gg_sha256_final(&h, w->digest);
        i = k;
    }
    qsort(blocks, count, sizeof *blocks, by_digest);
    return count;
}

static gg_status repeated(const gg_source *s, const seen *of, const teller *to)
{
    size_t n = gg_source_count(s);
    piece *pieces = calloc(n + 1, sizeof *pieces);
    whole *blocks = calloc(n + 1, sizeof *blocks);
    gg_status st = GG_OK;
    if (!pieces || !blocks) st = gg_fail(to->err, GG_ENOMEM, "no memory to compare blocks");
    size_t count = st == GG_OK ? digest_blocks(pieces, gather_pieces(s, of, n, pieces), blocks) : 0;
    for (size_t i = 1; i < count && st == GG_OK; i++) {
        char where[80], part[100];
        if (memcmp(blocks[i].digest, blocks[i - 1].digest, 32) != 0) continue;
        gg_escape(blocks[i].part, strlen(blocks[i].part), part, sizeof part);
        snprintf(where, sizeof where, "block %.30s%lld", part, (long long)blocks[i].block);
        st = tell(to, GG_CHECK_NOTE, "repeated-block", where,
                  "its tensors have the same bytes as those of block %llu",
                  (uint64_t)blocks[i - 1].block, 0);
    }
    free(pieces);
    free(blocks);
    return st;
}

gg_status gg_check_data(gg_source *s, const gg_run *run, gg_finding_fn fn, void *ctx,
                        size_t found[GG_CHECK_LEVELS], gg_error *err)
{
    size_t n = gg_source_count(s);
    job j = { s, run, calloc(n ? n : 1, sizeof(seen)) };
    teller to = { fn, ctx, found, err };
    gg_status st = j.of ? read_all(&j, err)
                        : gg_fail(err, GG_ENOMEM, "no memory to read %zu tensors", n);
    n = gg_source_count(s);
    for (size_t i = 0; i < n && st == GG_OK; i++)
        st = tell_tensor(&to, gg_source_tensor(s, i), &j.of[i]);
    if (st == GG_OK) st = repeated(s, j.of, &to);
    free(j.of);
    return st;
}
