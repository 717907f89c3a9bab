/* Tensors computed on the way - convert, blend, LoRA - against the same thing done
 * naively in double, and the bytes where nothing is to be computed. */
#include "../../src/verbs/transform.h"

#include "t.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

/* ---- small models ----------------------------------------------------------------- */

typedef struct tensor_spec {
    const char *name;
    uint32_t dtype, n_dims;
    uint64_t dims[4];
    const float *x;
} tensor_spec;

static char dir[] = "/tmp/t_transform.XXXXXX";
static int n_files;

static uint32_t seed = 1;
static float noise(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(int32_t)seed / 2147483648.0f;
}

static float *random_values(size_t n)
{
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = noise();
    return x;
}

static void set_str(gg_meta *m, const char *key, const char *text)
{
    gg_error e = GG_ERROR_INIT;
    gg_meta_set_str(m, key, text, strlen(text), &e);
}

/* Write a GGUF of these tensors and open it. */
static gg_source *model(const tensor_spec *spec, size_t n, gg_meta *meta)
{
    gg_error e = GG_ERROR_INIT;
    gg_tensor t[8];
    uint64_t data_bytes;
    uint8_t *header;
    size_t header_len;
    char path[64];
    for (size_t i = 0; i < n; i++) {
        t[i] = (gg_tensor){ .name = spec[i].name, .name_len = strlen(spec[i].name), .n_dims = spec[i].n_dims,
                            .dims = { 1, 1, 1, 1 }, .dtype = spec[i].dtype };
        for (uint32_t d = 0; d < spec[i].n_dims; d++) t[i].dims[d] = spec[i].dims[d];
        gg_tensor_extent(t[i].dtype, t[i].n_dims, t[i].dims, &t[i].elements, &t[i].bytes, &e);
    }
    gg_plan_offsets(t, n, 32, &data_bytes, &e);
    gg_header_emit(3, meta, t, n, &header, &header_len, &e);
    snprintf(path, sizeof path, "%s/%d.gguf", dir, n_files++);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    uint64_t start = gg_align_up(header_len, 32);
    T_CHECK(pwrite(fd, header, header_len, 0) == (ssize_t)header_len);
    T_CHECK(ftruncate(fd, (off_t)(start + data_bytes)) == 0);
    for (size_t i = 0; i < n; i++) {
        void *bytes = malloc(t[i].bytes + 1);
        if (t[i].dtype == GG_F32) memcpy(bytes, spec[i].x, t[i].bytes); /* NaN and all */
        else gg_encode(t[i].dtype, spec[i].x, bytes, t[i].elements, t[i].dims[0], NULL, &e);
        T_CHECK(pwrite(fd, bytes, t[i].bytes, (off_t)(start + t[i].offset)) == (ssize_t)t[i].bytes);
        free(bytes);
    }
    close(fd);
    free(header);
    gg_meta_free(meta);
    gg_source *s = NULL;
    gg_source_open(path, &s, &e);
    T_CHECKF(e.status == GG_OK, "%s", e.what);
    return s;
}

static gg_source *one(uint32_t dtype, uint64_t row, uint64_t rows, const float *x)
{
    gg_meta meta = GG_META_INIT;
    tensor_spec spec = { "blk.1.ffn_up.weight", dtype, 2, { row, rows }, x };
    return model(&spec, 1, &meta);
}

static gg_input input_of(gg_source *s, size_t i, gg_plan_part *part)
{
    const gg_tensor *t = gg_source_tensor(s, i);
    *part = (gg_plan_part){ s, i, 0, t->bytes, NULL };
    return (gg_input){ t->dtype, part, 1 };
}

static gg_tensor retyped(const gg_tensor *t, uint32_t dtype)
{
    gg_error e = GG_ERROR_INIT;
    gg_tensor out = *t;
    out.dtype = dtype;
    gg_tensor_extent(dtype, out.n_dims, out.dims, &out.elements, &out.bytes, &e);
    return out;
}

/* Run a producer at an odd place of a file; the bytes, malloc'd, NULL on failure. */
static uint8_t *produce(gg_producer p, const gg_tensor *t, gg_error *e)
{
    gg_run run = { 0 };
    char path[64];
    snprintf(path, sizeof path, "%s/out", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    uint8_t *bytes = malloc(t->bytes + 1);
    gg_status st = p.make(p.ctx, t, fd, 13, &run, e);
    bool whole = st == GG_OK && pread(fd, bytes, t->bytes + 1, 13) == (ssize_t)t->bytes;
    close(fd);
    if (whole) return bytes;
    free(bytes);
    return NULL;
}

static uint8_t *raw(gg_source *s, size_t i)
{
    gg_error e = GG_ERROR_INIT;
    gg_data d;
    uint8_t *bytes = malloc(gg_source_tensor(s, i)->bytes + 1);
    gg_data_open(s, i, &d, &e);
    gg_data_read(&d, 0, bytes, gg_source_tensor(s, i)->bytes, &e);
    gg_data_close(&d);
    return bytes;
}

static float *values(gg_source *s, size_t i)
{
    gg_error e = GG_ERROR_INIT;
    const gg_tensor *t = gg_source_tensor(s, i);
    uint8_t *bytes = raw(s, i);
    float *x = malloc((t->elements + 1) * sizeof *x);
    gg_decode(t->dtype, bytes, x, t->elements, &e);
    free(bytes);
    return x;
}

/* ---- convert ------------------------------------------------------------------------ */

#define ROW 768
#define ROWS 301 /* more than one step, and no whole number of them */

static void convert_one(uint32_t from, uint32_t to, double bound)
{
    gg_error e = GG_ERROR_INIT;
    float *x = random_values(ROW * ROWS);
    gg_source *s = one(from, ROW, ROWS, x);
    gg_tensor out = retyped(gg_source_tensor(s, 0), to);
    gg_transforms list = { 0 };
    gg_producer p;
    gg_plan_part part;
    gg_input in = input_of(s, 0, &part);
    T_CHECK(gg_transform_convert(&list, &out, &in, &p, &e) == GG_OK);
    uint8_t *bytes = produce(p, &out, &e);
    T_CHECKF(bytes, "%s", e.what);
    float *was = values(s, 0), *is = malloc(ROW * ROWS * sizeof *is);
    uint8_t *want = malloc(out.bytes);
    gg_decode(to, bytes, is, ROW * ROWS, &e);
    gg_encode(to, was, want, ROW * ROWS, ROW, NULL, &e);
    T_CHECK(memcmp(bytes, want, out.bytes) == 0);
    double worst = 0;
    for (size_t i = 0; i < ROW * ROWS; i++) worst = fmax(worst, fabs((double)was[i] - is[i]));
    T_CHECKF(worst <= bound, "%g", worst);
    if (from == to) {
        uint8_t *same = raw(s, 0);
        T_CHECK(memcmp(bytes, same, out.bytes) == 0);
        free(same);
    }
    free(bytes), free(was), free(is), free(want), free(x);
    gg_transforms_free(&list);
    gg_source_close(s);
}

static void convert(void)
{
    convert_one(GG_Q4_K, GG_Q8_0, 1.0 / 127);
    convert_one(GG_F32, GG_F16, 0x1p-11);
    convert_one(GG_F16, GG_F32, 0);
    convert_one(GG_F16, GG_Q6_K, 0.08);
    convert_one(GG_Q8_0, GG_Q8_0, 0);
    convert_one(GG_Q4_0, GG_BF16, 0x1p-8);
}

/* A stack put together of parts, in another order than they stand. */
static void convert_parts(void)
{
    gg_error e = GG_ERROR_INIT;
    float *x = random_values(256 * 9);
    gg_source *s = one(GG_F32, 256, 9, x);
    gg_plan_part parts[] = { { s, 0, 6144, 3072, NULL }, { s, 0, 0, 3072, NULL } };
    gg_input in = { GG_F32, parts, 2 };
    gg_tensor out = retyped(gg_source_tensor(s, 0), GG_F16);
    out.dims[1] = 6;
    out.elements = 1536, out.bytes = 3072;
    gg_transforms list = { 0 };
    gg_producer p;
    T_CHECK(gg_transform_convert(&list, &out, &in, &p, &e) == GG_OK);
    uint8_t *bytes = produce(p, &out, &e);
    T_CHECK(bytes != NULL);
    for (size_t i = 0; bytes && i < 1536; i++) {
        uint16_t h = (uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
        T_CHECK(h == gg_f32_to_f16(x[i < 768 ? 1536 + i : i - 768]));
    }
    in.n_parts = 1;
    T_CHECK(gg_transform_convert(&list, &out, &in, &p, &e) == GG_EFORMAT);
    free(bytes), free(x);
    gg_transforms_free(&list);
    gg_source_close(s);
}

static void refuses(uint32_t from, uint32_t to, const float *x, uint64_t row, gg_status plan, gg_status made, const char *say)
{
    gg_error e = GG_ERROR_INIT;
    gg_source *s = one(from, row, 2, x);
    gg_tensor out = *gg_source_tensor(s, 0);
    out.dtype = to;
    gg_tensor_extent(to, 2, out.dims, &out.elements, &out.bytes, &e);
    e = (gg_error)GG_ERROR_INIT;
    gg_transforms list = { 0 };
    gg_producer p = { 0 };
    gg_plan_part part;
    gg_input in = input_of(s, 0, &part);
    T_CHECK(gg_transform_convert(&list, &out, &in, &p, &e) == plan);
    if (plan == GG_OK) {
        T_CHECK(!produce(p, &out, &e));
        T_CHECK(e.status == made);
    }
    T_CHECKF(strstr(e.what, say), "%s", e.what);
    T_CHECKF(strcmp(e.tensor, "blk.1.ffn_up.weight") == 0, "%s", e.tensor);
    gg_transforms_free(&list);
    gg_source_close(s);
}

static void convert_refusals(void)
{
    float *x = random_values(1024);
    x[5] = NAN, x[77] = INFINITY, x[600] = -INFINITY;
    refuses(GG_F32, GG_Q8_0, x, 512, GG_OK, GG_EFORMAT, "3 of its values are NaN");
    x[5] = 65519, x[77] = -65520, x[600] = 1e30f;
    refuses(GG_F32, GG_F16, x, 512, GG_OK, GG_EFORMAT, "2 of its values are more");
    x[5] = 0, x[77] = 0, x[600] = 3.4e38f;
    refuses(GG_F32, GG_BF16, x, 512, GG_OK, GG_EFORMAT, "1 of its values are more");
    x[600] = 0;
    refuses(GG_F32, GG_Q4_K, x, 288, GG_EFORMAT, GG_OK, "");
    refuses(GG_F32, GG_IQ2_XXS, x, 512, GG_EUNSUPPORTED, GG_OK, "importance matrix");
    free(x);
}

/* ---- blends -------------------------------------------------------------------------- */

static void blend_parse(void)
{
    static const char *const bad[] = { "", "linear", "linear:", "linear:x", "linear:0.5x", "linear:1.1", "linear:-0.1",
        "slerp:nan", "slerp:inf", "slerp:0x1p-1", "slerp:0.2..", "slerp:..0.8", "slerp:0.2...8", "slerp:0.2..0.8..1",
        "slerp:0.2..1.8", "slerp: 0.5", "task:11", "task:1e999", "Linear:0.5", "lerp:0.5", ":0.5", "linear:0.5 ",
        "linear:0.5,slerp:0.5", "task:0.0000000000000000000000000000000000000000001" };
    static const struct {
        const char *text;
        gg_blend b;
    } good[] = { { "linear:0.5", { GG_BLEND_LINEAR, 0.5, 0.5 } }, { "slerp:0.2..0.8", { GG_BLEND_SLERP, 0.2, 0.8 } },
                 { "task:1", { GG_BLEND_TASK, 1, 1 } }, { "task:-1.5..1.5e0", { GG_BLEND_TASK, -1.5, 1.5 } },
                 { "linear:1..0", { GG_BLEND_LINEAR, 1, 0 } }, { "linear:.5", { GG_BLEND_LINEAR, 0.5, 0.5 } } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gg_error e = GG_ERROR_INIT;
        gg_blend b;
        T_CHECKF(gg_blend_parse(bad[i], &b, &e) == GG_EUSAGE && e.what[0], "%s", bad[i]);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        gg_error e = GG_ERROR_INIT;
        gg_blend b;
        T_CHECKF(gg_blend_parse(good[i].text, &b, &e) == GG_OK, "%s: %s", good[i].text, e.what);
        T_CHECK(b.mode == good[i].b.mode && b.first == good[i].b.first && b.last == good[i].b.last);
    }
}

static void blend_ramp(void)
{
    gg_blend b = { GG_BLEND_SLERP, 0.2, 0.8 };
    static const struct {
        const char *name;
        uint64_t blocks;
        double t;
    } cases[] = { { "blk.0.attn_q.weight", 4, 0.2 }, { "blk.1.attn_q.weight", 4, 0.4 }, { "blk.3.attn_q.weight", 4, 0.8 },
                  { "blk.9.attn_q.weight", 4, 0.8 }, { "blk.0.attn_q.weight", 1, 0.2 }, { "token_embd.weight", 4, 0.2 },
                  { "output.weight", 4, 0.8 }, { "output_norm.weight", 4, 0.8 }, { "rope_freqs.weight", 4, 0.2 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double t = gg_blend_t(&b, cases[i].name, strlen(cases[i].name), cases[i].blocks);
        T_CHECKF(fabs(t - cases[i].t) < 1e-12, "%s: %g", cases[i].name, t);
    }
}

typedef struct trio {
    gg_source *s[3];
    gg_plan_part part[3];
    gg_input in[3];
    float *x[3];
} trio;

static void trio_new(trio *k, uint32_t da, uint32_t db)
{
    for (int i = 0; i < 3; i++) {
        float *x = random_values(ROW * ROWS);
        k->s[i] = one(i == 0 ? da : i == 1 ? db : GG_F16, ROW, ROWS, x);
        free(x);
        k->in[i] = input_of(k->s[i], 0, &k->part[i]);
        k->x[i] = values(k->s[i], 0);
    }
}

static void trio_free(trio *k)
{
    for (int i = 0; i < 3; i++) {
        gg_source_close(k->s[i]);
        free(k->x[i]);
    }
}

static uint8_t *blend(trio *k, gg_blend_mode mode, double t)
{
    gg_error e = GG_ERROR_INIT;
    gg_transforms list = { 0 };
    gg_producer p;
    const gg_tensor *out = gg_source_tensor(k->s[0], 0);
    gg_status st = gg_transform_blend(&list, out, mode, t, &k->in[0], &k->in[1], &k->in[2], &p, &e);
    uint8_t *bytes = st == GG_OK ? produce(p, out, &e) : NULL;
    T_CHECKF(bytes, "%s", e.what);
    gg_transforms_free(&list);
    return bytes;
}

static void near_values(const uint8_t *bytes, const trio *k, double wa, double wb, double wc)
{
    double worst = 0;
    for (size_t i = 0; bytes && i < ROW * ROWS; i++) {
        float y;
        memcpy(&y, bytes + 4 * i, 4);
        worst = fmax(worst, fabs(wa * k->x[0][i] + wb * k->x[1][i] + wc * k->x[2][i] - y));
    }
    T_CHECKF(bytes && worst < 3e-7, "%g", worst);
}

static void blend_values(void)
{
    trio k;
    trio_new(&k, GG_F32, GG_Q8_0);
    uint8_t *b = blend(&k, GG_BLEND_LINEAR, 0.3);
    near_values(b, &k, 0.7, 0.3, 0);
    free(b);
    b = blend(&k, GG_BLEND_TASK, 0.6);
    near_values(b, &k, 1, 0.6, -0.6);
    free(b);
    b = blend(&k, GG_BLEND_TASK, 1);
    near_values(b, &k, 1, 1, -1);
    free(b);
    double aa = 0, bb = 0, ab = 0;
    for (size_t i = 0; i < ROW * ROWS; i++) {
        aa += (double)k.x[0][i] * k.x[0][i];
        bb += (double)k.x[1][i] * k.x[1][i];
        ab += (double)k.x[0][i] * k.x[1][i];
    }
    double w = acos(ab / sqrt(aa * bb));
    b = blend(&k, GG_BLEND_SLERP, 0.25);
    near_values(b, &k, sin(0.75 * w) / sin(w), sin(0.25 * w) / sin(w), 0);
    free(b);
    trio_free(&k);
}

/* Parallel, opposite and zero tensors have no arc: the line. */
static void slerp_degenerate(void)
{
    for (int kind = 0; kind < 3; kind++) {
        trio k;
        float *x = random_values(ROW * ROWS), *y = malloc(ROW * ROWS * sizeof *y);
        for (size_t i = 0; i < ROW * ROWS; i++) y[i] = x[i] * (kind == 0 ? 2.0f : kind == 1 ? -1.0f : 0.0f);
        for (int i = 0; i < 3; i++) {
            k.s[i] = one(GG_F32, ROW, ROWS, i == 0 ? x : y);
            k.in[i] = input_of(k.s[i], 0, &k.part[i]);
            k.x[i] = values(k.s[i], 0);
        }
        uint8_t *b = blend(&k, GG_BLEND_SLERP, 0.5);
        near_values(b, &k, 0.5, 0.5, 0);
        free(b), free(x), free(y);
        trio_free(&k);
    }
}

/* Both ends are bytes, not values: NaNs, which cannot be encoded, come through. */
static void blend_ends(void)
{
    static const gg_blend_mode modes[] = { GG_BLEND_LINEAR, GG_BLEND_SLERP, GG_BLEND_TASK };
    trio k;
    for (int i = 0; i < 3; i++) {
        float *x = random_values(ROW * ROWS);
        x[7 + i] = NAN;
        k.s[i] = one(GG_F32, ROW, ROWS, x);
        k.in[i] = input_of(k.s[i], 0, &k.part[i]);
        k.x[i] = x;
    }
    size_t n = ROW * ROWS * sizeof(float);
    for (size_t m = 0; m < 3; m++) {
        uint8_t *y = blend(&k, modes[m], 0);
        T_CHECK(y && memcmp(y, k.x[0], n) == 0);
        free(y);
        if (modes[m] == GG_BLEND_TASK) continue;
        y = blend(&k, modes[m], 1);
        T_CHECK(y && memcmp(y, k.x[1], n) == 0);
        free(y);
    }
    trio_free(&k);
}

/* In another dtype than A's the ends are conversions. */
static void blend_ends_converted(void)
{
    gg_error e = GG_ERROR_INIT;
    trio k;
    trio_new(&k, GG_F16, GG_Q4_K);
    uint8_t *y = blend(&k, GG_BLEND_LINEAR, 1);
    float *back = malloc(ROW * ROWS * sizeof *back);
    double worst = y ? 0 : 1;
    if (y) gg_decode(GG_F16, y, back, ROW * ROWS, &e);
    for (size_t i = 0; y && i < ROW * ROWS; i++) worst = fmax(worst, fabs((double)back[i] - k.x[1][i]));
    T_CHECKF(worst <= 0x1p-11, "%g", worst);
    free(y), free(back);
    trio_free(&k);
}

static void blend_refusals(void)
{
    gg_error e = GG_ERROR_INIT;
    float *x = random_values(ROW * ROWS), *y = random_values(ROW * ROWS);
    y[ROW * ROWS - 1] = NAN;
    gg_source *s[2] = { one(GG_F32, ROW, ROWS, x), one(GG_F32, ROW, ROWS, y) };
    gg_plan_part part[2];
    gg_input in[2] = { input_of(s[0], 0, &part[0]), input_of(s[1], 0, &part[1]) };
    gg_transforms list = { 0 };
    gg_producer p;
    const gg_tensor *out = gg_source_tensor(s[0], 0);
    T_CHECK(gg_transform_blend(&list, out, GG_BLEND_TASK, 1, &in[0], &in[1], NULL, &p, &e) == GG_EUSAGE);
    for (gg_blend_mode m = GG_BLEND_LINEAR; m <= GG_BLEND_SLERP; m++) {
        e = (gg_error)GG_ERROR_INIT;
        T_CHECK(gg_transform_blend(&list, out, m, 0.5, &in[0], &in[1], NULL, &p, &e) == GG_OK);
        T_CHECK(!produce(p, out, &e));
        T_CHECKF(e.status == GG_EFORMAT && strstr(e.what, "1 of its values are NaN"), "%s", e.what);
    }
    e = (gg_error)GG_ERROR_INIT;
    part[1].bytes -= 4;
    T_CHECK(gg_transform_blend(&list, out, GG_BLEND_LINEAR, 0.5, &in[0], &in[1], NULL, &p, &e) == GG_EFORMAT);
    free(x), free(y);
    gg_transforms_free(&list);
    gg_source_close(s[0]);
    gg_source_close(s[1]);
}

/* ---- LoRA ---------------------------------------------------------------------------- */

static gg_meta lora_meta(const char *arch, float alpha)
{
    gg_error e = GG_ERROR_INIT;
    gg_meta m = GG_META_INIT;
    set_str(&m, "general.architecture", arch);
    set_str(&m, "general.type", "adapter");
    set_str(&m, "adapter.type", "lora");
    gg_kv kv = { "adapter.lora.alpha", 18, GG_TYPE_F32, 0, 1, (const uint8_t *)&alpha, 4 };
    gg_meta_set(&m, &kv, &e);
    return m;
}

static gg_meta base_meta(void)
{
    gg_meta m = GG_META_INIT;
    set_str(&m, "general.architecture", "llama");
    return m;
}

typedef struct shape {
    const char *name;
    uint64_t in, out, experts, r;
    float alpha, strength;
    uint32_t dtype; /* of the halves */
} shape;

static void lora_one(const shape *h)
{
    bool swap = strcmp(h->name, "token_embd.weight") == 0;
    size_t n = h->in * h->out * h->experts, na = h->r * (swap ? h->out : h->in) * h->experts,
           nb = h->r * (swap ? h->in : h->out) * h->experts;
    float *w = random_values(n), *a = random_values(na), *b = random_values(nb);
    char an[64], bn[64];
    snprintf(an, sizeof an, "%s.lora_a", h->name);
    snprintf(bn, sizeof bn, "%s.lora_b", h->name);
    tensor_spec ws = { h->name, GG_F32, 3, { h->in, h->out, h->experts }, w };
    tensor_spec ls[] = { { an, h->dtype, 3, { swap ? h->r : h->in, swap ? h->out : h->r, h->experts }, a },
                         { bn, h->dtype, 3, { h->r, swap ? h->in : h->out, h->experts }, b } };
    gg_meta bm = base_meta(), lm = lora_meta("llama", h->alpha);
    gg_source *base = model(&ws, 1, &bm), *adapter = model(ls, 2, &lm);
    float *va = values(adapter, 0), *vb = values(adapter, 1);
    gg_error e = GG_ERROR_INIT;
    gg_lora lora;
    gg_transforms list = { 0 };
    gg_producer p = { 0 };
    gg_plan_part part;
    gg_input in = input_of(base, 0, &part);
    T_CHECKF(gg_lora_open(adapter, base, h->strength, &lora, &e) == GG_OK, "%s: %s", h->name, e.what);
    T_CHECK(lora.pairs == 1);
    T_CHECK(gg_transform_lora(&list, &lora, gg_source_tensor(base, 0), &in, &p, &e) == GG_OK && p.make);
    uint8_t *bytes = p.make ? produce(p, gg_source_tensor(base, 0), &e) : NULL;
    double scale = h->alpha != 0 ? (double)h->strength * h->alpha / (double)h->r : h->strength, worst = 0;
    for (size_t i = 0; bytes && i < n; i++) {
        size_t col = i % h->in, row = i / h->in, expert = row / h->out;
        double sum = 0;
        for (size_t k = 0; k < h->r; k++)
            sum += swap ? (double)va[row * h->r + k] * vb[col * h->r + k]
                        : (double)vb[row * h->r + k] * va[(expert * h->r + k) * h->in + col];
        float y;
        memcpy(&y, bytes + 4 * i, 4);
        worst = fmax(worst, fabs(w[i] + scale * sum - y) / (1 + fabs(scale) * (double)h->r));
    }
    T_CHECKF(bytes && worst < 1e-6, "%s: %g", h->name, worst);
    free(bytes), free(w), free(a), free(b), free(va), free(vb);
    gg_transforms_free(&list);
    gg_source_close(base);
    gg_source_close(adapter);
}

static void lora_values(void)
{
    static const shape shapes[] = {
        { "blk.0.attn_q.weight", 300, 517, 1, 8, 16, 1, GG_F32 },
        { "blk.0.attn_q.weight", 256, 256, 1, 1, 0, 0.5f, GG_F16 },
        { "blk.0.attn_q.weight", 1, 70000, 1, 3, 4, -2, GG_F32 },
        { "blk.0.attn_q.weight", 70000, 2, 1, 3, 4, 1, GG_F16 },
        { "blk.0.attn_q.weight", 512, 300, 1, 64, 32, 1, GG_Q8_0 },
        { "blk.0.ffn_gate_exps.weight", 96, 257, 5, 4, 8, 1, GG_F32 },
        { "token_embd.weight", 96, 1500, 1, 8, 16, 1, GG_F16 },
        { "token_embd.weight", 96, 1500, 1, 32, 16, 1, GG_Q8_0 },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) lora_one(&shapes[i]);
}

static void lora_refusals(void)
{
    float *x = random_values(4096);
    tensor_spec w = { "blk.0.attn_q.weight", GG_F32, 2, { 32, 16 }, x };
    static const struct {
        const char *arch, *a, *b;
        uint64_t in, r, r2, out;
        const char *say;
    } bad[] = {
        { "qwen2", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b", 32, 4, 4, 16, "architecture" },
        { "llama", "blk.1.attn_q.weight.lora_a", "blk.1.attn_q.weight.lora_b", 32, 4, 4, 16, "base has no tensor" },
        { "llama", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_c", 32, 4, 4, 16, "half" },
        { "llama", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b", 31, 4, 4, 16, "shape" },
        { "llama", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b", 32, 4, 5, 16, "shape" },
        { "llama", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b", 32, 4, 4, 17, "shape" },
        { "llama", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight", 32, 4, 4, 16, "half" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gg_error e = GG_ERROR_INIT;
        gg_lora lora;
        tensor_spec l[] = { { bad[i].a, GG_F32, 2, { bad[i].in, bad[i].r }, x }, { bad[i].b, GG_F32, 2, { bad[i].r2, bad[i].out }, x } };
        gg_meta bm = base_meta(), lm = lora_meta(bad[i].arch, 1);
        gg_source *base = model(&w, 1, &bm), *adapter = model(l, 2, &lm);
        T_CHECKF(gg_lora_open(adapter, base, 1, &lora, &e) == GG_EFORMAT, "%zu", i);
        T_CHECKF(strstr(e.what, bad[i].say), "%zu: %s", i, e.what);
        T_CHECK(strstr(bad[i].say, "arch") || e.tensor[0]);
        gg_source_close(base);
        gg_source_close(adapter);
    }
    gg_error e = GG_ERROR_INIT;
    gg_lora lora;
    gg_meta bm = base_meta();
    gg_source *base = model(&w, 1, &bm); /* a model is no adapter */
    T_CHECK(gg_lora_open(base, base, 1, &lora, &e) == GG_EFORMAT);
    gg_source_close(base);
    free(x);
}

static void clean_up(void)
{
    char command[80];
    snprintf(command, sizeof command, "rm -r %s", dir);
    T_CHECK(system(command) == 0);
}

static void set_up(void)
{
    T_CHECK(mkdtemp(dir) != NULL);
}

static const t_case cases[] = {
    { "set up", set_up },
    { "convert", convert },
    { "convert of parts", convert_parts },
    { "what convert refuses", convert_refusals },
    { "blend options", blend_parse },
    { "T over blocks", blend_ramp },
    { "blends against double", blend_values },
    { "slerp without an arc", slerp_degenerate },
    { "T 0 and T 1 are bytes", blend_ends },
    { "T 1 in another dtype", blend_ends_converted },
    { "what blends refuse", blend_refusals },
    { "LoRA against double", lora_values },
    { "what LoRA refuses", lora_refusals },
    { "clean up", clean_up },
};

T_MAIN(cases)
