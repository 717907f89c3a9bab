#!/bin/sh
# merge_experts.sh - merges and blends treat each expert of a stack as a tensor of its own: the
# result is that of the same models with one tensor per expert. Filters name single experts.
# shellcheck disable=SC2046 # lists of options are split into words
. "$(dirname "$0")/lib.sh"
have mkmodel || { bad "mkmodel is not built"; finish; }
SHAPE="blk.%.ffn_gate_exps.weight:F16:64x32x3 blk.%.ffn_gate_exps.bias:F32:32x3 blk.%.ffn_down_exps.weight:Q8_0:32x64x3
    blk.%.ffn_gate_inp.weight:F32:64x3"
split() { # IN.gguf OUT.gguf: with one tensor per expert
    rm -rf "$T/records"
    organ-extract -q "$1" --split-experts --output "$T/records" || bad "split $1"
    mkmodel "$2" -k llama.block_count=2 token_embd.weight:F32:64x4 -n 2 blk.%.ffn_gate_inp.weight:F32:64x3 \
        -n 3 blk.0.ffn_gate.%.weight:F16:64x32 blk.0.ffn_gate.%.bias:F32:32 blk.0.ffn_down.%.weight:Q8_0:32x64 \
        blk.1.ffn_gate.%.weight:F16:64x32 blk.1.ffn_gate.%.bias:F32:32 blk.1.ffn_down.%.weight:Q8_0:32x64
    organ-transplant -q "$2" "$T/records" -o "$2.new" || bad "separate $1"
    mv "$2.new" "$2"
}
for k in 1 2 3; do
    # shellcheck disable=SC2086 # words
    mkmodel "$T/m$k.gguf" -s $k -k llama.block_count=2 token_embd.weight:F32:64x4 -n 2 $SHAPE
    split "$T/m$k.gguf" "$T/s$k.gguf"
done
# records FILE DIR: all tensors, with one file per expert
records() {
    rm -rf "$2"
    organ-extract -q "$1" --split-experts --output "$2" || bad "extract $1"
    rm "$2/manifest.json"
}
# same NAME OPTIONS...: both forms give the same values
same() {
    what=$1
    shift
    sed 's/@/m/g' "$T/models" > "$T/m"
    sed 's/@/s/g' "$T/models" > "$T/s"
    check "$what" organ-merge -q --force --no-hash "$@" $(cat "$T/m") -o "$T/stacks.gguf"
    check "$what, separate experts" organ-merge -q --force --no-hash "$@" $(cat "$T/s") -o "$T/separate.gguf"
    records "$T/stacks.gguf" "$T/a"
    records "$T/separate.gguf" "$T/b"
    check_same_dir "$T/a" "$T/b" "$what: stacks give other values than separate experts"
}
methods=0
organ-merge --list-methods > "$T/methods"
for method in $(awk "$BY_NAME"'NR > 1 && !/^regmean/ {
    print col("name") }' "$T/methods"); do # those with samples: regmean.sh
    methods=$((methods + 1)) options='' base="--base $T/@1.gguf"
    echo "$base --model $T/@2.gguf --model $T/@3.gguf" > "$T/models"
    case $method in
        slerp|nearswap) options=,t=0.3 ;;
        ties|dare_*|della*|breadcrumbs*) options=,density=0.4 ;;
        sce) options=,select_topk=0.3 ;;
        passthrough) options=,scale=0.5 ;;
        model_stock) options=,filter_wise=1 ;;
        nuslerp) options=,weight=0.3 ;;
    esac
    case $method in
        slerp|nearswap|arcee_fusion) echo "$base --model $T/@2.gguf" > "$T/models" ;;
        passthrough) echo "--model $T/@2.gguf" > "$T/models" ;;
        linear|karcher) echo "--model $T/@2.gguf --model $T/@3.gguf" > "$T/models" ;;
    esac
    same "$method" --method "$method$options"
    check "$method, one thread" organ-merge -q --force --no-hash -j 1 --method "$method$options" \
        $(sed 's/@/m/g' "$T/models") -o "$T/one.gguf"
    check_same "$T/stacks.gguf" "$T/one.gguf" "$method: threads change it"
done
check_text $methods 21 "methods tested"

# Without it, the expert with small changes loses all of them: parameters of single experts.
echo "--base $T/@1.gguf --model $T/@2.gguf --model $T/@3.gguf" > "$T/models"
same "filters that name experts" --method \
    "ties,density:ffn_gate_exps[1]=0.9,density:blk.0.ffn_down_exps[0-1].weight=0.2,density=0.4"
check "a table of it" organ-merge -q --check --method "ties,density:blk.1.ffn_gate_exps[1].weight=0.9,density=0.5" \
    $(sed 's/@/m/g' "$T/models")
line=$(grep '^blk.1.ffn_gate_exps.weight' "$T/out")
case $line in
    *"experts 0-0: "*density=0.5*"; experts 1-1: "*density=0.9*"; experts 2-2: "*) ok ;;
    *) bad "the table: $line" ;;
esac
if grep '^blk.0.ffn_gate_exps.weight' "$T/out" | grep -q experts; then bad "another block"; else ok; fi
# An expert that is one of the inputs is copied, in its type; the others are merged.
check "one expert of the base" organ-merge -q --force --no-hash --method "task,weight:ffn_down_exps[2]=0" \
    $(sed 's/@/m/g' "$T/models") -o "$T/kept.gguf"
records "$T/kept.gguf" "$T/a"
records "$T/m1.gguf" "$T/b"
check_same "$T/a/organs/blk_0_ffn_down_2.bin" "$T/b/organs/blk_0_ffn_down_2.bin" "the expert of the base"
if cmp -s "$T/a/organs/blk_0_ffn_down_1.bin" "$T/b/organs/blk_0_ffn_down_1.bin"; then bad "all experts are kept"; \
    else ok; fi
organ-extract -q "$T/kept.gguf" -o "$T/whole"
organ-merge -q --force --no-hash --method "task,weight:ffn_down_exps[2]=0" $(sed 's/@/m/g' "$T/models") \
    -o - > "$T/pipe.gguf"
check_same "$T/kept.gguf" "$T/pipe.gguf" "a pipe"
check_error 1 "no tensor matches the filter 'ffn_down_exps[3]'" "an expert that does not exist" \
    organ-merge -q --force --method "task,weight:ffn_down_exps[3]=0" $(sed 's/@/m/g' "$T/models") -o "$T/none.gguf"
cat > "$T/c.json" <<END
{"merge_method": "linear", "models": [{"model": "$T/m2.gguf", "parameters": {"weight":
  [{"filter": "mlp.experts.2.gate_proj", "value": 0}, {"value": 0.5}]}}, {"model": "$T/m3.gguf"}]}
END
check "a filter of mergekit" organ-merge -q --check --config "$T/c.json"
if grep '^blk.1.ffn_gate_exps.weight' "$T/out" | grep -q 'experts 2-2: weight=0,1'; then ok
else bad "a filter of mergekit: $(grep gate_exps "$T/out")"; fi

# Blends of whole stacks: the arc of each expert is its own.
for how in slerp:0.3 linear:0.3; do
    check "blend $how" organ-transplant -q --force "$T/m1.gguf" "$T/m2.gguf" --blend $how --type ffn -o "$T/x.gguf"
    check "blend $how, separate experts" organ-transplant -q --force "$T/s1.gguf" "$T/s2.gguf" --blend $how \
        --type ffn -o "$T/y.gguf"
    records "$T/x.gguf" "$T/a"
    records "$T/y.gguf" "$T/b"
    check_same_dir "$T/a" "$T/b" "blend $how: stacks give other values than separate experts"
done
finish
