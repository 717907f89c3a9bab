#!/bin/sh
# blend.sh - blends, adapters and --match convert: against a recomputation in awk, at
# their ends, refused where they cannot be; in place with undo, also after SIGKILL.
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
have mkmodel || { bad "mkmodel is not built"; finish; }
VERSE=$LAB/lab-verse-q4_k_m.gguf
CODE=$LAB/lab-code-q4_k_m.gguf
ANCESTOR=$LAB/lab-base-q4_k_m.gguf

floats() { # FILE TENSOR: its F32 values, one per line
    data "$1" "$2" | od -A n -v -t f4 -w4 | tr -d ' '
}
blend() { # BLEND ARGUMENT...: into $T/c.gguf
    text=$1
    shift
    rm -f "$T/c.gguf"
    organ-transplant --base "$BASE" --donor "$DONOR" --blend "$text" --output "$T/c.gguf" "$@"
}
near() { # WHAT: $T/got holds the numbers of $T/want to 1e-6 of the largest
    if paste "$T/got" "$T/want" | awk '
        { if (NF != 2) exit 1; d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d;
            a = $2 < 0 ? -$2 : $2; if (a > top) top = a }
        END { exit !(NR > 0 && top > 0 && worst <= 1e-6 * top) }'
    then ok; else bad "$1: not the values of the formula"; paste "$T/got" "$T/want" | head -n 3; fi
}

# ---- ends: to the byte ----------------------------------------------------------------
DONOR=$CODE
BASE=$VERSE
for text in linear:0 slerp:0 linear:0..0; do
    check "$text" blend $text
    check_same "$T/c.gguf" "$VERSE" "$text is the base"
done
organ-transplant --base "$VERSE" --donor "$CODE" --output "$T/all.gguf" || bad "transplant"
for text in linear:1 slerp:1; do
    check "$text" blend $text
    check_same "$T/c.gguf" "$T/all.gguf" "$text is the donor"
done
check "task:0" blend task:0 --ancestor "$ANCESTOR"
check_same "$T/c.gguf" "$VERSE" "task:0 is the base"
check "linear:0.5" blend linear:0.5 --type organ -j 1
cp "$T/c.gguf" "$T/one.gguf"
check "linear:0.5, threads" blend linear:0.5 --type organ -j 4
check_same "$T/c.gguf" "$T/one.gguf" "the same for any number of threads"
organ-transplant --base "$VERSE" --donor "$CODE" --type organ --layers 3 --output "$T/last.gguf" || bad "transplant"
check "a ramp" blend linear:0..1 --type organ
data "$T/c.gguf" blk.0.ffn_up.weight > "$T/x"
data "$VERSE" blk.0.ffn_up.weight > "$T/y"
check_same "$T/x" "$T/y" "a ramp: the first block is the base's"
data "$T/c.gguf" blk.3.ffn_up.weight > "$T/x"
data "$T/last.gguf" blk.3.ffn_up.weight > "$T/y"
check_same "$T/x" "$T/y" "a ramp: the last block is the donor's"

# ---- between: values, in F32 -------------------------------------------------------------
model() { # OUT SEED
    mkmodel "$1" -s "$2" blk.0.attn_q.weight:F32:32x8 blk.1.attn_q.weight:F32:32x8 blk.2.attn_q.weight:F32:32x8
}
model "$T/a.gguf" 1
model "$T/b.gguf" 2
model "$T/anc.gguf" 3
BASE=$T/a.gguf DONOR=$T/b.gguf
for i in 0 1 2; do
    floats "$T/a.gguf" blk.$i.attn_q.weight > "$T/a$i"
    floats "$T/b.gguf" blk.$i.attn_q.weight > "$T/b$i"
    floats "$T/anc.gguf" blk.$i.attn_q.weight > "$T/c$i"
done
formula() { # WHAT BLOCK AWK-EXPRESSION of a, b, c, t with t given; the tensor in $T/c.gguf has its values
    paste "$T/a$2" "$T/b$2" "$T/c$2" | mathawk -v t="$4" "{ a = \$1; b = \$2; c = \$3; printf \"%.9g\\n\", $3 }" \
        > "$T/want"
    floats "$T/c.gguf" "blk.$2.attn_q.weight" > "$T/got"
    near "$1, block $2"
}
# A donor whose data was changed, here to a NaN, is refused whether its values are read once or twice.
organ-extract -q "$DONOR" --output "$T/tampered"
f=$(find "$T/tampered" -name 'blk_1_attn_q.bin')
size=$(wc -c < "$f")
printf '\377\377\377\377' | dd of="$f" bs=1 seek=$((size - 4)) conv=notrunc 2> /dev/null
for mode in linear slerp; do
    check_error 3 "sha256" "a tampered donor, $mode" organ-transplant --base "$BASE" --donor "$T/tampered" \
        --blend $mode:0.5 --output "$T/never.gguf"
    check_absent "$T/never.gguf" "a tampered donor, $mode"
done
check "linear" blend linear:0.25
for i in 0 1 2; do formula "linear:0.25" $i 'a + t * (b - a)' 0.25; done
check "a ramp" blend linear:0.2..0.8
formula "0.2..0.8" 0 'a + t * (b - a)' 0.2
formula "0.2..0.8" 1 'a + t * (b - a)' 0.5
formula "0.2..0.8" 2 'a + t * (b - a)' 0.8
check "task" blend task:1.5 --ancestor "$T/anc.gguf"
for i in 0 2; do formula "task:1.5" $i 'a + t * (b - c)' 1.5; done
check "task, negative" blend task:-0.5 --ancestor "$T/anc.gguf"
formula "task:-0.5" 1 'a + t * (b - c)' -0.5
check "slerp" blend slerp:0.3
for i in 0 1 2; do
    w=$(paste "$T/a$i" "$T/b$i" | mathawk '{ ab += $1 * $2; aa += $1 * $1; bb += $2 * $2 }
        END { k = ab / sqrt(aa * bb); printf "%.17g", atan2(sqrt(1 - k * k), k) }')
    formula "slerp:0.3" $i "(sin((1 - t) * $w) * a + sin(t * $w) * b) / sin($w)" 0.3
done

# ---- refused, before anything is written ------------------------------------------------------
rm -f "$T/c.gguf"
for text in linear:1.5 linear:-0.1 slerp:2 task:11 linear linear: linear:x linear:0..2 cubic:0.5 'linear:0..' \
    linear:nan ''; do
    check_exit 2 "--blend '$text'" organ-transplant --base "$T/a.gguf" --donor "$T/b.gguf" --blend "$text" \
        --ancestor "$T/anc.gguf" --output "$T/c.gguf"
    check_absent "$T/c.gguf" "--blend '$text'"
done
check_error 2 "--ancestor" "task without its ancestor" organ-transplant --base "$T/a.gguf" --donor "$T/b.gguf" \
    --blend task:1 --output "$T/c.gguf"
mkmodel "$T/less.gguf" blk.0.attn_q.weight:F32:32x8
check_error 1 "the ancestor does not have" "an ancestor with fewer tensors" organ-transplant --base "$T/a.gguf" \
    --donor "$T/b.gguf" --blend task:1 --ancestor "$T/less.gguf" --output "$T/c.gguf"
mkmodel "$T/wide.gguf" blk.0.attn_q.weight:F32:64x8 blk.1.attn_q.weight:F32:32x8 blk.2.attn_q.weight:F32:32x8
check_error 1 "dims differ" "other dims" organ-transplant --base "$T/a.gguf" --donor "$T/wide.gguf" \
    --blend linear:0.5 --output "$T/c.gguf"
check_exit 1 "an ancestor of other dims" organ-transplant --base "$T/a.gguf" --donor "$T/b.gguf" --blend task:1 \
    --ancestor "$T/wide.gguf" --output "$T/c.gguf"
mkmodel "$T/turned.gguf" blk.0.attn_q.weight:F32:8x32 blk.1.attn_q.weight:F32:32x8 blk.2.attn_q.weight:F32:32x8
check_error 1 "the ancestor's dims differ" "an ancestor of other dims but as many values" organ-transplant \
    --base "$T/a.gguf" --donor "$T/b.gguf" --blend task:1 --ancestor "$T/turned.gguf" --output "$T/c.gguf"
for anc in less:2 turned:1; do
    n=${anc#*:} anc=${anc%:*}
    check_exit 1 "--check with an ancestor: $anc" organ-transplant --base "$T/a.gguf" --donor "$T/b.gguf" \
        --blend task:1 --ancestor "$T/$anc.gguf" --check
    check_text "$(grep -c "mismatch.*the ancestor" "$T/out")" "$n" "--check says what the ancestor lacks: $anc"
done
check "what the ancestor lacks is skipped" organ-transplant --base "$T/a.gguf" --donor "$T/b.gguf" --blend task:1 \
    --ancestor "$T/less.gguf" --skip-mismatched --output "$T/c.gguf"
floats "$T/c.gguf" blk.1.attn_q.weight > "$T/got"
check_same "$T/got" "$T/a1" "what the ancestor lacks is skipped"
rm -f "$T/c.gguf"
check_error 2 "--ancestor needs --blend" "an ancestor without a blend" organ-transplant --base "$T/a.gguf" \
    --donor "$T/b.gguf" --ancestor "$T/anc.gguf" --output "$T/no.gguf"
check_error 2 "--ancestor needs --blend" "the same, organ-graft" organ-graft --source "$T/b.gguf" \
    --target "$T/a.gguf" --ancestor "$T/anc.gguf" --output "$T/no"
check_error 2 "--scale needs --adapter" "a scale without an adapter" organ-graft --source "$T/b.gguf" \
    --target "$T/a.gguf" --scale 0.5 --output "$T/no"
check "an ancestor that linear does not need" organ-transplant --base "$T/a.gguf" --donor "$T/b.gguf" \
    --blend linear:0.5 --ancestor "$T/less.gguf" --output "$T/c.gguf"
rm -f "$T/c.gguf"
check_absent "$T/c.gguf" "refused blends"

# ---- LoRA ------------------------------------------------------------------------------------------
# lora OUT.gguf ALPHA ARCHITECTURE TENSOR...
lora() {
    out=$1 alpha=$2 arch=$3
    shift 3
    mkmodel "$T/plain.gguf" -s 5 "$@"
    rm -rf "$T/ad" "$out"
    organ-extract "$T/plain.gguf" --output "$T/ad"
    sed -e 's/^  "metadata": \[/&\
    {"key": "general.type", "type": "str", "value": "adapter"},\
    {"key": "adapter.type", "type": "str", "value": "lora"},\
    {"key": "adapter.lora.alpha", "type": "f32", "value": '"$alpha"'},/' \
        -e "s/\"value\": \"llama\"/\"value\": \"$arch\"/;s/\"architecture\": \"llama\"/\"architecture\": \"$arch\"/" \
        "$T/ad/manifest.json" > "$T/ad.json"
    mv "$T/ad.json" "$T/ad/manifest.json"
    organ-assemble "$T/ad" --output "$out" || bad "adapter $out"
}
PAIR="blk.1.attn_q.weight.lora_a:F32:32x4 blk.1.attn_q.weight.lora_b:F32:4x8"
# shellcheck disable=SC2086
lora "$T/lora.gguf" 8 llama $PAIR
check "list an adapter" organ-extract "$T/lora.gguf" --list
check_text "$(awk -F "$TAB" "$BY_NAME"'col("class") == "adapter"' "$T/out" | wc -l |
    tr -d ' ')" 2 "its class is adapter"
organ-extract "$T/lora.gguf" --output "$T/lora.d" || bad "extract an adapter"
if [ -e "$T/lora.d/adapters" ]; then ok; else bad "no adapters/"; fi
floats "$T/lora.gguf" blk.1.attn_q.weight.lora_a > "$T/la"
floats "$T/lora.gguf" blk.1.attn_q.weight.lora_b > "$T/lb"
folded() { # WHAT FACTOR: W + FACTOR B A, a row of W for a row of B
    awk -v f="$2" 'FILENAME ~ /la$/ { A[na++] = $1; next } FILENAME ~ /lb$/ { B[nb++] = $1; next }
        { o = int(nw / 32); i = nw++ % 32; s = 0; for (k = 0; k < 4; k++) s += B[o * 4 + k] * A[k * 32 + i];
            printf "%.9g\n", $1 + f * s }' \
        "$T/la" "$T/lb" "$T/a1" > "$T/want"
    floats "$T/f" blk.1.attn_q.weight > "$T/got"
    near "$1"
}
fold() {
    rm -rf "$T/f"
    organ-graft --target "$T/a.gguf" --output "$T/f" "$@"
}
check "fold" fold --adapter "$T/lora.gguf"
folded "scale 1" 2
check_text "$(sed -n 's/^ *{"name": "blk.1.attn_q.weight".*"history": \(.*\)},*$/\1/p' "$T/f/manifest.json")" \
    "[{\"op\": \"adapter\", \"from\": \"$T/lora.gguf\", \"scale\": 1}]" "history of a fold"
for i in 0 2; do
    floats "$T/f" blk.$i.attn_q.weight > "$T/got"
    check_same "$T/got" "$T/a$i" "block $i has no adapter and stays"
done
check "fold from a directory, --scale" fold --adapter "$T/lora.d" --scale -0.5
folded "scale -0.5" -1
check "fold from a pipe" sh -c \
    "rm -rf '$T/f'; organ-graft --adapter - --target '$T/a.gguf' --output '$T/f' < '$T/lora.gguf'"
folded "from a pipe" 2
check "scale 0" fold --adapter "$T/lora.gguf" --scale 0
floats "$T/f" blk.1.attn_q.weight > "$T/got"
check_same "$T/got" "$T/a1" "scale 0 changes no value"
check "assemble" organ-assemble "$T/f" --output "$T/c.gguf"
mkmodel "$T/scaled.gguf" blk.1.attn_q.weight:F32:32x8 blk.1.attn_q.scale:F32:1
rm -rf "$T/f"
check_error 3 "scaled by blk.1.attn_q.scale" "values with a scale of their own" organ-graft --adapter "$T/lora.gguf" \
    --target "$T/scaled.gguf" --output "$T/f"
check_absent "$T/f" "values with a scale of their own"
# Stacks of experts, on their stack and taken apart: the same model; of a directory with
# fewer experts, those that are left.
mkmodel "$T/moe.gguf" blk.0.ffn_gate_inp.weight:F32:32x3 blk.0.ffn_up_exps.weight:F32:32x8x3 \
    blk.0.ffn_down_exps.weight:F16:8x32x3
UP="blk.0.ffn_up_exps.weight.lora_a:F32:32x5x3 blk.0.ffn_up_exps.weight.lora_b:F16:5x8x3"
DOWN="blk.0.ffn_down_exps.weight.lora_a:F16:8x2x3 blk.0.ffn_down_exps.weight.lora_b:F32:2x32x3"
# shellcheck disable=SC2086
{
    lora "$T/experts.gguf" 8 llama $UP $DOWN blk.0.ffn_gate_inp.weight.lora_a:F32:32x1 \
        blk.0.ffn_gate_inp.weight.lora_b:F32:1x3
    lora "$T/many.gguf" 8 llama blk.0.ffn_up_exps.weight.lora_a:F32:32x5x2 blk.0.ffn_up_exps.weight.lora_b:F16:5x8x2
    lora "$T/flat.gguf" 8 llama blk.0.ffn_up.1.weight.lora_a:F32:32x5 blk.0.ffn_up.1.weight.lora_b:F32:5x8
}
organ-extract "$T/moe.gguf" --split-experts --output "$T/moe.d" || bad "split"
rm -rf "$T/f"
check "experts: fold into stacks" organ-graft --adapter "$T/experts.gguf" --target "$T/moe.gguf" --output "$T/f"
check "experts: assemble" organ-assemble "$T/f" --output "$T/stacked.gguf"
if cmp -s "$T/stacked.gguf" "$T/moe.gguf"; then bad "the fold changed nothing"; else ok; fi
rm -rf "$T/f"
check "experts: fold into experts" organ-graft --adapter "$T/experts.gguf" --target "$T/moe.d" --output "$T/f"
check_text "$(grep -c '"op": "adapter"' "$T/f/manifest.json")" 7 "six experts and the router"
check "experts: assemble" organ-assemble "$T/f" --output "$T/c.gguf" --force
check_same "$T/c.gguf" "$T/stacked.gguf" "stacks and experts give the same model"
sed '/"blk.0.ffn_[a-z]*.1.weight"/d' "$T/moe.d/manifest.json" > "$T/fewer.json"
cp "$T/moe.d/manifest.json" "$T/all.json"
cp "$T/fewer.json" "$T/moe.d/manifest.json"
rm -rf "$T/f2"
check "fewer experts" organ-graft --adapter "$T/experts.gguf" --target "$T/moe.d" --output "$T/f2"
check_same "$T/f2/organs/blk_0_ffn_up_2.bin" "$T/f/organs/blk_0_ffn_up_2.bin" "fewer experts: each has its own part"
cp "$T/all.json" "$T/moe.d/manifest.json"
rm -rf "$T/f"
check_error 3 "blk.0.ffn_up_exps.weight.lora_a" "an adapter of fewer experts, stacks" organ-graft \
    --adapter "$T/many.gguf" --target "$T/moe.gguf" --output "$T/f"
check_error 3 "blk.0.ffn_up_exps.weight.lora_a" "an adapter of fewer experts, experts" organ-graft \
    --adapter "$T/many.gguf" --target "$T/moe.d" --output "$T/f"
check_absent "$T/f" "an adapter of fewer experts"
check "a pair of one expert" organ-graft --adapter "$T/flat.gguf" --target "$T/moe.d" --output "$T/f"
check_text "$(grep -c '"op": "adapter"' "$T/f/manifest.json")" 1 "a pair of one expert"
rm -rf "$T/f"
# shellcheck disable=SC2086
{
    lora "$T/arch.gguf" 8 qwen2 $PAIR
    lora "$T/half.gguf" 8 llama ${PAIR% *}
    lora "$T/where.gguf" 8 llama blk.9.attn_q.weight.lora_a:F32:32x4 blk.9.attn_q.weight.lora_b:F32:4x8
    lora "$T/shape.gguf" 8 llama blk.1.attn_q.weight.lora_a:F32:32x4 blk.1.attn_q.weight.lora_b:F32:4x9
}
rm -rf "$T/f"
check_error 3 "architecture" "an adapter of another architecture" fold --adapter "$T/arch.gguf"
check_error 3 "blk.1.attn_q.weight.lora_a" "half a pair" fold --adapter "$T/half.gguf"
check_error 3 "blk.9.attn_q.weight.lora" "no target" fold --adapter "$T/where.gguf"
check_error 3 "shape" "another shape" fold --adapter "$T/shape.gguf"
organ-extract "$T/a.gguf" --output "$T/base.d" || bad "extract"
tamper() { # DIR FILE: a byte of its data
    rm -rf "$T/odd"
    cp -R "$1" "$T/odd"
    size=$(wc -c < "$1/$2")
    printf z | dd of="$T/odd/$2" bs=1 seek=$((size - 7)) conv=notrunc 2> /dev/null
}
for half in a b; do
    tamper "$T/lora.d" "adapters/blk_1_attn_q_weight_lora_$half.bin"
    check_error 3 "sha256" "a tampered adapter: $half" fold --adapter "$T/odd"
done
tamper "$T/base.d" skeleton/blk_1_attn_q.bin
rm -rf "$T/f"
check_error 3 "blk.1.attn_q.weight" "a tampered base" organ-graft --adapter "$T/lora.gguf" --target "$T/odd" \
    --output "$T/f"
organ-extract "$T/experts.gguf" --output "$T/experts.d" || bad "extract"
tamper "$T/experts.d" adapters/blk_0_ffn_up_exps_weight_lora_a.bin
check_error 3 "sha256" "a tampered adapter of experts" organ-graft --adapter "$T/odd" --target "$T/moe.gguf" \
    --output "$T/f"
check_error 3 "sha256" "a tampered adapter of experts, taken apart" organ-graft --adapter "$T/odd" \
    --target "$T/moe.d" --output "$T/f"
check_exit 3 "a model instead of an adapter" fold --adapter "$T/b.gguf"
check_exit 2 "--adapter with a selection" fold --adapter "$T/lora.gguf" --layers 1
check_error 2 "only one --adapter" "two adapters at once" fold --adapter "$T/lora.gguf" --adapter "$T/lora.gguf"
check_exit 2 "--scale without a number" fold --adapter "$T/lora.gguf" --scale x
check_absent "$T/f" "refused adapters"

# ---- in place -----------------------------------------------------------------------------------------
in_place() { # WHAT DONOR ARGUMENT...: as with --output, and undone to the byte
    name=$1 donor=$2
    shift 2
    rm -f "$T/undo" "$T/want.gguf"
    cp "$VERSE" "$T/m.gguf"
    check "$name: with --output" organ-transplant --base "$VERSE" --donor "$donor" --output "$T/want.gguf" "$@"
    check "$name: in place" organ-transplant --base "$T/m.gguf" --donor "$donor" --in-place --undo "$T/undo" "$@"
    check_same "$T/m.gguf" "$T/want.gguf" "$name: in place as with --output"
    if cmp -s "$T/m.gguf" "$VERSE"; then bad "$name: nothing changed"; else ok; fi
    check "$name: undo" organ-transplant --base "$T/m.gguf" --donor "$T/undo" --in-place
    check_same "$T/m.gguf" "$VERSE" "$name: undone to the byte"
}
{ organ-extract "$CODE" --output "$T/code" && organ-assemble "$T/code" --dtype '*=f16' --output "$T/code16.gguf"; } \
    || bad "re-encode"
in_place "convert" "$T/code16.gguf" --type organ --match convert
in_place "blend" "$CODE" --type organ,skeleton --blend slerp:0.2..0.8
in_place "task" "$CODE" --layers 1-2 --blend task:0.7 --ancestor "$ANCESTOR"
in_place "a map" "$CODE" --map 0-1=2-3 --type organ
in_place "a blend with a map" "$CODE" --map 0=1,1=0 --type organ --blend linear:0.5
cp "$VERSE" "$T/m.gguf"
check_error 1 "its size would change, which is not possible in place" "retype in place" organ-transplant \
    --base "$T/m.gguf" --donor "$T/code16.gguf" --match retype --type organ --in-place --undo "$T/undo2"
check_exit 2 "keys in place" organ-transplant --base "$T/m.gguf" --donor "$CODE" --set-kv a=1 \
    --in-place --all --undo "$T/undo2"
check_exit 2 "the base as its own donor" organ-transplant --base "$T/m.gguf" --donor "$T/m.gguf" --map 0=1 \
    --in-place --undo "$T/undo2"
check_same "$T/m.gguf" "$VERSE" "refused in place: the base as it was"
check_absent "$T/undo2" "refused in place: no undo file"

# Killed while it writes: the undo file is there and whole, and brings the base back.
many() { # OUT SEED DTYPE
    # shellcheck disable=SC2046
    mkmodel "$1" -s "$2" $(i=0; while [ $i -lt 12 ]; do echo "blk.$i.ffn_up.weight:$3:1024x1024"; i=$((i + 1)); done)
}
many "$T/big.gguf" 1 Q5_K
many "$T/donor.gguf" 2 F32
hit=0
for delay in 0 0.01 0.03 0.06 0.1 changed; do
    cp "$T/big.gguf" "$T/m.gguf"
    rm -f "$T/undo"
    organ-transplant --base "$T/m.gguf" --donor "$T/donor.gguf" --match convert --in-place --all --undo "$T/undo" \
        -j 1 2> "$T/err" &
    pid=$!
    while [ ! -e "$T/undo" ] && kill -0 $pid 2> /dev/null; do sleep 0.01; done
    if [ $delay = changed ]; then
        while cmp -s "$T/m.gguf" "$T/big.gguf" && kill -0 $pid 2> /dev/null; do :; done
    else sleep $delay
    fi
    kill -s KILL $pid 2> /dev/null
    wait $pid 2> /dev/null
    if ! cmp -s "$T/m.gguf" "$T/big.gguf"; then hit=$((hit + 1)); fi
    check "restore after SIGKILL" organ-transplant --base "$T/m.gguf" --donor "$T/undo" --in-place
    check_same "$T/m.gguf" "$T/big.gguf" "killed ($delay): restored to the byte"
done
if [ $hit -gt 0 ]; then ok; else bad "no run was killed while it wrote"; fi
finish
