/* verb_measure_list.c - lists of measured rows: wells, groups, and columns by name. */
#include "organ/gg_measure_model.h"

#include "base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

gg_status gg_measures_add(gg_measures *list, const gg_tensor_measure *row, gg_error *err)
{
    gg_tensor_measure *grown = gg_grow(list->rows, list->n, &list->cap, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    list->rows = grown;
    char *name = malloc(row->t.name_len + 1);
    if (!name) return gg_fail(err, GG_ENOMEM, "no memory for a name");
    memcpy(name, row->t.name, row->t.name_len);
    name[row->t.name_len] = '\0';
    list->rows[list->n] = *row;
    list->rows[list->n++].t.name = name;
    return GG_OK;
}

void gg_measures_free(gg_measures *list)
{
    for (size_t i = 0; i < list->n; i++) free((void *)(uintptr_t)list->rows[i].t.name);
    free(list->rows);
    *list = (gg_measures){ 0 };
}

/* ---- columns -------------------------------------------------------------------- */

/* clang-format off */
#define GETTERS(X) \
    X(mean, m.mean) \
    X(std, m.std) \
    X(min, m.min) X(max, m.max) X(entropy, m.entropy) X(kurtosis, m.kurtosis) X(cv, m.cv) \
    X(theta, m.theta) X(signal, m.signal) X(dimension, m.dimension) X(null_theta, null_theta) \
    X(calibrated, calibrated) X(row_theta, row_theta) X(edge, edge) \
    X(importance, importance)
/* clang-format on */

#define GETTER(name, member) \
    static double get_##name(const gg_tensor_measure *row) \
    { \
        return row->member; \
    }
GETTERS(GETTER)

gg_measure_get gg_measure_by_name(const char *column)
{
/* clang-format off */
#define ENTRY(name, member) { #name, get_##name },
    /* clang-format on */
    static const struct {
        const char *name;
        gg_measure_get get;
    } table[] = { GETTERS(ENTRY) };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, column) == 0) return table[i].get;
    return NULL;
}

/* ---- wells ---------------------------------------------------------------------- */

/* qsort passes no context to the comparison, so pointers to the rows are sorted. */
static int deeper(const void *a, const void *b)
{
    const gg_tensor_measure *x = *(const gg_tensor_measure *const *)a,
                            *y = *(const gg_tensor_measure *const *)b;
    if (x->m.theta != y->m.theta) return x->m.theta < y->m.theta ? -1 : 1;
    return x < y ? -1 : x > y;
}

gg_status gg_measures_wells(const gg_measures *list, size_t k, size_t **wells, size_t *n,
                            gg_error *err)
{
    const gg_tensor_measure **order = calloc(list->n ? list->n : 1, sizeof *order);
    *wells = calloc(list->n ? list->n : 1, sizeof **wells);
    if (!order || !*wells) {
        free(order);
        free(*wells);
        return gg_fail(err, GG_ENOMEM, "no memory to sort %zu rows", list->n);
    }
    size_t measured = 0;
    for (size_t i = 0; i < list->n; i++)
        if (list->rows[i].decoded) order[measured++] = &list->rows[i];
    qsort(order, measured, sizeof *order, deeper);
    *n = k < measured ? k : measured;
    for (size_t i = 0; i < *n; i++) (*wells)[i] = (size_t)(order[i] - list->rows);
    free(order);
    return GG_OK;
}

/* ---- groups --------------------------------------------------------------------- */

static void group_add(gg_group *g, const gg_tensor_measure *r)
{
    g->tensors++;
    if (!r->decoded) return;
    if (g->measured == 0 || r->m.theta < g->theta_min) g->theta_min = r->m.theta;
    if (g->measured == 0 || r->m.theta > g->theta_max) g->theta_max = r->m.theta;
    g->measured++;
    g->theta += r->m.theta;
    g->signal += r->m.signal;
    g->calibrated += r->calibrated;
    g->row_theta += r->row_theta;
    if (!isnan(r->importance)) {
        g->importance += r->importance;
        g->importances++;
    }
    if (isnan(r->edge)) return;
    g->edge += r->edge;
    g->edges++;
}

static void group_finish(gg_group *g)
{
    g->edge = g->edges ? g->edge / (double)g->edges : NAN;
    g->importance = g->importances ? g->importance / (double)g->importances : NAN;
    if (g->measured == 0) return;
    double n = (double)g->measured;
    g->theta /= n;
    g->signal /= n;
    g->calibrated /= n;
    g->row_theta /= n;
    g->stars = g->theta >= 89 ? 3 : g->theta >= 80 ? 2 : 1;
}

/* Returns the length of the role without the expert number: "ffn_gate" for "ffn_gate.17". */
static size_t role_length(const gg_tensor_measure *r)
{
    const char *role = r->t.name + r->a.role_at;
    if (r->a.expert < 0) return r->a.role_len;
    for (size_t i = 0; i + 1 < r->a.role_len; i++)
        if (role[i] == '.' && role[i + 1] >= '0' && role[i + 1] <= '9') return i;
    return r->a.role_len;
}

typedef struct role {
    const char *name;
    size_t len, row, group;
    gg_part part;
} role;

static int by_role(const void *a, const void *b)
{
    const role *x = a, *y = b;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    int c = x->len ? memcmp(x->name, y->name, x->len) : 0;
    return c ? c : x->row < y->row ? -1 : x->row > y->row;
}

static int by_row(const void *a, const void *b)
{
    const role *x = a, *y = b;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Groups the rows by role, in the order in which the roles first appear; *n receives the number of
 * groups. Equal roles are found by sorting, because all names may differ. */
static gg_status role_groups(const gg_measures *list, gg_group *groups, size_t *n, gg_error *err)
{
    role *roles = calloc(list->n ? list->n : 1, sizeof *roles);
    size_t *group = calloc(list->n ? list->n : 1,
                           sizeof *group); /* set for the first row of each role */
    if (!roles || !group) {
        free(roles);
        free(group);
        return gg_fail(err, GG_ENOMEM, "no memory for groups of %zu rows", list->n);
    }
    for (size_t i = 0; i < list->n; i++) {
        const gg_tensor_measure *r = &list->rows[i];
        roles[i] = (role){ r->t.name + r->a.role_at, role_length(r), i, i, r->a.part };
    }
    qsort(roles, list->n, sizeof *roles, by_role);
    for (size_t i = 1; i < list->n; i++) /* `group`: the first row of the role */
        if (roles[i].part == roles[i - 1].part && roles[i].len == roles[i - 1].len &&
            memcmp(roles[i].name, roles[i - 1].name, roles[i].len) == 0)
            roles[i].group = roles[i - 1].group;
    qsort(roles, list->n, sizeof *roles, by_row);
    *n = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (roles[i].group == i) {
            groups[*n] = (gg_group){ .kind = GG_GROUP_ROLE,
                                     .name = roles[i].name,
                                     .name_len = roles[i].len,
                                     .part = roles[i].part };
            group[i] = (*n)++;
        }
        group_add(&groups[group[roles[i].group]], &list->rows[i]);
    }
    free(roles);
    free(group);
    return GG_OK;
}

gg_status gg_measures_groups(const gg_measures *list, gg_group **groups, size_t *n, gg_error *err)
{
    gg_group *all = calloc(list->n + GG_CLASS_COUNT + 1, sizeof *all);
    if (!all) return gg_fail(err, GG_ENOMEM, "no memory for groups of %zu rows", list->n);
    gg_group classes[GG_CLASS_COUNT] = { 0 },
             model = { .kind = GG_GROUP_MODEL, .name = "model", .name_len = 5 };
    size_t used = 0, roles = 0;
    for (size_t i = 0; i < list->n; i++) classes[list->rows[i].a.cls].tensors++;
    for (unsigned c = 0; c < GG_CLASS_COUNT; c++) {
        if (!classes[c].tensors) continue;
        const char *name = gg_class_name((gg_class)c);
        all[used] = (gg_group){ .kind = GG_GROUP_CLASS, .name = name, .name_len = strlen(name) };
        for (size_t i = 0; i < list->n; i++)
            if (list->rows[i].a.cls == (gg_class)c) group_add(&all[used], &list->rows[i]);
        used++;
    }
    for (size_t i = 0; i < list->n; i++) group_add(&model, &list->rows[i]);
    if (role_groups(list, all + used, &roles, err) != GG_OK) {
        free(all);
        return err->status;
    }
    used += roles;
    all[used++] = model;
    for (size_t i = 0; i < used; i++) group_finish(&all[i]);
    *groups = all;
    *n = used;
    return GG_OK;
}
