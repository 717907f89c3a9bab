#!/bin/sh
# run.sh - runs the benches that can run here, and prints one table: each goal, what was measured, and
# whether it is met. The scripts' own tables are in build/bench/NAME.log. Ratios of one run on one
# machine that does nothing else mean most.
#
# SAVE=FILE keeps the table, AGAINST=FILE compares with a kept one, ONLY=NAME runs one script. A
# script is stopped after LIMIT seconds (110), so that all of them take less than ten minutes.
set -u
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench}
GOALS=$BENCH/goals.tsv
export BIN BENCH GOALS
here=$(dirname "$0")
: >"$GOALS"
for b in "$here"/*.sh; do
	name=$(basename "$b" .sh)
	case $name in run | goal) continue ;; esac
	case $name in *"${ONLY:-}"*) ;; *) continue ;; esac
	timeout -k 5 "${LIMIT:-110}" sh "$b" >"$BENCH/$name.log" 2>&1
	status=$?
	echo "$name: exit $status, see $BENCH/$name.log" >&2
done
awk -F '\t' -v old="${AGAINST:-}" '
BEGIN {
	while (old != "" && (getline line < old) > 0) { split(line, f, "\t"); before[f[1]] = f[2] }
	printf "%-66s %9s  %-16s %-8s %s\n", "goal", "measured", "wanted", "verdict", old != "" ? "before" : ""
}
{
	met = $3 == "at most" ? $2 <= $4 : $2 >= $4
	printf "%-66s %9s  %-16s %-8s %s\n", $1, $2, $3 " " $4, met ? "met" : "NOT MET", before[$1]
	not += !met
}
END { printf "%d of %d goals are met\n", NR - not, NR }' "$GOALS"
if [ -n "${SAVE:-}" ]; then cp "$GOALS" "$SAVE"; fi
