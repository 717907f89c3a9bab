#!/bin/sh
# codecs.sh - decode and encode against ggml's own routines, and the quality table.
set -u
. "$(dirname "$0")/goal.sh"
BENCH=${BENCH:-build/bench}
sh "$(dirname "$0")/../engine/install.sh" >/dev/null 2>&1
for op in decode encode; do
	want=1.2
	[ $op = decode ] || want=1.0
	out=$("$BENCH/bench_codec" $op)
	echo "$out"
	least=$(echo "$out" | sed -n "s/^# $op cache: .* ratio min \([0-9.]*\) (\([A-Z0-9_]*\)).*/\1 \2/p")
	[ -z "$least" ] || goal "$op in cache: least time of ggml / ours (${least#* })" "${least% *}" "at least" $want
done
"$BENCH/bench_codec" check || [ $? -eq 1 ]
"$BENCH/bench_codec" rmse
