/* t_transplant.c - which tensor of a donor goes where: pairs, modes, maps, additions,
 * parts, experts; and keys as --set-kv gives them. */
#include "files.h"

#include "gguf/gguf.h"
#include "graft/gg_transplant.h"
#include "organ/record.h"
#include "quant/quant.h"

/* A model of F32 tensors and the like, as text "NAME:DTYPE:D0xD1,...", in a file. */
static gg_source *model(const char *file, const char *const *specs, size_t n)
{
    gg_tensor t[16];
    gg_meta meta = GG_META_INIT;
    gg_error e = GG_ERROR_INIT;
    for (size_t i = 0; i < n; i++) {
        char type[16];
        unsigned long long d[3] = { 1, 1, 1 };
        const char *colon = strchr(specs[i], ':');
        int dims = sscanf(colon + 1, "%15[^:]:%llux%llux%llu", type, &d[0], &d[1], &d[2]) - 1;
        t[i] = (gg_tensor){ .name_len = (size_t)(colon - specs[i]),
                            .n_dims = (uint32_t)dims,
                            .dims = { d[0], d[1], d[2], 1 } };
        t[i].name = strndup(specs[i], t[i].name_len);
        t[i].dtype = gg_dtype_by_name(type)->id;
        T_EQ(gg_tensor_extent(t[i].dtype, t[i].n_dims, t[i].dims, &t[i].elements, &t[i].bytes, &e),
             GG_OK);
    }
    uint64_t data = 0;
    uint8_t *header = NULL;
    size_t len = 0;
    gg_meta_set_str(&meta, "general.architecture", "llama", 5, &e);
    T_CHECK(gg_plan_offsets(t, n, 32, &data, &e) == GG_OK &&
            gg_header_emit(3, &meta, t, n, &header, &len, &e) == GG_OK);
    size_t start = (size_t)gg_align_up(len, 32), size = start + (size_t)data;
    uint8_t *bytes = calloc(1, size);
    if (!bytes) exit(1);
    memcpy(bytes, header, len);
    spew(scratch(file), bytes, size);
    for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)t[i].name);
    free(bytes);
    free(header);
    gg_meta_free(&meta);
    gg_source *s = NULL;
    T_CHECKF(gg_source_open(scratch(file), &s, &e) == GG_OK, "%s", e.what);
    if (!s) exit(1);
    return s;
}

static const char *const base_specs[] = {
    "token_embd.weight:F32:8x4",         "blk.0.attn_q.weight:F32:8x8",
    "blk.0.ffn_up.weight:Q8_0:32x4",     "blk.1.attn_q.weight:F32:8x8",
    "blk.1.ffn_up.weight:IQ2_XXS:256x2", "blk.2.ffn_up_exps.weight:F32:8x4x4",
    "blk.2.ffn_gate_inp.weight:F32:8x4", "output.weight:F32:8x4",
};
static const char *const donor_specs[] = {
    "output.weight:F32:8x5",
    "blk.1.attn_q.weight:F32:8x8",
    "blk.0.attn_q.weight:F16:8x8",
    "blk.0.ffn_up.weight:F32:32x4",
    "blk.1.ffn_up.weight:F32:256x2",
    "blk.2.ffn_up_exps.weight:F32:8x4x6",
    "blk.2.ffn_gate_inp.weight:F32:8x6",
    "token_embd.weight:F32:8x4x1",
    "blk.3.attn_q.weight:F32:8x8",
};

/* Moves as text: "NAME kind;" with a * where the donor's block is another. */
static void moves_are(const gg_source *b, const gg_source *d, const gg_match_options *o,
                      const char *want)
{
    char got[2000] = "";
    gg_moves all = { 0 };
    gg_error e = GG_ERROR_INIT;
    T_CHECKF(gg_match_tensors(b, d, o, &all, &e) == GG_OK, "%s", e.what);
    const gg_move *moves = all.list;
    for (size_t i = 0; i < all.n; i++) {
        const gg_tensor *t = moves[i].donor == SIZE_MAX ? NULL
                                                        : gg_source_tensor(d, moves[i].donor);
        bool other = t && strcmp(t->name, moves[i].name) != 0;
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s %s;", moves[i].name,
                 other ? "*" : "", gg_move_name(moves[i].kind));
        T_CHECKF((moves[i].kind == GG_MOVE_MISMATCH) == (moves[i].reason != NULL), "%s",
                 moves[i].name);
        T_EQ(strlen(moves[i].name), moves[i].name_len);
    }
    T_CHECKF(strcmp(got, want) == 0, "\n  got  %s\n  want %s", got, want);
    gg_moves_free(&all);
}

static gg_source *base, *donor;

static void open_both(void)
{
    base = model("base.gguf", base_specs, sizeof base_specs / sizeof base_specs[0]);
    donor = model("donor.gguf", donor_specs, sizeof donor_specs / sizeof donor_specs[0]);
}

static void close_both(void)
{
    gg_source_close(base);
    gg_source_close(donor);
}

static void exact(void)
{
    open_both();
    gg_match_options o = { .mode = GG_MATCH_EXACT };
    moves_are(base, donor, &o,
              "token_embd.weight replace;blk.0.attn_q.weight mismatch;blk.0.ffn_up.weight "
              "mismatch;blk.1.attn_q.weight replace;"
              "blk.1.ffn_up.weight mismatch;blk.2.ffn_up_exps.weight "
              "mismatch;blk.2.ffn_gate_inp.weight mismatch;output.weight mismatch;"
              "blk.3.attn_q.weight mismatch;");
    o.add = true;
    moves_are(donor, base, &o,
              "output.weight mismatch;blk.1.attn_q.weight replace;blk.0.attn_q.weight "
              "mismatch;blk.0.ffn_up.weight mismatch;"
              "blk.1.ffn_up.weight mismatch;blk.2.ffn_up_exps.weight "
              "mismatch;blk.2.ffn_gate_inp.weight mismatch;"
              "token_embd.weight replace;blk.3.attn_q.weight mismatch;");
    close_both();
}

static void retype_and_convert(void)
{
    open_both();
    gg_match_options o = { .mode = GG_MATCH_RETYPE, .add = true };
    moves_are(base, donor, &o,
              "token_embd.weight replace;blk.0.attn_q.weight retype;blk.0.ffn_up.weight "
              "retype;blk.1.attn_q.weight replace;"
              "blk.1.ffn_up.weight retype;blk.2.ffn_up_exps.weight "
              "mismatch;blk.2.ffn_gate_inp.weight mismatch;output.weight mismatch;"
              "blk.3.attn_q.weight add;");
    o.mode = GG_MATCH_CONVERT; /* IQ2_XXS cannot be encoded without an importance matrix */
    moves_are(base, donor, &o,
              "token_embd.weight replace;blk.0.attn_q.weight convert;blk.0.ffn_up.weight "
              "convert;blk.1.attn_q.weight replace;"
              "blk.1.ffn_up.weight mismatch;blk.2.ffn_up_exps.weight "
              "mismatch;blk.2.ffn_gate_inp.weight mismatch;output.weight mismatch;"
              "blk.3.attn_q.weight add;");
    close_both();
}

static void selected_and_mapped(void)
{
    open_both();
    gg_select *s = NULL;
    gg_map *map = NULL;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_select_new(&s, &e) == GG_OK &&
            gg_select_add(s, GG_SELECT_TENSORS, "*attn_q*", &e) == GG_OK);
    gg_match_options o = { .select = s };
    moves_are(
        base, donor, &o,
        "blk.0.attn_q.weight mismatch;blk.1.attn_q.weight replace;blk.3.attn_q.weight mismatch;");
    T_EQ(gg_map_parse("0=1,1=3", &map, &e), GG_OK);
    o.map = map;
    moves_are(base, donor, &o, "blk.0.attn_q.weight* replace;blk.1.attn_q.weight* replace;");
    gg_map_free(map);
    T_EQ(gg_map_parse("5=3", &map, &e), GG_OK); /* a block the base does not have: added */
    o.map = map;
    o.add = true;
    moves_are(base, donor, &o, "blk.5.attn_q.weight* add;");
    gg_map_free(map);
    gg_select_free(s);
    close_both();
}

static void experts(void)
{
    open_both();
    gg_select *s = NULL;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_select_new(&s, &e) == GG_OK &&
            gg_select_add(s, GG_SELECT_EXPERTS, "0,3", &e) == GG_OK);
    gg_match_options o = { .select = s };
    moves_are(base, donor, &o,
              "blk.2.ffn_up_exps.weight replace;"); /* of 4 and of 6: the two are in both */
    o.router = true;
    moves_are(base, donor, &o,
              "blk.2.ffn_up_exps.weight replace;blk.2.ffn_gate_inp.weight replace;");
    moves_are(donor, base, &o,
              "blk.2.ffn_up_exps.weight replace;blk.2.ffn_gate_inp.weight replace;");
    gg_select_free(s);
    T_CHECK(gg_select_new(&s, &e) == GG_OK &&
            gg_select_add(s, GG_SELECT_EXPERTS, "5", &e) == GG_OK);
    o = (gg_match_options){ .select = s };
    moves_are(base, donor, &o, "blk.2.ffn_up_exps.weight mismatch;");
    moves_are(donor, base, &o, "blk.2.ffn_up_exps.weight mismatch;");
    gg_select_free(s);
    close_both();
}

/* A donor of bare records is a part on purpose. */
static void records(void)
{
    open_both();
    gg_tensor t = {
        .name = "blk.1.attn_q.weight", .name_len = 19, .n_dims = 2, .dims = { 8, 8, 1, 1 }
    };
    uint8_t bytes[GG_RECORD_HEADER + 256] = { 0 };
    size_t n = gg_record_header(&t, bytes);
    spew(scratch("part.bin"), bytes, n + 256);
    gg_source *part = NULL;
    gg_error e = GG_ERROR_INIT;
    gg_match_options o = { .mode = GG_MATCH_EXACT };
    T_EQ(gg_source_open(scratch("part.bin"), &part, &e), GG_OK);
    if (part) moves_are(base, part, &o, "blk.1.attn_q.weight replace;");
    gg_source_close(part);
    close_both();
}

/* ---- --set-kv ------------------------------------------------------------------------ */

static void set_text(const char *text, const char *key, const char *type, const char *want_hex)
{
    gg_meta m = GG_META_INIT;
    gg_error e = GG_ERROR_INIT;
    static const uint8_t half[4] = { 0, 0, 0, 0x3f };
    gg_kv f = { "old.f", 5, GG_TYPE_F32, 0, 1, half, 4 };
    T_CHECK(gg_meta_set_u32(&m, "old.u", 5, &e) == GG_OK && gg_meta_set(&m, &f, &e) == GG_OK);
    gg_status st = gg_meta_set_text(&m, text, &e);
    if (!want_hex) {
        T_CHECKF(st == GG_EUSAGE && m.n == 2, "'%s': taken", text);
    } else {
        const gg_kv *kv = gg_meta_find(&m, key);
        T_CHECKF(st == GG_OK && kv, "'%s': %s", text, e.what);
        char *hex = kv ? hex_of(kv->data, kv->size) : NULL;
        if (kv)
            T_CHECKF(strcmp(gg_type_name(kv->type), type) == 0 && strcmp(hex, want_hex) == 0,
                     "'%s': %s %s", text, gg_type_name(kv->type), hex);
        free(hex);
    }
    gg_meta_free(&m);
}

static void set_kv_texts(void)
{
    set_text("a=u32:7", "a", "u32", "07000000");
    set_text("a=u8:255", "a", "u8", "ff");
    set_text("a=i8:-1", "a", "i8", "ff");
    set_text("a=i64:-9223372036854775808", "a", "i64", "0000000000000080");
    set_text("a=u64:18446744073709551615", "a", "u64", "ffffffffffffffff");
    set_text("a=f32:0.1", "a", "f32", "cdcccc3d");
    set_text("a=f64:0.1", "a", "f64", "9a9999999999b93f");
    set_text("a=bool:true", "a", "bool", "01");
    set_text("a=str:x:y=z", "a", "str", "783a793d7a");
    set_text("a=str:", "a", "str", "");
    set_text("a=u16[]:1,2", "a", "arr", "01000200");
    set_text("a=str[]:p,q", "a", "arr", "010000000000000070010000000000000071");
    set_text("a=7", "a", "u32", "07000000");
    set_text("a=-7", "a", "i64", "f9ffffffffffffff");
    set_text("a=0.5", "a", "f32", "0000003f");
    set_text("a=true", "a", "bool", "01");
    set_text("a=words", "a", "str", "776f726473");
    set_text("old.u=9", "old.u", "u32", "09000000");
    set_text("old.f=2", "old.f", "f32", "00000040");
    static const char *const bad[] = { "",          "a",           "=1",         "a=u8:256",
                                       "a=u8:-1",   "a=u32:x",     "a=f32:",     "a=f32:1e99",
                                       "a=bool:2x", "a=u8[]:1,,2", "a=u8[]:300", "old.u=x",
                                       "old.u=1.5" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) set_text(bad[i], NULL, NULL, NULL);
    gg_meta m = GG_META_INIT;
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_meta_set_u32(&m, "a", 1, &e) == GG_OK && gg_meta_set_text(&m, "a=", &e) == GG_OK &&
            m.n == 0);
    gg_meta_free(&m);
}

static const t_case cases[] = {
    { "exact", exact },
    { "retype and convert", retype_and_convert },
    { "selected and mapped", selected_and_mapped },
    { "experts", experts },
    { "a donor of records", records },
    { "texts of --set-kv", set_kv_texts },
};

T_MAIN(cases)
