/* fuzz_imatrix.c - any bytes as an importance matrix, in both formats: refused with a reason, or
 * what it gives for the tensors of a model is finite and not negative. */
#include "room.h"

#include "organ/imatrix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/imatrix", NULL };

static gg_source *model;

static void close_model(void)
{
    gg_source_close(model);
}

static void read_one(const gg_imatrix *im, const gg_tensor *t)
{
    gg_error e = GG_ERROR_INIT;
    gg_importance x;
    if (gg_imatrix_read(im, t, &x, &e) != GG_OK) {
        FUZZ_MUST(e.what[0] && !x.mean2 && !x.counts);
        return;
    }
    for (uint64_t i = 0; x.mean2 && i < x.columns * x.matrices; i++)
        FUZZ_MUST(isfinite(x.mean2[i]) && x.mean2[i] >= 0);
    for (uint64_t i = 0; x.counts && i < x.matrices; i++)
        FUZZ_MUST(isfinite(x.counts[i]) && x.counts[i] >= 0);
    FUZZ_MUST(!x.mean2 || x.columns == t->dims[0]);
    gg_importance_free(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const experts[] = { "blk.1.ffn_up.0.weight", "blk.1.ffn_up.7.weight" };
    gg_error e = GG_ERROR_INIT;
    gg_imatrix *im = NULL;
    if (!model) {
        FUZZ_MUST(gg_source_open("tests/fuzz/seeds/model/base.gguf", &model, &e) == GG_OK);
        atexit(close_model);
    }
    room_put("in.bin", data, size);
    if (gg_imatrix_open(room("in.bin"), &im, &e) != GG_OK) {
        FUZZ_MUST(!im && e.what[0] && e.file[0]);
        return 0;
    }
    gg_imatrix_info info = gg_imatrix_info_of(im);
    FUZZ_MUST(info.entries > 0 && info.dataset);
    for (size_t i = 0; i < gg_source_count(model); i++) read_one(im, gg_source_tensor(model, i));
    for (size_t i = 0; i < 2; i++) {
        gg_tensor t = { .name = experts[i], .name_len = 21, .n_dims = 2, .dims = { 32, 2, 1, 1 } };
        read_one(im, &t);
    }
    gg_imatrix_close(im);
    return 0;
}
