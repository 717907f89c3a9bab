/* check_data.c - checks the weights: values that are not numbers, tensors and rows of zeros,
 * blocks with the same bytes. Each tensor is read once, in pieces, and hashed at the same
 * time. */
#include "check_context.h"

#include "base/cursor.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "base/text.h"
#include "quant/quant.h"
#include "write/verb_run.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 32768 /* approximate number of values decoded at a time */

/* The results of reading a tensor. */
typedef struct seen {
    uint64_t nans, infinite, narrowed, dead_rows, rows;
    double least; /* finite, or infinity */
    bool zeros, constant, decoded;
    unsigned char digest[32];
} seen;

typedef struct reading {
    gg_source *source;
    const gg_run *run;
    seen *of; /* one entry per tensor */
} reading;

typedef struct reader {
    gg_data data;
    uint8_t *bytes;
    float *values;
    double first;  /* first value of the tensor */
    bool row_zero; /* the current row has only zeros so far */
    uint64_t in_row;
} reader;

/* Value i of those that were read, as stored: `values` has floats, which cannot hold every F64 and
 * every large integer. */
static double value_at(const reader *r, uint32_t dtype, size_t i)
{
    double v = r->values[i];
    if (dtype == GG_F64) memcpy(&v, r->bytes + 8 * i, sizeof v);
    else if (dtype == GG_I64) v = (double)(int64_t)gg_le64(r->bytes + 8 * i);
    else if (dtype == GG_I32) v = (int32_t)gg_le32(r->bytes + 4 * i);
    return v;
}

static void look_at_values(reader *r, seen *s, const gg_tensor *t, size_t n)
{
    uint64_t row_length = t->dims[0];
    for (size_t i = 0; i < n; i++) {
        double v = value_at(r, t->dtype, i);
        s->nans += isnan(v) != 0;
        s->infinite += isinf(v) != 0;
        if (v < s->least && v >= -DBL_MAX) s->least = v;
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

static gg_status read_values(reading *j, reader *r, size_t i, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(j->source, i);
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    seen *s = &j->of[i];
    gg_sha256 h;
    size_t step = info && info->block_bytes ? PIECE / info->block_elems * info->block_bytes : PIECE;
    s->decoded = info && info->block_bytes && gg_can_decode(t->dtype);
    s->zeros = s->constant = r->row_zero = true;
    s->least = INFINITY;
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
        if (at == 0 && elems && st == GG_OK) r->first = value_at(r, t->dtype, 0);
        if (st == GG_OK) look_at_values(r, s, t, elems);
        if (st == GG_OK) s->narrowed += gg_count_narrowed(t->dtype, r->bytes, elems);
    }
    gg_sha256_final(&h, s->digest);
    gg_data_close(&r->data);
    return st;
}

static gg_status read_weights(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    reading *j = ctx;
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

static gg_status read_all_weights(reading *j, gg_error *err)
{
    bool more = true;
    uint64_t total = 0;
    size_t n = gg_source_count(j->source);
    for (size_t i = 0; i < n; i++) total += gg_source_tensor(j->source, i)->bytes;
    gg_progress_total(j->run, total);
    if (gg_source_seekable(j->source))
        return gg_parallel(n, j->run ? j->run->threads : 0, read_weights, j, err);
    for (size_t i = 0;; i++) {
        gg_status st = gg_source_next(j->source, i, &more, err);
        if (st != GG_OK || !more) return st;
        if (i >= n) { /* an organ stream grows as it is read */
            seen *grown = realloc(j->of, (i + 1) * sizeof *grown);
            if (!grown) return gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
            j->of = grown;
            j->of[i] = (seen){ 0 };
        }
        st = read_weights(j, i, 0, err);
        if (st != GG_OK) return st;
    }
}

/* ---- findings ----------------------------------------------------------------------- */

/* What engines or encoders take only above 0, or not below it. Returns whether there was such a
 * finding. */
static bool report_sign(check *c, const gg_tensor *t, const seen *s)
{
    bool factors = gg_text_begins(t->name, t->name_len, "rope_freqs.") ||
                   gg_text_begins(t->name, t->name_len, "rope_factors_"),
         sums = c->kind == GG_KIND_IMATRIX && (gg_text_ends(t->name, t->name_len, ".in_sum2") ||
                                               gg_text_ends(t->name, t->name_len, ".counts"));
    if (factors && s->least <= 0)
        say_error(
            c, "rope", at_tensor(t),
            "its smallest value is %g; engines divide angles by each, so that all must be above 0",
            s->least);
    if (sums && s->least < 0)
        say_error(c, "imatrix", at_tensor(t),
                  "its smallest value is %g; encoders refuse sums and counts below 0", s->least);
    return factors && s->least <= 0;
}

static void report_tensor(check *c, const gg_tensor *t, const seen *s)
{
    bool matrix = t->dims[1] > 1;
    check_place where = at_tensor(t);
    if (!s->decoded || t->elements == 0) return;
    if (s->nans)
        say_error(c, "nan", where, "%" PRIu64 " of %" PRIu64 " values are not numbers", s->nans,
                  t->elements);
    if (s->infinite)
        say_error(c, "infinite", where, "%" PRIu64 " of %" PRIu64 " values are infinite",
                  s->infinite, t->elements);
    if (s->narrowed)
        say_note(c, "range", where, "%" PRIu64 " of %" PRIu64 " values %s", s->narrowed,
                 t->elements,
                 t->dtype == GG_F64
                     ? "are beyond the range of F32, and tools that compute with them refuse them"
                     : "are integers that F32 would round");
    if (report_sign(c, t, s)) return;
    if (s->zeros)
        gg_check_say(c, matrix ? GG_CHECK_WARNING : GG_CHECK_NOTE, "zeros", where,
                     "all its values are zero");
    else if (s->constant && matrix)
        say_warning(c, "constant", where, "all its values are the same");
    else if (s->dead_rows && matrix)
        say_note(c, "dead-rows", where, "%" PRIu64 " of %" PRIu64 " rows are zero", s->dead_rows,
                 s->rows);
}

/* ---- blocks with the same bytes ------------------------------------------------------- */

/* A tensor of a block. */
typedef struct piece {
    char part[32]; /* prefix before "blk." */
    int64_t block;
    const char *rest;
    size_t len;
    const unsigned char *digest;
} piece;

typedef struct whole_block {
    char part[32];
    int64_t block;
    unsigned char digest[32];
} whole_block;

static int by_piece(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    int d = strcmp(x->part, y->part);
    if (d == 0) d = (x->block > y->block) - (x->block < y->block);
    return d ? d : gg_text_order(x->rest, x->len, y->rest, y->len);
}

static int by_block_digest(const void *a, const void *b)
{
    const whole_block *x = a, *y = b;
    int d = memcmp(x->digest, y->digest, sizeof x->digest);
    if (d == 0) d = strcmp(x->part, y->part);
    return d ? d : (x->block > y->block) - (x->block < y->block);
}

static size_t gather_pieces(const gg_source *s, const seen *of, size_t n, piece *pieces)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        if (t->a.block < 0) continue;
        piece p = { .block = t->a.block,
                    .rest = t->name + t->a.role_at,
                    .len = t->name_len - t->a.role_at,
                    .digest = of[i].digest };
        const char *at = strstr(t->name, "blk.");
        size_t before = at ? (size_t)(at - t->name) : 0;
        memcpy(p.part, t->name, before < sizeof p.part - 1 ? before : sizeof p.part - 1);
        pieces[k++] = p;
    }
    qsort(pieces, k, sizeof *pieces, by_piece);
    return k;
}

static size_t digest_blocks(const piece *pieces, size_t n, whole_block *blocks)
{
    size_t count = 0;
    for (size_t i = 0; i < n;) {
        gg_sha256 h;
        whole_block *w = &blocks[count++];
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
    qsort(blocks, count, sizeof *blocks, by_block_digest);
    return count;
}

static gg_status check_repeated_blocks(check *c, const gg_source *s, const seen *of)
{
    size_t n = gg_source_count(s);
    piece *pieces = calloc(n + 1, sizeof *pieces);
    whole_block *blocks = calloc(n + 1, sizeof *blocks);
    bool ok = pieces && blocks;
    size_t count = ok ? digest_blocks(pieces, gather_pieces(s, of, n, pieces), blocks) : 0;
    for (size_t i = 1; i < count; i++) {
        char where[80];
        if (memcmp(blocks[i].digest, blocks[i - 1].digest, 32) != 0) continue;
        snprintf(where, sizeof where, "block %.30s%" PRId64, blocks[i].part, blocks[i].block);
        say_note(c, "repeated-block", at_name(where),
                 "its tensors have the same bytes as those of block %" PRIu64,
                 (uint64_t)blocks[i - 1].block);
    }
    free(pieces);
    free(blocks);
    return ok ? c->status : gg_fail(c->err, GG_ENOMEM, "no memory to compare blocks");
}

gg_status gg_check_data(check *c, gg_source *s, const gg_run *run)
{
    size_t n = gg_source_count(s);
    reading j = { s, run, calloc(n ? n : 1, sizeof(seen)) };
    gg_status st = j.of ? read_all_weights(&j, c->err)
                        : gg_fail(c->err, GG_ENOMEM, "no memory to read %zu tensors", n);
    n = gg_source_count(s);
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        report_tensor(c, gg_source_tensor(s, i), &j.of[i]);
        st = c->status;
    }
    if (st == GG_OK) st = check_repeated_blocks(c, s, j.of);
    free(j.of);
    return st;
}
