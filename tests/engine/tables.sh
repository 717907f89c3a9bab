#!/bin/sh
# tables.sh - the measured tables of the pages (tests/engine/README.md).
#
#   tables.sh fill         write the tables into the pages, between their markers
#   tables.sh check        exit 1 if a page has other figures than the tables
#   tables.sh put NAME     store the table on stdin as NAME.tsv. If its figures are within their
#                          tolerances, the stored ones stay; otherwise print them and exit 1
#   tables.sh text NAME    store the text on stdin as NAME.txt
#
#   TABLES=DIR             the tables (tests/engine/results)
#   PAGES="FILE..."        the pages (README.md and docs/*.md)
set -eu
awk=$(cd "$(dirname "$0")" && pwd)/tables.awk
[ -n "${PAGES:-}" ] && [ -n "${TABLES:-}" ] || cd "$(dirname "$0")/../.."
TABLES=${TABLES:-tests/engine/results}
PAGES=${PAGES:-README.md docs/*.md}
T=$(mktemp -d "${TMPDIR:-/tmp}/tables.XXXXXX")
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP

filled() { # PAGE: the page as it must be
    awk -v job=fill -v dir="$TABLES" -f "$awk" "$1" > "$T/page"
}

status=0
case ${1:-} in
fill)
    for page in $PAGES; do
        filled "$page" || exit 1
        cmp -s "$T/page" "$page" || { cat "$T/page" > "$page"; echo "$page"; }
    done
    ;;
check)
    for page in $PAGES; do
        filled "$page" || status=1
        cmp -s "$T/page" "$page" && continue
        echo "$page: its tables differ from those in $TABLES (tests/engine/tables.sh fill writes them)" >&2
        diff "$page" "$T/page" | head -n 6 >&2
        status=1
    done
    [ ! -f "$TABLES/claims" ] || awk -v job=claims -v dir="$TABLES" -f "$awk" "$TABLES/claims" || status=1
    ;;
put)
    cat > "$T/$2.tsv"
    [ -s "$T/$2.tsv" ] || { echo "tables.sh: the table $2 is empty" >&2; exit 1; }
    awk -v job=compare -v dir="$T" -v old="$TABLES" -v name="$2" -f "$awk" < /dev/null || status=1
    [ $status = 0 ] || cp "$T/$2.tsv" "$TABLES/$2.tsv"
    ;;
text)
    cat > "$T/text"
    cmp -s "$T/text" "$TABLES/$2.txt" || cp "$T/text" "$TABLES/$2.txt"
    ;;
*)
    echo "usage: tests/engine/tables.sh fill | check | put NAME | text NAME" >&2
    exit 2
    ;;
esac
exit $status
