#!/bin/sh
# shellcheck disable=SC2154,SC2034 # variables of tests/checkpoints.sh
# Checkpoints and adapters as people have them: fields that decide what weights mean, folders with several
# files, quantized weights, other classes, and adapters that are no plain change of their base.
. "$(dirname "$0")/lib.sh"
. tests/checkpoints.sh
pieces=$PWD/$D/hf/gemma3-vlm/tokenizer.model
cd "$T" || exit 1

key() { check_text "$(organ-keys m --get "$1" 2> /dev/null)" "$2" "$3: $1"; }

# ---- fields of config.json -----------------------------------------------------------------------

llama m '"hidden_act": "silu", "torch_dtype": "float32", "bos_token_id": 1'
quiet "known fields" organ-keys m
llama m '"new_scale": 2.5'
noted "new_scale = 2.5" "an unknown field" organ-keys m
check_error 1 "new_scale = 2.5" "an unknown field, strict" organ-assemble m --strict --vocab-from m -o x.gguf
check_absent x.gguf "nothing is written"
organ-check m | grep -q "warning${TAB}checkpoint${TAB}-${TAB}.*new_scale" || bad "organ-check names no unknown field"
llama m '"hidden_act\u0000": "silu"'
noted 'hidden_act\\x00 = silu' "a field that is known up to a NUL" organ-keys m
llama m '"hidden_act": "silu\u0000"'
check_error 3 "hidden_act = silu" "a value that is known up to a NUL" organ-assemble m -o x.gguf

# Types that are not read, and integers, wherever values come from.
dense=$(printf '%s\n' "$ends" "$head" "$(blocks 1 "$attn")")
for type in F4 F6_E2M3 F8_E8M0 C64 X9 I8 I64 BOOL; do
    case $type in I* | B*) text="its values are integers ($type)" ;; *) text="its type $type cannot be read" ;; esac
    for name in embed_tokens input_layernorm q_proj o_proj lm_head; do
        case $type$name in I*_norm | [IB]*proj | [IB]*embed_tokens | [IB]*lm_head) continue ;; esac
        model m LlamaForCausalLM 1 '' "$(echo "$dense" | sed "s/$name.weight/&:$type/")"
        check_error 3 "$text" "$name of $type" organ-assemble m -o x.gguf
    done
    for name in experts.1.gate_proj.weight experts.0.down_proj.weight; do
        case $type in [IB]*) continue ;; esac
        model m Qwen3MoeForCausalLM 1 '"moe_intermediate_size": 6, "num_experts": 2, "num_experts_per_tok": 1,
            "norm_topk_prob": true' "$(printf '%s\n' "$dense" | grep -v mlp; blocks 1 "$qk
$l.mlp.gate.weight 2 8"; for e in 0 1; do blocks 1 "$l.mlp.experts.$e.gate_proj.weight 6 8
$l.mlp.experts.$e.up_proj.weight 6 8
$l.mlp.experts.$e.down_proj.weight 8 6"; done | sed "s/$name/&:$type/")"
        check_error 3 "$text" "$name of $type" organ-assemble m -o x.gguf
    done
    for name in gate_up_proj down_proj; do
        model m Qwen3MoeForCausalLM 1 '"moe_intermediate_size": 6, "num_experts": 2, "num_experts_per_tok": 1,
            "norm_topk_prob": true' "$(printf '%s\n' "$dense" | grep -v mlp; blocks 1 "$qk
$l.mlp.gate.weight 2 8
$l.mlp.experts.gate_up_proj 2 12 8
$l.mlp.experts.down_proj 2 8 6" | sed "s/$name/&:$type/")"
        check_error 3 "$text" "a stack $name of $type" organ-assemble m -o x.gguf
    done
done
llama m '"hidden_act": "relu"'
check_error 3 "hidden_act = relu" "another activation" organ-assemble m -o x.gguf
llama m '"rope_scaling": {"rope_type": "longrope"}'
check_error 3 "does not scale positions in this way" "a scaling that llama lacks" organ-assemble m -o x.gguf
llama m '"sliding_window": 16'
noted "sliding_window = 16" "a window that the engine lacks" organ-keys m
llama m '"sliding_window": 64'
quiet "a window of the whole context" organ-keys m
llama m '"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
    "beta_fast": 30, "rope_theta": 20000.0}'
key llama.rope.scaling.type yarn "transformers 5"
key llama.rope.scaling.yarn_beta_fast 30 "transformers 5"
noted "rope_theta = 20000.0, and 10000.0 elsewhere" "two bases" organ-keys m
key llama.rope.freq_base 20000 "transformers 5"

for value in '"intermediate_size": [16, 16]' '"rope_theta": "10000"' '"num_key_value_heads": -1' \
    '"num_attention_heads": 2.5' '"head_dim": {"a": 4}'; do
    llama m ''
    f=$(echo "$value" | cut -d'"' -f2)
    edit "s/\"$f\": [0-9.]*/$value/"
    check_error 3 "$f = " "a value that no key can hold: $value" organ-assemble m -o x.gguf
done
llama m '"time_step_limit": [0.0, Infinity], "a \" Infinity": "NaN", "b": -Infinity'
noted 'b = -Infinity' "numbers of Python" organ-keys m

for scaling in '"rope_type": "yarn"|a type but no factor' '"type": "linear"|a type but no factor' \
    '"factor": 2.0|a factor but no type' '"rope_type": "llama3", "factor": 8.0|lacks one of factor, low_freq'; do
    llama m "\"rope_scaling\": {${scaling%%|*}}"
    check_error 3 "${scaling#*|}" "rope_scaling: ${scaling%%|*}" organ-assemble m -o x.gguf
done
llama m '"model_type": "qwen2"'
noted "model_type = qwen2 is of the architecture qwen2, but the class of llama" "a type of another family" organ-keys m
check_error 1 "model_type = qwen2" "the same, strict" organ-assemble m --strict --vocab-from m -o x.gguf
llama m '"model_type": "mistral"'
quiet "a type of the same architecture" organ-keys m
llama m ''
edit 's/"LlamaForCausalLM"/"LlamaForCausalLM", "Qwen2ForCausalLM"/'
noted "architectures names 2 classes, of which the first is taken" "two classes" organ-keys m
llama m '"quantization_config": {"quant_method": "newq"}'
noted "quant_method = newq (this method is not known; the stored weights are taken" "an unknown method" organ-keys m
llama m '"quantization_config": {"quant_method": "gptq"}'
quiet "a known method, but plain weights" organ-keys m
moe='"kv_lora_rank": 6, "qk_rope_head_dim": 2, "qk_nope_head_dim": 4, "v_head_dim": 4, "n_routed_experts": 4,
    "n_shared_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 6, "first_k_dense_replace": 1,
    "q_lora_rank": null'
for row in 3::2 '3:, "scoring_func": "softmax":1' '3:, "scoring_func": "sigmoid":2' 2::; do
    model m "DeepseekV${row%%:*}ForCausalLM" 2 "$moe$(echo "$row" | cut -d: -f2-3 | sed 's/:[0-9]*$//')" "$ends
$head"
    key deepseek2.expert_gating_func "${row##*:}" "deepseek, $row"
done
model m CohereForCausalLM 2 '"layer_norm_eps": 1e-5' "$ends"
check_error 3 "no logit_scale" "command-r without it" organ-assemble m -o x.gguf
model m GraniteForCausalLM 2 '' "$ends
$head"
check_error 3 "no attention_multiplier" "granite without it" organ-assemble m -o x.gguf
model m PhiForCausalLM 2 '"hidden_act": "gelu_new", "layer_norm_eps": 1e-5' "$ends
$head"
check_error 3 "no partial_rotary_factor" "phi2 without it" organ-assemble m -o x.gguf

# Values that no program can use, or that JSON gives in another type.
for row in '"rope_theta": 0|rope_theta = 0: it must be above 0' '"rope_theta": 1e40|rope_theta = 1e40: engines' \
    '"rope_theta": true|rope_theta = true: engines cannot use' '"rms_norm_eps": -1|rms_norm_eps = -1: it must not be' \
    '"rms_norm_eps": 1e-60|rms_norm_eps = 1e-60: engines cannot' \
    '"num_hidden_layers": "2"|num_hidden_layers = "2": engines cannot use'; do
    llama m ''
    edit "s/$(echo "$row" | cut -d: -f1): [0-9.e-]*/${row%%|*}/"
    check_error 3 "${row#*|}" "${row%%|*}" organ-assemble m -o x.gguf
done
for row in '"tie_word_embeddings": "false"|tie_word_embeddings = "false": it must be true or false' \
    '"tie_word_embeddings": 1|tie_word_embeddings = 1: it must be true' '"mlp_bias": 1|mlp_bias = 1: it must be true' \
    '"rope_scaling": {"type": "linear", "factor": -2}|rope_scaling.factor = -2: it must be above 0' \
    '"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
    "original_max_position_embeddings": 0}|original_max_position_embeddings = 0: it must be above 0'; do
    llama m "${row%%|*}"
    check_error 3 "${row#*|}" "${row%%|*}" organ-assemble m -o x.gguf
done
llama m '"layer_types": ["full_attention", "sliding_attention"]'
noted "it names windows, and no field gives their size" "windows without a size" organ-keys m
llama m '"rope_scaling": {"type": "YaRN", "factor": 2}'
quiet "a type of scaling in capitals" organ-keys m
key llama.rope.scaling.type yarn "a type of scaling in capitals"
llama m '"model_type": "llama"'
edit 's/"LlamaForCausalLM"/null/'
noted "model_type decides: LlamaForCausalLM" "a class of null" organ-keys m

# Fields that are absent or null, for which transformers and engines take other values.
window() { model m "$1" 6 "\"tie_word_embeddings\": true$2" "$ends
$(blocks 6 "$attn
$four${3:+
$3}")"; }
window Gemma2ForCausalLM ', "sliding_window": 8'
quiet "gemma2 without limits of logits" organ-keys m
window Gemma2ForCausalLM ', "sliding_window": 8, "attn_logit_softcapping": null'
noted "no attn_logit_softcapping (transformers then has no limit" "gemma2 with a limit of null" organ-keys m
window Gemma2ForCausalLM ', "sliding_window": 8, "attn_logit_softcapping": 0'
check_error 3 "attn_logit_softcapping = 0: engines divide by it" "gemma2, a limit of 0" organ-assemble m -o x.gguf
window Gemma2ForCausalLM ', "sliding_window": null'
noted "no sliding_window (transformers then has no window" "gemma2 with a window of null" organ-keys m
full='"full_attention"'
window Gemma2ForCausalLM ", \"layer_types\": [$full, $full, $full, $full, $full, $full]"
quiet "gemma2 without windows" organ-keys m
key gemma2.attention.sliding_window_pattern 1 "gemma2 without windows"
window Gemma3ForCausalLM '' "$qk"
quiet "gemma3 without a window" organ-keys m
key gemma3.attention.sliding_window 4096 "gemma3 without a window"
window Gemma3ForCausalLM ', "sliding_window": null' "$qk"
noted "no sliding_window (4096 is taken" "gemma3 with a window of null" organ-keys m
window Gemma3ForCausalLM ", \"layer_types\": [$full, $full, $full, $full, $full, $full]" "$qk"
quiet "gemma3 with full attention only" organ-keys m
key gemma3.attention.sliding_window '' "gemma3 with full attention only"
for pattern in 0 -1 '"6"' 2.5 '[6]'; do
    window Gemma3ForCausalLM ", \"sliding_window\": 8, \"sliding_window_pattern\": $pattern" "$qk"
    check_error 3 "sliding_window_pattern = " "a pattern of $pattern" organ-assemble m -o x.gguf
done
model m DeepseekV3ForCausalLM 2 "$moe" "$ends
$head"
noted "no routed_scaling_factor (transformers takes a value of the class" "deepseek_v3 without it" organ-keys m
model m DeepseekV2ForCausalLM 2 "$moe" "$ends
$head"
organ-keys m 2> err > /dev/null
if grep routed_scaling err; then bad "deepseek_v2 needs no factor"; else ok; fi

# Two fields that mean the same.
for row in '"n_layer": 7|num_hidden_layers = 2, and n_layer = 7' '"norm_eps": 0.01|rms_norm_eps = 1e-6, and norm_eps' \
    '"text_config": {"num_attention_heads": 4}|num_attention_heads = 4, and num_attention_heads = 2 elsewhere' \
    '"n_ctx": 32|max_position_embeddings = 64, and n_ctx = 32' \
    '"rope_scaling": {"type": "yarn", "factor": 2, "attention_factor": 1, "attn_factor": 2}|rope_scaling.attention' \
    '"rope_scaling": {"rope_type": "linear", "type": "yarn", "factor": 2}|rope_scaling.rope_type = linear, and'; do
    llama m "${row%%|*}"
    noted "contradicts itself: ${row#*|}" "${row%%|*}" organ-keys m
done
llama m '"tie_word_embeddings": true, "text_config": {"tie_word_embeddings": false}'
noted "tie_word_embeddings = false, and true elsewhere" "two answers on the head" organ-keys m
llama m '"n_layer": 2, "max_length": 20, "rope_scaling": {"rope_type": "linear", "type": "linear", "factor": 2}'
quiet "fields that mean the same and agree" organ-keys m
llama m '"norm_eps": 0.000001, "n_ctx": 64.0, "text_config": {"rope_theta": 1e4}'
quiet "numbers that are written in another way" organ-keys m
for size in 11 14 '"12"' 12.5; do
    llama m ''
    edit "s/\"vocab_size\": 12/\"vocab_size\": $size/"
    check "a vocabulary of $size" sh -c 'organ-keys m > /dev/null'
    grep -q 'vocab_size = ' err || bad "a vocabulary of $size: $(cat err)"
done
llama m ''
edit 's/"vocab_size": 12/"vocab_size": 14/'
noted "vocab_size = 14, but the embeddings have 12 rows" "rows that are missing" organ-keys m
for field in attention_bias use_qk_norm qkv_bias; do
    window Gemma3ForCausalLM ", \"sliding_window\": 8, \"$field\": true" "$qk"
    noted "are true and that this architecture does not have: $field" "$field of gemma3" organ-keys m
done
llama m '"multi_query": true'
noted "multi_query = true" "a field of another architecture" organ-keys m
for row in \
    'GPTNeoX|"rotary_pct": 0.25, "partial_rotary_factor": 0.5|partial_rotary_factor = 0.5, and rotary_pct = 0.25' \
    'StableLm|"rope_pct": 0.25, "partial_rotary_factor": 0.5|partial_rotary_factor = 0.5, and rope_pct = 0.25'; do
    f=${row#*|}
    model m "${row%%|*}ForCausalLM" 2 "\"layer_norm_eps\": 1e-5, ${f%|*}" "$ends
$head"
    noted "${f#*|}" "two fractions of a head" organ-keys m
done
model m PhiForCausalLM 2 '"layer_norm_eps": 1e-5, "partial_rotary_factor": 0' "$ends
$head"
check_error 3 "partial_rotary_factor = 0: it must be above 0" "no positions" organ-assemble m -o x.gguf
phi3() { model m Phi3ForCausalLM 2 "$1" "$ends
$head
$(blocks 2 "$l.input_layernorm.weight 8
$l.post_attention_layernorm.weight 8
$l.self_attn.qkv_proj.weight 16 8
$l.self_attn.o_proj.weight 8 8
$l.mlp.gate_up_proj.weight 32 8
$l.mlp.down_proj.weight 8 16")"; }
long='"long_factor": [1.0, 1.5], "short_factor": [1.0, 1.1]' original='"original_max_position_embeddings": 32'
phi3 "\"rope_scaling\": {\"type\": \"longrope\", $long}, $original"
quiet "phi3 with factors" organ-keys m
for scaling in "$long" '"type": "longrope"' '"type": "su", "long_factor": [1.0, 1.5]'; do
    phi3 "\"rope_scaling\": {$scaling}, $original"
    check_error 3 "must have type longrope, long_factor and short_factor, or none" "phi3, $scaling" \
        organ-assemble m -o x.gguf
done
phi3 "\"rope_scaling\": {\"type\": \"longrope\", $long, \"factor\": 2.0}, $original"
quiet "phi3 with the factor that its contexts give" organ-keys m
edit 's/"factor": 2.0/"factor": 32.0/'
noted "rope_scaling.factor = 32.0 (it is not the ratio" "phi3 with another factor" organ-keys m
phi3 "\"rope_scaling\": {\"type\": \"longrope\", $long, \"original_max_position_embeddings\": 16}, $original"
noted "original_max_position_embeddings = 32, and rope_scaling.original_max_position_embeddings = 16" \
    "phi3 with two original contexts" organ-keys m
for field in '"output_multiplier": 2.0' '"init_scale": 2.0' '"time_step_scale": 2.0'; do
    llama m "$field"
    noted "$(echo "$field" | cut -d'"' -f2) = 2.0" "no pattern covers $field" organ-keys m
done
llama m '"attention_bias": true'
noted "attention_bias = true, but the model has no blk.0.attn_q.bias" "biases that are lost" organ-keys m
model m LlamaForCausalLM 2 '"attention_bias": false' "$ends
$head
$(blocks 2 "$attn
$l.self_attn.q_proj.bias 8")"
noted "attention_bias = false, but the model has the tensor blk.0.attn_q.bias" "biases that are not used" organ-keys m
edit 's/"attention_bias": false/"attention_bias": true/'
quiet "biases" organ-keys m
for row in "1|it lacks attn_q.bias, which 2 other blocks of its kind have" "0|it lacks" \
    "[12]|it has attn_q.bias, which 2"; do
    model m LlamaForCausalLM 3 '"attention_bias": true' "$ends
$head
$(blocks 3 "$attn
$l.self_attn.q_proj.bias 8" | grep -v "${row%%|*}.self_attn.q_proj.bias")"
    organ-check -q m | grep -q "warning${TAB}block-roles.*${row#*|}" && ok || bad "a lost bias: ${row#*|}"
done
edit 's/"attention_bias": true/"attention_dropout": 0/'
noted "has no attention_bias, which stands for false, but the model has the tensor blk.0.attn_q.bias" \
    "biases that transformers leaves out" organ-keys m
edit 's/"attention_dropout": 0/"qkv_bias": true/'
quiet "biases, another field" organ-keys m
model m CohereForCausalLM 2 '"layer_norm_eps": 1e-5, "logit_scale": 1, "use_qk_norm": true' "$ends
$two"
noted "use_qk_norm = true, but the model has no blk.0.attn_q_norm.weight" "norms that are lost" organ-keys m
edit 's/"use_qk_norm": true/"attention_dropout": 0/'
check "no norms" organ-keys m
if grep qk_norm err; then bad "no norms: $(cat err)"; else ok; fi
model m CohereForCausalLM 2 '"layer_norm_eps": 1e-5, "logit_scale": 1' "$ends
$(blocks 2 "$attn
$l.self_attn.q_norm.weight 2 4")"
noted "has no use_qk_norm, which stands for false, but the model has the tensor blk.0.attn_q_norm.weight" \
    "norms that transformers leaves out" organ-keys m
# Engines give Command R no head of its own; it may be stored.
model m CohereForCausalLM 2 '"layer_norm_eps": 1e-5, "logit_scale": 1' "$ends
$head
$(blocks 2 "$attn" | grep -v post_attention)"
check "a head that equals the embeddings" organ-extract --list m
check_text "$(grep -c '^output.weight' "$T/out")" 0 "a head that equals the embeddings"
# Rows beyond the tokenizer are cut from the head too.
model m Gemma3ForCausalLM 2 '"sliding_window": 8, "llm_config": {"bos_token_id": 4}' "$(printf '%s\n' "$ends" "$head" |
    sed 's/ 12 8/ 112 8/'; blocks 2 "$attn
$qk
$four")"
edit 's/"vocab_size": 12/"vocab_size": 96/'
cp "$pieces" m/tokenizer.model
check "a head with spare rows" organ-assemble m --force -o x.gguf
check_text "$(organ-extract --list x.gguf | awk -F'\t' "$BY_NAME"'
    col("name") ~ /^(token_embd|output)\./ { printf "%s ", col("dims") }')" "8x96 8x96 " "a head with spare rows"
check_text "$(organ-keys x.gguf --get tokenizer.ggml.bos_token_id)" 4 "an id in llm_config"
rm x.gguf
model m MambaForCausalLM 2 '"state_size": 4' "backbone.embeddings.weight 12 8"
noted "has no use_conv_bias, which stands for true, but the model has no blk.0.ssm_conv1d.bias" \
    "the default" organ-keys m
llama m '"num_nextn_predict_layers": 1'
noted "declares 1 for multi-token prediction, but the files have no such blocks" "b-mtp, llama" organ-keys m
gemma() { model m GemmaForCausalLM 2 "$1" "$ends
$(blocks 2 "$attn")"; }
gemma '"hidden_act": "silu"'
noted "hidden_act = silu (the engine computes gelu)" "an activation of gemma" organ-keys m
gemma '"hidden_act": "silu", "hidden_activation": "gelu_pytorch_tanh"'
quiet "the activation that counts" organ-keys m
model m Mamba2ForCausalLM 2 '"rms_norm": false, "num_heads": 2, "state_size": 4' "backbone.embeddings.weight 12 8"
check_error 3 "rms_norm = false" "mamba2 without norms" organ-assemble m -o x.gguf
model m Qwen3MoeForCausalLM 2 '"num_experts": 4, "num_experts_per_tok": 2' "$ends
$head"
noted "no norm_topk_prob" "a default that differs" organ-keys m
model m MixtralForCausalLM 2 '"num_local_experts": 4, "num_experts_per_tok": 2' "$ends
$head"
quiet "mixtral" organ-keys m
edit 's/, "rope_theta": 10000.0//'
noted "no rope_theta (engines take 10000" "mixtral without rope_theta" organ-keys m
for row in 'greedy", "n_group": 2|greedy (the engine chooses groups' \
    'group_limited_greedy", "n_group": 2|group_limited'; do
    model m DeepseekV2ForCausalLM 2 "$moe, \"topk_method\": \"${row%%|*}" "$ends
$head"
    noted "topk_method = ${row#*|}" "experts in groups" organ-keys m
done
model m DeepseekV2ForCausalLM 2 "$moe, \"topk_method\": \"greedy\", \"n_group\": 1" "$ends
$head"
check "experts in one group" organ-keys m
! grep -q topk_method err || bad "experts in one group: $(cat err)"
# The text part of a published gemma 3 states only what differs from the defaults of its class.
model m Gemma3ForCausalLM 2 '"sliding_window": 8' "$ends
$(blocks 2 "$attn
$four
$qk")"
edit 's/"num_attention_heads": 2,\| "num_key_value_heads": 1,\|"head_dim": 4,\|"rms_norm_eps": 1e-6,//g
    s/"max_position[a-z_]*": 64,//; s/, "rope_theta": 10000.0//; s/"rope_theta": 10000.0,//'
organ-keys m 2> err > have
for row in context_length:131072 attention.head_count:8 attention.head_count_kv:4 attention.key_length:256 \
    attention.layer_norm_rms_epsilon:1e-6 rope.freq_base:1000000; do
    check_text "$(awk -F'\t' -v key="gemma3.${row%%:*}" '$1 == key { print $4 }' have)" "${row##*:}" \
        "a default of gemma3"
done

# ---- layers --------------------------------------------------------------------------------------

s='"sliding_attention"' f='"full_attention"'
gemma3() { model m Gemma3ForCausalLM 4 "\"sliding_window\": 8, $1" "$ends
$(blocks 4 "$attn
$four
$qk")"; }
gemma3 "\"layer_types\": [$s, $f, $s, $f]"
key gemma3.attention.sliding_window_pattern 2 "a period of layer_types"
gemma3 "\"layer_types\": [$s, $s, $s, $f]"
key gemma3.attention.sliding_window_pattern 4 "full attention in the last layer"
gemma3 "\"layer_types\": [$f, $f, $f, $f]"
check_exit 1 "no window" organ-keys m --get gemma3.attention.sliding_window
gemma3 '"_sliding_window_pattern": 3'
key gemma3.attention.sliding_window_pattern 3 "a period as a number"
gemma3 "\"layer_types\": [$s, $f, $f, $s]"
check_error 3 "irregular places" "no period" organ-assemble m -o x.gguf
gemma3 "\"layer_types\": [$s, $f]"
check_error 3 "2 entries, but the model has 4 layers" "a stale list" organ-assemble m -o x.gguf
llama m "\"sliding_window\": 8, \"layer_types\": [$s, $f]"
check_error 3 "has windows" "windows in llama" organ-assemble m -o x.gguf

# ---- heads and vocabularies ----------------------------------------------------------------------

llama m '"tie_word_embeddings": true'
quiet "a tied head that is a copy" organ-keys m
differ
model m LlamaForCausalLM 2 '"tie_word_embeddings": true' "$(blocks 2 "$attn")
$ends
$head"
differ
noted "lm_head.weight differs from the embeddings" "a tied head that differs" organ-keys m
model m LlamaForCausalLM 2 '"tie_word_embeddings": false' "$ends
$(blocks 2 "$attn")"
noted "no file has lm_head.weight" "an untied model without a head" organ-keys m
check_error 1 "no file has lm_head.weight" "the same, strict" organ-assemble m --strict -o x.gguf

# ---- names ---------------------------------------------------------------------------------------

for prefix in _orig_mod. module.; do
    model m LlamaForCausalLM 2 '' "$(printf '%s\n' "$ends" "$head" "$(blocks 2 "$attn")" | sed "s/^/$prefix/")"
    quiet "names that begin with $prefix" organ-keys m
done
model m LlamaForCausalLM 2 '' "$ends
$head
$(blocks 2 "$attn")
model.layers.0.self_attn.q_proj.lora_A.default.weight 2 8"
check_error 3 "an adapter that was not merged" "lora_A in a checkpoint" organ-assemble m -o x.gguf
llama m '"model_type": "llama"'
edit 's/"architectures": \[[^]]*\]/"architectures": null/'
noted "model_type decides: LlamaForCausalLM" "no class" organ-keys m
model m LlamaForCausalLM 2 '' "$ends
$head
$(blocks 2 "$attn")
vision_tower.a.weight 2 2
vision_tower.b.weight 2 2"
noted "left out: 2 of the vision tower" "a tower" organ-keys m

# The table's words for numbers are no numbers.
for name in L.self_attn.q_proj.weight model.L.self_attn.q_proj.weight model.layers.0.mlp.experts.E.gate_proj.weight; do
    model m LlamaForCausalLM 2 '' "$(printf '%s\n' "$ends" "$head" "$(blocks 2 "$attn")")
$name 8 8"
    check_error 3 "has no such tensor" "the name $name" organ-assemble m -o x.gguf
done

# ---- files ---------------------------------------------------------------------------------------

llama m ''
cp m/model.safetensors m/model.fp16.safetensors
cp m/model.safetensors 'm/model (1).safetensors'
noted "model.safetensors is used" "variants" organ-keys m
rm m/model*
blocks 2 "$attn" | stored m/model-00001-of-00003.safetensors
echo "$head" | stored m/model-00003-of-00003.safetensors
check_error 3 "file 2 of 3 is missing: model-00002-of-00003.safetensors" "c-shards/noindex-missing-middle" \
    organ-extract --list m
echo "$ends" | stored m/model-00002-of-00003.safetensors
quiet "c-shards/noindex-ok" organ-keys m
echo "model.mtp.weight 2 2" | stored m/model-mtp.safetensors
noted "other files are left out: model-mtp.safetensors" "a file beside shards" organ-keys m
rm m/model-mtp.safetensors
echo "$head" | stored m/model-overlay.safetensors
printf '%s\n' "$ends" "$head" "$(blocks 2 "$attn")" |
    awk -v head="${head%% *}" 'BEGIN { printf "{\"weight_map\": {" } {
    n = $1 ~ /layers/ ? 1 : 2
    file = $1 == head ? "model-overlay.safetensors" : "model-0000" n "-of-00003.safetensors"
    printf "%s\"%s\": \"%s\"", (NR > 1 ? ", " : ""), $1, file
} END { print "}}" }' > m/model.safetensors.index.json
{ echo "$ends"; echo "$head"; } | stored m/model-00002-of-00003.safetensors
quiet "c-shards/overlay" organ-keys m
check_text "$(organ-extract --list -q m | wc -l | tr -d ' ')" 22 "the tensors of the index"
cp m/model-overlay.safetensors m/model.safetensors
noted "model-00001-of-00003.safetensors is used; other files are left out: model.safetensors" \
    "a single file beside an index" organ-keys m
rm m/model.safetensors
# Files that are no JSON.
pointer='version https://git-lfs.github.com/spec/v1\n'
for row in "$pointer|a Git LFS pointer" '[{"a": 1}]|it is not a JSON object' \
    '<!DOCTYPE html>|an HTML page' '\377\376{\0\042\0|text in UTF-16' \
    'null|it is not a JSON object' 'Entry not found\n|a text file, not a JSON file: Entry not found' \
    '\0\0\0\0|all zeros' '\357\273\277{}|without this mark'; do
    for file in config.json model.safetensors.index.json tokenizer.json; do
        [ ! -e m/$file ] || cp m/$file kept
        # shellcheck disable=SC2059 # escapes of the bytes
        printf "${row%%|*}" > m/$file
        check_error 3 "${row#*|}" "${row#*|}: $file" organ-assemble m -o x.gguf
        rm m/$file
        [ ! -e kept ] || mv kept m/$file
    done
done
echo "${pointer%??}" > m/tokenizer.model
check_error 3 "m/tokenizer.model: offset 0: this is a Git LFS pointer" "a pointer to a tokenizer" \
    organ-assemble m -o x.gguf
rm m/tokenizer.model
for row in "m.gguf|is a GGUF model" "pytorch_model.bin|is a pickle" "consolidated.00.pth|is a pickle" \
    "weights.npz|older versions of MLX" "tf_model.h5|TensorFlow" "flax_model.msgpack|Flax" "model.onnx|ONNX"; do
    config_only LlamaForCausalLM 2 ''
    echo x > "m/${row%%|*}"
    check_error 3 "${row%%|*} is a" "weights in ${row%%|*}" organ-assemble m -o x.gguf
    grep -qF "${row#*|}" err || bad "weights in ${row%%|*}: $(cat err)"
done
rm -rf m
mkdir m
echo '{"dim": 8, "n_layers": 2}' > m/params.json
echo "$ends" | stored m/consolidated.safetensors
check_error 3 "the format of Mistral (params.json)" "Mistral's own files" organ-assemble m -o x.gguf
check "they can be looked at" organ-extract --list m
rm m/params.json
mv m/consolidated.safetensors m/model.safetensors
check_error 3 "without config.json has no keys" "a folder without config.json" organ-assemble m -o x.gguf
mkdir -p models--who--Some-Model/snapshots
llama models--who--Some-Model/snapshots/0123abcd ''
check_text "$(organ-keys models--who--Some-Model/snapshots/0123abcd --get general.name)" Some-Model "a cache folder"

# ---- quantized -----------------------------------------------------------------------------------

quantized() { # TEXT METHOD TENSORS
    model m LlamaForCausalLM 2 "\"quantization_config\": {\"quant_method\": \"$2\"}" "$ends
$head
$3
$(blocks 2 "$attn" | grep -v 0.self_attn.q_proj)"
    check_error 3 "$1" "k-quantized/$2: $3" organ-assemble m -o x.gguf
    check "$2: it can be listed" organ-extract --list m
    check_absent x.gguf "$2"
}
q=model.layers.0.self_attn.q_proj
quantized "quantized with bitsandbytes" bitsandbytes "$q.weight:U8 32 1
$q.weight.absmax:U8 1"
quantized "bitsandbytes, and their scales are missing" bitsandbytes "$q.weight:I8 8 8"
quantized "quantized with GPTQ" gptq "$q.qweight:I32 1 8
$q.g_idx:I32 8
$q.qzeros:I32 1 1"
quantized "quantized with AWQ" awq "$q.qweight:I32 8 1
$q.qzeros:I32 1 1"
quantized "quantized with compressed-tensors" compressed-tensors "$q.weight_packed:I32 8 1"
quantized "NVFP4" modelopt "$q.weight:U8 8 4
$q.weight_scale_2 1"
quantized "quantized with MLX" '' "$q.weight:U32 8 1
$q.scales 8 1
$q.biases 8 1"
quantized "quantized with GPTQ" '' "$q.qweight:I32 1 8
$q.qzeros:I32 1 1
$q.scales 1 8"
quantized "quantized with AWQ" '' "$q.qweight:I32 8 1
$q.qzeros:I32 1 1
$q.scales 1 8"
quantized "quantized with higgs; save the model without quantization" higgs "$q.weight:I16 8 8
$q.scales 8 8"
quantized "config.json says that the weights are quantized with vptq; save" vptq "$q.indices:I32 1 8"
quantized "no scale" fp8 "$q.weight:F8_E4M3 8 8"
scaled() { # SCALES-OF-Q SCALES-OF-K, in a configuration that does not tell
    model m LlamaForCausalLM 2 '' "$ends
$head
$(blocks 2 "$attn" | sed 's/\([qk]_proj.weight\)/\1:F8_E4M3/')
$(blocks 2 "$l.self_attn.q_proj.weight_scale $1${2:+
$l.self_attn.k_proj.weight_scale $2}")"
}
for shape in "1" "8" "8 1" "1 1" "8 8"; do
    scaled "$shape" 4
    quiet "F8 with scales of $shape" organ-keys m
done
# Blocks of 4 x 2, or of 5 x 3: only the configuration tells.
scaled "2 4" 4
noted "does not state the size of the blocks of F8 scales (weight_block_size); that of model.layers.0.self_attn" \
    "F8 with blocks that are not stated" organ-keys m
grep -q 'taken as 4 x 2' err || bad "F8 with blocks that are not stated: $(cat err)"
scaled "3 4" 4 # 8 rows in 3 blocks: 3 rows each, and no power of two
check_error 3 "the shape of its scale does not fit it" "F8 with blocks of 3" organ-assemble m -o x.gguf
scaled "2 4" 4
check_exit 1 "F8 with blocks that are not stated, strict" organ-assemble m --strict -o x.gguf
blocks='"quantization_config": {"quant_method": "fp8", "weight_block_size": '
edit "s/\"rope_theta\"/${blocks}[4, 2]}, &/"
quiet "F8 with stated blocks" organ-keys m
edit 's/\[4, 2\]/[128, 128]/'
check_error 3 "scale does not fit" "F8 with blocks of another size than is stated" organ-assemble m -o x.gguf
edit 's/"weight_block_size": .128, 128./"config_groups": {"group_0": {"weights": {"block_structure": [4, 2]}}}/'
edit 's/"quant_method": "fp8"/"quant_method": "compressed-tensors", "format": "float-quantized"/'
check "F8 with the blocks of compressed-tensors" organ-keys m
if grep 'does not state' err; then bad "blocks of compressed-tensors: $(cat err)"; else ok; fi
edit 's/\[4, 2\]/[4, 4]/'
check_error 3 "scale does not fit" "blocks of another size, compressed-tensors" organ-assemble m -o x.gguf
for name in input_scale output_scale activation_scale act_scale; do
    model m LlamaForCausalLM 2 '"quantization_config": {"quant_method": "fp8"}' "$ends
$head
$(blocks 2 "$attn" | sed 's/q_proj.weight/&:F8_E4M3/')
$(blocks 2 "$l.self_attn.q_proj.weight_scale 1
$l.self_attn.q_proj.$name 1
$l.self_attn.k_scale 1")"
    quiet "k-quantized/fp8-$name" organ-keys m
done
edit 's/"quant_method": "fp8"/"quant_method": "quark"/'
quiet "k-quantized/fp8-quark" organ-keys m
for name in q_scale k_scale v_scale prob_scale kv_scale kv_cache_scale k_proj.kv_cache_scaling_factor \
    k_proj.k_scale; do
    model m LlamaForCausalLM 2 '' "$ends
$head
$(blocks 2 "$attn
$l.self_attn.$name 1")"
    quiet "a scale of a cache: $name" organ-keys m
done
# ComfyUI names the scales of its weights in another way.
comfy() { # TENSORS
    model m LlamaForCausalLM 2 '' "$ends
$head
$(blocks 2 "$attn" | sed 's/q_proj.weight/&:F8_E4M3/')
$1"
}
for marker in "scaled_fp8:F8_E4M3 0" "model.scaled_fp8:F8_E4M3 2"; do
    comfy "$(blocks 2 "$l.self_attn.q_proj.scale_weight 1
$l.self_attn.q_proj.scale_input 1")
$marker"
    quiet "k-quantized/comfy, $marker" organ-keys m
done
comfy "$(blocks 2 "$l.self_attn.q_proj.weight_scale
$l.self_attn.q_proj.comfy_quant:U8 27")"
quiet "k-quantized/comfy, newer" organ-keys m
# The last tensor of the file is a scale, whose bytes become 2, and 56 is 1 in F8.
{ printf '%s\n' "$ends" "$head" "$(blocks 2 "$attn" | grep -v 0.self_attn.v)"
    echo "model.layers.0.self_attn.v_proj.weight:F8_E4M3 4 8
model.layers.0.self_attn.v_proj.scale_weight 1"; } > list
bytes=$(stored_header m/model.safetensors < list)
{ head -c $((bytes - 36)) /dev/zero
    head -c 32 /dev/zero | tr '\000' 8; } >> m/model.safetensors
cp m/model.safetensors unscaled
for bits in '\0000\0000' '\0000\0200' '\0300\0177' '\0200\0177' '\0000\0300'; do
    { cat unscaled; printf '\000\000%b' "$bits"; } > m/model.safetensors
    check_error 3 "and a scale must be above 0" "F8 with a scale whose bits are not those of a number above 0" \
        organ-assemble -q m -o x.gguf
done
check_absent x.gguf "F8 with a wrong scale"
{ cat unscaled; printf '\000\000\000\100'; } > m/model.safetensors
quiet "F8 with a scale of ComfyUI" organ-assemble -q m -o x.gguf
check_text "$(organ-measure x.gguf --tensors blk.0.attn_v.weight --columns min,max --sample 0 | tail -n 1)" \
    "2${TAB}2" "its values are those of the weight times the scale"
rm -f x.gguf
comfy "$(blocks 2 "$l.self_attn.q_proj.scale_weight 1
$l.self_attn.q_proj.weight_scale 1")"
check_error 3 "it has several scales" "two scales of one weight" organ-assemble m -o x.gguf
comfy "$(blocks 2 "$l.self_attn.q_proj.weight_scale:F8_E8M0 1")"
check_error 3 "its scale has the type F8_E8M0, which is not read" "scales of powers of two" organ-assemble m -o x.gguf
comfy "$(blocks 2 "$l.self_attn.q_proj.weight_scale:I32 1")"
check_error 3 "its scale has the type I32" "scales of integers" organ-assemble m -o x.gguf
comfy "$(blocks 2 "$l.self_attn.k_proj.scale_weight 1")"
check_error 3 "has no such tensor" "a scale of ComfyUI for a weight that is not F8" organ-assemble m -o x.gguf
for size in '"weight_block_size": [0, 128]' '"weight_block_size": [128]' '"weight_block_size": "128"' \
    '"config_groups": {"group_0": {"weights": {"block_structure": [128, -1]}}}'; do
    llama m "\"quantization_config\": {\"quant_method\": \"fp8\", $size}"
    check_error 3 "must be two numbers above 0" "$size" organ-assemble m -o x.gguf
done
for size in '"weight_block_size": null' '"config_groups": {"group_0": {"weights": {"block_structure": "128x128"}}}'; do
    llama m "\"quantization_config\": {\"quant_method\": \"fp8\", $size}"
    quiet "$size" organ-keys m
done
scaled 1 ''
check_error 3 "no scale" "one F8 tensor without a scale" organ-assemble m -o x.gguf
for shape in "3 3" "3" "2 3"; do
    scaled "$shape" 4
    check_error 3 "scale does not fit" "F8 with scales of $shape" organ-assemble m -o x.gguf
done
model m LlamaForCausalLM 2 '"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic",
    "modules_to_not_convert": ["lm_head"], "inverse_scales": true}' "$ends
$head
$(blocks 2 "$attn")"
noted "quantization_config has fields or values that the conversion does not use: inverse_scales = true" \
    "an unknown field of quantization_config" organ-keys m
model m LlamaForCausalLM 2 '' "$ends
$head
$(blocks 2 "$attn" | sed 's/q_proj.weight/q_proj.weight:F8_E4M3/')"
quiet "F8 without a scale and a configuration" organ-extract --list m

# ---- other classes and plain files ----------------------------------------------------------------------

model m BertModel 2 '' "embeddings.word_embeddings.weight 12 8
pooler.dense.weight 8 8"
noted "shown under its stored names" "another class" organ-extract --list m
grep -q '^pooler.dense.weight' out || bad "no stored name"
check "it is measured" organ-measure m
check "it is compared" organ-compare m m
check_error 3 "BertModel are not covered" "no GGUF" organ-assemble m -o x.gguf
check_text "$(organ-info --json m 2> /dev/null | grep -c '"kind": "checkpoint"')" 1 "its kind"
noted "shown under" "it is written as safetensors" organ-assemble m -o x.safetensors
organ-extract --list -q m | cells name,dtype,dims > have
organ-extract --list -q x.safetensors | cells name,dtype,dims > want
check_same have want "the same tensors"
cp -r m m2
printf '\100' | dd of=m2/model.safetensors bs=1 seek=$(($(wc -c < m2/model.safetensors) - 1)) conv=notrunc 2> ./dd
check "they are merged under their stored names" organ-merge -q --method linear m m2 -o merged.safetensors
check_text "$(organ-extract --list -q merged.safetensors | cells name | tail -n 2 | tr '\n' ' ')" \
    "embeddings.word_embeddings.weight pooler.dense.weight " "the names of the merge"
check_text \
    "$(organ-measure -q merged.safetensors --tensors pooler.dense.weight --columns max --sample 0 | tail -n 1)" 1 \
    "the mean of 0 and 2"
check_error 3 "BertModel are not covered" "merged as GGUF" organ-merge -q --method linear m m2 -o merged.gguf
rm -rf pipeline
mkdir -p pipeline/unet pipeline/vae
echo '{"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"]}' \
    > pipeline/model_index.json
echo '{"_class_name": "UNet2DConditionModel", "in_channels": 4}' > pipeline/unet/config.json
echo 'conv_in.weight 4 2 3 3' | stored pipeline/unet/diffusion_pytorch_model.safetensors
noted "shown under" "a folder of diffusers" organ-extract --list pipeline/unet
grep -q '^conv_in.weight' out || bad "no tensor of a folder of diffusers"
check_error 3 "diffusers" "a pipeline of diffusers" organ-info pipeline
METADATA='"format":"pt","who":"me"'
printf 'a 2 2\nb:I32 3\nc:F4 4\n' | stored p.safetensors
METADATA=''
check_text "$(organ-info --json p.safetensors 2> /dev/null | grep -c '"kind": "safetensors file"')" 1 "a plain file"
noted "left out: c (F4)" "a type that is not read" organ-extract --list p.safetensors
check_text "$(organ-keys p.safetensors --get who 2> /dev/null)" me "metadata"
check "metadata are changed" organ-keys p.safetensors --set who=str:you -o p2.safetensors
check_text "$(organ-keys p2.safetensors --get who)" you "the changed metadata"
check "they are kept" organ-assemble p2.safetensors -o p3.safetensors
check_same p2.safetensors p3.safetensors "there and back"
METADATA='"format":"pt","n":7,"o":{"a":1}'
echo 'a 2 2' | stored p.safetensors
noted "values of __metadata__ that are not texts are left out: n (7), o ({1 members})" "metadata of other types" \
    organ-keys p.safetensors
check_error 1 "that are not texts" "the same, strict" organ-assemble p.safetensors --strict -o p4.safetensors
METADATA=''
n=$(printf '{"__metadata__":["a"],"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  ' | wc -c)
{ printf '%b' "$(printf '\\0%03o\\0\\0\\0\\0\\0\\0\\0' "$n")"
    printf '{"__metadata__":["a"],"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  0000'; } > p.safetensors
noted "__metadata__ is not a JSON object" "metadata that are a list" organ-keys p.safetensors

# ---- adapters ------------------------------------------------------------------------------------

llama base ''
llama tied '"tie_word_embeddings": true'
grep -v zzz tied/config.json > c && mv c tied/config.json
model tied LlamaForCausalLM 2 '"tie_word_embeddings": true' "$ends
$(blocks 2 "$attn")"
p=base_model.model.model.layers.%.self_attn.q_proj
pair="$p.lora_A.weight 2 8
$p.lora_B.weight 8 2"
# adapter MEMBERS [TENSORS]: the folder a.
adapter() {
    rm -rf a
    mkdir a
    echo "{\"peft_type\": \"LORA\", \"base_model_name_or_path\": \"nobody/nothing\", \"r\": 2,
\"lora_alpha\": 4${1:+, $1}}" | tr '\n' ' ' |
        sed 's/"peft_type": "LORA"\(.*"peft_type"\)/"x": 1\1/; s/"x": 1, //' > a/adapter_config.json
    { blocks 2 "$pair"; [ -z "${2:-}" ] || echo "$2"; } | stored a/adapter_model.safetensors
}
convert() { organ-lora --from a --base "${B:-base}" --force -o a.gguf; }
B=''
for init in true false '"gaussian"' '"eva"' '"orthogonal"'; do
    adapter "\"init_lora_weights\": $init"
    quiet "p-peft/init-$init" convert
done
for init in pissa pissa_niter_16 olora corda loftq lora_ga; do
    adapter "\"init_lora_weights\": \"$init\""
    check_error 3 "init_lora_weights = $init" "p-peft/init-$init" convert
    check_error 3 "init_lora_weights = $init" "p-peft/init-$init, folded" \
    organ-transplant --base base --adapter a -o x.gguf
done
for type in LOHA LOKR IA3 VERA OFT ADALORA UNILORA; do
    adapter "\"peft_type\": \"$type\""
    check_error 3 "peft_type = $type" "p-peft/$type" convert
    check "$type: it can be looked at" organ-extract --list a
done
adapter '"alora_invocation_tokens": [7, 8]'
quiet "p-peft/alora" convert
check_text "$(organ-keys a.gguf --get adapter.alora.invocation_tokens | tr '\n' ' ')" "7 8 " "its tokens"
check_error 3 "activated LoRA" "it is not folded" organ-transplant --base base --adapter a.gguf -o x.gguf
for field in '"layer_replication": [[0, 1]]' '"use_dora": true' '"use_qalora": true' '"lora_bias": true' \
    '"bias": "all"' '"trainable_token_indices": [3]'; do
    adapter "$field"
    check_error 3 "$(echo "$field" | cut -d'"' -f2)" "$field" convert
done
organ-lora -q --from a.gguf --base base --to-peft "$T/peft"
check_text "$(tr -d ' \n' < peft/adapter_config.json | grep -o '"alora_invocation_tokens":\[7,8\]')" \
    '"alora_invocation_tokens":[7,8]' "its tokens for PEFT"
check_text "$(grep -c '"base_model_name_or_path": "nobody/nothing"' peft/adapter_config.json)" 1 "the name of its base"
adapter '"base_model_name_or_path": "/home/somebody/models/base-7b/"'
sed 's/"base_model_name_or_path": "nobody[^,]*,//' a/adapter_config.json > c && mv c a/adapter_config.json
quiet "a base by its path" convert
check_text "$(organ-keys a.gguf --get general.base_model.0.name)" base-7b "no path of another machine"
organ-keys -q a.gguf --delete general.base_model.0.name -o a2.gguf
organ-lora -q --from a2.gguf --base "$T/base" --to-peft "$T/peft2"
check_text "$(grep -c '"base_model_name_or_path": "base"' peft2/adapter_config.json)" 1 "no path of this machine"
adapter ''
sed 's/"r": 2/"r": 8/' a/adapter_config.json > c && mv c a/adapter_config.json
noted "self_attn.q_proj has rank 2, but adapter_config.json has 8 (2 pairs of another rank)" "another r" convert
check_error 1 "has rank 2" "another r, strict" organ-lora --from a --base base --strict -o y.gguf
adapter '"rank_pattern": {"layers.1.self_attn.q_proj": 4}'
noted "model.layers.1.self_attn.q_proj has rank 2, but adapter_config.json has 4 (1 pair" "another rank" convert
for pattern in rank_pattern alpha_pattern; do
    adapter "\"$pattern\": {\"layers.1.self_attn.q_proj\": 2, \"mlp.down\": 2}"
    noted "$pattern has 1 name that no pair has: mlp.down" "$pattern of a module without a pair" convert
    adapter "\"$pattern\": {\"q_proj\": 4}"
    check "$pattern" convert
    ! grep -q 'no pair has' err || bad "$pattern: $(cat err)"
done
for row in "PROMPT_TUNING|cannot be merged" "XLORA|for each token" "VERA|merge it into its base"; do
    adapter ''
    sed "s/\"peft_type\": \"LORA\"/\"peft_type\": \"${row%|*}\"/" a/adapter_config.json > c
    mv c a/adapter_config.json
    check_error 3 "peft_type = ${row%|*}: " "${row%|*}" convert
    grep -qF "${row#*|}" err || bad "${row%|*}: $(cat err)"
done
for field in '"use_rslora": "true"' '"alpha_pattern": [1]' '"rank_pattern": 3'; do
    adapter "$field"
    check_error 3 "which has the wrong type" "$field" convert
done
for value in '"4"' null true '[4]'; do
    for pattern in rank_pattern alpha_pattern; do
        adapter "\"$pattern\": {\"q_proj\": $value}"
        check_error 3 "adapter_config.json has $pattern of q_proj = " "$pattern of $value" convert
    done
done
for value in 0 -1 2.5; do
    adapter "\"rank_pattern\": {\"q_proj\": $value}"
    check_error 3 "rank_pattern of q_proj = $value, which must be a whole number above 0" "a rank of $value" convert
    adapter ''
    sed "s/\"r\": 2/\"r\": $value/" a/adapter_config.json > c && mv c a/adapter_config.json
    check_error 2 "the rank (r) of this adapter is not known, or no whole number above 0" "r of $value" convert
done
for token in '"7"' -1 1e12; do
    adapter "\"alora_invocation_tokens\": [7, $token]"
    check_error 3 "in alora_invocation_tokens, which is not the number of a token" "the token $token" convert
done
adapter '"target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]'
noted "target_parameters names mlp.experts.gate_up_proj and others, for which the adapter has no tensors" \
    "experts that are lost" convert
adapter '"target_parameters": ["\u0000.x"]'
noted 'target_parameters names \x00.x, for which' "experts whose name has a NUL" convert
q='^model.layers.0.self_attn.q_proj'
adapter "\"target_modules\": [\"q_proj\", \"q_proj\$\", \"$q\"], \"target_parameters\": [\"$q.x\"]"
noted "target_modules names q_proj$ and 1 more, for which" "the marks of patterns in names of modules" convert
grep -qF "target_parameters names $q.x, for which" err || bad "a mark in a parameter: $(cat err)"
adapter '"alpha_pattern": {"^model.layers.0.self_attn.q_proj": 8, "q_proj$": 4}'
check "patterns of whole names, and of their ends" convert
! grep -q 'no pair has' err || bad "patterns of whole names, and of their ends: $(cat err)"
adapter '"alpha_pattern": {"q_proj": 8, "x.*": 4}'
noted "alpha_pattern has 1 name that no pair has: x.*" "a regular expression behind what fits" convert
adapter '"alpha_pattern": {"x.*": 4, "q_proj": 8}'
check_error 3 "alpha_pattern has a regular expression" "one before it" convert
# As many names in the configuration as pairs are not compared with each other.
names() { awk -v n=2500 -v form="$1" 'BEGIN { for (i = 0; i < n; i++) printf "%s" form, i ? "," : "", i }'; }
lists="\"layers_to_transform\": [$(names 1%04d)], \"exclude_modules\": [$(names '"l%d.q_proj"')]"
for list in target_modules modules_to_save; do
    lists="$lists, \"$list\": [\"q_proj\", $(names '"l%d.q_proj"')]"
done
lists="$lists, \"target_parameters\": [$(names '"m%d.experts.down_proj"')]"
for list in rank_pattern alpha_pattern; do lists="$lists, \"$list\": {$(names '"l%d.q_proj": 1')}"; done
adapter "$lists"
{ blocks 2500 "$pair"; blocks 2 "${p%.*}.v_proj.base_layer.weight 4 8"; } | stored a/adapter_model.safetensors
rm -rf wide
mkdir wide
config LlamaForCausalLM 2500 > wide/config.json
sed "s,nobody/nothing,$PWD/wide," a/adapter_config.json > c && mv c a/adapter_config.json
noted "leave out 2500 pairs" "names for 2500 pairs" \
    limited 3 organ-keys a
check_text "$(grep -c 'layers.0.self_attn.v_proj.base_layer.weight and 1 more are saved with the adapter' err)" 1 \
    "matrices that were not compared are one note"
# Halves, norms and matrices of types that are not read.
for type in F4 X9 I8; do
    case $type in I*) text="its values are integers ($type)" ;; *) text="its type $type cannot be read" ;; esac
    for name in lora_A lora_B; do
        adapter ''
        blocks 2 "$pair" | sed "s/1\(.*$name.weight\)/1\1:$type/" | stored a/adapter_model.safetensors
        check_error 3 "$text" "$name of $type" convert
    done
    adapter '' "base_model.model.model.norm.weight:$type 8"
    check_error 3 "$text" "a norm of $type" convert
    adapter '' "base_model.model.lm_head.base_layer.weight:$type 12 8"
    check_error 3 "$text" "a matrix of $type beside a pair" convert
done
adapter '"layer_replication": [], "target_modules": ["q_proj", "v_proj"], "modules_to_save": ["score"]'
noted "target_modules names v_proj, for which the adapter has no tensors" "pairs that are lost" convert
grep -q "modules_to_save names score" err || bad "a matrix that is lost: $(cat err)"
! grep -q "names q_proj" err || bad "q_proj is there"
adapter '"target_modules": ["\u0000 no name", "q_proj\u0000 and more", "k_proj"]'
noted 'target_modules names \x00 no name and 2 more, for which the adapter has no tensors' "names with a NUL" convert
for row in '"target_modules": ["v_proj"]|2 pairs that the adapter has, which PEFT does not use: model.layers.0' \
    '"target_modules": ["layers.0.self_attn.q_proj"]|1 pair that the adapter has' \
    '"exclude_modules": ["model.layers.1.self_attn.q_proj"]|1 pair that the adapter has' \
    '"layers_to_transform": [1, 2]|1 pair that the adapter has' '"layers_to_transform": 1|1 pair that'; do
    adapter "${row%%|*}"
    noted "leave out ${row#*|}" "${row%%|*}" convert
done
for field in '"target_modules": "all-linear"' '"layers_to_transform": [0, 1]' '"exclude_modules": ["k_proj"]' \
    '"target_modules": ["model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"]'; do
    adapter "$field"
    quiet "$field" convert
done
adapter ''
printf '\200\177' | dd of=a/adapter_model.safetensors bs=1 seek=$(($(wc -c < a/adapter_model.safetensors) - 2)) \
    conv=notrunc 2> ./dd
check_error 3 "1 of its values are NaN or infinite" "a pair with an infinite value" convert
adapter '' "base_model.model.model.norm.weight 6"
check_error 3 "another length than the norm of the base" "a norm of another model" convert
for half in "A.weight 2 6" "B.weight 6 2"; do
    rm -rf a
    mkdir a
    echo '{"peft_type": "LORA", "r": 2, "lora_alpha": 4}' > a/adapter_config.json
    blocks 2 "$pair" | sed "s/lora_${half%%.*}.weight .*/lora_$half/" | stored a/adapter_model.safetensors
    check_error 3 "model.layers.0.self_attn.q_proj.lora_" "a pair of another shape: $half" convert
done
# Why a pair is refused: its halves are [r, in] and [out, r], here with r = 2 and heads of 4 rows.
while read -r module a b text; do
    rm -rf a
    mkdir a
    echo '{"peft_type": "LORA", "r": 2, "lora_alpha": 4}' > a/adapter_config.json
    blocks 2 "base_model.model.$l.$module.lora_A.weight $(echo $a | tr x ' ')
base_model.model.$l.$module.lora_B.weight $(echo $b | tr x ' ')" | stored a/adapter_model.safetensors
    check_error 3 "$text" "$module of $a and $b" convert
done << \EOF
self_attn.q_proj 8x2 2x8 the halves of the pair are transposed, or exchanged
self_attn.o_proj 8x2 2x8 the halves of the pair are transposed, or exchanged
self_attn.k_proj 8x2 2x4 the halves of the pair are transposed, or exchanged
mlp.up_proj 16x2 2x8 the halves of the pair are transposed, or exchanged
self_attn.q_proj 3x8 8x2 the halves of the pair do not fit each other
self_attn.q_proj 2x8 6x2 the base has this matrix in another shape
self_attn.q_proj 2x6 8x2 that of the base has 8; use the model
EOF
adapter '"new_trick": true'
noted "new_trick = true" "an unknown field of an adapter" convert
adapter ''
noted "nobody/nothing" "without its base" organ-info a
grep -q '^  base  *nobody/nothing' out || bad "no name of the base"
grep -q '^  adapter  *rank 2, alpha 4, 2 pairs$' out || bad "no ranks: $(cat out)"
grep -q '^  targets  *q_proj$' out || bad "no targets"
check_text "$(organ-keys a --get adapter.lora.alpha 2> /dev/null)" 4 "its alpha"
check_error 2 "contains it (organ-lora --base)" "the option of another tool" organ-assemble a -o x.gguf
check_error 2 "contains it (--base)" "an option of this tool" organ-lora --from a -o x.gguf
check_error 2 "is not a folder here" "it is not converted" organ-lora --from a -o x.gguf
mv a/adapter_model.safetensors a/adapter_model.bin
check_error 3 "adapter_model.bin" "p-peft/bin" convert
adapter '' "base_model.model.lm_head.lora_A.weight 2 8
base_model.model.lm_head.lora_B.weight 14 2"
check_error 3 "14 rows, but that of the base has 12" "p-peft/resized-both" convert
adapter '' "base_model.model.lm_head.base_layer.weight 14 8"
check_error 3 "differs from that of the base" "p-peft/resized-embed-only" convert
adapter '' "base_model.model.lm_head.base_layer.weight 12 8"
quiet "a matrix that is that of the base" convert
adapter '' "base_model.model.lm_head.lora_A.weight 2 8
base_model.model.lm_head.lora_B.weight 12 2"
B=tied
noted "pair for lm_head" "p-peft/tied-lmhead" convert
adapter '' "base_model.model.model.embed_tokens.lora_embedding_A 2 12
base_model.model.model.embed_tokens.lora_embedding_B 8 2"
noted "engines abort" "p-peft/tied-embed" convert
check_error 1 "engines abort" "p-peft/tied-embed, strict" organ-lora --from a --base tied --strict -o y.gguf
check_absent y.gguf "p-peft/tied-embed, strict"
organ-assemble -q tied -o tied.gguf
check_exit 1 "the adapter and its model" organ-check a.gguf --target tied.gguf
grep -q "token_embd.weight.lora_a${TAB}.*engines abort" out || bad "organ-check of an embedding pair: $(cat out)"
check "p-peft/tied-embed, folded" organ-transplant --base tied.gguf --adapter a -o folded.gguf
B=''
adapter '' "base_model.model.score.weight 2 8"
check_error 3 "modules_to_save" "the head of a classifier" convert
noted "1 whole matrices are left out" "its pairs" organ-lora --from a --base base --pairs-only --force -o a.gguf
rm -rf a
mkdir a
echo '{"fine_tune_type": "lora", "model": "somewhere", "lora_parameters": {"rank": 2, "scale": 10.0}}' \
    > a/adapter_config.json
blocks 2 "$l.self_attn.q_proj.lora_a 8 2
$l.self_attn.q_proj.lora_b 2 8" | stored a/adapters.safetensors
quiet "p-peft/mlx" convert
check_text "$(organ-keys a.gguf --get adapter.lora.alpha)" 20 "its alpha is scale * rank"
check_text "$(organ-extract --list a.gguf | awk -F"$TAB" "$BY_NAME"'NR == 2 { print col("dims") }')" 8x2 "its lora_a"
mlx() { # LORA_PARAMETERS [MEMBERS]
    echo "{\"fine_tune_type\": \"lora\", \"model\": \"somewhere\", \"lora_parameters\": {$1}${2:+, $2}}" \
        > a/adapter_config.json
}
mlx '"rank": 2, "scale": 10.0, "alpha": 2' '"peft_type": "LORA"'
quiet "MLX with an alpha that changes nothing" convert
mlx '"rank": 2, "scale": 10.0, "alpha": 16'
noted "lora_parameters.alpha = 16 (the scale alone counts" "MLX with alpha and scale" convert
mlx '"rank": 2, "alpha": 16'
quiet "MLX with alpha only" convert
check_text "$(organ-keys a.gguf --get adapter.lora.alpha)" 16 "its alpha"
mlx '"rank": 2, "scale": "10"'
check_error 2 "rank or scale (lora_parameters) of this adapter is not known" "MLX, a text" convert
# Files of its training, and none of its configuration.
mlx '"rank": 2, "scale": 10.0'
mv a/adapters.safetensors a/0000200_adapters.safetensors
cp a/0000200_adapters.safetensors a/0000100_adapters.safetensors
check_error 3 "this adapter has no adapters.safetensors" "files of training" convert
grep -q "such as 0000200_adapters.safetensors" err || bad "files of training: $(cat err)"
quiet "a file of training" organ-lora --from a/0000100_adapters.safetensors --base base --force -o a.gguf
check_text "$(organ-keys a.gguf --get adapter.lora.alpha)" 20 "its alpha"
mv a/0000200_adapters.safetensors a/adapters.safetensors
rm a/0000100_adapters.safetensors
mv a/adapter_config.json config
check_error 2 "rank or scale (lora_parameters) of this adapter is not known" "MLX without its configuration" convert
noted "shown under its stored names" "the same, looked at" organ-info a
quiet "the same with an alpha" organ-lora --from a --alpha 20 --base base --force -o a.gguf
mv config a/adapter_config.json
mlx '"rank": 4, "scale": 10.0'
noted "MLX scales all ranks alike" "MLX with another rank" convert
mlx '"rank": 2, "scale": 10.0'
# The experts of MLX are one module; older versions store lora_a as a matrix.
moe='"moe_intermediate_size": 6, "num_experts": 2, "num_experts_per_tok": 1, "norm_topk_prob": true'
model moe Qwen3MoeForCausalLM 1 "$moe" "$(echo "$dense" | grep -v mlp; blocks 1 "$qk
$l.mlp.gate.weight 2 8
$l.mlp.experts.gate_up_proj 2 12 8
$l.mlp.experts.down_proj 2 8 6")"
mv a/adapters.safetensors plain.safetensors
mlx '"rank": 3, "scale": 10.0'
B=moe
for first in "2 3 8" "6 8"; do
    blocks 1 "$l.mlp.switch_mlp.up_proj.lora_a $first
$l.mlp.switch_mlp.up_proj.lora_b 2 6 3" | stored a/adapters.safetensors
    quiet "switch_mlp, lora_a of $first" convert
    check_text "$(organ-extract --list -q a.gguf | cells name,dims | tail -n 2 | tr '\t\n' '  ')" \
        "blk.0.ffn_up_exps.weight.lora_a 8x3x2 blk.0.ffn_up_exps.weight.lora_b 3x6x2 " "switch_mlp, lora_a of $first"
done
for shapes in "3 3 8:3 6 3" "4 8:2 6 3" "2 3 8:2 6" "2 3 9:2 6 3"; do
    blocks 1 "$l.mlp.switch_mlp.up_proj.lora_a ${shapes%:*}
$l.mlp.switch_mlp.up_proj.lora_b ${shapes#*:}" | stored a/adapters.safetensors
    check_exit 3 "switch_mlp of $shapes" convert
done
# A pair for one of the parameters of all experts: target_parameters tells which, or the shape does.
e=base_model.model.model.layers.0.mlp.experts
for row in "gate_up_proj:6 8:12 6:ffn_gate_exps ffn_up_exps" "down_proj:6 6:8 6:ffn_down_exps"; do
    name=${row%%:*} made=${row##*:}
    shapes=${row#*:} shapes=${shapes%:*}
    for targets in "\"mlp.experts.$name\"" '' '"mlp.experts.gate_up_proj", "mlp.experts.down_proj"'; do
        adapter "\"target_parameters\": [$targets]"
        printf '%s\n' "$e.lora_A.weight ${shapes%:*}" "$e.lora_B.weight ${shapes#*:}" |
            stored a/adapter_model.safetensors
        sed 's/"r": 2/"r": 3/' a/adapter_config.json > c && mv c a/adapter_config.json
        check "one parameter, $name of $targets" convert
        check_text "$(organ-extract --list -q a.gguf | cells name | sed -n 's/blk.0.\(.*\).weight.lora_a/\1/p' |
            tr '\n' ' ')" "$made " "one parameter, $name of $targets"
        case $targets in
        *,*)
            grep -q "target_parameters names mlp.experts.gate_up_proj and another, but the adapter has one pair" err ||
                bad "one parameter of two: $(cat err)" ;;
        *) [ ! -s err ] || bad "one parameter, $name of $targets: $(cat err)" ;;
        esac
    done
done
# Where 2 * 4 is the width of the model, the shape does not tell.
model moe Qwen3MoeForCausalLM 1 "$(echo "$moe" | sed 's/6/4/')" "$(echo "$dense" | grep -v mlp; blocks 1 "$qk
$l.mlp.gate.weight 2 8
$l.mlp.experts.gate_up_proj 2 8 8
$l.mlp.experts.down_proj 2 8 4")"
adapter '"target_parameters": ["mlp.experts.gate_up_proj"]'
printf '%s\n' "$e.lora_A.weight 4 8" "$e.lora_B.weight 8 4" | stored a/adapter_model.safetensors
quiet "one parameter, whose shape does not tell" convert
B=''
rm -rf a
mkdir a
mlx '"rank": 2, "scale": 10.0'
mv plain.safetensors a/adapters.safetensors
mv a/adapters.safetensors a/adapters.npz
check_error 3 "adapters.npz" "an older file of MLX" convert
mv a/adapters.npz a/adapters.safetensors
noted "somewhere" "MLX without its base" organ-info a/adapters.safetensors
echo 'lora_unet_x.lora_down.weight 2 8
lora_unet_x.lora_up.weight 8 2' | stored image.safetensors
check_text "$(organ-info --json image.safetensors 2> /dev/null | grep -c '"kind": "adapter"')" 1 "an image adapter"
cp -r base both
blocks 2 "$pair" | stored both/adapter_model.safetensors
echo '{"peft_type": "LORA", "r": 2, "lora_alpha": 4}' > both/adapter_config.json
noted "a model and an adapter" "q-folder/both" organ-info both
check_text "$(organ-info --json both 2> /dev/null | grep -c '"kind": "language model"')" 1 "the model counts"
check_text "$(organ-info --json both/adapter_model.safetensors 2> /dev/null | grep -c '"kind": "adapter"')" 1 \
    "the adapter if it is named"
rm both/adapter_model.safetensors
quiet "q-folder/config-left" organ-keys both
cd / || exit 1
finish
