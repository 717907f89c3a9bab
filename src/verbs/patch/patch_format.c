/* patch_format.c - lists of names, and the order of the result that they determine. */
#include "patch_format.h"

#include "base/grow.h"
#include "organ/source_layout.h"
#include "verbs/shared/file_hash.h"

#include <stdlib.h>
#include <string.h>

gg_status gg_patch_names_add(patch_names *names, const char *name, size_t len, size_t index,
                             gg_error *err)
{
    patch_name *grown = gg_grow(names->list, names->n, &names->cap, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    names->list = grown;
    names->list[names->n++] = (patch_name){ name, len, index };
    return GG_OK;
}

static void names_free(patch_names *names)
{
    free(names->list);
    *names = (patch_names){ 0 };
}

static void lists_free(patch_lists *l)
{
    names_free(&l->base);
    names_free(&l->patch);
    names_free(&l->deleted);
    names_free(&l->order);
}

void gg_patch_lists_end(patch_lists *tensors, patch_lists *keys, gg_patch_report *report)
{
    report->tensors = tensors->patch.n;
    report->keys = keys->patch.n;
    report->deleted_tensors = tensors->deleted.n;
    report->deleted_keys = keys->deleted.n;
    lists_free(tensors);
    lists_free(keys);
}

gg_status gg_patch_names_of_array(const gg_kv *kv, patch_names *out, gg_error *err)
{
    uint64_t pos = 0;
    const char *text;
    size_t n;
    gg_status st = GG_OK;
    while (kv && st == GG_OK && gg_kv_next_str(kv, &pos, &text, &n))
        st = gg_patch_names_add(out, text, n, out->n, err);
    return st;
}

bool gg_patch_is_own(const char *name, size_t len)
{
    size_t n = strlen(PATCH_PREFIX);
    return len >= n && memcmp(name, PATCH_PREFIX, n) == 0;
}

static int by_name(const void *a, const void *b)
{
    const patch_name *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = n ? memcmp(x->name, y->name, n) : 0;
    return c ? c : x->len < y->len ? -1 : x->len > y->len;
}

/* A sorted copy whose indices are the positions in the list. */
static patch_name *sorted(const patch_names *names)
{
    patch_name *list = malloc((names->n + 1) * sizeof *list);
    if (!list) return NULL;
    for (size_t i = 0; i < names->n; i++) {
        list[i] = names->list[i];
        list[i].index = i;
    }
    if (names->n) qsort(list, names->n, sizeof *list, by_name);
    return list;
}

static const patch_name *find(const patch_name *list, size_t n, const patch_name *name)
{
    return n ? bsearch(name, list, n, sizeof *list, by_name) : NULL;
}

static gg_status bad(const patch_name *name, const char *what, gg_error *err)
{
    char shown[128];
    gg_escape(name->name, name->len < 64 ? name->len : 64, shown, sizeof shown);
    gg_fail(err, GG_EFORMAT, "the patch %s '%s'", what, shown);
    return gg_fix(err, "make the patch again: it is damaged");
}

typedef struct merge {
    const patch_lists *l;
    patch_name *base, *patch, *deleted; /* sorted */
    patch_pick *out;
    size_t n;
} merge;

static gg_status check_deleted(const merge *m, gg_error *err)
{
    for (size_t i = 0; i < m->l->deleted.n; i++) {
        const patch_name *d = &m->deleted[i];
        if (i && by_name(d - 1, d) == 0) return bad(d, "deletes twice", err);
        if (!find(m->base, m->l->base.n, d)) return bad(d, "deletes what the base lacks:", err);
        if (find(m->patch, m->l->patch.n, d)) return bad(d, "deletes and contains", err);
    }
    return GG_OK;
}

static void default_order(merge *m)
{
    const patch_lists *l = m->l;
    for (size_t i = 0; i < l->base.n; i++) {
        const patch_name *name = &l->base.list[i], *with = find(m->patch, l->patch.n, name);
        if (find(m->deleted, l->deleted.n, name)) continue;
        m->out[m->n++] = with ? (patch_pick){ true, with->index } : (patch_pick){ false, i };
    }
    for (size_t i = 0; i < l->patch.n; i++)
        if (!find(m->base, l->base.n, &l->patch.list[i])) m->out[m->n++] = (patch_pick){ true, i };
}

/* Checks that the order contains each name of the result exactly once: it has the same number
 * of names, no duplicates, and only names of the result. */
static gg_status given_order(merge *m, gg_error *err)
{
    const patch_lists *l = m->l;
    patch_name *seen = sorted(&l->order);
    gg_status st = seen ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for an order");
    for (size_t i = 1; i < l->order.n && st == GG_OK; i++)
        if (by_name(&seen[i - 1], &seen[i]) == 0) st = bad(&seen[i], "orders twice", err);
    free(seen);
    if (st == GG_OK && l->order.n != m->n) {
        gg_fail(err, GG_EFORMAT, "the patch orders %zu names, but its result has %zu", l->order.n,
                m->n);
        st = gg_fix(err, "make the patch again: it is damaged");
    }
    for (size_t i = 0; i < l->order.n && st == GG_OK; i++) {
        const patch_name *name = &l->order.list[i], *with = find(m->patch, l->patch.n, name),
                         *old = find(m->base, l->base.n, name);
        if ((!with && !old) || find(m->deleted, l->deleted.n, name))
            st = bad(name, "orders what its result lacks:", err);
        else
            m->out[i] = with ? (patch_pick){ true, with->index }
                             : (patch_pick){ false, old->index };
    }
    return st;
}

gg_status gg_patch_merge(const patch_lists *l, patch_pick **out, size_t *n, gg_error *err)
{
    merge m = { .l = l,
                .base = sorted(&l->base),
                .patch = sorted(&l->patch),
                .deleted = sorted(&l->deleted),
                .out = malloc((l->base.n + l->patch.n + 1) * sizeof *m.out) };
    gg_status st = m.base && m.patch && m.deleted && m.out
                       ? check_deleted(&m, err)
                       : gg_fail(err, GG_ENOMEM, "no memory for an order");
    if (st == GG_OK) default_order(&m);
    if (st == GG_OK && l->has_order) st = given_order(&m, err);
    free(m.base);
    free(m.patch);
    free(m.deleted);
    if (st != GG_OK) return free(m.out), st;
    *out = m.out;
    *n = m.n;
    return GG_OK;
}

gg_status gg_patch_check_file(gg_source *s, gg_error *err)
{
    const gg_model *m = gg_source_model(s);
    uint64_t shards = 1;
    if (m) gg_kv_u64(gg_meta_find(&m->files[0]->meta, "split.count"), &shards);
    if (m && m->n_files == 1 && shards <= 1) return GG_OK;
    gg_fail(err, GG_EUSAGE, "patches are for models of one GGUF file");
    gg_fix(err,
           m ? "merge the shards with organ-assemble" : "make a GGUF file with organ-assemble");
    return gg_at_file(err, gg_source_name(s));
}

gg_status gg_patch_hash(const gg_source *s, char sha[65], const gg_run *run, gg_error *err)
{
    const gg_model *m = gg_source_model(s);
    gg_status st = gg_file_sha256(m->fds[0], m->file_sizes[0], sha, run, err);
    return st == GG_OK ? st : gg_at_file(err, m->paths[0]);
}

bool gg_is_patch(const gg_source *s)
{
    const gg_meta *meta = gg_source_meta(s);
    return meta && gg_meta_find(meta, PATCH_BASE);
}
