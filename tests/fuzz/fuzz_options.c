/* fuzz_options.c - any text as the value of an option: keys to set, types to re-encode in, blends,
 * maps, experts, blocks, selections. A refused text has a reason; an accepted one can be used. */
#include "room.h"

#include "../unit/parse_gguf.h"

#include "assemble/gg_stack.h"
#include "base/base64.h"
#include "base/error.h"
#include "common/key_text.h"
#include "compute/dtype_rules.h"
#include "gguf/gguf.h"
#include "graft/gg_transplant.h"
#include "organ/select.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/options", "tests/fuzz/seeds/organ", NULL };

static gg_source *model;

static void close_model(void)
{
    gg_source_close(model);
}

/* A reason without control bytes, for all that was refused. */
static void refused(const gg_error *e)
{
    char line[900];
    FUZZ_MUST(e->status != GG_OK && e->what[0]);
    gg_error_line(e, "fuzz", line, sizeof line);
    for (const char *p = line; *p; p++) FUZZ_MUST((unsigned char)*p >= ' ' && *p != 0x7f);
}

static void set_key(const char *text)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    gg_meta m = GG_META_INIT;
    FUZZ_MUST(gg_meta_copy(&m, gg_source_meta(model), &e) == GG_OK);
    size_t before = m.n;
    if (gg_meta_set_text(&m, text, &e) != GG_OK) {
        refused(&e);
        FUZZ_MUST(m.n == before);
    } else {
        uint8_t *header = NULL;
        size_t n = 0;
        uint64_t alignment;
        gg_gguf *g = NULL;
        FUZZ_MUST(m.n + 1 >= before && m.n <= before + 1);
        if (gg_meta_alignment(&m, &alignment, &e2) == GG_OK &&
            gg_header_emit(3, &m, NULL, 0, &header, &n, &e2) == GG_OK)
            FUZZ_MUST(parse_gguf(header, n, true, &g, &e2) == GG_OK && g->meta.n == m.n);
        gg_gguf_free(g);
        free(header);
    }
    gg_keys_find(&m, text);
    gg_meta_free(&m);
}

static void dtype(const char *text, const char *fallback)
{
    gg_error e = GG_ERROR_INIT;
    gg_dtype_rules *r = NULL;
    if (gg_dtype_rules_parse(text, fallback, NULL, &r, &e) != GG_OK) refused(&e);
    gg_dtype_rules_free(r);
}

static void blend_and_map(const char *text)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    gg_blend b = { .first = -99 };
    gg_map *map = NULL;
    if (gg_blend_parse(text, model, &b, &e) != GG_OK) {
        refused(&e);
        FUZZ_MUST(b.first == -99);
    } else {
        FUZZ_MUST(fabs(b.first) <= 10 && fabs(b.last) <= 10);
    }
    if (gg_map_parse(text, &map, &e2) != GG_OK) refused(&e2);
    else
        for (int64_t i = 0; i < 4; i++) {
            int64_t base = gg_map_base(map, gg_map_donor(map, i));
            FUZZ_MUST(gg_map_donor(map, i) < 0 || gg_map_donor(map, base) == gg_map_donor(map, i));
        }
    gg_map_free(map);
}

static void blocks(const char *text)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT;
    gg_block_order o = { 0 };
    gg_stack_report r = { 0 };
    if (gg_block_order_add(&o, model, text, &e) != GG_OK) refused(&e);
    else if (o.n < 64 && gg_stack_blocks(&o, NULL, NULL, &room_run, &r, &e2) != GG_OK) refused(&e2);
    gg_block_order_free(&o);
    if (gg_block_order_drop(&o, model, text, false, &e3) != GG_OK) refused(&e3);
    gg_block_order_free(&o);
}

static void selection(const char *text, size_t n)
{
    static const gg_select_kind add[] = {
        GG_SELECT_TYPES,   GG_SELECT_PARTS,      GG_SELECT_LAYERS,
        GG_SELECT_EXPERTS, GG_SELECT_EXPERT_MAP, GG_SELECT_TENSORS
    };
    for (size_t i = 0; i < sizeof add / sizeof add[0]; i++) {
        gg_error e = GG_ERROR_INIT;
        gg_select *s = NULL;
        FUZZ_MUST(gg_select_new(&s, &e) == GG_OK);
        if (gg_select_add(s, add[i], text, &e) != GG_OK) refused(&e);
        for (size_t k = 0; k < gg_source_count(model) && e.status == GG_OK; k++) {
            const gg_tensor *t = gg_source_tensor(model, k);
            gg_select_match(s, t->name, t->name_len, &t->a);
        }
        gg_select_free(s);
    }
    gg_error e = GG_ERROR_INIT;
    gg_ranges r = { 0 };
    if (gg_ranges_parse(&r, "layers", text, &e) != GG_OK) refused(&e);
    gg_ranges_free(&r);
    size_t prefix;
    uint32_t no, count;
    if (gg_shard_parse(text, &prefix, &no, &count)) FUZZ_MUST(prefix < n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gg_error e = GG_ERROR_INIT;
    if (!model) {
        FUZZ_MUST(gg_source_open("tests/fuzz/seeds/model/base.gguf", &model, &e) == GG_OK);
        atexit(close_model);
    }
    char *text = malloc(size + 1);
    FUZZ_MUST(text);
    if (size) memcpy(text, data, size);
    text[size] = '\0';
    set_key(text);
    dtype(text, NULL);
    dtype("*=q4_k", text);
    blend_and_map(text);
    blocks(text);
    selection(text, size);
    free(text);
    return 0;
}
