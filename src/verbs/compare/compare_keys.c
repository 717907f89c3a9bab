/* compare_keys.c - finds the metadata keys in which two models differ. */
#include "organ/gg_compare_model.h"

#include "gguf/gguf.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>

/* The first element in which two arrays of the same type differ. */
static uint64_t first_difference(const gg_kv *a, const gg_kv *b)
{
    uint64_t n = a->count < b->count ? a->count : b->count, at_a = 0, at_b = 0;
    size_t size = gg_type_size(a->elem_type);
    for (uint64_t i = 0; i < n; i++) {
        const char *x, *y;
        size_t x_len, y_len;
        if (size) {
            if (memcmp(a->data + i * size, b->data + i * size, size) != 0) return i;
        } else if (!gg_kv_next_str(a, &at_a, &x, &x_len) || !gg_kv_next_str(b, &at_b, &y, &y_len) ||
                   x_len != y_len || memcmp(x, y, x_len) != 0) {
            return i;
        }
    }
    return n;
}

static gg_sameness compare(const gg_kv *a, const gg_kv *b)
{
    if (a->type != b->type || a->elem_type != b->elem_type) return GG_SAME_DTYPE;
    bool same = a->count == b->count && a->size == b->size &&
                memcmp(a->data, b->data, a->size) == 0;
    return same ? GG_SAME_IDENTICAL : GG_SAME_DIFFERS;
}

typedef struct comparison {
    gg_meta_order other;
    gg_key_diff_fn fn;
    void *ctx;
    gg_compare_report *report;
} comparison;

static gg_status add_key(comparison *c, const gg_key_diff *d, gg_error *err)
{
    c->report->tensors++;
    c->report->by[d->status]++;
    bool told = d->status != GG_SAME_IDENTICAL && c->fn;
    return told ? c->fn(c->ctx, d, err) : GG_OK;
}

/* Compares all keys of one model. For the second model, only keys that the first one lacks are
 * reported. */
static gg_status compare_side(comparison *c, const gg_meta *meta, bool second, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < meta->n && st == GG_OK; i++) {
        const gg_kv *kv = &meta->kv[i],
                    *other = gg_meta_order_find(&c->other, kv->key, kv->key_len);
        gg_key_diff d = { .status = GG_SAME_ONLY_A, .a = kv, .b = other };
        if (gg_is_split_key(kv) || (second && other)) continue;
        if (second) d = (gg_key_diff){ .status = GG_SAME_ONLY_B, .b = kv };
        else if (other) d.status = compare(kv, other);
        if (d.status == GG_SAME_DIFFERS && kv->type == GG_TYPE_ARR)
            d.index = first_difference(kv, other);
        st = add_key(c, &d, err);
    }
    return st;
}

gg_status gg_compare_keys(const gg_source *a, const gg_source *b, gg_key_diff_fn fn, void *ctx,
                          gg_compare_report *report, gg_error *err)
{
    report = GG_REPORT(gg_compare_report, report);
    const gg_meta *metas[2] = { gg_source_meta(a), gg_source_meta(b) };
    comparison c = { .fn = fn, .ctx = ctx, .report = report };
    gg_status st = GG_OK;
    *report = (gg_compare_report){ 0 };
    if (!metas[0] || !metas[1]) return GG_OK;
    for (int k = 0; k < 2 && st == GG_OK; k++) {
        st = gg_meta_order_make(metas[1 - k], &c.other, err);
        if (st == GG_OK) st = compare_side(&c, metas[k], k == 1, err);
        free(c.other.list);
    }
    return st;
}
