#!/bin/sh
# measure.sh - organ-measure against reading the model (`cat MODEL > /dev/null`), its
# values a second, two threads against one, and its memory on 4 GiB. Repetitions
# are interleaved, page cache warm; the figures are medians.
#
# cpu is user + system time of the process: what one thread costs, on a busy machine
# too. clock is what a user waits: to be quoted from an idle machine only.
# REPEAT (5) how often; DIR where the models go (default: here, 4 GiB sparse among them).
set -eu
. "$(dirname "$0")/goal.sh"
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench}
COST=${COST:-$BENCH/../test/cost}
REPEAT=${REPEAT:-5}
dir=$(mktemp -d "${DIR:-$(dirname "${BENCH:-build/bench}")}/bench-measure.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP PIPE

# column FILE N: its median
column() {
	cut -d ' ' -f "$2" "$1" | sort -n | awk \
    '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}
# interleave COMMAND_A COMMAND_B: their costs, in $dir/a and $dir/b; words are split
# shellcheck disable=SC2086
interleave() {
	: >"$dir/a"
	: >"$dir/b"
	i=0
	while [ "$i" -lt "$REPEAT" ]; do
		$COST $1 >>"$dir/a"
		$COST $2 >>"$dir/b"
		i=$((i + 1))
	done
}

# Up to 400 MiB per tensor every page has a sample, so that all of the file is read. In tensors above
# 32 MiB that takes most of the time.
ratio='measure/bound (at most 1; bound = SHARE cat + 5 ms per tensor; -j 1)'
echo "model	tensors	time	cat_ms	measure_ms	bound_ms	$ratio"
against_cat() { # WHAT TENSORS MODEL SHARE
	cat "$3" >/dev/null
	interleave "cat $3" "$BIN/organ-measure -q -j 1 $3"
	goal "organ-measure of $1: CPU time / ($4 cat + 5 ms per tensor)" "$(awk -v s="$4" -v n="$2" -v c="$(column "$dir/a" \
    2)" -v m="$(column "$dir/b" 2)" \
		'BEGIN { printf "%.2f\n", m / (s * c + 0.005 * n) }')" "at most" 1
	for k in 2 1; do
		awk -v what="$1" -v s="$4" -v n="$2" -v k=$k -v c="$(column "$dir/a" $k)" -v m="$(column "$dir/b" $k)" 'BEGIN {
			bound = s * c + 0.005 * n
			printf "%s\t%d\t%s\t%.1f\t%.1f\t%.1f\t%.2f\n", what, n, (k == 2) ? "cpu" : "clock",
       1e3 * c, 1e3 * m, 1e3 * bound, m / bound }'
	done
}
"$BENCH/bench_model" "$dir/llama.gguf" 512 1
against_cat "F16 of 4 and 16 MiB" 56 "$dir/llama.gguf" 0.3
for n in 16 4 1; do
	"$BENCH/bench_model" "$dir/equal.gguf" 512 1 $n
	against_cat "F16 of $((512 / n)) MiB" $n "$dir/equal.gguf" "$([ $n = 16 ] && echo 0.3 || echo 1)"
done

# Cold: cat and organ-measure read the model in turns, each after dd dropped it from the cache. Other
# work on the disk only adds to the time, so the least counts.
: >"$dir/a"
: >"$dir/b"
f=$dir/llama.gguf
i=0
while [ $i -lt 9 ]; do
	for c in "a cat" "b $BIN/organ-measure -q"; do
		dd if="$f" iflag=nocache count=0 2>/dev/null || break 2
		# shellcheck disable=SC2086
		$COST ${c#* } "$f" >>"$dir/${c%% *}"
	done
	i=$((i + 1))
done
least() { cut -d ' ' -f 1 "$1" | sort -n | head -n 1; }
[ $i -lt 9 ] || goal "organ-measure, cold: time / cat" \
	"$(awk -v a="$(least "$dir/a")" -v b="$(least "$dir/b")" 'BEGIN { printf "%.2f\n", b / a }')" "at most" 1.05

# bytes_read COMMAND...: the bytes that it reads from files
bytes_read() {
	strace -f -qq -e trace=read,pread64,readv,preadv -o "$dir/trace" "$@" >/dev/null
	awk -F '= ' 'NF > 1 && $NF ~ /^[0-9]+$/ { s += $NF } END { print s + 0 }' "$dir/trace"
}
if strace -o /dev/null true 2>/dev/null; then
	"$BENCH/bench_model" "$dir/equal.gguf" 512 1 32
	goal "organ-measure --blocks of 16 MiB tensors: percent of the bytes read" \
		"$(awk -v b="$(bytes_read "$BIN/organ-measure" -q --blocks "$dir/equal.gguf")" \
'BEGIN { printf "%.2f\n", b / 5368709.12 }')" "at most" 1
	"$BENCH/bench_model" "$dir/equal.gguf" 512 0 32
	goal "organ-measure of a sparse model: percent of the bytes read" \
		"$(awk -v b="$(bytes_read "$BIN/organ-measure" -q "$dir/equal.gguf")" 'BEGIN { printf "%.2f\n", b / 5368709.12 }')" \
"at most" 1
else
	echo "no strace: bytes read are not counted"
fi

echo "values	threads	time	Mvalues/s	(--sample 0: at least 300 per thread)"
interleave "$BIN/organ-measure -q -j 1 --sample 0 $f" "$BIN/organ-measure -q -j 2 --sample 0 $f"
for k in 2 1; do
	awk -v k=$k -v s="$(column "$dir/a" $k)" \
    'BEGIN { printf "all\t1\t%s\t%.1f\n", (k == 2) ? "cpu" : "clock", 268.435456 / s }'
done
# threads WHAT: cpu says what sharing costs; clock also wants two idle cores
threads() {
	awk -v what="$1" -v a="$(column "$dir/a" 1)" -v b="$(column "$dir/b" 1)" -v ca="$(column "$dir/a" 2)" \
    -v cb="$(column "$dir/b" 2)" \
		'BEGIN { printf "%s\t%.2f\t%.2f\n", what, a / b, 2 * ca / cb }'
}
echo "-j 2 against -j 1	times as fast, clock (at least 1.7)	2 x cpu ratio: what two idle cores would give"
threads "--sample 0" | tee "$dir/threads"
goal "organ-measure --sample 0: two threads, times as fast as one (clock)" "$(cut -f 2 "$dir/threads")" "at least" 1.7
interleave "$BIN/organ-measure -q -j 1 $f" "$BIN/organ-measure -q -j 2 $f"
threads "default sample"

echo "model	peak_rss_kb	(at most 65536, and 4096 per thread)"
rm -f "$dir/equal.gguf"
"$BENCH/bench_model" "$dir/sparse.gguf" 4096 0 16
peak() { cut -d ' ' -f 3 "$dir/cost"; }
$COST "$BIN/organ-measure" -q "$dir/sparse.gguf" >"$dir/cost"
echo "4 GiB	$(peak)"
# shellcheck disable=SC2002
cat "$dir/sparse.gguf" | $COST "$BIN/organ-measure" -q - >"$dir/cost"
echo "4 GiB, pipe	$(peak)"
$COST "$BIN/organ-measure" -q --sample 0 "$f" >"$dir/cost"
echo "--sample 0, 8 Mi values per tensor	$(peak)"
goal "organ-measure --sample 0: peak memory (KiB)" "$(peak)" "at most" $((65536 + 4096 * $(nproc)))
