/* fuzz_verbs.c - a mutated model through one verb per run: extract and assemble again (byte for
 * byte), assemble with other types and as shards, stack, measure, compare, purify, check, keys, and
 * writing with overrides. */
#include "check/check_hash.h"
#include "room.h"

#include "assemble/gg_stack.h"
#include "compare/compare_keys.h"
#include "keys/keys_write.h"
#include "measure/gg_measure_model.h"
#include "organ/gg_check.h"
#include "organ/gg_write.h"
#include "purify/gg_purify.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/model",
                                   "tests/data/gguf/v3-basic.gguf",
                                   "tests/data/gguf/padding-nonzero.gguf",
                                   "tests/data/gguf/trailing-bytes.gguf",
                                   "tests/data/gguf/names-odd.gguf",
                                   NULL };

enum { VERB, WAY, MORE, CHOICES };

typedef struct input {
    const uint8_t *bytes;
    size_t n;
    const uint8_t *c;
    gg_source *s;
} input;

/* ---- extract, assemble ---------------------------------------------------------------------- */

static void extract_and_assemble(input *in)
{
    gg_error e = GG_ERROR_INIT;
    gg_extract_options x = { .split_experts = in->c[WAY] & 1 };
    gg_extract_report xr = { 0 };
    gg_assemble_options o = { .no_verify = in->c[WAY] & 2 };
    gg_assemble_report r = { 0 };
    size_t count = room_count();
    gg_status st = gg_extract(in->s, &x, room("organs"), &room_run, &xr, &e);
    if (st != GG_OK) {
        room_settle(st, &e, "organs", count);
        return;
    }
    st = room_assemble(room("organs"), &o, room("out.gguf"), &room_run, &r, &e);
    if (st != GG_OK) fprintf(stderr, "%s %s: %s\n", e.file, e.tensor, e.what);
    FUZZ_MUST(st == GG_OK && room_is("out.gguf", in->bytes, in->n));
    room_remove("organs");
    room_remove("out.gguf");
}

static void stream(input *in)
{
    gg_error e = GG_ERROR_INIT;
    gg_extract_options x = { .split_experts = in->c[WAY] & 1 };
    gg_extract_report xr = { 0 };
    int fd = open(room("stream.bin"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    FUZZ_MUST(fd >= 0);
    fflush(stdout);
    int keep = dup(STDOUT_FILENO);
    FUZZ_MUST(keep >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
    gg_status st = gg_extract(in->s, &x, "-", &room_run, &xr, &e);
    FUZZ_MUST(dup2(keep, STDOUT_FILENO) >= 0);
    close(keep);
    close(fd);
    if (st == GG_OK && xr.tensors > 0) {
        gg_source *s = room_open("stream.bin");
        FUZZ_MUST(s && gg_source_count(s) == xr.tensors);
        gg_source_close(s);
    }
    room_remove("stream.bin");
}

typedef struct assembling {
    gg_assemble_options o;
    const char *experts; /* those to keep; NULL = all */
    bool strict;
} assembling;

static gg_status write_types(void *ctx, const gg_run *run, const char *output, gg_error *e)
{
    const assembling *a = ctx;
    gg_assemble_report r = { 0 };
    gg_run used = *run;
    used.strict = a->strict;
    gg_prune_options fewer = { .how.output = a->o.output, .list = a->experts };
    if (a->experts) return room_prune(room("in.gguf"), &fewer, output, &used, e);
    return room_assemble(room("in.gguf"), &a->o, output, &used, &r, e);
}

static void assemble_types(input *in)
{
    static const char *const types[] = { "q8_0",          "q4_0",
                                         "q4_k_m",        "f16",
                                         "q2_k",          "iq4_xs",
                                         "*=q4_k",        "*=f16",
                                         "*attn*=q5_1",   "*=tq2_0",
                                         "*=f32",         "*=mxfp4",
                                         "*=q6_k,q3_k_m", "token_embd.weight=bf16",
                                         "mxfp4_moe",     "*=keep,q5_k_s" };
    gg_error e = GG_ERROR_INIT;
    assembling a = { .o.output.dtype = types[in->c[WAY] % 16], .strict = in->c[MORE] & 0x40 };
    if (in->c[MORE] & 1) a.o.output.fallback = in->c[MORE] & 2 ? "f16" : "q8_0";
    if (in->c[MORE] & 4) a.experts = in->c[MORE] & 8 ? "1" : "0-1";
    if ((in->c[MORE] & 0x30) == 0x30) a.o.output.dtype = NULL;
    size_t count = room_count();
    gg_status st = write_types(&a, &room_run, room("out.gguf"), &e);
    if (st == GG_OK) room_repeat(in->n, write_types, &a);
    room_settle(st, &e, "out.gguf", count);
}

/* As shards, and as one file again. */
static void assemble_shards(input *in)
{
    gg_error e = GG_ERROR_INIT;
    gg_assemble_options o = { .output.shards = 1 + in->c[WAY] % 4 };
    if (in->c[MORE] & 1) o.output.shards = 0, o.output.shard_size = 1 + 16u * in->c[WAY];
    gg_assemble_report r = { 0 };
    size_t count = room_count();
    gg_status st = room_assemble(room("in.gguf"), &o, room("out.gguf"), &room_run, &r, &e);
    FUZZ_MUST(room_count() == count + (st == GG_OK ? r.files : 0));
    if (st != GG_OK) return;
    char first[64];
    snprintf(first, sizeof first, "out-00001-of-%05zu.gguf", r.files);
    gg_source *s = room_open(room_has("out.gguf") ? "out.gguf" : first);
    FUZZ_MUST(s && gg_source_count(s) == gg_source_count(in->s));
    gg_source_close(s);
    for (size_t i = 1; i <= r.files; i++) {
        snprintf(first, sizeof first, "out-%05zu-of-%05zu.gguf", i, r.files);
        room_remove(room_has(first) ? first : "out.gguf");
    }
    FUZZ_MUST(room_count() == count);
}

/* ---- stack ---------------------------------------------------------------------------------- */

static void stack(input *in)
{
    static const char *const orders[] = {
        "0-1", "1,0", "0,0,1", "1", "0-1,0-1", "0-2", "2-0", "5"
    };
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    gg_block_order order = { 0 };
    gg_source *other = in->c[MORE] & 2 ? room_open("fixed.gguf") : NULL;
    gg_stack_report r = { 0 };
    size_t count = room_count();
    gg_status st = in->c[MORE] & 1
                       ? gg_block_order_drop(&order, in->s, in->c[MORE] & 4 ? "0" : NULL,
                                             in->c[MORE] & 8, &e)
                       : gg_block_order_add(&order, in->s, orders[in->c[WAY] % 8], &e);
    if (st == GG_OK && other)
        st = gg_block_order_add(&order, other, orders[in->c[WAY] / 8 % 8], &e);
    if (st == GG_OK) {
        gg_status dry = gg_stack_blocks(&order, NULL, NULL, &room_run, &r, &e2);
        st = gg_stack_blocks(&order, NULL, room("out.gguf"), &room_run, &r, &e);
        FUZZ_MUST(dry == st);
    }
    room_settle(st, &e, "out.gguf", count);
    gg_block_order_free(&order);
    gg_source_close(other);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static void measure(input *in)
{
    gg_error e = GG_ERROR_INIT;
    gg_measures list = { 0 };
    gg_measure_report r = { 0 };
    gg_measure_options o = { .sample = in->c[MORE] & 1 ? 0 : 8, .split_experts = in->c[MORE] & 2 };
    size_t count = room_count();
    gg_status st = gg_measure_model(in->s, &o, &room_run, &r, &e);
    FUZZ_MUST(st != GG_OK || r.tensors >= r.undecoded);
    FUZZ_MUST((st == GG_OK || e.what[0]) && room_count() == count);
    gg_measures_free(&list);
}

static gg_status one_row(void *ctx, const gg_compare_row *row, gg_error *e)
{
    (void)e;
    FUZZ_MUST((row->a || row->b) && (!row->measured || (row->a && row->b)));
    FUZZ_MUST(row->cosine >= -1.0001 && row->cosine <= 1.0001);
    ++*(size_t *)ctx;
    return GG_OK;
}

static void compare(input *in)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT;
    size_t rows = 0;
    gg_source *other = room_open(in->c[MORE] & 4 ? "in.gguf" : "fixed.gguf");
    gg_compare_options o = {
        .sample = in->c[MORE] & 1, .split_experts = in->c[MORE] & 2, .row = one_row, .ctx = &rows
    };
    gg_compare_report r = { 0 };
    gg_lineage l;
    gg_status st = gg_compare_models(in->s, other, &o, &room_run, &r, &e);
    FUZZ_MUST(st != GG_OK || rows == r.model.tensors);
    if (st == GG_OK && in->c[MORE] & 4) FUZZ_MUST(r.model.by[GG_SAME_IDENTICAL] == rows);
    gg_compare_keys(other, in->s, NULL, NULL, NULL, &e2);
    gg_lineage_of(other, in->s, &o, &room_run, &l, &e3);
    gg_source_close(other);
}

typedef struct purifying {
    gg_source *s;
    gg_purify_options o;
    gg_purify_report sum;
} purifying;

static gg_status write_purified(void *ctx, const gg_run *run, const char *output, gg_error *e)
{
    purifying *p = ctx;
    return gg_purify(p->s, &p->o, output, run, &p->sum, e);
}

static void purify(input *in)
{
    gg_error e = GG_ERROR_INIT;
    purifying p = { .s = in->s,
                    .o = { .method = in->c[MORE] & 1 ? GG_PURIFY_FFT : GG_PURIFY_HAAR,
                           .strength = in->c[WAY] / 255.0 } };
    if (in->c[MORE] & 2) p.o.dtype = gg_dtype_get(in->c[MORE] & 4 ? GG_F16 : GG_Q8_0);
    size_t count = room_count();
    bool dir = in->c[MORE] & 8;
    const char *out = dir ? "organs" : "out.gguf";
    p.o.form = dir ? GG_PURIFY_DIR : GG_PURIFY_MODEL;
    gg_status st = write_purified(&p, &room_run, room(out), &e);
    FUZZ_MUST(p.sum.purified + p.sum.identical + p.sum.left_alone == p.sum.tensors || st != GG_OK);
    if (st == GG_OK && !dir) room_repeat(in->n, write_purified, &p);
    room_settle(st, &e, out, count);
}

/* ---- check and keys ------------------------------------------------------------------------- */

static gg_status finding(void *ctx, const gg_finding *f, gg_error *e)
{
    (void)e;
    FUZZ_MUST(f->rule[0] && f->message[0] && f->level < GG_CHECK_LEVELS);
    for (const char *p = f->message; *p; p++) FUZZ_MUST((unsigned char)*p >= ' ');
    /* Notes on what the file is, and on what was not judged, are not counted. */
    if (strcmp(f->rule, "kind") == 0 && f->level == GG_CHECK_NOTE) return GG_OK;
    if (strcmp(f->rule, "unchecked") != 0) ++*(size_t *)ctx;
    return GG_OK;
}

static gg_status put_row(void *ctx, const gg_hash_row *row, gg_error *e)
{
    (void)e;
    fprintf(ctx, "%s\t%s\t%s\t%s\n", row->sha256, row->kind, row->name, row->detail);
    return GG_OK;
}

static void check(input *in)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT;
    size_t n = 0, findings = 0;
    gg_check_options o = { .data = in->c[MORE] & 1, .row = finding, .ctx = &n };
    gg_check_report r = { 0 };
    gg_status st = gg_check_model(room("in.gguf"), &o, &room_run, &r, &e);
    FUZZ_MUST(st != GG_OK || n == r.found[0] + r.found[1] + r.found[2]);
    if (!in->s) return;
    FILE *f = fopen(room("hashes.tsv"), "wb");
    FUZZ_MUST(f);
    fprintf(f, "sha256\tkind\tname\tdetail\n");
    gg_hash_options hash = { .row = put_row, .ctx = f };
    st = gg_check_hash(in->s, &hash, &room_run, NULL, &e2);
    FUZZ_MUST(fclose(f) == 0);
    if (st == GG_OK) {
        gg_hash_options same = { .list = room("hashes.tsv"), .finding = finding, .ctx = &findings };
        st = gg_check_hash(in->s, &same, &room_run, &r, &e3);
        if (st != GG_OK || findings) fprintf(stderr, "%s (%zu)\n", e3.what, findings);
        FUZZ_MUST(st == GG_OK && findings == 0);
    }
    room_remove("hashes.tsv");
}

static void keys(input *in)
{
    static const char *const sets[] = { "general.name=str:a longer name than the one before",
                                        "general.name=str:x", "fuzz.list=u16[]:1,2,3",
                                        "general.alignment=u32:64" };
    static const char *const renames[] = { "general.name=general.title" };
    static const char *const deletes[] = { "llama.context_length" };
    gg_error e = GG_ERROR_INIT;
    gg_key_edits edits = { .sets = { &sets[in->c[WAY] % 4], 1 } };
    if (in->c[WAY] & 0x10) edits.renames = (gg_texts){ renames, 1 };
    if (in->c[WAY] & 0x20) edits.deletes = (gg_texts){ deletes, 1 };
    gg_keys_report r = { 0 };
    size_t count = room_count();
    if (in->c[MORE] & 1) {
        gg_source *own = room_open("in.gguf");
        FUZZ_MUST(own);
        edits.in_place = true;
        gg_status st = gg_keys_write(own, &edits, NULL, &room_run, &r, &e);
        gg_source_close(own);
        FUZZ_MUST(room_count() == count && (st == GG_OK || e.what[0]));
        if (st != GG_OK || r.same) FUZZ_MUST(room_is("in.gguf", in->bytes, in->n));
        gg_source *again = room_open("in.gguf");
        FUZZ_MUST(again && gg_source_count(again) == gg_source_count(in->s));
        gg_source_close(again);
    } else {
        gg_status st = gg_keys_write(in->s, &edits, room("out.gguf"), &room_run, &r, &e);
        room_settle(st, &e, "out.gguf", count);
    }
}

static void write_model(input *in)
{
    gg_error e = GG_ERROR_INIT;
    float values[64] = { 1, -2, 3.5f };
    uint8_t bytes[16] = { 0 };
    gg_override list[2] = { { .name = "added",
                              .add = true,
                              .dtype = gg_dtype_get(GG_I8),
                              .n_dims = 1,
                              .dims = { 16 },
                              .bytes = bytes,
                              .size = 16 },
                            { .name = "blk.0.attn_norm.weight",
                              .dtype = gg_dtype_get(GG_F32),
                              .n_dims = 1,
                              .dims = { 64 },
                              .bytes = values,
                              .size = sizeof values } };
    size_t count = room_count(), n = in->c[WAY] % 3;
    gg_write_options o = { .overrides = list, .n_overrides = n };
    gg_status st = gg_write_model(in->s, &o, room("out.gguf"), &room_run, NULL, &e);
    if (st == GG_OK && n == 0 && !(in->c[MORE] & 1))
        FUZZ_MUST(room_is("out.gguf", in->bytes, in->n));
    room_settle(st, &e, "out.gguf", count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const verbs[])(input *) = { extract_and_assemble,
                                              stream,
                                              assemble_types,
                                              assemble_shards,
                                              stack,
                                              measure,
                                              compare,
                                              purify,
                                              check,
                                              keys,
                                              write_model };
    uint8_t c[CHOICES];
    if (!room_has("fixed.gguf")) room_copy("tests/fuzz/seeds/model/base.gguf", "fixed.gguf");
    size_t n = room_choices(data, size, c, sizeof c), verb = c[VERB] % 11;
    room_put("in.gguf", data, n);
    input in = { data, n, c, room_open("in.gguf") };
    if (in.s || verbs[verb] == check) verbs[verb](&in);
    gg_source_close(in.s);
    room_remove("in.gguf");
    FUZZ_MUST(room_count() == 1);
    return 0;
}
