/* finite.h - check that every value of a row is finite. Internal. */
#ifndef GG_FINITE_H
#define GG_FINITE_H

#include "base/isa.h"

GG_DECLARE_KF(bool, gg_all_finite, (const float *x, size_t n));

#endif
