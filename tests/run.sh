#!/bin/sh
# run.sh - run every unit program (BUILD/test/t_*) and every tests/cli/*.sh, print what
# failed, and end with "tests: N passed, M failed"; exit 1 if anything failed.
#
#   B=build        the build folder            BIN=build/bin  the tools
#   JOBS=N         how many run at a time      ONLY='TEXT...' names that contain a text
#                  (processors + 1)            TIMES=1        print the processor time of each
#
# A program that ends without its own "NAME: P passed, F failed" line, or with a status
# that this line does not explain, counts as one more failure. The failed checks are printed
# once more at the end, since some logs keep only their last lines.
set -u
cd "$(dirname "$0")/.." || exit 1
B=${B:-build}
BIN=${BIN:-$B/bin}
case $BIN in /*) ;; *) BIN=$PWD/$BIN ;; esac
case $B in /*) ;; *) B=$PWD/$B ;; esac
export B BIN
JOBS=${JOBS:-$(($(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2) + 1))}
all=
T=$(mktemp -d "${TMPDIR:-/tmp}/tests.XXXXXX") || exit 1
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP

# The longest come first, so that none of them is left over at the end.
long="promises remote fleet install api hostile recipes stream report chimera bigmodel malformed faults measure align \
    leaks schema size graft memory"
scripts=" report fleet remote install stream chimera schema completion recipes search sensitivity validate signing \
    readme "
n=0
for f in $(for l in $long; do echo "tests/cli/$l.sh"; done) tests/cli/*.sh "$B"/test/t_*; do
    case $f in */lib.sh | *.d | *.o | *'*'*) continue ;; esac
    [ -e "$f" ] || continue
    case " $all " in *" $f "*) continue ;; esac
    all="$all $f"
    # Sanitizers see nothing of scripts, and what they run other tests run as well.
    if [ -n "${SANITIZED:-}" ] && [ -z "${ONLY:-}" ]; then
        case "$scripts" in *" $(basename "$f" .sh) "*) continue ;; esac
    fi
    wanted=${ONLY:+no}
    for text in ${ONLY:-}; do case ${f#"$B"/} in *"$text"*) wanted=yes ;; esac; done
    [ "$wanted" != no ] || continue
    n=$((n + 1))
    echo "$f" > "$T/$n.name"
done
if [ -z "${ONLY:-}" ] && [ -z "${SANITIZED:-}" ]; then
    echo "tests: $n files, $JOBS at a time"
fi

# seconds NAME TIMES...: the processor time of tests, from what the shell's `times` prints of its children.
seconds() {
    name=$1
    shift
    awk -v name="$name" '
        function seconds(text,   part) { split(text, part, /[ms]/); return part[1] * 60 + part[2] }
        FNR == 2 { sum += seconds($1) + seconds($2) }
        END { printf "%6.1f s  %s\n", sum, name }' "$@"
}

# Each worker goes down the list and takes what no other has: mkdir is the lock.
worker() {
    i=0
    while [ $i -lt "$n" ]; do
        i=$((i + 1))
        mkdir "$T/$i.taken" 2> /dev/null || continue
        f=$(cat "$T/$i.name")
        (
            case $f in
            *.sh) sh "$f" > "$T/$i.log" 2>&1 < /dev/null ;;
            *) "$f" > "$T/$i.log" 2>&1 < /dev/null ;;
            esac
            echo $? > "$T/$i.status"
            times > "$T/$i.times"
        )
        [ -z "${TIMES:-}" ] || seconds "$f" "$T/$i.times"
    done
}
w=0
while [ $w -lt "$JOBS" ]; do
    w=$((w + 1))
    worker &
done
wait

# What a log has about failures, from stdin. DETAILS is how many lines after each to keep.
failures() {
    awk -v details="${1:-0}" '
        /^[^ ]*: [0-9]+ passed, / { left = 0 }
        /^FAIL / || /: failed: / || /runtime error: / || /^==[0-9]+==ERROR: / { left = details + 1 }
        left-- > 0 { print substr($0, 1, 300) }'
}

passed=0 failed=0 i=0
: > "$T/all"
while [ $i -lt "$n" ]; do
    i=$((i + 1))
    status=$(cat "$T/$i.status" 2> /dev/null || echo none)
    last=$(tail -n 1 "$T/$i.log")
    p=$(echo "$last" | sed -n 's/^[^ ]*: \([0-9][0-9]*\) passed, [0-9][0-9]* failed$/\1/p')
    f=$(echo "$last" | sed -n 's/^[^ ]*: [0-9][0-9]* passed, \([0-9][0-9]*\) failed$/\1/p')
    if [ -z "$p" ]; then
        p=0 f=1
        last="$(basename "$(cat "$T/$i.name")"): ended with status $status and no result"
    elif [ "$status" != 0 ] && [ "$f" = 0 ]; then
        f=1
        last="$last, but it ended with status $status"
    fi
    if [ "$f" != 0 ]; then
        echo "---- $(cat "$T/$i.name")"
        tail -n 60 "$T/$i.log"
        cat "$T/$i.log" >> "$T/all"
        case $last in *" status "*) { echo "FAIL $last"; tail -n 2 "$T/$i.log"; } >> "$T/all" ;; esac
    fi
    sed -n 's/^note: /  &/p' "$T/$i.log"
    echo "$last"
    passed=$((passed + p)) failed=$((failed + f))
done
[ $n -gt 0 ] || failed=1
if [ -s "$T/all" ]; then
    failures 2 < "$T/all" > "$T/failures"
    [ "$(wc -l < "$T/failures")" -le 18 ] || failures < "$T/all" > "$T/failures"
    echo "---- failed:"
    head -n 18 "$T/failures"
    more=$(($(wc -l < "$T/failures") - 18))
    [ $more -le 0 ] || echo "(and $more more lines)"
fi
# What tests left out because a program is missing, or every case was not asked for, on one line; of what needs
# several, all are named together.
{
    cat "$T"/*.log | sed -n 's/^left out: //p' | sort -u
    [ -n "${EXHAUSTIVE:-}" ] || echo "the long cases of many tests (EXHAUSTIVE=1 or make check)"
} | awk '
    { what = $0; sub(/ \([^()]*\)$/, "", what); needed = substr($0, length(what) + 3); sub(/\)$/, "", needed) }
    what == last && needed != "" { all = substr(all, 1, length(all) - 1) ", " needed ")"; next }
    { all = all (NR > 1 ? "; " : "") $0; last = what }
    END { if (NR) print "left out: " all }'
[ $n -lt 2 ] || echo "processor time: $(seconds "in all" "$T"/*.times | sed 's/^ *//; s/  */ /g')"
echo "tests: $passed passed, $failed failed"
[ $failed -eq 0 ]
