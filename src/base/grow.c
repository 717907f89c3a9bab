/* grow.c - grow arrays one item at a time, allocate large ones, and order them. */
#include "grow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

gg_status gg_room(void *list, size_t n, size_t *cap, size_t size, gg_error *err)
{
    void *items, *grown;
    assert((!cap || n <= *cap) && size > 0);
    if (cap ? n < *cap : (n & (n - 1)) != 0) return GG_OK;
    memcpy(&items, list, sizeof items); /* whatever the type of the items */
    size_t have = cap ? *cap : n, more = have ? have * 2 : cap ? 64 : 1;
    grown = more > have && more <= SIZE_MAX / size ? realloc(items, more * size) : NULL;
    if (!grown) return gg_fail(err, GG_ENOMEM, "no memory for a list of %zu items", more);
    memcpy(list, &grown, sizeof grown);
    if (cap) *cap = more;
    return GG_OK;
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

#define HUGE_PAGE ((size_t)2 << 20)

void *gg_new_large(size_t bytes)
{
    if (bytes < HUGE_PAGE || bytes > SIZE_MAX - HUGE_PAGE) return malloc(bytes);
    bytes = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    void *p = aligned_alloc(HUGE_PAGE, bytes);
#ifdef MADV_HUGEPAGE
    if (p) (void)madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return p;
}
