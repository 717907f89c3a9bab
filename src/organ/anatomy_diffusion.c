/* anatomy_diffusion.c - names of image and video models. docs/formats.md states where
 * each list comes from.
 *
 * Converters keep the names of the original checkpoints, so there are as many layouts as models.
 * They have in common that blocks are numbered lists, and that a segment of the name contains
 * attention, MLP, norm or modulation.
 */
#include "anatomy_rules.h"

/* Prefixes of the parts in whole checkpoints. */
static const struct {
    const char *text;
    bool encoder; /* of text */
} prefixes[] = { { "model.diffusion_model.", false }, { "diffusion_model.", false },
                 { "first_stage_model.", false },     { "vae.", false },
                 { "cond_stage_model.", true },       { "conditioner.embedders.", true },
                 { "text_encoders.", true } };

/* Lists of blocks. The refiners come first, as they contain other lists. */
static const char *const lists[] = { "txt_in.individual_token_refiner.blocks.",
                                     "distilled_guidance_layer.layers.",
                                     "double_blocks.",
                                     "single_blocks.",
                                     "joint_blocks.",
                                     "single_transformer_blocks.",
                                     "transformer_blocks.",
                                     "noise_refiner.",
                                     "context_refiner.",
                                     "input_blocks.",
                                     "middle_block.",
                                     "output_blocks.",
                                     "down_blocks.",
                                     "up_blocks.",
                                     "blocks.",
                                     "layers." };

/* Embeddings of the input, of time and text, and the output, outside the blocks. */
static const char *const embeds[] = { "img_in",
                                      "img_in.*",
                                      "txt_in",
                                      "txt_in.*",
                                      "time_in.*",
                                      "vector_in.*",
                                      "guidance_in.*",
                                      "x_embedder",
                                      "x_embedder.*",
                                      "t_embedder.*",
                                      "y_embedder.*",
                                      "context_embedder",
                                      "context_embedder.*",
                                      "cap_embedder.*",
                                      "pos_embed",
                                      "pos_embed.*",
                                      "patch_embedding",
                                      "text_embedding.*",
                                      "time_embedding.*",
                                      "add_embedding.*",
                                      "time_projection.*",
                                      "time_text_embed.*",
                                      "time_embed.*",
                                      "label_emb.*",
                                      "img_emb.*",
                                      "final_layer.*",
                                      "head.*",
                                      "proj_out",
                                      "conv_in",
                                      "conv_out",
                                      "out.*",
                                      "x_pad_token",
                                      "cap_pad_token",
                                      "register_tokens",
                                      NULL };

static const char *const others[] = { "double_stream_modulation_*",
                                      "single_stream_modulation*",
                                      "distilled_guidance_layer.*",
                                      "norm_out.*",
                                      "__index_timestep_zero__",
                                      "scaled_fp8",
                                      NULL };

static const char *const norms[] = { "txt_norm", "norm_final", "conv_norm_out", NULL };

static gg_span without_prefix(gg_span name, bool *found, bool *text)
{
    *found = *text = false;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (!gg_span_starts(name, prefixes[i].text)) continue;
        *found = true;
        *text = prefixes[i].encoder;
        return gg_span_drop(name, strlen(prefixes[i].text));
    }
    return name;
}

static gg_span strip_weight(gg_span x)
{
    static const char *const suffixes[] = { ".weight", ".bias", ".scale", NULL };
    for (size_t i = 0; suffixes[i]; i++)
        if (gg_span_ends(x, suffixes[i])) return gg_span_cut(x, strlen(suffixes[i]));
    return x;
}

/* Encoders of text keep the names of the library they come from. */
static bool find_list(gg_span name, bool anywhere, gg_span *rest, int64_t *block)
{
    for (size_t at = 0; at < (anywhere ? name.n : 1); at++) {
        if (at > 0 && name.s[at - 1] != '.') continue;
        gg_span here = gg_span_drop(name, at);
        for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
            if (!gg_span_starts(here, lists[i])) continue;
            gg_span after = gg_span_drop(here, strlen(lists[i]));
            size_t digits = gg_block_number(after, block);
            if (digits == 0) continue;
            *rest = gg_span_drop(after, digits + 1);
            return true;
        }
    }
    *block = -1;
    return false;
}

bool gg_diffusion_name(gg_span name, gg_span *rest, int64_t *block, bool *text)
{
    bool prefixed;
    gg_span inner = without_prefix(name, &prefixed, text);
    *rest = inner;
    if (find_list(inner, prefixed, rest, block)) return true;
    gg_span stem = strip_weight(inner);
    return prefixed || gg_span_starts(inner, "mid_block.") || gg_span_in(stem, embeds) ||
           gg_span_in(stem, others) || gg_span_in(stem, norms);
}

/* The first and last layer of a UNet, and norms that have only a number. */
static bool by_number(gg_span prefix, gg_span stem, gg_class *cls)
{
    static const char *const numbered[] = { "in_layers.0", "out_layers.0", NULL };
    static const char *const outside[] = { "out.0", "cap_embedder.0", "img_emb.proj.0",
                                           "img_emb.proj.4", NULL };
    if (gg_span_ends(prefix, "input_blocks.0.") && gg_span_is(stem, "0"))
        return *cls = GG_EMBED, true;
    for (size_t i = 0; numbered[i]; i++)
        if (gg_span_ends(stem, numbered[i])) return *cls = GG_NORM, true;
    if (gg_span_in(stem, outside)) return *cls = GG_NORM, true;
    return false;
}

static bool is_modulation(gg_span stem)
{
    static const char *const parts[] = { "modulation",  "adaLN",         "_mod.",
                                         "emb_layers.", "time_emb_proj", "scale_shift_table",
                                         NULL };
    for (size_t i = 0; parts[i]; i++)
        if (gg_span_has(stem, parts[i])) return true;
    return gg_span_has(stem, "norm") && gg_span_ends(stem, ".linear");
}

/* A norm by its last segment with letters: norm1, norm_q, ln_k, query_norm, norms.0. */
static bool is_norm(gg_span stem)
{
    gg_span rest = stem, segment, last = stem;
    while (gg_span_segment(&rest, &segment))
        if (segment.n && (segment.s[0] < '0' || segment.s[0] > '9')) last = segment;
    return gg_is_norm_stem(last) || gg_span_starts(last, "norm") || gg_span_starts(last, "ln_") ||
           gg_span_starts(last, "layer_norm") || gg_span_has(last, "layernorm") ||
           gg_span_ends(last, "_norm1") || gg_span_ends(last, "_norm2") ||
           gg_span_is(last, "gamma");
}

/* Decides by the last segment that names attention or MLP: attn.mlp is an MLP. */
static bool by_segment(gg_span stem, gg_class *cls)
{
    gg_span rest = stem, s;
    bool found = false;
    while (gg_span_segment(&rest, &s)) {
        if (gg_span_has(s, "attn") || gg_span_has(s, "attention") || gg_span_starts(s, "to_") ||
            gg_span_is(s, "SelfAttention"))
            found = true, *cls = GG_SKELETON;
        if (gg_span_has(s, "mlp") || gg_span_is(s, "ffn") || gg_span_is(s, "ff") ||
            gg_span_is(s, "ff_context") || gg_span_is(s, "feed_forward") ||
            gg_span_is(s, "DenseReluDense"))
            found = true, *cls = GG_ORGAN;
    }
    return found;
}

/* Layers of UNets and fused layers, which are neither. */
static bool is_other(gg_span stem)
{
    static const char *const parts[] = { "linear1",    "linear2",     "proj_in",         "proj_out",
                                         "in_layers.", "out_layers.", "skip_connection", "conv",
                                         "op",         "proj",        "resnets.",        NULL };
    for (size_t i = 0; parts[i]; i++)
        if (gg_span_starts(stem, parts[i]) || gg_span_has(stem, ".conv")) return true;
    /* UNet blocks have a list inside: 0.in_layers.2 */
    const char *dot = memchr(stem.s, '.', stem.n);
    if (!dot || stem.s[0] < '0' || stem.s[0] > '9') return false;
    return is_other(gg_span_drop(stem, (size_t)(dot - stem.s) + 1));
}

gg_class gg_diffusion_class(gg_span prefix, gg_span stem, bool *known)
{
    gg_class cls = GG_OTHER;
    bool block = prefix.n >= 2 && prefix.s[prefix.n - 2] >= '0' && prefix.s[prefix.n - 2] <= '9';
    *known = true;
    if (by_number(prefix, stem, &cls)) return cls;
    if (is_modulation(stem)) return GG_OTHER;
    if (!block && gg_span_in(stem, norms)) return GG_NORM;
    if (!block && gg_span_in(stem, embeds)) return GG_EMBED;
    if (is_norm(stem)) return GG_NORM;
    if (!block && gg_span_in(stem, others)) return GG_OTHER;
    if (by_segment(stem, &cls)) return cls;
    if (gg_span_has(stem, "embedding") || gg_span_has(stem, "embed_tokens") ||
        gg_span_is(stem, "shared"))
        return GG_EMBED;
    *known = is_other(stem) || gg_span_starts(prefix, "first_stage_model.") ||
             gg_span_starts(prefix, "vae.") || gg_span_starts(prefix, "distilled_guidance_layer.");
    return GG_OTHER;
}
