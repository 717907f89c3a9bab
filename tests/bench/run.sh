#!/bin/sh
# run.sh - runs the benches that can run here, and prints one table: each goal, what was measured, and
# whether it is met. The scripts' own tables are in build/bench/NAME.log. Ratios of one run on one
# machine that does nothing else mean most, so that a note says when it did something else.
#
# SAVE=FILE keeps the table, AGAINST=FILE compares with a kept one, ONLY=NAME runs one script.
# AGAINST=COMMIT builds another commit instead, and compares with it in turns (against.sh). LARGE=1
# measures a model of the size of a 14B instead (peers.sh).
# A script is stopped after LIMIT seconds (110), or when all of them have run for TOTAL (590). The last
# ones are those without which most is known.
set -u
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench} LIMIT=${LIMIT:-110}
GOALS=$BENCH/goals.tsv
export BIN BENCH GOALS
here=$(dirname "$0")

# look: sets `now` to hundredths of seconds of all processors: in all, taken by the host, and used by
# programs that this script did not start. To nothing where the system does not tell.
look() {
	now=
	[ -r /proc/stat ] || return 0
	times >"$BENCH/times" # in this shell, whose children count
	now=$({ sed 's/m/ /g; s/s//g' "$BENCH/times" && sed -n '1s/^cpu */cpu /p' /proc/stat; } | awk '
		NR < 3 { own += 6000 * ($1 + $3) + 100 * ($2 + $4) }
		$1 == "cpu" { print $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9, $9, $2 + $3 + $4 + $7 + $8 - own }')
}
# note_busy NAME BEFORE AFTER: a note if the machine was not idle meanwhile
note_busy() {
	echo "$2 $3" | awk -v name="$1" -v average="$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null)" 'NF == 6 && $4 > $1 {
		stolen = 100 * ($5 - $2) / ($4 - $1)
		others = 100 * ($6 - $3) / ($4 - $1)
		if (stolen > 2 || others > 5)
			printf "note: the machine was not idle during %s: other programs used %.0f %% of the processors, " \
				"the host %.0f %%, load %s\n", name, (others < 0 ? 0 : others), stolen, average
	}'
}

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
end=$(($(date +%s) + ${TOTAL:-590}))
for name in small measure arithmetic copy codecs growth merge purify build matmul; do
	case $name in *"${ONLY:-}"*) ;; *) continue ;; esac
	left=$((end - $(date +%s)))
	status=124
	look
	before=$now
	if [ $left -gt 0 ]; then
		timeout -k 5 $((left < LIMIT ? left : LIMIT)) sh "$here/$name.sh" >"$BENCH/$name.log" 2>&1
		status=$?
	fi
	look
	note_busy "$name.sh" "$before" "$now" >>"$BENCH/notes"
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
cat "$BENCH/notes"
if [ -n "${SAVE:-}" ]; then cp "$GOALS" "$SAVE"; fi
