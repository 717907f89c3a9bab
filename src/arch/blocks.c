/* blocks.c - what kind of block a block is, as the keys and the record of the architecture tell.
 *
 * Source: llama.cpp v0.5.0, hyperparameters in src/models. */
#include "design.h"

#include "base/error.h"
#include "base/text.h"

/* The value of a key, or element `block` of an array with one value per block. */
static uint64_t block_number(const gg_design *d, const char *name, uint64_t block,
                             uint64_t otherwise)
{
    uint64_t v;
    return gg_design_number(d, name, block, &v) ? v : otherwise;
}

/* ---- sliding windows ---------------------------------------------------------------------- */

static uint64_t number_in(const char *word, size_t len)
{
    uint64_t v = 0;
    for (size_t i = 0; i < len && word[i] >= '0' && word[i] <= '9'; i++)
        v = v * 10 + (uint64_t)(word[i] - '0');
    return v;
}

bool gg_design_window_rule(const gg_arch *a, gg_window_rule *out)
{
    const char *text = a ? a->window.text : "", *word;
    size_t len;
    *out = (gg_window_rule){ 0 };
    if (!gg_text_next_word(&text, &word, &len)) return false;
    out->every = number_in(word, len);
    if (gg_text_next_word(&text, &word, &len)) out->tokens = number_in(word, len);
    const struct {
        const char *name;
        bool *set;
    } flags[] = { { "first", &out->first }, { "keyed", &out->keyed }, { "order", &out->order },
                  { "of64", &out->of64 },   { "fixed", &out->fixed }, { "always", &out->always } };
    while (gg_text_next_word(&text, &word, &len))
        for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
            if (gg_text_is(word, len, flags[i].name)) *flags[i].set = true;
    return true;
}

uint64_t gg_design_window(const gg_design *d, uint64_t i)
{
    gg_window_rule rule;
    uint64_t stated, flag;
    if (!gg_design_window_rule(d->arch, &rule)) return 0;
    if (rule.order && !(rule.of64 && d->blocks == 64)) return 0;
    uint64_t every = rule.every,
             window = block_number(d, "attention.sliding_window", 0, rule.tokens);
    bool has = gg_design_number(d, "attention.sliding_window", 0, &stated);
    if (rule.fixed) window = has && stated == 0 ? 0 : rule.tokens;
    if (window == 0 || i >= d->trunk) return 0;
    const gg_kv *pattern = gg_design_arch_key(d, "attention.sliding_window_pattern");
    if (pattern && pattern->type == GG_TYPE_ARR)
        return gg_design_number(d, "attention.sliding_window_pattern", i, &flag) && flag ? window
                                                                                         : 0;
    if (rule.always) return window;
    gg_kv_u64(pattern, &every);
    if (every == 0) return window;
    return (rule.first ? i % every != 0 : i % every < every - 1) ? window : 0;
}

/* ---- states ------------------------------------------------------------------------------- */

static bool recurrent_is(const gg_design *d, const char *word)
{
    return d->arch && gg_text_has_word(d->arch->recurrent.text, word, strlen(word));
}

uint64_t gg_design_usual_interval(const gg_arch *a)
{
    const char *text = a ? a->recurrent.text : "", *word;
    size_t len;
    bool interval = gg_text_next_word(&text, &word, &len) && gg_text_is(word, len, "interval");
    return interval && gg_text_next_word(&text, &word, &len) ? number_in(word, len) : 0;
}

bool gg_design_recurrent(const gg_design *d, uint64_t i)
{
    uint64_t v;
    if (recurrent_is(d, "all") || recurrent_is(d, "beside")) return true;
    if (recurrent_is(d, "no_kv_heads"))
        return block_number(d, "attention.head_count_kv", i,
                            block_number(d, "attention.head_count", 0, 0)) == 0 &&
               !(recurrent_is(d, "no_ff") && block_number(d, "feed_forward_length", i, 0) != 0);
    if (!recurrent_is(d, "interval") || i >= d->trunk) return false;
    if (gg_design_arch_key(d, "attention.recurrent_layers"))
        return gg_design_number(d, "attention.recurrent_layers", i, &v) && v;
    uint64_t every = block_number(d, "full_attention_interval", 0,
                                  gg_design_usual_interval(d->arch));
    return every == 0 || (i + 1) % every != 0;
}

/* ---- kinds of blocks ---------------------------------------------------------------------- */

/* Whether a block has experts. */
static bool block_has_experts(const gg_design *d, uint64_t b)
{
    const char *rule = d->arch ? d->arch->experts.text : "";
    uint64_t step = block_number(d, "interleave_moe_layer_step", 0, 1);
    uint64_t every = block_number(d, "moe_every_n_layers", 0, 0);
    if (!gg_design_positive(d, "expert_count")) return false;
    if (strcmp(rule, "second") == 0) return every > 0 && b % every == 1;
    if (strcmp(rule, "step") == 0 && (step == 0 || (b + 1) % step != 0)) return false;
    return b >= gg_design_number_or(d, "leading_dense_block_count", 0);
}

/* Whether an array gives a block a value other than 0. */
static bool block_flag(const gg_design *d, const char *name, uint64_t block, bool otherwise)
{
    return block_number(d, name, block, otherwise) != 0;
}

static bool block_is_windowed(const gg_design *d, uint64_t b)
{
    const gg_kv *kv = gg_design_arch_key(d, "attention.sliding_window_pattern");
    if (kv && kv->type == GG_TYPE_ARR)
        return block_flag(d, "attention.sliding_window_pattern", b, false);
    return gg_design_window(d, b) > 0;
}

/* Whether a block has tensors of an indexer of its own. */
static bool block_has_indexer(const gg_design *d, uint64_t b)
{
    /* newer models of glm-dsa without the key share indexers as the engine has it in a table */
    bool unknown = gg_design_has(d, "long_without_indexer") &&
                   gg_design_number_or(d, "context_length", 0) >= 1048576;
    return block_flag(d, "attention.indexer.types", b, !unknown) &&
           gg_design_positive(d, "attention.indexer.top_k");
}

/* One word of a condition, such as "moe". *known tells whether there is such a word. */
static bool block_has_trait(const gg_design *d, const char *prefix, uint64_t b, const char *word,
                            size_t len, bool *known)
{
    bool moe = block_has_experts(d, b);
    bool shared = gg_design_positive(d, "expert_shared_count") ||
                  gg_design_positive(d, "expert_shared_feed_forward_length");
    bool latent = gg_design_positive(d, "moe_latent_size") ||
                  gg_design_positive(d, "expert_latent_length");
    bool mla = gg_design_positive(d, "attention.key_length_mla") &&
               gg_design_positive(d, "attention.value_length_mla");
    bool own = b + gg_design_number_or(d, "attention.shared_kv_layers", 0) < d->blocks;
    uint64_t ratio = block_number(d, "attention.compress_ratios", b, 0);
    const struct {
        const char *yes, *no;
        bool applies;
    } traits[] = {
        { "moe", "dense", moe },
        { "shared", "noshared", moe && shared },
        { "mtp", "trunk", b >= d->trunk },
        { "mla", "nomla", mla },
        { "qlora", "noqlora", gg_design_positive(d, "attention.q_lora_rank") },
        { "enc", "noenc", strcmp(prefix, "enc.") == 0 },
        { "dec", "nodec", strcmp(prefix, "dec.") == 0 },
        { "first", "later", b == 0 },
        { "recurrent", "attention", gg_design_recurrent(d, b) },
        { "swa", "full", block_is_windowed(d, b) },
        { "ple", "nople", gg_design_positive(d, "embedding_length_per_layer_input") },
        { "latent", "nolatent", latent },
        { "gate", "nogate", gg_design_positive(d, "attention.gate_lora_rank") },
        { "hash", "nohash", b < gg_design_number_or(d, "hash_layer_count", 0) },
        { "ownkv", "sharedkv", own },
        { "hasff", "noff", block_flag(d, "feed_forward_length", b, false) },
        { "heads", "noheads", block_flag(d, "attention.head_count", b, false) },
        { "stack", "nostack", b / 2 < block_number(d, "hrm.layers_per_stack", 0, 0) },
        { "ratio", "noratio", ratio != 0 },
        { "ratio4", "noratio4", ratio == 4 },
        { "ratio128", "noratio128", ratio == 128 },
        { "indexed", "unindexed", block_has_indexer(d, b) },
    };
    for (size_t i = 0; i < sizeof traits / sizeof traits[0]; i++) {
        if (gg_text_is(word, len, traits[i].yes)) return *known = true, traits[i].applies;
        if (gg_text_is(word, len, traits[i].no)) return *known = true, !traits[i].applies;
    }
    *known = gg_text_is(word, len, "all");
    return true;
}

bool gg_design_block_is(const gg_design *d, const char *prefix, uint64_t block, const char *kind,
                        size_t len)
{
    bool known;
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        while (at + n < len && kind[at + n] != '&') n++;
        if (!block_has_trait(d, prefix, block, kind + at, n, &known)) return false;
        at += n + 1;
    }
    return true;
}

bool gg_design_kind_known(const char *kind, size_t len)
{
    const gg_design none = { 0 };
    bool known = len > 0;
    for (size_t at = 0; at < len && known;) {
        size_t n = 0;
        while (at + n < len && kind[at + n] != '&') n++;
        block_has_trait(&none, "", 0, kind + at, n, &known);
        at += n + 1;
    }
    return known;
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
    gg_design d;
    gg_status st = gg_design_open(&d, meta, err);
    for (uint64_t b = 0; b < d.trunk && b < GG_DESIGN_BLOCKS && st == GG_OK && d.name; b++)
        for (size_t k = 0; k < N_KEPT; k++) {
            bool is = gg_design_block_is(&d, "", b, kept[k].trait, strlen(kept[k].trait));
            /* blocks of hybrids may have only a feed-forward layer */
            if (k == 1) is &= block_number(&d, "attention.head_count_kv", b, 1) > 0;
            has[k] |= is;
        }
    gg_design_close(&d);
    return st;
}

gg_status gg_design_kinds_kept(const gg_meta *before, const gg_meta *after, gg_error *err)
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
