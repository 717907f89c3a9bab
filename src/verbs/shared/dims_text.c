/* dims_text.c - formats the shape of a tensor for messages. */
#include "dims_text.h"

#include <stdio.h>

void gg_dims_text(const gg_tensor *t, char out[96])
{
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < t->n_dims && n < 70; i++)
        n += (size_t)snprintf(out + n, 96 - n, "%s%llu", i ? "x" : "",
                              (unsigned long long)t->dims[i]);
}
