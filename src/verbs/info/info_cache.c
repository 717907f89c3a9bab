/* info_cache.c - what the cache of keys and values of a model needs, per architecture.
 *
 * Source: how llama.cpp of 2026-08 creates its memory (llama_model::create_memory, the classes
 * llama_kv_cache* and llama_memory_recurrent, and the hyperparameters in src/models). A layer
 * stores head_count_kv * (key_length + value_length) values per token; with latent attention
 * (key_length_mla) only head_count_kv * key_length. Layers with a sliding window store the tokens
 * of the window. Recurrent layers store a state of fixed size, in F32. */
#include "info_cache.h"

#include <string.h>

/* How many tokens of a batch a window holds besides its own, and the step of a cache's size. */
enum { BATCH = 512, STEP = 256 };

/* Architectures whose layers have sliding windows, if there is no array sliding_window_pattern:
 * every Nth layer sees everything, N = 0: no layer.
 * Then the window that is used without a key; 0 = without the key no layer has a window. */
static const struct {
    const char *names;
    uint64_t every, window;
    bool first; /* the first of N sees everything, not the last */
} windows[] = {
    { "gemma2", 2, 4096 },
    { "gemma3 gemma-embedding", 6, 0 },
    { "gemma3n", 5, 0 },
    { "cohere2 muse-glimmer olmo2 mellum afmoe", 4, 0 },
    { "exaone-moe", 4, 128 },
    { "llama4", 4, 8192 },
    { "cohere2moe laguna", 4, 0, true },
    { "smallthinker", 4, 4096, true },
    { "gpt-oss", 2, 0 },
    { "plamo3", 8, 0 },
    { "gemma4 gemma4-assistant granite_swa maple mimo2 spark2_5 step35 lfm2 dots3note", 1, 0 },
};

static const char no_cache[] =
    "bert jina-bert-v2 jina-bert-v3 nomic-bert nomic-bert-moe neo-bert eurobert "
    "wavtokenizer-dec modern-bert gemma-embedding dream llada llada-moe rnd1 t5encoder";
static const char recurrent_only[] = "mamba mamba2 rwkv6 rwkv6qwen2 rwkv7 arwkv7";
/* Layers without key-value heads are recurrent. */
static const char hybrid_by_heads[] =
    "jamba plamo2 granitehybrid lfm2 lfm2moe kimi-linear kimi-k3 bailingmoe3 "
    "nemotron_h nemotron_h_moe";
/* Every full_attention_interval-th layer is not recurrent, if there is no array recurrent_layers.
 */
static const char hybrid_by_interval[] = "qwen3next qwen35 qwen35moe minimax-01";
/* An indexer with one key of its own per token. */
static const char indexed[] = "glm-dsa deepseek32 minimax-m3 hy_v4";
static const char not_known[] = "deepseek4 dflash dots3note qwen4exp nanbeige gemma4-assistant";

typedef struct cache_model {
    check c;
    uint64_t heads, embedding;
    bool latent;
} cache_model;

static bool is_arch(const cache_model *m, const char *list)
{
    return gg_check_arch_in(&m->c, list);
}

/* The value of a key, or element i of an array with one value per block. */
static uint64_t number_at(const cache_model *m, const char *name, uint64_t i, uint64_t otherwise)
{
    uint64_t v;
    return gg_check_number(&m->c, name, i, &v) ? v : otherwise;
}

/* ---- layers -------------------------------------------------------------------- */

/* The window of layer i in tokens; 0 = it sees everything. */
static uint64_t layer_window(const cache_model *m, uint64_t i)
{
    for (size_t k = 0; k < sizeof windows / sizeof windows[0]; k++) {
        if (!is_arch(m, windows[k].names)) continue;
        uint64_t stated, flag,
            window = number_at(m, "attention.sliding_window", 0, windows[k].window);
        bool has = gg_check_number(&m->c, "attention.sliding_window", 0, &stated);
        if (is_arch(m, "llama4")) window = has && stated == 0 ? 0 : 8192;
        if (window == 0 || i >= m->c.trunk) return 0;
        const gg_kv *pattern = gg_check_arch_key(&m->c, "attention.sliding_window_pattern");
        if (pattern && pattern->type == GG_TYPE_ARR)
            return gg_check_number(&m->c, "attention.sliding_window_pattern", i, &flag) && flag
                       ? window
                       : 0;
        if (is_arch(m, "lfm2")) return window;
        uint64_t every = windows[k].every;
        gg_kv_u64(pattern, &every);
        if (every == 0) return window;
        bool first = windows[k].first;
        return (first ? i % every != 0 : i % every < every - 1) ? window : 0;
    }
    /* Only the model of 32 billion parameters has windows. */
    if (is_arch(m, "exaone4") && m->c.blocks == 64)
        return i % 4 < 3 ? number_at(m, "attention.sliding_window", 0, 4096) : 0;
    return 0;
}

static bool layer_is_recurrent(const cache_model *m, uint64_t i)
{
    if (is_arch(m, recurrent_only) || is_arch(m, "falcon-h1")) return true;
    if (is_arch(m, hybrid_by_heads))
        return number_at(m, "attention.head_count_kv", i, m->heads) == 0 &&
               (!is_arch(m, "nemotron_h nemotron_h_moe") ||
                number_at(m, "feed_forward_length", i, 0) == 0);
    if (!is_arch(m, hybrid_by_interval) || i >= m->c.trunk) return false;
    const gg_kv *list = gg_check_arch_key(&m->c, "attention.recurrent_layers");
    uint64_t v;
    if (list) return gg_check_number(&m->c, "attention.recurrent_layers", i, &v) && v;
    uint64_t every = number_at(m, "full_attention_interval", 0, is_arch(m, "minimax-01") ? 8 : 4);
    return every == 0 || (i + 1) % every != 0;
}

/* Values of F32 that a recurrent layer keeps. */
static uint64_t state_values(const cache_model *m)
{
    uint64_t wkv = number_at(m, "wkv.head_size", 0, 0);
    if (wkv) return m->embedding * (number_at(m, "token_shift_count", 0, 2) + wkv);
    uint64_t shortconv = number_at(m, "shortconv.l_cache", 0, 0);
    if (shortconv) return m->embedding * (shortconv - 1);
    uint64_t conv = number_at(m, "ssm.conv_kernel", 0, 0), kda = number_at(m, "kda.head_dim", 0, 0);
    if (kda) return m->heads * kda * (3 * (conv ? conv - 1 : 3) + kda);
    if (is_arch(m, "minimax-01")) {
        uint64_t head = number_at(m, "attention.key_length", 0,
                                  m->heads ? m->embedding / m->heads : 0);
        return head * head * m->heads;
    }
    uint64_t inner = number_at(m, "ssm.inner_size", 0, 0),
             state = number_at(m, "ssm.state_size", 0, 0);
    return (conv ? conv - 1 : 0) * (inner + 2 * number_at(m, "ssm.group_count", 0, 0) * state) +
           state * inner;
}

/* Values per token of a layer with attention; windowed ones may have other lengths. */
static uint64_t attention_values(const cache_model *m, uint64_t i, bool windowed)
{
    uint64_t heads = number_at(m, "attention.head_count", i, m->heads);
    uint64_t kv = number_at(m, "attention.head_count_kv", i, heads);
    uint64_t head = m->heads ? m->embedding / m->heads : 0;
    uint64_t k = number_at(m, "attention.key_length", 0, head),
             v = number_at(m, "attention.value_length", 0, head);
    if (windowed) {
        k = number_at(m, "attention.key_length_swa", 0, k);
        v = number_at(m, "attention.value_length_swa", 0, v);
    }
    return kv * (k + (m->latent ? 0 : v));
}

/* Layers from this one on use the cache of earlier layers. */
static uint64_t layers_with_cache(const cache_model *m)
{
    if (is_arch(m, "gemma3n")) return m->c.blocks < 20 ? m->c.blocks : 20;
    uint64_t shared = number_at(m, "attention.shared_kv_layers", 0, 0);
    return is_arch(m, "gemma4") && shared < m->c.blocks ? m->c.blocks - shared : m->c.blocks;
}

static void add_indexer(const cache_model *m, uint64_t i, gg_cache *c)
{
    uint64_t key = number_at(m, "attention.indexer.key_length", 0, 0);
    if (!is_arch(m, indexed) || key == 0 || number_at(m, "attention.indexer.types", i, 1) == 0)
        return;
    if (is_arch(m, "minimax-m3")) {
        if (i < number_at(m, "leading_dense_block_count", 0, 0)) return;
        key += number_at(m, "attention.value_length", 0, m->heads ? m->embedding / m->heads : 0);
    }
    c->full += key;
}

static void add_layer(const cache_model *m, uint64_t i, gg_cache *c)
{
    bool recurrent = layer_is_recurrent(m, i);
    if (recurrent) c->state += 4 * state_values(m);
    if (recurrent && !is_arch(m, "falcon-h1")) return;
    if (is_arch(m, "nemotron_h nemotron_h_moe") && number_at(m, "feed_forward_length", i, 0) != 0)
        return;
    uint64_t window = layer_window(m, i), values = attention_values(m, i, window != 0);
    if (window) c->windowed += values, c->window = window;
    else c->full += values;
    add_indexer(m, i, c);
}

gg_cache gg_info_cache(const check *c)
{
    gg_cache cache = { 0 };
    cache_model m = { .c = *c };
    if (!c->arch_name || is_arch(&m, not_known) || c->blocks == 0 || c->blocks > GG_INFO_BLOCKS)
        return cache;
    m.heads = number_at(&m, "attention.head_count", 0, 0);
    m.embedding = number_at(&m, "embedding_length", 0, 0);
    m.latent = number_at(&m, "attention.key_length_mla", 0, 0) != 0;
    cache.known = true;
    if (is_arch(&m, no_cache)) return cache;
    uint64_t end = layers_with_cache(&m);
    if (end > c->trunk) end = c->trunk;
    for (uint64_t i = 0; i < end; i++) add_layer(&m, i, &cache);
    return cache;
}

/* ---- bytes --------------------------------------------------------------------- */

static uint64_t in_steps(uint64_t tokens)
{
    return tokens > UINT64_MAX - STEP ? UINT64_MAX : (tokens + STEP - 1) / STEP * STEP;
}

uint64_t gg_cache_bytes(const gg_cache *cache, uint64_t context, uint32_t dtype)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    uint64_t tokens = in_steps(context), window = in_steps(cache->window + BATCH), a, b, sum;
    if (!info || info->block_bytes == 0) return UINT64_MAX;
    if (window > tokens) window = tokens;
    if (__builtin_mul_overflow(cache->full, tokens, &a) ||
        __builtin_mul_overflow(cache->windowed, window, &b) || __builtin_add_overflow(a, b, &sum) ||
        __builtin_mul_overflow(sum, (uint64_t)info->block_bytes, &sum) ||
        __builtin_add_overflow(sum / info->block_elems, cache->state, &sum))
        return UINT64_MAX;
    return sum;
}

uint64_t gg_cache_fit(const gg_cache *cache, uint64_t most, uint32_t dtype, uint64_t bytes)
{
    uint64_t low = 0, high = most / STEP; /* in steps: low fits or is 0, above high is not wanted */
    while (low < high) {
        uint64_t mid = high - (high - low) / 2;
        if (gg_cache_bytes(cache, mid * STEP, dtype) <= bytes) low = mid;
        else high = mid - 1;
    }
    return low * STEP;
}
