#!/bin/sh
# mixture.sh - organ-stack --experts-from: mixtures of experts of dense models.
. "$(dirname "$0")/lib.sh"
BASE=$LAB/lab-base-q4_k_m.gguf VERSE=$LAB/lab-verse-q4_k_m.gguf CODE=$LAB/lab-code-q4_k_m.gguf

# A record has its name before the data.
same_data() { # RECORD RECORD WHAT
    for i in 1 2; do
        tail -c 60000 "$1" > "$T/data$i"
        set -- "$2" "$1" "$3"
    done
    check_same "$T/data1" "$T/data2" "$3"
}

# ---- data, keys and the order of tensors
check "two experts" organ-stack --experts-from $VERSE,$CODE --base $BASE -o "$T/mix.gguf"
check_text "$(cat "$T/err")" "" "no notes on relatives"
check "an engine would load it" organ-check -q "$T/mix.gguf"
for key in general.architecture=llama llama.expert_count=2 llama.expert_used_count=2 llama.feed_forward_length=512; do
    organ-keys "$T/mix.gguf" --get "${key%%=*}" > "$T/out"
    check_text "$(cat "$T/out")" "${key#*=}" "${key%%=*}"
done
organ-extract -q "$T/mix.gguf" --split-experts --type ffn -o "$T/mix"
k=0
for m in $VERSE $CODE; do
    organ-extract -q $m --type ffn -o "$T/dense$k"
    for role in gate up down; do
        same_data "$T/mix/organs/blk_2_ffn_${role}_$k.bin" "$T/dense$k/organs/blk_2_ffn_$role.bin" \
            "expert $k: the bytes of ffn_$role"
    done
    k=$((k + 1))
done
organ-extract --list "$T/mix.gguf" | cells name,dims | grep 'blk.3.ffn' | tr '\t\n' '= ' > "$T/out"
check_text "$(cat "$T/out")" \
    "$(printf '%s ' blk.3.ffn_gate_inp.weight=256x2 blk.3.ffn_gate_exps.weight=256x512x2 \
        blk.3.ffn_up_exps.weight=256x512x2 blk.3.ffn_down_exps.weight=512x256x2 blk.3.ffn_norm.weight=256)" \
    "the tensors of a block"
check "the rest is that of the base" sh -c "organ-compare '$T/mix.gguf' $BASE --type attention,embedding,norm"
check "only checked" organ-stack -v --check --experts-from $VERSE,$CODE
if grep -q "2 experts in 4 blocks, 43 tensors" "$T/err"; then ok; else bad "the summary: $(cat "$T/err")"; fi
check "to a pipe" sh -c "organ-stack -q --experts-from $VERSE,$CODE --base $BASE -o - > '$T/pipe.gguf'"
check_same "$T/pipe.gguf" "$T/mix.gguf" "to a pipe"

# ---- copies, noise and seeds
F="$T/base.gguf"
organ-assemble -q $BASE --dtype f16 -o "$F"
up() { # NAME ARGUMENT...
    name=$1
    shift
    check "$name" organ-stack -q --experts-from "$F" --copies 3 "$@" -o "$T/$name.gguf"
}
up plain
up again
up seeded --seed 7
up noise --noise 0.1 -j 1
up threads --noise 0.1 -j 3
check_same "$T/plain.gguf" "$T/again.gguf" "the same seed"
check_same "$T/noise.gguf" "$T/threads.gguf" "noise and threads"
GG_ISA=0 up scalar --noise 0.1
check_same "$T/noise.gguf" "$T/scalar.gguf" "noise and plain C"
distance() { # TENSORS A B
    organ-compare -q "$2" "$3" --tensors "$1" | awk -F "$TAB" \
        'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "rel_l2") c = i } NR == 2 { printf "%.2f", $c }'
}
check_text "$(distance blk.1.ffn_up_exps.weight "$T/noise.gguf" "$T/plain.gguf")" 0.08 \
    "two of three copies have noise"
check_text "$(distance blk.1.ffn_up_exps.weight "$T/seeded.gguf" "$T/plain.gguf")" 0.00 \
    "a seed alone changes no expert"
if [ "$(distance blk.1.ffn_gate_inp.weight "$T/seeded.gguf" "$T/plain.gguf")" = 0.00 ]; then \
    bad "a seed does not change the router"; else ok; fi
organ-extract -q "$T/noise.gguf" --split-experts --type ffn -o "$T/noisy"
organ-extract -q "$F" --type ffn -o "$T/dense"
same_data "$T/noisy/organs/blk_1_ffn_up_0.bin" "$T/dense/organs/blk_1_ffn_up.bin" "the first copy has none"
check "in Q4_K" organ-stack -q --experts-from $BASE --copies 2 --noise 0.1 -o "$T/q4.gguf"
check_text "$(organ-extract --list "$T/q4.gguf" | grep -c 'ffn_gate_exps.*Q4_K')" 4 "types are kept"

# ---- the router
SHAPE="-k general.alignment=32 -k llama.block_count=1 token_embd.weight:F32:64x20 \
    blk.0.attn_q.weight:F32:64x64 blk.0.ffn_up.weight:F32:64x96 blk.0.ffn_gate.weight:F32:64x96 \
    blk.0.ffn_down.weight:F32:96x64"
for k in 1 2; do
    mkmodel "$T/m$k.gguf" -s $k $SHAPE
    mkmodel "$T/a$k.gguf" -s $((k + 10)) blk.0.ffn_gate.weight.sample:F16:64x40x1
    mkmodel "$T/one$k.gguf" -s $((k + 20)) blk.0.ffn_gate.weight.sample:F16:64x1x1
done
M="$T/m1.gguf,$T/m2.gguf"
mixed() { organ-stack -q --force --experts-from "$M" "$@" 2> "$T/err" || bad "a router: $(cat "$T/err")"; }
mixed --router "$T/a1.gguf,$T/a2.gguf" -o "$T/ab.gguf"
mixed --router "$T/a2.gguf,$T/a1.gguf" -o "$T/ba.gguf"
organ-compare -q "$T/ab.gguf" "$T/ba.gguf" --tensors blk.0.ffn_gate_inp.weight > "$T/out"
check_text "$(awk -F "$TAB" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "cosine") c = i }
    NR == 2 { printf "%.4f", $c }' "$T/out")" \
    -1.0000 "exchanged texts exchange the rows, whose sum is 0"
check_text "$(organ-extract --list "$T/ab.gguf" | awk "$BY_NAME"'NR > 1 { print col("role") }' | tr '\n' ' ')" \
    "token_embd attn_q ffn_gate_inp ffn_up_exps ffn_gate_exps ffn_down_exps " "the router comes first"
# All inputs count alike: their order does not matter.
for k in 1 2; do
    mkmodel "$T/pair$k.gguf" -s $((k + 30)) blk.0.ffn_gate.weight.sample:F16:64x2x1
    { head -c "$(($(wc -c < "$T/pair$k.gguf") - 256))" "$T/pair$k.gguf"
        tail -c 128 "$T/pair$k.gguf"
        tail -c 256 "$T/pair$k.gguf" | head -c 128; } > "$T/riap$k.gguf"
done
mixed --router "$T/pair1.gguf,$T/pair2.gguf" -o "$T/ab.gguf"
mixed --router "$T/riap1.gguf,$T/riap2.gguf" -o "$T/ba.gguf"
check_text "$(distance blk.0.ffn_gate_inp.weight "$T/ab.gguf" "$T/ba.gguf")" 0.00 "inputs in another order"
check "texts of one input each" organ-stack -q --experts-from "$M" --router "$T/one1.gguf,$T/one2.gguf" \
    -o "$T/one.gguf"
check_error 1 "cannot tell them apart" "equal texts" organ-stack -q --experts-from "$M" \
    --router "$T/a1.gguf,$T/a1.gguf" -o "$T/no.gguf"
check_error 1 "no inputs of the feed-forward layer of block 0" "no samples" organ-stack -q --experts-from "$M" \
    --router "$T/a1.gguf,$T/m2.gguf" -o "$T/no.gguf"
check_error 2 "1 file for 2 experts" "too few texts" organ-stack --experts-from "$M" --router "$T/a1.gguf" \
    -o "$T/no.gguf"

# ---- other architectures
dense() { # FILE ARCHITECTURE
    made "$1" \
        "{\"key\": \"$2.block_count\", \"type\": \"u32\", \"value\": 1},
{\"key\": \"$2.feed_forward_length\", \"type\": \"u32\", \"value\": 96}," \
        token_embd.weight:F32:64x20 blk.0.ffn_gate.weight:F32:64x96 blk.0.ffn_up.weight:F32:64x96 \
        blk.0.ffn_down.weight:F32:96x64 2> /dev/null
    organ-keys -q "$1" --set general.architecture=str:"$2" -o "$1.new" 2> /dev/null && mv "$1.new" "$1"
}
dense "$T/q3.gguf" qwen3
dense "$T/q2.gguf" qwen2
check "qwen3" organ-stack -q --experts-from "$T/q3.gguf" --copies 4 -o "$T/q3moe.gguf"
check_text "$(organ-keys "$T/q3moe.gguf"  |
    awk -F "$TAB" "$BY_NAME"'col("key") ~ /^qwen3|architecture/ { print col("key") "=" $NF }' |
    sort | tr '\n' ' ')" \
    "$(printf '%s ' general.architecture=qwen3moe qwen3moe.block_count=1 qwen3moe.expert_count=4 \
        qwen3moe.expert_feed_forward_length=96 qwen3moe.expert_used_count=2 qwen3moe.feed_forward_length=96)" \
    "its keys"
check "qwen2" organ-stack -q --experts-from "$T/q2.gguf" --copies 4 -o "$T/q2moe.gguf"
check_text "$(organ-keys "$T/q2moe.gguf" --get qwen2moe.expert_used_count) $(organ-extract --list "$T/q2moe.gguf" |
    grep -c _shexp)" \
    "4 4" "all experts are used, beside a shared one"
data "$T/q2moe.gguf" output.weight > "$T/q2head"
data "$T/q2.gguf" token_embd.weight > "$T/q2embd"
check_text "$(($(wc -c < "$T/q2head")))" 5120 "the head that qwen2moe needs"
check "a head for tied embeddings" cmp "$T/q2head" "$T/q2embd"
check_text "$(organ-extract --list "$T/q3moe.gguf" | grep -c '^output.weight')" 0 "qwen3moe needs no head"
check "fewer" organ-stack --experts-from "$T/q2.gguf" --copies 4 --used 2 -o "$T/q2moe.gguf" --force
if grep -q "do not scale the weights" "$T/err"; then ok; else bad "no note on weights: $(cat "$T/err")"; fi

# ---- what does not fit
no() { # STATUS TEXT WHAT EXPERTS [ARGUMENT...]
    want=$1 text=$2 what=$3 experts=$4
    shift 4
    check_error "$want" "$text" "$what" organ-stack -q --experts-from "$experts" "$@" -o "$T/no.gguf"
}
no 1 "is a mixture of experts already" "experts of a mixture" "$T/mix.gguf,$T/mix.gguf"
no 1 "not a dense model of the architecture llama" "another architecture" "$VERSE,$T/q3.gguf"
no 1 "its type is F16, but that of the first expert is Q4_K" "another type" "$VERSE,$F"
no 1 "its dims are not those of the base" "another model" "$VERSE,$T/m1.gguf"
mkmodel "$T/attention.gguf" -k llama.block_count=1 token_embd.weight:F32:64x20 blk.0.attn_q.weight:F32:64x64
no 1 "has no feed-forward layers" "attention alone" "$T/attention.gguf,$T/attention.gguf"
mkmodel "$T/empty.gguf" -k llama.block_count=2 blk.0.ffn_gate.weight:F32:4096x0 blk.0.ffn_down.weight:F32:0x4096 \
    blk.1.ffn_gate.weight:F32:32x32 blk.1.ffn_up.weight:F32:32x32 blk.1.ffn_down.weight:F32:32x32
no 1 "blk.0.ffn_gate.weight': it has no values" "layers without values" "$T/empty.gguf,$T/empty.gguf" --no-strict
no 2 "a mixture has 2 to" "one expert" "$VERSE"
no 2 "3 of 2 experts cannot be used" "too many in use" "$VERSE,$CODE" --used 3
no 2 "give --experts-from or --drop, not both" "blocks are dropped too" "$VERSE,$CODE" --drop 1
check_error 2 "takes no other models" "a model besides" organ-stack --experts-from $VERSE,$CODE $BASE -o "$T/no.gguf"
check_error 2 "--experts-from" "a router alone" organ-stack --router x $BASE 0 -o "$T/no.gguf"
mkmodel "$T/bias.gguf" $SHAPE blk.0.ffn_up.bias:F32:96
no 3 "no place for this tensor" "a bias" "$T/bias.gguf" --copies 2
# shellcheck disable=SC2046 # words
mkmodel "$T/deep.gguf" $(echo "$SHAPE" | sed 's/\(ffn_up.weight:F32:[0-9x]*\)/\1x2/')
no 3 "blk.0.ffn_up.weight': a mixture of experts has no place" "three axes" "$T/deep.gguf" --copies 2
check "a stranger" organ-stack --experts-from $VERSE,$LAB/lab-stranger-q4_k_m.gguf --check
if grep -q "shares no lineage with the base" "$T/err"; then ok; else bad "no note on a stranger: $(cat "$T/err")"; fi
organ-keys -q "$LAB/lab-code-q4_k_m.gguf" --set llama.rope.freq_base=f32:777 -o "$T/turned.gguf"
organ-stack --experts-from "$LAB/lab-base-q4_k_m.gguf,$T/turned.gguf" --base "$LAB/lab-base-q4_k_m.gguf" \
    -o "$T/turned-mix.gguf" 2> "$T/err"
check_text "$(grep -c "llama.rope.freq_base differs.*; the mixture has that of the base" "$T/err")" \
    1 "a key that differs"
cp $VERSE "$T/own.gguf"
check_error 2 "own.gguf" "an input as output" organ-stack --experts-from "$T/own.gguf,$CODE" -o "$T/own.gguf" --force
check_absent "$T/no.gguf" "nothing is written"

finish
