#!/bin/sh
# analyze.sh - the static analyzers of gcc and clang over src and tools (make analyze), one file at
# a time. Prints what they find; exit 1 if there is anything. .clang-tidy says which checks of
# clang-tidy are left out. gcc skips the kernels and sha256_many.c, since version 12 takes the number
# of lanes of a vector for its width, and what it reports wrongly elsewhere:
#
#   malloc-leak              it loses pointers that are stored in a list at a variable index;
#                            LeakSanitizer and valgrind look for leaks
#   use-of-uninitialized-value   it loses what a callee writes through a pointer, here to an array
#
#   ANALYZERS='gcc clang-tidy'   ONLY=PATTERN   files whose path contains it
# In kernels clang-tidy does not look at integer divisions, which select a part of a block.
set -u
cd "$(dirname "$0")/.." || exit 1
: "${ANALYZERS:=gcc clang-tidy}" "${ONLY:=}"
FLAGS='-std=c11 -D_DEFAULT_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude -Isrc -Itools -DGG_HAVE_L1 -O1'
GCC_OFF='-Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value'
KERNELS_OFF=-bugprone-integer-division
T=$(mktemp -d "${TMPDIR:-/tmp}/analyze.XXXXXX") || exit 2
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP

# analyze TOOL FILE FLAG...
analyze() {
    tool=$1 file=$2
    shift 2
    case $file in src/base/status.c | src/base/cursor.c) ;; *) set -- "$@" -include tests/analyze.h ;; esac
    tidy_off=
    case $file in */kernel/*) tidy_off=$KERNELS_OFF ;; esac
    # shellcheck disable=SC2086 # one word per flag
    case $tool in
    gcc) gcc $FLAGS "$@" -fanalyzer $GCC_OFF -c -o /dev/null "$file" ;;
    *) clang-tidy --quiet --warnings-as-errors='*' --checks="$tidy_off" "$file" -- $FLAGS "$@" ;;
    esac > "$T/out" 2> "$T/err" && ! grep -q 'warning:' "$T/err" && return
    echo "---- $tool $file $*"
    cat "$T/out" "$T/err"
    found=$((found + 1))
}

found=0
for tool in $ANALYZERS; do
    command -v "$tool" > /dev/null || { echo "analyze.sh: $tool is not installed"; exit 2; }
    for file in src/*/*.c src/*/kernel/*.c tools/*/*.c tools/*/kernel/*.c; do
        case $file in tools/probe/*) continue ;; *"$ONLY"*) ;; *) continue ;; esac
        case $file in
        */kernel/* | */sha256_many.c) [ "$tool" = gcc ] || analyze "$tool" "$file" -DGG_LEVEL=0 ;;
        *) analyze "$tool" "$file" ;;
        esac
    done
done
echo "analyze: findings in $found files"
[ $found -eq 0 ]
