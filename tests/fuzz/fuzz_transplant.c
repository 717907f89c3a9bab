/* fuzz_transplant.c - a mutated model, organ stream or undo stream as base or as donor of a
 * transplant: each match mode, blends, maps, experts, added tensors and blocks; as a new model and
 * in place. What was changed in place is restored by its undo stream. */
#include "room.h"

#include "graft/gg_transplant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/model", "tests/fuzz/seeds/organ",
                                   "tests/fuzz/seeds/lora", NULL };

#define FIXED "tests/fuzz/seeds/model/base.gguf"

enum { MODES, BLEND, FLAGS, MAP, SELECT, CHOICES };

static const char *const blends[] = { NULL,        NULL,         "linear:0.25", "linear:0..1",
                                      "slerp:0.5", "slerp:0..1", "task:0.5",    "task:-1..2" };
static const char *const maps[] = { NULL, NULL, NULL, "0=1", "1=0", "0-1=0-1", "0=0,1=0", "1=2" };

typedef struct job {
    gg_transplant_options o;
    gg_select *select;
    gg_map *map;
    gg_source *ancestor;
} job;

static void set_up(job *j, const uint8_t *c)
{
    gg_error e = GG_ERROR_INIT;
    static const char *const copied[] = { "general.name", "llama.*" };
    static const char *const set[] = { "general.name=str:x", "fuzz.number=u32:7" };
    *j = (job){ .o.match.mode = (gg_match_mode)(c[MODES] % 3) };
    const char *blend = blends[c[BLEND] % 8], *map = maps[c[MAP] % 8];
    if (blend && blend[0] == 't') j->ancestor = room_open("ancestor.gguf");
    FUZZ_MUST(gg_blend_parse(blend, j->ancestor, &j->o.match.blend, &e) == GG_OK);
    if (map) FUZZ_MUST(gg_map_parse(map, &j->map, &e) == GG_OK);
    FUZZ_MUST(gg_select_new(&j->select, &e) == GG_OK);
    if (c[SELECT] % 8 == 1) gg_select_add(j->select, GG_SELECT_TYPES, "organ,norm", &e);
    if (c[SELECT] % 8 == 2) gg_select_add(j->select, GG_SELECT_EXPERTS, "0", &e);
    if (c[SELECT] % 8 == 3) gg_select_add(j->select, GG_SELECT_EXPERT_MAP, "0=1,1=0", &e);
    if (c[SELECT] % 8 == 4) gg_select_add(j->select, GG_SELECT_LAYERS, "1", &e);
    if (c[SELECT] % 8 == 5) gg_select_add(j->select, GG_SELECT_TENSORS, "*attn*,t*", &e);
    FUZZ_MUST(e.status == GG_OK);
    j->o.match.select = c[SELECT] % 8 ? j->select : NULL;
    j->o.match.map = j->map;
    j->o.match.add = c[FLAGS] & 1;
    j->o.match.router = c[FLAGS] & 2;
    j->o.skip_mismatched = c[FLAGS] & 4;
    static const char *const types[] = { "q8_0", "*=q4_0", "*attn*=f16,q4_k_m", "*=keep" };
    if (c[MODES] & 0x20) j->o.output.dtype = types[c[SELECT] / 8 % 4];
    if (c[MODES] & 0x20 && c[SELECT] & 0x80) j->o.output.fallback = "f16";
    j->o.adapter = c[MAP] & 0x80;
    j->o.scale = 1.5;
    j->o.match.mtp = (c[FLAGS] & 0x18) == 0x18;
    if (c[FLAGS] & 0x20) j->o.copy_kv = (gg_texts){ copied, 2 };
    if (c[FLAGS] & 0x40) j->o.output.set_kv = (gg_texts){ set, 2 };
}

static void tear_down(job *j)
{
    gg_source_close(j->ancestor);
    gg_map_free(j->map);
    gg_select_free(j->select);
}

/* As a new model. The list of moves comes first, and must agree with what follows. */
static void as_new(gg_source *donor, job *j, const char *base_name)
{
    gg_source *base = room_open(base_name);
    if (!base) return;
    size_t count = room_count();
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    gg_moves moves = { 0 };
    gg_transplant_report r = { 0 };
    gg_status found = gg_match_tensors(base, donor, &j->o.match, &moves, &e2);
    gg_status st = gg_transplant(base, donor, &j->o, room("out.gguf"), &room_run, &r, &e);
    if (room_settle(st, &e, "out.gguf", count))
        FUZZ_MUST(j->o.adapter || (found == GG_OK && r.moved + r.added <= moves.n));
    gg_graft_check_report report;
    gg_error e3 = GG_ERROR_INIT;
    if (found == GG_OK) gg_graft_check(base, donor, &moves, &room_run, &report, &e3);
    FUZZ_MUST(room_count() == count);
    gg_moves_free(&moves);
    gg_source_close(base);
}

static void restore(const char *base_name, const uint8_t *bytes, size_t n)
{
    gg_error e = GG_ERROR_INIT;
    gg_transplant_report r = { 0 };
    gg_transplant_options o = { 0 };
    gg_source *undo = room_open("undo.bin"), *base = room_open(base_name);
    FUZZ_MUST(undo && base);
    if (gg_transplant_in_place(base, undo, &o, NULL, &room_run, &r, &e) != GG_OK)
        fprintf(stderr, "%s: %s\n", e.tensor, e.what);
    gg_source_close(base);
    gg_source_close(undo);
    FUZZ_MUST(room_is(base_name, bytes, n));
    room_remove("undo.bin");
}

static void in_place(gg_source *donor, job *j, const char *base_name)
{
    gg_source *base = room_open(base_name);
    if (!base) return;
    size_t n, count = room_count();
    uint8_t *bytes = room_get(base_name, &n);
    gg_error e = GG_ERROR_INIT;
    gg_transplant_report r = { 0 };
    gg_status st = gg_transplant_in_place(base, donor, &j->o, room("undo.bin"), &room_run, &r, &e);
    gg_source_close(base);
    FUZZ_MUST(st == GG_OK || e.what[0]);
    FUZZ_MUST(room_count() == count + room_has("undo.bin"));
    FUZZ_MUST(st != GG_OK || room_has("undo.bin"));
    if (room_has("undo.bin")) restore(base_name, bytes, n);
    else FUZZ_MUST(room_is(base_name, bytes, n));
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    uint8_t c[CHOICES];
    job j;
    if (!ready) room_copy("tests/fuzz/seeds/model/donor.gguf", "ancestor.gguf");
    ready = true;
    size_t n = room_choices(data, size, c, sizeof c);
    bool model = n >= 4 && memcmp(data, "GGUF", 4) == 0, as_base = model && c[MODES] & 0x40;
    const char *given = model ? "given.gguf" : "given.bin";
    room_put(given, data, n);
    room_copy(FIXED, "fixed.gguf");
    set_up(&j, c);
    gg_source *donor = room_open(as_base ? "fixed.gguf" : given);
    const char *base = as_base ? given : "fixed.gguf";
    if (donor && c[MODES] & 0x80) in_place(donor, &j, base);
    else if (donor) as_new(donor, &j, base);
    gg_source_close(donor);
    tear_down(&j);
    room_remove(given);
    room_remove("fixed.gguf");
    FUZZ_MUST(room_count() == 1);
    return 0;
}
