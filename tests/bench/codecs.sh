#!/bin/sh
# codecs.sh - decode and encode against ggml's own routines, and the quality table.
BENCH=${BENCH:-build/bench}
sh "$(dirname "$0")/../engine/install.sh" >/dev/null 2>&1
"$BENCH/bench_codec" all || { [ $? -eq 1 ] && "$BENCH/bench_codec" rmse; }
