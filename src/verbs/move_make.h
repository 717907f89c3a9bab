/* move_make.h - where the bytes of a moved tensor come from: the donor's as they are,
 * or a producer that converts or blends. Shared by transplant and graft. Internal. */
#ifndef GG_MOVE_MAKE_H
#define GG_MOVE_MAKE_H

#include "gg_transplant.h"
#include "transform.h"

typedef struct gg_move_maker {
    gg_source *base, *donor, *ancestor; /* ancestor only for task blends */
    bool blends;
    gg_blend blend;
    uint64_t blocks;       /* of the base, for a ramp over the blocks */
    gg_transforms list;    /* owns the producers: free it when all is written */
    gg_plan_part *inputs;  /* the parts that producers read */
    size_t n_inputs, cap_inputs;
} gg_move_maker;

/* n_moves: how many gg_move_make calls there may be. blend NULL = none. */
gg_status gg_move_maker_start(gg_move_maker *m, gg_source *base, gg_source *donor, gg_source *ancestor,
                              const char *blend, size_t n_moves, gg_error *err);
void gg_move_maker_end(gg_move_maker *m);

/* The tensor that takes the move's place: *out gets its name, shape and bytes. Either
 * p->make is set, or *part says which bytes to copy. */
gg_status gg_move_make(gg_move_maker *m, const gg_move *move, gg_tensor *out, gg_plan_part *part,
                       gg_producer *p, gg_error *err);

#endif
