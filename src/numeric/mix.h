/* mix.h - counts values by their magnitude. */
#pragma once

#include "base/isa.h"

/* Number of values whose magnitude is not below `limit`, and of NaNs; limit may be INFINITY. */
GG_DECLARE_KF(size_t, gg_mix_beyond, (const float *x, size_t n, float limit));
