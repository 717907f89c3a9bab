#!/bin/sh
# random.sh - how many wrong tokens in src would the tests notice? Makes N random changes of one
# token (operators, constants, conditions, off by one; see tokens.awk), one at a time, in scratch
# copies of the tree. One object is compiled and one shared library linked, which all tools and tests
# use, and the tests that execute the changed line are run, the fastest first, until one fails or
# they took MOST seconds together. A change that leaves the object as it was is equivalent and is
# replaced by another one, as is a change that does not compile. Prints one line per change, and
# the share that was noticed by folder.
#
#   N=200          changes                       SEED=1      for the choice
#   JOBS=N         how many at a time            ONLY=TEXT   files whose path contains TEXT
#   MOST=120       seconds of tests per change   LINES=DIR   keep which test executes which line there,
#   LONGEST=240    seconds of a test; those that             for the next run on the same tree
#                  take longer are left out      AT=LIST     a file of changes to try again, as printed
#   TESTS=LIST     only tests whose path contains one of these texts
#
# Needs gcc and binutils. Some changes that survive are equivalent for reasons that objects do not
# show; README.md lists those that were examined.
set -u
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
N=${N:-200} SEED=${SEED:-1} ONLY=${ONLY:-} MOST=${MOST:-120} LONGEST=${LONGEST:-240}
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2)}
for tool in addr2line cmp timeout; do
    command -v $tool > /dev/null 2>&1 || { echo "random.sh: $tool not found" >&2; exit 1; }
done
T=$(mktemp -d "${TMPDIR:-/tmp}/mutants.XXXXXX") || exit 1
trap 'chmod -R u+w "$T"; rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP
unset MAKEFLAGS MFLAGS MAKELEVEL
LINES=${LINES:-$T/lines}
chmod 755 "$T"

# run_test FILE SECONDS: FILE is tests/cli/X.sh or build/test/t_X. It must end with its own line.
run_test() {
    case $1 in
    *.sh) timeout -k 5 "$2" sh "$1" ;;
    *) timeout -k 5 "$2" "$1" ;;
    esac > "$log" 2>&1 < /dev/null && tail -n 1 "$log" | grep -q ' passed, 0 failed$'
}

# link FOLDER [FILE...]: the shared library of a tree, from its objects and other files.
link() {
    # shellcheck disable=SC2046
    (cd "$1" && shift && cc -shared -Wl,-soname,libgguf.so -o build/lib/libgguf.so.new $(cat "$T/objects") "$@" \
        -pthread -lm &&
        mv build/lib/libgguf.so.new build/lib/libgguf.so)
}

# build FOLDER FLAGS: a copy of the tree, in which programs use the shared library. The linker takes
# a text with the name of the archive as the names of the files to link. FOLDER.log has the commands.
build() {
    mkdir -p "$1" && (cd "$top" && tar -c -f - --exclude ./.git --exclude ./build .) | tar -x -f - -C "$1"
    set -- "$1" CFLAGS="-O1 -fPIC $2" LDFLAGS='-Wl,-rpath,\$$ORIGIN/../lib' PACK=
    (cd "$1" && shift && make V=1 -j"$JOBS" "$@" build/lib/libgguf.a) > "$1.log" 2>&1 &&
        sed -n 's/^ar rcs [^ ]* //p' "$1.log" > "$T/objects" && rm -f "$1/build/lib/libgguf.a" || return
    ${CC:-cc} -O2 -fPIC -c -o "$T/trace.o" "$top/tests/mutants/trace.c" && link "$1" "$T/trace.o" &&
        echo "INPUT($1/build/lib/libgguf.so)" > "$1/build/lib/libgguf.a" &&
        (cd "$1" && shift && make -s -j"$JOBS" "$@" all units) >> "$1.log" 2>&1
}

# ---- which test executes which line ----------------------------------------------
# From one run of all tests, file by file, with a library that marks what runs (trace.c). Each worker has its
# own tree and marks. LINES/tests has the milliseconds of each test, and LINES/index FILE, LINE and a test that
# executes a block of code that begins there, the fastest test first.
recorder() {
    trace=$T/trace$w log=$T/test$w.log
    ${CC:-cc} -O2 -fPIC -DTRACE="\"$trace\"" -c -o "$trace.o" "$top/tests/mutants/trace.c" &&
        cp -a "$T/cov" "$T/cov$w" && link "$T/cov$w" "$trace.o" || exit 1
    cd "$T/cov$w" || exit 1
    head -c "$(wc -c < build/lib/libgguf.so)" /dev/zero > "$T/zeros$w"
    for t in tests/cli/*.sh build/test/t_*; do
        name=$(basename "$t")
        case $name in lib.sh | *.d | packages.sh | install.sh | hardening.sh) continue ;; esac
        wanted=${TESTS:+no}
        for text in ${TESTS:-}; do case $t in *"$text"*) wanted=yes ;; esac; done
        [ "$wanted" != no ] && mkdir "$T/$name.taken" 2> /dev/null || continue
        cat "$T/zeros$w" > "$trace" && chmod 666 "$trace"
        began=$(date +%s%N)
        B=$PWD/build BIN=$PWD/build/bin run_test "$t" "$LONGEST" || { echo "$t is left out" >&2; continue; }
        echo "$((($(date +%s%N) - began) / 1000000)) $t" >> "$LINES/tests"
        cmp -l "$trace" "$T/zeros$w" | awk '{ print $1 }' > "$LINES/of/$name"
    done
}

record_lines() {
    mkdir -p "$LINES/of" && : > "$LINES/tests" || exit 1
    build "$T/cov" '-g -fsanitize-coverage=trace-pc' || { tail "$T/cov.log"; exit 1; }
    each_worker recorder
    # Marks are one byte behind a call, and counted from 1.
    objdump -d --no-show-raw-insn "$T/cov/build/lib/libgguf.so" | awk '
        /^ .*:/ { if (call) print substr($1, 1, length($1) - 1); call = /call.*__sanitizer_cov_trace_pc/ }' |
        awk '{ n = 0; s = $1; for (i = 1; i <= length(s); i++) n = 16 * n + index("123456789abcdef", substr(s, i, 1))
            printf "%x %d\n", n - 1, n + 1 }' > "$T/places"
    cut -d ' ' -f 1 "$T/places" | addr2line -e "$T/cov/build/lib/libgguf.so" |
        sed "s|^$T/cov/||; s|^\./||; s| .*||; s|:| |" | paste -d ' ' - "$T/places" |
        awk '/^src/ { print $4, $1, $2 }' > "$LINES/blocks"
    sort -n "$LINES/tests" | while read -r _ t; do
        awk -v t="$t" 'FNR == NR { at[$1] = $2 " " $3; next } $1 in at && !seen[at[$1]]++ { print at[$1], t }' \
            "$LINES/blocks" "$LINES/of/$(basename "$t")"
    done > "$LINES/index"
    rm -rf "$T"/cov*
}

each_worker() {
    w=0
    while [ "$w" -lt "$JOBS" ]; do
        w=$((w + 1))
        "$1" &
    done
    wait
}
[ -s "$LINES/index" ] || record_lines

# The tests for line $2 of file $1: those that execute a block that begins there, then those of blocks before,
# the nearest first, because a line may belong to a block that begins earlier.
tests_of() {
    awk -v f="$1" -v l="$2" '
        $1 == f && $2 <= l { n++; at[n] = $2; test[n] = $3; if ($2 > best) best = $2 }
        END {
            for (line = best; line > best - 8; line--)
                for (i = 1; i <= n; i++) if (at[i] == line && !seen[test[i]]++) print test[i]
        }' "$LINES/index"
}

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
        NR == at { $0 = substr($0, 1, col - 1) new substr($0, col + len) } { print }' "$1" > "$1.new" &&
            mv "$1.new" "$1"
}

# Compile the objects of a file with the commands of the first build. Sets same if none changes.
compile() {
    same=yes
    grep -e " $1\$" "$T/plain.log" | grep -e ' -c -o ' > "$T/$w.commands"
    [ -s "$T/$w.commands" ] || return
    while read -r command; do
        sh -c "$command" > "$log" 2>&1 || return
        object=${command##* -o }
        cmp -s "${object%% *}" "$T/plain/${object%% *}" || same=no
    done < "$T/$w.commands"
}

# One change in the scratch copy of this worker: sets verdict.
try() {
    file=$1
    cp -p "$file" "$T/$w.saved"
    change "$@"
    if ! compile "$file"; then verdict=broken
    elif [ $same = yes ]; then verdict=equivalent
    elif ! link . > "$log" 2>&1; then verdict=broken
    else
        verdict='' left=$((1000 * MOST)) done=0
        tests=$(tests_of "$file" "$2")
        for t in $tests; do
            ms=$(awk -v t="$t" '$2 == t { print $1 }' "$LINES/tests")
            left=$((left - ms))
            [ $left -gt 0 ] || break
            run_test "$t" $((20 + ms / 250)) || { verdict="killed by $t"; break; }
            done=$((done + 1))
        done
        # shellcheck disable=SC2086
        [ -n "$verdict" ] || verdict="SURVIVED $done of $(set -- $tests; echo $#) tests"
    fi
    cp -p "$T/$w.saved" "$file"
    compile "$file"
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
build "$T/plain" '' || { tail "$T/plain.log"; exit 1; }
each_worker worker
cat "$T"/*.verdict | awk -F '\t' '
    { n = split($2, part, "/"); d = part[1] "/" part[2]; if (part[2] == "verbs") d = d "/" part[3]; all[d]++; total++ }
    $1 ~ /^killed/ { got[d]++; sum++ }
    END {
        for (d in all) printf "%-24s %3d of %3d\n", d, got[d], all[d] | "sort"
        close("sort")
        printf "random changes: %d of %d noticed, %.1f %%\n", sum, total, total ? 100 * sum / total : 0
    }'
echo "left out: $(cat "$T"/*.aside 2> /dev/null | grep -c equivalent) without effect on an object, $(cat "$T"/*.aside \
    2> /dev/null | grep -c broken) that do not compile"
