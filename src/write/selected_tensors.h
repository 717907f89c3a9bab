/* selected_tensors.h - lists the selected tensors of a source, with stacks of experts split
 * into one piece per expert if wanted. Internal. */
#pragma once

#include "organ/gg_organ.h"

#include "organ/record.h"

typedef struct gg_selected {
    gg_tensor t;   /* t.name points into `name` */
    size_t source; /* index of the tensor in the source */
    uint64_t at;   /* first byte within that tensor's data */
    bool expert;   /* one expert of a stack */
    char name[GG_RECORD_NAME + 1];
} gg_selected;

/* The selection, and the function to call for each of its tensors or experts. */
typedef struct gg_visit {
    const gg_select *select;
    bool split_experts; /* list experts of stacks one by one even if none are selected */
    gg_status (*fn)(void *ctx, const gg_selected *p, gg_error *err);
    void *ctx;
} gg_visit;

/* Calls the function for tensor i of the source, or for its experts in their order. */
gg_status gg_selected_of(const gg_source *s, size_t i, const gg_visit *v, gg_error *err);

/* Bytes of the selected tensors, for the progress. Experts count with their whole stack. */
uint64_t gg_selected_bytes(const gg_source *s, const gg_select *select);

/* Calls the function for all tensors in order. On a pipe it can read the current tensor. */
gg_status gg_selected_each(gg_source *s, const gg_visit *v, gg_error *err);
