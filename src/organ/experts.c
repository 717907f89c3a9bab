/* experts.c - stacks of experts and their names.
 *
 * In a stack such as blk.N.ffn_gate_exps.weight the last dimension counts the experts. The data of
 * each expert is contiguous. */
#include "organ/gg_organ.h"

#include "organ/record.h"
#include "organ/tensor_names.h"

#include <stdio.h>
#include <string.h>

bool gg_is_router(const char *name, const gg_anatomy *a)
{
    static const char *const roles[] = { "ffn_gate_inp", "ffn_gate_inp.bias", "exp_probs_b.bias",
                                         "exp_probs_b" };
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (a->block >= 0 && a->role_len == strlen(roles[i]) &&
            memcmp(name + a->role_at, roles[i], a->role_len) == 0)
            return true;
    return false;
}

/* Finds the position of "_exps" just before .weight, .bias or .scale. */
static bool find_exps(const char *name, size_t len, size_t *at)
{
    static const char *const suffixes[] = { "_exps.weight", "_exps.bias", "_exps.scale" };
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        size_t n = strlen(suffixes[i]);
        if (len > n && memcmp(name + len - n, suffixes[i], n) == 0) return *at = len - n, true;
    }
    return false;
}

bool gg_is_expert_stack(const gg_tensor *t, uint64_t *experts)
{
    size_t at;
    if (t->n_dims < 2 || !find_exps(t->name, t->name_len, &at)) return false;
    gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
    if (a.cls != GG_ORGAN || a.block < 0) return false;
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
    out->n_dims = stack->n_dims - 1;
    out->dims[out->n_dims] = 1;
    out->bytes = stack->bytes / experts;
    out->elements = stack->elements / experts;
    out->offset = stack->offset + expert * out->bytes;
    return true;
}
