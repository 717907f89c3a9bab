/* tensor_names.c - names of tensors that are made from other names: of the same tensor in another
 * block, of a stack of experts and each of its experts, of the scale of a weight. */
#include "organ/gg_organ.h"

#include "base/text.h"

#include "record.h"
#include "tensor_names.h"

#include <stdio.h>
#include <string.h>

/* In a stack such as blk.N.ffn_gate_exps.weight the last dimension counts the experts. The data of
 * each expert is contiguous. */

bool gg_is_router(const char *name, const gg_anatomy *a)
{
    static const char *const roles[] = { "ffn_gate_inp", "ffn_gate_inp.bias", "exp_probs_b.bias",
                                         "exp_probs_b" };
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (a->block >= 0 && gg_text_is(name + a->role_at, a->role_len, roles[i])) return true;
    return false;
}

/* Whether the role contains this stem, at its end or before a dot. */
static bool role_has(const gg_tensor *t, const char *stem)
{
    const char *role = t->name + t->a.role_at;
    size_t n = strlen(stem), len = t->a.role_len;
    for (size_t i = 0; i + n <= len; i++)
        if (memcmp(role + i, stem, n) == 0 && (i + n == len || role[i + n] == '.')) return true;
    return false;
}

static bool role_begins(const gg_tensor *t, const char *text)
{
    return gg_text_begins(t->name + t->a.role_at, t->a.role_len, text);
}

bool gg_counts_experts(const gg_tensor *t)
{
    if (t->a.block < 0) return false;
    if (gg_is_router(t->name, &t->a)) return true;
    return role_begins(t, "ffn_") && !role_begins(t, "ffn_norm") && role_has(t, "_exps");
}

const char *gg_experts_fixed(const gg_tensor *t)
{
    if (t->a.block < 0) return NULL;
    if (gg_text_is(t->name + t->a.role_at, t->a.role_len, "ffn_gate_tid2eid"))
        return "its values are expert numbers";
    return role_has(t, "_chexps") ? "its experts belong to groups" : NULL;
}

/* Finds the position of "_exps" just before .weight, .bias or .scale. */
static bool find_exps(const char *name, size_t len, size_t *at)
{
    static const char *const suffixes[] = { "_exps.weight", "_exps.bias", "_exps.scale" };
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (gg_text_ends(name, len, suffixes[i])) {
            *at = len - strlen(suffixes[i]);
            return true;
        }
    return false;
}

bool gg_is_expert_stack(const gg_tensor *t, uint64_t *experts)
{
    size_t at;
    if (t->n_dims < 2 || !find_exps(t->name, t->name_len, &at)) return false;
    if (!t->a.stack) return false;
    uint64_t e = t->dims[t->n_dims - 1];
    if (e == 0 || e > GG_EXPERTS_MAX || t->bytes == 0 || t->bytes % e != 0)
        return false; /* the bytes cannot be divided among the experts */
    *experts = e;
    return true;
}

bool gg_expert_name(const char *stack, size_t stack_len, uint64_t expert, char *out, size_t size,
                    size_t *out_len)
{
    size_t at;
    if (!find_exps(stack, stack_len, &at)) return false;
    int n = snprintf(out, size, "%.*s.%llu%.*s", (int)at, stack, (unsigned long long)expert,
                     (int)(stack_len - at - 5), stack + at + 5);
    if (n < 0 || (size_t)n >= size) return false;
    *out_len = (size_t)n;
    return true;
}

bool gg_stack_name(const char *expert, size_t expert_len, char *out, size_t size, size_t *out_len)
{
    size_t end = expert_len;
    while (end > 0 && expert[end - 1] != '.') end--; /* behind the last dot: weight, bias, scale */
    if (end < 2 || gg_anatomy_of(expert, expert_len).expert < 0) return false;
    size_t at = end -= 1;
    while (at > 0 && expert[at - 1] >= '0' && expert[at - 1] <= '9') at--;
    if (at == end || at == 0 || expert[at - 1] != '.') return false;
    int n = snprintf(out, size, "%.*s_exps%.*s", (int)(at - 1), expert, (int)(expert_len - end),
                     expert + end);
    if (n < 0 || (size_t)n >= size) return false;
    *out_len = (size_t)n;
    return true;
}

bool gg_expert_tensor(const gg_tensor *stack, uint64_t experts, uint64_t expert, gg_tensor *out,
                      char *name)
{
    if (expert >= experts) return false;
    *out = *stack;
    if (!gg_expert_name(stack->name, stack->name_len, expert, name, GG_RECORD_NAME + 1,
                        &out->name_len))
        return false;
    out->name = name;
    out->a = gg_anatomy_of(name, out->name_len);
    out->a.cls = stack->a.cls;
    out->n_dims = stack->n_dims - 1;
    out->dims[out->n_dims] = 1;
    /* not 0: expert < experts */
    out->bytes = stack->bytes / experts;
    out->elements = stack->elements / experts;
    out->offset = stack->offset + expert * out->bytes;
    return true;
}

size_t gg_find_scale(const gg_source *s, const char *weight, size_t len,
                     char name[GG_RECORD_NAME + 1])
{
    static const char tail[] = ".weight";
    size_t n = sizeof tail - 1;
    if (len <= n || len > GG_RECORD_NAME || memcmp(weight + len - n, tail, n) != 0) return SIZE_MAX;
    gg_text_copy(name, GG_RECORD_NAME + 1, weight, len - n);
    memcpy(name + len - n, ".scale", 7); /* one byte less than the tail */
    return gg_source_find(s, name, len - 1);
}

bool gg_name_with_block(const char *name, size_t name_len, int64_t block, char *out, size_t size,
                        size_t *out_len)
{
    gg_anatomy a = gg_anatomy_of(name, name_len);
    if (a.block < 0) return false;
    /* role_at is the position after "blk.N."; walk back over the digits. */
    size_t digits_end = a.role_at - 1, digits = digits_end;
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') digits--;
    char number_text[24];
    size_t n = 0;
    for (int64_t v = block; v > 0 || n == 0; v /= 10) number_text[n++] = (char)('0' + v % 10);
    *out_len = digits + n + (name_len - digits_end);
    if (*out_len + 1 > size) return false;
    memcpy(out, name, digits);
    for (size_t i = 0; i < n; i++) out[digits + i] = number_text[n - 1 - i];
    memcpy(out + digits + n, name + digits_end, name_len - digits_end);
    out[*out_len] = '\0';
    return true;
}
