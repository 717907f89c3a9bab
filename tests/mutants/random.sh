#!/bin/sh
# random.sh - how many wrong tokens in src would the tests notice? Makes N random changes of one
# token (operators, constants, conditions, off by one; see tokens.awk), one at a time, in scratch
# copies of the tree. Each is built, and the tests that execute the changed line are run, the
# fastest first, until one fails. A change that leaves every object as it was is equivalent and is
# replaced by another one, as is a change that does not compile. Prints one line per change, and
# the share that was noticed by folder.
#
#   N=200          changes                       SEED=1      for the choice
#   JOBS=N         how many at a time            ONLY=TEXT   files whose path contains TEXT
#   AT=LIST        a file of changes to try again, as this script prints them
#   LINES=DIR      keep which test executes which line there, for the next run on the same tree
#
# Needs gcc with gcov, and jq. Some changes that survive are equivalent for reasons that objects
# do not show; README.md lists those that were examined.
set -u
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
N=${N:-200} SEED=${SEED:-1} ONLY=${ONLY:-}
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2)}
for tool in gcov jq timeout; do
    command -v $tool > /dev/null 2>&1 || { echo "random.sh: $tool not found" >&2; exit 1; }
done
T=$(mktemp -d "${TMPDIR:-/tmp}/mutants.XXXXXX") || exit 1
trap 'chmod -R u+w "$T"; rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP
unset MAKEFLAGS MFLAGS MAKELEVEL
LINES=${LINES:-$T/lines}

copy_tree() {
    mkdir -p "$1" && (cd "$top" && tar -c -f - --exclude ./.git --exclude ./build .) | tar -x -f - -C "$1"
}

# run_test FILE SECONDS: FILE is tests/cli/X.sh or build/test/t_X. It must end with its own line.
run_test() {
    case $1 in
    *.sh) timeout "$2" sh "$1" ;;
    *) timeout "$2" "$1" ;;
    esac > "$log" 2>&1 < /dev/null && tail -n 1 "$log" | grep -q ' passed, 0 failed$'
}

# ---- which test executes which line ----------------------------------------------
# From one run of all tests, file by file, of programs that count. LINES/tests has the seconds of
# each test without that, and LINES/index "FILE:LINE TEST...", the fastest test first.
record_lines() {
    mkdir -p "$LINES/of" || exit 1
    copy_tree "$T/cov"
    cd "$T/cov" || exit 1
    make -s -j"$JOBS" CFLAGS='-O1 --coverage -fprofile-update=atomic' LDFLAGS=--coverage all units > "$T/cov.log" \
        2>&1 ||
        { tail "$T/cov.log"; exit 1; }
    log=$T/cov.log
    for t in tests/cli/*.sh build/test/t_*; do
        case $t in */lib.sh | *.d | *.o | *.gcno | *.gcda | */packages.sh) continue ;; esac
        [ ! -s "$LINES/of/$(basename "$t")" ] || continue # of an interrupted run
        find build -name '*.gcda' -exec rm -f {} +
        began=$(date +%s%N)
        B=$PWD/build BIN=$PWD/build/bin run_test "$t" 1200
        ended=$(date +%s%N)
        echo "$(((ended - began) / 1000000)) $t" >> "$LINES/tests"
        find build -name '*.gcda' | while read -r f; do gcov -i -t "$f" 2> /dev/null; done |
            jq -r '.files[] | select(.file | test("^(src|tools)/|^\\./src")) | .file as $f | .lines[] |
                select(.count > 0) | "\($f):\(.line_number)"' 2> /dev/null |
            sed 's|^\./||' | sort -u > "$LINES/of/$(basename "$t")"
        echo "  lines of $t: $(wc -l < "$LINES/of/$(basename "$t")")" >&2
    done
    sort -n "$LINES/tests" | while read -r _ t; do
        awk -v t="$t" '{ print $0 "\t" t }' "$LINES/of/$(basename "$t")"
    done | awk -F '\t' '{ of[$1] = of[$1] " " $2 } END { for (l in of) print l of[l] }' > "$LINES/index"
    cd "$top" || exit 1
    rm -rf "$T/cov"
}
[ -s "$LINES/index" ] || record_lines

# ---- the changes -----------------------------------------------------------------
if [ -n "${AT:-}" ]; then
    cut -f 2- "$AT" > "$T/todo"
else
    find src -name '*.c' ! -name 'iq_data.c' | sort | grep -F -e "$ONLY" | xargs awk -f tests/mutants/tokens.awk |
        awk -v seed="$SEED" 'BEGIN { srand(seed) } { printf "%.9f\t%s\n", rand(), $0 }' | sort | cut -f 2- > "$T/todo"
fi

# Column $3, $4 bytes replaced by $5 in line $2 of file $1.
change() {
    awk -v at="$2" -v col="$3" -v len="$4" -v new="$5" '
        NR == at { $0 = substr($0, 1, col - 1) new substr($0, col + len) } { print }' "$1" > "$1.new" && mv "$1.new" "$1"
}

# One change in the scratch copy of this worker: sets verdict.
try() {
    file=$1
    cp -p "$file" "$T/$w.saved"
    change "$@"
    tests=$(awk -v l="$file:$2" '$1 == l { $1 = ""; print; exit }' "$LINES/index")
    units=
    for t in $tests; do case $t in build/*) units="$units $t" ;; esac; done
    # shellcheck disable=SC2086
    if ! make -s CFLAGS=-O1 all $units > "$log" 2>&1; then verdict=broken
    elif cmp -s build/lib/libgguf.a "$T/plain.a"; then verdict=equivalent
    else
        verdict="SURVIVED no test executes the line"
        for t in $tests; do
            [ -e "$t" ] || continue
            verdict=SURVIVED
            run_test "$t" $((60 + 10 * $(awk -v t="$t" '$2 == t { print int($1 / 1000) + 1 }' "$LINES/tests"))) \
                && continue
            verdict="killed by $t"
            break
        done
    fi
    cp -p "$T/$w.saved" "$file" && touch "$file"
}

worker() {
    log=$T/$w.log
    cp -a "$T/plain" "$T/$w.copy"
    cd "$T/$w.copy" || exit 1
    B=$PWD/build BIN=$PWD/build/bin
    export B BIN
    n=0
    while IFS=$tab read -r file line col len new kind; do
        n=$((n + 1))
        [ "$(cat "$T"/*.verdict 2> /dev/null | grep -c .)" -lt "$N" ] || break
        mkdir "$T/$n.taken" 2> /dev/null || continue
        try "$file" "$line" "$col" "$len" "$new"
        case $verdict in broken | equivalent) echo "$verdict" > "$T/$n.aside"; continue ;; esac
        printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$verdict" "$file" "$line" "$col" "$len" "$new" "$kind" | tee \
            "$T/$n.verdict"
    done < "$T/todo"
}

tab=$(printf '\t')
copy_tree "$T/plain"
(cd "$T/plain" && make -s -j"$JOBS" CFLAGS=-O1 all units) > "$T/plain.log" 2>&1 || { tail "$T/plain.log"; exit 1; }
cp "$T/plain/build/lib/libgguf.a" "$T/plain.a"
w=0
while [ "$w" -lt "$JOBS" ]; do
    w=$((w + 1))
    worker &
done
wait
cat "$T"/*.verdict | awk -F '\t' '
    { n = split($2, part, "/"); d = part[1] "/" part[2]; if (part[2] == "verbs") d = d "/" part[3]; all[d]++; total++ }
    $1 ~ /^killed/ { got[d]++; sum++ }
    END {
        for (d in all) printf "%-24s %3d of %3d\n", d, got[d], all[d] | "sort"
        close("sort")
        printf "random changes: %d of %d noticed, %.1f %%\n", sum, total, 100 * sum / total
    }'
echo "left out: $(cat "$T"/*.aside 2> /dev/null | grep -c equivalent) without effect on an object, $(cat "$T"/*.aside \
    2> /dev/null | grep -c broken) that do not compile"
