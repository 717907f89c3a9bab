#!/bin/sh
# peers.sh - whole programs beside what a user would take instead: RUNS (3) runs in turns, and whether the
# results are equal. Prints a table for docs/bench.md; build/bench/peers.tsv is for peers.awk, which draws it.
#
#   ONLY=TEXT   rows whose name contains the text
#   MIB=512     size of the model for copies and hashes
#   LARGE=1     makes a model of the shape of a 14B instead (26 GB of F16, then 8.6 GB), and measures it alone;
#               DIR (default: build/bench) needs 50 GB
#
# The encoder of llama.cpp is that of the engine of the tests, which needs node and npm. Rows whose peer is
# missing are named and left out.
set -eu
cd "$(dirname "$0")/../.."
BIN=$(cd "${BIN:-build/bin}" && pwd) BENCH=$(cd "${BENCH:-build/bench}" && pwd)
COST=${COST:-$(cd "$BENCH/../test" && pwd)/cost} RUNS=${RUNS:-3} MIB=${MIB:-512} TAB=$(printf '\t')
rows=$BENCH/peers.tsv
case ${LARGE:-} in ?*) DIR=${DIR:-$BENCH} rows=$BENCH/large.tsv ;; esac
[ -d "${DIR:=/dev/shm}" ] || DIR=/tmp
M=$(mktemp -d "$DIR/bench-peers.XXXXXX")
trap 'rm -rf "$M"' EXIT
trap 'exit 130' INT TERM HUP PIPE
PATH=$BIN:$PATH
now=
# shellcheck source=tests/bench/idle.sh disable=SC1091
. tests/bench/idle.sh
look
began=$now
: >"$rows"

# figures FILE COLUMN: median, least and most
figures() {
	cut -d ' ' -f "$2" "$1" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)], v[1], v[NR] }'
}
# peer NAME OURS THEIRS EQUAL: commands of the shell; THEIRS is "-" if there is nothing to compare with
peer() {
	case $1 in *"${ONLY:-}"*) ;; *) return 0 ;; esac
	rm -f "$M/ours" "$M/theirs"
	i=0
	while [ $i -lt "$RUNS" ]; do
		rm -rf "$M/out" "$M/peer"
		(cd "$M" && "$COST" sh -c "$2") >>"$M/ours"
		[ "$3" = - ] || (cd "$M" && "$COST" sh -c "$3") >>"$M/theirs"
		i=$((i + 1))
	done
	equal=-
	if [ -n "$4" ]; then
		equal=no
		if (cd "$M" && sh -c "$4") >/dev/null 2>&1; then equal=yes; fi
	fi
	{
		figures "$M/ours" 1
		if [ "$3" = - ]; then echo - - -; else figures "$M/theirs" 1; fi
		figures "$M/ours" 2
		if [ "$3" = - ]; then echo - - -; else figures "$M/theirs" 2; fi
		figures "$M/ours" 3 | cut -d " " -f 3
	} | tr '\n' ' ' | awk -v name="$1" -v equal=$equal '{
		printf "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", name, $1, $2, $3, $4, $5, $6, $7, $10, $13 / 1024, equal }' |
		tee -a "$rows" | cut -f 1,2,5,11 >&2
}
count_same="awk -F '$TAB' '\$1 == \"model\" && \$2 == \$3 { ok = 1 } END { exit !ok }'"
same_tensors="organ-compare -q --summary out peer | $count_same"

# shellcheck disable=SC2154 # build_engine_program sets engine
quantizers() { # NAME MODEL TYPE:FTYPE...
	name=$1 model=$2
	shift 2
	for t; do
		im=
		case $t in *+) im=$PWD/tests/data/lab/lab-base.imatrix.gguf ;; esac
		t=${t%+}
		peer "encode $name as ${t%:*}${im:+, importance matrix}" \
			"organ-assemble -q $model --dtype ${t%:*} ${im:+--imatrix $im} -o out" \
			"$M/quantize.run $PWD/$engine $model ${t#*:} ${im:--} peer $(nproc)" "$same_tensors"
	done
}

if [ -n "${LARGE:-}" ]; then
	"$BENCH/bench_llama" "$M/f16.gguf" 48 5120 13824 1024 152064 1
	organ-assemble -q "$M/f16.gguf" --dtype q4_k_m -o "$M/a.gguf"
	cp "$M/a.gguf" "$M/b.gguf"
	rm "$M/f16.gguf"
	cold="sync; dd if=a.gguf iflag=nocache count=0 2>/dev/null;"
	RUNS=1
	peer "organ-extract, with a hash of each tensor" "$cold organ-extract -q a.gguf --output out; sync" \
		"$cold cp a.gguf peer; sync" ""
	organ-extract -q "$M/a.gguf" --output "$M/organs"
	peer "organ-assemble, which checks the hashes" "organ-assemble -q organs -o out; sync" - "cmp out a.gguf"
	rm -rf "$M/organs"
	peer "organ-measure" "$cold organ-measure -q a.gguf" - ""
	peer "organ-transplant of all feed-forward layers" \
		"organ-transplant -q --base a.gguf --donor b.gguf --type ffn -o out; sync" - ""
	peer "organ-assemble --dtype q3_k_m" "organ-assemble -q a.gguf --dtype q3_k_m -o out; sync" - ""
	peer "organ-merge, linear, with a model of the same size" \
		"organ-merge -q --method linear --model a.gguf --model b.gguf -o out; sync" - ""
else
	# shellcheck source=tests/engine/recipes.sh disable=SC1091
	. tests/engine/recipes.sh
	if sh tests/engine/install.sh >"$M/log" 2>&1 && build_engine_program quantize >>"$M/log" 2>&1; then
		"$BENCH/bench_llama" "$M/block.gguf" 1 4096 14336 1024 512 1
		quantizers "4096 x 14336" block.gguf q4_k_m:15 q8_0:7 q6_k:18 q3_k_m:12 iq4_xs:30
		rm "$M/block.gguf"
		organ-assemble -q tests/data/lab/lab-base-q4_k_m.gguf --dtype f16 -o "$M/small.gguf"
		quantizers "a small model" small.gguf q4_k_m:15 q8_0:7 iq4_xs:30+
	else
		echo "left out: llama.cpp, which needs node, npm and git" >&2
	fi
	hf=build/node-peers
	if npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error --prefix $hf \
		@huggingface/gguf@0.4.6 >"$M/log" 2>&1; then
		cat >$hf/parse.mjs <<-'EOF'
			import { gguf } from "@huggingface/gguf";
			const { metadata, tensorInfos } = await gguf(process.argv[2], { allowLocalFile: true });
			console.log(Object.keys(metadata).filter(k => k.includes(".")).length, tensorInfos.length);
		EOF
		cp tests/data/lab/lab-verse-q4_k_m.gguf "$M/verse.gguf"
		peer "keys and tensors, against @huggingface/gguf" "organ-info verse.gguf >out" \
			"node $PWD/$hf/parse.mjs verse.gguf >peer" \
			"[ \"\$(cut -d ' ' -f 2 peer)\" = \"\$(organ-extract --list verse.gguf | tail -n +2 | wc -l)\" ]"
	else
		echo "left out: @huggingface/gguf, which needs npm" >&2
	fi
	"$BENCH/bench_llama" "$M/m.gguf" $((MIB / 66 + 1)) 2048 4096 512 4096 1
	"$BENCH/bench_llama" "$M/n.gguf" $((MIB / 66 + 1)) 2048 4096 512 4096 2
	peer "organ-check --hash, against sha256sum" "organ-check -q --hash m.gguf >out" "sha256sum m.gguf >peer" \
		"grep -q \"\$(cut -d ' ' -f 1 peer)\" out"
	peer "organ-extract, against cp" "organ-extract -q m.gguf --output out" "cp m.gguf peer" \
		"organ-assemble -q out -o out.gguf && cmp out.gguf m.gguf; rm out.gguf"
	organ-extract -q "$M/m.gguf" --output "$M/organs"
	peer "organ-assemble, against cp" "organ-assemble -q organs -o out" "cp m.gguf peer" "cmp out peer"
	rm -rf "$M/organs"
	peer "organ-transplant, against cp" "organ-transplant -q --base m.gguf --donor n.gguf --type ffn -o out" \
		"cp m.gguf peer" "organ-transplant -q --base out --donor m.gguf --type ffn -o back && cmp back m.gguf; rm back"
	peer "pipe through organ-assemble, against cat" "cat m.gguf | organ-assemble -q - -o - | cat >out" \
		"cat m.gguf | cat | cat >peer" "cmp out peer"
	rm "$M/m.gguf" "$M/n.gguf"
	for PYTHON in "${PYTHON:-python3}" /usr/bin/python3; do
		"$PYTHON" -c 'import numpy' 2>/dev/null && break
		PYTHON=
	done
	if [ -n "$PYTHON" ]; then
		for k in 1 2 3; do "$BENCH/bench_model" "$M/$k.gguf" 128 $k 4; done
		near="organ-compare -q --sample 0 --summary out peer | awk -F '$TAB' '\$1 == \"model\" { exit !(\$11 < 0.001) }'"
		for m in linear ties slerp; do
			case $m in
			linear) a="--method linear --model 2.gguf,weight=0.6 --model 3.gguf,weight=0.4" ;;
			ties) a="--method ties,density=0.3 --base 1.gguf --model 2.gguf,weight=0.6 --model 3.gguf,weight=0.4" ;;
			slerp) a="--method slerp,t=0.4 --base 1.gguf --model 2.gguf" ;;
			esac
			peer "organ-merge $m, against numpy" "organ-merge -q --no-hash $a -o out" \
				"$PYTHON $PWD/tests/bench/merge.py $m peer 1.gguf 2.gguf 3.gguf >/dev/null" "$near"
		done
		"$PYTHON" tests/bench/arithmetic.py adapter "$M/1.gguf" "$M/lora.gguf" 16
		peer "LoRA into a model, against numpy" "organ-graft -q --adapter lora.gguf --target 1.gguf --output out" \
			"$PYTHON $PWD/tests/bench/arithmetic.py lora 1.gguf lora.gguf peer" ""
	else
		echo "left out: numpy" >&2
	fi
fi

look
awk -F '\t' -v large="${LARGE:-}" '
# three digits
function seconds(s) { return sprintf((s < 0.1) ? "%.3f" : (s < 10) ? "%.2f" : (s < 100) ? "%.1f" : "%.0f", s) }
function three(at) { return seconds($at) " (" seconds($(at + 1)) " to " seconds($(at + 2)) ")" }
function one(what, cpu, clock, mb) { printf "| %s | %s | %s | %s |\n", what, seconds(cpu), seconds(clock), mb }
BEGIN {
	if (large != "") print "| a 14B | processor (s) | clock (s) | MB |\n|---|---|---|---|"
	else {
		print "| what | ours (s) | the other (s) | times as fast | by processor time | equal | MB |"
		print "|---|---|---|---|---|---|---|"
	}
}
large != "" {
	if ($5 != "-") one("cp", $9, $5, "")
	one($1 (($11 == "-") ? "" : ($11 == "yes") ? "; the result is identical" : "; the result differs"), $8, $2, $10)
	next
}
$5 == "-" { printf "| %s | %s | - | - | - | %s | %d |\n", $1, three(2), $11, $10 }
$5 != "-" {
	printf "| %s | %s | %s | %.1f | %.1f | %s | %d |\n", $1, three(2), three(5), $5 / $2, $9 / ($8 ? $8 : 0.001), $11, $10
}' "$rows"
echo "$(uname -m), $(nproc) processors$(sed -n 's/^model name[^:]*: */, /p' /proc/cpuinfo 2>/dev/null | head -n 1)" \
	"$(spent "$began" "$now" | sed 's/^/in /')"
note_busy peers.sh "$began" "$now"
