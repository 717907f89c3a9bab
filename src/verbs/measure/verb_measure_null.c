/* verb_measure_null.c - computes theta for Gaussian noise stored in a dtype, once for each dtype
 * and count. If another thread is already computing a value, the thread that needs it waits. */
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
    gg_error err;
};

void gg_measure_null_init(measure_null *m)
{
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->ready, NULL);
    m->list = NULL;
}

void gg_measure_null_free(measure_null *m)
{
    while (m->list) {
        struct null_entry *next = m->list->next;
        free(m->list);
        m->list = next;
    }
    pthread_cond_destroy(&m->ready);
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

gg_status gg_measure_null_theta(measure_null *m, measure_many *many, const gg_tensor *t,
                                uint64_t count, double *theta, gg_error *err)
{
    uint32_t dtype = t->dtype;
    if (count > GG_NULL_MAX) count = GG_NULL_MAX;
    *theta = 0;
    if (count == 0) return GG_OK;
    pthread_mutex_lock(&m->lock);
    struct null_entry *e = find(m, dtype, count);
    if (e) {
        while (!e->done) pthread_cond_wait(&m->ready, &m->lock);
    } else if ((e = calloc(1, sizeof *e)) != NULL) {
        *e = (struct null_entry){
            .next = m->list, .count = count, .dtype = dtype, .err = GG_ERROR_INIT
        };
        m->list = e;
        pthread_mutex_unlock(&m->lock);
        double value;
        simulate(many, dtype, (size_t)count, &value, &e->err);
        pthread_mutex_lock(&m->lock);
        e->theta = value;
        e->done = true;
        pthread_cond_broadcast(&m->ready);
    }
    if (!e) gg_fail(err, GG_ENOMEM, "no memory for the null model");
    else gg_error_merge(err, &e->err);
    if (e) *theta = e->theta;
    pthread_mutex_unlock(&m->lock);
    return err->status;
}
