/* history.h - what was done to a model, in its own keys: general.name and organ.history. Internal.
 */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

/* Appends gg_model_name to a text. */
gg_status gg_put_model_name(gg_buf *text, const gg_source *s, gg_error *err);

/* Appends `step` to the array of strings organ.history. Its first word, which a colon follows, is
 * appended to general.name, after the names of the n other models of which parts were taken: with
 * "graft: 12 tensors of B", the model A becomes "A + B (graft)". A model without general.name gets
 * none, and one of more than 4096 bytes stays. Does nothing with run->no_history. */
gg_status gg_record_step(gg_meta *meta, gg_source *const *others, size_t n, const gg_buf *step,
                         const gg_run *run, gg_error *err);
