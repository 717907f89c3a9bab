/* gguf_index.c - names and keys in order: duplicates are neighbours, look-ups are
 * binary. Sorting, unlike a hash table, has no input that makes it quadratic. */
#include "gguf.h"

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

static int order_tensor(const void *a, const void *b)
{
    const gg_tensor *x = *(const gg_tensor *const *)a, *y = *(const gg_tensor *const *)b;
    return order(x->name, x->name_len, y->name, y->name_len);
}

static gg_status unique_keys(const gg_gguf *g, gg_error *err)
{
    size_t n = g->meta.n;
    const gg_kv **list = calloc(n ? n : 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for an index of %zu keys", n);
    for (size_t i = 0; i < n; i++) list[i] = &g->meta.kv[i];
    qsort(list, n, sizeof *list, order_kv);
    for (size_t i = 1; i < n; i++) {
        if (order_kv(&list[i - 1], &list[i]) != 0) continue;
        char key[80];
        gg_escape(list[i]->key, list[i]->key_len < 64 ? list[i]->key_len : 64, key, sizeof key);
        const char *second = list[i - 1]->key > list[i]->key ? list[i - 1]->key : list[i]->key;
        gg_fail(err, GG_EFORMAT, "metadata key %s stands twice", key);
        gg_at_offset(err, (uint64_t)(second - (const char *)g->raw));
        break;
    }
    free(list);
    return err->status;
}

/* ggml keeps names as C strings, so "a" and "a\0b" are one name to every engine. */
static gg_status unique_names(gg_gguf *g, const gg_tensor **list, gg_error *err)
{
    for (size_t i = 1; i < g->n_tensors; i++)
        if (strcmp(list[i - 1]->name, list[i]->name) == 0) {
            gg_fail(err, GG_EFORMAT, "two tensors have this name");
            return gg_at_tensor(err, list[i]->name, list[i]->name_len);
        }
    return GG_OK;
}

gg_status gg_index_build(gg_gguf *g, gg_error *err)
{
    gg_status st = unique_keys(g, err);
    if (st != GG_OK) return st;
    size_t n = g->n_tensors ? g->n_tensors : 1;
    const gg_tensor **list = calloc(n, sizeof *list);
    g->by_name = calloc(n, sizeof *g->by_name);
    if (!list || !g->by_name) {
        free(list);
        return gg_fail(err, GG_ENOMEM, "no memory for an index of %zu tensors", g->n_tensors);
    }
    for (size_t i = 0; i < g->n_tensors; i++) list[i] = &g->tensors[i];
    qsort(list, g->n_tensors, sizeof *list, order_tensor);
    for (size_t i = 0; i < g->n_tensors; i++) g->by_name[i] = (size_t)(list[i] - g->tensors);
    st = unique_names(g, list, err);
    free(list);
    return st;
}

size_t gg_gguf_find(const gg_gguf *g, const char *name, size_t name_len)
{
    size_t lo = 0, hi = g->n_tensors;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const gg_tensor *t = &g->tensors[g->by_name[mid]];
        int c = order(t->name, t->name_len, name, name_len);
        if (c == 0) return g->by_name[mid];
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    return SIZE_MAX;
}
