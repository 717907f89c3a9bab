/* check_blocks.c - what kind of block a block is, as its keys tell.
 *
 * Source: llama.cpp v0.5.0, hyperparameters in src/models. */
#include "check_context.h"

#include "base/error.h"

bool gg_check_meta_arch_in(const gg_meta *meta, const char *list)
{
    const char *arch;
    size_t n;
    return gg_kv_str(gg_meta_find(meta, "general.architecture"), &arch, &n) &&
           gg_check_word(list, arch, n);
}

static const gg_window_rule *find_window(const char *arch, size_t len)
{
    const gg_window_rule *r = gg_check_windows;
    while (r->archs && !gg_check_word(r->archs, arch, len)) r++;
    return r->archs ? r : NULL;
}

const gg_window_rule *gg_window_rule_of(const gg_meta *meta)
{
    const char *arch;
    size_t n;
    bool known = gg_kv_str(gg_meta_find(meta, "general.architecture"), &arch, &n);
    return known ? find_window(arch, n) : NULL;
}

/* The value of a key, or element `block` of an array with one value per block. */
static uint64_t block_number(const check *c, const char *name, uint64_t block, uint64_t otherwise)
{
    uint64_t v;
    return gg_check_number(c, name, block, &v) ? v : otherwise;
}

/* The window of layer i in tokens; 0 = it sees everything. */
uint64_t gg_check_block_window(const check *c, uint64_t i)
{
    const gg_window_rule *rule = find_window(c->arch_name, c->arch_len);
    if (rule && !rule->order) {
        uint64_t stated, flag,
            every = rule->every,
            window = block_number(c, "attention.sliding_window", 0, rule->tokens);
        bool has = gg_check_number(c, "attention.sliding_window", 0, &stated);
        if (gg_check_arch_in(c, "llama4")) window = has && stated == 0 ? 0 : 8192;
        if (window == 0 || i >= c->trunk) return 0;
        const gg_kv *pattern = gg_check_arch_key(c, "attention.sliding_window_pattern");
        if (pattern && pattern->type == GG_TYPE_ARR)
            return gg_check_number(c, "attention.sliding_window_pattern", i, &flag) && flag ? window
                                                                                            : 0;
        if (gg_check_arch_in(c, "lfm2")) return window;
        gg_kv_u64(pattern, &every);
        if (every == 0) return window;
        return (rule->first ? i % every != 0 : i % every < every - 1) ? window : 0;
    }
    /* Only the model of 32 billion parameters has windows. */
    if (gg_check_arch_in(c, "exaone4") && c->blocks == 64)
        return i % 4 < 3 ? block_number(c, "attention.sliding_window", 0, 4096) : 0;
    return 0;
}

bool gg_check_block_recurrent(const check *c, uint64_t i)
{
    if (gg_check_arch_in(c, gg_check_recurrent) || gg_check_arch_in(c, "falcon-h1")) return true;
    if (gg_check_arch_in(c, gg_check_hybrids))
        return block_number(c, "attention.head_count_kv", i,
                            block_number(c, "attention.head_count", 0, 0)) == 0 &&
               (!gg_check_arch_in(c, "nemotron_h nemotron_h_moe") ||
                block_number(c, "feed_forward_length", i, 0) == 0);
    if (!gg_check_arch_in(c, gg_check_interval_hybrids) || i >= c->trunk) return false;
    const gg_kv *list = gg_check_arch_key(c, "attention.recurrent_layers");
    uint64_t v;
    if (list) return gg_check_number(c, "attention.recurrent_layers", i, &v) && v;
    uint64_t every = block_number(c, "full_attention_interval", 0,
                                  gg_check_arch_in(c, "minimax-01") ? 8 : 4);
    return every == 0 || (i + 1) % every != 0;
}

/* Whether a block has experts. */
static bool block_has_experts(const check *c, uint64_t b)
{
    uint64_t step = block_number(c, "interleave_moe_layer_step", 0, 1);
    uint64_t every = block_number(c, "moe_every_n_layers", 0, 0);
    if (!gg_check_positive(c, "expert_count")) return false;
    if (gg_check_arch_in(c, "nomic-bert-moe")) return every > 0 && b % every == 1;
    if (gg_check_arch_in(c, "llama4") && (step == 0 || (b + 1) % step != 0)) return false;
    return b >= gg_check_number_or(c, "leading_dense_block_count", 0);
}

/* Whether an array gives a block a value other than 0. */
static bool block_flag(const check *c, const char *name, uint64_t block, bool otherwise)
{
    return block_number(c, name, block, otherwise) != 0;
}

static bool block_is_windowed(const check *c, uint64_t b)
{
    const gg_kv *kv = gg_check_arch_key(c, "attention.sliding_window_pattern");
    if (kv && kv->type == GG_TYPE_ARR)
        return block_flag(c, "attention.sliding_window_pattern", b, false);
    return gg_check_block_window(c, b) > 0;
}

/* Whether a block has tensors of an indexer of its own. */
static bool block_has_indexer(const check *c, uint64_t b)
{
    /* newer models of glm-dsa without the key share indexers as the engine has it in a table */
    bool unknown = gg_check_arch_in(c, "glm-dsa") &&
                   gg_check_number_or(c, "context_length", 0) >= 1048576;
    return block_flag(c, "attention.indexer.types", b, !unknown) &&
           gg_check_positive(c, "attention.indexer.top_k");
}

/* One word of a condition, such as "moe". */
static bool block_has_trait(const check *c, const char *prefix, uint64_t b, const char *word,
                            size_t len)
{
    bool moe = block_has_experts(c, b);
    bool shared = gg_check_positive(c, "expert_shared_count") ||
                  gg_check_positive(c, "expert_shared_feed_forward_length");
    bool latent = gg_check_positive(c, "moe_latent_size") ||
                  gg_check_positive(c, "expert_latent_length");
    bool mla = gg_check_positive(c, "attention.key_length_mla") &&
               gg_check_positive(c, "attention.value_length_mla");
    bool own = b + gg_check_number_or(c, "attention.shared_kv_layers", 0) < c->blocks;
    uint64_t ratio = block_number(c, "attention.compress_ratios", b, 0);
    const struct {
        const char *yes, *no;
        bool applies;
    } traits[] = {
        { "moe", "dense", moe },
        { "shared", "noshared", moe && shared },
        { "mtp", "trunk", b >= c->trunk },
        { "mla", "nomla", mla },
        { "qlora", "noqlora", gg_check_positive(c, "attention.q_lora_rank") },
        { "enc", "noenc", strcmp(prefix, "enc.") == 0 },
        { "dec", "nodec", strcmp(prefix, "dec.") == 0 },
        { "first", "later", b == 0 },
        { "recurrent", "attention", gg_check_block_recurrent(c, b) },
        { "swa", "full", block_is_windowed(c, b) },
        { "ple", "nople", gg_check_positive(c, "embedding_length_per_layer_input") },
        { "latent", "nolatent", latent },
        { "gate", "nogate", gg_check_positive(c, "attention.gate_lora_rank") },
        { "hash", "nohash", b < gg_check_number_or(c, "hash_layer_count", 0) },
        { "ownkv", "sharedkv", own },
        { "hasff", "noff", block_flag(c, "feed_forward_length", b, false) },
        { "heads", "noheads", block_flag(c, "attention.head_count", b, false) },
        { "stack", "nostack", b / 2 < block_number(c, "hrm.layers_per_stack", 0, 0) },
        { "ratio", "noratio", ratio != 0 },
        { "ratio4", "noratio4", ratio == 4 },
        { "ratio128", "noratio128", ratio == 128 },
        { "indexed", "unindexed", block_has_indexer(c, b) },
    };
    for (size_t i = 0; i < sizeof traits / sizeof traits[0]; i++) {
        if (gg_check_word(traits[i].yes, word, len)) return traits[i].applies;
        if (gg_check_word(traits[i].no, word, len)) return !traits[i].applies;
    }
    return true; /* "all" */
}

bool gg_check_block_is(const check *c, const char *prefix, uint64_t block, const char *kind,
                       size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        while (at + n < len && kind[at + n] != '&') n++;
        if (!block_has_trait(c, prefix, block, kind + at, n)) return false;
        at += n + 1;
    }
    return true;
}

/* ---- kinds that must not disappear ---------------------------------------------------------- */

/* Engines that give two kinds of blocks a memory of their own fail if one kind has no block. */
static const struct {
    const char *trait, *what;
} kept[] = { { "recurrent", "recurrent block" },
             { "attention", "block with attention" },
             { "swa", "block with a sliding window" },
             { "full", "block with full attention" },
             { "ratio4", "block with a compress ratio of 4" },
             { "ratio128", "block with a compress ratio of 128" } };
#define N_KEPT (sizeof kept / sizeof kept[0])

static gg_status kinds_of(const gg_meta *meta, bool has[N_KEPT], gg_error *err)
{
    gg_check_input in = { .meta = meta };
    check c = { .in = &in, .err = err };
    gg_status st = gg_check_open(&c);
    if (st == GG_OK) gg_check_find_architecture(&c);
    for (uint64_t b = 0; b < c.trunk && b < GG_CHECK_BLOCKS && st == GG_OK && c.arch_name; b++)
        for (size_t k = 0; k < N_KEPT; k++) {
            bool is = gg_check_block_is(&c, "", b, kept[k].trait, strlen(kept[k].trait));
            /* blocks of hybrids may have only a feed-forward layer */
            if (k == 1) is &= block_number(&c, "attention.head_count_kv", b, 1) > 0;
            has[k] |= is;
        }
    gg_check_close(&c);
    return st;
}

gg_status gg_check_kinds_kept(const gg_meta *before, const gg_meta *after, gg_error *err)
{
    bool had[N_KEPT] = { false }, has[N_KEPT] = { false };
    gg_status st = kinds_of(before, had, err);
    if (st == GG_OK) st = kinds_of(after, has, err);
    for (size_t k = 0; k < N_KEPT && st == GG_OK; k++)
        if (had[k] && !has[k]) {
            gg_fail(err, GG_NO, "no %s is left, and an engine needs one", kept[k].what);
            st = gg_fix(err, "keep at least one of each kind");
        }
    return st;
}
