/* move_bytes.h - where the bytes of a moved tensor come from: the donor's as they are,
 * or a producer that converts or blends. Shared by transplant and graft. Internal. */
#ifndef GG_MOVE_MAKE_H
#define GG_MOVE_MAKE_H

#include "organ/gg_transplant.h"
#include "verbs/compute/compute.h"

typedef struct gg_move_maker {
    gg_source *base, *donor, *ancestor; /* ancestor only for task blends */
    bool blends;
    gg_blend blend;
    uint64_t blocks;             /* of the base, for a ramp over the blocks */
    gg_transforms list;          /* owns the producers: free it when all is written */
    const gg_select *select;     /* which experts, for moves of some of a stack */
    struct gg_move_parts *parts; /* what inputs and copies read: blocks of a chain */
} gg_move_maker;

/* What takes a move's place: either a producer, or parts to copy one after another.
 * Both live as long as the maker. */
typedef struct gg_made {
    gg_producer p; /* p.make NULL = copy the parts */
    const gg_plan_part *parts;
    size_t n_parts;
} gg_made;

/* blend NULL = none. */
gg_status gg_move_maker_start(gg_move_maker *m, gg_source *base, gg_source *donor,
                              gg_source *ancestor, const char *blend, const gg_select *select,
                              gg_error *err);
void gg_move_maker_end(gg_move_maker *m);

/* *out gets the name, shape and bytes of the tensor that takes the move's place. */
gg_status gg_move_make(gg_move_maker *m, const gg_move *move, gg_tensor *out, gg_made *made,
                       gg_error *err);

#endif
