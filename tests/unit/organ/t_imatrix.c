/* Importance matrices in both formats, whole and broken. */
#include "files.h"
#include "organ/imatrix.h"
#include "organ/tensor_names.h"

#include <math.h>

#define GGUF "tests/data/lab/lab-verse.imatrix.gguf"
#define OLD "tests/data/lab/lab-verse.imatrix.dat"

static gg_tensor matrix(const char *name, uint64_t columns, uint64_t rows, uint64_t experts)
{
    size_t len = strlen(name);
    gg_tensor t = { .name = name, .name_len = len, .n_dims = 3, .a = gg_anatomy_of(name, len) };
    t.dims[0] = columns, t.dims[1] = rows, t.dims[2] = experts, t.dims[3] = 1;
    return t;
}

static gg_imatrix *opened(const char *path)
{
    gg_error e = GG_ERROR_INIT;
    gg_imatrix *im = NULL;
    T_CHECKF(gg_imatrix_open(path, &im, &e) == GG_OK, "%s: %s", path, e.what);
    if (!im) exit(1);
    return im;
}

/* Both files hold the same sums; the older one rounds them once more. */
static void formats_agree(void)
{
    gg_imatrix *a = opened(GGUF), *b = opened(OLD);
    gg_imatrix_info info = gg_imatrix_info_of(b), first = gg_imatrix_info_of(a);
    T_EQ(first.entries, 29);
    T_EQ(info.entries, 29);
    T_EQ(info.chunks, 36);
    T_EQ(first.chunks, 36);
    T_CHECKF(strcmp(info.dataset, "calib-verse.txt") == 0, "%s", info.dataset);
    T_CHECKF(strcmp(first.dataset, "calib-verse.txt") == 0, "%s", first.dataset);
    T_CHECK(strcmp(info.file, OLD) == 0);
    const char *names[] = { "blk.0.attn_q.weight", "blk.3.ffn_down.weight", "output.weight" };
    for (size_t k = 0; k < 3; k++) {
        gg_error e = GG_ERROR_INIT;
        gg_tensor t = matrix(names[k], k == 1 ? 512 : 256, 7, 1);
        gg_importance x, y;
        T_CHECKF(gg_imatrix_read(a, &t, &x, &e) == GG_OK && x.mean2, "%s", e.what);
        T_CHECKF(gg_imatrix_read(b, &t, &y, &e) == GG_OK && y.mean2, "%s", e.what);
        if (!x.mean2 || !y.mean2) exit(1);
        T_EQ(x.matrices, 1);
        T_EQ(x.counts[0], 6840.0f);
        T_CHECK(!y.counts);
        for (uint64_t j = 0; j < t.dims[0]; j++)
            T_CHECKF(fabsf(x.mean2[j] - y.mean2[j]) <= 1e-6f * x.mean2[j], "%s %d: %g, %g",
                     names[k], (int)j, (double)x.mean2[j], (double)y.mean2[j]);
        gg_importance_free(&x);
        gg_importance_free(&y);
    }
    gg_imatrix_close(a);
    gg_imatrix_close(b);
}

static void shapes(void)
{
    const char *paths[] = { GGUF, OLD };
    for (size_t k = 0; k < 2; k++) {
        gg_imatrix *im = opened(paths[k]);
        gg_error e = GG_ERROR_INIT;
        gg_importance x;
        gg_tensor none = matrix("token_embd.weight", 256, 7, 1);
        T_EQ(gg_imatrix_read(im, &none, &x, &e), GG_OK);
        T_CHECK(!x.mean2);
        gg_tensor wide = matrix("blk.0.attn_q.weight", 512, 7, 1);
        T_EQ(gg_imatrix_read(im, &wide, &x, &e), GG_NO);
        T_CHECKF(strcmp(e.tensor, "blk.0.attn_q.weight") == 0, "%s", e.tensor);
        gg_tensor deep = matrix("blk.0.attn_q.weight", 256, 7, 2);
        e = (gg_error)GG_ERROR_INIT;
        T_EQ(gg_imatrix_read(im, &deep, &x, &e), GG_NO);
        gg_tensor half = matrix("blk.0.attn_q.weight", 128, 7, 2);
        e = (gg_error)GG_ERROR_INIT;
        T_EQ(gg_imatrix_read(im, &half, &x, &e), k == 0 ? GG_NO : GG_OK);
        gg_importance_free(&x);
        gg_imatrix_close(im);
    }
}

static void put32(uint8_t **p, uint32_t v)
{
    memcpy(*p, &v, 4);
    *p += 4;
}

/* One entry of the older format: a stack of three experts with two columns each. */
static size_t stack_file(uint8_t *bytes, const float values[6], uint32_t calls)
{
    const char *name = "blk.1.ffn_up_exps.weight";
    uint8_t *p = bytes;
    put32(&p, 1);
    put32(&p, (uint32_t)strlen(name));
    memcpy(p, name, strlen(name));
    p += strlen(name);
    put32(&p, calls);
    put32(&p, 6);
    memcpy(p, values, 24);
    return (size_t)(p + 24 - bytes);
}

static void experts(void)
{
    const float v[6] = { 2, 4, 6, 8, 10, 12 };
    uint8_t bytes[256];
    gg_error e = GG_ERROR_INIT;
    gg_importance x;
    spew(scratch("t.dat"), bytes, stack_file(bytes, v, 2));
    gg_imatrix *im = opened(scratch("t.dat"));
    T_CHECK(gg_imatrix_info_of(im).chunks == 0 && *gg_imatrix_info_of(im).dataset == '\0');
    gg_tensor stack = matrix("blk.1.ffn_up_exps.weight", 2, 5, 3);
    T_EQ(gg_imatrix_read(im, &stack, &x, &e), GG_OK);
    for (int j = 0; j < 6; j++) T_EQ(x.mean2[j], v[j] / 2);
    gg_importance_free(&x);
    gg_tensor one = matrix("blk.1.ffn_up.2.weight", 2, 5, 1);
    T_EQ(gg_imatrix_read(im, &one, &x, &e), GG_OK);
    T_CHECK(x.mean2 && x.mean2[0] == 5 && x.mean2[1] == 6);
    gg_importance_free(&x);
    gg_tensor more = matrix("blk.1.ffn_up.3.weight", 2, 5, 1);
    T_EQ(gg_imatrix_read(im, &more, &x, &e), GG_NO);
    gg_imatrix_close(im);
    spew(scratch("t.dat"), bytes, stack_file(bytes, v, 0));
    im = opened(scratch("t.dat"));
    e = (gg_error)GG_ERROR_INIT;
    T_EQ(gg_imatrix_read(im, &one, &x, &e), GG_OK);
    T_CHECK(x.mean2 && x.mean2[0] == 1 && x.mean2[1] == 1); /* an expert without input */
    gg_importance_free(&x);
    gg_imatrix_close(im);
    remove(scratch("t.dat"));
}

static void bad_values(void)
{
    const float wrong[3] = { -1, NAN, INFINITY };
    for (size_t k = 0; k < 3; k++) {
        float v[6] = { 2, 4, 6, 8, 10, 12 };
        uint8_t bytes[256];
        gg_error e = GG_ERROR_INIT;
        gg_importance x;
        v[3] = wrong[k];
        spew(scratch("t.dat"), bytes, stack_file(bytes, v, 2));
        gg_imatrix *im = opened(scratch("t.dat"));
        gg_tensor stack = matrix("blk.1.ffn_up_exps.weight", 2, 5, 3);
        T_EQ(gg_imatrix_read(im, &stack, &x, &e), GG_EFORMAT);
        T_CHECK(!x.mean2);
        gg_imatrix_close(im);
    }
    remove(scratch("t.dat"));
}

/* Counts so small that the means are not finite. */
static void tiny_counts(void)
{
    const float count = 6840, tiny = 1e-38f;
    size_t n, changed = 0;
    gg_error e = GG_ERROR_INIT;
    gg_importance x;
    char *bytes = slurp(GGUF, &n);
    for (size_t at = n / 4 * 4; at >= 4; at -= 4)
        if (memcmp(bytes + at - 4, &count, 4) == 0) {
            memcpy(bytes + at - 4, &tiny, 4);
            changed++;
        }
    T_CHECK(changed >= 29);
    spew(scratch("t.gguf"), bytes, n);
    free(bytes);
    gg_imatrix *im = opened(scratch("t.gguf"));
    gg_tensor t = matrix("blk.0.attn_q.weight", 256, 7, 1);
    T_EQ(gg_imatrix_read(im, &t, &x, &e), GG_EFORMAT);
    T_CHECK(!x.mean2);
    gg_imatrix_close(im);
    remove(scratch("t.gguf"));
}

static gg_status verdict(const void *bytes, size_t n)
{
    gg_error e = GG_ERROR_INIT;
    gg_imatrix *im = NULL;
    spew(scratch("t.bad"), bytes, n);
    gg_status st = gg_imatrix_open(scratch("t.bad"), &im, &e);
    gg_imatrix_close(im);
    remove(scratch("t.bad"));
    return st;
}

static void broken_files(void)
{
    size_t n;
    char *bytes = slurp(OLD, &n);
    T_EQ(verdict(bytes, n), GG_OK);
    for (size_t cut = 0; cut < 1200; cut += cut < 60 ? 1 : 97)
        T_CHECKF(verdict(bytes, cut) == GG_EFORMAT, "%d bytes", (int)cut);
    T_EQ(verdict(bytes, n - 1), GG_EFORMAT);
    T_EQ(verdict(bytes, n - 23), GG_OK); /* without chunks and text, as old files are */
    char *longer = calloc(1, n + 1);
    memcpy(longer, bytes, n);
    T_EQ(verdict(longer, n + 1), GG_EFORMAT);
    longer[0] = 28; /* one entry less: more bytes than the end of a file has */
    T_EQ(verdict(longer, n), GG_EFORMAT);
    memset(longer, 0, n);
    T_EQ(verdict(longer, n), GG_EFORMAT);
    free(longer);
    free(bytes);
    bytes = slurp("tests/data/lab/lab-lora-code.gguf", &n);
    T_EQ(verdict(bytes, n), GG_EFORMAT); /* a GGUF, but no importance matrix */
    free(bytes);
    gg_error e = GG_ERROR_INIT;
    gg_imatrix *im = NULL;
    T_EQ(gg_imatrix_open(scratch("none"), &im, &e), GG_EIO);
    T_CHECK(!im);
}

static const t_case cases[] = {
    { "both formats hold the same", formats_agree },
    { "shapes that do not match", shapes },
    { "experts of a stack", experts },
    { "values that are negative or not finite", bad_values },
    { "counts that are too small", tiny_counts },
    { "broken files", broken_files },
};

T_MAIN(cases)
