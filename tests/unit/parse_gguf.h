/* parse_gguf.h - a GGUF header in memory, parsed by way of a file. */
#ifndef PARSE_GGUF_H
#define PARSE_GGUF_H

#include "gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* `n` is the size of the whole file if `whole`; tensors must then lie within it. */
static inline gg_status parse_gguf(const void *bytes, size_t n, bool whole, gg_gguf **out,
                                   gg_error *err)
{
    static FILE *file;
    if (!file) file = tmpfile();
    if (!file || ftruncate(fileno(file), 0) != 0 ||
        (n && pwrite(fileno(file), bytes, n, 0) != (ssize_t)n)) {
        perror("a temporary file");
        exit(1);
    }
    return gg_gguf_read_part(fileno(file), 0, n, !whole, out, err);
}

#endif
