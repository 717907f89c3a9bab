#!/bin/sh
# count-api.sh [MOST] - counts the functions that the public headers declare. Prints one
# line, or one function per line with --list, and exits 1 if there are more than MOST
# (default 75), or more than 14 headers.
set -u
cd "$(dirname "$0")/.." || exit 2
most=75 list=
case ${1:-} in
--list) list=1 ;;
?*) most=$1 ;;
esac

# Removes comments, preprocessor lines and everything in braces. Declarations that end with
# a semicolon are left. The name before the first parenthesis is a function, unless the
# declaration is a typedef.
names=$(cat include/organ/*.h | awk '
/^[[:space:]]*#/ { while (/\\$/ && (getline > 0)) { } next }
{ text = text " " $0 }
END {
    while ((i = index(text, "/*")) > 0) {
        rest = substr(text, i + 2)
        j = index(rest, "*/")
        text = substr(text, 1, i - 1) " " substr(rest, j + 2)
    }
    gsub(/extern "C" *[{]/, "", text)
    while (match(text, /[{][^{}]*[}]/)) text = substr(text, 1, RSTART - 1) ";" substr(text, RSTART + RLENGTH)
    n = split(text, part, ";")
    for (k = 1; k <= n; k++)
        if (part[k] !~ /typedef/ && match(part[k], /gg_[a-z0-9_]+ *[(]/)) {
            name = substr(part[k], RSTART, RLENGTH)
            sub(/ *[(]$/, "", name)
            print name
        }
}' | sort -u)
[ -z "$list" ] || { printf '%s\n' "$names"; exit 0; }
n=$(printf '%s\n' "$names" | wc -l | tr -d ' ')
headers=$(find include/organ -name '*.h' | wc -l | tr -d ' ')
echo "public: $n functions in $headers headers"
[ "$headers" -le 14 ] || { echo "more than 14 headers; move what no other program needs to src/"; exit 1; }
[ "$n" -le "$most" ] || { echo "more than $most functions; move what no other program needs to src/"; exit 1; }
