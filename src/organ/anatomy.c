/* anatomy.c - derive class, part, block, role and expert of a tensor from its name.
 *
 * The rules are ordered, and the first match wins. They apply to the stem: the name without the
 * prefix of its part (v. a. enc. dec.), without blk.N. and without its suffix (.weight .bias
 * .scale .input_scale). Norms come before attention and FFN, because the names attn_norm and
 * ffn_norm begin like those.
 */
#include "organ/gg_organ.h"

#include "anatomy_rules.h"
#include "organ/tensor_names.h"

#include <string.h>
#include <strings.h>

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

/* Aliases of the classes, as papers and other tools use them. */
static const struct {
    const char *name;
    gg_class cls;
} aliases[] = { { "attention", GG_SKELETON },
                { "attn", GG_SKELETON },
                { "ffn", GG_ORGAN },
                { "embedding", GG_EMBED },
                { "normalization", GG_NORM } };

static bool same_word(const char *name, size_t len, const char *word)
{
    return len == strlen(word) && strncasecmp(name, word, len) == 0;
}

bool gg_class_by_name(const char *name, size_t len, gg_class *c)
{
    for (int i = 0; i < GG_CLASS_COUNT; i++)
        if (same_word(name, len, classes[i].name) || same_word(name, len, classes[i].folder))
            return *c = (gg_class)i, true;
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (same_word(name, len, aliases[i].name)) return *c = aliases[i].cls, true;
    return false;
}

static const char *const parts[GG_PART_COUNT] = {
    [GG_PART_TEXT] = "text",       [GG_PART_VISION] = "vision",   [GG_PART_AUDIO] = "audio",
    [GG_PART_ENCODER] = "encoder", [GG_PART_DECODER] = "decoder", [GG_PART_DIFFUSION] = "diffusion",
    [GG_PART_ADAPTER] = "adapter", [GG_PART_IMATRIX] = "imatrix",
};

const char *gg_part_name(gg_part p)
{
    return parts[p];
}

bool gg_part_by_name(const char *name, size_t len, gg_part *p)
{
    for (int i = 0; i < GG_PART_COUNT; i++)
        if (same_word(name, len, parts[i])) return *p = (gg_part)i, true;
    return false;
}

/* Parses digits up to the next dot: at most nine, without a leading zero (so "blk.00" does not
 * have a block number). */
size_t gg_block_number(gg_span x, int64_t *v)
{
    size_t n = 0;
    *v = 0;
    while (n < x.n && n < 10 && x.s[n] >= '0' && x.s[n] <= '9') *v = *v * 10 + (x.s[n++] - '0');
    return n == 0 || n > 9 || n >= x.n || x.s[n] != '.' || (n > 1 && x.s[0] == '0') ? 0 : n;
}

/* Strips "blk.N." and sets *block to N, or to -1 if there is no block. */
static gg_span strip_block(gg_span x, int64_t *block)
{
    *block = -1;
    if (!gg_span_starts(x, "blk.")) return x;
    int64_t n;
    size_t digits = gg_block_number(gg_span_drop(x, 4), &n);
    if (digits == 0) return x;
    *block = n;
    return gg_span_drop(x, 4 + digits + 1);
}

static gg_span strip_suffix(gg_span x)
{
    static const char *const suffixes[] = { ".input_scale", ".scale", ".weight", ".weight.1",
                                            ".bias" };
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (gg_span_ends(x, suffixes[i]) && x.n > strlen(suffixes[i]))
            return gg_span_cut(x, strlen(suffixes[i]));
    return x;
}

/* Rule 2 of docs/formats.md:
 * (^|[._])(norm|norm_?[0-9]+|norm_exps|ln1|ln2|ls1|ls2|pre_ln|post_ln|time_mix_ln)$ */
bool gg_is_norm_stem(gg_span stem)
{
    static const char *const tails[] = { "norm_exps", "ln1",     "ln2",         "ls1", "ls2",
                                         "pre_ln",    "post_ln", "time_mix_ln", "norm" };
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        size_t n = strlen(tails[i]);
        if (!gg_span_ends(stem, tails[i])) continue;
        if (stem.n == n || stem.s[stem.n - n - 1] == '.' || stem.s[stem.n - n - 1] == '_')
            return true;
    }
    gg_span x = stem;
    while (x.n > 0 && x.s[x.n - 1] >= '0' && x.s[x.n - 1] <= '9') x.n--;
    if (x.n == stem.n) return false;
    if (x.n > 0 && x.s[x.n - 1] == '_') x.n--;
    return gg_span_ends(x, "norm") && (x.n == 4 || x.s[x.n - 5] == '.' || x.s[x.n - 5] == '_');
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

/* The expert of ffn_gate.E, ffn_up.E and ffn_down.E, which have one tensor per expert. */
static int64_t expert_of(gg_span stem)
{
    static const char *const heads[] = { "ffn_gate.", "ffn_up.", "ffn_down.", "ffn_gate_up." };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (!gg_span_starts(stem, heads[i])) continue;
        gg_span d = gg_span_drop(stem, strlen(heads[i]));
        int64_t v = 0;
        size_t n = 0;
        while (n < d.n && n < 9 && d.s[n] >= '0' && d.s[n] <= '9') v = v * 10 + (d.s[n++] - '0');
        return n > 0 && n == d.n && !(n > 1 && d.s[0] == '0') ? v : -1;
    }
    return -1;
}

/* ---- images and sound ------------------------------------------------------------- */

/* Projectors, stems and towers have norms under many names: norm_embd, norm_conv, ln_q,
 * patch_ln, bn1, layer_scale. */
static bool is_tower_norm(gg_span stem)
{
    gg_span rest = stem, s;
    while (gg_span_segment(&rest, &s)) {
        gg_span x = s;
        while (x.n && x.s[x.n - 1] >= '0' && x.s[x.n - 1] <= '9') x.n--;
        if (gg_span_has(s, "norm") || gg_span_starts(s, "ln_") || gg_span_ends(x, "_ln") ||
            gg_span_is(x, "ln") || gg_span_is(x, "ls") || gg_span_is(x, "bn") ||
            gg_span_is(s, "layer_scale"))
            return true;
    }
    return false;
}

/* The class of a name in a vision or audio tower that the general rules do not cover. */
static gg_class tower_class(gg_span stem)
{
    static const char *const embeds[] = {
        "token_embd.*",     "image_newline", "view_seperator", "boi", "eoi",
        "vision_pos_embed", "sam.pos_embd",  "sam.patch_embd", NULL
    };
    static const char *const attention[] = { "attn.*", "linear_pos", "pos_bias_*", "per_dim_*",
                                             NULL };
    if (gg_span_in(stem, embeds)) return GG_EMBED;
    while (stem.n && stem.s[0] >= '0' && stem.s[0] <= '9') stem = gg_span_drop(stem, 1);
    if (gg_span_starts(stem, ".")) stem = gg_span_drop(stem, 1); /* a block within a stage */
    if (gg_span_in(stem, attention)) return GG_SKELETON;
    return gg_span_starts(stem, "mlp.") ? GG_ORGAN : GG_OTHER;
}

/* ---- all of them -------------------------------------------------------------------- */

/* The part (sub-model) of a tensor, from the prefix or suffix of its name. *rest is the name
 * without the prefix. */
static gg_part part_of(gg_span name, gg_span *rest)
{
    static const struct {
        const char *text;
        gg_part part;
        size_t strip;
    } begins[] = { { "direction.", GG_PART_ADAPTER, 0 }, { "v.sam.blk.", GG_PART_VISION, 6 },
                   { "v.", GG_PART_VISION, 2 },          { "a.", GG_PART_AUDIO, 2 },
                   { "mm.a.", GG_PART_AUDIO, 0 },        { "mm.", GG_PART_VISION, 0 },
                   { "resampler.", GG_PART_VISION, 0 },  { "adapter.", GG_PART_VISION, 0 },
                   { "enc.", GG_PART_ENCODER, 4 },       { "dec.", GG_PART_DECODER, 4 } };
    *rest = name;
    gg_part part = GG_PART_TEXT;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        if (gg_span_starts(name, begins[i].text)) {
            *rest = gg_span_drop(name, begins[i].strip);
            part = begins[i].part;
            break;
        }
    bool adapter = gg_span_ends(name, ".lora_a") || gg_span_ends(name, ".lora_b");
    return adapter ? GG_PART_ADAPTER : part;
}

/* Sets the class from the stem, the part and the whole name. */
static void classify(gg_anatomy *a, gg_span name, gg_span stem)
{
    bool tower = a->part == GG_PART_VISION || a->part == GG_PART_AUDIO;
    a->known = true;
    a->mtp = gg_span_has(name, ".nextn.") || gg_span_starts(name, "nextn.") ||
             gg_span_starts(name, "mtp.");
    if (a->part == GG_PART_ADAPTER) {
        a->cls = GG_ADAPTER;
    } else if (gg_is_norm_stem(stem) || (a->mtp && gg_span_ends(stem, "norm")) ||
               (tower && is_tower_norm(stem))) {
        a->cls = GG_NORM;
    } else if (a->mtp || gg_span_starts(stem, "mm.") || gg_span_starts(stem, "resampler.") ||
               gg_span_starts(stem, "adapter.")) {
        a->cls = GG_OTHER;
    } else {
        for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
            if (gg_span_fits(stem, rules[i].stem)) {
                a->cls = rules[i].cls;
                return;
            }
        a->cls = tower ? tower_class(stem) : GG_OTHER;
        a->known = tower;
    }
}

/* Strips the suffix of an entry of an importance matrix, which has the name of a tensor before
 * it. */
static gg_span strip_imatrix(gg_span name)
{
    static const char *const ends[] = { ".in_sum2", ".counts", ".in_sum" };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (gg_span_ends(name, ends[i]) && name.n > strlen(ends[i]))
            return gg_span_cut(name, strlen(ends[i]));
    return name;
}

static gg_anatomy anatomy_of(gg_span whole, gg_span *rest)
{
    gg_anatomy a = { .block = -1, .expert = -1 };
    bool text = false;
    a.part = part_of(whole, rest);
    if (a.part == GG_PART_TEXT && gg_diffusion_name(whole, rest, &a.block, &text)) {
        gg_span prefix = gg_span_cut(whole, rest->n);
        a.part = text ? GG_PART_ENCODER : GG_PART_DIFFUSION;
        a.cls = gg_diffusion_class(prefix, strip_suffix(*rest), &a.known);
        return a;
    }
    *rest = strip_block(*rest, &a.block);
    gg_span stem = strip_suffix(*rest);
    classify(&a, whole, stem);
    a.expert = expert_of(stem);
    a.stack = a.cls == GG_ORGAN && a.block >= 0 && gg_span_starts(stem, "ffn_") &&
              gg_span_ends(stem, "_exps");
    return a;
}

gg_anatomy gg_anatomy_of(const char *name, size_t name_len)
{
    gg_span whole = { name, name_len }, described = strip_imatrix(whole), rest;
    gg_anatomy a = anatomy_of(described, &rest);
    rest.n += name_len - described.n;
    if (described.n < name_len) {
        a.part = GG_PART_IMATRIX;
        a.stack = false;
    }
    gg_span role = a.block >= 0 ? rest : whole;
    if (gg_span_ends(role, ".weight") && role.n > 7) role.n -= 7;
    a.role_at = (size_t)(role.s - name);
    a.role_len = role.n;
    return a;
}

bool gg_name_with_block(const char *name, size_t name_len, int64_t block, char *out, size_t size,
                        size_t *out_len)
{
    gg_anatomy a = gg_anatomy_of(name, name_len);
    if (a.block < 0) return false;
    /* role_at is the position after "blk.N."; walk back over the digits. */
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
