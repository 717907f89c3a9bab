/* t_write.c - models written with tensors and keys of the program. Other tensors keep their
 * bytes, overridden ones have the program's values, and mistakes leave nothing behind. */
#include "files.h"

#include "gguf/gguf.h"
#include "organ/gg_write.h"
#include "organ/source_layout.h"

#include <fcntl.h>
#include <math.h>

#define VERSE "tests/data/lab/lab-verse-q4_k_m.gguf"
#define GATE "blk.1.ffn_gate.weight"

static gg_source *open_source(const char *path)
{
    gg_error e = GG_ERROR_INIT;
    gg_source *s = NULL;
    T_EQ(gg_source_open(path, &s, &e), GG_OK);
    if (!s) exit(1);
    return s;
}

static bool same_file(const char *a, const char *b)
{
    size_t n, m;
    char *x = slurp(a, &n), *y = slurp(b, &m);
    bool same = n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

static char *data_of(gg_source *s, const char *name, size_t *n)
{
    gg_error e = GG_ERROR_INIT;
    gg_data d;
    size_t i = gg_source_find(s, name, strlen(name));
    T_CHECKF(i != SIZE_MAX, "%s", name);
    if (i == SIZE_MAX) exit(1);
    *n = (size_t)gg_source_tensor(s, i)->bytes;
    char *bytes = malloc(*n + 1);
    if (!bytes || gg_data_open(s, i, &d, &e) != GG_OK) exit(1);
    T_EQ(gg_data_read(&d, 0, bytes, *n, &e), GG_OK);
    gg_data_close(&d);
    return bytes;
}

/* Every tensor of a has its bytes and type in b too, but for one. */
static void same_but(gg_source *a, gg_source *b, const char *name)
{
    for (size_t i = 0; i < gg_source_count(a); i++) {
        const gg_tensor *t = gg_source_tensor(a, i), *u = gg_source_tensor(b, i);
        T_STR(t->name, u->name);
        if (strcmp(t->name, name) == 0) continue;
        size_t n, m;
        char *x = data_of(a, t->name, &n), *y = data_of(b, t->name, &m);
        T_CHECKF(t->dtype == u->dtype && n == m && memcmp(x, y, n) == 0, "%s", t->name);
        free(x);
        free(y);
    }
}

static gg_status write_with(gg_source *base, const gg_override *v, size_t n, const char *path,
                            const gg_run *run, gg_error *e)
{
    gg_write_options o = { .overrides = v, .n_overrides = n };
    return gg_write_model(base, &o, path, run, NULL, e);
}

/* ---- copies ------------------------------------------------------------------------ */

static void copy_of(const char *stem)
{
    char path[256];
    snprintf(path, sizeof path, "tests/data/gguf/%s.gguf", stem);
    gg_error e = GG_ERROR_INIT;
    gg_source *s = open_source(path);
    const char *out = scratch("copy.gguf");
    gg_write_report r;
    gg_run run = { .force = true };
    bool one = gg_source_model(s)->n_files == 1;
    T_CHECKF(gg_write_model(s, NULL, out, &run, &r, &e) == GG_OK, "%s: %s", stem, e.what);
    if (one) T_CHECKF(same_file(path, out), "%s is another after a plain copy", stem);
    struct stat st;
    T_CHECK(stat(out, &st) == 0 && (uint64_t)st.st_size == r.bytes);
    gg_source_close(s);
}

static void nothing_overridden(void)
{
    T_CHECK(each_valid(copy_of) > 5);
}

static void from_a_pipe(void)
{
    gg_error e = GG_ERROR_INIT;
    int keep = dup(0), fd = open(VERSE, O_RDONLY), ends[2];
    if (fd < 0 || pipe(ends) != 0) exit(1);
    char command[128];
    snprintf(command, sizeof command, "cat %s >&%d &", VERSE, ends[1]);
    T_EQ(system(command), 0);
    close(ends[1]);
    dup2(ends[0], 0);
    gg_source *s = open_source("-");
    static const float ones[4096];
    const gg_tensor *t = NULL;
    for (size_t i = 0; i < gg_source_count(s); i++)
        if (gg_source_tensor(s, i)->n_dims == 1) t = gg_source_tensor(s, i);
    T_CHECK(t && t->bytes <= sizeof ones);
    if (!t) exit(1);
    gg_override v = { .name = t->name, .bytes = ones, .size = t->bytes };
    char name[128];
    snprintf(name, sizeof name, "%s", t->name);
    T_CHECKF(write_with(s, &v, 1, scratch("piped.gguf"), NULL, &e) == GG_OK, "%s", e.what);
    gg_source_close(s);
    dup2(keep, 0);
    close(keep);
    close(ends[0]);
    close(fd);
    gg_source *a = open_source(VERSE), *b = open_source(scratch("piped.gguf"));
    same_but(a, b, name);
    size_t n;
    char *x = data_of(b, name, &n);
    T_CHECK(memcmp(x, ones, n) == 0);
    free(x);
    gg_source_close(a);
    gg_source_close(b);
}

/* ---- values of the program ---------------------------------------------------------- */

typedef struct rows {
    uint64_t row, next, most; /* values in a row; the row that must come; most at a time */
    float add;
} rows;

static gg_status give_rows(void *ctx, uint64_t first, size_t n, float *out, gg_error *err)
{
    rows *r = ctx;
    (void)err;
    T_EQ(first, r->next);
    T_CHECK(n >= 1 && (n == 1 || n * r->row * sizeof(float) <= 1 << 20));
    r->next += n;
    if (n > r->most) r->most = n;
    for (size_t i = 0; i < n * r->row; i++)
        out[i] = r->add + (float)((first * r->row + i) % 97) / 97.0f;
    return GG_OK;
}

static void values_are_encoded(void)
{
    static const uint32_t dtypes[] = { GG_F32, GG_F16, GG_Q8_0, GG_Q4_K };
    gg_source *a = open_source(VERSE);
    const gg_tensor *was = gg_source_tensor(a, gg_source_find(a, GATE, strlen(GATE)));
    for (size_t k = 0; k < sizeof dtypes / sizeof dtypes[0]; k++) {
        gg_error e = GG_ERROR_INIT;
        rows r = { .row = was->dims[0], .add = 1 };
        gg_override v = { .name = GATE, .read_rows = give_rows, .ctx = &r };
        v.dtype = gg_dtype_get(dtypes[k]);
        gg_run run = { .force = true, .threads = 1 + (unsigned)k };
        T_CHECKF(write_with(a, &v, 1, scratch("values.gguf"), &run, &e) == GG_OK, "%s", e.what);
        T_EQ(r.next, was->elements / was->dims[0]);
        gg_source *b = open_source(scratch("values.gguf"));
        same_but(a, b, GATE);
        const gg_tensor *t = gg_source_tensor(b, gg_source_find(b, GATE, strlen(GATE)));
        T_EQ(t->dtype, dtypes[k]);
        size_t n;
        char *x = data_of(b, GATE, &n);
        float *y = malloc(t->elements * sizeof *y);
        T_EQ(gg_decode(t->dtype, x, y, t->elements, &e), GG_OK);
        for (size_t i = 0; i < t->elements; i++)
            if (fabsf(y[i] - 1.0f - (float)(i % 97) / 97.0f) > 0.1f) {
                T_CHECKF(false, "value %zu of %s is %g", i, v.dtype->name, (double)y[i]);
                break;
            }
        free(x);
        free(y);
        gg_source_close(b);
    }
    gg_source_close(a);
}

static gg_status give_bytes(void *ctx, uint64_t offset, void *out, size_t n, gg_error *err)
{
    uint64_t *next = ctx;
    (void)err;
    T_EQ(offset, *next);
    T_CHECK(n > 0 && n <= 1 << 20);
    for (size_t i = 0; i < n; i++) ((unsigned char *)out)[i] = (unsigned char)((offset + i) % 251);
    *next += n;
    return GG_OK;
}

/* A model without a base, larger than the pieces that are requested at a time. */
static void from_nothing(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_meta meta = GG_META_INIT;
    gg_meta_set_str(&meta, "general.architecture", "toy", 3, &e);
    uint64_t next = 0;
    rows r = { .row = 300 };
    static const unsigned char raw[34] = { 1, 2, 3 };
    gg_override v[] = {
        { .name = "big",
          .add = true,
          .n_dims = 3,
          .dims = { 301, 1000, 2 },
          .read_bytes = give_bytes,
          .ctx = &next },
        { .name = "rows",
          .add = true,
          .n_dims = 2,
          .dims = { 300, 2001 },
          .read_rows = give_rows,
          .ctx = &r },
        { .name = "empty",
          .add = true,
          .n_dims = 2,
          .dims = { 0, 5 },
          .read_rows = give_rows,
          .ctx = &r },
        { .name = "raw",
          .add = true,
          .n_dims = 1,
          .dims = { 32 },
          .bytes = raw,
          .size = sizeof raw },
    };
    v[0].dtype = v[1].dtype = v[2].dtype = gg_dtype_get(GG_F32);
    v[3].dtype = gg_dtype_get(GG_Q8_0);
    gg_write_options o = { .overrides = v, .n_overrides = 4, .meta = &meta };
    T_CHECKF(gg_write_model(NULL, &o, scratch("new.gguf"), NULL, NULL, &e) == GG_OK, "%s", e.what);
    T_EQ(next, (uint64_t)301 * 2000 * 4);
    T_EQ(r.next, 2001);
    T_CHECK(r.most > 1);
    gg_source *s = open_source(scratch("new.gguf"));
    T_EQ(gg_source_count(s), 4);
    T_EQ(gg_source_meta(s)->n, 1);
    size_t n;
    char *x = data_of(s, "big", &n);
    T_EQ(n, (size_t)301 * 2000 * 4);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)x[i] != i % 251) {
            T_CHECKF(false, "byte %zu", i);
            break;
        }
    free(x);
    x = data_of(s, "raw", &n);
    T_CHECK(n == sizeof raw && memcmp(x, raw, n) == 0);
    free(x);
    gg_source_close(s);
    gg_meta_free(&meta);
}

/* ---- keys --------------------------------------------------------------------------- */

static uint64_t number(const gg_source *s, const char *key)
{
    uint64_t v = UINT64_MAX;
    gg_kv_u64(gg_meta_find(gg_source_meta(s), key), &v);
    return v;
}

static void keys(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_source *a = open_source(VERSE), *b;
    gg_meta meta = GG_META_INIT;
    T_EQ(gg_meta_copy(&meta, gg_source_meta(a), &e), GG_OK);
    T_EQ(gg_meta_set_str(&meta, "general.name", "mine", 4, &e), GG_OK);
    T_EQ(gg_meta_set_u32(&meta, "general.file_type", 99, &e), GG_OK);
    rows r = { .row = 0 };
    size_t n = gg_source_count(a);
    gg_override *all = calloc(n, sizeof *all);
    rows *rs = calloc(n, sizeof *rs);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const gg_tensor *t = gg_source_tensor(a, i);
        if (t->n_dims < 2) continue;
        rs[k] = (rows){ .row = t->dims[0] };
        all[k] = (gg_override){ .name = t->name, .dtype = gg_dtype_get(GG_F16) };
        all[k].read_rows = give_rows;
        all[k].ctx = &rs[k];
        k++;
    }
    (void)r;
    T_EQ(number(a, "general.file_type"), 15);
    T_EQ(write_with(a, all, k, scratch("follow.gguf"), NULL, &e), GG_OK);
    b = open_source(scratch("follow.gguf"));
    T_EQ(number(b, "general.file_type"), 1);
    T_CHECK(!gg_meta_find(gg_source_meta(b), "general.quantization_version"));
    gg_source_close(b);
    for (size_t i = 0; i < k; i++) rs[i].next = 0;
    gg_write_options o = { .overrides = all, .n_overrides = k, .meta = &meta };
    T_EQ(gg_write_model(a, &o, scratch("given.gguf"), NULL, NULL, &e), GG_OK);
    b = open_source(scratch("given.gguf"));
    T_EQ(number(b, "general.file_type"), 99); /* the program's list is the last word */
    T_EQ(gg_source_meta(b)->n, meta.n);
    gg_source_close(b);
    o.n_overrides = 0;
    T_EQ(gg_write_model(a, &o, scratch("name.gguf"), NULL, NULL, &e), GG_OK);
    b = open_source(scratch("name.gguf"));
    same_but(a, b, "");
    const char *text;
    size_t len;
    T_CHECK(gg_kv_str(gg_meta_find(gg_source_meta(b), "general.name"), &text, &len) && len == 4 &&
            memcmp(text, "mine", 4) == 0);
    gg_source_close(b);
    gg_source_close(a);
    gg_meta_free(&meta);
    free(all);
    free(rs);
}

/* ---- mistakes ------------------------------------------------------------------------ */

static gg_status give_up(void *ctx, uint64_t first, size_t n, float *out, gg_error *err)
{
    (void)first, (void)n, (void)out;
    if (!ctx) return GG_EIO;
    return gg_fail(err, GG_NO, "%s", (const char *)ctx);
}

static gg_status give_nan(void *ctx, uint64_t first, size_t n, float *out, gg_error *err)
{
    (void)first, (void)err;
    for (size_t i = 0; i < n * *(size_t *)ctx; i++) out[i] = NAN;
    return GG_OK;
}

static void refused(gg_source *base, const gg_override *v, size_t n, gg_status want,
                    const char *what, const char *tensor)
{
    gg_error e = GG_ERROR_INIT;
    size_t names = count_names(scratch_folder);
    T_EQ(write_with(base, v, n, scratch("refused.gguf"), NULL, &e), want);
    T_CHECKF(strstr(e.what, what), "no '%s' in: %s", what, e.what);
    T_STR(e.tensor, tensor);
    T_EQ(count_names(scratch_folder), names);
}

static void mistakes(void)
{
    (void)scratch("");
    gg_source *a = open_source(VERSE);
    size_t row = gg_source_tensor(a, gg_source_find(a, GATE, strlen(GATE)))->dims[0];
    static const char buf[8];
    char why[] = "no values today";
    const gg_dtype_info *q8 = gg_dtype_get(GG_Q8_0), *iq = gg_dtype_get(GG_IQ2_XXS);
    gg_override none = { .name = "blk.9.none", .bytes = buf, .size = 8 };
    refused(a, &none, 1, GG_EUSAGE, "has no tensor of this name", "blk.9.none");
    gg_override there = { .name = GATE,
                          .add = true,
                          .dtype = q8,
                          .n_dims = 1,
                          .dims = { 32 },
                          .bytes = buf,
                          .size = 34 };
    refused(a, &there, 1, GG_EUSAGE, "has a tensor of this name", GATE);
    gg_override size = { .name = GATE, .bytes = buf, .size = 8 };
    refused(a, &size, 1, GG_EUSAGE, "its buffer has 8 bytes", GATE);
    size.size = gg_source_tensor(a, gg_source_find(a, GATE, strlen(GATE)))->bytes + 1;
    refused(a, &size, 1, GG_EUSAGE, "its buffer has", GATE);
    gg_override empty = { .name = GATE };
    refused(a, &empty, 1, GG_EUSAGE, "one buffer or one callback", GATE);
    gg_override both = { .name = GATE, .bytes = buf, .read_rows = give_up };
    refused(a, &both, 1, GG_EUSAGE, "one buffer or one callback", GATE);
    gg_override twice[2] = { { .name = GATE, .read_rows = give_up },
                             { .name = GATE, .read_rows = give_up } };
    refused(a, twice, 2, GG_EUSAGE, "given twice", GATE);
    gg_override shapeless = { .name = "x", .add = true, .bytes = buf, .size = 8 };
    refused(a, &shapeless, 1, GG_EUSAGE, "needs a dtype and dims", "x");
    gg_override codec = { .name = GATE, .dtype = iq, .read_rows = give_up };
    refused(a, &codec, 1, GG_EUNSUPPORTED, "IQ2_XXS cannot be encoded", GATE);
    gg_override dims = {
        .name = GATE, .dtype = q8, .n_dims = 2, .dims = { 33, 2 }, .read_rows = give_up
    };
    refused(a, &dims, 1, GG_EFORMAT, "", GATE);
    gg_override nine = { .name = GATE, .n_dims = 9, .read_rows = give_up };
    refused(a, &nine, 1, GG_EUSAGE, "at most 8", GATE);
    gg_override silent = { .name = GATE, .read_rows = give_up };
    refused(a, &silent, 1, GG_EIO, "failed to provide its values", GATE);
    gg_override says = { .name = GATE, .read_rows = give_up, .ctx = why };
    refused(a, &says, 1, GG_NO, why, GATE);
    gg_override nan = { .name = GATE, .read_rows = give_nan, .ctx = &row };
    refused(a, &nan, 1, GG_EFORMAT, "", GATE);
    gg_override nameless = { .bytes = buf };
    refused(a, &nameless, 1, GG_EUSAGE, "has no name", "");
    refused(NULL, NULL, 0, GG_EUSAGE, "needs keys", "");
    gg_source_close(a);
}

static const t_case cases[] = {
    { "nothing overridden", nothing_overridden },
    { "from a pipe", from_a_pipe },
    { "values are encoded", values_are_encoded },
    { "from nothing", from_nothing },
    { "keys", keys },
    { "mistakes", mistakes },
};

T_MAIN(cases)
