/* lineage.c - judges whether two models come from the same training. The thresholds are explained
 * in docs/lineage.md. */
#include "organ/gg_compare_model.h"

#include "base/grow.h"
#include "verbs/compare/compare_core.h"
#include "verbs/compare/lineage.h"

#include "verbs/shared/verb_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *gg_sameness_name(gg_sameness s)
{
    static const char *const names[] = { "identical", "differs", "dtype",
                                         "shape",     "only-a",  "only-b" };
    return (size_t)s < sizeof names / sizeof names[0] ? names[s] : "?";
}

const char *gg_lineage_name(gg_lineage_verdict v)
{
    static const char *const names[] = { "identical", "same lineage", "strangers", "undecidable",
                                         "same lineage, permuted" };
    return (size_t)v < sizeof names / sizeof names[0] ? names[v] : "?";
}

bool gg_lineage_counts(const gg_compare_row *row)
{
    if (!row->measured || (row->anatomy.cls != GG_SKELETON && row->anatomy.cls != GG_ORGAN))
        return false;
    const gg_tensor *t = row->a;
    return t->n_dims >= 2 && t->dims[0] >= GG_LINEAGE_SIDE && t->dims[1] >= GG_LINEAGE_SIDE &&
           row->compared >= GG_LINEAGE_VALUES;
}

static int ascending_cosines(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static gg_lineage_verdict verdict(const gg_lineage *l)
{
    if (l->tensors > 0 && l->identical == l->tensors) return GG_LINEAGE_IDENTICAL;
    if (l->n == 0) return GG_LINEAGE_UNDECIDABLE;
    if (l->median >= GG_LINEAGE_SAME_FROM && l->strange <= l->n / 4) return GG_LINEAGE_SAME;
    if (l->median < GG_LINEAGE_STRANGE_BELOW && l->same <= l->n / 4) return GG_LINEAGE_STRANGERS;
    return GG_LINEAGE_UNDECIDABLE;
}

void gg_lineage_judge(double *cosines, size_t n, gg_lineage *l)
{
    l->n = n;
    l->min = l->median = l->max = 0;
    l->same = l->strange = 0;
    if (n) {
        qsort(cosines, n, sizeof *cosines, ascending_cosines);
        l->min = cosines[0];
        l->median = (cosines[(n - 1) / 2] + cosines[n / 2]) / 2;
        l->max = cosines[n - 1];
    }
    for (size_t i = 0; i < n; i++) {
        l->same += cosines[i] >= GG_LINEAGE_SAME_FROM;
        l->strange += cosines[i] < GG_LINEAGE_STRANGE_BELOW;
    }
    l->verdict = verdict(l);
}

void gg_lineage_text(const gg_lineage *l, char *out, size_t size)
{
    char name[80];
    const char *kind = gg_lineage_name(l->verdict), *open = l->permuted[0] ? " (" : "",
               *shut = l->permuted[0] ? ")" : "";
    snprintf(name, sizeof name, "%s%s%s%s", kind, open, l->permuted, shut);
    if (l->verdict == GG_LINEAGE_IDENTICAL)
        snprintf(out, size,
                 l->tensors == 1 ? "%s: the only tensor, byte for byte"
                                 : "%s: all %zu tensors, byte for byte",
                 name, l->tensors);
    else if (l->tensors == 0)
        snprintf(out, size, "%s: no tensors match, so lineage cannot be judged", name);
    else if (l->n == 0)
        snprintf(out, size, "%s: no weight matrices have equal shapes, so lineage cannot be judged",
                 name);
    else if (l->strange && l->strange < l->n)
        snprintf(out, size,
                 "%s: median cosine %.3f (%.3f to %.3f) of %zu matrices, %zu of them strange", name,
                 l->median, l->min, l->max, l->n, l->strange);
    else
        snprintf(out, size, "%s: median cosine %.3f (%.3f to %.3f) of %zu matrices", name,
                 l->median, l->min, l->max, l->n);
}

/* ---- gathering ------------------------------------------------------------------ */

static gg_status rows_add(gg_lineage_rows *rows, const gg_compare_row *row, gg_error *err)
{
    rows->tensors++;
    rows->identical += row->status == GG_SAME_IDENTICAL;
    if (!gg_lineage_counts(row)) return GG_OK;
    double *grown = gg_grow(rows->cosines, rows->n, &rows->cap, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    rows->cosines = grown;
    rows->cosines[rows->n++] = row->cosine;
    return GG_OK;
}

void gg_lineage_of_rows(gg_lineage_rows *rows, gg_lineage *out)
{
    *out = (gg_lineage){ .tensors = rows->tensors, .identical = rows->identical };
    gg_lineage_judge(rows->cosines, rows->n, out);
}

static void rows_free(gg_lineage_rows *rows)
{
    free(rows->cosines);
    *rows = (gg_lineage_rows){ 0 };
}

static gg_status keep_row(void *ctx, const gg_compare_row *row, gg_error *err)
{
    return rows_add(ctx, row, err);
}

gg_status gg_lineage_of(gg_source *a, gg_source *b, const gg_compare_options *o, const gg_run *run,
                        gg_lineage *out, gg_error *err)
{
    gg_lineage_rows rows = { 0 };
    gg_compare_options own = *GG_OPTIONS(gg_compare_options, o);
    own.row = keep_row;
    own.row_ctx = &rows;
    gg_status st = gg_compare_models(a, b, &own, run, NULL, err);
    gg_lineage_of_rows(&rows, out);
    rows_free(&rows);
    if (st != GG_OK || out->verdict == GG_LINEAGE_IDENTICAL || !gg_source_seekable(a) ||
        !gg_source_seekable(b))
        return st;
    gg_lineage_search s = { a, b, &own, GG_OPTIONS(gg_run, run) };
    return gg_lineage_look_closer(&s, out, err);
}

/* ---- summary -------------------------------------------------------------------- */

static gg_status group_add(gg_compare_group *g, const gg_compare_row *row, gg_error *err)
{
    g->tensors++;
    g->by[row->status]++;
    if (row->measured) {
        if (g->measured == 0 || row->cosine < g->cosine_min) g->cosine_min = row->cosine;
        if (row->max_abs > g->max_abs) g->max_abs = row->max_abs;
        g->cosine_sum += row->cosine;
        g->rel_l2_sum += row->rel_l2;
        g->measured++;
    }
    if (!isnan(row->damage)) {
        g->predicted++;
        g->error2 += row->error2;
        g->energy2 += row->energy2;
        g->damage = gg_damage_ratio(g->error2, g->energy2);
    }
    return rows_add(&g->rows, row, err);
}

gg_status gg_compare_summary_add(gg_compare_summary *s, const gg_compare_row *row, gg_error *err)
{
    gg_status st = group_add(&s->of[row->anatomy.cls], row, err);
    return st == GG_OK ? group_add(&s->of[GG_CLASS_COUNT], row, err) : st;
}

void gg_compare_summary_free(gg_compare_summary *s)
{
    for (int i = 0; i <= GG_CLASS_COUNT; i++) rows_free(&s->of[i].rows);
}
