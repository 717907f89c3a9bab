#!/bin/sh
# growth.sh - how the cost of the tools grows: CPU time from 10000 to 100000 tensors, with the number
# of bytes from 0.25 to 16 GiB of a sparse model, and a model of 1096 tensors with 670 GB of holes.
# CPU time is user + system time, so that a busy machine changes it less.
set -eu
. "$(dirname "$0")/goal.sh"
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench}
COST=${COST:-$BENCH/../test/cost}
dir=$(mktemp -d "${DIR:-$(dirname "$BENCH")}/bench-growth.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP PIPE

# cpu COMMAND...: the least CPU time of `runs` runs, in seconds
cpu() {
	: >"$dir/cost"
	for _ in $(seq $runs); do
		rm -rf "$dir/out"
		$COST "$@" >>"$dir/cost" || true # organ-check finds errors
	done
	cut -d ' ' -f 2 "$dir/cost" | sort -n | head -n 1
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f\n", a / (b > 0.001 ? b : 0.001) }'; }

"$BENCH/bench_model" "$dir/sparse.gguf" 639000 0 1096
t=$(for c in "organ-extract --list M" "organ-check -q M" "organ-measure -q --blocks M" \
	"organ-stack -q --check M 0-156 M 60-100"; do
	# shellcheck disable=SC2046
	$COST $(echo "$BIN/$c" | sed "s|M|$dir/sparse.gguf|g") || true
done | awk '{ s += $1 } END { printf "%.2f\n", s }')
goal "670 GB, 1096 tensors: list, check, stack, measure --blocks (s)" "$t" "at most" 60

for n in 1000 10000 100000; do "$BENCH/bench_model" "$dir/$n.gguf" $((n / 500)) 1 $n; done
# grows NAME COMMAND...: M in the command is the model
grows() {
	what=$1
	shift
	for n in 1000 10000 100000; do
		runs=2 # of each, because the least of more runs would be lower
		# shellcheck disable=SC2046
		cpu $(echo "$*" | sed "s|M|$dir/$n.gguf|g; s|OUT|$dir/out|") >"$dir/cpu.$n"
		printf '%s\t%s tensors\t%s s\n' "$what" $n "$(cat "$dir/cpu.$n")"
	done
	goal "$what: CPU time of 100000 tensors / 10000" \
		"$(ratio "$(cat "$dir/cpu.100000")" "$(cat "$dir/cpu.10000")")" "at most" 12
}
grows "organ-extract --list" "$BIN/organ-extract" --list M
grows "organ-check" "$BIN/organ-check" -q M
grows "organ-measure" "$BIN/organ-measure" -q -j 1 M
grows "organ-compare" "$BIN/organ-compare" -q -j 1 M M
grows "organ-assemble" "$BIN/organ-assemble" -q -j 1 M -o OUT
grows "organ-keys" "$BIN/organ-keys" M
grows "organ-transplant" "$BIN/organ-transplant" -q -j 1 --base M --donor M --type organ --output OUT
rm -f "$dir"/*.gguf "$dir/out"

for mib in 256 4096 16384; do
	runs=$((mib < 4096 ? 3 : 1))
	"$BENCH/bench_model" "$dir/sparse.gguf" $mib 0
	cpu "$BIN/organ-measure" -q -j 1 "$dir/sparse.gguf" >"$dir/cpu.$mib"
	echo "organ-measure	$mib MiB	$(cat "$dir/cpu.$mib") s	$(cut -d ' ' -f 3 "$dir/cost" | sort -n | tail -n 1) KiB"
done
goal "organ-measure: CPU time of 16 GiB / 4 GiB" "$(ratio "$(cat "$dir/cpu.16384")" "$(cat "$dir/cpu.4096")")" \
    "at most" 4.5
