#!/bin/sh
# shellcheck disable=SC1091,SC2016,SC2086
# quickstart.sh - the original's Quick Start, line by line, in a fresh folder; and the other
# names of options that make it work.
. "$(dirname "$0")/lib.sh"
ROOT=$PWD
VERSE=$ROOT/$LAB/lab-verse-q4_k_m.gguf CODE=$ROOT/$LAB/lab-code-q4_k_m.gguf
mkdir "$T/fresh"
cd "$T/fresh" || exit 1

check "extract" organ-extract --model "$VERSE" --output ./organs/model-name/
check "extract the donor" organ-extract --model "$CODE" --output ./organs/qwen/
check "extract the base" organ-extract --model "$VERSE" --output ./organs/deepseek/
check "measure" organ-measure --dir ./organs/model-name/
check_text "$(sed 1d "$T/out" | wc -l | tr -d ' ')" 39 "measure: a row per tensor"
check "graft" organ-graft graft --source ./organs/qwen/ --target ./organs/deepseek/ --output ./organs/chimera/ \
    --layers 1-2 --type organ
check "assemble" organ-assemble --dir ./organs/chimera/ --output chimera.gguf
check "purify" organ-purify --dir ./organs/model-name/ --output ./organs-pure/model/
check_text "$(ls organs-pure)" model "purify: its folder was made"

# The same graft in one step, by every name of the options.
check "transplant" organ-transplant --base "$VERSE" --donor "$CODE" --layers 1-2 --type organ --output direct.gguf
check_same chimera.gguf direct.gguf "graft and transplant agree"
check "transplant, other names" organ-transplant --target "$VERSE" --source "$CODE" --layers 1-2 --type organ \
    --output other.gguf
check_same direct.gguf other.gguf "transplant, other names"
check "graft, other names" organ-graft --base organs/deepseek --donor organs/qwen --layers 1-2 --type organ \
    --output a/b//c/chimera
check "graft, other names, assembled" organ-assemble --model a/b/c/chimera -o again.gguf
check_same chimera.gguf again.gguf "graft, other names"
check "a donor on stdin by its other name" sh -c 'cat "$1" |
    organ-transplant --target "$2" --source - --layers 1-2 --type organ -o - > piped.gguf' sh "$CODE" "$VERSE"
check_same chimera.gguf piped.gguf "a donor on stdin"
check_error 2 "only one model can be read from stdin" "both on stdin" organ-transplant \
    --target - --source - --output x.gguf

# Folders that were made for an output that fails are gone again; others stay.
mkdir kept
check_exit 1 "nothing selected" organ-extract "$VERSE" --layers 99 --output kept/new/deep/organs
check_text "$(ls kept)" "" "made folders are gone"
: > file
check_exit 4 "a file in the way" organ-extract "$VERSE" --output file/new/organs
cd "$ROOT" || exit 1
finish
