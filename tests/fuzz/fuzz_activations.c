/* fuzz_activations.c - any bytes as activations, which organ-probe writes: as the samples of a
 * merge by regression, of which all values must be finite, and as an importance matrix. */
#include "merge_rows.h"
#include "room.h"

#include "organ/gg_check.h"
#include "organ/imatrix.h"

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/activations", "tests/fuzz/seeds/imatrix",
                                   NULL };

enum { WAY, CHOICES };

static gg_source *models[2], *sound;

static void close_models(void)
{
    gg_source_close(models[0]);
    gg_source_close(models[1]);
    gg_source_close(sound);
}

static void prepare(void)
{
    room_copy("tests/fuzz/seeds/model/base.gguf", "base.gguf");
    room_copy("tests/fuzz/seeds/model/donor.gguf", "donor.gguf");
    room_copy("tests/fuzz/seeds/activations/two.gguf", "sound.gguf");
    models[0] = room_open("base.gguf");
    models[1] = room_open("donor.gguf");
    sound = room_open("sound.gguf");
    FUZZ_MUST(models[0] && models[1] && sound);
    atexit(close_models);
}

static gg_status finding(void *ctx, const gg_finding *f, gg_error *e)
{
    (void)ctx, (void)e;
    FUZZ_MUST(strcmp(f->rule, "nan") != 0 && strcmp(f->rule, "infinite") != 0);
    return GG_OK;
}

/* The merge of a list of models, on a number of threads. */
static gg_status merge(void *ctx, const gg_run *run, const char *output, gg_error *e)
{
    gg_merge_options o = { .method = "regmean", .no_hash = true };
    const gg_merge_models *m = ctx;
    gg_merge_report r = { 0 };
    if (m->base) o.method = "regmean_iso";
    return gg_merge(m, &o, output, run, &r, e);
}

static void merge_by(gg_source *activations, const uint8_t *c, size_t size)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    gg_merge_model list[2] = { { .source = models[0], .activations = activations },
                               { .source = models[1],
                                 .activations = c[WAY] & 1 ? activations : sound } };
    gg_merge_models m = { .list = list, .n = 2, .base = c[WAY] & 2 ? models[0] : NULL };
    gg_check_options check = { .data = true, .row = finding };
    gg_check_report r = { 0 };
    gg_status st = merge(&m, &room_run, room("out.gguf"), &e);
    if (st == GG_OK) {
        FUZZ_MUST(gg_check_model(room("out.gguf"), &check, &room_run, &r, &e2) == GG_OK);
        room_repeat(size, merge, &m);
    }
    room_settle(st, &e, "out.gguf", 4);
}

static void read_matrix(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_imatrix *im = NULL;
    if (gg_imatrix_open(room("in.gguf"), &im, &e) != GG_OK) {
        FUZZ_MUST(!im && e.what[0]);
        return;
    }
    for (size_t i = 0; i < gg_source_count(models[0]); i++) {
        gg_importance x;
        gg_error e2 = GG_ERROR_INIT;
        if (gg_imatrix_read(im, gg_source_tensor(models[0], i), &x, &e2) == GG_OK)
            gg_importance_free(&x);
        else FUZZ_MUST(e2.what[0]);
    }
    gg_imatrix_close(im);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t c[CHOICES];
    if (!sound) prepare();
    size_t n = room_choices(data, size, c, sizeof c);
    room_put("in.gguf", data, n);
    gg_source *in = room_open("in.gguf");
    if (in) merge_by(in, c, size);
    gg_source_close(in);
    read_matrix();
    room_remove("in.gguf");
    FUZZ_MUST(room_count() == 3);
    return 0;
}
