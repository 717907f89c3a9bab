/* design.c - reads the keys that describe a model, and computes the shapes of its tensors from
 * them. */
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
    if (gg_text_is(name, len, "mostused")) return *v = most_used(d), true;
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
    if (gg_text_has_word("vocab mostused", name, len)) return true;
    const gg_arch_name *n = gg_arch_names;
    while (n->name && !gg_text_is(name, len, n->name)) n++;
    return n->name != NULL;
}
