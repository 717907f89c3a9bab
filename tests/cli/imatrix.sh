#!/bin/sh
# imatrix.sh - encoding with an importance matrix: which types it makes possible, that its weights
# reach the encoders at the right columns, the keys it leaves, and refusals.
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
have mkmodel || { bad "mkmodel is not built"; finish; }

Q8=$(verse_q8)
IM=$LAB/lab-verse.imatrix.gguf
OLD=$LAB/lab-verse.imatrix.dat

enc() {
    out=$1
    shift
    organ-assemble "$Q8" -o "$T/$out" --force "$@"
}

# The weights change the result, and it does not depend on threads or on the way it is written.
check "q2_k without" enc plain.gguf -q --dtype q2_k
check "q2_k with" enc m.gguf -q --dtype q2_k --imatrix "$IM"
if cmp -s "$T/plain.gguf" "$T/m.gguf"; then bad "the importance matrix had no effect"; else ok; fi
enc one.gguf -q --dtype q2_k --imatrix "$IM" -j 1
check_same "$T/m.gguf" "$T/one.gguf" "-j 1"
organ-assemble - -q -o - --dtype q2_k --imatrix "$IM" < "$Q8" > "$T/piped.gguf"
check_same "$T/m.gguf" "$T/piped.gguf" "from and to a pipe"
organ-extract "$Q8" --output "$T/d" -q
organ-assemble "$T/d" -o "$T/dir.gguf" -q --dtype q2_k --imatrix "$IM"
check_same "$T/m.gguf" "$T/dir.gguf" "from an organ directory"

# The report of what was encoded: the same with any number of threads and in sequence, and as
# organ-compare measures it. Copied tensors have no error.
check "report" enc m.gguf -q --dtype 'blk.*=q2_k' --imatrix "$IM" --report "$T/report.tsv"
enc m.gguf -q --dtype 'blk.*=q2_k' --imatrix "$IM" --report - -j 1 > "$T/report1"
check_same "$T/report.tsv" "$T/report1" "report with -j 1"
organ-assemble - -q -o - --dtype 'blk.*=q2_k' --imatrix "$IM" --report "$T/report.tsv" --force < "$Q8" > /dev/null
check_same "$T/report.tsv" "$T/report1" "report of a pipe"
check_text "$(head -n 1 "$T/report1" | tr '\t' ' ')" "name from dtype bytes rmse rel_l2 weighted" \
    "columns of the report"
check_text "$(grep -c . "$T/report1")" 40 "a row per tensor"
check_text "$(sed -n 2p "$T/report1" | tr '\t' ' ')" "token_embd.weight Q8_0 Q8_0 278528 0 0 -" \
    "a tensor that is copied"
organ-compare "$Q8" "$T/m.gguf" --sample 0 > "$T/compared"
awk -F '\t' "$BY_NAME"'NR == FNR { l2[col("name")] = col("rel_l2"); next }
    FNR > 1 && col("dtype") == "Q2_K" { n++; d = col("rel_l2") / l2[col("name")] - 1
    if (d < -1e-5 || d > 1e-5) bad = 1
    r = col("weighted") / col("rel_l2")
    if (r > 1.05 || r < 0.5 || r == 1) bad = 1 } END { exit n != 28 || bad }' "$T/compared" "$T/report1"
check_text $? 0 "errors as organ-compare has them, and weighed ones near them"
check_exit 2 "the report as the model" enc m.gguf -q --dtype q2_k --report "$T/m.gguf"
check_exit 2 "a report that exists" organ-assemble "$Q8" -o "$T/new.gguf" --report "$T/report1"
check_exit 2 "a run that fails" enc none.gguf -q --dtype 'blk.*=iq1_s' --report "$T/none.tsv"
check_absent "$T/none.tsv" "no report of a run that failed"

# noted TEXT WHAT: the note has the text.
noted() {
    if grep -qF -e "$1" "$T/note"; then ok; else bad "$2: $(cat "$T/note")"; fi
}

# Types that need one.
for t in iq2_xs $(more iq2_xxs iq1_s); do
    check_error 2 "--imatrix" "$t without" enc none.gguf -q --dtype "blk.*=$t"
    check "$t with" enc "$t.gguf" -q --dtype "blk.*=$t" --imatrix "$IM"
done
check_exit 2 "preset without" enc none.gguf -q --dtype iq2_m
exhaustive && check "preset with" enc iq2_m.gguf -q --dtype iq2_m --imatrix "$IM"
check_error 2 "token_embd.weight" "a tensor that the file lacks" enc none.gguf -q --dtype 'token_embd.weight=iq2_xs' \
    --imatrix "$IM"
check_absent "$T/none.gguf" "nothing is written"

# Tensors that the file lacks are noted, and the keys tell of the file.
repeat() { i=0; while [ $i -lt "$1" ]; do printf "$2"; i=$((i + 1)); done; }
{ printf '\001\000\000\000\023\000\000\000blk.0.attn_q.weight\001\000\000\000\000\001\000\000'; repeat 256 \
    '\000\000\200\077'; } > "$T/one.dat"
enc m.gguf --dtype 'blk.0.attn_[qk].*=q4_k,token_embd*=q4_k' --imatrix "$T/one.dat" 2> "$T/note"
noted "lacks 1 of the 2 tensors that are encoded: blk.0.attn_k.weight" "lacking tensors"
enc m.gguf --dtype 'blk.*=q4_k' --imatrix "$OLD"
for tool in keys info measure; do
    check_error 3 "this is an importance matrix in the older format" "organ-$tool" organ-$tool "$OLD"
done
enc embd.gguf --dtype 'token_embd*=q4_k' --imatrix "$OLD" 2> "$T/note"
check_text "$(grep -c 'importance matrix' "$T/note")" 0 "no matrix has the token embeddings"
check_text "$(organ-keys "$T/m.gguf" --get quantize.imatrix.file)" "$OLD" "file"
check_text "$(organ-keys "$T/m.gguf" --get quantize.imatrix.dataset)" "calib-verse.txt" "dataset"
check_text "$(organ-keys "$T/m.gguf" --get quantize.imatrix.entries_count)" 29 "entries"
check_text "$(organ-keys "$T/m.gguf" --get quantize.imatrix.chunks_count)" 36 "chunks"
enc n.gguf --imatrix "$IM" 2> "$T/note"
noted "no effect" "nothing is encoded"
check_same "$Q8" "$T/n.gguf" "nothing is encoded: the same bytes"

# ---- importance and damage: the sums themselves are in tests/unit/measure/t_importance.c ---------------
column() { # NAME FILE: that column, of rows that are not "-"
    awk -F '\t' -v name="$1" \
        'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i; next } $c != "-" { print $c }' "$2"
}
check "importance" organ-measure -q "$Q8" --imatrix "$IM" -j 1
cp "$T/out" "$T/importance.tsv"
check_text "$(head -n 1 "$T/importance.tsv" | awk -F '\t' '{ print $NF }')" importance "the last column"
check_text "$(awk -F '\t' "$BY_NAME"'$NF == "-" { print col("name") }' "$T/importance.tsv" |
    sed 's/blk.[0-9]/blk.N/' | sort -u | tr \
    '\n' ' ')" \
    "blk.N.attn_norm.weight blk.N.ffn_norm.weight output_norm.weight token_embd.weight " "tensors without importance"
check "with three threads" organ-measure -q "$Q8" --imatrix "$IM" -j 3
check_same "$T/out" "$T/importance.tsv" "importance with three threads"
check "of a pipe" sh -c "organ-measure -q - --imatrix '$IM' --sample 7 < '$Q8'"
check_text "$(column importance "$T/out")" "$(column importance "$T/importance.tsv")" \
    "importance of a pipe, with any sample"
GG_ISA=0 organ-measure -q "$Q8" --imatrix "$IM" > "$T/out"
check_same "$T/out" "$T/importance.tsv" "importance with plain C"
check "the older format" organ-measure -q "$Q8" --imatrix "$OLD" --tensors output.weight
check_text "$(printf '%.3f' "$(column importance "$T/out")")" "$(printf '%.3f' "$(column importance \
    "$T/importance.tsv" | tail -n 1)")" "importance by the older format"
check "without" organ-measure -q "$Q8" --json --tensors output.weight
if grep -q '"importance": null}$' "$T/out"; then ok; else bad "importance without a file: $(cat "$T/out")"; fi
check "of blocks" organ-measure -q "$Q8" --imatrix "$IM" --rank blocks
check_text "$(head -n 1 "$T/out" | tr '\t' ' ')" "rank block tensors importance share part" "columns of blocks"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 { s += col("importance"); p += col("share")
    if (NR > 2 && col("importance") > last) print "not sorted"
    last = col("importance"); n += col("tensors") } END { printf "%.3f %.6f %d", s, p, n }' "$T/out")" \
    "$(awk -F '\t' "$BY_NAME"'$NF != "-" && col("block") ~ /^[0-9]/ { s += $NF; n++ } END {
        printf "%.3f 1.000000 %d", s, n }' \
    "$T/importance.tsv")" "blocks add up their tensors"
check_error 1 "no tensor of an expert" "a model without experts" organ-measure -q "$Q8" --imatrix "$IM" --rank experts
check_exit 2 "another unit" organ-measure "$Q8" --imatrix "$IM" --rank heads
check_exit 2 "--rank without a file" organ-measure "$Q8" --rank blocks
check_exit 2 "--rank and --wells" organ-measure "$Q8" --imatrix "$IM" --rank blocks --wells 2
check_exit 2 "the color without a file" organ-measure "$Q8" --heat --color importance
check "the color" organ-measure -q "$Q8" --imatrix "$IM" --heat --color importance
if grep -q nan "$T/out"; then bad "a map of importance shows nan"; else ok; fi
check_error 4 "none.dat" "a file that is not there" organ-measure "$Q8" --imatrix "$T/none.dat"
mkmodel "$T/wide.gguf" blk.0.attn_q.weight:F16:512x8
check_exit 1 "of another shape" organ-measure -q "$T/wide.gguf" --imatrix "$IM"
if grep -q "blk.0.attn_q.weight.*its rows have 512 columns" "$T/err"; then ok; else bad "of another shape: $(cat \
    "$T/err")"; fi

compare() { organ-compare -q "$Q8" "$T/m.gguf" "$@"; }
check_exit 1 "damage" compare --imatrix "$IM" -j 1
cp "$T/out" "$T/damage.tsv"
check_text "$(head -n 1 "$T/damage.tsv" | awk -F '\t' '{ print $NF }')" damage "the last column"
check_text "$(column damage "$T/damage.tsv" | wc -l | tr -d ' ')" 29 "tensors with a damage"
check_text "$(awk -F '\t' \
    "$BY_NAME"'NR > 1 && $NF != "-" && ($NF < 0.5 * col("rel_l2") * col("rel_l2") ||
        $NF > 1.1 * col("rel_l2") * col("rel_l2")) { print col("name"), $NF, col("rel_l2") }' "$T/damage.tsv")" "" \
    "damage is near the squared relative L2, and less where the encoder had the weights"
check_exit 1 "damage with three threads" compare --imatrix "$IM" -j 3
check_same "$T/out" "$T/damage.tsv" "damage with three threads"
check_exit 1 "damage, a pipe" sh -c "organ-compare -q - '$T/m.gguf' --imatrix '$IM' < '$Q8'"
check_same "$T/out" "$T/damage.tsv" "damage of a pipe"
GG_ISA=0 compare --imatrix "$IM" > "$T/out"
check_same "$T/out" "$T/damage.tsv" "damage with plain C"
check_exit 1 "without" compare
check_text "$(without damage,importance "$T/out")" \
    "$(without damage,importance "$T/damage.tsv")" "the other columns stay"
check_text "$(column damage "$T/out")" "" "no damage without a file"
organ-compare -q "$Q8" "$T/plain.gguf" --imatrix "$IM" --type organ > "$T/out"
check_text "$(column damage "$T/out" | awk '{ s += $1 } END { print (s > 1.05 * '"$(grep -w organ "$T/damage.tsv" \
    | awk -F '\t' '{ s += $NF } END { print s }')"') }')" 1 "encoding without the matrix does more damage"
check_exit 1 "summary" compare --imatrix "$IM" --summary
check_text "$(column damage "$T/out" | wc -l | tr -d ' ')" 4 "groups with a damage: no norms"
check "no difference" organ-compare -q "$Q8" "$Q8" --imatrix "$IM" --summary
check_text "$(column damage "$T/out" | sort -u)" 0 "no damage"
check_exit 2 "with --lineage" compare --imatrix "$IM" --lineage
check_exit 2 "with --keys" compare --imatrix "$IM" --keys
check_exit 3 "no importance matrix" compare --imatrix "$Q8"

# In a transplant: tensors that are converted get the same weights.
check "convert" organ-transplant -q --base "$T/iq2_xs.gguf" --donor "$Q8" --match convert --imatrix "$IM" \
    -o "$T/back.gguf"
check_same "$T/iq2_xs.gguf" "$T/back.gguf" "the same values in the same type"
check_exit 1 "convert without" organ-transplant -q --base "$T/iq2_xs.gguf" --donor "$Q8" --match convert \
    -o "$T/none.gguf"
check_exit 2 "in place" organ-transplant -q --base "$T/m.gguf" --donor "$Q8" --match convert --imatrix "$IM" \
    --in-place --no-undo

# all_same A B WHAT: the tensors of both models are equal.
all_same() { check_text "$(differing "$1" "$2")" "" "$3"; }

# A merge of two equal models has their values, so it must give what organ-assemble gives: with
# chunks of any length, in any order, and into a pipe.
cp "$Q8" "$T/again.gguf"
enc w.gguf -q --dtype 'blk.*=q2_k' --imatrix "$IM"
both() { organ-merge --model "$Q8" --model "$T/again.gguf" --dtype 'blk.*=q2_k' --imatrix "$@"; }
both "$T/one.dat" --method linear -o "$T/l.gguf" 2> "$T/note"
noted "lacks 28 of the 29 tensors that are encoded: blk.0.attn_k.weight, " "merge: lacking tensors"
both "$IM" --method linear -o "$T/l.gguf" --force
all_same "$T/w.gguf" "$T/l.gguf" "merge"
check_text "$(organ-keys "$T/l.gguf" --get quantize.imatrix.file)" "$IM" "merge: file"
both "$IM" -q --method nuslerp,flatten=0 -j 2 -o - > "$T/n.gguf"
all_same "$T/w.gguf" "$T/n.gguf" "merge row by row, into a pipe"
check "merge in the types of the model" organ-merge -q --method linear --model "$T/w.gguf" --model "$Q8" \
    --imatrix "$IM" -o "$T/l.gguf" --force
check_text "$(organ-keys "$T/l.gguf" --get quantize.imatrix.chunks_count)" 36 "keys without --dtype"
check_exit 3 "merge: a model" both "$Q8" -q --method linear -o "$T/none.gguf"
check_exit 2 "merge without" organ-merge -q --method linear --model "$Q8" --model "$T/again.gguf" \
    --dtype 'blk.*=iq1_s' -o "$T/none.gguf"

# In a graft.
check "graft" organ-graft -q --base "$T/iq2_xs.gguf" --donor "$Q8" --match convert --imatrix "$IM" --output "$T/g"
organ-assemble -q "$T/g" -o "$T/g.gguf"
all_same "$T/iq2_xs.gguf" "$T/g.gguf" "graft"
check_text "$(organ-keys "$T/g.gguf" --get quantize.imatrix.entries_count)" 29 "graft: keys"
check_exit 1 "graft without" organ-graft -q --base "$T/iq2_xs.gguf" --donor "$Q8" --match convert --output "$T/g2"
check "graft --check" organ-graft -q --base "$T/iq2_xs.gguf" --donor "$Q8" --match convert --imatrix "$IM" \
    --check > "$T/o"
organ-graft -q --base "$T/w.gguf" --adapter "$LAB/lab-lora-code.gguf" --imatrix "$IM" --output "$T/f"
organ-transplant -q --base "$T/w.gguf" --adapter "$LAB/lab-lora-code.gguf" --imatrix "$IM" -o "$T/f.gguf"
organ-assemble -q "$T/f" -o "$T/f2.gguf"
all_same "$T/f.gguf" "$T/f2.gguf" "an adapter: as organ-transplant"

# organ-purify of strength 0 only encodes. Each expert of a stack has its own weights: the first has
# large ones for the first half of the columns, the second for the second half.
{
    printf '\001\000\000\000\032\000\000\000blk.0.ffn_gate_exps.weight\001\000\000\000\000\002\000\000'
    for half in large small small large; do
        if [ $half = large ]; then repeat 128 '\000\000\310\102'; else repeat 128 '\000\000\200\077'; fi
    done
} > "$T/stack.dat"
mkmodel "$T/s.gguf" output.weight:F32:256x4 blk.0.ffn_gate_exps.weight:F32:256x8x2
organ-assemble -q "$T/s.gguf" -o "$T/s2.gguf" --dtype 'blk.*=q2_k' --imatrix "$T/stack.dat"
organ-assemble -q "$T/s.gguf" -o "$T/s1.gguf" --dtype 'blk.*=q2_k'
if cmp -s "$T/s1.gguf" "$T/s2.gguf"; then bad "the weights of the stack had no effect"; else ok; fi
check "purify" organ-purify -q "$T/s.gguf" --tensors 'blk.*' --strength 0 --dtype q2_k --imatrix "$T/stack.dat" \
    --output "$T/p.gguf" > "$T/o"
all_same "$T/s2.gguf" "$T/p.gguf" "purify a stack"
check_text "$(organ-keys "$T/p.gguf" --get quantize.imatrix.entries_count)" 1 "purify: keys"
organ-purify -q - --tensors 'blk.*' --strength 0 --dtype q2_k --imatrix "$T/stack.dat" --output "$T/p" < "$T/s.gguf" \
    > "$T/o"
all_same "$T/s2.gguf" "$T/p" "purify to a directory"
check "purify to iq2_xs" organ-purify -q "$T/s.gguf" --tensors 'blk.*' --dtype iq2_xs --imatrix "$T/stack.dat" \
    --dry-run > "$T/o"
check_error 2 "lacks it" "purify what the file lacks" organ-purify -q "$T/s.gguf" --dtype iq2_xs \
    --imatrix "$T/stack.dat" --dry-run
organ-purify "$T/s.gguf" --dtype q2_k --imatrix "$T/stack.dat" --dry-run 2> "$T/note" > "$T/o"
noted "lacks 1 of the 2 tensors that are encoded: output.weight" "purify: lacking tensors"

# Files that do not match or are none.
head -c 20000 "$OLD" > "$T/cut.dat"
check_exit 3 "cut short" enc none.gguf -q --dtype q4_k --imatrix "$T/cut.dat"
check_exit 3 "a model" enc none.gguf -q --dtype q4_k --imatrix "$Q8"
check_exit 4 "missing file" enc none.gguf -q --dtype q4_k --imatrix "$T/no-such"
check_absent "$T/none.gguf" "nothing is written"
# The older format begins with a count and the length of a short name.
printf '\001\000\000\000\005\000\000\000hello world' > "$T/older"
printf '\001\000\000\000\005\001\000\000hello world' > "$T/record"
check_error 3 "an importance matrix in the older format" "older matrix" organ-extract "$T/older" --list
check_error 3 "an organ record has" "a record with a long name" organ-extract "$T/record" --list
# ---- a picture of experts
mkmodel "$T/moe.gguf" -s 5 blk.0.ffn_down_exps.weight:F16:32x64x4 blk.1.ffn_down_exps.weight:F16:32x64x4
imatrix "$T/moe.im.gguf" blk.0.ffn_down_exps.weight:32:1,8,2,4:1,1,1,1 blk.1.ffn_down_exps.weight:32:9,1,1,5:1,1,1,1
check "experts, drawn" organ-measure -q "$T/moe.gguf" --imatrix "$T/moe.im.gguf" --sample 0 --rank experts --top 2 \
    --svg "$T/moe.svg"
check_text "$(awk -F "$TAB" "$BY_NAME"'NR > 1 { print col("block") ":" col("expert") }' "$T/out" | sort |
    tr '\n' ' ')" "0:1 0:3 1:0 1:3 " \
    "the best two of each block"
check_text "$(grep -o '>expert [0-9]<' "$T/moe.svg" | tr -d '><' | tr '\n' ,)" "expert 0,expert 1,expert 2,expert 3," \
    "a row per expert"
check_text "$(grep -c 'The best 2 experts of each block' "$T/moe.svg")" 1 "the picture explains empty squares"
check "the assembled model" organ-assemble -q "$T/moe.gguf" --keep-experts 2 --by importance \
    --imatrix "$T/moe.im.gguf" -o "$T/two.gguf"
organ-extract -q "$T/two.gguf" --split-experts -o "$T/two"
organ-extract -q "$T/moe.gguf" --split-experts -o "$T/four"
for pair in 0_0=0_1 0_1=0_3 1_0=1_0 1_1=1_3; do
    for side in "two ${pair%=*}" "four ${pair#*=}"; do
        # shellcheck disable=SC2086 # two words
        set -- $side
        tail -c 4096 "$T/$1/organs/blk_${2%_*}_ffn_down_${2#*_}.bin" > "$T/$1.data"
    done
    check_same "$T/two.data" "$T/four.data" "the kept experts are those of the picture: $pair"
done
imatrix "$T/wide.im.gguf" blk.0.ffn_down_exps.weight:32:1,8,2,4,3:1,1,1,1,1
check_error 1 "it has 4 matrices of 32 columns" "a matrix of five experts" organ-assemble \
    -q "$T/moe.gguf" --keep-experts 0-1 \
    --imatrix "$T/wide.im.gguf" --imatrix-out "$T/none.im.gguf" -o "$T/none.gguf"
check_exit 2 "--top and blocks" organ-measure "$T/moe.gguf" --imatrix "$T/moe.im.gguf" --rank blocks --top 1

# ---- scores from activations: 4, 3, 4, 1 over 4, 1, 2, 1 tokens are 1, 3, 2, 1
mkmodel "$T/one.gguf" -s 5 blk.0.ffn_down_exps.weight:F16:32x64x4
mkmodel "$T/act.gguf" blk.0.ffn_down_exps.weight.weighted_norm:F32:1x4 blk.0.ffn_down_exps.weight.counts:F32:1x4
size=$(wc -c < "$T/act.gguf")
printf '\000\000\200\100\000\000\100\100\000\000\200\100\000\000\200\077' > "$T/values"
printf '\000\000\200\100\000\000\200\077\000\000\000\100\000\000\200\077' > "$T/tokens"
dd if="$T/values" of="$T/act.gguf" bs=1 seek=$((size - 64)) conv=notrunc 2> "$T/dd"
dd if="$T/tokens" of="$T/act.gguf" bs=1 seek=$((size - 32)) conv=notrunc 2> "$T/dd"
check "by activations" organ-assemble -q "$T/one.gguf" --keep-experts 2 --by "$T/act.gguf" -o "$T/by.gguf"
organ-assemble -q "$T/one.gguf" --keep-experts 1-2 -o "$T/want.gguf"
check_same "$T/by.gguf" "$T/want.gguf" "the mean weighted outputs decide"
check_error 1 "no blk.0.ffn_down_exps.weight.weighted_norm" "another file" organ-assemble "$T/one.gguf" \
    --keep-experts 2 --by "$T/one.gguf" -o "$T/none.gguf"
finish
