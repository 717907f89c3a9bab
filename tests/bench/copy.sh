#!/bin/sh
# copy.sh - extract, assemble and transplant against `cp` of the same bytes, each to
# the end of a sync of what it wrote; --in-place against the bytes it grafts. Runs
# in pairs, warm page cache; prints the ratio of each pair and their median.
# SIZE_MB (512) is the model, PAIRS (3) how often; DIR where (default: the build folder). Then the
# same in memory (RAM, default /dev/shm), where the goals are.
set -eu
. "$(dirname "$0")/goal.sh"
BIN=${BIN:-build/bin}
BENCH=${BENCH:-build/bench}
SIZE_MB=${SIZE_MB:-512}
PAIRS=${PAIRS:-3}
dir=$(mktemp -d "${DIR:-$(dirname "$BENCH")}/bench-copy.XXXXXX")
trap 'rm -rf "$dir" ${ram:+"$ram"}' EXIT
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
try_transplant() { "$BIN/organ-transplant" --base "$dir/base.gguf" --donor "$dir/donor.gguf" --type organ \
    --output "$dir/out"; }
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
	goal "organ-$tool on disk: time / cp (clock, with sync)" "$(median <"$dir/ratios")" "at most" 1.10
done

echo "tool	bytes_grafted	seconds"
for layers in 0 0-3 0-15; do
	warm
	s=$(seconds "$BIN/organ-transplant" -q --base "$dir/base.gguf" --donor "$dir/donor.gguf" --type organ \
    --layers "$layers" --in-place --undo "$dir/undo" --force)
	echo "in-place	$(wc -c <"$dir/undo")	$s"
done

if [ -x /usr/bin/time ]; then
	echo "tool	peak_rss_kb	(at most 65536)"
	rm -rf "$dir/out"
	echo "extract	$(peak "$BIN/organ-extract" "$dir/base.gguf" --output "$dir/out")"
	rm -rf "$dir/out"
	echo "assemble	$(peak "$BIN/organ-assemble" "$dir/organs" --output "$dir/out")"
	rm -rf "$dir/out"
	echo "transplant	$(peak "$BIN/organ-transplant" --base "$dir/base.gguf" --donor "$dir/donor.gguf" --type organ \
    --output "$dir/out")"
fi

# In memory: 256 MiB, the least clock time of five runs that take turns.
[ -d "${RAM:-/dev/shm}" ] || exit 0
ram=$(mktemp -d "${RAM:-/dev/shm}/bench-copy.XXXXXX")
"$BENCH/bench_model" "$ram/base.gguf" 256 1
"$BENCH/bench_model" "$ram/donor.gguf" 256 2
"$BIN/organ-extract" -q "$ram/base.gguf" --output "$ram/organs"
in_memory() { # JOB
	case $1 in
	cp) cp "$ram/base.gguf" "$ram/out" ;;
	cat) sh -c 'cat "$1" | cat >"$2"' sh "$ram/base.gguf" "$ram/out" ;;
	extract) "$BIN/organ-extract" -q "$ram/base.gguf" --output "$ram/out" ;;
	assemble) "$BIN/organ-assemble" -q "$ram/organs" --output "$ram/out" ;;
	transplant) "$BIN/organ-transplant" -q --base "$ram/base.gguf" --donor "$ram/donor.gguf" --type organ \
    --output "$ram/out" ;;
	pipe) sh -c 'cat "$1" | "$3" -q - --output "$2"' sh "$ram/base.gguf" "$ram/out" "$BIN/organ-extract" ;;
	esac
}
for _ in 1 2 3 4 5; do
	for job in cp cat extract assemble transplant pipe; do
		rm -rf "$ram/out"
		start=$(now)
		in_memory $job >/dev/null
		end=$(now)
		awk -v a="$start" -v b="$end" 'BEGIN { printf "%.4f\n", b - a }' >>"$ram/$job.times"
	done
done
against() { # JOB OF LIMIT WHAT
	goal "$4 (clock)" "$(awk -v a="$(sort -n "$ram/$1.times" | head -n 1)" -v b="$(sort -n "$ram/$2.times" | head -n 1)" \
		'BEGIN { printf "%.2f\n", a / b }')" "at most" "$3"
}
against extract cp 1.6 "organ-extract in memory: time / cp"
against assemble cp 1.6 "organ-assemble in memory: time / cp"
against transplant cp 1.05 "organ-transplant in memory: time / cp"
against pipe cat 1.3 "cat m | organ-extract - in memory: time / cat m | cat > file"
