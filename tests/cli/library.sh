#!/bin/sh
# shellcheck disable=SC1091,SC2002 # the tests read from pipes on purpose
# library.sh - every program of docs/library.md compiles without a warning against the
# umbrella header, and the commands under it print what the page says.
. "$(dirname "$0")/lib.sh"
if [ -n "${SANITIZED:-}" ]; then # whose library wants the sanitizer's own
    finish
fi

# A program is a block of C whose first line is a comment that names its file.
mkdir "$T/page"
awk -v dir="$T/page" '/^```c$/ { on = 1; file = ""; next } /^```$/ { on = 0 }
    on { if (file == "") { file = dir "/" $2 } print > file }' docs/library.md
n=0
for f in "$T"/page/*.c; do
    name=$(basename "$f" .c)
    check "compile $name.c of docs/library.md" compile -std=c11 -Wall -Wextra -Werror -Iinclude "$f" \
        "$B/lib/libgguf.a" -lm -pthread -o "$T/page/$name"
    if grep -q "^\$ \./$name " docs/library.md; then ok; else bad "docs/library.md does not run $name"; fi
    n=$((n + 1))
done
check_text "$n" "$(grep -c '^```c$' docs/library.md)" "programs of docs/library.md"
if [ $n -ge 5 ]; then ok; else bad "only $n programs"; fi

# "$ COMMAND", and what it prints up to the next command or the end of the block.
cp "$LAB/lab-verse-q4_k_m.gguf" "$T/page/model.gguf"
awk -v dir="$T" '/^```sh$/ { on = 1; next } /^```$/ { on = 0 }
    on && /^\$ / { n++; print substr($0, 3) > (dir "/command." n); printf "" > (dir "/want." n); next }
    on { print > (dir "/want." n) }' docs/library.md
n=1
while [ -e "$T/command.$n" ]; do
    (cd "$T/page" && sh "$T/command.$n") > "$T/out" 2> "$T/err" < /dev/null
    check_text "$(cat "$T/err")" "" "stderr of $(cat "$T/command.$n")"
    check_same "$T/out" "$T/want.$n" "what $(cat "$T/command.$n") prints"
    n=$((n + 1))
done
if [ $n -gt 5 ]; then ok; else bad "only $((n - 1)) commands"; fi

# The table names every header.
for h in include/organ/gg_*.h; do
    if grep -qw -e "$(basename "$h")" docs/library.md; then ok; else bad "docs/library.md leaves $h out"; fi
done
# list prints what organ-extract --list does.
organ-extract --list "$T/page/model.gguf" | cells name,class,dtype,bytes | sed 1d > "$T/want"
"$T/page/list" "$T/page/model.gguf" > "$T/out"
check_same "$T/out" "$T/want" "list and organ-extract --list"
# What double writes: the one tensor twice as large, the name, and nothing else changed.
organ-compare "$T/page/model.gguf" "$T/page/doubled.gguf" > "$T/out"
check_text "$(awk "$BY_NAME"'
    col("name") ~ /^blk|^token|^output/ && col("status") != "identical" { print col("name") }' "$T/out")" \
    blk.1.ffn_up.weight "only that tensor differs"

# prog NAME ARGUMENT...: a program of the page.
prog() {
    name=$1
    shift
    "$T/page/$name" "$@"
}

# Tensors without elements, of which a program may neither divide by a dimension nor read anything.
z=$T/zero.gguf
mkmodel "$z" -k general.alignment=32 blk.0.ffn_up.weight:F32:0x4 blk.0.ffn_down.weight:Q4_K:256x0 \
    blk.1.ffn_up.weight:F16:32x2 blk.1.ffn_down.weight:F32:32x0x3 blk.1.attn_norm.weight:F32:0
for m in "$z" "$D/gguf/zero-element-tensors.gguf"; do
    organ-extract -q --list "$m" | cells name,class,dtype,bytes | sed 1d > "$T/want"
    check "list of $(basename "$m")" prog list "$m"
    check_same "$T/out" "$T/want" "list and organ-extract --list of $(basename "$m")"
    cut -f 1,3,4 "$T/want" > "$T/tensors"
    while read -r t type bytes; do
        rm -f "$T/d.gguf"
        case $bytes in
        0)
            check_exit 1 "mean of $t" prog mean "$m" general.alignment "$t"
            check_text "$(cat "$T/err")" "mean: tensor '$t' has no values" "message of mean for $t"
            prog double "$m" "$t" "$T/d.gguf" 2> "$T/err"
            case "$? $(cat "$T/err")" in
            "0 ")
                prog list "$T/d.gguf" > "$T/out"
                sed "s/^\($t$TAB.*$TAB\)$type${TAB}0\$/\1Q8_0${TAB}0/" "$T/want" > "$T/want.double"
                check_same "$T/out" "$T/want.double" "what double makes of $t"
                ;;
            "3 double: a row of "[34]" values is not a multiple of the 32-value block of Q8_0") ok ;;
            *) bad "double of $t: $(cat "$T/err")" ;;
            esac
            ;;
        *) check "mean of $t" prog mean "$m" general.alignment "$t" ;;
        esac
    done < "$T/tensors"
    check "places of $(basename "$m")" prog places "$m"
    check_text "$(($(wc -l < "$T/out")))" "$(($(wc -l < "$T/want")))" "tensors that places shows"
done
check_text "$(prog select "$z" organ 0)" "2 tensors, 0 bytes" "a selection without bytes"
check_text "$(prog select "$z" organ,norm 0-1)" "5 tensors, 128 bytes" "a selection with few bytes"

# All of them also read pipes that carry a model, organ records or the shards of a model, whose
# tensors are not all known when they are opened.
m=$T/page/model.gguf
organ-extract -q "$m" --output - > "$T/records.bin"
organ-assemble -q "$m" --shards 3 --output "$T/shards.gguf"
cat "$T"/shards-0000?-of-00003.gguf > "$T/shards"
prog list "$m" > "$T/list"
prog places "$m" | cut -f 2- > "$T/places"
prog double "$m" blk.1.ffn_up.weight - > "$T/double"
for pipe in "$m" "$T/records.bin" "$T/shards"; do
    what="$(basename "$pipe") on a pipe"
    cat "$pipe" | prog list - > "$T/out" 2>&1
    check_same "$T/out" "$T/list" "list, $what"
    cat "$pipe" | prog places - 2>&1 | cut -f 2- > "$T/out"
    check_same "$T/out" "$T/places" "places, $what"
    check_text "$(cat "$pipe" | prog select - organ,norm 1-2 2>&1)" "10 tensors, 514048 bytes" "select, $what"
    mean=$(cat "$pipe" | prog mean - llama.block_count blk.0.attn_norm.weight 2>&1)
    check_text "$(printf '%s' "$mean" | tail -n 1)" "mean of blk.0.attn_norm.weight: 0.9009" "mean, $what"
    cat "$pipe" | prog double - blk.1.ffn_up.weight - > "$T/out" 2> "$T/err"
    case $pipe in
    *records.bin)
        prog list - < "$T/out" > "$T/list.records"
        prog list - < "$T/double" > "$T/list.double"
        check_same "$T/list.records" "$T/list.double" "tensors of double, $what"
        ;;
    *) check_same "$T/out" "$T/double" "double, $what" ;;
    esac
done
finish
