#!/bin/sh
# Checkpoints and adapters in safetensors: names, shapes and values as the reference converter
# makes them, and files that are refused. HF_VECTORS=FOLDER compares all cases of a folder with the
# GGUF files in it.
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
H=$D/hf

# hashes FILE: name, type with dims, and hash of each tensor.
hashes() {
    organ-check --hash "$1" 2> /dev/null |
        awk -F'\t' "$BY_NAME"'col("kind") == "tensor" {
            print col("name") "\t" col("detail") "\t" col("sha256") }' | sort
}

# ssm_a of mamba is an exponential, whose last bit may differ.
without_exp() {
    for f in have want; do grep -v ssm_a "$T/$f" > "$T/$f.2" && mv "$T/$f.2" "$T/$f"; done
}

# st FILE HEADER BYTES: a file with this header, and a number of zero bytes.
st() {
    n=${#2}
    printf '%b' "$(printf '\\%03o\\%03o\\0\\0\\0\\0\\0\\0' $((n % 256)) $((n / 256)))" > "$1"
    printf '%s' "$2" >> "$1"
    head -c "$3" /dev/zero >> "$1"
}

# ---- values ------------------------------------------------------------------------------------

for dir in "$H"/*/config.json; do
    dir=${dir%/config.json}
    c=${dir##*/}
    check "$c as F32" organ-assemble "$dir" --dtype f32 -q -o "$T/$c.gguf"
    hashes "$T/$c.gguf" > "$T/have"
    awk -F'\t' -v OFS='\t' -v c="$c" '$1 == c { print $2, $3, $4 }' "$H/tensors.tsv" | sort > "$T/want"
    case $c in mamba*) without_exp ;; esac
    check_same "$T/have" "$T/want" "$c: tensors of the reference"
done

if [ -n "${HF_VECTORS:-}" ]; then
    for dir in "$HF_VECTORS"/*/hf/config.json; do
        dir=${dir%/hf/config.json}
        c=${dir##*/}
        for f in "$dir/$c".*.gguf; do
            t=${f%.gguf}
            t=${t##*.}
            [ "$t" = auto ] && t=f16
            organ-assemble "$dir/hf" --dtype "$t" -q --force -o "$T/v.gguf" 2> "$T/err" || {
                grep -q 'too large for' "$T/err" || bad "$c $t: $(cat "$T/err")"
                continue # values that the reference makes infinite are refused
            }
            hashes "$T/v.gguf" > "$T/have"
            hashes "$f" > "$T/want"
            case $c in mamba*) without_exp ;; esac
            check_same "$T/have" "$T/want" "$c $t"
        done
    done
fi

# Types are kept where GGUF allows it.
check_text "$(organ-extract --list "$H/falcon" |
    awk -F'\t' "$BY_NAME"'col("name") ~ /attn_qkv|attn_norm_2.w/ { printf "%s ", col("dtype") }')" \
    "F32 BF16 F32 BF16 " "types of a BF16 checkpoint"
check_text "$(organ-keys "$H/falcon" --get falcon.attention.head_count_kv)" 2 "a key of config.json"
check_text "$(organ-keys "$H/qwen35-nested" --get qwen35.rope.dimension_sections | tr '\n' ' ')" \
    "1 1 0 0 " "a list of config.json"

# Every tool reads it; a file of the folder stands for the folder.
check "measure" organ-measure "$H/gptneox"
check_exit 1 "compare" organ-compare "$H/gptneox/model.safetensors" "$T/gptneox.gguf"
check_text "$(awk -F'\t' "$BY_NAME"'col("status") == "differs"' "$T/out" | grep -vc keys)" 0 "nothing differs"
check "extract" organ-extract "$H/gptneox" --output "$T/gptneox"
check "assemble a directory" organ-assemble "$T/gptneox" --dtype f32 -o "$T/g2.gguf"
hashes "$T/g2.gguf" > "$T/have"
hashes "$T/gptneox.gguf" > "$T/want"
check_same "$T/have" "$T/want" "by way of an organ directory"
check "graft" organ-transplant --base "$T/gptneox.gguf" --donor "$H/gptneox" --type organ \
    --match convert -o "$T/g3.gguf"
hashes "$T/g3.gguf" > "$T/have"
check_same "$T/have" "$T/want" "grafted from a checkpoint"
check "merge" organ-merge --method linear --model "$H/gptneox" --model "$T/gptneox" --dtype f32 -o "$T/g4.gguf"
hashes "$T/g4.gguf" > "$T/have"
check_same "$T/have" "$T/want" "merged from checkpoints"

# ---- a vocabulary --------------------------------------------------------------------------------

# vocabulary TOKENS: a model with a vocabulary of so many tokens.
vocabulary() {
    tokens=$(awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "%s\"t%d\"", i ? ", " : "", i }')
    made "$T/vocab.gguf" \
        "{\"key\": \"tokenizer.ggml.tokens\", \"type\": \"arr\", \"items\": \"str\", \"value\": [$tokens]},
{\"key\": \"tokenizer.ggml.model\", \"type\": \"str\", \"value\": \"gpt2\"}," a.weight:f32:32
}
vocabulary 96
check "a vocabulary from a GGUF" organ-assemble "$H/falcon" --vocab-from "$T/vocab.gguf" -o "$T/full.gguf"
check_text "$(organ-keys "$T/full.gguf" --get tokenizer.ggml.tokens | wc -l | tr -d ' ')" 96 "its tokens"
check_text "$(organ-keys "$T/full.gguf" --get general.architecture)" falcon "keys of the checkpoint"
grep -q 'is not converted' "$T/err" && bad "a note about a vocabulary that is there"
check "no vocabulary" organ-assemble "$H/falcon" -o "$T/none.gguf"
grep -q 'the checkpoint has no tokenizer.json or tokenizer.model' "$T/err" ||
    bad "no note about the vocabulary"
vocabulary 97
check_error 1 "has 97 tokens, but the model has embeddings for 96" "another vocabulary" \
    organ-assemble "$H/falcon" --vocab-from "$T/vocab.gguf" -o "$T/bad.gguf"
check_absent "$T/bad.gguf" "nothing is written"

# ---- adapters ------------------------------------------------------------------------------------

# The base of an adapter is given, or is the folder that it names: lab/... is in $H.
adapters=$PWD/$H
for c in lora-falcon lora-gptneox lora-gemma3-vlm; do
    check "$c" organ-lora --from "$H/$c" --base "$H/${c#lora-}" -q -o "$T/$c.gguf"
done
for c in lora-llama-rank-pattern lora-mixtral-experts lora-llama-embed-head lora-llama-norms; do
    (cd "$H" && exec organ-lora --from "$c" -o "$T/$c.gguf") 2> "$T/$c.err" || bad "$c: $(cat "$T/$c.err")"
done
for dir in "$H"/lora-*; do
    c=${dir##*/}
    hashes "$T/$c.gguf" > "$T/have"
    awk -F'\t' -v OFS='\t' -v c="$c" '$1 == c { print $2, $3, $4 }' "$H/tensors.tsv" | sort > "$T/want"
    if [ "$c" = lora-llama-rank-pattern ]; then # the reference ignores alpha_pattern of q_proj
        for f in have want; do grep -v 'attn_q.weight.lora_b' "$T/$f" > "$T/$f.2" && mv "$T/$f.2" "$T/$f"; done
    fi
    check_same "$T/have" "$T/want" "$c: tensors of the reference"
done
grep -q 'folded into lora_b' "$T/lora-llama-rank-pattern.err" || bad "no note about alpha_pattern"
check_text "$(organ-keys "$T/lora-falcon.gguf" --get adapter.lora.alpha)" 16 "alpha"

for c in "bad-modules-to-save|modules_to_save" "bad-dora|DoRA" "bad-adapter-name-infix|adapter's name" \
    "bad-missing-b|other half" "bad-lora-bias|lora_bias" "bad-unknown-layer|no such tensor" \
    "bad-one-expert-missing|only 2 of the base's 3 experts"; do
    (cd "$H" && exec organ-lora --from "${c%%|*}" -o "$T/bad.gguf") > "$T/out" 2> "$T/err"
    check_text "$?" 3 "${c%%|*}: exit"
    grep -qF "${c##*|}" "$T/err" || bad "${c%%|*}: $(cat "$T/err")"
    check_absent "$T/bad.gguf" "${c%%|*}"
done
check_error 2 "'lab/falcon', which is not a folder here" "an unknown base" \
    organ-lora --from "$adapters/lora-falcon" -o "$T/bad.gguf"

# Strength: alpha_pattern and rslora are equal to another alpha.
mkdir "$T/ad1" "$T/ad2" "$T/ad3"
for d in ad1 ad2 ad3; do cp "$H/lora-falcon/adapter_model.safetensors" "$T/$d"; done
sed 's/"lora_alpha": 16/"lora_alpha": 32/' "$H/lora-falcon/adapter_config.json" > "$T/ad1/adapter_config.json"
sed 's/"use_rslora": false/"use_rslora": true/' "$H/lora-falcon/adapter_config.json" > "$T/ad2/adapter_config.json"
sed 's/"alpha_pattern": {}/"alpha_pattern": {"query_key_value": 32}/' \
    "$H/lora-falcon/adapter_config.json" > "$T/ad3/adapter_config.json"
for d in ad1 ad2 ad3; do
    check "applied: $d" organ-transplant --base "$H/falcon" --adapter "$T/$d" -o "$T/$d.gguf"
done
for d in ad1 ad2 ad3; do hashes "$T/$d.gguf" > "$T/$d.hashes"; done # the history names the adapter
check_same "$T/ad1.hashes" "$T/ad2.hashes" "rslora with rank 4 doubles the strength"
check_same "$T/ad1.hashes" "$T/ad3.hashes" "alpha_pattern"
for strength in 0 1e-60 1e300; do
    sed "s/\"alpha_pattern\": {}/\"alpha_pattern\": {\"query_key_value\": $strength}/" \
        "$H/lora-falcon/adapter_config.json" \
        > "$T/ad3/adapter_config.json"
    check_error 3 "a strength of 0, or one out of range" "alpha_pattern of $strength" organ-lora \
        --from "$T/ad3" --base "$H/falcon" -o "$T/no.gguf"
done
# A scale beside a type that is not F8 would be lost.
header='{"m":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
header=$header'"m_scale":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},'
header=$header'"a.v_scale":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}'
{
    printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
    printf 'abcd\0\0\200\077\0\0\200\077'
} > "$T/scale.safetensors"
check_text "$(organ-extract -q --list "$T/scale.safetensors" | cells name | tr '\n' ' ')" \
    "name m m_scale a.v_scale " "scales of other types stay"
check "as GGUF" organ-transplant --base "$H/falcon" --adapter "$T/lora-falcon.gguf" -o "$T/ad4.gguf"
check "as PEFT" organ-transplant --base "$H/falcon" --adapter "$H/lora-falcon" -o "$T/ad5.gguf"
check_same "$T/ad4.gguf" "$T/ad5.gguf" "an adapter in both forms"
check "graft" organ-graft --base "$H/falcon" --adapter "$H/lora-falcon" -o "$T/ad6"
cp "$H/lora-falcon/adapter_model.safetensors" "$T/alone.safetensors"
check "a file alone" organ-lora --from "$T/alone.safetensors" --alpha 16 --base "$H/falcon" -o "$T/alone.gguf"
hashes "$T/alone.gguf" > "$T/have"
hashes "$T/lora-falcon.gguf" > "$T/want"
check_same "$T/have" "$T/want" "a file alone"
check_error 2 "lora_alpha of this adapter is not known" "no alpha" \
    organ-lora --from "$T/alone.safetensors" --base "$H/falcon" -o "$T/alone2.gguf"

# Back to PEFT: the files give the same GGUF bytes, and names and shapes are those of the original.
peft_names() {
    tr '}' '\n' < "$1/adapter_model.safetensors" | grep -a '"shape":' | grep -v vision |
        sed 's/.*"base_model/base_model/; s/"data_offsets.*//; s/"dtype":"[A-Z0-9]*",//;
        s/language_model\.model/model/' | sort
}
# Only the keys of a base count, so one tensor is enough.
for c in llama-gqa-sharded mixtral-sharded; do
    mkdir "$T/$c"
    cp "$H/lab/$c/config.json" "$T/$c"
    st "$T/$c/model.safetensors" '{"model.norm.weight": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}}' 256
done
for dir in "$H"/lora-*; do
    c=${dir##*/}
    case $c in
    lora-mixtral-*) base=$T/mixtral-sharded ;;
    lora-llama-*) base=$T/llama-gqa-sharded ;;
    *) base=$H/${c#lora-} ;;
    esac
    check "$c: to PEFT" organ-lora -q --from "$T/$c.gguf" --base "$base" --to-peft "$T/to-$c"
    check "$c: and back" organ-lora -q --from "$T/to-$c" --base "$base" --force -o "$T/again.gguf"
    check_same "$T/$c.gguf" "$T/again.gguf" "$c: there and back"
    peft_names "$dir" > "$T/want"
    peft_names "$T/to-$c" > "$T/have"
    check_same "$T/have" "$T/want" "$c: names and shapes"
done
check_text "$(tr -d ' \n' < "$T/to-lora-llama-rank-pattern/adapter_config.json" |
    grep -o '"lora_alpha".*"target' | cut -c 1-80)" \
    '"lora_alpha":16,"r":7,"rank_pattern":{"model.layers.0.self_attn.q_proj":2,"model' "ranks in adapter_config.json"
check_error 2 "base" "no base" organ-lora --from "$T/lora-falcon.gguf" --to-peft "$T/no"
check_error 1 "which its base is not" "another base" organ-lora --from "$T/lora-falcon.gguf" \
    --base "$H/gptneox" --to-peft "$T/no"
check_error 3 "this is not a LoRA adapter" "a model" \
    organ-lora --from "$T/falcon.gguf" --base "$H/falcon" --to-peft "$T/no"
pair() {
    made "$T/pair0.gguf" '{"key": "general.type", "type": "str", "value": "adapter"},
{"key": "adapter.lora.alpha", "type": "f32", "value": 4},' "$@"
    organ-keys -q "$T/pair0.gguf" --set general.architecture=str:"${arch:-granitemoe}" --force --output "$T/pair.gguf"
}
echo '{"architectures": ["GraniteMoeSharedForCausalLM"], "num_hidden_layers": 1, "attention_multiplier": 0.5,
    "hidden_size": 32, "num_attention_heads": 2}' \
    > "$T/mixtral-sharded/config.json"
gate=blk.0.ffn_gate_shexp.weight up=blk.0.ffn_up_shexp.weight
pair $gate.lora_a:f32:32x2 $gate.lora_b:f32:2x32
check_error 3 "tensor '$gate.lora_a': its pair has no counterpart" "half of a fused matrix" \
    organ-lora --from "$T/pair.gguf" --base "$T/mixtral-sharded" --to-peft "$T/no"
pair $gate.lora_a:f32:32x2 $gate.lora_b:f32:2x32 $up.lora_a:f32:32x2 $up.lora_b:f32:2x32
check_error 3 "have different lora_a" "parts of a fused matrix" \
    organ-lora --from "$T/pair.gguf" --base "$T/mixtral-sharded" --to-peft "$T/no"
pair $gate.lora_b:f32:2x32
check_error 3 "the other half of this pair is missing" "half a pair" \
    organ-lora --from "$T/pair.gguf" --base "$T/mixtral-sharded" --to-peft "$T/no"
exps=blk.0.ffn_up_exps.weight q0=blk.0.attn_q.weight q00=blk.00.attn_q.weight
arch=llama pair $exps.lora_a:f32:32x2x2 $exps.lora_b:f32:2x32x3
check_error 3 "tensor '$exps.lora_a': its pair has no counterpart" "halves with other numbers of experts" \
    organ-lora --from "$T/pair.gguf" --base "$LAB/lab-base-q4_k_m.gguf" --to-peft "$T/no"
arch=llama pair $q00.lora_a:f32:32x2 $q00.lora_b:f32:2x32 $q0.lora_a:f32:32x2 $q0.lora_b:f32:2x32
check_error 3 "tensor '$q00.lora_a': its pair has no counterpart" "a pair of block 00" \
    organ-lora --from "$T/pair.gguf" --base "$LAB/lab-base-q4_k_m.gguf" --to-peft "$T/no"
mkdir "$T/old"
echo '{"lora_alpha": 99}' > "$T/old/adapter_config.json"
check_error 2 "adapter_config.json: already exists" "the configuration of another adapter" \
    organ-lora --from "$T/lora-falcon.gguf" --base "$H/falcon" --to-peft "$T/old"
check_text "$(ls "$T/old")" adapter_config.json "the configuration of another adapter"
organ-extract -q "$T/pair.gguf" --output - > "$T/records"
check_error 2 "must be a model" "records as the base" organ-lora --from "$T/pair.gguf" \
    --base "$T/records" --to-peft "$T/no"
check_error 3 "only a GGUF file" "records as the adapter" \
    organ-lora --from "$T/records" --base "$LAB/lab-base-q4_k_m.gguf" --to-peft "$T/no"
check_error 3 "only a GGUF file" "records" organ-assemble "$T/records" --names hf -o "$T/no.safetensors"
check_absent "$T/no" "refused adapters"

# ---- writing -------------------------------------------------------------------------------------

# A GGUF file written as safetensors and read again is the same file.
check "F16" organ-assemble "$LAB/lab-base-q4_k_m.gguf" --dtype f16 -q -o "$T/f16.gguf"
read=''
same() {
    what=$1
    shift
    check "$what" organ-assemble "$T/f16.gguf" -q "$@"
    check "$what: back" organ-assemble "$read" -q --force -o "$T/back.gguf"
    check_same "$T/f16.gguf" "$T/back.gguf" "$what"
}
read=$T/w1.safetensors same "GGUF names" -o "$T/w1.safetensors"
read=$T/w2.safetensors same "Hugging Face names" --names hf -o "$T/w2.safetensors"
for name in model.embed_tokens.weight model.layers.0.self_attn.q_proj.weight lm_head.weight; do
    head -c 65536 "$T/w2.safetensors" | grep -aqF "\"$name\"" || bad "no $name"
done
mkdir "$T/w3" "$T/w4"
read=$T/w3 same "shards" --shards 3 -o "$T/w3/model.safetensors"
check_text "$(ls "$T/w3" | wc -l | tr -d ' ')" 4 "three shards and an index"
check_error 2 "model.safetensors.index.json: the shards of this index would be read" "one file beside shards" \
    organ-assemble "$T/f16.gguf" -o "$T/w3/model.safetensors"
check_absent "$T/w3/model.safetensors" "one file beside shards"
read=$T/w4/model-00002-of-00002.safetensors same "shards with other names" --shards 2 --names hf \
    -o "$T/w4/model.safetensors"
check "extract" organ-extract "$T/f16.gguf" --safetensors -o "$T/w5.safetensors"
check_same "$T/w1.safetensors" "$T/w5.safetensors" "organ-extract --safetensors"
check_exit 2 "a directory" organ-extract "$T/f16.gguf" -o "$T/w6.safetensors"
check "quantized" organ-assemble "$LAB/lab-base-q4_k_m.gguf" -o "$T/w7.safetensors"
grep -q 'decoded as F16' "$T/err" || bad "no note about decoded tensors"
check "BF16" organ-assemble "$T/f16.gguf" --dtype bf16 -q -o "$T/w8.safetensors"
check_text "$(organ-extract --list "$T/w8.safetensors" |
    awk -F'\t' "$BY_NAME"'col("name") == "blk.0.attn_q.weight" { print col("dtype") }')" BF16 \
    "its type"
check "quantized, other names" organ-assemble "$LAB/lab-base-q4_k_m.gguf" --names hf -o "$T/w9.safetensors"
grep -q 'decoded as F16' "$T/err" || bad "no note about decoded tensors with other names"
check_same "$T/w9.safetensors" "$T/w2.safetensors" "quantized, other names"
check "quantized, as F32" organ-assemble "$LAB/lab-base-q4_k_m.gguf" --dtype f32 -q -o "$T/f32.gguf"
check "F32, other names" organ-assemble "$T/f32.gguf" --names hf -q -o "$T/w12.safetensors"
check "quantized, F32, other names" organ-assemble "$LAB/lab-base-q4_k_m.gguf" --names hf --dtype f32 -q --force \
    -o "$T/w9.safetensors"
check_same "$T/w9.safetensors" "$T/w12.safetensors" "quantized, F32, other names"
rm "$T/w9.safetensors" "$T/w12.safetensors" "$T/f32.gguf"
mkmodel "$T/big.gguf" -k llama.block_count=1 token_embd.weight:F32:32x4 blk.0.ffn_up.weight:Q8_0:32x32
printf '\377\173' | dd of="$T/big.gguf" bs=1 seek=$(($(wc -c < "$T/big.gguf") - 34)) conv=notrunc 2> "$T/dd"
check_error 3 "tensor 'blk.0.ffn_up.weight': it has values that are too large for F16" "too large for F16" \
    organ-assemble -q "$T/big.gguf" --names hf -o "$T/big.safetensors"
check_absent "$T/big.safetensors" "too large for F16"
check "as BF16" organ-assemble "$T/big.gguf" --names hf --dtype bf16 -q -o "$T/big.safetensors"
check_error 2 "prune first, then use --names" "other names and an importance matrix" \
    organ-assemble "$T/f16.gguf" \
    --names hf --imatrix "$LAB/lab-base.imatrix.gguf" --imatrix-out "$T/no.im" -o "$T/no.safetensors"
check_absent "$T/no.safetensors" "other names and an importance matrix"
check_error 2 "for an output X.safetensors" "names of a GGUF" organ-assemble "$T/f16.gguf" --names hf -o "$T/w9.gguf"
made "$T/odd.gguf" '' blk.0.strange.weight:f32:32
check_error 3 "tensor 'blk.0.strange.weight': this tensor of the architecture has no Hugging Face tensor" \
    "a tensor without a name" \
    organ-assemble "$T/odd.gguf" --names hf -o "$T/w9.safetensors"

made "$T/odd00.gguf" '' blk.00.attn_norm.weight:f32:32 blk.0.attn_norm.weight:f32:32
check_error 3 "tensor 'blk.00.attn_norm.weight'" "block 00 beside block 0" \
    organ-assemble "$T/odd00.gguf" --names hf -o "$T/w9.safetensors"
made "$T/count.gguf" '' -k llama.expert_count=4 blk.0.ffn_up_exps.weight:f32:32x8x3
check_error 3 "tensor 'blk.0.ffn_up_exps.weight'" "three experts of four" \
    organ-assemble "$T/count.gguf" --names hf -o "$T/w9.safetensors"
made "$T/infinite.gguf" '' blk.0.attn_norm.weight:f32:32 rope_freqs.weight:f32:8
printf '\000\000\200\177' | dd of="$T/infinite.gguf" bs=1 seek=$(($(wc -c < "$T/infinite.gguf") - 4)) \
    conv=notrunc 2> "$T/dd"
check "infinite factors are only in the tensor" organ-assemble "$T/infinite.gguf" \
    --names hf -o "$T/w11/model.safetensors"
check_text "$(grep -c rope_scaling "$T/w11/config.json")" 0 "infinite factors"

organ-keys -q "$T/odd.gguf" --delete general.architecture --output "$T/nameless.gguf"
check_error 3 "architecture '' are not known" "no architecture" organ-assemble "$T/nameless.gguf" \
    --names hf -o "$T/w9.safetensors"

# Norms from which F32 cannot subtract one without a loss are F64.
made "$T/norm0.gguf" '' blk.0.attn_norm.weight:f32:64 blk.0.ffn_norm.weight:f32:64
organ-keys -q "$T/norm0.gguf" --set general.architecture=str:gemma --set gemma.block_count=u32:1 \
    --output "$T/norm.gguf"
check "norms" organ-assemble "$T/norm.gguf" --names hf -q -o "$T/norm.safetensors"
check_text "$(head -c 4096 "$T/norm.safetensors" | grep -ao '"dtype":"F64","shape":\[64\]' | wc -l | tr -d ' ')" 2 \
    "their type"
check "norms: back" organ-assemble "$T/norm.safetensors" --no-strict -q -o "$T/norm2.gguf"
check_same "$T/norm.gguf" "$T/norm2.gguf" "norms there and back"

# config.json is written beside a model.safetensors, and kept if it exists.
check "config.json" organ-assemble "$T/f16.gguf" --names hf -o "$T/w10/model.safetensors"
check_text "$(tr -d ' ,\n' < "$T/w10/config.json" |
    grep -c '"LlamaForCausalLM"\]"model_type":"llama""torch_dtype":"float16"')" 1 "its fields"
echo '{"architectures": ["LlamaForCausalLM"]}' > "$T/w10/config.json"
rm "$T/w10/model.safetensors"
check "config.json exists" organ-assemble "$T/f16.gguf" --names hf -o "$T/w10/model.safetensors"
grep -q 'config.json exists and is kept' "$T/err" || bad "no note about config.json"
check_text "$(($(wc -l < "$T/w10/config.json")))" 1 "it is kept"
check "the keys in the file count" organ-assemble "$T/w10" -q --force -o "$T/back.gguf"
check_same "$T/f16.gguf" "$T/back.gguf" "with another config.json"

# Merged from checkpoints, or from GGUF files: the same values.
check "a second model" organ-assemble "$LAB/lab-verse-q4_k_m.gguf" --dtype f16 -q -o "$T/v16.gguf"
check "as a checkpoint" organ-assemble "$T/v16.gguf" --names hf -q -o "$T/v16.safetensors"
check "merge of GGUF" organ-merge -q --method linear --model "$T/f16.gguf" --model "$T/v16.gguf" -o "$T/m1.gguf"
check "merge of checkpoints" organ-merge -q --method linear --model "$T/w2.safetensors" \
    --model "$T/v16.safetensors" -o "$T/m2.gguf"
hashes "$T/m1.gguf" > "$T/have"
hashes "$T/m2.gguf" > "$T/want"
check_same "$T/have" "$T/want" "merged from both"

# ---- configurations in YAML ----------------------------------------------------------------------

mkdir "$T/models" "$T/models/lab" "$T/stubs"
cp "$T/w2.safetensors" "$T/models/lab/base"
mv "$T/models/lab/base" "$T/models/lab/base.safetensors"
cp "$T/v16.gguf" "$T/models/verse.gguf"
config='{"merge_method": "linear", "models": [{"model": "lab/base.safetensors"}, {"model": "someone/verse.gguf"}]}'
echo "$config" > "$T/merge.yml" # JSON is YAML
tools=$BIN
# with YQ: this program is the only yq, and neither Python nor Ruby works.
with() {
    printf '#!/bin/sh\n%s\n' "$1" > "$T/stubs/yq"
    for p in python3 ruby; do printf '#!/bin/sh\nexit 1\n' > "$T/stubs/$p"; done
    chmod +x "$T/stubs"/*
    PATH=$T/stubs:$tools:$PATH sh scripts/organ merge -q --config "$T/merge.yml" \
        --models "$T/models" --force -o "$T/m3.gguf" \
        > "$T/out" 2> "$T/err"
}
# shellcheck disable=SC2016 # for the stand-ins
for yq in 'test "$1" = -o && exec cat "$3"' 'test "$1" = . && exec cat "$2"'; do
    rm -f "$T/m3.gguf"
    with "$yq" || bad "with $yq: $(cat "$T/err")"
    hashes "$T/m3.gguf" > "$T/have"
    hashes "$T/m1.gguf" > "$T/want"
    check_same "$T/have" "$T/want" "a merge configured in YAML: $yq"
done
with 'exit 1' && bad "without a converter"
grep -q "no program here converts YAML" "$T/err" || bad "no reason: $(cat "$T/err")"

# ---- refusals ------------------------------------------------------------------------------------

one='"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}'
st "$T/a.safetensors" "{$one}" 16
check "a plain file" organ-extract --list "$T/a.safetensors"
check_text "$(awk -F'\t' "$BY_NAME"'NR > 1 {
    print col("name"), col("dtype"), col("dims") }' "$T/out")" "a F32 2x2" "its tensor"
refused() {
    st "$T/b.safetensors" "$2" "$3"
    check_error 3 "$4" "$1" organ-extract --list "$T/b.safetensors"
}
refused "data past the end" "{$one}" 15 "the download is incomplete"
refused "wrong size" '{"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 16]}}' 16 "contradict"
refused "overlap" "{$one, \"b\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [12, 20]}}" 20 \
    "overlaps that of tensor 'a'"
refused "a gap" "{$one, \"b\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [20, 28]}}" 28 \
    "tensor 'b': offset 156: 4 bytes before its data belong to no tensor"
refused "data that begins late" '{"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}' 12 \
    "4 bytes before its data belong to no tensor"
refused "bytes after the data" "{$one}" 18 "2 bytes after the data belong to no tensor"
refused "data without tensors" '{}' 3 "3 bytes after the data belong to no tensor"
refused "a name twice" "{$one, $one}" 16 "appears twice"
refused "a huge shape" '{"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 1]}}' 1 \
    "impossibly large"
refused "no offsets" '{"a": {"dtype": "F32", "shape": [1]}}' 4 "no place"
refused "not an object" '[1]' 4 "not a JSON object"
refused "not JSON" '{"a"' 4 "offset"
deep=$(printf '%070d' 0 | tr 0 '[')
refused "nesting" "{\"a\": $deep}" 4 "nest"
refused "a negative offset" '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}' 4 "tensor 'a'"
refused "offsets in descending order" '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}' 4 "contradict"
refused "nine axes" '{"a": {"dtype": "F32", "shape": [1,1,1,1,1,1,1,1,1], "data_offsets": [0, 4]}}' 4 \
    "more than 8 axes"
# A tensor without elements, which a GGUF model may have too, whatever its other dimensions are.
for shape in 0,2305843009213693952 2305843009213693952,0; do
    st "$T/empty.safetensors" "{\"a\": {\"dtype\": \"F32\", \"shape\": [$shape], \"data_offsets\": [0, 0]}}" 0
    check_text "$(organ-extract -q "$T/empty.safetensors" --list | cells dims | sed 1d)" \
        "${shape#*,}x${shape%,*}" "the shape [$shape]"
done

mkmodel "$T/named.gguf" -k llama.block_count=1 __metadata__:F32:4
check_error 3 "safetensors has another use for this name" "a tensor with the name of the metadata" \
    organ-extract "$T/named.gguf" --safetensors -o "$T/named.safetensors"
check_absent "$T/named.safetensors" "nothing is written"

# A type that is not read hides no other tensor. F8 without a scale, and without a configuration, has the scale 1.
st "$T/b.safetensors" '{"a": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]},
"b": {"dtype": "F8_E4M3", "shape": [3], "data_offsets": [1, 4]}, "c": {"dtype": "U16", "shape": [2],
"data_offsets": [4, 8]}}' 8
check "unknown type" organ-extract --list "$T/b.safetensors"
check_text "$(awk -F'\t' "$BY_NAME"'NR > 1 { printf "%s ", col("name") }' "$T/out")" "b c " "the tensors that are read"
grep -qF 'left out: a (F4)' "$T/err" || bad "unknown type: $(cat "$T/err")"
# 101 MiB of header, in a file with a hole.
printf '\0\0\120\006\0\0\0\0{' > "$T/c.safetensors"
printf x | dd of="$T/c.safetensors" bs=1 seek=106000000 conv=notrunc 2> /dev/null
check_error 3 "more than the limit of 104857600" "a large header" organ-extract --list "$T/c.safetensors"
printf '\377\377\377\377\377\377\377\377{}' > "$T/c.safetensors"
check_error 3 "the file has only" "header length" organ-extract --list "$T/c.safetensors"

# Folders that are no complete checkpoint.
bad_folder() { check_error 3 "$1" "a folder: $1" organ-assemble "$T/bad" -o "$T/bad.gguf"; }
indexed() {
    echo "{$1}" > "$T/bad/model.safetensors.index.json"
    bad_folder "$2"
}
rm -rf "$T/bad" && mkdir "$T/bad"
cp "$H/falcon/config.json" "$T/bad"
bad_folder "has no model.safetensors"
cp "$H/falcon/model.safetensors" "$T/bad/a.safetensors"
cp "$H/falcon/model.safetensors" "$T/bad/b.safetensors"
indexed '' "the index has no weight_map"
indexed '"weight_map": {}' "the weight_map of the index is empty"
indexed '"weight_map": {"lm_head.weight": "a.safetensors"}' "the index names 1 tensors, but the files have"
indexed '"weight_map": {"lm_head.weight": "a.safetensors", "x": "b.safetensors"}' "but it has not"
rm "$T/bad"/*

# Tensors that do not make a model. Each has 2 x 2 values.
model_of() { # ARCHITECTURE TENSORS BYTES MESSAGE
    printf '{"architectures": ["%s"], "num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 2,
        "num_local_experts": 3}' "$1" > "$T/bad/config.json"
    st "$T/bad/model.safetensors" "{$2}" "$3"
    bad_folder "$4"
}
square() { printf '"%s": {"dtype": "F32", "shape": [2, 2], "data_offsets": [%d, %d]}' "$1" "$2" $(($2 + 16)); }
model_of LlamaForCausalLM "$(square model.norm.weight 0), $(square language_model.model.norm.weight 16)" 32 \
    "both become the same GGUF tensor"
model_of LlamaForCausalLM \
    '"model.norm.weight": {"dtype": "F32", "shape": [1, 1, 1, 1, 1, 1, 1, 1, 2], "data_offsets": [0, 8]}' 8 \
    "it has more than 8 axes"
e=model.layers.0.block_sparse_moe.experts
model_of MixtralForCausalLM "$(square $e.0.w1.weight 0), $(square $e.2.w1.weight 16)" 32 "expert 1 is missing"
model_of MixtralForCausalLM "$(square $e.0.w1.weight 0), $(square $e.1.w1.weight 16)" 32 \
    "should have 3 experts, but only 2 of them are here"
long='"dtype": "F32", "shape": [2, 1], "data_offsets": [16, 24]'
model_of MixtralForCausalLM "$(square $e.0.w1.weight 0), \"$e.1.w1.weight\": {$long}" 24 "have different shapes"

# The embeddings of gemma3 are cut to the tokens that there are.
cp -r "$H/gemma3-vlm" "$T/tokens"
rm "$T/tokens/tokenizer.model"
echo '{"model": {"vocab": {"a": 0, "b": 1}}, "added_tokens": [{"id": 6}]}' > "$T/tokens/tokenizer.json"
rows=$(organ-extract -q --list "$T/tokens" | awk -F'\t' "$BY_NAME"'col("role") == "token_embd" {
    n = col("dims"); sub(/.*x/, "", n); print n }')
check_text "$rows" 7 "rows of the embeddings"

# F8 with a scale for all, one per row, and one per block of 2 x 2: E4M3 has 1 as 070 and -2 as 300, E5M2 as 074
# and 300.
mkdir "$T/f8"
config='{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1, "num_attention_heads": 1,
    "quantization_config": {"weight_block_size": [2, 2]}}'
echo "$config" > "$T/f8/config.json"
name=model.layers.0.mlp.up_proj.weight
one='\0\0\200\077' two='\0\0\0\100' three='\0\0\100\100' four='\0\0\200\100' less='\0\0\200\300' six='\0\0\300\300'
f8() { # WHAT TYPE SCALES SHAPE BYTES WANTED: the 3 x 4 matrix
    n=$(($(printf '%b' "$3" | wc -c) + 12))
    st "$T/f8/model.safetensors" "{\"$name\": {\"dtype\": \"$2\", \"shape\": [3, 4], \"data_offsets\": [0, 12]},
        \"${name}_scale_inv\": {\"dtype\": \"F32\", \"shape\": $4, \"data_offsets\": [12, $n]}}" 0
    printf '%b' "$5$3" >> "$T/f8/model.safetensors"
    st "$T/want.safetensors" \
        "{\"blk.0.ffn_up.weight\": {\"dtype\": \"F32\", \"shape\": [3, 4], \"data_offsets\": [0, 48]}}" 0
    printf '%b' "$6" >> "$T/want.safetensors"
    hashes "$T/f8" > "$T/have"
    hashes "$T/want.safetensors" > "$T/want"
    check_same "$T/have" "$T/want" "F8: $1"
}
ones='\070\070\070\070' row="$one$one$one$one"
f8 "one scale" F8_E4M3 "$two" '[1]' "$ones$ones\\070\\070\\070\\300" \
    "$two$two$two$two$two$two$two$two$two$two$two$less"
f8 "one scale, E5M2" F8_E5M2 "$three" '[]' '\074\074\074\074\074\074\074\074\074\074\074\300' \
    "$three$three$three$three$three$three$three$three$three$three$three$six"
f8 "a scale per row" F8_E4M3 "$one$two$three" '[3, 1]' "$ones$ones$ones" "$row$two$two$two$two$three$three$three$three"
f8 "a scale per block" F8_E4M3 "$one$two$three$four" '[2, 2]' "$ones$ones$ones" \
    "$one$one$two$two$one$one$two$two$three$three$four$four"
# Blocks of 4 rows would divide the 6 rows of two experts in two, too.
echo "$config" | sed 's/\[2, 2\]/[4, 2]/' > "$T/f8/config.json"
experts=model.layers.0.mlp.experts.down_proj
st "$T/f8/model.safetensors" "{\"$experts\": {\"dtype\": \"F8_E4M3\", \"shape\": [2, 3, 2], \"data_offsets\": [0, 12]},
    \"${experts}_scale_inv\": {\"dtype\": \"F32\", \"shape\": [2, 1, 1], \"data_offsets\": [12, 20]}}" 0
printf '%b' "$ones$ones$ones$one$two" >> "$T/f8/model.safetensors"
st "$T/want.safetensors" "{\"blk.0.ffn_down_exps.weight\": {\"dtype\": \"F32\", \"shape\": [2, 3, 2],
    \"data_offsets\": [0, 48]}}" 0
printf '%b' "$one$one$one$one$one$one$two$two$two$two$two$two" >> "$T/want.safetensors"
hashes "$T/f8" > "$T/have"
hashes "$T/want.safetensors" > "$T/want"
check_same "$T/have" "$T/want" "F8: a scale per expert"
st "$T/f8/model.safetensors" "{\"$name\": {\"dtype\": \"F8_E4M3\", \"shape\": [3, 4], \"data_offsets\": [0, 12]},
    \"${name}_scale_inv\": {\"dtype\": \"F32\", \"shape\": [5], \"data_offsets\": [12, 32]}}" 32
check_error 3 "the shape of its scale does not fit it" "another number of scales" organ-extract --list "$T/f8"
values=$((2049 * 2048)) # a scale for each value, which would be held in memory
st "$T/f8/model.safetensors" \
    "{\"$name\": {\"dtype\": \"F8_E4M3\", \"shape\": [2049, 2048], \"data_offsets\": [0, $values]},
    \"${name}_scale_inv\": {\"dtype\": \"F16\", \"shape\": [2049, 2048],
        \"data_offsets\": [$values, $((3 * values))]}}" $((3 * values))
check_error 3 "its scale has $values values; the limit is 4194304" "too many scales" organ-extract --list "$T/f8"

mkdir "$T/ck"
cp "$H/gptneox/model.safetensors" "$T/ck"
echo '{"architectures": ["WeirdForCausalLM"]}' > "$T/ck/config.json"
check_error 3 "class WeirdForCausalLM are not covered; architectures that are: llama qwen2" "unknown class" \
    organ-assemble "$T/ck" -o "$T/bad.gguf"
sed 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' "$H/gptneox/config.json" > "$T/ck/config.json"
check_error 3 "only 1 blocks" "a block too many" organ-assemble "$T/ck" -o "$T/bad.gguf"
sed 's/"num_attention_heads": 2/"num_attention_heads": 7/' "$H/gptneox/config.json" > "$T/ck/config.json"
check_error 3 "does not fit the sizes" "wrong heads" organ-assemble "$T/ck" -o "$T/bad.gguf"
cp "$H/gptneox/config.json" "$T/ck"
for name in ../model.safetensors /etc/passwd ''; do
    echo "{\"weight_map\": {\"a\": \"$name\"}}" > "$T/ck/model.safetensors.index.json"
    check_error 3 "outside its folder" "index with '$name'" organ-extract --list "$T/ck"
done
echo '{"weight_map": {"a": "model.safetensors"}}' > "$T/ck/model.safetensors.index.json"
check_error 3 "but it has not" "an index of other tensors" organ-extract --list "$T/ck"

# Names that are an ending and nothing else: the norm of gemma without prefix, and a table that stays F32.
alone() { # CLASS NAME SHAPE BYTES: the tensor of a checkpoint with one F16 tensor of zeros
    printf '{"architectures": ["%s"], "hidden_size": 2}' "$1" > "$T/bad/config.json"
    st "$T/bad/model.safetensors" "{\"$2\": {\"dtype\": \"F16\", \"shape\": [$3], \"data_offsets\": [0, $4]}}" "$4"
    organ-extract --list -q "$T/bad" 2> "$T/err" | awk -F'\t' "$BY_NAME"'NR > 1 { print col("name"), col("dtype") }'
}
check_text "$(alone GPT2LMHeadModel wpe.weight 3,2 12)" "position_embd.weight F32" "positions"
check_text "$(alone Gemma2ForCausalLM norm.weight 2 4)" "output_norm.weight F32" "a norm of gemma"
check_text "$(organ-measure -q "$T/bad" | awk -F'\t' "$BY_NAME"'NR > 1 { print col("mean") }')" 1 "which has 1 added"

# No output replaces what is read beside the weights.
for f in config.json model.safetensors generation_config.json; do
    rm -rf "$T/beside" && cp -R "$H/falcon" "$T/beside"
    [ -e "$T/beside/$f" ] || echo '{}' > "$T/beside/$f"
    cp "$T/beside/$f" "$T/was"
    check_exit 2 "--force on $f" organ-assemble "$T/beside" --force --dtype f32 -q -o "$T/beside/$f"
    check_text "$(grep -c "this output is also an input" "$T/err")" 1 "--force on $f: the reason"
    check_same "$T/beside/$f" "$T/was" "$f stays"
done
finish
