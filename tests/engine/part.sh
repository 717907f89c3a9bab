# shellcheck shell=sh
# part.sh - what the scripts results-PART.sh have in common. They source it from the top of the tree.
# $M is the folder for what they make: KEEP, if it is set.
M=${KEEP:-$M}
mkdir -p "$M"
rm -f "$M/changed"
# shellcheck source=tests/engine/recipes.sh disable=SC1091
. tests/engine/recipes.sh

# A pipe runs it in a process of its own, so it leaves a file if a figure changed.
put() { # NAME: the table on stdin
    cat > "$M/$1.tsv"
    $TABLE put "$1" < "$M/$1.tsv" || : > "$M/changed"
}
