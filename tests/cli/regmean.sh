#!/bin/sh
# shellcheck disable=SC1091,SC2086
# regmean.sh - organ-merge with samples of the inputs of matrices (regmean, regmean-iso).
. "$(dirname "$0")/lib.sh"
merge() { organ-merge -q --no-hash --force "$@"; }
shape="-k general.alignment=32 -k llama.block_count=1 token_embd.weight:F32:64x20 \
    blk.0.attn_q.weight:F32:64x48 blk.0.attn_norm.weight:F32:64 blk.0.ffn_down_exps.weight:F32:36x64x3"
inputs="blk.0.attn_q.weight.sample:F16:64x100 blk.0.ffn_down_exps.weight.sample:F16:36x40x3"
for k in 1 2 3; do
    mkmodel "$T/m$k.gguf" -s $k $shape
    mkmodel "$T/a$k.gguf" -s $((k + 10)) $inputs
done
A="--model $T/m1.gguf,activations=$T/a1.gguf" B="--model $T/m2.gguf,activations=$T/a2.gguf"
base="--base $T/m3.gguf"

for method in regmean regmean-iso; do
    check "$method" merge --method $method $base $A $B -j 1 -o "$T/one.gguf"
    check "$method, threads" merge --method $method $base $A $B -j 3 -o "$T/three.gguf"
    check_same "$T/one.gguf" "$T/three.gguf" "$method: threads change it"
    merge --method $method $base $A $B -j 3 -o - > "$T/pipe.gguf"
    check_same "$T/one.gguf" "$T/pipe.gguf" "$method: a pipe changes it"
    GG_ISA=0 merge --method $method $base $A $B -j 1 -o "$T/plain.gguf"
    check_same "$T/one.gguf" "$T/plain.gguf" "$method: plain C changes it"
done

# distance A B TENSOR: the relative difference.
distance() {
    organ-compare -q "$1" "$2" --tensors "$3" | awk -F "$TAB" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == "rel_l2") c = i }
        NR == 2 { print ($c == "-" ? 0 : $c) }'
}
within() { # WHAT DISTANCE LEAST MOST
    if [ -n "$2" ] && awk -v d="$2" -v a="$3" -v b="$4" 'BEGIN { exit !(d >= a && d <= b) }'; then ok; else \
        bad "$1: $2, from $3 to $4 wanted"; fi
}
all="token_embd.weight blk.0.attn_q.weight blk.0.attn_norm.weight blk.0.ffn_down_exps.weight"
merge --method regmean $base $A $B -o "$T/r.gguf"
merge --method regmean $A $B -o "$T/bare.gguf"
merge --method linear $A $B -o "$T/linear.gguf" 2> "$T/err"
merge --method linear --model "$T/m1.gguf" --model "$T/m2.gguf" -o "$T/linear.gguf"
merge --method regmean,ridge=1000 $base $A $B -o "$T/ridge.gguf"
merge --method iso,t=0.5 $base --model "$T/m1.gguf" --model "$T/m2.gguf" -o "$T/iso.gguf"
merge --method regmean-iso,share=1,t=0.5 $base $A $B -o "$T/share1.gguf"
merge --method regmean-iso,share=0,ridge=0.01 $base $A $B -o "$T/share0.gguf"
for t in $all; do
    within "$t: no base, the same" "$(distance "$T/r.gguf" "$T/bare.gguf" $t)" 0 1e-5
    within "$t: a large ridge is the mean" "$(distance "$T/ridge.gguf" "$T/linear.gguf" $t)" 0 2e-3
    within "$t: share=1 is iso" "$(distance "$T/share1.gguf" "$T/iso.gguf" $t)" 0 1e-6
    within "$t: share=0 is regmean" "$(distance "$T/share0.gguf" "$T/r.gguf" $t)" 0 1e-6
done
within "samples count" "$(distance "$T/r.gguf" "$T/linear.gguf" blk.0.attn_q.weight)" 0.1 2
within "samples of experts count" "$(distance "$T/r.gguf" "$T/linear.gguf" blk.0.ffn_down_exps.weight)" 0.1 2
within "without samples it is the mean" "$(distance "$T/r.gguf" "$T/linear.gguf" token_embd.weight)" 0 1e-6
# Two equal models give that model, and a model with weight 0 does not count.
cp "$T/m1.gguf" "$T/same.gguf"
merge --method regmean $A --model "$T/same.gguf,activations=$T/a2.gguf" -o "$T/own.gguf"
merge --method regmean $A --model "$T/m2.gguf,weight=0,activations=$T/a2.gguf" -o "$T/first.gguf"
for t in $all; do
    within "$t: of equal models" "$(distance "$T/own.gguf" "$T/m1.gguf" $t)" 0 1e-4
    within "$t: a weight of 0" "$(distance "$T/first.gguf" "$T/m1.gguf" $t)" 0 1e-4
done
check_text "$(organ-keys "$T/first.gguf" --get organ.merge.models.parameters | tail -n 1)" "weight=0" \
    "the parameters without the file"

# ---- defaults for parts ----------------------------------------------------------------------------------
parts="-k llama.block_count=3 token_embd.weight:F32:8x4 output_norm.weight:F32:8 output.weight:F32:8x4"
for k in 0 1 2; do parts="$parts blk.$k.attn_q.weight:F32:8x8 blk.$k.attn_v.weight:F32:8x8"; done
mkmodel "$T/parts.gguf" -s 1 $parts
mkmodel "$T/parts2.gguf" -s 2 $parts
# parameters METHOD: t and share of each tensor
parameters() {
    organ-merge -q --no-hash --check --method "$1" --base "$T/parts.gguf" \
        --model "$T/parts2.gguf,activations=$T/a1.gguf" |
        cells name,parameters | sed 1d | sed 's/weight=1 ridge=[0-9.]* t=//; s/share=//; s/.weight//' | tr '\t\n' ' ;'
}
check_text "$(parameters regmean-iso)" "token_embd 0.7 0.5;output_norm 1 0.5;output 0.7 0.5;blk.0.attn_q 0.8 0.5;\
blk.0.attn_v 0.3 0.5;blk.1.attn_q 1 0.5;blk.1.attn_v 0.3 0.5;blk.2.attn_q 1.2 0.5;blk.2.attn_v 0.3 0.5;" "parts"
check_text "$(parameters regmean-iso,t:blk.1.attn_q.weight=3,share:embed=0.2)" "token_embd 0.7 0.2;output_norm 1 0.5;\
output 0.7 0.2;blk.0.attn_q 0.8 0.5;blk.0.attn_v 0.3 0.5;blk.1.attn_q 3 0.5;blk.1.attn_v 0.3 0.5;blk.2.attn_q 1.2 0.5;\
blk.2.attn_v 0.3 0.5;" "a part that is given leaves the others"
all="token_embd 2 0.5;output_norm 2 0.5;output 2 0.5;blk.0.attn_q 2 0.5;blk.0.attn_v 2 0.5;blk.1.attn_q 2 0.5;\
blk.1.attn_v 2 0.5;blk.2.attn_q 2 0.5;blk.2.attn_v 2 0.5;"
check_text "$(parameters regmean-iso,t=2)" "$all" "a value for all tensors replaces those of parts"

# ---- refusals ------------------------------------------------------------------------------------------
check_error 2 "regmean needs the activations of this model" "no activations" merge --method regmean $A \
    --model "$T/m2.gguf" -o "$T/no.gguf"
check_error 2 "linear does not use activations" "of no use" merge --method linear $A $B -o "$T/no.gguf"
check_error 2 "cannot be aligned with regmean" "aligned" merge --method regmean --align $A $B -o "$T/no.gguf"
check_error 2 "needs the base" "regmean-iso without base" merge --method regmean-iso $A $B -o "$T/no.gguf"
check_error 4 "missing.gguf" "a missing file" merge --method regmean $A \
    --model "$T/m2.gguf,activations=$T/missing.gguf" -o "$T/no.gguf"
mkmodel "$T/wide.gguf" blk.0.attn_q.weight.sample:F16:96x100 blk.0.ffn_down_exps.weight.sample:F16:36x40x3
check_error 1 "its samples have 96 columns" "samples of other dims" merge --method regmean $A \
    --model "$T/m2.gguf,activations=$T/wide.gguf" -o "$T/no.gguf"
mkmodel "$T/few.gguf" blk.0.attn_q.weight.sample:F16:64x100
check_error 1 "not all activations have samples" "samples for some" merge --method regmean $A \
    --model "$T/m2.gguf,activations=$T/few.gguf" -o "$T/no.gguf"
mkmodel "$T/one.gguf" blk.0.attn_q.weight.sample:F16:64x1
check_error 3 "singular" "too few samples without a ridge" merge --method regmean,ridge=0 \
    --model "$T/m1.gguf,activations=$T/one.gguf" -o "$T/no.gguf"
check "with a ridge" merge --method regmean --model "$T/m1.gguf,activations=$T/one.gguf" -o "$T/no.gguf"
cp "$T/a2.gguf" "$T/nan.gguf"
printf '\377\177' | dd of="$T/nan.gguf" bs=1 seek=$(($(wc -c < "$T/nan.gguf") - 1000)) conv=notrunc 2> /dev/null
check_error 3 "NaN or infinite" "a sample that is not finite" merge --method regmean $A \
    --model "$T/m2.gguf,activations=$T/nan.gguf" -o "$T/no.gguf"
organ-keys -q "$T/a1.gguf" --set activations.model.sha256=str:0000 --output "$T/other.gguf"
check_error 1 "activations of another model" "a wrong hash" organ-merge -q --method regmean \
    --model "$T/m1.gguf,activations=$T/other.gguf" $B -o "$T/none.gguf"
check "the hash is not compared" merge --method regmean --model "$T/m1.gguf,activations=$T/other.gguf" $B \
    -o "$T/no.gguf"
check_error 2 "is also an input" "the output is the file of samples" merge --method regmean $A $B -o "$T/a2.gguf"
finish
