/* design.c - reads the keys that describe a model, and computes the shapes of its tensors and the
 * kinds of its blocks from them. */
#include "design.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

gg_status gg_design_open(gg_design *d, const gg_meta *meta, gg_error *err)
{
    *d = (gg_design){ .meta = meta };
    gg_status st = meta ? gg_meta_order_make(meta, &d->keys, err) : GG_OK;
    if (st != GG_OK) return st;
    if (gg_kv_str(gg_design_key(d, "general.architecture"), &d->name, &d->name_len) &&
        d->name_len > 0)
        d->arch = gg_arch_find(d->name, d->name_len);
    d->blocks = gg_design_number_or(d, "block_count", 0);
    uint64_t nextn = gg_design_number_or(d, "nextn_predict_layers", 0);
    d->trunk = nextn < d->blocks ? d->blocks - nextn : d->blocks;
    bool predicts = !gg_arch_is_text(d->arch) || gg_arch_has(d->arch, "predicts") ||
                    strstr(d->arch->block.text, "mtp:");
    d->read = predicts ? d->blocks : d->trunk;
    return GG_OK;
}

const gg_arch *gg_arch_of(const gg_meta *meta)
{
    const char *name;
    size_t len;
    bool stated = gg_kv_str(gg_meta_find(meta, "general.architecture"), &name, &len);
    return stated ? gg_arch_find(name, len) : NULL;
}

void gg_design_close(gg_design *d)
{
    free(d->keys.list);
    d->keys.list = NULL;
}

/* ---- keys --------------------------------------------------------------------------- */

const gg_kv *gg_design_key(const gg_design *d, const char *key)
{
    return gg_meta_order_find(&d->keys, key, strlen(key));
}

void gg_design_key_name(const gg_design *d, const char *name, char out[200])
{
    int len = d->name_len < 64 ? (int)d->name_len : 64;
    if (name[0] == '/') snprintf(out, 200, "%s", name + 1);
    else snprintf(out, 200, "%.*s.%s", len, d->name ? d->name : "", name);
}

const gg_kv *gg_design_arch_key(const gg_design *d, const char *name)
{
    char key[200];
    if (name[0] != '/' && (!d->name || d->name_len > 64)) return NULL;
    gg_design_key_name(d, name, key);
    return gg_design_key(d, key);
}

bool gg_design_number(const gg_design *d, const char *name, uint64_t block, uint64_t *value)
{
    return gg_kv_u64_at(gg_design_arch_key(d, name), block, value);
}

uint64_t gg_design_number_or(const gg_design *d, const char *name, uint64_t otherwise)
{
    uint64_t v;
    return gg_kv_u64(gg_design_arch_key(d, name), &v) ? v : otherwise;
}

bool gg_design_positive(const gg_design *d, const char *name)
{
    uint64_t v;
    return gg_design_number(d, name, 0, &v) && v > 0;
}

uint64_t gg_design_vocabulary(const gg_design *d)
{
    const gg_kv *tokens = gg_design_key(d, "tokenizer.ggml.tokens");
    if (tokens && tokens->type == GG_TYPE_ARR) return tokens->count;
    return gg_design_number_or(d, "vocab_size", 0);
}

bool gg_design_per_block(const gg_design *d, const char *key)
{
    return !gg_arch_is_text(d->arch) || gg_text_has_word(d->arch->arrays.text, key, strlen(key));
}

/* ---- formulas of shapes ------------------------------------------------------------- */

static bool dimension(const gg_design *d, const char *text, size_t len, uint64_t block,
                      uint64_t *out);

/* Engines do not read the sizes of heads if there are none. */
static bool has_no_heads(const gg_design *d, uint64_t *size)
{
    return gg_design_number(d, "attention.head_count", 0, size) && *size == 0;
}

static bool decimal_number(const char *text, size_t len, uint64_t *v)
{
    *v = 0;
    for (size_t i = 0; i < len; i++) *v = *v * 10 + (uint64_t)(text[i] - '0');
    return true;
}

/* The number of experts that any block uses. */
static uint64_t most_used(const gg_design *d)
{
    uint64_t used, most = 0;
    for (uint64_t b = 0; b < (d->blocks ? d->blocks : 1) && b < GG_DESIGN_BLOCKS; b++)
        if (gg_design_number(d, "expert_used_count", b, &used) && used > most) most = used;
    return most;
}

/* The value of a name in a formula: its key has it, or else another formula computes it. */
static bool named_value(const gg_design *d, const gg_arch_name *n, uint64_t block, uint64_t *v)
{
    bool own = n->per_block && gg_design_per_block(d, n->key);
    if (n->key && gg_design_number(d, n->key, own ? block : 0, v) && (!n->positive || *v > 0))
        return true;
    if (!n->otherwise || (n->strict && gg_design_arch_key(d, n->key))) return false;
    return dimension(d, n->otherwise, strlen(n->otherwise), block, v);
}

/* The value of a name or a number in a formula. */
static bool factor(const gg_design *d, const char *name, size_t len, uint64_t block, uint64_t *v)
{
    if (len && name[0] >= '0' && name[0] <= '9') return decimal_number(name, len, v);
    if (gg_text_is(name, len, "vocab")) return (*v = gg_design_vocabulary(d)) > 0;
    if (gg_text_is(name, len, "mostused")) {
        *v = most_used(d);
        return true;
    }
    if (gg_text_is(name, len, "labels")) {
        const gg_kv *labels = gg_design_arch_key(d, "classifier.output_labels");
        *v = labels && labels->count ? labels->count : 1;
        return true;
    }
    if (gg_text_has_word("key value rot headsize head", name, len) && has_no_heads(d, v))
        return true;
    for (const gg_arch_name *n = gg_arch_names; n->name; n++)
        if (gg_text_is(name, len, n->name)) return named_value(d, n, block, v);
    char key[100];
    snprintf(key, sizeof key, "%.*s", (int)len, name);
    const gg_kv *list = key[0] == '#' ? gg_design_arch_key(d, key + 1) : NULL;
    if (list) *v = list->count;
    return list || gg_design_number(d, key, 0, v);
}

/* Computes one dimension: a sum of products. "*", "/" and "%" are taken from left to right before
 * "+" and "-". A hostile file can contain any values, so that an overflow makes the result unknown.
 */
static bool dimension(const gg_design *d, const char *text, size_t len, uint64_t block,
                      uint64_t *out)
{
    uint64_t sum = 0, product = 0;
    char op = '+', sign = '+';
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        uint64_t v;
        while (at + n < len && !strchr("*/%+-", text[at + n])) n++;
        if (!factor(d, text + at, n, block, &v)) return false;
        if (op == '*') {
            if (__builtin_mul_overflow(product, v, &product)) return false;
        } else if (op == '/' || op == '%') {
            if (v == 0) return false;
            product = op == '/' ? product / v : product % v;
        } else {
            product = v;
        }
        at += n;
        op = at < len ? text[at++] : '+';
        if (op == '*' || op == '/' || op == '%') continue;
        bool bad = sign == '+' ? __builtin_add_overflow(sum, product, &sum)
                               : __builtin_sub_overflow(sum, product, &sum);
        if (bad) return false;
        sign = op;
    }
    *out = sum;
    return true;
}

bool gg_design_formula(const gg_design *d, const char *text, size_t len, uint64_t block,
                       uint64_t *value)
{
    return dimension(d, text, len, block, value);
}

bool gg_design_eval(const gg_design *d, const char *text, size_t len, uint64_t block,
                    gg_design_shape *out)
{
    out->n = 0;
    for (size_t i = 0; i < GG_MAX_DIMS; i++) out->dims[i] = 1;
    for (size_t at = 0; at <= len && out->n < GG_MAX_DIMS;) {
        size_t n = 0;
        while (at + n < len && text[at + n] != ',') n++;
        if (!dimension(d, text + at, n, block, &out->dims[out->n])) return false;
        out->n++;
        at += n + 1;
    }
    return true;
}

bool gg_design_name_known(const char *name, size_t len)
{
    if (len > 0 && (name[0] == '#' || (name[0] >= '0' && name[0] <= '9'))) return true;
    if (gg_text_has_word("vocab mostused labels", name, len)) return true;
    const gg_arch_name *n = gg_arch_names;
    while (n->name && !gg_text_is(name, len, n->name)) n++;
    return n->name != NULL;
}

/* ---- what kind of block a block is ---------------------------------------------------
 *
 * The keys and the record of the architecture tell. Source: llama.cpp v0.5.0, hyperparameters in
 * src/models. */

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
        if (gg_text_is(word, len, traits[i].yes)) {
            *known = true;
            return traits[i].applies;
        }
        if (gg_text_is(word, len, traits[i].no)) {
            *known = true;
            return !traits[i].applies;
        }
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
