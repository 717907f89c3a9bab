#!/bin/sh
# arithmetic.sh - blends, adapters, comparison and filters against what a user would write with
# numpy (arithmetic.py), one thread; and two threads against one. CPU times, the least of RUNS (3),
# in which both sides take turns. DIR is where (default /dev/shm, to leave out the disk).
# The last column is the least ratio that the project aims at.
set -eu
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench}
SIZE_MB=${SIZE_MB:-256} RUNS=${RUNS:-3} PYTHON=${PYTHON:-python3}
numpy=$(dirname "$0")/arithmetic.py
"$PYTHON" -c 'import numpy' 2>/dev/null || { echo "skipped: no numpy"; exit 0; }
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
	awk -v job="$job" -v a="$(least "$dir/ours")" -v b="$(least "$dir/theirs")" -v goal="$goal" \
		'BEGIN { printf "%s\t%.2f\t%.2f\t%.2f\t%s\n", job, a, b, b / a, goal }'
done

# The time of reading both inputs is what a blend or a comparison cannot do without.
read_s=$(i=0; while [ "$i" -lt "$RUNS" ]; do cpu cat "$a" "$b"; i=$((i + 1)); done | sort -n | head -n 1)
compare_s=$(i=0; while [ "$i" -lt "$RUNS" ]; do ours compare 1; i=$((i + 1)); done | sort -n | head -n 1)
awk -v a="$compare_s" -v b="$read_s" 'BEGIN { printf "compare / cat of both\t%.2f\t%.2f\t%.2f\t1.3 (with decoding)\n", a, b, a / b }'

echo "job	one_s	two_s	ratio	(wall; goal 1.9, on two idle cores)"
for job in linear compare haar fft lora; do
	one=$(i=0; while [ "$i" -lt "$RUNS" ]; do WALL=1 ours "$job" 1; i=$((i + 1)); done | sort -n | head -n 1)
	two=$(i=0; while [ "$i" -lt "$RUNS" ]; do WALL=1 ours "$job" 2; i=$((i + 1)); done | sort -n | head -n 1)
	awk -v job="$job" -v a="$one" -v b="$two" 'BEGIN { printf "%s\t%.2f\t%.2f\t%.2f\n", job, a, b, a / b }'
done
