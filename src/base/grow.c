/* grow.c - grow arrays one item at a time, and order them. */
#include "grow.h"

#include <assert.h>
#include <stdlib.h>

void *gg_grow(void *list, size_t n, size_t *cap, size_t size, gg_error *err)
{
    assert(n <= *cap && size > 0);
    if (n < *cap) return list;
    size_t more = *cap ? *cap * 2 : 64;
    void *grown = more > *cap && more <= SIZE_MAX / size ? realloc(list, more * size) : NULL;
    if (grown) *cap = more;
    else gg_fail(err, GG_ENOMEM, "no memory for a list of %zu items", more);
    return grown;
}

void *gg_grow_pow2(void *list, size_t n, size_t size, gg_error *err)
{
    if (n & (n - 1)) return list;
    size_t more = n ? n * 2 : 1;
    void *grown = more > n && more <= SIZE_MAX / size ? realloc(list, more * size) : NULL;
    if (!grown) gg_fail(err, GG_ENOMEM, "no memory for a list of %zu items", more);
    return grown;
}

int gg_order_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int gg_order_f64(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
