#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2046
# m2m.sh - organ-assemble from models: GGUF files, shards, pipes. Merging, splitting and
# re-encoding need no organ directory; the bytes are those that one would give; presets.
. "$(dirname "$0")/lib.sh"
have mkmodel || { bad "mkmodel is not built"; finish; }
VERSE=$LAB/lab-verse-q4_k_m.gguf Q8=$(verse_q8)

# Unchanged: the same bytes from a file, a pipe and to a pipe, odd bytes included.
for f in $VERSE $D/gguf/*.gguf; do
    case $f in *-of-0*) continue ;; esac
    organ-extract -q "$f" --list > "$T/out" 2>&1 || continue
    rm -f "$T/m.gguf" "$T/p.gguf"
    check "$f, file to file" organ-assemble -q "$f" -o "$T/m.gguf"
    check_same "$f" "$T/m.gguf" "$f, file to file"
    organ-assemble -q - -o "$T/p.gguf" < "$f"
    check_same "$f" "$T/p.gguf" "$f, pipe to file"
    cat "$f" | organ-assemble -q - -o - | cat > "$T/p.gguf"
    check_same "$f" "$T/p.gguf" "$f, pipe to pipe"
done

# Split, merge, split again, by way of files and pipes.
check "split" organ-assemble $VERSE -o "$T/s.gguf" --shards 3
check "split from a pipe" sh -c "cat $VERSE | organ-assemble - -o $T/sp.gguf --shards 3"
for i in 1 2 3; do check_same "$T/s-0000$i-of-00003.gguf" "$T/sp-0000$i-of-00003.gguf" "split from a pipe, $i"; done
check_text "$(wc -c "$T"/s-0000?-of-00003.gguf | awk '$1 < 0.8 * 1867776 / 3 || $1 > 1.2 * 1867776 / 3' |
    grep -vc total)" 0 \
    "shards of about equal size"
check "merged" organ-assemble "$T/s-00002-of-00003.gguf" -o "$T/merged.gguf"
check_same "$T/merged.gguf" $VERSE "merged"
check "merged from a pipe" sh -c "cat $T/s-0000?-of-00003.gguf | organ-assemble - -o $T/merged2.gguf"
check_same "$T/merged2.gguf" $VERSE "merged from a pipe"
check_text "$(cat "$T/err")" "" "merged from a pipe: no note"
cat "$T"/s-0000?-of-00003.gguf | organ-assemble - -o - 2> "$T/err" | cat > "$T/merged3.gguf"
check_same "$T/merged3.gguf" $VERSE "merged, pipe to pipe"
X=$D/gguf/x-0000
check "the source's own shards" organ-assemble ${X}2-of-00003.gguf -o "$T/x.gguf" --shards 3
cat ${X}?-of-00003.gguf | organ-assemble -q - -o "$T/y.gguf" --shards 3
for i in 1 2 3; do
    check_same "$T/x-0000$i-of-00003.gguf" ${X}$i-of-00003.gguf "the source's own shards, $i"
    check_same "$T/y-0000$i-of-00003.gguf" ${X}$i-of-00003.gguf "the source's own shards from a pipe, $i"
    organ-assemble -q - -o "$T/x-0000$i-of-00003.gguf" --force < ${X}$i-of-00003.gguf
    check_same "$T/x-0000$i-of-00003.gguf" ${X}$i-of-00003.gguf "one shard alone, $i"
done

# Re-encoding gives what it gives by way of a directory, at any -j, through a pipe too.
organ-extract -q $Q8 --output "$T/d"
for rules in q4_k_m '*=f16' 'blk.1.*=q6_k,q3_k_s' mxfp4_moe; do
    organ-assemble -q "$T/d" -o "$T/want.gguf" --force --dtype "$rules"
    for j in 1 3; do
        organ-assemble -q $Q8 -o "$T/m.gguf" --force -j $j --dtype "$rules"
        check_same "$T/m.gguf" "$T/want.gguf" "$rules from a file, -j $j"
        cat $Q8 | organ-assemble -q - -o - -j $j --dtype "$rules" | cat > "$T/m.gguf"
        check_same "$T/m.gguf" "$T/want.gguf" "$rules through pipes, -j $j"
    done
done
# A value that is not finite: the same refusal in sequence as at its place, nothing written.
mkmodel "$T/n.gguf" blk.0.ffn_up.weight:F16:256x600:ffff blk.0.ffn_down.weight:F16:256x4 2> /dev/null ||
    mkmodel "$T/n.gguf" blk.0.ffn_up.weight:F16:256x600
printf '\377\177' | dd of="$T/n.gguf" bs=1 seek=$(($(wc -c < "$T/n.gguf") - 2000)) conv=notrunc 2> /dev/null
organ-assemble -q "$T/n.gguf" -o "$T/n2.gguf" --dtype '*=q8_0' 2> "$T/e1"
check_text $? 3 "a NaN, to a file"
check_absent "$T/n2.gguf" "a NaN"
organ-assemble -q - -o - --dtype '*=q8_0' < "$T/n.gguf" 2> "$T/e2" > /dev/null
check_text $? 3 "a NaN, through pipes"
check_text "$(sed 's/.*tensor/tensor/' "$T/e2")" "$(sed 's/.*tensor/tensor/' "$T/e1")" "a NaN: the same words"

# Presets: the types of a small model, file_type, names in any case, aliases, refusals.
types() { organ-extract -q "$1" --list | awk -F '\t' -v r="$2" \
    "$BY_NAME"'NR > 1 && col("role") == r { printf "%s%s", sep, col("dtype"); sep = "," }'; }
preset() { # PRESET FILE_TYPE FFN_DOWN ATTN_V OUTPUT
    check "$1" organ-assemble -q $Q8 -o "$T/p.gguf" --force --dtype "$1"
    check_text "$(types "$T/p.gguf" ffn_down)" "$3" "$1: ffn_down"
    check_text "$(types "$T/p.gguf" attn_v)" "$4" "$1: attn_v"
    check_text "$(types "$T/p.gguf" output)" "$5" "$1: output"
    check_text "$(types "$T/p.gguf" attn_norm)" "F32,F32,F32,F32" "$1: norms"
    check_text "$(organ-keys "$T/p.gguf" --get general.file_type)" "$2" "$1: file_type"
    check_text "$(organ-keys "$T/p.gguf" --get general.quantization_version)" 2 "$1: quantization_version"
}
preset Q4_K_M 15 Q4_K,Q4_K,Q6_K,Q6_K Q4_K,Q4_K,Q6_K,Q6_K Q6_K
cp "$T/p.gguf" "$T/alias"
preset q4_k 15 Q4_K,Q4_K,Q6_K,Q6_K Q4_K,Q4_K,Q6_K,Q6_K Q6_K
check_same "$T/alias" "$T/p.gguf" "q4_k is Q4_K_M"
preset q2_k 10 Q3_K,Q3_K,Q3_K,Q3_K Q3_K,Q3_K,Q3_K,Q3_K Q6_K
preset q3_k_m 12 Q4_K,Q4_K,Q4_K,Q4_K Q5_K,Q5_K,Q4_K,Q4_K Q6_K
preset Q4_K_S 14 Q4_K,Q4_K,Q4_K,Q4_K Q5_K,Q5_K,Q5_K,Q5_K Q6_K
preset iq4_xs 30 IQ4_XS,IQ4_XS,IQ4_XS,IQ4_XS IQ4_XS,IQ4_XS,IQ4_XS,IQ4_XS Q6_K
preset bf16 32 BF16,BF16,BF16,BF16 BF16,BF16,BF16,BF16 BF16
for p in q2_k_s iq1_s iq2_m iq3_xs; do
    check_error 2 "importance matrix" "$p" organ-assemble -q $Q8 -o "$T/no.gguf" --dtype $p
done
check_error 2 "neither a preset nor GLOB=TYPE" "no such preset" organ-assemble -q $Q8 -o "$T/no.gguf" --dtype q4_k_x
check_error 2 "second preset" "two presets" organ-assemble -q $Q8 -o "$T/no.gguf" --dtype q4_0,q8_0
check_absent "$T/no.gguf" "after refusals"
organ-assemble $Q8 -o "$T/p.gguf" --force --dtype q4_k_m 2> "$T/err"
grep -q "30 of the re-encoded tensors were quantized before" "$T/err" && ok || bad "quantized twice: $(cat "$T/err")"
check "a rule before the preset" organ-assemble -q $Q8 -o "$T/p.gguf" --force --dtype output.weight=keep,q4_k_m
check_text "$(types "$T/p.gguf" output)$(types "$T/p.gguf" ffn_down)" "Q8_0Q4_K,Q4_K,Q6_K,Q6_K" \
    "a rule before the preset"

check_error 2 "not both" "--dir and --model" organ-assemble --dir $Q8 --model $Q8 -o "$T/no.gguf"
organ-extract -q $VERSE --output - --tensors output_norm.weight > "$T/r.bin"
check_error 2 "organ records, which have no keys" "records" organ-assemble - -o "$T/no.gguf" < "$T/r.bin"
check_error 3 "early" "a cut model on a pipe" sh -c "head -c 1000000 $VERSE | organ-assemble -q - -o $T/no.gguf"
check_error 3 "" "a cut model" sh -c \
    "head -c 1000000 $VERSE > $T/cut.gguf; organ-assemble -q $T/cut.gguf -o $T/no.gguf"
check_absent "$T/no.gguf" "after a cut model"
finish
