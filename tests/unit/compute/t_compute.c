/* Tensors computed on the way - convert, blend - against the same thing done
 * naively in double, and the bytes where nothing is to be computed. */
#include "quant/kernel/lanes.h"
#include "tensors.h"

#include "graft/blend.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"

/* ---- convert ------------------------------------------------------------------------ */

#define ROW 768
#define ROWS 301 /* more than one step, and no whole number of them */

static void convert_one(uint32_t from, uint32_t to, double bound)
{
    gg_error e = GG_ERROR_INIT;
    float *x = random_values(ROW * ROWS);
    gg_source *s = one(from, ROW, ROWS, x);
    gg_tensor out = retyped(gg_source_tensor(s, 0), to);
    gg_computations list = { 0 };
    gg_producer p;
    gg_plan_part part;
    gg_input in = input_of(s, 0, &part);
    T_EQ(gg_compute_convert(&list, &out, &in, &p, &e), GG_OK);
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
    gg_computations_free(&list);
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
    gg_computations list = { 0 };
    gg_producer p;
    T_EQ(gg_compute_convert(&list, &out, &in, &p, &e), GG_OK);
    uint8_t *bytes = produce(p, &out, &e);
    T_CHECK(bytes != NULL);
    for (size_t i = 0; bytes && i < 1536; i++) {
        uint16_t h = (uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
        T_EQ(h, gg_half_encode(x[i < 768 ? 1536 + i : i - 768]));
    }
    in.n_parts = 1;
    T_EQ(gg_compute_convert(&list, &out, &in, &p, &e), GG_EFORMAT);
    free(bytes), free(x);
    gg_computations_free(&list);
    gg_source_close(s);
}

/* Parts with hashes, of which the ends are within steps and at the end: all are compared. */
static void convert_verified(void)
{
    float *x = random_values(ROW * ROWS);
    gg_source *s = one(GG_F32, ROW, ROWS, x);
    gg_tensor out = retyped(gg_source_tensor(s, 0), GG_Q8_0);
    const uint64_t ends[] = { 0, 4 * 65536, 4 * 65540, 4 * ROW * 200, 4 * ROW * ROWS };
    for (size_t bad = 0; bad <= 4; bad++) {
        gg_error e = GG_ERROR_INIT;
        gg_computations list = { 0 };
        gg_producer p;
        gg_plan_part parts[4];
        char sha[4][65];
        for (size_t k = 0; k < 4; k++) {
            parts[k] = (gg_plan_part){ s, 0, ends[k], ends[k + 1] - ends[k], sha[k] };
            sha_of((const uint8_t *)x + ends[k], parts[k].bytes, sha[k]);
            if (k == bad) sha[k][63] ^= 1;
        }
        gg_input in = { GG_F32, parts, 4 };
        T_EQ(gg_compute_convert(&list, &out, &in, &p, &e), GG_OK);
        uint8_t *bytes = produce(p, &out, &e);
        T_CHECKF(bad < 4 ? e.status == GG_EFORMAT && strstr(e.what, "does not match")
                         : bytes != NULL,
                 "part %zu: %s", bad, e.what);
        T_CHECK(hashed);
        free(bytes);
        gg_computations_free(&list);
    }
    gg_source_close(s);
    free(x);
}

static void refuses(uint32_t from, uint32_t to, const float *x, uint64_t row, gg_status plan,
                    gg_status made, const char *say)
{
    gg_error e = GG_ERROR_INIT;
    gg_source *s = one(from, row, 2, x);
    gg_tensor out = *gg_source_tensor(s, 0);
    out.dtype = to;
    gg_tensor_extent(to, 2, out.dims, &out.elements, &out.bytes, &e);
    e = (gg_error)GG_ERROR_INIT;
    gg_computations list = { 0 };
    gg_producer p = { 0 };
    gg_plan_part part;
    gg_input in = input_of(s, 0, &part);
    T_EQ(gg_compute_convert(&list, &out, &in, &p, &e), plan);
    if (plan == GG_OK) {
        T_CHECK(!produce(p, &out, &e));
        T_EQ(e.status, made);
    }
    T_CHECKF(strstr(e.what, say), "%s", e.what);
    T_CHECKF(strcmp(e.tensor, "blk.1.ffn_up.weight") == 0, "%s", e.tensor);
    gg_computations_free(&list);
    gg_source_close(s);
}

static void convert_refusals(void)
{
    float *x = random_values(1024);
    x[5] = NAN, x[77] = INFINITY, x[600] = -INFINITY;
    refuses(GG_F32, GG_Q8_0, x, 512, GG_OK, GG_EFORMAT, "3 of its values are NaN");
    x[5] = 65519, x[77] = -65520, x[600] = 1e30f;
    refuses(GG_F32, GG_F16, x, 512, GG_OK, GG_EUSAGE, "2 of its values are too large");
    x[5] = 0, x[77] = 0, x[600] = 3.4e38f;
    refuses(GG_F32, GG_BF16, x, 512, GG_OK, GG_EUSAGE, "1 of its values are too large");
    x[600] = 0;
    refuses(GG_F32, GG_Q4_K, x, 288, GG_EUSAGE, GG_OK, "");
    refuses(GG_F32, GG_IQ2_XXS, x, 512, GG_EUSAGE, GG_OK, "importance matrix");
    free(x);
}

/* ---- blends -------------------------------------------------------------------------- */

#define ZEROS "000000000000000000000000000000000000000000000"

static void blend_parse(void)
{
    static const char *const bad[] = { "",
                                       "linear",
                                       "linear:",
                                       "linear:x",
                                       "linear:0.5x",
                                       "linear:1.1",
                                       "linear:-0.1",
                                       "slerp:nan",
                                       "slerp:inf",
                                       "slerp:0x1p-1",
                                       "slerp:0.2..",
                                       "slerp:..0.8",
                                       "slerp:0.2...8",
                                       "slerp:0.2..0.8..1",
                                       "slerp:0.2..1.8",
                                       "slerp: 0.5",
                                       "task:11",
                                       "task:1e999",
                                       "Linear:0.5",
                                       "lerp:0.5",
                                       ":0.5",
                                       "linear:0.5 ",
                                       "linear:0.5,slerp:0.5",
                                       "task:0." ZEROS ZEROS "1" };
    static const struct {
        const char *text;
        gg_blend b;
    } good[] = { { "linear:0.5", { .mode = GG_BLEND_LINEAR, .first = 0.5, .last = 0.5 } },
                 { "slerp:0.2..0.8", { .mode = GG_BLEND_SLERP, .first = 0.2, .last = 0.8 } },
                 { "task:1", { .mode = GG_BLEND_TASK, .first = 1, .last = 1 } },
                 { "task:-1.5..1.5e0", { .mode = GG_BLEND_TASK, .first = -1.5, .last = 1.5 } },
                 { "task:0." ZEROS "1", { .mode = GG_BLEND_TASK, .first = 1e-46, .last = 1e-46 } },
                 { "linear:1..0", { .mode = GG_BLEND_LINEAR, .first = 1, .last = 0 } },
                 { "linear:.5", { .mode = GG_BLEND_LINEAR, .first = 0.5, .last = 0.5 } } };
    char place;
    gg_source *any = (gg_source *)(void *)&place; /* parsing does not look at it */
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gg_error e = GG_ERROR_INIT;
        gg_blend b;
        T_CHECKF(gg_blend_parse(bad[i], any, &b, &e) == GG_EUSAGE && e.what[0], "%s", bad[i]);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        gg_error e = GG_ERROR_INIT;
        gg_blend b;
        T_CHECKF(gg_blend_parse(good[i].text, any, &b, &e) == GG_OK, "%s: %s", good[i].text,
                 e.what);
        T_CHECKF(strcmp(b.text, good[i].text) == 0 && b.ancestor == any, "%s", b.text);
        T_CHECK(b.mode == good[i].b.mode && b.first == good[i].b.first && b.last == good[i].b.last);
    }
}

/* All zero means no blend, like NULL. A task needs its ancestor before anything is read. */
static void blend_defaults(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_blend zero = { 0 }, b = { .mode = GG_BLEND_SLERP };
    T_CHECK(zero.mode == GG_BLEND_NONE);
    T_CHECK(gg_blend_parse(NULL, NULL, &b, &e) == GG_OK && b.mode == GG_BLEND_NONE);
    b = (gg_blend){ .mode = GG_BLEND_SLERP };
    T_CHECK(gg_blend_parse("task:1", NULL, &b, &e) == GG_EUSAGE && b.mode == GG_BLEND_SLERP);
    e = (gg_error)GG_ERROR_INIT;
    T_CHECK(gg_blend_parse("linear:1", NULL, &b, &e) == GG_OK && b.mode == GG_BLEND_LINEAR);
}

static void blend_ramp(void)
{
    static const struct {
        const char *name;
        uint64_t blocks;
        double t;
    } cases[] = { { "blk.0.attn_q.weight", 4, 0.2 }, { "blk.1.attn_q.weight", 4, 0.4 },
                  { "blk.3.attn_q.weight", 4, 0.8 }, { "blk.9.attn_q.weight", 4, 0.8 },
                  { "blk.0.attn_q.weight", 1, 0.2 }, { "token_embd.weight", 4, 0.2 },
                  { "output.weight", 4, 0.8 },       { "output_norm.weight", 4, 0.8 },
                  { "rope_freqs.weight", 4, 0.2 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = strlen(cases[i].name);
        gg_tensor of = { .name = cases[i].name,
                         .name_len = n,
                         .a = gg_anatomy_of(cases[i].name, n) };
        double t = gg_ramp_at(0.2, 0.8, &of, cases[i].blocks);
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
    gg_computations list = { 0 };
    gg_producer p;
    const gg_tensor *out = gg_source_tensor(k->s[0], 0);
    gg_mixture m = { mode, t, { k->in[0], k->in[1], k->in[2] } };
    gg_status st = gg_compute_blend(&list, out, &m, &p, &e);
    uint8_t *bytes = st == GG_OK ? produce(p, out, &e) : NULL;
    T_CHECKF(bytes, "%s", e.what);
    gg_computations_free(&list);
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
        for (size_t i = 0; i < ROW * ROWS; i++)
            y[i] = x[i] * (kind == 0 ? 2.0f : kind == 1 ? -1.0f : 0.0f);
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
    for (size_t i = 0; y && i < ROW * ROWS; i++)
        worst = fmax(worst, fabs((double)back[i] - k.x[1][i]));
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
    gg_computations list = { 0 };
    gg_producer p;
    const gg_tensor *out = gg_source_tensor(s[0], 0);
    gg_mixture mix = { GG_BLEND_TASK, 1, { in[0], in[1] } };
    T_EQ(gg_compute_blend(&list, out, &mix, &p, &e), GG_EUSAGE);
    mix.t = 0.5;
    for (gg_blend_mode m = GG_BLEND_LINEAR; m <= GG_BLEND_SLERP; m++) {
        e = (gg_error)GG_ERROR_INIT;
        mix.mode = m;
        T_EQ(gg_compute_blend(&list, out, &mix, &p, &e), GG_OK);
        T_CHECK(!produce(p, out, &e));
        T_CHECKF(e.status == GG_EFORMAT && strstr(e.what, "1 of its values are NaN"), "%s", e.what);
    }
    e = (gg_error)GG_ERROR_INIT;
    part[1].bytes -= 4;
    mix.mode = GG_BLEND_LINEAR;
    T_EQ(gg_compute_blend(&list, out, &mix, &p, &e), GG_EFORMAT);
    free(x), free(y);
    gg_computations_free(&list);
    gg_source_close(s[0]);
    gg_source_close(s[1]);
}

/* ---- steps ---------------------------------------------------------------------------- */

#define STEPS 100 /* more than two threads have slots for */

typedef struct slots {
    uint64_t in[STEPS], ends; /* the step in each slot, and how many have ended */
} slots;

static gg_status take_slot(void *ctx, const gg_step *s, gg_error *err)
{
    (void)err;
    ((slots *)ctx)->in[s->slot] = s->first;
    return GG_OK;
}

/* Meanwhile the other thread takes all the slots that it can get. */
static gg_status make_slowly(void *ctx, const gg_step *s, float **x, gg_error *err)
{
    const slots *c = ctx;
    uint64_t first = s->first;
    (void)x;
    if (first / COMPUTE_STEP % 40 == 0) usleep(5000);
    if (s->first == first && c->in[s->slot] == first) return GG_OK;
    return gg_fail(err, GG_EUSAGE, "the slot of value %" PRIu64 " is taken", first);
}

static void count_ends(void *ctx, const gg_step *s)
{
    slots *c = ctx;
    c->ends += s->first == c->ends * COMPUTE_STEP && c->in[s->slot] == s->first;
}

static void steps_keep_their_slots(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_tensor t = { .dtype = GG_F32, .elements = STEPS * COMPUTE_STEP };
    slots c = { .ends = 0 };
    gg_steps s = { .to = { .t = &t, .fd = -1 }, .size = COMPUTE_STEP, .threads = 2, .ctx = &c };
    s.read = take_slot;
    s.make = make_slowly;
    s.after = count_ends;
    T_CHECK(gg_steps_open(&s, NULL, 0, 0, &e) == GG_OK && s.n_slots < STEPS / 2);
    T_CHECKF(gg_steps_run(&s, 0, t.elements, 2, false, &e) == GG_OK, "%s", e.what);
    T_EQ(c.ends, STEPS);
    gg_steps_close(&s);
}

static const t_case cases[] = {
    { "set up", set_up },
    { "convert", convert },
    { "convert of parts", convert_parts },
    { "convert of verified parts", convert_verified },
    { "what convert refuses", convert_refusals },
    { "blend options", blend_parse },
    { "no blend, and a task without ancestor", blend_defaults },
    { "T over blocks", blend_ramp },
    { "blends against double", blend_values },
    { "slerp without an arc", slerp_degenerate },
    { "T 0 and T 1 are bytes", blend_ends },
    { "T 1 in another dtype", blend_ends_converted },
    { "what blends refuse", blend_refusals },
    { "steps keep their slots", steps_keep_their_slots },
    { "clean up", clean_up },
};

T_MAIN(cases)
