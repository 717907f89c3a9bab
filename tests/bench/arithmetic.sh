#!/bin/sh
# arithmetic.sh - blends, adapters, comparison and filters against what a user would write with
# numpy (arithmetic.py), one thread; and two threads against one. CPU times, the least of RUNS (3),
# in which both sides take turns. DIR is where (default /dev/shm, to leave out the disk).
# The last column is the least ratio that the project aims at.
set -eu
. "$(dirname "$0")/goal.sh"
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench}
COST=${COST:-$BENCH/../test/cost}
SIZE_MB=${SIZE_MB:-64} RUNS=${RUNS:-3}
numpy=$(dirname "$0")/arithmetic.py
for PYTHON in "${PYTHON:-python3}" /usr/bin/python3; do
	"$PYTHON" -c 'import numpy' 2>/dev/null && break
	PYTHON=
done
[ -n "$PYTHON" ] || { echo "skipped: no numpy"; exit 0; }
[ -d "${DIR:-/dev/shm}" ] || DIR=/tmp
dir=$(mktemp -d "${DIR:-/dev/shm}/bench-arithmetic.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP PIPE
a=$dir/a.gguf b=$dir/b.gguf lora=$dir/lora.gguf out=$dir/out.gguf

"$BENCH/bench_model" "$a" "$SIZE_MB" 1
"$BENCH/bench_model" "$b" "$SIZE_MB" 2
"$PYTHON" "$numpy" adapter "$a" "$lora" 16
"$BIN/organ-extract" -q "$a" --output "$dir/a"

# cpu COMMAND...: its CPU seconds, or with WALL=1 the clock
cpu() {
	rm -rf "$out" "$dir/out"
	$COST "$@" 2>/dev/null | tail -n 1 | cut -d ' ' -f "${WALL:-2}"
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

# What a comparison and a blend cannot do without (bench_floor): reading and decoding both inputs, and
# for a blend encoding and writing the output.
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f\n", a / b }'; }
# against_floor JOB WHAT COMMAND...: the least CPU times, while both take turns
against_floor() {
	job=$1 what=$2
	shift 2
	: >"$dir/ours" && : >"$dir/floor"
	i=0
	while [ "$i" -lt $((2 * RUNS)) ]; do
		ours "$job" 1 >>"$dir/ours"
		cpu "$@" >>"$dir/floor"
		i=$((i + 1))
	done
	goal "$job: CPU time / $what" "$(ratio "$(least "$dir/ours")" "$(least "$dir/floor")")" "at most" 1.3
}
against_floor compare "reading and decoding both" "$BENCH/bench_floor" "$a" "$b"
against_floor linear "reading, decoding, encoding, writing" "$BENCH/bench_floor" "$a" "$b" "$out"

# both JOB: clock time of two independent processes at once, one thread each. Twice the time of one,
# divided by this, is the most that two threads can reach on this machine at this moment: it is
# below 2 where memory is the limit, or where the processors share a core.
both() {
	rm -rf "$out" "$dir/out" "$dir/second"
	mkdir "$dir/second"
	$COST sh "$dir/both.sh" 2>/dev/null | tail -n 1 | cut -d ' ' -f 1
	rm -rf "$dir/second"
}
# save_both JOB: the commands of both processes. The second has another output.
save_both() {
	cpu() { printf "%s " "$@"; }
	one=$(ours "$1" 1)
	printf '%s &\n%s\nwait\n' "$one" "$(echo "$one" | sed "s|$out|$dir/second/out.gguf|; s|$dir/out|$dir/second/out|")" \
    >"$dir/both.sh"
}

WALL=1
echo "job	one_s	two_threads_s	two_processes_s	times as fast	most (two processes)"
for job in linear slerp compare haar fft lora; do
	(save_both $job)
	: >"$dir/one" && : >"$dir/two" && : >"$dir/processes"
	i=0
	while [ "$i" -lt "$RUNS" ]; do
		ours $job 1 >>"$dir/one"
		ours $job 2 >>"$dir/two"
		both >>"$dir/processes"
		i=$((i + 1))
	done
	one=$(least "$dir/one") two=$(least "$dir/two") processes=$(least "$dir/processes")
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' $job "$one" "$two" "$processes" "$(ratio "$one" "$two")" "$(ratio "$one" \
    "$processes" | awk '{ print 2 * $1 }')"
	goal "$job: two threads, times as fast as one (clock)" "$(ratio "$one" "$two")" "at least" 1.9
done
