#!/bin/sh
# check-size.sh - files of logic have at most 500 lines (or MAX=n), tests 600, and lines of C at most 100 columns. Tables of numbers
# are exempt by name, here. Prints what is longer and exits 1.
set -u
cd "$(dirname "$0")/.." || exit 2
MAX=${MAX:-500}

# Numbers, no code.
exempt='src/quant/iq_data.c'

status=0 files=0 longest=0 which=
for f in src/*/*.[ch] src/*/*/*.[ch] include/organ/*.h tools/*.[ch] tools/api/*.[ch] tests/unit/*.[ch] tests/bench/*.c \
    tests/fuzz/*.c scripts/* scripts/lib/* tests/*.sh tests/cli/*.sh; do
    [ -f "$f" ] || continue
    case " $exempt " in *" $f "*) continue ;; esac
    files=$((files + 1))
    lines=$(($(wc -l < "$f")))
    if [ "$lines" -gt "$longest" ]; then longest=$lines which=$f; fi
    most=$MAX
    case $f in tests/*) most=600 ;; esac
    if [ "$lines" -gt "$most" ]; then
        echo "$f: $lines lines; $most is the most"
        status=1
    fi
    case $f in *.[ch])
        wide=$(awk 'length > 100 { print FILENAME ":" FNR ": " length " columns; 100 is the most" }' "$f")
        if [ -n "$wide" ]; then echo "$wide"; status=1; fi ;;
    esac
done
[ $status -eq 0 ] && echo "size: $files files, the longest $which with $longest lines"
exit $status
