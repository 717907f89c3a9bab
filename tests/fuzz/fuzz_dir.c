/* fuzz_dir.c - an organ directory in which the manifest or one record is mutated: read, assembled
 * with and without checking the hashes, and measured into its manifest. */
#include "room.h"

#include "measure/gg_measure_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/dir", "tests/fuzz/seeds/organ/v3-basic.bin",
                                   NULL };

enum { WHICH, WAY, CHOICES };

#define N_FILES 3
static const char *const files[N_FILES] = { "organs/manifest.json",
                                            "organs/organs/blk_0_ffn_up.bin",
                                            "organs/organs/blk_1_ffn_up_exps.bin" };
static uint8_t *sound[N_FILES];
static size_t sizes[N_FILES];

static void forget(void)
{
    for (size_t i = 0; i < N_FILES; i++) free(sound[i]);
}

static void extract(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_extract_report r = { 0 };
    gg_source *s = NULL;
    FUZZ_MUST(gg_source_open("tests/fuzz/seeds/model/base.gguf", &s, &e) == GG_OK);
    FUZZ_MUST(gg_extract(s, NULL, room("organs"), &room_run, &r, &e) == GG_OK);
    gg_source_close(s);
    for (size_t i = 0; i < N_FILES; i++) sound[i] = room_get(files[i], &sizes[i]);
    atexit(forget);
}

static gg_status keep_row(void *ctx, const gg_tensor_measure *row, gg_error *e)
{
    return gg_measures_add(ctx, row, e);
}

static void measure(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_measures list = { 0 };
    gg_measure_report r = { 0 };
    gg_measure_options o = { .sample = 16, .row = keep_row, .ctx = &list };
    gg_source *s = room_open("organs");
    size_t count = room_count();
    if (s && gg_measure_model(s, &o, &room_run, &r, &e) == GG_OK &&
        gg_measures_update(&list, room("organs"), &e) == GG_OK) {
        gg_source *again = room_open("organs");
        FUZZ_MUST(again);
        gg_source_close(again);
    }
    FUZZ_MUST(room_count() == count);
    gg_measures_free(&list);
    gg_source_close(s);
}

static void assemble(bool no_verify)
{
    gg_error e = GG_ERROR_INIT;
    gg_assemble_report r = { 0 };
    gg_assemble_options o = { .no_verify = no_verify };
    size_t count = room_count();
    gg_status st = room_assemble(room("organs"), &o, room("out.gguf"), &room_run, &r, &e);
    if (st != GG_OK) {
        room_settle(st, &e, "out.gguf", count);
        return;
    }
    /* One file, or the shards that the manifest describes. */
    FUZZ_MUST(room_count() == count + r.files && room_count() > count);
    if (room_has("out.gguf")) room_settle(st, &e, "out.gguf", count);
    for (size_t i = 1; i <= r.files && room_count() > count; i++) {
        char shard[64];
        snprintf(shard, sizeof shard, "out-%05zu-of-%05zu.gguf", i, r.files);
        room_remove(shard);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t c[CHOICES];
    if (!sound[0]) extract();
    size_t n = room_choices(data, size, c, sizeof c);
    /* A manifest is text, and a record is not. */
    size_t which = n && data[0] == '{' ? 0 : 1 + c[WHICH] % 2;
    room_put(files[which], data, n);
    bool measured = c[WAY] % 4 == 3;
    if (measured) measure();
    else assemble(c[WAY] & 1);
    for (size_t i = 0; i < N_FILES; i++)
        if (i == which || (i == 0 && measured)) room_put(files[i], sound[i], sizes[i]);
    FUZZ_MUST(room_count() == 1);
    return 0;
}
