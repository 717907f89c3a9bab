#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC3045,SC2034,SC2154
# malformed.sh - 772 broken or odd files, by name and on stdin: refused with
# exit 3 and one line on stderr that names the tool and the file, or, where the
# reference reads them and their data is there, accepted and rebuilt byte for byte. One process checks all
# of them. Each fourth, or each if EXHAUSTIVE is set, has processes of its own.
# Each run has SECONDS_MAX seconds of CPU time and 64 MiB of address space (SANITIZED=1: no such
# limit, since a sanitizer reserves terabytes).
. "$(dirname "$0")/lib.sh"
: "${SECONDS_MAX:=1}"
unpack $D/malformed.tsv $D/malformed.pack "$T/m" || { bad "unpack"; finish; }
limit() { limited "$SECONDS_MAX" "$@"; }

# verdict STATUS FILE WHAT: of the run that left $T/err
refused() {
    if [ "$1" != 3 ]; then bad "$3: exit $1, 3 wanted"
    elif ! one_line "$T/err"; then bad "$3: not one line on stderr"
    else
        case $line1 in
        *"ends at 18446744073709551615"*) bad "$3: a size that no file has: $line1" ;;
        "organ-extract: $2: "*"; "*) ok ;;
        *) bad "$3: the line does not name the file and say what to do: $line1" ;;
        esac
    fi
}

# By name and by pipe, all the way there and back.
rebuilt() {
    rm -rf "$T/d" "$T/d2" "$T/b.gguf" "$T/b2.gguf"
    limit organ-extract -q -j 1 "$1" --output "$T/d" 2> "$T/err" &&
        limit organ-assemble -q -j 1 "$T/d" --output "$T/b.gguf" 2>> "$T/err" && cmp -s "$1" "$T/b.gguf" &&
        limit organ-extract -q -j 1 - --output "$T/d2" < "$1" 2>> "$T/err" &&
        limit organ-assemble -q -j 1 "$T/d2" --output "$T/b2.gguf" 2>> "$T/err" && cmp -s "$1" "$T/b2.gguf"
}

# --list needs only the header, so extraction is tested, which needs the data too.
one() {
    f=$T/m/$1
    how="--list"
    [ "$2" = accept ] || how="--output $T/never"
    limit organ-extract "$f" $how > "$T/out" 2> "$T/err"
    status=$?
    if [ "$2" = accept ]; then
        if [ $status != 0 ]; then bad "$1: exit $status, accepted wanted: $(head -n 1 "$T/err")"; else ok; fi
        if rebuilt "$f"; then ok; else bad "$1: not rebuilt: $(head -n 1 "$T/err")"; fi
    elif [ "$3" = split-loader-reject ] && [ $status = 0 ]; then
        # A shard whose siblings are missing is used alone, and that is noted.
        grep -q "shard [0-9]* of [0-9]*; " "$T/err" && ok || bad "$1: accepted without a note"
        rm -rf "$T/never"
    elif [ "$3" = split-loader-reject ] && grep -q "shards are missing; fetch them first" "$T/err"; then
        [ $status != 0 ] && [ ! -e "$T/never" ] && ok || bad "$1: exit $status, and something was left behind"
    else
        refused $status "$f" "$1"
        [ ! -e "$T/never" ] || bad "$1: something was left behind"
    fi
    limit organ-extract - $how < "$f" > "$T/out" 2> "$T/err"
    status=$?
    rm -rf "$T/never"
    if [ "$2" = accept ] || { [ "$3" = split-loader-reject ] && [ $status != 3 ]; }; then
        if [ $status != 0 ]; then bad "$1 on stdin: exit $status, accepted wanted: $(head -n 1 "$T/err")"; else ok; fi
    else
        refused $status "<stdin>" "$1 on stdin"
    fi
}

[ -n "${SANITIZED:-}" ] || ulimit -v 65536 2> /dev/null
n=0
{
    read -r header
    while IFS=$TAB read -r name offset size meta full advice want rest; do
        n=$((n + 1))
        [ "$want" = accept ] || [ "$advice" = split-loader-reject ] || echo "$name" >> "$T/broken"
        exhaustive || [ $((n % 4)) = 0 ] || continue
        one "$name" "$want" "$advice"
    done
} < $D/malformed.tsv
check_text $n 772 "files read"
# shellcheck disable=SC2046 # names without spaces
(cd "$T/m" && organ-check -q $(cat "$T/broken")) > "$T/rows" 2> "$T/err"
check_text $? 3 "all of them at once"
awk -F "$TAB" "$BY_NAME"'col("level") == "error" { print col("model") }' "$T/rows" | sort -u > "$T/refused"
sort "$T/broken" > "$T/wanted"
check_same "$T/refused" "$T/wanted" "each of them has an error"
finish
