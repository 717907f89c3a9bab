/* LoRA adapters folded in, against W + scale B A done naively in double. */
#include "graft/fold_lora.h"
#include "tensors.h"

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
    tensor_spec ls[] = {
        { an, h->dtype, 3, { swap ? h->r : h->in, swap ? h->out : h->r, h->experts }, a },
        { bn, h->dtype, 3, { h->r, swap ? h->in : h->out, h->experts }, b }
    };
    gg_meta bm = base_meta(), lm = lora_meta("llama", h->alpha);
    gg_source *base = model(&ws, 1, &bm), *adapter = model(ls, 2, &lm);
    float *va = values(adapter, 0), *vb = values(adapter, 1);
    gg_error e = GG_ERROR_INIT;
    gg_lora lora;
    gg_computations list = { 0 };
    gg_producer p = { 0 };
    gg_plan_part part;
    gg_input in = input_of(base, 0, &part);
    T_CHECKF(gg_lora_open(adapter, base, h->strength, &lora, &e) == GG_OK, "%s: %s", h->name,
             e.what);
    T_EQ(lora.pairs, 1);
    T_CHECK(gg_compute_lora(&list, &lora, gg_source_tensor(base, 0), &in, &p, &e) == GG_OK &&
            p.make);
    uint8_t *bytes = p.make ? produce(p, gg_source_tensor(base, 0), &e) : NULL;
    T_CHECK(hashed);
    double scale = h->alpha != 0 ? (double)h->strength * h->alpha / (double)h->r : h->strength,
           worst = 0;
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
    gg_computations_free(&list);
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
        { "qwen2", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b", 32, 4, 4, 16,
          "architecture" },
        { "llama", "blk.1.attn_q.weight.lora_a", "blk.1.attn_q.weight.lora_b", 32, 4, 4, 16,
          "base does not have the tensor" },
        { "llama", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_c", 32, 4, 4, 16,
          "half" },
        { "llama", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b", 31, 4, 4, 16,
          "shape" },
        { "llama", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b", 32, 4, 5, 16,
          "shape" },
        { "llama", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b", 32, 4, 4, 17,
          "shape" },
        { "llama", "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight", 32, 4, 4, 16, "half" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gg_error e = GG_ERROR_INIT;
        gg_lora lora;
        tensor_spec l[] = { { bad[i].a, GG_F32, 2, { bad[i].in, bad[i].r }, x },
                            { bad[i].b, GG_F32, 2, { bad[i].r2, bad[i].out }, x } };
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
    gg_source *base = model(&w, 1, &bm); /* a model instead of an adapter */
    T_EQ(gg_lora_open(base, base, 1, &lora, &e), GG_EFORMAT);
    gg_source_close(base);
    free(x);
}

static const t_case cases[] = {
    { "set up", set_up },
    { "LoRA against double", lora_values },
    { "what LoRA refuses", lora_refusals },
    { "clean up", clean_up },
};

T_MAIN(cases)
