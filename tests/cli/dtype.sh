#!/bin/sh
# dtype.sh - organ-assemble --dtype: which tensors change and to which type. Values stay close
# to the original, keys follow, and refused requests write nothing.
. "$(dirname "$0")/lib.sh"
have mkmodel || { bad "mkmodel is not built"; finish; }

VERSE=$LAB/lab-verse-q4_k_m.gguf
check "extract" organ-extract $VERSE --output "$T/d"

# types MODEL [AWK-CONDITION]: the dtypes of its tensors, counted
types() {
    organ-extract "$1" --list | awk -F '\t' "$BY_NAME NR > 1 && (${2:-1}) { print col(\"dtype\") }" | sort |
        uniq -c | awk '{ printf "%s%s:%s", sep, $2, $1; sep = " " } END { print "" }'
}

# key MODEL KEY: its value
key() {
    rm -rf "$T/k"
    organ-extract "$1" --output "$T/k" --tensors output_norm.weight > /dev/null 2>&1
    sed -n "s/.*\"key\": \"$2\", \"type\": \"[a-z0-9]*\", \"value\": \([^}]*\)}.*/\1/p" "$T/k/manifest.json"
}

make() {
    rm -f "$T/m.gguf"
    check "$1" organ-assemble "$T/d" --output "$T/m.gguf" --dtype "$@"
}

NORMS='col("dims") !~ /x/' MATRICES='col("dims") ~ /x/'
make 'blk.*.ffn_*=q4_k,output*=q6_k,*=f16'
check_text "$(types "$T/m.gguf" 'col("role") ~ /^ffn_(gate|up|down)$/')" "Q4_K:12" "FFNs"
check_text "$(types "$T/m.gguf" 'col("name") == "output.weight"')" "Q6_K:1" "output"
check_text "$(types "$T/m.gguf" 'col("role") ~ /^attn_(q|k|v|output)$/ || col("role") == "token_embd"')" \
    "F16:17" "the rest"
check_text "$(types "$T/m.gguf" "$NORMS")" "F32:9" "norms stay"
check_text "$(key "$T/m.gguf" general.file_type)" 1 "file_type: most are F16"
check_text "$(key "$T/m.gguf" general.quantization_version)" 2 "quantization_version"
check_text "$(organ-extract "$T/m.gguf" --list | cells name)" "$(organ-extract $VERSE --list | cells name)" \
    "same tensors, same order"
cp "$T/m.gguf" "$T/a"
organ-assemble "$T/d" --output "$T/m.gguf" --force -q -j 1 --dtype 'blk.*.ffn_*=q4_k,output*=q6_k,*=f16'
check_same "$T/a" "$T/m.gguf" "-j 1"

# Same type: the bytes as they were.
for t in token_embd.weight blk.2.ffn_up.weight; do
    organ-extract $VERSE --tensors $t --output - > "$T/a"
    organ-extract "$T/m.gguf" --tensors $t --output - > "$T/b"
    case $t in
    blk*) check_same "$T/a" "$T/b" "$t was Q4_K and is" ;;
    *) if cmp -s "$T/a" "$T/b"; then bad "$t was not re-encoded"; else ok; fi ;;
    esac
done

# file_type of each, and all matrices there.
for t in f32:0:F32 f16:1:F16 q4_0:2:Q4_0 Q8_0:7:Q8_0 q5_1:9:Q5_1 q2_k:10:Q2_K q3_k:12:Q3_K q4_k:15:Q4_K Q5_K:17:Q5_K \
    q6_k:18:Q6_K \
    iq4_nl:25:IQ4_NL iq4_xs:30:IQ4_XS bf16:32:BF16 mxfp4:38:MXFP4; do
    name=${t%%:*} rest=${t#*:}
    make "*=$name"
    check_text "$(types "$T/m.gguf" "$MATRICES")" "${t##*:}:30" "*=$name"
    check_text "$(types "$T/m.gguf" "$NORMS")" "F32:9" "*=$name: norms"
    check_text "$(key "$T/m.gguf" general.file_type)" "${rest%%:*}" "*=$name: file_type"
    case $name in
    *16 | f32) check_text "$(key "$T/m.gguf" general.quantization_version)" "" "*=$name: no quantization_version" ;;
    *) check_text "$(key "$T/m.gguf" general.quantization_version)" 2 "*=$name: quantization_version" ;;
    esac
done

# The relative L2 of what each makes of F32 values.
if [ -x "$BIN/organ-compare" ]; then
    make '*=f32'
    cp "$T/m.gguf" "$T/f32.gguf"
    organ-extract "$T/f32.gguf" --output "$T/df"
    for t in f16:0.0005 bf16:0.004 q8_0:0.01 q6_k:0.03 q5_k:0.06 q4_k:0.12; do
        organ-assemble "$T/df" --output "$T/m.gguf" --force -q --dtype "*=${t%:*}"
        organ-compare "$T/f32.gguf" "$T/m.gguf" 2> "$T/err" | awk -F '\t' -v most="${t#*:}" "$BY_NAME"'
            NR > 1 && col("class") != "keys" { n++
                if (col("rel_l2") + 0 > most) { print "FAIL", col("name"), col("rel_l2"); bad = 1 } }
            END { exit n == 39 ? bad : 1 }' > "$T/out"
        if [ $? = 0 ]; then ok; else bad "${t%:*} is further off than ${t#*:}: $(head -n 1 "$T/out")"; fi
    done
fi

# Rules: the first match decides; keep; exact names reach norms.
make 'blk.0.*=keep,blk.[12].ffn_up.weight=q8_0,*=keep'
check_text "$(types "$T/m.gguf" 'col("dtype") == "Q8_0"')" "Q8_0:2" "two of them"
check_text "$(organ-extract "$T/m.gguf" --list | awk "$BY_NAME"'col("dtype") == "Q8_0" { print col("name") }' |
    tr '\n' ' ')" \
    "blk.1.ffn_up.weight blk.2.ffn_up.weight " "which"
cp "$T/m.gguf" "$T/a"
printf '# two blocks\r\nblk.0.*=keep\n\n  blk.[12].ffn_up.weight=q8_0,\n' > "$T/rules"
make "@$T/rules,*=keep"
check_same "$T/a" "$T/m.gguf" "rules from a file"
printf 'tensor\ttype\tbytes\nblk.2.ffn_up.weight\tQ8_0\t1\nblk.1.ffn_up.weight\tq8_0\n' > "$T/rules"
make "@$T/rules"
check_same "$T/a" "$T/m.gguf" "rules from a table"
make "blk.2.ffn_up.weight=keep,blk.2.*=q8_0,@$T/rules,blk.1.ffn_up.weight=keep"
check_text "$(organ-extract "$T/m.gguf" --list | awk "$BY_NAME"'col("dtype") == "Q8_0" { n++ } END { print n }')" 7 \
    "the first match counts, with and without wildcards"
rm -f "$T/m.gguf"
for t in '@no-such' 'tensor\ttype\nx*\tq8_0' '# nothing' '@rules' '*=q8_0\n@other' 'tensor\ttype\nalone'; do
    printf "%b\n" "$t" > "$T/rules"
    check_error 2 "$T/rules" "in a file: $t" organ-assemble "$T/d" --output "$T/m.gguf" --dtype "@$T/rules"
done
check_error 4 "no-such" "rules that are missing" organ-assemble "$T/d" --output "$T/m.gguf" --dtype "@$T/no-such"
make 'output_norm.weight=f16,*norm*=f16'
check_text "$(organ-extract "$T/m.gguf" --list |
    awk "$BY_NAME"'col("dtype") == "F16" { print col("name") }')" "output_norm.weight" \
    "a norm by its name only"
make '*=keep'
check_same "$T/m.gguf" $VERSE "nothing changes: the same file"
rm -f "$T/m.gguf"
check_error 1 "no tensor matches 'no.such.tensor'" "nothing matches" organ-assemble "$T/d" --output "$T/m.gguf" \
    --dtype 'no.such.tensor=f16'
check_absent "$T/m.gguf" "nothing matches"
make 'no.such.tensor=f16,output.weight=f16'
if grep -q "no tensor matches 'no.such.tensor'" "$T/err"; then ok; else bad "a glob for nothing is not noted"; fi
if grep -q "1 re-encoded, 29 left: token_embd.weight, blk.*.attn_q.weight" "$T/err"; then ok; else \
    bad "the tensors left alone are not noted: $(cat "$T/err")"; fi
# Types that engines do not use for weights are written with a note.
for t in q8_1 q8_k f64; do
    make "blk.1.ffn_up.weight=$t"
    if grep -qi "engines do not run models with weights in $t" "$T/err"; then ok; else \
        bad "$t passes without a word: $(cat "$T/err")"; fi
done
make 'blk.1.ffn_up.weight=q8_0'
check_text "$(grep -c 'engines' "$T/err")" 0 "no word about q8_0"
make '*=q8_0' --shards 3
check_text "$(types "$T/m-00001-of-00003.gguf" "$MATRICES")" "Q8_0:30" "in shards"

# Rows that do not fit, delicate tensors, integers.
mkmodel "$T/o.gguf" blk.0.attn_q.weight:F32:256x4 blk.0.ffn_down.weight:F32:96x4 blk.0.ffn_up.weight:F32:40x4 \
    blk.0.ffn_gate_inp.weight:F32:256x4 blk.0.ssm_conv1d.weight:F32:256x4 blk.0.ssm_alpha.weight:F32:256x4 \
    blk.0.ssm_a:F32:256x4 \
    blk.0.ffn_down_exps.bias:F32:256x4 blk.0.ffn_gate_tid2eid.weight:I32:256x4 output_norm.weight:F32:256
rm -rf "$T/d" "$T/m.gguf"
organ-extract "$T/o.gguf" --output "$T/d"
check_error 2 "blk.0.ffn_down.weight" "rows of 96 in Q4_K" organ-assemble "$T/d" --output "$T/m.gguf" --dtype '*=q4_k'
check_absent "$T/m.gguf" "rows of 96 in Q4_K"
check_error 2 "blk.0.ffn_up.weight" "rows of 40 in Q8_0" organ-assemble "$T/d" --output "$T/m.gguf" --dtype '*=q4_k' \
    --fallback q8_0
make '*=q4_k' --fallback f16
check_text "$(types "$T/m.gguf")" "F16:2 F32:5 I32:1 Q4_K:2" \
    "falling back; routers, convolutions, biases, integers and norms stay"
check_text "$(organ-extract "$T/m.gguf" --list |
    awk "$BY_NAME"'col("dtype") == "F16" || col("dtype") == "Q4_K" { print col("name") col("dtype") }' |
    tr '\n' ' ')" \
    "blk.0.attn_q.weightQ4_K blk.0.ffn_down.weightF16 blk.0.ffn_up.weightF16 blk.0.ssm_alpha.weightQ4_K " \
    "which fell back"
make 'blk.*.ffn_gate_inp.*=f16,*.bias=bf16,blk.0.ssm_a=q8_0,*=keep'
check_text "$(types "$T/m.gguf" 'col("dtype") !~ /32/')" "BF16:1 F16:1 Q8_0:1" "delicate tensors by their roles"

# A matrix may have its rows in any axis but the first.
mkmodel "$T/axes.gguf" a.weight:F32:256x2 b.weight:F32:256x1x2 c.weight:F32:256x1x1x2 d.weight:F32:256x1x1x1
check "rows in other axes" organ-assemble -q "$T/axes.gguf" --output "$T/rows.gguf" --dtype '*=f16'
check_text "$(types "$T/rows.gguf")" "F16:3 F32:1" "rows in other axes"

# Values that are too small for a type, in one tensor and in two; those of a tensor with others are not noted.
mkmodel "$T/tiny.gguf" blk.0.ffn_up.weight:F32:256x80 blk.0.ffn_down.weight:F32:256x80
size=$(wc -c < "$T/tiny.gguf")
tiny() { # BYTES: the last of them become values of 6.4e-10
    { head -c $((size - $1)) "$T/tiny.gguf"; head -c "$1" /dev/zero | tr '\000' 0; } > "$T/small.gguf"
}
became0() { # TYPE [OPTION...]: the notes about it
    t=$1
    shift
    organ-assemble "$T/small.gguf" --dtype "*=$t" "$@" --force 2>&1 > "$T/piped.gguf" | grep 'became 0'
}
tiny 81920
for t in f16 q8_0 q4_k iq4_xs tq2_0; do
    check_text "$(became0 $t -o "$T/m.gguf")" "organ-assemble: all values of 'blk.0.ffn_down.weight' are too small \
for $(echo $t | tr a-z A-Z) and became 0: BF16 and F32 can hold them" "too small for $t"
done
check_text "$(became0 q8_0 -o - | wc -l | tr -d ' ')" 1 "too small, to stdout"
for t in f32 bf16 mxfp4; do check_text "$(became0 $t -o "$T/m.gguf")" "" "not too small for $t"; done
tiny 81916
check_text "$(became0 f16 -o "$T/m.gguf")" "" "not all values are too small"
tiny 163840
case $(became0 f16 -o "$T/m.gguf") in
*"'blk.0.ffn_up.weight' are too small for F16 and became 0, and those of 1 more tensor:"*) ok ;;
*) bad "two tensors of small values" ;; esac

# A stack is merged expert by expert.
mkmodel "$T/tiny.gguf" -k llama.expert_count=2 blk.0.ffn_up_exps.weight:F32:256x8x2
size=$(wc -c < "$T/tiny.gguf")
for n in 8192 16384; do
    tiny $n
    cp "$T/small.gguf" "$T/same.gguf"
    organ-merge "$T/small.gguf" "$T/same.gguf" --method linear --dtype '*=q8_0' -o "$T/m.gguf" --force \
        > "$T/out" 2>&1
    check_text "$(organ-measure "$T/m.gguf" --sample 0 | awk -F"$TAB" "$BY_NAME"'NR == 2 { print (col("max") == 0) }'
        grep -c "blk.0.ffn_up_exps.weight' are too small for Q8_0" "$T/out")" "$((n / 16384))
$((n / 16384))" "$n bytes of small experts, merged"
done

# Refused: nothing may be written.
rm -f "$T/m.gguf"
for t in iq2_xxs iq2_xs iq1_s; do
    check_error 2 "importance matrix" "*=$t" organ-assemble "$T/d" --output "$T/m.gguf" --dtype "*=$t"
done
check_error 2 "importance matrix" "--fallback iq1_s" organ-assemble "$T/d" --output "$T/m.gguf" --dtype "*=f16" \
    --fallback iq1_s
check_error 2 "I32" "*=i32" organ-assemble "$T/d" --output "$T/m.gguf" --dtype "*=i32"
check_error 2 "IQ4_KS" "*=iq4_ks" organ-assemble "$T/d" --output "$T/m.gguf" --dtype "*=iq4_ks"
for o in '' '=q8_0' '*' '*=' '*=q9' '*=q8_0,' ',*=q8_0' '*=q8_0,x' '*=q8_0,=f16'; do
    check_error 2 "--dtype" "--dtype '$o'" organ-assemble "$T/d" --output "$T/m.gguf" --dtype "$o"
done
check_error 2 "--fallback" "--fallback keep" organ-assemble "$T/d" --output "$T/m.gguf" --dtype '*=f16' --fallback keep
check_error 2 "--fallback" "--fallback alone" organ-assemble "$T/d" --output "$T/m.gguf" --fallback f16
# An infinity in the data.
printf '\000\000\200\177' | dd of="$T/d/skeleton/blk_0_attn_q.bin" bs=1 seek=203 conv=notrunc 2> /dev/null
check_error 3 "blk.0.attn_q.weight" "data that does not match the manifest" organ-assemble -q "$T/d" \
    --output "$T/m.gguf" --dtype '*.attn_q.*=f16'
check_error 3 "1 of its values" "an infinite value" organ-assemble -q "$T/d" --output "$T/m.gguf" \
    --dtype '*.attn_q.*=f16' --no-verify
check_absent "$T/m.gguf" "after refusals"
check "which is copied as it is otherwise" organ-assemble "$T/d" --output "$T/m.gguf" --dtype '*.ffn_up.*=f16' \
    --no-verify
finish
