#!/bin/sh
# arithmetic.sh - blends, adapters, comparison and filters against what a user would write with
# numpy (arithmetic.py), one thread; and two threads against one. CPU times, the least of RUNS (3),
# in which both sides take turns. DIR is where (default /dev/shm, to leave out the disk).
# The last column is the least ratio that the project aims at.
set -eu
. "$(dirname "$0")/goal.sh"
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench}
SIZE_MB=${SIZE_MB:-128} RUNS=${RUNS:-3}
numpy=$(dirname "$0")/arithmetic.py
for PYTHON in "${PYTHON:-python3}" /usr/bin/python3; do
	"$PYTHON" -c 'import numpy' 2>/dev/null && break
	PYTHON=
done
[ -n "$PYTHON" ] || { echo "skipped: no numpy"; exit 0; }
[ -x /usr/bin/time ] || { echo "skipped: no /usr/bin/time"; exit 0; }
[ -d "${DIR:-/dev/shm}" ] || DIR=/tmp
dir=$(mktemp -d "${DIR:-/dev/shm}/bench-arithmetic.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP PIPE
a=$dir/a.gguf b=$dir/b.gguf lora=$dir/lora.gguf out=$dir/out.gguf

"$BENCH/bench_model" "$a" "$SIZE_MB" 1
"$BENCH/bench_model" "$b" "$SIZE_MB" 2
"$PYTHON" "$numpy" adapter "$a" "$lora" 16
"$BIN/organ-extract" -q "$a" --output "$dir/a"

# cpu COMMAND...: its CPU seconds
cpu() {
	rm -rf "$out" "$dir/out"
	/usr/bin/time -o "$dir/time" -f '%U %S %e' "$@" >/dev/null 2>&1 || :
	tail -n 1 "$dir/time" | awk -v wall="${WALL:-}" '{ print wall ? $3 : $1 + $2 }'
}

ours() { # JOB THREADS
	case $1 in
	linear | slerp) cpu "$BIN/organ-transplant" -q -j "$2" --base "$a" --donor "$b" --blend "$1:0.3" --output "$out" ;;
	lora) cpu "$BIN/organ-graft" -q -j "$2" --adapter "$lora" --target "$dir/a" --output "$dir/out" ;;
	compare) cpu "$BIN/organ-compare" -q -j "$2" --sample 0 "$a" "$b" ;;
	*) cpu "$BIN/organ-purify" -q -j "$2" "$a" --method "$1" --output "$out" ;;
	esac
}

theirs() { # JOB
	case $1 in
	linear | slerp) cpu "$PYTHON" "$numpy" "$1" "$a" "$b" "$out" 0.3 ;;
	lora) cpu "$PYTHON" "$numpy" lora "$a" "$lora" "$out" ;;
	compare) cpu "$PYTHON" "$numpy" compare "$a" "$b" ;;
	*) cpu "$PYTHON" "$numpy" "$1" "$a" "$out" 1 ;;
	esac
}

least() { sort -n "$1" | head -n 1; }

echo "job	tool_s	numpy_s	ratio	goal"
for job in linear slerp compare haar fft lora; do
	: >"$dir/ours" && : >"$dir/theirs"
	i=0
	while [ "$i" -lt "$RUNS" ]; do
		ours "$job" 1 >>"$dir/ours"
		theirs "$job" >>"$dir/theirs"
		i=$((i + 1))
	done
	case $job in haar | fft) goal=6 ;; lora) goal=5 ;; *) goal=- ;; esac
	ratio=$(awk -v a="$(least "$dir/ours")" -v b="$(least "$dir/theirs")" 'BEGIN { printf "%.2f\n", b / a }')
	printf '%s\t%s\t%s\t%s\t%s\n' "$job" "$(least "$dir/ours")" "$(least "$dir/theirs")" "$ratio" "$goal"
	[ "$goal" = - ] || goal "$job: time of numpy / ours, one thread" "$ratio" "at least" "$goal"
done

# The time of reading both inputs is what a blend or a comparison cannot do without.
runs() { # COMMAND...: the least of RUNS
	i=0
	while [ "$i" -lt "$RUNS" ]; do
		"$@"
		i=$((i + 1))
	done | sort -n | head -n 1
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f\n", a / b }'; }
goal "compare: CPU time / cat of both models (without decoding)" \
	"$(ratio "$(runs ours compare 1)" "$(runs cpu cat "$a" "$b")")" "at most" 1.3

WALL=1
for job in linear slerp compare haar fft lora; do
	goal "$job: two threads, times as fast as one (clock)" "$(ratio "$(runs ours $job 1)" "$(runs ours $job 2)")" "at least" 1.9
done
