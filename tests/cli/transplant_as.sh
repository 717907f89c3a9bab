#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2015
# transplant_as.sh - organ-transplant --dtype, --shards and --adapter give the bytes that two
# steps with a file in between would give, but encode each value only once. Refused requests
# write nothing.
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
have mkmodel || { bad "mkmodel is not built"; finish; }
V=$LAB/lab-verse-q4_k_m.gguf C=$LAB/lab-code-q4_k_m.gguf V8=$(verse_q8) LORA=$LAB/lab-lora-code.gguf

graft() { organ-transplant -q --force "$@"; }
assemble() { organ-assemble -q --force "$@"; }
keys() { organ-keys "$1" --get "$2" 2> /dev/null; }

# As assembling the result: files, pipes, directories, presets, rules, any -j.
check "a plain transplant" graft --base $V --donor $C --type organ -o "$T/plain.gguf"
organ-extract -q $C --output "$T/donor.d"
organ-extract -q $V --output "$T/base.d"
for rules in $(more q4_0 '*=f16') q3_k_m 'blk.1.*=q6_k,output.weight=keep,q4_k_s' 'blk.*.ffn_up.weight=q8_0'; do
    check "$rules: assembled" assemble "$T/plain.gguf" -o "$T/want.gguf" --dtype "$rules"
    for j in 1 3; do
        check "$rules, -j $j" graft --base $V --donor $C --type organ -o "$T/m.gguf" --dtype "$rules" -j $j
        check_same "$T/m.gguf" "$T/want.gguf" "$rules, -j $j"
        graft --base $V --donor - --type organ -o - --dtype "$rules" -j $j < $C | cat > "$T/p.gguf"
        check_same "$T/p.gguf" "$T/want.gguf" "$rules, donor and output are pipes, -j $j"
    done
    graft --base - --donor "$T/donor.d" --type organ -o "$T/m.gguf" --dtype "$rules" < $V
    check_same "$T/m.gguf" "$T/want.gguf" "$rules, base is a pipe, donor a directory"
    graft --base "$T/base.d" --donor $C --type organ -o "$T/m.gguf" --dtype "$rules"
    check_same "$T/m.gguf" "$T/want.gguf" "$rules, base is a directory"
done
check_text "$(keys "$T/m.gguf" general.file_type)" 15 "one role in another type: file_type is that of most"
check "the last word" graft --base $V --donor $C --type organ -o "$T/m.gguf" --dtype q4_0 \
    --set-kv general.file_type=u32:7 --copy-kv general.name
check_text "$(keys "$T/m.gguf" general.file_type) $(keys "$T/m.gguf" general.name)" "7 $(keys $C general.name)" \
    "set-kv and copy-kv have the last word"
organ-transplant --force --base $V --donor $C --type organ -o "$T/m.gguf" --dtype '*.ffn_up.weight=f16' 2> "$T/err"
grep -q "4 re-encoded, 26 left" "$T/err" && ok || bad "what a rule left is not noted: $(cat "$T/err")"

# Values are encoded once: converted, blended and folded ones do not pass through the base's type.
graft --base $V --donor $V8 --match retype --type organ -o "$T/r.gguf"
assemble "$T/r.gguf" -o "$T/want.gguf" --dtype q5_0
check "convert" graft --base $V --donor $V8 --match convert --type organ -o "$T/m.gguf" --dtype q5_0
check_same "$T/m.gguf" "$T/want.gguf" "convert, then another type"
graft --base $V --donor $V8 --match convert --type organ -o "$T/twice.gguf"
assemble "$T/twice.gguf" -o "$T/twice5.gguf" --dtype q5_0
cmp -s "$T/twice5.gguf" "$T/want.gguf" && bad "encoding twice makes no difference: the test shows nothing" || ok
assemble $V -o "$T/v32.gguf" --dtype f32
O=output.weight=f16 # or it would stay Q6_K in one way and not in the other
for b in linear:0.3 slerp:0.2..0.8; do
    graft --base "$T/v32.gguf" --donor $C --type organ --blend $b -o "$T/b32.gguf"
    assemble "$T/b32.gguf" -o "$T/want.gguf" --dtype $O,q4_0
    check "$b" graft --base $V --donor $C --type organ --blend $b -o "$T/m.gguf" --dtype $O,q4_0
    check_same "$T/m.gguf" "$T/want.gguf" "$b, then another type"
    graft --base $V --donor $C --type organ --blend $b -o - --dtype $O,q4_0 | cat > "$T/p.gguf"
    check_same "$T/p.gguf" "$T/want.gguf" "$b, to a pipe"
done

# Shards: merged they are the one file; cut as organ-assemble cuts; the base's own go.
for how in '--shards 3' '--shards 1' '--shard-size 400K'; do
    rm -f "$T"/s-0* "$T"/w-0*
    check "$how" graft --base $V --donor $C --type organ -o "$T/s.gguf" $how
    assemble "$T/plain.gguf" -o "$T/w.gguf" $how
    n=0
    for f in "$T"/w-0*; do
        n=$((n + 1))
        check_same "$T/s${f#"$T"/w}" "$f" "$how: $f"
    done
    check_text "$(echo "$T"/s-0* | wc -w | tr -d ' ')" $n "$how: as many files"
    check "$how: merged" assemble "$T"/s-00001-of-*.gguf -o "$T/m.gguf"
    check_same "$T/m.gguf" "$T/plain.gguf" "$how: merged"
done
assemble $V -o "$T/set.gguf" --shards 4
check "a split base" graft --base "$T/set-00003-of-00004.gguf" --donor $C --type organ -o "$T/s.gguf" --shards 2 \
    --dtype q4_0
assemble "$T/s-00002-of-00002.gguf" -o "$T/m.gguf"
assemble "$T/plain.gguf" -o "$T/want.gguf" --dtype q4_0
check_same "$T/m.gguf" "$T/want.gguf" "a split base, other shards, another type"

# Added blocks: a preset counts the blocks that the result has.
check "eight blocks" organ-stack -q -o "$T/v8.gguf" $V 0-3 $V 0-3
graft --base $V --donor "$T/v8.gguf" --add --layers 4-7 -o "$T/grown.gguf"
assemble "$T/grown.gguf" -o "$T/want.gguf" --dtype q4_k_m
check "added blocks" graft --base $V --donor "$T/v8.gguf" --add --layers 4-7 -o "$T/m.gguf" --dtype q4_k_m
check_same "$T/m.gguf" "$T/want.gguf" "added blocks: the preset sees eight"

# An adapter: what organ-graft and organ-assemble give.
for scale in $(more 1) -0.5 0; do
    rm -rf "$T/f"
    check "organ-graft --scale $scale" organ-graft -q --base $V --adapter $LORA --scale $scale --output "$T/f"
    assemble "$T/f" -o "$T/want.gguf"
    check "--scale $scale" graft --base $V --adapter $LORA --scale $scale -o "$T/m.gguf"
    check_same "$T/m.gguf" "$T/want.gguf" "an adapter, --scale $scale"
    cat $LORA | organ-transplant -q --base "$T/base.d" --adapter - --scale $scale -o - | cat > "$T/m.gguf"
    check_same "$T/m.gguf" "$T/want.gguf" "an adapter from a pipe into a directory, to a pipe, --scale $scale"
done
check_same "$T/m.gguf" $V "--scale 0 changes nothing"
check "scale 1 by default" graft --base $V --adapter $LORA -o "$T/fold.gguf"
graft --base $V --adapter $LORA --scale 1 -o "$T/m.gguf"
check_same "$T/m.gguf" "$T/fold.gguf" "scale 1 by default"
cmp -s "$T/fold.gguf" $V && bad "the adapter changes nothing" || ok
organ-transplant -v --force --base $V --adapter $LORA -o "$T/m.gguf" 2> "$T/err"
grep -q "tensors replaced" "$T/err" && ok || bad "-v does not count: $(cat "$T/err")"
graft --base "$T/v32.gguf" --adapter $LORA -o "$T/f32.gguf"
assemble "$T/f32.gguf" -o "$T/want.gguf" --dtype $O,q5_0
check "an adapter, another type" graft --base $V --adapter $LORA -o "$T/m.gguf" --dtype $O,q5_0
check_same "$T/m.gguf" "$T/want.gguf" "an adapter, another type: encoded once"
check "an adapter, in shards" graft --base $V --adapter $LORA -o "$T/a.gguf" --shards 2 --set-kv general.name=folded
assemble "$T/a-00001-of-00002.gguf" -o "$T/m.gguf"
check_text "$(keys "$T/m.gguf" general.name)" folded "an adapter, in shards, with a key"
assemble "$T/fold.gguf" -o "$T/want.gguf" --set-kv general.name=folded
check_same "$T/m.gguf" "$T/want.gguf" "an adapter, in shards, with a key"

# A preset for the experts that are left gives the same as two steps.
mkmodel "$T/moe.gguf" -k llama.block_count=2 -k llama.expert_count=8 -k llama.expert_used_count=2 \
    -k llama.attention.head_count=4 -k llama.attention.head_count_kv=2 -n 2 token_embd.weight:F32:256x16 \
    blk.%.attn_q.weight:F32:256x256 blk.%.attn_k.weight:F32:256x128 blk.%.attn_v.weight:F32:256x128 \
    blk.%.attn_output.weight:F32:256x256 blk.%.ffn_gate_inp.weight:F32:256x8 blk.%.ffn_gate_exps.weight:F32:256x256x8 \
    blk.%.ffn_up_exps.weight:F32:256x256x8 blk.%.ffn_down_exps.weight:F32:256x256x8 output.weight:F32:256x16
organ-keys -q "$T/moe.gguf" --set general.architecture=str:llama --output "$T/moe2.gguf" --force && mv "$T/moe2.gguf" \
    "$T/moe.gguf"
check "keep four" assemble "$T/moe.gguf" --keep-experts 0-3 -o "$T/four.gguf"
for preset in q4_k_m $(more q3_k_m); do
    assemble "$T/four.gguf" -o "$T/want.gguf" --dtype $preset
    check "keep four, $preset" assemble "$T/moe.gguf" --keep-experts 0-3 -o "$T/m.gguf" --dtype $preset
    check_same "$T/m.gguf" "$T/want.gguf" "keep four, $preset: the preset sees four"
    assemble "$T/moe.gguf" -o "$T/m.gguf" --dtype $preset
    eight=$(organ-extract -q "$T/m.gguf" --list |
        awk "$BY_NAME"'col("name") == "blk.0.attn_v.weight" { print col("dtype") }')
    four=$(organ-extract -q "$T/want.gguf" --list |
        awk "$BY_NAME"'col("name") == "blk.0.attn_v.weight" { print col("dtype") }')
    [ "$eight" != "$four" ] && ok || bad \
        "$preset: attn_v is $four with four experts and with eight: the test shows nothing"
done

# Refused, in one line, and nothing is written.
N=$T/no.gguf
no() { want=$1 text=$2; shift 2; check_error "$want" "$text" "$*" organ-transplant -q "$@"; check_absent "$N" "$*"; }
no 1 "no tensor matches 'no.such'" --base $V --donor $C -o "$N" --dtype no.such=f16
no 2 "neither a preset" --base $V --donor $C -o "$N" --dtype q4_k_x
no 2 "importance matrix" --base $V --donor $C -o "$N" --dtype iq2_m
no 2 "--fallback needs --dtype" --base $V --donor $C -o "$N" --fallback f16
no 2 "not both" --base $V --donor $C -o "$N" --shards 2 --shard-size 1G
no 2 "use 1 to 65535" --base $V --donor $C -o "$N" --shards 0
no 2 "the model cannot have 40 shards" --base $V --donor $C -o "$N" --shards 40
no 2 "cannot be written to stdout" --base $V --donor $C -o - --shards 2
no 2 "--donor or --adapter" --base $V -o "$N"
no 2 "--donor or --adapter" --base $V --donor $C --adapter $LORA -o "$N"
no 2 "--scale needs --adapter" --base $V --donor $C --scale 2 -o "$N"
no 2 "cannot be combined with" --base $V --adapter $LORA --layers 1 -o "$N"
no 2 "cannot be combined with" --base $V --adapter $LORA --check
no 2 "" --base $V --adapter $LORA --scale nan -o "$N"
no 3 "this is not a LoRA adapter" --base $V --adapter $C -o "$N"
no 2 "only one model can" --base - --adapter - -o "$N"
cp $V "$T/base.gguf"
for o in "--dtype q4_0" "--shards 2" "--shard-size 1M"; do
    no 2 "makes no new model" --base "$T/base.gguf" --donor $C --in-place $o
done
no 2 "makes no new model" --base "$T/base.gguf" --adapter $LORA --in-place
check_same "$T/base.gguf" $V "after refusals in place"
organ-compare -q $V $C --patch "$T/p.gguf" --force > /dev/null
no 2 "applied as a whole" --base $V --donor "$T/p.gguf" -o "$N" --dtype q4_0
no 2 "applied as a whole" --base $V --donor "$T/p.gguf" -o "$N" --shards 2
printf '\377\377' | dd of="$T/donor.d/organs/blk_1_ffn_up.bin" bs=1 seek=900 conv=notrunc 2> /dev/null
no 3 "blk.1.ffn_up.weight" --base $V --donor "$T/donor.d" --type organ -o "$N" --dtype '*.ffn_up.weight=q8_0'
: > "$T/s-00001-of-00002.gguf"
check_error 2 "--force" "an existing shard" organ-transplant -q --base $V --donor $C -o "$T/s.gguf" --shards 2
finish
