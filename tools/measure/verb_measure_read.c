/* verb_measure_read.c - reads the values that the measures of a tensor need.
 *
 * A pipe, or a tensor with samples in most of its pages, is read once from start to end in runs of
 * whole blocks; samples and rows are picked on the way. For other tensors in a file, only the
 * blocks that contain samples and the rows are read. Nothing is mapped into memory, because a
 * mapped file that another program truncates would raise a signal.
 */
#include "measure_core.h"

#include "base/io.h"
#include "numeric/numeric.h"
#include "organ/source_layout.h"
#include "pick.h"
#include "quant/codec.h"
#include "rowtheta.h"
#include "write/verb_run.h"

#include <stdlib.h>
#include <string.h>

#define HOLES_APART ((uint64_t)1 << 20) /* SEEK_HOLE may look at each page up to the next hole */
#define DENSE 6144 /* if samples are at least this many bytes apart, only their blocks are read */

/* ---- samples ------------------------------------------------------------------ */

#define BLOCK_RUN 256 /* values per short run; a whole number of blocks of every type */
#define GATHER 1024   /* samples gathered at once */
#define RUN_STEP 9    /* of so many values of a long run one is sampled, or of fewer if */
#define RUN_BYTES ((uint64_t)160 << 10) /* the run would be longer */

/* Runs of 256 values. */
static void plan_blocks(const gg_tensor *t, const gg_measure_options *o, measure_take *take)
{
    uint64_t units = t->elements / BLOCK_RUN, least = t->bytes >> 19,
             runs = o->sample / BLOCK_RUN + (o->sample % BLOCK_RUN != 0);
    if (o->sample == 0 || units == 0) return;
    /* Each run touches a page of 4 KiB: one per 512 KiB is less than 1 %. */
    if (least < 32) least = 32;
    if (runs > least) runs = least;
    if (runs > units) runs = units;
    take->run = take->stride = BLOCK_RUN;
    take->strides = units;
    take->count = runs * BLOCK_RUN;
    /* not 0: it has units of values */
    uint64_t most = t->elements / 2048 / (t->dims[0] < GG_ROW_RUN ? t->dims[0] : GG_ROW_RUN);
    take->pairs = most ? most : 1;
}

/* o->runs long runs, with as many samples as single values would give, unless they would be half of
 * the tensor or have one sample each. An odd step meets all columns. Runs begin with the rows that
 * are compared with the next row, and each at another place. */
static void plan_runs(const gg_tensor *t, const gg_measure_options *o, measure_take *take)
{
    /* not 0: the caller asks for runs */
    uint64_t run = o->sample / o->runs + 1, rows;
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    /* not 0: at least 1 */
    uint64_t step = RUN_BYTES / info->block_bytes * info->block_elems / run;
    step = step > RUN_STEP ? RUN_STEP : step > 1 ? (step - 1) | 1 : 1;
    if (run == 1 || t->elements / o->runs / 2 / step < run) return;
    /* not 0: it has values */
    rows = t->elements / t->dims[0];
    if (rows <= o->runs && t->elements / BLOCK_RUN < o->runs) return;
    take->run = run;
    take->step = step;
    take->stride = rows > o->runs ? t->dims[0] : BLOCK_RUN;
    take->strides = rows > o->runs ? rows - 1 : t->elements / BLOCK_RUN;
    take->count = run * o->runs;
    take->pairs = o->runs;
}

void gg_measure_plan(const gg_tensor *t, const gg_measure_options *o, measure_take *take)
{
    take->run = take->step = take->stride = 1;
    take->strides = t->elements;
    take->count = gg_sample_count(t->elements, o->sample);
    take->pairs = UINT64_MAX;
    if (o->runs) plan_runs(t, o, take);
    else if (o->blocks) plan_blocks(t, o, take);
}

/* The element of the i-th sample, floor(i E / N). It is kept as quotient and remainder, so that no
 * 128-bit division is needed. If the samples are runs, E counts strides, N runs, and the values of
 * a run follow each other. */
typedef struct sampler {
    uint64_t i, count, at;     /* at: the element */
    uint64_t rest, step, part; /* E = step N + part; rest < N */
    uint64_t length, inner;    /* samples per run, and values from one to the next */
    uint64_t stride;           /* values from one place for a run to the next */
    uint64_t units;            /* number N of runs */
    uint64_t inverse, most;    /* 2^64 / N, rounded up; number of values gathered at once */
    const gg_dtype_info *info;
    unsigned shift;  /* log2 of the block length, which is always a power of two */
    gg_pick_fn pick; /* NULL: a block is one value */
} sampler;

static sampler sampler_of(const gg_tensor *t, const measure_take *take)
{
    sampler s = {
        .count = take->count, .length = take->run, .inner = take->step, .stride = take->stride
    };
    /* not 0: runs have a value */
    s.units = s.count / s.length;
    /* not 0: a tensor with values has units */
    s.inverse = UINT64_MAX / s.units + 1;
    s.most = UINT64_MAX / s.units / s.units;
    if (s.most > GATHER) s.most = GATHER;
    if (s.most == 0) s.most = 1;
    s.step = take->strides / s.units;
    s.part = take->strides % s.units;
    s.info = gg_dtype_get(t->dtype);
    s.pick = GG_PICK(gg_pick_of)(t->dtype);
    while (1u << s.shift < s.info->block_elems) s.shift++;
    return s;
}

static void sampler_next(sampler *s)
{
    s->i++;
    s->at += s->inner;
    if (s->length > 1 && s->i % s->length != 0) return;
    s->at += s->step * s->stride - s->length * s->inner;
    s->rest += s->part;
    if (s->rest >= s->units) {
        s->rest -= s->units;
        s->at += s->stride;
    }
}

/* A run of whole blocks in memory: elements [first, first + n). */
typedef struct run_of {
    const uint8_t *bytes;
    uint64_t first, n;
} run_of;

#define PIECE 2048 /* values decoded at once */
/* Samples that are closer have all their blocks decoded, which is vectorized. */
#define CLOSE(info) ((info)->block_elems == 32 ? 16u : 64u)

/* Gathers single samples, of `size` bytes, or floats picked from blocks if it is 0, that lie in the
 * run, at most GATHER. The share rest / N is kept in 64 bits, so that its overflow is a carry. It
 * is rounded up: after n values by less than n N / 2^64, which must be less than 1 / N. */
__attribute__((always_inline)) static inline size_t gather(sampler *s, run_of r, void *to,
                                                           size_t size)
{
    const size_t block = s->info->block_bytes;
    const unsigned shift = s->shift;
    const uint64_t left = s->count - s->i, step = s->step, add = s->part * s->inverse;
    const uint64_t most = left < s->most ? left : s->most;
    uint64_t at = s->at - r.first, share = s->rest * s->inverse;
    size_t n = 0;
    for (; n < most && at < r.n; n++) {
        if (size) __builtin_memcpy((char *)to + n * size, r.bytes + at * size, size);
        else
            ((float *)to)[n] = s->pick(r.bytes + (at >> shift) * block,
                                       (unsigned)at & ((1u << shift) - 1));
        share += add;
        at += step + (share < add);
    }
    s->i += n;
    s->rest += n * s->part;
    /* not 0: a tensor with values has units */
    s->at += n * step + s->rest / s->units;
    s->rest %= s->units;
    return n;
}

/* The same for samples that are runs. */
__attribute__((always_inline)) static inline size_t gather_runs(sampler *s, run_of r, void *to,
                                                                size_t size)
{
    size_t n = 0;
    for (; n < GATHER && s->i < s->count && s->at < r.first + r.n; n++, sampler_next(s))
        __builtin_memcpy((char *)to + n * size, r.bytes + (s->at - r.first) * size, size);
    return n;
}

/* Takes the samples that lie in a run of F16, BF16 or F32, and decodes many at once. */
static gg_status take_plain(sampler *s, uint32_t dtype, run_of r, float *values, gg_error *err)
{
    uint32_t code[GATHER];
    gg_status st = GG_OK;
    while (st == GG_OK && s->i < s->count && s->at < r.first + r.n) {
        float *to = values + s->i;
        size_t n;
        if (s->length > 1) n = gather_runs(s, r, code, dtype == GG_F32 ? 4 : 2);
        else if (dtype == GG_F32) n = gather(s, r, code, 4);
        else n = gather(s, r, code, 2);
        st = gg_decode(dtype, code, to, n, err);
    }
    return st;
}

/* Takes the samples that lie in the run, and decodes all blocks from the first of them on. */
static gg_status take_decoded(sampler *s, run_of r, float *values, gg_error *err)
{
    float piece[PIECE];
    gg_status st = GG_OK;
    while (st == GG_OK && s->i < s->count && s->at < r.first + r.n) {
        run_of p = { (const uint8_t *)piece, s->at >> s->shift << s->shift, PIECE };
        if (p.n > r.first + r.n - p.first) p.n = r.first + r.n - p.first;
        const uint8_t *blocks = r.bytes + ((p.first - r.first) >> s->shift) * s->info->block_bytes;
        st = gg_decode(s->info->id, blocks, piece, (size_t)p.n, err);
        if (st == GG_OK) st = take_plain(s, GG_F32, p, values, err);
    }
    return st;
}

/* Takes the samples that lie in the run. */
static gg_status take_samples(sampler *s, run_of r, float *values, gg_error *err)
{
    const uint32_t dtype = s->info->id;
    uint64_t end = r.first + r.n;
    gg_status st = GG_OK;
    if (s->count == s->units && s->step == 1 && s->part == 0) {
        s->i = s->at = end;
        return gg_decode(dtype, r.bytes, values + r.first, (size_t)r.n, err);
    }
    if (dtype == GG_F16 || dtype == GG_BF16 || dtype == GG_F32)
        return take_plain(s, dtype, r, values, err);
    if (s->length > 1 || s->step < CLOSE(s->info)) return take_decoded(s, r, values, err);
    while (s->pick && s->i < s->count && s->at < end) gather(s, r, values + s->i, 0);
    for (; !s->pick && st == GG_OK && s->i < s->count && s->at < end; sampler_next(s))
        st = gg_decode(dtype, r.bytes + (s->at - r.first) * s->info->block_bytes, &values[s->i], 1,
                       err);
    return st;
}

/* ---- rows --------------------------------------------------------------------- */

/* The rows that the pairs need, in ascending order. A row that ends one pair and begins the next
 * is decoded only once.
 *
 * A single row is paired with itself, shifted by one value, and is read in runs:
 *
 *     buf[0]  |x0 ... x65535|        x0 with x1, ... x65534 with x65535
 *     buf[0]  x65535|x65536 ...|     x65535 with x65536, ...
 *               the last value of a run is kept for the next run */
typedef struct row_taker {
    uint64_t row, rows, width; /* row: values from one row to the next; width: values used */
    uint64_t pairs, pair;
    bool second;   /* the second row of the pair is next */
    uint64_t have; /* values read of that row so far */
    float *buf[2]; /* `width` values each; for a single row only buf[0] with GG_ROW_RUN + 1 */
    float *own;    /* memory of both, unless they are the thread's buffers */
    gg_pair_sums sums;
    gg_row_theta *acc;
} row_taker;

static bool rows_single(const row_taker *k)
{
    return k->rows == 1;
}

/* True if rows are longer than a thread's buffers. */
static bool rows_wide(const row_taker *k)
{
    return k->rows > 1 && k->width > GG_ROW_RUN;
}

/* If the samples are runs, the rows are few. */
static row_taker rows_of(const gg_tensor *t, measure_space *w, measure_take *take)
{
    row_taker k = { .row = t->dims[0], .acc = &take->rows, .buf = { w->row[0], w->row[1] } };
    if (t->n_dims == 0) k.row = 1;
    k.rows = k.row ? t->elements / k.row : 0;
    k.width = k.row < GG_ROW_MOST || rows_single(&k) ? k.row : GG_ROW_MOST;
    k.pairs = rows_single(&k) ? 1 : gg_row_pairs(k.rows);
    if (take->run == 1) return k;
    if (k.width > GG_ROW_RUN) k.width = GG_ROW_RUN;
    if (k.pairs > take->pairs) k.pairs = take->pairs;
    return k;
}

/* Allocates room for a pair of wide rows. */
static gg_status rows_hold(row_taker *k, gg_error *err)
{
    k->own = malloc((size_t)k->width * 2 * sizeof(float));
    if (!k->own)
        return gg_fail(err, GG_ENOMEM, "no memory for two rows of %llu values",
                       (unsigned long long)k->width);
    k->buf[0] = k->own;
    k->buf[1] = k->own + k->width;
    return GG_OK;
}

/* The first row of the next pair. */
static uint64_t rows_pair(const row_taker *k)
{
    return gg_sample_index(k->pair, k->rows - 1, k->pairs);
}

/* Gets the next elements that are needed; returns false when all pairs are complete. */
static bool rows_want(const row_taker *k, uint64_t *first, uint64_t *n)
{
    if (k->pair == k->pairs) return false;
    uint64_t row = rows_single(k) ? 0 : rows_pair(k) + k->second;
    *first = row * k->row + k->have;
    *n = k->width - k->have;
    return true;
}

/* Adds a pair of rows of equal length, run by run. */
static void rows_sum(row_taker *k, const float *a, const float *b, uint64_t n)
{
    for (uint64_t at = 0; at < n; at += GG_ROW_RUN) {
        size_t run = n - at < GG_ROW_RUN ? (size_t)(n - at) : GG_ROW_RUN;
        GG_PICK(gg_pearson_add)(&k->sums, a + at, b + at, run);
    }
}

static void pair_done(row_taker *k)
{
    gg_row_theta_add_sums(k->acc, &k->sums);
    k->sums = (gg_pair_sums){ 0 };
    k->have = 0;
    k->pair++;
}

static void row_done(row_taker *k)
{
    if (!k->second) {
        k->second = true;
        k->have = 0;
        return;
    }
    rows_sum(k, k->buf[0], k->buf[1], k->width);
    uint64_t was = rows_pair(k) + 1;
    pair_done(k);
    k->second = k->pair < k->pairs && rows_pair(k) == was;
    if (k->second) {
        float *swap = k->buf[0];
        k->buf[0] = k->buf[1];
        k->buf[1] = swap;
    }
}

/* Adds the values of a single row up to the end of a run, which is at k->have. */
static void run_done(row_taker *k)
{
    uint64_t n = (k->have - 1) % GG_ROW_RUN + 1;
    float *x = k->buf[0];
    if (k->have > n) GG_PICK(gg_pearson_add)(&k->sums, x, x + 1, (size_t)n);
    else GG_PICK(gg_pearson_add)(&k->sums, x + 1, x + 2, (size_t)n - 1);
    x[0] = x[n];
    if (k->have == k->width) pair_done(k);
}

static gg_status take_rows(row_taker *k, uint32_t dtype, run_of r, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    uint64_t first, n, end = r.first + r.n;
    while (rows_want(k, &first, &n) && first < end) {
        uint64_t got = n < end - first ? n : end - first, filled = k->have % GG_ROW_RUN;
        float *to = k->buf[k->second] + k->have;
        if (rows_single(k)) {
            if (got > GG_ROW_RUN - filled) got = GG_ROW_RUN - filled;
            to = k->buf[0] + 1 + filled;
        }
        const uint8_t *b = r.bytes + (first - r.first) / info->block_elems * info->block_bytes;
        gg_status st = gg_decode(dtype, b, to, (size_t)got, err);
        if (st != GG_OK) return st;
        k->have += got;
        if (!rows_single(k) && k->have == k->width) row_done(k);
        else if (rows_single(k) && (k->have % GG_ROW_RUN == 0 || k->have == k->width)) run_done(k);
    }
    return GG_OK;
}

/* ---- reading ------------------------------------------------------------------ */

static uint64_t bytes_to(const gg_dtype_info *info, uint64_t element)
{
    return element / info->block_elems * info->block_bytes;
}

/* The data of a tensor or an expert, and the buffers used to read it. */
typedef struct reader {
    gg_data *d;
    const gg_selected *p;
    measure_space *w;
    const gg_measure_options *o;
    /* Of the data's bytes, [from, hole) are a hole of a sparse file. Before `end` no other hole is
     * looked for. */
    uint64_t from, hole, end;
} reader;

/* True if all the bytes are in a hole, which need not be read. */
static bool in_hole(reader *in, uint64_t at, uint64_t bytes)
{
    uint64_t base = in->d->at + in->p->at;
    if (in->d->fd < 0) return false;
    if (at < in->from || at >= in->end) {
        in->from = at;
        in->hole = gg_hole_end(in->d->fd, base + at) - base;
        in->end = in->hole + HOLES_APART;
    }
    return at + bytes <= in->hole;
}

/* Reads the elements [first, first + n), or as many of them as fit in the buffer. */
static gg_status read_run(reader *in, uint64_t first, uint64_t n, run_of *r, gg_error *err)
{
    const gg_selected *p = in->p;
    measure_space *w = in->w;
    const gg_dtype_info *info = gg_dtype_get(p->t.dtype);
    uint64_t most = MEASURE_RAW / info->block_bytes * info->block_elems;
    *r = (run_of){ w->raw, first, n < most ? n : most };
    uint64_t at = bytes_to(info, first);
    size_t bytes = (size_t)bytes_to(info, r->n);
    if (in->o->read)
        gg_source_reads(in->d->source, p->source,
                        (gg_reads){ in->o->read, in->o->ctx, p->at + at, bytes });
    else if (!in_hole(in, at, bytes)) return gg_data_read(in->d, p->at + at, w->raw, bytes, err);
    memset(w->raw, 0, bytes);
    return GG_OK;
}

/* Reads all the data once. */
static gg_status pass_in_order(reader *in, const gg_run *run, measure_take *take, row_taker *k,
                               gg_error *err)
{
    const gg_selected *p = in->p;
    sampler s = sampler_of(&p->t, take);
    gg_status st = GG_OK;
    for (uint64_t at = 0; at < p->t.elements && st == GG_OK;) {
        run_of r = { 0 };
        st = gg_cancelled(err);
        if (st == GG_OK) st = read_run(in, at, p->t.elements - at, &r, err);
        if (st == GG_OK && !take->later) st = take_samples(&s, r, take->values, err);
        if (st == GG_OK) st = take_rows(k, p->t.dtype, r, err);
        if (st == GG_OK && take->edge) st = gg_edge_add(take->edge, r.bytes, r.first, r.n, err);
        if (st == GG_OK && take->importance)
            st = gg_importance_add(take->importance, r.bytes, r.first, r.n, err);
        if (st != GG_OK) break;
        at += r.n;
        if (!take->later) gg_progress_add(run, bytes_to(gg_dtype_get(p->t.dtype), r.n));
    }
    return st;
}

/* True if the samples are so close together that all the data is read. */
static bool samples_dense(const gg_tensor *t, const measure_take *take)
{
    /* not 0: a tensor with values has samples */
    return take->count == t->elements || (take->run == 1 && t->bytes / take->count < DENSE);
}

/* Reads only the blocks that contain samples. */
static gg_status collect_samples(reader *in, measure_take *take, gg_error *err)
{
    const gg_selected *p = in->p;
    sampler s = sampler_of(&p->t, take);
    gg_status st = GG_OK;
    while (st == GG_OK && s.i < s.count) {
        uint64_t first = s.at >> s.shift << s.shift;
        run_of r;
        uint64_t n = s.info->block_elems, rest = s.at - first;
        if (s.length > 1) rest += (s.length - s.i % s.length - 1) * s.inner;
        if (rest >= n) n = (rest >> s.shift << s.shift) + s.info->block_elems;
        st = read_run(in, first, n, &r, err);
        if (st == GG_OK) st = take_samples(&s, r, take->values, err);
    }
    return st;
}

static gg_status collect_rows(reader *in, row_taker *k, gg_error *err)
{
    uint64_t first, n;
    gg_status st = GG_OK;
    while (st == GG_OK && rows_want(k, &first, &n)) {
        run_of r;
        st = gg_cancelled(err);
        if (st == GG_OK) st = read_run(in, first, n, &r, err);
        if (st == GG_OK) st = take_rows(k, in->p->t.dtype, r, err);
    }
    return st;
}

gg_status gg_measure_collect(gg_data *d, const gg_selected *p, measure_space *w, const gg_run *run,
                             measure_take *take, gg_error *err)
{
    reader in = { .d = d, .p = p, .w = w, .o = take->o };
    take->rows = (gg_row_theta){ 0 };
    if (p->t.elements == 0) return GG_OK;
    if (take->o->read && take->later) {
        gg_source_reads(d->source, p->source,
                        (gg_reads){ take->o->read, take->o->ctx, p->at, p->t.bytes });
        return GG_OK;
    }
    row_taker k = rows_of(&p->t, w, take);
    gg_status st = rows_wide(&k) ? rows_hold(&k, err) : gg_cancelled(err);
    if (take->edge || take->importance ||
        (!take->later && (d->fd < 0 || samples_dense(&p->t, take)))) {
        if (d->fd >= 0) gg_read_in_order(d->fd);
        if (st == GG_OK) st = pass_in_order(&in, run, take, &k, err);
    } else {
        if (st == GG_OK && !take->later) st = collect_samples(&in, take, err);
        if (st == GG_OK) st = collect_rows(&in, &k, err);
        if (st == GG_OK && !take->later) gg_progress_add(run, p->t.bytes);
    }
    free(k.own);
    return st;
}
