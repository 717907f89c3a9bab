/* lora_read.c - differences of tensors. */
#include "lora_core.h"

#include "base/error.h"
#include "base/parallel.h"
#include "organ/gg_quant.h"
#include "verbs/compute/compute_core.h"

#include <stdlib.h>

#define STEP ((uint64_t)COMPUTE_STEP) /* values per task: whole blocks of every dtype */

typedef struct reading {
    const lora_piece *p;
    float *d;
} reading;

/* Decodes n values of a tensor from the value `first` on, which starts a block. */
static gg_status read_values(gg_source *s, size_t index, uint64_t first, size_t n, float *to,
                             gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(s, index);
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    size_t bytes = n / info->block_elems * info->block_bytes;
    void *raw = malloc(bytes ? bytes : 1);
    gg_data d;
    if (!raw) return gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
    gg_status st = gg_data_open(s, index, &d, err);
    if (st == GG_OK) {
        st = gg_data_read(&d, first / info->block_elems * info->block_bytes, raw, bytes, err);
        gg_data_close(&d);
    }
    if (st == GG_OK) st = gg_decode(t->dtype, raw, to, n, err);
    free(raw);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(s));
}

static gg_status read_step(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)worker;
    const reading *r = ctx;
    const lora_piece *p = r->p;
    uint64_t at = i * STEP;
    size_t n = (size_t)(p->n - at < STEP ? p->n - at : STEP);
    float *d = r->d + at, *base = calloc(n, sizeof *base);
    gg_status st = base ? gg_cancelled(err) : gg_fail(err, GG_ENOMEM, "no memory for values");
    if (st == GG_OK) st = read_values(p->tuned, p->of->tuned, p->first + at, n, d, err);
    if (st == GG_OK) st = read_values(p->base, p->of->base, p->first + at, n, base, err);
    for (size_t k = 0; k < n && st == GG_OK; k++) d[k] -= base[k];
    free(base);
    uint64_t bad = st == GG_OK ? gg_count_bad(d, n) : 0;
    if (bad)
        st = gg_fail(err, GG_EFORMAT, "%llu values of the difference are not finite",
                     (unsigned long long)bad);
    return st;
}

gg_status gg_lora_difference(const lora_piece *p, float *d, unsigned threads, gg_error *err)
{
    reading r = { p, d };
    size_t steps = (size_t)(p->n / STEP + (p->n % STEP != 0));
    gg_status st = gg_parallel(steps, threads, read_step, &r, err);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, p->of->t.name, p->of->t.name_len);
}
