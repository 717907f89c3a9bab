/* t_verb_measure.c - measuring whole sources: rows are what the numeric layer makes of
 * the decoded values, from files and pipes, for any count and any threads. */
#include "files.h"
#include "measures.h"

#include "measure/gg_measure_model.h"
#include "quant/quant.h"

#include "base/isa.h"
#include "measure/measure_core.h"
#include "measure/pick.h"
#include "measure/rowtheta.h"
#include "numeric/numeric.h"
#include "organ/record.h"
#include "organ/tensor_names.h"
#include "quant/codec.h"

#include <math.h>
#include <pthread.h>

/* ---- single values ---------------------------------------------------------------- */

static uint64_t random_state = 88172645463325252u;

static uint64_t random_u64(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static bool same_float(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void pick_all(gg_pick_fn (*pick_of)(uint32_t))
{
    unsigned picks = 0;
    for (uint32_t dtype = 0; dtype < GG_DTYPE_COUNT; dtype++) {
        gg_pick_fn pick = pick_of(dtype);
        if (!pick) continue;
        picks++;
        const gg_dtype_info *info = gg_dtype_get(dtype);
        for (int round = 0; round < 200; round++) {
            uint8_t block[512];
            float out[256];
            gg_error err = GG_ERROR_INIT;
            for (size_t i = 0; i < info->block_bytes; i++) block[i] = (uint8_t)(random_u64() >> 32);
            T_EQ(gg_decode(dtype, block, out, info->block_elems, &err), GG_OK);
            for (unsigned j = 0; j < info->block_elems; j++)
                T_CHECKF(same_float(pick(block, j), out[j]), "%s value %u", info->name, j);
        }
    }
    T_EQ(picks, 27); /* all types whose blocks have more than one value */
    T_CHECK(!pick_of(GG_DTYPE_COUNT) && !pick_of(UINT32_MAX));
}

static void test_picks(void)
{
    pick_all(gg_pick_of_l0);
#ifdef GG_HAVE_L1
    if (gg_isa() >= 1) pick_all(gg_pick_of_l1);
#endif
}

static void test_blocks_are_powers_of_two(void)
{
    for (size_t i = 0; gg_dtype_at(i); i++) {
        const gg_dtype_info *info = gg_dtype_at(i);
        if (!gg_can_decode(info->id)) continue;
        T_CHECKF((info->block_elems & (info->block_elems - 1)) == 0 && info->block_elems <= 256,
                 "%s", info->name);
        T_CHECKF(info->row_extra == 0, "%s", info->name);
    }
}

/* ---- big arrays -------------------------------------------------------------------- */

static bool near(double a, double b, double to)
{
    return fabs(a - b) <= to * fmax(fabs(a), fabs(b)) + 1e-300;
}

typedef struct raw_values {
    const float *x;
    const uint8_t *raw;
    size_t block, bytes; /* values and bytes of a block */
} raw_values;

static gg_status read_floats(void *ctx, uint64_t first, size_t count, float *to, gg_error *err)
{
    (void)err;
    T_CHECK(first % GG_VALUES_RUN == 0 && count <= GG_VALUES_RUN);
    memcpy(to, ((raw_values *)ctx)->x + first, count * sizeof *to);
    return GG_OK;
}

static gg_status read_raw(void *ctx, uint64_t first, size_t count, void *to, gg_error *err)
{
    const raw_values *r = ctx;
    (void)err;
    memcpy(to, r->raw + first / r->block * r->bytes, count / r->block * r->bytes);
    return GG_OK;
}

/* The sums over millions of values may differ in more than the last bits: those of
 * gg_measure_values have fewer partial sums and are less exact. */
static void check_near(const gg_measure *got, const gg_measure *want, const char *what)
{
    T_CHECKF(got->sampled == want->sampled && got->nonfinite == want->nonfinite &&
                 got->min == want->min && got->max == want->max,
             "%s", what);
    T_CHECKF(fabs(got->mean - want->mean) <= 1e-12 * fmax(fabs(want->min), fabs(want->max)), "%s",
             what);
    T_CHECKF(near(got->entropy, want->entropy, 1e-12) &&
                 near(got->dimension, want->dimension, 1e-12),
             "%s: entropy %.17g %.17g", what, got->entropy, want->entropy);
    T_CHECKF(near(got->std, want->std, 1e-10) &&
                 fabs(got->kurtosis - want->kurtosis) <= 1e-10 * (3 + fabs(want->kurtosis)),
             "%s: kurtosis %.17g %.17g", what, got->kurtosis, want->kurtosis);
    T_CHECKF(fabs(got->cv - want->cv) <= 1e-10 * (1e-3 + want->cv) &&
                 fabs(got->theta - want->theta) <= 1e-10,
             "%s: cv %.17g %.17g", what, got->cv, want->cv);
}

/* Every number of threads gives the same bits, and those of gg_measure_values up to rounding. */
static void same_as_small(const float *x, const gg_values *v, const char *what)
{
    void *scratch = malloc(gg_measure_scratch(v->n));
    gg_measure want, got = { 0 }, first = { 0 };
    gg_error err = GG_ERROR_INIT;
    gg_measure_values(x, v->n, scratch, &want);
    for (unsigned threads = 1; threads <= 5; threads += 2) {
        gg_measure_room room = { .threads = threads };
        T_EQ(gg_measure_big(&room, v, &got, &err), GG_OK);
        gg_measure_room_free(&room);
        if (threads == 1) first = got;
        T_CHECKF(memcmp(&first, &got, sizeof got) == 0, "%s: %u threads", what, threads);
    }
    check_near(&got, &want, what);
    free(scratch);
}

static void hold_big(const float *x, size_t n, const char *what)
{
    raw_values r = { .x = x };
    gg_values v = { .n = n, .read = read_floats, .ctx = &r };
    same_as_small(x, &v, what);
}

static void test_big(void)
{
    size_t n = 700001;
    float *x = malloc(n * sizeof *x);
    gg_gauss_fill(x, n, 11);
    hold_big(x, n, "noise");
    hold_big(x, 1, "one value");
    hold_big(x, 2, "two values");
    hold_big(x, GG_VALUES_RUN, "a run");
    hold_big(x, 131073, "a span and a value");
    for (size_t i = 0; i < n; i += 1000) x[i] *= 1000;
    hold_big(x, n, "heavy tails");
    for (size_t i = 0; i < n; i += 7) x[i] = i % 2 ? NAN : -INFINITY;
    hold_big(x, n, "not finite");
    for (size_t i = 0; i < n; i++) x[i] = -1 - (float)(random_u64() % 1000000) * 1e-9f;
    hold_big(x, n, "all bins in one bucket");
    for (size_t i = 0; i < n; i++) x[i] = (float)(i % 3) - 1;
    hold_big(x, n, "three levels");
    for (size_t i = 0; i < n; i++) x[i] = (float)i;
    hold_big(x, n, "equal gaps");
    for (size_t i = 0; i < n; i++) x[i] = i == 400000;
    hold_big(x, n, "one outlier");
    for (size_t i = 0; i < n; i++) x[i] = i % 5 ? 0.0f : -0.0f;
    hold_big(x, n, "two zeros");
    for (size_t i = 0; i < n; i++) x[i] = -2;
    hold_big(x, n, "constant");
    for (size_t i = 0; i < n; i++) x[i] = NAN;
    hold_big(x, n, "nothing");
    free(x);
}

/* More than fit into the pool of the set at once, in maps and in lists. */
static void test_parts(void)
{
    size_t n = 9 << 20;
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)(random_u64() >> 32);
        if (i % 8 == 0) bits = (bits & 0x807fffff) | 0x3f000000;
        memcpy(x + i, &bits, sizeof bits);
    }
    hold_big(x, n, "random bits");
    free(x);
}

static void test_codes(void)
{
    size_t n = 300032;
    uint16_t *codes = malloc(65536 * sizeof *codes), *raw = malloc(n * sizeof *raw);
    float *of_code = malloc(65536 * sizeof *of_code), *x = malloc(n * sizeof *x);
    gg_error err = GG_ERROR_INIT;
    for (uint32_t c = 0; c < 65536; c++) codes[c] = (uint16_t)c;
    for (int k = 0; k < 4; k++) {
        uint32_t dtype = k % 2 ? GG_BF16 : GG_F16;
        T_EQ(gg_decode(dtype, codes, of_code, 65536, &err), GG_OK);
        for (size_t i = 0; i < n; i++) raw[i] = (uint16_t)(random_u64() >> (k < 2 ? 48 : 52));
        T_EQ(gg_decode(dtype, raw, x, n, &err), GG_OK);
        raw_values r = { x, (uint8_t *)raw, 1, 2 };
        gg_values v = { n, read_floats, &r, GG_FORM_CODES, read_raw, of_code };
        same_as_small(x, &v, k % 2 ? "BF16" : "F16");
    }
    free(codes), free(raw), free(of_code), free(x);
}

/* Blocks of a scale and bytes: with scales of every kind, with few that are finite, with more than
 * are counted, and fewer values than are counted. */
static void test_scaled(void)
{
    static const struct {
        const char *what;
        size_t n;
    } cases[] = { { "all kinds of scales", 2 << 20 },
                  { "few scales", (2 << 20) + 32 },
                  { "too many scales", 2 << 20 },
                  { "few values", 300032 } };
    uint16_t *codes = malloc(65536 * sizeof *codes);
    float *of_code = malloc(65536 * sizeof *of_code), *x = malloc(((2 << 20) + 32) * sizeof *x);
    uint8_t *b = malloc(((2 << 20) + 32) / 32 * 34);
    gg_error err = GG_ERROR_INIT;
    for (uint32_t c = 0; c < 65536; c++) codes[c] = (uint16_t)c;
    T_EQ(gg_decode(GG_F16, codes, of_code, 65536, &err), GG_OK);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t blocks = cases[k].n / 32;
        for (size_t i = 0; i < 34 * blocks; i++) b[i] = (uint8_t)(random_u64() >> 40);
        for (size_t i = 0; k == 0 && i < blocks; i++)
            b[34 * i] &= 0xf; /* with NaN and infinities */
        for (size_t i = 0; k == 1 && i < blocks; i++) b[34 * i + 1] = 0x13;
        for (size_t i = 0; k == 2 && i < blocks; i++)
            b[34 * i] = (uint8_t)i, b[34 * i + 1] = (uint8_t)(i >> 8);
        T_EQ(gg_decode(GG_Q8_0, b, x, cases[k].n, &err), GG_OK);
        raw_values r = { x, b, 32, 34 };
        gg_values v = { cases[k].n, read_floats, &r, GG_FORM_SCALED, read_raw, of_code };
        same_as_small(x, &v, cases[k].what);
    }
    free(codes), free(of_code), free(x), free(b);
}

/* ---- sources ------------------------------------------------------------------------ */

#define TENSORS 8
static char folder[64], records[96], fifo[96];

static const gg_tensor made[TENSORS] = {
    { "blk.0.ffn_up.weight", 19, 2, GG_Q4_K, { 512, 300, 1, 1 }, 153600, 153600 / 256 * 144, 0, 0 },
    { "blk.0.ffn_gate_exps.weight", 26, 3, GG_F32, { 32, 10, 3, 1 }, 960, 3840, 0, 0 },
    { "blk.1.attn_norm.weight", 22, 1, GG_F16, { 777, 1, 1, 1 }, 777, 1554, 0, 0 },
    { "output.weight", 13, 2, GG_Q8_0, { 65600, 3, 1, 1 }, 196800, 196800 / 32 * 34, 0, 0 },
    { "blk.2.attn_q.weight", 19, 2, GG_IQ2_XXS, { 256, 9, 1, 1 }, 2304, 9 * 66, 0, 0 },
    { "token_embd.weight", 17, 2, GG_BF16, { 96, 1500, 1, 1 }, 144000, 288000, 0, 0 },
    { "rope_freqs.weight", 17, 1, GG_Q5_0, { 400000, 1, 1, 1 }, 400000, 400000 / 32 * 22, 0, 0 },
    { "blk.2.attn_k.weight", 19, 2, GG_F64, { 250, 400, 1, 1 }, 100000, 800000, 0, 0 },
};
static uint8_t *data[TENSORS];

/* Random bytes are valid blocks of every type; halves are kept finite and small. */
static void make_records(void)
{
    snprintf(folder, sizeof folder, "/tmp/t_verb_measure.XXXXXX");
    if (!mkdtemp(folder)) exit(1);
    snprintf(records, sizeof records, "%s/all.bin", folder);
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    FILE *f = fopen(records, "wb");
    if (!f) exit(1);
    for (int i = 0; i < TENSORS; i++) {
        const gg_tensor *t = &made[i];
        uint8_t head[GG_RECORD_HEADER];
        data[i] = malloc(t->bytes);
        for (uint64_t k = 0; k < t->bytes; k++)
            data[i][k] = (uint8_t)(random_u64() >> 40) & (k % 2 ? 0x3b : 0xff);
        fwrite(head, 1, gg_record_header(t, head), f);
        fwrite(data[i], 1, t->bytes, f);
    }
    if (fclose(f) != 0) exit(1);
}

/* The row from its definition: decode all, pick, measure. */
static void expect(const gg_tensor *t, const uint8_t *bytes, uint64_t sample,
                   gg_tensor_measure *want)
{
    float *all = malloc(t->elements * sizeof *all), *x = malloc(t->elements * sizeof *x);
    void *scratch = malloc(gg_measure_scratch(t->elements));
    gg_error err = GG_ERROR_INIT;
    T_EQ(gg_decode(t->dtype, bytes, all, t->elements, &err), GG_OK);
    uint64_t n = gg_sample_count(t->elements, sample), row = t->dims[0], rows = t->elements / row;
    for (uint64_t i = 0; i < n; i++) x[i] = all[gg_sample_index(i, t->elements, n)];
    gg_measure_values(x, n, scratch, &want->m);
    gg_row_theta acc = { 0 };
    if (rows == 1) t_row_theta_add(&acc, all, all + 1, row - 1);
    for (uint64_t i = 0; i < gg_row_pairs(rows); i++) {
        const float *a = all + t_row_pair(i, rows) * row;
        t_row_theta_add(&acc, a, a + row, row);
    }
    want->row_theta = gg_row_theta_degrees(&acc);
    free(all);
    free(x);
    free(scratch);
}

static gg_status keep(void *ctx, const gg_tensor_measure *row, gg_error *err)
{
    return gg_measures_add(ctx, row, err);
}

static void *feed(void *arg)
{
    size_t n;
    char *bytes = slurp(arg, &n);
    spew(fifo, bytes, n);
    free(bytes);
    return NULL;
}

static gg_measures measure(bool pipe, gg_measure_options o, unsigned threads)
{
    gg_measures list = { 0 };
    gg_error err = GG_ERROR_INIT;
    gg_run run = { .threads = threads };
    gg_source *s;
    pthread_t feeder;
    if (pipe && (mkfifo(fifo, 0600) != 0 || pthread_create(&feeder, NULL, feed, records) != 0))
        exit(1);
    T_EQ(gg_source_open_with(pipe ? fifo : records, NULL, &s, &err), GG_OK);
    o.row = keep;
    o.ctx = &list;
    T_CHECKF(gg_measure_model(s, &o, &run, NULL, &err) == GG_OK, "%s", err.what);
    gg_source_close(s);
    if (pipe) {
        pthread_join(feeder, NULL);
        unlink(fifo);
    }
    return list;
}

/* Rows that are taken in several runs sum up in another order than at once: the same
 * for every way, and to within rounding. */
static void test_rows(void)
{
    static const uint64_t samples[] = { 0, 1, 777, 5000, 100000, 140000 };
    double first[TENSORS] = { 0 }, null[TENSORS] = { 0 };
    gg_measure all[TENSORS];
    for (size_t k = 0; k < sizeof samples / sizeof samples[0]; k++)
        for (int way = 0; way < 4; way++) {
            gg_measures list = measure(way >= 2, (gg_measure_options){ .sample = samples[k] },
                                       way % 2 ? 3 : 1);
            T_EQ(list.n, TENSORS);
            for (size_t i = 0; i < list.n && i < TENSORS; i++) {
                gg_tensor_measure want = { 0 };
                const gg_tensor_measure *got = &list.rows[i];
                expect(&made[i], data[i], samples[k], &want);
                T_CHECK(strcmp(got->t.name, made[i].name) == 0 && got->decoded);
                if (got->m.sampled >= GG_MEASURE_BIG) {
                    check_near(&got->m, &want.m, made[i].name);
                    if (way == 0) all[i] = got->m;
                    want.m = all[i];
                }
                T_CHECKF(memcmp(&got->m, &want.m, sizeof want.m) == 0, "%s, sample %u, way %d",
                         made[i].name, (unsigned)samples[k], way);
                T_CHECKF(fabs(got->row_theta - want.row_theta) <=
                             (made[i].dims[0] > GG_ROW_RUN ? 1e-9 : 0),
                         "%s: row_theta %.17g, not %.17g", made[i].name, got->row_theta,
                         want.row_theta);
                if (k + (size_t)way == 0) first[i] = got->row_theta;
                T_CHECKF(got->row_theta == first[i], "%s: row_theta %.17g, not %.17g, way %d",
                         made[i].name, got->row_theta, first[i], way);
                T_EQ(got->calibrated, gg_calibrated(got->m.theta, got->null_theta));
                if (way == 0) null[i] = got->null_theta;
                T_CHECKF(got->null_theta == null[i], "%s: null_theta, way %d", made[i].name, way);
            }
            gg_measures_free(&list);
        }
}

static void test_experts(void)
{
    for (int pipe = 0; pipe < 2; pipe++) {
        gg_measures list = measure(pipe,
                                   (gg_measure_options){ .sample = 100, .split_experts = true }, 2);
        T_EQ(list.n, TENSORS + 2);
        for (uint64_t e = 0; e < 3 && list.n == TENSORS + 2; e++) {
            gg_tensor t;
            char name[GG_RECORD_NAME + 1];
            gg_tensor_measure want = { 0 };
            T_CHECK(gg_expert_tensor(&made[1], 3, e, &t, name));
            expect(&t, data[1] + e * t.bytes, 100, &want);
            T_CHECK(strcmp(list.rows[1 + e].t.name, name) == 0 &&
                    list.rows[1 + e].t.a.expert == (int64_t)e);
            T_CHECK(memcmp(&list.rows[1 + e].m, &want.m, sizeof want.m) == 0);
            T_EQ(list.rows[1 + e].row_theta, want.row_theta);
        }
        gg_measures_free(&list);
    }
}

/* One pair of rows per 2048 rows, at least one, at even steps. */
static double row_theta_of_blocks(const gg_tensor *t, const float *all)
{
    uint64_t row = t->dims[0], rows = t->elements / row, pairs = t->elements / 2048 / row;
    if (pairs == 0) pairs = 1;
    if (pairs > gg_row_pairs(rows)) pairs = gg_row_pairs(rows);
    gg_row_theta acc = { 0 };
    for (uint64_t i = 0; i < pairs; i++) {
        const float *a = all + i * (rows - 1) / pairs * row;
        t_row_theta_add(&acc, a, a + row, row);
    }
    return gg_row_theta_degrees(&acc);
}

/* With --blocks: runs of 256 values at even steps, the same from a file and from a pipe. */
static void test_blocks(void)
{
    static const uint64_t samples[] = { 1, 1000, 100000 };
    for (size_t k = 0; k < 3; k++)
        for (int pipe = 0; pipe < 2; pipe++) {
            gg_measure_options o = { .sample = samples[k], .blocks = true };
            gg_measures list = measure(pipe, o, 2);
            T_EQ(list.n, TENSORS);
            for (size_t i = 0; i < list.n && i < TENSORS; i++) {
                const gg_tensor *t = &made[i];
                uint64_t units = t->elements / 256, runs = (samples[k] + 255) / 256, n;
                if (runs > 32) runs = 32;
                if (runs > units) runs = units;
                n = runs * 256;
                float *all = malloc(t->elements * sizeof *all), *x = malloc(n * sizeof *x);
                void *scratch = malloc(gg_measure_scratch(n));
                gg_error err = GG_ERROR_INIT;
                gg_measure want;
                T_EQ(gg_decode(t->dtype, data[i], all, t->elements, &err), GG_OK);
                for (uint64_t r = 0; r < runs; r++)
                    memcpy(x + r * 256, all + r * units / runs * 256, 256 * sizeof *x);
                gg_measure_values(x, n, scratch, &want);
                T_CHECKF(memcmp(&list.rows[i].m, &want, sizeof want) == 0, "%s, sample %u, %d",
                         t->name, (unsigned)samples[k], pipe);
                if (t->n_dims > 1 && t->dims[0] < 10000)
                    T_EQ(list.rows[i].row_theta, row_theta_of_blocks(t, all));
                free(all), free(x), free(scratch);
            }
            gg_measures_free(&list);
        }
}

/* The element of sample i of three runs. */
static uint64_t element_of(const gg_tensor *t, uint64_t i, uint64_t run)
{
    uint64_t rows = t->elements / t->dims[0], r = i / run, row = t->dims[0];
    uint64_t first = rows > 3 ? r * (rows - 1) / 3 * row : r * (t->elements / 256) / 3 * 256;
    return first + i % run * 9;
}

/* With --runs: every ninth value of long runs, which begin with rows if there are enough; all
 * values of smaller tensors. */
static void test_runs(void)
{
    size_t large = 0;
    for (int pipe = 0; pipe < 2; pipe++) {
        gg_measure_options o = { .sample = 60, .runs = 3 };
        gg_measures list = measure(pipe, o, 2);
        T_EQ(list.n, TENSORS);
        for (size_t i = 0; i < list.n && i < TENSORS; i++) {
            const gg_tensor *t = &made[i];
            bool runs = t->elements / 3 / 2 / 9 >= 21;
            uint64_t n = runs ? 63 : gg_sample_count(t->elements, 60);
            float *all = malloc(t->elements * sizeof *all), x[63];
            char scratch[8 * 63 + 64];
            gg_error err = GG_ERROR_INIT;
            gg_measure want;
            T_EQ(gg_decode(t->dtype, data[i], all, t->elements, &err), GG_OK);
            for (uint64_t k = 0; k < n; k++)
                x[k] = all[runs ? element_of(t, k, 21) : gg_sample_index(k, t->elements, n)];
            gg_measure_values(x, n, scratch, &want);
            T_CHECKF(memcmp(&list.rows[i].m, &want, sizeof want) == 0, "%s, %d", t->name, pipe);
            large += runs;
            free(all);
        }
        gg_measures_free(&list);
    }
    T_CHECK(large > 0);
}

/* A sparse file: a tensor of 16 MiB that is a hole, and another with two holes. */
static void test_holes(void)
{
    gg_tensor t[2] = { { "hole", 4, 2, GG_F16, { 4096, 2048, 1, 1 }, 8388608, 16777216, 0, 0 },
                       { "half", 4, 2, GG_Q8_0, { 1024, 1024, 1, 1 }, 1048576, 1114112, 0, 0 } };
    uint8_t head[GG_RECORD_HEADER], *half = calloc(1, t[1].bytes);
    FILE *f = fopen(records, "wb");
    if (!f || !half) exit(1);
    for (uint64_t i = 300000; i < t[1].bytes; i++)
        if (i < 400000 || i >= 800000) half[i] = (uint8_t)(random_u64() >> 40) & 0x3b;
    fwrite(head, 1, gg_record_header(&t[0], head), f);
    fseek(f, (long)t[0].bytes, SEEK_CUR);
    fwrite(head, 1, gg_record_header(&t[1], head), f);
    fseek(f, 300000, SEEK_CUR);
    fwrite(half + 300000, 1, 100000, f);
    fseek(f, 400000, SEEK_CUR);
    fwrite(half + 800000, 1, t[1].bytes - 800000, f);
    if (fclose(f) != 0) exit(1);
    for (int k = 0; k < 3; k++) {
        gg_tensor_measure want = { 0 };
        gg_measure_options o = { .sample = k ? 100000 : 0, .blocks = k == 2 };
        gg_measures list = measure(false, o, 2);
        T_CHECK(list.n == 2 && list.rows[0].m.min == 0 && list.rows[0].m.max == 0 &&
                list.rows[0].m.sampled == (k == 0   ? 8388608
                                           : k == 1 ? 100000
                                                    : 8192));
        expect(&t[1], half, o.sample, &want);
        if (list.n == 2 && k == 1) T_CHECK(memcmp(&list.rows[1].m, &want.m, sizeof want.m) == 0);
        if (list.n == 2 && k == 0) check_near(&list.rows[1].m, &want.m, "half");
        gg_measures_free(&list);
    }
    free(half);
}

/* Noise of a type scores what its null model scores: the null is that noise, and is measured in the
 * same way, also where values are counted. */
static void null_of(uint32_t dtype, uint64_t rows, unsigned threads)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    gg_tensor t = { "x", 1, 2, dtype, { 256, rows, 1, 1 }, 256 * rows, 0, 0, 0 };
    t.bytes = t.elements / info->block_elems * info->block_bytes;
    float *x = malloc(t.elements * sizeof *x);
    uint8_t *bytes = malloc(t.bytes), head[GG_RECORD_HEADER];
    gg_error err = GG_ERROR_INIT;
    gg_gauss_fill(x, t.elements, GG_NULL_SEED);
    T_CHECK(gg_encode(t.dtype, x, bytes, t.elements, 256, NULL, &err) == GG_OK);
    FILE *f = fopen(records, "wb");
    if (!f) exit(1);
    fwrite(head, 1, gg_record_header(&t, head), f);
    fwrite(bytes, 1, t.bytes, f);
    fclose(f);
    gg_measures list = measure(false, (gg_measure_options){ .sample = 0 }, threads);
    T_CHECKF(list.n == 1 && list.rows[0].m.theta == list.rows[0].null_theta &&
                 list.rows[0].calibrated == 0,
             "%s: %.17g, not %.17g", info->name, list.rows[0].m.theta, list.rows[0].null_theta);
    T_CHECKF(list.n == 1 && list.rows[0].null_theta > 30 && list.rows[0].null_theta < 50, "%s: %g",
             info->name, list.rows[0].null_theta);
    gg_measures_free(&list);
    free(x);
    free(bytes);
}

static void test_null(void)
{
    null_of(GG_Q6_K, 400, 1);
    null_of(GG_Q6_K, 600, 3);
    null_of(GG_BF16, 600, 3);
    null_of(GG_F16, 600, 1);
    null_of(GG_Q8_0, 4096, 3);
    null_of(GG_F32, 600, 3);
}

static void test_calibrated(void)
{
    T_EQ(gg_calibrated(90, 42), 90);
    T_EQ(gg_calibrated(66, 42), 45);
    T_EQ(gg_calibrated(42, 42), 0);
    T_EQ(gg_calibrated(30, 42), 0);
    T_EQ(gg_calibrated(90, 90), 0);
}

/* A null model is computed once for each type and count. */
static void test_null_is_computed_once(void)
{
    measure_null m = { 0 };
    gg_measure_room room = { .threads = 1 };
    gg_error err = GG_ERROR_INIT;
    double theta = -1, other = -1;
    T_EQ(gg_measure_null_theta(&m, &room, GG_F16, 500, &theta, &err), GG_OK);
    null_entry *first = m.list;
    T_CHECK(first && theta > 0);
    T_EQ(gg_measure_null_theta(&m, &room, GG_BF16, 500, &other, &err), GG_OK);
    T_CHECK(m.list != first && other > 0);
    T_EQ(gg_measure_null_theta(&m, &room, GG_F16, 500, &other, &err), GG_OK);
    T_CHECK(other >= theta && other <= theta && m.list->next == first && !first->next);
    T_EQ(gg_measure_null_theta(&m, &room, GG_F16, 0, &theta, &err), GG_OK);
    T_CHECK(theta == 0); /* an empty tensor needs none */
    gg_measure_null_free(&m);
}

/* ---- rows kept ------------------------------------------------------------------------- */

static void add(gg_measures *list, const char *name, double theta, bool decoded)
{
    gg_error err = GG_ERROR_INIT;
    gg_tensor_measure r = { .t = { .name = name, .name_len = strlen(name) }, .decoded = decoded };
    r.t.a = gg_anatomy_of(name, strlen(name));
    r.m.theta = theta;
    T_EQ(gg_measures_add(list, &r, &err), GG_OK);
}

static gg_measures sample_list(void)
{
    gg_measures list = { 0 };
    add(&list, "blk.0.ffn_gate.0.weight", 80, true);
    add(&list, "blk.0.ffn_gate.1.weight", 90, true);
    add(&list, "blk.1.attn_q.weight", 20, true);
    add(&list, "blk.0.attn_q.weight", 0, false);
    add(&list, "a<&>\"\x01\xff", 20, true);
    return list;
}

static void test_wells_and_groups(void)
{
    gg_measures list = sample_list();
    gg_error err = GG_ERROR_INIT;
    size_t *wells, n;
    T_CHECK(gg_measures_wells(&list, 2, &wells, &n, &err) == GG_OK && n == 2 && wells[0] == 2 &&
            wells[1] == 4);
    free(wells);
    T_CHECK(gg_measures_wells(&list, 100, &wells, &n, &err) == GG_OK && n == 4);
    free(wells);
    gg_group *g;
    T_CHECK(gg_measures_groups(&list, &g, &n, &err) == GG_OK && n == 7);
    T_CHECK(g[0].kind == GG_GROUP_CLASS && strcmp(g[0].name, "skeleton") == 0 &&
            g[0].tensors == 2 && g[0].measured == 1);
    T_CHECK(g[3].kind == GG_GROUP_ROLE && g[3].name_len == 8 && g[3].tensors == 2 &&
            g[3].theta == 85 && g[3].stars == 2);
    const gg_group *model = &g[n - 1];
    T_CHECK(model->kind == GG_GROUP_MODEL && model->tensors == 5 && model->measured == 4 &&
            model->theta == 52.5);
    T_CHECK(model->theta_min == 20 && model->theta_max == 90 && model->stars == 1);
    free(g);
    const gg_measure_column *column = NULL;
    for (size_t i = 0; (column = gg_measure_column_at(i)) && strcmp(column->name, "theta"); i++) {}
    T_CHECK(column && column->value && column->value(&list.rows[0]) == 80 && !column->count);
    T_CHECK(!gg_measure_column_at(0)->value && !gg_measure_column_at(SIZE_MAX));
    gg_measures_free(&list);
}

static void test_clean_up(void)
{
    for (int i = 0; i < TENSORS; i++) free(data[i]);
    unlink(records);
    T_EQ(rmdir(folder), 0);
}

static void test_make(void)
{
    make_records();
}

static const t_case cases[] = {
    { "single values", test_picks },
    { "blocks", test_blocks_are_powers_of_two },
    { "many values", test_big },
    { "in parts", test_parts },
    { "codes", test_codes },
    { "scaled blocks", test_scaled },
    { "make records", test_make },
    { "rows", test_rows },
    { "experts", test_experts },
    { "blocks", test_blocks },
    { "runs", test_runs },
    { "holes", test_holes },
    { "null model", test_null },
    { "calibrated", test_calibrated },
    { "null model once", test_null_is_computed_once },
    { "wells and groups", test_wells_and_groups },
    { "clean up", test_clean_up },
};

T_MAIN(cases)
