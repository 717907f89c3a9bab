/* sample.c - choose the values of a tensor to sample. */
#include "numeric/numeric.h"

__extension__ typedef unsigned __int128 u128;

uint64_t gg_sample_count(uint64_t elements, uint64_t wanted)
{
    return wanted == 0 || wanted > elements ? elements : wanted;
}

uint64_t gg_sample_index(uint64_t i, uint64_t elements, uint64_t count)
{
    if (count == 0) return 0;
    if (count == elements) return i;
    if ((i | elements) >> 32 == 0) return i * elements / count;
    return (uint64_t)((u128)i * elements / count);
}
