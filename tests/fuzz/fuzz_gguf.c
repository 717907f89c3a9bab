/* fuzz_gguf.c - any bytes as a GGUF header. An accepted header lies within the input and can be
 * written again byte for byte. Keys are read, copied, changed and deleted. */
#include "fuzz.h"

#include "../unit/parse_gguf.h"

#include "gguf/gguf.h"
#include "organ/gg_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/data/gguf", "tests/data/malformed.pack", NULL };

static void look_at_keys(const gg_gguf *g)
{
    for (size_t i = 0; i < g->meta.n; i++) {
        const gg_kv *kv = &g->meta.kv[i];
        uint64_t v, pos = 0;
        float f;
        const char *s;
        size_t n, total = 0;
        gg_kv_u64(kv, &v);
        gg_kv_f32(kv, &f);
        if (gg_kv_str(kv, &s, &n)) total = n;
        while (gg_kv_next_str(kv, &pos, &s, &n)) total += n;
        FUZZ_MUST(total <= kv->size && kv->type < GG_TYPE_COUNT && kv->key_len > 0);
    }
}

static void change_keys(const gg_gguf *g)
{
    gg_meta m = GG_META_INIT;
    gg_error e = GG_ERROR_INIT;
    FUZZ_MUST(gg_meta_copy(&m, &g->meta, &e) == GG_OK && m.n == g->meta.n);
    gg_meta_set_u32(&m, "general.alignment", 64, &e);
    gg_meta_set_str(&m, "general.name", "x", 1, &e);
    gg_meta_delete(&m, "general.architecture");
    uint8_t *header = NULL;
    size_t n = 0;
    FUZZ_MUST(gg_header_emit(3, &m, g->tensors, g->n_tensors, &header, &n, &e) == GG_OK);
    gg_gguf *again = NULL;
    /* offsets are those of the old alignment, so only a model without tensors must be taken */
    gg_status st = parse_gguf(header, n, false, &again, &e);
    FUZZ_MUST(st == GG_OK || g->n_tensors > 0);
    gg_gguf_free(again);
    free(header);
    gg_meta_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gg_error e = GG_ERROR_INIT;
    gg_gguf *g = NULL;
    if (parse_gguf(data, size, true, &g, &e) != GG_OK) {
        char line[512];
        FUZZ_MUST(!g && e.what[0] && gg_error_line(&e, "fuzz", line, sizeof line) < sizeof line);
        return 0;
    }
    FUZZ_MUST(g->header_bytes <= size && (g->n_tensors == 0 || g->data_start <= size));
    for (size_t i = 0; i < g->n_tensors; i++) {
        const gg_tensor *t = &g->tensors[i];
        FUZZ_MUST(t->bytes <= size && t->offset <= size &&
                  g->data_start + t->offset + t->bytes <= size);
        FUZZ_MUST(gg_name_index_find(g->tensors, g->by_name, g->n_tensors, t->name, t->name_len) ==
                  i);
    }
    uint8_t *header = NULL;
    size_t n = 0;
    FUZZ_MUST(gg_header_emit(g->version, &g->meta, g->tensors, g->n_tensors, &header, &n, &e) ==
              GG_OK);
    FUZZ_MUST(n == g->header_bytes && memcmp(header, data, n) == 0);
    free(header);
    look_at_keys(g);
    change_keys(g);
    gg_gguf_free(g);
    return 0;
}
