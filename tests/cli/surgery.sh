#!/bin/sh
# shellcheck disable=SC2154 # variables of tests/checkpoints.sh
# Forty public reports of people who merge, prune and convert, rebuilt with small tensors. Each case has the name
# FOLDER/CASE, and its row tells the right result.
. "$(dirname "$0")/lib.sh"
. tests/checkpoints.sh
cd "$T" || exit 1

# right CASE STATUS TEXT [COMMAND...]: what the command, by default a conversion of m, must do. TEXT is in its error
# or its notes; "-" is a success without a note on the checkpoint.
right() {
    what=$1 status=$2 text=$3
    shift 3
    rm -f x.gguf
    [ $# -gt 0 ] || set -- organ-assemble m -o x.gguf
    if [ "$status" != 0 ]; then
        check_exit "$status" "$what" "$@"
        check_absent x.gguf "$what"
        tail -n 1 err | grep -qF -e "$text" || bad "$what: no '$text' in: $(cat err)"
        return
    fi
    check "$what" "$@"
    if [ "$text" != - ]; then grep -qF -e "$text" err || bad "$what: no '$text' in: $(cat err)"
    elif grep -v tokenizer err | grep -q .; then bad "$what: $(grep -v tokenizer err | head -n 1)"
    fi
}
has() { check_text "$(organ-keys x.gguf --get "$2" 2> /dev/null | tr '\n' ' ')" "$3" "$1: $2"; }
tensors() { check_text "$(organ-extract --list -q "${2:-x.gguf}" | grep -c "$3")" "$4" "$1: $3"; }
# A model without findings on its tensors; these have no vocabulary.
sound() {
    organ-check "$2" > findings 2> err
    [ -s findings ] && ! grep "${TAB}tensor-" findings || bad "$1: $(cat findings err)"
}
bias="$l.self_attn.q_proj.bias 8
$l.self_attn.k_proj.bias 4
$l.self_attn.v_proj.bias 4"
qwen2() { model m Qwen2ForCausalLM 2 "$1" "$2
$(blocks 2 "$bias")"; }
qwen3() { model m Qwen3ForCausalLM 2 "$1" "$2
$(blocks 2 "$qk")"; }
gemma3_of() { model m Gemma3ForCausalLM "$1" "\"sliding_window\": 8, \"tie_word_embeddings\": true${2:+, $2}" "$ends
$(blocks "$1" "$attn
$four
$qk")"; }
gemma2() { model m "$1" 2 "\"tie_word_embeddings\": true" "$ends
$(blocks 2 "$attn${2:+
$four}")
$head"; }

# ---- a-tied-diverged ---------------------------------------------------------------------------------------

says="lm_head.weight differs from the embeddings"
qwen2 "$tied" "$ends
$two"
echo "$ends
$two
$(blocks 2 "$bias")
$head" | stored m/model.safetensors
differ
right a-tied-diverged/qwen2 0 "$says"
tensors a-tied-diverged/qwen2 x.gguf '^output.weight' 1
model m Qwen3ForCausalLM 2 "$tied" "$ends
$two
$(blocks 2 "$qk")
$head"
differ
right a-tied-diverged/qwen3 0 "$says"
model m LlamaForCausalLM 2 "$tied" "$ends
$two
$head"
differ
right a-tied-diverged/llama 0 "it is kept as the head"
gemma2 GemmaForCausalLM
differ
right a-tied-diverged/gemma1 0 "it is left out, and the embeddings are used"
tensors a-tied-diverged/gemma1 x.gguf '^output.weight' 0
gemma2 Gemma2ForCausalLM four
differ
right a-tied-diverged/gemma2 0 "it is left out, and the embeddings are used"
edit 's/"tie_word_embeddings": true/"tie_word_embeddings": false/'
right a-tied-diverged/gemma2-untied 3 "engines use these as the head"
gemma3_of 2
echo "$ends
$(blocks 2 "$attn
$four
$qk")
$head" | stored m/model.safetensors
differ
right a-tied-diverged/gemma3 0 "$says"
untold='s/\("tie_word_embeddings": \)[a-z]*/\1null/'
for arch in qwen2 llama; do
    untied='"tie_word_embeddings": false'
    if [ $arch = qwen2 ]; then qwen2 "$untied" "$ends
$two"
    else model m LlamaForCausalLM 2 "$untied" "$ends
$two"
    fi
    right a-tied-diverged/$arch-nohead 0 "no file has lm_head.weight"
    edit "$untold"
    right "a-tied-diverged/$arch-nohead, without the field" 0 "(tie_word_embeddings is absent, which means false)"
done
edit 's/LlamaForCausalLM/LlamaModel/'
right "a-tied-diverged, a class without a head" 0 -
gemma2 Gemma2ForCausalLM four
edit "$untold"
right "a-tied-diverged/gemma2, without the field" 0 -

# ---- b-mtp ---------------------------------------------------------------------------------------------------

# qwen35 FIELDS PREDICTION: four blocks, of which the second and the fourth have full attention.
p=model.language_model
norms="input_layernorm.weight 32
post_attention_layernorm.weight 32
mlp.gate_proj.weight 64 32
mlp.up_proj.weight 64 32
mlp.down_proj.weight 32 64"
full="self_attn.q_proj.weight 64 32
self_attn.k_proj.weight 16 32
self_attn.v_proj.weight 16 32
self_attn.o_proj.weight 32 32
self_attn.q_norm.weight 16
self_attn.k_norm.weight 16"
linear="linear_attn.in_proj_qkv.weight 64 32
linear_attn.in_proj_z.weight 32 32
linear_attn.in_proj_a.weight 4 32
linear_attn.in_proj_b.weight 4 32
linear_attn.conv1d.weight 64 1 4
linear_attn.A_log 4
linear_attn.dt_bias 4
linear_attn.norm.weight 8
linear_attn.out_proj.weight 32 32"
prediction="mtp.fc.weight 32 64
mtp.pre_fc_norm_embedding.weight 32
mtp.pre_fc_norm_hidden.weight 32
mtp.norm.weight 32
$(printf '%s\n' "$norms" "$full" | sed 's/^/mtp.layers.0./')"
kind() { case $1 in full_attention) echo "$full" ;; *) echo "$linear" ;; esac; }
qwen35() { # FIELDS TYPES PREDICTION
    rm -rf m
    mkdir m
    n=0 types=''
    printf '%s\n' "$p.embed_tokens.weight 96 32" "$p.norm.weight 32" ${3:+"$3"} > list
    for type in $2; do
        { echo "$norms"; kind "$type"; } | sed "s/^/$p.layers.$n./" >> list
        types="$types${types:+, }\"$type\""
        n=$((n + 1))
    done
    echo "{\"model_type\": \"qwen3_5\", \"architectures\": [\"Qwen3_5ForConditionalGeneration\"],
\"tie_word_embeddings\": true, \"text_config\": {\"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 8,
\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, \"linear_value_head_dim\": 8, \"head_dim\": 16,
\"hidden_size\": 32, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"num_hidden_layers\": $n,
\"rms_norm_eps\": 1e-6, \"vocab_size\": 96, \"max_position_embeddings\": 512, \"intermediate_size\": 64,
\"hidden_act\": \"silu\", \"layer_types\": [$types]${1:+, $1},
\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e7, \"partial_rotary_factor\": 0.25,
\"mrope_section\": [1, 1, 0], \"mrope_interleaved\": true}}}" > m/config.json
    stored m/model.safetensors < list
}
L=linear_attention F=full_attention
declared='"mtp_num_hidden_layers": 1'
qwen35 "\"full_attention_interval\": 2, $declared" "$L $F $L $F" "$prediction"
right b-mtp/present-declared 0 -
has b-mtp/present-declared qwen35.block_count "5 "
has b-mtp/present-declared qwen35.nextn_predict_layers "1 "
right b-mtp/present-declared-only 0 "" organ-stack --mtp-only m -o x.gguf
tensors b-mtp/present-declared-only x.gguf 'nextn.eh_proj' 1
qwen35 '"full_attention_interval": 2' "$L $F $L $F" "$prediction"
right b-mtp/present-undeclared 0 "declares 0 for multi-token prediction"
qwen35 "\"full_attention_interval\": 2, $declared" "$L $F $L $F" ''
right b-mtp/absent-declared 0 "the files have 0 such blocks"

# A checkpoint of MLX, which has 1 in its norms already.
linear=$(echo "$linear" | sed 's/64 1 4/64 4 1/')
qwen35 '"full_attention_interval": 2' "$L $F $L $F" ''
right b-mtp/mlx-norms 3 "the checkpoint has the layout of MLX"
linear=$(echo "$linear" | sed 's/64 4 1/64 1 4/')

# ---- d-depth -------------------------------------------------------------------------------------------------

qwen35 '' "$L $F $L $F" ''
right d-depth/q35-interval-from-types 0 -
has d-depth/q35-interval-from-types qwen35.full_attention_interval "2 "
qwen35 '"full_attention_interval": 2' "$L $L $L $L" ''
right d-depth/q35-nowhere 3 "full attention nowhere"
qwen35 '"full_attention_interval": 8' "$L $L $L $L" ''
right d-depth/q35-linear 0 -
qwen35 '"full_attention_interval": 2' "$L $F" ''
edit 's/"mrope_interleaved": true/"mrope_interleaved": false/'
right y-v5/q35-sections 0 "rope_scaling.mrope_interleaved = false"
for list in '[1, 1, "0"]' '[1, 1, 0.5]' '[1, 1, -1]' '[]' 3 '[1, 1, 0, 0, 0]'; do
    qwen35 '"full_attention_interval": 2' "$L $F" ''
    edit "s/\"mrope_section\": \[1, 1, 0\]/\"mrope_section\": $list/"
    right "y-v5/q35-sections, $list" 3 "mrope_section in config.json must be a list of at most 4 whole numbers"
done
qwen35 '"mtp_num_hidden_layers": -9' "$L $F" ''
right b-mtp/negative 3 "config.json gives qwen35.block_count the value -7"
qwen35 '' "$L $F $L $L $L $F" ''
right d-depth/q35-pruned 3 "irregular places"
s='"sliding_attention"' f='"full_attention"'
gemma3_of 8 "\"layer_types\": [$s, $s, $s, $s, $s, $s, $s, $f]"
right d-depth/synced 0 -
has d-depth/synced gemma3.attention.sliding_window_pattern "8 "
gemma3_of 8 "\"layer_types\": [$s, $s, $s, $s, $s, $f, $s, $s, $s, $s, $s, $f]"
right d-depth/stale 3 "12 entries, but the model has 8 layers"
gemma3_of 8
right d-depth/none 0 -
gemma3_of 8 "\"layer_types\": [$s, $s, $s, $f, $s, $s, $s, $f]"
right d-depth/pattern4 0 -
has d-depth/pattern4 gemma3.attention.sliding_window_pattern "4 "
gemma3_of 8 '"sliding_window_pattern": 4'
right d-depth/pattern-field 0 -
has d-depth/pattern-field gemma3.attention.sliding_window_pattern "4 "
gemma3_of 8 '"_sliding_window_pattern": 4'
right d-depth/pattern-field2 0 -
has d-depth/pattern-field2 gemma3.attention.sliding_window_pattern "4 "
gemma3_of 2 "\"layer_types\": [$f, $f]"
right d-depth/allfull 0 -
has d-depth/allfull gemma3.attention.sliding_window ""
olmo3() { model m Olmo3ForCausalLM 4 "\"sliding_window\": 8, \"layer_types\": [$1]" "$ends
$head
$(blocks 4 "$(echo "$attn" | grep -v input_layernorm)
$l.post_feedforward_layernorm.weight 8
$l.self_attn.q_norm.weight 8
$l.self_attn.k_norm.weight 4")"; }
olmo3 "$s, $s, $s, $f"
right d-depth/olmo3 0 -
olmo3 "$s, $f, $s, $f"
right d-depth/olmo3-period2 0 -
has d-depth/olmo3-period2 olmo2.attention.sliding_window_pattern "2 "
olmo3 "$s, $f, $f, $s"
right d-depth/olmo3-pruned 3 "irregular places"
gemma3_of 12
right d-depth/teacher 0 -
mv x.gguf teacher.gguf
right d-depth/g3-teacher 1 "block 8 cannot become block 5" \
    organ-stack teacher.gguf 0-1,3-4,6,8,10-11 -o x.gguf
slice() { echo "{\"sources\": [{\"model\": \"teacher\", \"layer_range\": [$1]}]}"; }
echo "{\"slices\": [$(slice 0,8), $(slice 4,12)], \"merge_method\": \"passthrough\"}" > pass.json
right d-depth/pass.yml 1 "block 5 cannot become block 9" organ-merge --config pass.json --models . -o x.gguf

# ---- e-width -------------------------------------------------------------------------------------------------

disagree="its configuration and its tensors do not agree"
other_ff() { sed "s/\(layers.[$1].mlp.[gu][a-z]*_proj.weight\) 16/\1 12/
    s/\(layers.[$1].mlp.down_proj.weight 8\) 16/\1 12/"; }
for arch in qwen2 llama; do
    list=$(printf '%s\n' "$ends" "$two" "$head" | other_ff 1)
    if [ $arch = qwen2 ]; then qwen2 '' "$list"; else model m LlamaForCausalLM 2 '' "$list"; fi
    right e-width/$arch-fixed-config 3 "$disagree: blk.1.ffn_gate.weight: its shape is 8x12"
    right e-width/$arch-fixed-config-allowed 0 "check: blk.1.ffn_gate.weight" \
        organ-assemble m --no-strict -o x.gguf
done
model m LlamaForCausalLM 2 '' "$(printf '%s\n' "$ends" "$two" "$head" | other_ff 01)"
right e-width/llama-allsame 3 "$disagree: blk.0.ffn_gate.weight: its shape is 8x12"
qwen2 '' "$(printf '%s\n' "$ends" "$two" "$head" | other_ff 1)"
edit 's/"intermediate_size": 16/"intermediate_size": [16, 12]/'
right e-width/qwen2-list-config 3 "intermediate_size = [2 values]"
qwen2 '"layer_inter_size": [16, 12]' "$(printf '%s\n' "$ends" "$two" "$head" | other_ff 1)"
check_exit 3 "e-width/qwen2-inter-list" organ-assemble m -o x.gguf
grep -q "$disagree: blk.1.ffn_gate" err || bad "e-width/qwen2-inter-list: $(cat err)"
grep -qF "layer_inter_size = [2 values]" err || bad "e-width/qwen2-inter-list: the list is not named"
half() { sed "s/\(layers.[$1].self_attn.q_proj.weight\) 8/\1 4/; s/\(layers.[$1].self_attn.[kv]_proj.weight\) 4/\1 2/
    s/\(layers.[$1].self_attn.o_proj.weight 8\) 8/\1 4/"; }
for blocks in 1 01; do
    model m LlamaForCausalLM 2 '' "$(printf '%s\n' "$ends" "$two" "$head" | half $blocks)"
    right "e-width/llama-heads $blocks" 3 "$disagree: blk.${blocks%1}${blocks##0?}"
done
for arch in Qwen2ForCausalLM Qwen3ForCausalLM LlamaForCausalLM; do
    list=$(printf '%s\n' "$ends" "$two" "$head" | sed 's/\(layers.1.self_attn.[kv]_proj.weight\) 4/\1 2/'
        case $arch in Qwen2*) blocks 2 "$bias" ;; Qwen3*) blocks 2 "$qk" ;; esac)
    model m $arch 2 '' "$list"
    right "e-width/$arch-kv" 3 "$disagree: blk.1.attn_"
done
for class in Gemma2ForCausalLM Gemma3ForCausalLM Qwen3ForCausalLM; do
    list=$(printf '%s\n' "$ends" "$two" | other_ff 1
        case $class in Gemma*) blocks 2 "$four" ;; esac
        case $class in Gemma2*) ;; *) blocks 2 "$qk" ;; esac)
    model m $class 2 "$tied, \"sliding_window\": 8" "$list"
    right "e-width/$class-ff" 3 "$disagree: blk.1.ffn_gate.weight: its shape is 8x12"
done
model m LlamaForCausalLM 2 '' "$ends
$two
$head"
organ-assemble -q m -o base.gguf
model m LlamaForCausalLM 2 '' "$(printf '%s\n' "$ends" "$two" "$head" | other_ff 01)"
edit 's/"intermediate_size": 16/"intermediate_size": 12/'
organ-assemble -q m -o ff12.gguf
right bases/llama-ff64 1 "llama.feed_forward_length differs" organ-stack base.gguf 0 ff12.gguf 1 -o x.gguf
right e-width/llama-ff 1 "feed_forward_length" organ-assemble base.gguf --strict \
    --set-kv 'llama.feed_forward_length=u32[]:16,12,16' -o x.gguf

# ---- f-experts -----------------------------------------------------------------------------------------------

# routed EXPERTS: all tensors but the experts.
routed() {
    printf '%s\n' "$ends" "$head"
    blocks 2 "$(echo "$attn" | grep -v mlp)
$qk
$l.mlp.gate.weight $1 8"
}
# experts NUMBERS OF-1 ROUTER CONFIG USED: qwen3moe with these experts, in block 1 those of OF-1.
experts() {
    {
        routed "$3"
        for b in 0 1; do
            for e in $(if [ $b = 0 ]; then echo "$1"; else echo "$2"; fi); do
                for r in gate up; do echo "model.layers.$b.mlp.experts.$e.${r}_proj.weight 6 8"; done
                echo "model.layers.$b.mlp.experts.$e.down_proj.weight 8 6"
            done
        done
    } > list
    moe_config "$4" "$5"
}
stacks() { # EXPERTS EXPERTS-1 ROUTER CONFIG [TRANSPOSED]
    {
        routed "$3"
        for b in 0 1; do
            n=$(if [ $b = 0 ]; then echo "$1"; else echo "$2"; fi)
            if [ -n "${5:-}" ]; then
                echo "model.layers.$b.mlp.experts.gate_up_proj $n 8 12
model.layers.$b.mlp.experts.down_proj $n 6 8"
            else
                echo "model.layers.$b.mlp.experts.gate_up_proj $n 12 8
model.layers.$b.mlp.experts.down_proj $n 8 6"
            fi
        done
    } > list
    moe_config "$4" 2
}
moe_config() {
    rm -rf m
    mkdir m
    config Qwen3MoeForCausalLM 2 "\"moe_intermediate_size\": 6, \"num_experts\": $1, \"num_experts_per_tok\": $2,
\"norm_topk_prob\": true, \"decoder_sparse_step\": 1, \"mlp_only_layers\": []" > m/config.json
    stored m/model.safetensors < list
}
experts "0 1 2" "0 1 2" 3 3 2
right f-experts/ok 0 -
stacks 3 3 3 3
right f-experts/fused-ok 0 -
experts "0 1 2" "0 1 2" 3 4 2
right f-experts/stale-config 3 "should have 4 experts, but only 3"
experts "0 1 2" "0 1" 3 3 2
right f-experts/per-layer 3 "should have 3 experts, but only 2"
experts "0 2 3" "0 2 3" 3 3 2
right f-experts/not-renumbered 3 "expert 1 is missing"
experts "0 1 2" "0 1 2" 4 3 2
right f-experts/router-uncut 3 "$disagree: blk.0.ffn_gate_inp.weight"
stacks 3 3 3 4
right f-experts/fused-stale 3 "$disagree: blk.0.ffn_gate"
stacks 3 3 3 3
sed '/layers.1/s/ 12 8$/ 10 8/; /layers.1.*down/s/ 6$/ 5/' list | stored m/model.safetensors
right e-width/moe-ff 3 "$disagree: blk.1.ffn_"
stacks 3 3 4 3
right f-experts/fused-router-uncut 3 "$disagree: blk.0.ffn_gate_inp.weight"
stacks 3 2 3 3
right f-experts/fused-per-layer 3 "$disagree: blk.1."
experts 0 0 1 1 2
right f-experts/topk 3 "2 experts are used per token, but the model has 1"
stacks 3 3 3 3 transposed
right f-experts/fused-transposed 3 "$disagree: blk.0.ffn_"

# ---- n-names -------------------------------------------------------------------------------------------------

all="$ends
$head
$two"
model m LlamaModel 2 '' "$(echo "$all" | sed 's/^model\.//')"
right n-names/prefixless 0 -
model m LlamaForCausalLM 2 '' "$(echo "$all" | sed 's/^model\.//')"
right n-names/prefixless-causal 0 -
for prefix in _orig_mod module; do
    model m LlamaForCausalLM 2 '' "$(echo "$all" | sed "s/^/$prefix./")"
    right n-names/$prefix 0 -
    model m MambaForCausalLM 2 '"state_size": 4' "$prefix.backbone.embeddings.weight 12 8
$prefix.lm_head.weight 12 8"
    check_text "$(organ-extract --list -q m 2> err | grep -c '^output')" 0 "n-names/$prefix, a copied head: $(cat err)"
done
merge="an adapter that was not merged"
model m LlamaForCausalLM 2 '' \
    "$(echo "$all" | sed 's/^/base_model.model./; s/q_proj.weight/q_proj.base_layer.weight/')"
right n-names/peft-unmerged 3 "$merge"
model m LlamaForCausalLM 2 '' "$all
model.layers.0.self_attn.q_proj.lora_A.default.weight 2 8
model.layers.0.self_attn.q_proj.lora_B.default.weight 8 2"
right n-names/lora-inside 3 "$merge"
for class in '"architectures": null,' '' '"architectures": ["PeftModelForCausalLM"],'; do
    model m LlamaForCausalLM 2 '"model_type": "llama"' "$all"
    edit "s/\"architectures\": \[[^]]*\],/$class/"
    right "n-names/noarch, $class" 0 "model_type decides: LlamaForCausalLM"
done
model m LlamaForCausalLM 2 '' "$all
$(blocks 2 "$qk")"
right n-names/qwen3-as-llama 3 "the tensors fit the architecture qwen3;"
model m LlamaForCausalLM 2 '' "$all
model.layers.0.self_attn.qkv_proj.weight 16 8"
right n-names/phi3-as-llama 3 "the tensors have the names of phi3; correct the class"
model m Qwen3ForCausalLM 2 '' "$all"
right n-names/llama-as-qwen3 3 "$disagree: blk.0.attn_q_norm.weight: this tensor is missing"
grep -q "the tensors fit the architecture llama" err || bad "n-names/llama-as-qwen3: $(cat err)"
for form in language_model.model model.language_model; do
    rm -rf m
    mkdir m
    { echo '{"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": '
        config x 2 '"sliding_window": 8, "tie_word_embeddings": true' | sed 's/"architectures": \["x"\],//'
        echo '}'; } > m/config.json
    { echo "$ends"; blocks 2 "$attn
$four
$qk"; } | sed "s/^model/$form/" > list
    echo "vision_tower.vision_model.embeddings.patch_embedding.weight 8 3 2 2" >> list
    stored m/model.safetensors < list
    right "n-names/g3-vlm $form" 0 "left out: 1 of the vision tower"
done

# ---- c-shards ------------------------------------------------------------------------------------------------

# sharded: the model `all` in two shards and an index.
sharded() {
    config_only LlamaForCausalLM 2 ''
    for n in 1 2; do echo "$all" | sed -n "$([ $n = 1 ] && echo '/layers/p' || echo '/layers/!p')" |
        stored m/model-0000$n-of-00002.safetensors; done
    echo "$all" | awk 'BEGIN { printf "{\"weight_map\": {" } {
        printf "%s\"%s\": \"model-0000%d-of-00002.safetensors\"", (NR > 1 ? ", " : ""), $1, ($1 ~ /layers/ ? 1 : 2)
    } END { print "}}" }' > m/model.safetensors.index.json
}
sharded
cp m/model-00002-of-00002.safetensors m/training.safetensors
right c-shards/stray 0 -
right c-shards/consolidated 0 - sh -c 'cp m/model-00001-of-00002.safetensors m/consolidated.safetensors &&
    organ-assemble m -o x.gguf'
echo "$all" | stored m/model-00001-of-00002.safetensors # it has tensors that the index takes from the other shard
right c-shards/dup-same 0 -
right c-shards/overlay-first 0 - sh -c 'cp m/model-00001-of-00002.safetensors m/a.safetensors &&
    organ-assemble m -o x.gguf'
sharded
rm m/model.safetensors.index.json
right c-shards/consolidated-noindex 0 - sh -c 'cp m/model-00001-of-00002.safetensors m/consolidated.safetensors &&
    organ-assemble m -o x.gguf'
rm m/model-00002-of-00002.safetensors
right c-shards/noindex-missing-last 3 "file 2 of 2 is missing: model-00002-of-00002.safetensors"
sharded
sed 's/"lm_head.weight": [^,}]*,* *//; s/, }/}/' m/model.safetensors.index.json > c
cp c m/model.safetensors.index.json
right c-shards/index-omits 3 "the index names 20 tensors, but the files have 21"
sharded
rm m/model-00002-of-00002.safetensors
right c-shards/missing-file 4 "model-00002-of-00002.safetensors"
qwen35 "\"full_attention_interval\": 2, $declared" "$L $F $L $F" ''
cp m/model.safetensors m/model-00001-of-00002.safetensors
echo "$prediction" | stored m/mtp.safetensors
rm m/model.safetensors
{ cat list; echo "$prediction"; } | awk 'BEGIN { printf "{\"weight_map\": {" } {
    printf "%s\"%s\": \"%s\"", (NR > 1 ? ", " : ""), $1, ($1 ~ /^mtp/ ? "mtp" : "model-00001-of-00002") ".safetensors"
} END { print "}}" }' > m/model.safetensors.index.json
right c-shards/mtp-indexed 0 -
tensors c-shards/mtp-indexed x.gguf nextn.eh_proj 1
sed 's/, "mtp[^,}]*//g' m/model.safetensors.index.json > c && cp c m/model.safetensors.index.json
right c-shards/mtp-not-indexed 0 "the files have 0 such blocks"

# ---- v-vocab -------------------------------------------------------------------------------------------------

model m LlamaForCausalLM 2 '' "$all"
organ-assemble -q m -o b.gguf
organ-keys -q b.gguf --set tokenizer.ggml.model=str:gpt2 --set 'tokenizer.ggml.tokens=str[]:a,b,c,d,e,f,g,h,i,j,k,l' \
    -o vocabulary.gguf
for rows in 14 10; do
    model m LlamaForCausalLM 2 '' "$(echo "$all" | sed "s/ 12 8$/ $rows 8/")"
    right "v-vocab, $rows rows" 1 "has 12 tokens, but the model has embeddings for $rows" \
        organ-assemble m --vocab-from vocabulary.gguf -o x.gguf
    right "v-vocab, merged, $rows rows" 1 "--embed-from base" organ-merge -q --method linear b.gguf m -o x.gguf
done
model m LlamaForCausalLM 2 '' "$(echo "$all" | sed 's/\(embed.*\) 12 8$/\1 14 8/')"
right v-vocab/embed-only 1 "token_embd.weight has 14 rows, but output.weight has 12" \
    organ-assemble m --vocab-from vocabulary.gguf -o x.gguf
model m LlamaForCausalLM 2 '' "$(echo "$all" | sed 's/\(lm_head.*\) 12 8$/\1 14 8/')"
right v-vocab/head-only 1 "output.weight has 14 rows, but token_embd.weight has 12" \
    organ-assemble m --vocab-from vocabulary.gguf -o x.gguf
organ-keys -q vocabulary.gguf --set 'tokenizer.ggml.scores=f32[]:0,0,0,0,0,0,0,0,0,0,0,1' \
    --set 'tokenizer.ggml.token_type=i32[]:1,1,1,1,1,1,1,1,1,1,1,3' -o scored.gguf
for rows in 32 544; do # 532 more rows than tokens are no padding
    model m LlamaForCausalLM 2 '' "$(echo "$all" | sed "s/ 12 8$/ $rows 8/")"
    edit 's/"vocab_size": 12/"vocab_size": 32/'
    for odd in tokens=u8 token_type=u8 token_type=i64 scores=f64; do
        organ-keys -q scored.gguf --force --set "tokenizer.ggml.${odd}[]:0,0,0,0,0,0,0,0,0,0,0,1" -o odd.gguf
        [ $rows != 32 ] || right "v-vocab/$odd" 3 "${odd%=*} of the vocabulary is an array of ${odd#*=}, and must" \
            organ-assemble m --vocab-from odd.gguf -o y.gguf
    done
    if [ $rows = 32 ]; then right v-vocab/padded 0 "12 tokens for 32 rows of the embeddings" \
        organ-assemble m --vocab-from scored.gguf -o padded.gguf
    else right v-vocab/far 1 "embeddings for 544" organ-assemble m --vocab-from scored.gguf -o y.gguf
    fi
done
for key in tokens scores token_type; do organ-keys padded.gguf --get tokenizer.ggml.$key | tail -n 21; done > rows
{ echo l; for n in 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31; do echo "[PAD$n]"; done
    echo 1; yes -- -10000 | head -n 20; echo 3; yes 5 | head -n 20; } > want
check_same rows want "v-vocab/padded: unused tokens"

# ---- w-moe ---------------------------------------------------------------------------------------------------

# expert NAME FORM: a dense model with tied embeddings.
expert() {
    if [ "$2" = qwen2 ]; then qwen2 "$tied" "$ends
$two"
    else qwen3 "$tied" "$ends
$two"
    fi
    organ-assemble -q m -o "$1.gguf" --force || bad "w-moe: $1"
}
for name in base write dream; do expert $name qwen3; done
right w-moe 0 - organ-stack --experts-from write.gguf,dream.gguf --base base.gguf -o x.gguf
has w-moe general.architecture qwen3moe
has w-moe qwen3moe.expert_count "2 "
tensors w-moe x.gguf '^output.weight' 0
for name in q2base q2a; do expert $name qwen2; done
right w-moe/qwen2 0 "output.weight is a copy of the embeddings" \
    organ-stack --experts-from q2base.gguf,q2a.gguf --base q2base.gguf -o x.gguf
has w-moe/qwen2 general.architecture qwen2moe
tensors w-moe/qwen2 x.gguf '^output.weight' 1

# ---- f-mtp ---------------------------------------------------------------------------------------------------

# mixture OUT EXPERTS HEAD-EXPERTS: two blocks with so many experts, and one of prediction, if not "".
of_block() {
    echo "blk.$1.ffn_gate_inp.weight:F32:8x$2 blk.$1.ffn_gate_exps.weight:F32:8x6x$2"
    echo "blk.$1.ffn_up_exps.weight:F32:8x6x$2 blk.$1.ffn_down_exps.weight:F32:6x8x$2"
    echo "blk.$1.attn_norm.weight:F32:8 blk.$1.post_attention_norm.weight:F32:8 blk.$1.attn_q.weight:F32:8x16"
    echo "blk.$1.attn_k.weight:F32:8x4 blk.$1.attn_v.weight:F32:8x4 blk.$1.attn_output.weight:F32:8x8"
    echo "blk.$1.attn_q_norm.weight:F32:4 blk.$1.attn_k_norm.weight:F32:4 blk.$1.ffn_gate_inp_shexp.weight:F32:8"
    echo "blk.$1.ffn_gate_shexp.weight:F32:8x6 blk.$1.ffn_up_shexp.weight:F32:8x6 blk.$1.ffn_down_shexp.weight:F32:6x8"
}
mixture() {
    keys='' blocks=2 next=''
    if [ -n "$3" ]; then
        blocks=3
        next="$(of_block 2 "$3") blk.2.nextn.eh_proj.weight:F32:16x8 blk.2.nextn.enorm.weight:F32:8
            blk.2.nextn.hnorm.weight:F32:8 blk.2.nextn.shared_head_norm.weight:F32:8"
        keys="-k qwen35moe.nextn_predict_layers=1"
    fi
    for kv in block_count=$blocks expert_count="$2" expert_used_count=2 expert_feed_forward_length=6 \
        expert_shared_feed_forward_length=6 embedding_length=8 context_length=64 attention.head_count=2 \
        attention.head_count_kv=1 attention.key_length=4 attention.value_length=4 rope.dimension_count=4 \
        full_attention_interval=1 ssm.conv_kernel=4 ssm.state_size=4 ssm.group_count=2 ssm.time_step_rank=2 \
        ssm.inner_size=8; do
        keys="$keys -k qwen35moe.$kv"
    done
    # shellcheck disable=SC2046,SC2086 # words
    mkmodel "$T/made.gguf" $keys -s 3 token_embd.weight:F32:8x12 output_norm.weight:F32:8 output.weight:F32:8x12 \
        $(of_block 0 "$2") $(of_block 1 "$2") $next || bad "f-mtp: mkmodel $1"
    organ-keys -q made.gguf --set general.architecture=str:qwen35moe --set qwen35moe.rope.freq_base=f32:10000 \
        --set 'qwen35moe.rope.dimension_sections=i32[]:1,1,0,0' \
        --set qwen35moe.attention.layer_norm_rms_epsilon=f32:1e-6 -o "$1" --force || bad "f-mtp: $1"
}
mixture full.gguf 4 4
sound f-mtp/full full.gguf
mixture pruned-full-head.gguf 2 4
check_exit 1 "f-mtp/pruned-full-head" organ-check pruned-full-head.gguf
check_text "$(grep -c "error${TAB}tensor-shape${TAB}blk.2.ffn_" out)" 4 \
    "f-mtp/pruned-full-head: the block of prediction"
mixture pruned-no-head.gguf 2 ''
right f-mtp/pruned-no-head 1 "qwen35moe.expert_count differs: base 2, donor 4" \
    organ-transplant pruned-no-head.gguf full.gguf --mtp -o x.gguf
right f-mtp/full-cut 0 "2 of 4 experts per block are left" organ-assemble full.gguf --keep-experts 0-1 -o x.gguf
sound f-mtp/full-cut x.gguf
for block in 0 2; do tensors f-mtp/full-cut x.gguf "^blk.$block.ffn_up_exps.weight.*8x6x2" 1; done

# ---- x-lfm2 --------------------------------------------------------------------------------------------------

# Blocks 2 and 4 have attention, the others a short convolution.
lfm2=''
for b in 0 1 2 3 4 5; do
    lfm2="$lfm2 blk.$b.attn_norm.weight:F32:8 blk.$b.ffn_norm.weight:F32:8 blk.$b.ffn_gate.weight:F32:8x16
        blk.$b.ffn_up.weight:F32:8x16 blk.$b.ffn_down.weight:F32:16x8"
    case $b in
    2 | 4) lfm2="$lfm2 blk.$b.attn_q.weight:F32:8x8 blk.$b.attn_k.weight:F32:8x4 blk.$b.attn_v.weight:F32:8x4
        blk.$b.attn_output.weight:F32:8x8 blk.$b.attn_q_norm.weight:F32:4 blk.$b.attn_k_norm.weight:F32:4" ;;
    *) lfm2="$lfm2 blk.$b.shortconv.conv.weight:F32:3x8 blk.$b.shortconv.in_proj.weight:F32:8x24
        blk.$b.shortconv.out_proj.weight:F32:8x8" ;;
    esac
done
keys=''
for kv in block_count=6 embedding_length=8 context_length=64 feed_forward_length=16 attention.head_count=2 \
    shortconv.l_cache=3 vocab_size=12; do keys="$keys -k lfm2.$kv"; done
# shellcheck disable=SC2086 # words
mkmodel "$T/made.gguf" $keys -s 3 token_embd.weight:F32:8x12 token_embd_norm.weight:F32:8 $lfm2 ||
    bad "x-lfm2: mkmodel"
organ-keys -q made.gguf --set general.architecture=str:lfm2 --set 'lfm2.attention.head_count_kv=i32[]:0,0,1,0,1,0' \
    --set lfm2.rope.freq_base=f32:10000 --set lfm2.attention.layer_norm_rms_epsilon=f32:1e-5 -o lfm2.gguf ||
    bad "x-lfm2: keys"
right x-lfm2/drop 0 - organ-stack lfm2.gguf --drop 3 -o x.gguf
has x-lfm2/drop lfm2.attention.head_count_kv "0 0 1 1 0 "
has x-lfm2/drop lfm2.block_count "5 "
sound x-lfm2/drop x.gguf
right x-lfm2/repeat 0 - organ-stack lfm2.gguf 0-3,2-5 -o x.gguf
has x-lfm2/repeat lfm2.attention.head_count_kv "0 0 1 0 1 0 1 0 "
sound x-lfm2/repeat x.gguf

# ---- y-v5 ----------------------------------------------------------------------------------------------------

# v5 CASE CLASS MEMBERS NEW OLD KEY VALUE: both forms of config.json give the same keys, and KEY has VALUE.
v5() {
    for form in "$4" "$5"; do
        model m "$2" 2 "${3:+$3, }$form" "$ends
$head"
        edit 's/, "rope_theta": 10000.0//'
        organ-keys m 2> keys.err | sort > "keys.$([ "$form" = "$4" ] && echo new || echo old)"
        ! grep -qE 'rope|rotary|yarn|stored names' keys.err || bad "y-v5/$1: $(cat keys.err)"
    done
    check_same keys.new keys.old "y-v5/$1: both forms"
    check_text "$(awk -F'\t' -v key="$6" '$1 == key { print $4 }' keys.new)" "$7" "y-v5/$1: $6"
}
theta='"rope_theta": 500000.0' half='"partial_rotary_factor": 0.5' eps='"layer_norm_eps": 1e-5'
new='"rope_type": "default", "rope_theta": 500000.0'
plain="\"rope_parameters\": {$new}" part="\"rope_parameters\": {$new, $half}"
v5 phi2 PhiForCausalLM "$eps" "$part" "$theta, $half" phi2.rope.dimension_count 2
v5 stablelm StableLmForCausalLM "$eps, \"use_parallel_residual\": false" "$part" "$theta, $half" \
    stablelm.rope.dimension_count 2
v5 gptneox GPTNeoXForCausalLM "$eps, \"use_parallel_residual\": true" "$part" \
    '"rotary_pct": 0.5, "rotary_emb_base": 500000' gptneox.rope.dimension_count 2
v5 phi3-plain Phi3ForCausalLM '' "$part" "$theta, $half" phi3.rope.dimension_count 2
v5 llama LlamaForCausalLM '' "$plain" "$theta" llama.rope.freq_base 500000
v5 olmo2 Olmo2ForCausalLM '' "$plain" "$theta" olmo2.rope.freq_base 500000
v5 starcoder2 Starcoder2ForCausalLM '"norm_epsilon": 1e-5' "$plain" "$theta" starcoder2.rope.freq_base 500000
v5 command-r CohereForCausalLM "$eps, \"logit_scale\": 0.0625" "$plain" "$theta" command-r.rope.freq_base 500000
v5 granite GraniteForCausalLM '"attention_multiplier": 0.5, "embedding_multiplier": 12.0,
    "residual_multiplier": 0.5, "logits_scaling": 8.0' "$plain" "$theta" granite.rope.freq_base 500000
yarn='"factor": 4.0, "original_max_position_embeddings": 16'
v5 qwen2-yarn Qwen2ForCausalLM '' "\"rope_parameters\": {\"rope_type\": \"yarn\", $yarn, $theta}" \
    "$theta, \"rope_scaling\": {\"type\": \"yarn\", $yarn}" qwen2.rope.scaling.factor 4
llama3='"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64'
v5 llama3scaling LlamaForCausalLM '' "\"rope_parameters\": {$llama3, $theta}" \
    "$theta, \"rope_scaling\": {$llama3}" llama.rope.freq_base 500000
gemma='"sliding_window": 8, "tie_word_embeddings": true'
both='"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0}'
v5 gemma3 Gemma3ForCausalLM "$gemma" "\"rope_parameters\": {$both}" "$theta, \"rope_local_base_freq\": 20000.0,
    \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8.0}" gemma3.rope.scaling.factor 8
beta="$yarn, \"beta_fast\": 30, \"beta_slow\": 2, \"mscale\": 0.707, \"mscale_all_dim\": 0.707"
v5 dsv2 DeepseekV2ForCausalLM '"kv_lora_rank": 6, "qk_rope_head_dim": 2, "qk_nope_head_dim": 4, "v_head_dim": 4,
    "n_routed_experts": 4, "n_shared_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 6,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "q_lora_rank": null, "scoring_func": "softmax",
    "norm_topk_prob": false, "routed_scaling_factor": 1.0, "topk_method": "greedy", "n_group": 1, "topk_group": 1' \
    "\"rope_parameters\": {\"rope_type\": \"yarn\", $beta, $theta}" \
    "$theta, \"rope_scaling\": {\"type\": \"yarn\", $beta}" deepseek2.rope.scaling.yarn_log_multiplier 0.0707
v5 qwen3next Qwen3NextForCausalLM '"norm_topk_prob": true, "decoder_sparse_step": 1, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_value_head_dim": 4,
    "full_attention_interval": 2, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 6,
    "shared_expert_intermediate_size": 6' "$part" "$theta, $half" qwen3next.rope.dimension_count 2
edit 's/"head_dim": [0-9]*/"head_dim": null/'
check_text "$(organ-keys m --get qwen3next.rope.dimension_count 2> err)" 2 "y-v5/qwen3next, no head_dim: $(cat err)"
v5 falcon FalconForCausalLM '"layer_norm_epsilon": 1e-5, "num_kv_heads": 1, "new_decoder_architecture": true' \
    '"rope_parameters": {"rope_type": "default"}' '"bos_token_id": 1' falcon.attention.head_count_kv 1
# Tables of factors for a whole head, where half of it turns: the reference multiplies them and fails too.
config_only Phi3ForCausalLM 2 '"rope_parameters": {"rope_type": "longrope", "long_factor": [1.0, 1.5],
    "short_factor": [1.0, 1.1], "rope_theta": 10000.0, "original_max_position_embeddings": 32,
    "partial_rotary_factor": 0.5}'
{ echo "$ends"; echo "$head"; blocks 2 "$l.input_layernorm.weight 8
$l.post_attention_layernorm.weight 8
$l.self_attn.qkv_proj.weight 16 8
$l.self_attn.o_proj.weight 8 8
$l.mlp.gate_up_proj.weight 32 8
$l.mlp.down_proj.weight 8 16"; } | stored m/model.safetensors
right y-v5/phi3 3 "rope_factors_long.weight: its shape is 2, but the keys require 1"

# ---- l-extract -----------------------------------------------------------------------------------------------

tuned() { # CASE TEXT TENSORS FIELDS: a tuned model with more tensors than the base; its last tensor differs.
    model m LlamaForCausalLM "${5:-2}" "$4" "$3"
    differ
    right "l-extract/$1" 0 "$2" organ-lora base m --rank 2 -o x.gguf
}
model base LlamaForCausalLM 2 "$tied" "$ends
$two"
tuned llama-untied "the adapter lacks it: output.weight" "$ends
$head
$two" ''
tuned llama-bias "blk.*.attn_q.bias, blk.*.attn_k.bias" "$ends
$(blocks 2 "$bias")
$two" "$tied"
tuned llama-deeper "all of block 2" "$ends
$(blocks 3 "$attn" | grep 'layers.2')
$two" "$tied" 3
# ---- p-peft, of bases that are not plain -----------------------------------------------------------------------

# peft MEMBERS: the adapter a, whose tensors stdin lists.
peft() {
    rm -rf a
    mkdir a
    echo "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4${1:+, $1}}" > a/adapter_config.json
    stored a/adapter_model.safetensors
}
qwen35 "\"full_attention_interval\": 2" "$L $F" ''
for row in vlm1:model.language_model vlm2:language_model.model vlm3:model; do
    c=${row%%:*} form=${row#*:}
    p=base_model.model
    printf '%s\n' "$p.$form.layers.1.self_attn.q_proj.lora_A.weight 2 32" \
        "$p.$form.layers.1.self_attn.q_proj.lora_B.weight 64 2" "$p.model.visual.blocks.0.attn.qkv.lora_A.weight 2 8" \
        "$p.model.visual.blocks.0.attn.qkv.lora_B.weight 8 2" | peft ''
    right "p-peft/q35-$c" 0 "1 pairs of other parts than the language model are left out" \
        organ-lora --from a --base m -o x.gguf
    tensors "p-peft/q35-$c" x.gguf '^blk.1.attn_q.weight.lora_' 2
done
for form in stacks experts; do
    if [ $form = stacks ]; then stacks 3 3 3 3; else experts "0 1 2" "0 1 2" 3 3 2; fi
    e=base_model.model.model.layers.0.mlp.experts
    printf '%s\n' "$e.base_layer.lora_A.weight 6 8" "$e.base_layer.lora_B.weight 12 6" "$e.lora_A.weight 6 6" \
        "$e.lora_B.weight 8 6" | peft '"target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]'
    right "p-peft/moe-target-parameters, $form" 0 - organ-lora --from a --base m -o x.gguf
    tensors "p-peft/moe-target-parameters, $form" x.gguf 'exps.weight.lora_' 6
    tensors "p-peft/moe-target-parameters, $form" x.gguf "ffn_down_exps.weight.lora_a.*${TAB}6x2x3${TAB}" 1
done

# ---- s-mergekit ----------------------------------------------------------------------------------------------

# merge_of CASE STATUS TEXT JSON: a merge of the models below, as in the YAML file of the case.
merge_of() {
    echo "{$4}" > merge.json
    right "s-mergekit/$1" "$2" "$3" organ-merge --config merge.json --models models -o x.gguf
}
rm -rf base tied # names of models are paths first
mkdir models
llama models/base ''
for name in chat code; do cp -r models/base models/$name; done
llama models/eps ''
sed 's/"rms_norm_eps": 1e-6/"rms_norm_eps": 1e-5/' models/base/config.json > models/eps/config.json
cp -r models/eps models/theta
sed 's/"rope_theta": 10000.0/"rope_theta": 2e7/' models/base/config.json > models/theta/config.json
cp -r models/eps models/heads
sed 's/"num_attention_heads": 2/"num_attention_heads": 4/; s/"num_key_value_heads": 1/"num_key_value_heads": 2/
    s/"head_dim": 4/"head_dim": 2/' models/base/config.json > models/heads/config.json
model models/tied LlamaForCausalLM 2 "$tied" "$ends
$two"
model models/wide LlamaForCausalLM 2 '' "$(echo "$all" | sed 's/ 12 8$/ 14 8/')"
llama models/yarn '"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}'
llama models/llama31 '"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 16}'
m() { echo "{\"model\": \"$1\"}"; }
both() { echo "\"merge_method\": \"linear\", \"models\": [$(m "$1"), $(m "$2")], \"parameters\": {\"weight\": 0.5}"; }
part() { echo "{\"sources\": [$1]}"; }
of() { echo "{\"model\": \"$1\", \"layer_range\": [$2], \"parameters\": {${3:-}}}"; }
merge_of 105.yml 0 "" "\"merge_method\": \"passthrough\", \"slices\": [$(part "$(of base 0,2)"),
    $(part "$(of base 1,2)")]"
has s-mergekit/105.yml llama.block_count "3 "
merge_of 198.yml 0 "" "\"merge_method\": \"linear\", \"parameters\": {\"weight\": 1.0}, \"slices\": [
    $(part "$(of base 0,1), $(of chat 0,1 '"weight": 0')"), $(part "$(of code 1,2)")]"
merge_of 325.yml 0 "llama.rope.freq_base differs" "$(both base theta)"
merge_of 425.yml 1 "--embed-from base" "\"merge_method\": \"della\", \"base_model\": \"base\", \"models\": [$(m wide)],
    \"tokenizer_source\": \"base\", \"parameters\": {\"weight\": 0.3, \"density\": 0.4, \"epsilon\": 0.05}"
none="no model has a vocabulary"
merge_of 469.yml 0 "$none" "\"merge_method\": \"slerp\", \"base_model\": \"chat\", \"models\": [$(m chat), $(m code)],
    \"tokenizer_source\": \"union\", \"chat_template\": \"chatml\", \"parameters\": {\"t\": [0, 0.5, 1]}"
has s-mergekit/469.yml general.architecture llama
organ-keys x.gguf --get tokenizer.chat_template 2> /dev/null | grep -q im_start ||
    bad "s-mergekit/469.yml: no template"
merge_of 479.yml 0 "$none" "\"merge_method\": \"breadcrumbs_ties\", \"base_model\": \"base\", \"models\": [$(m chat),
    $(m code)], \"tokenizer\": {\"source\": \"union\"}, \"parameters\": {\"int8_mask\": true, \"random_seed\": 145,
    \"density\": 0.9, \"gamma\": 0.01, \"weight\": [{\"filter\": \"lm_head\", \"value\": 0.0}, {\"value\": 0.33}]}"
merge_of 548-lora.yml 3 "adds the adapter 'lora' to 'base'" "\"merge_method\": \"passthrough\",
    \"models\": [$(m base+lora)]"
merge_of 671.yml 0 "$none" "\"merge_method\": \"ties\", \"base_model\": \"base\", \"models\": [$(m chat), $(m code)],
    \"tokenizer\": {\"source\": \"union\"}, \"chat_template\": \"auto\", \"parameters\": {\"normalize\": true,
    \"int8_mask\": true, \"density\": 0.5, \"weight\": 0.5}"
merge_of eps.yml 0 "layer_norm_rms_epsilon differs: base 1e-6, donor 0.00001" "$(both base eps)"
merge_of heads.yml 1 "head_count differs: base 2, donor 4" "$(both base heads)"
merge_of rope-llama31.yml 0 "rope_freqs.weight" "$(both chat llama31)"
tensors s-mergekit/rope-llama31.yml x.gguf '^rope_freqs.weight' 0
table="rope_freqs.weight, which scales RoPE, differs"
merge_of rope-llama31-first.yml 0 "$table: only the base has it" "$(both llama31 chat)"
tensors s-mergekit/rope-llama31-first.yml x.gguf '^rope_freqs.weight' 1
cp -r models/llama31 models/llama32
sed 's/"factor": 8.0/"factor": 32.0/' models/llama31/config.json > models/llama32/config.json
merge_of "rope-llama31, another factor" 0 "$table: base and donor have other values" "$(both llama31 llama32)"
right "rope-llama31, transplant" 0 "$table: only the donor" \
    organ-transplant models/chat models/llama31 --type ffn -o x.gguf
right "rope-llama31, stack" 1 "$table: only the base" organ-stack -o x.gguf models/llama31 0 models/chat 1
cp -r models/llama31 models/same
right "rope-llama31, the same" 0 - organ-merge --method linear models/llama31 models/same -o x.gguf
merge_of rope-yarn.yml 0 "rope.scaling.type differs: base none, donor yarn" "$(both chat yarn)"
merge_of yarn-first.yml 0 "rope.scaling.type differs: base yarn, donor none" "$(both yarn chat)"
for order in "tied base" "base tied"; do
    merge_of "$([ "$order" = "tied base" ] && echo tied-untied.yml || echo untied-tied.yml)" 0 \
        "its embeddings are merged as its head" "$(both "${order% *}" "${order#* }")"
    tensors "s-mergekit, $order" x.gguf '^output.weight' 1
done
# scale CASE KEY CLASS FIELDS FIELDS TENSORS: two models that differ in a key are merged with a warning.
scale() {
    model one "$3" 2 "$4" "$6"
    model other "$3" 2 "$5" "$6"
    right "s-mergekit/scales/$1" 0 "$2 differs" organ-merge --method linear one other -o x.gguf
}
two_norms="$ends
$(blocks 2 "$attn
$four")"
g2='"hidden_activation": "gelu_pytorch_tanh"'
scale gemma2-softcap gemma2.attn_logit_softcapping Gemma2ForCausalLM "$g2, \"attn_logit_softcapping\": 50.0" \
    "$g2, \"attn_logit_softcapping\": 20.0" "$two_norms"
scale gemma2-window gemma2.attention.sliding_window Gemma2ForCausalLM "$g2, \"sliding_window\": 32" \
    "$g2, \"sliding_window\": 16" "$two_norms"
scale gemma3-localbase gemma3.rope.freq_base_swa Gemma3ForCausalLM "$gemma, \"rope_local_base_freq\": 10000.0" \
    "$gemma, \"rope_local_base_freq\": 1000000.0" "$two_norms
$(blocks 2 "$qk")"
g() { echo "\"attention_multiplier\": 0.5, \"embedding_multiplier\": $1, \"logits_scaling\": $2,
    \"residual_multiplier\": $3"; }
scale granite-embedding granite.embedding_scale GraniteForCausalLM "$(g 12.0 8.0 0.22)" "$(g 1.0 8.0 0.22)" "$all"
scale granite-logits granite.logit_scale GraniteForCausalLM "$(g 12.0 8.0 0.22)" "$(g 12.0 1.0 0.22)" "$all"
scale granite-residual granite.residual_scale GraniteForCausalLM "$(g 12.0 8.0 0.22)" "$(g 12.0 8.0 1.0)" "$all"
linear='"rope_scaling": {"rope_type": "linear", "factor": 4.0}'
scale llama-linear llama.rope.scaling.type LlamaForCausalLM '' "$linear" "$all"
y() { echo "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": $1, \"original_max_position_embeddings\": $2}"; }
scale llama-yarn-factor llama.rope.scaling.factor LlamaForCausalLM "$(y 4.0 16)" "$(y 8.0 16)" "$all"
scale llama-yarn-origin llama.rope.scaling.original_context_length LlamaForCausalLM "$(y 4.0 16)" "$(y 4.0 32)" "$all"
cd "$OLDPWD" || exit 1

# Every case has a test: the list tells a text of it.
missing=$(awk -F'\t' 'FILENAME !~ /\.txt$/ { all = all $0 "\n"; next } !index(all, $2) { print $1 ": " $2 }' \
    tests/cli/surgery.sh tests/cli/hf_cases.sh tests/cli/safetensors.sh tests/data/surgery.txt)
check_text "$missing" "" "cases without a test"
finish
