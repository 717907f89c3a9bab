/* anatomy.c - derive class, part, block, role and expert of a tensor from its name.
 *
 * The rules are ordered, and the first match wins. They apply to the stem: the name without the
 * prefix of its part (v. a. enc. dec.), without blk.N. and without its suffix (.weight .bias
 * .scale .input_scale). Norms come before attention and FFN, because the names attn_norm and
 * ffn_norm begin like those.
 */
#include "organ/gg_organ.h"

#include "organ/tensor_names.h"

#include <string.h>
#include <strings.h>

/* ---- classes and parts -------------------------------------------------------------- */

static const struct {
    const char *name, *folder, *label;
} classes[GG_CLASS_COUNT] = {
    [GG_SKELETON] = { "skeleton", "skeleton", "attention" },
    [GG_ORGAN] = { "organ", "organs", "ffn" },
    [GG_EMBED] = { "embed", "embed", "embedding" },
    [GG_NORM] = { "norm", "norm", "norm" },
    [GG_ADAPTER] = { "adapter", "adapters", "adapter" },
    [GG_OTHER] = { "other", "other", "other" },
};

const char *gg_class_name(gg_class c)
{
    return classes[c].name;
}

const char *gg_class_folder(gg_class c)
{
    return classes[c].folder;
}

const char *gg_class_label(gg_class c)
{
    return classes[c].label;
}

static bool same_word(const char *name, size_t len, const char *word)
{
    return len == strlen(word) && strncasecmp(name, word, len) == 0;
}

bool gg_class_by_name(const char *name, size_t len, gg_class *c)
{
    for (int i = 0; i < GG_CLASS_COUNT; i++)
        if (same_word(name, len, classes[i].name) || same_word(name, len, classes[i].folder) ||
            same_word(name, len, classes[i].label))
            return *c = (gg_class)i, true;
    if (same_word(name, len, "attn")) return *c = GG_SKELETON, true;
    if (same_word(name, len, "normalization")) return *c = GG_NORM, true;
    return false;
}

static const char *const part_names[GG_PART_COUNT] = {
    [GG_PART_TEXT] = "text",       [GG_PART_VISION] = "vision",   [GG_PART_AUDIO] = "audio",
    [GG_PART_ENCODER] = "encoder", [GG_PART_DECODER] = "decoder", [GG_PART_DIFFUSION] = "diffusion",
    [GG_PART_ADAPTER] = "adapter", [GG_PART_IMATRIX] = "imatrix",
};

const char *gg_part_name(gg_part p)
{
    return part_names[p];
}

bool gg_part_by_name(const char *name, size_t len, gg_part *p)
{
    for (int i = 0; i < GG_PART_COUNT; i++)
        if (same_word(name, len, part_names[i])) return *p = (gg_part)i, true;
    return false;
}

/* ---- spans of a name ---------------------------------------------------------------- */

typedef struct span {
    const char *s;
    size_t n;
} span;

/* How many bytes at the beginning of x are those of text. Nearly all of the many comparisons of
 * the rules end at the first byte, which calls of strlen and memcmp would make slow. */
static inline size_t span_common(span x, const char *text)
{
    size_t n = 0;
    while (n < x.n && text[n] != '\0' && x.s[n] == text[n]) n++;
    return n;
}

static inline bool span_starts(span x, const char *text)
{
    return text[span_common(x, text)] == '\0';
}

static inline bool span_is(span x, const char *text)
{
    size_t n = span_common(x, text);
    return n == x.n && text[n] == '\0';
}

static inline bool span_ends(span x, const char *text)
{
    size_t n = strlen(text);
    return x.n >= n && span_starts((span){ x.s + x.n - n, n }, text);
}

static inline bool span_has(span x, const char *text)
{
    for (; x.n > 0; x.s++, x.n--)
        if (span_starts(x, text)) return true;
    return false;
}

/* As span_is, but a text that ends with '*' matches any rest. */
static inline bool span_fits(span x, const char *text)
{
    size_t n = span_common(x, text);
    if (text[n] == '*') return true;
    return text[n] == '\0' && (n == x.n || (n > 0 && text[n - 1] == '*'));
}

static inline span span_drop(span x, size_t n)
{
    return (span){ x.s + n, x.n - n };
}

static inline span span_cut(span x, size_t n)
{
    return (span){ x.s, x.n - n };
}

/* The next segment of a dotted name; *rest is what follows. False at the end. */
static inline bool span_segment(span *rest, span *segment)
{
    if (rest->n == 0) return false;
    const char *dot = memchr(rest->s, '.', rest->n);
    size_t n = dot ? (size_t)(dot - rest->s) : rest->n;
    *segment = (span){ rest->s, n };
    *rest = span_drop(*rest, dot ? n + 1 : n);
    return true;
}

/* A list that ends with NULL; entries that end with '*' match any rest. */
static inline bool span_in(span x, const char *const *list)
{
    for (; *list; list++)
        if (span_fits(x, *list)) return true;
    return false;
}

/* Cuts off the first of the endings that x has, unless nothing would be left. */
static span strip_ending(span x, const char *const *endings)
{
    for (; *endings; endings++)
        if (span_ends(x, *endings) && x.n > strlen(*endings)) return span_cut(x, strlen(*endings));
    return x;
}

/* Parses digits up to the next dot: at most nine, without a leading zero (so "blk.00" does not
 * have a block number). */
static size_t block_number(span x, int64_t *v)
{
    size_t n = 0;
    *v = 0;
    while (n < x.n && n < 10 && x.s[n] >= '0' && x.s[n] <= '9') *v = *v * 10 + (x.s[n++] - '0');
    return n == 0 || n > 9 || n >= x.n || x.s[n] != '.' || (n > 1 && x.s[0] == '0') ? 0 : n;
}

/* Rule 2 of docs/formats.md:
 * (^|[._])(norm|norm_?[0-9]+|norm_exps|ln1|ln2|ls1|ls2|pre_ln|post_ln|time_mix_ln)$ */
static bool is_norm_stem(span stem)
{
    static const char *const tails[] = { "norm_exps", "ln1",     "ln2",         "ls1", "ls2",
                                         "pre_ln",    "post_ln", "time_mix_ln", "norm" };
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        size_t n = strlen(tails[i]);
        if (!span_ends(stem, tails[i])) continue;
        if (stem.n == n || stem.s[stem.n - n - 1] == '.' || stem.s[stem.n - n - 1] == '_')
            return true;
    }
    span x = stem;
    while (x.n > 0 && x.s[x.n - 1] >= '0' && x.s[x.n - 1] <= '9') x.n--;
    if (x.n == stem.n) return false;
    if (x.n > 0 && x.s[x.n - 1] == '_') x.n--;
    return span_ends(x, "norm") && (x.n == 4 || x.s[x.n - 5] == '.' || x.s[x.n - 5] == '_');
}

/* ---- image and video models --------------------------------------------------------- */

/* Names of image and video models. docs/formats.md states where each list comes from.
 *
 * Converters keep the names of the original checkpoints, so there are as many layouts as models.
 * They have in common that blocks are numbered lists, and that a segment of the name contains
 * attention, MLP, norm or modulation. */

/* Prefixes of the parts in whole checkpoints. */
static const struct {
    const char *text;
    bool encoder; /* of text */
} checkpoint_prefixes[] = { { "model.diffusion_model.", false }, { "diffusion_model.", false },
                            { "first_stage_model.", false },     { "vae.", false },
                            { "cond_stage_model.", true },       { "conditioner.embedders.", true },
                            { "text_encoders.", true } };

/* clang-format off */
/* Lists of blocks. The refiners come first, as they contain other lists. */
static const char *const block_lists[] = {
    "txt_in.individual_token_refiner.blocks.", "distilled_guidance_layer.layers.", "double_blocks.",
    "single_blocks.", "joint_blocks.", "single_transformer_blocks.", "transformer_blocks.",
    "noise_refiner.", "context_refiner.", "input_blocks.", "middle_block.", "output_blocks.",
    "down_blocks.", "up_blocks.", "blocks.", "layers.",
};

/* Embeddings of the input, of time and text, and the output, outside the blocks. */
static const char *const diffusion_embeds[] = {
    "img_in", "img_in.*", "txt_in", "txt_in.*", "time_in.*", "vector_in.*", "guidance_in.*",
    "x_embedder", "x_embedder.*", "t_embedder.*", "y_embedder.*", "context_embedder",
    "context_embedder.*", "cap_embedder.*", "pos_embed", "pos_embed.*", "patch_embedding",
    "text_embedding.*", "time_embedding.*", "add_embedding.*", "time_projection.*",
    "time_text_embed.*", "time_embed.*", "label_emb.*", "img_emb.*", "final_layer.*", "head.*",
    "proj_out", "conv_in", "conv_out", "out.*", "x_pad_token", "cap_pad_token", "register_tokens",
    NULL,
};

static const char *const diffusion_others[] = {
    "double_stream_modulation_*", "single_stream_modulation*", "distilled_guidance_layer.*",
    "norm_out.*", "__index_timestep_zero__", "scaled_fp8", NULL,
};
/* clang-format on */

static const char *const diffusion_norms[] = { "txt_norm", "norm_final", "conv_norm_out", NULL };

static span without_prefix(span name, bool *found, bool *text)
{
    *found = *text = false;
    for (size_t i = 0; i < sizeof checkpoint_prefixes / sizeof checkpoint_prefixes[0]; i++) {
        if (!span_starts(name, checkpoint_prefixes[i].text)) continue;
        *found = true;
        *text = checkpoint_prefixes[i].encoder;
        return span_drop(name, strlen(checkpoint_prefixes[i].text));
    }
    return name;
}

/* Encoders of text keep the names of the library they come from. */
static bool find_block_list(span name, bool anywhere, span *rest, int64_t *block)
{
    for (size_t at = 0; at < (anywhere ? name.n : 1); at++) {
        if (at > 0 && name.s[at - 1] != '.') continue;
        span here = span_drop(name, at);
        for (size_t i = 0; i < sizeof block_lists / sizeof block_lists[0]; i++) {
            if (!span_starts(here, block_lists[i])) continue;
            span after = span_drop(here, strlen(block_lists[i]));
            size_t digits = block_number(after, block);
            if (digits == 0) continue;
            *rest = span_drop(after, digits + 1);
            return true;
        }
    }
    *block = -1;
    return false;
}

/* Whether this is a name of a diffusion model. If so, *rest is the part after the prefix of the
 * checkpoint and the block, *block is the number of the block or -1, and *text is set if the tensor
 * belongs to a text encoder in the same file. */
static bool diffusion_name(span name, span *rest, int64_t *block, bool *text)
{
    bool prefixed;
    span inner = without_prefix(name, &prefixed, text);
    *rest = inner;
    if (find_block_list(inner, prefixed, rest, block)) return true;
    static const char *const endings[] = { ".weight", ".bias", ".scale", NULL };
    span stem = strip_ending(inner, endings);
    return prefixed || span_starts(inner, "mid_block.") || span_in(stem, diffusion_embeds) ||
           span_in(stem, diffusion_others) || span_in(stem, diffusion_norms);
}

/* The first and last layer of a UNet, and norms that have only a number. */
static bool class_by_number(span prefix, span stem, gg_class *cls)
{
    static const char *const numbered[] = { "in_layers.0", "out_layers.0", NULL };
    static const char *const outside[] = { "out.0", "cap_embedder.0", "img_emb.proj.0",
                                           "img_emb.proj.4", NULL };
    if (span_ends(prefix, "input_blocks.0.") && span_is(stem, "0")) return *cls = GG_EMBED, true;
    for (size_t i = 0; numbered[i]; i++)
        if (span_ends(stem, numbered[i])) return *cls = GG_NORM, true;
    if (span_in(stem, outside)) return *cls = GG_NORM, true;
    return false;
}

static bool is_modulation(span stem)
{
    static const char *const parts[] = { "modulation",  "adaLN",         "_mod.",
                                         "emb_layers.", "time_emb_proj", "scale_shift_table",
                                         NULL };
    for (size_t i = 0; parts[i]; i++)
        if (span_has(stem, parts[i])) return true;
    return span_has(stem, "norm") && span_ends(stem, ".linear");
}

/* A norm by its last segment with letters: norm1, norm_q, ln_k, query_norm, norms.0. */
static bool is_diffusion_norm(span stem)
{
    span rest = stem, segment, last = stem;
    while (span_segment(&rest, &segment))
        if (segment.n && (segment.s[0] < '0' || segment.s[0] > '9')) last = segment;
    return is_norm_stem(last) || span_starts(last, "norm") || span_starts(last, "ln_") ||
           span_starts(last, "layer_norm") || span_has(last, "layernorm") ||
           span_ends(last, "_norm1") || span_ends(last, "_norm2") || span_is(last, "gamma");
}

/* Decides by the last segment that names attention or MLP: attn.mlp is an MLP. */
static bool class_by_segment(span stem, gg_class *cls)
{
    span rest = stem, s;
    bool found = false;
    while (span_segment(&rest, &s)) {
        if (span_has(s, "attn") || span_has(s, "attention") || span_starts(s, "to_") ||
            span_is(s, "SelfAttention"))
            found = true, *cls = GG_SKELETON;
        if (span_has(s, "mlp") || span_is(s, "ffn") || span_is(s, "ff") ||
            span_is(s, "ff_context") || span_is(s, "feed_forward") || span_is(s, "DenseReluDense"))
            found = true, *cls = GG_ORGAN;
    }
    return found;
}

/* Layers of UNets and fused layers, which are neither. */
static bool is_diffusion_other(span stem)
{
    static const char *const parts[] = { "linear1",    "linear2",     "proj_in",         "proj_out",
                                         "in_layers.", "out_layers.", "skip_connection", "conv",
                                         "op",         "proj",        "resnets.",        NULL };
    for (size_t i = 0; parts[i]; i++)
        if (span_starts(stem, parts[i]) || span_has(stem, ".conv")) return true;
    /* UNet blocks have a list inside: 0.in_layers.2 */
    const char *dot = memchr(stem.s, '.', stem.n);
    if (!dot || stem.s[0] < '0' || stem.s[0] > '9') return false;
    return is_diffusion_other(span_drop(stem, (size_t)(dot - stem.s) + 1));
}

/* The class of a stem that diffusion_name has found. *known is false if no rule
 * matches. `prefix` is the part of the name before the stem. */
static gg_class diffusion_class(span prefix, span stem, bool *known)
{
    gg_class cls = GG_OTHER;
    bool block = prefix.n >= 2 && prefix.s[prefix.n - 2] >= '0' && prefix.s[prefix.n - 2] <= '9';
    *known = true;
    if (class_by_number(prefix, stem, &cls)) return cls;
    if (is_modulation(stem)) return GG_OTHER;
    if (!block && span_in(stem, diffusion_norms)) return GG_NORM;
    if (!block && span_in(stem, diffusion_embeds)) return GG_EMBED;
    if (is_diffusion_norm(stem)) return GG_NORM;
    if (!block && span_in(stem, diffusion_others)) return GG_OTHER;
    if (class_by_segment(stem, &cls)) return cls;
    if (span_has(stem, "embedding") || span_has(stem, "embed_tokens") || span_is(stem, "shared"))
        return GG_EMBED;
    *known = is_diffusion_other(stem) || span_starts(prefix, "first_stage_model.") ||
             span_starts(prefix, "vae.") || span_starts(prefix, "distilled_guidance_layer.");
    return GG_OTHER;
}

/* ---- images and sound of language models -------------------------------------------- */

/* Projectors, stems and towers have norms under many names: norm_embd, norm_conv, ln_q,
 * patch_ln, bn1, layer_scale. */
static bool is_tower_norm(span stem)
{
    span rest = stem, s;
    while (span_segment(&rest, &s)) {
        span x = s;
        while (x.n && x.s[x.n - 1] >= '0' && x.s[x.n - 1] <= '9') x.n--;
        if (span_has(s, "norm") || span_starts(s, "ln_") || span_ends(x, "_ln") ||
            span_is(x, "ln") || span_is(x, "ls") || span_is(x, "bn") || span_is(s, "layer_scale"))
            return true;
    }
    return false;
}

/* The class of a name in a vision or audio tower that the general rules do not cover. */
static gg_class tower_class(span stem)
{
    static const char *const embeds[] = {
        "token_embd.*",     "image_newline", "view_seperator", "boi", "eoi",
        "vision_pos_embed", "sam.pos_embd",  "sam.patch_embd", NULL
    };
    static const char *const attention[] = { "attn.*", "linear_pos", "pos_bias_*", "per_dim_*",
                                             NULL };
    if (span_in(stem, embeds)) return GG_EMBED;
    while (stem.n && stem.s[0] >= '0' && stem.s[0] <= '9') stem = span_drop(stem, 1);
    if (span_starts(stem, ".")) stem = span_drop(stem, 1); /* a block within a stage */
    if (span_in(stem, attention)) return GG_SKELETON;
    return span_starts(stem, "mlp.") ? GG_ORGAN : GG_OTHER;
}

/* ---- language models ---------------------------------------------------------------- */

/* Strips "blk.N." and sets *block to N, or to -1 if there is no block. */
static span strip_block(span x, int64_t *block)
{
    *block = -1;
    if (!span_starts(x, "blk.")) return x;
    int64_t n;
    size_t digits = block_number(span_drop(x, 4), &n);
    if (digits == 0) return x;
    *block = n;
    return span_drop(x, 4 + digits + 1);
}

static span strip_suffix(span x)
{
    static const char *const suffixes[] = { ".input_scale", ".scale", ".weight",
                                            ".weight.1",    ".bias",  NULL };
    return strip_ending(x, suffixes);
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

    { GG_EMBED, "d2t" },           { GG_EMBED, "t2d" },           { GG_EMBED, "masked_embd_*" },
    { GG_EMBED, "nextn.embed_tokens" },    { GG_EMBED, "nextn.shared_head_head" },

    { GG_SKELETON, "rope_freqs" },     { GG_SKELETON, "rope_factors_*" },
    { GG_SKELETON, "attn_rot_embd" },  { GG_SKELETON, "output_hc_*" }, { GG_SKELETON, "hc_*" },
    { GG_SKELETON, "altup_*" },        { GG_SKELETON, "laurel_*" }, { GG_SKELETON, "per_layer_*" },
    { GG_SKELETON, "inp_gate" },       { GG_SKELETON, "proj" },     { GG_SKELETON, "fc" },
    { GG_SKELETON, "layer_output_scale" },                          { GG_SKELETON, "nextn.*" },

    { GG_ORGAN, "exp_probs_b" },   { GG_ORGAN, "ffn_*" },          { GG_ORGAN, "ffn.act*" },
    { GG_ORGAN, "exp_probs_b_vl" },
    { GG_ORGAN, "channel_mix_*" }, { GG_ORGAN, "vis_gate" },       { GG_ORGAN, "vis_up" },
    { GG_ORGAN, "vis_down" },

    { GG_SKELETON, "attn_*" },     { GG_SKELETON, "cross_attn_*" }, { GG_SKELETON, "vis_attn_*" },
    { GG_SKELETON, "indexer*" },   { GG_SKELETON, "ssm_*" },        { GG_SKELETON, "shortconv.*" },
    { GG_SKELETON, "time_mix_*" }, { GG_SKELETON, "output_res_score" }, { GG_SKELETON, "hrm.*" },

    { GG_SKELETON, "conv1d" },     { GG_SKELETON, "posnet.*" },     { GG_ORGAN, "convnext.*" },
};
/* clang-format on */

/* The expert of ffn_gate.E, ffn_up.E and ffn_down.E, which have one tensor per expert. */
static int64_t expert_of(span stem)
{
    static const char *const heads[] = { "ffn_gate.", "ffn_up.", "ffn_down.", "ffn_gate_up." };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (!span_starts(stem, heads[i])) continue;
        span d = span_drop(stem, strlen(heads[i]));
        int64_t v = 0;
        size_t n = 0;
        while (n < d.n && n < 9 && d.s[n] >= '0' && d.s[n] <= '9') v = v * 10 + (d.s[n++] - '0');
        return n > 0 && n == d.n && !(n > 1 && d.s[0] == '0') ? v : -1;
    }
    return -1;
}

/* ---- all of them -------------------------------------------------------------------- */

/* The part (sub-model) of a tensor, from the prefix or suffix of its name. *rest is the name
 * without the prefix. */
static gg_part part_of(span name, span *rest)
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
        if (span_starts(name, begins[i].text)) {
            *rest = span_drop(name, begins[i].strip);
            part = begins[i].part;
            break;
        }
    bool adapter = span_ends(name, ".lora_a") || span_ends(name, ".lora_b");
    return adapter ? GG_PART_ADAPTER : part;
}

/* Sets the class from the stem, the part and the whole name. */
static void classify(gg_anatomy *a, span name, span stem)
{
    bool tower = a->part == GG_PART_VISION || a->part == GG_PART_AUDIO;
    a->known = true;
    a->mtp = span_has(name, ".nextn.") || span_starts(name, "nextn.") || span_starts(name, "mtp.");
    if (a->part == GG_PART_ADAPTER) {
        a->cls = GG_ADAPTER;
    } else if (is_norm_stem(stem) || (a->mtp && span_ends(stem, "norm")) ||
               (tower && is_tower_norm(stem))) {
        a->cls = GG_NORM;
    } else if (span_starts(stem, "mm.") || span_starts(stem, "resampler.") ||
               span_starts(stem, "adapter.")) {
        a->cls = GG_OTHER;
    } else {
        for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
            if (span_fits(stem, rules[i].stem)) {
                a->cls = rules[i].cls;
                return;
            }
        a->cls = tower ? tower_class(stem) : GG_OTHER;
        a->known = tower || a->mtp;
    }
}

/* Strips the suffix of an entry of an importance matrix, which has the name of a tensor before
 * it. */
static span strip_imatrix(span name)
{
    static const char *const ends[] = { ".in_sum2", ".counts",        ".in_sum",
                                        ".sample",  ".weighted_norm", NULL };
    return strip_ending(name, ends);
}

static gg_anatomy anatomy_of(span whole, span *rest)
{
    gg_anatomy a = { .block = -1, .expert = -1 };
    bool text = false;
    a.part = part_of(whole, rest);
    if (a.part == GG_PART_TEXT && diffusion_name(whole, rest, &a.block, &text)) {
        span prefix = span_cut(whole, rest->n);
        a.part = text ? GG_PART_ENCODER : GG_PART_DIFFUSION;
        a.cls = diffusion_class(prefix, strip_suffix(*rest), &a.known);
        return a;
    }
    *rest = strip_block(*rest, &a.block);
    span stem = strip_suffix(*rest);
    classify(&a, whole, stem);
    a.expert = expert_of(stem);
    a.stack = a.cls == GG_ORGAN && a.block >= 0 && span_starts(stem, "ffn_") &&
              span_ends(stem, "_exps");
    return a;
}

gg_anatomy gg_anatomy_of(const char *name, size_t name_len)
{
    span whole = { name, name_len }, described = strip_imatrix(whole), rest;
    gg_anatomy a = anatomy_of(described, &rest);
    rest.n += name_len - described.n;
    if (described.n < name_len) {
        a.part = GG_PART_IMATRIX;
        a.stack = false;
    }
    span role = a.block >= 0 ? rest : whole;
    if (span_ends(role, ".weight") && role.n > 7) role.n -= 7;
    a.role_at = (size_t)(role.s - name);
    a.role_len = role.n;
    return a;
}
