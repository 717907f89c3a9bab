/* t_codec_k.c - plain, 32-value and K codecs against the reference's vectors
 * (tests/data/codec-k, see how-made.sh there), at every instruction-set level. */
#include "base/isa.h"
#include "organ/gg_quant.h"
#include "quant/kernel/lanes.h"
#include "quant/quant.h"
#include "t.h"

#include <float.h>
#include <math.h>

#define DATA "tests/data/codec-k/"

enum { ROWS = 16, COLS = 512, IM_ROWS = 3, IM_COLS = 1024, LEVELS = 3, MAX_BYTES = 1 << 17 };

static const char *const types[] = {
    "F32",  "F16",  "BF16", "F64",  "Q4_0", "Q4_1", "Q5_0", "Q5_1",
    "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K"
};
enum { TYPES = sizeof types / sizeof types[0] };

/* The whole of a file of this test's data, NULL if there is none; freed by the caller. */
static uint8_t *slurp(const char *stem, const char *type, size_t *size)
{
    char path[200];
    snprintf(path, sizeof path, DATA "%s%s.bin", stem, type);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    uint8_t *data = malloc(MAX_BYTES);
    T_CHECK(data != NULL);
    *size = data ? fread(data, 1, MAX_BYTES, f) : 0;
    T_CHECKF(*size > 0 && *size < MAX_BYTES, "%s", path);
    fclose(f);
    return data;
}

static size_t bytes_of(const gg_dtype_info *t, size_t n)
{
    return n / t->block_elems * t->block_bytes;
}

static double rms_error(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum / (double)n);
}

/* ---- decode -------------------------------------------------------------- */

static void check_decode(const gg_dtype_info *t, const uint8_t *file, size_t size, int level)
{
    gg_error err = GG_ERROR_INIT;
    uint32_t n, tail;
    memcpy(&n, file, 4);
    size_t blocks = bytes_of(t, n);
    T_CHECKF(size == 4 + blocks + 4 * (size_t)n, "%s: file of %zu bytes", t->name, size);
    float *out = malloc((n + 1) * sizeof *out), want;
    if (size != 4 + blocks + 4 * (size_t)n || !out) {
        free(out);
        return;
    }
    memset(out, 0x55, (n + 1) * sizeof *out);
    T_EQ(gg_decode(t->id, file + 4, out, n, &err), GG_OK);
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(&want, file + 4 + blocks + 4 * i, 4);
        bad += memcmp(&want, &out[i], 4) != 0 && !(isnan(want) && isnan(out[i]));
    }
    T_CHECKF(bad == 0, "%s level %d: %zu of %u values differ", t->name, level, bad, (unsigned)n);
    memcpy(&tail, out + n, 4);
    T_CHECKF(tail == 0x55555555u, "%s wrote past its end", t->name);
    free(out);
}

static void decode_vectors(void)
{
    size_t size, seen = 0;
    for (int i = 0; i < TYPES; i++) {
        uint8_t *file = slurp("decode-", types[i], &size);
        if (!file) continue;
        seen++;
        for (int level = 0; level < LEVELS; level++) {
            gg_isa_set(level);
            check_decode(gg_dtype_by_name(types[i]), file, size, level);
        }
        free(file);
    }
    T_CHECKF(seen == TYPES - 1, "vectors of %zu types", seen); /* Q8_1 has none */
}

/* Types that the reference does not decode. */
static void decode_integers(void)
{
    gg_error err = GG_ERROR_INIT;
    const int8_t i8[] = { 0, 1, -1, 127, -128 };
    const int16_t i16[] = { 0, 1, -1, 32767, -32768 };
    const int32_t i32[] = { 0, 1, -1, INT32_MAX, INT32_MIN };
    const int64_t i64[] = { 0, 1, -1, INT64_MAX, INT64_MIN };
    float out[32];
    uint8_t q8_1[36] = { 0x00, 0x38, 0xff, 0xff };
    for (int j = 0; j < 32; j++) q8_1[4 + j] = (uint8_t)(j * 8 - 128);
    for (int level = 0; level < LEVELS; level++) {
        gg_isa_set(level);
        gg_decode(GG_I8, i8, out, 5, &err);
        for (int i = 0; i < 5; i++) T_EQ(out[i], (float)i8[i]);
        gg_decode(GG_I16, i16, out, 5, &err);
        for (int i = 0; i < 5; i++) T_EQ(out[i], (float)i16[i]);
        gg_decode(GG_I32, i32, out, 5, &err);
        for (int i = 0; i < 5; i++) T_EQ(out[i], (float)i32[i]);
        gg_decode(GG_I64, i64, out, 5, &err);
        for (int i = 0; i < 5; i++) T_EQ(out[i], (float)i64[i]);
        gg_decode(GG_Q8_1, q8_1, out, 32, &err);
        for (int j = 0; j < 32; j++) T_EQ(out[j], 0.5f * (float)(j * 8 - 128));
    }
    T_EQ(err.status, GG_OK);
}

/* ---- encode -------------------------------------------------------------- */

/* Encodes rows at every level, twice: the same bytes each time, those of the
 * reference, and no row with a larger error than 1.02 times the reference's. */
static void check_encode(const gg_dtype_info *t, const float *x, size_t rows, size_t cols,
                         const float *imatrix, const uint8_t *want, size_t size)
{
    gg_error err = GG_ERROR_INIT;
    size_t bytes = bytes_of(t, rows * cols), row_bytes = bytes / rows;
    uint8_t *got[3] = { calloc(1, bytes), calloc(1, bytes), calloc(1, bytes) };
    float *y = malloc(cols * sizeof *y), *z = malloc(cols * sizeof *z);
    T_CHECKF(size == bytes, "%s: %zu bytes of reference", t->name, size);
    if (size == bytes && got[0] && got[1] && got[2] && y && z) {
        for (int k = 0; k < 3; k++) {
            gg_isa_set(k);
            T_EQ(gg_encode(t->id, x, got[k], rows * cols, cols, imatrix, &err), GG_OK);
        }
        T_CHECKF(!memcmp(got[0], got[1], bytes), "%s differs between levels", t->name);
        T_CHECKF(!memcmp(got[1], got[2], bytes), "%s differs between runs", t->name);
        T_CHECKF(!memcmp(got[0], want, bytes), "%s: other bytes than the reference", t->name);
        for (size_t r = 0; r < rows; r++) {
            gg_decode(t->id, got[0] + r * row_bytes, y, cols, &err);
            gg_decode(t->id, want + r * row_bytes, z, cols, &err);
            double ours = rms_error(y, x + r * cols, cols),
                   theirs = rms_error(z, x + r * cols, cols);
            T_CHECKF(ours <= 1.02 * theirs, "%s row %zu: error %g, reference %g", t->name, r, ours,
                     theirs);
        }
    }
    for (int k = 0; k < 3; k++) free(got[k]);
    free(y);
    free(z);
}

static void encode_vectors(void)
{
    size_t size, rows_size = 0, seen = 0;
    uint8_t *rows = slurp("rows", "", &rows_size);
    T_EQ(rows_size, ROWS * COLS * sizeof(float));
    for (int i = 0; rows && i < TYPES; i++) {
        uint8_t *want = slurp("encode-", types[i], &size);
        if (!want) continue;
        seen++;
        check_encode(gg_dtype_by_name(types[i]), (const float *)(const void *)rows, ROWS, COLS,
                     NULL, want, size);
        free(want);
    }
    free(rows);
    T_CHECKF(seen == 12, "vectors of %zu types", seen);
}

static void encode_vectors_imatrix(void)
{
    size_t size, rows_size = 0, seen = 0;
    uint8_t *rows = slurp("rows-imatrix", "", &rows_size);
    T_EQ(rows_size, (IM_ROWS + 1) * IM_COLS * sizeof(float));
    for (int i = 0; rows && i < TYPES; i++) {
        uint8_t *want = slurp("encode-imatrix-", types[i], &size);
        if (!want) continue;
        const float *x = (const float *)(const void *)rows;
        seen++;
        check_encode(gg_dtype_by_name(types[i]), x, IM_ROWS, IM_COLS, x + IM_ROWS * IM_COLS, want,
                     size);
        free(want);
    }
    free(rows);
    T_CHECKF(seen == 9, "vectors of %zu types", seen);
}

/* ---- hostile input ------------------------------------------------------- */

static uint32_t random_state;

static uint32_t next_random(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static float random_bits_float(uint32_t exponent)
{
    uint32_t u = next_random() << 8 & 0x807fffffu;
    float f;
    u |= exponent << 23 | (next_random() & 0x7fffu);
    memcpy(&f, &u, 4);
    return f;
}

/* Values of every size, of one size, next to the ends of the range, constants. */
static void hostile_row(int kind, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) switch (kind) {
        case 0: x[i] = random_bits_float(next_random() % 255); break;
        case 1: x[i] = random_bits_float(0); break;
        case 2: x[i] = random_bits_float(254); break;
        case 3: x[i] = next_random() & 1 ? FLT_MAX : -FLT_MAX; break;
        case 4: x[i] = FLT_MAX; break;
        case 5: x[i] = -FLT_MAX; break;
        case 6: x[i] = i % 64 ? 1e-3f * (float)(i % 7) : -3e38f; break;
        case 7: x[i] = FLT_TRUE_MIN; break;
        case 8: x[i] = -1e6f - (float)(i % 5); break;
        case 9: x[i] = random_bits_float(100 + next_random() % 50); break;
        default: x[i] = random_bits_float((uint32_t)kind * 8); break;
        }
}

static void hostile_weights(int kind, float *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w[i] = kind == 0   ? 0.0f
               : kind == 1 ? FLT_MAX
               : kind == 2 ? FLT_TRUE_MIN
               : i % 3     ? 0.0f
                           : 1e20f;
}

/* Finite values with any weights decode to finite values, the same at each level. */
static void encode_hostile(void)
{
    enum { N = 1024, KINDS = 30, WEIGHTS = 5 };
    static float x[N], w[N], y[N];
    static uint8_t got[LEVELS][2 * N * sizeof(float)];
    gg_error err = GG_ERROR_INIT;
    random_state = 1;
    for (int k = 0; k < KINDS * WEIGHTS; k++) {
        int weights = k % WEIGHTS;
        hostile_row(k / WEIGHTS, x, N);
        hostile_weights(weights, w, N);
        for (int i = 0; i < TYPES; i++) {
            const gg_dtype_info *t = gg_dtype_by_name(types[i]);
            for (int level = 0; level < LEVELS; level++) {
                gg_isa_set(level);
                T_CHECK(gg_encode(t->id, x, got[level], N, N, weights < 4 ? w : NULL, &err) ==
                        GG_OK);
            }
            for (int level = 1; level < LEVELS; level++)
                T_CHECKF(!memcmp(got[0], got[level], bytes_of(t, N)),
                         "%s kind %d, level %d differs", t->name, k, level);
            gg_decode(t->id, got[0], y, N, &err);
            size_t bad = 0;
            for (size_t j = 0; j < N; j++) bad += isfinite(y[j]) ? 0 : 1;
            T_CHECKF(bad == 0, "%s kind %d: %zu values not finite", t->name, k, bad);
        }
    }
    T_EQ(err.status, GG_OK);
}

/* ---- weights of zero ------------------------------------------------------ */

enum { Z_ROWS = 24, Z_COLS = 512, Z_GROUP = 16, Z_KINDS = 8 };

/* Weights of which some, or all, are too small to count. */
static void scarce_weights(int kind, float *w)
{
    for (int j = 0; j < Z_COLS; j++) {
        float plain = 0.5f + (float)(j % 7);
        switch (kind) {
        case 0: w[j] = 0.0f; break;
        case 1: w[j] = FLT_TRUE_MIN * (float)(1 + j % 9); break;
        case 2: w[j] = 1e-37f * plain; break;
        case 3: w[j] = j < 256 ? 0.0f : plain; break;
        case 4: w[j] = j / 32 % 4 == 1 ? 0.0f : plain; break;
        case 5: w[j] = j / 16 % 3 == 0 ? FLT_TRUE_MIN : plain; break;
        case 6: w[j] = j % 32 == 5 ? plain : 0.0f; break;
        default: w[j] = j % 256 == 255 ? 1e-20f : 0.0f; break;
        }
    }
}

/* Adds the squared errors of each group of columns over all rows. */
static void group_errors(const gg_dtype_info *t, const float *x, const uint8_t *blocks,
                         double error[Z_COLS / Z_GROUP])
{
    static float y[Z_ROWS * Z_COLS];
    gg_error err = GG_ERROR_INIT;
    for (int g = 0; g < Z_COLS / Z_GROUP; g++) error[g] = 0;
    T_EQ(gg_decode(t->id, blocks, y, Z_ROWS * Z_COLS, &err), GG_OK);
    for (int i = 0; i < Z_ROWS * Z_COLS; i++) {
        double d = (double)y[i] - (double)x[i];
        error[i % Z_COLS / Z_GROUP] += d * d;
    }
}

/* Columns without a usable weight are encoded about as well as with equal weights, and a matrix
 * without any as with equal weights, bit for bit. */
static void encode_without_weights(void)
{
    static const uint32_t list[] = { GG_Q4_0,  GG_Q4_1,    GG_Q5_0,   GG_Q5_1,  GG_Q2_K,
                                     GG_Q3_K,  GG_Q4_K,    GG_Q5_K,   GG_Q6_K,  GG_IQ1_S,
                                     GG_IQ1_M, GG_IQ2_XXS, GG_IQ2_XS, GG_IQ2_S, GG_IQ3_XXS,
                                     GG_IQ3_S, GG_IQ4_NL,  GG_IQ4_XS };
    static float x[Z_ROWS * Z_COLS], w[Z_COLS], ones[Z_COLS];
    static uint8_t got[Z_ROWS * Z_COLS], plain[Z_ROWS * Z_COLS];
    double error[Z_COLS / Z_GROUP], least[Z_COLS / Z_GROUP];
    gg_error err = GG_ERROR_INIT;
    random_state = 5;
    for (int i = 0; i < Z_ROWS * Z_COLS; i++) {
        float sum = 0;
        for (int k = 0; k < 4; k++) sum += (float)next_random() / 16777216.0f - 0.5f;
        x[i] = 0.05f * sum;
    }
    for (int j = 0; j < Z_COLS; j++) ones[j] = 1.0f;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        const gg_dtype_info *t = gg_dtype_get(list[k]);
        size_t bytes = bytes_of(t, Z_ROWS * Z_COLS);
        T_EQ(gg_encode(t->id, x, plain, Z_ROWS * Z_COLS, Z_COLS, ones, &err), GG_OK);
        group_errors(t, x, plain, least);
        T_EQ(gg_settle_weights(t->id, ones, Z_COLS, NULL), 0);
        for (int kind = 0; kind < Z_KINDS; kind++) {
            static const size_t settled[Z_KINDS] = { 512, 512, 512, 256, 128, 176, 496, 510 };
            scarce_weights(kind, w);
            T_EQ(gg_settle_weights(t->id, w, Z_COLS, NULL), settled[kind]);
            T_EQ(gg_encode(t->id, x, got, Z_ROWS * Z_COLS, Z_COLS, w, &err), GG_OK);
            group_errors(t, x, got, error);
            for (int g = 0; g < Z_COLS / Z_GROUP; g++)
                T_CHECKF(error[g] < 1.8 * least[g], "%s, weights %d, group %d: %g, %g with ones",
                         t->name, kind, g, error[g], least[g]);
            if (kind < 3)
                T_CHECKF(!memcmp(got, plain, bytes), "%s, weights %d: not as with ones", t->name,
                         kind);
        }
    }
    scarce_weights(0, w);
    T_EQ(gg_settle_weights(GG_Q8_0, w, Z_COLS, NULL), 0); /* it uses no weights */
    T_EQ(err.status, GG_OK);
}

static void encode_refuses(void)
{
    gg_error err = GG_ERROR_INIT, other = GG_ERROR_INIT;
    float x[32] = { 0 };
    uint8_t out[64];
    x[7] = NAN;
    T_CHECK(gg_encode(GG_Q4_0, x, out, 32, 32, NULL, &err) == GG_EFORMAT);
    T_CHECK(gg_encode(GG_I32, x, out, 1, 1, NULL, &other) == GG_EUNSUPPORTED);
    T_CHECK(!gg_can_encode(GG_I8) && gg_can_decode(GG_I8) && gg_can_encode(GG_Q8_1));
}

/* ---- scalars ------------------------------------------------------------- */

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static void scalars(void)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = gg_half_decode((uint16_t)h), b = gg_bf16_decode((uint16_t)h);
        int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
        double want = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
        if (h & 0x8000) want = -want;
        T_CHECKF(isnan(want) ? isnan(f) && (bits(f) & 0x400000) : (double)f == want, "half %04x",
                 (unsigned)h);
        T_CHECK(isnan(f) ? isnan(gg_half_decode(gg_half_encode(f))) : gg_half_encode(f) == h);
        T_CHECK(isnan(b) ? (gg_bf16_encode(b) & 0x7f) >= 0x40
                         : gg_bf16_encode(b) == h && bits(b) == h << 16);
        if (isnan(f) || isinf(f) || (h & 0x7fff) >= 0x7bff) continue;
        /* The middle of two neighbours goes to the even one, a hair more goes up. */
        double mid = ((double)f + (double)gg_half_decode((uint16_t)(h + 1))) / 2;
        T_EQ(gg_half_encode((float)mid), (h & 1 ? h + 1 : h));
        T_EQ(gg_half_encode(nextafterf((float)mid, h & 0x8000 ? -INFINITY : INFINITY)), h + 1);
        T_EQ(gg_half_encode(nextafterf((float)mid, 0.0f)), h);
    }
    T_CHECK(gg_half_encode(65519.0f) == 0x7bff && gg_half_encode(65520.0f) == 0x7c00);
    T_CHECK(gg_half_encode(-FLT_MAX) == 0xfc00 && gg_half_encode(0x1p-26f) == 0);
    T_CHECK(gg_bf16_encode(1.00390625f) == 0x3f80 && gg_bf16_encode(1.01171875f) == 0x3f82);
    T_EQ(gg_bf16_encode(FLT_MAX), 0x7f80);
}

/* What a finite value must not become. */
static uint16_t below(uint16_t h, uint16_t infinity)
{
    return (h & 0x7fff) == infinity ? (uint16_t)(h - 1) : h;
}

/* Rows of F16 and BF16 go through other code than single values: the same bits, NaN
 * too, at each level, but that an encoder stays finite. An odd length leaves a tail. */
static void half_rows(void)
{
    enum { N = 65535 };
    static uint16_t in[N], out[N];
    static float f[N];
    gg_error err = GG_ERROR_INIT;
    for (uint32_t i = 0; i < N; i++) in[i] = (uint16_t)(i * 40503u);
    for (int level = 0; level < LEVELS; level++) {
        size_t bad = 0;
        gg_isa_set(level);
        gg_decode(GG_F16, in, f, N, &err);
        for (int i = 0; i < N; i++) bad += bits(f[i]) != bits(gg_half_decode(in[i]));
        gg_decode(GG_BF16, in, f, N, &err);
        for (int i = 0; i < N; i++) bad += bits(f[i]) != bits(gg_bf16_decode(in[i]));
        T_CHECKF(bad == 0, "level %d: %zu values differ", level, bad);

        random_state = 7;
        for (int i = 0; i < N; i++)
            f[i] = random_bits_float(i & 1 ? 95 + (uint32_t)i % 60 : (uint32_t)i % 255);
        static const float ends[] = { 65504,       65519.996f,      65520,      FLT_MAX,
                                      0x1.fep127f, 0x1.fefffep127f, 0x1.ffp127f };
        for (int i = 0; i < 70; i++) f[N - 70 + i] = i & 1 ? -ends[i % 7] : ends[i % 7];
        gg_encode(GG_F16, f, out, N, N, NULL, &err);
        for (int i = 0; i < N; i++) bad += out[i] != below(gg_half_encode(f[i]), 0x7c00);
        gg_encode(GG_BF16, f, out, N, N, NULL, &err);
        for (int i = 0; i < N; i++) bad += out[i] != below(gg_bf16_encode(f[i]), 0x7f80);
        T_CHECKF(bad == 0, "level %d: %zu halves differ", level, bad);
    }
    T_EQ(err.status, GG_OK);
}

/* Short rows at any address, none of which may write past its end. */
static void half_tails(void)
{
    static const uint32_t dtypes[] = { GG_F16, GG_BF16 };
    gg_error err = GG_ERROR_INIT;
    uint16_t in[80];
    float f[100], *y = f + 2;
    for (uint32_t i = 0; i < 80; i++) in[i] = (uint16_t)(i * 401u);
    for (int level = 0; level < LEVELS; level++) {
        gg_isa_set(level);
        for (size_t n = 1; n < 70; n++) {
            size_t at = n * 7 % 16, bad = 0;
            memset(f, 0x55, sizeof f);
            gg_decode(dtypes[n % 2], in + n % 9, y + at, n, &err);
            for (size_t i = 0; i < n; i++)
                bad += bits(y[at + i]) !=
                       bits(n % 2 ? gg_bf16_decode(in[n % 9 + i]) : gg_half_decode(in[n % 9 + i]));
            bad += bits(y[at + n]) != 0x55555555 || (at && bits(y[at - 1]) != 0x55555555);
            T_CHECKF(bad == 0, "level %d: %zu values at %zu", level, n, at);
        }
    }
    T_EQ(err.status, GG_OK);
}

/* An infinite factor of minima that are 0 gives NaN, with the same bits at all levels of gcc. clang
 * changes the signs of NaNs. */
static void infinite_minima(void)
{
    static const uint32_t dtypes[] = { GG_Q4_K, GG_Q5_K };
    for (size_t i = 0; i < 4; i++) {
        gg_error err = GG_ERROR_INIT;
        const uint32_t dtype = dtypes[i / 2];
        uint8_t block[176] = { 0x00, 0x3c, 0x00, i % 2 ? 0xfc : 0x7c, 1, 2, 3, 4 };
        float want[256], got[256];
        gg_isa_set(0);
        gg_decode(dtype, block, want, 256, &err);
        T_CHECK(isnan(want[0]) && isnan(want[255]));
        for (int level = 1; level < LEVELS; level++) {
            gg_isa_set(level);
            gg_decode(dtype, block, got, 256, &err);
            bool same = isnan(got[0]) && isnan(got[255]);
#ifndef __clang__
            same = memcmp(want, got, sizeof got) == 0;
#endif
            T_CHECKF(same, "%s, level %d: %08x and %08x", gg_dtype_name(dtype), level,
                     bits(want[0]), bits(got[0]));
        }
        T_EQ(err.status, GG_OK);
    }
}

/* Encodes a row at all levels, which must agree in bytes and errors. */
static void levels_agree(uint32_t dtype, const float *x, size_t n, const char *what)
{
    uint8_t out[LEVELS][4096];
    gg_error err[LEVELS] = { GG_ERROR_INIT, GG_ERROR_INIT, GG_ERROR_INIT };
    memset(out, 0x55, sizeof out);
    for (int level = 0; level < LEVELS; level++) {
        gg_isa_set(level);
        gg_encode(dtype, x, out[level], n, n, NULL, &err[level]);
    }
    for (int k = 1; k < LEVELS; k++) {
        bool same = err[0].status == err[k].status && strcmp(err[0].what, err[k].what) == 0;
        if (err[0].status == GG_OK) same = same && memcmp(out[0], out[k], sizeof out[0]) == 0;
        T_CHECKF(same, "%s, %zu values, %s: '%s' and '%s'", gg_dtype_name(dtype), n, what,
                 err[0].what, err[k].what);
    }
}

/* Rows that the fast encoders must encode exactly, and rows that they must leave to the others:
 * one value at each limit, at each position. */
static void quick_rows(void)
{
    static const uint32_t dtypes[] = { GG_F16, GG_BF16, GG_Q8_0, GG_Q8_1, GG_Q4_0 };
    static const float odd[] = { 65503.99f,    65504,           65519.99f,
                                 65520,        -65520,          -65519.99f,
                                 1e30f,        3.4028235e38f,   -3.4028235e38f,
                                 INFINITY,     -INFINITY,       NAN,
                                 -NAN,         0x1.fep127f,     0x1.fefffep127f,
                                 -0x1.ffp127f, 0x1p21f,         0x1.fffffep20f,
                                 0x1p-63f,     0x1.fffffep-64f, 0,
                                 0x1p-149f };
    float x[32 * 20 + 7];
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (size_t n = 32; n <= 32 * 20; n += 32 * 3)
            for (size_t k = 0; k < sizeof odd / sizeof odd[0]; k++)
                for (size_t at = 0; at < n; at += 29) {
                    bool plain = dtypes[d] == GG_F16 || dtypes[d] == GG_BF16;
                    size_t len = plain ? n + at % 8 : n; /* not a multiple of eight */
                    for (size_t i = 0; i < len; i++) x[i] = (float)((i * 7919) % 1000) / 500 - 1;
                    if (k % 2) memset(x + at / 32 * 32, 0, 32 * sizeof *x); /* alone in its block */
                    x[at] = odd[k];
                    char what[64];
                    snprintf(what, sizeof what, "%g at %zu", (double)odd[k], at);
                    levels_agree(dtypes[d], x, len, what);
                }
    for (size_t i = 0; i < 64; i++) x[i] = (float)i;
    for (size_t n = 1; n <= 48; n++) /* at any address */
        for (size_t d = 0; d < 2; d++) levels_agree(dtypes[d], x + n * 5 % 16, n, "short");
}

/* Rows of 1 to 19 equal blocks with equal weights, some of which are searched together: all their
 * bytes are those of the first block. */
static void equal_blocks(void)
{
    static const uint32_t dtypes[] = { GG_Q4_0, GG_Q4_1, GG_Q5_0, GG_Q5_1 };
    enum { N = 32, MOST = 19 };
    gg_error err = GG_ERROR_INIT;
    float x[MOST * N], w[MOST * N];
    uint8_t got[MOST * N];
    for (size_t i = 0; i < MOST * N; i++) {
        x[i] = (float)(i % N * 7919 % 1000) / 500 - 1;
        w[i] = (float)(i % N * 31 % 17 + 1);
    }
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t n = 1; n <= MOST; n++) {
            size_t size = gg_dtype_get(dtypes[d])->block_bytes;
            T_EQ(gg_encode(dtypes[d], x, got, n * N, n * N, w, &err), GG_OK);
            for (size_t k = 1; k < n; k++)
                T_CHECKF(!memcmp(got, got + k * size, size), "type %u, block %zu of %zu", dtypes[d],
                         k, n);
        }
}

/* Blocks that are searched together get the bytes that each gets alone. */
static void blocks_alone(void)
{
    static const char *const of[] = { "q2_k", "q3_k", "q4_k", "q5_k", "q6_k" };
    enum { BLOCKS = 3 };
    float x[256 * BLOCKS], w[256 * BLOCKS];
    uint8_t row[256 * BLOCKS], alone[256];
    gg_error err = GG_ERROR_INIT;
    for (int j = 0; j < 256 * BLOCKS; j++) x[j] = (float)(j * 7919 % 1000 - 500) / 97.0f;
    for (int j = 0; j < 256 * BLOCKS; j++) w[j] = 1.0f + (float)(j * 7 % 19);
    for (int k = 0; k < 5 * 2 * LEVELS; k++) {
        const gg_dtype_info *t = gg_dtype_by_name(of[k % 5]);
        bool weighed = k / 5 % 2;
        gg_isa_set(k / 10);
        T_EQ(gg_encode(t->id, x, row, 256 * BLOCKS, 256 * BLOCKS, weighed ? w : NULL, &err), GG_OK);
        for (size_t i = 0; i < BLOCKS; i++) {
            gg_encode(t->id, x + 256 * i, alone, 256, 256, weighed ? w + 256 * i : NULL, &err);
            T_CHECKF(!memcmp(alone, row + i * t->block_bytes, t->block_bytes),
                     "%s, level %d: block %zu", t->name, k / 10, i);
        }
    }
}

static const t_case cases[] = {
    { "decode: bits of the reference", decode_vectors },
    { "decode: integers and Q8_1", decode_integers },
    { "encode: bytes of the reference", encode_vectors },
    { "encode: bytes of the reference, importance matrix", encode_vectors_imatrix },
    { "encode: blocks alone and together", blocks_alone },
    { "encode: finite for any finite input", encode_hostile },
    { "encode: weights of zero", encode_without_weights },
    { "encode: rows of equal blocks", equal_blocks },
    { "encode: refuses", encode_refuses },
    { "f16 and bf16 scalars", scalars },
    { "f16 and bf16 rows", half_rows },
    { "f16 and bf16 rows at any address", half_tails },
    { "infinite minima at all levels", infinite_minima },
    { "rows at the limits of the fast encoders", quick_rows },
};

T_MAIN(cases)
