/* anatomy_grid.c - the grid layout that the SVG picture and the terminal map share. */
#include "anatomy_grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- colours ------------------------------------------------------------------ */

/* The lightness (CIE L*) rises in equal steps from 15 to 90, and the hue goes from violet through
 * blue and green to yellow. The order is therefore visible in greyscale and to colour-blind
 * readers. */
void gg_grid_color(double t, unsigned rgb[3])
{
    static const unsigned char stops[9][3] = {
        { 68, 1, 84 },    { 71, 45, 123 }, { 59, 82, 139 },  { 44, 114, 142 }, { 33, 145, 140 },
        { 40, 174, 128 }, { 94, 201, 98 }, { 173, 220, 48 }, { 253, 231, 37 }
    };
    double at = (t > 0 ? t < 1 ? t : 1 : 0) * 8;
    int i = (int)at;
    if (i > 7) i = 7;
    double part = at - i;
    for (int k = 0; k < 3; k++)
        rgb[k] = (unsigned)(stops[i][k] * (1 - part) + stops[i + 1][k] * part + 0.5);
}

double gg_grid_place(const gg_grid *g, double value)
{
    double t = (value - g->low) / (g->high - g->low);
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

/* ---- roles and blocks ------------------------------------------------------------ */

static grid_role role_of(const gg_tensor_measure *r)
{
    grid_role k = { .name = r->t.name + r->a.role_at,
                    .name_len = r->a.role_len,
                    .prefix = r->t.name,
                    .cls = r->a.cls };
    for (size_t i = 0; r->a.expert >= 0 && i + 1 < k.name_len; i++)
        if (k.name[i] == '.' && k.name[i + 1] >= '0' && k.name[i + 1] <= '9') k.name_len = i;
    /* The prefix before the block number, unless it is just "blk.". */
    size_t at = r->a.role_at ? r->a.role_at - 1 : 0;
    while (at > 0 && r->t.name[at - 1] >= '0' && r->t.name[at - 1] <= '9') at--;
    if (at >= 4 && memcmp(r->t.name + at - 4, "blk.", 4) == 0) at -= 4;
    k.prefix_len = at;
    return k;
}

typedef struct named { /* a row that belongs to a block */
    grid_role role;
    size_t row, first; /* first: the first row with this role */
} named;

static int order_name(const grid_role *x, const grid_role *y)
{
    if (x->name_len != y->name_len) return x->name_len < y->name_len ? -1 : 1;
    if (x->prefix_len != y->prefix_len) return x->prefix_len < y->prefix_len ? -1 : 1;
    int c = memcmp(x->name, y->name, x->name_len);
    return c ? c : memcmp(x->prefix, y->prefix, x->prefix_len);
}

/* The display order of roles: by class, then by first appearance. */
static int order_shown(const void *a, const void *b)
{
    const named *x = a, *y = b;
    if (x->role.cls != y->role.cls) return x->role.cls < y->role.cls ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int order_roles(const void *a, const void *b)
{
    int c = order_name(&((const named *)a)->role, &((const named *)b)->role);
    return c ? c : order_shown(a, b);
}

static int order_blocks(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static size_t find_block(const gg_grid *g, int64_t block)
{
    const int64_t *at = bsearch(&block, g->blocks, g->n_blocks, sizeof *g->blocks, order_blocks);
    return (size_t)(at - g->blocks);
}

static void list_blocks(gg_grid *g, const gg_measures *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->rows[i].a.block >= 0) g->blocks[g->n_blocks++] = list->rows[i].a.block;
    if (g->n_blocks == 0) return;
    qsort(g->blocks, g->n_blocks, sizeof *g->blocks, order_blocks);
    size_t used = 1;
    for (size_t i = 1; i < g->n_blocks; i++)
        if (g->blocks[i] != g->blocks[used - 1]) g->blocks[used++] = g->blocks[i];
    g->n_blocks = used;
}

/* Collects the roles and assigns one to each row. Sorting keeps this fast even if every tensor
 * has a role of its own. */
static bool list_roles(gg_grid *g, const gg_measures *list)
{
    named *all = calloc(list->n + 1, sizeof *all);
    size_t n = 0;
    if (!all) return false;
    for (size_t i = 0; i < list->n; i++)
        if (list->rows[i].a.block >= 0) all[n++] = (named){ role_of(&list->rows[i]), i, i };
    qsort(all, n, sizeof *all, order_roles);
    for (size_t i = 1; i < n; i++)
        if (order_name(&all[i - 1].role, &all[i].role) == 0) all[i].first = all[i - 1].first;
    qsort(all, n, sizeof *all, order_shown);
    for (size_t i = 0; i < n; i++) {
        if (all[i].first == all[i].row) {
            g->role_of[all[i].row] = g->n_roles;
            g->roles[g->n_roles++] = all[i].role;
        } else {
            g->role_of[all[i].row] = g->role_of[all[i].first]; /* not its first row */
        }
    }
    free(all);
    return true;
}

bool gg_grid_has(const gg_grid *g, const gg_tensor_measure *row)
{
    return row->decoded && !isnan(g->get(row));
}

/* ---- scale ----------------------------------------------------------------------- */

/* The scale spans the values of this model, so that differences are visible. Angles are rounded
 * to multiples of five degrees. */
static void set_scale(gg_grid *g, const gg_measures *list, const char *column)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < list->n; i++) {
        if (!gg_grid_has(g, &list->rows[i])) continue;
        double v = g->get(&list->rows[i]);
        if (v < low) low = v;
        if (v > high) high = v;
    }
    if (!(low <= high)) low = high = 0;
    if (strcmp(column, "calibrated") == 0 || strstr(column, "theta")) {
        low = 5 * floor(low / 5);
        high = 5 * ceil(high / 5);
    }
    g->low = low;
    g->high = high > low ? high : low + fmax(1, fabs(low) / 100);
}

/* ---- all of it --------------------------------------------------------------------- */

static void fill(gg_grid *g, const gg_measures *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const gg_tensor_measure *r = &list->rows[i];
        if (r->a.block < 0) {
            g->sides[g->n_sides++] = i;
            continue;
        }
        grid_cell *c = &g->cells[g->role_of[i] * g->n_blocks + find_block(g, r->a.block)];
        c->tensors++;
        if (!gg_grid_has(g, r)) continue;
        c->measured++;
        c->sum += g->get(r);
    }
}

gg_status gg_grid_make(const gg_measures *list, const char *column, gg_grid *g, gg_error *err)
{
    *g = (gg_grid){ .get = gg_measure_by_name(column) };
    if (!g->get) return gg_fail(err, GG_EUSAGE, "unknown measure '%s'", column);
    size_t n = list->n + 1;
    g->roles = calloc(n, sizeof *g->roles);
    g->blocks = calloc(n, sizeof *g->blocks);
    g->sides = calloc(n, sizeof *g->sides);
    g->role_of = calloc(n, sizeof *g->role_of);
    if (g->roles && g->blocks && g->sides && g->role_of && list_roles(g, list)) {
        list_blocks(g, list);
        /* Every tensor may have a block of its own, so both counts are at most n. */
        if (g->n_roles == 0 || g->n_blocks < ((size_t)64 << 20) / sizeof *g->cells / g->n_roles)
            g->cells = calloc(g->n_roles * g->n_blocks + 1, sizeof *g->cells);
    }
    if (!g->cells) {
        gg_grid_free(g);
        return gg_fail(err, GG_ENOMEM, "no memory for a picture of %zu tensors", list->n);
    }
    set_scale(g, list, column);
    fill(g, list);
    return GG_OK;
}

void gg_grid_free(gg_grid *g)
{
    free(g->roles);
    free(g->blocks);
    free(g->sides);
    free(g->role_of);
    free(g->cells);
    *g = (gg_grid){ 0 };
}
