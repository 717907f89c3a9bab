#!/bin/sh
# check-layers.sh - checks which headers files include: the lower folders of src/ only those below them, src/
# and include/ nothing of tools/, public headers only each other, and the room of a tool no other room than
# tools/common. Prints the lines that do not and exits 1.
#
# It also checks that file names are unique in src/ (objects of kernels with the same name
# overwrite each other in an archive) and that no source includes a .c file. Headers that the build makes
# (options/NAME.h) are left out.
set -u
cd "$(dirname "$0")/.." || exit 2

status=0
grep -n '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' src/*/*.[ch] src/*/*/*.[ch] include/organ/*.h \
    tools/*/*.[ch] tools/*/*/*.[ch] |
awk -F '"' '
BEGIN {
    sees["base"] = " base "
    sees["numeric"] = " base numeric "
    sees["json"] = " base json "
    sees["quant"] = " base quant "
    sees["gguf"] = " base quant gguf "
    sees["organ"] = sees["hf"] = " base json quant gguf organ hf "
    sees["arch"] = " base quant gguf arch "
}
# The path that an include names: beside the file, or below src/, tools/ or include/.
function resolve(file, name,    dir, part, i, line) {
    dir = file
    sub(/[^\/]*$/, "", dir)
    if (name ~ /^\.\.\//) { sub(/[^\/]*\/$/, "", dir); sub(/^\.\.\//, "", name) }
    for (i = split(dir " src/ tools/ include/", part, " "); i; i--) order[i] = part[i]
    for (i = 1; i <= 4; i++)
        if ((getline line < (order[i] name)) >= 0) {
            close(order[i] name)
            return order[i] name
        }
    return ""
}
function complain(text) {
    print place[1] ":" place[2] ": includes " $2 ": " text
    bad = 1
}
$2 ~ /^options\// { next }
{
    split($1, place, ":")
    target = resolve(place[1], $2)
    split(place[1], from, "/")
    split(target, to, "/")
    if (target == "") complain("no such file from here")
    else if ($2 ~ /\.c$/) complain("a source, not a header")
    else if (from[1] != "tools" && to[1] == "tools") complain("the library must not know the tools")
    else if (from[1] == "include" && to[1] != "include") complain("a public header must not need a private one")
    else if (from[1] == "src" && to[1] == "src" && (from[2] in sees) && !index(sees[from[2]], " " to[2] " "))
        complain(from[2] " must not know " to[2])
    else if (from[1] == "tools" && to[1] == "tools" && from[2] != to[2] && to[2] != "common")
        complain("the room " from[2] " must not know " to[2])
    lines++
}
END {
    if (lines == 0) { print "no #include found: run it in the source tree"; bad = 1 }
    exit bad
}' || status=1

twice=$(for f in src/*/*.[ch] src/*/*/*.[ch]; do basename "$f"; done | sort | uniq -d)
if [ -n "$twice" ]; then
    echo "duplicate file names in src/: $twice"
    status=1
fi
[ $status -eq 0 ] && echo "layers: every include follows the order"
exit $status
