/* gg_graft.h - organs of a donor into a base, from directory to directory; and a LoRA
 * adapter folded into a base. See gg_transplant.h for matching and moves.
 */
#ifndef GG_GRAFT_H
#define GG_GRAFT_H

#include "gg_transplant.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gg_graft_options {
    gg_match_options match;
    bool skip_mismatched; /* leave mismatches out instead of failing */
    bool link;            /* unchanged files of a base directory become hard links:
                             editing one directory then changes the other */
} gg_graft_options;

/* The base as an organ directory `output`, with the donor's tensors in it. Base and
 * donor are seekable (gg_source_open_spooled). Each moved entry's history says where it
 * came from. GG_NO with the first mismatch named, or when nothing moves, before
 * anything is written. Keys follow the tensors' types (file_type). */
gg_status gg_graft(gg_source *base, gg_source *donor, const gg_graft_options *o, const char *output,
                   const gg_run *run, gg_transplant_report *report, gg_error *err);

/* The base as an organ directory with W + scale * (alpha / r) * B A for each W that the
 * LoRA adapter has a pair for, re-encoded in W's dtype. GG_EFORMAT or GG_NO names what
 * does not fit. */
gg_status gg_graft_adapter(gg_source *base, gg_source *adapter, double scale, bool link,
                           const char *output, const gg_run *run, gg_transplant_report *report,
                           gg_error *err);

#ifdef __cplusplus
}
#endif

#endif
