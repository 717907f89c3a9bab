/* merge_methods.c - the table of methods.
 *
 * Names and defaults are those of mergekit. A method that needs whole matrices gets a row with
 * .whole (see merge_whole.h), .make = gg_merge_add_whole, and GG_MERGE_BASE_MUST. */
#include "merge_kinds.h"

#include "base/nearest.h"
#include "numeric/merge.h"

#include <math.h>
#include <string.h>

#define TAKES(...) \
    .takes = { __VA_ARGS__ }, \
    .n_takes = sizeof((gg_merge_default[]){ __VA_ARGS__ }) / sizeof(gg_merge_default)
#define COMBINES \
    .state_size = &gg_combination_size, .subtracts = true, .make = gg_combine, \
    .unchanged = gg_combination_unchanged
#define SPARSE \
    .state_size = &gg_sparse_size, .start = gg_sparse_start, .pass = gg_sparse_pass, \
    .make = gg_sparse_make, .unchanged = gg_sparse_unchanged
/* Parameters of all sparse methods, with their defaults. */
#define THINNED(normalize, rescale) \
    { GG_MP_WEIGHT, 1 }, { GG_MP_DENSITY, 1 }, { GG_MP_LAMBDA, 1 }, \
        { GG_MP_NORMALIZE, normalize }, { GG_MP_RESCALE, rescale }, \
    { \
        GG_MP_RESCALE_NORM, 1 \
    }
#define BY_MAGNITUDE(borders) \
    .counters = GG_QUANTILE_HIGH + (borders)*GG_QUANTILE_SEGMENTS * GG_QUANTILE_LOW
#define ANGLES COMBINES, .start = gg_angles_start, .pass = gg_angles_pass

static const gg_merge_method methods[] = {
    { GG_MERGE_LINEAR, "linear", NULL, "weighted mean", GG_MERGE_BASE_KEYS, 1, GG_MERGE_MODELS,
      TAKES({ GG_MP_WEIGHT, 1 }, { GG_MP_NORMALIZE, 1 }), COMBINES, .start = gg_linear_start },
    { GG_MERGE_SLERP, "slerp", NULL, "two models, along the arc between them", GG_MERGE_BASE_FIRST,
      2, 2, TAKES({ GG_MP_T, NAN }), ANGLES },
    { GG_MERGE_NUSLERP, "nuslerp", NULL, "two models along the arc, with weights",
      GG_MERGE_BASE_MAY, 2, 2, TAKES({ GG_MP_WEIGHT, 1 }, { GG_MP_FLATTEN, 1 }), ANGLES },
    { GG_MERGE_MULTISLERP, "multislerp", NULL, "weighted mean of the directions and of the lengths",
      GG_MERGE_BASE_MAY, 2, GG_MERGE_MODELS,
      TAKES({ GG_MP_WEIGHT, 1 }, { GG_MP_NORMALIZE, 1 }, { GG_MP_EPS, 1e-8 }), ANGLES },
    { GG_MERGE_KARCHER, "karcher", NULL, "Karcher mean of the directions, mean of the lengths",
      GG_MERGE_BASE_KEYS, 2, GG_MERGE_MODELS, TAKES({ GG_MP_MAX_ITER, 10 }, { GG_MP_TOL, 1e-5 }),
      ANGLES },
    { GG_MERGE_TASK, "task_arithmetic", "task", "base plus weighted differences",
      GG_MERGE_BASE_MUST, 1, GG_MERGE_MODELS,
      TAKES({ GG_MP_WEIGHT, 1 }, { GG_MP_LAMBDA, 1 }, { GG_MP_NORMALIZE, 0 }), COMBINES,
      .start = gg_task_start },
    { GG_MERGE_TIES, "ties", NULL, "the largest differences, where their signs agree",
      GG_MERGE_BASE_MUST, 1, GG_MERGE_MODELS, TAKES(THINNED(1, 0)), SPARSE, BY_MAGNITUDE(1) },
    { GG_MERGE_DARE_LINEAR, "dare_linear", NULL, "differences at random", GG_MERGE_BASE_MUST, 1,
      GG_MERGE_MODELS, TAKES(THINNED(0, 1)), SPARSE, .random = true },
    { GG_MERGE_DARE_TIES, "dare_ties", NULL, "differences at random, where their signs agree",
      GG_MERGE_BASE_MUST, 1, GG_MERGE_MODELS, TAKES(THINNED(0, 1)), SPARSE, .random = true },
    { GG_MERGE_DELLA, "della", NULL, "differences at random by their rank, where their signs agree",
      GG_MERGE_BASE_MUST, 1, GG_MERGE_MODELS, TAKES(THINNED(1, 1), { GG_MP_EPSILON, 0.15 }), SPARSE,
      .random = true, .scratch = 2 * sizeof(uint64_t) },
    { GG_MERGE_DELLA_LINEAR, "della_linear", NULL, "differences at random by their rank",
      GG_MERGE_BASE_MUST, 1, GG_MERGE_MODELS, TAKES(THINNED(0, 1), { GG_MP_EPSILON, 0.15 }), SPARSE,
      .random = true, .scratch = 2 * sizeof(uint64_t) },
    { GG_MERGE_BREADCRUMBS, "breadcrumbs", NULL, "differences without the largest and the smallest",
      GG_MERGE_BASE_MUST, 1, GG_MERGE_MODELS, TAKES(THINNED(0, 0), { GG_MP_GAMMA, 0.01 }), SPARSE,
      BY_MAGNITUDE(2) },
    { GG_MERGE_BREADCRUMBS_TIES, "breadcrumbs_ties", NULL,
      "differences without the largest and the smallest, where their signs agree",
      GG_MERGE_BASE_MUST, 1, GG_MERGE_MODELS, TAKES(THINNED(0, 0), { GG_MP_GAMMA, 0.01 }), SPARSE,
      BY_MAGNITUDE(2) },
    { GG_MERGE_SCE, "sce", NULL, "differences that vary most between the models",
      GG_MERGE_BASE_MUST, 1, GG_MERGE_MODELS, TAKES({ GG_MP_SELECT_TOPK, 1 }), BY_MAGNITUDE(1),
      .state_size = &gg_sce_size, .start = gg_sce_start, .pass = gg_sce_pass, .make = gg_sce_make },
    { GG_MERGE_NEARSWAP, "nearswap", NULL, "values of a model that are near those of the base",
      GG_MERGE_BASE_FIRST, 2, 2, TAKES({ GG_MP_T, NAN }), .start = gg_nearswap_start,
      .make = gg_nearswap_make },
    { GG_MERGE_ARCEE_FUSION, "arcee_fusion", NULL, "the most important changes of one model",
      GG_MERGE_BASE_FIRST, 2, 2, BY_MAGNITUDE(3), .scratch = 2 * sizeof(float),
      .state_size = &gg_fusion_size, .start = gg_fusion_start, .pass = gg_fusion_pass,
      .make = gg_fusion_make },
    { GG_MERGE_RAM, "ram", NULL, "mean of changes that several models make; all others are kept",
      GG_MERGE_BASE_MUST, 1, GG_MERGE_MODELS, TAKES({ GG_MP_EPSILON, 1e-5 }),
      .state_size = &gg_ram_size, .pass = gg_ram_pass, .make = gg_ram_make },
    { GG_MERGE_RAMPLUS, "ramplus_tl", "ramplus",
      "like ram, with the changes of one model amplified", GG_MERGE_BASE_MUST, 1, GG_MERGE_MODELS,
      TAKES({ GG_MP_EPSILON, 1e-5 }, { GG_MP_R, 0.1 }, { GG_MP_ALPHA, 0.2 }),
      .state_size = &gg_ram_size, .pass = gg_ram_pass, .make = gg_ram_make },
    { GG_MERGE_MODEL_STOCK, "model_stock", NULL, "weights from the angles between the differences",
      GG_MERGE_BASE_MUST, 2, GG_MERGE_MODELS, TAKES({ GG_MP_FILTER_WISE, 0 }), ANGLES },
    { GG_MERGE_ISO, "iso", NULL, "sum of the differences with equal singular values",
      GG_MERGE_BASE_MUST, 1, GG_MERGE_MODELS, TAKES({ GG_MP_T, 0.6 }, { GG_MP_WEIGHT, 1 }),
      .whole = gg_merge_iso, .make = gg_merge_add_whole },
    { GG_MERGE_PASSTHROUGH, "passthrough", NULL, "one model, scaled", GG_MERGE_BASE_KEYS, 1, 1,
      TAKES({ GG_MP_SCALE, 1 }), COMBINES, .start = gg_passthrough_start },
};

static bool same_name(const char *name, const char *text, size_t len)
{
    if (!name || strlen(name) != len) return false;
    for (size_t i = 0; i < len; i++)
        if (name[i] != (text[i] == '-' ? '_' : text[i])) return false;
    return true;
}

bool gg_merge_method_at(size_t i, gg_merge_method_info *info)
{
    if (i >= sizeof methods / sizeof methods[0]) return false;
    const gg_merge_method *m = &methods[i];
    *info = (gg_merge_method_info){ .name = m->name,
                                    .alias = m->alias,
                                    .meaning = m->meaning,
                                    .base = m->base,
                                    .least = m->least,
                                    .most = m->most,
                                    .n_parameters = m->n_takes };
    for (size_t k = 0; k < m->n_takes; k++) {
        info->parameters[k].name = gg_merge_param_name(m->takes[k].param);
        info->parameters[k].meaning = gg_merge_param_meaning(m->takes[k].param);
        info->parameters[k].value = m->takes[k].value;
    }
    return true;
}

const gg_merge_method *gg_merge_method_by_name(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (same_name(methods[i].name, name, len) || same_name(methods[i].alias, name, len))
            return &methods[i];
    return NULL;
}

const char *gg_merge_method_near(const char *name, size_t len)
{
    enum { COUNT = sizeof methods / sizeof methods[0] };
    const char *known[2 * COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        known[2 * i] = methods[i].alias;
        known[2 * i + 1] = methods[i].name;
    }
    return gg_nearest(name, len, known, 2 * COUNT);
}
