/* set_keys.h - applies the keys that a user sets in a new model. Internal. */
#ifndef GG_SET_KEYS_H
#define GG_SET_KEYS_H

#include "organ/gg_keys.h"
#include "organ/gg_verbs.h"

/* Applies o->set_kv, then o->set_kv_files. */
gg_status gg_set_keys(gg_meta *meta, const gg_output_options *o, gg_error *err);

#endif
