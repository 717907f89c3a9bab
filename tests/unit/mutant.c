/* mutant.c - a damaged copy of a file for tests: `mutant FILE SEED OUT` changes the header of a
 * safetensors file, a JSON text or the beginning of another file in one or two places, in a way
 * that the seed decides. Lengths of headers stay right, so that the code behind them is reached. */
#include "../fuzz/json_change.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static uint64_t state;

static size_t below(size_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n ? (size_t)(state >> 33) % n : 0;
}

static void change(json_text *t, bool is_text)
{
    uint8_t *byte = (uint8_t *)t->p + below(t->n);
    switch (below(is_text ? 8 : 3)) {
    case 0: *byte = (uint8_t)below(256); break;
    case 1: *byte = (uint8_t)(*byte ^ 1u << below(8)); break;
    case 2: *byte = 0; break;
    default: json_change(t);
    }
}

int main(int argc, char **argv)
{
    FILE *f = argc == 4 ? fopen(argv[1], "rb") : NULL;
    if (!f || fseek(f, 0, SEEK_END) != 0) return 2;
    size_t size = (size_t)ftell(f), head = 0;
    uint8_t *bytes = malloc(size + 1);
    rewind(f);
    if (!bytes || size == 0 || fread(bytes, 1, size, f) != size) return 2;
    fclose(f);
    state = strtoull(argv[2], NULL, 10) * 2654435761u + size;
    below(2);
    size_t end = size;
    bool tensors = size > 10 && bytes[8] == '{' && bytes[5] == 0, text = tensors || *bytes == '{';
    if (tensors) {
        head = 8;
        end = 8 + (bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16);
        if (end > size) return 2;
    } else if (!text && end > 1500) {
        end = 1500; /* counts, keys and the first tensors */
    }
    json_text t = { malloc(end - head + 1), end - head, below };
    if (!t.p) return 2;
    memcpy(t.p, bytes + head, t.n);
    change(&t, text);
    if (below(3) == 0 && t.n) change(&t, text);
    f = fopen(argv[3], "wb");
    if (!f) return 2;
    for (size_t i = 0; i < head; i++) fputc((int)((uint64_t)t.n >> 8 * i & 255), f);
    fwrite(t.p, 1, t.n, f);
    fwrite(bytes + end, 1, size - end, f);
    free(t.p);
    free(bytes);
    return fclose(f) == 0 ? 0 : 2;
}
