/* zerodim.c - dimensions of 0 for tests: `zerodim MODEL` prints how many dimensions the tensors of
 * a GGUF file have together, and `zerodim MODEL K OUT` writes a copy in which the K-th, counted
 * from 0, is 0, so that its tensor has no data. */
#include "organ/gg_gguf.h"

#include "gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int die(const char *what)
{
    fprintf(stderr, "zerodim: %s\n", what);
    return 1;
}

/* The dimensions of a tensor in the header: behind the length of its name, the name, and their
 * number. */
static uint8_t *dims_of(const gg_gguf *g, const gg_tensor *t)
{
    uint8_t entry[8 + GG_MAX_NAME + 4];
    uint64_t len = t->name_len, n = len + 12;
    memcpy(entry, &len, 8);
    memcpy(entry + 8, t->name, (size_t)len);
    memcpy(entry + 8 + len, &t->n_dims, 4);
    for (uint64_t at = 0; at + n <= g->header_bytes; at++)
        if (memcmp(g->raw + at, entry, (size_t)n) == 0) return g->raw + at + n;
    return NULL;
}

/* Copies bytes [from, to) of a file. */
static void copy(FILE *in, FILE *out, uint64_t from, uint64_t to)
{
    fseek(in, (long)from, SEEK_SET);
    for (int c; from < to && (c = fgetc(in)) != EOF; from++) fputc(c, out);
}

static int write_zero(const gg_model *m, size_t i, size_t k, const char *path)
{
    const gg_gguf *g = m->files[0];
    const gg_tensor *t = &g->tensors[i];
    uint64_t start = g->data_start + t->offset, end = i + 1 < g->n_tensors
                                                          ? g->data_start + g->tensors[i + 1].offset
                                                          : m->file_sizes[0];
    for (size_t j = i; j < g->n_tensors; j++) {
        uint8_t *dims = dims_of(g, &g->tensors[j]);
        uint64_t zero = 0, offset = g->tensors[j].offset - (j > i ? end - start : 0);
        if (!dims) return die("a tensor is not in the header");
        if (j == i) memcpy(dims + 8 * k, &zero, 8);
        memcpy(dims + 8 * (size_t)g->tensors[j].n_dims + 4, &offset, 8);
    }
    FILE *in = fopen(m->paths[0], "rb"), *out = fopen(path, "wb");
    if (!in || !out) return die("cannot open a file");
    fwrite(g->raw, 1, (size_t)g->header_bytes, out);
    copy(in, out, g->header_bytes, start);
    copy(in, out, end, m->file_sizes[0]);
    fclose(in);
    return fclose(out) == 0 ? 0 : die("cannot write");
}

int main(int argc, char **argv)
{
    gg_error err = GG_ERROR_INIT;
    gg_model *m = NULL;
    if (argc != 2 && argc != 4) return die("give MODEL, or MODEL K OUT");
    if (gg_model_open(argv[1], NULL, &m, &err) != GG_OK) return die(err.what);
    const gg_gguf *g = m->files[0];
    size_t all = 0, i = 0, k = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    int failed = 0;
    for (size_t j = 0; j < g->n_tensors; j++) all += g->tensors[j].n_dims;
    if (argc == 2) printf("%zu\n", all);
    else if (k >= all) failed = die("no such dimension");
    else {
        for (; k >= g->tensors[i].n_dims; i++) k -= g->tensors[i].n_dims;
        failed = write_zero(m, i, k, argv[3]);
        if (!failed) printf("%.*s dims[%zu]\n", (int)g->tensors[i].name_len, g->tensors[i].name, k);
    }
    gg_model_free(m);
    return failed;
}
