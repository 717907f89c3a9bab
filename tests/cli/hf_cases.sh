#!/bin/sh
# Checkpoints and adapters as people have them: fields that decide what weights mean, folders with several
# files, quantized weights, other classes, and adapters that are no plain change of their base.
. "$(dirname "$0")/lib.sh"
. tests/checkpoints.sh
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
    sed "s/\"$f\": [0-9.]*/$value/" m/config.json > c && mv c m/config.json
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
sed 's/"LlamaForCausalLM"/"LlamaForCausalLM", "Qwen2ForCausalLM"/' m/config.json > c && mv c m/config.json
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
printf '\001' | dd of=m/model.safetensors bs=1 seek=$(($(wc -c < m/model.safetensors) - 1)) conv=notrunc 2> ./dd
model m LlamaForCausalLM 2 '"tie_word_embeddings": true' "$(blocks 2 "$attn")
$ends
$head"
printf '\001' | dd of=m/model.safetensors bs=1 seek=$(($(wc -c < m/model.safetensors) - 1)) conv=notrunc 2> ./dd
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
sed 's/"architectures": \[[^]]*\]/"architectures": null/' m/config.json > c && mv c m/config.json
noted "model_type decides: LlamaForCausalLM" "no class" organ-keys m
model m LlamaForCausalLM 2 '' "$ends
$head
$(blocks 2 "$attn")
vision_tower.a.weight 2 2
vision_tower.b.weight 2 2"
noted "left out: 2 of the vision tower" "a tower" organ-keys m

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
quantized "no scale" fp8 "$q.weight:F8_E4M3 8 8"
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
organ-extract --list -q m | cut -f1,5,6 > have
organ-extract --list -q x.safetensors | cut -f1,5,6 > want
check_same have want "the same tensors"
cp -r m m2
printf '\100' | dd of=m2/model.safetensors bs=1 seek=$(($(wc -c < m2/model.safetensors) - 1)) conv=notrunc 2> ./dd
check "they are merged under their stored names" organ-merge -q --method linear m m2 -o merged.safetensors
check_text "$(organ-extract --list -q merged.safetensors | cut -f1 | tail -n 2 | tr '\n' ' ')" \
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
for field in '"use_rslora": "true"' '"alpha_pattern": [1]' '"rank_pattern": 3'; do
    adapter "$field"
    check_error 3 "which has the wrong type" "$field" convert
done
adapter '"new_trick": true'
noted "new_trick = true" "an unknown field of an adapter" convert
adapter ''
noted "nobody/nothing" "without its base" organ-info a
grep -q '^  base  *nobody/nothing' out || bad "no name of the base"
grep -q '^  adapter  *rank 2, alpha 4, 2 pairs$' out || bad "no ranks: $(cat out)"
grep -q '^  targets  *q_proj$' out || bad "no targets"
check_text "$(organ-keys a --get adapter.lora.alpha 2> /dev/null)" 4 "its alpha"
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
check_text "$(organ-extract --list a.gguf | awk -F"$TAB" 'NR == 2 { print $6 }')" 8x2 "its lora_a"
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
