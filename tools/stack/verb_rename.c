/* verb_rename.c - writes a model in which tensors have other names. */
#include "rename.h"

#include "base/error.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "write/plan.h"
#include "write/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 255 /* bytes of a name; the plan may allow fewer */

/* OLD=NEW. If each has a "*", it stands for the same text. */
typedef struct renaming {
    const char *old, *star, *name, *name_star; /* star: NULL without one */
    size_t old_len;
    bool used;
} renaming;

static gg_status parse(const char *text, renaming *r, gg_error *err)
{
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1]) {
        gg_fail(err, GG_EUSAGE, "%s: expected OLD=NEW", text);
        return gg_fix(err, "for example 'blk.*.ssm_dt=blk.*.ssm_dt.bias'");
    }
    *r = (renaming){ .old = text, .old_len = (size_t)(eq - text), .name = eq + 1 };
    r->star = memchr(text, '*', r->old_len);
    r->name_star = strchr(r->name, '*');
    const char *second = r->star ? memchr(r->star + 1, '*', (size_t)(eq - r->star - 1)) : NULL;
    if (!r->star == !r->name_star && !second && !(r->name_star && strchr(r->name_star + 1, '*')))
        return GG_OK;
    return gg_fail(err, GG_EUSAGE, "%s: one * may be in both names, and stands for the same text",
                   text);
}

/* What the star stands for in a name. */
typedef struct middle {
    const char *at;
    size_t n;
} middle;

/* Whether the renaming is for a name. */
static bool is_for(const renaming *r, const char *name, size_t len, middle *m)
{
    size_t head = r->star ? (size_t)(r->star - r->old) : r->old_len;
    size_t tail = r->star ? r->old_len - head - 1 : 0;
    if (r->star ? len < head + tail : len != head) return false;
    if (memcmp(name, r->old, head) != 0) return false;
    *m = (middle){ name + head, len - head - tail };
    return tail == 0 || memcmp(name + len - tail, r->star + 1, tail) == 0;
}

/* Gives t its new name, which is stored in out. */
static gg_status new_name(const renaming *r, middle m, gg_tensor *t, char out[LONGEST + 1],
                          gg_error *err)
{
    size_t head = r->name_star ? (size_t)(r->name_star - r->name) : strlen(r->name);
    const char *rest = r->name_star ? r->name_star + 1 : "";
    size_t middle_len = r->name_star ? m.n : 0, len = head + middle_len + strlen(rest);
    if (len > LONGEST) {
        gg_fail(err, GG_EUSAGE, "its new name has %zu bytes; the maximum is %d", len, LONGEST);
        return gg_at_tensor(err, t->name, t->name_len);
    }
    memcpy(out, r->name, head);
    memcpy(out + head, m.at, middle_len);
    memcpy(out + head + middle_len, rest, strlen(rest) + 1);
    t->name = out;
    t->name_len = len;
    return GG_OK;
}

/* Adds tensor i under its new name, if one of the renamings is for it. */
static gg_status add_tensor(gg_plan *p, gg_source *s, size_t i, renaming *list, size_t n,
                            size_t *renamed, gg_error *err)
{
    gg_tensor t = *gg_source_tensor(s, i);
    gg_plan_part part = gg_plan_whole(s, i);
    gg_plan_tensor *pt;
    char name[LONGEST + 1];
    middle m;
    size_t k = 0;
    gg_status st = GG_OK;
    while (k < n && !is_for(&list[k], t.name, t.name_len, &m)) k++;
    if (k < n) {
        list[k].used = true;
        ++*renamed;
        st = new_name(&list[k], m, &t, name, err);
    }
    if (st == GG_OK) st = gg_plan_add(p, &t, &pt, err);
    return st == GG_OK ? gg_plan_add_part(pt, &part, err) : st;
}

static gg_status check_unused(const renaming *list, size_t n, gg_error *err)
{
    for (size_t k = 0; k < n; k++) {
        if (list[k].used) continue;
        gg_fail(err, GG_NO, "there is no tensor '%.*s'", (int)list[k].old_len, list[k].old);
        return gg_fix_by(err, "list", "list the tensors");
    }
    return GG_OK;
}

static gg_status check_unique(const gg_plan *p, gg_error *err)
{
    size_t *by_name = NULL;
    gg_tensor *list = gg_plan_list(p, 0, p->n, err);
    if (list && gg_unique_name_index(list, p->n, "two tensors would have this name", &by_name,
                                     err) == GG_EFORMAT)
        err->status = GG_NO; /* the input is sound, but not the choice of names */
    free(by_name);
    free(list);
    return err->status;
}

/* A key with the shape that a tensor had in its checkpoint ends with the name of the tensor. Those
 * with new names come last, so that two tensors may exchange their names. */
static gg_status rename_shapes(gg_plan *p, const gg_source *s, gg_error *err)
{
    static const char shape[] = "comfy.gguf.orig_shape.";
    const size_t n = sizeof shape - 1;
    char name[sizeof shape + LONGEST];
    gg_meta *meta = &p->files[0].meta, made = GG_META_INIT;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < meta->n && err->status == GG_OK; i++) {
            gg_kv kv = meta->kv[i];
            size_t t = gg_text_begins(kv.key, kv.key_len, shape)
                           ? gg_source_find(s, kv.key + n, kv.key_len - n)
                           : SIZE_MAX;
            if ((t != SIZE_MAX) != pass) continue;
            if (t == SIZE_MAX) {
                gg_meta_append(&made, &kv, err);
                continue;
            }
            kv.key_len = (size_t)snprintf(name, sizeof name, "%s%s", shape, p->tensors[t].t.name);
            kv.key = name;
            gg_meta_set(&made, &kv, err);
        }
    gg_meta_free(meta);
    *meta = made;
    return err->status;
}

gg_status gg_stack_rename(gg_source *model, const gg_texts *names, const char *output,
                          const gg_run *run, gg_stack_report *report, gg_error *err)
{
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_stack_report, report);
    gg_plan plan = { .verify = true };
    renaming *list = calloc(names->n + 1, sizeof *list);
    gg_status st = list ? gg_require_model(model, err)
                        : gg_fail(err, GG_ENOMEM, "no memory for %zu names", names->n);
    for (size_t k = 0; k < names->n && st == GG_OK; k++) st = parse(names->items[k], &list[k], err);
    for (size_t i = 0; st == GG_OK && i < gg_source_count(model); i++)
        st = add_tensor(&plan, model, i, list, names->n, &report->tensors, err);
    if (st == GG_OK) st = check_unused(list, names->n, err);
    if (st == GG_OK) st = check_unique(&plan, err);
    if (st == GG_OK)
        st = gg_plan_changed_file(&plan, output, gg_plan_version(model), gg_source_meta(model),
                                  model, err);
    if (st == GG_OK) st = rename_shapes(&plan, model, err);
    if (st == GG_OK) st = gg_plan_write(&plan, run, &report->bytes, err);
    gg_plan_free(&plan);
    free(list);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(model));
}
