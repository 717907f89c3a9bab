#!/bin/sh
# run.sh - every bench that can run here. Ratios of one run on one machine: quote
# them so, and only from a machine that does nothing else.
set -u
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench}
export BIN BENCH
here=$(dirname "$0")
status=0
for b in "$here"/*.sh; do
	case $b in */run.sh) continue ;; esac
	printf '\n== %s\n' "$(basename "$b" .sh)"
	sh "$b" || status=1
done
exit $status
