#!/bin/sh
# check-division.sh - that no integer is divided by a value that may be 0, such as a dimension of a file (make lint).
#
# clang names each division and remainder whose divisor is not a constant. Each must have one of these:
#   a test of the divisor before it in the same function, a loop that ends at it, or a value such as n ? n : 1;
#   a divisor that is block_elems or block_bytes of a type, which are not 0 (src/quant/types.txt, t_dtypes);
#   a comment on its line or on the one before, which begins with "not 0:" and says why. It holds for the same
#   divisor in the rest of the function.
# A test is found by its text, so a test of the right value in the wrong place is not noticed.
set -u
cd "$(dirname "$0")/.." || exit 2
command -v clang > /dev/null || { echo "check-division.sh: clang is not installed"; exit 1; }
T=$(mktemp -d "${TMPDIR:-/tmp}/division.XXXXXX") || exit 2
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP

[ $# -gt 0 ] || set -- src/*/*.c tools/*/*.c src/*/kernel/*.c tools/*/kernel/*.c
for f; do
    case $f in tools/probe/*) continue ;; */kernel/* | */sha256_many.c) level=-DGG_LEVEL=0 ;; *) level= ;; esac
    clang -std=c11 -O0 -g -w -D_DEFAULT_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude -Isrc -Itools ${level:+"$level"} \
        -S -emit-llvm -o "$T/ir" "$f" || exit 1
    # Each division has !dbg !N: its line, its column, and a scope, whose file may be a header.
    awk 'function field(text, name) {
            return match(text, name ": [^,)]*") ? substr(text, RSTART + length(name) + 2, RLENGTH - length(name) - 2) : ""
        }
        / = [us](div|rem) / && $NF ~ /^![0-9]+$/ {
            line = $0
            sub(/, !dbg .*/, "", line)
            n = split(line, word, " ")
            if (word[n] !~ /^-?[0-9]+$/) site[++sites] = $NF
        }
        /^![0-9]+ = / { def[$1] = $0 }
        END {
            for (i = 1; i <= sites; i++) {
                at = def[site[i]]
                file = field(def[field(at, "scope")], "file")
                name = field(def[file], "filename")
                gsub(/"/, "", name)
                print name "\t" field(at, "line") "\t" field(at, "column")
            }
        }' "$T/ir"
done | sort -u > "$T/sites" || exit 1

awk -F '\t' '
    # The text of the divisor behind the operator at column c: casts, then a primary expression.
    function divisor(text,    depth, k, ch, out) {
        sub(/^[\/%]=? */, "", text)
        while (match(text, /^\((u?int[0-9]+_t|size_t|unsigned|int|double)\)/)) text = substr(text, RLENGTH + 1)
        for (k = 1; k <= length(text); k++) {
            ch = substr(text, k, 1)
            if (ch == "(" || ch == "[") depth++
            else if (ch == ")" || ch == "]") { if (depth == 0) break; depth-- }
            else if (substr(text, k, 2) == "->") { k++; continue }
            else if (depth == 0 && ch !~ /[A-Za-z0-9_.]/) break
        }
        out = substr(text, 1, k - 1)
        return out
    }
    # Whether text is X ? X : NUMBER.
    function or_one(text,    x, value) {
        if (!match(text, / \? /)) return 0
        x = substr(text, 1, RSTART - 1)
        value = substr(text, RSTART + 3)
        sub(/^.*(&&|=) /, "", x)
        return index(value, x " : ") == 1 && substr(value, length(x) + 4) ~ /^[1-9]/
    }
    # Whether text has d followed by one of the endings, as a whole expression.
    function tested(text, d,    at, rest, before) {
        while ((at = index(text, d)) > 0) {
            before = substr(text, 1, at - 1)
            rest = substr(text, at + length(d))
            if (before !~ /([A-Za-z0-9_.>]|[\/%] (\([a-z0-9_]+\))?)$/) {
                if (rest ~ /^(( \|\||\)? (\?|&&)) | [=!]= [01]([^0-9]|$)| > | >= [1-9]| < [1-9]| <= [0-9])/ || before ~ /!$/) return 1
                if (before ~ /(<|\*|&&|\|\|) (\([a-z0-9_]+\))?$/ && rest ~ /^(;| &&| \*|\) )/) return 1
                if (before ~ /if \($/ && rest ~ /^\)/) return 1
                if (rest ~ /^ = ([^,;]*block_(elems|bytes)|[1-9][0-9]*)[,;]/ || (rest ~ /^ = / && or_one(substr(rest, 4)))) return 1
            }
            text = rest
        }
        return 0
    }
    {
        file = $1
        if (file != last) {
            n = 0
            while ((getline text < file) > 0) line[++n] = text
            close(file)
            last = file
        }
        here = line[$2]
        d = divisor(substr(here, $3))
        if (d ~ /(^|[.>])block_(elems|bytes)$/ || d ~ /^[0-9]/ || d ~ /^\(.* \+ 1\)$/ || or_one(substr(d, 2))) next
        if ((line[$2 - 1] here) ~ /not 0:/) next
        why = 0
        for (k = $2; k > 0 && !why; k--) {
            why = tested(line[k], d) || (line[k] ~ /not 0:/ && index(line[k] line[k + 1], d))
            if (k < $2 && line[k] ~ /^\{/) break
        }
        if (!why) { print file ":" $2 ": divides by " d; bad = 1 }
    }
    END { exit bad }' "$T/sites" && exit
echo "check-division.sh: test the divisors above, or say in a comment why each is not 0"
exit 1
