/* merge_align.c - brings the models of a merge into the order of the first one. */
#include "merge_models.h"

#include "organ/gg_align.h"

gg_status gg_merge_align(gg_merge_models *models, const gg_merging *m, gg_source *first,
                         const gg_run *run, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < models->n && st == GG_OK; i++) {
        gg_merge_model *one = &models->list[i];
        if (one->source == first) continue;
        st = gg_align(first, one->source, NULL, &one->aligned, run, NULL, err);
        for (size_t k = 0; k < m->n && st == GG_OK; k++)
            if (m->models[k] == one->source) m->models[k] = one->aligned;
    }
    return st;
}
