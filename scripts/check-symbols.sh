#!/bin/sh
# check-symbols.sh LIBRARY - checks that every global symbol of libgguf.a starts with gg_, so
# that it cannot clash with a symbol of the program, and that every one is used by another
# object of the build, a public header or a test. Prints the others and exits 1.
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

# What an object lacks, another one must have. A use within its own object does not count, nor does
# an object that was left over from a source that is gone.
lib=$1
obj=$(dirname "$lib")/../obj
find "$obj/tools" -name '*.o' | while read -r object; do
    source=${object#"$obj/"}
    [ ! -e "${source%.o}.c" ] || echo "$object"
done > "$T/objects"
{ nm -u -P "$lib" && xargs nm -u -P < "$T/objects"; } 2> /dev/null | awk '{ print $1 }' | sort -u > "$T/used"
comm -23 "$T/defined" "$T/used" | while read -r name; do
    grep -qw -e "$name" include/organ/*.h tests/*/*.[ch] tests/*/*/*.[ch] ||
        echo "$name: only its own file uses this global symbol; make it static"
done > "$T/dead"
if [ -s "$T/dead" ]; then
    cat "$T/dead"
    status=1
fi
[ $status -eq 0 ] && echo "symbols: $(wc -l < "$T/defined" | tr -d ' '), all start with gg_ and are used"
exit $status
