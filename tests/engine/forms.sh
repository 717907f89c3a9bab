#!/bin/sh
# forms.sh - does the engine load what organ-stack writes? Makes small models of every architecture
# (variants.mjs), fuses and divides their tensors, orders their blocks in several ways, and loads each
# result (load.c). Prints those that the engine refuses although it loads the model that they were
# made from; the last line is "forms: FUSED ORDERS REFUSED CHANGED", for run.sh: numbers of results,
# of those that are refused, and of models that are not the same after both ways. Needs node, git
# and a C compiler, and about 1.5 GB in a temporary folder.
#
#   BIN=build/bin          the tools
#   LAB=tests/data/lab     a folder of lab models
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/engine/recipes.sh
. tests/engine/recipes.sh
start_part forms
start_program load

HEALTHY=1 node tests/engine/variants.mjs "$LAB/lab-base-q4_k_m.gguf" "$M/models" > "$M/all" || exit 1
grep ': as it is$' "$M/all" | cut -f 1 > "$M/list"
mkdir "$M/made"
: > "$M/changed"
while read -r model; do
    name=${model##*/}
    name=$M/made/${name%.gguf}
    echo "$model" >> "$M/load"
    for way in fuse unfuse; do
        "$BIN/organ-stack" -q --$way "$model" -o "$name.$way.gguf" 2> /dev/null || continue
        other=unfuse
        [ $way = fuse ] || other=fuse
        "$BIN/organ-stack" -q --$other "$name.$way.gguf" -o "$M/back.gguf" --force 2> /dev/null
        cmp -s "$M/back.gguf" "$model" || echo "not the same after --$way and --$other: ${name##*/}" | tee \
            -a "$M/changed"
        printf '%s\t%s\tfuse\n' "$name.$way.gguf" "$model" >> "$M/tries"
    done
    orders="1-3 3,2,1,0 0-3,0-3 0,0-3 0-2 0,2,1,3 2-3,0-1 1,3 0,2-3"
    case $name in *-t5) orders="enc:1 enc:1,0 enc:0,1,1 dec:1 dec:1,0 dec:0,1,1" ;; esac
    for order in $orders; do
        "$BIN/organ-stack" -q "$model" "$order" -o "$name.$order.gguf" 2> /dev/null || continue
        printf '%s\t%s\torder\n' "$name.$order.gguf" "$model" >> "$M/tries"
    done
done < "$M/list"
cut -f 1 "$M/tries" >> "$M/load"
for k in 0 1; do
    awk -v k=$k 'NR % 2 == k' "$M/load" | "$M/load.run" "$engine" > "$M/engine$k" &
done
wait
cat "$M/engine0" "$M/engine1" > "$M/engine"
awk -F '\t' -v changed="$(wc -l < "$M/changed" | tr -d ' ')" '
FILENAME ~ /engine$/ { verdict[$1] = $2; why[$1] = $3; next }
verdict[$2] != "ok" { next }
{ n[$3]++; if (verdict[$1] != "ok") { refused++; sub(/.*\//, "", $1);
    print "written, but refused: " $1 " (" why[$1] ")" } }
END { printf "forms: %d %d %d %d\n", n["fuse"], n["order"], refused, changed }' "$M/engine" "$M/tries"
