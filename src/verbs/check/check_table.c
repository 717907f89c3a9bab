/* check_table.c - compares tensors with the table of their architecture. Reports tensors that
 * are missing, have a wrong shape for the keys, or are not used by any engine. */
#include "check_core.h"

#include "organ/record.h"

#include <stdio.h>
#include <string.h>

/* The part of the model to which a list of words applies. */
typedef struct place {
    check *c;
    const char *prefix; /* "", "enc." or "dec." */
    int64_t block;      /* -1: outside the blocks */
    uint64_t absent;    /* required tensors of this block that are missing */
    uint64_t present;
    bool report; /* false: only count */
} place;

/* One word of a table, parsed. */
typedef struct wanted {
    char rest[64]; /* "attn_q.weight" */
    size_t rest_len;
    bool optional;
    const char *shape;
    size_t shape_len;
} wanted;

static void full_name(const place *p, const char *rest, size_t len, char *out, size_t size)
{
    if (p->block < 0) snprintf(out, size, "%.*s", (int)len, rest);
    else snprintf(out, size, "%sblk.%lld.%.*s", p->prefix, (long long)p->block, (int)len, rest);
}

static size_t find(const place *p, const char *rest)
{
    char name[160];
    full_name(p, rest, strlen(rest), name, sizeof name);
    return gg_check_find(p->c, name, strlen(name));
}

static bool take_apart(const char *word, size_t len, wanted *w)
{
    size_t n = 0;
    while (n < len && word[n] != '?' && word[n] != '=') n++;
    w->optional = n < len && word[n] == '?';
    const char *equal = memchr(word, '=', len);
    w->shape = equal ? equal + 1 : NULL;
    w->shape_len = equal ? (size_t)(word + len - w->shape) : 0;
    if (n == 0 || n + 8 > sizeof w->rest) return false;
    memcpy(w->rest, word, n);
    w->rest[n] = 0;
    if (word[n - 1] == '.') w->rest[n - 1] = 0;
    else if (!strstr(w->rest, ".bias") && !strstr(w->rest, ".weight"))
        memcpy(w->rest + n, ".weight", 8);
    w->rest_len = strlen(w->rest);
    if (!w->shape) {
        /* encoder and decoder share their shapes with models that have one trunk */
        w->shape = gg_check_shape_of(w->rest, w->rest_len);
        w->shape_len = w->shape ? strlen(w->shape) : 0;
    }
    return true;
}

static void compare_shape(const place *p, const wanted *w, size_t i)
{
    const gg_tensor *t = &p->c->in->tensors[i];
    check_shape s;
    char want[100], have[100];
    uint64_t block = p->block < 0 ? 0 : (uint64_t)p->block;
    if (!w->shape || !gg_check_shape_eval(p->c, w->shape, w->shape_len, block, &s)) return;
    if (gg_check_shape_fits(&s, t)) return;
    gg_check_shape_text(s.n, s.dims, want, sizeof want);
    gg_check_shape_text(t->n_dims, t->dims, have, sizeof have);
    gg_check_say(p->c, GG_CHECK_ERROR, "tensor-shape", t->name, t->name_len,
                 "its shape is %s, but the keys require %s (%.*s)", have, want, (int)w->shape_len,
                 w->shape);
}

static void want(place *p, const char *word, size_t len)
{
    wanted w;
    char name[160];
    if (!take_apart(word, len, &w)) return;
    size_t i = find(p, w.rest);
    p->present += i != SIZE_MAX;
    p->absent += i == SIZE_MAX && !w.optional;
    if (!p->report) return;
    if (i != SIZE_MAX) {
        p->c->expected[i] = true;
        compare_shape(p, &w, i);
    } else if (!w.optional) {
        full_name(p, w.rest, w.rest_len, name, sizeof name);
        gg_check_say(p->c, GG_CHECK_ERROR, "tensor-missing", name, strlen(name),
                     "this tensor is missing; architecture %.*s requires it", (int)p->c->arch_len,
                     p->c->arch_name);
    }
}

static void want_all(place *p, const char *words)
{
    const char *word;
    size_t len;
    while (gg_check_next_word(&words, &word, &len)) want(p, word, len);
}

/* Checks query, key and value, which are in one tensor or in three. */
static void want_qkv(place *p, char kind)
{
    static const struct {
        char kind;
        const char *fused, *fused_bias, *apart, *biases;
    } of[] = {
        { 0, "attn_qkv=embd,heads*key+kvheads*key+kvheads*value",
          "attn_qkv.bias?=heads*key+kvheads*key+kvheads*value", "attn_q attn_k attn_v",
          "attn_q.bias?=heads*key attn_k.bias?=kvheads*key attn_v.bias?=kvheads*value" },
        { 'e', "attn_qkv=embd,embd+2*kvheads*value", "attn_qkv.bias?=embd+2*kvheads*value",
          "attn_q=embd,embd attn_k=embd,kvheads*value attn_v",
          "attn_q.bias?=embd attn_k.bias?=kvheads*value attn_v.bias?=kvheads*value" },
        { 'v', "attn_qkv=embd,heads*key+2*kvheads*value",
          "attn_qkv.bias?=heads*key+2*kvheads*value", "attn_q attn_k=embd,kvheads*value attn_v",
          "attn_q.bias?=heads*key attn_k.bias?=kvheads*value attn_v.bias?=kvheads*value" },
        { 'r', "attn_qkv=embd,heads*rot+2*kvheads*rot", "attn_qkv.bias?=heads*rot+2*kvheads*rot",
          "attn_q=embd,heads*rot attn_k=embd,kvheads*rot attn_v=embd,kvheads*rot",
          "attn_q.bias?=heads*rot attn_k.bias?=kvheads*rot attn_v.bias?=kvheads*rot" },
    };
    size_t k = 0;
    while (k + 1 < sizeof of / sizeof of[0] && of[k].kind != kind) k++;
    if (find(p, "attn_qkv.weight") == SIZE_MAX) {
        want_all(p, of[k].apart);
        want_all(p, of[k].biases);
        return;
    }
    want_all(p, of[k].fused);
    want_all(p, of[k].fused_bias);
    if (find(p, "attn_qkv.bias") == SIZE_MAX) want_all(p, of[k].biases);
}

static bool positive(const check *c, const char *name)
{
    uint64_t v;
    return gg_check_number(c, name, 0, &v) && v > 0;
}

/* Whether the words after "name:" apply to this block. */
static bool section(const place *p, const char *name, size_t len)
{
    const check *c = p->c;
    uint64_t dense = gg_check_number_or(c, "leading_dense_block_count", 0);
    bool moe = positive(c, "expert_count") && (uint64_t)p->block >= dense;
    bool is[] = { true,
                  !moe,
                  moe,
                  moe && (positive(c, "expert_shared_count") ||
                          positive(c, "expert_shared_feed_forward_length")),
                  (uint64_t)p->block >= c->trunk,
                  positive(c, "attention.key_length_mla"),
                  !positive(c, "attention.key_length_mla"),
                  positive(c, "attention.q_lora_rank"),
                  !positive(c, "attention.q_lora_rank"),
                  strcmp(p->prefix, "enc.") == 0,
                  strcmp(p->prefix, "dec.") == 0,
                  p->block == 0,
                  p->block != 0 };
    static const char *const names[] = { "all", "dense", "moe",   "shared",  "mtp",
                                         "mla", "nomla", "qlora", "noqlora", "enc",
                                         "dec", "first", "later" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) return is[i];
    return true;
}

/* Engines also accept gate and up in one stack. */
static void want_gate_up(place *p)
{
    bool fused = find(p, "ffn_gate_up_exps.weight") != SIZE_MAX;
    want_all(p, fused ? "ffn_gate_up_exps" : "ffn_gate_exps ffn_up_exps");
}

static void apply(place *p, const char *words)
{
    const char *word;
    size_t len;
    bool active = true;
    while (gg_check_next_word(&words, &word, &len)) {
        if (word[len - 1] == ':') active = section(p, word, len - 1);
        else if (!active) continue;
        else if (len >= 3 && memcmp(word, "qkv", 3) == 0) want_qkv(p, len > 4 ? word[4] : 0);
        else if (gg_check_word("gate_up_exps", word, len)) want_gate_up(p);
        else want(p, word, len);
    }
}

/* Engines accept scales for any weight. */
static bool is_scale(const check *c, const gg_tensor *t)
{
    static const char *const suffixes[] = { ".input_scale", ".scale" };
    char name[GG_RECORD_NAME + 16];
    for (int k = 0; k < 2; k++) {
        size_t n = strlen(suffixes[k]);
        if (t->name_len <= n || t->name_len - n > GG_RECORD_NAME ||
            memcmp(t->name + t->name_len - n, suffixes[k], n) != 0)
            continue;
        int len = snprintf(name, sizeof name, "%.*s.weight", (int)(t->name_len - n), t->name);
        size_t i = gg_check_find(c, name, (size_t)len);
        return i != SIZE_MAX && c->expected[i];
    }
    return false;
}

static void unexpected(check *c)
{
    for (size_t i = 0; i < c->in->n; i++) {
        const gg_tensor *t = &c->in->tensors[i];
        if (c->expected[i] || is_scale(c, t)) continue;
        bool beyond = c->anatomy[i].block >= 0 && memcmp(t->name, "blk.", 4) == 0 &&
                      (uint64_t)c->anatomy[i].block >= c->blocks;
        if (beyond && c->blocks > 0) continue; /* block-count reports these */
        gg_check_say(c, GG_CHECK_ERROR, "tensor-unexpected", t->name, t->name_len,
                     "architecture %.*s has no such tensor here, and an engine refuses the model",
                     (int)c->arch_len, c->arch_name);
    }
}

/* Checks all tensors of one block. Prediction blocks may be missing. */
static void apply_block(check *c, const char *prefix, int64_t block)
{
    place p = { .c = c, .prefix = prefix, .block = block };
    apply(&p, c->arch->block);
    /* a block without any tensors is reported by block-missing */
    if (p.present == 0 && prefix[0] == 0) return;
    p.report = true;
    apply(&p, c->arch->block);
}

void gg_check_table_rules(check *c)
{
    static const char *const none[] = { "", NULL }, *const coder[] = { "enc.", "dec.", NULL };
    if (!c->arch) return;
    place p = { .c = c, .prefix = "", .block = -1, .report = true };
    apply(&p, c->arch->globals);
    const char *const *prefix = strstr(c->arch->block, "enc:") ? coder : none;
    for (; *prefix; prefix++) {
        uint64_t n = c->blocks;
        bool decoder = strcmp(*prefix, "dec.") == 0;
        if (decoder && !strstr(c->arch->block, "dec:")) continue;
        if (decoder) n = gg_check_number_or(c, "decoder_block_count", n);
        for (uint64_t b = 0; b < n && b < 512 && c->status == GG_OK; b++)
            apply_block(c, *prefix, (int64_t)b);
    }
    unexpected(c);
}
