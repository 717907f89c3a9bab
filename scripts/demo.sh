#!/bin/sh
# demo.sh - the main job on the bundled models: take one apart, look at it, put it
# together again, graft, and show that every byte is where it should be.
set -eu
BIN=${BIN:-build/bin}
LAB=${LAB:-tests/data/lab}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

bold='' plain=''
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
run() { printf '$ %s\n' "$*" | sed "s|$tmp|/tmp/demo|g; s|$BIN/||g"; "$@"; }

say "1. What is in the model?"
run "$BIN/organ-extract" "$LAB/lab-verse-q4_k_m.gguf" --list --layers 0

say "2. Take it apart"
run "$BIN/organ-extract" "$LAB/lab-verse-q4_k_m.gguf" --output "$tmp/verse.organs"
ls "$tmp/verse.organs"

say "3. Put it together: the same bytes"
run "$BIN/organ-assemble" "$tmp/verse.organs" --output "$tmp/verse.gguf"
run cmp "$LAB/lab-verse-q4_k_m.gguf" "$tmp/verse.gguf"
echo "identical"

say "4. A chimera: the FFN organs of another model in blocks 1 and 2"
run "$BIN/organ-transplant" --base "$LAB/lab-verse-q4_k_m.gguf" --donor "$LAB/lab-code-q4_k_m.gguf" \
	--type organ --layers 1-2 --check
run "$BIN/organ-transplant" --base "$LAB/lab-verse-q4_k_m.gguf" --donor "$LAB/lab-code-q4_k_m.gguf" \
	--type organ --layers 1-2 --output "$tmp/chimera.gguf"

say "5. Verify: take the chimera apart and compare each organ with its origin"
"$BIN/organ-extract" "$tmp/chimera.gguf" --output "$tmp/chimera.organs"
"$BIN/organ-extract" "$LAB/lab-code-q4_k_m.gguf" --output "$tmp/code.organs"
same_verse=0 same_code=0
for f in "$tmp/chimera.organs"/*/*.bin; do
	part=${f#"$tmp/chimera.organs/"}
	case $part in
	organs/blk_[12]_*) cmp "$f" "$tmp/code.organs/$part" && same_code=$((same_code + 1)) ;;
	*) cmp "$f" "$tmp/verse.organs/$part" && same_verse=$((same_verse + 1)) ;;
	esac
done
echo "$same_code organs are the donor's, $same_verse the base's, to the byte"

say "6. In place, and back"
cp "$LAB/lab-verse-q4_k_m.gguf" "$tmp/model.gguf"
run "$BIN/organ-transplant" --base "$tmp/model.gguf" --donor "$LAB/lab-code-q4_k_m.gguf" \
	--type organ --layers 1-2 --in-place --undo "$tmp/undo.bin"
run cmp "$tmp/model.gguf" "$tmp/chimera.gguf"
run "$BIN/organ-transplant" --base "$tmp/model.gguf" --donor "$tmp/undo.bin" --in-place
run cmp "$tmp/model.gguf" "$LAB/lab-verse-q4_k_m.gguf"
echo "restored to the byte"

say "Done."
