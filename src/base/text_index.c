/* text_index.c - a hash table with open addressing. */
#include "text_index.h"

#include <stdlib.h>
#include <string.h>

#define FEWEST ((size_t)1024)
#define MOST ((size_t)1 << 30)

static uint64_t hash(const gg_text_index *x, const char *s, size_t n)
{
    uint64_t h = x->start;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (uint8_t)s[i]) * 0x100000001b3u;
        h ^= h >> 29;
    }
    return h ^ h >> 32;
}

/* The slot of these bytes, or the empty one where they belong. */
static uint64_t *slot_of(const gg_text_index *x, const void *list, const char *s, size_t n,
                         uint64_t h)
{
    for (size_t i = (size_t)h;; i++) {
        uint64_t *slot = &x->slots[i & (x->n_slots - 1)];
        size_t len;
        if (!*slot) return slot;
        if ((*slot ^ h) >> 32) continue;
        const char *text = x->at(list, (size_t)(uint32_t)*slot - 1, &len);
        if (len == n && (n == 0 || memcmp(text, s, n) == 0)) return slot;
    }
}

static gg_status grow(gg_text_index *x, const void *list, gg_error *err)
{
    gg_text_index more = *x;
    if (2 * (x->n + 1) <= x->n_slots) return GG_OK;
    more.n_slots = x->n_slots ? 2 * x->n_slots : FEWEST;
    while (more.n_slots / 2 < x->expect && more.n_slots < MOST) more.n_slots *= 2;
    more.slots = calloc(more.n_slots, sizeof *more.slots);
    if (!more.slots) return gg_fail(err, GG_ENOMEM, "no memory for an index of texts");
    if (!x->slots) more.start = (uint64_t)(uintptr_t)more.slots * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < x->n_slots; i++) {
        size_t len;
        if (!x->slots[i]) continue;
        const char *text = x->at(list, (size_t)(uint32_t)x->slots[i] - 1, &len);
        *slot_of(&more, list, text, len, hash(&more, text, len)) = x->slots[i];
    }
    free(x->slots);
    *x = more;
    return GG_OK;
}

size_t gg_text_find(const gg_text_index *x, const void *list, const char *bytes, size_t n)
{
    if (!x->slots) return SIZE_MAX;
    uint64_t slot = *slot_of(x, list, bytes, n, hash(x, bytes, n));
    return slot ? (size_t)(uint32_t)slot - 1 : SIZE_MAX;
}

gg_status gg_text_add(gg_text_index *x, const void *list, size_t i, size_t *was, gg_error *err)
{
    size_t n;
    *was = SIZE_MAX;
    if (i >= MOST) return gg_fail(err, GG_EUNSUPPORTED, "an index of more than 2^30 texts");
    if (grow(x, list, err) != GG_OK) return err->status;
    const char *text = x->at(list, i, &n);
    uint64_t h = hash(x, text, n), *slot = slot_of(x, list, text, n, h);
    if (*slot) {
        *was = (size_t)(uint32_t)*slot - 1;
        return GG_OK;
    }
    *slot = h >> 32 << 32 | (uint32_t)(i + 1);
    x->n++;
    return GG_OK;
}

void gg_text_index_free(gg_text_index *x)
{
    free(x->slots);
    *x = (gg_text_index){ .at = x->at, .expect = x->expect };
}
