/* check_keys.c - keys that an engine requires, their types, and values that contradict each
 * other: heads, RoPE, experts, per-layer arrays. */
#include "check_core.h"

#include <stdio.h>
#include <string.h>

#define MOST_BLOCKS 512   /* LLAMA_MAX_LAYERS */
#define MOST_EXPERTS 1024 /* LLAMA_MAX_EXPERTS */

/* ---- required ---------------------------------------------------------------------- */

static void require(check *c, const char *name, size_t len)
{
    char key[200], word[100];
    snprintf(word, sizeof word, "%.*s", (int)len, name);
    if (gg_check_arch_key(c, word)) return;
    gg_check_key_name(c, word, key, sizeof key);
    gg_check_say(c, GG_CHECK_ERROR, "key-missing", key, strlen(key),
                 "this key is missing; an engine requires it");
}

static void required_keys(check *c)
{
    const char *word, *general = "context_length embedding_length block_count";
    size_t len;
    while (gg_check_next_word(&general, &word, &len)) require(c, word, len);
    const char *own = c->arch ? c->arch->keys : "";
    while (gg_check_next_word(&own, &word, &len)) require(c, word, len);
    bool lite = c->trunk == 26 || c->trunk == 27 || c->trunk == 48;
    if (gg_check_word("deepseek2", c->arch_name, c->arch_len) && !lite)
        require(c, "attention.q_lora_rank", 21);
}

/* Reports an architecture that is missing or unknown. */
static void architecture(check *c)
{
    static const char key[] = "general.architecture";
    if (!c->arch_name || c->arch_len == 0) {
        gg_check_say(c, GG_CHECK_ERROR, "architecture", key, sizeof key - 1,
                     "%s: an engine cannot tell what kind of model this is",
                     gg_check_key(c, key) ? "this is not a name" : "this key is missing");
        return;
    }
    if (!gg_check_arch_known(c->arch_name, c->arch_len))
        gg_check_say(c, GG_CHECK_ERROR, "architecture", key, sizeof key - 1,
                     "llama.cpp v0.5.0 does not know architecture '%.*s'",
                     (int)(c->arch_len < 64 ? c->arch_len : 64), c->arch_name);
}

/* ---- types --------------------------------------------------------------------------- */

/* Keys that an engine reads with one type only. Those under ARRAY may hold one value per
 * block; a trailing '.' stands for "of the architecture". */
static const char u32_keys[] =
    "context_length embedding_length block_count expert_count expert_group_count "
    "expert_group_used_count nextn_predict_layers attention.key_length attention.value_length "
    "rope.dimension_count rope.scaling.original_context_length leading_dense_block_count "
    "expert_shared_count attention.q_lora_rank attention.kv_lora_rank "
    "attention.key_length_mla attention.value_length_mla attention.sliding_window "
    "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank ssm.group_count "
    "decoder_block_count attention.relative_buckets_count";
static const char per_block_keys[] =
    "feed_forward_length attention.head_count attention.head_count_kv expert_used_count "
    "expert_feed_forward_length";
static const char f32_keys[] =
    "rope.freq_base rope.freq_base_swa rope.scaling.factor rope.scaling.attn_factor "
    "attention.layer_norm_rms_epsilon attention.layer_norm_epsilon logit_scale residual_scale "
    "embedding_scale attention.scale attn_logit_softcapping final_logit_softcapping "
    "expert_weights_scale";
static const char bool_keys[] = "attention.causal expert_weights_norm rope.scaling.finetuned";
static const char str_keys[] = "rope.scaling.type";

static void wrong_type(check *c, const gg_kv *kv, const char *type)
{
    gg_check_say(c, GG_CHECK_ERROR, "key-type", kv->key, kv->key_len,
                 "its type is %s, but an engine reads it only as %s", gg_type_name(kv->type), type);
}

static void expect_type(check *c, const gg_kv *kv, const char *name, size_t len)
{
    bool array = kv->type == GG_TYPE_ARR;
    bool whole = array && (kv->elem_type == GG_TYPE_U32 || kv->elem_type == GG_TYPE_I32 ||
                           kv->elem_type == GG_TYPE_BOOL);
    if (gg_check_word(u32_keys, name, len) && kv->type != GG_TYPE_U32) wrong_type(c, kv, "u32");
    if (gg_check_word(per_block_keys, name, len) && kv->type != GG_TYPE_U32 && !whole)
        wrong_type(c, kv, "u32, or as an array of u32 or i32");
    if (gg_check_word(f32_keys, name, len) && kv->type != GG_TYPE_F32) wrong_type(c, kv, "f32");
    if (gg_check_word(bool_keys, name, len) && kv->type != GG_TYPE_BOOL) wrong_type(c, kv, "bool");
    if (gg_check_word(str_keys, name, len) && kv->type != GG_TYPE_STR) wrong_type(c, kv, "str");
}

static bool ends(const gg_kv *kv, const char *end)
{
    size_t n = strlen(end);
    return kv->key_len > n && memcmp(kv->key + kv->key_len - n, end, n) == 0;
}

static bool starts(const gg_kv *kv, const char *start)
{
    size_t n = strlen(start);
    return kv->key_len > n && memcmp(kv->key, start, n) == 0;
}

static void types(check *c)
{
    static const char strings[] =
        "general.architecture general.name tokenizer.ggml.model tokenizer.ggml.pre";
    for (size_t i = 0; i < c->in->meta->n; i++) {
        const gg_kv *kv = &c->in->meta->kv[i];
        bool own = c->arch_name && kv->key_len > c->arch_len + 1 &&
                   memcmp(kv->key, c->arch_name, c->arch_len) == 0 && kv->key[c->arch_len] == '.';
        if (own) expect_type(c, kv, kv->key + c->arch_len + 1, kv->key_len - c->arch_len - 1);
        if (gg_check_word(strings, kv->key, kv->key_len) && kv->type != GG_TYPE_STR)
            wrong_type(c, kv, "str");
        if (starts(kv, "tokenizer.ggml.") && ends(kv, "_token_id") && kv->type != GG_TYPE_U32)
            wrong_type(c, kv, "u32");
        if (starts(kv, "tokenizer.ggml.add_") && ends(kv, "_token") && kv->type != GG_TYPE_BOOL)
            wrong_type(c, kv, "bool");
        if (gg_check_word("general.file_type", kv->key, kv->key_len) && kv->type != GG_TYPE_U32)
            wrong_type(c, kv, "u32");
    }
}

/* ---- arrays of one value per block --------------------------------------------------- */

/* Read by engines with exactly block_count values. */
static const char strict_arrays[] =
    "feed_forward_length attention.head_count attention.head_count_kv expert_used_count "
    "expert_feed_forward_length attention.recurrent_layers attention.indexer.types "
    "swiglu_clamp_exp swiglu_clamp_shexp xielu.alpha_n xielu.alpha_p xielu.beta xielu.eps";
/* Also one value per block, but engines accept any number of values. */
static const char loose_arrays[] =
    "attention.sliding_window_pattern attention.compress_ratios activation_sparsity_scale "
    "attention.rope_pattern target_layers deepstack_mapping";

static void layer_arrays(check *c)
{
    if (c->blocks == 0) return;
    for (size_t i = 0; i < c->in->meta->n; i++) {
        const gg_kv *kv = &c->in->meta->kv[i];
        if (kv->type != GG_TYPE_ARR || kv->count == c->blocks || !c->arch_name ||
            kv->key_len <= c->arch_len + 1 || memcmp(kv->key, c->arch_name, c->arch_len) != 0)
            continue;
        const char *name = kv->key + c->arch_len + 1;
        size_t len = kv->key_len - c->arch_len - 1;
        bool strict = gg_check_word(strict_arrays, name, len);
        if (!strict && !gg_check_word(loose_arrays, name, len)) continue;
        if (!strict && gg_check_word("target_layers deepstack_mapping", name, len)) continue;
        if (!strict && kv->count == c->trunk) continue;
        gg_check_say(c, strict ? GG_CHECK_ERROR : GG_CHECK_WARNING, "layer-array", kv->key,
                     kv->key_len, "it has %llu values, but the model has %llu blocks",
                     (unsigned long long)kv->count, (unsigned long long)c->blocks);
    }
}

/* ---- values -------------------------------------------------------------------------- */

static void say_key(check *c, gg_check_level level, const char *rule, const char *name,
                    const char *text)
{
    char key[200];
    gg_check_key_name(c, name, key, sizeof key);
    gg_check_say(c, level, rule, key, strlen(key), "%s", text);
}

static void experts(check *c)
{
    char text[160];
    uint64_t count = gg_check_number_or(c, "expert_count", 0), most = 0, used;
    uint64_t groups = gg_check_number_or(c, "expert_group_count", 0);
    uint64_t of_them = gg_check_number_or(c, "expert_group_used_count", 0);
    for (uint64_t b = 0; b < (c->blocks ? c->blocks : 1) && b < MOST_BLOCKS; b++)
        if (gg_check_number(c, "expert_used_count", b, &used) && used > most) most = used;
    if (count > MOST_EXPERTS)
        say_key(c, GG_CHECK_ERROR, "experts", "expert_count", "it is larger than 1024");
    snprintf(text, sizeof text, "%llu experts are used per token, but the model has %llu",
             (unsigned long long)most, (unsigned long long)count);
    if (most > count || (count > 0 && most == 0))
        say_key(c, GG_CHECK_ERROR, "experts", "expert_used_count", text);
    snprintf(text, sizeof text, "%llu experts cannot be divided into %llu groups",
             (unsigned long long)count, (unsigned long long)groups);
    if (groups > 0 && (groups >= count || (groups > 1 && count % groups)))
        say_key(c, GG_CHECK_ERROR, "experts", "expert_group_count", text);
    if (groups > 1 && count > 0 && (of_them == 0 || of_them >= groups))
        say_key(c, GG_CHECK_ERROR, "experts", "expert_group_used_count",
                "it must be at least 1 and less than expert_group_count");
}

static void heads(check *c)
{
    char text[160];
    uint64_t blocks = c->blocks < MOST_BLOCKS ? c->blocks : MOST_BLOCKS;
    for (uint64_t b = 0; b < (blocks ? blocks : 1); b++) {
        uint64_t q, kv;
        if (!gg_check_number(c, "attention.head_count", b, &q) || q == 0) continue;
        if (!gg_check_number(c, "attention.head_count_kv", b, &kv) || kv == 0) continue;
        if (q % kv == 0) continue;
        snprintf(text, sizeof text, "%llu key-value heads do not divide %llu heads (block %llu)",
                 (unsigned long long)kv, (unsigned long long)q, (unsigned long long)b);
        say_key(c, GG_CHECK_ERROR, "heads", "attention.head_count_kv", text);
        return;
    }
}

/* Latent attention has one key-value head for all query heads. */
static void latent(check *c)
{
    uint64_t kv, length;
    if (gg_check_word("deepseek2", c->arch_name, c->arch_len) &&
        gg_check_number(c, "attention.key_length_mla", 0, &length) && length > 0 &&
        gg_check_number(c, "attention.head_count_kv", 0, &kv) && kv != 1)
        say_key(c, GG_CHECK_ERROR, "heads", "attention.head_count_kv",
                "it must be 1 in a model with attention.key_length_mla");
}

static void rope(check *c)
{
    static const char whole[] = "llama deci falcon llama-embed";
    check_shape key, rot;
    char text[160];
    const char *type;
    size_t len;
    const gg_kv *scaling = gg_check_arch_key(c, "rope.scaling.type");
    if (gg_kv_str(scaling, &type, &len) && !gg_check_word("none linear yarn longrope", type, len))
        say_key(c, GG_CHECK_ERROR, "rope", "rope.scaling.type",
                "no engine supports this kind of scaling; expected none, linear, yarn or longrope");
    if (!gg_check_arch_key(c, "rope.dimension_count") ||
        !gg_check_shape_eval(c, "key", 3, 0, &key) || !gg_check_shape_eval(c, "rot", 3, 0, &rot))
        return;
    snprintf(text, sizeof text, "RoPE rotates %llu dimensions, but a head has %llu",
             (unsigned long long)rot.dims[0], (unsigned long long)key.dims[0]);
    if (gg_check_word(whole, c->arch_name, c->arch_len) ? rot.dims[0] != key.dims[0]
                                                        : rot.dims[0] > key.dims[0])
        say_key(c, GG_CHECK_ERROR, "rope", "rope.dimension_count", text);
    else if (rot.dims[0] % 2)
        say_key(c, GG_CHECK_ERROR, "rope", "rope.dimension_count", "it must be even");
}

static void values(check *c)
{
    uint64_t v, w;
    if (gg_check_number(c, "block_count", 0, &v) && (v == 0 || v > MOST_BLOCKS))
        say_key(c, GG_CHECK_ERROR, "key-value", "block_count", "engines accept 1 to 512 blocks");
    if (gg_check_number(c, "nextn_predict_layers", 0, &w) && c->blocks && w > c->blocks)
        say_key(c, GG_CHECK_ERROR, "key-value", "nextn_predict_layers",
                "there are more prediction blocks than blocks");
    if (gg_check_word("mamba", c->arch_name, c->arch_len) &&
        gg_check_number(c, "ssm.inner_size", 0, &v) &&
        gg_check_number(c, "embedding_length", 0, &w) && v / 2 != w)
        say_key(c, GG_CHECK_ERROR, "key-value", "ssm.inner_size",
                "engines support only twice the embedding length");
    if (gg_check_word("bert", c->arch_name, c->arch_len) &&
        !(gg_kv_u64(gg_check_key(c, "tokenizer.ggml.token_type_count"), &v) && v > 0))
        gg_check_say(c, GG_CHECK_ERROR, "key-missing", "tokenizer.ggml.token_type_count", 31,
                     "this key is missing or 0; an engine requires it");
    if (gg_check_number(c, "context_length", 0, &v) && v == 0)
        say_key(c, GG_CHECK_WARNING, "key-value", "context_length", "it is 0");
}

void gg_check_key_rules(check *c)
{
    architecture(c);
    if (!c->arch_name || c->arch_len == 0) return;
    required_keys(c);
    types(c);
    values(c);
    layer_arrays(c);
    heads(c);
    latent(c);
    rope(c);
    experts(c);
}
