/* anatomy.c - what a tensor is, by its name: class, block, role, expert.
 *
 * The ordered rules, first match wins, over the stem: the name without its
 * modality (v. a.), its prefix ((enc.|dec.)blk.N.) and its suffix (.weight .bias
 * .scale .input_scale). Norms are asked for before attention and FFN, because
 * attn_norm and ffn_norm begin like those.
 */
#include "organ/gg_organ.h"

#include "organ/tensor_names.h"

#include <string.h>

typedef struct span {
    const char *s;
    size_t n;
} span;

static const struct {
    const char *name, *folder;
} classes[GG_CLASS_COUNT] = {
    [GG_SKELETON] = { "skeleton", "skeleton" }, [GG_ORGAN] = { "organ", "organs" },
    [GG_EMBED] = { "embed", "embed" },          [GG_NORM] = { "norm", "norm" },
    [GG_ADAPTER] = { "adapter", "adapters" },   [GG_OTHER] = { "other", "other" },
};

const char *gg_class_name(gg_class c)
{
    return classes[c].name;
}

const char *gg_class_folder(gg_class c)
{
    return classes[c].folder;
}

static bool is(span x, const char *text)
{
    return x.n == strlen(text) && memcmp(x.s, text, x.n) == 0;
}

static bool starts(span x, const char *text)
{
    size_t n = strlen(text);
    return x.n >= n && memcmp(x.s, text, n) == 0;
}

static bool ends(span x, const char *text)
{
    size_t n = strlen(text);
    return x.n >= n && memcmp(x.s + x.n - n, text, n) == 0;
}

static bool contains(span x, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i + n <= x.n; i++)
        if (memcmp(x.s + i, text, n) == 0) return true;
    return false;
}

static span drop(span x, size_t n)
{
    return (span){ x.s + n, x.n - n };
}

bool gg_class_by_name(const char *name, size_t len, gg_class *c)
{
    for (int i = 0; i < GG_CLASS_COUNT; i++)
        if (is((span){ name, len }, classes[i].name) || is((span){ name, len }, classes[i].folder))
            return *c = (gg_class)i, true;
    return false;
}

/* Digits up to the next dot: at most nine, no leading zero ("blk.00" is no block). */
static size_t number(span x, int64_t *v)
{
    size_t n = 0;
    *v = 0;
    while (n < x.n && n < 10 && x.s[n] >= '0' && x.s[n] <= '9') *v = *v * 10 + (x.s[n++] - '0');
    return n == 0 || n > 9 || n >= x.n || x.s[n] != '.' || (n > 1 && x.s[0] == '0') ? 0 : n;
}

/* Strip "(enc.|dec.)?blk.N." and say N. */
static span strip_block(span x, int64_t *block)
{
    span y = starts(x, "enc.") || starts(x, "dec.") ? drop(x, 4) : x;
    *block = -1;
    if (!starts(y, "blk.")) return x;
    int64_t n;
    size_t digits = number(drop(y, 4), &n);
    if (digits == 0) return x;
    *block = n;
    return drop(y, 4 + digits + 1);
}

static span strip_suffix(span x)
{
    static const char *const suffixes[] = { ".input_scale", ".scale", ".weight", ".bias" };
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (ends(x, suffixes[i]) && x.n > strlen(suffixes[i]))
            return (span){ x.s, x.n - strlen(suffixes[i]) };
    return x;
}

/* Rule 4: (^|[._])(norm|norm_?[0-9]+|norm_exps|ln1|ln2|ls1|ls2|pre_ln|post_ln|time_mix_ln)$ */
static bool is_norm(span stem)
{
    static const char *const tails[] = { "norm_exps", "ln1",     "ln2",         "ls1", "ls2",
                                         "pre_ln",    "post_ln", "time_mix_ln", "norm" };
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        size_t n = strlen(tails[i]);
        if (!ends(stem, tails[i])) continue;
        if (stem.n == n || stem.s[stem.n - n - 1] == '.' || stem.s[stem.n - n - 1] == '_')
            return true;
    }
    span x = stem;
    while (x.n > 0 && x.s[x.n - 1] >= '0' && x.s[x.n - 1] <= '9') x.n--;
    if (x.n == stem.n) return false;
    if (x.n > 0 && x.s[x.n - 1] == '_') x.n--;
    return ends(x, "norm") && (x.n == 4 || x.s[x.n - 5] == '.' || x.s[x.n - 5] == '_');
}

typedef struct rule {
    gg_class cls;
    const char *stem; /* a trailing * matches any rest */
} rule;

/* clang-format off */
static const rule rules[] = {
    { GG_EMBED, "token_embd" },    { GG_EMBED, "position_embd" }, { GG_EMBED, "token_types" },
    { GG_EMBED, "per_layer_token_embd" },                         { GG_EMBED, "patch_embd" },
    { GG_EMBED, "class_embd" },    { GG_EMBED, "output" },        { GG_EMBED, "cls" },
    { GG_EMBED, "cls.output" },    { GG_EMBED, "dense_2" },       { GG_EMBED, "dense_3" },

    { GG_OTHER, "rope_freqs" },    { GG_OTHER, "rope_factors_*" }, { GG_OTHER, "attn_rot_embd" },
    { GG_OTHER, "output_hc_*" },   { GG_OTHER, "hc_*" },           { GG_OTHER, "altup_*" },
    { GG_OTHER, "laurel_*" },      { GG_OTHER, "per_layer_*" },    { GG_OTHER, "inp_gate" },
    { GG_OTHER, "proj" },          { GG_OTHER, "layer_output_scale" }, { GG_OTHER, "fc" },
    { GG_OTHER, "d2t" },           { GG_OTHER, "masked_embd_*" },

    { GG_ORGAN, "exp_probs_b" },   { GG_ORGAN, "ffn_*" },          { GG_ORGAN, "ffn.act" },
    { GG_ORGAN, "channel_mix_*" }, { GG_ORGAN, "vis_gate" },       { GG_ORGAN, "vis_up" },
    { GG_ORGAN, "vis_down" },

    { GG_SKELETON, "attn_*" },     { GG_SKELETON, "cross_attn_*" }, { GG_SKELETON, "vis_attn_*" },
    { GG_SKELETON, "indexer*" },   { GG_SKELETON, "ssm_*" },        { GG_SKELETON, "shortconv.*" },
    { GG_SKELETON, "time_mix_*" },

    { GG_OTHER, "conv1d" },        { GG_OTHER, "convnext.*" },      { GG_OTHER, "posnet.*" },
};
/* clang-format on */

static bool rule_fits(const rule *r, span stem)
{
    size_t n = strlen(r->stem);
    if (r->stem[n - 1] != '*') return is(stem, r->stem);
    return stem.n >= n - 1 && memcmp(stem.s, r->stem, n - 1) == 0;
}

/* ffn_gate.E, ffn_up.E, ffn_down.E: one tensor an expert. */
static int64_t expert_of(span stem)
{
    static const char *const heads[] = { "ffn_gate.", "ffn_up.", "ffn_down.", "ffn_gate_up." };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (!starts(stem, heads[i])) continue;
        span d = drop(stem, strlen(heads[i]));
        int64_t v = 0;
        size_t n = 0;
        while (n < d.n && n < 9 && d.s[n] >= '0' && d.s[n] <= '9') v = v * 10 + (d.s[n++] - '0');
        return n > 0 && n == d.n && !(n > 1 && d.s[0] == '0') ? v : -1;
    }
    return -1;
}

/* The class of the stem, with what is known from the whole name. */
static void classify(gg_anatomy *a, span name, span stem)
{
    a->known = true;
    a->mtp = contains(name, ".nextn.") || starts(name, "nextn.") || starts(name, "mtp.");
    if (ends(name, ".lora_a") || ends(name, ".lora_b") || starts(name, "direction.")) {
        a->cls = GG_ADAPTER;
    } else if (starts(stem, "mm.") || starts(stem, "resampler.") || starts(stem, "adapter.")) {
        a->cls = GG_OTHER;
    } else if (is_norm(stem) || (a->mtp && ends(stem, "norm"))) {
        a->cls = GG_NORM;
    } else if (a->mtp) {
        a->cls = GG_OTHER;
    } else {
        for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
            if (rule_fits(&rules[i], stem)) {
                a->cls = rules[i].cls;
                return;
            }
        a->cls = GG_OTHER;
        a->known = false;
    }
}

gg_anatomy gg_anatomy_of(const char *name, size_t name_len)
{
    span whole = { name, name_len };
    span rest = starts(whole, "v.") || starts(whole, "a.") ? drop(whole, 2) : whole;
    gg_anatomy a = { .expert = -1 };
    rest = strip_block(rest, &a.block);
    span stem = strip_suffix(rest);
    classify(&a, whole, stem);
    a.expert = expert_of(stem);
    a.stack = a.cls == GG_ORGAN && a.block >= 0 && starts(stem, "ffn_") && ends(stem, "_exps");
    span role = a.block >= 0 ? rest : whole;
    if (ends(role, ".weight") && role.n > 7) role.n -= 7;
    a.role_at = (size_t)(role.s - name);
    a.role_len = role.n;
    return a;
}

bool gg_name_with_block(const char *name, size_t name_len, int64_t block, char *out, size_t size,
                        size_t *out_len)
{
    gg_anatomy a = gg_anatomy_of(name, name_len);
    if (a.block < 0) return false;
    /* role_at stands right after "blk.N."; walk back over the digits. */
    size_t digits_end = a.role_at - 1, digits = digits_end;
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') digits--;
    char number_text[24];
    size_t n = 0;
    for (int64_t v = block; v > 0 || n == 0; v /= 10) number_text[n++] = (char)('0' + v % 10);
    *out_len = digits + n + (name_len - digits_end);
    if (*out_len + 1 > size) return false;
    memcpy(out, name, digits);
    for (size_t i = 0; i < n; i++) out[digits + i] = number_text[n - 1 - i];
    memcpy(out + digits + n, name + digits_end, name_len - digits_end);
    out[*out_len] = '\0';
    return true;
}
