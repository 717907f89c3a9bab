#!/bin/sh
# instructions.sh - counts the instructions per value, tensor or sample that kernels and tools execute
# under qemu-x86_64, and compares them with instructions.tsv. They do not depend on the machine or its
# load, only on the compiler. Fails if one has grown by more than 10 %.
#
#   ONLY=TEXT  only rows that contain the text
#   UPDATE=1   writes the table instead; commit it together with the reason
set -eu
here=$(dirname "$0")
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench} TABLE=$here/instructions.tsv
. "$here/jobs.sh"
command -v qemu-x86_64 >/dev/null || { echo "skipped: no qemu-x86_64 (Debian: qemu-user)"; exit 0; }
[ "$(uname -m)" = x86_64 ] || { echo "skipped: the table is for x86-64"; exit 0; }
compiler=$(${CC:-cc} --version | sed -n '1s/.* \([0-9]*\)\.[0-9.]*$/gcc \1/p')
dir=$(mktemp -d "${TMPDIR:-/tmp}/instructions.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP PIPE
BIN=$(cd "$BIN" && pwd) BENCH=$(cd "$BENCH" && pwd)
"${HOSTCC:-cc}" -O2 -shared -fPIC -o "$dir/insn.so" "$here/insn_plugin.c"
make_models "$dir/1" 2 512
make_models "$dir/2" 4 1024

# executed COMMAND...: the number of instructions, on a processor that is the same everywhere. Status
# 1 is an answer, such as that two models differ.
executed() {
	QEMU_CPU=max qemu-x86_64 -plugin "$dir/insn.so" -d plugin -D "$dir/count.$name" "$@" >/dev/null || [ $? = 1 ]
	sed -n 's/^instructions: //p' "$dir/count.$name"
}

# tool UNIT PROGRAM ARGUMENT...: of both sizes, so that what does not grow with the model is left out
tool() {
	unit=$1 program=$BIN/$2
	shift 2
	two=$(cd "$dir/2" && executed "$program" "$@")
	case $unit in
	sample) one=0 n=100000 ;;
	tensor) n=512 one=$(cd "$dir/1" && executed "$program" "$@") ;;
	value) n=1048576 one=$(cd "$dir/1" && executed "$program" "$@") ;;
	esac
	awk -v a="$one" -v b="$two" -v n=$n 'BEGIN { printf "%.4g\n", (b - a) / n }'
}

# kernel NAME: of 65536 values more, without the preparation of its input
kernel() {
	case $1 in +* | sort) none=+none ;; *) none=none ;; esac
	for k in "$1" $none; do
		for n in 16384 81920; do executed "$BENCH/bench_count" "$k" $n; done
	done | awk '{ n[NR] = $1 } END { printf "%.4g\n", (n[2] - n[1] - n[4] + n[3]) / 65536 }'
}

decoded="f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs iq3_s iq2_xs iq1_s mxfp4"
encoded="f16 bf16 q8_0 q4_0 q5_0 q2_k q3_k q4_k q5_k q6_k iq4_xs"
{
	for k in $decoded; do printf 'decode %s\tvalue\tkernel\t%s\n' "$k" "$k"; done
	for k in $encoded; do printf 'encode %s\tvalue\tkernel\t+%s\n' "$k" "$k"; done
	for k in range moments gaps sort dot; do printf '%s\tvalue\tkernel\t%s\n' "$k" "$k"; done
	jobs | sed 's/\torgan-/\ttool\torgan-/'
} | grep -e "${ONLY:-}" >"$dir/rows"

# Every second row is counted by one of two processes.
count_rows() {
	name=$1
	awk -v k="$1" 'NR % 2 == k' "$dir/rows" | while IFS='	' read -r row unit how command; do
		set -f
		# shellcheck disable=SC2086
		case $how in kernel) n=$(kernel $command) ;; *) n=$(tool "$unit" $command) ;; esac
		printf '%s\t%s\t%s\n' "$row" "$unit" "$n"
	done >"$dir/counted.$1"
}
count_rows 0 &
count_rows 1
wait $!
cat "$dir/counted.0" "$dir/counted.1" | awk -F '\t' 'FNR == NR { n[$1, $2] = $3; next }
	{ print $1 "\t" $2 "\t" n[$1, $2] }' - "$dir/rows" >"$dir/now"
if [ -n "${UPDATE:-}" ]; then
	{
		printf '# Instructions per unit on x86-64 with AVX2, counted by instructions.sh; %s.\n' "$compiler"
		cat "$dir/now"
	} >"$TABLE"
fi
awk -F '\t' -v compiler="$compiler" -v only="${ONLY:-}" '
FNR == NR && /^#/ { known = index($0, compiler) > 0; next }
FNR == NR { before[$1, $2] = $3; next }
FNR == 1 { printf "%-30s %-7s %9s %9s %6s\n", "what", "unit", "before", "now", "ratio" }
{
	old = before[$1, $2]
	seen[$1, $2] = 1
	ratio = old > 0 ? $3 / old : 0
	say = old == "" ? "  new: add it with UPDATE=1" : $3 == "" || $3 + 0 <= 0 ? "  NOT COUNTED" : \
		ratio > 1.1 ? "  GREW" : ratio < 0.9 ? "  less: lower the table with UPDATE=1" : ""
	bad += ratio > 1.1 || $3 == "" || $3 + 0 <= 0 || old == ""
	printf "%-30s %-7s %9s %9s %6.3f%s\n", $1, $2, old, $3, ratio, say
}
END {
	for (k in before) if (!(k in seen) && only == "") {
		bad++
		split(k, f, SUBSEP)
		print f[1] ", per " f[2] ": not counted any more"
	}
	if (!known) { print "the table was made with another compiler than " compiler ", so nothing fails"; exit 0 }
	exit bad > 0
}' "$TABLE" "$dir/now"
