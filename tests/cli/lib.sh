# lib.sh - what the command-line tests share. Each begins with
#     . "$(dirname "$0")/lib.sh"
# which goes to the top of the tree, makes the scratch folder $T (gone at the end)
# and sets BIN (the tools), D (tests/data) and LAB (the small models); each ends
# with `finish`. Needs a POSIX shell and the usual utilities; jq only if there.
set -u
NAME=$(basename "$0")
cd "$(dirname "$0")/../.." || exit 1
BIN=${BIN:-build/bin}
case $BIN in /*) ;; *) BIN=$PWD/$BIN ;; esac
D=tests/data
LAB=$D/lab
# shellcheck disable=SC2034
TAB=$(printf '\t')
# What an awk program begins with that calls columns of a table by their names: awk -F "$TAB" "$BY_NAME"'
# col("class") == "norm" { print col("bytes") }'. A name that the first line lacks is an error.
BY_NAME='
function col(name) { if (name in columns) return $columns[name]; no_column = name; exit 2 }
function read_columns(   k) { split("", columns); for (k = 1; k <= NF; k++) columns[$k] = k }
FNR == 1 { read_columns() }
END { if (no_column != "") { print "no column " no_column; exit 2 } }
'
# Without a space in it, as some of the tests paste it into command lines.
case ${TMPDIR:-} in *[[:space:]]*) T=/tmp ;; *) T=${TMPDIR:-/tmp} ;; esac
T=$(mktemp -d "$T/$NAME.XXXXXX") || exit 1
trap 'chmod -R u+w "$T" 2> /dev/null; rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP
B=${B:-$BIN/..}
# Nor have the tools, wherever the tree is.
case $BIN in *[[:space:]]*) ln -s "$BIN" "$T/.bin" && BIN=$T/.bin ;; esac
case $B in *[[:space:]]*) ln -s "$B" "$T/.build" && B=$T/.build ;; esac
PATH=$BIN:$B/test:$PATH
export PATH B BIN T D LAB
LC_ALL=C
export LC_ALL
passed=0
failed=0

ORGAN_PROBE='' # scripts find no organ-probe, even if it is built
export ORGAN_PROBE
ok() {
    passed=$((passed + 1))
}

bad() {
    failed=$((failed + 1))
    echo "FAIL $NAME: $1"
}

# With EXHAUSTIVE=1, which `make check` and CI set, every case is tested. Otherwise it is some of each kind.
exhaustive() {
    [ -n "${EXHAUSTIVE:-}" ]
}

# more WORD...: cases that are tested besides if every case is.
more() {
    ! exhaustive || printf '%s\n' "$@"
}

# unrecorded TOOL...: they leave the keys as they are, for tests that compare whole files.
unrecorded() {
    mkdir "$T/unrecorded"
    for tool in "$@"; do
        printf '#!/bin/sh\nexec "%s" "$@" --no-history\n' "$BIN/$tool" > "$T/unrecorded/$tool"
        chmod +x "$T/unrecorded/$tool"
    done
    PATH=$T/unrecorded:$PATH
}

# check WHAT COMMAND...: it must succeed. Its output is in $T/out and $T/err.
check() {
    check_exit 0 "$@"
}

# check_exit STATUS WHAT COMMAND...
check_exit() {
    want=$1 what=$2
    shift 2
    "$@" > "$T/out" 2> "$T/err"
    got=$?
    if [ $got = "$want" ]; then
        ok
    else
        bad "$what: exit $got, $want wanted"
        head -n 3 "$T/err"
    fi
}

# check_error STATUS TEXT WHAT COMMAND...: that exit, nothing on stdout, and exactly
# one line on stderr, which begins with a tool's name and contains TEXT.
check_error() {
    want=$1 text=$2 what=$3
    shift 3
    "$@" > "$T/out" 2> "$T/err"
    got=$?
    if [ $got != "$want" ]; then bad "$what: exit $got, $want wanted: $(head -n 1 "$T/err")"
    elif [ -s "$T/out" ]; then bad "$what: something on stdout"
    elif ! one_line "$T/err"; then bad "$what: not one line on stderr"; head -n 3 "$T/err"
    else
        case $line1 in
        *"$text"*) ok ;;
        *) bad "$what: no '$text' in: $line1" ;;
        esac
    fi
}

# compile ARGUMENT...: the C compiler, of which $CC may be several words.
compile() {
    # shellcheck disable=SC2086
    ${CC:-cc} "$@"
}

# limited SECONDS COMMAND...: at most that much CPU time, which a busy machine does not
# change; and a clock limit far above it, for what only waits. The command's own status,
# or over 123 when a limit ended it.
limited() {
    cpu=$1
    shift
    # shellcheck disable=SC3045 # any sh that is in use has -t
    if have timeout; then (ulimit -t "$cpu" 2> /dev/null; exec timeout $((60 + 30 * cpu)) "$@")
    else (ulimit -t "$cpu" 2> /dev/null; exec "$@")
    fi
}

# Is it exactly one line, of the form "organ-NAME: ..."? It is in $line1.
one_line() {
    { IFS= read -r line1 && ! IFS= read -r line2 && [ -z "$line2" ]; } < "$1" || return 1
    case $line1 in organ-*": "*) ;; *) return 1 ;; esac
}

check_same() {
    if cmp -s "$1" "$2"; then ok; else bad "$3: $1 and $2 differ"; fi
}

# Same names and same bytes in two folders.
check_same_dir() {
    if diff -r "$1" "$2" > "$T/diff" 2>&1; then ok; else bad "$3"; head -n 3 "$T/diff"; fi
}

check_absent() {
    if [ -e "$1" ] || [ -L "$1" ]; then bad "$2: $1 is there"; else ok; fi
}

check_text() {
    if [ "$1" = "$2" ]; then ok; else bad "$3: '$1', '$2' wanted"; fi
}

# Q8_0 of the lab: makes $T/lab-verse-q8_0.gguf and prints its path.
verse_q8() {
    organ-assemble -q "$LAB/lab-verse-q4_k_m.gguf" --dtype q8_0 -o "$T/lab-verse-q8_0.gguf" &&
        echo "$T/lab-verse-q8_0.gguf"
}

# cells NAME,NAME... [FILE...]: these columns of a table, with its first line.
cells() {
    cells=$1
    shift
    awk -F "$TAB" -v OFS="$TAB" -v cells="$cells" "$BY_NAME"'
        FNR == 1 { n = split(cells, name, ",") }
        { line = col(name[1]); for (k = 2; k <= n; k++) line = line OFS col(name[k]); print line }' "$@"
}

# without NAME,NAME... [FILE...]: all columns of a table but these, which it may lack.
without() {
    cells=$1
    shift
    awk -F "$TAB" -v cells="$cells" '
        FNR == 1 { n = split(cells, name, ","); split("", left)
            for (k = 1; k <= NF; k++) { left[k] = 1; for (j = 1; j <= n; j++) if ($k == name[j]) left[k] = 0 } }
        { line = ""; for (k = 1; k <= NF; k++) if (left[k]) line = line "\t" $k; print substr(line, 2) }' "$@"
}

# made OUT.gguf JSON-ENTRIES ARGUMENT...: a model by mkmodel with these metadata
# entries besides (one per line, each ending in a comma).
made() {
    out=$1 entries=$2
    shift 2
    mkmodel "$T/plain.gguf" "$@" || bad "mkmodel $out"
    rm -rf "$T/made"
    organ-extract -q "$T/plain.gguf" --output "$T/made"
    # original-awk takes no value of several lines after -v
    entries=$entries awk '{ print } /^  "metadata": \[/ { print ENVIRON["entries"] }' \
        "$T/made/manifest.json" > "$T/made.json"
    mv "$T/made.json" "$T/made/manifest.json"
    rm -f "$out"
    organ-assemble "$T/made" --output "$out" || bad "assemble $out"
}

# imatrix FILE NAME:COLUMNS:SUM,SUM...:COUNT,COUNT...: an importance matrix. Column j (from 1) of a
# matrix with the sum S has S * j, or S * 2^(3 j mod COLUMNS) if COLUMNS has an x before it.
imatrix() {
    out=$1 tensors=''
    shift
    for e in "$@"; do
        n=$(echo "$e" | cut -d: -f4 | tr ',' '\n' | wc -l | tr -d ' ')
        tensors="$tensors $(echo "$e" | cut -d: -f1).in_sum2:F32:$(echo "$e" | cut -d: -f2 |
            tr -d x)x$n $(echo "$e" | cut -d: -f1).counts:F32:1x$n"
    done
    # shellcheck disable=SC2086 # words
    mkmodel "$T/plain.gguf" -k imatrix.chunk_size=64 -k imatrix.chunk_count=3 $tensors || bad "mkmodel $out"
    organ-keys "$T/plain.gguf" --set general.type=str:imatrix --delete general.architecture -o "$out" --force -q ||
        bad "keys of $out"
    size=$(wc -c < "$out")
    organ-extract --list "$out" |
        awk -F "$TAB" "$BY_NAME"'NR > 1 { end = col("offset") + col("bytes"); print col("offset") }
            END { print int((end + 31) / 32) * 32 }' > "$T/offsets"
    data=$((size - $(tail -n 1 "$T/offsets")))
    i=0
    for e in "$@"; do
        for part in 3 4; do
            i=$((i + 1))
            at=$((data + $(sed -n ${i}p "$T/offsets")))
            # shellcheck disable=SC2059 # the text is a format
            printf "$(echo "$e" | awk -F: -v part=$part '
                function power(n,   p) { for (p = 1; n > 0; n--) p *= 2; return p }
                function put(v,   x, bits, k) {
                    bits = 0
                    if (v > 0) {
                        for (x = 127; v >= 2; x++) v /= 2
                        for (; v < 1; x--) v *= 2
                        bits = x * 8388608 + int((v - 1) * 8388608)
                    }
                    for (k = 0; k < 4; k++) { printf "\\%03o", bits % 256; bits = int(bits / 256) }
                }
                { mixed = sub(/x/, "", $2); n = split($part, x, ",");
                    for (m = 1; m <= n; m++) if (part == 4) put(x[m]);
                        else for (j = 1; j <= $2 + 0; j++) put(x[m] * (mixed ? power(3 * j % $2) : j)) }')" |
                dd of="$out" bs=1 seek=$at conv=notrunc 2> "$T/dd" || bad "dd"
        done
    done
}

# blocks N: what the test's own function `block` prints for blocks 0 to N-1.
blocks() {
    i=0
    while [ $i -lt "$1" ]; do
        block $i
        i=$((i + 1))
    done
}

# arr KEY ITEMS VALUES: a metadata entry for `made`.
arr() {
    printf '{"key": "llama.%s", "type": "arr", "items": "%s", "value": [%s]},' "$1" "$2" "$3"
}

# arch_kv MODEL KEY: the value of a key of its architecture, as in the manifest.
arch_kv() {
    rm -rf "$T/cd"
    organ-extract "$1" --output "$T/cd" 2> /dev/null
    sed -n "s/^ *{\"key\": \"[a-z0-9-]*\.$2\", .*\"value\": \(.*\)},*\$/\1/p" "$T/cd/manifest.json"
}

# differing A B: the tensors whose values differ, whatever the keys are.
differing() {
    organ-compare -q "$1" "$2" |
        awk -F "$TAB" "$BY_NAME"'
            NR > 1 && col("name") != "(keys)" && col("status") != "identical" { print col("name"), col("status") }
        END { if (NR < 2) print "no tensors" }'
}

# data MODEL TENSOR: its bytes.
data() {
    n=$(organ-extract "$1" --tensors "$2" --list | awk "$BY_NAME"'NR == 2 { print col("bytes") }')
    organ-extract "$1" --tensors "$2" --output - | tail -c "$n"
}

# The command lines of all processes, each on its own line, so that those of two tests are not taken
# together; a small system may have no ps.
processes() {
    if [ -r /proc/self/cmdline ]; then
        tail -n +1 /proc/[0-9]*/cmdline 2> /dev/null | tr '\0' ' '
    else ps -ef
    fi
}

# have PROGRAM [WHAT [PACKAGE]]: is it installed? If it is not, the test leaves WHAT out, and run.sh says so at
# its end, with the name of the package if it is another one.
have() {
    command -v "$1" > /dev/null 2>&1 && return
    [ -z "${2:-}" ] || echo "left out: $2 (${3:-$1})"
    return 1
}

# An awk with exp and log, for the tests themselves: that of busybox may have neither.
math_awk() {
    for math in awk gawk mawk original-awk; do
        if "$math" 'BEGIN { exit exp(0) != 1 }' 2> /dev/null; then command -v "$math"; return; fi
    done
    echo awk
}

# mathawk ARGUMENT...: awk for programs with exp, log, sqrt and the like, or ^, which that of busybox may lack.
mathawk() {
    "$(math_awk)" "$@"
}

# wanted_awk NAME: whether scripts are run with this awk, too: with each that is installed if EXHAUSTIVE is set,
# and otherwise with the one which differs most from the others.
wanted_awk() {
    have "${1%% *}" "each awk" || return
    exhaustive || case $1 in awk | original-awk) ;; busybox*) ! have original-awk ;; *) return 1 ;; esac
}

# each_awk COMMAND...: runs it with each of these awks in front of PATH. $awk is its name.
each_awk() {
    for awk in "busybox awk" gawk mawk original-awk; do
        wanted_awk "$awk" || continue
        mkdir -p "$T/awk.d"
        printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v "${awk%% *}")${awk#"${awk%% *}"}" > "$T/awk.d/awk"
        chmod +x "$T/awk.d/awk"
        (PATH=$T/awk.d:$PATH && "$@" > "$T/out" 2> "$T/err") && ok || bad "$awk: $*: $(head -n 1 "$T/err")"
    done
}

finish() {
    echo "$NAME: $passed passed, $failed failed"
    [ $failed -eq 0 ]
    exit
}
