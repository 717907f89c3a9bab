/* fuzz_quant.c - any bytes as blocks of the type that the first byte chooses decode, at each
 * instruction-set level to the same bits; what decodes to finite values encodes again. */
#include "fuzz.h"

#include "base/isa.h"
#include "organ/gg_quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/data/gguf/types-all.gguf", "tests/fuzz/seeds/quant",
                                   NULL };

#define BLOCKS 4

static bool same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

/* Values that were decoded back into blocks: the same at each level, and valid. */
static void encode(const gg_dtype_info *t, const float *x, size_t elems, size_t bytes)
{
    uint8_t *a = malloc(bytes), *b = malloc(bytes);
    float *y = malloc(elems * sizeof *y);
    bool finite = true;
    gg_error e = GG_ERROR_INIT;
    int top = gg_isa();
    FUZZ_MUST(a && b && y);
    for (size_t i = 0; i < elems; i++) finite = finite && isfinite(x[i]);
    gg_status st = gg_encode(t->id, x, a, elems, elems, NULL, &e);
    FUZZ_MUST(finite ? st == GG_OK : st == GG_EFORMAT);
    if (st == GG_OK) {
        for (int level = 0; level < top; level++) {
            gg_isa_set(level);
            FUZZ_MUST(gg_encode(t->id, x, b, elems, elems, NULL, &e) == GG_OK &&
                      memcmp(a, b, bytes) == 0);
        }
        gg_isa_set(top);
        FUZZ_MUST(gg_decode(t->id, a, y, elems, &e) == GG_OK);
    }
    free(a), free(b), free(y);
}

static void decode(const gg_dtype_info *t, const uint8_t *data, size_t size, bool and_encode)
{
    size_t blocks = t->block_bytes ? size / t->block_bytes : 0;
    if (blocks == 0) return;
    if (blocks > BLOCKS) blocks = BLOCKS;
    size_t elems = blocks * t->block_elems, bytes = blocks * t->block_bytes;
    float *a = malloc(elems * sizeof *a), *b = malloc(elems * sizeof *b);
    uint8_t *exact = malloc(bytes);
    gg_error e = GG_ERROR_INIT;
    int top = gg_isa();
    FUZZ_MUST(a && b && exact);
    memcpy(exact, data, bytes);
    FUZZ_MUST(gg_decode(t->id, exact, a, elems, &e) == GG_OK);
    for (int level = 0; level < top; level++) {
        gg_isa_set(level);
        FUZZ_MUST(gg_decode(t->id, exact, b, elems, &e) == GG_OK && same(a, b, elems));
    }
    gg_isa_set(top);
    if (and_encode && gg_can_encode(t->id)) encode(t, a, elems, bytes);
    free(a), free(b), free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const gg_dtype_info *types[GG_DTYPE_COUNT];
    size_t n = 0;
    for (uint32_t id = 0; id < GG_DTYPE_COUNT; id++) {
        const gg_dtype_info *t = gg_dtype_get(id);
        if (t && gg_can_decode(id)) types[n++] = t;
    }
    /* Some encoders search for their blocks, which is slow: one block of four is encoded. */
    if (size > 1) decode(types[data[0] % n], data + 1, size - 1, (size & 3) == 1);
    return 0;
}
