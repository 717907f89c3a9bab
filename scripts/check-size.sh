#!/bin/sh
# check-size.sh - checks that lines of C have at most 100 columns and those of shell tests fewer than 120, and, if
# pmccabe is installed, that no function has a complexity above 30. There is no other limit: a function reads top to
# bottom once, and a file is about one thing. Prints every violation and exits 1.
set -u
cd "$(dirname "$0")/.." || exit 2

status=0
code='src/*/*.c src/*/*/*.c tools/*/*.c tools/*/*/*.c'
for f in src/*/*.[ch] src/*/*/*.[ch] include/organ/*.h tools/*/*.[ch] tools/*/*/*.[ch] tests/unit/*.[ch] \
    tests/unit/*/*.c tests/bench/*.c tests/fuzz/*.c; do
    wide=$(awk 'length > 100 { print FILENAME ":" FNR ": " length " columns; 100 is the most" }' "$f")
    if [ -n "$wide" ]; then echo "$wide"; status=1; fi
done
wide=$(awk 'length > 119 { print FILENAME ":" FNR ": " length " columns; 119 are the most in a test" }' \
    tests/*.sh tests/*/*.sh)
if [ -n "$wide" ]; then echo "$wide"; status=1; fi

if command -v pmccabe > /dev/null; then
    # shellcheck disable=SC2086 # $code is a list of patterns
    complex=$(pmccabe $code | awk '$1 > 30 { print $NF ": its complexity is " $1 "; 30 is the most: " $0 }')
    if [ -n "$complex" ]; then echo "$complex"; status=1; fi
fi

[ $status -eq 0 ] && echo "size: every line is short enough, and no function is too complex"
exit $status
