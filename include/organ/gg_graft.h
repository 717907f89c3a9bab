/* gg_graft.h - put tensors of a donor, or a LoRA adapter, into a base; the result is an organ
 * directory. gg_transplant.h has matching and moves, and writes GGUF files.
 *
 * The general rules of organ.h apply: run, options and report may be NULL.
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
    bool link;            /* link unchanged files of a base directory instead of copying them;
                             editing one directory then changes the other */
    bool adapter;         /* the donor is a LoRA adapter, see gg_transplant_options */
    double scale;         /* of the adapter */
    const char *imatrix;  /* for tensors that are encoded, as in gg_output_options; NULL = none */
} gg_graft_options;

/* Writes the base with the donor's tensors as the organ directory `output`. Base and donor must be
 * seekable (gg_source_options.spooled). The history of each moved entry names its origin, and
 * keys such as general.file_type follow. Errors: GG_NO, before anything is written, for the first
 * mismatch, or if nothing moves; GG_EUSAGE for an existing output and for match.mtp; GG_EFORMAT. */
gg_status gg_graft(gg_source *base, gg_source *donor, const gg_graft_options *o, const char *output,
                   const gg_run *run, gg_transplant_report *report, gg_error *err);

#ifdef __cplusplus
}
#endif

#endif
