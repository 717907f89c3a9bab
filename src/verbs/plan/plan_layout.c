/* plan_layout.c - computes the header and the offsets of a plan's files. */
#include "plan_layout.h"

#include "gguf/gguf.h"
#include "organ/manifest.h"

#include <stdlib.h>
#include <string.h>

/* Finds the pad that follows `after` (NULL = the header, which is first). */
static int order_name(const char *after, size_t len, const gg_pad *pad)
{
    if (!after || !pad->after) return (after != NULL) - (pad->after != NULL);
    size_t n = len < pad->after_len ? len : pad->after_len;
    int c = n ? memcmp(after, pad->after, n) : 0;
    return c ? c : len < pad->after_len ? -1 : len > pad->after_len;
}

static int order_pad(const void *a, const void *b)
{
    const gg_pad *x = *(const gg_pad *const *)a, *y = *(const gg_pad *const *)b;
    int c = order_name(x->after, x->after_len, y);
    return c ? c : x < y ? -1 : x > y;
}

/* A layout may have as many pads as the model has tensors, so they are sorted. */
static gg_status sort_pads(const gg_plan_file *f, gg_file_plan *fp, gg_error *err)
{
    fp->pads = calloc(f->n_pads ? f->n_pads : 1, sizeof *fp->pads);
    if (!fp->pads) return gg_fail(err, GG_ENOMEM, "no memory for padding");
    for (size_t i = 0; i < f->n_pads; i++) fp->pads[i] = &f->pads[i];
    qsort(fp->pads, f->n_pads, sizeof *fp->pads, order_pad);
    return GG_OK;
}

bool gg_plan_pad_fits(const gg_pad *pad, uint64_t want, bool last)
{
    return pad->n == want || (last && pad->n < want);
}

const gg_pad *gg_plan_find_pad(const gg_plan_file *f, const gg_file_plan *fp,
                               const gg_tensor *after, uint64_t want, bool last)
{
    size_t lo = 0, hi = f->n_pads;
    const char *name = after ? after->name : NULL;
    size_t len = after ? after->name_len : 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (order_name(name, len, fp->pads[mid]) > 0) lo = mid + 1;
        else hi = mid;
    }
    const gg_pad *pad = lo < f->n_pads ? fp->pads[lo] : NULL;
    if (!pad || order_name(name, len, pad) != 0) return NULL;
    return gg_plan_pad_fits(pad, want, last) ? pad : NULL;
}

uint64_t gg_plan_pad_after(const gg_tensor *t, uint64_t alignment)
{
    uint64_t end = t->offset + t->bytes;
    return gg_align_up(end, alignment) - end;
}

void gg_file_plan_free(gg_file_plan *fp)
{
    free(fp->header);
    free(fp->pads);
    *fp = (gg_file_plan){ 0 };
}

gg_status gg_plan_layout(gg_plan *p, size_t f, gg_file_plan *fp, gg_error *err)
{
    const gg_plan_file *pf = &p->files[f];
    *fp = (gg_file_plan){ 0 };
    gg_status st = gg_meta_alignment(&pf->meta, &fp->alignment, err);
    gg_fix(err, "make it a u32 that is a power of two, such as 32, or delete it");
    if (st == GG_OK) st = sort_pads(pf, fp, err);
    if (st != GG_OK) return st;
    gg_tensor *list = calloc(pf->n ? pf->n : 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for a plan");
    for (size_t i = 0; i < pf->n; i++) list[i] = p->tensors[pf->first + i].t;
    st = gg_plan_offsets(list, pf->n, fp->alignment, &fp->data_bytes, err);
    if (st == GG_OK)
        st = gg_header_emit(pf->version, &pf->meta, list, pf->n, &fp->header, &fp->header_len, err);
    for (size_t i = 0; i < pf->n; i++) p->tensors[pf->first + i].t.offset = list[i].offset;
    fp->data_start = pf->n ? gg_align_up(fp->header_len, fp->alignment) : fp->header_len;
    fp->size = fp->data_start + fp->data_bytes;
    if (pf->n && st == GG_OK) {
        const gg_tensor *t = &list[pf->n - 1];
        uint64_t want = gg_plan_pad_after(t, fp->alignment);
        const gg_pad *pad = gg_plan_find_pad(pf, fp, t, want, true);
        if (pad) fp->size -= want - pad->n;
    }
    free(list);
    fp->size += pf->trailing_bytes;
    return st;
}

gg_status gg_plan_size(gg_plan *p, uint64_t *bytes, gg_error *err)
{
    gg_status st = GG_OK;
    *bytes = 0;
    for (size_t f = 0; f < p->n_files && st == GG_OK; f++) {
        gg_file_plan fp;
        st = gg_plan_layout(p, f, &fp, err);
        *bytes += fp.size;
        gg_file_plan_free(&fp);
    }
    return st;
}
