#!/bin/sh
# demo.sh - shows the main steps on the bundled models: take a model apart, measure it,
# assemble it again, graft, filter, and verify every byte.
set -eu
BIN=${BIN:-build/bin}
LAB=${LAB:-tests/data/lab}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/demo.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT

bold='' plain=''
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
exec 3>&1 # the terminal, for commands whose output goes elsewhere
run() { printf '$ %s\n' "$*" | sed "s|$tmp|/tmp/demo|g; s|$BIN/||g" >&3; "$@"; }

say "1. What is in the model?"
run "$BIN/organ-extract" "$LAB/lab-verse-q4_k_m.gguf" --list --layers 0

say "2. Take it apart"
run "$BIN/organ-extract" "$LAB/lab-verse-q4_k_m.gguf" --output "$tmp/verse.organs"
ls "$tmp/verse.organs"

say "3. Put it together: the same bytes"
run "$BIN/organ-assemble" "$tmp/verse.organs" --output "$tmp/verse.gguf"
run cmp "$LAB/lab-verse-q4_k_m.gguf" "$tmp/verse.gguf"
echo "identical"

say "4. How much structure do its classes show, and where is the least?"
"$BIN/organ-measure" "$tmp/verse.organs" --summary |
    awk -F '\t' '$1 != "role" { printf "%-7s %-10s %3s tensors  theta %.1f (%.1f to %.1f)\n", $1, $2, $3, $5, $6, $7 }' | sed 1d
run "$BIN/organ-measure" "$tmp/verse.organs" --wells 3 | cut -f 1-4,15

say "5. Do two models share a lineage, so that grafts can work?"
for other in code stranger; do
	"$BIN/organ-compare" "$LAB/lab-verse-q4_k_m.gguf" "$LAB/lab-$other-q4_k_m.gguf" --lineage > "$tmp/lineage" || true
	awk -F '\t' -v other="$other" 'NR == 2 { printf "verse and %s: %s, median cosine %.2f of %s matrices\n", other, $1, $4, $2 }' "$tmp/lineage"
done

say "6. A chimera: the FFN organs of another model in blocks 1 and 2"
run "$BIN/organ-transplant" "$LAB/lab-verse-q4_k_m.gguf" "$LAB/lab-code-q4_k_m.gguf" \
	--type ffn --layers 1-2 --check
run "$BIN/organ-transplant" "$LAB/lab-verse-q4_k_m.gguf" "$LAB/lab-code-q4_k_m.gguf" \
	--type ffn --layers 1-2 --output "$tmp/chimera.gguf"

say "7. The same by organ directories"
run "$BIN/organ-extract" "$LAB/lab-code-q4_k_m.gguf" --output "$tmp/code.organs"
run "$BIN/organ-graft" "$tmp/verse.organs" "$tmp/code.organs" --type ffn --layers 1-2 \
	--output "$tmp/graft.organs"
run "$BIN/organ-assemble" "$tmp/graft.organs" --output "$tmp/graft.gguf"
run cmp "$tmp/graft.gguf" "$tmp/chimera.gguf"
echo "identical"

say "8. Verify: take the chimera apart and compare each organ with its origin"
"$BIN/organ-extract" "$tmp/chimera.gguf" --output "$tmp/chimera.organs"
same_verse=0 same_code=0
for f in "$tmp/chimera.organs"/*/*.bin; do
	part=${f#"$tmp/chimera.organs/"}
	case $part in
	organs/blk_[12]_*) cmp "$f" "$tmp/code.organs/$part" && same_code=$((same_code + 1)) ;;
	*) cmp "$f" "$tmp/verse.organs/$part" && same_verse=$((same_verse + 1)) ;;
	esac
done
echo "$same_code organs are the donor's, $same_verse the base's, to the byte"

say "9. Filter what was grafted: its incoherent part is damped, its mean and deviation stay"
run "$BIN/organ-purify" "$tmp/graft.organs" --method haar --type ffn --layers 1-2 --output "$tmp/pure.organs" \
    > "$tmp/pure.tsv"
awk -F '\t' 'NR > 1 && $11 == "purified" { printf "%s: relative change %.3f\n", $1, $8 }' "$tmp/pure.tsv"
run "$BIN/organ-assemble" "$tmp/pure.organs" --output "$tmp/pure.gguf"

say "10. In place, and back"
cat "$LAB/lab-verse-q4_k_m.gguf" > "$tmp/model.gguf" # writable, even if the tree is not
run "$BIN/organ-transplant" "$tmp/model.gguf" "$LAB/lab-code-q4_k_m.gguf" \
	--type ffn --layers 1-2 --in-place --undo "$tmp/undo.bin"
# A new file would record the graft in its keys, which has no room in place.
run "$BIN/organ-transplant" "$LAB/lab-verse-q4_k_m.gguf" "$LAB/lab-code-q4_k_m.gguf" \
	--type ffn --layers 1-2 --no-history --output "$tmp/plain.gguf"
run cmp "$tmp/model.gguf" "$tmp/plain.gguf"
run "$BIN/organ-transplant" "$tmp/model.gguf" "$tmp/undo.bin" --in-place
run cmp "$tmp/model.gguf" "$LAB/lab-verse-q4_k_m.gguf"
echo "restored to the byte"

say "Done."
cat << END
Next, try this with a model of your own, which is only read:
  $BIN/organ-measure MODEL.gguf --summary
  $BIN/organ-check MODEL.gguf
Each tool explains itself with --help, and README.md shows what they do together.
END
