/* t_codec_iq.c - IQ, ternary, 1- and 2-bit and FP4 codecs against the reference's
 * vectors (tests/data/iq, see how-made-iq.sh there), at every instruction-set level. */
#include "base/isa.h"
#include "base/sha256.h"
#include "organ/gg_quant.h"
#include "quant/iq_grid.h"
#include "quant/quant.h"
#include "t.h"

#include <float.h>
#include <math.h>

#define DATA "tests/data/iq/"

enum { ROWS = 42, COLS = 256, IM_ROWS = 16, LEVELS = 3, MAX_FILE = 1 << 17, GRID_GROUPS = 8 };

/* same: encoding gives the reference's very bytes (where it is well defined). */
static const struct type {
    const char *name;
    bool same;
} types[] = {
    { "IQ1_S", false },  { "IQ1_M", false },   { "IQ2_XXS", false }, { "IQ2_XS", false },
    { "IQ2_S", false },  { "IQ3_XXS", false }, { "IQ3_S", false },   { "IQ4_NL", false },
    { "IQ4_XS", false }, { "TQ1_0", true },    { "TQ2_0", true },    { "MXFP4", true },
    { "NVFP4", true },   { "Q1_0", true },     { "Q2_0", true },
};
enum { TYPES = sizeof types / sizeof types[0] };

static float rows[ROWS * COLS], imatrix[COLS];

/* A file of this test's data in a static buffer; 0 if there is none. */
static size_t slurp(const char *stem, const char *type, uint8_t *data)
{
    char path[200];
    snprintf(path, sizeof path, DATA "%s%s.bin", stem, type);
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    size_t size = fread(data, 1, MAX_FILE, f);
    fclose(f);
    T_CHECKF(size > 0 && size < MAX_FILE, "%s", path);
    return size;
}

static size_t bytes_of(const gg_dtype_info *t, size_t n)
{
    return n / t->block_elems * t->block_bytes;
}

/* ---- decode -------------------------------------------------------------- */

/* FNV-1a over 32-bit words, NaN as a class. */
static uint64_t row_hash(const float *y, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, y + i, sizeof u);
        h = (h ^ (isnan(y[i]) ? 0x7fc00000u : u)) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* One part of a decode file; returns its bytes, 0 if it is broken. */
static size_t decode_part(const gg_dtype_info *t, const uint8_t *part, size_t left, int level)
{
    uint32_t head[3];
    static float y[2049];
    if (left < sizeof head) return 0;
    memcpy(head, part, sizeof head);
    const size_t n = head[0], row_bytes = head[1], cols = head[2];
    const uint8_t *q = part + sizeof head, *hash = q + n * row_bytes;
    if (cols > 2048 || row_bytes != bytes_of(t, cols) || left < sizeof head + n * (row_bytes + 8))
        return 0;
    for (size_t r = 0; r < n; r++) {
        gg_error err = GG_ERROR_INIT;
        uint64_t want;
        y[cols] = 42.0f;
        memcpy(&want, hash + 8 * r, sizeof want);
        T_EQ(gg_decode(t->id, q + r * row_bytes, y, cols, &err), GG_OK);
        T_CHECKF(row_hash(y, cols) == want, "%s level %d row %zu: other floats", t->name, level, r);
        T_CHECKF(y[cols] == 42.0f, "%s wrote past its end", t->name);
    }
    return sizeof head + n * (row_bytes + 8);
}

static void decode_vectors(void)
{
    static uint8_t file[MAX_FILE];
    for (int i = 0; i < TYPES; i++) {
        const gg_dtype_info *t = gg_dtype_by_name(types[i].name);
        const size_t size = slurp("decode-iq-", types[i].name, file);
        for (int level = 0; level < LEVELS; level++) {
            gg_isa_set(level);
            int parts = 0;
            for (size_t at = 0, n;
                 at < size && (n = decode_part(t, file + at, size - at, level)) > 0; at += n)
                parts++;
            T_CHECKF(parts == 2, "%s: %d parts", t->name, parts);
        }
    }
}

/* Hashes a grid as text: lines such as "iq3s", the index and the values of its elements. */
static void hash_grid(gg_sha256 *h, const char *name, const void *grid, int points, int elements)
{
    const int8_t *value = grid;
    for (int j = 0; j < points; j++) {
        char line[80];
        int n = snprintf(line, sizeof line, "%s\t%d", name, j);
        for (int e = 0; e < elements; e++)
            n += snprintf(line + n, sizeof line - (size_t)n, "%c%d", e ? ' ' : '\t', *value++);
        gg_sha256_update(h, line, (size_t)n);
        gg_sha256_update(h, "\n", 1);
    }
}

/* The sum of a table that was extracted from ggml: every element of every grid. */
static void grid_points(void)
{
    gg_sha256 h;
    unsigned char digest[32];
    char hex[65];
    gg_iq_grids_fill(GG_IQ1_S);
    gg_sha256_init(&h);
    hash_grid(&h, "iq2xxs", gg_iq2xxs_grid, 256, 8);
    hash_grid(&h, "iq2xs", gg_iq2xs_grid, 512, 8);
    hash_grid(&h, "iq2s", gg_iq2s_grid, 1024, 8);
    hash_grid(&h, "iq3xxs", gg_iq3xxs_grid, 256, 4);
    hash_grid(&h, "iq3s", gg_iq3s_grid, 512, 4);
    hash_grid(&h, "iq1s", gg_iq1s_grid, 2048, 8);
    gg_sha256_final(&h, digest);
    gg_sha256_hex(digest, hex);
    T_STR(hex, "63239d0ed7cd55041da54502834185a52b49427c102125ad1796b6f94fe8b043");
}

/* Blocks need no alignment. */
static void decode_unaligned(void)
{
    static uint8_t file[MAX_FILE], moved[2048];
    static float a[256], b[256];
    for (int level = 0; level < LEVELS; level++) {
        gg_isa_set(level);
        for (int i = 0; i < TYPES; i++) {
            gg_error err = GG_ERROR_INIT;
            const gg_dtype_info *t = gg_dtype_by_name(types[i].name);
            if (slurp("decode-iq-", types[i].name, file) == 0) continue;
            memcpy(moved + 1, file + 12, bytes_of(t, 256));
            gg_decode(t->id, file + 12, a, 256, &err);
            gg_decode(t->id, moved + 1, b, 256, &err);
            T_CHECKF(row_hash(a, 256) == row_hash(b, 256), "%s", t->name);
        }
    }
}

/* ---- encode -------------------------------------------------------------- */

static double rms_error(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum / (double)n);
}

static size_t not_finite(const float *y, size_t n)
{
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) bad += isfinite(y[i]) ? 0 : 1;
    return bad;
}

/* Subnormal values: the reference's exponent of MXFP4 wraps around there, and its
 * ternary rounding is undefined. */
static bool reference_is_defined(size_t row)
{
    return row != 29;
}

/* Error of our rows against the reference's: in the mean of the rows 1.02 times at
 * most, and no row (256 values, and where there is an imatrix it is not this
 * error that was minimised) beyond 1.15. */
static void compare_errors(const struct type *type, const uint8_t *got, const uint8_t *want,
                           size_t n)
{
    const gg_dtype_info *t = gg_dtype_by_name(type->name);
    const size_t row_bytes = bytes_of(t, COLS);
    static float y[COLS], z[COLS];
    double sum = 0;
    size_t counted = 0;
    for (size_t r = 0; r < n; r++) {
        gg_error err = GG_ERROR_INIT;
        gg_decode(t->id, got + r * row_bytes, y, COLS, &err);
        gg_decode(t->id, want + r * row_bytes, z, COLS, &err);
        T_CHECKF(not_finite(y, COLS) == 0, "%s row %zu", t->name, r);
        const double ours = rms_error(y, rows + r * COLS, COLS),
                     theirs = rms_error(z, rows + r * COLS, COLS);
        T_CHECKF(ours <= 1.15 * theirs, "%s row %zu: error %g, reference %g", t->name, r, ours,
                 theirs);
        if (theirs > 0) {
            sum += ours / theirs;
            counted++;
        }
        if (type->same && reference_is_defined(r))
            T_CHECKF(!memcmp(got + r * row_bytes, want + r * row_bytes, row_bytes),
                     "%s row %zu: other bytes than the reference", t->name, r);
    }
    T_CHECKF(sum <= 1.02 * (double)counted, "%s: mean ratio of errors %g", t->name,
             sum / (double)counted);
}

/* The sum of w (x - y)^2 of our rows, each relative to sum w x^2, is at most the reference's. */
static void compare_weighted(const gg_dtype_info *t, const uint8_t *got, const uint8_t *want,
                             const float *weights)
{
    double sum[2] = { 0, 0 };
    for (size_t r = 0; r < IM_ROWS; r++)
        for (int k = 0; k < 2; k++) {
            static float y[COLS];
            gg_error err = GG_ERROR_INIT;
            double e = 0, square = 0;
            gg_decode(t->id, (k ? want : got) + r * bytes_of(t, COLS), y, COLS, &err);
            for (size_t i = 0; i < COLS; i++) {
                const double x = rows[r * COLS + i], w = weights[i];
                e += w * (x - (double)y[i]) * (x - (double)y[i]);
                square += w * x * x;
            }
            sum[k] += e / square;
        }
    T_CHECKF(sum[0] <= sum[1] * (1 + 1e-9), "%s: weighted error %g, reference %g", t->name, sum[0],
             sum[1]);
}

static void encode_rows(const struct type *type, const char *stem, size_t n, const float *weights)
{
    static uint8_t want[MAX_FILE], got[3][ROWS * COLS];
    const gg_dtype_info *t = gg_dtype_by_name(type->name);
    const size_t bytes = bytes_of(t, n * COLS), size = slurp(stem, type->name, want);
    if (size == 0) return;
    T_CHECKF(size == bytes, "%s%s: %zu bytes", stem, type->name, size);
    for (int k = 0; k < 3; k++) {
        gg_error err = GG_ERROR_INIT;
        gg_isa_set(k % LEVELS);
        memset(got[k], k ? 0xff : 0, sizeof got[k]);
        T_EQ(gg_encode(t->id, rows, got[k], n * COLS, COLS, weights, &err), GG_OK);
    }
    T_CHECKF(!memcmp(got[0], got[1], bytes), "%s differs between levels", t->name);
    T_CHECKF(!memcmp(got[0], got[2], bytes), "%s differs between runs", t->name);
    if (size != bytes) return;
    compare_errors(type, got[1], want, n);
    if (weights) compare_weighted(t, got[1], want, weights);
}

static void encode_vectors(void)
{
    static uint8_t file[MAX_FILE];
    T_EQ(slurp("rows-iq", "", file), sizeof rows);
    memcpy(rows, file, sizeof rows);
    T_EQ(slurp("imatrix-iq", "", file), sizeof imatrix);
    memcpy(imatrix, file, sizeof imatrix);
    for (int i = 0; i < TYPES; i++) {
        const uint32_t id = gg_dtype_by_name(types[i].name)->id;
        T_CHECK(gg_can_encode(id) != gg_encode_needs_imatrix(id));
        encode_rows(&types[i], "encode-iq-", ROWS, gg_encode_needs_imatrix(id) ? imatrix : NULL);
        encode_rows(&types[i], "encode-im-iq-", IM_ROWS, imatrix);
    }
}

/* Types that ggml refuses without an imatrix are refused here too. */
static void encode_needs_imatrix(void)
{
    static uint8_t out[COLS];
    const uint32_t need[] = { GG_IQ1_S, GG_IQ2_XXS, GG_IQ2_XS };
    for (int i = 0; i < 3; i++) {
        gg_error err = GG_ERROR_INIT;
        T_CHECK(gg_encode_needs_imatrix(need[i]));
        T_CHECK(gg_encode(need[i], rows, out, COLS, COLS, NULL, &err) == GG_EUNSUPPORTED);
    }
    T_CHECK(!gg_encode_needs_imatrix(GG_IQ1_M) && !gg_encode_needs_imatrix(GG_IQ2_S));
}

/* A value of one of several unfriendly kinds. */
static float hostile(int kind, uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    const uint32_t u = (uint32_t)(*seed >> 32);
    uint32_t bits = u;
    float f;
    switch (kind) {
    case 0: /* any finite float */
        if ((bits & 0x7f800000u) == 0x7f800000u) bits &= 0xbfffffffu;
        break;
    case 1: /* subnormals of both signs */ bits = u & 0x807fffffu; break;
    case 2: return u & 1 ? FLT_MAX : -FLT_MAX;
    case 3: return u % 64 ? 1e-4f * (float)(u % 7) : 1e30f;
    case 4: return (float)((int)(u % 3) - 1) * 1e-7f;
    case 5: return u & 1 ? 0.0f : -0.0f;
    default: return 7.0f;
    }
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Finite input, whatever the weights: the same bytes on all levels, no NaN, no Inf. */
static void encode_hostile(void)
{
    static uint8_t got[LEVELS][COLS];
    static float x[COLS], w[COLS], y[COLS];
    const float special[] = { 0.0f, -1.0f, NAN, INFINITY, 1e-30f, 1e30f };
    uint64_t seed = 1;
    for (int kind = 0; kind < 7; kind++)
        for (int weights = 0; weights < 7; weights++)
            for (int i = 0; i < TYPES; i++) {
                const gg_dtype_info *t = gg_dtype_by_name(types[i].name);
                gg_error err = GG_ERROR_INIT;
                if (weights == 6 && gg_encode_needs_imatrix(t->id)) continue;
                for (int k = 0; k < COLS; k++) x[k] = hostile(kind, &seed);
                for (int k = 0; k < COLS && weights < 6; k++)
                    w[k] = k % 3 ? special[weights] : 1.0f * (float)(weights & 1);
                for (int level = 0; level < LEVELS; level++) {
                    gg_isa_set(level);
                    T_CHECK(gg_encode(t->id, x, got[level], COLS, COLS, weights < 6 ? w : NULL,
                                      &err) == GG_OK);
                }
                gg_decode(t->id, got[0], y, COLS, &err);
                T_CHECKF(!memcmp(got[0], got[1], bytes_of(t, COLS)), "%s kind %d: levels differ",
                         t->name, kind);
                T_CHECKF(not_finite(y, COLS) == 0, "%s kind %d weights %d", t->name, kind, weights);
            }
}

/* A weight that is much larger than the rest is what the encoder works for. */
static void encode_weights(void)
{
    static float x[COLS], w[COLS], y[COLS];
    static uint8_t out[COLS];
    static const uint32_t use[] = { GG_IQ1_S,   GG_IQ1_M, GG_IQ2_XXS, GG_IQ2_XS, GG_IQ2_S,
                                    GG_IQ3_XXS, GG_IQ3_S, GG_IQ4_NL,  GG_IQ4_XS };
    uint64_t seed = 7;
    for (int k = 0; k < COLS; k++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        x[k] = (float)((int)(seed >> 40 & 1023) - 512);
    }
    for (size_t i = 0; i < sizeof use / sizeof use[0]; i++) {
        double error[2];
        gg_error err = GG_ERROR_INIT;
        for (int heavy = 0; heavy < 2; heavy++) {
            for (int k = 0; k < COLS; k++) w[k] = heavy && k % GRID_GROUPS == 3 ? 1000.0f : 1.0f;
            gg_encode(use[i], x, out, COLS, COLS, w, &err);
            gg_decode(use[i], out, y, COLS, &err);
            error[heavy] = 0;
            for (int k = 3; k < COLS; k += GRID_GROUPS)
                error[heavy] += (double)((x[k] - y[k]) * (x[k] - y[k]));
        }
        T_CHECKF(error[1] < 0.9 * error[0], "%s: %g, with weights %g", gg_dtype_get(use[i])->name,
                 error[0], error[1]);
    }
}

/* The grid types keep the norm of a block, with the weights that their encoders use. A least
 * squares fit would lose 1 % (IQ3_S) to 10 % (IQ1_M) of it. The rounding of d to F16, which is
 * subnormal in some rows, changes it by up to 0.6 %. */
static void encode_norm(void)
{
    static const uint32_t grid[] = { GG_IQ1_S, GG_IQ1_M,   GG_IQ2_XXS, GG_IQ2_XS,
                                     GG_IQ2_S, GG_IQ3_XXS, GG_IQ3_S };
    static uint8_t out[COLS];
    static float y[COLS];
    for (size_t i = 0; i < sizeof grid / sizeof grid[0]; i++)
        for (size_t r = 0; r < IM_ROWS; r++) {
            const float *x = rows + r * COLS;
            double mean = 0, xx = 0, yy = 0;
            gg_error err = GG_ERROR_INIT;
            gg_encode(grid[i], x, out, COLS, COLS, imatrix, &err);
            gg_decode(grid[i], out, y, COLS, &err);
            for (int k = 0; k < COLS; k++) mean += (double)x[k] * x[k] / (double)COLS;
            for (int k = 0; k < COLS; k++) {
                const double w = imatrix[k] * sqrt(2 * mean + (double)x[k] * x[k]);
                xx += w * x[k] * x[k];
                yy += w * y[k] * y[k];
            }
            T_CHECKF(fabs(yy / xx - 1) < 7e-3, "%s row %zu: norm^2 times %g",
                     gg_dtype_get(grid[i])->name, r, yy / xx);
        }
}

static const t_case cases[] = {
    { "decode vectors", decode_vectors }, { "decode unaligned", decode_unaligned },
    { "encode vectors", encode_vectors }, { "encode needs imatrix", encode_needs_imatrix },
    { "encode hostile", encode_hostile }, { "encode weights", encode_weights },
    { "encode norm", encode_norm },       { "grid points", grid_points },
};

T_MAIN(cases)
