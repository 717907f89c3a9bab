/* assign.c - the Hungarian method on a sparse graph.
 *
 * Weights become costs: cost = -weight. Every row also has a column of its own that costs more than
 * any path through candidates, which means "left over". Rows are added one by one. For each, a
 * Dijkstra search over the reduced costs finds the cheapest way to a free column, and the matches
 * along the way move on by one. The prices of the columns keep all reduced costs positive.
 */
#include "assign.h"

#include "base/grow.h"

#include <math.h>
#include <stdlib.h>

#define NONE UINT32_MAX
#define LEFT_OVER 1e7 /* cost; the sum of the weights along a path stays below it */

typedef struct reached { /* a column on the heap */
    double dist;
    uint32_t column;
} reached;

typedef struct assignment {
    const gg_candidates *c;
    uint32_t *row_of;    /* by column; NONE = free */
    uint32_t *edge_of;   /* by row: the candidate it is matched with, below count; NONE = none */
    double *price;       /* by column */
    double *dist;        /* by column, of this search; valid if reached */
    uint32_t *from;      /* by column: the row that reached it; NONE = not reached */
    uint32_t *from_edge; /* by column: the candidate of that row */
    bool *settled;       /* by column */
    uint32_t *touched;   /* columns reached in this search */
    size_t n_touched;
    reached *heap;
    size_t n_heap, cap_heap;
} assignment;

/* ---- the heap ------------------------------------------------------------------------- */

static bool before(const reached *a, const reached *b)
{
    return a->dist != b->dist ? a->dist < b->dist : a->column < b->column;
}

static gg_status push(assignment *a, double dist, uint32_t column, gg_error *err)
{
    if (GG_ROOM(a->heap, a->n_heap, &a->cap_heap, err) != GG_OK) return GG_ENOMEM;
    reached item = { dist, column };
    size_t i = a->n_heap++;
    for (size_t up; i > 0 && before(&item, &a->heap[up = (i - 1) / 2]); i = up)
        a->heap[i] = a->heap[up];
    a->heap[i] = item;
    return GG_OK;
}

static reached pop(assignment *a)
{
    reached top = a->heap[0], item = a->heap[--a->n_heap];
    size_t i = 0;
    for (size_t down; (down = 2 * i + 1) < a->n_heap; i = down) {
        if (down + 1 < a->n_heap && before(&a->heap[down + 1], &a->heap[down])) down++;
        if (!before(&a->heap[down], &item)) break;
        a->heap[i] = a->heap[down];
    }
    a->heap[i] = item;
    return top;
}

/* ---- one search ------------------------------------------------------------------------ */

/* The end of a search: a free column, or NONE and the row that is left over. */
typedef struct search {
    double dist;
    uint32_t column, left_over;
} search;

/* Reaches the candidates of a row whose own distance is `base`. */
static gg_status expand(assignment *a, uint32_t row, double base, search *best, gg_error *err)
{
    const gg_candidates *c = a->c;
    size_t at = row * c->most;
    gg_status st = GG_OK;
    if (base + LEFT_OVER < best->dist) *best = (search){ base + LEFT_OVER, NONE, row };
    for (uint32_t k = 0; k < c->count[row] && st == GG_OK; k++) {
        uint32_t column = c->column[at + k];
        double dist = base - (double)c->weight[at + k] - a->price[column];
        if (a->settled[column] || (a->from[column] != NONE && dist >= a->dist[column])) continue;
        if (a->from[column] == NONE) a->touched[a->n_touched++] = column;
        a->from[column] = row;
        a->from_edge[column] = k;
        a->dist[column] = dist;
        st = push(a, dist, column, err);
    }
    return st;
}

/* Changes the matches along the path that ends at `column`. */
static void augment(assignment *a, uint32_t column, uint32_t first)
{
    for (uint32_t row = NONE; row != first;) {
        row = a->from[column];
        size_t at = row * a->c->most;
        uint32_t old = a->edge_of[row];
        a->row_of[column] = row;
        a->edge_of[row] = a->from_edge[column];
        if (old != NONE) column = a->c->column[at + old];
    }
}

static void end_search(assignment *a, const search *best, uint32_t first)
{
    for (size_t i = 0; i < a->n_touched; i++) {
        uint32_t column = a->touched[i];
        if (a->settled[column]) a->price[column] += a->dist[column] - best->dist;
    }
    if (best->column != NONE) {
        augment(a, best->column, first);
    } else if (best->left_over != first) { /* it gives up its column, to which the path leads */
        uint32_t *edge = &a->edge_of[best->left_over];
        uint32_t column = a->c->column[best->left_over * a->c->most + *edge];
        *edge = NONE;
        augment(a, column, first);
    }
    for (size_t i = 0; i < a->n_touched; i++) {
        a->from[a->touched[i]] = NONE;
        a->settled[a->touched[i]] = false;
    }
    a->n_touched = a->n_heap = 0;
}

static gg_status add_row(assignment *a, uint32_t first, gg_error *err)
{
    search best = { INFINITY, NONE, first };
    gg_status st = expand(a, first, 0, &best, err);
    for (size_t reach = 0; st == GG_OK && a->n_heap > 0;) {
        reached top = pop(a);
        if (top.dist >= best.dist) break;
        if (a->settled[top.column] || top.dist > a->dist[top.column]) continue; /* outdated */
        uint32_t row = a->row_of[top.column];
        if (row == NONE) {
            best = (search){ top.dist, top.column, NONE };
            break;
        }
        if (reach++ == GG_ASSIGN_REACH) {
            best = (search){ top.dist, NONE, first };
            break;
        }
        a->settled[top.column] = true;
        size_t at = row * a->c->most + a->edge_of[row];
        double base = top.dist + (double)a->c->weight[at] + a->price[top.column];
        st = expand(a, row, base, &best, err);
    }
    end_search(a, &best, first);
    return st;
}

/* ---- all rows -------------------------------------------------------------------------- */

static void read_matches(const assignment *a, uint32_t *match)
{
    const gg_candidates *c = a->c;
    for (uint32_t i = 0; i < c->n; i++)
        match[i] = a->edge_of[i] == NONE ? NONE : c->column[i * c->most + a->edge_of[i]];
    for (uint32_t i = 0; i < c->n; i++)
        if (match[i] == NONE && a->row_of[i] == NONE) {
            match[i] = i;
            a->row_of[i] = i;
        }
    uint32_t next = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (match[i] != NONE) continue;
        while (a->row_of[next] != NONE) next++;
        match[i] = next++;
    }
}

static void free_all(assignment *a)
{
    free(a->row_of);
    free(a->edge_of);
    free(a->price);
    free(a->dist);
    free(a->from);
    free(a->from_edge);
    free(a->settled);
    free(a->touched);
    free(a->heap);
}

gg_status gg_assign(const gg_candidates *c, uint32_t *match, gg_error *err)
{
    size_t n = c->n, room = n ? n : 1;
    if (n > GG_ASSIGN_MAX)
        return gg_fail(err, GG_EUNSUPPORTED, "%zu units are too many to be matched", n);
    assignment a = { .c = c,
                     .row_of = malloc(room * sizeof *a.row_of),
                     .edge_of = malloc(room * sizeof *a.edge_of),
                     .price = calloc(room, sizeof *a.price),
                     .dist = malloc(room * sizeof *a.dist),
                     .from = malloc(room * sizeof *a.from),
                     .from_edge = malloc(room * sizeof *a.from_edge),
                     .settled = calloc(room, sizeof *a.settled),
                     .touched = malloc(room * sizeof *a.touched) };
    bool ok = a.row_of && a.edge_of && a.price && a.dist && a.from && a.from_edge && a.settled &&
              a.touched;
    gg_status st = ok ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory to match %zu units", n);
    for (size_t i = 0; i < n && ok; i++) a.row_of[i] = a.edge_of[i] = a.from[i] = NONE;
    for (uint32_t i = 0; i < n && st == GG_OK; i++) st = add_row(&a, i, err);
    if (st == GG_OK) read_matches(&a, match);
    free_all(&a);
    return st;
}
