/* requantize.c - encodes a model with the engine's own routines:
 *
 *     requantize MODEL OUTPUT ftype N [IMATRIX]    as llama-quantize does, by number of the preset
 *     requantize MODEL OUTPUT type NAME [IMATRIX]  the matrices of the blocks in one type
 *
 * IMATRIX is an importance matrix in GGUF. With a type, embedding and output stay F16. */
#include "llama.h"

#include "gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 1024 };

static void die(const char *what)
{
    fprintf(stderr, "requantize: %s\n", what);
    exit(1);
}

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

/* Mean squared inputs of every tensor NAME with NAME.in_sum2 and NAME.counts; ends with a NULL
 * name. The numbers are stored in place of the sums. */
static struct llama_model_imatrix_data *read_imatrix(const char *path)
{
    static struct llama_model_imatrix_data list[ENTRIES + 1];
    struct ggml_context *tensors = NULL;
    struct gguf_init_params p = { .no_alloc = false, .ctx = &tensors };
    if (!gguf_init_from_file(path, p)) die(path);
    size_t n = 0;
    for (struct ggml_tensor *t = ggml_get_first_tensor(tensors); t;
         t = ggml_get_next_tensor(tensors, t)) {
        char *end = strstr(t->name, ".in_sum2"), counts[GGML_MAX_NAME + 8];
        if (!end || n == ENTRIES) continue;
        char *name = strdup(t->name);
        if (!name) die("no memory");
        name[end - t->name] = '\0';
        snprintf(counts, sizeof counts, "%s.counts", name);
        struct ggml_tensor *c = ggml_get_tensor(tensors, counts);
        float *sums = t->data;
        if (!c) die(counts);
        for (int64_t i = 0; i < ggml_nelements(t); i++)
            sums[i] /= ((const float *)c->data)[i / t->ne[0]];
        list[n++] = (struct llama_model_imatrix_data){ name, sums, (size_t)ggml_nelements(t) };
    }
    return list;
}

static enum ggml_type type_of(const char *name)
{
    for (int i = 0; i < GGML_TYPE_COUNT; i++)
        if (ggml_type_name((enum ggml_type)i) &&
            strcmp(ggml_type_name((enum ggml_type)i), name) == 0)
            return (enum ggml_type)i;
    die(name);
    return GGML_TYPE_F32;
}

int main(int argc, char **argv)
{
    if (argc < 5) die("give MODEL OUTPUT ftype N | type NAME [IMATRIX]");
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model_quantize_params p = llama_model_quantize_default_params();
    struct llama_model_tensor_override blocks[2] = { { 0 } };
    p.nthread = 1;
    if (argc > 5) p.imatrix = read_imatrix(argv[5]);
    if (strcmp(argv[3], "ftype") == 0) {
        p.ftype = (enum llama_ftype)atoi(argv[4]);
    } else {
        blocks[0].pattern = "blk\\.";
        blocks[0].type = type_of(argv[4]);
        p.tt_overrides = blocks;
        p.ftype = LLAMA_FTYPE_MOSTLY_Q4_0;
        p.output_tensor_type = p.token_embedding_type = GGML_TYPE_F16;
    }
    return llama_model_quantize(argv[1], argv[2], &p) == 0 ? 0 : 1;
}
