#!/bin/sh
# codecs.sh - decode and encode against ggml's own routines.
set -u
. "$(dirname "$0")/goal.sh"
BENCH=${BENCH:-build/bench}
sh "$(dirname "$0")/../engine/install.sh" >/dev/null 2>&1
for op in decode encode; do
	out=$("$BENCH/bench_codec" $op)
	echo "$out"
	for row in decode:1.2 encode:1.5 encode-im:1.5; do
		least=$(echo "$out" | sed -n "s/^# ${row%:*} cache: .* ratio min \([0-9.]*\) (\([A-Z0-9_]*\)).*/\1 \2/p")
		[ -z "$least" ] || goal "${row%:*} in cache: least time of ggml / ours (${least#* })" "${least% *}" "at least" "${row#*:}"
	done
done
# Bits and errors take longer than a bench may: bench_codec check, bench_codec rmse.
timeout 15 "$BENCH/bench_codec" check
status=$?
[ $status -eq 124 ] || goal "decoders that give other bits than ggml (0 none, 1 some)" $status "at most" 0
