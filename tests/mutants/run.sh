#!/bin/sh
# run.sh - does a test notice each deliberate fault? Every tests/mutants/*.patch puts one
# wrong line into the source. Each is applied to a scratch copy, what changed is rebuilt, and
# the tests that the patch names are run: one of them has to fail. The same tests are run
# once without any fault first, and have to pass, with their long cases (EXHAUSTIVE=1). Prints one line
# per fault and the survivors at the end; exit 1 if there are any.
#
#   ONLY=PATTERN   patches whose name contains it        JOBS=N   how many at a time
#
# The head of a patch, before its first "---" line, says what is wrong and which tests are to
# notice, as patterns for ONLY of tests/run.sh:
#
#   Fault: experts of different dtypes are stacked
#   Tests: cli/prune cli/dtype
set -u
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2)}
T=$(mktemp -d "${TMPDIR:-/tmp}/mutants.XXXXXX") || exit 1
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP
unset MAKEFLAGS MFLAGS MAKELEVEL

# A fault may make a test run forever: that is noticed too.
limit=
if command -v timeout > /dev/null 2>&1; then limit='timeout 1800'; fi

# The unit programs that a list of patterns means, as make targets.
units() {
    for pattern in "$@"; do
        for f in tests/unit/t_*.c tests/unit/*/t_*.c; do
            name=$(basename "$f" .c)
            case /test/$name in *"$pattern"*) echo "build/test/$name" ;; esac
        done
    done
}

# A patch in the scratch copy of this worker: sets verdict.
try() {
    patterns=$(sed -n 's/^Tests: //p; /^---/q' "$1")
    [ -n "$patterns" ] || { verdict='names no tests'; return; }
    patch -s -F0 -p1 < "$1" > "$log" 2>&1 || { verdict='does not apply'; return; }
    # shellcheck disable=SC2046,SC2086
    if ! make -s all $(units $patterns) > "$log" 2>&1; then
        verdict='does not build'
    else
        verdict=SURVIVED
        # With the long cases only if the others do not notice it.
        for every in '' 1; do
            [ "$verdict" = SURVIVED ] || break
            for pattern in $patterns; do
                JOBS=1 ONLY=$pattern EXHAUSTIVE=$every $limit sh tests/run.sh > "$log" 2>&1 < /dev/null && continue
                verdict="killed by $pattern${every:+ with EXHAUSTIVE=1}"
                break
            done
        done
    fi
    patch -s -R -p1 < "$1" || verdict='cannot be taken back'
}

worker() {
    copy=$T/$1 log=$T/$1.log
    mkdir "$copy"
    (cd "$top" && tar -c -f - --exclude ./.git .) | tar -x -f - -C "$copy"
    cd "$copy" || exit 1
    for p in "$top"/tests/mutants/*.patch; do
        name=$(basename "$p" .patch)
        case $name in *"${ONLY:-}"*) ;; *) continue ;; esac
        mkdir "$T/$name.taken" 2> /dev/null || continue
        try "$p"
        echo "$name: $verdict" | tee "$T/$name.verdict"
        case $verdict in
        killed*) ;;
        'does not apply' | 'cannot be taken back')
            rm -rf src include tools scripts
            (cd "$top" && tar -c -f - src include tools scripts) | tar -x -f - ;;
        esac
    done
}

make -s -j"$JOBS" all units || exit 1

# Without a fault these tests must pass: else a failure says nothing about the faults.
for p in tests/mutants/*.patch; do
    case $(basename "$p" .patch) in *"${ONLY:-}"*) sed -n 's/^Tests: //p; /^---/q' "$p" ;; esac
done | tr ' ' '\n' | sort -u > "$T/patterns"

sound() {
    n=0
    while read -r pattern; do
        n=$((n + 1))
        mkdir "$T/$n.sound" 2> /dev/null || continue
        JOBS=1 ONLY=$pattern EXHAUSTIVE=1 $limit sh tests/run.sh > "$T/$n.base" 2>&1 < /dev/null && continue
        grep FAIL "$T/$n.base"
        echo "mutants: the tests $pattern fail without any fault" | tee "$T/unsound"
    done < "$T/patterns"
}
w=0
while [ "$w" -lt "$JOBS" ]; do
    w=$((w + 1))
    sound &
done
wait
[ ! -e "$T/unsound" ] || exit 1

w=0
while [ "$w" -lt "$JOBS" ]; do
    w=$((w + 1))
    worker $w &
done
wait
killed=$(cat "$T"/*.verdict 2> /dev/null | grep -c ': killed')
total=$(cat "$T"/*.verdict 2> /dev/null | wc -l)
echo "mutants: $killed of $((total)) killed"
cat "$T"/*.verdict | grep -v ': killed'
[ "$killed" -gt 0 ] && [ "$killed" -eq "$total" ]
