#!/bin/sh
# run.sh - run the fuzz targets of a folder, one after another, and print a table: target,
# executions, executions per second, size of the corpus. Stop at the first finding.
#
#   sh tests/fuzz/run.sh libfuzzer FOLDER SECONDS [TARGET...]   coverage-guided, SECONDS each
#   sh tests/fuzz/run.sh replay FOLDER RUNS [TARGET...]         seeds and RUNS mutants of them
#   sh tests/fuzz/run.sh merge FOLDER BYTES [TARGET...]         renew the committed corpus
#   sh tests/fuzz/run.sh long FOLDER HOURS [TARGET...]          resume the campaign of docs/security.md
#
# Run it from the top of the tree. The committed corpus, tests/fuzz/corpus/TARGET.tar.gz, is unpacked
# to build/corpus/TARGET.kept. Inputs that reach something new are kept in build/corpus/TARGET, and
# an input that shows a fault in build/found, to be run again with FOLDER/TARGET FILE. merge picks
# the smallest inputs of both folders that together reach all code reached so far, at most BYTES
# each, and packs them.
#
# long runs the target with the fewest executions, in turns of TURN seconds (120), until each has
# GOAL (10^6), and then the target with the least processor time. FOLDER may be several, with colons
# between them, such as a build with sanitizers and a faster one without: each target uses them in turn,
# and an input that reached something new in one is run by the others. A finding ends the turns of its
# target only. The executions are added to the table in docs/security.md; until then they are in
# build/corpus/long.tsv: target, executions, processor seconds, folder.
set -u
engine=$1 folder=$2 much=$3
shift 3
if [ $# -eq 0 ]; then
    for f in "${folder%%:*}"/fuzz_*; do
        case $f in *.d) ;; *) set -- "$@" "${f##*/}" ;; esac
    done
fi
mkdir -p build/corpus build/found
room=/dev/shm
[ -w "$room" ] || room=${TMPDIR:-/tmp}
FUZZ_ROOM=$(mktemp -d "$room/organ-fuzz.XXXXXX") || exit 2
export FUZZ_ROOM
# A small quarantine and short stacks of allocations leave more time for executions.
ASAN_OPTIONS=${ASAN_OPTIONS:-quarantine_size_mb=16:malloc_context_size=6}
export ASAN_OPTIONS
trap 'rm -rf "$FUZZ_ROOM"' EXIT
trap 'exit 1' HUP INT TERM

unpack() { # the committed corpus of target $t
    rm -rf "$kept"
    mkdir -p "$kept" "$new"
    [ ! -e "$pack" ] || gzip -dc "$pack" | tar -x -C "$kept" -f - || exit 2
}

fuzz() {
    case $engine in
    libfuzzer | long)
        # Long texts of options only take longer.
        case $t in fuzz_options) length=300 ;; *) length=0 ;; esac
        case $t in
        fuzz_api | fuzz_json | fuzz_lists | fuzz_manifest | fuzz_merge | fuzz_options | \
            fuzz_where | fuzz_quant) words='' ;;
        *) words=-dict=tests/fuzz/gguf.dict ;;
        esac
        # shellcheck disable=SC2086 # none, or one word
        "$folder/$t" $words -max_total_time="$much" -print_final_stats=1 -entropic=0 -timeout=60 \
            -max_len=$length -rss_limit_mb=2048 -artifact_prefix="build/found/$t-" "$new" "$kept" ;;
    merge)
        rm -rf "$new.merged"
        mkdir "$new.merged"
        "$folder/$t" -set_cover_merge=1 -use_counters=0 -max_len="$much" \
            -artifact_prefix="build/found/$t-" "$new.merged" "$kept" "$new" ;;
    *) FUZZ_CORPUS=$kept FUZZ_LAST=build/found/$t-last "$folder/$t" "$much" ;;
    esac > "$log" 2>&1
}

report() {
    case $engine in
    libfuzzer)
        awk -v t="$t" -v c="$(find "$new" -type f | wc -l)" '
            /number_of_executed_units/ { n = $2 }
            /average_exec_per_sec/ { s = $2 }
            END { printf "%-16s %12d %10d %8d\n", t, n, s, c }' "$log" ;;
    merge)
        mkdir -p tests/fuzz/corpus
        tar -c -C "$new.merged" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
            --mode=0644 -f - . | gzip -9n > "$pack"
        printf '%-16s %d files, %d bytes packed\n' "$t" "$(find "$new.merged" -type f | wc -l)" \
            "$(wc -c < "$pack")" ;;
    *)
        rm -f "build/found/$t-last"
        awk -v t="$t" -v s="$(($(date +%s) - start))" '
            { for (i = 2; i <= NF; i++) {
                if ($i ~ /^seeds/) c = $(i - 1)
                if ($i ~ /^mutants/) n = c + $(i - 1)
            } }
            END { printf "%-16s %12d %10d %8d\n", t, n, n / (s ? s : 1), c }' "$log" ;;
    esac
}

# Sets `used` to the seconds of processor time of all children so far.
count_time() {
    times > "$FUZZ_ROOM/times"
    used=$(awk 'END { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); s += 60 * t[1] + t[2] } printf "%d", s }' \
        "$FUZZ_ROOM/times")
}

# The target of the next turn: of those given that have no finding.
choose() {
    awk -F '\t' -v goal="${GOAL:-1000000}" -v found="$found" '
        FNR == NR { if ($1 ~ /^\| [a-z_]+ \|/) { split($1, c, / *\| */); if (c[4] ~ /^[0-9]+$/) n[c[2]] = c[4] } next }
        $1 == "?" { want[$2] = 1; next }
        { n[$1] += $2; s[$1] += $3 }
        END {
            for (t in want) {
                name = substr(t, 6)
                if (index(found, " " t " ")) continue
                first = n[name] + 0 < goal
                key = first ? n[name] + 0 : s[name] + 0
                if (best == "" || first > rank || first == rank && key < least) { best = t; rank = first; least = key }
            }
            print best
        }' docs/security.md "$FUZZ_ROOM/targets" "$state"
}

# Add the state to the table: executions, and those per second of processor time in this campaign.
settle() {
    [ ! -s "$state" ] || awk -F '\t' -v OFS='\t' '
        FNR == NR { n[$1] += $2; s[$1] += $3; next }
        match($0, /^\| [a-z_]+ \|/) && split($0, c, / *\| */) == 6 && c[4] ~ /^[0-9]+$/ && c[2] in n {
            speed = s[c[2]] ? sprintf("%d", n[c[2]] / s[c[2]]) : c[5]
            $0 = sprintf("| %s | %s | %d | %s |", c[2], c[3], c[4] + n[c[2]], speed)
        }
        { print }' "$state" docs/security.md > "$FUZZ_ROOM/security.md" &&
        cat "$FUZZ_ROOM/security.md" > docs/security.md && rm -f "$state"
}

if [ "$engine" = long ]; then
    state=build/corpus/long.tsv found=' ' folders=$folder
    end=$(($(date +%s) + $(awk -v h="$much" 'BEGIN { printf "%d", 3600 * h }')))
    much=${TURN:-120}
    for t; do printf '?\t%s\n' "$t"; done > "$FUZZ_ROOM/targets"
    touch "$state"
    while [ "$(date +%s)" -lt "$end" ]; do
        t=$(choose)
        [ -n "$t" ] || break
        log=build/found/$t.log new=build/corpus/$t kept=build/corpus/$t.kept
        pack=tests/fuzz/corpus/$t.tar.gz
        count_time
        before=$used
        folder=$(awk -v t="${t#fuzz_}" -v folders="$folders" '$1 == t { turns++ }
            END { n = split(folders, f, ":"); print f[turns % n + 1] }' "$state")
        unpack
        fuzz || {
            echo "$t: a finding, see $log and build/found/$t-*"
            found="$found$t "
        }
        count_time
        awk -v t="${t#fuzz_}" -v s="$((used - before))" -v folder="$folder" '/number_of_executed_units/ { n += $2 }
            END { printf "%s\t%d\t%d\t%s\n", t, n, s, folder }' "$log" >> "$state"
    done
    settle
    [ "$found" = ' ' ]
    exit
fi

[ "$engine" = merge ] || printf '%-16s %12s %10s %8s\n' target executions per-second corpus
for t; do
    log=build/found/$t.log new=build/corpus/$t kept=build/corpus/$t.kept
    pack=tests/fuzz/corpus/$t.tar.gz
    start=$(date +%s)
    unpack
    fuzz || {
        echo "$t: a finding"
        tail -40 "$log"
        exit 1
    }
    report
done
