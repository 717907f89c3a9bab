#!/bin/sh
# against.sh COMMIT - builds another commit in build/against, and runs the commands of jobs.sh with it
# and with this state in turns. Prints the least CPU times of ROUNDS (7) runs, and their ratio: below
# 1 means that this state is faster. A command that the other commit lacks has no ratio.
set -eu
here=$(dirname "$0")
BIN=$(cd "${BIN:-build/bin}" && pwd) BENCH=$(cd "${BENCH:-build/bench}" && pwd)
COST=${COST:-$(cd "$BENCH/../test" && pwd)/cost} ROUNDS=${ROUNDS:-7} MIB=${MIB:-32}
. "$here/jobs.sh"
commit=$(git rev-parse --verify --short "$1^{commit}")
other=build/against/$commit
if [ ! -x "$other/build/bin/organ-measure" ]; then
	mkdir -p "$other"
	git archive "$commit" | tar -x -C "$other"
	env -u MAKEFLAGS -u MFLAGS make -s -j"$(nproc)" -C "$other" all >"$other/build.log" 2>&1 ||
		{ tail -n 5 "$other/build.log"; echo "$commit does not build"; exit 1; }
fi
other=$(cd "$other/build/bin" && pwd)
[ -d "${DIR:-/dev/shm}" ] || DIR=/tmp
dir=$(mktemp -d "${DIR:-/dev/shm}/bench-against.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP PIPE
make_models "$dir" "$MIB" 4096
jobs | grep -e "${ONLY:-}" >"$dir/jobs"

# run BIN PROGRAM ARGUMENT...: its CPU time; nothing if it fails. Status 1 is an answer.
run() (
	program=$1/$2
	shift 2
	cd "$dir"
	rm -f out.gguf
	"$COST" "$program" "$@" 2>/dev/null >cost || [ $? = 1 ] || exit 0
	cut -d ' ' -f 2 cost
)
least() { sort -n "$1" | head -n 1; }
printf '%-34s %9s %9s %6s\n' "CPU time (s)" "$commit" now ratio
while IFS='	' read -r name unit command; do
	: >"$dir/old"
	: >"$dir/new"
	i=0
	while [ $i -lt "$ROUNDS" ]; do
		set -f
		# shellcheck disable=SC2086
		{ run "$other" $command >>"$dir/old" && run "$BIN" $command >>"$dir/new"; }
		set +f
		i=$((i + 1))
	done
	case $unit in tensor) name="$name, many tensors" ;; esac
	awk -v name="$name" -v a="$(least "$dir/old")" -v b="$(least "$dir/new")" 'BEGIN {
		if (a == "" || b == "") printf "%-34s %9s %9s %6s\n", name, (a == "" ? "-" : a), (b == "" ? "-" : b), "-"
		else printf "%-34s %9.4f %9.4f %6.2f\n", name, a, b, (a > 0 ? b / a : 0)
	}'
done <"$dir/jobs"
