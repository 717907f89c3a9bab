#!/bin/sh
# run.sh - runs the benches that can run here, and prints one table: each goal, what was measured, and
# whether it is met. The scripts' own tables are in build/bench/NAME.log. Ratios of one run on one
# machine that does nothing else mean most.
#
# SAVE=FILE keeps the table, AGAINST=FILE compares with a kept one, ONLY=NAME runs one script. A
# script is stopped after LIMIT seconds (110), or when all of them have run for TOTAL (590). The last
# ones are those without which most is known.
set -u
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench} LIMIT=${LIMIT:-110}
GOALS=$BENCH/goals.tsv
export BIN BENCH GOALS
here=$(dirname "$0")
: >"$GOALS"
end=$(($(date +%s) + ${TOTAL:-590}))
for name in small measure arithmetic copy codecs growth merge purify build matmul; do
	case $name in *"${ONLY:-}"*) ;; *) continue ;; esac
	left=$((end - $(date +%s)))
	status=124
	if [ $left -gt 0 ]; then
		timeout -k 5 $((left < LIMIT ? left : LIMIT)) sh "$here/$name.sh" >"$BENCH/$name.log" 2>&1
		status=$?
	fi
	echo "$name: exit $status, see $BENCH/$name.log" >&2
	if [ $status -ne 0 ]; then printf '%s.sh did not finish\t-\texit\t%s\n' "$name" $status >>"$GOALS"; fi
done
awk -F '\t' -v old="${AGAINST:-}" '
BEGIN {
	while (old != "" && (getline line < old) > 0) { split(line, f, "\t"); before[f[1]] = f[2] }
	printf "%-66s %9s  %-16s %-8s %s\n", "goal", "measured", "wanted", "verdict", old != "" ? "before" : ""
}
{
	met = $2 != "-" && ($3 == "at most" ? $2 + 0 <= $4 + 0 : $2 + 0 >= $4 + 0)
	printf "%-66s %9s  %-16s %-8s %s\n", $1, $2, $3 " " $4, met ? "met" : "NOT MET", before[$1]
	not += !met
}
END { printf "%d of %d goals are met\n", NR - not, NR }' "$GOALS"
if [ -n "${SAVE:-}" ]; then cp "$GOALS" "$SAVE"; fi
