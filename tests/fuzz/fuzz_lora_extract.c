/* fuzz_lora_extract.c - an adapter made from a mutated model and a sound one. If that works,
 * folding the adapter into its base works too. */
#include "room.h"

#include "graft/gg_transplant.h"
#include "lora/gg_lora.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/model", NULL };

enum { RANK, WAY, CHOICES };

typedef struct totals {
    size_t rows;
    uint64_t largest;
} totals;

static gg_status row(void *ctx, const gg_lora_row *r, gg_error *e)
{
    totals *t = ctx;
    (void)e;
    FUZZ_MUST(r->rank > 0 && r->rank <= r->rows && r->rank <= r->cols && r->experts > 0);
    FUZZ_MUST(r->kept >= 0 && r->kept <= 1);
    t->rows++;
    if (r->rank > t->largest) t->largest = r->rank;
    return GG_OK;
}

static void fold(gg_source *base)
{
    gg_error e = GG_ERROR_INIT;
    gg_transplant_report r = { 0 };
    gg_transplant_options o = { .directory = true, .adapter = true, .scale = 1 };
    gg_source *adapter = room_open("out.gguf");
    FUZZ_MUST(adapter);
    gg_status st = gg_transplant(base, adapter, &o, room("out"), &room_run, &r, &e);
    if (st == GG_NO || st == GG_EUSAGE) fprintf(stderr, "%s: %s\n", e.tensor, e.what);
    FUZZ_MUST(st != GG_NO && st != GG_EUSAGE); /* its type may not hold the sums */
    gg_source_close(adapter);
    room_settle(st, &e, "out", 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const double energies[] = { 0, 0.5, 0.999, 1 };
    uint8_t c[CHOICES];
    if (!room_has("base.gguf")) room_copy("tests/fuzz/seeds/model/base.gguf", "base.gguf");
    if (!room_has("donor.gguf")) room_copy("tests/fuzz/seeds/model/donor.gguf", "donor.gguf");
    size_t n = room_choices(data, size, c, sizeof c);
    room_put("in.gguf", data, n);
    gg_error e = GG_ERROR_INIT;
    gg_source *in = room_open("in.gguf"),
              *sound = room_open(c[WAY] & 2 ? "donor.gguf" : "base.gguf"),
              *base = c[WAY] & 1 ? in : sound;
    if (in) {
        totals t = { 0 };
        gg_lora_report r = { 0 };
        gg_lora_options o = { .rank = c[RANK], .row = row, .row_ctx = &t };
        if (!o.rank) o.energy = energies[c[WAY] >> 2 & 3];
        gg_status st = gg_lora_extract(base, base == in ? sound : in, &o, room("out.gguf"),
                                       &room_run, &r, &e);
        FUZZ_MUST(st != GG_OK || (r.pairs == t.rows && r.largest == t.largest && t.rows > 0));
        FUZZ_MUST(st != GG_OK || (r.kept >= 0 && r.kept <= 1));
        if (st == GG_OK && c[WAY] & 0x10) fold(base);
        room_settle(st, &e, "out.gguf", 3);
    }
    gg_source_close(in);
    gg_source_close(sound);
    room_remove("in.gguf");
    FUZZ_MUST(room_count() == 2);
    return 0;
}
