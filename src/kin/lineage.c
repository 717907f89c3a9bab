/* lineage.c - judges from compared rows whether two models come from the same training. The
 * thresholds are explained in docs/lineage.md. */
#include "lineage.h"

#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>

const char *gg_lineage_name(gg_lineage_verdict v)
{
    static const char *const names[] = { "identical", "same lineage", "strangers", "undecidable",
                                         "same lineage, permuted" };
    return (size_t)v < sizeof names / sizeof names[0] ? names[v] : "?";
}

bool gg_lineage_counts(const gg_compare_row *row)
{
    uint8_t cls = gg_compared(row)->a.cls;
    if (!row->measured || (cls != GG_SKELETON && cls != GG_ORGAN)) return false;
    const gg_tensor *t = row->a;
    return t->n_dims >= 2 && t->dims[0] >= GG_LINEAGE_SIDE && t->dims[1] >= GG_LINEAGE_SIDE &&
           row->compared >= GG_LINEAGE_VALUES;
}

static gg_lineage_verdict verdict_of(const gg_lineage *l)
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
        qsort(cosines, n, sizeof *cosines, gg_order_f64);
        l->min = cosines[0];
        l->median = (cosines[(n - 1) / 2] + cosines[n / 2]) / 2;
        l->max = cosines[n - 1];
    }
    for (size_t i = 0; i < n; i++) {
        l->same += cosines[i] >= GG_LINEAGE_SAME_FROM;
        l->strange += cosines[i] < GG_LINEAGE_STRANGE_BELOW;
    }
    l->verdict = verdict_of(l);
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

/* ---- rows ---------------------------------------------------------------------- */

gg_status gg_lineage_add(gg_lineage_rows *rows, const gg_compare_row *row, gg_error *err)
{
    if (!gg_lineage_counts(row)) return GG_OK;
    if (GG_ROOM(rows->list, rows->n, &rows->cap, err) != GG_OK) return GG_ENOMEM;
    rows->list[rows->n++] = (gg_lineage_cosine){ gg_compared(row)->a.cls, row->cosine };
    return GG_OK;
}

gg_status gg_lineage_judge_groups(const gg_lineage_rows *rows, gg_compare_report *r, gg_error *err)
{
    double *cosines = malloc((rows->n ? rows->n : 1) * sizeof *cosines);
    if (!cosines) return gg_fail(err, GG_ENOMEM, "no memory for %zu cosines", rows->n);
    for (int k = 0; k <= GG_CLASS_COUNT; k++) {
        gg_compare_group *g = k < GG_CLASS_COUNT ? &r->of[k] : &r->model;
        size_t n = 0;
        for (size_t i = 0; i < rows->n; i++)
            if (k == GG_CLASS_COUNT || (int)rows->list[i].cls == k)
                cosines[n++] = rows->list[i].cosine;
        g->lineage.tensors = g->tensors;
        g->lineage.identical = g->by[GG_SAME_IDENTICAL];
        gg_lineage_judge(cosines, n, &g->lineage);
    }
    free(cosines);
    return GG_OK;
}

void gg_lineage_rows_free(gg_lineage_rows *rows)
{
    free(rows->list);
    *rows = (gg_lineage_rows){ 0 };
}
