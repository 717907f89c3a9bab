#!/bin/sh
# purify.sh - organ-purify on every kind of source and output. Each gives the same tensors, and
# strength 0 keeps every byte. Also the history in the manifest, the table, and requests that
# are refused before anything is written.
. "$(dirname "$0")/lib.sh"
VERSE=$LAB/lab-verse-q4_k_m.gguf

organ-extract $VERSE --output "$T/d"

# Strength 0: directory, GGUF, stream, record; odd models too.
check "strength 0, directory" organ-purify --dir "$T/d" --output "$T/d0" --method haar --strength 0
check_same_dir "$T/d/organs" "$T/d0/organs" "strength 0: records"
check_same_dir "$T/d" "$T/d0" "strength 0: the whole directory"
check "assemble it" organ-assemble "$T/d0" --output "$T/d0.gguf"
check_same "$T/d0.gguf" $VERSE "strength 0 assembles to the model"
check "strength 0, GGUF" organ-purify $VERSE --output "$T/g0.gguf" --method fft --strength 0
check_same "$T/g0.gguf" $VERSE "strength 0 of a GGUF"
organ-extract $VERSE --output - > "$T/s"
organ-purify - --output - --method fft --strength 0 < "$T/s" > "$T/s0" 2> "$T/err"
check_same "$T/s" "$T/s0" "strength 0 of a stream"
for f in padding-nonzero trailing-bytes align-4096 last-tensor-unpadded trailing-zeros; do
    check "$f: GGUF" organ-purify $D/gguf/$f.gguf --output "$T/$f.gguf" --method haar --strength 0
    check_same "$T/$f.gguf" $D/gguf/$f.gguf "$f: strength 0"
    organ-extract -q $D/gguf/$f.gguf --output "$T/$f"
    check "$f: directory" organ-purify "$T/$f" --output "$T/$f.d" --method fft --strength 0
    check "$f: assemble" organ-assemble "$T/$f.d" --output "$T/$f.back"
    check_same "$T/$f.back" $D/gguf/$f.gguf "$f: strength 0, over directories"
done

# The same values whatever they come from and go to.
purify="--method haar --type organ --layers 1-2 --strength 0.5"
# shellcheck disable=SC2086
{
    check "directory to directory" organ-purify "$T/d" --output "$T/dd" $purify
    cp "$T/out" "$T/table"
    check "assemble it" organ-assemble "$T/dd" --output "$T/dd.gguf"
    check "GGUF to GGUF" organ-purify $VERSE --output "$T/gg.gguf" $purify
    check_same "$T/dd.gguf" "$T/gg.gguf" "directory and GGUF"
    check_same "$T/out" "$T/table" "their tables"
    check "GGUF to directory" organ-purify $VERSE --output "$T/gd" $purify
    check_same_dir "$T/dd/organs" "$T/gd/organs" "directory of a GGUF"
    organ-extract "$T/dd" --output - > "$T/want"
    organ-purify - --output - $purify < "$T/s" > "$T/have" 2> "$T/err"
    check_same "$T/want" "$T/have" "stream to stream"
    organ-purify $VERSE --output - $purify > "$T/have" 2> "$T/err"
    check_same "$T/want" "$T/have" "GGUF to stream"
    organ-purify - --output - $purify < $VERSE > "$T/have" 2> "$T/err"
    check_same "$T/want" "$T/have" "GGUF on a pipe to stream"
    check "GGUF on a pipe to GGUF" sh -c "cat $VERSE | organ-purify - --output $T/pg.gguf $purify"
    check_same "$T/pg.gguf" "$T/gg.gguf" "GGUF on a pipe"
    check "one thread" organ-purify -j 1 "$T/d" --output "$T/j1" $purify
    check "seven threads" organ-purify -j 7 "$T/d" --output "$T/j7" $purify
    check_same_dir "$T/j1" "$T/j7" "any number of threads"
    check "record to record" organ-purify "$T/d/organs/blk_1_ffn_up.bin" --output "$T/r.bin" $purify
    check_same "$T/r.bin" "$T/dd/organs/blk_1_ffn_up.bin" "record to record"
    check "plain C" env GG_ISA=0 organ-purify "$T/d" --output "$T/isa0" $purify
    check_same_dir "$T/isa0/organs" "$T/dd/organs" "the same bytes on every instruction set"
    check "dry run" organ-purify "$T/d" --dry-run $purify
    check_same "$T/out" "$T/table" "dry run prints the table"
    check_error 2 "also an input" "over itself" organ-purify "$T/j1" --output "$T/j1" --force --method fft \
        --type norm,organ --layers 0
    check "dry run on a pipe" sh -c "organ-purify - --dry-run $purify < $T/s"
    check_same "$T/out" "$T/table" "dry run of a stream"
}

# Other tensors do not change. Selected ones have a history and no outdated measures.
check_same_dir "$T/d/skeleton" "$T/dd/skeleton" "a tensor that was not selected"
check_same "$T/d/organs/blk_0_ffn_up.bin" "$T/dd/organs/blk_0_ffn_up.bin" "a tensor that was not selected"
if cmp -s "$T/d/organs/blk_1_ffn_up.bin" "$T/dd/organs/blk_1_ffn_up.bin"; \
    then bad "a selected tensor did not change"; else ok; fi
check_text "$(grep -c '"history": \[{"op": "purify", "method": "haar", "strength": 0.5, "energy_kept": ' \
    "$T/dd/manifest.json")" 6 "history"
check "a second time" organ-purify "$T/dd" --output "$T/dd2" --method fft --tensors 'blk.1.ffn_up.weight' --dtype F16
check_text "$(grep -c '"method": "haar".*{"op": "purify", "method": "fft", "strength": 0.04, "from_dtype": "Q4_K", ' \
    "$T/dd2/manifest.json")" 1 "history is kept"
check "measures" organ-measure "$T/d" --update
check "after measures" organ-purify "$T/d" --output "$T/dz" --method fft --tensors 'blk.1.ffn_up.weight'
check_text "$(grep -c '"z":' "$T/dz/manifest.json")" $(($(grep -c '"z":' "$T/d/manifest.json") - 1)) \
    "z of what changed is gone, that of others stays"
check "all of it is sound" organ-assemble "$T/dd2" --output "$T/dd2.gguf"

# The table: its columns, thetas as organ-measure has them.
tab() { awk -F '\t' -v name="$2" \
    "$BY_NAME"'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i } NR > 1 {
        print col("name") "\t" $c }' "$1"; }
check_text "$(head -n 1 "$T/table" | tr '\t' ' ')" \
    "name class block dtype method strength energy_kept rel_l2 theta_before theta_after status" "header"
check_text "$(awk -F '\t' 'NF != 11' "$T/table" | wc -l | tr -d ' ')" 0 "eleven columns"
for side in before after; do
    if [ $side = before ]; then m=$VERSE; else m=$T/dd; fi
    organ-measure "$m" --type organ --layers 1-2 > "$T/m"
    tab "$T/m" theta > "$T/a"
    tab "$T/table" theta_$side > "$T/b"
    check_same "$T/a" "$T/b" "theta $side"
done
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 && !(col("energy_kept") > 0 && col("energy_kept") < 1 &&
    col("rel_l2") > 0 && col("rel_l2") < 1 && col("status") == "purified")' "$T/table" | wc \
    -l | tr -d ' ')" 0 "rows are sound"
check "json" organ-purify $VERSE --dry-run --method fft --layers 0 --json
check_text "$(($(wc -l < "$T/out")))" 9 "json rows"
check_text "$(grep -c '"energy_kept": null.*"status": "vector"' "$T/out")" 2 "norms are left alone"
check "a norm by its name" organ-purify $VERSE --dry-run --method fft --tensors blk.0.attn_norm.weight
check_text "$(grep -c "purified" "$T/out")" 1 "a norm by its name"

check "a norm that is the only record" organ-purify "$T/d/norm/blk_0_attn_norm.bin" --output "$T/norm.bin" \
    --method fft --strength 0.5
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 {
    print col("status") }' "$T/out")" purified "a norm that is the only record"
organ-purify "$T/d" --output "$T/dn" --method fft --strength 0.5 --tensors blk.0.attn_norm.weight > "$T/out" \
    2> "$T/err"
check_same "$T/norm.bin" "$T/dn/norm/blk_0_attn_norm.bin" "as by its name"
cat "$T"/d/norm/*.bin > "$T/norms.bin"
check_error 1 "exact name" "several vectors, none by its name" organ-purify "$T/norms.bin" --output "$T/x.bin" \
    --method fft

# --dtype: the file type follows; a dtype that cannot be is refused with the choices.
check "--dtype" organ-purify $VERSE --output "$T/q8.gguf" --method haar --dtype q8_0
check_text "$(organ-extract "$T/q8.gguf" --list |
    awk -F '\t' "$BY_NAME"'NR > 1 && col("class") != "norm" && col("dtype") != "Q8_0"' | wc -l | tr \
    -d ' ')" 0 "all matrices are Q8_0"
organ-extract -q "$T/q8.gguf" --output "$T/q8"
check_text "$(grep -c '"general.file_type", "type": "u32", "value": 7}' "$T/q8/manifest.json")" 1 "file type"
for out in "$T/no" "$T/no.gguf" "$T/no.bin"; do
    check_error 2 "choose one of F32" "no encoder: $out" organ-purify $VERSE --output "$out" --method haar \
        --dtype IQ2_XS
    check_absent "$out" "no encoder"
done
check_error 2 "token_embd" "it names the tensor" organ-purify $VERSE --output - --method haar --dtype IQ1_S
check_error 2 "IQ1_S" "strength 0 keeps bytes, but not the dtype" organ-purify $VERSE --output - --method haar \
    --strength 0 --dtype IQ1_S --tensors blk.0.ffn_up.weight

# Experts: on their stack or taken apart, all of them or some.
if have mkmodel; then
    mkmodel "$T/moe.gguf" token_embd.weight:F16:64x100 blk.0.ffn_gate_inp.weight:F32:64x4 \
        blk.0.ffn_gate_exps.weight:Q8_0:64x96x4 \
        blk.0.ffn_up_exps.weight:Q8_0:64x96x4 blk.0.ffn_down_exps.weight:Q8_0:96x64x4 output_norm.weight:F32:64
    organ-extract -q "$T/moe.gguf" --split-experts --output "$T/moe"
    for dtype in Q8_0 F16; do
        check "stacks to $dtype" organ-purify "$T/moe.gguf" --output "$T/moe1.gguf" --force --method fft \
            --strength 0.3 --type organ --dtype $dtype
        check "experts to $dtype" organ-purify "$T/moe" --output "$T/moe2" --force --method fft --strength 0.3 \
            --type organ --dtype $dtype
        check "experts together" organ-assemble "$T/moe2" --output "$T/moe2.gguf" --force
        check_same "$T/moe1.gguf" "$T/moe2.gguf" "experts on their stack and taken apart, $dtype"
    done
    check "some experts" organ-purify "$T/moe.gguf" --output "$T/moe3" --method haar --experts 1,3
    check_text "$(cells name,status "$T/out" | sed 1d | tr '\t\n' '  ')" \
        "$(printf 'blk.0.ffn_%s.weight purified ' gate.1 gate.3 up.1 up.3 down.1 down.3)" "rows of experts"
    check_text "$(grep -c '"experts": \[1, 3\]' "$T/moe3/manifest.json")" 3 "history of experts"
    check_error 2 "--split-experts" "another dtype for some experts" organ-purify "$T/moe.gguf" --output "$T/x" \
        --method haar --experts 1 --dtype F16
    check_absent "$T/x" "another dtype for some experts"
fi

# A tensor that all threads work on, in parts, chunks and steps of which the last are shorter: read
# and written in any order, in order to check its hash, and to a pipe.
if have mkmodel; then
    mkmodel "$T/big.gguf" blk.0.ffn_up.weight:Q8_0:1056x4001
    organ-extract -q "$T/big.gguf" --output "$T/big"
    for m in haar fft; do
        check "$m, one thread" organ-purify -j 1 "$T/big.gguf" --output "$T/big1.gguf" --force --method $m
        cp "$T/out" "$T/table"
        check "$m, three threads" organ-purify -j 3 "$T/big.gguf" --output "$T/big3.gguf" --force --method $m
        check_same "$T/big1.gguf" "$T/big3.gguf" "$m of a large tensor, any number of threads"
        check_same "$T/out" "$T/table" "$m of a large tensor, table"
        organ-measure "$T/big3.gguf" > "$T/m"
        tab "$T/m" theta > "$T/a"
        tab "$T/table" theta_after > "$T/b"
        check_same "$T/a" "$T/b" "$m of a large tensor, theta"
        check "$m, directory" organ-purify -j 3 "$T/big" --output "$T/bigd" --force --method $m
        organ-extract -q "$T/bigd" --output - > "$T/want"
        organ-purify -j 3 "$T/big.gguf" --output - --method $m > "$T/have" 2> "$T/err"
        check_same "$T/want" "$T/have" "$m of a large tensor, directory and stream"
        organ-extract -q "$T/big1.gguf" --output - > "$T/want"
        check_same "$T/want" "$T/have" "$m of a large tensor, file and stream"
    done
fi

# NaN: refused by name and count, nothing is left behind.
{
    printf '\1\0\0\0n\2\0\0\0\4\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\200\77\0\0\300\177\0\0\0\100'
    printf '\0\0\200\177\0\0\200\77\0\0\0\100\0\0\200\77\0\0\0\100'
} > "$T/nan.bin"
for m in haar fft; do
    check_error 3 "tensor 'n': 2 of its values are NaN or infinite" "NaN, $m" organ-purify "$T/nan.bin" \
        --output "$T/nan2.bin" --method $m
    check_absent "$T/nan2.bin" "NaN, $m"
    check_error 3 "tensor 'n': 2 of its values are NaN or infinite" "NaN, $m, dry" organ-purify "$T/nan.bin" \
        --dry-run --method $m
done

# Data that does not match the manifest.
cp -R "$T/d" "$T/broken"
printf 'xxxx' | dd of="$T/broken/organs/blk_1_ffn_up.bin" bs=1 seek=1000 conv=notrunc 2> "$T/err"
check_error 3 "sha256" "data changed under the manifest" organ-purify "$T/broken" --output "$T/broken2" --method haar
check_absent "$T/broken2" "data changed under the manifest"

# Usage.
check_error 2 "exists" "an existing output" organ-purify "$T/d" --output "$T/d0" --method haar
check_error 2 "--method" "a wrong method" organ-purify "$T/d" --output "$T/x" --method dct
check_error 2 "--strength" "too strong" organ-purify "$T/d" --output "$T/x" --method fft --strength 1.01
check_error 2 "--strength" "negative" organ-purify "$T/d" --output "$T/x" --method fft --strength -1
check_error 2 "--output or --dry-run" "no output" organ-purify "$T/d" --method fft
check_error 2 "--dtype" "no dtype" organ-purify "$T/d" --dry-run --method fft --dtype Q9
check_error 2 "organ-assemble" "a directory to a GGUF" organ-purify "$T/d" --output "$T/x.gguf" --method fft
check_error 1 "block 99 is not in the model" "nothing selected" organ-purify "$T/d" --output "$T/x" --method fft \
    --layers 99
check_error 1 "exact name" "vectors alone" organ-purify "$T/d" --output "$T/x" --method fft --type norm
check_absent "$T/x" "after refusals"
check_absent "$T/x.gguf" "after refusals"
check_text "$(find "$T" -name '.*.tmp' | wc -l | tr -d ' ')" 0 "no temporary files are left"
finish
