/* patch_lists.c - the keys and tensors of a base, a patch and a result, as lists of names. */
#include "gg_patch.h"

#include "base/grow.h"
#include "base/text.h"
#include "organ/source_layout.h"
#include "write/copy.h"
#include "write/verb_run.h"

#include <stdlib.h>
#include <string.h>

gg_status gg_patch_add(gg_patch_names *names, const gg_patch_name *one, gg_error *err)
{
    if (GG_ROOM(names->list, names->n, &names->cap, err) != GG_OK) return GG_ENOMEM;
    names->list[names->n++] = *one;
    return GG_OK;
}

void gg_patch_names_free(gg_patch_names *names)
{
    free(names->list);
    free(names->sorted);
    *names = (gg_patch_names){ 0 };
}

void gg_patch_count_and_free(gg_patch_lists *tensors, gg_patch_lists *keys, gg_patch_report *report)
{
    gg_patch_lists *const both[] = { tensors, keys };
    report->tensors = tensors->patch.n;
    report->keys = keys->patch.n;
    report->deleted_tensors = tensors->deleted.n;
    report->deleted_keys = keys->deleted.n;
    for (int i = 0; i < 2; i++) {
        gg_patch_names_free(&both[i]->base);
        gg_patch_names_free(&both[i]->patch);
        gg_patch_names_free(&both[i]->deleted);
        gg_patch_names_free(&both[i]->order);
    }
}

bool gg_is_patch_key(const char *name, size_t len)
{
    size_t n = strlen(GG_PATCH_PREFIX);
    return len >= n && memcmp(name, GG_PATCH_PREFIX, n) == 0;
}

gg_status gg_patch_keys(const gg_source *s, bool patch, gg_patch_names *out, gg_error *err)
{
    const gg_meta *meta = gg_source_meta(s);
    gg_status st = GG_OK;
    for (size_t i = 0; i < meta->n && st == GG_OK; i++) {
        gg_patch_name one = { meta->kv[i].key, meta->kv[i].key_len, i, patch };
        if (!patch || !gg_is_patch_key(one.name, one.len)) st = gg_patch_add(out, &one, err);
    }
    return st;
}

gg_status gg_patch_tensors(const gg_source *s, bool patch, gg_patch_names *out, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(s) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        gg_patch_name one = { t->name, t->name_len, i, patch };
        if (!patch || !gg_text_is(t->name, t->name_len, GG_PATCH_TRAILING))
            st = gg_patch_add(out, &one, err);
    }
    return st;
}

int gg_patch_name_order(const void *a, const void *b)
{
    const gg_patch_name *x = a, *y = b;
    return gg_text_order(x->name, x->len, y->name, y->len);
}

gg_status gg_patch_sort(gg_patch_names *names, gg_error *err)
{
    if (names->sorted) return GG_OK;
    names->sorted = malloc((names->n + 1) * sizeof *names->sorted);
    if (!names->sorted) return gg_fail(err, GG_ENOMEM, "no memory for an order");
    if (names->n) memcpy(names->sorted, names->list, names->n * sizeof *names->list);
    qsort(names->sorted, names->n, sizeof *names->sorted, gg_patch_name_order);
    return GG_OK;
}

const gg_patch_name *gg_patch_find(const gg_patch_names *in, const gg_patch_name *name)
{
    return bsearch(name, in->sorted, in->n, sizeof *in->sorted, gg_patch_name_order);
}

/* Puts the names of the result in another order, which must have each of them once. */
static gg_status put_in_order(gg_patch_names *order, gg_patch_names *out, gg_error *err)
{
    gg_status st = gg_patch_sort(order, err);
    if (st == GG_OK) st = gg_patch_sort(out, err);
    bool same = st == GG_OK && order->n == out->n;
    for (size_t i = 0; i < out->n && same; i++)
        same = gg_patch_name_order(&order->sorted[i], &out->sorted[i]) == 0 &&
               !(i && gg_patch_name_order(&out->sorted[i - 1], &out->sorted[i]) == 0);
    for (size_t i = 0; i < out->n && same; i++) out->list[i] = *gg_patch_find(out, &order->list[i]);
    if (st != GG_OK || same) return st;
    gg_fail(err, GG_EFORMAT, "the patch orders other keys or tensors than its result has");
    return gg_fix(err, "make the patch again: it is damaged");
}

gg_status gg_patch_merge(gg_patch_lists *l, gg_patch_names *out, gg_error *err)
{
    gg_status st = gg_patch_sort(&l->base, err);
    if (st == GG_OK) st = gg_patch_sort(&l->patch, err);
    if (st == GG_OK) st = gg_patch_sort(&l->deleted, err);
    for (size_t i = 0; i < l->base.n && st == GG_OK; i++) {
        const gg_patch_name *name = &l->base.list[i], *with = gg_patch_find(&l->patch, name);
        if (!gg_patch_find(&l->deleted, name)) st = gg_patch_add(out, with ? with : name, err);
    }
    for (size_t i = 0; i < l->patch.n && st == GG_OK; i++)
        if (!gg_patch_find(&l->base, &l->patch.list[i]))
            st = gg_patch_add(out, &l->patch.list[i], err);
    return st == GG_OK && l->has_order ? put_in_order(&l->order, out, err) : st;
}

gg_status gg_patch_needs_one_file(gg_source *s, gg_error *err)
{
    const gg_model *m = gg_source_model(s);
    uint64_t shards = 1;
    if (m) gg_kv_u64(gg_meta_find(&m->files[0]->meta, "split.count"), &shards);
    if (m && m->n_files == 1 && shards <= 1) return GG_OK;
    gg_fail_in(err, GG_EUSAGE, s, NULL, "patches are for models of one GGUF file");
    return gg_fix(err, m ? "join the shards to one file first" : "make a GGUF file of it first");
}

gg_status gg_patch_file_sha256(const gg_source *s, char sha[65], const gg_run *run, gg_error *err)
{
    const gg_model *m = gg_source_model(s);
    gg_status st = gg_file_sha256(m->fds[0], 0, m->file_sizes[0], sha, run, err);
    return st == GG_OK ? st : gg_at_file(err, m->paths[0]);
}
