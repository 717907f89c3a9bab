/* gguf_index.c - sorted indices of keys and tensor names, to find entries and duplicates.
 *
 * Hostile input cannot make look-ups in a sorted list quadratic, as it can with a hash table. */
#include "organ/gg_gguf.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "gguf_read.h"

#include <stdlib.h>
#include <string.h>

static int order(const void *a, size_t a_len, const void *b, size_t b_len)
{
    size_t n = a_len < b_len ? a_len : b_len;
    int c = n ? memcmp(a, b, n) : 0;
    return c ? c : a_len < b_len ? -1 : a_len > b_len;
}

static int order_kv(const void *a, const void *b)
{
    const gg_kv *x = *(const gg_kv *const *)a, *y = *(const gg_kv *const *)b;
    return order(x->key, x->key_len, y->key, y->key_len);
}

/* Tensors with the same name keep their order. */
static int order_tensor(const void *a, const void *b)
{
    const gg_tensor *x = *(const gg_tensor *const *)a, *y = *(const gg_tensor *const *)b;
    int c = order(x->name, x->name_len, y->name, y->name_len);
    return c ? c : x < y ? -1 : x > y;
}

void gg_meta_order_sort(gg_meta_order *o)
{
    if (o->n) qsort(o->list, o->n, sizeof *o->list, order_kv);
}

gg_status gg_meta_order_make(const gg_meta *meta, gg_meta_order *out, gg_error *err)
{
    *out = (gg_meta_order){ .list = calloc(meta->n ? meta->n : 1, sizeof *out->list),
                            .n = meta->n };
    if (!out->list) return gg_fail(err, GG_ENOMEM, "no memory for an index of %zu keys", meta->n);
    for (size_t i = 0; i < meta->n; i++) out->list[i] = &meta->kv[i];
    gg_meta_order_sort(out);
    return GG_OK;
}

const gg_kv *gg_meta_order_find(const gg_meta_order *o, const char *key, size_t key_len)
{
    gg_kv wanted = { .key = (char *)(uintptr_t)key, .key_len = key_len };
    const gg_kv *k = &wanted, *const *found = o->n ? bsearch(&k, o->list, o->n, sizeof *o->list,
                                                             order_kv)
                                                   : NULL;
    return found ? *found : NULL;
}

const gg_kv *gg_meta_order_twice(const gg_meta_order *o)
{
    for (size_t i = 1; i < o->n; i++)
        if (order_kv(&o->list[i - 1], &o->list[i]) == 0)
            return o->list[i - 1] > o->list[i] ? o->list[i - 1] : o->list[i];
    return NULL;
}

static gg_status unique_keys(const gg_gguf *g, gg_error *err)
{
    gg_meta_order o;
    gg_status st = gg_meta_order_make(&g->meta, &o, err);
    const gg_kv *twice = st == GG_OK ? gg_meta_order_twice(&o) : NULL;
    if (twice) {
        char key[80];
        gg_escape(twice->key, twice->key_len < 64 ? twice->key_len : 64, key, sizeof key);
        gg_fail(err, GG_EFORMAT, "metadata key %s appears twice", key);
        st = gg_at_offset(err, (uint64_t)(twice->key - (const char *)g->raw));
    }
    free(o.list);
    return st;
}

gg_status gg_name_index(const gg_tensor *tensors, size_t n, size_t **by_name, gg_error *err)
{
    const gg_tensor **list = calloc(n ? n : 1, sizeof *list);
    *by_name = calloc(n ? n : 1, sizeof **by_name);
    if (!list || !*by_name) {
        free(list);
        return gg_fail(err, GG_ENOMEM, "no memory for an index of %zu tensors", n);
    }
    for (size_t i = 0; i < n; i++) list[i] = &tensors[i];
    qsort(list, n, sizeof *list, order_tensor);
    for (size_t i = 0; i < n; i++) (*by_name)[i] = (size_t)(list[i] - tensors);
    free(list);
    return GG_OK;
}

size_t gg_name_index_find(const gg_tensor *tensors, const size_t *by_name, size_t n,
                          const char *name, size_t name_len)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const gg_tensor *t = &tensors[by_name[mid]];
        int c = order(t->name, t->name_len, name, name_len);
        if (c == 0) return by_name[mid];
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    return SIZE_MAX;
}

const gg_tensor *gg_name_index_twice(const gg_tensor *tensors, const size_t *by_name, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (strcmp(tensors[by_name[i - 1]].name, tensors[by_name[i]].name) == 0)
            return &tensors[by_name[i]];
    return NULL;
}

gg_status gg_index_build(gg_gguf *g, gg_error *err)
{
    gg_status st = unique_keys(g, err);
    if (st == GG_OK) st = gg_name_index(g->tensors, g->n_tensors, &g->by_name, err);
    const gg_tensor *twice = st == GG_OK ? gg_name_index_twice(g->tensors, g->by_name, g->n_tensors)
                                         : NULL;
    if (!twice) return st;
    gg_fail(err, GG_EFORMAT, "two tensors have this name");
    return gg_at_tensor(err, twice->name, twice->name_len);
}

size_t gg_gguf_find(const gg_gguf *g, const char *name, size_t name_len)
{
    return gg_name_index_find(g->tensors, g->by_name, g->n_tensors, name, name_len);
}
