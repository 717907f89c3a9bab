#!/bin/sh
# copy.sh - extract, assemble and transplant against `cp` of the same bytes, each to
# the end of a sync of what it wrote; --in-place against the bytes it grafts. Runs
# in pairs, warm page cache; prints the ratio of each pair and their median.
# SIZE_MB (2048) is the model, PAIRS (5) how often; DIR where (default: the build folder).
set -eu
BIN=${BIN:-build/bin}
SIZE_MB=${SIZE_MB:-2048}
PAIRS=${PAIRS:-5}
dir=$(mktemp -d "${DIR:-$(dirname "$BENCH")}/bench-copy.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP PIPE

now() { date +%s.%N; }
# seconds COMMAND...: how long it takes, and a sync of the folder it wrote to
seconds() {
	start=$(now)
	"$@" >/dev/null
	sync "$dir" -f
	end=$(now)
	awk -v a="$start" -v b="$end" 'BEGIN { printf "%.3f", b - a }'
}
median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
peak() { /usr/bin/time -f %M "$@" 2>&1 >/dev/null | tail -n 1; }

"$BENCH/bench_model" "$dir/base.gguf" "$SIZE_MB" 1
"$BENCH/bench_model" "$dir/donor.gguf" "$SIZE_MB" 2
sync
"$BIN/organ-extract" "$dir/base.gguf" --output "$dir/organs" && sync

try_extract() { "$BIN/organ-extract" "$dir/base.gguf" --output "$dir/out"; }
try_assemble() { "$BIN/organ-assemble" "$dir/organs" --output "$dir/out"; }
try_transplant() { "$BIN/organ-transplant" --base "$dir/base.gguf" --donor "$dir/donor.gguf" --type organ --output "$dir/out"; }
try_cp() { cp "$dir/base.gguf" "$dir/out"; }
# alone COMMAND: seconds, inputs in memory, nothing to write left over from before
alone() {
	rm -rf "$dir/out"
	sync
	warm
	seconds "$1"
	rm -rf "$dir/out"
	sync
}
warm() { cat "$dir/base.gguf" "$dir/donor.gguf" "$dir"/organs/*/*.bin >/dev/null; }

echo "tool	pair	cp_s	tool_s	ratio"
for tool in extract assemble transplant; do
	: >"$dir/ratios"
	i=1
	while [ "$i" -le "$PAIRS" ]; do
		# Who goes first alternates: the first run after a deletion pays for it.
		if [ $((i % 2)) = 1 ]; then
			a=$(alone try_cp) b=$(alone "try_$tool")
		else
			b=$(alone "try_$tool") a=$(alone try_cp)
		fi
		r=$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.3f", b / a }')
		echo "$tool	$i	$a	$b	$r"
		echo "$r" >>"$dir/ratios"
		i=$((i + 1))
	done
	echo "$tool	median	-	-	$(median <"$dir/ratios")	(at most 1.10)"
done

echo "tool	bytes_grafted	seconds"
for layers in 0 0-3 0-15; do
	warm
	s=$(seconds "$BIN/organ-transplant" -q --base "$dir/base.gguf" --donor "$dir/donor.gguf" --type organ --layers "$layers" --in-place --undo "$dir/undo" --force)
	echo "in-place	$(wc -c <"$dir/undo")	$s"
done

if [ -x /usr/bin/time ]; then
	echo "tool	peak_rss_kb	(at most 65536)"
	rm -rf "$dir/out"
	echo "extract	$(peak "$BIN/organ-extract" "$dir/base.gguf" --output "$dir/out")"
	rm -rf "$dir/out"
	echo "assemble	$(peak "$BIN/organ-assemble" "$dir/organs" --output "$dir/out")"
	rm -rf "$dir/out"
	echo "transplant	$(peak "$BIN/organ-transplant" --base "$dir/base.gguf" --donor "$dir/donor.gguf" --type organ --output "$dir/out")"
fi
