/* check_learned.c - tables of architectures, made by tests/engine/learn.mjs from what was learned
 * of llama.cpp v0.5.0. The format is described in check_arch.c. */
#include "check_context.h"

const check_arch gg_check_learned[] = {
    { "llama4",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon expert_feed_forward_length interleave_moe_layer_step",
      "token_embd output_norm output? rope_freqs?=key/2",
      "attn_norm qkv attn_output ffn_norm moe: ffn_gate_inp ffn_gate_exps ffn_down_exps "
      "ffn_up_exps ffn_gate_shexp=embd,expff ffn_down_shexp=expff,embd "
      "ffn_up_shexp=embd,expff dense: ffn_gate ffn_down ffn_up" },
    { "deci", "attention.head_count attention.layer_norm_rms_epsilon",
      "token_embd output_norm output? rope_freqs?=any",
      "attn_output.bias? ffn_gate.bias? ffn_down.bias? ffn_up.bias? hasff: ffn_norm ffn_gate "
      "ffn_down ffn_up heads: attn_norm qkv attn_output" },
    { "grok",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm qkv_e attn_output=embd,embd attn_output_norm ffn_norm ffn_gate? ffn_down? "
      "ffn_up? ffn_gate_inp ffn_gate_exps?=embd,ff,experts ffn_down_exps=ff,embd,experts "
      "ffn_up_exps=embd,ff,experts layer_output_norm? post_ffw_norm" },
    { "gptneox",
      "attention.head_count feed_forward_length attention.layer_norm_epsilon "
      "use_parallel_residual",
      "token_embd output_norm output_norm.bias output",
      "attn_norm attn_norm.bias attn_qkv=embd,embd+2*kvheads*value "
      "attn_qkv.bias=embd+2*kvheads*value attn_output=embd,embd attn_output.bias ffn_norm "
      "ffn_norm.bias ffn_down ffn_down.bias ffn_up ffn_up.bias" },
    { "mpt", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd position_embd? output_norm output_norm.bias? output?",
      "attn_norm attn_norm.bias? attn_qkv=embd,embd+2*kvheads*value "
      "attn_qkv.bias?=embd+2*kvheads*value attn_output=embd,embd attn_output.bias? ffn_norm "
      "ffn_norm.bias? ffn_down ffn_down.bias? ffn_up ffn_up.bias? attn_q_norm?=embd "
      "attn_q_norm.bias?=embd attn_k_norm?=embd attn_k_norm.bias?=embd ffn.act.scales.?=ff" },
    { "baichuan internlm2 xverse",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output",
      "attn_norm qkv_e attn_output=embd,embd ffn_norm ffn_gate ffn_down ffn_up" },
    { "starcoder", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd position_embd output_norm output_norm.bias output?",
      "attn_norm attn_norm.bias attn_qkv=embd,embd+2*kvheads*value "
      "attn_qkv.bias=embd+2*kvheads*value attn_output=embd,embd attn_output.bias ffn_norm "
      "ffn_norm.bias ffn_down ffn_down.bias ffn_up ffn_up.bias" },
    { "refact llada llama-embed",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output? rope_freqs?=key/2",
      "attn_norm qkv attn_output attn_output.bias? ffn_norm ffn_gate ffn_down ffn_up "
      "ffn_gate.bias? ffn_down.bias? ffn_up.bias?" },
    { "modern-bert", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd token_embd_norm output_norm cls.output?=any cls.output.bias?=any cls? "
      "cls.norm?=embd",
      "attn_qkv=embd,3*embd attn_output=embd,embd ffn_up=embd,2*ff ffn_down ffn_norm first: "
      "attn_norm? later: attn_norm" },
    { "nomic-bert",
      "attention.head_count feed_forward_length attention.layer_norm_epsilon "
      "/tokenizer.ggml.token_type_count",
      "token_embd token_types? token_embd_norm token_embd_norm.bias",
      "qkv_e attn_output=embd,embd attn_output.bias? attn_output_norm attn_output_norm.bias "
      "ffn_up ffn_up.bias? ffn_down ffn_down.bias? ffn_gate layer_output_norm "
      "layer_output_norm.bias" },
    { "nomic-bert-moe",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_epsilon /tokenizer.ggml.token_type_count",
      "token_embd token_types? token_embd_norm token_embd_norm.bias",
      "qkv_e attn_output=embd,embd attn_output.bias? attn_output_norm attn_output_norm.bias "
      "layer_output_norm layer_output_norm.bias dense: ffn_up ffn_up.bias? ffn_down "
      "ffn_down.bias? moe: ffn_up_exps=embd,ff,experts ffn_down_exps=ff,embd,experts "
      "ffn_gate_inp" },
    { "neo-bert", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd cls? cls.bias? cls.output?=any cls.output.bias?=any enc.output_norm",
      "attn_norm attn_qkv=embd,embd+2*kvheads*value attn_output=embd,embd ffn_norm "
      "ffn_up=embd,2*ff ffn_down" },
    { "jina-bert-v2",
      "attention.head_count feed_forward_length attention.layer_norm_epsilon "
      "/tokenizer.ggml.token_type_count",
      "token_embd token_types token_embd_norm token_embd_norm.bias cls?=any cls.bias?=any",
      "qkv_e attn_q_norm?=embd attn_q_norm.bias?=embd attn_k_norm?=embd "
      "attn_k_norm.bias?=embd attn_output=embd,embd attn_output.bias attn_output_norm "
      "attn_output_norm.bias attn_norm_2? attn_norm_2.bias? ffn_gate? ffn_up ffn_up.bias? "
      "ffn_down ffn_down.bias layer_output_norm layer_output_norm.bias" },
    { "jina-bert-v3",
      "attention.head_count feed_forward_length attention.layer_norm_epsilon "
      "/tokenizer.ggml.token_type_count",
      "token_embd token_types? token_embd_norm token_embd_norm.bias",
      "qkv_e attn_output=embd,embd attn_output.bias? attn_output_norm attn_output_norm.bias "
      "ffn_up ffn_up.bias? ffn_down ffn_down.bias? layer_output_norm layer_output_norm.bias" },
    { "eurobert", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm",
      "attn_norm qkv_e attn_output=embd,embd ffn_norm ffn_gate ffn_up ffn_down" },
    { "bloom", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd token_embd_norm token_embd_norm.bias output_norm output_norm.bias output?",
      "attn_norm attn_norm.bias attn_qkv=embd,embd+2*kvheads*value "
      "attn_qkv.bias=embd+2*kvheads*value attn_output=embd,embd attn_output.bias ffn_norm "
      "ffn_norm.bias ffn_down ffn_down.bias ffn_up ffn_up.bias" },
    { "stablelm", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd output_norm.bias output_norm output",
      "attn_norm attn_norm.bias qkv_e attn_output=embd,embd attn_q_norm?=key,heads "
      "attn_k_norm?=key,kvheads ffn_norm? ffn_norm.bias? ffn_gate ffn_down ffn_up" },
    { "qwen", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output",
      "attn_norm attn_qkv=embd,3*embd attn_qkv.bias=3*embd attn_output=embd,embd ffn_norm "
      "ffn_gate=embd,ff/2 ffn_down=ff/2,embd ffn_up=embd,ff/2" },
    { "qwen2vl", "attention.head_count feed_forward_length rope.dimension_sections",
      "token_embd output_norm output? output.bias?",
      "attn_norm qkv_e attn_output=embd,embd ffn_norm ffn_gate ffn_down ffn_up" },
    { "qwen3next",
      "attention.head_count expert_count expert_used_count attention.layer_norm_rms_epsilon "
      "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank ssm.group_count",
      "token_embd output_norm output?",
      "attn_norm post_attention_norm ffn_gate_inp ffn_down_exps gate_up_exps "
      "ffn_gate_inp_shexp ffn_gate_shexp ffn_up_shexp ffn_down_shexp recurrent: "
      "ssm_in?=embd,2*inner+2*state*group attn_qkv=embd,inner+2*state*group "
      "attn_gate=embd,inner ssm_conv1d=conv,inner+2*state*group ssm_dt.bias=dtrank "
      "ssm_a.=dtrank ssm_ba=embd,2*dtrank ssm_norm=state ssm_out attention: "
      "qkv=2*heads*key:kvheads*key:kvheads*value attn_output attn_q_norm attn_k_norm" },
    { "qwen3vl",
      "attention.head_count feed_forward_length rope.dimension_sections "
      "attention.layer_norm_rms_epsilon",
      "token_embd output_norm output? cls.output?=any",
      "attn_norm qkv_v attn_output attn_k_norm attn_q_norm ffn_norm ffn_gate ffn_down ffn_up" },
    { "qwen3vlmoe",
      "attention.head_count expert_count expert_used_count rope.dimension_sections "
      "attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm qkv_v attn_output attn_k_norm attn_q_norm ffn_norm ffn_gate_inp "
      "ffn_gate_exps ffn_down_exps ffn_up_exps" },
    { "qwen35",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon "
      "rope.dimension_sections ssm.conv_kernel ssm.inner_size ssm.state_size "
      "ssm.time_step_rank ssm.group_count",
      "token_embd output_norm output?",
      "attn_norm post_attention_norm ffn_gate ffn_down ffn_up recurrent: "
      "attn_qkv=embd,inner+2*state*group attn_gate=embd,inner "
      "ssm_conv1d=conv,inner+2*state*group ssm_dt.bias=dtrank ssm_a.=dtrank "
      "ssm_beta=embd,dtrank ssm_alpha=embd,dtrank ssm_norm=state ssm_out attention: "
      "qkv=2*heads*key:kvheads*key:kvheads*value attn_output attn_q_norm attn_k_norm mtp: "
      "attn_q?=embd,2*heads*key attn_k? attn_v? "
      "attn_qkv.bias?=kvheads*key+kvheads*value+2*heads*key nextn.eh_proj nextn.enorm "
      "nextn.hnorm nextn.embed_tokens? nextn.shared_head_head? nextn.shared_head_norm?" },
    { "qwen35moe",
      "attention.head_count expert_count expert_used_count attention.layer_norm_rms_epsilon "
      "rope.dimension_sections ssm.conv_kernel ssm.inner_size ssm.state_size "
      "ssm.time_step_rank ssm.group_count",
      "token_embd output_norm output?",
      "attn_norm post_attention_norm ffn_gate_inp ffn_down_exps ffn_gate_up_exps? "
      "ffn_gate_inp_shexp ffn_gate_shexp ffn_up_shexp ffn_down_shexp recurrent: "
      "attn_qkv=embd,inner+2*state*group attn_gate=embd,inner "
      "ssm_conv1d=conv,inner+2*state*group ssm_dt.bias=dtrank ssm_a.=dtrank "
      "ssm_beta=embd,dtrank ssm_alpha=embd,dtrank ssm_norm=state ssm_out trunk: ffn_gate_exps "
      "ffn_up_exps mtp: ffn_gate_exps? ffn_up_exps? attn_q?=embd,2*heads*key attn_k? attn_v? "
      "attn_qkv.bias?=kvheads*key+kvheads*value+2*heads*key nextn.eh_proj nextn.enorm "
      "nextn.hnorm nextn.embed_tokens? nextn.shared_head_head? nextn.shared_head_norm? "
      "attention: qkv=2*heads*key:kvheads*key:kvheads*value attn_output attn_q_norm "
      "attn_k_norm" },
    { "qwen4exp",
      "attention.head_count expert_count expert_used_count attention.layer_norm_rms_epsilon "
      "rope.dimension_sections ssm.conv_kernel ssm.inner_size ssm.state_size "
      "ssm.time_step_rank ssm.group_count hyper_connection.count hyper_connection.low_rank "
      "attention.indexer.head_count attention.indexer.key_length attention.indexer.top_k",
      "token_embd output_hc_norm=embd,hc output_hc_down=hc*embd,hclow "
      "output_hc_up=hclow,hc*embd output?",
      "hc_attn_norm=embd,hc hc_attn_down=hc*embd,hclow hc_attn_up=hclow,hc*embd "
      "hc_attn_inject=hc*embd,hc hc_ffn_norm=embd,hc hc_ffn_down=hc*embd,hclow "
      "hc_ffn_up=hclow,hc*embd hc_ffn_inject=hc*embd,hc ffn_gate_inp ffn_down_exps "
      "gate_up_exps ffn_gate_inp_shexp ffn_gate_shexp ffn_up_shexp ffn_down_shexp recurrent: "
      "attn_qkv=embd,inner+2*state*group attn_gate=embd,inner "
      "ssm_conv1d=conv,inner+2*state*group ssm_dt.bias=dtrank ssm_a.=dtrank "
      "ssm_beta=embd,dtrank ssm_alpha=embd,dtrank ssm_norm=state ssm_out attention: "
      "qkv=2*heads*key:kvheads*key:kvheads*value attn_output attn_q_norm attn_k_norm "
      "indexer.q_proj=embd,ixheads*ixkey indexer.k_proj=embd,ixkey indexer.q_norm=ixkey "
      "indexer.k_norm=ixkey" },
    { "phimoe",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon",
      "token_embd output_norm output_norm.bias output output.bias rope_factors_long?=head/2 "
      "rope_factors_short?=head/2",
      "attn_norm attn_norm.bias qkv_e attn_output=embd,embd attn_output.bias ffn_norm "
      "ffn_norm.bias ffn_gate_inp ffn_gate_exps=embd,ff,experts ffn_down_exps=ff,embd,experts "
      "ffn_up_exps=embd,ff,experts" },
    { "plamo", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output",
      "attn_norm qkv_e attn_output=embd,embd ffn_gate ffn_down ffn_up" },
    { "plamo2",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon "
      "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank ssm.group_count",
      "token_embd output_norm output?",
      "attn_norm post_attention_norm.=embd ffn_norm ffn_down ffn_up=embd,2*ff "
      "post_ffw_norm.=embd recurrent: ssm_in ssm_conv1d ssm_x=any ssm_dt=any "
      "ssm_dt.bias=dtrank ssm_a.=dtrank ssm_d.=dtrank ssm_out ssm_dt_norm.=any "
      "ssm_b_norm.=state ssm_c_norm.=state attention: attn_qkv=embd,heads*key+2*kvheads*key "
      "attn_q_norm=key,heads attn_k_norm=key,kvheads attn_output" },
    { "plamo3", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm attn_qkv=embd,heads*key+kvheads*key+kvheads*value attn_q_norm attn_k_norm "
      "attn_output=heads*value,embd post_attention_norm.=embd ffn_norm post_ffw_norm.=embd "
      "ffn_up=embd,2*ff ffn_down" },
    { "codeshell", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd? output_norm output_norm.bias output",
      "attn_norm attn_norm.bias qkv_e attn_output=embd,embd attn_output.bias ffn_norm "
      "ffn_norm.bias ffn_down ffn_down.bias ffn_up ffn_up.bias" },
    { "orion", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd output_norm output_norm.bias output",
      "attn_norm attn_norm.bias qkv_e attn_output=embd,embd ffn_norm ffn_norm.bias ffn_gate "
      "ffn_down ffn_up" },
    { "minicpm", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output? rope_freqs?=key/2",
      "attn_norm qkv attn_output attn_output.bias? ffn_norm dense: ffn_gate ffn_down ffn_up "
      "ffn_gate.bias? ffn_down.bias? ffn_up.bias? moe: ffn_gate_inp "
      "ffn_gate_exps?=embd,ff,experts ffn_down_exps=ff,embd,experts "
      "ffn_up_exps=embd,ff,experts" },
    { "minicpm3",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon "
      "attention.q_lora_rank attention.kv_lora_rank",
      "token_embd output_norm output? rope_factors_long? rope_factors_short?",
      "attn_norm attn_q_a_norm attn_kv_a_norm attn_q_a attn_q_b=qrank,heads*key attn_kv_a_mqa "
      "attn_kv_b=kvrank,heads*key-heads*rot+heads*value attn_output=embd,embd ffn_norm "
      "ffn_gate ffn_down ffn_up" },
    { "gemma3n",
      "attention.head_count feed_forward_length attention.sliding_window "
      "attention.layer_norm_rms_epsilon",
      "output? token_embd altup_proj=embd,embd,3 altup_unembd_proj=embd,embd,3 "
      "per_layer_token_embd=256*blocks,vocab per_layer_model_proj=embd,256*blocks "
      "per_layer_proj_norm=256 output_norm",
      "attn_norm qkv attn_output attn_q_norm attn_k_norm post_attention_norm ffn_norm "
      "ffn_gate ffn_up ffn_down post_ffw_norm inp_gate=embd,256 proj=256,embd post_norm=embd "
      "altup_correct_coef=4,4 altup_correct_scale=embd altup_predict_coef=4,16 "
      "altup_router=embd,4 altup_router_norm=embd laurel_l=embd,64 laurel_r=64,embd "
      "laurel_post_norm=embd" },
    { "gemma4",
      "attention.head_count feed_forward_length attention.key_length_swa "
      "attention.value_length_swa attention.sliding_window_pattern attention.sliding_window "
      "attention.layer_norm_rms_epsilon embedding_length_per_layer_input",
      "output? token_embd output_norm rope_freqs=key/2 ple: "
      "per_layer_token_embd=blocks*ple,vocab per_layer_model_proj=embd,blocks*ple "
      "per_layer_proj_norm=ple",
      "attn_norm post_attention_norm layer_output_scale?=1 ffn_norm ffn_gate ffn_up ffn_down "
      "post_ffw_norm swa: attn_qkv^=embd,heads*keyswa+2*kvheads*keyswa "
      "attn_q|=embd,heads*keyswa attn_v?=embd,kvheads*keyswa attn_output=heads*keyswa,embd "
      "attn_q_norm=keyswa swa&ownkv: attn_k|=embd,kvheads*keyswa attn_k_norm=keyswa "
      "swa&sharedkv: attn_k?=embd,kvheads*keyswa attn_k_norm?=keyswa full: "
      "attn_qkv^=embd,heads*key+2*kvheads*key attn_q|=embd,heads*key attn_v?=embd,kvheads*key "
      "attn_output=heads*key,embd attn_q_norm=key full&ownkv: attn_k|=embd,kvheads*key "
      "attn_k_norm=key full&sharedkv: attn_k?=embd,kvheads*key attn_k_norm?=key ple: "
      "inp_gate=embd,ple proj=ple,embd post_norm=embd moe: ffn_gate_inp "
      "ffn_gate_inp.scale.=embd pre_ffw_norm_2=embd post_ffw_norm_1=embd post_ffw_norm_2=embd "
      "gate_up_exps ffn_down_exps" },
    { "gemma4-assistant",
      "attention.head_count feed_forward_length embedding_length_out attention.key_length_swa "
      "attention.value_length_swa attention.sliding_window_pattern attention.sliding_window "
      "attention.layer_norm_rms_epsilon",
      "token_embd output_norm masked_embd_centroids?=any masked_embd_ordering.?=any "
      "nextn.post_projection=embd,embdout nextn.pre_projection=2*embdout,embd "
      "rope_freqs=key/2",
      "attn_norm post_attention_norm layer_output_scale=1 ffn_norm ffn_gate ffn_up ffn_down "
      "post_ffw_norm swa: attn_q=embd,heads*keyswa attn_output=heads*keyswa,embd "
      "attn_q_norm=keyswa full: attn_q attn_output attn_q_norm" },
    { "gemma-embedding",
      "attention.head_count feed_forward_length attention.sliding_window "
      "attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm qkv attn_output post_attention_norm attn_k_norm attn_q_norm ffn_norm "
      "ffn_gate ffn_up ffn_down post_ffw_norm" },
    { "maple",
      "attention.head_count expert_count expert_used_count attention.layer_norm_rms_epsilon "
      "attention.sliding_window expert_feed_forward_length attention.sliding_window_pattern "
      "swiglu_clamp_exp",
      "token_embd output_norm output",
      "attn_norm qkv=heads*key:kvheads*key:kvheads*key attn_output attn_q_norm attn_k_norm "
      "ffn_norm ffn_gate_inp ffn_gate_exps ffn_down_exps ffn_up_exps" },
    { "jamba",
      "attention.head_count feed_forward_length ssm.conv_kernel ssm.inner_size ssm.state_size "
      "ssm.time_step_rank attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm ffn_norm recurrent: ssm_in ssm_conv1d ssm_conv1d.bias ssm_x "
      "ssm_dt_norm=dtrank ssm_dt ssm_dt.bias ssm_b_norm=state ssm_c_norm=state ssm_a. ssm_d. "
      "ssm_out attention: qkv_e attn_output=embd,embd all: ffn_gate_inp^ ffn_gate| ffn_down| "
      "ffn_up| ffn_gate_exps&=embd,ff,experts ffn_down_exps&=ff,embd,experts "
      "ffn_up_exps&=embd,ff,experts" },
    { "falcon-h1",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon "
      "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank ssm.group_count",
      "token_embd output? output_norm rope_freqs?=key/2",
      "ssm_in=embd,dtrank+2*inner+2*state*group ssm_conv1d=conv,inner+2*state*group "
      "ssm_conv1d.bias=inner+2*state*group ssm_dt.bias=dtrank ssm_a.=1,dtrank ssm_d.=1,dtrank "
      "ssm_norm?=inner/group,group ssm_out qkv attn_output attn_output.bias? attn_norm "
      "ffn_norm.=embd ffn_gate ffn_down ffn_up ffn_gate.bias? ffn_down.bias? ffn_up.bias?" },
    { "command-r", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd output_norm", "attn_norm qkv_e attn_output=embd,embd ffn_gate ffn_down ffn_up" },
    { "cohere2",
      "attention.head_count feed_forward_length attention.sliding_window logit_scale "
      "attention.layer_norm_epsilon",
      "token_embd output_norm", "attn_norm qkv_e attn_output=embd,embd ffn_gate ffn_down ffn_up" },
    { "cohere2moe",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_epsilon attention.sliding_window logit_scale "
      "leading_dense_block_count expert_feed_forward_length",
      "token_embd output_norm output?",
      "attn_norm qkv_v attn_output dense: ffn_gate ffn_down ffn_up moe: ffn_gate_inp "
      "ffn_down_exps gate_up_exps moe&shared: ffn_gate_shexp=embd,expff*shared "
      "ffn_down_shexp=expff*shared,embd ffn_up_shexp=embd,expff*shared" },
    { "dbrx",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_epsilon attention.clamp_kqv",
      "token_embd output_norm output",
      "attn_norm attn_qkv=embd,embd+2*kvheads*value attn_output=embd,embd attn_output_norm "
      "ffn_gate_inp ffn_gate_exps=embd,ff,experts ffn_down_exps=ff,embd,experts "
      "ffn_up_exps=embd,ff,experts" },
    { "olmo", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd output?", "qkv_e attn_output=embd,embd ffn_gate ffn_down ffn_up" },
    { "olmoe",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon",
      "token_embd output_norm output",
      "attn_norm qkv=embd:heads*value:heads*value attn_output=embd,embd attn_q_norm=embd "
      "attn_k_norm=embd ffn_norm ffn_gate_inp ffn_gate_exps=embd,ff,experts "
      "ffn_down_exps=ff,embd,experts ffn_up_exps=embd,ff,experts" },
    { "muse-glimmer",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon "
      "attention.sliding_window logit_scale",
      "token_embd output_norm output",
      "attn_norm post_attention_norm qkv attn_output attn_q_norm attn_k_norm "
      "attn_gate=embd,heads*key ffn_norm post_ffw_norm ffn_gate ffn_down ffn_up" },
    { "openelm", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm",
      "attn_norm attn_qkv=embd,heads*key+2*kvheads*key attn_q_norm attn_k_norm attn_output "
      "ffn_norm ffn_gate ffn_down ffn_up" },
    { "arctic",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm qkv_e attn_output=embd,embd ffn_norm ffn_gate=embd,embd ffn_down=embd,embd "
      "ffn_up=embd,embd ffn_gate_inp ffn_norm_exps=embd ffn_gate_exps=embd,ff,experts "
      "ffn_down_exps=ff,embd,experts ffn_up_exps=embd,ff,experts" },
    { "deepseek",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon expert_feed_forward_length expert_shared_count",
      "token_embd output_norm output?",
      "attn_norm qkv_e attn_output=embd,embd ffn_norm dense: ffn_gate ffn_down ffn_up moe: "
      "ffn_gate_inp ffn_gate_exps ffn_down_exps ffn_up_exps ffn_gate_shexp=embd,expff*shared "
      "ffn_down_shexp=expff*shared,embd ffn_up_shexp=embd,expff*shared" },
    { "deepseek2-ocr",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon expert_feed_forward_length expert_shared_count",
      "token_embd output_norm output?",
      "qkv=embd:embd:embd attn_output=embd,embd ffn_norm attn_norm dense: ffn_down ffn_up "
      "ffn_gate moe: ffn_gate_inp exp_probs_b.bias? ffn_down_exps gate_up_exps "
      "ffn_gate_shexp=embd,expff*shared ffn_down_shexp=expff*shared,embd "
      "ffn_up_shexp=embd,expff*shared" },
    { "deepseek32",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.head_count_kv attention.key_length expert_feed_forward_length "
      "attention.layer_norm_rms_epsilon expert_shared_count attention.q_lora_rank "
      "attention.kv_lora_rank attention.key_length_mla attention.value_length_mla "
      "attention.indexer.head_count attention.indexer.key_length attention.indexer.top_k "
      "expert_gating_func",
      "token_embd output_norm output?",
      "attn_norm attn_q_a_norm attn_kv_a_norm attn_q_a attn_q_b attn_kv_a_mqa attn_k_b "
      "attn_v_b attn_output=heads*valuemla,embd ffn_norm indexer.k_norm=ixkey "
      "indexer.k_norm.bias=ixkey indexer.proj=embd,ixheads indexer.attn_k=embd,ixkey "
      "indexer.attn_q_b=qrank,ixheads*ixkey dense: ffn_gate ffn_down ffn_up moe: ffn_gate_inp "
      "exp_probs_b.bias? ffn_gate_exps ffn_down_exps ffn_up_exps "
      "ffn_gate_shexp=embd,expff*shared ffn_down_shexp=expff*shared,embd "
      "ffn_up_shexp=embd,expff*shared mtp: nextn.eh_proj nextn.enorm nextn.hnorm "
      "nextn.embed_tokens? nextn.shared_head_head? nextn.shared_head_norm?" },
    { "deepseek4",
      "attention.head_count expert_count expert_used_count attention.head_count_kv "
      "attention.value_length attention.layer_norm_rms_epsilon attention.q_lora_rank "
      "attention.sliding_window expert_feed_forward_length expert_shared_count "
      "expert_weights_scale expert_weights_norm swiglu_clamp_exp attention.indexer.head_count "
      "attention.indexer.key_length attention.indexer.top_k attention.output_group_count "
      "attention.output_lora_rank attention.compress_rope_freq_base hyper_connection.count "
      "hyper_connection.sinkhorn_iterations hyper_connection.epsilon hash_layer_count "
      "attention.compress_ratios expert_gating_func",
      "token_embd output_norm output output_hc_fn=hc*embd,hc output_hc_base=hc "
      "output_hc_scale=1",
      "attn_norm attn_sinks attn_q_a attn_q_a_norm attn_q_b=qrank,heads*key attn_kv=embd,key "
      "attn_kv_a_norm=key attn_output_a=any attn_output_b=ogroups*olora,embd "
      "hc_attn_fn=hc*embd,hc*hc+2*hc hc_attn_base=hc*hc+2*hc hc_attn_scale=3 "
      "hc_ffn_fn=hc*embd,hc*hc+2*hc hc_ffn_base=hc*hc+2*hc hc_ffn_scale=3 ffn_gate_inp "
      "exp_probs_b_vl.bias?=experts ffn_norm ffn_gate_exps ffn_down_exps ffn_up_exps "
      "ffn_gate_shexp=embd,expff*shared ffn_down_shexp=expff*shared,embd "
      "ffn_up_shexp=embd,expff*shared nohash: exp_probs_b.bias hash&ratio: exp_probs_b.bias "
      "ratio4: attn_compressor_kv=embd,2*key attn_compressor_gate=embd,2*key "
      "attn_compressor_ape=2*key,4 indexer.proj=embd,ixheads "
      "indexer.attn_q_b=qrank,ixheads*ixkey indexer_compressor_kv=embd,2*ixkey "
      "indexer_compressor_gate=embd,2*ixkey indexer_compressor_ape=2*ixkey,4 "
      "indexer_compressor_norm=ixkey ratio128: attn_compressor_kv=embd,key "
      "attn_compressor_gate=embd,key attn_compressor_ape=key,128 ratio: "
      "attn_compressor_norm=key hash: ffn_gate_tid2eid=used,vocab" },
    { "chatglm", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm qkv attn_output=embd,embd ffn_norm ffn_up=embd,2*ff ffn_down" },
    { "glm-dsa",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.head_count_kv attention.key_length expert_feed_forward_length "
      "attention.layer_norm_rms_epsilon expert_shared_count attention.q_lora_rank "
      "attention.kv_lora_rank attention.key_length_mla attention.value_length_mla "
      "attention.indexer.head_count attention.indexer.key_length attention.indexer.top_k",
      "token_embd output_norm output?",
      "attn_norm attn_q_a_norm attn_kv_a_norm attn_q_a attn_q_b attn_kv_a_mqa attn_k_b "
      "attn_v_b attn_output=heads*valuemla,embd ffn_norm dense: ffn_gate ffn_down ffn_up moe: "
      "ffn_gate_inp exp_probs_b.bias? ffn_gate_exps ffn_down_exps ffn_up_exps "
      "ffn_gate_shexp=embd,expff*shared ffn_down_shexp=expff*shared,embd "
      "ffn_up_shexp=embd,expff*shared mtp: nextn.eh_proj nextn.enorm nextn.hnorm "
      "nextn.embed_tokens? nextn.shared_head_head? nextn.shared_head_norm? indexed: "
      "indexer.k_norm?=ixkey indexer.k_norm.bias?=ixkey indexer.proj=embd,ixheads "
      "indexer.attn_k=embd,ixkey indexer.attn_q_b=qrank,ixheads*ixkey unindexed: "
      "indexer.k_norm?=ixkey indexer.k_norm.bias?=ixkey indexer.proj?=embd,ixheads "
      "indexer.attn_k?=embd,ixkey indexer.attn_q_b?=qrank,ixheads*ixkey" },
    { "bitnet", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm",
      "attn_norm attn_sub_norm=embd attn_q=embd,embd attn_k=embd,kvheads*value attn_v "
      "attn_output=embd,embd ffn_norm ffn_sub_norm=ff ffn_gate ffn_down ffn_up" },
    { "jais", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd output_norm output_norm.bias output",
      "attn_norm attn_norm.bias attn_qkv=embd,embd+2*kvheads*value "
      "attn_qkv.bias=embd+2*kvheads*value attn_output=embd,embd attn_output.bias ffn_norm "
      "ffn_norm.bias ffn_down ffn_down.bias ffn_gate ffn_gate.bias ffn_up ffn_up.bias" },
    { "jais2", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd output_norm output_norm.bias output?",
      "attn_norm attn_norm.bias qkv attn_output attn_output.bias ffn_norm ffn_norm.bias "
      "ffn_up ffn_up.bias ffn_down ffn_down.bias" },
    { "nemotron", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd output_norm output_norm.bias output",
      "attn_norm attn_norm.bias qkv_e attn_output=embd,embd attn_output.bias? ffn_norm "
      "ffn_norm.bias ffn_down ffn_up ffn_down.bias? ffn_up.bias?" },
    { "nemotron_h",
      "attention.head_count ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank "
      "ssm.group_count attention.layer_norm_epsilon",
      "token_embd output_norm output?",
      "attn_norm recurrent: ssm_in=embd,dtrank+2*inner+2*state*group "
      "ssm_conv1d=conv,inner+2*state*group ssm_conv1d.bias=inner+2*state*group "
      "ssm_dt.bias=dtrank ssm_a.=1,dtrank ssm_d.=1,dtrank ssm_norm=inner/group,group ssm_out "
      "attention&noff: qkv attn_output attn_output.bias? hasff: ffn_down ffn_up "
      "ffn_down.bias? ffn_up.bias?" },
    { "nemotron_h_moe",
      "attention.head_count expert_count expert_used_count ssm.conv_kernel ssm.inner_size "
      "ssm.state_size ssm.time_step_rank ssm.group_count attention.layer_norm_epsilon "
      "expert_shared_feed_forward_length",
      "token_embd output_norm output?",
      "attn_norm recurrent: ssm_in=embd,dtrank+2*inner+2*state*group "
      "ssm_conv1d=conv,inner+2*state*group ssm_conv1d.bias=inner+2*state*group "
      "ssm_dt.bias=dtrank ssm_a.=1,dtrank ssm_d.=1,dtrank ssm_norm=inner/group,group ssm_out "
      "attention&noff: qkv attn_output attn_output.bias? hasff: ffn_gate_inp exp_probs_b.bias "
      "ffn_down_shexp ffn_up_shexp nolatent&hasff: ffn_latent_down?=embd,embd "
      "ffn_latent_up?=embd,embd ffn_down_exps ffn_up_exps latent&hasff: "
      "ffn_latent_down=embd,latent ffn_latent_up=latent,embd "
      "ffn_down_exps=expff,latent,experts ffn_up_exps=latent,expff,experts" },
    { "exaone nanbeige",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output? rope_freqs?=key/2",
      "attn_norm qkv attn_output ffn_norm ffn_gate ffn_down ffn_up" },
    { "exaone4", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output? rope_freqs?=key/2",
      "attn_qkv^=embd,heads*key+kvheads*key+kvheads*value attn_q.bias?=heads*key "
      "attn_k.bias?=kvheads*key attn_v.bias?=kvheads*value attn_output=embd,embd "
      "post_attention_norm attn_q_norm attn_k_norm ffn_gate ffn_down ffn_up post_ffw_norm "
      "trunk: attn_q| attn_k| attn_v| mtp: attn_q? attn_k? attn_v? "
      "attn_qkv.bias?=heads*key+kvheads*key+kvheads*value nextn.eh_proj nextn.enorm "
      "nextn.hnorm nextn.shared_head_norm?" },
    { "exaone-moe",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.sliding_window attention.layer_norm_rms_epsilon expert_feed_forward_length "
      "expert_gating_func",
      "token_embd output_norm output rope_freqs?=key/2",
      "attn_qkv^=embd,heads*key+2*kvheads*key attn_q.bias?=heads*key attn_k.bias?=kvheads*key "
      "attn_v.bias?=kvheads*key attn_output attn_norm attn_q_norm attn_k_norm ffn_norm trunk: "
      "attn_q| attn_k| attn_v|=embd,kvheads*key mtp: attn_q? attn_k? attn_v?=embd,kvheads*key "
      "ffn_gate ffn_down ffn_up attn_qkv.bias?=heads*key+2*kvheads*key nextn.eh_proj "
      "nextn.enorm nextn.hnorm nextn.shared_head_norm? nextn.embed_tokens? "
      "nextn.shared_head_head? dense: ffn_gate ffn_down ffn_up moe&trunk: ffn_gate_inp "
      "exp_probs_b.bias? ffn_gate_exps ffn_down_exps ffn_up_exps ffn_gate_shexp=embd,expff "
      "ffn_down_shexp=expff,embd ffn_up_shexp=embd,expff" },
    { "rwkv6qwen2",
      "feed_forward_length wkv.head_size time_mix_extra_dim time_decay_extra_dim "
      "token_shift_count",
      "token_embd output_norm output_norm.bias? output",
      "attn_norm time_mix_w1=embd,5*mix time_mix_w2=mix,embd,5 time_mix_lerp_x=embd,1,1 "
      "time_mix_lerp_fused=embd,1,1,5 time_mix_first?=wkv,heads time_mix_decay "
      "time_mix_decay_w1=embd,decay time_mix_decay_w2=decay,embd time_mix_key=any "
      "time_mix_value=any time_mix_receptance time_mix_gate time_mix_key.bias?=any "
      "time_mix_value.bias?=any time_mix_receptance.bias? time_mix_output ffn_norm ffn_gate "
      "ffn_down ffn_up" },
    { "arwkv7",
      "feed_forward_length wkv.head_size attention.decay_lora_rank attention.iclr_lora_rank "
      "attention.value_residual_mix_lora_rank token_shift_count",
      "token_embd output_norm output",
      "attn_norm time_mix_w0 time_mix_w1=embd,ldecay time_mix_w2=ldecay,embd time_mix_a0 "
      "time_mix_a1=embd,liclr time_mix_a2=liclr,embd time_mix_v0 time_mix_k_k time_mix_k_a "
      "time_mix_r_k time_mix_key time_mix_value time_mix_receptance time_mix_ln? "
      "time_mix_ln.bias? time_mix_output ffn_norm ffn_gate ffn_down ffn_up first: "
      "time_mix_v1=embd,liclr time_mix_v2=liclr,embd later: time_mix_v1=embd,lvalue "
      "time_mix_v2=lvalue,embd gate: time_mix_g1=embd,lgate time_mix_g2=lgate,embd "
      "time_mix_lerp_fused=embd,1,1,6 nogate: time_mix_lerp_fused=embd,1,1,5" },
    { "granitehybrid",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon "
      "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank ssm.group_count",
      "token_embd output_norm output? rope_freqs?=key/2",
      "attn_norm ffn_norm recurrent: ssm_in=embd,dtrank+2*inner+2*state*group "
      "ssm_conv1d=conv,inner+2*state*group ssm_conv1d.bias=inner+2*state*group "
      "ssm_dt.bias=dtrank ssm_a.=1,dtrank ssm_d.=1,dtrank ssm_norm=inner/group,group ssm_out "
      "dense: ffn_gate ffn_down ffn_up ffn_gate.bias? ffn_down.bias? ffn_up.bias? attention: "
      "qkv attn_output attn_output.bias? moe: ffn_gate_inp ffn_gate_exps?=embd,ff,experts "
      "ffn_down_exps=ff,embd,experts ffn_up_exps=embd,ff,experts ffn_gate_shexp ffn_up_shexp "
      "ffn_down_shexp" },
    { "graniteswitch",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon logit_scale "
      "adapters.count adapters.lora_rank adapters.token_ids_activate "
      "adapters.token_ids_substitute",
      "token_embd output_norm output?",
      "attn_norm attn_qkv=embd,heads*key+2*kvheads*key attn_output ffn_norm ffn_gate ffn_down "
      "ffn_up attn_q.lora_a.=embd,lorarank,adapters+1 "
      "attn_q.lora_b.=lorarank,heads*key,adapters+1 attn_k.lora_a.=embd,lorarank,adapters+1 "
      "attn_k.lora_b.=lorarank,kvheads*key,adapters+1 attn_v.lora_a.=embd,lorarank,adapters+1 "
      "attn_v.lora_b.=lorarank,kvheads*key,adapters+1 "
      "attn_output.lora_a.=heads*key,lorarank,adapters+1 "
      "attn_output.lora_b.=lorarank,embd,adapters+1 ffn_gate.lora_a.=embd,lorarank,adapters+1 "
      "ffn_gate.lora_b.=lorarank,ff,adapters+1 ffn_up.lora_a.=embd,lorarank,adapters+1 "
      "ffn_up.lora_b.=lorarank,ff,adapters+1 ffn_down.lora_a.=ff,lorarank,adapters+1 "
      "ffn_down.lora_b.=lorarank,embd,adapters+1" },
    { "granite_swa",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon logit_scale "
      "attention.sliding_window_pattern attention.sliding_window",
      "token_embd output_norm output? rope_freqs?=key/2",
      "attn_norm qkv attn_output attn_output.bias? attn_sinks ffn_norm dense: ffn_gate "
      "ffn_down ffn_up ffn_gate.bias? ffn_down.bias? ffn_up.bias? moe: ffn_gate_inp "
      "ffn_down_exps=ff,embd,experts ffn_gate_up_exps^=embd,2*ff,experts "
      "ffn_gate_exps|=embd,ff,experts ffn_up_exps|=embd,ff,experts shared: "
      "ffn_up_shexp=embd,2*sharedff ffn_down_shexp" },
    { "chameleon", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm attn_q_norm=key,heads attn_k_norm=key,kvheads attn_q_norm.bias?=key,heads "
      "attn_k_norm.bias?=key,kvheads qkv_e attn_output=embd,embd ffn_norm ffn_gate ffn_down "
      "ffn_up" },
    { "wavtokenizer-dec",
      "feed_forward_length features_length posnet.embedding_length posnet.block_count "
      "convnext.embedding_length convnext.block_count attention.layer_norm_epsilon "
      "attention.group_norm_epsilon attention.group_norm_groups",
      "token_embd conv1d=7,embd,posnet conv1d.bias=1,posnet posnet.0.norm1=1,posnet "
      "posnet.1.norm1=1,posnet posnet.3.norm1=1,posnet posnet.4.norm1=1,posnet "
      "posnet.0.norm1.bias=1,posnet posnet.1.norm1.bias=1,posnet posnet.3.norm1.bias=1,posnet "
      "posnet.4.norm1.bias=1,posnet posnet.0.conv1=3,posnet,posnet "
      "posnet.1.conv1=3,posnet,posnet posnet.3.conv1=3,posnet,posnet "
      "posnet.4.conv1=3,posnet,posnet posnet.0.conv1.bias=1,posnet "
      "posnet.1.conv1.bias=1,posnet posnet.3.conv1.bias=1,posnet posnet.4.conv1.bias=1,posnet "
      "posnet.0.norm2=1,posnet posnet.1.norm2=1,posnet posnet.3.norm2=1,posnet "
      "posnet.4.norm2=1,posnet posnet.0.norm2.bias=1,posnet posnet.1.norm2.bias=1,posnet "
      "posnet.3.norm2.bias=1,posnet posnet.4.norm2.bias=1,posnet "
      "posnet.0.conv2=3,posnet,posnet posnet.1.conv2=3,posnet,posnet "
      "posnet.3.conv2=3,posnet,posnet posnet.4.conv2=3,posnet,posnet "
      "posnet.0.conv2.bias=1,posnet posnet.1.conv2.bias=1,posnet posnet.3.conv2.bias=1,posnet "
      "posnet.4.conv2.bias=1,posnet posnet.2.attn_norm=1,posnet posnet.5.attn_norm=1,posnet "
      "posnet.2.attn_norm.bias=1,posnet posnet.5.attn_norm.bias=1,posnet "
      "posnet.2.attn_q=1,posnet,posnet posnet.2.attn_q.bias=1,posnet "
      "posnet.2.attn_k=1,posnet,posnet posnet.2.attn_k.bias=1,posnet "
      "posnet.2.attn_v=1,posnet,posnet posnet.2.attn_v.bias=1,posnet "
      "posnet.2.attn_output=1,posnet,posnet posnet.2.attn_output.bias=1,posnet "
      "token_embd_norm=posnet token_embd_norm.bias=posnet convnext.0.dw=7,1,posnet "
      "convnext.1.dw=7,1,posnet convnext.0.dw.bias=1,posnet convnext.1.dw.bias=1,posnet "
      "convnext.0.norm=posnet convnext.1.norm=posnet convnext.0.norm.bias=posnet "
      "convnext.1.norm.bias=posnet convnext.0.pw1=posnet,ff convnext.1.pw1=posnet,ff "
      "convnext.0.pw1.bias=ff convnext.1.pw1.bias=ff convnext.0.pw2=ff,posnet "
      "convnext.1.pw2=ff,posnet convnext.0.pw2.bias=posnet convnext.1.pw2.bias=posnet "
      "convnext.0.gamma=posnet convnext.1.gamma=posnet output_norm=posnet "
      "output_norm.bias=posnet output=posnet,embd output.bias=embd",
      "" },
    { "plm",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon "
      "attention.kv_lora_rank",
      "token_embd output_norm",
      "attn_norm attn_q attn_kv_a_mqa attn_kv_a_norm "
      "attn_kv_b=kvrank,heads*key-heads*rot+heads*value attn_output=heads*value,embd ffn_norm "
      "ffn_down ffn_up" },
    { "bailingmoe",
      "attention.head_count expert_count expert_used_count attention.layer_norm_rms_epsilon "
      "expert_feed_forward_length expert_shared_count",
      "token_embd output_norm output",
      "attn_norm qkv=heads*key:kvheads*key:kvheads*key attn_output ffn_norm ffn_gate_inp "
      "ffn_gate_exps ffn_down_exps ffn_up_exps ffn_gate_shexp=embd,expff*shared "
      "ffn_down_shexp=expff*shared,embd ffn_up_shexp=embd,expff*shared" },
    { "bailingmoe2",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon expert_feed_forward_length expert_shared_count "
      "expert_gating_func",
      "token_embd output_norm output",
      "attn_norm attn_qkv=embd,embd+2*kvheads*value attn_output attn_q_norm attn_k_norm "
      "ffn_norm dense: ffn_gate ffn_down ffn_up moe: ffn_gate_inp exp_probs_b.bias? "
      "ffn_gate_exps ffn_down_exps ffn_up_exps ffn_gate_shexp=embd,sharedff*shared "
      "ffn_down_shexp=sharedff*shared,embd ffn_up_shexp=embd,sharedff*shared mtp: "
      "nextn.eh_proj nextn.embed_tokens? nextn.enorm nextn.hnorm nextn.shared_head_head? "
      "nextn.shared_head_norm? layer_output_norm" },
    { "bailingmoe3",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.key_length attention.layer_norm_rms_epsilon attention.key_length_mla "
      "attention.value_length_mla attention.kv_lora_rank ssm.conv_kernel kda.head_dim "
      "kda.gate_lower_bound expert_feed_forward_length expert_shared_count "
      "leading_dense_block_count expert_gating_func",
      "token_embd output_norm output?",
      "attn_norm ffn_norm recurrent: ssm_conv1d_q=conv,1,heads*kdahead "
      "ssm_conv1d_k=conv,1,heads*kdahead ssm_conv1d_v=conv,1,heads*kdahead "
      "qkv=heads*kdahead:heads*kdahead:heads*kdahead ssm_f_a=embd,heads*kdahead "
      "ssm_beta=embd,heads ssm_a.=1,heads ssm_dt.bias=heads*kdahead "
      "ssm_g_a=embd,heads*kdahead ssm_norm=kdahead attn_output=heads*kdahead,embd attention: "
      "attn_output=heads*valuemla,embd attn_kv_a_mqa attn_kv_a_norm attn_k_b attn_v_b "
      "attn_gate=embd,heads dense: ffn_gate ffn_up ffn_down moe: ffn_gate_inp "
      "exp_probs_b.bias ffn_gate_exps ffn_up_exps ffn_down_exps ffn_gate_shexp ffn_up_shexp "
      "ffn_down_shexp attention&qlora: attn_q_a attn_q_a_norm attn_q_b attention&noqlora: "
      "attn_q=embd,heads*keymla" },
    { "dots1",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon expert_feed_forward_length expert_shared_count "
      "expert_gating_func",
      "token_embd output_norm output",
      "attn_norm qkv=heads*key:heads*key:heads*key attn_output attn_k_norm attn_q_norm "
      "ffn_norm dense: ffn_gate ffn_down ffn_up moe: ffn_gate_inp exp_probs_b.bias? "
      "ffn_gate_exps ffn_down_exps ffn_up_exps ffn_gate_shexp=embd,expff*shared "
      "ffn_down_shexp=expff*shared,embd ffn_up_shexp=embd,expff*shared" },
    { "dots3note",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.head_count_kv attention.key_length attention.layer_norm_rms_epsilon "
      "expert_shared_count expert_feed_forward_length leading_dense_block_count "
      "expert_gating_func attention.q_lora_rank attention.kv_lora_rank "
      "attention.key_length_mla attention.value_length_mla attention.kv_lora_rank_swa "
      "attention.key_length_mla_swa attention.value_length_mla_swa attention.sliding_window "
      "rope.freq_base_swa attention.sliding_window_pattern attention.indexer.head_count "
      "attention.indexer.key_length attention.indexer.top_k attention.indexer.types",
      "token_embd output_norm output?",
      "attn_norm attn_q_a_norm attn_k_norm=rot attn_q_a attn_gate=embd,heads ffn_norm dense: "
      "ffn_gate ffn_down ffn_up indexed: indexer.k_norm=ixkey indexer.k_norm.bias=ixkey "
      "indexer.proj=embd,ixheads indexer.attn_k=embd,ixkey "
      "indexer.attn_q_b=qrank,ixheads*ixkey moe: ffn_gate_inp exp_probs_b.bias ffn_gate_exps "
      "ffn_down_exps ffn_up_exps ffn_gate_shexp=embd,expff*shared "
      "ffn_down_shexp=expff*shared,embd ffn_up_shexp=embd,expff*shared full: attn_kv_a_norm "
      "attn_q_b attn_kv_a_mqa attn_k_b attn_v_b attn_output=heads*valuemla,embd swa: "
      "attn_kv_a_norm=kvrankswa attn_q_b=qrank,heads*kmlaswa attn_kv_a_mqa=embd,kvrankswa+rot "
      "attn_k_b=kmlaswa-rot,kvrankswa,heads attn_v_b=kvrankswa,vmlaswa,heads "
      "attn_output=heads*vmlaswa,embd" },
    { "arcee", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output? rope_freqs?=key/2",
      "attn_norm qkv attn_output ffn_norm ffn_down ffn_up" },
    { "afmoe",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon expert_feed_forward_length expert_shared_count "
      "attention.sliding_window",
      "token_embd output_norm output?",
      "attn_norm post_attention_norm qkv attn_output attn_q_norm attn_k_norm "
      "attn_gate=embd,heads*key ffn_norm post_ffw_norm dense: ffn_gate ffn_down ffn_up moe: "
      "ffn_gate_inp exp_probs_b.bias ffn_gate_exps ffn_down_exps ffn_up_exps "
      "ffn_gate_shexp=embd,expff*shared ffn_down_shexp=expff*shared,embd "
      "ffn_up_shexp=embd,expff*shared" },
    { "laguna",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon leading_dense_block_count expert_feed_forward_length",
      "token_embd output_norm output?",
      "attn_norm qkv attn_output attn_q_norm attn_k_norm attn_gate=embd,heads ffn_norm dense: "
      "ffn_gate ffn_up ffn_down moe: ffn_gate_inp exp_probs_b.bias ffn_gate_exps ffn_up_exps "
      "ffn_down_exps ffn_gate_shexp ffn_up_shexp ffn_down_shexp" },
    { "ernie4_5", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm qkv_v attn_output attn_output.bias? ffn_norm ffn_gate ffn_down ffn_up" },
    { "ernie4_5-moe",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon expert_feed_forward_length interleave_moe_layer_step",
      "token_embd output_norm output?",
      "attn_norm qkv_v attn_output attn_output.bias? ffn_norm dense: ffn_gate ffn_down ffn_up "
      "moe: ffn_gate_inp exp_probs_b.bias? ffn_gate_exps? ffn_down_exps ffn_up_exps "
      "moe&shared: ffn_gate_shexp ffn_down_shexp ffn_up_shexp" },
    { "hunyuan-moe",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon expert_feed_forward_length",
      "token_embd output_norm output?",
      "attn_norm qkv attn_output attn_k_norm attn_q_norm ffn_norm ffn_gate_inp "
      "ffn_gate_exps=embd,ff,experts ffn_down_exps=ff,embd,experts "
      "ffn_up_exps=embd,ff,experts ffn_gate_shexp ffn_up_shexp ffn_down_shexp" },
    { "hunyuan-dense hunyuan_vl",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm qkv attn_output attn_k_norm attn_q_norm ffn_norm ffn_gate ffn_down ffn_up" },
    { "hy_v3", "attention.head_count attention.layer_norm_rms_epsilon expert_feed_forward_length",
      "token_embd output_norm output?",
      "attn_norm qkv attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate? ffn_down? ffn_up? "
      "ffn_gate_inp^ exp_probs_b.?=experts ffn_down_exps& gate_up_exps& ffn_gate_shexp? "
      "ffn_up_shexp? ffn_down_shexp? mtp: nextn.eh_proj nextn.enorm nextn.hnorm "
      "nextn.embed_tokens? nextn.shared_head_head? nextn.shared_head_norm?" },
    { "hy_v4",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.head_count_kv attention.key_length rope.dimension_count "
      "attention.layer_norm_rms_epsilon attention.q_lora_rank attention.kv_lora_rank "
      "attention.key_length_mla attention.value_length_mla expert_feed_forward_length "
      "expert_shared_count expert_gating_func hyper_connection.count hyper_connection.epsilon "
      "hyper_connection.magnitude attention.indexer.head_count attention.indexer.key_length",
      "token_embd output_norm output output_hc_fn=hc*embd,hc output_hc_base=hc "
      "output_hc_scale=1",
      "attn_norm attn_sinks attn_q_a attn_q_a_norm attn_q_b attn_kv_a_mqa attn_kv_a_norm "
      "attn_k_b attn_v_b attn_output=heads*valuemla,embd attn_gate=embd,heads*valuemla "
      "hc_attn_fn=hc*embd,2*hc hc_attn_base=2*hc hc_attn_scale=2 hc_ffn_fn=hc*embd,2*hc "
      "hc_ffn_base=2*hc hc_ffn_scale=2 ffn_norm indexed: indexer.attn_q_b=qrank,ixheads*ixkey "
      "indexer.attn_k=embd,ixkey indexer.k_norm=ixkey indexer.k_norm.bias=ixkey "
      "indexer.proj=embd,ixheads dense: ffn_gate ffn_down ffn_up moe: ffn_gate_inp "
      "exp_probs_b.bias? ffn_gate_exps ffn_up_exps ffn_down_exps "
      "ffn_gate_shexp=embd,expff*shared ffn_down_shexp=expff*shared,embd "
      "ffn_up_shexp=embd,expff*shared" },
    { "smollm3", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm qkv attn_output ffn_norm ffn_gate ffn_down ffn_up" },
    { "lfm2",
      "attention.head_count feed_forward_length shortconv.l_cache "
      "attention.layer_norm_rms_epsilon",
      "token_embd token_embd_norm output? dense_2?=embd,embd dense_2.bias?=embd",
      "ffn_norm ffn_gate ffn_down ffn_up attn_norm recurrent: shortconv.conv=lcache,embd "
      "shortconv.in_proj=embd,3*embd shortconv.out_proj=embd,embd attention: attn_q_norm "
      "attn_k_norm qkv=embd:kvheads*key:kvheads*value attn_output=embd,embd" },
    { "lfm2moe",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "shortconv.l_cache attention.layer_norm_rms_epsilon expert_feed_forward_length "
      "expert_gating_func",
      "token_embd token_embd_norm output? dense_2?=embd,embd dense_2.bias?=embd",
      "ffn_norm attn_norm dense: ffn_gate ffn_down ffn_up recurrent: "
      "shortconv.conv=lcache,embd shortconv.in_proj=embd,3*embd shortconv.out_proj=embd,embd "
      "moe: ffn_gate_inp ffn_gate_exps ffn_down_exps ffn_up_exps exp_probs_b.bias attention: "
      "attn_q_norm attn_k_norm qkv=embd:kvheads*key:kvheads*value attn_output=embd,embd" },
    { "dream", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output? output.bias?",
      "attn_norm qkv_e attn_output=embd,embd ffn_norm ffn_gate ffn_down ffn_up" },
    { "smallthinker",
      "attention.head_count expert_count expert_used_count expert_feed_forward_length "
      "attention.layer_norm_rms_epsilon expert_gating_func",
      "token_embd output_norm output?",
      "attn_norm qkv_v attn_output ffn_norm ffn_gate_inp ffn_gate_exps ffn_down_exps "
      "ffn_up_exps" },
    { "llada-moe",
      "attention.head_count expert_count expert_used_count attention.layer_norm_rms_epsilon",
      "token_embd output_norm output",
      "attn_norm qkv_e attn_output=embd,embd attn_q_norm attn_k_norm ffn_norm ffn_gate_inp "
      "ffn_gate_exps ffn_down_exps ffn_up_exps" },
    { "seed_oss", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "qkv=heads*key:kvheads*key:kvheads*key attn_output attn_norm post_attention_norm "
      "ffn_gate ffn_up ffn_down" },
    { "grovemoe",
      "attention.head_count expert_count expert_used_count expert_feed_forward_length "
      "expert_group_scale experts_per_group attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm qkv_v attn_output attn_k_norm attn_q_norm ffn_norm ffn_gate_inp "
      "ffn_gate_exps ffn_down_exps ffn_up_exps ffn_gate_chexps=embd,chunkff,experts/pergroup "
      "ffn_down_chexps=chunkff,embd,experts/pergroup "
      "ffn_up_chexps=embd,chunkff,experts/pergroup" },
    { "apertus",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon "
      "/xielu.alpha_n /xielu.alpha_p /xielu.beta /xielu.eps",
      "token_embd output_norm output rope_freqs?=key/2",
      "attn_norm qkv_v attn_output attn_output.bias? ffn_norm ffn_down ffn_up attn_q_norm "
      "attn_q_norm.bias?=key attn_k_norm attn_k_norm.bias?=key" },
    { "minimax-01",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon residual_scale",
      "token_embd output_norm output?",
      "attn_norm attn_output ffn_norm ffn_gate_inp ffn_gate_exps?=embd,ff,experts "
      "ffn_down_exps=ff,embd,experts ffn_up_exps=embd,ff,experts recurrent: "
      "attn_norm_2=heads*key attn_qkv=embd,3*heads*key attn_gate=embd,heads*key attention: "
      "qkv" },
    { "hrm_text",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon "
      "hrm.layers_per_stack hrm.h_cycles hrm.l_cycles",
      "token_embd output? hrm.z_l_init.=embd",
      "stack: qkv attn_gate=embd,heads*key attn_output ffn_gate ffn_down ffn_up" },
    { "minimax-m2",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon expert_feed_forward_length expert_gating_func",
      "token_embd output_norm output",
      "qkv_v attn_output attn_norm attn_q_norm=heads*key attn_k_norm=kvheads*key ffn_norm "
      "ffn_gate_inp ffn_gate_exps=embd,ff,experts ffn_down_exps=ff,embd,experts "
      "ffn_up_exps=embd,ff,experts exp_probs_b.bias" },
    { "minimax-m3",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon expert_feed_forward_length expert_shared_count "
      "expert_gating_func attention.indexer.head_count attention.indexer.key_length "
      "attention.indexer.top_k attention.indexer.block_size attention.indexer.local_blocks",
      "token_embd output_norm output",
      "qkv_v attn_output attn_norm attn_q_norm attn_k_norm ffn_norm dense: ffn_gate ffn_down "
      "ffn_up moe: ffn_gate_inp exp_probs_b.bias ffn_gate_exps ffn_down_exps ffn_up_exps "
      "ffn_gate_shexp=embd,expff*shared ffn_down_shexp=expff*shared,embd "
      "ffn_up_shexp=embd,expff*shared indexer.q_proj=embd,ixheads*ixkey "
      "indexer.k_proj=embd,ixkey indexer.q_norm=ixkey indexer.k_norm=ixkey" },
    { "cogvlm", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output? rope_freqs?=key/2",
      "attn_norm attn_qkv=embd,3*heads*key attn_output vis_attn_qkv=embd,3*heads*key "
      "vis_attn_output=heads*key,embd ffn_norm ffn_gate ffn_down ffn_up vis_gate=embd,ff "
      "vis_down=ff,embd vis_up=embd,ff" },
    { "rnd1",
      "attention.head_count expert_count expert_used_count attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm qkv_v attn_output attn_k_norm attn_q_norm ffn_norm ffn_gate_inp "
      "ffn_gate_exps ffn_down_exps ffn_up_exps" },
    { "pangu-embedded", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output? rope_freqs?=key/2",
      "attn_norm qkv attn_output attn_output.bias ffn_norm ffn_gate ffn_down ffn_up" },
    { "eagle3",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon "
      "target_layers target_hidden_size",
      "token_embd?=any fc=3*hidden,embd enc.output_norm?=3*hidden output_norm output?=any "
      "d2t.?=any rope_freqs?=key/2",
      "attn_norm attn_norm_2 attn_q=2*embd,heads*key attn_k=2*embd,kvheads*key "
      "attn_v=2*embd,kvheads*value attn_output ffn_norm ffn_gate ffn_down ffn_up" },
    { "dflash",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon "
      "target_layers",
      "token_embd? fc=targets*embd,embd enc.output_norm output_norm output?=any d2t.?=any "
      "rope_freqs?=key/2 markov_w1?=any markov_w2?=any conf_proj?=any conf_proj.bias?=1 "
      "selector_predecessor?=any selector_successor?=any selector_hidden?=any",
      "attn_norm attn_q attn_k attn_v? attn_output attn_q_norm attn_k_norm "
      "post_attention_norm? post_ffw_norm? layer_output_scale?=1 attn_sinks? ffn_norm "
      "ffn_gate ffn_down ffn_up attn_conv_base.?=any attn_conv_proj?=any ffn_conv_base.?=any "
      "ffn_conv_proj?=any" },
    { "mistral4",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.head_count_kv attention.key_length rope.dimension_count "
      "attention.layer_norm_rms_epsilon attention.q_lora_rank attention.kv_lora_rank "
      "expert_feed_forward_length expert_shared_count",
      "token_embd output_norm output?",
      "attn_norm attn_q_a_norm attn_kv_a_norm attn_q_a attn_q_b attn_kv_a_mqa "
      "attn_output=heads*valuemla,embd ffn_norm dense: ffn_gate ffn_down ffn_up moe: "
      "ffn_gate_inp exp_probs_b.bias? ffn_down_exps gate_up_exps "
      "ffn_gate_shexp=embd,expff*shared ffn_down_shexp=expff*shared,embd "
      "ffn_up_shexp=embd,expff*shared mla: attn_k_b attn_v_b nomla: attn_kv_b" },
    { "paddleocr",
      "attention.head_count feed_forward_length rope.dimension_sections "
      "attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm qkv_v attn_output attn_output.bias? ffn_norm ffn_gate ffn_down ffn_up" },
    { "mimo2",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.layer_norm_rms_epsilon expert_feed_forward_length attention.sliding_window "
      "attention.sliding_window_pattern",
      "token_embd output_norm output",
      "attn_qkv^=embd,heads*key+2*kvheads*key attn_q.bias?=heads*key attn_k.bias?=kvheads*key "
      "attn_v.bias?=kvheads*key attn_output attn_norm attn_sinks? ffn_norm trunk: attn_q| "
      "attn_k| attn_v|=embd,kvheads*key mtp: attn_q? attn_k? attn_v?=embd,kvheads*key "
      "attn_qkv.bias?=heads*key+2*kvheads*key nextn.eh_proj nextn.enorm nextn.hnorm "
      "nextn.embed_tokens? nextn.shared_head_head? nextn.shared_head_norm? layer_output_norm? "
      "dense: ffn_gate? ffn_down ffn_up ffn_gate_inp? ffn_gate_exps? ffn_down_exps? "
      "ffn_up_exps? exp_probs_b.bias? moe: ffn_gate? ffn_down? ffn_up? ffn_gate_inp? "
      "ffn_gate_exps? ffn_down_exps? ffn_up_exps? exp_probs_b.bias?" },
    { "step35",
      "attention.head_count attention.layer_norm_rms_epsilon expert_feed_forward_length "
      "attention.sliding_window attention.sliding_window_pattern",
      "token_embd output_norm output rope_freqs?=any",
      "attn_norm attn_q_norm? attn_k_norm? attn_qkv^=embd,heads*key+kvheads*key+kvheads*value "
      "attn_q.bias?=heads*key attn_k.bias?=kvheads*key attn_v.bias?=kvheads*value "
      "attn_output=heads*value,embd attn_gate?=embd,heads ffn_norm trunk: attn_q| attn_k| "
      "attn_v| mtp: attn_q? attn_k? attn_v? "
      "attn_qkv.bias?=heads*key+kvheads*key+kvheads*value nextn.eh_proj nextn.enorm "
      "nextn.hnorm nextn.embed_tokens? nextn.shared_head_head? nextn.shared_head_norm? dense: "
      "ffn_gate? ffn_down ffn_up ffn_gate_inp? ffn_gate_exps? ffn_down_exps? ffn_up_exps? "
      "exp_probs_b.bias? ffn_gate_shexp? ffn_up_shexp? ffn_down_shexp? moe: ffn_gate? "
      "ffn_down? ffn_up? ffn_gate_inp? ffn_gate_exps? ffn_down_exps? ffn_up_exps? "
      "exp_probs_b.bias? ffn_gate_shexp? ffn_up_shexp? ffn_down_shexp?" },
    { "spark2_5",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon "
      "attention.sliding_window attention.sliding_window_pattern",
      "token_embd output_norm output?",
      "attn_norm qkv attn_gate=embd,heads attn_output ffn_norm ffn_gate ffn_up ffn_down" },
    { "maincoder", "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?",
      "attn_norm qkv_v attn_output attn_k_norm attn_q_norm ffn_norm ffn_gate ffn_down ffn_up" },
    { "kimi-linear",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.key_length attention.layer_norm_rms_epsilon attention.key_length_mla "
      "attention.value_length_mla attention.kv_lora_rank ssm.conv_kernel kda.head_dim "
      "expert_feed_forward_length expert_shared_count expert_gating_func",
      "token_embd output_norm output",
      "attn_norm ffn_norm recurrent: ssm_conv1d_q=conv,1,heads*kdahead "
      "ssm_conv1d_k=conv,1,heads*kdahead ssm_conv1d_v=conv,1,heads*kdahead "
      "qkv=heads*kdahead:heads*kdahead:heads*kdahead ssm_f_a=embd,kdahead "
      "ssm_f_b=kdahead,heads*kdahead ssm_beta=embd,heads ssm_a.=1,heads "
      "ssm_dt.bias=heads*kdahead ssm_g_a=embd,kdahead ssm_g_b=kdahead,heads*kdahead "
      "ssm_norm=kdahead attn_output=heads*kdahead,embd attention: attn_q=embd,heads*keymla "
      "attn_output=heads*valuemla,embd attn_kv_a_norm attn_kv_a_mqa attn_kv_b? attn_k_b "
      "attn_v_b dense: ffn_gate ffn_down ffn_up moe: ffn_gate_inp ffn_gate_exps ffn_down_exps "
      "ffn_up_exps ffn_gate_shexp?=embd,expff*shared ffn_down_shexp?=expff*shared,embd "
      "ffn_up_shexp?=embd,expff*shared exp_probs_b.bias" },
    { "kimi-k3",
      "attention.head_count feed_forward_length expert_count expert_used_count "
      "attention.key_length attention.layer_norm_rms_epsilon attention.key_length_mla "
      "attention.value_length_mla attention.kv_lora_rank ssm.conv_kernel kda.head_dim "
      "expert_feed_forward_length expert_shared_count expert_gating_func attn_res.block_size "
      "activation.situ_beta activation.situ_linear_beta",
      "token_embd output_norm output output_res_score=embd",
      "attn_norm ffn_norm attn_res_score=embd ffn_res_score=embd recurrent: "
      "ssm_conv1d_q=conv,1,heads*kdahead ssm_conv1d_k=conv,1,heads*kdahead "
      "ssm_conv1d_v=conv,1,heads*kdahead qkv=heads*kdahead:heads*kdahead:heads*kdahead "
      "ssm_f_a=embd,kdahead ssm_f_b=kdahead,heads*kdahead ssm_beta=embd,heads ssm_a.=heads "
      "ssm_dt.bias=heads*kdahead ssm_g=embd,heads*kdahead ssm_norm=kdahead "
      "attn_output=heads*kdahead,embd attention: attn_q=embd,heads*keymla "
      "attn_output=heads*valuemla,embd attn_q_a_norm? attn_kv_a_norm attn_kv_a_mqa attn_kv_b? "
      "attn_k_b attn_v_b attn_gate?=embd,heads*valuemla dense: ffn_gate ffn_down ffn_up moe: "
      "ffn_gate_inp exp_probs_b.bias ffn_gate_shexp?=embd,expff*shared "
      "ffn_down_shexp?=expff*shared,embd ffn_up_shexp?=embd,expff*shared nolatent&moe: "
      "ffn_gate_exps ffn_down_exps ffn_up_exps latent&moe: ffn_gate_exps=latent,expff,experts "
      "ffn_down_exps=expff,latent,experts ffn_up_exps=latent,expff,experts "
      "ffn_routed_down=embd,latent ffn_routed_up=latent,embd ffn_routed_norm?=latent" },
    { "talkie",
      "attention.head_count feed_forward_length attention.layer_norm_rms_epsilon logit_scale",
      "token_embd output",
      "qkv_v attn_output attn_q_norm=1,heads ffn_gate ffn_up ffn_down layer_output_scale=1" },
    { "mellum",
      "attention.head_count expert_count expert_used_count attention.layer_norm_rms_epsilon "
      "expert_feed_forward_length",
      "token_embd output_norm output",
      "attn_norm qkv_v attn_output attn_k_norm attn_q_norm ffn_norm ffn_gate_inp "
      "ffn_gate_exps ffn_down_exps ffn_up_exps" },
    { "qwen3tts",
      "attention.head_count feed_forward_length rope.dimension_sections "
      "attention.layer_norm_rms_epsilon",
      "token_embd output_norm output?=embd,3072 cls.output?=any",
      "attn_norm qkv_v attn_output attn_k_norm attn_q_norm ffn_norm ffn_gate ffn_down ffn_up" },
    { "pockettts", "attention.head_count feed_forward_length attention.layer_norm_epsilon",
      "token_embd output_norm output_norm.bias",
      "attn_norm attn_norm.bias qkv=embd:heads*value:heads*value attn_output=embd,embd "
      "ffn_norm ffn_norm.bias ffn_down ffn_up" },
    { NULL, NULL, NULL, NULL },
};

const check_key_types gg_check_key_types[] = {
    { "arr[i32]",
      "deepstack_mapping adapters.token_ids_activate adapters.token_ids_substitute "
      "target_layers",
      "*" },
    { "arr[str]", "classifier.output_labels", "*" },
    { "arr[u32]", "attention.rope_pattern", "*" },
    { "arr[u32]", "attention.indexer.types", "dots3note" },
    { "arr[u32]", "attention.sliding_window_pattern",
      "llama4 gemma2 gemma3n gemma4 gemma4-assistant gemma-embedding maple cohere2 cohere2moe "
      "muse-glimmer exaone-moe granite_swa dots3note afmoe gpt-oss mimo2 step35 spark2_5" },
    { "arr_len", "ple.layers", "*" },
    { "arr_len", "attention.compress_ratios", "deepseek4" },
    { "bool",
      "/tokenizer.ggml.add_bos_token /tokenizer.ggml.add_eos_token "
      "/tokenizer.ggml.add_sep_token /tokenizer.ggml.add_space_prefix "
      "/tokenizer.ggml.normalizer.lowercase /tokenizer.ggml.normalizer.strip_accents "
      "/tokenizer.ggml.remove_extra_whitespaces attention.causal rope.scaling.finetuned "
      "use_parallel_residual ssm.dt_b_c_rms swin_norm kda.safe_gate hrm.prefix_lm "
      "norm_before_residual norm_before_fc skip_loop_final_norm",
      "*" },
    { "bool", "expert_weights_norm",
      "cohere2moe deepseek2 deepseek2-ocr deepseek32 deepseek4 glm4moe glm-dsa nemotron_h "
      "nemotron_h_moe exaone-moe bailingmoe bailingmoe2 bailingmoe3 dots1 dots3note afmoe "
      "laguna hy_v3 hy_v4 minimax-m3 mistral4 step35 kimi-k3" },
    { "f32",
      "rope.freq_base rope.scale_linear rope.scaling.alpha rope.scaling.attn_factor "
      "rope.scaling.factor attention.layer_norm_rms_epsilon attention.output_scale "
      "attn_logit_softcapping router_logit_softcapping rope.scaling.yarn_ext_factor "
      "rope.scaling.yarn_attn_factor rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow "
      "attention.clamp_kqv attention.max_alibi_bias rope.scaling.yarn_log_multiplier "
      "attention.temperature_scale attention.compress_rope_freq_base hyper_connection.epsilon "
      "adapters.router_gain attention.group_norm_epsilon kda.gate_lower_bound "
      "hyper_connection.magnitude expert_group_scale attention.value_scale "
      "activation.situ_beta activation.situ_linear_beta",
      "*" },
    { "f32", "expert_weights_scale",
      "cohere2moe deepseek deepseek2 deepseek2-ocr deepseek32 deepseek4 glm4moe glm-dsa "
      "nemotron_h nemotron_h_moe exaone-moe bailingmoe bailingmoe2 bailingmoe3 dots1 "
      "dots3note afmoe laguna hy_v3 hy_v4 minimax-m3 mistral4 step35 kimi-linear kimi-k3" },
    { "f32", "attention.layer_norm_epsilon",
      "falcon gpt2 gptneox mpt starcoder bert modern-bert nomic-bert nomic-bert-moe "
      "jina-bert-v2 jina-bert-v3 bloom stablelm phi2 codeshell orion starcoder2 command-r "
      "cohere2 cohere2moe dbrx olmo jais jais2 nemotron nemotron_h nemotron_h_moe rwkv6 "
      "rwkv6qwen2 rwkv7 arwkv7 wavtokenizer-dec pockettts" },
    { "f32", "attention.scale",
      "granite granitemoe granitehybrid graniteswitch granite_swa dflash" },
    { "f32", "final_logit_softcapping", "grok gemma2 gemma3 gemma4 muse-glimmer dflash" },
    { "f32", "logit_scale",
      "grok minicpm command-r cohere2 cohere2moe muse-glimmer granite granitemoe "
      "granitehybrid graniteswitch granite_swa dflash talkie" },
    { "f32", "embedding_scale",
      "grok minicpm granite granitemoe granitehybrid graniteswitch granite_swa hrm_text "
      "dflash" },
    { "f32", "rope.freq_base_swa",
      "llama4 gemma2 gemma3n gemma4 gemma4-assistant gemma-embedding maple cohere2 cohere2moe "
      "muse-glimmer exaone-moe dots3note afmoe gpt-oss mimo2 step35 spark2_5" },
    { "f32", "residual_scale",
      "minicpm granite granitemoe granitehybrid graniteswitch granite_swa minimax-01" },
    { "f32|arr", "swiglu_clamp_shexp /xielu.alpha_n /xielu.alpha_p /xielu.beta /xielu.eps", "*" },
    { "f32|arr", "swiglu_clamp_exp", "maple deepseek4 bailingmoe3 hy_v4 step35" },
    { "i32|arr", "rope.dimension_sections",
      "qwen2vl qwen3vl qwen3vlmoe qwen35 qwen35moe qwen4exp deepseek32 glm4 glm4moe glm-dsa "
      "ernie4_5 ernie4_5-moe hunyuan-dense hunyuan_vl dflash paddleocr qwen3tts" },
    { "str",
      "/general.architecture /general.name /tokenizer.ggml.model /tokenizer.ggml.pre "
      "rope.scaling.type hidden_activation",
      "*" },
    { "u32",
      "/general.file_type /tokenizer.ggml.bos_token_id /tokenizer.ggml.eom_token_id "
      "/tokenizer.ggml.eos_token_id /tokenizer.ggml.eot_token_id "
      "/tokenizer.ggml.fim_mid_token_id /tokenizer.ggml.fim_pad_token_id "
      "/tokenizer.ggml.fim_pre_token_id /tokenizer.ggml.fim_rep_token_id "
      "/tokenizer.ggml.fim_sep_token_id /tokenizer.ggml.fim_suf_token_id "
      "/tokenizer.ggml.mask_token_id /tokenizer.ggml.middle_token_id "
      "/tokenizer.ggml.padding_token_id /tokenizer.ggml.prefix_token_id "
      "/tokenizer.ggml.seperator_token_id /tokenizer.ggml.suffix_token_id "
      "/tokenizer.ggml.token_type_count /tokenizer.ggml.unknown_token_id attention.key_length "
      "attention.key_length_swa attention.value_length attention.value_length_swa block_count "
      "context_length embedding_length embedding_length_out expert_group_count "
      "expert_group_used_count nextn_predict_layers pooling_type rope.dimension_count "
      "rope.dimension_count_swa rope.scaling.original_context_length expert_count vocab_size "
      "interleave_moe_layer_step attention.temperature_length moe_every_n_layers "
      "n_deepstack_layers hyper_connection.count hyper_connection.low_rank "
      "attention.shared_kv_layers embedding_length_per_layer_input dense_2_feat_in "
      "dense_2_feat_out dense_3_feat_in dense_3_feat_out attention.output_group_count "
      "attention.output_lora_rank hyper_connection.sinkhorn_iterations hash_layer_count "
      "attention.relative_buckets_count decoder_start_token_id decoder_block_count "
      "moe_latent_size wkv.head_size time_mix_extra_dim time_decay_extra_dim "
      "rescale_every_n_layers token_shift_count attention.decay_lora_rank "
      "attention.iclr_lora_rank attention.value_residual_mix_lora_rank "
      "attention.gate_lora_rank adapters.count adapters.lora_rank features_length "
      "posnet.embedding_length posnet.block_count convnext.embedding_length "
      "convnext.block_count attention.group_norm_groups kda.head_dim "
      "attention.kv_lora_rank_swa attention.key_length_mla_swa attention.value_length_mla_swa "
      "shortconv.l_cache expert_chunk_feed_forward_length experts_per_group "
      "hrm.layers_per_stack hrm.h_cycles hrm.l_cycles attention.indexer.block_size "
      "attention.indexer.local_blocks target_hidden_size block_size conv_kernel_size "
      "conv_group_size selector_rank selector_top_k expert_latent_length attn_res.block_size "
      "num_loops",
      "*" },
    { "u32", "expert_shared_count",
      "cohere2moe deepseek deepseek2 deepseek2-ocr deepseek32 deepseek4 glm4moe glm-dsa "
      "nemotron_h nemotron_h_moe exaone-moe bailingmoe bailingmoe2 bailingmoe3 dots1 "
      "dots3note afmoe laguna hy_v4 minimax-m3 mistral4 kimi-linear kimi-k3" },
    { "u32", "leading_dense_block_count",
      "cohere2moe deepseek deepseek2 deepseek2-ocr deepseek32 glm4moe glm-dsa exaone-moe "
      "bailingmoe bailingmoe2 bailingmoe3 dots1 dots3note afmoe laguna ernie4_5-moe hy_v4 "
      "lfm2moe minimax-m3 mistral4 kimi-linear kimi-k3" },
    { "u32", "expert_gating_func",
      "cohere2moe deepseek2 deepseek2-ocr deepseek32 deepseek4 glm4moe glm-dsa exaone-moe "
      "bailingmoe2 bailingmoe3 dots1 dots3note afmoe laguna hy_v3 hy_v4 lfm2moe smallthinker "
      "minimax-m2 minimax-m3 mistral4 step35 kimi-linear kimi-k3" },
    { "u32", "attention.key_length_mla attention.value_length_mla",
      "deepseek2 deepseek32 glm-dsa bailingmoe3 dots3note hy_v4 mistral4 kimi-linear kimi-k3" },
    { "u32", "attention.sliding_window",
      "llama4 modern-bert phi3 plamo3 gemma2 gemma3 gemma3n gemma4 gemma4-assistant "
      "gemma-embedding maple cohere2 cohere2moe olmo2 muse-glimmer deepseek4 exaone4 "
      "exaone-moe granite_swa dots3note afmoe laguna gpt-oss lfm2 smallthinker dflash mimo2 "
      "step35 spark2_5 mellum" },
    { "u32", "attention.q_lora_rank",
      "minicpm3 deepseek2 deepseek32 deepseek4 glm-dsa bailingmoe3 dots3note hy_v4 mistral4 "
      "kimi-k3" },
    { "u32", "attention.kv_lora_rank",
      "minicpm3 deepseek2 deepseek32 glm-dsa plm bailingmoe3 dots3note hy_v4 mistral4 "
      "kimi-linear kimi-k3" },
    { "u32", "expert_shared_feed_forward_length",
      "qwen2moe qwen3next qwen35moe qwen4exp cohere2moe nemotron_h nemotron_h_moe exaone-moe "
      "granite granitemoe granitehybrid graniteswitch granite_swa bailingmoe2 bailingmoe3 "
      "laguna ernie4_5-moe hunyuan-moe hy_v3 step35" },
    { "u32", "full_attention_interval", "qwen3next qwen35 qwen35moe qwen4exp minimax-01" },
    { "u32", "ssm.inner_size ssm.state_size ssm.time_step_rank",
      "qwen3next qwen35 qwen35moe qwen4exp plamo2 mamba mamba2 jamba falcon-h1 nemotron_h "
      "nemotron_h_moe granitehybrid" },
    { "u32", "ssm.conv_kernel",
      "qwen3next qwen35 qwen35moe qwen4exp plamo2 mamba mamba2 jamba falcon-h1 nemotron_h "
      "nemotron_h_moe granitehybrid bailingmoe3 kimi-linear kimi-k3" },
    { "u32", "ssm.group_count",
      "qwen3next qwen35 qwen35moe qwen4exp plamo2 mamba2 falcon-h1 nemotron_h nemotron_h_moe "
      "granitehybrid" },
    { "u32", "attention.indexer.head_count attention.indexer.key_length attention.indexer.top_k",
      "qwen4exp deepseek32 deepseek4 glm-dsa dots3note hy_v4 minimax-m3" },
    { "u32|arr",
      "attention.head_count attention.head_count_kv feed_forward_length expert_used_count", "*" },
    { "u32|arr", "attention.indexer.types", "glm-dsa hy_v4" },
    { "u32|arr", "expert_feed_forward_length",
      "llama4 grok qwen2moe qwen3moe qwen3next qwen3vlmoe qwen35moe qwen4exp gemma4 maple "
      "cohere2moe deepseek deepseek2 deepseek2-ocr deepseek32 deepseek4 glm4moe glm-dsa "
      "nemotron_h nemotron_h_moe exaone-moe bailingmoe bailingmoe2 bailingmoe3 dots1 "
      "dots3note afmoe laguna ernie4_5-moe hunyuan-moe hy_v3 hy_v4 gpt-oss lfm2moe "
      "smallthinker llada-moe grovemoe minimax-m2 minimax-m3 rnd1 mistral4 mimo2 step35 "
      "kimi-linear kimi-k3 mellum" },
    { "u32|arr", "attention.recurrent_layers", "qwen3next qwen35 qwen35moe qwen4exp minimax-01" },
    { "u32|arr", "attention.compress_ratios", "qwen4exp" },
    { NULL, NULL, NULL },
};
