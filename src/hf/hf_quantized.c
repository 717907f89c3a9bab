/* hf_quantized.c - recognizes the methods that quantize weights by what they store. */
#include "hf_quantized.h"

#include "base/error.h"
#include "base/text.h"

#include <string.h>

static const gg_hf_method *method_of(const char *word, size_t len)
{
    for (const gg_hf_method *m = gg_hf_methods; m->word; m++)
        if (gg_text_is(word, len, m->word)) return m;
    return NULL;
}

/* A tensor that tells the method, and its name; NULL if none does. */
static const gg_st_tensor *find_end(const gg_st_list *list, const char **word)
{
    for (const gg_hf_method_end *e = gg_hf_method_ends; e->end; e++)
        for (size_t i = 0; i < list->n; i++)
            if (gg_text_ends(list->items[i].name, list->items[i].name_len, e->end)) {
                *word = e->word;
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
    const gg_hf_method *m = len ? method_of(stated, strlen(stated)) : method_of(word, strlen(word));
    if (!m) {
        gg_fail(err, GG_EUNSUPPORTED, "the weights are quantized with %s%s",
                len ? stated : "a method that is not known", lack);
        return gg_fix(err, "save the model without quantization, as BF16");
    }
    gg_fail(err, GG_EUNSUPPORTED, "the weights are quantized with %s%s", m->name, lack);
    return gg_fix(err, "%s", m->fix);
}
