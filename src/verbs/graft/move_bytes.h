/* move_bytes.h - the source of the bytes of a moved tensor: the donor's bytes, or a producer
 * that converts or blends. Shared by transplant and graft. Internal. */
#ifndef GG_MOVE_BYTES_H
#define GG_MOVE_BYTES_H

#include "organ/gg_transplant.h"
#include "verbs/compute/compute.h"

typedef struct gg_mover {
    gg_source *base, *donor;
    const gg_blend *blend;        /* belongs to the options, which must live as long */
    uint64_t blocks;              /* of the base, for a ramp over the blocks */
    gg_computations list;         /* owns the producers; free it after writing */
    const gg_select *select;      /* which experts, for moves of a part of a stack */
    struct gg_mover_parts *parts; /* parts of inputs and copies, in chained blocks */
} gg_mover;

/* The bytes of a move: either a producer, or parts to copy one after another. Both live as
 * long as the maker. */
typedef struct gg_moved_bytes {
    gg_producer p; /* p.make NULL = copy the parts */
    const gg_plan_part *parts;
    size_t n_parts;
} gg_moved_bytes;

void gg_mover_open(gg_mover *m, gg_source *base, gg_source *donor, const gg_match_options *o);
void gg_mover_close(gg_mover *m);

/* *out gets the name, shape and bytes of the tensor that the move writes. */
gg_status gg_mover_bytes(gg_mover *m, const gg_move *move, gg_tensor *out, gg_moved_bytes *made,
                         gg_error *err);

#endif
