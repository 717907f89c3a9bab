/* merge_quantile.c - finds the border of the K largest magnitudes by counting. */
#include "merge_values.h"

#define LOW_MASK (GG_QUANTILE_LOW - 1)

static bool decided(const gg_quantile *q)
{
    return q->wanted == 0;
}

static size_t low_counters(const gg_quantiles *q)
{
    return q->n * q->segments * GG_QUANTILE_LOW;
}

void gg_quantiles_split(gg_quantiles *q, uint64_t keys, size_t unit)
{
    /* not 0: callers give a row or 1 */
    uint64_t units = keys / unit + 1;
    size_t most = q->values_only ? 1 : GG_QUANTILE_SEGMENTS;
    /* not 0: 1 or a constant */
    q->segment_size = (units / most + 1) * unit;
    /* not 0: set above */
    q->segments = (size_t)(keys / q->segment_size) + 1;
}

size_t gg_quantiles_counters(const gg_quantiles *q, unsigned pass)
{
    bool open = false;
    for (size_t i = 0; i < q->n; i++) open = open || q->list[i].open;
    if (q->n == 0) return 0;
    return pass == 0   ? q->streams * GG_QUANTILE_HIGH
           : pass == 1 ? low_counters(q)
           : open      ? q->n
                       : 0;
}

/* Counts the equal keys until the wanted one, which gives the index. */
static void count_equal(gg_quantile *q, const gg_key_run *keys, uint64_t *seen)
{
    for (size_t i = 0; i < keys->n && *seen < q->left; i++)
        if (gg_magnitude(keys->x[i]) == q->cut.bits && ++*seen == q->left)
            q->cut.index = keys->first + i + 1;
}

void gg_quantiles_count(const gg_quantiles *q, unsigned pass, const gg_key_run *keys,
                        uint64_t *counters)
{
    if (pass == 0) {
        GG_PICK(gg_mk_count_high)(keys->x, keys->n, counters + keys->stream * GG_QUANTILE_HIGH);
        return;
    }
    /* not 0: at least 1 */
    size_t segment = (size_t)(keys->first / q->segment_size);
    for (size_t k = 0; k < q->n; k++) {
        gg_quantile *one = &q->list[k];
        size_t at = (k * q->segments + segment) * GG_QUANTILE_LOW;
        if (one->stream != keys->stream || decided(one)) continue;
        if (pass == 1) GG_PICK(gg_mk_count_low)(keys->x, keys->n, one->high, counters + at);
        else if (one->open && segment == one->segment) count_equal(one, keys, &counters[k]);
    }
}

static void end_high(gg_quantile *q, const uint64_t *counters)
{
    uint64_t above = 0;
    uint32_t bin = GG_QUANTILE_HIGH - 1;
    q->cut = GG_CUT_NONE;
    if (decided(q)) return;
    while (bin > 0 && above + counters[bin] < q->wanted) above += counters[bin--];
    q->high = bin;
    q->left = q->wanted - above;
}

static void end_low(const gg_quantiles *all, gg_quantile *q, const uint64_t *counters)
{
    uint32_t low = LOW_MASK;
    if (decided(q)) return;
    for (;; low--) {
        uint64_t equal = 0;
        for (size_t s = 0; s < all->segments; s++) equal += counters[s * GG_QUANTILE_LOW + low];
        if (low == 0 || q->left <= equal) {
            q->cut = (gg_cut){ q->high << GG_QUANTILE_LOW_BITS | low, UINT64_MAX };
            q->open = q->left < equal && q->cut.bits && !all->values_only;
            break;
        }
        q->left -= equal;
    }
    if (!q->open) return; /* all equal keys are wanted, or they are 0 and do not matter */
    for (q->segment = 0; q->segment + 1 < all->segments; q->segment++) {
        uint64_t here = counters[q->segment * GG_QUANTILE_LOW + low];
        if (q->left <= here) break;
        q->left -= here;
    }
}

void gg_quantiles_end(gg_quantiles *q, unsigned pass, const uint64_t *counters)
{
    for (size_t i = 0; i < q->n; i++) {
        gg_quantile *one = &q->list[i];
        if (pass == 0) end_high(one, counters + one->stream * GG_QUANTILE_HIGH);
        if (pass == 1) end_low(q, one, counters + i * q->segments * GG_QUANTILE_LOW);
    }
}

void gg_quantiles_range(const gg_quantiles *q, uint64_t *from, uint64_t *to)
{
    unsigned first = GG_QUANTILE_SEGMENTS, last = 0;
    for (size_t i = 0; i < q->n; i++) {
        if (!q->list[i].open) continue;
        if (q->list[i].segment < first) first = q->list[i].segment;
        if (q->list[i].segment > last) last = q->list[i].segment;
    }
    *from = first * q->segment_size;
    *to = (last + 1) * q->segment_size;
}

static uint64_t nearest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void gg_keep_between(float *x, size_t n, uint64_t first, const gg_cut *low, const gg_cut *high)
{
    for (size_t i = 0; i < n;) { /* up to the next index where equal keys change sides */
        uint64_t at = first + i, end = first + n;
        if (at < low->index) end = nearest(end, low->index);
        if (at < high->index) end = nearest(end, high->index);
        uint32_t from = low->bits + (at >= low->index), to = high->bits + (at >= high->index);
        GG_PICK(gg_mk_band)(x + i, (size_t)(end - at), from, to);
        i += (size_t)(end - at);
    }
}
