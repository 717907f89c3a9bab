/* bench_model.c - a llama-shaped GGUF of about N MiB, F16, random values, for
 * benches: bench_model FILE MIB SEED [TENSORS]. With TENSORS that many, of equal size;
 * with seed 0 a sparse file of zeros. */
#include "organ/gg_gguf.h"

#include "gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t state;

static uint64_t next(void) /* xorshift64 */
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static int fill(FILE *f, uint64_t bytes)
{
    static uint64_t buf[1 << 15];
    while (bytes > 0) {
        /* F16 patterns with small exponents: finite, spread around zero */
        for (size_t i = 0; i < sizeof buf / sizeof buf[0]; i++)
            buf[i] = next() & UINT64_C(0xbbffbbffbbffbbff);
        size_t n = bytes < sizeof buf ? (size_t)bytes : sizeof buf;
        if (fwrite(buf, 1, n, f) != n) return -1;
        bytes -= n;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5)
        return fprintf(stderr, "usage: bench_model FILE MIB SEED [TENSORS]\n"), 2;
    enum { ROLES = 7 };
    static const char *const roles[ROLES] = { "attn_q",   "attn_k", "attn_v",  "attn_output",
                                              "ffn_gate", "ffn_up", "ffn_down" };
    uint64_t mib = strtoull(argv[2], NULL, 10), equal = argc == 5 ? strtoull(argv[4], NULL, 10) : 0;
    bool sparse = strtoull(argv[3], NULL, 10) == 0;
    state = strtoull(argv[3], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    /* a block: 4 x 4 MiB of attention, 3 x 16 MiB of FFN */
    size_t blocks = (size_t)(mib / 64 ? mib / 64 : 1), n = equal ? (size_t)equal : blocks * ROLES;
    gg_tensor *t = calloc(n, sizeof *t);
    char(*names)[64] = calloc(n, sizeof *names);
    gg_error err = GG_ERROR_INIT;
    gg_meta meta = GG_META_INIT;
    if (!t || !names) return 4;
    for (size_t i = 0; i < n; i++) {
        uint64_t rows = equal ? mib * 512 / equal : i % ROLES < 4 ? 2048 : 8192, cols = 1024;
        snprintf(names[i], sizeof names[i], "blk.%zu.%s.weight", i / ROLES, roles[i % ROLES]);
        t[i] = (gg_tensor){ .name = names[i],
                            .name_len = strlen(names[i]),
                            .n_dims = 2,
                            .dims = { cols, rows, 1, 1 },
                            .dtype = GG_F16,
                            .elements = cols * rows,
                            .bytes = 2 * cols * rows };
    }
    uint64_t data;
    uint8_t *header;
    size_t len;
    gg_meta_set_str(&meta, "general.architecture", "llama", 5, &err);
    gg_meta_set_u32(&meta, "llama.block_count", (uint32_t)blocks, &err);
    gg_plan_offsets(t, n, 32, &data, &err);
    if (gg_header_emit(3, &meta, t, n, &header, &len, &err) != GG_OK) return 4;
    FILE *f = fopen(argv[1], "wb");
    static const char zeros[32];
    if (!f || fwrite(header, 1, len, f) != len ||
        fwrite(zeros, 1, (32 - len % 32) % 32, f) != (32 - len % 32) % 32)
        return 4;
    int bad = sparse ? fflush(f) || ftruncate(fileno(f), ftello(f) + (off_t)data) : fill(f, data);
    if (fclose(f) != 0 || bad) return 4;
    free(header);
    free(t);
    free(names);
    gg_meta_free(&meta);
    return 0;
}
