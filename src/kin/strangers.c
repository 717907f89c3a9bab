#include "strangers.h"

#include "gguf/gguf.h"

gg_status gg_judge_strangers(gg_source *a, gg_source *b, const gg_compare_options *few,
                             bool experts, bool *doubtful, gg_error *err)
{
    gg_compare_report r = { 0 };
    gg_run quiet = { .threads = 1 };
    gg_status st = few->n_pairs ? gg_compare_models(a, b, few, &quiet, &r, err) : GG_OK;
    *doubtful = st == GG_OK && 4 * r.model.lineage.strange > r.model.lineage.n;
    if (st != GG_OK || *doubtful || !experts || !gg_arch_number(gg_source_meta(a), "expert_count"))
        return st;
    gg_lineage l;
    gg_compare_options all = { .sample = few->sample };
    st = gg_lineage_of(a, b, &all, &quiet, &l, err);
    *doubtful = st == GG_OK && l.verdict == GG_LINEAGE_PERMUTED;
    return st;
}
