#!/bin/sh
# check-symbols.sh LIBRARY - checks that every global symbol of libgguf.a starts with gg_, so
# that it cannot clash with a symbol of the program, and that every one is used by another
# file of src/ or tools/, a public header or a test. Prints the others and exits 1.
set -u
cd "$(dirname "$0")/.." || exit 2
T=$(mktemp -d) || exit 2
trap 'rm -rf "$T"' EXIT

nm -g -P "${1:?the library}" 2> /dev/null | awk 'NF > 1 && $2 ~ /^[A-TV-Z]$/ { print $1 }' | sort -u > "$T/defined"
[ -s "$T/defined" ] || { echo "$1: no symbols found"; exit 2; }
status=0
if grep -v '^gg_' "$T/defined" | grep -v '^__' > "$T/foreign"; then
    sed 's/$/: a global symbol of the library that does not start with gg_/' "$T/foreign"
    status=1
fi

# An object has the files of a whole folder, so that uses are looked for in the sources. Kernels
# exist once per level under one name. Comments are left out.
sed 's/_l[01]$//' "$T/defined" | sort -u > "$T/names"
for f in src/*/*.c src/*/*/*.c "$(dirname "$1")"/../obj/src/*/tables.c; do
    sed 's|/\*.*||; /^ \*/d' "$f" | tr -c 'A-Za-z0-9_' '[\n*]' | grep '^gg_' | sort -u
done | sort | uniq -d > "$T/used"
comm -23 "$T/names" "$T/used" | while read -r name; do
    case $name in gg_decode_* | gg_encode_* | gg_room | gg_search_positive) continue ;; esac # macros and inline functions name them
    grep -qw -e "$name" include/organ/*.h tools/*/*.[ch] tools/*/*/*.[ch] tests/*/*.[ch] || echo "$name: only its own file uses this global symbol; make it static"
done > "$T/dead"
if [ -s "$T/dead" ]; then
    cat "$T/dead"
    status=1
fi
[ $status -eq 0 ] && echo "symbols: $(wc -l < "$T/defined" | tr -d ' '), all start with gg_ and are used"
exit $status
