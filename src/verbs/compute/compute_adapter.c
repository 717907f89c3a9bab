/* compute_adapter.c - checks whether a LoRA adapter matches a base completely. */
#include "compute_lora.h"

#include "base/error.h"
#include "organ/record.h"
#include "organ/tensor_names.h"
#include "verbs/shared/copy.h"

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
    return gg_kv_str(gg_meta_find(meta, key), &s, &n) && n == strlen(text) &&
           memcmp(s, text, n) == 0;
}

static gg_status check_keys(const gg_source *adapter, const gg_source *base, gg_error *err)
{
    const gg_meta *meta = gg_source_meta(adapter), *of = gg_source_meta(base);
    const char *a, *b;
    size_t an, bn;
    if (!meta || !says(meta, "general.type", "adapter") || !says(meta, "adapter.type", "lora"))
        return gg_fail(
            err, GG_EFORMAT,
            "this is not a LoRA adapter: general.type must be adapter and adapter.type lora");
    if (gg_meta_find(meta, "adapter.alora.invocation_tokens"))
        return gg_fail(
            err, GG_EUNSUPPORTED,
            "this is an aLoRA, which starts to act at certain tokens; weights cannot do that");
    if (!gg_kv_str(gg_meta_find(meta, "general.architecture"), &a, &an) || !of ||
        !gg_kv_str(gg_meta_find(of, "general.architecture"), &b, &bn))
        return gg_fail(err, GG_EFORMAT, "the adapter or its base has no general.architecture");
    if (an == bn && memcmp(a, b, an) == 0) return GG_OK;
    char x[40], y[40];
    gg_escape(a, an, x, sizeof x);
    gg_escape(b, bn, y, sizeof y);
    return gg_fail(err, GG_EFORMAT, "the adapter is for the architecture %s, but the base is %s", x,
                   y);
}

static bool is_token_embd(const gg_tensor *w)
{
    static const char name[] = "token_embd.weight";
    return w->name_len == sizeof name - 1 && memcmp(w->name, name, w->name_len) == 0;
}

/* Finds both halves of the pair for a tensor name. */
static bool find_halves(const gg_source *adapter, const char *of, size_t len, size_t *a, size_t *b)
{
    char name[GG_RECORD_NAME + 8];
    if (len > GG_RECORD_NAME) return false;
    memcpy(name, of, len);
    memcpy(name + len, ".lora_a", 7);
    *a = gg_source_find(adapter, name, len + 7);
    memcpy(name + len, ".lora_b", 7);
    *b = gg_source_find(adapter, name, len + 7);
    return *a != SIZE_MAX && *b != SIZE_MAX;
}

/* Compares the dims of the halves with those of w, which may be an expert of a stack. */
static bool shapes_fit(const gg_tensor *w, const gg_tensor *a, const gg_tensor *b, bool share,
                       const lora_pair *p)
{
    bool fits = w->dims[3] == 1 && a->dims[3] == 1 && b->dims[3] == 1 && a->dims[2] == b->dims[2] &&
                p->r > 0;
    if (share) fits = fits && w->dims[2] == 1 && p->at < p->of;
    else fits = fits && a->dims[2] == w->dims[2];
    if (p->swapped)
        return fits && w->dims[2] == 1 && a->dims[0] == p->r && a->dims[1] == p->out &&
               b->dims[1] == p->in;
    return fits && a->dims[0] == p->in && a->dims[1] == p->r && b->dims[1] == p->out;
}

gg_status gg_lora_pair_of(const gg_source *adapter, const gg_tensor *w, lora_pair *pair,
                          bool *found, gg_error *err)
{
    char stack[GG_RECORD_NAME + 8];
    size_t a, b, len;
    bool share = false;
    *found = find_halves(adapter, w->name, w->name_len, &a, &b);
    if (!*found && gg_stack_name(w->name, w->name_len, stack, sizeof stack, &len))
        share = *found = find_halves(adapter, stack, len, &a, &b);
    if (!*found) return GG_OK;
    const gg_tensor *ta = gg_source_tensor(adapter, a), *tb = gg_source_tensor(adapter, b);
    bool swapped = is_token_embd(w);
    *pair = (lora_pair){ .wide = swapped ? b : a,
                         .tall = swapped ? a : b,
                         .swapped = swapped,
                         .r = tb->dims[0],
                         .in = w->dims[0],
                         .out = w->dims[1],
                         .experts = w->dims[2],
                         .of = 1 };
    if (share) {
        pair->at = (uint64_t)gg_anatomy_of(w->name, w->name_len).expert;
        pair->of = ta->dims[2];
    }
    if (shapes_fit(w, ta, tb, share, pair)) return GG_OK;
    gg_fail(err, GG_EFORMAT, "its shape does not match the base's tensor and the other half");
    return gg_at_tensor(err, ta->name, ta->name_len);
}

/* A pair, and the tensors of the base that it would change. */
typedef struct targets {
    bool found, paired;
} targets;

/* Checks the pair that t belongs to against every tensor of the base that it would change: the
 * one with its name, or the single experts of a stack with its name. */
static gg_status check_targets(const gg_source *adapter, const gg_source *base, const gg_tensor *t,
                               size_t name_len, targets *out, gg_error *err)
{
    char name[GG_RECORD_NAME + 8];
    size_t target = gg_source_find(base, t->name, name_len), len;
    lora_pair pair;
    *out = (targets){ .found = target != SIZE_MAX, .paired = true };
    if (out->found)
        return gg_lora_pair_of(adapter, gg_source_tensor(base, target), &pair, &out->paired, err);
    gg_status st = GG_OK;
    uint64_t experts = t->dims[2] < GG_EXPERTS_MAX ? t->dims[2] : GG_EXPERTS_MAX;
    for (uint64_t e = 0; e < experts && st == GG_OK && out->paired; e++) {
        if (!gg_expert_name(t->name, name_len, e, name, sizeof name, &len)) break;
        target = gg_source_find(base, name, len);
        if (target == SIZE_MAX) continue;
        out->found = true;
        st = gg_lora_pair_of(adapter, gg_source_tensor(base, target), &pair, &out->paired, err);
    }
    return st;
}

/* Checks that tensor i of the adapter is half of a pair whose target is in the base. */
static gg_status check_tensor(const gg_source *adapter, const gg_source *base, size_t i,
                              gg_lora *out, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(adapter, i);
    size_t n;
    bool a = ends_with(t, ".lora_a", &n), b = !a && ends_with(t, ".lora_b", &n);
    targets of = { 0 };
    if (!a && !b && ends_with(t, "_norm.weight", &n)) return out->ignored++, GG_OK;
    if (!a && !b) {
        gg_fail(err, GG_EFORMAT,
                "its name ends in neither .lora_a nor .lora_b, so it is not part of a LoRA pair");
        return gg_at_tensor(err, t->name, t->name_len);
    }
    gg_status st = check_targets(adapter, base, t, n, &of, err);
    if (st == GG_OK && !of.found) {
        st = gg_fail(err, GG_EFORMAT, "the base does not have the tensor that it changes");
        gg_fix(err, "use the model that the adapter was made for");
    }
    if (st == GG_OK && !of.paired)
        st = gg_fail(err, GG_EFORMAT, "the other half of its pair is missing");
    if (st == GG_OK && a) out->pairs++;
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

gg_status gg_lora_open(gg_source *adapter, const gg_source *base, double strength, gg_lora *out,
                       gg_error *err)
{
    *out = (gg_lora){ .adapter = adapter, .strength = (float)strength };
    if (!gg_source_seekable(adapter) || !gg_source_seekable(base)) {
        gg_fail(err, GG_EUSAGE, "a LoRA adapter and its base must be files, not pipes");
        return gg_at_file(err, gg_source_name(adapter));
    }
    gg_status st = isfinite(out->strength)
                       ? check_keys(adapter, base, err)
                       : gg_fail(err, GG_EUSAGE, "the strength of a LoRA must be a finite number");
    for (size_t i = 0; i < gg_source_count(adapter) && st == GG_OK; i++)
        st = check_tensor(adapter, base, i, out, err);
    for (size_t i = 0; i < gg_source_count(adapter) && st == GG_OK; i++)
        st = gg_verify_data(adapter, i, err);
    if (st == GG_OK && out->pairs == 0)
        st = gg_fail(err, GG_EFORMAT, "the adapter has no LoRA tensors");
    if (st == GG_OK) {
        const gg_kv *alpha = gg_meta_find(gg_source_meta(adapter), "adapter.lora.alpha");
        if (alpha && (!gg_kv_f32(alpha, &out->alpha) || !isfinite(out->alpha)))
            st = gg_fail(err, GG_EFORMAT, "its adapter.lora.alpha is not a finite f32");
    }
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(adapter));
}
