/* merge_names.c - the names of tensors in PyTorch models, for filters of mergekit. */
#include "merge_names.h"

#include "organ/tensor_names.h"

#include <stdio.h>
#include <string.h>

/* Roles in blocks, and tensors outside them, with what PyTorch models of the llama family call
 * them. */
static const struct {
    const char *role, *torch;
} roles[] = {
    { "attn_q", "self_attn.q_proj" },
    { "attn_k", "self_attn.k_proj" },
    { "attn_v", "self_attn.v_proj" },
    { "attn_qkv", "self_attn.qkv_proj" },
    { "attn_output", "self_attn.o_proj" },
    { "attn_q_norm", "self_attn.q_norm" },
    { "attn_k_norm", "self_attn.k_norm" },
    { "attn_norm", "input_layernorm" },
    { "ffn_norm", "post_attention_layernorm" },
    { "post_attention_norm", "post_attention_layernorm" },
    { "post_ffw_norm", "post_feedforward_layernorm" },
    { "ffn_gate", "mlp.gate_proj" },
    { "ffn_up", "mlp.up_proj" },
    { "ffn_down", "mlp.down_proj" },
    { "ffn_gate_inp", "mlp.gate" },
    { "ffn_gate_exps", "mlp.experts.gate_proj" },
    { "ffn_up_exps", "mlp.experts.up_proj" },
    { "ffn_down_exps", "mlp.experts.down_proj" },
    { "ffn_gate_shexp", "mlp.shared_expert.gate_proj" },
    { "ffn_up_shexp", "mlp.shared_expert.up_proj" },
    { "ffn_down_shexp", "mlp.shared_expert.down_proj" },
    { "token_embd", "model.embed_tokens" },
    { "output_norm", "model.norm" },
    { "output", "lm_head" },
};

bool gg_merge_torch_match(const gg_tensor *t, const char *filter)
{
    gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
    const char *role = t->name + a.role_at;
    char torch[160];
    if (strcmp(filter, "*") == 0 || strstr(t->name, filter)) return true;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strlen(roles[i].role) != a.role_len || memcmp(roles[i].role, role, a.role_len) != 0)
            continue;
        if (a.block < 0) snprintf(torch, sizeof torch, "%s.weight", roles[i].torch);
        else
            snprintf(torch, sizeof torch, "model.layers.%lld.%s.weight", (long long)a.block,
                     roles[i].torch);
        return strstr(torch, filter) != NULL;
    }
    return false;
}
