#!/bin/sh
# run.sh - run every unit program (BUILD/test/t_*) and every tests/cli/*.sh, say what
# failed, and end with "tests: N passed, M failed"; exit 1 if anything failed.
#
#   B=build        the build folder          BIN=build/bin  the tools
#   JOBS=2         how many run at a time    ONLY=PATTERN   names that contain it
#
# A program that ends without its own "NAME: P passed, F failed" line, or with a
# status that its line does not explain, counts as one more failure.
set -u
cd "$(dirname "$0")/.." || exit 1
B=${B:-build}
BIN=${BIN:-$B/bin}
case $BIN in /*) ;; *) BIN=$PWD/$BIN ;; esac
case $B in /*) ;; *) B=$PWD/$B ;; esac
export B BIN
T=$(mktemp -d "${TMPDIR:-/tmp}/tests.XXXXXX") || exit 1
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP

# The long ones first, so that no single one is left over at the end.
n=0
for f in tests/cli/*.sh "$B"/test/t_*; do
    case $f in */lib.sh | *.d | *.o | *'*'*) continue ;; esac
    case $f in *"${ONLY:-}"*) ;; *) continue ;; esac
    n=$((n + 1))
    echo "$f" > "$T/$n.name"
done

# Each worker goes down the list and takes what no other has: mkdir is the lock.
worker() {
    i=0
    while [ $i -lt "$n" ]; do
        i=$((i + 1))
        mkdir "$T/$i.taken" 2> /dev/null || continue
        f=$(cat "$T/$i.name")
        case $f in
        *.sh) sh "$f" > "$T/$i.log" 2>&1 < /dev/null ;;
        *) "$f" > "$T/$i.log" 2>&1 < /dev/null ;;
        esac
        echo $? > "$T/$i.status"
    done
}
w=0
while [ $w -lt "${JOBS:-2}" ]; do
    w=$((w + 1))
    worker &
done
wait

passed=0 failed=0 i=0
while [ $i -lt "$n" ]; do
    i=$((i + 1))
    status=$(cat "$T/$i.status" 2> /dev/null || echo none)
    last=$(tail -n 1 "$T/$i.log")
    p=$(expr "X$last" : 'X[^ ]*: \([0-9][0-9]*\) passed, [0-9][0-9]* failed$') || p=
    f=$(expr "X$last" : 'X[^ ]*: [0-9][0-9]* passed, \([0-9][0-9]*\) failed$') || f=${p:+0}
    if [ -z "$p" ]; then
        p=0 f=1
        last="$(basename "$(cat "$T/$i.name")"): ended with status $status and no result"
    elif [ "$status" != 0 ] && [ "$f" = 0 ]; then
        f=1
        last="$last, but it ended with status $status"
    fi
    if [ "$f" != 0 ]; then
        echo "---- $(cat "$T/$i.name")"
        tail -n 60 "$T/$i.log" | sed '$d'
    fi
    echo "$last"
    passed=$((passed + p)) failed=$((failed + f))
done
[ $n -gt 0 ] || failed=1
echo "tests: $passed passed, $failed failed"
[ $failed -eq 0 ]
