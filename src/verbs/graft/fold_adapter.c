/* fold_adapter.c - a LoRA adapter folded into the tensors of a base. */
#include "fold_adapter.h"

#include "base/error.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "plan_moves.h"

gg_status gg_fold_open(gg_fold *f, gg_source *base, gg_source *adapter, double scale, gg_error *err)
{
    *f = (gg_fold){ .base = base };
    return gg_lora_open(adapter, base, scale, &f->lora, err);
}

gg_status gg_fold_tensor(gg_fold *f, size_t i, gg_producer *p, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(f->base, i);
    const gg_manifest *m = gg_source_manifest(f->base);
    gg_plan_part whole = { f->base, i, 0, t->bytes, m ? m->entries[i].sha256 : NULL };
    gg_input in = { t->dtype, &whole, 1 };
    gg_status st = gg_compute_lora(&f->list, &f->lora, t, &in, p, err);
    char scale[GG_RECORD_NAME + 1];
    if (st != GG_OK || !p->make || gg_find_scale(f->base, t->name, t->name_len, scale) == SIZE_MAX)
        return st;
    gg_fail(err, GG_EUNSUPPORTED, "its values are scaled by %s, so an adapter cannot be applied",
            scale);
    return gg_at_tensor(err, t->name, t->name_len);
}

void gg_fold_close(gg_fold *f)
{
    gg_computations_free(&f->list);
}
