/* set_keys.h - keys that a user sets in a model about to be written. Internal. */
#ifndef GG_SET_KEYS_H
#define GG_SET_KEYS_H

#include "organ/gg_keys.h"

/* n KEY=TYPE:VALUE texts, then n_files KEY=FILE texts. */
gg_status gg_set_keys(gg_meta *meta, const char *const *texts, size_t n, const char *const *files,
                      size_t n_files, gg_error *err);

#endif
