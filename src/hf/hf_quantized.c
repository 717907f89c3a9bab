/* hf_quantized.c - recognizes the methods that quantize weights by what they store. */
#include "hf_quantized.h"

#include "base/error.h"
#include "base/text.h"

#include <string.h>

#define SAVE "load the model with transformers, call dequantize(), and save it again"
#define CONVERT \
    "convert it with convert_hf_to_gguf.py of llama.cpp, or save it without quantization"

typedef struct method {
    const char *word; /* of quant_method; "" = none */
    const char *name, *fix;
} method;

static const method methods[] = {
    { "bitsandbytes", "bitsandbytes", SAVE },
    { "gptq", "GPTQ", CONVERT },
    { "awq", "AWQ", SAVE },
    { "compressed-tensors", "compressed-tensors", CONVERT },
    { "modelopt", "ModelOpt (NVFP4 and the like)", CONVERT },
    { "mxfp4", "MXFP4", CONVERT },
    { "mlx", "MLX", "convert it with mlx_lm.convert, which can dequantize it" },
    { "hqq", "HQQ", SAVE },
    { "exl3", "EXL3", "use the model from which it was made" },
    { "exl2", "EXL2", "use the model from which it was made" },
    { "aqlm", "AQLM", "use the model from which it was made" },
    { "quip", "QuIP", "use the model from which it was made" },
    { "torchao", "torchao", SAVE },
    { "quanto", "Quanto", SAVE },
    { "fp8", "FP8", "save the model as BF16" },
    { "auto-round", "AutoRound", "use the model from which it was made" },
};

/* Ends of names that only one method has, in the order in which they decide. */
static const struct {
    const char *end, *word;
} ends[] = {
    { ".quant_state.bitsandbytes__nf4", "bitsandbytes" },
    { ".quant_state.bitsandbytes__fp4", "bitsandbytes" },
    { ".absmax", "bitsandbytes" },
    { ".quant_map", "bitsandbytes" },
    { ".SCB", "bitsandbytes" },
    { ".weight_packed", "compressed-tensors" },
    { ".weight_scale_2", "modelopt" },
    { ".g_idx", "gptq" },
    { ".qzeros", "awq" },
    { ".qweight", "awq" },
    { ".W_q", "hqq" },
    { ".trellis", "exl3" },
    { ".q_weight", "exl2" },
    { ".codebooks", "aqlm" },
    { ".Qidxs", "quip" },
    { "._data", "quanto" },
    { "_blocks", "mxfp4" },
    { ".scales", "mlx" },
};

static const method *method_of(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (gg_text_is(word, len, methods[i].word)) return &methods[i];
    return NULL;
}

/* A tensor that tells the method, and its name; NULL if none does. */
static const gg_st_tensor *find_end(const gg_st_list *list, const char **word)
{
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
        for (size_t i = 0; i < list->n; i++)
            if (gg_text_ends(list->items[i].name, list->items[i].name_len, ends[k].end)) {
                *word = ends[k].word;
                return &list->items[i];
            }
    return NULL;
}

/* A matrix of integers, which weights are not unless they are quantized. */
static const gg_st_tensor *find_integers(const gg_st_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const gg_st_tensor *t = &list->items[i];
        if (t->n_dims >= 2 && gg_st_is_integer(t->type) &&
            gg_text_ends(t->name, t->name_len, ".weight"))
            return t;
    }
    return NULL;
}

static bool has_scale(const gg_st_list *list, const gg_st_tensor *of)
{
    for (size_t i = 0; i < list->n; i++) {
        const gg_st_tensor *t = &list->items[i];
        if (t->name_len > of->name_len && memcmp(t->name, of->name, of->name_len) == 0 &&
            gg_text_ends(t->name, t->name_len, "_scale"))
            return true;
    }
    return false;
}

/* A GPTQ matrix has a column for each scale; of AWQ each packed integer has several. */
static bool is_gptq(const gg_st_list *list, const gg_st_tensor *of)
{
    const gg_st_tensor *weight = NULL, *scales = NULL;
    const char *dot = strrchr(of->name, '.');
    size_t stem = dot ? (size_t)(dot - of->name) : 0;
    for (size_t i = 0; i < list->n; i++) {
        const gg_st_tensor *t = &list->items[i];
        if (t->name_len < stem || t->n_dims != 2 || memcmp(t->name, of->name, stem) != 0) continue;
        if (strcmp(t->name + stem, ".qweight") == 0) weight = t;
        if (strcmp(t->name + stem, ".scales") == 0) scales = t;
    }
    return weight && scales && weight->dims[1] == scales->dims[1];
}

size_t gg_hf_stated_method(const gg_json_node *config, char name[GG_HF_METHOD])
{
    const char *stated = "";
    size_t len = 0;
    gg_json_string(gg_json_get(config, "quant_method"), &stated, &len, NULL);
    gg_escape(stated, len < 60 ? len : 60, name, GG_HF_METHOD);
    return len;
}

gg_status gg_hf_refuse_quantized(const gg_st_list *list, const gg_json_node *config,
                                 const gg_st_tensor **of, gg_error *err)
{
    const char *word = "", *lack = "";
    char stated[GG_HF_METHOD];
    size_t len = gg_hf_stated_method(config, stated);
    *of = find_end(list, &word);
    if (!*of && (*of = find_integers(list)) != NULL && !has_scale(list, *of))
        lack = ", and their scales are missing";
    if (!*of) return GG_OK;
    if (strcmp(word, "awq") == 0 && is_gptq(list, *of)) word = "gptq";
    const method *m = len ? method_of(stated, strlen(stated)) : method_of(word, strlen(word));
    if (!m) {
        gg_fail(err, GG_EUNSUPPORTED, "the weights are quantized with %s%s",
                len ? stated : "a method that is not known", lack);
        return gg_fix(err, "save the model without quantization, as BF16");
    }
    gg_fail(err, GG_EUNSUPPORTED, "the weights are quantized with %s%s", m->name, lack);
    return gg_fix(err, "%s", m->fix);
}
