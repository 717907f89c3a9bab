#!/bin/sh
# check-symbols.sh LIBRARY - checks that every global symbol of libgguf.a starts with gg_, so
# that it cannot clash with a symbol of the program, and that every one is used by another
# file of src/ or tools/, a public header or a test. Prints the others and exits 1.
set -u
cd "$(dirname "$0")/.." || exit 2
T=$(mktemp -d) || exit 2
trap 'rm -rf "$T"' EXIT

# Writes FILE.o NAME TYPE for both formats of nm: "lib.a[x.o]: name T", "lib.a:x.o: name T".
nm -A -g -P "${1:?the library}" 2> /dev/null | sed 's/^[^[]*\[\(.*\)\]: /\1 /; s/^.*:\(.*\): /\1 /' > "$T/all"
awk '$3 != "U" { print $2 }' "$T/all" | sort -u > "$T/defined"
[ -s "$T/defined" ] || { echo "$1: no symbols found"; exit 2; }
status=0
if grep -v '^gg_' "$T/defined" | grep -v '^__' > "$T/foreign"; then
    sed 's/$/: a global symbol of the library that does not start with gg_/' "$T/foreign"
    status=1
fi

awk '$3 == "U" { print $2 }' "$T/all" | sort -u > "$T/used"
comm -23 "$T/defined" "$T/used" | while read -r name; do
    grep -qw -e "$name" include/organ/*.h tools/*.[ch] tools/api/*.[ch] tests/*/*.[ch] || echo "$name: only its own file uses this global symbol; make it static"
done > "$T/dead"
if [ -s "$T/dead" ]; then
    cat "$T/dead"
    status=1
fi
[ $status -eq 0 ] && echo "symbols: $(wc -l < "$T/defined" | tr -d ' '), all start with gg_ and are used"
exit $status
