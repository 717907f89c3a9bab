/* bench_llama.c - a GGUF model in F16 with the tensors of Qwen2, filled with noise, for benches:
 * bench_llama FILE BLOCKS EMBEDDING FFN KV VOCABULARY SEED. Its keys are those that an engine needs
 * to encode it; it has no tokenizer. */
#include "organ/gg_gguf.h"
#include "organ/gg_quant.h"

#include "gguf/gguf.h"
#include "numeric/numeric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOISE ((size_t)1 << 20) /* values that are computed; tensors have pieces of them */
#define ARCH "qwen2."

static uint64_t state;

static uint64_t next(void) /* xorshift64 */
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

/* Appends a tensor; rows is 0 for a vector, which has F32. */
static void add(gg_tensor *t, size_t *n, char (*names)[64], int block, const char *name,
                uint64_t cols, uint64_t rows)
{
    if (block < 0) snprintf(names[*n], sizeof names[0], "%s", name);
    else snprintf(names[*n], sizeof names[0], "blk.%d.%s", block, name);
    uint64_t elements = cols * (rows ? rows : 1);
    t[*n] = (gg_tensor){ .name = names[*n],
                         .name_len = strlen(names[*n]),
                         .n_dims = rows ? 2 : 1,
                         .dims = { cols, rows ? rows : 1, 1, 1 },
                         .dtype = rows ? GG_F16 : GG_F32,
                         .elements = elements,
                         .bytes = elements * (rows ? 2 : 4) };
    ++*n;
}

/* Writes the bytes of a tensor and its padding. */
static int fill(FILE *f, const gg_tensor *t, const void *noise, size_t value)
{
    static const char zeros[32];
    for (uint64_t left = t->bytes / value; left > 0;) {
        const size_t at = (size_t)(next() % (NOISE / 2)), run = NOISE / 2;
        const size_t n = left < run ? (size_t)left : run;
        if (fwrite((const char *)noise + at * value, value, n, f) != n) return -1;
        left -= n;
    }
    const size_t pad = (size_t)((32 - t->bytes % 32) % 32);
    return fwrite(zeros, 1, pad, f) == pad ? 0 : -1;
}

int main(int argc, char **argv)
{
    if (argc != 8)
        return fprintf(stderr, "usage: bench_llama FILE BLOCKS EMBEDDING FFN KV VOCABULARY SEED\n"),
               2;
    const uint64_t e = strtoull(argv[3], NULL, 10), ffn = strtoull(argv[4], NULL, 10),
                   kv = strtoull(argv[5], NULL, 10), vocabulary = strtoull(argv[6], NULL, 10);
    const int blocks = atoi(argv[2]);
    state = strtoull(argv[7], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    const size_t most = (size_t)blocks * 12 + 3;
    size_t n = 0, len;
    gg_tensor *t = calloc(most, sizeof *t);
    char(*names)[64] = calloc(most, sizeof *names);
    float *x = malloc(NOISE * sizeof *x);
    uint16_t *half = malloc(NOISE * sizeof *half);
    gg_error err = GG_ERROR_INIT;
    gg_meta meta = GG_META_INIT;
    uint64_t data;
    uint8_t *header;
    if (!t || !names || !x || !half) return 4;
    add(t, &n, names, -1, "token_embd.weight", e, vocabulary);
    for (int b = 0; b < blocks; b++) {
        add(t, &n, names, b, "attn_norm.weight", e, 0);
        add(t, &n, names, b, "attn_q.weight", e, e);
        add(t, &n, names, b, "attn_q.bias", e, 0);
        add(t, &n, names, b, "attn_k.weight", e, kv);
        add(t, &n, names, b, "attn_k.bias", kv, 0);
        add(t, &n, names, b, "attn_v.weight", e, kv);
        add(t, &n, names, b, "attn_v.bias", kv, 0);
        add(t, &n, names, b, "attn_output.weight", e, e);
        add(t, &n, names, b, "ffn_norm.weight", e, 0);
        add(t, &n, names, b, "ffn_gate.weight", e, ffn);
        add(t, &n, names, b, "ffn_up.weight", e, ffn);
        add(t, &n, names, b, "ffn_down.weight", ffn, e);
    }
    add(t, &n, names, -1, "output_norm.weight", e, 0);
    add(t, &n, names, -1, "output.weight", e, vocabulary);
    gg_meta_set_str(&meta, "general.architecture", "qwen2", 5, &err);
    gg_meta_set_u32(&meta, "general.file_type", 1, &err);
    gg_meta_set_u32(&meta, ARCH "block_count", (uint32_t)blocks, &err);
    gg_meta_set_u32(&meta, ARCH "context_length", 32768, &err);
    gg_meta_set_u32(&meta, ARCH "embedding_length", (uint32_t)e, &err);
    gg_meta_set_u32(&meta, ARCH "feed_forward_length", (uint32_t)ffn, &err);
    gg_meta_set_u32(&meta, ARCH "attention.head_count", (uint32_t)(e / 128), &err);
    gg_meta_set_u32(&meta, ARCH "attention.head_count_kv", (uint32_t)(kv / 128), &err);
    gg_meta_set_text(&meta, ARCH "attention.layer_norm_rms_epsilon=f32:1e-6", &err);
    gg_plan_offsets(t, n, 32, &data, &err);
    if (gg_header_emit(3, &meta, t, n, &header, &len, &err) != GG_OK) return 4;
    gg_gauss_fill(x, NOISE, state);
    for (size_t i = 0; i < NOISE; i++) x[i] *= 0.02f;
    gg_encode(GG_F16, x, half, NOISE, NOISE, NULL, &err);
    FILE *f = fopen(argv[1], "wb");
    const size_t pad = (32 - len % 32) % 32;
    int bad = !f || fwrite(header, 1, len, f) != len || fseek(f, (long)pad, SEEK_CUR) != 0;
    for (size_t i = 0; i < n && !bad; i++)
        bad = t[i].dtype == GG_F16 ? fill(f, &t[i], half, 2) : fill(f, &t[i], x, 4);
    if (!f || fclose(f) != 0 || bad) return 4;
    free(header), free(t), free(names), free(x), free(half);
    gg_meta_free(&meta);
    return 0;
}
