#!/bin/sh
# checks.sh - are organ-check's verdicts those of the engine? Makes healthy and damaged
# variants of small models (variants.mjs), loads each in the engine (load.c), and compares.
# Prints a table and the exceptions; the last line is "checks: FALSE MISSED REFUSED", for
# run.sh. Needs node, git and a C compiler, and about 4 GB in a temporary folder.
#
#   BIN=build/bin          the tools
#   LAB=tests/data/lab     a folder of lab models
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/engine/recipes.sh
. tests/engine/recipes.sh
start_part checks
start_program load

node tests/engine/variants.mjs "$LAB/lab-base-q4_k_m.gguf" "$M/variants" > "$M/list" || exit 1
for f in "$LAB"/lab-*.gguf; do
    case $f in *lora* | *imatrix*) continue ;; esac
    printf '%s\thealthy\t%s\n' "$f" "$(basename "$f")"
done >> "$M/list"
for k in 0 1; do
    cut -f 1 "$M/list" | awk -v k=$k 'NR % 2 == k' | "$M/load.run" "$engine" > "$M/engine$k" &
done
wait
cut -f 1 "$M/list" | xargs "$BIN/organ-check" -q > "$M/findings" 2> /dev/null

cat "$M/engine0" "$M/engine1" > "$M/engine"
awk -F '\t' '
FILENAME ~ /engine$/ { verdict[$1] = $2; why[$1] = $3; next }
FILENAME ~ /findings$/ { if ($2 == "warning") warned[$1] = 1; if ($2 == "error" &&
    !($1 in found)) found[$1] = $3 ": " $4 ": " $5; next }
{
    bad = $1 in found
    arch = $3; sub(/[:\/].*/, "", arch)
    if (!(arch in seen)) { seen[arch] = 1; order[++archs] = arch }
    if (verdict[$1] == "ok") { loads[arch]++; if (bad) { false_alarms[arch]++;
        print "called an error, but it loads: " $3 " (" found[$1] ")" } }
    else { refuses[arch]++; if (bad) called[arch]++; else if (why[$1] !~ /^load: / && $1 in warned) warnings[arch]++;
        else print "refused, but not called an error: " $3 " (" why[$1] ")" }
}
END {
    print "\n| model | loads | of these called an error | refused | of these called an error |" \
        " crashes that have a warning |\n|---|---|---|---|---|---|"
    for (i = 1; i <= archs; i++) {
        a = order[i]
        printf "| %s | %d | %d | %d | %d | %d |\n", a, loads[a], false_alarms[a], refuses[a], called[a], warnings[a]
        l += loads[a]; f += false_alarms[a]; r += refuses[a]; c += called[a]; w += warnings[a]
    }
    printf "| all | %d | %d | %d | %d | %d |\n\nchecks: %d %d %d\n", l, f, r, c, w, f, r - c - w, r
}' "$M/engine" "$M/findings" "$M/list"
