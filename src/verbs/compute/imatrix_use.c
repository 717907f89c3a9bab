/* imatrix_use.c - counts the tensors that are encoded with an importance matrix. */
#include "imatrix_use.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "verbs/shared/keys.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>
#include <string.h>

#define NAMED 4 /* tensors in the note */

gg_status gg_imatrix_use_add(gg_imatrix_use *u, const gg_tensor *t, gg_error *err)
{
    char shown[160];
    bool has = false;
    if (!u->imatrix || !gg_is_quantized(t->dtype)) return GG_OK;
    gg_status st = gg_imatrix_check(u->imatrix, t, false, &has, err);
    if (st != GG_OK) return st;
    u->used += has;
    if (has || u->lacking++ >= NAMED) return GG_OK;
    size_t at = strlen(u->names);
    gg_escape(t->name, t->name_len, shown, sizeof shown);
    snprintf(u->names + at, sizeof u->names - at, "%s%.60s", at ? ", " : "", shown);
    return GG_OK;
}

void gg_imatrix_use_note(const gg_imatrix_use *u, const gg_run *run)
{
    if (!u->imatrix) return;
    if (u->used + u->lacking == 0)
        gg_note(run, "no tensor is encoded, so the importance matrix has no effect");
    if (u->lacking)
        gg_note(run, "the importance matrix lacks %zu of the %zu tensors that are encoded: %s%s",
                u->lacking, u->used + u->lacking, u->names, u->lacking > NAMED ? ", ..." : "");
}

gg_status gg_imatrix_review(const gg_imatrix *imatrix, const gg_plan *p, size_t *used,
                            const gg_run *run, gg_error *err)
{
    gg_imatrix_use u = { .imatrix = imatrix };
    gg_status st = GG_OK;
    for (size_t i = 0; i < p->n && st == GG_OK; i++)
        if (p->tensors[i].make) st = gg_imatrix_use_add(&u, &p->tensors[i].t, err);
    if (st == GG_OK) gg_imatrix_use_note(&u, run);
    if (used) *used = u.used;
    return st;
}

gg_status gg_imatrix_keys(const gg_imatrix *imatrix, gg_meta *meta, gg_error *err)
{
    if (!imatrix) return GG_OK;
    gg_imatrix_info i = gg_imatrix_info_of(imatrix);
    uint32_t entries = i.entries > UINT32_MAX ? UINT32_MAX : (uint32_t)i.entries;
    uint32_t chunks = i.chunks > UINT32_MAX ? UINT32_MAX : (uint32_t)i.chunks;
    gg_meta_delete_imatrix(meta);
    gg_status st = gg_meta_set_str(meta, "quantize.imatrix.file", i.file, strlen(i.file), err);
    if (st == GG_OK && *i.dataset)
        st = gg_meta_set_str(meta, "quantize.imatrix.dataset", i.dataset, strlen(i.dataset), err);
    if (st == GG_OK) st = gg_meta_set_u32(meta, "quantize.imatrix.entries_count", entries, err);
    if (st == GG_OK && chunks)
        st = gg_meta_set_u32(meta, "quantize.imatrix.chunks_count", chunks, err);
    return st;
}
