/* fold_adapter.h - a LoRA adapter folded into the tensors of a base, for grafts and
 * transplants. Internal. */
#ifndef GG_FOLD_ADAPTER_H
#define GG_FOLD_ADAPTER_H

#include "verbs/compute/compute.h"

typedef struct gg_fold {
    gg_source *base;
    gg_lora lora;
    gg_computations list; /* owns the producers; close the fold after writing */
} gg_fold;

/* Check the adapter as gg_lora_open does. Both sources must outlive the fold. */
gg_status gg_fold_open(gg_fold *f, gg_source *base, gg_source *adapter, double scale,
                       gg_error *err);

/* Get the producer of tensor i of the base with the adapter folded in. If the adapter does not
 * change the tensor, p->make is NULL and GG_OK is returned. GG_EUNSUPPORTED if the values are
 * scaled by a separate tensor. */
gg_status gg_fold_tensor(gg_fold *f, size_t i, gg_producer *p, gg_error *err);

void gg_fold_close(gg_fold *f);

#endif
