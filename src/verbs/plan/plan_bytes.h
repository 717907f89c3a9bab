/* plan_bytes.h - writes the bytes of a plan, at an offset of a file or in sequence.
 * Internal to src/verbs/plan.
 *
 * `at` is an offset of fd, or GG_AT_POS for the current position, which pipes need.
 */
#ifndef GG_PLAN_BYTES_H
#define GG_PLAN_BYTES_H

#include "plan.h"

#include "base/io.h"
#include "organ/manifest.h"

/* Write padding: the bytes of `pad`, or `want` zeros if it is NULL. */
gg_status gg_plan_write_pad(int fd, uint64_t at, uint64_t want, const gg_pad *pad, gg_error *err);

/* Copy one part of tensor t; with p->verify its sha256 is checked. Errors of the output have
 * no file name. */
gg_status gg_plan_copy_part(const gg_plan *p, const gg_tensor *t, const gg_plan_part *part,
                            gg_place out, const gg_run *run, gg_error *err);

/* Copy the bytes that follow the tensors of a file; with p->verify their sha256 is checked. */
gg_status gg_plan_copy_trailing(const gg_plan *p, const gg_plan_file *pf, int fd, uint64_t at,
                                gg_error *err);

#endif
