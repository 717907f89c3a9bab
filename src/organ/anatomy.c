/* anatomy.c - derive class, part, block, role and expert of a tensor from its name.
 *
 * The rules are ordered, and the first match wins. They apply to the stem: the name without the
 * prefix of its part (v. a. enc. dec.), without blk.N. and without its suffix (.weight .bias
 * .scale .input_scale). Norms come before attention and FFN, because the names attn_norm and
 * ffn_norm begin like those.
 */
#include "organ/gg_organ.h"

#include "anatomy.h"
#include "tensor_names.h"

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

bool gg_is_class_folder(const char *name)
{
    for (int c = 0; c < GG_CLASS_COUNT; c++)
        if (strcmp(name, classes[c].folder) == 0) return true;
    return false;
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
            same_word(name, len, classes[i].label)) {
            *c = (gg_class)i;
            return true;
        }
    if (same_word(name, len, "attn")) {
        *c = GG_SKELETON;
        return true;
    }
    if (same_word(name, len, "normalization")) {
        *c = GG_NORM;
        return true;
    }
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
        if (same_word(name, len, part_names[i])) {
            *p = (gg_part)i;
            return true;
        }
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

/* ---- rules ------------------------------------------------------------------------ */

static size_t digits_at(span x, size_t at)
{
    size_t n = 0;
    while (at + n < x.n && x.s[at + n] >= '0' && x.s[at + n] <= '9') n++;
    return n;
}

/* Whether all of x fits a pattern, in which * is any text and # digits. After a mismatch the last
 * asterisk takes one more byte; those before it stay, so that no recursion is needed. */
static bool fits(span x, const char *p)
{
    const char *star = NULL;
    size_t at = 0, resume = 0;
    while (*p || at < x.n) {
        if (*p == '*') {
            star = ++p;
            resume = at;
            if (!*p) return true;
            continue;
        }
        size_t n = *p == '#' ? digits_at(x, at) : *p && at < x.n && x.s[at] == *p;
        if (n) {
            at += n;
            p++;
        } else if (star && resume < x.n) {
            at = ++resume;
            p = star;
        } else {
            return false;
        }
    }
    return true;
}

/* Sets the class of the first rule that x fits. Returns false if there is none. */
static bool first_rule(span x, const gg_name_rule *r, gg_class *cls)
{
    for (; r->pattern; r++) {
        char c = *r->pattern; /* tells most rules apart without a call */
        if (c != '*' && c != '#' && (x.n == 0 || x.s[0] != c)) continue;
        if (fits(x, r->pattern)) {
            *cls = r->cls;
            return true;
        }
    }
    return false;
}

/* The same for the last segment of the stem that fits a rule. */
static bool segment_rule(span stem, const gg_name_rule *rules, gg_class *cls)
{
    bool found = false;
    for (span s; span_segment(&stem, &s);) found |= first_rule(s, rules, cls);
    return found;
}

/* Rule 2 of docs/formats.md, which applies at the beginning and after a dot or _. */
static bool norm_rule(span stem, gg_class *cls)
{
    for (size_t at = stem.n; at-- > 0;)
        if ((at == 0 || stem.s[at - 1] == '.' || stem.s[at - 1] == '_') &&
            first_rule(span_drop(stem, at), gg_rules_norm, cls))
            return true;
    return false;
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
    "down_blocks.", "up_blocks.", "double_stream_blocks.", "single_stream_blocks.",
    "double_layers.", "single_layers.", "blocks.", "layers.",
};
/* clang-format on */

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
    gg_class cls;
    return prefixed || span_starts(inner, "mid_block.") ||
           first_rule(stem, gg_rules_outside, &cls) ||
           first_rule(stem, gg_rules_outside_rest, &cls);
}

/* A norm by its last segment with letters. */
static bool diffusion_norm(span stem, gg_class *cls)
{
    span rest = stem, segment, last = stem;
    while (span_segment(&rest, &segment))
        if (segment.n && digits_at(segment, 0) == 0) last = segment;
    return norm_rule(last, cls) || first_rule(last, gg_rules_last_segment, cls);
}

/* The class of a stem that diffusion_name has found. *known is false if no rule
 * matches. `prefix` is the part of the name before the stem. */
static gg_class diffusion_class(span prefix, span stem, bool *known)
{
    gg_class cls = GG_OTHER;
    bool block = prefix.n >= 2 && prefix.s[prefix.n - 2] >= '0' && prefix.s[prefix.n - 2] <= '9';
    *known = true;
    if (span_ends(prefix, "input_blocks.0.") && span_is(stem, "0")) return GG_EMBED;
    if (first_rule(stem, gg_rules_diffusion, &cls) ||
        (!block && first_rule(stem, gg_rules_outside, &cls)) || diffusion_norm(stem, &cls) ||
        (!block && first_rule(stem, gg_rules_outside_rest, &cls)) ||
        segment_rule(stem, gg_rules_segment, &cls) ||
        first_rule(stem, gg_rules_diffusion_embed, &cls))
        return cls;
    span layer = stem, number; /* UNet blocks have a list inside: 0.in_layers.2 */
    for (span rest = stem; digits_at(rest, 0) && span_segment(&rest, &number) && rest.n;)
        layer = rest;
    *known = first_rule(layer, gg_rules_layer, &cls) || span_starts(prefix, "first_stage_model.") ||
             span_starts(prefix, "vae.") || span_starts(prefix, "distilled_guidance_layer.");
    return GG_OTHER;
}

/* ---- images and sound of language models -------------------------------------------- */

/* The class of a name in a vision or audio tower that the general rules do not cover. */
static gg_class tower_class(span stem)
{
    gg_class cls = GG_OTHER;
    if (first_rule(stem, gg_rules_tower, &cls)) return cls;
    stem = span_drop(stem, digits_at(stem, 0));
    if (span_starts(stem, ".")) stem = span_drop(stem, 1); /* a block within a stage */
    return first_rule(stem, gg_rules_tower, &cls) ? cls : GG_OTHER;
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

/* The expert of ffn_gate.E, ffn_up.E and others, which have one tensor per expert. */
static int64_t expert_of(span stem)
{
    size_t at = stem.n;
    while (at > 0 && stem.s[at - 1] >= '0' && stem.s[at - 1] <= '9') at--;
    size_t n = stem.n - at;
    bool plain = n > 0 && n < 10 && !(n > 1 && stem.s[at] == '0');
    if (!plain || at < sizeof "ffn_" || stem.s[at - 1] != '.' || !span_starts(stem, "ffn_"))
        return -1;
    int64_t expert = 0;
    for (; at < stem.n; at++) expert = expert * 10 + (stem.s[at] - '0');
    return expert;
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
    a->mtp = fits(name, "*.nextn.*") || span_starts(name, "nextn.") || span_starts(name, "mtp.");
    gg_class cls = a->part == GG_PART_ADAPTER ? GG_ADAPTER : GG_NORM;
    a->known = a->part == GG_PART_ADAPTER || norm_rule(stem, &cls) ||
               (a->mtp && span_ends(stem, "norm")) ||
               (tower && segment_rule(stem, gg_rules_tower_norm, &cls)) ||
               first_rule(stem, gg_rules_language, &cls);
    if (!a->known) {
        cls = tower ? tower_class(stem) : GG_OTHER;
        a->known = tower || a->mtp;
    }
    a->cls = (uint8_t)cls;
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
    a.part = (uint8_t)part_of(whole, rest);
    if (a.part == GG_PART_TEXT && diffusion_name(whole, rest, &a.block, &text)) {
        span prefix = span_cut(whole, rest->n);
        a.part = (uint8_t)(text ? GG_PART_ENCODER : GG_PART_DIFFUSION);
        a.cls = (uint8_t)diffusion_class(prefix, strip_suffix(*rest), &a.known);
        return a;
    }
    *rest = strip_block(*rest, &a.block);
    span stem = strip_suffix(*rest);
    classify(&a, whole, stem);
    a.expert = expert_of(stem);
    a.stack = a.cls == GG_ORGAN && a.block >= 0 && stem.n >= sizeof "ffn_exps" &&
              span_starts(stem, "ffn_") && span_ends(stem, "_exps");
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
    size_t at = (size_t)(role.s - name); /* names of sources are shorter; others are not read on */
    a.role_at = (uint16_t)(at < UINT16_MAX ? at : UINT16_MAX);
    a.role_len = (uint16_t)(role.n < (size_t)UINT16_MAX - a.role_at ? role.n : 0);
    return a;
}
