/* tensors.h - small models in memory and on disk, for tests of computed values. */
#ifndef TENSORS_H
#define TENSORS_H

#include "compute/compute.h"

#include "gguf/gguf.h"
#include "quant/quant.h"
#include "t.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#define T_MAYBE __attribute__((unused))

/* ---- small models ----------------------------------------------------------------- */

typedef struct tensor_spec {
    const char *name;
    uint32_t dtype, n_dims;
    uint64_t dims[GG_MAX_DIMS];
    const float *x;
} tensor_spec;

static char dir[] = "/tmp/t_compute.XXXXXX";
static int n_files;

static uint32_t seed = 1;
T_MAYBE static float noise(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(int32_t)seed / 2147483648.0f;
}

T_MAYBE static float *random_values(size_t n)
{
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = noise();
    return x;
}

T_MAYBE static void set_str(gg_meta *m, const char *key, const char *text)
{
    gg_error e = GG_ERROR_INIT;
    gg_meta_set_str(m, key, text, strlen(text), &e);
}

/* Write a GGUF of these tensors and open it. */
T_MAYBE static gg_source *model(const tensor_spec *spec, size_t n, gg_meta *meta)
{
    gg_error e = GG_ERROR_INIT;
    gg_tensor t[8];
    uint64_t data_bytes;
    uint8_t *header;
    size_t header_len;
    char path[64];
    for (size_t i = 0; i < n; i++) {
        t[i] = (gg_tensor){ .name = spec[i].name,
                            .name_len = strlen(spec[i].name),
                            .n_dims = spec[i].n_dims,
                            .dims = GG_DIMS_ONE,
                            .dtype = spec[i].dtype };
        for (uint32_t d = 0; d < spec[i].n_dims; d++) t[i].dims[d] = spec[i].dims[d];
        gg_tensor_extent(t[i].dtype, t[i].n_dims, t[i].dims, &t[i].elements, &t[i].bytes, &e);
    }
    gg_plan_offsets(t, n, 32, &data_bytes, &e);
    gg_header_emit(3, meta, t, n, &header, &header_len, &e);
    snprintf(path, sizeof path, "%s/%d.gguf", dir, n_files++);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    uint64_t start = gg_align_up(header_len, 32);
    T_CHECK(pwrite(fd, header, header_len, 0) == (ssize_t)header_len);
    T_CHECK(ftruncate(fd, (off_t)(start + data_bytes)) == 0);
    for (size_t i = 0; i < n; i++) {
        void *bytes = malloc(t[i].bytes + 1);
        if (t[i].dtype == GG_F32) memcpy(bytes, spec[i].x, t[i].bytes); /* NaN and all */
        else gg_encode(t[i].dtype, spec[i].x, bytes, t[i].elements, t[i].dims[0], NULL, &e);
        T_CHECK(pwrite(fd, bytes, t[i].bytes, (off_t)(start + t[i].offset)) == (ssize_t)t[i].bytes);
        free(bytes);
    }
    close(fd);
    free(header);
    gg_meta_free(meta);
    gg_source *s = NULL;
    gg_source_open(path, &s, &e);
    T_CHECKF(e.status == GG_OK, "%s", e.what);
    return s;
}

T_MAYBE static gg_source *one(uint32_t dtype, uint64_t row, uint64_t rows, const float *x)
{
    gg_meta meta = GG_META_INIT;
    tensor_spec spec = { "blk.1.ffn_up.weight", dtype, 2, { row, rows }, x };
    return model(&spec, 1, &meta);
}

T_MAYBE static gg_input input_of(gg_source *s, size_t i, gg_plan_part *part)
{
    const gg_tensor *t = gg_source_tensor(s, i);
    *part = (gg_plan_part){ s, i, 0, t->bytes, NULL };
    return (gg_input){ t->dtype, part, 1 };
}

T_MAYBE static gg_tensor retyped(const gg_tensor *t, uint32_t dtype)
{
    gg_error e = GG_ERROR_INIT;
    gg_tensor out = *t;
    out.dtype = dtype;
    gg_tensor_extent(dtype, out.n_dims, out.dims, &out.elements, &out.bytes, &e);
    return out;
}

T_MAYBE static void sha_of(const uint8_t *bytes, size_t n, char sha[65])
{
    gg_sha256 h;
    unsigned char digest[32];
    gg_sha256_init(&h);
    gg_sha256_update(&h, bytes, n);
    gg_sha256_final(&h, digest);
    gg_sha256_hex(digest, sha);
}

/* Run a producer at an odd place of a file; the bytes, malloc'd, NULL on failure. It must hash all
 * that it writes, or nothing. */
static bool hashed;
T_MAYBE static uint8_t *produce(gg_producer p, const gg_tensor *t, gg_error *e)
{
    gg_run run = { 0 };
    gg_sha256 h;
    char sha[65], want[65];
    unsigned char digest[32];
    gg_sha256_init(&h);
    char path[64];
    snprintf(path, sizeof path, "%s/out", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    uint8_t *bytes = malloc(t->bytes + 1);
    gg_status st = p.make(p.ctx, &(gg_target){ t, fd, 13, &run, &h }, e);
    bool whole = st == GG_OK && pread(fd, bytes, t->bytes + 1, 13) == (ssize_t)t->bytes;
    close(fd);
    gg_sha256_final(&h, digest);
    gg_sha256_hex(digest, sha);
    sha_of(bytes, whole ? t->bytes : 0, want);
    hashed = h.total > 0;
    T_CHECKF(!whole || !hashed || strcmp(sha, want) == 0, "hash of %s", t->name);
    if (whole) return bytes;
    free(bytes);
    return NULL;
}

T_MAYBE static uint8_t *raw(gg_source *s, size_t i)
{
    gg_error e = GG_ERROR_INIT;
    gg_data d;
    uint8_t *bytes = malloc(gg_source_tensor(s, i)->bytes + 1);
    gg_data_open(s, i, &d, &e);
    gg_data_read(&d, 0, bytes, gg_source_tensor(s, i)->bytes, &e);
    gg_data_close(&d);
    return bytes;
}

T_MAYBE static float *values(gg_source *s, size_t i)
{
    gg_error e = GG_ERROR_INIT;
    const gg_tensor *t = gg_source_tensor(s, i);
    uint8_t *bytes = raw(s, i);
    float *x = malloc((t->elements + 1) * sizeof *x);
    gg_decode(t->dtype, bytes, x, t->elements, &e);
    free(bytes);
    return x;
}

T_MAYBE static void clean_up(void)
{
    char command[80];
    snprintf(command, sizeof command, "rm -r %s", dir);
    T_CHECK(system(command) == 0);
}

T_MAYBE static void set_up(void)
{
    T_CHECK(mkdtemp(dir) != NULL);
}

#endif
