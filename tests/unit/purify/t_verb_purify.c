/* t_verb_purify.c - purification of what files hold: records in, records out. */
#include "files.h"
#include "gguf/gguf.h"
#include "measures.h"
#include "numeric/numeric.h"
#include "organ/record.h"
#include "purify/gg_purify.h"
#include "quant/quant.h"

#include <fcntl.h>
#include <math.h>

#define PI 3.14159265358979323846

/* Append a record of values encoded as dtype. */
static void put(FILE *f, const char *name, uint32_t dtype, uint32_t n_dims, const uint64_t *dims,
                const float *x)
{
    gg_tensor t = { .name = name,
                    .name_len = strlen(name),
                    .n_dims = n_dims,
                    .dims = GG_DIMS_ONE,
                    .dtype = dtype };
    uint8_t head[GG_RECORD_HEADER];
    gg_error err = GG_ERROR_INIT;
    memcpy(t.dims, dims, n_dims * sizeof *dims);
    T_EQ(gg_tensor_extent(dtype, n_dims, dims, &t.elements, &t.bytes, &err), GG_OK);
    uint8_t *data = malloc(t.bytes + 1);
    if (dtype == GG_F32 || dtype == GG_I32) memcpy(data, x, t.bytes); /* NaN too */
    else T_CHECK(gg_encode(dtype, x, data, t.elements, dims[0], NULL, &err) == GG_OK);
    fwrite(head, 1, gg_record_header(&t, head), f);
    fwrite(data, 1, t.bytes, f);
    free(data);
}

static const char *one_record(const char *file, const char *name, uint32_t dtype, uint64_t row,
                              uint64_t rows, const float *x)
{
    const char *path = scratch(file);
    FILE *f = fopen(path, "wb");
    put(f, name, dtype, 2, (uint64_t[]){ row, rows }, x);
    fclose(f);
    return path;
}

static float *noise(size_t n, uint64_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    gg_gauss_fill(x, n, seed);
    return x;
}

typedef struct seen {
    gg_purify_row row[8];
    char names[8][80];
    size_t n;
} seen;

static gg_status see(void *ctx, const gg_purify_row *r, gg_error *err)
{
    seen *s = ctx;
    (void)err;
    snprintf(s->names[s->n], sizeof s->names[0], "%s", r->t.name);
    s->row[s->n++] = *r;
    return GG_OK;
}

/* Purify a record file into another; its bytes malloc'd. */
static char *purified(const char *in, gg_purify_options o, unsigned threads, size_t *n, seen *s,
                      gg_error *err)
{
    seen unused;
    if (!s) s = &unused;
    s->n = 0;
    const char *out = scratch("out.bin");
    gg_run run = { .threads = threads, .force = true };
    gg_source *src = NULL;
    gg_purify_report sum;
    gg_status st = gg_source_open(in, &src, err);
    o.row = see;
    o.ctx = s;
    o.form = GG_PURIFY_STREAM;
    if (st == GG_OK) st = gg_purify(src, &o, out, &run, &sum, err);
    gg_source_close(src);
    return st == GG_OK ? slurp(out, n) : NULL;
}

static gg_purify_options options(gg_purify_method method, double strength)
{
    return (gg_purify_options){ .method = method, .strength = strength, .dtype = NULL };
}

static void strength_zero(void)
{
    static const uint32_t dtypes[] = {
        GG_F32, GG_F16, GG_BF16, GG_Q8_0, GG_Q4_K, GG_Q2_K, GG_MXFP4
    };
    float *x = noise(512 * 7, 1);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        for (int method = 0; method < 2; method++) {
            gg_error err = GG_ERROR_INIT;
            const char *in = one_record("in.bin", "blk.0.ffn_up.weight", dtypes[i], 512, 7, x);
            size_t n = 0, m;
            seen s;
            char *was = slurp(in, &m),
                 *is = purified(in, options((gg_purify_method)method, 0), 1, &n, &s, &err);
            T_CHECKF(is && n == m && memcmp(was, is, n) == 0, "dtype %u", dtypes[i]);
            T_CHECK(s.n == 1 && s.row[0].outcome == GG_PURIFY_IDENTICAL &&
                    s.row[0].energy_kept == 1 && s.row[0].rel_l2 == 0);
            T_CHECK(s.n == 1 && s.row[0].theta_before == s.row[0].theta_after);
            free(was), free(is);
        }
    free(x);
}

static void mean_std(const float *x, size_t n, double *mean, double *std)
{
    double m = 0, v = 0;
    for (size_t i = 0; i < n; i++) m += (double)x[i];
    m /= (double)n;
    for (size_t i = 0; i < n; i++) v += ((double)x[i] - m) * ((double)x[i] - m);
    *mean = m;
    *std = sqrt(v / (double)n);
}

/* In F32 nothing is lost after the filter. Rows of lengths that no power of two likes. */
static void mean_and_std(void)
{
    static const uint64_t rows[][2] = { { 3584, 9 }, { 5, 777 },  { 4096, 4 },
                                        { 1, 100 },  { 2311, 3 }, { 100000, 1 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int method = 0; method < 2; method++) {
            size_t count = (size_t)(rows[i][0] * rows[i][1]), n = 0;
            float *x = noise(count, i + 1), *y = malloc(count * sizeof *y);
            gg_error err = GG_ERROR_INIT;
            seen s;
            for (size_t k = 0; k < count; k++) x[k] = 0.3f + 0.02f * x[k];
            char *is = purified(one_record("in.bin", "a.weight", GG_F32, rows[i][0], rows[i][1], x),
                                options((gg_purify_method)method, 0.5), 2, &n, &s, &err);
            T_CHECK(is != NULL && n > count * sizeof *y);
            if (!is) continue;
            memcpy(y, is + n - count * sizeof *y, count * sizeof *y);
            double m0, s0, m1, s1;
            mean_std(x, count, &m0, &s0);
            mean_std(y, count, &m1, &s1);
            T_CHECKF(fabs(m1 / m0 - 1) < 1e-5 && fabs(s1 / s0 - 1) < 1e-5, "%g %g, %g %g", m0, m1,
                     s0, s1);
            bool one = method == GG_PURIFY_FFT && rows[i][0] == 1; /* rows that are all mean */
            T_CHECK((s.row[0].outcome == GG_PURIFY_DONE) == !one);
            free(x), free(y), free(is);
        }
}

/* Signal-to-noise ratio in dB. */
static double snr(const float *clean, const float *x, size_t n)
{
    double r = t_pearson(clean, x, n);
    return 10 * log10(r * r / (1 - r * r));
}

/* A signal buried in noise as strong as it comes out clearer. */
static void buried(void)
{
    enum { N = 16 * 4096 };
    for (int method = 0; method < 2; method++) {
        float *clean = malloc(N * sizeof *clean), *x = noise(N, 5), *y = malloc(N * sizeof *y);
        gg_error err = GG_ERROR_INIT;
        size_t n = 0;
        for (size_t i = 0; i < N; i++) {
            double t = (double)i / N, v = 0;
            if (method == GG_PURIFY_HAAR) /* Weierstrass: the same at every scale */
                for (int k = 0; k < 16; k++) v += pow(0.5, 0.5 * k) * cos(pow(2, k) * PI * t) / 1.4;
            else v = sin(2 * PI * t * 16 * 37) + 0.8 * cos(2 * PI * t * 16 * 501);
            clean[i] = (float)v;
            x[i] += clean[i];
        }
        char *is = purified(one_record("in.bin", "a.weight", GG_F32, 4096, 16, x),
                            options((gg_purify_method)method, method == GG_PURIFY_HAAR ? 1 : 0.7),
                            2, &n, NULL, &err);
        T_CHECK(is != NULL);
        if (is) memcpy(y, is + n - N * sizeof *y, N * sizeof *y);
        double before = snr(clean, x, N), after = is ? snr(clean, y, N) : -99;
        T_CHECKF(after > before + 6, "%g dB to %g dB", before, after);
        free(clean), free(x), free(y), free(is);
    }
}

static void not_finite(void)
{
    float *x = noise(64 * 8, 3);
    x[5] = NAN, x[100] = -INFINITY, x[511] = INFINITY;
    for (int method = 0; method < 2; method++) {
        gg_error err = GG_ERROR_INIT;
        size_t n;
        T_CHECK(!purified(one_record("in.bin", "sick.weight", GG_F32, 64, 8, x),
                          options((gg_purify_method)method, 0.1), 1, &n, NULL, &err));
        T_CHECK(err.status == GG_EFORMAT && strstr(err.what, "3 of its values are NaN") &&
                strcmp(err.tensor, "sick.weight") == 0);
    }
    free(x);
}

/* A record of an organ directory, whose chunks several threads write at their places. */
static char *in_directory(const char *in, gg_purify_options o, const char *record, size_t *n,
                          seen *s)
{
    gg_error err = GG_ERROR_INIT;
    gg_run run = { .threads = 3, .force = true };
    gg_source *src = NULL;
    gg_purify_report sum;
    char dir[4096], path[5000];
    snprintf(dir, sizeof dir, "%s", scratch("dir"));
    snprintf(path, sizeof path, "%s/%s", dir, record);
    s->n = 0;
    o.row = see;
    o.ctx = s;
    gg_status st = gg_source_open(in, &src, &err);
    if (st == GG_OK) st = gg_purify(src, &o, dir, &run, &sum, &err);
    T_CHECKF(st == GG_OK && there(path), "%s: %s", path, err.what);
    gg_source_close(src);
    return there(path) ? slurp(path, n) : NULL;
}

/* The same bytes for any number of threads, with what they share and what they do not. */
static void threads(void)
{
    enum { ROW = 2560, ROWS = 2048 }; /* 5 Mi values */
    float *x = noise((size_t)ROW * ROWS, 4);
    const char *in = one_record("big.bin", "big.weight", GG_Q8_0, ROW, ROWS, x);
    for (int method = 0; method < 2; method++) {
        gg_error err = GG_ERROR_INIT;
        size_t n1 = 0, n4 = 0, n3 = 0;
        gg_purify_options o = options((gg_purify_method)method, 0.3);
        seen a, b;
        char *one = purified(in, o, 1, &n1, &a, &err), *four = purified(in, o, 4, &n4, NULL, &err);
        T_CHECK(one && four && n1 == n4 && memcmp(one, four, n1) == 0);
        char *three = method ? NULL : in_directory(in, o, "other/big.bin", &n3, &b);
        T_CHECK(method || (one && three && n1 == n3 && memcmp(one, three, n1) == 0));
        T_CHECK(method || (b.n == 1 && b.row[0].theta_before == a.row[0].theta_before &&
                           b.row[0].theta_after == a.row[0].theta_after));
        free(one), free(four), free(three);
    }
    free(x);
}

/* Each expert of a stack is a signal of its own. */
static void experts(void)
{
    enum { ROW = 96, ROWS = 50, ONE = ROW * ROWS, E = 3 };
    float *x = noise(ONE * E, 6);
    for (size_t i = ONE; i < 2 * ONE; i++) x[i] = 7 + 3 * x[i];
    for (int method = 0; method < 2; method++) {
        gg_error err = GG_ERROR_INIT;
        gg_purify_options o = options((gg_purify_method)method, 0.4);
        size_t n = 0, m = 0;
        char *path = strdup(scratch("stack.bin")); /* scratch names are reused */
        FILE *f = fopen(path, "wb");
        put(f, "blk.0.ffn_up_exps.weight", GG_F32, 3, (uint64_t[]){ ROW, ROWS, E }, x);
        fclose(f);
        seen s;
        char *all = purified(path, o, 1, &n, &s, &err);
        T_CHECK(all && s.n == 1 && s.row[0].outcome == GG_PURIFY_DONE);
        seen flat; /* the same values as one matrix */
        free(purified(one_record("e.bin", "a.weight", GG_F32, ROW, ROWS * E, x),
                      options((gg_purify_method)method, 0), 1, &m, &flat, &err));
        T_CHECK(flat.n == 1 && flat.row[0].theta_before == s.row[0].theta_before);
        for (size_t e = 0; e < E && all; e++) {
            char *alone = purified(one_record("e.bin", "a.weight", GG_F32, ROW, ROWS, x + e * ONE),
                                   o, 1, &m, NULL, &err);
            T_CHECK(alone &&
                    memcmp(all + n - (E - e) * ONE * 4, alone + m - ONE * 4, ONE * 4) == 0);
            free(alone);
        }
        gg_select *select;
        T_CHECK(gg_select_new(&select, &err) == GG_OK &&
                gg_select_add(select, GG_SELECT_EXPERTS, "1", &err) == GG_OK);
        o.select = select;
        char *some = purified(path, o, 1, &m, &s, &err);
        T_CHECK(some && m == n && s.n == 1 && strcmp(s.names[0], "blk.0.ffn_up.1.weight") == 0);
        if (some && all) {
            T_CHECK(memcmp(some + n - 3 * ONE * 4, x, ONE * 4) == 0 &&
                    memcmp(some + n - ONE * 4, x + 2 * ONE, ONE * 4) == 0);
            T_CHECK(memcmp(some + n - 2 * ONE * 4, all + n - 2 * ONE * 4, ONE * 4) == 0);
        }
        size_t k = 0;
        char *placed = in_directory(path, o, "organs/blk_0_ffn_up_exps.bin", &k, &s);
        T_CHECK(some && placed && k == m && memcmp(some, placed, k) == 0);
        free(placed);
        o.strength = 0;
        placed = in_directory(path, o, "organs/blk_0_ffn_up_exps.bin", &k, &s);
        T_CHECK(placed && k >= ONE * E * 4 &&
                memcmp(placed + k - ONE * E * 4, x, ONE * E * 4) == 0);
        free(placed);
        o.dtype = gg_dtype_get(GG_Q8_0);
        gg_error other = GG_ERROR_INIT;
        T_CHECK(!purified(path, o, 1, &m, NULL, &other) && other.status == GG_EUSAGE);
        gg_select_free(select);
        free(all), free(some), free(path);
    }
    free(x);
}

/* Vectors and integers are left alone unless they are named; dtypes without a way
 * back are refused with the choices. */
static void left_alone(void)
{
    float *x = noise(512, 7);
    for (size_t i = 0; i < 512; i++) x[i] = roundf(100 * x[i]);
    const char *path = scratch("mixed.bin");
    FILE *f = fopen(path, "wb");
    put(f, "norm.weight", GG_F32, 1, (uint64_t[]){ 512 }, x);
    put(f, "ids.weight", GG_I32, 2, (uint64_t[]){ 64, 8 }, x);
    put(f, "m.weight", GG_F32, 2, (uint64_t[]){ 64, 8 }, x);
    put(f, "none.weight", GG_F32, 2, (uint64_t[]){ 64, 0 }, x);
    fclose(f);
    gg_error err = GG_ERROR_INIT;
    size_t n = 0;
    seen s;
    gg_purify_options o = options(GG_PURIFY_FFT, 0.5);
    free(purified(path, o, 1, &n, &s, &err));
    T_CHECK(s.n == 4 && s.row[0].outcome == GG_PURIFY_VECTOR &&
            s.row[1].outcome == GG_PURIFY_INTEGER);
    T_CHECK(s.row[2].outcome == GG_PURIFY_DONE && s.row[3].outcome == GG_PURIFY_IDENTICAL);
    gg_select *select;
    T_CHECK(gg_select_new(&select, &err) == GG_OK &&
            gg_select_add(select, GG_SELECT_TENSORS, "norm.weight", &err) == GG_OK);
    o.select = select;
    free(purified(path, o, 1, &n, &s, &err));
    T_CHECK(s.n == 1 && s.row[0].outcome == GG_PURIFY_DONE && s.row[0].rel_l2 > 0.1);
    gg_select_free(select);
    o.select = NULL;
    o.dtype = gg_dtype_get(GG_Q4_K); /* rows of 64 */
    T_CHECK(!purified(path, o, 1, &n, &s, &err) && err.status == GG_EUSAGE && s.n == 0);
    T_CHECK(strcmp(err.tensor, "m.weight") == 0 && strstr(err.fix, "Q8_0") &&
            !strstr(err.fix, "Q4_K"));
    err = (gg_error)GG_ERROR_INIT;
    o.dtype = gg_dtype_get(GG_IQ2_XXS);
    T_CHECK(!purified(path, o, 1, &n, &s, &err) && err.status == GG_EUSAGE &&
            strstr(err.what, "importance"));
    err = (gg_error)GG_ERROR_INIT;
    o = options(GG_PURIFY_FFT, 1.5);
    T_CHECK(!purified(path, o, 1, &n, &s, &err) && err.status == GG_EUSAGE);
    free(x);
}

static const t_case cases[] = {
    { "strength 0 is the identity", strength_zero },
    { "mean and std stay", mean_and_std },
    { "a signal in noise comes out", buried },
    { "NaN and infinities are refused", not_finite },
    { "any number of threads", threads },
    { "experts one by one", experts },
    { "tensors left alone, and refusals", left_alone },
};
T_MAIN(cases)
