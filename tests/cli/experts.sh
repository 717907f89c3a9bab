#!/bin/sh
# shellcheck disable=SC2086,SC2258
# experts.sh - --experts BASE=DONOR: an expert of the base gets another expert of the
# donor, in stacks, routers and directories with one record per expert.
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
have mkmodel || { bad "mkmodel is not built"; finish; }

moe() { # FILE EXPERTS ARGUMENT...
    moe_file=$1 moe_n=$2
    shift 2
    mkmodel "$moe_file" "$@" token_embd.weight:F32:64x10 blk.0.ffn_gate_inp.weight:F32:64x$moe_n \
        blk.0.exp_probs_b.bias:F32:$moe_n \
        blk.0.ffn_gate_exps.weight:Q8_0:64x32x$moe_n blk.0.ffn_down_exps.weight:F16:32x64x$moe_n \
        blk.1.ffn_gate_inp.weight:F32:64x$moe_n blk.1.exp_probs_b.bias:F32:$moe_n \
        blk.1.ffn_gate_exps.weight:Q8_0:64x32x$moe_n blk.1.ffn_down_exps.weight:F16:32x64x$moe_n
}
moe "$T/b.gguf" 4 -s 1
moe "$T/d.gguf" 6 -s 2
# are WHAT FILE TENSOR STEP SOURCE:E...: the experts of the tensor, in order
are() {
    what=$1 file=$2 tensor=$3 step=$4
    shift 4
    n=$(organ-extract "$file" --tensors "$tensor" --list | awk "$BY_NAME"'NR == 2 { print col("bytes") }')
    organ-extract "$file" --tensors "$tensor" --output - | tail -c "$n" > "$T/got"
    : > "$T/want"
    for part in "$@"; do
        source=$T/${part%:*}.gguf of=${FROM:-$tensor}
        [ "${part%:*}" = b ] && of=$tensor
        n=$(organ-extract "$source" --tensors "$of" --list | awk "$BY_NAME"'NR == 2 { print col("bytes") }')
        organ-extract "$source" --tensors "$of" --output - | tail -c "$n" | tail -c +$((${part#*:} * step + 1)) \
            | head -c "$step" >> "$T/want"
    done
    check_same "$T/got" "$T/want" "$what: $tensor is $*"
}
transplant() {
    rm -f "$T/c.gguf"
    organ-transplant --base "$T/b.gguf" --donor "$T/d.gguf" --output "$T/c.gguf" "$@"
}
graft() {
    rm -rf "$T/g" "$T/c.gguf"
    organ-graft --target "$T/b.gguf" --source "$T/d.gguf" --output "$T/g" "$@" && organ-assemble -q "$T/g" \
        --output "$T/c.gguf"
}

check "one expert" transplant --experts 2=5
are "2=5" "$T/c.gguf" blk.0.ffn_gate_exps.weight 2176 b:0 b:1 d:5 b:3
are "2=5" "$T/c.gguf" blk.1.ffn_down_exps.weight 4096 b:0 b:1 d:5 b:3
are "2=5, no router" "$T/c.gguf" blk.0.ffn_gate_inp.weight 256 b:0 b:1 b:2 b:3
check "runs, crossed, and a plain number" transplant --experts 0-1=4-5,3=0,2
are "runs" "$T/c.gguf" blk.1.ffn_gate_exps.weight 2176 d:4 d:5 d:2 d:0
check "one expert for all" transplant --experts 0=3,1=3,2=3,3=3 --layers 0
are "one for all" "$T/c.gguf" blk.0.ffn_gate_exps.weight 2176 d:3 d:3 d:3 d:3
are "one for all, the other block" "$T/c.gguf" blk.1.ffn_gate_exps.weight 2176 b:0 b:1 b:2 b:3
check "several options" transplant --experts 0=5 --experts 1
are "several options" "$T/c.gguf" blk.0.ffn_gate_exps.weight 2176 d:5 d:1 b:2 b:3
check "blocks and experts" transplant --experts 1=4 --map 0=1
FROM=blk.1.ffn_gate_exps.weight are "blocks and experts" "$T/c.gguf" blk.0.ffn_gate_exps.weight 2176 b:0 d:4 b:2 b:3

check "a note without the router" graft --experts 3=4
check_text "$(grep -c 'expert 3 gets that of number 4, but the router sends it the tokens of' "$T/err")" 1 \
    "the note"
check "no note for equal numbers" graft --experts 3
check_text "$(grep -c router "$T/err")" 0 "no note"
check "a transplant with the router" organ-transplant "$T/b.gguf" "$T/d.gguf" --experts 3=4,0-1=1-2 --router \
    -o "$T/routed.gguf"
check_text "$(grep -c 'the router sends' "$T/err")" 0 "no note with --router"
check "a graft with the router" graft --experts 3=4,0-1=1-2 --router
check_same "$T/routed.gguf" "$T/c.gguf" "organ-transplant --router"
are "router" "$T/c.gguf" blk.0.ffn_gate_inp.weight 256 d:1 d:2 b:2 d:4
are "router's bias" "$T/c.gguf" blk.1.exp_probs_b.bias 4 d:1 d:2 b:2 d:4
are "experts with it" "$T/c.gguf" blk.1.ffn_down_exps.weight 4096 d:1 d:2 b:2 d:4
cp "$T/c.gguf" "$T/stacked.gguf"

# Converted and blended experts: the same as from a donor in which they have those numbers.
organ-extract "$T/d.gguf" --split-experts --output "$T/ds"
organ-extract "$T/b.gguf" --split-experts --output "$T/bs"
mkmodel "$T/f.gguf" -s 3 token_embd.weight:F32:64x10 blk.0.ffn_gate_exps.weight:F16:64x32x6 \
    blk.0.ffn_down_exps.weight:F16:32x64x6
mkmodel "$T/anc.gguf" -s 4 token_embd.weight:F32:64x10 blk.0.ffn_gate_exps.weight:F16:64x32x6 \
    blk.0.ffn_down_exps.weight:F16:32x64x6
turned() { # FILE OUTPUT: the same with experts 0 and 1 in the places of 4 and 5, and these in theirs
    organ-transplant --base "$1" --donor "$1" --experts 0-1=4-5,4-5=0-1 --output "$2" --force
}
turned "$T/f.gguf" "$T/f2.gguf"
turned "$T/anc.gguf" "$T/anc2.gguf"
for how in "--match convert" "--blend linear:0.3" "--blend slerp:0.3" "--blend task:0.5"; do
    case $how in *task*) ancestor="--ancestor $T/anc.gguf" ancestor2="--ancestor $T/anc2.gguf" ;; *) ancestor='' \
        ancestor2='' ;; esac
    check "$how" organ-transplant --base "$T/b.gguf" --donor "$T/f.gguf" --experts 0-1=4-5 --layers 0 $how $ancestor \
        --output "$T/x.gguf" --force
    check "$how, plain" organ-transplant --base "$T/b.gguf" --donor "$T/f2.gguf" --experts 0-1 --layers 0 $how \
        $ancestor2 --output "$T/y.gguf" --force
    check_same "$T/x.gguf" "$T/y.gguf" "$how: mapped as from a donor with those numbers"
    if cmp -s "$T/x.gguf" "$T/b.gguf"; then bad "$how changed nothing"; else ok; fi
done
cp "$T/b.gguf" "$T/i.gguf"
check "in place" organ-transplant --base "$T/i.gguf" --donor "$T/d.gguf" --experts 0-1=4-5,3=0,2 \
    --in-place --undo "$T/undo"
check "not in place" transplant --experts 0-1=4-5,3=0,2
check_same "$T/i.gguf" "$T/c.gguf" "in place as into a new file"
check "undone" organ-transplant --base "$T/i.gguf" --donor "$T/undo" --in-place
check_same "$T/i.gguf" "$T/b.gguf" "undone"

# One record per expert.
rm -rf "$T/g"
check "records" organ-graft --target "$T/bs" --source "$T/ds" --experts 3=4,0-1=1-2 --router --output "$T/g"
organ-assemble -q "$T/g" --output "$T/c.gguf" --force
check_same "$T/c.gguf" "$T/stacked.gguf" "records as stacks"
check "the table" organ-graft --target "$T/bs" --source "$T/ds" --experts 3=4 --layers 0 --check
check_text "$(awk -F "$TAB" "$BY_NAME"'NR > 1 { print col("name") "<" col("donor") }' "$T/out" | tr '\n' ' ')" \
    "blk.0.ffn_gate.3.weight<blk.0.ffn_gate.4.weight blk.0.ffn_down.3.weight<blk.0.ffn_down.4.weight " \
    "which expert from which"

# ---- refused -----------------------------------------------------------------------------------
refuse() { # STATUS TEXT OPTION...
    status=$1 text=$2
    shift 2
    check_error "$status" "$text" "$*" transplant "$@"
    check_absent "$T/c.gguf" "$*"
}
refuse 1 "the donor has no expert 6" --experts 2=6
refuse 1 "the base has none of these experts" --experts 4=0
refuse 2 "'0-1=3': both sides must have the same number of experts (--experts)" --experts 0-1=3
refuse 2 "'0-1=3-4,1=0': a base expert appears twice (--experts)" --experts 0-1=3-4,1=0
for bad in = 1= =1 1==2 1=2=3 a=b 1=2, 2-1=0-1 1=-1; do refuse 2 "expected BASE=DONOR experts such as" \
    --experts "$bad"; done
check_error 2 "expected numbers and ranges" "a map where nothing is moved" organ-extract "$T/b.gguf" \
    --list --experts 1=2
finish
