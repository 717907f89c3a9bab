/* verb_measure_rank.c - ranks blocks, or the experts of all blocks, by their importance. */
#include "organ/gg_measure_model.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

static int by_place(const void *a, const void *b)
{
    const gg_rank *x = a, *y = b;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    return x->expert < y->expert ? -1 : x->expert > y->expert;
}

static int by_importance(const void *a, const void *b)
{
    const gg_rank *x = a, *y = b;
    if (x->importance != y->importance) return x->importance > y->importance ? -1 : 1;
    return by_place(a, b);
}

static bool same_block(const gg_rank *x, const gg_rank *y)
{
    return x->part == y->part && x->block == y->block;
}

/* Adds up entries of the same place, which are adjacent. Returns the number of places. */
static size_t add_up(gg_rank *ranks, size_t n)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        if (used && by_place(&ranks[used - 1], &ranks[i]) == 0) {
            ranks[used - 1].tensors++;
            ranks[used - 1].importance += ranks[i].importance;
        } else {
            ranks[used++] = ranks[i];
        }
    }
    return used;
}

/* The share of each in the sum of those from `first` to `end`. */
static void share(gg_rank *ranks, size_t first, size_t end)
{
    double sum = 0;
    for (size_t i = first; i < end; i++) sum += ranks[i].importance;
    for (size_t i = first; i < end; i++) ranks[i].share = sum > 0 ? ranks[i].importance / sum : 0;
}

gg_status gg_measures_rank(const gg_measures *list, bool experts, gg_rank **ranks, size_t *n,
                           gg_error *err)
{
    gg_rank *all = calloc(list->n ? list->n : 1, sizeof *all);
    size_t used = 0;
    *n = 0;
    *ranks = all;
    if (!all) return gg_fail(err, GG_ENOMEM, "no memory to rank %zu rows", list->n);
    for (size_t i = 0; i < list->n; i++) {
        const gg_tensor_measure *r = &list->rows[i];
        if (isnan(r->importance) || r->a.block < 0 || (experts && r->a.expert < 0)) continue;
        all[used++] = (gg_rank){ .part = r->a.part,
                                 .block = r->a.block,
                                 .expert = experts ? r->a.expert : -1,
                                 .tensors = 1,
                                 .importance = r->importance };
    }
    qsort(all, used, sizeof *all, by_place);
    used = add_up(all, used);
    for (size_t first = 0, i = 1; i <= used; i++) {
        if (i < used && (!experts || same_block(&all[first], &all[i]))) continue;
        share(all, first, i);
        first = i;
    }
    qsort(all, used, sizeof *all, by_importance);
    *n = used;
    return GG_OK;
}
