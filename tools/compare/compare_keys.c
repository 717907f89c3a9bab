/* compare_keys.c - finds the metadata keys in which two models differ. */
#include "compare_keys.h"

#include "gguf/gguf.h"
#include "write/verb_run.h"

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

static gg_sameness compare_values(const gg_kv *a, const gg_kv *b)
{
    if (a->type != b->type || a->elem_type != b->elem_type) return GG_SAME_DTYPE;
    bool same = a->count == b->count && a->size == b->size &&
                memcmp(a->data, b->data, a->size) == 0;
    return same ? GG_SAME_IDENTICAL : GG_SAME_DIFFERS;
}

gg_status gg_compare_keys(gg_source *a, gg_source *b, const gg_compare_keys_options *o,
                          const gg_run *run, gg_compare_keys_report *report, gg_error *err)
{
    const gg_meta *metas[2] = { gg_source_meta(a), gg_source_meta(b) };
    gg_status st = GG_OK;
    (void)run;
    o = GG_OPTIONS(gg_compare_keys_options, o);
    report = GG_REPORT(gg_compare_keys_report, report);
    *report = (gg_compare_keys_report){ 0 };
    for (int second = 0; second < 2 && metas[0] && metas[1] && st == GG_OK; second++) {
        gg_meta_order others;
        st = gg_meta_order_make(metas[!second], &others, err);
        for (size_t i = 0; i < metas[second]->n && st == GG_OK; i++) {
            const gg_kv *kv = &metas[second]->kv[i],
                        *other = gg_meta_order_find(&others, kv->key, kv->key_len);
            gg_key_diff d = { .status = GG_SAME_ONLY_A, .a = kv, .b = other };
            if (gg_is_split_key(kv) || (second && other)) continue;
            if (second) d = (gg_key_diff){ .status = GG_SAME_ONLY_B, .b = kv };
            else if (other) d.status = compare_values(kv, other);
            if (d.status == GG_SAME_DIFFERS && kv->type == GG_TYPE_ARR)
                d.index = first_difference(kv, other);
            report->keys++;
            report->by[d.status]++;
            if (d.status != GG_SAME_IDENTICAL && o->row) st = o->row(o->ctx, &d, err);
        }
        free(others.list);
    }
    return st;
}
