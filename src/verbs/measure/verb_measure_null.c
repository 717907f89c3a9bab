/* verb_measure_null.c - computes theta for Gaussian noise stored in a dtype, once for each dtype
 * and count. The first thread that needs a value computes it, and the others go on meanwhile. */
#include "measure_core.h"

#include "base/error.h"
#include "numeric/numeric.h"
#include "quant/quant.h"

#include <stdlib.h>
#include <string.h>

struct null_entry {
    struct null_entry *next;
    uint64_t count;
    uint32_t dtype;
    bool done;
    double theta;
};

void gg_measure_null_init(measure_null *m)
{
    pthread_mutex_init(&m->lock, NULL);
    m->list = NULL;
}

void gg_measure_null_free(measure_null *m)
{
    while (m->list) {
        struct null_entry *next = m->list->next;
        free(m->list);
        m->list = next;
    }
    pthread_mutex_destroy(&m->lock);
}

#define NULL_PIECE 65536 /* values encoded at once; whole blocks of every dtype */

/* Encodes noise in the dtype and decodes it again. Types that require an importance matrix get a
 * uniform one, in which all columns have the same weight. */
static gg_status store(uint32_t dtype, float *x, size_t n, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    bool blind = gg_encode_needs_imatrix(dtype);
    if (!blind && !gg_can_encode(dtype)) return GG_OK;
    uint8_t *blocks = malloc(NULL_PIECE / info->block_elems * info->block_bytes);
    if (!blocks) return gg_fail(err, GG_ENOMEM, "no memory for the null model");
    float ones[256];
    for (size_t i = 0; i < 256; i++) ones[i] = 1;
    gg_status st = GG_OK;
    for (size_t at = 0; at < n && st == GG_OK; at += NULL_PIECE) {
        size_t m = n - at < NULL_PIECE ? n - at : NULL_PIECE;
        st = gg_encode(dtype, x + at, blocks, m, info->block_elems, blind ? ones : NULL, err);
        if (st == GG_OK) st = gg_decode(dtype, blocks, x + at, m, err);
    }
    free(blocks);
    return st;
}

static gg_status measure_noise(measure_many *many, uint32_t dtype, float *x, size_t count,
                               gg_measure *out, gg_error *err)
{
    size_t block = gg_dtype_get(dtype)->block_elems;
    gg_gauss_fill(x, (count + block - 1) / block * block, GG_NULL_SEED);
    gg_status st = store(dtype, x, (count + block - 1) / block * block, err);
    if (st != GG_OK || count >= GG_MEASURE_BIG)
        return st == GG_OK ? gg_measure_array(many, x, count, out, err) : st;
    void *scratch = malloc(gg_measure_scratch(count));
    if (!scratch) return gg_fail(err, GG_ENOMEM, "no memory for the null model");
    gg_measure_values(x, count, scratch, out);
    free(scratch);
    return GG_OK;
}

static gg_status simulate(measure_many *many, uint32_t dtype, size_t count, double *theta,
                          gg_error *err)
{
    gg_measure m = { 0 };
    float *x = malloc((count + 256) * sizeof *x);
    gg_status st = x ? measure_noise(many, dtype, x, count, &m, err)
                     : gg_fail(err, GG_ENOMEM, "no memory for the null model");
    free(x);
    *theta = m.theta;
    return st;
}

static struct null_entry *find(const measure_null *m, uint32_t dtype, uint64_t count)
{
    struct null_entry *e = m->list;
    while (e && (e->dtype != dtype || e->count != count)) e = e->next;
    return e;
}

bool gg_measure_null_first(measure_null *m, uint32_t dtype, uint64_t count, gg_error *err)
{
    if (count > GG_NULL_MAX) count = GG_NULL_MAX;
    pthread_mutex_lock(&m->lock);
    bool first = count > 0 && !find(m, dtype, count);
    struct null_entry *e = first ? calloc(1, sizeof *e) : NULL;
    if (e) {
        *e = (struct null_entry){ .next = m->list, .count = count, .dtype = dtype };
        m->list = e;
    }
    pthread_mutex_unlock(&m->lock);
    if (first && !e) gg_fail(err, GG_ENOMEM, "no memory for the null model");
    return first;
}

gg_status gg_measure_null_compute(measure_null *m, measure_many *many, uint32_t dtype,
                                  uint64_t count, gg_error *err)
{
    double theta;
    if (count > GG_NULL_MAX) count = GG_NULL_MAX;
    gg_status st = simulate(many, dtype, (size_t)count, &theta, err);
    if (st != GG_OK) return st;
    pthread_mutex_lock(&m->lock);
    struct null_entry *e = find(m, dtype, count);
    e->theta = theta;
    e->done = true;
    pthread_mutex_unlock(&m->lock);
    return GG_OK;
}

bool gg_measure_null_get(measure_null *m, uint32_t dtype, uint64_t count, double *theta)
{
    if (count > GG_NULL_MAX) count = GG_NULL_MAX;
    *theta = 0;
    if (count == 0) return true;
    pthread_mutex_lock(&m->lock);
    const struct null_entry *e = find(m, dtype, count);
    bool done = e && e->done;
    if (done) *theta = e->theta;
    pthread_mutex_unlock(&m->lock);
    return done;
}
