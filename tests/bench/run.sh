#!/bin/sh
# run.sh - runs the benches that can run here, and prints one table: each goal, what was measured, and
# whether it is met. The scripts' own tables are in build/bench/NAME.log. Ratios of one run on one
# machine that does nothing else mean most, so that a note says when it did something else.
#
# SAVE=FILE keeps the table, AGAINST=FILE compares with a kept one, ONLY=NAME runs one script.
# AGAINST=COMMIT builds another commit instead, and compares with it in turns (against.sh). LARGE=1
# measures a model of the size of a 14B instead (peers.sh).
# Each script has a budget of seconds; all of them have less than ten minutes. A script is stopped when its
# budget is used up, and what the scripts before it left over. With ONLY it has ten minutes.
set -u
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench}
BUDGETS=${BUDGETS:-small=50 measure=60 arithmetic=55 copy=50 trim=50 codecs=80 growth=65 merge=65 purify=25 \
    build=60 matmul=25}
GOALS=$BENCH/goals.tsv
export BIN BENCH GOALS
here=$(dirname "$0")

now=
# shellcheck source=tests/bench/idle.sh disable=SC1091
. "$here/idle.sh"

if [ -n "${LARGE:-}" ]; then exec sh "$here/peers.sh"; fi
if [ -n "${AGAINST:-}" ] && [ ! -f "$AGAINST" ]; then
	look
	before=$now
	sh "$here/against.sh" "$AGAINST"
	status=$?
	look
	note_busy against.sh "$before" "$now"
	exit $status
fi
: >"$GOALS"
: >"$BENCH/notes"
end=$(date +%s)
[ -z "${ONLY:-}" ] || end=$((end + 500))
for budget in $BUDGETS; do
	name=${budget%=*}
	case $name in *"${ONLY:-}"*) ;; *) continue ;; esac
	end=$((end + ${budget#*=}))
	status=124
	look
	before=$now
	left=$((end - $(date +%s)))
	if [ $left -gt 0 ]; then
		timeout -k 5 $left sh "$here/$name.sh" >"$BENCH/$name.log" 2>&1
		status=$?
	fi
	look
	note_busy "$name.sh" "$before" "$now" >>"$BENCH/notes"
	echo "$name: exit $status after $(spent "$before" "$now"), see $BENCH/$name.log" >&2
	if [ $status -ne 0 ]; then printf '%s.sh did not finish\t-\texit\t%s\n' "$name" $status >>"$GOALS"; fi
done
awk -F '\t' -v old="${AGAINST:-}" '
BEGIN {
	while (old != "" && (getline line < old) > 0) { split(line, f, "\t"); before[f[1]] = f[2] }
	printf "%-66s %9s  %-16s %-8s %s\n", "goal", "measured", "wanted", "verdict", (old != "") ? "before" : ""
}
{
	met = $2 != "-" && ($3 == "at most" ? $2 + 0 <= $4 + 0 : $2 + 0 >= $4 + 0)
	printf "%-66s %9s  %-16s %-8s %s\n", $1, $2, $3 " " $4, met ? "met" : "NOT MET", before[$1]
	not += !met
}
END { printf "%d of %d goals are met\n", NR - not, NR }' "$GOALS"
cat "$BENCH/notes"
if [ -n "${SAVE:-}" ]; then cp "$GOALS" "$SAVE"; fi
