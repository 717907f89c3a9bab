#!/bin/sh
# build.sh - building the library and the tools from clean, without ccache: CPU time, and two jobs
# against one.
set -eu
. "$(dirname "$0")/goal.sh"
BENCH=${BENCH:-build/bench}
COST=${COST:-$BENCH/../test/cost}
dir=$(mktemp -d "${DIR:-$(dirname "$BENCH")}/bench-build.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP PIPE
PATH=$(echo "$PATH" | sed 's|[^:]*/ccache:||g')
unset MAKEFLAGS MFLAGS MAKELEVEL
$COST make -s -j1 B="$dir/one" all >"$dir/cost1"
$COST make -s -j2 B="$dir/two" all >"$dir/cost2"
field() { tail -n 1 "$dir/$1" | cut -d ' ' -f "$2"; }
goal "build from clean: CPU time (s)" "$(field cost1 2)" "at most" 25
goal "make -j2: times as fast as -j1" "$(awk -v a="$(field cost1 1)" -v b="$(field cost2 1)" \
    'BEGIN { printf "%.2f\n", a / b }')" "at least" 1.9
