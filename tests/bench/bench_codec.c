/* bench_codec.c - our codecs against ggml's, by speed, by bits and by error.
 *
 *   bench_codec [all|check|decode|encode|engine|rmse] [TYPE...]
 *
 * check   decodes random bytes with both, at each instruction-set level: same bits?
 * decode, encode   time of ggml / time of ours, one thread: 1 and more is good; encode-im is with
 *         an importance matrix
 * engine  the encoders of F16, BF16 and Q8_0 against the engine's own for this machine, in cache
 * rmse    error of what we encode against the table of ggml's errors
 *
 * ggml is libggml-base.so as the engine tests install it, or at $GGML_BASE: the
 * plain C codecs, opened at run time. The engine's encoders are in libggml-cpu-*.so in the same
 * folder, or at $GGML_CPU. rmse needs neither. Run from the top of
 * the tree. Times are CPU times of this thread, so other load disturbs little.
 */
#include "organ/gg_quant.h"

#include "base/isa.h"
#include "quant/quant.h"

#include <dlfcn.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    COLS = 4096,          /* row length of all data here */
    RMSE_ROWS = 256,      /* the table was made with 256 x 4096 values */
    IN_CACHE = 16 * COLS, /* 64K values, 256 KiB as floats */
    IN_MEMORY = 16 << 20, /* 16M values, 64 MiB as floats */
    CHECK_VALUES = 1 << 20,
    MAX_PAIRS = 15,
    MAX_RATIOS = 64
};

static const char LIB_GLOB[] =
    "tests/engine/node_modules/@node-llama-cpp/linux-x64/*/*/libggml-base.so";
static const char RMSE_TABLE[] = "tests/data/quant-rmse.tsv";

/* ==== The library ==== */

/* struct ggml_type_traits, as in ggml.h of 2024 to 2026; the sizes in it are
 * compared with our table before any function is called. */
typedef struct ref_traits {
    const char *type_name;
    int64_t blck_size, blck_size_interleave;
    size_t type_size;
    bool is_quantized;
    void (*to_float)(const void *x, float *y, int64_t k);
    void (*from_float_ref)(const float *x, void *y, int64_t k);
} ref_traits;

static struct {
    const ref_traits *(*traits)(int type);
    size_t (*quantize_chunk)(int type, const float *src, void *dst, int64_t start, int64_t nrows,
                             int64_t n_per_row, const float *imatrix);
    void (*quantize_init)(int type);
    bool (*requires_imatrix)(int type);
    void (*decode_q8_k)(const void *x, float *y, int64_t k);
    void (*encode_q8_1)(const float *x, void *y, int64_t k);
    void (*encode_q8_k)(const float *x, void *y, int64_t k);
} ref;

/* ISO C has no cast from void * to a function pointer; POSIX makes the bits fit. */
static bool symbol(void *lib, const char *name, void *fn, size_t size)
{
    void *p = dlsym(lib, name);
    if (p) memcpy(fn, &p, size);
    else fprintf(stderr, "bench_codec: %s\n", dlerror());
    return p != NULL;
}

/* Opens the library at the path in the variable, or the first that matches. */
static void *open_library(const char *variable, const char *pattern, int mode)
{
    const char *path = getenv(variable);
    if (path) return dlopen(path, mode);
    glob_t g;
    void *lib = NULL;
    if (glob(pattern, 0, NULL, &g) == 0) {
        lib = dlopen(g.gl_pathv[0], mode);
        globfree(&g);
    }
    return lib;
}

#define SYMBOL(field, name) symbol(lib, name, &ref.field, sizeof ref.field)

static bool load_reference(void)
{
    void *lib = open_library("GGML_BASE", LIB_GLOB, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        const char *why = dlerror();
        fprintf(
            stderr,
            "bench_codec: no libggml-base.so (%s): run tests/engine/install.sh or set GGML_BASE\n",
            why ? why : LIB_GLOB);
        return false;
    }
    if (!SYMBOL(traits, "ggml_get_type_traits") || !SYMBOL(quantize_chunk, "ggml_quantize_chunk") ||
        !SYMBOL(quantize_init, "ggml_quantize_init") ||
        !SYMBOL(requires_imatrix, "ggml_quantize_requires_imatrix") ||
        !SYMBOL(decode_q8_k, "dequantize_row_q8_K") ||
        !SYMBOL(encode_q8_1, "quantize_row_q8_1_ref") ||
        !SYMBOL(encode_q8_k, "quantize_row_q8_K_ref"))
        return false;
    for (size_t i = 0; gg_dtype_at(i); i++) {
        const gg_dtype_info *t = gg_dtype_at(i);
        if (t->kind != GG_DTYPE_LIVE) continue;
        const ref_traits *r = ref.traits((int)t->id);
        if (r->blck_size != t->block_elems || r->type_size != t->block_bytes) {
            fprintf(stderr,
                    "bench_codec: %s has blocks of %lld values, %zu bytes in the library: another "
                    "layout\n",
                    t->name, (long long)r->blck_size, r->type_size);
            return false;
        }
    }
    const char *(*version)(void);
    if (symbol(lib, "ggml_version", &version, sizeof version)) printf("# ggml %s\n", version());
    return true;
}

static bool ref_can_decode(uint32_t t)
{
    return t == GG_Q8_K || ref.traits((int)t)->to_float;
}

static void ref_decode(uint32_t t, const void *blocks, float *out, size_t n)
{
    if (t == GG_Q8_K) ref.decode_q8_k(blocks, out, (int64_t)n);
    else ref.traits((int)t)->to_float(blocks, out, (int64_t)n);
}

static bool ref_can_encode(uint32_t t)
{
    return ref.traits((int)t)->is_quantized || t == GG_F16 || t == GG_BF16;
}

static void ref_encode(uint32_t t, const float *x, void *blocks, size_t n, const float *imatrix)
{
    if (t == GG_Q8_K) ref.encode_q8_k(x, blocks, (int64_t)n);
    else if (t == GG_Q8_1) ref.encode_q8_1(x, blocks, (int64_t)n);
    else ref.quantize_chunk((int)t, x, blocks, 0, (int64_t)(n / COLS), COLS, imatrix);
}

/* ==== The engine's encoders ==== */

/* struct ggml_type_traits_cpu, as in ggml-cpu.h of 2024 to 2026. */
typedef struct engine_traits {
    void (*from_float)(const float *x, void *y, int64_t k);
    void *dot;
    int dot_type;
    int64_t rows;
} engine_traits;

static const engine_traits *(*engine)(int type);

/* Opens the build of the engine for AVX-512 or AVX2, whichever level is in use here. It needs the
 * symbols of libggml-base.so. */
static bool load_engine(void)
{
    static const char *const builds[3] = { "x64", "haswell", "zen4" };
    char pattern[200];
    void (*start)(void);
    snprintf(pattern, sizeof pattern,
             "tests/engine/node_modules/@node-llama-cpp/linux-x64/*/*/libggml-cpu-%s.so",
             builds[gg_isa()]);
    void *base = open_library("GGML_BASE", LIB_GLOB, RTLD_NOW | RTLD_GLOBAL);
    void *lib = base ? open_library("GGML_CPU", pattern, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!lib || !symbol(lib, "ggml_get_type_traits_cpu", &engine, sizeof engine) ||
        !symbol(lib, "ggml_cpu_init", &start, sizeof start)) {
        fprintf(stderr, "bench_codec: no %s: run tests/engine/install.sh or set GGML_CPU\n",
                pattern);
        return false;
    }
    start();
    return true;
}

/* ==== Data ==== */

static void *need(size_t bytes)
{
    void *p = malloc(bytes);
    if (!p) {
        fprintf(stderr, "bench_codec: no memory for %zu bytes\n", bytes);
        exit(4);
    }
    return p;
}

static double draw(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*s >> 11) + 0.5) * 0x1p-53;
}

/* The two sources of the error table, RMSE_ROWS x COLS; see its comment lines. */
static float *source(const char *name)
{
    const double pi = 3.14159265358979323846;
    bool gauss = strcmp(name, "gauss") == 0;
    uint64_t s = gauss ? 1001 : 1002;
    float *x = need(sizeof *x * RMSE_ROWS * COLS);
    for (size_t i = 0; i < (size_t)RMSE_ROWS * COLS; i++) {
        double a = draw(&s);
        if (gauss) {
            double b = draw(&s);
            x[i] = (float)(sqrt(-2 * log(a)) * cos(2 * pi * b));
        } else {
            double v = a - 0.5, m = -log(1 - 2 * fabs(v)) * sqrt(0.5);
            x[i] = (float)(v < 0 ? -m : m);
        }
    }
    return x;
}

static float *column_mean_squares(const float *x)
{
    float *im = need(sizeof *im * COLS);
    for (size_t c = 0; c < COLS; c++) im[c] = 0;
    for (size_t r = 0; r < RMSE_ROWS; r++)
        for (size_t c = 0; c < COLS; c++) im[c] += x[r * COLS + c] * x[r * COLS + c] / RMSE_ROWS;
    return im;
}

static size_t bytes_of(const gg_dtype_info *t, size_t values)
{
    return values / t->block_elems * t->block_bytes;
}

/* ==== Bits ==== */

static uint64_t bits_differ(const float *a, const float *b, size_t n)
{
    uint64_t bad = 0;
    for (size_t i = 0; i < n; i++) /* which NaN is not told apart */
        bad += memcmp(a + i, b + i, sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]));
    return bad;
}

static int check(const gg_dtype_info *t)
{
    if (!gg_can_decode(t->id) || !ref_can_decode(t->id)) return 0;
    size_t n = CHECK_VALUES, bytes = bytes_of(t, n);
    uint8_t *blocks = need(bytes);
    uint64_t s = t->id;
    for (size_t i = 0; i < bytes; i++) blocks[i] = (uint8_t)(draw(&s) * 256);
    float *ours = need(n * sizeof *ours), *theirs = need(n * sizeof *theirs);
    ref_decode(t->id, blocks, theirs, n);
    int top = gg_isa(), failed = 0;
    for (int level = 0; level <= top; level++) {
        gg_isa_set(level);
        memset(ours, 0x55, n * sizeof *ours);
        gg_status st = gg_decode(t->id, blocks, ours, n, NULL);
        uint64_t bad = bits_differ(ours, theirs, n);
        printf("check\t%s\t%d\t%zu\t%llu\t%s\n", t->name, level, n, (unsigned long long)bad,
               st == GG_OK && bad == 0 ? "same" : "DIFFERS");
        failed |= st != GG_OK || bad != 0;
    }
    free(blocks);
    free(ours);
    free(theirs);
    return failed;
}

/* ==== Speed ==== */

typedef struct job {
    const gg_dtype_info *type;
    bool encode, engine;
    size_t values;
    float *floats;
    uint8_t *blocks;
    const float *imatrix;
} job;

static void run_ours(const job *j)
{
    gg_status st = j->encode ? gg_encode(j->type->id, j->floats, j->blocks, j->values, COLS,
                                         j->imatrix, NULL)
                             : gg_decode(j->type->id, j->blocks, j->floats, j->values, NULL);
    if (st != GG_OK) {
        fprintf(stderr, "bench_codec: %s failed\n", j->type->name);
        exit(1);
    }
}

static void run_ref(const job *j)
{
    size_t row = bytes_of(j->type, COLS);
    if (j->engine)
        for (size_t i = 0; i < j->values / COLS; i++)
            engine((int)j->type->id)->from_float(j->floats + i * COLS, j->blocks + i * row, COLS);
    else if (j->encode) ref_encode(j->type->id, j->floats, j->blocks, j->values, j->imatrix);
    else ref_decode(j->type->id, j->blocks, j->floats, j->values);
}

static double seconds(void (*run)(const job *), const job *j, int times)
{
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (int i = 0; i < times; i++) run(j);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return ((double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec)) / times;
}

static int by_value(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* One figure per type for each of decode, encode, encode-im and engine, in cache and in memory. */
static struct tally {
    double ratio[MAX_RATIOS];
    const char *name[MAX_RATIOS];
    size_t n;
} tallies[4][2];

static const char *const PLACE[2] = { "cache", "memory" };
static const char *const WAY[4] = { "decode", "encode", "encode-im", "engine" };

/* Prints a row and returns the reference's seconds a value. */
static double compare_speed(const job *j, int place)
{
    double ours[MAX_PAIRS], theirs[MAX_PAIRS];
    run_ours(j); /* tables are built and pages touched before the clock runs */
    double once = seconds(run_ref, j, 1);
    int times = once < 2e-3 ? 1 + (int)(2e-3 / (once + 1e-6)) : 1;
    int pairs = once < 10e-3 ? MAX_PAIRS : once < 100e-3 ? 7 : 3;
    for (int i = 0; i < pairs; i++) {
        ours[i] = seconds(run_ours, j, times);
        theirs[i] = seconds(run_ref, j, times);
    }
    qsort(ours, (size_t)pairs, sizeof *ours, by_value);
    qsort(theirs, (size_t)pairs, sizeof *theirs, by_value);
    double o = ours[0], r = theirs[0], v = (double)j->values; /* the least */
    const int way = j->engine ? 3 : j->encode + (j->imatrix != NULL);
    printf("%s\t%s\t%s\t%zu\t%.1f\t%.1f\t%.2f\n", WAY[way], j->type->name, PLACE[place], j->values,
           v / o * 1e-6, v / r * 1e-6, r / o);
    fflush(stdout);
    struct tally *t = &tallies[way][place];
    if (t->n < MAX_RATIOS) {
        t->name[t->n] = j->type->name;
        t->ratio[t->n++] = r / o;
    }
    return r / v;
}

static void fill(void *dst, size_t bytes, const void *src, size_t src_bytes)
{
    for (size_t at = 0; at < bytes; at += src_bytes)
        memcpy((uint8_t *)dst + at, src, bytes - at < src_bytes ? bytes - at : src_bytes);
}

static bool needs_imatrix(uint32_t t)
{
    return gg_encode_needs_imatrix(t) || ref.requires_imatrix((int)t);
}

static void bench_decode(const gg_dtype_info *t, const float *x, const float *imatrix)
{
    if (!gg_can_decode(t->id) || !ref_can_decode(t->id) || !ref_can_encode(t->id)) return;
    job j = { .type = t, .values = IN_CACHE };
    size_t small = bytes_of(t, IN_CACHE), large = bytes_of(t, IN_MEMORY);
    j.blocks = need(large);
    j.floats = need(sizeof *j.floats * IN_MEMORY);
    memset(j.floats, 0, sizeof *j.floats * IN_MEMORY);
    ref.quantize_init((int)t->id);
    ref_encode(t->id, x, j.blocks, IN_CACHE, needs_imatrix(t->id) ? imatrix : NULL);
    fill(j.blocks + small, large - small, j.blocks, small);
    compare_speed(&j, 0);
    j.values = IN_MEMORY;
    compare_speed(&j, 1);
    free(j.blocks);
    free(j.floats);
}

/* Whether the reference's encoder uses an importance matrix. */
static bool uses_imatrix(const gg_dtype_info *t, const float *x, const float *imatrix)
{
    if (needs_imatrix(t->id)) return true;
    const size_t bytes = bytes_of(t, COLS);
    uint8_t *plain = need(bytes), *weighed = need(bytes);
    memset(plain, 0, bytes);
    memset(weighed, 0, bytes);
    ref_encode(t->id, x, plain, COLS, NULL);
    ref_encode(t->id, x, weighed, COLS, imatrix);
    const bool differ = memcmp(plain, weighed, bytes) != 0;
    free(plain);
    free(weighed);
    return differ;
}

static void bench_encode(const gg_dtype_info *t, const float *x, const float *imatrix)
{
    if ((!gg_can_encode(t->id) && !gg_encode_needs_imatrix(t->id)) || !ref_can_encode(t->id))
        return;
    job j = { .type = t, .encode = true, .values = IN_CACHE };
    j.blocks = need(bytes_of(t, IN_MEMORY));
    memset(j.blocks, 0, bytes_of(t, IN_MEMORY));
    j.floats = need(sizeof *j.floats * IN_MEMORY);
    fill(j.floats, sizeof *j.floats * IN_MEMORY, x, sizeof *x * RMSE_ROWS * COLS);
    ref.quantize_init((int)t->id);
    if (!needs_imatrix(t->id)) {
        double a_value = compare_speed(&j, 0);
        /* A slow encoder gets what takes 0.15 s, but no less than 1M values (4 MiB)... */
        double affordable = 0.15 / a_value;
        j.values = affordable >= IN_MEMORY ? (size_t)IN_MEMORY : (size_t)affordable / COLS * COLS;
        /* ...and one below that is not held up by memory: the row would say the same again. */
        if (j.values >= RMSE_ROWS * COLS) compare_speed(&j, 1);
    }
    if (uses_imatrix(t, x, imatrix)) {
        j.values = IN_CACHE;
        j.imatrix = imatrix;
        compare_speed(&j, 0);
    }
    free(j.blocks);
    free(j.floats);
}

static void print_tallies(void)
{
    for (int e = 0; e < 4; e++)
        for (int p = 0; p < 2; p++) {
            struct tally *t = &tallies[e][p];
            if (t->n == 0) continue;
            size_t low = 0, under = 0;
            for (size_t i = 0; i < t->n; i++) {
                low = t->ratio[i] < t->ratio[low] ? i : low;
                under += t->ratio[i] < 1;
            }
            double min = t->ratio[low];
            const char *name = t->name[low];
            qsort(t->ratio, t->n, sizeof *t->ratio, by_value);
            printf("# %s %s: %zu types, ratio min %.2f (%s), median %.2f, below 1: %zu\n", WAY[e],
                   PLACE[p], t->n, min, name, t->ratio[t->n / 2], under);
        }
}

/* ==== Error ==== */

static double rmse_of(const gg_dtype_info *t, const float *x, const float *imatrix)
{
    size_t n = (size_t)RMSE_ROWS * COLS;
    uint8_t *blocks = need(bytes_of(t, n));
    float *y = need(n * sizeof *y);
    double sum = 0;
    if (gg_encode(t->id, x, blocks, n, COLS, imatrix, NULL) != GG_OK ||
        gg_decode(t->id, blocks, y, n, NULL) != GG_OK)
        sum = NAN;
    for (size_t i = 0; i < n; i++) {
        double d = (double)y[i] - (double)x[i];
        sum += d * d;
    }
    free(blocks);
    free(y);
    return sqrt(sum / (double)n);
}

static bool listed(const char *name, int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (gg_dtype_by_name(argv[i]) == gg_dtype_by_name(name)) return true;
    return argc <= 2;
}

static int rmse(int argc, char **argv)
{
    FILE *f = fopen(RMSE_TABLE, "r");
    if (!f) {
        perror(RMSE_TABLE);
        return 1;
    }
    float *x[2] = { source("gauss"), source("laplace") };
    float *im[2] = { column_mean_squares(x[0]), column_mean_squares(x[1]) };
    char line[512], name[16], data[16], imatrix[16], worst_name[64] = "";
    double theirs, worst = 0;
    printf("# op\ttype\tdata\timatrix\tours\treference\tratio\n");
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%15s %*u %15s %15s %*f %lf", name, data, imatrix, &theirs) != 4 ||
            line[0] == '#')
            continue;
        const gg_dtype_info *t = gg_dtype_by_name(name);
        bool weighted = strcmp(imatrix, "none") != 0;
        if (!t || !listed(name, argc, argv) ||
            !(gg_can_encode(t->id) || (gg_encode_needs_imatrix(t->id) && weighted)))
            continue;
        int d = strcmp(data, "gauss") != 0;
        double ours = rmse_of(t, x[d], weighted ? im[d] : NULL),
               ratio = theirs > 0 ? ours / theirs : 1;
        printf("rmse\t%s\t%s\t%s\t%.9g\t%.9g\t%.4f\n", name, data, imatrix, ours, theirs, ratio);
        fflush(stdout);
        if (!(ratio <= worst)) {
            worst = ratio;
            snprintf(worst_name, sizeof worst_name, "%s %s %s", name, data, imatrix);
        }
    }
    printf("# rmse: ratio max %.4f (%s)\n", worst, worst_name);
    fclose(f);
    for (int i = 0; i < 2; i++) {
        free(x[i]);
        free(im[i]);
    }
    return 0;
}

static int bench_engine(const gg_dtype_info *t, const float *x)
{
    const size_t bytes = bytes_of(t, IN_CACHE);
    uint8_t *ours = need(bytes), *theirs = need(bytes);
    float *floats = need(sizeof *floats * IN_CACHE);
    memcpy(floats, x, sizeof *floats * IN_CACHE);
    job j = { .type = t, .encode = true, .engine = true, .values = IN_CACHE, .floats = floats };
    j.blocks = theirs;
    run_ref(&j);
    j.blocks = ours;
    run_ours(&j);
    bool same = memcmp(ours, theirs, bytes) == 0;
    compare_speed(&j, 0);
    if (!same) printf("engine\t%s\tother bytes\n", t->name);
    free(ours);
    free(theirs);
    free(floats);
    return !same;
}

static int against_engine(int argc, char **argv)
{
    static const uint32_t dtypes[3] = { GG_F16, GG_BF16, GG_Q8_0 };
    int failed = 0;
    if (!load_engine()) return 1;
    float *x = source("gauss");
    for (int i = 0; i < 3; i++)
        if (listed(gg_dtype_name(dtypes[i]), argc, argv))
            failed |= bench_engine(gg_dtype_get(dtypes[i]), x);
    print_tallies();
    free(x);
    return failed;
}

/* ==== */

static int against_library(bool all, const char *what, int argc, char **argv)
{
    if (!load_reference()) return all ? 0 : 1;
    float *x = source("gauss"), *im = column_mean_squares(x);
    int failed = 0;
    static const char *const HEAD[2] = {
        "# op\ttype\tisa\tvalues\tdifferent\tverdict",
        "# op\ttype\tplace\tvalues\tours_Mval/s\tggml_Mval/s\tratio"
    };
    for (int op = 0; op < 3; op++) {
        static const char *const OPS[3] = { "check", "decode", "encode" };
        if (!all && strcmp(what, OPS[op]) != 0) continue;
        puts(HEAD[op > 0]);
        for (size_t i = 0; gg_dtype_at(i); i++) {
            const gg_dtype_info *t = gg_dtype_at(i);
            if (t->kind != GG_DTYPE_LIVE || !listed(t->name, argc, argv)) continue;
            if (op == 0) failed |= check(t);
            else if (op == 1) bench_decode(t, x, im);
            else bench_encode(t, x, im);
        }
    }
    print_tallies();
    free(x);
    free(im);
    return failed;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    bool all = strcmp(what, "all") == 0, only_rmse = strcmp(what, "rmse") == 0,
         only_engine = strcmp(what, "engine") == 0;
    if (!all && !only_rmse && !only_engine && strcmp(what, "check") != 0 &&
        strcmp(what, "decode") != 0 && strcmp(what, "encode") != 0) {
        fprintf(stderr, "usage: bench_codec [all|check|decode|encode|engine|rmse] [TYPE...]\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        if (!gg_dtype_by_name(argv[i])) {
            fprintf(stderr, "bench_codec: no type %s\n", argv[i]);
            return 2;
        }
    printf("# instruction-set level %d\n", gg_isa());
    if (only_engine) return against_engine(argc, argv);
    int failed = only_rmse ? 0 : against_library(all, what, argc, argv);
    if (all || only_rmse) failed |= rmse(argc, argv);
    return failed;
}
