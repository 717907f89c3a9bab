#!/bin/sh
# check-circles.sh BUILD - checks that the files of src/ and tools/ call each other one way: that
# the objects in BUILD/obj can be put in an order in which each needs only those before it. Prints
# the files of each circle and exits 1.
#
# Two circles are known: an adapter of PEFT is opened by checkpoint.c, whose functions peft.c uses;
# and the files of tools/api, which answer requests for one another. tables.o, which is made of texts,
# is left out: it has the facts that several files of its folder look up.
set -u
cd "$(dirname "$0")/.." || exit 2
T=$(mktemp -d) || exit 2
trap 'rm -rf "$T"' EXIT

find "${1:?the build folder}/obj/src" "$1/obj/tools" -name '*.o' ! -name tables.o > "$T/objects"
[ -s "$T/objects" ] || { echo "$1: no objects found"; exit 2; }
# Kernels are compiled once per level, with the same calls.
# shellcheck disable=SC2046 # names of objects have no spaces
nm -A -g -P $(cat "$T/objects") | sed 's/^[^ ]*\/obj\///; s/\(_l[0-9]\)*\.o: / /' | awk '
    function same(a, b) { return a == b || a b ~ /tools\/api\/.*tools\/api\// || a b == "src/hf/checkpointsrc/hf/peft" }
    $3 == "U" { used[++n] = $1 " " $2; next }
    $2 != "main" { home[$2] = $1 }
    END {
        for (i = 1; i <= n; i++) {
            split(used[i], u, " ")
            if ((u[2] in home) && !same(u[1], home[u[2]])) print u[1], home[u[2]]
        }
    }' | sort -u > "$T/calls"
[ -s "$T/calls" ] || { echo "$1: no calls found"; exit 2; }
if tsort < "$T/calls" 2> "$T/circles" > /dev/null && [ ! -s "$T/circles" ]; then
    echo "circles: none but two among $(wc -l < "$T/calls" | tr -d ' ') pairs of files"
else
    sed 's/^tsort: //' "$T/circles"
    exit 1
fi
