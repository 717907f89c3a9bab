/* fuzz_lists.c - any text as a file that an option names: hashes to verify, names of tensors,
 * experts to keep, the content of a key, rules that choose types, measured losses; and as rules on
 * the command line. */
#include "check/check_hash.h"
#include "common/size.h"
#include "room.h"

#include "keys/keys_write.h"
#include "organ/gg_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/lists", "tests/fuzz/seeds/organ/names.txt",
                                   NULL };

static gg_status finding(void *ctx, const gg_finding *f, gg_error *e)
{
    (void)e;
    for (const char *p = f->message; *p; p++) FUZZ_MUST((unsigned char)*p >= ' ');
    ++*(size_t *)ctx;
    return GG_OK;
}

static void verify(void)
{
    gg_error e = GG_ERROR_INIT;
    size_t n = 0;
    gg_check_report r = { 0 };
    gg_source *base = room_open("base.gguf");
    gg_hash_options o = { .list = room("list"), .finding = finding, .ctx = &n };
    gg_status st = gg_check_hash(base, &o, &room_run, &r, &e);
    FUZZ_MUST(st == GG_OK ? n == r.found[0] + r.found[1] + r.found[2] : e.what[0]);
    gg_source_close(base);
}

static void names(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_select *s = NULL;
    FUZZ_MUST(gg_select_new(&s, &e) == GG_OK);
    if (gg_select_add(s, GG_SELECT_NAMES, room("list"), &e) != GG_OK) FUZZ_MUST(e.what[0]);
    gg_select_free(s);
}

static void keep_experts(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_prune_options o = { .list = room("list") };
    size_t count = room_count();
    gg_status st = room_prune(room("base.gguf"), &o, room("out.gguf"), &room_run, &e);
    room_settle(st, &e, "out.gguf", count);
}

/* The text as rules that choose types, which are then used. */
static void dtype(const uint8_t *data, size_t n)
{
    char text[200];
    gg_error e = GG_ERROR_INIT;
    snprintf(text, sizeof text, "%.*s", n < 190 ? (int)n : 190, (const char *)data);
    gg_assemble_options o = { .output = { .dtype = text, .fallback = "f16" } };
    gg_assemble_report r = { 0 };
    size_t count = room_count();
    gg_status st = room_assemble(room("base.gguf"), &o, room("out.gguf"), &room_run, &r, &e);
    room_settle(st, &e, "out.gguf", count);
}

/* The text as a table of losses, by which the types for a size are chosen. */
static gg_status chosen(void *ctx, const gg_size_row *row, gg_error *e)
{
    (void)e;
    FUZZ_MUST(isfinite(row->loss) && row->loss >= 0 && row->share >= 0 && row->share <= 1);
    ++*(size_t *)ctx;
    return GG_OK;
}

static void sensitivity(void)
{
    gg_error e = GG_ERROR_INIT;
    size_t rows = 0, count = room_count();
    gg_size_choice size = { .sensitivity = room("list"),
                            .types = "q4_0,q8_0,keep",
                            .size = 2600,
                            .row = chosen,
                            .ctx = &rows };
    gg_type_chooser chooser = gg_size_chooser(&size);
    gg_assemble_options o = { .dry_run = true, .chooser = &chooser };
    gg_assemble_report r = { 0 };
    gg_status st = room_assemble(room("base.gguf"), &o, NULL, &room_run, &r, &e);
    FUZZ_MUST(room_count() == count);
    FUZZ_MUST(st == GG_OK ? rows > 0 && isfinite(size.loss) : e.status != GG_OK && e.what[0]);
    gg_size_choice_free(&size);
}

static void rules_file(void)
{
    char text[320];
    gg_error e = GG_ERROR_INIT;
    snprintf(text, sizeof text, "@%s", room("list"));
    gg_assemble_options o = { .output = { .dtype = text, .fallback = "f16" } };
    gg_assemble_report r = { 0 };
    size_t count = room_count();
    gg_status st = room_assemble(room("base.gguf"), &o, room("out.gguf"), &room_run, &r, &e);
    room_settle(st, &e, "out.gguf", count);
}

static void set_file(const uint8_t *data, size_t n)
{
    char text[320];
    const char *edit = text;
    gg_error e = GG_ERROR_INIT;
    snprintf(text, sizeof text, "fuzz.file=%s", room("list"));
    gg_key_edits edits = { .files = { &edit, 1 } };
    gg_keys_report r = { 0 };
    gg_source *base = room_open("base.gguf"), *out;
    FUZZ_MUST(base);
    gg_status st = gg_keys_write(base, &edits, room("out.gguf"), &room_run, &r, &e);
    if (st == GG_OK && (out = room_open("out.gguf"))) {
        const char *s = NULL;
        size_t m = 0;
        FUZZ_MUST(gg_kv_str(gg_meta_find(gg_source_meta(out), "fuzz.file"), &s, &m) && m == n);
        FUZZ_MUST(n == 0 || memcmp(s, data, n) == 0);
        gg_source_close(out);
    }
    room_settle(st, &e, "out.gguf", 2);
    gg_source_close(base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t c;
    if (!room_has("base.gguf")) room_copy("tests/fuzz/seeds/model/base.gguf", "base.gguf");
    size_t n = room_choices(data, size, &c, 1);
    room_put("list", data, n);
    if (c % 8 == 1) names();
    else if (c % 8 == 2) keep_experts();
    else if (c % 8 == 3) set_file(data, n);
    else if (c % 8 == 4) dtype(data, n);
    else if (c % 8 == 5) rules_file();
    else if (c % 8 == 6) sensitivity();
    else verify();
    room_remove("list");
    FUZZ_MUST(room_count() == 1);
    return 0;
}
