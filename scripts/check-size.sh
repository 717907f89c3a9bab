#!/bin/sh
# check-size.sh - files of logic have at most 600 lines (or MAX=n). Tables of numbers
# are exempt by name, here. Prints what is longer and exits 1.
set -u
cd "$(dirname "$0")/.." || exit 2
MAX=${MAX:-600}

# Numbers, no code.
exempt='src/quant/iq_data.c'

status=0 files=0 longest=0 which=
for f in src/*/*.[ch] src/*/*/*.[ch] include/*.h tools/*.[ch] tests/unit/*.[ch] tests/bench/*.c \
    tests/fuzz/*.c scripts/* scripts/lib/* tests/*.sh tests/cli/*.sh; do
    [ -f "$f" ] || continue
    case " $exempt " in *" $f "*) continue ;; esac
    files=$((files + 1))
    lines=$(($(wc -l < "$f")))
    if [ "$lines" -gt "$longest" ]; then longest=$lines which=$f; fi
    if [ "$lines" -gt "$MAX" ]; then
        echo "$f: $lines lines; $MAX is the most"
        status=1
    fi
done
[ $status -eq 0 ] && echo "size: $files files, the longest $which with $longest lines"
exit $status
