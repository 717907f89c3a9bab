/* picture_grid.c - the grid layout that the SVG picture and the terminal map share. */
#include "picture_grid.h"

#include "base/grow.h"

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

/* Colours that colour-blind readers can distinguish too (Okabe and Ito, "Color Universal Design").
 * The first, of the base, is grey. */
static void source_color(double source, unsigned rgb[3])
{
    static const unsigned char colors[9][3] = {
        { 150, 150, 158 }, { 0, 114, 178 }, { 230, 159, 0 },  { 0, 158, 115 }, { 204, 121, 167 },
        { 86, 180, 233 },  { 213, 94, 0 },  { 240, 228, 66 }, { 90, 60, 120 }
    };
    int i = source < 8 ? (int)source : 8;
    for (int k = 0; k < 3; k++) rgb[k] = colors[i][k];
}

void gg_grid_value_color(const gg_grid *g, double value, unsigned rgb[3])
{
    if (g->p->sources) source_color(value, rgb);
    else gg_grid_color(gg_grid_place(g, value), rgb);
}

const char *gg_grid_source(const gg_grid *g, double value)
{
    size_t i = value >= 0 && value < (double)g->p->n_sources ? (size_t)value : 0;
    return g->p->n_sources ? g->p->sources[i] : "";
}

char gg_grid_letter(double source)
{
    return source < 26 ? (char)('A' + (int)source) : '+';
}

double gg_grid_place(const gg_grid *g, double value)
{
    double t = (value - g->low) / (g->high - g->low);
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

/* ---- roles and blocks ------------------------------------------------------------ */

static grid_role role_of(const gg_picture_cell *r)
{
    grid_role k = { .name = r->name + r->a.role_at,
                    .name_len = r->a.role_len,
                    .prefix = r->name,
                    .cls = r->a.cls };
    for (size_t i = 0; r->a.expert >= 0 && i + 1 < k.name_len; i++)
        if (k.name[i] == '.' && k.name[i + 1] >= '0' && k.name[i + 1] <= '9') k.name_len = i;
    /* The prefix before the block number, unless it is just "blk.". */
    size_t at = r->a.role_at ? r->a.role_at - 1 : 0;
    while (at > 0 && r->name[at - 1] >= '0' && r->name[at - 1] <= '9') at--;
    if (at >= 4 && memcmp(r->name + at - 4, "blk.", 4) == 0) at -= 4;
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

static void list_blocks(gg_grid *g, const gg_picture *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->cells[i].a.block >= 0) g->blocks[g->n_blocks++] = p->cells[i].a.block;
    if (g->n_blocks == 0) return;
    qsort(g->blocks, g->n_blocks, sizeof *g->blocks, order_blocks);
    size_t used = 1;
    for (size_t i = 1; i < g->n_blocks; i++)
        if (g->blocks[i] != g->blocks[used - 1]) g->blocks[used++] = g->blocks[i];
    g->n_blocks = used;
}

/* Collects the roles and assigns one to each row. Sorting keeps this fast even if every tensor
 * has a role of its own. */
static bool list_roles(gg_grid *g, const gg_picture *p)
{
    named *all = calloc(p->n + 1, sizeof *all);
    size_t n = 0;
    if (!all) return false;
    for (size_t i = 0; i < p->n; i++)
        if (p->cells[i].a.block >= 0) all[n++] = (named){ role_of(&p->cells[i]), i, i };
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

/* ---- scale ----------------------------------------------------------------------- */

static int order_values(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The nearest multiple of 5 that is at least v, or at most. */
static double multiple_of_five(double v, bool up)
{
    if (!(fabs(v) < 1e15)) return v;
    int64_t n = (int64_t)(v / 5);
    if (up && 5 * (double)n < v) n++;
    if (!up && 5 * (double)n > v) n--;
    return 5 * (double)n;
}

/* Limits that a few outliers do not move: the 5 % and 95 % quantiles. If these are equal, because
 * few tensors differ, the smallest and the largest value. */
static bool set_scale(gg_grid *g, const gg_picture *p)
{
    double *v = calloc(p->n + 1, sizeof *v);
    size_t n = 0;
    if (!v) return false;
    for (size_t i = 0; i < p->n; i++)
        if (!isnan(p->cells[i].value)) v[n++] = p->cells[i].value;
    if (n) {
        qsort(v, n, sizeof *v, order_values);
        size_t out = (size_t)(0.05 * (double)(n - 1) + 0.5);
        if (v[out] == v[n - 1 - out]) out = 0;
        g->low = v[out];
        g->high = v[n - 1 - out];
    }
    free(v);
    if (p->unit && strcmp(p->unit, "degrees") == 0) {
        g->low = multiple_of_five(g->low, false);
        g->high = multiple_of_five(g->high, true);
    }
    if (!(g->high > g->low)) g->high = g->low + (fabs(g->low) > 100 ? fabs(g->low) / 100 : 1);
    return true;
}

/* ---- all of it --------------------------------------------------------------------- */

static void fill(gg_grid *g, const gg_picture *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const gg_picture_cell *r = &p->cells[i];
        if (r->a.block < 0) {
            g->sides[g->n_sides++] = i;
            continue;
        }
        grid_cell *c = &g->cells[g->role_of[i] * g->n_blocks + find_block(g, r->a.block)];
        c->tensors++;
        if (isnan(r->value)) continue;
        if (p->sources) { /* one name only: the last of the list */
            c->measured = 1;
            c->sum = c->sum > r->value ? c->sum : r->value;
            continue;
        }
        c->measured++;
        c->sum += r->value;
    }
}

gg_status gg_grid_make(const gg_picture *p, gg_grid *g, gg_error *err)
{
    *g = (gg_grid){ .p = p };
    size_t n = p->n + 1;
    g->roles = calloc(n, sizeof *g->roles);
    g->blocks = calloc(n, sizeof *g->blocks);
    g->sides = calloc(n, sizeof *g->sides);
    g->role_of = calloc(n, sizeof *g->role_of);
    if (g->roles && g->blocks && g->sides && g->role_of && list_roles(g, p) && set_scale(g, p)) {
        list_blocks(g, p);
        /* Every tensor may have a block of its own, so both counts are at most n. */
        if (g->n_roles == 0 || g->n_blocks < ((size_t)64 << 20) / sizeof *g->cells / g->n_roles)
            g->cells = calloc(g->n_roles * g->n_blocks + 1, sizeof *g->cells);
    }
    if (!g->cells) {
        gg_grid_free(g);
        return gg_fail(err, GG_ENOMEM, "no memory for a picture of %zu tensors", p->n);
    }
    fill(g, p);
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

/* ---- the caller's tensors ------------------------------------------------------------ */

gg_status gg_picture_add(gg_picture *p, const gg_tensor *t, const gg_anatomy *a, double value,
                         gg_error *err)
{
    gg_picture_cell *cells = gg_grow(p->cells, p->n, &p->cap, sizeof *cells, err);
    if (!cells) return err->status;
    p->cells = cells;
    gg_picture_cell *c = &cells[p->n];
    *c = (gg_picture_cell){ malloc(t->name_len + 1), t->name_len, *a, value };
    if (!c->name) return gg_fail(err, GG_ENOMEM, "no memory for a picture of %zu tensors", p->n);
    memcpy(c->name, t->name, t->name_len);
    c->name[t->name_len] = 0;
    p->n++;
    return GG_OK;
}

/* Names that are too far down to have a colour of their own are not looked for, so that the time
 * does not grow with the square of their number. */
gg_status gg_picture_source(gg_picture *p, const char *name, double *index, gg_error *err)
{
    for (size_t i = 0; i < p->n_sources && i < 64; i++)
        if (strcmp(p->sources[i], name) == 0) return *index = (double)i, GG_OK;
    char **list = gg_grow_pow2(p->sources, p->n_sources, sizeof *list, err);
    if (!list) return err->status;
    p->sources = list;
    char *copy = strdup(name);
    if (!copy) return gg_fail(err, GG_ENOMEM, "out of memory");
    *index = (double)p->n_sources;
    list[p->n_sources++] = copy;
    return GG_OK;
}

void gg_picture_free(gg_picture *p)
{
    for (size_t i = 0; i < p->n; i++) free(p->cells[i].name);
    free(p->cells);
    for (size_t i = 0; i < p->n_sources; i++) free(p->sources[i]);
    free(p->sources);
    p->cells = NULL;
    p->sources = NULL;
    p->n = p->cap = p->n_sources = 0;
}
