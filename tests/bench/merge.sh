#!/bin/sh
# merge.sh - organ-merge against what a user would write with numpy (merge.py, float32, one thread):
# one line per method and type. Both sides read files and write a file.
#
#   f16    F16 models to F16, which is what merge.py does
#   q4_k   Q4_K models to F16, compared with the same merge.py on F16, as numpy has no Q4_K
#   q4_k>  Q4_K models to Q4_K: most of the time is that of the encoder (see codecs.sh)
#
# cpu_s is the user and system time of one thread, the least of RUNS (2), in which both sides take
# turns; MB/s are the bytes of all models per second of it. one_s and two_s are clock times with
# one and two threads. MIB (32) is the size of an F16 model; 1024 needs an idle machine and time.
# METHODS chooses methods; iso is left out by default, as its SVD in numpy takes a minute.
set -eu
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench}
COST=${COST:-$BENCH/../test/cost} RUNS=${RUNS:-2} MIB=${MIB:-32}
here=$(dirname "$0")
. "$here/goal.sh"
for PYTHON in "${PYTHON:-python3}" /usr/bin/python3; do
	"$PYTHON" -c 'import numpy' 2>/dev/null && break
	PYTHON=
done
[ -n "$PYTHON" ] || { echo "skipped: no numpy"; exit 0; }
[ -d "${DIR:-/dev/shm}" ] || DIR=/tmp
dir=$(mktemp -d "${DIR:-/dev/shm}/bench-merge.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP PIPE

for seed in 1 2 3; do
	"$BENCH/bench_model" "$dir/f16-$seed.gguf" "$MIB" $seed 4
	"$BIN/organ-assemble" -q "$dir/f16-$seed.gguf" --dtype '*=q4_k' --output "$dir/q4_k-$seed.gguf"
done

# arguments METHOD TYPE: prints those of organ-merge; the same parameters are in merge.py.
arguments() {
	base="--base $dir/$2-1.gguf" a="--model $dir/$2-2.gguf" b="--model $dir/$2-3.gguf"
	aw="$a,weight=0.6" bw="$b,weight=0.4"
	case $1 in
	linear) echo "--method linear $aw $bw" ;;
	slerp) echo "--method slerp,t=0.4 $base $a" ;;
	nearswap) echo "--method nearswap,t=0.001 $base $a" ;;
	arcee_fusion) echo "--method arcee_fusion $base $a" ;;
	karcher) echo "--method karcher $a $b" ;;
	nuslerp | multislerp | task) echo "--method $1 $base $aw $bw" ;;
	ties) echo "--method ties,density=0.3 $base $aw $bw" ;;
	dare_*) echo "--method $1,density=0.3 $base $aw $bw" ;;
	della*) echo "--method $1,density=0.5 $base $aw $bw" ;;
	breadcrumbs*) echo "--method $1,density=0.6,gamma=0.01 $base $aw $bw" ;;
	sce) echo "--method sce,select_topk=0.3 $base $a $b" ;;
	*) echo "--method $1 $base $a $b" ;;
	esac
}

# ours METHOD TYPE THREADS [OPTION...]: adds "CLOCK CPU" to the file of this case
ours() {
	method=$1 type=$2 threads=$3
	shift 3
	# shellcheck disable=SC2046 # several words
	"$COST" "$BIN/organ-merge" -q --no-hash --force -j "$threads" $(arguments "$method" "$type") \
		-o "$dir/out.gguf" "$@" >>"$dir/times-$type-$threads-$#"
}

least() { cut -d ' ' -f "$2" "$1" | sort -n | head -n 1; }

echo "method	types	numpy_s	cpu_s	numpy/cpu	MB/s	one_s	two_s"
for method in ${METHODS:-linear slerp nuslerp multislerp karcher task ties dare_linear dare_ties della \
	della_linear breadcrumbs breadcrumbs_ties sce model_stock nearswap arcee_fusion ram ramplus}; do
	rm -f "$dir"/times-*
	i=0
	while [ "$i" -lt "$RUNS" ]; do
		for j in 1 2; do
			ours "$method" f16 $j
			ours "$method" q4_k $j --dtype '*=f16'
			ours "$method" q4_k $j
		done
		"$PYTHON" "$here/merge.py" "$method" "$dir/out.gguf" "$dir/f16-1.gguf" "$dir/f16-2.gguf" \
			"$dir/f16-3.gguf" >>"$dir/times-numpy"
		i=$((i + 1))
	done
	numpy=$(least "$dir/times-numpy" 1)
	models=$(arguments "$method" f16 | grep -o 'gguf' | wc -l)
	for case in f16-0 q4_k-2 q4_k-0; do
		type=${case%-*} n=${case#*-}
		bytes=$(($(wc -c <"$dir/$type-1.gguf") * models))
		case $case in q4_k-0) types='q4_k>' ;; *) types=$type ;; esac
		cpu=$(least "$dir/times-$type-1-$n" 2)
		awk -v m="$method" -v t="$types" -v py="$numpy" -v cpu="$cpu" -v b="$bytes" \
			-v one="$(least "$dir/times-$type-1-$n" 1)" -v two="$(least "$dir/times-$type-2-$n" 1)" 'BEGIN {
			if (cpu < 0.001) cpu = 0.001
			printf "%s\t%s\t%.2f\t%.3f\t%.1f\t%.0f\t%.2f\t%.2f\n", m, t, py, cpu, py / cpu, b / 1e6 / cpu, one, two
		}' | tee -a "$dir/table"
	done
	case $method in ties) wanted=20 ;; *) wanted=5 ;; esac
	goal "merge $method: times as fast as numpy, F16 and Q4_K" \
		"$(awk -F '\t' -v m="$method" '$1 == m && $2 != "q4_k>" { print $5 }' "$dir/table" | sort -n | head -n 1)" \
		"at least" "$wanted"
done
