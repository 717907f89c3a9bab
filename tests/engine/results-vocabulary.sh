#!/bin/sh
# results-vocabulary.sh - the tables of docs/vocabulary.md: token ids of real tokenizers in the engine, and the
# losses of models with the vocabulary of another lineage (lab3 and lab4). results.sh runs it.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/engine/part.sh disable=SC1091
. tests/engine/part.sh
BIN=$(dirname "$(command -v organ-assemble)") sh tests/engine/tokenizers.sh > "$M/tokenizers" || : > "$M/changed"
put tokenizers < "$M/tokenizers"

if [ ! -f "$LAB/lab4-base-f16.gguf" ]; then
    echo "results-vocabulary.sh: no transplants, $LAB has no lab4" >&2
    [ ! -f "$M/changed" ]
    exit
fi
build_probe > "$M/build.log" 2>&1 || { cat "$M/build.log" >&2; exit 1; }
# losses NAME ROWS MODEL: nats per byte of each tuning text.
losses() {
    organ-probe -q "$3" --text "$LAB/lab3-tune-prose.txt" --text "$LAB/lab3-tune-py.txt" \
        --text "$LAB/lab3-tune-head.txt" | tail -n +2 > "$M/answers"
    printf '%s\t%s' "$1" "$2"
    while IFS=$TAB read -r text tokens loss _; do
        awk -v p="$loss" -v n="$tokens" -v bytes="$(wc -c < "$text")" 'BEGIN { printf "\t%.2f", p * n / bytes }'
    done < "$M/answers"
    echo
}
{
    printf 'model\trows\tprose\tPython\theaders\n'
    for pair in lab4:lab3 lab3:lab4; do
        base=$LAB/${pair%:*}-base-f16.gguf donor=$LAB/${pair#*:}-base-f16.gguf
        losses "${pair%:*}" "its own vocabulary" "$base"
        for method in mean length omp random; do
            organ-vocab transplant "$base" --from "$donor" --method $method -q --force -o "$M/t.gguf"
            losses "${pair%:*} with that of ${pair#*:}" $method "$M/t.gguf"
        done
    done
} > "$M/transplants"
put transplants < "$M/transplants"
[ ! -f "$M/changed" ]
