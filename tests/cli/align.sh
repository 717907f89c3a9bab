#!/bin/sh
# align.sh - units in another order: finding it (organ-compare --align), and undoing it before
# tensors move (--align of organ-transplant, organ-graft and organ-merge).
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
have permute || { bad "permute is not built"; finish; }
# Two blocks are enough; four only where blocks get other numbers.
FOUR=$LAB
LAB=$T/lab
mkdir $LAB
for m in base verse code stranger; do
    organ-stack -q --drop 2-3 $FOUR/lab-$m-q4_k_m.gguf --output $LAB/lab-$m-q4_k_m.gguf || bad "two blocks of $m"
done
BASE=$T/base.gguf VERSE=$T/verse.gguf
organ-assemble -q $LAB/lab-base-q4_k_m.gguf --dtype f16 --output $BASE || bad "base"
organ-assemble -q $LAB/lab-verse-q4_k_m.gguf --dtype f16 --output $VERSE || bad "verse"
STRANGER=$LAB/lab-stranger-q4_k_m.gguf

# recovered WANT: does the table in $T/out tell the order that permute applied?
recovered() {
    awk -F '\t' "$BY_NAME"'NR > 1 {
        b = col("block") == "-" ? -1 : col("block"); e = col("expert") == "-" ? -1 : col("expert")
        print col("kind") "\t" b "\t" e "\t" col("unit_b") "\t" col("unit") }' "$T/out" | sort > "$T/got"
    sort "$1" > "$T/want"
    check_same "$T/got" "$T/want" "$2"
}

# ---- a model and itself: nothing moves, not even between equal units
check "a model and itself" organ-compare $BASE $BASE --align --summary
check_text "$(awk -F '\t' \
    "$BY_NAME"'NR > 1 { n += col("units"); m += col("moved"); if (col("found") != "yes" ||
        col("cosine") < 0.9999) bad++ } END { print n, m, bad + 0 }' "$T/out")" \
    "1292 0 0" "nothing moves"
check "aligned with itself" organ-transplant --base $LAB/lab-base-q4_k_m.gguf --donor $LAB/lab-base-q4_k_m.gguf \
    --align --output "$T/x.gguf"
check_same "$T/x.gguf" $LAB/lab-base-q4_k_m.gguf "the identity, byte for byte"
check_text "$(cat "$T/err")" "" "no notes"
mkmodel "$T/zero.gguf" blk.0.ffn_gate.weight:F32:32x64 blk.0.ffn_up.weight:F32:32x64 blk.0.ffn_down.weight:F32:64x32
size=$(wc -c < "$T/zero.gguf")
{ head -c $((size - 8192)) "$T/zero.gguf"; head -c 8192 /dev/zero; } > "$T/equal.gguf"
check_exit 0 "units without a down column" organ-compare "$T/equal.gguf" "$T/equal.gguf" --align --summary
check_text "$(cells moved "$T/out" | sed 1d)" "0" "equal units stay in place"

# ---- all kinds at once
permute $VERSE "$T/p.gguf" ffn,heads,embedding > "$T/p.tsv" || bad "permute"
check "a permuted relative" organ-compare $BASE "$T/p.gguf" --align -j 1
recovered "$T/p.tsv" "every unit is recovered"
cp "$T/out" "$T/one"
check "with three threads" organ-compare $BASE "$T/p.gguf" --align -j 3
check_same "$T/out" "$T/one" "the same table for any -j"
organ-transplant -q --base $BASE --donor $VERSE --output "$T/plain.gguf"
check "all of it" organ-transplant --base $BASE --donor "$T/p.gguf" --align --output "$T/x.gguf" --force
check_same "$T/x.gguf" "$T/plain.gguf" "a graft of the permuted donor"
if one_line "$T/err" && grep -q "of 1292 units change places" "$T/err"; then ok; else bad "the note: $(cat \
    "$T/err")"; fi
organ-transplant -q --base $BASE --donor $VERSE --blend slerp:0.3..0.6 --type organ,skeleton --output "$T/plain.gguf" \
    --force
check "a blend" organ-transplant -q --base $BASE --donor "$T/p.gguf" --blend slerp:0.3..0.6 --type organ,skeleton \
    --align --output "$T/x.gguf" --force
check_same "$T/x.gguf" "$T/plain.gguf" "a blend with the permuted donor"
check "one matrix of three" organ-transplant -q --base $BASE --donor "$T/p.gguf" --tensors 'blk.1.ffn_down.weight' \
    --align --output "$T/x.gguf" --force
organ-transplant -q --base $BASE --donor $VERSE --tensors 'blk.1.ffn_down.weight' --output "$T/plain.gguf" --force
check_same "$T/x.gguf" "$T/plain.gguf" "a part of a layer"
cp $BASE "$T/in.gguf"
check "in place" organ-transplant -q --base "$T/in.gguf" --donor "$T/p.gguf" --tensors 'blk.1.ffn_down.weight' \
    --align --in-place --no-undo
check_same "$T/in.gguf" "$T/plain.gguf" "in place"
check "to a pipe" sh -c "organ-transplant -q --base $BASE --donor '$T/p.gguf' --tensors blk.1.ffn_down.weight \
    --align --output - > '$T/x.gguf'"
check_same "$T/x.gguf" "$T/plain.gguf" "to a pipe"
check "a task blend: the ancestor is aligned too" organ-transplant -q --base $BASE --donor $VERSE \
    --ancestor "$T/p.gguf" --blend task:0.5 --type organ --align --output "$T/x.gguf" --force
check "base + (donor - donor) / 2" sh -c "organ-compare '$T/x.gguf' $BASE; :"
check_text "$(cells max_abs "$T/out" | sort -u | tr '\n' ' ')" "0 max_abs " "the base's values"
check "a graft" organ-graft -q --base $BASE --donor "$T/p.gguf" --layers 1 --align --output "$T/g"
organ-graft -q --base $BASE --donor $VERSE --layers 1 --output "$T/h"
check "the same organs" organ-compare "$T/g" "$T/h"
check_text "$(grep -c '"op": "graft".*"aligned": true' "$T/g/manifest.json") $(grep -c '"aligned"' \
    "$T/h/manifest.json")" "9 0" "the history"
organ-extract -q "$T/p.gguf" --output "$T/dir"
check "a directory" organ-compare $BASE "$T/dir" --align --layers 1
check_text "$(cells block "$T/out" | sed 1d | sort -u | tr '\n' ' ')" "- 1 " "only the selected block"

# ---- noise and Q2_K
permute $VERSE "$T/n.gguf" ffn,heads 0.5 3 > "$T/n.tsv"
check "half as much noise" organ-compare $BASE "$T/n.gguf" --align
recovered "$T/n.tsv" "every unit under noise"
check "it was noise" sh -c "organ-compare $VERSE '$T/n.gguf' --type organ | grep -q 'differs.*0\.0'"
permute $VERSE "$T/f.gguf" ffn > "$T/f.tsv"
organ-assemble -q "$T/f.gguf" --dtype 'blk.*=q2_k' --output "$T/q2.gguf"
check "Q2_K" organ-compare $BASE "$T/q2.gguf" --align
recovered "$T/f.tsv" "every unit in Q2_K"

# ---- quantized donors: rows move as bytes, columns are encoded again
check "from Q2_K" organ-transplant --base $BASE --donor "$T/q2.gguf" --match retype --align --type organ \
    --output "$T/x.gguf" --force
if grep -q "2 quantized tensors are encoded again" "$T/err"; then ok; else bad "no note on encoding: $(cat \
    "$T/err")"; fi
organ-assemble -q $VERSE --dtype 'blk.*=q2_k' --output "$T/v2.gguf"
check_exit 1 "compared with what was not permuted" organ-compare "$T/x.gguf" "$T/v2.gguf" --type organ
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 { n[col("status")]++
    if (col("cosine") != 1 && col("name") ~ /gate|up/) n["moved"]++ }
    END { print n["identical"], n["dtype"], n["moved"] + 0 }' "$T/out")" "4 2 0" \
        "gate and up are moved, down is decoded"
check_error 1 "dtypes differ: base Q2_K, donor F32" "exact" organ-transplant --base "$T/v2.gguf" --donor "$T/q2.gguf" \
    --match exact --align -q --type organ --output "$T/y.gguf"

# Heads of 64 columns are two blocks of Q8_0, so nothing is encoded.
permute $VERSE "$T/h.gguf" heads 0 9 > /dev/null
for m in verse h base; do organ-assemble -q "$T/$m.gguf" --dtype 'blk.*=q8_0' --output "$T/$m-q8.gguf"; done
check "heads in Q8_0" organ-transplant --base "$T/base-q8.gguf" --donor "$T/h-q8.gguf" --match exact \
    --align --type skeleton --output "$T/x.gguf" --force
if grep -q "encoded again" "$T/err"; then bad "heads in Q8_0 were encoded"; else ok; fi
organ-transplant -q --base "$T/base-q8.gguf" --donor "$T/verse-q8.gguf" --type skeleton --output "$T/plain.gguf" \
    --force
check_same "$T/x.gguf" "$T/plain.gguf" "whole blocks move as bytes"

# ---- strangers
check_exit 1 "a stranger" organ-compare $BASE $STRANGER --align --summary
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 { m += col("moved"); if (col("found") != "no") bad++ } END {
    print m, bad + 0 }' "$T/out")" "0 0" \
    "nothing moves"
check_error 1 "3 of its 3 groups of hidden units have no counterpart" "its graft" organ-transplant \
    --base $LAB/lab-base-q4_k_m.gguf --donor $STRANGER --align --type organ --output "$T/y.gguf"
if grep -q -e "--partial" "$T/err"; then ok; else bad "the option is not named: $(cat "$T/err")"; fi
check_error 1 "share no lineage" "its merge" organ-merge --method linear --align $BASE $STRANGER --output "$T/y.gguf"
check_absent "$T/y.gguf" "nothing is written"
check "its graft all the same" organ-transplant --base $LAB/lab-base-q4_k_m.gguf --donor $STRANGER --align --partial \
    --type organ --output "$T/x.gguf" --force
if grep -q "3 of 3 groups of units have no counterpart" "$T/err"; then ok; else bad "no note on strangers: $(cat \
    "$T/err")"; fi
organ-transplant -q --base $LAB/lab-base-q4_k_m.gguf --donor $STRANGER --type organ --output "$T/plain.gguf" --force
check_same "$T/x.gguf" "$T/plain.gguf" "as without --align"

# ---- stacks of experts: each expert has an order of its own
KEYS='{"key": "llama.attention.head_count", "type": "u32", "value": 4},
{"key": "llama.attention.head_count_kv", "type": "u32", "value": 2},
{"key": "llama.embedding_length", "type": "u32", "value": 64},'
made "$T/moe.gguf" "$KEYS" blk.0.ffn_gate_inp.weight:F32:64x3 blk.0.ffn_gate_exps.weight:F16:64x96x3 \
    blk.0.ffn_up_exps.weight:F16:64x96x3 blk.0.ffn_down_exps.weight:F16:96x64x3 \
    blk.1.attn_qkv.weight:F32:64x128 blk.1.attn_output.weight:F32:64x64 2> /dev/null
permute "$T/moe.gguf" "$T/pm.gguf" ffn > "$T/pm.tsv"
check "experts" organ-compare "$T/moe.gguf" "$T/pm.gguf" --align --type organ
grep -E '^ffn|^expert' "$T/pm.tsv" > "$T/pm.ffn"
recovered "$T/pm.ffn" "the units of each expert"
check "a graft of experts" organ-transplant -q --base "$T/moe.gguf" --donor "$T/pm.gguf" --align --output "$T/x.gguf" \
    --force
check_same "$T/x.gguf" "$T/moe.gguf" "the experts are those of the base again"

# ---- experts in another order, each with its row of the router
made "$T/five.gguf" "$KEYS" blk.0.ffn_gate_inp.weight:F32:64x5 blk.0.ffn_gate_inp.bias:F32:5 \
    blk.0.exp_probs_b.bias:F32:5 blk.0.ffn_gate_exps.weight:F16:64x96x5 blk.0.ffn_up_exps.weight:F16:64x96x5 \
    blk.0.ffn_down_exps.weight:F16:96x64x5 blk.1.ffn_gate_inp.weight:F32:64x5 \
    blk.1.ffn_gate_up_exps.weight:F16:64x192x5 blk.1.ffn_down_exps.weight:F16:96x64x5 \
    blk.1.ffn_down_exps.bias:F32:64x5 blk.1.attn_qkv.weight:F32:64x128 2> /dev/null
for what in experts experts,ffn; do
    permute "$T/five.gguf" "$T/pm.gguf" $what 0 4 > "$T/pm.tsv"
    check "$what" organ-compare "$T/five.gguf" "$T/pm.gguf" --align
    grep -E '^ffn|^expert' "$T/pm.tsv" > "$T/pm.ffn"
    recovered "$T/pm.ffn" "the order of $what"
    check "a graft of $what" organ-transplant -q --base "$T/five.gguf" --donor "$T/pm.gguf" --align \
        --output "$T/x.gguf" --force
    check_same "$T/x.gguf" "$T/five.gguf" "$what are in the order of the base again"
done
check "their lineage" organ-compare "$T/five.gguf" "$T/pm.gguf" --lineage
check_text "$(cells verdict "$T/out" | sed 1d)" "same lineage, permuted (experts, FFN units)" "the verdict"
order=$(awk '$1 == "expert" && $2 == 0 { at[$5] = $4 } END { for (e = 0; e < 5; e++) printf "%s%s",
    e ? ", " : "", at[e] }' "$T/pm.tsv")
if grep -qF "block 0 of A has experts $order of B" "$T/err"; then ok; else bad "the order, $order: $(cat "$T/err")"; fi
organ-keys -q "$T/five.gguf" --set llama.expert_count=u32:5 --output "$T/five-keys.gguf" 2> "$T/err" ||
    bad "a key: $(cat "$T/err")"
permute "$T/five-keys.gguf" "$T/relative.gguf" none 0.3 > "$T/none"
permute "$T/relative.gguf" "$T/pr.gguf" experts,ffn 0 4 > "$T/none"
organ-merge -q --method linear "$T/five-keys.gguf" "$T/relative.gguf" --no-hash --output "$T/plain.gguf" --force
check "a merge of permuted experts" organ-merge --method linear "$T/five-keys.gguf" "$T/pr.gguf" --no-hash --align \
    --output "$T/x.gguf" --force
check "its tensors" organ-compare "$T/x.gguf" "$T/plain.gguf" --type organ,skeleton
permute "$T/relative.gguf" "$T/pr.gguf" experts 0 4 > "$T/none"
check "without --align" organ-merge --method linear "$T/five-keys.gguf" "$T/pr.gguf" --no-hash --check
if grep -q "experts have changed places" "$T/err"; then ok; else bad "permuted experts are merged silently"; fi
check "in place" organ-merge --method linear "$T/five-keys.gguf" "$T/relative.gguf" --no-hash --check
if grep -q "changed places" "$T/err"; then bad "a false note: $(cat "$T/err")"; else ok; fi
noted() { # WANT WHAT TOOL ARGUMENT...: the number of notes on changed places
    notes=$1 what=$2
    shift 2
    check "$what" "$@"
    check_text "$(grep -c "experts have changed places" "$T/err")" "$notes" "$what: notes"
}
five() { # WANT DONOR WHAT OPTION...
    notes=$1 donor=$2 what=$3
    shift 3
    noted "$notes" "$what" organ-transplant "$T/five-keys.gguf" "$T/$donor" "$@" --output "$T/x.gguf" --force
}
five 1 pr.gguf "a blend" --blend linear:0.5
five 0 relative.gguf "a blend of experts in place" --blend linear:0.5
five 0 pr.gguf "a blend of attention" --blend linear:0.5 --type skeleton
five 1 pr.gguf "experts without their router" --tensors '*_exps.*'
five 1 pr.gguf "down projections alone" --tensors 'blk.1.ffn_down_exps.*'
five 0 pr.gguf "whole blocks" --layers 0
five 0 pr.gguf "a blend, aligned" --blend linear:0.5 --align -q
noted 1 "a graft" organ-graft "$T/five-keys.gguf" "$T/pr.gguf" --tensors '*_exps.*' --output "$T/x.organs" --force
cp "$T/five-keys.gguf" "$T/x.gguf"
noted 1 "experts in place" organ-transplant "$T/x.gguf" "$T/pr.gguf" --blend linear:0.5 \
    --all --in-place --undo "$T/undo"
made "$T/six.gguf" "$KEYS" blk.0.ffn_gate_inp.weight:F32:64x6 blk.0.ffn_down_exps.weight:F16:96x64x6 2> /dev/null
check_exit 1 "other numbers of experts" organ-compare "$T/five.gguf" "$T/six.gguf" --align --summary
check_text "$(sed 1d "$T/out" | wc -l | tr -d ' ')" 0 "are left alone"

# ---- merges
permute $LAB/lab-base-q4_k_m.gguf /dev/null none > /dev/null 2>&1 && bad "permute took Q4_K"
organ-merge -q --method slerp,t=0.4 --base $BASE --model $VERSE --no-hash --output "$T/plain.gguf" --force
check "a merge" organ-merge --method slerp,t=0.4 --base $BASE --model "$T/p.gguf" \
    --no-hash --align --output "$T/x.gguf" --force
if grep -q "units change places" "$T/err" && [ "$(wc -l < "$T/err")" = 1 ]; then ok; else \
    bad "notes of a merge: $(cat "$T/err")"; fi
check "the same tensors" sh -c "organ-compare '$T/x.gguf' '$T/plain.gguf' --type organ,skeleton,embed,norm"
check "a key records it" organ-keys "$T/x.gguf" --get organ.merge.aligned
check_text "$(cat "$T/out")" "true" "organ.merge.aligned"
check "without --align" organ-merge --method slerp,t=0.4 --base $BASE --model "$T/p.gguf" --no-hash --check
if grep -q "hidden units or experts have changed places" "$T/err"; then ok
else bad "no note on the order: $(cat "$T/err")"; fi
check_error 1 "(--align)" "with --strict" organ-merge -q --strict --method slerp,t=0.4 --base $BASE \
    --model "$T/p.gguf" --output "$T/y.gguf"
check "a graft of some layers" organ-transplant --base $BASE --donor "$T/p.gguf" --type organ --output "$T/x.gguf" \
    --force
if grep -q "hidden units or experts have changed places" "$T/err"; then ok; else bad "no note: $(cat "$T/err")"; fi

# ---- lineage: permuted relatives, and blocks with other numbers
lineage() { # WANT EXIT A B: the verdict and the map
    organ-compare "$3" "$4" --lineage > "$T/out" 2> "$T/err"
    check_text "$? $(cells verdict,map "$T/out" | sed 1d | tr '\t' '|')" "$2 $1" "lineage of $3 and $4"
}
permute $VERSE "$T/e.gguf" embedding > /dev/null
lineage "same lineage, permuted (FFN units, heads, embedding)|-" 0 $BASE "$T/p.gguf"
if grep -q "needs --align" "$T/err"; then ok; else bad "no advice: $(cat "$T/err")"; fi
lineage "same lineage, permuted (FFN units)|-" 0 $BASE "$T/q2.gguf"
lineage "same lineage, permuted (heads)|-" 0 "$T/h.gguf" $BASE
lineage "same lineage, permuted (embedding)|-" 0 $BASE "$T/e.gguf"
permute $VERSE "$T/h7.gguf" heads 0 23 > /dev/null # all heads of a block
lineage "same lineage, permuted (heads)|-" 0 $BASE "$T/h7.gguf"
lineage "same lineage, permuted (FFN units, heads)|-" 0 "$T/n.gguf" $LAB/lab-code-q4_k_m.gguf
lineage "strangers|-" 1 $STRANGER "$T/p.gguf"
lineage "strangers|-" 1 $STRANGER $BASE
lineage "same lineage|-" 0 $BASE $LAB/lab-code-q4_k_m.gguf
BASE=$FOUR/lab-base-q4_k_m.gguf VERSE=$FOUR/lab-verse-q4_k_m.gguf
organ-stack -q --output "$T/short.gguf" --drop 1 $VERSE 2> /dev/null
organ-stack -q --output "$T/deep.gguf" $VERSE 0-2,2-3 2> /dev/null
organ-stack -q --output "$T/other.gguf" $FOUR/lab-stranger-q4_k_m.gguf 0-2 2> /dev/null
lineage "same lineage|0=0,2-3=1-2" 0 $BASE "$T/short.gguf"
if grep -qF "blocks 0, 2-3 of A match 0-2 of B: --map 0=0,2-3=1-2" "$T/err"; then ok; else \
    bad "the map in words: $(cat "$T/err")"; fi
lineage "same lineage|0=0,1-2=2-3" 0 "$T/short.gguf" $BASE
if grep -qF "blocks 0-2 of A match 0, 2-3 of B:" "$T/err"; then ok; else bad "the map in words: $(cat "$T/err")"; fi
lineage "same lineage|0-2=0-2,3=4" 0 $BASE "$T/deep.gguf"
# A block that corresponds to two, with units in another order.
organ-assemble -q $VERSE --dtype '*=f16' --output "$T/wide.gguf" 2> /dev/null
permute "$T/wide.gguf" "$T/wide-p.gguf" ffn > /dev/null
lineage "same lineage, permuted (FFN units)|0-2=0-2,3-4=2-3" 0 "$T/deep.gguf" "$T/wide-p.gguf"
lineage "strangers|-" 1 $BASE "$T/other.gguf"
check "the map is that of --map" organ-transplant -q --base $BASE --donor "$T/short.gguf" --map 0=0,2-3=1-2 \
    --type organ --output "$T/x.gguf" --force
organ-transplant -q --base $BASE --donor $VERSE --layers 0,2-3 --type organ --output "$T/plain.gguf" --force
check_same "$T/x.gguf" "$T/plain.gguf" "a graft by the map"
check_exit 1 "with one thread" organ-compare $STRANGER "$T/p.gguf" --lineage -j 1
cp "$T/out" "$T/one"
check_exit 1 "with three" organ-compare $STRANGER "$T/p.gguf" --lineage -j 3
check_same "$T/out" "$T/one" "the same verdict for any -j"

# ---- what cannot be aligned
check_error 2 "this is a pipe" "a pipe" sh -c "organ-compare $BASE - --align < $BASE"
check_error 2 "donor block 0 twice" "a block with two orders" organ-transplant --base $BASE --donor "$T/p.gguf" \
    --map 1=0,2=0 --align --output "$T/y.gguf"
check_error 2 "--align can only be combined" "--lineage" organ-compare $BASE $VERSE --align --lineage
check_error 2 "--adapter cannot be combined" "an adapter" organ-transplant --base $BASE \
    --adapter $FOUR/lab-lora-code.gguf --align --output "$T/y.gguf"
check_absent "$T/y.gguf" "nothing is written"

finish
