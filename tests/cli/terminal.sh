#!/bin/sh
# shellcheck disable=SC1091
# terminal.sh - what tools print only on a terminal: what was written, narrow tables; and the columns
# and rows that a person chooses.
. "$(dirname "$0")/lib.sh"
V=$LAB/lab-verse-q4_k_m.gguf
A=$LAB/lab-lora-code.gguf

# ---- columns and rows of organ-measure ----
organ-measure -q "$V" > "$T/all"
N=$(($(wc -l < "$T/all") - 1))
# want COLUMN-NUMBERS SORT-OPTIONS LINES: those columns of all rows
want() {
    awk -F '\t' -v OFS='\t' -v list="$1" \
        'BEGIN { n = split(list, c, " ") } { for (i = 1; i <= n; i++) printf "%s%s", $c[i], (i < n) ? OFS : "\n" }' \
        "$T/all"
}
number() { head -n 1 "$T/all" | tr '\t' '\n' | grep -nx "$1" | cut -d : -f 1; }
name=$(number name) theta=$(number theta) block=$(number block)
check "--columns" organ-measure -q "$V" --columns theta,name
want "$theta $name" > "$T/want"
check_same "$T/out" "$T/want" "two columns, in the order given"
check "--sort" organ-measure -q "$V" --sort theta --columns name,theta
{ sed 1q "$T/out"; want "$name $theta" | sed 1d | sort -t "$TAB" -s -k 2,2g; } > "$T/want"
check_same "$T/out" "$T/want" "ascending order"
check "--sort -COLUMN" organ-measure -q "$V" --sort -theta --columns name,theta --top 5
{ sed 1q "$T/out"; want "$name $theta" | sed 1d | sort -t "$TAB" -s -k 2,2gr | sed 5q; } > "$T/want"
check_same "$T/out" "$T/want" "the five with the largest theta"
check "--sort -block" organ-measure -q "$V" --sort -block --columns block
check_text "$(sed -n '2p;$p' "$T/out" | tr '\n' ' ')" "3 - " "rows without a value come last"
check "--sort -name" organ-measure -q "$V" --sort -name --columns name
{ echo name; want "$name" | sed 1d | LC_ALL=C sort -r; } > "$T/want"
check_same "$T/out" "$T/want" "names in reversed order"
check "--top" organ-measure -q "$V" --top 3
sed 4q "$T/all" > "$T/want"
check_same "$T/out" "$T/want" "the first rows, with all columns"
check "--where of a column that is not printed" organ-measure -q "$V" --where block=2 --columns name
{ echo name; awk -F '\t' -v b="$block" -v n="$name" '$b == "2" { print $n }' "$T/all"; } > "$T/want"
check_same "$T/out" "$T/want" "conditions see all columns"
check "--json" organ-measure -q "$V" --json --columns name,block --top 1
check_text "$(cat "$T/out")" '{"name": "token_embd.weight", "block": null}' "JSON"
check_error 2 "unknown column 'thet'" "an unknown column" organ-measure "$V" --columns name,thet
check_error 2 "unknown column 'nam'" "an unknown column to sort by" organ-measure "$V" --sort nam
check_error 2 "not both" "rows of a summary" organ-measure "$V" --summary --top 3
check "--svg FILE" organ-measure -q "$V" --svg "$T/p.svg"
check_text "$(cat "$T/out")" "" "a picture without a table"
check "--svg FILE --json" organ-measure -q "$V" --svg "$T/p.svg" --force --json
check_text "$(($(wc -l < "$T/out")))" "$N" "a picture and rows"

# ---- on a terminal ----
check "no terminal" organ-assemble "$V" --output "$T/none.gguf"
check_text "$(cat "$T/err")" "" "no such line without a terminal"
if have script "output on a terminal" bsdutils && script -qec true /dev/null > /dev/null 2>&1; then
    terminal() { # COMMAND LINE
        script -qec "$1" /dev/null < /dev/null | tr -d '\r' > "$T/seen"
    }
    kib() { # FILE: its size as the tools print it
        awk -v n="$(wc -c < "$1")" \
            'BEGIN { k = n / 1024; printf (k >= 99.95 ? "%.0f KiB" : k >= 9.995 ? "%.1f KiB" : "%.2f KiB"), k }'
    }
    told() { # COMMAND LINE, what it prints last
        terminal "$1"
        check_text "$(tail -n 1 "$T/seen")" "$2" "$1"
    }
    # The experts of a block in one row, but all of them if they are asked for, and in a pipe.
    mkmodel "$T/moe.gguf" blk.0.ffn_down_exps.weight:F32:8x16x6 blk.1.ffn_down_exps.weight:F32:8x16x6
    imatrix "$T/moe.im" blk.0.ffn_down_exps.weight:8:1,2,4,1,1,1:5,5,5,5,5,5 \
        blk.1.ffn_down_exps.weight:8:1,1,1,1,1,9:5,5,5,5,5,5
    terminal "organ-measure -q $T/moe.gguf --imatrix $T/moe.im --rank experts"
    check_text "$(sed 1d "$T/seen" | awk '{ print $1, $2, $3, $NF }' | tr '\n' ' ')" \
        "0 6 2: % 1 6 5: % " "one row per block"
    check_text "$(($(wc -l < "$T/seen")))" 3 "blocks"
    terminal "organ-measure -q $T/moe.gguf --imatrix $T/moe.im --rank experts --top 6"
    check_text "$(($(wc -l < "$T/seen")))" 13 "all experts"
    check_text "$(organ-measure -q "$T/moe.gguf" --imatrix "$T/moe.im" --rank experts | wc -l | tr -d ' ')" 13 "a pipe"
    # Classes have the names that people use on a terminal, and those of the manifest elsewhere.
    terminal "organ-extract -q $V --list"
    check_text "$(awk 'NR > 1 { print $2 }' "$T/seen" | sort -u | tr '\n' ' ')" "attention embedding ffn norm " \
        "classes of --list"
    check_text "$(organ-extract -q "$V" --list | cells class | sed 1d | sort -u | tr '\n' ' ')" \
        "embed norm organ skeleton " "and in a pipe"
    terminal "organ-measure -q $V --summary"
    check_text "$(awk '$1 == "class" { print $2 }' "$T/seen" | tr '\n' ' ')" "attention ffn embedding norm " \
        "classes of --summary"
    for class in ffn organ; do
        terminal "organ-measure -q $V --columns name,class --where class=$class"
        check_text "$(awk 'NR > 1 { print $2 }' "$T/seen" | sort | uniq -c | tr -s ' ')" " 12 ffn" \
            "class=$class on a terminal"
    done
    told "organ-measure -q $V --svg $T/one.svg" "" # silent
    told "organ-measure $V --svg $T/one.svg --force" "organ-measure: $V -> $T/one.svg: $(kib \
        "$T/one.svg"); next: open it in a browser"
    told "organ-measure -q $V --svg $T/one.svg --force --histogram $T/h.tsv" ""
    told "organ-measure $V --histogram $T/h.tsv --force" "organ-measure: $V -> $T/h.tsv: $(kib \
        "$T/h.tsv")"
    size="1.78 MiB, 5.18 bits per weight; check: no findings; next:"
    told "organ-assemble $V -o $T/a.gguf" \
        "organ-assemble: $V -> $T/a.gguf: $size organ-validate $T/a.gguf --reference $V --text TEXT"
    told "organ-extract $V --output $T/d" \
        "organ-extract: $V -> $T/d: $size organ-assemble $T/d -o NEW.gguf"
    told "organ-assemble $T/d -o $T/s.gguf --shards 2" \
        "organ-assemble: $T/d -> $T/s-00001-of-00002.gguf: $size organ-validate $T/s-00001-of-00002.gguf --text TEXT"
    told "organ-keys $A --set general.name=str:x --output $T/x.gguf" \
        "organ-keys: $A -> $T/x.gguf: 512 KiB, 32.00 bits per weight; check: no findings; \
next: organ-transplant BASE --adapter $T/x.gguf -o NEW.gguf"
    told "organ-keys $T/a.gguf --set general.name=str:y --in-place" \
        "organ-keys: $T/a.gguf -> $T/a.gguf: $size organ-validate $T/a.gguf --text TEXT"
    told "organ-assemble -q $V -o $T/quiet.gguf" ""
    check_text "$(cat "$T/seen")" "" "-q silences it"
    told "organ-transplant --base $V --donor $T/a.gguf --layers 1 --check --output $T/none.gguf --force > $T/rows" \
        "organ-transplant: 9 would move, 0 do not match, 0 keys differ"
    grep -q "next:" "$T/seen" && bad "a check wrote nothing" || ok
    told "organ-check $V" "organ-check: $V: no findings: llama, 39 tensors"
    check_text "$(($(wc -l < "$T/seen")))" 1 "and no empty table"
    # organ-info of several files fits; a pipe gets all columns.
    cp "$V" "$T/a-name-that-is-too-long-for-this-terminal.gguf"
    for wide in 80 100; do
        terminal "stty cols $wide; organ-info $V $A $LAB/lab-base.imatrix.gguf $T/a-name-that*.gguf"
        check_text "$(awk -v wide=$wide 'length > wide || NR > 5' "$T/seen")" "" \
            "rows of organ-info fit $wide columns"
        check_text "$(awk 'NR == 5 && /^a-name-that.*[.][.][.].*gguf  model /' "$T/seen" | wc -l | tr -d ' ')" 1 \
            "a name without its middle in $wide columns"
    done
    terminal "stty cols 100; organ-info $V $A"
    check_text "$(sed 's/  */ /g' "$T/seen")" "file kind name params type size context check
lab-verse-q4_k_m.gguf model lab-verse 2.89M Q4_K_M 1.80 MiB 512 no findings
lab-lora-code.gguf adapter lab-lora-code 131K F32 516 KiB - no findings" "all columns, if they fit"
    terminal "stty cols 80; HF_HUB_CACHE=$T/no OLLAMA_MODELS=$T/no LLAMA_CACHE=$T/no HOME=$T/no \
scripts/organ-models $LAB"
    check_text "$(awk 'length > 80' "$T/seen")" "" "rows of organ models fit"
    check_text "$(grep -c 'model    Q4_K_M    2.89M  1.80 MiB      512  no findings' "$T/seen")" 4 "what they show"
    terminal "stty cols 130; organ-info $V $A $LAB/lab-base.imatrix.gguf tests/cli/lib.sh 2> $T/err; true"
    check_text "$(sed -n 1p "$T/seen" | tr -s ' ')" "file kind name parameters type size context check" "its columns"
    check_text "$(awk '/lab-verse/ { print $(NF - 5), $(NF - 4), $(NF - 3), $(NF - 2) }' "$T/seen")" \
        "Q4_K_M 1.80 MiB 512" "the type as people say it"
    check_text "$(awk '/lib.sh/ { print $2, $3 }' "$T/seen")" "not readable" "a file that cannot be read has a row"
    terminal "stty cols 130; organ-info $V $A --where bpw\\>20"
    check_text "$(awk 'NR > 1 { print $(NF - 5) }' "$T/seen")" F32 "conditions on columns that are not shown"
    terminal "organ-measure -q $V"
    check_text "$(awk 'length > 80' "$T/seen")" "" "rows of at most 80 columns"
    check_text "$(sed -n 1p "$T/seen" | tr -s ' ')" "name dtype theta calibrated row_theta kurtosis" "a narrow table"
    check_text "$(($(wc -l < "$T/seen")))" $((N + 1)) "of all rows"
    terminal "organ-measure -q $V --columns name,mean"
    check_text "$(sed -n 1p "$T/seen" | tr -s ' ')" "name mean" "or the columns that are asked for"
fi
finish
