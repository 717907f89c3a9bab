#!/bin/sh
# merge.sh - organ-merge against what a user would write with numpy (merge.py, float32, one thread):
# one line per method and type. Both sides read files and write a file.
#
#   f16    F16 models to F16, which is what merge.py does
#   q4_k   Q4_K models to F16, compared with the same merge.py on F16, as numpy has no Q4_K
#   q4_k>  Q4_K models to Q4_K: most of the time is that of the encoder (see codecs.sh)
#
# cpu_s is the user and system time of one thread, the least of RUNS (2); numpy, which takes most of the
# time, runs once. MB/s are the bytes of all models per second of it. one_s and two_s are clock times with
# one and two threads. Results are deleted between the runs, so that no side pays for that.
#
#   MIB=16      size of an F16 model; 1024 takes 5 GiB of /dev/shm and half an hour
#   TENSORS     number of tensors of equal size (default: one per 32 MiB, at least 4)
#   METHODS     the methods; iso is left out by default, as its SVD in numpy takes a minute
#   TYPES       of the lines above (default: "f16 q4_k q4_k>")
set -eu
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench}
COST=${COST:-$BENCH/../test/cost} RUNS=${RUNS:-2} MIB=${MIB:-16}
TYPES=${TYPES:-f16 q4_k q4_k>} TENSORS=${TENSORS:-$((MIB < 160 ? 4 : MIB / 32))}
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
	"$BENCH/bench_model" "$dir/f16-$seed.gguf" "$MIB" $seed "$TENSORS"
	case $TYPES in
	*q4_k*) "$BIN/organ-assemble" -q "$dir/f16-$seed.gguf" --dtype '*=q4_k' --output "$dir/q4_k-$seed.gguf" ;;
	esac
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

# ours METHOD LINE THREADS: adds "CLOCK CPU" to the file of this case
ours() {
	method=$1 line=$2 type=${2%>} threads=$3
	case $line in q4_k) set -- --dtype '*=f16' ;; *) set -- ;; esac
	rm -f "$dir/out.gguf"
	# shellcheck disable=SC2046 # several words
	"$COST" "$BIN/organ-merge" -q --no-hash -j "$threads" $(arguments "$method" "$type") \
		-o "$dir/out.gguf" "$@" >>"$dir/times-$line-$threads"
}

least() { cut -d ' ' -f "$2" "$1" | sort -n | head -n 1; }

echo "method	types	numpy_s	cpu_s	numpy/cpu	MB/s	one_s	two_s"
METHODS=${METHODS:-linear slerp nuslerp multislerp karcher task ties dare_linear dare_ties della \
	della_linear breadcrumbs breadcrumbs_ties sce model_stock nearswap arcee_fusion ram ramplus}
for method in $(echo "$METHODS" | tr - _); do
	rm -f "$dir"/times-*
	i=0
	while [ "$i" -lt "$RUNS" ]; do
		for j in 1 2; do
			for line in $TYPES; do ours "$method" "$line" $j; done
		done
		i=$((i + 1))
		[ "$i" -eq 1 ] || continue
		rm -f "$dir/out.gguf"
		"$PYTHON" "$here/merge.py" "$method" "$dir/out.gguf" "$dir/f16-1.gguf" "$dir/f16-2.gguf" \
			"$dir/f16-3.gguf" >>"$dir/times-numpy"
	done
	numpy=$(least "$dir/times-numpy" 1)
	models=$(arguments "$method" f16 | grep -o 'gguf' | wc -l)
	for line in $TYPES; do
		bytes=$(($(wc -c <"$dir/${line%>}-1.gguf") * models))
		cpu=$(least "$dir/times-$line-1" 2)
		awk -v m="$method" -v t="$line" -v py="$numpy" -v cpu="$cpu" -v b="$bytes" \
			-v one="$(least "$dir/times-$line-1" 1)" -v two="$(least "$dir/times-$line-2" 1)" 'BEGIN {
			if (cpu < 0.001) cpu = 0.001
			printf "%s\t%s\t%.2f\t%.3f\t%.1f\t%.0f\t%.2f\t%.2f\n", m, t, py, cpu, py / cpu, b / 1e6 / cpu, one, two
		}' | tee -a "$dir/table"
	done
	case $method in ties) wanted=20 ;; *) wanted=5 ;; esac
	goal "merge $method: times as fast as numpy, F16 and Q4_K" \
		"$(awk -F '\t' -v m="$method" '$1 == m && $2 != "q4_k>" { print $5 }' "$dir/table" | sort -n | head -n 1)" \
		"at least" "$wanted"
done
