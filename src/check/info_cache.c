/* info_cache.c - what the cache of keys and values of a model needs, per architecture.
 *
 * Source: how llama.cpp of 2026-08 creates its memory (llama_model::create_memory, the classes
 * llama_kv_cache* and llama_memory_recurrent, and the hyperparameters in src/models). A layer
 * stores head_count_kv * (key_length + value_length) values per token; with latent attention
 * (key_length_mla) only head_count_kv * key_length. Layers with a sliding window store the tokens
 * of the window. Recurrent layers store a state of fixed size, in F32. */
#include "info_cache.h"

#include "base/text.h"

#include <string.h>

/* How many tokens of a batch a window holds besides its own, and the step of a cache's size. */
enum { BATCH = 512, STEP = 256 };

typedef struct cache_model {
    const gg_design *d;
    uint64_t heads, embedding;
    bool latent;
} cache_model;

/* Whether the record of the architecture has this word about its cache. */
static bool cache_is(const gg_design *d, const char *word)
{
    return d->arch && gg_text_has_word(d->arch->cache.text, word, strlen(word));
}

/* Whether it says so of blocks with a state. */
static bool recurrent_is(const cache_model *m, const char *word)
{
    return gg_text_has_word(m->d->arch->recurrent.text, word, strlen(word));
}

/* The value of a key, or element i of an array with one value per block. */
static uint64_t number_at(const cache_model *m, const char *name, uint64_t i, uint64_t otherwise)
{
    uint64_t v;
    return gg_design_number(m->d, name, i, &v) ? v : otherwise;
}

/* Numbers of a header may be any. UINT64_MAX is the result of sums and products that are larger. */
static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* ---- layers -------------------------------------------------------------------- */

/* Values of F32 that a recurrent layer keeps. */
static uint64_t state_values(const cache_model *m)
{
    uint64_t wkv = number_at(m, "wkv.head_size", 0, 0);
    if (wkv) return times(m->embedding, plus(number_at(m, "token_shift_count", 0, 2), wkv));
    uint64_t shortconv = number_at(m, "shortconv.l_cache", 0, 0);
    if (shortconv) return times(m->embedding, shortconv - 1);
    uint64_t conv = number_at(m, "ssm.conv_kernel", 0, 0), kda = number_at(m, "kda.head_dim", 0, 0);
    if (kda) return times(times(m->heads, kda), plus(times(3, conv ? conv - 1 : 3), kda));
    if (strcmp(m->d->arch->state.text, "heads") == 0) {
        uint64_t head = number_at(m, "attention.key_length", 0,
                                  m->heads ? m->embedding / m->heads : 0);
        return times(times(head, head), m->heads);
    }
    uint64_t inner = number_at(m, "ssm.inner_size", 0, 0),
             state = number_at(m, "ssm.state_size", 0, 0);
    uint64_t groups = times(times(2, number_at(m, "ssm.group_count", 0, 0)), state);
    return plus(times(conv ? conv - 1 : 0, plus(inner, groups)), times(state, inner));
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
    return times(kv, plus(k, m->latent ? 0 : v));
}

/* Layers from this one on use the cache of earlier layers. */
static uint64_t layers_with_cache(const cache_model *m)
{
    if (cache_is(m->d, "first_20")) return m->d->blocks < 20 ? m->d->blocks : 20;
    uint64_t shared = number_at(m, "attention.shared_kv_layers", 0, 0);
    return cache_is(m->d, "shared") && shared < m->d->blocks ? m->d->blocks - shared : m->d->blocks;
}

static void add_indexer(const cache_model *m, uint64_t i, gg_cache *c)
{
    uint64_t key = number_at(m, "attention.indexer.key_length", 0, 0);
    if (!cache_is(m->d, "indexer") || key == 0 ||
        number_at(m, "attention.indexer.types", i, 1) == 0)
        return;
    if (cache_is(m->d, "values")) {
        if (i < number_at(m, "leading_dense_block_count", 0, 0)) return;
        uint64_t head = m->heads ? m->embedding / m->heads : 0;
        key = plus(key, number_at(m, "attention.value_length", 0, head));
    }
    c->full = plus(c->full, key);
}

static void add_layer(const cache_model *m, uint64_t i, gg_cache *c)
{
    bool recurrent = gg_design_recurrent(m->d, i);
    if (recurrent) c->state = plus(c->state, times(4, state_values(m)));
    if (recurrent && !recurrent_is(m, "beside")) return;
    if (recurrent_is(m, "no_ff") && number_at(m, "feed_forward_length", i, 0) != 0) return;
    uint64_t window = gg_design_window(m->d, i), values = attention_values(m, i, window != 0);
    if (window) {
        c->windowed = plus(c->windowed, values);
        c->window = window;
    } else c->full = plus(c->full, values);
    add_indexer(m, i, c);
}

gg_cache gg_info_cache(const gg_design *d)
{
    gg_cache cache = { 0 };
    cache_model m = { .d = d };
    cache.known = cache_is(d, "none") || cache_is(d, "kv");
    if (!cache.known || d->blocks == 0 || d->blocks > GG_INFO_BLOCKS) return (gg_cache){ 0 };
    if (cache_is(d, "none")) return cache;
    m.heads = number_at(&m, "attention.head_count", 0, 0);
    m.embedding = number_at(&m, "embedding_length", 0, 0);
    m.latent = number_at(&m, "attention.key_length_mla", 0, 0) != 0;
    uint64_t end = layers_with_cache(&m);
    if (end > d->trunk) end = d->trunk;
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
    uint64_t tokens = in_steps(context), window = in_steps(plus(cache->window, BATCH)), sum;
    if (!info || info->block_bytes == 0) return UINT64_MAX;
    if (window > tokens) window = tokens;
    sum = plus(times(cache->full, tokens), times(cache->windowed, window));
    sum = times(sum, info->block_bytes);
    return sum == UINT64_MAX ? sum : plus(sum / info->block_elems, cache->state);
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
