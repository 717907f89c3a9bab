/* check_arch.c - tables per architecture: what cannot be derived from a model itself.
 *
 * A table is text. `keys` are keys that an engine requires; a key that begins with
 * "/" does not begin with the architecture. `globals` and `block` list
 * tensors: "attn_norm" is attn_norm.weight, a name that contains a dot is used unchanged, and
 * "ssm_a." is ssm_a without a suffix. A "?" at the end marks a tensor that may be absent.
 * "NAME=SHAPE" overrides the usual shape from gg_check_shape_of. A word that ends
 * in ":" limits the words after it to some blocks or models:
 *
 *   all:             every block
 *   dense: moe:      blocks without experts, blocks with experts
 *   shared:          models that also have a shared expert
 *   mtp: trunk:      prediction blocks, which follow the trunk; blocks of the trunk
 *   recurrent: attention:   blocks with a state, other blocks
 *   swa: full:       blocks with a sliding window, blocks without one
 *   enc: dec:        blocks of the encoder, blocks of the decoder
 *   first: later:    block 0, all other blocks
 *
 * check_blocks.c has the others. "a&b:" means both. "X^" may be present; then words with "|" at
 * the end are not, and those with "&" are.
 *
 * "qkv=Q:K:V" stands for attn_qkv, or attn_q, attn_k and attn_v, with these rows. Without a shape,
 * the letter after the underscore selects the source of their sizes: qkv_e (embedding length),
 * qkv_r (RoPE dimensions), qkv_v (value length). "gate_up_exps" stands for ffn_gate_up_exps, or
 * ffn_gate_exps and ffn_up_exps.
 */
#include "check_context.h"

#include <string.h>

#define RMS " attention.layer_norm_rms_epsilon "
#define EPS " attention.layer_norm_epsilon "
#define ATTN " attention.head_count feed_forward_length "
#define TIED " token_embd output_norm output? "
#define OUT " token_embd output_norm output "
#define GATED " ffn_gate ffn_up ffn_down "
#define EXPERTS " ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps "
#define NEXTN \
    " mtp: nextn.eh_proj nextn.enorm nextn.hnorm nextn.embed_tokens? nextn.shared_head_head? " \
    "nextn.shared_head_norm? "
#define ROPE " rope_freqs? rope_factors_long? rope_factors_short? "

static const check_arch table[] = {
    { "llama mistral3", RMS ATTN, TIED ROPE,
      "attn_norm qkv attn_output attn_output.bias? ffn_norm dense: " GATED
      " ffn_gate.bias? ffn_up.bias? ffn_down.bias? moe: ffn_gate_inp "
      "ffn_gate_exps?=embd,ff,experts ffn_up_exps=embd,ff,experts ffn_down_exps=ff,embd,experts" },
    { "granite granitemoe", RMS ATTN "logit_scale", TIED ROPE,
      "attn_norm qkv attn_output attn_output.bias? ffn_norm dense: " GATED
      " ffn_gate.bias? ffn_up.bias? ffn_down.bias? moe: ffn_gate_inp "
      "ffn_gate_exps?=embd,ff,experts ffn_up_exps=embd,ff,experts ffn_down_exps=ff,embd,experts "
      "shared: ffn_gate_shexp=embd,sharedff ffn_up_shexp=embd,sharedff "
      "ffn_down_shexp=sharedff,embd" },
    { "qwen2", RMS ATTN, TIED "output.bias?",
      "attn_norm qkv_e attn_output=embd,embd ffn_norm" GATED },
    { "qwen2moe", RMS "attention.head_count expert_count expert_used_count", OUT,
      "attn_norm qkv_e attn_output=embd,embd ffn_norm" EXPERTS
      "ffn_gate_inp_shexp ffn_gate_shexp ffn_up_shexp ffn_down_shexp" },
    { "qwen3", RMS ATTN, TIED "cls.output?",
      "attn_norm qkv_v attn_q_norm attn_k_norm attn_output ffn_norm" GATED },
    { "qwen3moe", RMS "attention.head_count expert_count expert_used_count", TIED,
      "attn_norm qkv_v attn_q_norm attn_k_norm attn_output ffn_norm" EXPERTS },
    { "gemma", RMS ATTN, "token_embd output_norm", "attn_norm qkv attn_output ffn_norm" GATED },
    { "gemma2", RMS ATTN, "token_embd output_norm",
      "attn_norm qkv attn_output post_attention_norm ffn_norm" GATED "post_ffw_norm" },
    { "gemma3", RMS ATTN, TIED "dense_2? dense_3?",
      "attn_norm qkv attn_output post_attention_norm attn_q_norm attn_k_norm ffn_norm" GATED
      "post_ffw_norm" },
    { "phi2", EPS ATTN, "token_embd output_norm output_norm.bias output output.bias",
      "attn_norm attn_norm.bias qkv_e attn_output=embd,embd attn_output.bias ffn_down "
      "ffn_down.bias ffn_up ffn_up.bias" },
    { "phi3", RMS ATTN, TIED "rope_factors_long? rope_factors_short?",
      "attn_norm qkv_e attn_output=embd,embd ffn_norm ffn_down ffn_up=embd,2*ff" },
    { "deepseek2", RMS ATTN "attention.kv_lora_rank expert_feed_forward_length expert_shared_count",
      TIED,
      "attn_norm attn_kv_a_norm attn_kv_a_mqa attn_output=heads*valuemla,embd ffn_norm qlora: "
      "attn_q_a attn_q_a_norm attn_q_b noqlora: attn_q=embd,heads*keymla mla: attn_k_b attn_v_b "
      "nomla: attn_kv_b dense: " GATED
      " moe: ffn_gate_inp exp_probs_b.bias? ffn_down_exps gate_up_exps "
      "ffn_gate_shexp=embd,expff*shared ffn_up_shexp=embd,expff*shared "
      "ffn_down_shexp=expff*shared,embd" NEXTN },
    { "gpt-oss",
      RMS "attention.head_count expert_count expert_used_count expert_feed_forward_length "
          "attention.sliding_window",
      OUT,
      "attn_norm post_attention_norm qkv_r attn_output=heads*rot,embd attn_output.bias attn_sinks "
      "ffn_gate_inp.bias ffn_gate_exps.bias ffn_up_exps.bias ffn_down_exps.bias" EXPERTS },
    { "glm4", RMS ATTN, TIED,
      "attn_norm qkv attn_output post_attention_norm ffn_norm ffn_down ffn_up=embd,2*ff "
      "post_ffw_norm" NEXTN },
    { "glm4moe",
      RMS ATTN "expert_count expert_used_count expert_feed_forward_length expert_shared_count",
      TIED,
      "attn_norm qkv attn_output attn_q_norm? attn_k_norm? post_attention_norm dense: " GATED
      " moe: exp_probs_b.bias " EXPERTS
      " shared: ffn_gate_shexp=embd,expff*shared ffn_up_shexp=embd,expff*shared "
      "ffn_down_shexp=expff*shared,embd" NEXTN },
    { "olmo2", RMS ATTN, OUT,
      "qkv_e attn_output=embd,embd attn_q_norm=embd attn_k_norm=kvheads*embd/heads "
      "post_attention_norm" GATED "post_ffw_norm" },
    { "starcoder2", EPS ATTN, TIED "output_norm.bias",
      "attn_norm attn_norm.bias qkv_e attn_output=embd,embd attn_output.bias ffn_norm "
      "ffn_norm.bias ffn_up ffn_up.bias ffn_down ffn_down.bias" },
    { "falcon", EPS ATTN, TIED "output_norm.bias",
      "attn_norm attn_norm.bias attn_norm_2? attn_norm_2.bias? attn_qkv=embd,embd+2*kvheads*value "
      "attn_output=embd,embd ffn_up ffn_down" },
    { "gpt2", EPS ATTN, TIED "position_embd output_norm.bias",
      "attn_norm attn_norm.bias attn_qkv=embd,embd+2*kvheads*value "
      "attn_qkv.bias=embd+2*kvheads*value attn_output=embd,embd attn_output.bias ffn_norm "
      "ffn_norm.bias ffn_up ffn_up.bias ffn_down ffn_down.bias" },
    { "bert", EPS ATTN,
      "token_embd token_types? position_embd token_embd_norm token_embd_norm.bias cls? cls.bias? "
      "cls.output? cls.output.bias?",
      "qkv_e attn_output=embd,embd attn_output.bias? attn_output_norm attn_output_norm.bias ffn_up "
      "ffn_up.bias? ffn_down ffn_down.bias? layer_output_norm layer_output_norm.bias" },
    { "t5", RMS ATTN "attention.relative_buckets_count",
      "token_embd output? enc.output_norm dec.output_norm",
      "enc&first: attn_rel_b enc&later: attn_rel_b? enc: attn_norm attn_q=embd,kvheads*key attn_k "
      "attn_v attn_o=kvheads*value,embd "
      "ffn_norm ffn_gate? ffn_up ffn_down dec&first: attn_rel_b dec&later: attn_rel_b? dec: "
      "attn_norm attn_q=embd,kvheads*key "
      "attn_k attn_v attn_o=kvheads*value,embd cross_attn_norm cross_attn_rel_b? "
      "cross_attn_q=embd,kvheads*key cross_attn_k=embd,kvheads*key cross_attn_v=embd,kvheads*value "
      "cross_attn_o=kvheads*value,embd ffn_norm ffn_gate? ffn_up ffn_down" },
    { "t5encoder", RMS ATTN "attention.relative_buckets_count",
      "token_embd output? enc.output_norm",
      "enc&first: attn_rel_b enc&later: attn_rel_b? enc: attn_norm attn_q=embd,kvheads*key attn_k "
      "attn_v attn_o=kvheads*value,embd "
      "ffn_norm ffn_gate? ffn_up ffn_down" },
    { "mamba", RMS "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank", TIED,
      "attn_norm ssm_in ssm_conv1d ssm_conv1d.bias ssm_x ssm_dt ssm_dt.bias ssm_a. ssm_d. "
      "ssm_out" },
    { "mamba2",
      RMS "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank ssm.group_count", TIED,
      "attn_norm ssm_in=embd,2*inner+2*group*state+dtrank ssm_conv1d=conv,inner+2*group*state "
      "ssm_conv1d.bias=inner+2*group*state ssm_dt.bias=dtrank ssm_a.=1,dtrank ssm_d.=1,dtrank "
      "ssm_norm=inner/group,group ssm_out" },
    { "rwkv6", "feed_forward_length wkv.head_size time_mix_extra_dim time_decay_extra_dim",
      OUT "output_norm.bias token_embd_norm token_embd_norm.bias",
      "attn_norm attn_norm.bias attn_norm_2 attn_norm_2.bias time_mix_w1=embd,mix*5 "
      "time_mix_w2=mix,embd,5 time_mix_lerp_x time_mix_lerp_w? time_mix_lerp_k? time_mix_lerp_v? "
      "time_mix_lerp_r? time_mix_lerp_g? time_mix_lerp_fused?=embd,1,1,5 "
      "time_mix_first=wkv,embd/wkv time_mix_decay time_mix_decay_w1=embd,decay "
      "time_mix_decay_w2=decay,embd time_mix_key time_mix_value time_mix_receptance time_mix_gate "
      "time_mix_ln time_mix_ln.bias time_mix_output channel_mix_lerp_k channel_mix_lerp_r "
      "channel_mix_key=embd,ff channel_mix_value=ff,embd channel_mix_receptance" },
    { "rwkv7",
      "feed_forward_length wkv.head_size attention.decay_lora_rank attention.iclr_lora_rank "
      "attention.value_residual_mix_lora_rank",
      OUT "output_norm.bias token_embd_norm token_embd_norm.bias",
      "attn_norm attn_norm.bias attn_norm_2 attn_norm_2.bias time_mix_w0 time_mix_w1=embd,ldecay "
      "time_mix_w2=ldecay,embd time_mix_a0 time_mix_a1=embd,liclr time_mix_a2=liclr,embd "
      "time_mix_v0 first: time_mix_v1=embd,liclr time_mix_v2=liclr,embd later: "
      "time_mix_v1=embd,lvalue time_mix_v2=lvalue,embd all: time_mix_g1=embd,lgate "
      "time_mix_g2=lgate,embd time_mix_lerp_fused=embd,1,1,6 time_mix_k_k time_mix_k_a "
      "time_mix_r_k time_mix_key time_mix_value time_mix_receptance time_mix_ln time_mix_ln.bias "
      "time_mix_output channel_mix_lerp_k channel_mix_key=embd,ff channel_mix_value=ff,embd" },
};

/* Usual shapes. Names are like those of a table. A name with "*" at the end is a prefix, for
 * weights and biases alike. The first match counts. */
static const struct {
    const char *shape, *names;
} shapes[] = {
    { "embd,vocab", "token_embd output nextn.embed_tokens nextn.shared_head_head" },
    { "vocab", "output.bias" },
    { "embd,context", "position_embd" },
    { "embd,types", "token_types" },
    { "embd",
      "output_norm.* enc.output_norm.* dec.output_norm.* token_embd_norm.* cls.bias attn_norm.* "
      "attn_norm_2.* ffn_norm.* post_attention_norm.* post_ffw_norm.* attn_output_norm.* "
      "layer_output_norm.* cross_attn_norm.* attn_output.bias ffn_down.bias ffn_gate_inp_shexp "
      "nextn.enorm nextn.hnorm nextn.shared_head_norm" },
    { "embd,embd",
      "cls time_mix_key time_mix_value time_mix_receptance time_mix_gate time_mix_output "
      "channel_mix_receptance" },
    { "rot/2", "rope_freqs rope_factors_long rope_factors_short" },
    { "heads,buckets", "attn_rel_b cross_attn_rel_b" },
    { "embd,heads*key", "attn_q" },
    { "embd,kvheads*key", "attn_k" },
    { "embd,kvheads*value", "attn_v" },
    { "heads*key,embd", "attn_output" },
    { "key", "attn_q_norm attn_k_norm" },
    { "heads", "attn_sinks" },
    { "embd,qrank", "attn_q_a" },
    { "qrank,heads*keymla", "attn_q_b" },
    { "qrank", "attn_q_a_norm" },
    { "embd,kvrank+rot", "attn_kv_a_mqa" },
    { "kvrank", "attn_kv_a_norm" },
    { "keymla-rot,kvrank,heads", "attn_k_b" },
    { "kvrank,valuemla,heads", "attn_v_b" },
    { "kvrank,heads*keymla-heads*rot+heads*valuemla", "attn_kv_b" },
    { "embd,ff", "ffn_gate ffn_up" },
    { "ff,embd", "ffn_down" },
    { "ff", "ffn_gate.bias ffn_up.bias" },
    { "embd,experts", "ffn_gate_inp ffn_down_exps.bias" },
    { "experts", "ffn_gate_inp.bias exp_probs_b.bias" },
    { "embd,expff,experts", "ffn_gate_exps ffn_up_exps" },
    { "expff,embd,experts", "ffn_down_exps" },
    { "embd,2*expff,experts", "ffn_gate_up_exps" },
    { "expff,experts", "ffn_gate_exps.bias ffn_up_exps.bias" },
    { "embd,sharedff", "ffn_gate_shexp ffn_up_shexp" },
    { "sharedff,embd", "ffn_down_shexp" },
    { "2*embd,embd", "nextn.eh_proj" },
    { "embd,2*inner", "ssm_in" },
    { "conv,inner", "ssm_conv1d" },
    { "inner", "ssm_conv1d.bias ssm_dt.bias ssm_d." },
    { "inner,dtrank+2*state", "ssm_x" },
    { "dtrank,inner", "ssm_dt" },
    { "state,inner", "ssm_a." },
    { "inner,embd", "ssm_out" },
    { "embd", "time_mix_* channel_mix_lerp_*" },
};

/* Architectures of llama.cpp v0.5.0. */
const char gg_check_archs[] =
    "llama llama4 deci falcon grok gpt2 gptj gptneox mpt baichuan starcoder refact bert "
    "modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert bloom "
    "stablelm qwen qwen2 qwen2moe qwen2vl qwen3 qwen3moe qwen3next qwen3vl qwen3vlmoe qwen35 "
    "qwen35moe qwen4exp phi2 phi3 phimoe plamo plamo2 plamo3 codeshell orion internlm2 minicpm "
    "minicpm3 gemma gemma2 gemma3 gemma3n gemma4 gemma4-assistant gemma-embedding starcoder2 "
    "mamba mamba2 maple jamba falcon-h1 xverse command-r cohere2 cohere2moe dbrx olmo olmo2 olmoe "
    "muse-glimmer openelm arctic deepseek deepseek2 deepseek2-ocr deepseek32 deepseek4 chatglm "
    "glm4 glm4moe glm-dsa bitnet t5 t5encoder jais jais2 nemotron nemotron_h nemotron_h_moe "
    "exaone exaone4 exaone-moe rwkv6 rwkv6qwen2 rwkv7 arwkv7 granite granitemoe granitehybrid "
    "graniteswitch granite_swa chameleon wavtokenizer-dec plm bailingmoe bailingmoe2 bailingmoe3 "
    "dots1 dots3note arcee afmoe laguna ernie4_5 ernie4_5-moe hunyuan-moe hunyuan-dense "
    "hunyuan_vl hy_v3 hy_v4 smollm3 gpt-oss lfm2 lfm2moe dream smallthinker llada llada-moe "
    "seed_oss grovemoe apertus minimax-01 hrm_text minimax-m2 minimax-m3 cogvlm rnd1 "
    "pangu-embedded mistral3 eagle3 dflash mistral4 paddleocr mimo2 step35 spark2_5 llama-embed "
    "maincoder kimi-linear kimi-k3 talkie mellum nanbeige qwen3tts pockettts";

/* Architectures of files that are not language models, so that the rules for language models
 * do not apply: projectors, control vectors and diffusion models. */
const char gg_check_other_archs[] =
    "clip controlvector imatrix flux sd1 sd2 sd3 sdxl wan hyvid hunyuan_video ltxv lumina lumina2 "
    "aura qwen_image hidream cosmos pixart sana chroma z_image auraflow ltx_video whisper";

const char gg_check_pre_tokenizers[] =
    "default minicpm5 llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 "
    "jina-v5-nano deepseek-llm deepseek-coder deepseek-v3 spark2_5 youtu falcon mpt starcoder "
    "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert jais-2 "
    "gemma4 granite-embed-multi-311m sarvam-moe jina-v1-en jina-v2-code roberta-bpe whitespace "
    "refact command-r qwen2 deepseek-r1-qwen kormo f2llmv2 qwen35 stablelm2 olmo dbrx smaug-bpe "
    "poro-chat glm4 chatglm-bpe viking jais tekken smollm codeshell bloom gpt3-finnish exaone "
    "exaone4 exaone-moe chameleon minerva-7b megrez gpt-4o llama4 kanana2 talkie "
    "granite-embed-multi-97m tiny_aya cohere2moe superbpe trillion granite-docling bailingmoe "
    "bailingmoe2 llada-moe seed-coder hunyuan hunyuan-dense hy_v4 joyai-llm kimi-k2 ufakzeka "
    "grok-2 afmoe laguna minimax-m2 solar-open mellum2";

const check_arch *gg_check_arch_of(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (gg_check_word(table[i].names, name, len)) return &table[i];
    for (const check_arch *a = gg_check_learned; a->names; a++)
        if (gg_check_word(a->names, name, len)) return a;
    return NULL;
}

const char *gg_check_shape_of(const char *rest, size_t len)
{
    size_t stem = len > 7 && memcmp(rest + len - 7, ".weight", 7) == 0 ? len - 7 : len;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const char *word, *words = shapes[i].names;
        size_t n;
        while (gg_check_next_word(&words, &word, &n)) {
            bool prefix = word[n - 1] == '*', whole = word[n - 1] == '.';
            if (prefix  ? len >= n && memcmp(word, rest, n - 1) == 0
                : whole ? len == n - 1 && memcmp(word, rest, len) == 0
                        : stem == n && memcmp(word, rest, n) == 0)
                return shapes[i].shape;
        }
    }
    return NULL;
}
