# shellcheck shell=sh disable=SC2034
# idle.sh - read by the scripts that say whether the machine did something else while they measured.

# look: sets `now` to hundredths of seconds of all processors: in all, taken by the host, used by programs
# that this script did not start, and by those that it did; then the seconds of the clock. To nothing
# where the system does not tell.
look() {
	now=
	[ -r /proc/stat ] || return 0
	times >"$BENCH/times" # in this shell, whose children count
	now=$({ sed 's/m/ /g; s/s//g' "$BENCH/times" && sed -n '1s/^cpu */cpu /p' /proc/stat; } | awk -v clock="$(date +%s)" '
		NR < 3 { own += 6000 * ($1 + $3) + 100 * ($2 + $4) }
		$1 == "cpu" { print $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9, $9, $2 + $3 + $4 + $7 + $8 - own, own, clock }')
}
# spent BEFORE AFTER: the clock and the processor time between two looks, as words
spent() {
	echo "$1 $2" | awk 'NF == 10 { printf "%d s, %.0f s of processor time", $10 - $5, ($9 - $4) / 100 }'
}
# note_busy NAME BEFORE AFTER: a note if the machine was not idle meanwhile
note_busy() {
	echo "$2 $3" | awk -v name="$1" -v average="$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null)" 'NF == 10 && $6 > $1 {
		stolen = 100 * ($7 - $2) / ($6 - $1)
		others = 100 * ($8 - $3) / ($6 - $1)
		if (stolen > 2 || others > 5)
			printf "note: the machine was not idle during %s: other programs used %.0f %% of the processors, " \
				"the host %.0f %%, load %s\n", name, (others < 0 ? 0 : others), stolen, average
	}'
}
