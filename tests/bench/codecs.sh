#!/bin/sh
# codecs.sh - decode and encode against ggml's own routines, and the encoders of F16, BF16 and Q8_0
# against the engine's.
#
# The prebuilt library of ggml uses no AVX. GGML_NATIVE is the path of one built for this machine
# (docs/bench.md); its decoders are then compared too.
set -u
. "$(dirname "$0")/goal.sh"
BENCH=${BENCH:-build/bench}
sh "$(dirname "$0")/../engine/install.sh" >/dev/null 2>&1

# summary WAY WANTED WHAT: the goal for the least of the ratios in $out
summary() {
	least=$(echo "$out" | sed -n "s/^# $1 cache: .* ratio min \([0-9.]*\) (\([A-Z0-9_]*\)).*/\1 \2/p")
	[ -z "$least" ] || goal "$3 (${least#* })" "${least% *}" "at least" "$2"
}

for op in decode encode; do
	out=$("$BENCH/bench_codec" $op)
	echo "$out"
	summary decode 1.2 "decode in cache: least time of ggml / ours"
	summary encode 1.5 "encode in cache: least time of ggml / ours"
	summary encode-im 1.5 "encode-im in cache: least time of ggml / ours"
done
if [ -n "${GGML_NATIVE:-}" ]; then
	out=$(GGML_BASE=$GGML_NATIVE "$BENCH/bench_codec" decode)
	echo "$out"
	summary decode 1.2 "decode in cache: least time of native ggml / ours"
fi
out=$("$BENCH/bench_codec" engine)
echo "$out"
summary engine 1.0 "encode in cache: least time of the engine / ours"
# Bits and errors take longer than a bench may: bench_codec check, bench_codec rmse.
timeout 15 "$BENCH/bench_codec" check
status=$?
[ $status -eq 124 ] || goal "decoders that give other bits than ggml (0 none, 1 some)" $status "at most" 0
