#!/bin/sh
# memory.sh - does organ-info compute the cache that the engine reserves? Makes a small model of each
# architecture (variants.mjs), lets the engine reserve 32768 tokens (memory.c), and compares. Prints
# the models that differ by more than 2 percent; the last line is "memory: ARCHITECTURES MODELS
# DIFFERENT", for run.sh. Needs node, git and a C compiler.
#
#   BIN=build/bin          the tools
#   LAB=tests/data/lab     a folder of lab models
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/engine/recipes.sh
. tests/engine/recipes.sh
start_part memory
start_program memory

# One healthy model of each architecture.
node tests/engine/variants.mjs "$LAB/lab-base-q4_k_m.gguf" "$M/variants" > "$M/list" || exit 1
{
    awk -F '\t' '$2 == "healthy" { a = $3; sub(/:.*/, "", a); if (!seen[a]++) print $1 }' "$M/list"
    echo "$LAB/lab-base-q4_k_m.gguf"
} > "$M/names"
"$M/memory.run" "$engine" 32768 < "$M/names" > "$M/engine"
xargs "$BIN/organ-info" --table < "$M/names" > "$M/info" 2> /dev/null
awk -F '\t' '
FILENAME ~ /engine$/ { mib[$1] = $2 == "-" ? -1 : $2 + $4; next }
FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
mib[$1] >= 0 && $column["cache_32k"] != "-" {
    ours = $column["cache_32k"] / 1048576
    arch = $column["architecture"]
    off = ours - mib[$1]; if (off < 0) off = -off
    models++
    if (!seen[arch]++) archs++
    # The engine prints two digits.
    if (ours == "-" || off > 0.02 * mib[$1] + 0.011) { bad++;
        print arch ": the engine reserves " mib[$1] " MiB, organ-info says " ours }
}
END { printf "memory: %d %d %d\n", archs, models, bad }' "$M/engine" "$M/info"
