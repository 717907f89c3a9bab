#!/bin/sh
# Checkpoints of many shapes, made here, of all architectures: head counts, explicit head sizes,
# tied embeddings, experts, types and shards. Each is read as GGUF, written under Hugging Face names
# with a config.json, and read again: the GGUF bytes, the stored tensors and the keys of config.json
# must be the same. HF_VECTORS=FOLDER does the same with the models and adapters of that folder.
. "$(dirname "$0")/lib.sh"
. tests/checkpoints.sh

# Finite values in three types.
for t in f16 bf16 f32; do
    check "values as $t" organ-assemble "$LAB/lab-base-q4_k_m.gguf" --dtype $t -q --force -o "$T/v.gguf"
    tail -c 2000000 "$T/v.gguf" > "$T/pool.$t"
done

# made_shard FILE TYPE SKIP: a safetensors file with the tensors that stdin lists, one per line: name and
# dims. Data are bytes of the pool from SKIP on.
made_shard() {
    bytes=$(stored_header "$1" "$(echo "$2" | tr a-z A-Z)")
    tail -c +$(($3 + 1)) "$T/pool.$2" | head -c "$bytes" >> "$1"
}

# tensors ARCH: the list for the sizes in variables: L layers, D embedding, H heads, K key-value heads, P head
# size, F inner size, V tokens, E experts, S state, R value heads per key head.
tensors() {
    q=$((H * P)) k=$((K * P)) l=model.layers.%
    attn="$l.self_attn.q_proj.weight $q $D
$l.self_attn.k_proj.weight $k $D
$l.self_attn.v_proj.weight $k $D
$l.self_attn.o_proj.weight $D $q"
    bias="$l.self_attn.q_proj.bias $q
$l.self_attn.k_proj.bias $k
$l.self_attn.v_proj.bias $k"
    qk="$l.self_attn.q_norm.weight $P
$l.self_attn.k_norm.weight $P"
    norms="$l.input_layernorm.weight $D
$l.post_attention_layernorm.weight $D"
    mlp="$l.mlp.gate_proj.weight $F $D
$l.mlp.up_proj.weight $F $D
$l.mlp.down_proj.weight $D $F"
    experts=$(awk -v n="$E" -v l="$l.mlp" -v d="$D" -v f="$F" 'BEGIN {
        print l ".gate.weight", n, d
        for (e = n - 1; e >= 0; e--) {
            print l ".experts." e ".gate_proj.weight", f, d
            print l ".experts." e ".up_proj.weight", f, d
            print l ".experts." e ".down_proj.weight", d, f
        }
    }')
    mixtral=$(echo "$experts" | sed 's/mlp/block_sparse_moe/; s/gate_proj/w1/; s/up_proj/w3/; s/down_proj/w2/')
    shared="$l.mlp.shared_expert_gate.weight 1 $D
$l.mlp.shared_expert.gate_proj.weight $F $D
$l.mlp.shared_expert.up_proj.weight $F $D
$l.mlp.shared_expert.down_proj.weight $D $F"
    ends="model.embed_tokens.weight $V $D
model.norm.weight $D"
    [ "$tied" = true ] || ends="$ends
lm_head.weight $V $D"
    case $1 in
    llama | granite) block="$attn
$norms
$mlp" ;;
    internlm2) ends="model.tok_embeddings.weight $V $D
model.norm.weight $D
output.weight $V $D" block="$l.attention.wqkv.weight $((q + 2 * k)) $D
$l.attention.wo.weight $D $q
$l.attention_norm.weight $D
$l.ffn_norm.weight $D
$(echo "$mlp" | sed 's/mlp.gate_proj/feed_forward.w1/; s/mlp.up_proj/feed_forward.w3/;
    s/mlp.down_proj/feed_forward.w2/')" ;;
    seed_oss) block="$attn
$bias
$norms
$mlp" ;;
    mixtral) block="$attn
$norms
$mixtral" ;;
    qwen2) block="$attn
$bias
$norms
$mlp" ;;
    qwen3) block="$attn
$qk
$norms
$mlp" ;;
    qwen2moe) block="$attn
$bias
$norms
$experts
$shared" ;;
    qwen3moe) block="$attn
$qk
$norms
$experts" ;;
    qwen3moe-fused) block="$attn
$qk
$norms
$l.mlp.gate.weight $E $D
$l.mlp.experts.gate_up_proj $E $((2 * F)) $D
$l.mlp.experts.down_proj $E $D $F" ;;
    granitemoe) block="$attn
$norms
$l.block_sparse_moe.router.layer.weight $E $D
$l.block_sparse_moe.input_linear.weight $E $((2 * F)) $D
$l.block_sparse_moe.output_linear.weight $E $D $F
$l.shared_mlp.input_linear.weight $((2 * F)) $D
$l.shared_mlp.output_linear.weight $D $F" ;;
    gemma) block="$attn
$norms
$mlp" ;;
    gemma2 | gemma3) block="$attn
$norms
$l.pre_feedforward_layernorm.weight $D
$l.post_feedforward_layernorm.weight $D
$mlp"
        [ "$1" = gemma2 ] || block="$block
$qk" ;;
    olmo) block="$attn
$mlp" ends=$(echo "$ends" | grep -v norm) ;;
    olmo2) block="$attn
$l.self_attn.q_norm.weight $q
$l.self_attn.k_norm.weight $k
$l.post_attention_layernorm.weight $D
$l.post_feedforward_layernorm.weight $D
$mlp" ;;
    phi3) block="$l.self_attn.qkv_proj.weight $((q + 2 * k)) $D
$l.self_attn.o_proj.weight $D $q
$norms
$l.mlp.gate_up_proj.weight $((2 * F)) $D
$l.mlp.down_proj.weight $D $F" ;;
    deepseek) block="$l.self_attn.q_a_proj.weight 20 $D
$l.self_attn.q_a_layernorm.weight 20
$l.self_attn.q_b_proj.weight $((H * (P + 4))) 20
$l.self_attn.kv_a_proj_with_mqa.weight $((S + 4)) $D
$l.self_attn.kv_a_layernorm.weight $S
$l.self_attn.kv_b_proj.weight $((H * (P + R))) $S
$l.self_attn.o_proj.weight $D $((H * R))
$norms
$experts
$l.mlp.gate.e_score_correction_bias $E
$(echo "$shared" | grep -v _gate | sed 's/shared_expert/shared_experts/')" ;;
    qwen3next) block="$norms
$experts
$shared
$l.linear_attn.in_proj_qkvz.weight $((2 * K * S + 2 * K * R * P)) $D
$l.linear_attn.in_proj_ba.weight $((2 * K * R)) $D
$l.linear_attn.A_log $((K * R))
$l.linear_attn.dt_bias $((K * R))
$l.linear_attn.conv1d.weight $((2 * K * S + K * R * P)) 1 4
$l.linear_attn.norm.weight $P
$l.linear_attn.out_proj.weight $D $((K * R * P))" ;;
    qwen35) block="$norms
$mlp
$l.linear_attn.in_proj_qkv.weight $((2 * K * S + K * R * P)) $D
$l.linear_attn.in_proj_z.weight $((K * R * P)) $D
$l.linear_attn.in_proj_a.weight $((K * R)) $D
$l.linear_attn.in_proj_b.weight $((K * R)) $D
$l.linear_attn.A_log $((K * R))
$l.linear_attn.dt_bias $((K * R))
$l.linear_attn.conv1d.weight $((2 * K * S + K * R * P)) 1 4
$l.linear_attn.norm.weight $P
$l.linear_attn.out_proj.weight $D $((K * R * P))" ;;
    mamba) l=backbone.layers.% ends="backbone.embeddings.weight $V $D
backbone.norm_f.weight $D" block="$l.norm.weight $D
$l.mixer.A_log $F $S
$l.mixer.D $F
$l.mixer.conv1d.weight $F 1 4
$l.mixer.conv1d.bias $F
$l.mixer.dt_proj.weight $F $R
$l.mixer.dt_proj.bias $F
$l.mixer.in_proj.weight $((2 * F)) $D
$l.mixer.out_proj.weight $D $F
$l.mixer.x_proj.weight $((R + 2 * S)) $F" ;;
    mamba2) l=backbone.layers.% ends="backbone.embeddings.weight $V $D
lm_head.weight $V $D
backbone.norm_f.weight $D" block="$l.norm.weight $D
$l.mixer.A_log $H
$l.mixer.D $H
$l.mixer.dt_bias $H
$l.mixer.conv1d.weight $((F + 2 * K * S)) 1 4
$l.mixer.conv1d.bias $((F + 2 * K * S))
$l.mixer.in_proj.weight $((2 * F + 2 * K * S + H)) $D
$l.mixer.norm.weight $F
$l.mixer.out_proj.weight $D $F" ;;
    gpt2) l=transformer.h.% ends="transformer.wte.weight $V $D
transformer.wpe.weight 32 $D
transformer.ln_f.weight $D
transformer.ln_f.bias $D" block="$l.ln_1.weight $D
$l.ln_1.bias $D
$l.ln_2.weight $D
$l.ln_2.bias $D
$l.attn.c_attn.weight $D $((3 * D))
$l.attn.c_attn.bias $((3 * D))
$l.attn.c_proj.weight $D $D
$l.mlp.c_fc.weight $D $F
$l.mlp.c_proj.weight $F $D" ;;
    gptneox | bloom) l=gpt_neox.layers.% ends="gpt_neox.embed_in.weight $V $D
gpt_neox.final_layer_norm.weight $D
embed_out.weight $V $D" block="$l.attention.query_key_value.weight $((3 * D)) $D
$l.attention.query_key_value.bias $((3 * D))
$l.attention.dense.weight $D $D
$l.mlp.dense_h_to_4h.weight $F $D
$l.mlp.dense_4h_to_h.weight $D $F
$norms"
        block=$(echo "$block" | sed 's/model\.layers/gpt_neox.layers/')
        [ "$1" = gptneox ] || {
            block=$(echo "$block" | sed 's/gpt_neox.layers/transformer.h/; s/\.attention\./.self_attention./')
            ends="transformer.word_embeddings.weight $V $D
transformer.word_embeddings_layernorm.weight $D
transformer.ln_f.weight $D"
        } ;;
    falcon) l=transformer.h.% ends="transformer.word_embeddings.weight $V $D
transformer.ln_f.weight $D" block="$l.self_attention.query_key_value.weight $(((H + 2 * K) * P)) $D
$l.self_attention.dense.weight $D $D
$l.mlp.dense_h_to_4h.weight $F $D
$l.mlp.dense_4h_to_h.weight $D $F
$(case $K in 1) echo "$l.input_layernorm.weight $D" ;; *) echo "$l.ln_attn.weight $D
$l.ln_mlp.weight $D" ;; esac)" ;;
    esac
    echo "$ends"
    blocks "$L" "$block"
}

# config ARCH CLASS: config.json for the same sizes.
config() {
    more=''
    case $1 in
    deepseek) more="\"kv_lora_rank\": $S, \"q_lora_rank\": 20, \"qk_nope_head_dim\": $P, \"qk_rope_head_dim\": 4,
        \"v_head_dim\": $R, \"n_routed_experts\": $E, \"n_shared_experts\": 1, \"n_group\": 1, \"topk_group\": 1,
        \"scoring_func\": \"sigmoid\", \"norm_topk_prob\": true, \"routed_scaling_factor\": 2.5, \
            \"moe_intermediate_size\": $F,
        \"first_k_dense_replace\": 0, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40, \"mscale_all_dim\": 0.3,
        \"original_max_position_embeddings\": 64}," ;;
    qwen3next | qwen35) more="\"linear_key_head_dim\": $S, \"linear_num_key_heads\": $K, \"linear_value_head_dim\": $P,
        \"linear_num_value_heads\": $((K * R)), \"linear_conv_kernel_dim\": 4, \"partial_rotary_factor\": 0.5," ;;
    mamba) more="\"state_size\": $S, \"time_step_rank\": $R," ;;
    mamba2) more="\"state_size\": $S, \"num_heads\": $H, \"n_groups\": $K, \"head_dim\": $((F / H))," ;;
    falcon) more="\"num_kv_heads\": $K," ;;
    gptneox) more="\"rotary_pct\": 0.3," ;;
    llama) more="\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4.0, \"low_freq_factor\": 1.0,
        \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}," ;;
    qwen2) more="\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \
        \"original_max_position_embeddings\": 64}," ;;
    granite*) more="\"shared_intermediate_size\": $F, \"attention_multiplier\": 0.3, \"embedding_multiplier\": 12.0,
        \"residual_multiplier\": 0.22, \"logits_scaling\": 8.0," ;;
    esac
    case $1 in
    llama | granite* | mixtral | internlm2 | seed_oss | qwen[23]* | gemma* | olmo2)
        [ $((H * P)) = "$D" ] || more="$more \"head_dim\": $P," ;;
    esac
    case $1 in mixtral | qwen?moe* | granitemoe | qwen3next) more="$more \"num_experts_per_tok\": 2,
        \"num_local_experts\": $E, \"moe_intermediate_size\": $F, \"shared_expert_intermediate_size\": $F," ;; esac
    echo "{\"architectures\": [\"$2\"], $more \"num_hidden_layers\": $L, \"hidden_size\": $D,
        \"intermediate_size\": $F,
        \"num_attention_heads\": $H, \"num_key_value_heads\": $K, \"vocab_size\": $V, \"rms_norm_eps\": 1e-6,
        \"layer_norm_epsilon\": 1e-5, \"max_position_embeddings\": 128, \"rope_theta\": 50000.0}"
}

hash_tensors() {
    organ-check --hash "$1" 2> /dev/null |
        awk -F'\t' "$BY_NAME"'col("kind") == "tensor" {
        print col("name") "\t" col("detail") "\t" col("sha256") }' | sort
}
arch_keys() {
    organ-keys "$1" | grep -Ev '^general|^tokenizer' | sort
}

# hide_keys FILE: the keys in its metadata get another name, so that config.json is used.
hide_keys() {
    printf x | dd of="$1" bs=1 seek=45 conv=notrunc 2> /dev/null
    head -c 60 "$1" | grep -aqF '"gguf.xeys"' || bad "the keys of $1 stand elsewhere"
}

# round_trip WHAT MODEL.gguf [OPTION...]: written under Hugging Face names and read again.
round_trip() {
    what=$1 model=$2
    shift 2
    rm -rf "$T/w"
    check "$what: write" organ-assemble "$model" --names hf "$@" -o "$T/w/model.safetensors"
    grep 'cannot express' "$T/err" && bad "$what: config.json"
    check "$what: read" organ-assemble "$T/w" --no-strict -q --force -o "$T/back.gguf"
    check_same "$model" "$T/back.gguf" "$what: there and back"
    first=$(find "$T/w" -name 'model*.safetensors' | sort | head -n 1)
    hide_keys "$first"
    check "$what: by config.json" organ-assemble "$T/w" --no-strict -q --force -o "$T/back.gguf"
    for f in "$model" "$T/back.gguf"; do
        hash_tensors "$f" > "$T/${f##*/}.hash"
        arch_keys "$f" > "$T/${f##*/}.keys"
    done
    check_same "$T/${model##*/}.hash" "$T/back.gguf.hash" "$what: tensors by config.json"
    check_same "$T/${model##*/}.keys" "$T/back.gguf.keys" "$what: keys by config.json"
}

# stored FOLDER: the tensors of the safetensors files as they are stored, except for those that are
# computed: norms, and A_log.
stored() {
    for f in "$1"/model*.safetensors; do
        cp "$f" "$T/plain.safetensors"
        head -c 60 "$f" | grep -aqF '"gguf.keys"' && hide_keys "$T/plain.safetensors"
        hash_tensors "$T/plain.safetensors"
    done | grep -Ev 'norm.weight|A_log|rope_freqs' | sort
}

# shape ARCH CLASS TYPE SHARDS [VARIABLE=VALUE...]
shape() {
    arch=$1 class=$2 type=$3 shards=$4
    L=2 D=32 H=4 K=2 P=8 F=64 V=48 E=3 S=8 R=2 tied=false
    what="$*"
    shift 4
    for v in "$@"; do eval "$v"; done
    rm -rf "$T/ck"
    mkdir "$T/ck"
    config "$arch" "$class" > "$T/ck/config.json"
    tensors "$arch" > "$T/list"
    i=0
    while [ $i -lt "$shards" ]; do
        awk -v s="$shards" -v i=$i 'NR % s == i' "$T/list" |
            made_shard "$T/ck/model-0000$((i + 1))-of-0000$shards.safetensors" "$type" $((40000 * (i + 1)))
        i=$((i + 1))
    done
    [ "$shards" != 1 ] || mv "$T/ck/model-00001-of-00001.safetensors" "$T/ck/model.safetensors"
    [ "$shards" = 1 ] || awk -v s="$shards" 'BEGIN { printf "{\"weight_map\": {" }
        { printf "%s\"%s\": \"model-0000%d-of-0000%d.safetensors\"", (NR > 1 ? ", " : ""), $1, NR % s + 1, s }
        END { print "}}" }' "$T/list" > "$T/ck/model.safetensors.index.json"
    check "$what" organ-assemble "$T/ck" --no-strict -q --force -o "$T/m.gguf"
    round_trip "$what" "$T/m.gguf" --shards "$shards"
    case $arch:$type in
    qwen3moe-fused:* | *:*f16) ;; # experts are written one by one; vectors of F16 become F32
    *)
        stored "$T/ck" > "$T/have"
        stored "$T/w" > "$T/want"
        check_same "$T/have" "$T/want" "$what: the stored tensors"
        ;;
    esac
}

if [ -n "${HF_VECTORS:-}" ]; then
    for f in "$HF_VECTORS"/*/*.gguf; do
        c=$(basename "$(dirname "$f")")
        case $c in
        odd-*) continue ;;
        lora-gpt2-conv1d) continue ;; # the reference transposes its pairs, so they fit no base
        lora-*)
            b=$(awk -F'\t' -v c="$c" '$1 == c { print $3 }' "$HF_VECTORS/index.tsv")
            rm -rf "${T:?}/$c"
            check "$c: for PEFT" organ-lora -q --from "$f" --base "$HF_VECTORS/$b/hf" --to-peft "$T/$c"
            check "$c: from PEFT" organ-lora -q --from "$T/$c" --base "$HF_VECTORS/$b/hf" --force -o "$T/a.gguf"
            check_same "$f" "$T/a.gguf" "$c: there and back"
            ;;
        *) round_trip "${f##*/}" "$f" ;;
        esac
    done
fi

for c in falcon gptneox mamba2 qwen35-nested gemma3-vlm; do
    check "$c" organ-assemble "$D/hf/$c" -q --force -o "$T/m.gguf"
    round_trip "$c" "$T/m.gguf"
done

hf=ForCausalLM
shape llama Llama$hf f32 1 K=4
shape llama Mistral$hf bf16 3 H=3 K=1 P=16 L=3 tied=true
shape internlm2 InternLM2$hf f32 1 K=2 P=12
shape seed_oss SeedOss$hf f32 1 K=1 P=16
# With one key-value head, wqkv is that of llama row by row.
shape llama Llama$hf f32 1 H=3 K=1 P=16
hash_tensors "$T/m.gguf" | grep -v rope_freqs > "$T/llama.hash"
shape internlm2 InternLM2$hf f32 1 H=3 K=1 P=16
hash_tensors "$T/m.gguf" > "$T/internlm2.hash"
check_same "$T/internlm2.hash" "$T/llama.hash" "internlm2 as llama"
shape mixtral Mixtral$hf f32 4 H=8 P=4 E=11 F=32
shape qwen2 Qwen2$hf bf16 1 H=6 K=3 D=48 tied=true
shape qwen2moe Qwen2Moe$hf f32 2 E=12 F=32
shape qwen3 Qwen3$hf f16 2 P=16 K=1
shape qwen3moe Qwen3Moe$hf f32 3 E=4 P=12 F=32
shape qwen3moe-fused Qwen3Moe$hf bf16 1 E=5 F=32
shape qwen3next Qwen3Next$hf f32 1 E=3 K=2 R=1 P=12 F=32
shape qwen35 Qwen3_5$hf f32 1 K=2 R=3 P=4 S=12
shape gemma Gemma$hf bf16 1 H=2 K=1 P=24 tied=true
shape gemma2 Gemma2$hf f32 2 H=4 K=4 P=12 tied=true
shape gemma3 Gemma3$hf f16 1 H=4 K=1 P=12 tied=true
shape granite Granite$hf f32 1 K=1 tied=true
shape granitemoe GraniteMoeShared$hf f32 2 E=5 K=4 F=32
shape olmo Olmo$hf bf16 1 K=4
shape olmo2 Olmo2$hf f32 1 H=8 K=2 P=4
shape phi3 Phi3$hf f16 2
shape deepseek DeepseekV3$hf bf16 1 H=3 P=16 S=16 R=4 E=3 F=32
shape mamba Mamba$hf f32 1 R=1 tied=true
shape mamba2 Mamba2$hf f32 1 H=8 K=4
shape gpt2 GPT2LMHeadModel f32 1 tied=true
shape gptneox GPTNeoX$hf f32 1 H=2 F=128
shape bloom Bloom$hf bf16 1 H=8 K=8 F=128 tied=true
shape falcon Falcon$hf bf16 2 H=6 K=3 D=48 F=192 tied=true

if exhaustive; then # of these others are above
    shape llama Llama$hf f16 2 H=2 K=2 P=20 D=40
    shape internlm2 InternLM2$hf bf16 2 H=6 K=3 D=48 P=8
    shape qwen3next Qwen3Next$hf bf16 2 E=2 K=1 R=3 P=8 S=12 F=32
    shape qwen35 Qwen3_5$hf f16 1 K=3 R=2 P=8 tied=true
    shape granitemoe GraniteMoeShared$hf bf16 1 E=2 F=48
    shape deepseek DeepseekV3$hf f32 2 E=4 S=24 R=12 F=32
    shape mamba Mamba$hf bf16 2 S=16 R=3 F=48 tied=true
    shape gpt2 GPT2LMHeadModel f16 2 D=48 F=96 H=3 tied=true
    shape falcon Falcon$hf f32 1 K=1 F=128 tied=true
fi

# Heads are in another order, and a piece of the tensor ends within a row.
mkmodel "$T/wide.gguf" -k llama.block_count=1 -k llama.embedding_length=96 -k llama.feed_forward_length=32 \
    -k llama.attention.head_count=64 -k llama.attention.head_count_kv=1 -k llama.attention.key_length=64 \
    -k llama.attention.value_length=64 token_embd.weight:F32:96x20 output_norm.weight:F32:96 \
    blk.0.attn_norm.weight:F32:96 blk.0.attn_q.weight:F32:96x4096 blk.0.attn_k.weight:F32:96x64 \
    blk.0.attn_v.weight:F32:96x64 blk.0.attn_output.weight:F32:4096x96 blk.0.ffn_norm.weight:F32:96 \
    blk.0.ffn_gate.weight:F32:96x32 blk.0.ffn_up.weight:F32:96x32 blk.0.ffn_down.weight:F32:32x96
check "rows that divide no piece: write" organ-assemble "$T/wide.gguf" --names hf -o "$T/wide/model.safetensors"
check "rows that divide no piece: read" organ-assemble "$T/wide" --no-strict -q -o "$T/wide2.gguf"
check_same "$T/wide2.gguf" "$T/wide.gguf" "rows that divide no piece"
finish
