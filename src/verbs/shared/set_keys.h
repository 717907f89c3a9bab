/* set_keys.h - applies the keys that a user sets in a new model. Internal. */
#ifndef GG_SET_KEYS_H
#define GG_SET_KEYS_H

#include "organ/gg_keys.h"

/* Applies n texts KEY=TYPE:VALUE, then n_files texts KEY=FILE. */
gg_status gg_set_keys(gg_meta *meta, const char *const *texts, size_t n, const char *const *files,
                      size_t n_files, gg_error *err);

#endif
