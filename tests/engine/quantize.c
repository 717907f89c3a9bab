/* quantize.c - encodes the matrices of a model's blocks with llama.cpp's own routines:
 *
 *     quantize ENGINE-DIR MODEL FTYPE IMATRIX OUT [THREADS]
 *
 * FTYPE is the number of a llama_ftype, of which only the basic type is used: no mix. IMATRIX is a
 * GGUF importance matrix, or "-". The token embedding and the output matrix become F16. With
 * THREADS, the whole model is encoded in the types of the mix instead, by so many threads. */
#include "gguf.h"
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what)
{
    fprintf(stderr, "quantize: %s\n", what);
    exit(1);
}

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

/* The mean squares of each tensor, as llama-quantize computes them; a NULL name ends the list. */
static struct llama_model_imatrix_data *importance(const char *path)
{
    static const char sums[] = ".in_sum2", counts[] = ".counts";
    struct ggml_context *data = NULL;
    struct gguf_context *g = gguf_init_from_file(path, (struct gguf_init_params){ false, &data });
    if (!g) die(path);
    const size_t n = (size_t)gguf_get_n_tensors(g);
    struct llama_model_imatrix_data *list = calloc(n + 1, sizeof *list), *next = list;
    if (!list) die("no memory");
    for (size_t i = 0; i < n; i++) {
        const char *name = gguf_get_tensor_name(g, (int64_t)i);
        const size_t len = strlen(name) - (sizeof sums - 1);
        if (strlen(name) < sizeof sums || strcmp(name + len, sums) != 0) continue;
        char *stem = strdup(name), other[256];
        if (!stem) die("no memory");
        stem[len] = '\0';
        snprintf(other, sizeof other, "%s%s", stem, counts);
        struct ggml_tensor *s = ggml_get_tensor(data, name), *c = ggml_get_tensor(data, other);
        if (!c) die(other);
        float *mean = s->data;
        const float *count = c->data;
        const size_t size = (size_t)ggml_nelements(s);
        for (size_t k = 0; k < size; k++) mean[k] /= count[k / (size_t)s->ne[0]];
        *next++ = (struct llama_model_imatrix_data){ stem, mean, size };
    }
    return list; /* it and its tensors live as long as the program */
}

int main(int argc, char **argv)
{
    if (argc != 6 && argc != 7) die("give ENGINE-DIR MODEL FTYPE IMATRIX OUT [THREADS]");
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(argv[1]);
    struct llama_model_quantize_params p = llama_model_quantize_default_params();
    p.nthread = argc == 7 ? atoi(argv[6]) : 1;
    p.ftype = (enum llama_ftype)atoi(argv[3]);
    p.pure = argc == 6;
    if (p.pure) p.output_tensor_type = p.token_embedding_type = GGML_TYPE_F16;
    if (strcmp(argv[4], "-") != 0) p.imatrix = importance(argv[4]);
    return llama_model_quantize(argv[2], argv[5], &p) != 0;
}
