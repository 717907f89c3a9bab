#!/bin/sh
# shellcheck disable=SC1091,SC2016
# tables.sh - tests/engine/tables.sh: a page is filled with its tables, and other figures in a
# table, in a page or in a sentence are noticed.
. "$(dirname "$0")/lib.sh"

mkdir "$T/tables"
table() { TABLES=$T/tables PAGES=$T/page.md sh tests/engine/tables.sh "$@"; }
printf '# tolerance\tb\t10%%\n# tolerance\tc\texact\na\tb\tc\nx\t20.0 (1.00)\t7\ny\t-3\t8.26\n' > "$T/tables/one.tsv"
printf 'a\tc\nhalf\t20.05\nmore\t19.94\n' > "$T/tables/half.tsv"
printf '    a command\n' > "$T/tables/two.txt"
printf '%s\n' Before. '<!-- table one -->' old '<!-- end -->' 'It costs' '20.0 there, 8.3 here.' '<!-- table two -->' \
    '<!-- end -->' > "$T/page.md"
check_exit 1 "an unfilled page" table check
check "fill" table fill
cat > "$T/want" <<'END'
Before.
<!-- table one -->

| a | b | c |
|---|---|---|
| x | 20.0 (1.00) | 7 |
| y | -3 | 8.26 |

<!-- end -->
It costs
20.0 there, 8.3 here.
<!-- table two -->

    a command

<!-- end -->
END
check "the filled page" cmp "$T/page.md" "$T/want"
check "a page that is as it must be" table check
check "fill again" table fill
check "which changes nothing" cmp "$T/page.md" "$T/want"

sed 's/| 7 |/| 6 |/' "$T/want" > "$T/page.md"
check_exit 1 "another figure in a page" table check
sed '/^<!-- end -->$/d' "$T/want" > "$T/page.md"
check_exit 1 "a table without an end" table fill
cp "$T/want" "$T/page.md"
sed 's/table two/table three/' "$T/want" > "$T/page.md"
check_exit 1 "a table that is not there" table fill
cp "$T/want" "$T/page.md"

# Sentences: rounded to the digits of the page, over the ends of lines.
claim() { # EXIT WHAT TEXT ROW COLUMN [TABLE]
    printf '# comment\n%s\t%s\t%s\t%s\t%s\n' "$T/page.md" "$3" "${6:-one}" "$4" "$5" > "$T/tables/claims"
    check_exit "$1" "$2" table check
}
claim 0 "a figure that is rounded" ', {} here.' y c
claim 1 "another figure" 'costs {} there' y c
claim 0 "the first number of a cell" 'costs {} there' x b
claim 0 "half a unit, down" 'costs {} there' half c half
claim 1 "more than half" 'costs {} there' more c half
claim 1 "a sentence that is not there" 'costs {} here' y c
claim 1 "a text without a figure" 'costs 20.0 there' y c
claim 1 "a row that is not there" ', {} here.' z c
claim 1 "a column that is not there" ', {} here.' y d
claim 0 "a row by two cells" ', {} here.' 'y, -3' c
rm "$T/tables/claims"

# Another run: within the tolerances the stored table stays.
put() { # EXIT WHAT: the table on stdin
    sed "$3" "$T/tables/one.tsv" > "$T/new"
    cp "$T/tables/one.tsv" "$T/kept"
    check_exit "$1" "$2" table put one < "$T/new"
    cmp -s "$T/tables/one.tsv" "$T/kept" && kept=0 || kept=1
    if [ $kept = "$1" ]; then ok; else bad "$2: stored $kept"; fi
    cp "$T/kept" "$T/tables/one.tsv"
}
put 0 "the same" ''
put 0 "within 10 %" 's/20\.0/21.9/; s/-3/-4/'
put 1 "beyond 10 %" 's/20\.0/22.1/'
put 1 "beyond it, below" 's/20\.0/17.9/'
put 1 "the second number of a cell" 's/1\.00/1.2/'
put 1 "beyond a unit" 's/-3/-5/'
put 1 "an exact column" 's/8\.26/8.27/'
put 1 "a text in a cell" 's/(1\.00)/[1.00]/'
put 1 "a row less" '$d'
put 1 "another column" 's/^a/A/'
if grep -q "one: another column: A" "$T/out"; then ok; else bad "which column: $(cat "$T/out")"; fi
check_exit 1 "a new table" table put new < "$T/new"
check "is stored" cmp "$T/tables/new.tsv" "$T/new"
check_exit 1 "an empty table" table put empty < /dev/null
if [ ! -e "$T/tables/empty.tsv" ]; then ok; else bad "an empty table is stored"; fi
check_exit 2 "no command" table
finish
