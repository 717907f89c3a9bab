/* plan_layout.h - header and offsets of a plan's files. Internal to src/verbs/plan. */
#ifndef GG_PLAN_LAYOUT_H
#define GG_PLAN_LAYOUT_H

#include "plan.h"

#include "organ/manifest.h"

typedef struct gg_file_plan {
    uint8_t *header; /* owned */
    size_t header_len;
    uint64_t data_start, data_bytes;
    uint64_t size; /* size of the file with the trailing bytes */
    uint64_t alignment;
    const gg_pad **pads; /* of the layout, sorted by the name they follow; owned */
} gg_file_plan;

/* Compute the layout of file f: the header, and the offset of each of its tensors (stored in
 * p->tensors). GG_EFORMAT if the keys state an invalid alignment. Free *out with
 * gg_file_plan_free even on error. */
gg_status gg_plan_layout(gg_plan *p, size_t f, gg_file_plan *out, gg_error *err);
void gg_file_plan_free(gg_file_plan *fp);

/* Number of padding bytes after tensor `t`. */
uint64_t gg_plan_pad_after(const gg_tensor *t, uint64_t alignment);

/* Whether `pad` can replace `want` zeros. Only the padding after the last tensor (`last`) may be
 * shorter. */
bool gg_plan_pad_fits(const gg_pad *pad, uint64_t want, bool last);

/* The unusual padding after `after` (NULL = the header) if it fits, else NULL. */
const gg_pad *gg_plan_find_pad(const gg_plan_file *f, const gg_file_plan *fp,
                               const gg_tensor *after, uint64_t want, bool last);

#endif
