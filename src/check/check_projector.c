/* check_projector.c - rules for projectors (mmproj), which llama.cpp loads beside a language model.
 *
 * Source: the loader of llama.cpp, tools/mtmd/clip.cpp, of 2026. It refuses a file, or aborts, for
 * each of these findings. */
#include "check_context.h"

#include "base/text.h"

#include <string.h>

#define RULE "projector"
#define MOST_BLOCKS 512
#define SHOWN 8 /* tensors that are missing and have a finding of their own */

/* ---- keys ----------------------------------------------------------------------------------- */

static const gg_kv *key_of(const check *c, const char *part, const char *name, char full[80])
{
    snprintf(full, 80, "clip.%s%s%s", part, part[0] ? "." : "", name);
    return gg_design_key(&c->d, full);
}

/* The type of the projector: a text, or NULL. */
static const char *type_of(const check *c, const char *part, size_t *len)
{
    const char *text;
    char full[80];
    if (gg_kv_str(key_of(c, "", "projector_type", full), &text, len)) return text;
    return gg_kv_str(key_of(c, part, "projector_type", full), &text, len) ? text : NULL;
}

static const check_projector *table_of(const char *type, size_t len)
{
    const check_projector *p = gg_check_projectors;
    while (p->types && !(type && gg_text_has_word(p->types, type, len))) p++;
    return p->types ? p : NULL;
}

static uint64_t number_of(const check *c, const char *part, const char *name)
{
    char full[80];
    uint64_t v = 0;
    gg_kv_u64(key_of(c, part, name, full), &v);
    return v;
}

/* Requires a key of the part, of the type u32, or f32 if its name is that of an epsilon. */
static void require_key(check *c, const char *part, const char *name)
{
    char full[80];
    const gg_kv *kv = key_of(c, part, name, full);
    uint32_t type = strstr(name, "epsilon") ? GG_TYPE_F32 : GG_TYPE_U32;
    if (!kv) say_error(c, RULE, at_name(full), "this key is missing; llama.cpp requires it");
    else if (kv->type != type)
        say_error(c, RULE, at_key(kv), "its type is %s, but an engine reads it only as %s",
                  gg_type_name(kv->type), gg_type_name(type));
}

/* The mean and the deviation of the three colours. */
static void require_colours(check *c, const char *name)
{
    char full[80];
    const gg_kv *kv = key_of(c, "vision", name, full);
    if (!kv) say_error(c, RULE, at_name(full), "this key is missing; llama.cpp stops without it");
    else if (kv->type != GG_TYPE_ARR || kv->elem_type != GG_TYPE_F32 || kv->count < 3)
        say_error(c, RULE, at_key(kv), "it must be an array of three f32");
}

static void check_keys(check *c, const char *part)
{
    static const char *const keys[] = { "embedding_length",    "attention.head_count",
                                        "feed_forward_length", "block_count",
                                        "projection_dim",      "attention.layer_norm_epsilon" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) require_key(c, part, keys[i]);
    if (strcmp(part, "audio") == 0) {
        require_key(c, part, "num_mel_bins");
        return;
    }
    char full[80];
    require_key(c, part, "image_size");
    require_key(c, part, "patch_size");
    if (key_of(c, part, "patch_size", full) && number_of(c, part, "patch_size") == 0)
        say_error(c, RULE, at_name(full), "it is 0, and llama.cpp divides by it");
    uint64_t heads = number_of(c, part, "attention.head_count");
    uint64_t embd = number_of(c, part, "embedding_length");
    if (key_of(c, part, "attention.head_count", full) && heads == 0)
        say_error(c, RULE, at_name(full), "it is 0, and llama.cpp divides by it");
    if (heads > 0 && embd % heads > 0)
        say_error(c, RULE, at_name(full),
                  "%" PRIu64 " dimensions cannot be divided among %" PRIu64 " heads", embd, heads);
    require_colours(c, "image_mean");
    require_colours(c, "image_std");
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void require_tensor(check *c, const char *name, size_t *missing)
{
    if (!gg_check_tensor(c, name) && (*missing)++ < SHOWN)
        say_error(c, "tensor-missing", at_name(name),
                  "this tensor is missing; projectors of this type need it");
}

/* Requires "mm.0.weight" as it is, and of "mm.0" the weight and the bias. */
static void require_word(check *c, const char *word, size_t len, size_t *missing)
{
    static const char *const whole[] = { ".weight", ".bias",    ".weight.1", "_embed_k",
                                         ".query",  "boi",      "eoi",       "_begin",
                                         "_end",    "_newline", "_break" };
    char name[120];
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (gg_text_ends(word, len, whole[i])) {
            snprintf(name, sizeof name, "%.*s", (int)len, word);
            require_tensor(c, name, missing);
            return;
        }
    for (size_t k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "%.*s.%s", (int)len, word, k ? "bias" : "weight");
        require_tensor(c, name, missing);
    }
}

static void check_block(check *c, char prefix, uint64_t b, size_t *missing)
{
    static const char *const roles[] = { "attn_out", "ffn_up", "ffn_down", "ln1", "ln2" };
    static const char *const split[] = { "attn_q", "attn_k", "attn_v" };
    char name[80];
    for (size_t i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%c.blk.%" PRIu64 ".%s.weight", prefix, b, roles[i]);
        require_tensor(c, name, missing);
    }
    snprintf(name, sizeof name, "%c.blk.%" PRIu64 ".attn_qkv.weight", prefix, b);
    bool fused = gg_check_tensor(c, name) != NULL;
    for (size_t i = 0; i < 3 && !fused; i++) {
        snprintf(name, sizeof name, "%c.blk.%" PRIu64 ".%s.weight", prefix, b, split[i]);
        require_tensor(c, name, missing);
    }
}

static void check_tensors(check *c, const char *part, const check_projector *p)
{
    size_t missing = 0, len;
    uint64_t blocks = number_of(c, part, "block_count");
    const char *at = p->needs, *word;
    if (p->blocks && part[0] == 'v') require_tensor(c, "v.patch_embd.weight", &missing);
    while (gg_text_next_word(&at, &word, &len)) require_word(c, word, len, &missing);
    for (uint64_t b = 0; p->blocks && b < blocks && b < MOST_BLOCKS; b++)
        check_block(c, part[0], b, &missing);
    if (missing > SHOWN)
        say_error(c, "tensor-missing", at_name(""), "%zu tensors are missing in total", missing);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

static void expect_side(check *c, const gg_tensor *t, uint32_t side, uint64_t want, const char *why)
{
    if (!t || want == 0 || t->dims[side] == want) return;
    say_error(c, "tensor-shape", at_tensor(t), "its side %u is %" PRIu64 ", but %s is %" PRIu64,
              side, t->dims[side], why, want);
}

/* Blocks past block_count are not read: the engine then computes without them. */
static void check_beyond(check *c, const char *part, uint64_t blocks)
{
    char full[80];
    bool known = key_of(c, part, "block_count", full) != NULL;
    for (size_t i = 0; i < c->in->n && known; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        if (t->a.block < 0 || (uint64_t)t->a.block < blocks || t->name[0] != part[0] ||
            memcmp(t->name + 1, ".blk.", 5) != 0)
            continue;
        say_warning(c, "block-count", at_tensor(t),
                    "llama.cpp does not use blocks from block_count (%" PRIu64 ") on", blocks);
        return;
    }
}

/* A bias has one value per row of its matrix. */
static void check_biases(check *c)
{
    char name[200];
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        if (!gg_text_ends(t->name, t->name_len, ".bias") || t->name_len > 150 || t->n_dims != 1)
            continue;
        snprintf(name, sizeof name, "%.*s.weight", (int)(t->name_len - 5), t->name);
        const gg_tensor *w = gg_check_tensor(c, name);
        if (w && w->n_dims == 2)
            expect_side(c, t, 0, w->dims[1], "the number of rows of its matrix");
    }
}

static void check_sizes(check *c, const char *part, const check_projector *p)
{
    uint64_t embd = number_of(c, part, "embedding_length"),
             patch = number_of(c, part, "patch_size"), blocks = number_of(c, part, "block_count");
    const gg_tensor *t = gg_check_tensor(c, "v.patch_embd.weight");
    char name[80];
    check_biases(c);
    check_beyond(c, part, blocks);
    if (!p->blocks) return;
    if (part[0] == 'v' && t && t->n_dims == 4) {
        expect_side(c, t, 0, patch, "patch_size");
        expect_side(c, t, 1, patch, "patch_size");
        expect_side(c, t, 3, embd, "embedding_length");
    }
    for (uint64_t b = 0; b < blocks && b < MOST_BLOCKS; b++) {
        snprintf(name, sizeof name, "%c.blk.%" PRIu64 ".attn_out.weight", part[0], b);
        expect_side(c, gg_check_tensor(c, name), 1, embd, "embedding_length");
        snprintf(name, sizeof name, "%c.blk.%" PRIu64 ".ln1.weight", part[0], b);
        expect_side(c, gg_check_tensor(c, name), 0, embd, "embedding_length");
        snprintf(name, sizeof name, "%c.blk.%" PRIu64 ".ffn_up.weight", part[0], b);
        t = gg_check_tensor(c, name);
        /* old files have exchanged ffn_up and ffn_down */
        if (t && t->dims[1] != embd) expect_side(c, t, 0, embd, "embedding_length");
    }
}

/* ---- a projector ---------------------------------------------------------------------------- */

static bool has_part(const check *c, const char *part)
{
    char full[80];
    uint64_t flag;
    snprintf(full, sizeof full, "clip.has_%s_encoder", part);
    return gg_kv_u64(gg_design_key(&c->d, full), &flag) && flag;
}

static void check_part(check *c, const char *part)
{
    size_t len = 0;
    const char *type = type_of(c, part, &len);
    const check_projector *p = table_of(type, len);
    check_keys(c, part);
    if (!type) {
        say_error(c, RULE, at_name("clip.projector_type"),
                  "this key is missing; llama.cpp requires it");
    } else if (!p) {
        say_error(c, RULE, at_name("clip.projector_type"),
                  "llama.cpp v0.5.0 does not know the type '%.*s'", (int)(len < 60 ? len : 60),
                  type);
    } else if (!p->needs[0]) {
        gg_check_unchecked(c, "there are no rules for tensors of projectors of the type %.*s",
                           (int)len, type);
    } else {
        check_tensors(c, part, p);
        check_sizes(c, part, p);
    }
}

void gg_check_projector_rules(check *c)
{
    bool audio = has_part(c, "audio"), vision = has_part(c, "vision");
    if (!audio && !vision)
        say_error(
            c, RULE, at_name("clip.has_vision_encoder"),
            "neither this key nor clip.has_audio_encoder is true, so that llama.cpp loads nothing");
    uint64_t gelu = 0, silu = 0;
    if (gg_kv_u64(gg_design_key(&c->d, "clip.use_gelu"), &gelu) && gelu &&
        gg_kv_u64(gg_design_key(&c->d, "clip.use_silu"), &silu) && silu)
        say_error(c, RULE, at_name("clip.use_silu"),
                  "it and clip.use_gelu are both true, and llama.cpp refuses that");
    if (vision) check_part(c, "vision");
    if (audio) check_part(c, "audio");
}

bool gg_check_projector_output(const check *c, const char *part, size_t *i, uint64_t *width)
{
    size_t len = 0;
    const char *type = type_of(c, part, &len);
    const check_projector *p = table_of(type, len);
    *i = p && p->output[0] ? gg_check_find(c, p->output, strlen(p->output)) : SIZE_MAX;
    if (*i != SIZE_MAX) *width = c->in->tensors[*i].dims[p->side];
    return has_part(c, part);
}
