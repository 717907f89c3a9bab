/* check_fused.c - which forms of fused tensors an engine loads, and how many rows their parts have,
 * as the tables of architectures tell. */
#include "check_fused.h"

#include "check/check_context.h"

#include "base/text.h"

#include <string.h>

/* Words of the tables: the one for both forms, and those of either. */
static const struct {
    const char *both, *fused, *separate;
} words[GG_FUSED_KINDS] = {
    { "qkv", "attn_qkv", "attn_q" },
    { "gate_up_exps", "ffn_gate_up_exps", "ffn_gate_exps" },
    { "", "", "ffn_gate" },
};

/* Rows of query, key and value that are tried if a table only has their sum. */
static const char *const usual_rows[] = { "heads*key,kvheads*key,kvheads*value",
                                          "embd,kvheads*value,kvheads*value",
                                          "heads*keyswa,kvheads*keyswa,kvheads*keyswa",
                                          "embd,embd,embd" };

/* The length of a word without its mark and shape. */
static size_t stem_length(const char *word, size_t len)
{
    size_t n = 0;
    while (n < len && !strchr("?^|&=", word[n])) n++;
    return n;
}

static bool stem_is(const char *word, size_t len, const char *name)
{
    size_t n = stem_length(word, len);
    return n == strlen(name) && memcmp(word, name, n) == 0;
}

/* Computes the rows of the parts; they must have the rows of the fused tensor together. */
static void divide_rows(const check *c, gg_fused_rule *r, const char *formulas, size_t len)
{
    gg_design_shape s;
    if (r->divided || !gg_design_eval(&c->d, formulas, len, (uint64_t)r->block, &s) || s.n != 3 ||
        s.dims[0] + s.dims[1] + s.dims[2] != r->rows)
        return;
    memcpy(r->parts, s.dims, sizeof r->parts);
    r->divided = true;
}

/* Divides by "qkv", "qkv_LETTER" or "qkv=Q:K:V", see architectures.txt. */
static void divide_by_word(const check *c, gg_fused_rule *r, const char *word, size_t len)
{
    size_t n;
    const char *text = gg_arch_qkv_rows(word, len, &n);
    char formulas[200] = "";
    for (size_t i = 0; i < n && i + 1 < sizeof formulas; i++)
        formulas[i] = text[i] == ':' ? ',' : text[i];
    divide_rows(c, r, formulas, strlen(formulas));
}

/* Divides attn_qkv by the usual rows, if its own formula gives the rows that it has. */
static void divide_by_sum(const check *c, gg_fused_rule *r, const char *shape, size_t len)
{
    gg_design_shape s;
    if (!gg_design_eval(&c->d, shape, len, (uint64_t)r->block, &s) || s.dims[1] != r->rows) return;
    for (size_t i = 0; i < sizeof usual_rows / sizeof usual_rows[0]; i++)
        divide_rows(c, r, usual_rows[i], strlen(usual_rows[i]));
}

static void apply_word(const check *c, gg_fused_rule *r, const char *word, size_t len)
{
    size_t n = stem_length(word, len);
    bool qkv = r->kind == GG_FUSED_QKV && len >= 3 && memcmp(word, "qkv", 3) == 0;
    const char *shape = memchr(word, '=', len);
    if (qkv || stem_is(word, len, words[r->kind].both)) r->fused = r->separate = true;
    if (qkv) divide_by_word(c, r, word, len);
    if (stem_is(word, len, words[r->kind].separate)) r->separate = true;
    /* in recurrent blocks, attn_qkv is another tensor, which has no parts */
    if (stem_is(word, len, words[r->kind].fused) &&
        !(r->kind == GG_FUSED_QKV && gg_design_recurrent(&c->d, (uint64_t)r->block))) {
        r->fused = true;
        if (r->kind == GG_FUSED_QKV && shape)
            divide_by_sum(c, r, shape + 1, (size_t)(word + len - shape - 1));
    }
    if (r->kind == GG_FUSED_FFN && stem_is(word, len, "ffn_up") && len - n > 4 &&
        memcmp(word + len - 4, "2*ff", 4) == 0)
        r->fused = true;
}

static void find_rule(const check *c, gg_fused_rule *r)
{
    const char *word, *list = c->arch->block.text;
    size_t len;
    bool active = true;
    while (gg_text_next_word(&list, &word, &len)) {
        if (word[len - 1] == ':')
            active = gg_design_block_is(&c->d, "", (uint64_t)r->block, word, len - 1);
        else if (active) apply_word(c, r, word, len);
    }
    if (r->kind == GG_FUSED_QKV && gg_design_has(&c->d, "reads_attn_q")) r->fused = false;
    if (r->kind == GG_FUSED_QKV || r->rows % 2) return;
    r->parts[0] = r->parts[1] = r->rows / 2;
    r->divided = true;
}

gg_status gg_fused_rules(const gg_meta *meta, gg_fused_rule *rules, size_t n, gg_error *err)
{
    gg_check_input in = { .meta = meta };
    check c = { .in = &in, .err = err };
    gg_status st = gg_check_open(&c);
    if (st == GG_OK) {
        gg_check_find_architecture(&c);
        if (!c.arch)
            st = gg_fail(err, GG_NO,
                         "there is no table of its architecture, so it is not known whether an "
                         "engine loads fused or separate tensors");
    }
    for (size_t i = 0; i < n && st == GG_OK; i++) find_rule(&c, &rules[i]);
    gg_check_close(&c);
    return st;
}
