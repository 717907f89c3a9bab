#!/bin/sh
# small.sh - start-up against an empty C program, sizes of stripped programs, and full measures in
# values per second of CPU time.
set -eu
. "$(dirname "$0")/goal.sh"
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench}
COST=${COST:-$BENCH/../test/cost}
dir=$(mktemp -d "${DIR:-$(dirname "$BENCH")}/bench-small.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP PIPE

# least N COMMAND...: the least of N runs, of column `field` of cost
least() {
	n=$1
	shift
	while [ "$n" -gt 0 ]; do
		$COST "$@"
		n=$((n - 1))
	done | cut -d ' ' -f "$field" | sort -n | head -n 1
}

echo 'int main(void) { return 0; }' >"$dir/empty.c"
${CC:-cc} -O2 -o "$dir/empty" "$dir/empty.c"
# The programs take turns, as the speed of the machine changes within seconds.
for _ in $(seq 400); do
	$COST "$dir/empty" >>"$dir/empty.times"
	$COST "$BIN/organ-check" --version | tail -n 1 >>"$dir/tool.times"
done
quickest() { cut -d ' ' -f 1 "$dir/$1.times" | sort -n | head -n 1; }
goal "start-up / an empty C program" "$(awk -v a="$(quickest tool)" -v b="$(quickest empty)" \
    'BEGIN { printf "%.2f\n", a / b }')" "at most" 1.2

most=0
for b in "$BIN"/organ-*; do
	strip -o "$dir/stripped" "$b"
	size=$(wc -c <"$dir/stripped")
	if [ "$size" -gt $most ]; then most=$size; fi
done
goal "largest stripped program (KB)" $((most / 1000)) "at most" 700

"$BENCH/bench_model" "$dir/f16.gguf" 128 1 4
field=2
for t in f16 bf16 q8_0 q4_k q6_k; do
	m=$dir/$t.gguf
	[ $t = f16 ] || "$BIN/organ-assemble" -q "$dir/f16.gguf" --dtype "*=$t" -o "$m"
	s=$(least 3 "$BIN/organ-measure" -q -j 1 --sample 0 "$m")
	case $t in q*) want=150 ;; *) want=300 ;; esac
	goal "measure --sample 0 of $t (million values per second)" "$(awk -v s="$s" \
    'BEGIN { printf "%.0f\n", 67.108864 / s }')" "at least" $want
	[ $t = f16 ] || rm -f "$m"
done
"$BENCH/bench_model" "$dir/f16.gguf" 256 1 64
s=$(least 9 "$BIN/organ-measure" -q -j 1 "$dir/f16.gguf")
goal "measure of 100000 samples, F16 of 4 MiB (ms)" "$(awk -v s="$s" 'BEGIN { printf "%.2f\n", 1000 * s / 64 }')" \
    "at most" 1.0

# per_tensor WHAT MODEL COUNT WANTED: milliseconds for each further tensor of COUNT, without the
# start and the null model, which a run for the first tensor alone has too.
per_tensor() {
	all=$(least 15 "$BIN/organ-measure" -q -j 1 "$2")
	one=$(least 15 "$BIN/organ-measure" -q -j 1 --tensors blk.0.attn_q.weight "$2")
	goal "measure of $1 (ms)" "$(awk -v a="$all" -v b="$one" -v n="$3" \
    'BEGIN { printf "%.3f\n", 1000 * (a - b) / (n - 1) }')" "at most" "$4"
}
"$BENCH/bench_model" "$dir/f16.gguf" 1 1 512
per_tensor "a tensor of 1024 values, F16" "$dir/f16.gguf" 512 0.03
"$BENCH/bench_model" "$dir/f16.gguf" 32 1 8
for t in bf16 q4_k iq4_xs q5_1 iq3_s f32; do
	"$BIN/organ-assemble" -q "$dir/f16.gguf" --dtype "*=$t" -o "$dir/$t.gguf"
	per_tensor "100000 samples of 2 Mi values, $t" "$dir/$t.gguf" 8 1.0
	rm "$dir/$t.gguf"
done

"$BENCH/../test/mkmodel" "$dir/vocabulary.gguf" -v 262144,514906 token_embd.weight:F16:32x262144
awk 'BEGIN { for (i = 256; i < 262144; i += 7) print i }' >"$dir/keep"
for _ in 1 2 3; do
	$COST "$BIN/organ-vocab" trim -q "$dir/vocabulary.gguf" --keep "$dir/keep" --force -o "$dir/trimmed.gguf"
done >"$dir/trims"
goal "262144 tokens, 514906 merges: read, a fifth written (s)" \
	"$(cut -d ' ' -f 2 "$dir/trims" | sort -n | head -n 1)" "at most" 1
goal "the same, memory (MB)" "$(awk '{ if ($3 > most) most = $3 } END { print int(most / 1024) }' "$dir/trims")" \
	"at most" 300
