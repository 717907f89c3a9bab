#!/bin/sh
# coverage.sh - run the tests and the fuzz targets of a build with coverage, and print for each
# source file how many of its functions and lines they reach. Exit 1 if a file is not reached.
#
#   B=build/coverage sh tests/fuzz/coverage.sh
#
# ONLY=PATTERN runs only the tests whose path contains it, and FUZZ_RUNS=N sets the mutants per
# fuzz target (1000).
set -u
B=${B:-build/coverage}
raw=$PWD/$B/raw
mkdir -p "$raw" && chmod 1777 "$raw"
status=0
export B
SECONDS_MAX=60 BIN=$B/bin sh tests/run.sh > "$B/tests.log" 2>&1 || {
    tail -3 "$B/tests.log"
    echo "some tests failed, see $B/tests.log"
}
sh tests/fuzz/run.sh replay "$B/fuzz" "${FUZZ_RUNS:-1000}" > "$B/fuzz.log" 2>&1 || tail -3 "$B/fuzz.log"
llvm-profdata merge -sparse "$raw"/*.profraw -o "$B/all.profdata" || exit 2

first='' rest=''
for f in "$B"/bin/organ-* "$B"/test/* "$B"/fuzz/fuzz_*; do
    [ -x "$f" ] && [ -f "$f" ] || continue
    case $f in *.d) continue ;; esac
    if [ -z "$first" ]; then first=$f; else rest="$rest -object $f"; fi
done
# shellcheck disable=SC2086 # one word per option
llvm-cov report "$first" $rest -instr-profile="$B/all.profdata" \
    -ignore-filename-regex='(^|/)tests/|^/usr/' 2> /dev/null > "$B/report.txt" || exit 2

# Columns of llvm-cov: name, regions, missed, %, functions, missed, %, lines, missed, %, ...
awk '
    BEGIN { printf "%-44s %10s %10s %7s %8s %7s\n", "file", "functions", "reached", "lines", "reached", "%" }
    NF >= 10 && $1 ~ /\.[ch]$/ || $1 == "TOTAL" {
        printf "%-44s %10d %10d %7d %8d %6.1f\n", $1, $5, $5 - $6, $8, $8 - $9, $8 ? 100 * ($8 - $9) / $8 : 100
    }' "$B/report.txt"
# A source file without code of its own (only tables) is not in the report.
awk 'NF >= 10 && $1 ~ /\.c$/ && $8 > 0 && $8 == $9 { print "not reached: " $1; bad = 1 } END { exit bad }' \
    "$B/report.txt" || status=1
exit $status
