#!/bin/sh
# size.sh - organ-assemble --size and --bpw: the file is as small as asked and nearly as large, the
# plan is what is written, and its rules give the same model. Tables of losses steer the choice.
. "$(dirname "$0")/lib.sh"
have mkmodel || { bad "mkmodel is not built"; finish; }

Q8=$(verse_q8)
IM=$LAB/lab-verse.imatrix.gguf
# Without IQ types, which are slow to encode.
TYPES=q2_k,q3_k,q4_k,q6_k

size() {
    out=$1
    shift
    organ-assemble "$Q8" -q -o "$T/$out" --force --types $TYPES "$@"
}
bytes() { wc -c < "$1" | tr -d ' '; }
# total COLUMN FILE: its sum.
total() { awk -F '\t' -v c="$1" 'NR > 1 { s += $c } END { printf "%.6g", s }' "$2"; }

# Without a size, a dry run shows types and files.
organ-assemble "$Q8" -q --dtype q4_k_s,output.weight=keep -o "$T/p.gguf" --shards 3
for with in "--shards 3 --dtype q4_k_s,output.weight=keep -o $T/none.gguf" \
    "--shards 3 --dtype output.weight=keep,q4_k_s"; do
    check "dry run: $with" organ-assemble "$Q8" $with --dry-run
    check_text "$(head -n 1 "$T/out" | tr '\t' ' ')" "tensor type bytes from file wanted" "columns without a size"
    check_text "$(cells tensor,type,bytes "$T/out" | sed 1d)" \
        "$(organ-extract -q "$T/p-00001-of-00003.gguf" --list | cells name,dtype,bytes | sed 1d)" \
        "types as written, $with"
    check_text "$(cells from "$T/out" | sort | uniq -c | tr -s ' ' | tr '\n' ' ')" " 9 F32  30 Q8_0  1 from " \
        "types in the source"
    check_text "$(cells file "$T/out" | sed 1d | sed 's/.*-\(0000.-of\)/\1/' | uniq | tr '\n' ' ')" \
        "00001-of-00003.gguf 00002-of-00003.gguf 00003-of-00003.gguf " "files"
    check_text "$(cat "$T/p"-0000?-of-00003.gguf | wc -c | tr -d ' ')" "$(sed \
        -n 's/.*: \([0-9]*\) bytes in 3 files would be written/\1/p' "$T/err")" "bytes"
done
check_absent "$T/none-00001-of-00003.gguf" "a dry run of shards"
check "JSON of a dry run" organ-assemble "$Q8" -q --shards 2 --dry-run --json
check_text "$(sed -n '40p;1p' "$T/out" | cut -c 1-75)" \
    '{"tensor": "token_embd.weight", "type": "Q8_0", "bytes": 278528, "from": "Q' "one object per tensor"
# The types of another model, which is never replaced.
like=$LAB/lab-verse-q4_k_m.gguf
check "like:MODEL" organ-assemble "$Q8" --dtype "like:$like" -o "$T/like.gguf"
check_text "$(organ-extract -q "$T/like.gguf" --list | cells name,dtype)" "$(organ-extract -q "$like" --list |
    cells name,dtype)" \
    "its types"
check "rules before like:MODEL" organ-assemble "$Q8" -q --dtype "blk.0.*=keep,like:$like" -o "$T/like.gguf" --force
check_text "$(organ-extract -q "$T/like.gguf" --layers 0-1 --tensors '*attn_k.weight' --list |
    cells dtype | sed 1d | tr '\n' ' ')" "Q8_0 Q4_K " "a rule and its types"
cp "$like" "$T/like.gguf"
check_error 2 "also an input" "like the output" organ-assemble "$Q8" --dtype "like:$T/like.gguf" -o "$T/like.gguf" \
    --force
check_same "$like" "$T/like.gguf" "the model with the types stays"
check_exit 4 "like nothing" organ-assemble "$Q8" --dtype "like:$T/nowhere" -o "$T/none.gguf"
check "an adapter has other names" organ-assemble "$Q8" --dtype "like:$LAB/lab-lora-code.gguf,*=q8_0" -o "$T/none.gguf"
check_text "$(grep -c "no tensor matches '" "$T/err") $(grep -c 'more rules match no tensor' "$T/err")" "8 1" \
    "few notes about rules without tensors"

check "a plan" organ-assemble "$Q8" --size 1300000 --types $TYPES --imatrix "$IM" --dry-run --rules "$T/rules"
cp "$T/out" "$T/plan"
check_text "$(head -n 1 "$T/plan" | tr '\t' ' ')" "tensor type bytes error loss share basis" "columns"
check_text "$(($(wc -l < "$T/plan")))" 40 "a row per tensor"
check_text "$(total 6 "$T/plan")" 1 "shares"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 { n[col("basis")]++ } END {
    print n["guess"], n["-"] }' "$T/plan")" "30 9" "basis"
check_text "$(sed 's/=.*//' "$T/rules" | wc -l | tr -d ' ')" 30 "rules"
if grep -q 'of at most 1300000.*guess' "$T/err"; then ok; else bad "the plan does not say that it is a guess: $(cat \
    "$T/err")"; fi
check_absent "$T/m.gguf" "a dry run writes nothing"

check "the model" size m.gguf --size 1300000 --imatrix "$IM"
n=$(bytes "$T/m.gguf")
if [ "$n" -le 1300000 ] && [ "$n" -gt 1285000 ]; then ok; else bad "$n bytes for 1300000"; fi
check_text "$(organ-extract "$T/m.gguf" --list | cells name,dtype,bytes | sed 1d)" \
    "$(cells tensor,type,bytes "$T/plan" | sed 1d)" "the model is as planned"
size one.gguf --size 1300000 --imatrix "$IM" -j 1
check_same "$T/m.gguf" "$T/one.gguf" "-j 1"
for rules in rules $(more plan); do
    organ-assemble "$Q8" -q -o "$T/again.gguf" --force --imatrix "$IM" --dtype "@$T/$rules"
    check_same "$T/m.gguf" "$T/again.gguf" "the same with --dtype @$rules"
done
if exhaustive; then
    organ-extract -q "$Q8" --output "$T/d"
    organ-assemble "$T/d" -q -o "$T/dir.gguf" --types $TYPES --size 1300000 --imatrix "$IM"
    check_same "$T/m.gguf" "$T/dir.gguf" "from an organ directory"
fi
check "to a pipe" sh -c \
    "organ-assemble '$Q8' -q -o - --types $TYPES --size 1300000 --imatrix '$IM' | cmp - '$T/m.gguf'"
if have jq "JSON read by jq"; then
    organ-assemble "$Q8" -q --size 1300000 --types $TYPES --imatrix "$IM" --dry-run --json > "$T/json"
    check_text "$(jq -r '[.tensor, .type, (.bytes | tostring)] | join("\t")' "$T/json")" "$(tail -n +2 "$T/plan" \
        | cut -f 1-3)" "--json"
fi

# A guess gives more bits to tensors that matter more: the output, block 0.
bits() { organ-extract "$1" --tensors "$2" --list |
    awk -F '\t' "$BY_NAME"'NR == 2 { printf "%d", 1000 * col("bytes") / col("elements") }'; }
if [ "$(bits "$T/m.gguf" output.weight)" -gt "$(bits "$T/m.gguf" blk.2.attn_q.weight)" ] &&
    [ "$(bits "$T/m.gguf" blk.0.attn_v.weight)" -gt "$(bits "$T/m.gguf" blk.1.attn_v.weight)" ]; then ok; else \
        bad "the guess prefers the wrong tensors"; fi

# More room: less loss. Types given by rules stay; --bpw counts the bits of the whole file.
last=
for s in 1.5M $(more 1700K) 2MB; do
    organ-assemble "$Q8" -q --size $s --types $TYPES --dry-run --dtype 'output.weight=q5_k,blk.3.*=keep,*_norm*=q8_0' \
        > "$T/p"
    loss=$(total 5 "$T/p")
    [ -z "$last" ] || if awk -v a="$loss" -v b="$last" 'BEGIN { exit !(a < b) }'; then ok; else \
        bad "--size $s: loss $loss after $last"; fi
    last=$loss
done
check_text "$(grep -c "$TAB"F32 "$T/p")" 9 "norms keep their type"
check_text "$(awk -F '\t' "$BY_NAME"'col("tensor") == "output.weight" { print col("type") }
    col("tensor") ~ /^blk.3.*(attn_[qkvo]|ffn_[gud])/ && col("type") == "Q8_0" { n++ }
    END { print n }' "$T/p" | tr '\n' ' ')" "Q5_K 7 " "fixed types"
size bpw.gguf --bpw 4.5
n=$(bytes "$T/bpw.gguf")
w=$(organ-extract "$Q8" --list | awk -F '\t' "$BY_NAME"'NR > 1 { n += col("elements") } END { print n }')
if awk -v n="$n" -v w="$w" 'BEGIN { b = 8 * n / w; exit !(b <= 4.5 && b > 4.4) }'; then ok; else \
    bad "$n bytes of $w weights for --bpw 4.5"; fi
check "in shards" size s.gguf --size 1500000 --shards 2
n=$(cat "$T"/s-0000?-of-00002.gguf | wc -c)
if [ "$n" -le 1500000 ] && [ "$n" -gt 1480000 ]; then ok; else bad "$n bytes in shards"; fi
check "keep" organ-assemble "$Q8" -q --types keep,q4_k --size 3M --dry-run
check_text "$(awk -F '\t' "$BY_NAME"'col("type") == "Q8_0"' "$T/out" | wc -l |
    tr -d ' ')" 30 "everything keeps its type if there is room"

# A table of losses: the plan follows it, between types by the error, and says so.
{
    printf 'tensor\ttype\tloss\n'
    for b in 0 1 2 3; do
        for r in attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down; do
            case $b$r in 2attn_q) loss=9 ;; *) loss=0.001 ;; esac
            printf 'blk.%s.%s.weight\tQ2_K\t%s\n' $b $r $loss
        done
    done
    printf 'output.weight\tq2_k\t0.5\ntoken_embd.weight\tq2_k\t0.5\nother.weight\tq2_k\t1\n'
} > "$T/losses"
organ-assemble "$Q8" --size 1300000 --types $TYPES --dry-run --sensitivity "$T/losses" > "$T/p" 2> "$T/err"
check_text "$(awk -F '\t' "$BY_NAME"'col("tensor") == "blk.2.attn_q.weight" {
    print col("type"), col("basis") } col("type") == "Q2_K" { n++ } END { print (n > 10) }' \
    "$T/p" | tr '\n' ' ')" "Q4_K table 1 " "a tensor with a large loss"
if grep -q '1 losses in the table' "$T/err" && ! grep -q guess "$T/err"; then ok; else bad "notes with a table: $(cat \
    "$T/err")"; fi
sed '/^token/d; s/	9$/	0.001/' "$T/losses" > "$T/some"
organ-assemble "$Q8" --size 1300000 --types $TYPES --dry-run --sensitivity "$T/some" > "$T/p" 2> "$T/err"
check_text "$(awk -F '\t' "$BY_NAME"'col("tensor") == "token_embd.weight" {
    print col("basis") }' "$T/p")" "scaled guess" \
    "a tensor that the table lacks"

# Rows that fit only some types, and tensors that are not matrices.
mkmodel "$T/o.gguf" blk.0.attn_q.weight:F32:256x64 blk.0.ffn_down.weight:F32:96x64 blk.0.ffn_up.weight:F32:40x64 \
    blk.0.ffn_gate_inp.weight:F32:256x64 output_norm.weight:F32:256 blk.0.i.weight:I32:256x64
check "odd rows" organ-assemble "$T/o.gguf" -q --bpw 25 --dry-run
check_text "$(cells tensor,type "$T/out" | grep -v tensor | tr '\t\n' '  ')" \
    "$(printf '%s ' blk.0.attn_q.weight Q8_0 blk.0.ffn_down.weight Q8_0 blk.0.ffn_up.weight F16 \
        blk.0.ffn_gate_inp.weight F32 output_norm.weight F32 blk.0.i.weight I32)" "odd rows"

# Refused, with nothing written and nothing on stdout.
rm -f "$T/m.gguf"
try() { organ-assemble "$Q8" -o "$T/m.gguf" "$@"; }
check_error 1 "with the smallest types" "too small" try --size 500K --types $TYPES
check_error 2 "reads the model twice" "from a pipe" sh -c "organ-assemble - -o '$T/m.gguf' --size 1M < '$Q8'"
check_error 2 "--size" "a list of types alone" try --types q4_k
check_error 2 "--sensitivity needs" "a table alone" try --sensitivity "$T/losses"
check_error 2 "not both" "two sizes" try --size 1M --bpw 4
check_error 2 "--bpw" "no bits" try --bpw 0
check_error 2 "2.5G" "a broken size" try --size 4.5
check_error 2 "preset" "a preset" try --size 2M --dtype q4_k_m
check_error 2 "q4_x" "an unknown type" try --size 2M --types q4_k,q4_x
check_error 2 "--imatrix" "a type that needs an importance matrix" try --size 2M --types iq2_xxs
check_error 2 "line 2" "a broken table" sh -c "printf 'tensor\ttype\tloss\nx\ty\tz\n' > '$T/broken'; \
    organ-assemble '$Q8' -o '$T/m.gguf' --size 2M --sensitivity '$T/broken'"
check_error 4 "no-such" "no table" try --size 2M --sensitivity "$T/no-such"
check_error 2 "--report" "a report of a dry run" try --size 2M --dry-run --report "$T/r"
check_absent "$T/m.gguf" "nothing is written"
finish
