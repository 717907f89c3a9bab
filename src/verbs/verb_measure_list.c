/* verb_measure_list.c - rows kept: wells, groups, columns by name. */
#include "gg_measure_model.h"

#include <stdlib.h>
#include <string.h>

gg_status gg_measures_add(gg_measures *list, const gg_tensor_measure *row, gg_error *err)
{
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 256;
        gg_tensor_measure *grown = realloc(list->rows, cap * sizeof *grown);
        if (!grown) return gg_fail(err, GG_ENOMEM, "no memory for %zu rows", cap);
        list->rows = grown;
        list->cap = cap;
    }
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

#define GETTERS(X)                                                                                  \
    X(mean, m.mean) X(std, m.std) X(min, m.min) X(max, m.max) X(entropy, m.entropy)                  \
    X(kurtosis, m.kurtosis) X(cv, m.cv) X(theta, m.theta) X(signal, m.signal)                        \
    X(dimension, m.dimension) X(null_theta, null_theta) X(calibrated, calibrated) X(row_theta, row_theta)

#define GETTER(name, member)                                  \
    static double get_##name(const gg_tensor_measure *row)    \
    {                                                         \
        return row->member;                                   \
    }
GETTERS(GETTER)

gg_measure_get gg_measure_by_name(const char *column)
{
#define ENTRY(name, member) { #name, get_##name },
    static const struct {
        const char *name;
        gg_measure_get get;
    } table[] = { GETTERS(ENTRY) };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, column) == 0) return table[i].get;
    return NULL;
}

/* ---- wells ---------------------------------------------------------------------- */

/* qsort takes no context: sort pointers to the rows. */
static int deeper(const void *a, const void *b)
{
    const gg_tensor_measure *x = *(const gg_tensor_measure *const *)a, *y = *(const gg_tensor_measure *const *)b;
    if (x->m.theta != y->m.theta) return x->m.theta < y->m.theta ? -1 : 1;
    return x < y ? -1 : x > y;
}

gg_status gg_measures_wells(const gg_measures *list, size_t k, size_t **wells, size_t *n, gg_error *err)
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
}

static void group_finish(gg_group *g)
{
    if (g->measured == 0) return;
    double n = (double)g->measured;
    g->theta /= n;
    g->signal /= n;
    g->calibrated /= n;
    g->row_theta /= n;
    g->stars = g->theta >= 89 ? 3 : g->theta >= 80 ? 2 : 1;
}

/* "ffn_gate" of "ffn_gate.17". */
static size_t role_length(const gg_tensor_measure *r)
{
    const char *role = r->t.name + r->a.role_at;
    if (r->a.expert < 0) return r->a.role_len;
    for (size_t i = 0; i + 1 < r->a.role_len; i++)
        if (role[i] == '.' && role[i + 1] >= '0' && role[i + 1] <= '9') return i;
    return r->a.role_len;
}

static gg_group *role_group(gg_group *roles, size_t *n, const gg_tensor_measure *r)
{
    const char *role = r->t.name + r->a.role_at;
    size_t len = role_length(r);
    for (size_t i = 0; i < *n; i++)
        if (roles[i].name_len == len && memcmp(roles[i].name, role, len) == 0) return &roles[i];
    roles[*n] = (gg_group){ .kind = GG_GROUP_ROLE, .name = role, .name_len = len };
    return &roles[(*n)++];
}

gg_status gg_measures_groups(const gg_measures *list, gg_group **groups, size_t *n, gg_error *err)
{
    gg_group *all = calloc(list->n + GG_CLASS_COUNT + 1, sizeof *all);
    if (!all) return gg_fail(err, GG_ENOMEM, "no memory for groups of %zu rows", list->n);
    gg_group classes[GG_CLASS_COUNT] = { 0 }, model = { .kind = GG_GROUP_MODEL, .name = "model", .name_len = 5 };
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
    for (size_t i = 0; i < list->n; i++) {
        group_add(role_group(all + used, &roles, &list->rows[i]), &list->rows[i]);
        group_add(&model, &list->rows[i]);
    }
    used += roles;
    all[used++] = model;
    for (size_t i = 0; i < used; i++) group_finish(&all[i]);
    *groups = all;
    *n = used;
    return GG_OK;
}
