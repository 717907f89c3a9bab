/* scale.c - the separate tensor that scales the values of a weight. */
#include "organ/tensor_names.h"

#include <string.h>

#include "organ/record.h"

size_t gg_find_scale(const gg_source *s, const char *weight, size_t len,
                     char name[GG_RECORD_NAME + 1])
{
    static const char tail[] = ".weight";
    size_t n = sizeof tail - 1;
    if (len <= n || len > GG_RECORD_NAME || memcmp(weight + len - n, tail, n) != 0) return SIZE_MAX;
    memcpy(name, weight, len - n);
    memcpy(name + len - n, ".scale", 7);
    return gg_source_find(s, name, len - 1);
}
