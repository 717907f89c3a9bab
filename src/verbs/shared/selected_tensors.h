/* selected_tensors.h - a source taken apart: its tensors, stacks of experts cut into one
 * piece an expert where asked, and only what is selected. Internal. */
#ifndef GG_SELECTED_TENSORS_H
#define GG_SELECTED_TENSORS_H

#include "organ/gg_organ.h"

#include "organ/record.h"

typedef struct gg_selected {
    gg_tensor t; /* t.name points into `name` */
    gg_anatomy a;
    size_t source; /* index of the tensor in the source */
    uint64_t at;   /* first byte within that tensor's data */
    bool expert;   /* one expert of a stack */
    char name[GG_RECORD_NAME + 1];
} gg_selected;

/* What is selected, and the function to call for each tensor or expert of it. */
typedef struct gg_visit {
    const gg_select *select;
    bool split_experts; /* experts of stacks one by one, also without a selection of them */
    gg_status (*fn)(void *ctx, const gg_selected *p, gg_error *err);
    void *ctx;
} gg_visit;

/* For tensor i of the source: itself, or its experts in their order. */
gg_status gg_selected_of(const gg_source *s, size_t i, const gg_visit *v, gg_error *err);

/* Bytes of the tensors that are selected, experts of a stack with all of it: for progress. */
uint64_t gg_selected_bytes(const gg_source *s, const gg_select *select);

/* For all tensors, front to back: a pipe may read the data of the one that is current. */
gg_status gg_selected_each(gg_source *s, const gg_visit *v, gg_error *err);

#endif
