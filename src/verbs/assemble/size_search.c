/* size_search.c - a Lagrangian search over convex hulls.
 *
 * As the factor L falls, an item moves along the lower convex hull of its options, from the
 * smallest to that with the least loss. Each edge of a hull is a step with a gain per byte. Taking
 * the steps of all items in the order of falling gain visits the optima of all factors L. */
#include "size_search.h"

#include <stdlib.h>

typedef struct step {
    size_t item, from, to; /* options */
    uint64_t bytes;        /* more than `from` has */
    double gain;           /* loss saved per byte */
} step;

/* ---- hulls ---------------------------------------------------------------------------- */

typedef struct point {
    const gg_size_option *o;
    size_t i;
} point;

static int by_bytes(const void *a, const void *b)
{
    const point *x = a, *y = b;
    if (x->o->bytes != y->o->bytes) return x->o->bytes < y->o->bytes ? -1 : 1;
    if (x->o->loss != y->o->loss) return x->o->loss < y->o->loss ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

static double gain(const point *a, const point *b)
{
    return (a->o->loss - b->o->loss) / (double)(b->o->bytes - a->o->bytes);
}

/* Reduces the sorted points to the lower convex hull, and returns their number. */
static size_t hull(point *p, size_t n)
{
    size_t top = 1;
    for (size_t i = 1; i < n; i++) {
        if (p[i].o->loss >= p[top - 1].o->loss) continue; /* larger, and no better */
        while (top > 1 && gain(&p[top - 2], &p[top - 1]) <= gain(&p[top - 1], &p[i])) top--;
        p[top++] = p[i];
    }
    return top;
}

/* Chooses the smallest option, and appends the steps from there. Returns their number. */
static size_t add_steps(gg_size_item *item, size_t index, point *room, step *to)
{
    for (size_t i = 0; i < item->n; i++) room[i] = (point){ &item->options[i], i };
    qsort(room, item->n, sizeof *room, by_bytes);
    size_t n = hull(room, item->n);
    item->chosen = room[0].i;
    for (size_t i = 1; i < n; i++)
        to[i - 1] = (step){ index, room[i - 1].i, room[i].i,
                            room[i].o->bytes - room[i - 1].o->bytes, gain(&room[i - 1], &room[i]) };
    return n - 1;
}

/* ---- the search ----------------------------------------------------------------------- */

static int by_gain(const void *a, const void *b)
{
    const step *x = a, *y = b;
    if (x->gain != y->gain) return x->gain > y->gain ? -1 : 1;
    if (x->item != y->item) return x->item < y->item ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Takes the steps that fit, in their order. A step can be taken after the one before it. */
static uint64_t take_steps(gg_size_item *items, const step *steps, size_t n, uint64_t room)
{
    for (size_t i = 0; i < n; i++) {
        const step *s = &steps[i];
        if (items[s->item].chosen != s->from || s->bytes > room) continue;
        items[s->item].chosen = s->to;
        room -= s->bytes;
    }
    return room;
}

/* Uses the remaining room for options that are not on a hull. */
static void fill(gg_size_item *items, size_t n, uint64_t room)
{
    for (size_t i = 0; i < n && room; i++) {
        const gg_size_item *it = &items[i];
        const gg_size_option *now = &it->options[it->chosen];
        size_t best = it->chosen;
        for (size_t k = 0; k < it->n; k++) {
            const gg_size_option *o = &it->options[k];
            bool fits = o->bytes <= now->bytes || o->bytes - now->bytes <= room;
            if (fits && o->loss < it->options[best].loss) best = k;
        }
        room = room + now->bytes - it->options[best].bytes;
        items[i].chosen = best;
    }
}

gg_status gg_size_search(gg_size_item *items, size_t n, uint64_t limit, uint64_t *least,
                         gg_error *err)
{
    size_t options = 0, most = 0, n_steps = 0;
    *least = 0;
    for (size_t i = 0; i < n; i++) {
        options += items[i].n;
        if (items[i].n > most) most = items[i].n;
    }
    step *steps = calloc(options + 1, sizeof *steps);
    point *room = calloc(most + 1, sizeof *room);
    gg_status st = steps && room ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the search");
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        n_steps += add_steps(&items[i], i, room, steps + n_steps);
        *least += items[i].options[items[i].chosen].bytes;
    }
    if (st == GG_OK && *least <= limit) {
        qsort(steps, n_steps, sizeof *steps, by_gain);
        fill(items, n, take_steps(items, steps, n_steps, limit - *least));
    }
    free(steps);
    free(room);
    return st;
}
