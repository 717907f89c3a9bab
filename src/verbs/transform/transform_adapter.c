/* transform_adapter.c - is a LoRA adapter one for this base, and all of it? */
#include "transform_lora.h"

#include <math.h>
#include <string.h>

static bool ends_with(const gg_tensor *t, const char *tail, size_t *rest)
{
    size_t n = strlen(tail);
    if (t->name_len <= n || memcmp(t->name + t->name_len - n, tail, n) != 0) return false;
    *rest = t->name_len - n;
    return true;
}

static bool says(const gg_meta *meta, const char *key, const char *text)
{
    const char *s;
    size_t n;
    return gg_kv_str(gg_meta_find(meta, key), &s, &n) && n == strlen(text) && memcmp(s, text, n) == 0;
}

static gg_status check_keys(const gg_source *adapter, const gg_source *base, gg_error *err)
{
    const gg_meta *meta = gg_source_meta(adapter), *of = gg_source_meta(base);
    const char *a, *b;
    size_t an, bn;
    if (!meta || !says(meta, "general.type", "adapter") || !says(meta, "adapter.type", "lora"))
        return gg_fail(err, GG_EFORMAT, "is no LoRA adapter: general.type is not adapter, or adapter.type not lora");
    if (gg_meta_find(meta, "adapter.alora.invocation_tokens"))
        return gg_fail(err, GG_EUNSUPPORTED, "is an aLoRA: it acts from certain tokens on, which weights cannot do");
    if (!gg_kv_str(gg_meta_find(meta, "general.architecture"), &a, &an) || !of ||
        !gg_kv_str(gg_meta_find(of, "general.architecture"), &b, &bn))
        return gg_fail(err, GG_EFORMAT, "it or its base does not say its general.architecture");
    if (an == bn && memcmp(a, b, an) == 0) return GG_OK;
    char x[40], y[40];
    gg_escape(a, an, x, sizeof x);
    gg_escape(b, bn, y, sizeof y);
    return gg_fail(err, GG_EFORMAT, "is for the architecture %s, the base is %s", x, y);
}

static bool is_token_embd(const gg_tensor *w)
{
    static const char name[] = "token_embd.weight";
    return w->name_len == sizeof name - 1 && memcmp(w->name, name, w->name_len) == 0;
}

gg_status gg_lora_pair_of(const gg_source *adapter, const gg_tensor *w, lora_pair *pair, bool *found, gg_error *err)
{
    char name[GG_RECORD_NAME + 8];
    *found = false;
    if (w->name_len > GG_RECORD_NAME) return GG_OK;
    memcpy(name, w->name, w->name_len);
    memcpy(name + w->name_len, ".lora_a", 7);
    size_t a = gg_source_find(adapter, name, w->name_len + 7);
    memcpy(name + w->name_len, ".lora_b", 7);
    size_t b = gg_source_find(adapter, name, w->name_len + 7);
    if (a == SIZE_MAX || b == SIZE_MAX) return GG_OK;
    const gg_tensor *ta = gg_source_tensor(adapter, a), *tb = gg_source_tensor(adapter, b);
    bool swapped = is_token_embd(w);
    *pair = (lora_pair){ .wide = swapped ? b : a, .tall = swapped ? a : b, .swapped = swapped, .r = tb->dims[0],
                         .in = w->dims[0], .out = w->dims[1], .experts = w->dims[2] };
    bool fits = w->dims[3] == 1 && ta->dims[3] == 1 && tb->dims[3] == 1 && ta->dims[2] == w->dims[2] && tb->dims[2] == w->dims[2];
    if (swapped)
        fits = fits && w->dims[2] == 1 && ta->dims[0] == pair->r && ta->dims[1] == pair->out && tb->dims[1] == pair->in;
    else
        fits = fits && ta->dims[0] == pair->in && ta->dims[1] == pair->r && tb->dims[1] == pair->out;
    *found = true;
    if (fits && pair->r > 0) return GG_OK;
    gg_fail(err, GG_EFORMAT, "its shape does not fit the base's tensor and the other half");
    return gg_at_tensor(err, ta->name, ta->name_len);
}

/* Tensor i of the adapter: half of a pair whose target the base has? */
static gg_status check_tensor(const gg_source *adapter, const gg_source *base, size_t i, gg_lora *out, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(adapter, i);
    size_t n;
    bool a = ends_with(t, ".lora_a", &n), b = !a && ends_with(t, ".lora_b", &n), found = false;
    lora_pair pair;
    gg_status st = GG_OK;
    if (!a && !b && ends_with(t, "_norm.weight", &n)) return out->ignored++, GG_OK;
    size_t target = a || b ? gg_source_find(base, t->name, n) : SIZE_MAX;
    if (!a && !b) {
        st = gg_fail(err, GG_EFORMAT, "is no half of a LoRA pair: its name ends in neither .lora_a nor .lora_b");
    } else if (target == SIZE_MAX) {
        st = gg_fail(err, GG_EFORMAT, "the base has no tensor that it could change");
        gg_fix(err, "take the model that the adapter was made for");
    } else {
        st = gg_lora_pair_of(adapter, gg_source_tensor(base, target), &pair, &found, err);
        if (st == GG_OK && !found) st = gg_fail(err, GG_EFORMAT, "the other half of its pair is missing");
        if (st == GG_OK && a) out->pairs++;
    }
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

gg_status gg_lora_open(gg_source *adapter, const gg_source *base, double strength, gg_lora *out, gg_error *err)
{
    *out = (gg_lora){ .adapter = adapter, .strength = (float)strength };
    if (!gg_source_seekable(adapter) || !gg_source_seekable(base)) {
        gg_fail(err, GG_EUSAGE, "a LoRA adapter and its base must be files, not pipes");
        return gg_at_file(err, gg_source_name(adapter));
    }
    gg_status st = isfinite(out->strength) ? check_keys(adapter, base, err)
                                           : gg_fail(err, GG_EUSAGE, "the strength of a LoRA must be a finite number");
    for (size_t i = 0; i < gg_source_count(adapter) && st == GG_OK; i++) st = check_tensor(adapter, base, i, out, err);
    if (st == GG_OK && out->pairs == 0) st = gg_fail(err, GG_EFORMAT, "holds no LoRA tensors");
    if (st == GG_OK) {
        const gg_kv *alpha = gg_meta_find(gg_source_meta(adapter), "adapter.lora.alpha");
        if (alpha && (!gg_kv_f32(alpha, &out->alpha) || !isfinite(out->alpha)))
            st = gg_fail(err, GG_EFORMAT, "its adapter.lora.alpha is no finite f32");
    }
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(adapter));
}
