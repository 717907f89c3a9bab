/* verb_measure_list.c - lists of measured rows: wells, groups, columns by name, and the ranks of
 * blocks and experts by their importance. */
#include "measure_core.h"

#include "base/error.h"
#include "base/grow.h"
#include "gg_measure_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ------------------------------------------------------------------------- */

gg_status gg_measures_add(gg_measures *list, const gg_tensor_measure *row, gg_error *err)
{
    if (GG_ROOM(list->rows, list->n, &list->cap, err) != GG_OK) return GG_ENOMEM;
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

/* The columns in their order: texts, and numbers with their kind, member of a row, and unit. */
#define COLUMNS(TEXT, COUNT, VALUE) \
    TEXT(name, "name of the tensor") \
    TEXT(class, "class of the tensor") \
    TEXT(block, "number of the block; - outside the blocks") \
    TEXT(dtype, "tensor type") \
    COUNT(TENSOR, elements, t.elements, "number of values in the tensor") \
    COUNT(MEASURE, sampled, m.sampled, "number of values that were sampled") \
    COUNT(MEASURE, nonfinite, m.nonfinite, \
          "how many of these are NaN, infinite or beyond F32") \
    VALUE(MEASURE, mean, m.mean, "", "mean of the sampled values") \
    VALUE(MEASURE, std, m.std, "", "their standard deviation, that of a population") \
    VALUE(MEASURE, min, m.min, "", "the smallest value") \
    VALUE(MEASURE, max, m.max, "", "the largest value") \
    VALUE(MEASURE, entropy, m.entropy, "", "entropy of a histogram with 256 equal bins, 0 to 1") \
    VALUE(MEASURE, kurtosis, m.kurtosis, "", "excess kurtosis; 0 for a normal distribution") \
    VALUE(MEASURE, cv, m.cv, "", "std divided by mean, of the gaps between sorted values") \
    VALUE(MEASURE, theta, m.theta, "degrees", "structure, from entropy, kurtosis and cv") \
    VALUE(MEASURE, signal, m.signal, "", "sin(theta)") \
    VALUE(MEASURE, dimension, m.dimension, "", \
          "slope of the entropy against the logarithm of the bins") \
    VALUE(MEASURE, null_theta, null_theta, "degrees", \
          "theta of noise of the same dtype and count") \
    VALUE(MEASURE, calibrated, calibrated, "degrees", "theta relative to null_theta; 0 for noise") \
    VALUE(MEASURE, row_theta, row_theta, "degrees", "angle between adjacent rows, on average") \
    TEXT(part, "sub-model that the tensor belongs to") \
    VALUE(OPTION, edge, edge, "", "largest singular value, squared; 1 for random values") \
    VALUE(OPTION, importance, importance, "", \
          "mean squared output of the tensor on a calibration text")

#define NO_FUNCTION(name, meaning)
#define GETS_COUNT(kind, name, member, meaning) \
    static uint64_t count_##name(const gg_tensor_measure *row) { return row->member; }
#define GETS_VALUE(kind, name, member, unit, meaning) \
    static double get_##name(const gg_tensor_measure *row) { return row->member; }
COLUMNS(NO_FUNCTION, GETS_COUNT, GETS_VALUE)

#define TEXT_COLUMN(name, meaning) { #name, "", meaning, GG_COLUMN_TENSOR, NULL, NULL },
#define COUNT_COLUMN(kind, name, member, meaning) \
    { #name, "values", meaning, GG_COLUMN_##kind, NULL, count_##name },
#define VALUE_COLUMN(kind, name, member, unit, meaning) \
    { #name, unit, meaning, GG_COLUMN_##kind, get_##name, NULL },
static const gg_measure_column measure_columns[] = {
    COLUMNS(TEXT_COLUMN, COUNT_COLUMN, VALUE_COLUMN)
};
/* clang-format on */

const gg_measure_column *gg_measure_column_at(size_t i)
{
    return i < sizeof measure_columns / sizeof measure_columns[0] ? &measure_columns[i] : NULL;
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
    const char *role = r->t.name + r->t.a.role_at;
    if (r->t.a.expert < 0) return r->t.a.role_len;
    for (size_t i = 0; i + 1 < r->t.a.role_len; i++)
        if (role[i] == '.' && role[i + 1] >= '0' && role[i + 1] <= '9') return i;
    return r->t.a.role_len;
}

typedef struct role {
    const char *name;
    size_t len, row;
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

/* Groups the rows by role, in the order in which the roles first appear; *n receives the number of
 * groups. Equal roles are found by sorting, because all names may differ. */
static gg_status role_groups(const gg_measures *list, gg_group *groups, size_t *n, gg_error *err)
{
    role *roles = calloc(list->n + 1, sizeof *roles);
    size_t *first = calloc(list->n + 1, sizeof *first); /* per row: the first row of its role */
    size_t *group = calloc(list->n + 1, sizeof *group); /* set for these */
    bool ok = roles && first && group;
    for (size_t i = 0; i < list->n && ok; i++) {
        const gg_tensor_measure *r = &list->rows[i];
        roles[i] = (role){ r->t.name + r->t.a.role_at, role_length(r), i, r->t.a.part };
    }
    if (ok) qsort(roles, list->n, sizeof *roles, by_role);
    for (size_t i = 0; i < list->n && ok; i++) {
        const role *x = &roles[i], *y = x - 1;
        bool same = i > 0 && x->part == y->part && x->len == y->len &&
                    memcmp(x->name, y->name, x->len) == 0;
        first[x->row] = same ? first[y->row] : x->row;
    }
    *n = 0;
    for (size_t i = 0; i < list->n && ok; i++) {
        const gg_tensor_measure *r = &list->rows[i];
        if (first[i] == i) {
            groups[*n] = (gg_group){ .kind = GG_GROUP_ROLE,
                                     .name = r->t.name + r->t.a.role_at,
                                     .name_len = role_length(r),
                                     .part = r->t.a.part };
            group[i] = (*n)++;
        }
        group_add(&groups[group[first[i]]], r);
    }
    free(roles);
    free(first);
    free(group);
    return ok ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for groups of %zu rows", list->n);
}

gg_status gg_measures_groups(const gg_measures *list, gg_group **groups, size_t *n, gg_error *err)
{
    gg_group *all = calloc(list->n + GG_CLASS_COUNT + 1, sizeof *all);
    if (!all) return gg_fail(err, GG_ENOMEM, "no memory for groups of %zu rows", list->n);
    gg_group classes[GG_CLASS_COUNT] = { 0 },
             model = { .kind = GG_GROUP_MODEL, .name = "model", .name_len = 5 };
    size_t used = 0, roles = 0;
    for (size_t i = 0; i < list->n; i++) classes[list->rows[i].t.a.cls].tensors++;
    for (unsigned c = 0; c < GG_CLASS_COUNT; c++) {
        if (!classes[c].tensors) continue;
        const char *name = gg_class_name((gg_class)c);
        all[used] = (gg_group){ .kind = GG_GROUP_CLASS, .name = name, .name_len = strlen(name) };
        for (size_t i = 0; i < list->n; i++)
            if (list->rows[i].t.a.cls == (gg_class)c) group_add(&all[used], &list->rows[i]);
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

/* ---- ranks ------------------------------------------------------------------------- */

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
        if (isnan(r->importance) || r->t.a.block < 0 || (experts && r->t.a.expert < 0)) continue;
        all[used++] = (gg_rank){ .part = r->t.a.part,
                                 .block = r->t.a.block,
                                 .expert = experts ? r->t.a.expert : -1,
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
