#!/bin/sh
# imatrix_tool.sh - organ-imatrix: sums of parts, both formats, statistics against their definition,
# and entries that follow blocks and experts of a restructured model; refusals.
. "$(dirname "$0")/lib.sh"
have mkmodel || { bad "mkmodel is not built"; finish; }
IM=$LAB/lab-verse.imatrix.gguf OLD=$LAB/lab-verse.imatrix.dat V=$LAB/lab-verse-q4_k_m.gguf
cell() { # FILE NAME COLUMN [EXPERT] of the table of show
    organ-imatrix show "$1" --experts | awk -F"$TAB" -v n="$2" -v c="$3" -v e="${4:--}" "$BY_NAME"'
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == c) at = i }
        col("name") == n && col("expert") == e { print $at }'
}
# The older format and GGUF.
check "to GGUF" organ-imatrix convert "$OLD" --chunk-size 190 -o "$T/v.gguf"
organ-compare "$T/v.gguf" "$IM" > "$T/compared"
check_text "$(awk -F"$TAB" "$BY_NAME"'NR > 1 && col("rel_l2") > 1e-6' "$T/compared")" "" "values of the converted file"
check_text "$(awk -F"$TAB" "$BY_NAME"'col("name") ~ /counts$/ && col("status") == "identical"' "$T/compared" | wc -l |
    tr -d ' ')" 29 \
    "counts of the converted file"
check "to the older format" organ-imatrix convert "$IM" -o "$T/v.dat"
check_text "$(wc -c < "$T/v.dat")" "$(wc -c < "$OLD")" "size of the older format"
organ-keys -q "$IM" --set 'imatrix.datasets=str[]:a.txt,b.txt,c.txt' -o "$T/texts.gguf"
organ-imatrix convert "$T/texts.gguf" -o "$T/texts.dat" 2> "$T/err"
check_text "$(grep -c "2 of the 3 names are left out" "$T/err")" 1 "names of texts in the older format"
check "and back" organ-imatrix convert "$T/v.dat" --chunk-size 190 -o "$T/back.gguf"
organ-compare "$T/back.gguf" "$IM" > "$T/compared"
check_text "$(awk -F"$TAB" "$BY_NAME"'NR > 1 && col("rel_l2") > 1e-6' "$T/compared")" "" "values after both ways"
check_text "$(organ-keys "$T/back.gguf" --get imatrix.chunk_count)" 36 "chunks"
check "an importance matrix of llama.cpp stays" organ-imatrix convert "$IM" -o "$T/same.gguf"
organ-compare "$T/same.gguf" "$IM" > "$T/compared"
check_text "$(awk -F"$TAB" "$BY_NAME"'NR > 1 && col("status") != "identical"' "$T/compared")" "" "tensors of a copy"
check "it is an importance matrix for the tools" organ-assemble -q "$(verse_q8)" \
    --dtype q2_k --imatrix "$T/v.gguf" -o "$T/q.gguf"
check_text "$(organ-check "$T/v.gguf" | awk -F"$TAB" "$BY_NAME"'col("rule") == "imatrix"')" "" "findings in it"

# Sums.
imatrix "$T/a.gguf" blk.0.ffn_up_exps.weight:4:1,2,0:10,20,0 blk.0.attn_q.weight:4:8:30
imatrix "$T/b.gguf" blk.0.ffn_up_exps.weight:4:0,4,8:0,5,25 blk.0.attn_q.weight:4:16:30 blk.1.attn_q.weight:4:1:30
check "the sum" organ-imatrix combine "$T/a.gguf" "$T/b.gguf" -o "$T/sum.gguf"
grep -q "1 tensor is in only some of the files" "$T/err" || bad "no note on a tensor of one file: $(cat "$T/err")"
for row in "0 10 1" "1 25 2.4" "2 25 3.2"; do
    # shellcheck disable=SC2086 # words
    set -- $row
    check_text "$(cell "$T/sum.gguf" blk.0.ffn_up_exps.weight count $1)" $2 "count of expert $1"
    check_text "$(cell "$T/sum.gguf" blk.0.ffn_up_exps.weight sum $1 | cut -c 1-3)" "$3" "sum of expert $1"
done
check_text "$(cell "$T/sum.gguf" blk.0.attn_q.weight sum)" 4 "sum of a matrix"
check_text "$(organ-keys "$T/sum.gguf" --get imatrix.chunk_count)" 6 "chunks of the sum"
check "combined with itself" organ-imatrix combine "$T/sum.gguf" "$T/sum.gguf" -o "$T/twice.gguf"
check_text "$(cell "$T/twice.gguf" blk.0.ffn_up_exps.weight share 1)" \
    "$(cell "$T/sum.gguf" blk.0.ffn_up_exps.weight share 1)" "shares stay"
organ-imatrix combine "$T/a.gguf" "$T/b.gguf" -q -o - > "$T/pipe.gguf"
check_same "$T/sum.gguf" "$T/pipe.gguf" "to stdout"
imatrix "$T/other.gguf" blk.0.attn_q.weight:8:1:30
check_error 1 "the files belong to different models" "another model" organ-imatrix \
    -q combine "$T/a.gguf" "$T/other.gguf" -o "$T/none.gguf"
check_absent "$T/none.gguf" "nothing is written"

# Statistics: of the columns 1 2 3 4 with 10 inputs, against their definition.
organ-imatrix show "$T/a.gguf" --experts | mathawk -F"$TAB" "$BY_NAME"'col("name") ~ /exps/ && col("expert") == 0 {
    for (j = 1; j <= 4; j++) { p = j / 10; h -= p * log(p) / log(2) }
    ok = col("count") == 10 && near(col("share"), 1 / 3) && near(col("sum"), 1) && near(col("min"), 0.1) &&
        near(col("max"), 0.4) && near(col("mean"), 0.25) &&
        near(col("std"), sqrt(0.0125)) && col("active") == 1 && near(col("entropy"), h) &&
            near(col("evenness"), h / 2) && col("outliers") == 0.25 && col("cosine") == "-" }
    function near(x, y) { return x - y < 1e-6 && y - x < 1e-6 }
    END { exit !ok }' && ok || bad "statistics: $(organ-imatrix show "$T/a.gguf" --experts)"
check_text "$(cell "$T/a.gguf" blk.0.ffn_up_exps.weight sum 2)" - "an expert without inputs has no statistics"
check_text "$(cell "$T/b.gguf" blk.1.attn_q.weight cosine)" 1 "cosine with the block before"
check_text "$(organ-imatrix --show "$T/a.gguf" | wc -l | tr -d ' ')" 3 "rows without experts"

# The older format does not state experts.
check "older, with experts" organ-imatrix convert "$T/sum.gguf" -o "$T/sum.dat"
check_error 2 "does not state how many experts" "experts without a model" organ-imatrix convert "$T/sum.dat" \
    -o "$T/none.gguf"
mkmodel "$T/moe.gguf" -s 5 -k llama.block_count=2 -k llama.expert_count=3 \
    -k llama.expert_used_count=1 token_embd.weight:F32:4x4 \
    blk.0.attn_q.weight:F32:4x4 blk.0.ffn_gate_inp.weight:F32:4x3 blk.0.ffn_up_exps.weight:F32:4x8x3 \
    blk.1.attn_q.weight:F32:4x4
check "experts with a model" organ-imatrix convert "$T/sum.dat" --model "$T/moe.gguf" -o "$T/again.gguf"
check_text "$(cell "$T/again.gguf" blk.0.ffn_up_exps.weight mean 1 | cut -c 1-8)" 0.599999 "means of an expert"
mkmodel "$T/wrong.gguf" token_embd.weight:F32:4x4 blk.0.ffn_up_exps.weight:F32:4x8x5
check_error 3 "computed for another model" "a model with other experts" organ-imatrix convert "$T/sum.dat" \
    --model "$T/wrong.gguf" -o "$T/none.gguf"

# Following a model: blocks that moved, experts that are left or came from another model.
check "fewer blocks" organ-stack -q --drop 1 "$V" -o "$T/stack.gguf"
check "its importance matrix" organ-imatrix follow "$T/stack.gguf" "$IM" "$V" -o "$T/stack.im.gguf"
check_text "$(cell "$T/stack.im.gguf" blk.1.ffn_down.weight sum)" "$(cell "$IM" blk.2.ffn_down.weight sum)" \
    "a block that moved"
check_text "$(cell "$T/stack.im.gguf" blk.0.attn_q.weight sum)" "$(cell "$IM" blk.0.attn_q.weight sum)" \
    "a block that stayed"
check_text "$(cell "$T/stack.im.gguf" blk.3.attn_q.weight sum)" "" "a block that is gone"
imatrix "$T/moe.im.gguf" blk.0.ffn_up_exps.weight:4:1,2,3:10,20,30 blk.0.ffn_gate_inp.weight:4:8:30 \
    blk.0.attn_q.weight:4:8:30
check "fewer experts" organ-assemble -q "$T/moe.gguf" --keep-experts 0,2 -o "$T/two.gguf"
check "their importance matrix" organ-imatrix follow "$T/two.gguf" "$T/moe.im.gguf" "$T/moe.gguf" -o "$T/two.im.gguf"
check_text "$(cell "$T/two.im.gguf" blk.0.ffn_up_exps.weight count 0) $(cell \
    "$T/two.im.gguf" blk.0.ffn_up_exps.weight count 1)" "10 30" "experts that are left"
check_text "$(cell "$T/two.im.gguf" blk.0.ffn_gate_inp.weight count)" 30 "the router, by its name"
mkmodel "$T/donor.gguf" -s 6 -k llama.block_count=2 -k llama.expert_count=3 \
    -k llama.expert_used_count=1 token_embd.weight:F32:4x4 \
    blk.0.attn_q.weight:F32:4x4 blk.0.ffn_gate_inp.weight:F32:4x3 blk.0.ffn_up_exps.weight:F32:4x8x3 \
    blk.1.attn_q.weight:F32:4x4
imatrix "$T/donor.im.gguf" blk.0.ffn_up_exps.weight:4:1,2,3:40,50,60
check "an expert of another model" organ-transplant -q "$T/moe.gguf" "$T/donor.gguf" --experts 0=2 -o "$T/mixed.gguf"
check "both importance matrices" organ-imatrix follow "$T/mixed.gguf" "$T/moe.im.gguf" \
    "$T/moe.gguf" "$T/donor.im.gguf" "$T/donor.gguf" -o "$T/mixed.im.gguf"
check_text "$(for e in 0 1 2; do cell "$T/mixed.im.gguf" blk.0.ffn_up_exps.weight count $e; done | tr '\n' ' ')" \
    "60 20 30 " "experts of two models"
check "single experts" organ-extract -q "$T/two.gguf" --split-experts -o "$T/split"
check "the entry of the stack for each" organ-imatrix follow "$T/split" "$T/moe.im.gguf" "$T/moe.gguf" \
    -o "$T/split.im.gguf"
check_text "$(cell "$T/split.im.gguf" blk.0.ffn_up.1.weight count)" 30 "a single expert"
mkmodel "$T/fused.gguf" token_embd.weight:F32:4x4 blk.0.attn_qkv.weight:F32:4x12
check "joined matrices, by name" organ-imatrix follow "$T/fused.gguf" "$T/moe.im.gguf" "$T/moe.gguf" \
    -o "$T/fused.im.gguf"
check_text "$(cell "$T/fused.im.gguf" blk.0.attn_qkv.weight sum)" "$(cell "$T/moe.im.gguf" blk.0.attn_q.weight sum)" \
    "the input of q, k and v"
if grep -q "found by name alone" "$T/err"; then ok; else bad "no note on a model with other data"; fi
check_error 1 "no entries" "a model without any" organ-imatrix -q follow "$LAB/lab-base-q4_k_m.gguf" \
    "$T/donor.im.gguf" "$T/donor.gguf" -o "$T/none.gguf"

# Usage.
check_error 2 "unknown action 'sum'" "an unknown action" organ-imatrix sum "$IM" -o "$T/none.gguf"
check_error 2 "no action given" "no action" organ-imatrix
check_error 2 "needs --output" "no output" organ-imatrix convert "$IM"
check_error 2 "one importance matrix at a time" "two files" organ-imatrix convert "$IM" "$IM" -o "$T/none.gguf"
check_error 2 "pairs" "a model without its importance matrix" organ-imatrix follow "$V" "$IM" -o "$T/none.gguf"
check_error 2 "also an input" "the input as output" organ-imatrix convert "$T/a.gguf" -o "$T/a.gguf" --force
check_error 2 "exists" "an existing output" organ-imatrix convert "$T/a.gguf" -o "$T/b.gguf"
check_error 2 "name a file" "the older format on stdout" organ-imatrix convert "$IM" --format dat -o -
check_error 3 "not an importance matrix" "a model" organ-imatrix show "$V"
# ---- organ-stack --imatrix-out: what follow finds by comparing data
VERSE=$LAB/lab-verse-q4_k_m.gguf IM=$LAB/lab-verse.imatrix.gguf
check "a stack and its matrix" organ-stack -q $VERSE 3,0-1,3 --imatrix $IM --imatrix-out "$T/stacked.im.gguf" \
    -o "$T/stacked.gguf"
check "the other way" organ-imatrix follow "$T/stacked.gguf" $IM $VERSE -o "$T/followed.im.gguf"
organ-imatrix show "$T/stacked.im.gguf" > "$T/stacked.txt"
organ-imatrix show "$T/followed.im.gguf" > "$T/followed.txt"
check_same "$T/stacked.txt" "$T/followed.txt" "the entries follow their blocks"
check_text "$(grep -c . "$T/stacked.txt")" "$(organ-imatrix show $IM | grep -c .)" "all four blocks have theirs"
check_error 2 "belongs to one model" "blocks of two models" organ-stack $VERSE 0 $LAB/lab-code-q4_k_m.gguf 1 \
    --imatrix $IM --imatrix-out "$T/no.im.gguf" -o "$T/no.gguf"
check_error 2 "--imatrix" "a name alone" organ-stack $VERSE 0 --imatrix-out "$T/no.im.gguf" -o "$T/no.gguf"
finish
