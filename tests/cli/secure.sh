#!/bin/sh
# shellcheck disable=SC1091,SC2016
# secure.sh - docs/security.md: each test that it names exists, and it has each kind of source of the code, each option
# that names a file to read, each kind of fault with a test, and each target of tests/fuzz.
. "$(dirname "$0")/lib.sh"
page=docs/security.md
section() { # TITLE: the lines of it
    awk -v title="$1" '/^##/ { inside = $0 ~ "^##+ " title "$" } inside' $page
}

# ---- the tests that are named ----------------------------------------------------------------
grep -oE 'tests/[a-z]+/[A-Za-z0-9_]+\.[a-z]+' $page | sort -u > "$T/named"
[ "$(wc -l < "$T/named")" -ge 20 ] && ok || bad "the page names only $(wc -l < "$T/named") tests"
while read -r file; do [ -f "$file" ] && ok || bad "the page names $file, which does not exist"; done < "$T/named"

# ---- the files that check: the paths of the tables
tr -c 'A-Za-z0-9_./' '\n' < $page | grep -E '^(src|tools|scripts)/[a-z]+/[a-z_]+\.[ch]$' | sort -u > "$T/named"
[ "$(wc -l < "$T/named")" -ge 15 ] && ok || bad "the page names only $(wc -l < "$T/named") files"
while read -r file; do [ -f "$file" ] && ok || bad "the page names $file, which does not exist"; done < "$T/named"

# ---- kinds of sources: those of the code, of the page, and the forms that tests give to the tools --------------
sed -n '/kinds\[\] = {/,/};/p' src/organ/source_open.c | grep -o '&gg_source_[a-z]*' | tr -d '&' | sort > "$T/code"
section "Kinds of sources" | sed -n 's/^| \(gg_source_[a-z]*\) |.*/\1/p' | sort > "$T/page"
[ "$(wc -l < "$T/code")" -ge 5 ] && ok || bad "no kinds in source_open.c"
check_text "$(tr '\n' ' ' < "$T/page")" "$(tr '\n' ' ' < "$T/code")" "the kinds of sources of the page"
sed -n "s/^FORMS='\(.*\)'/\1/p" tests/rows.sh | tr ' ' '\n' | sort > "$T/code"
section "Kinds of sources" | sed -n 's/^| gg_source_[^|]*|[^|]*| *\([^|]*[^ |]\) *|$/\1/p' | tr -d ' `' | tr ',' '\n' |
    sort > "$T/page"
check_text "$(tr '\n' ' ' < "$T/page")" "$(tr '\n' ' ' < "$T/code")" "the forms of the page"
sed -n 's/^extern const gg_source_kind //p' src/*/*.h | tr -d ';' | tr ',' '\n' | tr -d ' ' | sort -u |
    while read -r kind; do grep -q "&${kind}[,;]" src/organ/source_open.c || echo "$kind"; done > "$T/unlisted"
check_text "$(cat "$T/unlisted")" "" "kinds of sources that no path can name"

# ---- options that name files to read --------------------------------------------------------------
for tool in "$BIN"/organ-*; do
    "$tool" --list-options | awk -F "$TAB" '
        $4 ~ /^(model|params|dir|file|key-file|range-file|rules)$/ && $1 != "-" { print "--" $1 }'
done | sort -u > "$T/options"
[ "$(wc -l < "$T/options")" -ge 25 ] && ok || bad "only $(wc -l < "$T/options") options name files"
while read -r option; do
    section "Kinds of sources" | grep -qF -e "\`$option\`" && ok || bad "the page does not list $option"
done < "$T/options"

# ---- kinds of faults --------------------------------------------------------------------------------
section "Rules for the next source" | sed -n '/^| [a-z]/p' | sed 1d > "$T/rules"
[ "$(wc -l < "$T/rules")" -ge 12 ] && ok || bad "$(wc -l < "$T/rules") kinds of faults"
check_text "$(grep -cv '| tests/[^|]* |$' "$T/rules")" 0 "rules without a test"

# ---- targets --------------------------------------------------------------------------------------
for f in tests/fuzz/fuzz_*.c; do
    t=${f##*/fuzz_} t=${t%.c}
    grep -qE "^[|] $t [|] [^|]+ [|] [0-9]+ [|] [0-9]+ [|]\$" $page && ok || bad "the page has no row of $f"
done
sed -n '/^| target /,/^$/s/^| \([a-z_]*\) |.*[0-9] |$/\1/p' $page | while read -r t; do
    [ -f "tests/fuzz/fuzz_$t.c" ] || echo "$t"
done > "$T/gone"
check_text "$(cat "$T/gone")" "" "rows of targets that do not exist"
finish
