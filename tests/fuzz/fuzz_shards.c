/* fuzz_shards.c - a set of shards of which one is mutated, as files, and as one file after another:
 * opened, read to the end, and joined. */
#include "room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/data/gguf/x-00001-of-00003.gguf",
                                   "tests/data/gguf/x-00002-of-00003.gguf",
                                   "tests/data/gguf/x-00003-of-00003.gguf",
                                   "tests/fuzz/seeds/shards", NULL };

static const char *const names[] = { "x-00001-of-00003.gguf", "x-00002-of-00003.gguf",
                                     "x-00003-of-00003.gguf" };

static void note(void *ctx, const char *line)
{
    (void)ctx;
    for (; *line; line++) FUZZ_MUST((unsigned char)*line >= ' ');
}

static void read_all(gg_source *s)
{
    gg_error e = GG_ERROR_INIT;
    for (size_t i = 0; s && i < gg_source_count(s); i++) {
        gg_data d;
        char buf[4096];
        if (gg_data_open(s, i, &d, &e) != GG_OK) break;
        gg_data_read(&d, 0, buf, d.bytes < sizeof buf ? (size_t)d.bytes : sizeof buf, &e);
        gg_data_close(&d);
    }
}

static void with_notes(const char *name, bool header_only)
{
    gg_error e = GG_ERROR_INIT;
    gg_source_options o = { .header_only = header_only, .note = note };
    gg_source *s = NULL;
    if (gg_source_open_with(room(name), &o, &s, &e) == GG_OK) read_all(s);
    gg_source_close(s);
}

static void join(const char *name)
{
    gg_error e = GG_ERROR_INIT;
    gg_assemble_report r = { 0 };
    size_t count = room_count();
    gg_source *s = room_open(name);
    read_all(s);
    gg_source_close(s);
    gg_status st = room_assemble(room(name), NULL, room("out.gguf"), &room_run, &r, &e);
    if (st == GG_OK) FUZZ_MUST(s);
    room_settle(st, &e, "out.gguf", count);
}

/* The set without a fault, which is in the room between two cases. */
static uint8_t *sound[3];
static size_t sizes[3];

static void forget(void)
{
    for (size_t i = 0; i < 3; i++) free(sound[i]);
}

static void prepare(void)
{
    for (size_t i = 0; i < 3; i++) {
        char from[80];
        snprintf(from, sizeof from, "tests/data/gguf/%s", names[i]);
        room_copy(from, names[i]);
        sound[i] = room_get(names[i], &sizes[i]);
    }
    atexit(forget);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t c;
    size_t n = room_choices(data, size, &c, 1), which = c % 4;
    if (!sound[0]) prepare();
    room_put(which == 3 ? "in.gguf" : names[which], data, n);
    if (c & 0x20) room_remove(names[2]);
    const char *name = which == 3 ? "in.gguf" : names[(c >> 2) % 3];
    if (c & 0x40) with_notes(name, c & 0x80);
    else join(name);
    if (which == 3) room_remove("in.gguf");
    for (size_t i = 0; i < 3; i++)
        if (i == which || (i == 2 && c & 0x20)) room_put(names[i], sound[i], sizes[i]);
    FUZZ_MUST(room_count() == 3);
    return 0;
}
