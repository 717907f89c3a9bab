/* ranges.h - parse lists of numbers and ranges such as 5-20,25. Internal. */
#ifndef GG_RANGES_H
#define GG_RANGES_H

#include "organ/gg_status.h"

typedef struct gg_ranges {
    struct gg_range {
        uint64_t first, last;
    } * items;
    size_t n;
} gg_ranges;

/* Appends the ranges of `text`. Fails with GG_EUSAGE if it is malformed; the hint of the error is
 * then `about`. */
gg_status gg_ranges_parse(gg_ranges *r, gg_hint about, const char *text, gg_error *err);
bool gg_ranges_have(const gg_ranges *r, uint64_t v);
void gg_ranges_free(gg_ranges *r);

#endif
