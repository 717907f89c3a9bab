#!/bin/sh
# check-language.sh - search everything a person can read for phrases that the language
# rules in docs/CONTRIBUTING.md advise against. Print each as FILE:LINE and exit 1.
#
#   scripts/check-language.sh           check the areas below
#   scripts/check-language.sh --count   print the number of hits in every area
#   scripts/check-language.sh FILE...   check these files only
#
# Phrases are also found where a line break divides them. A legitimate use is justified in
# one of two ways: add a fragment to the list "allowed" if it is fine everywhere, or write
# "language: ok" with a reason on the line itself, in a comment.
set -u
cd "$(dirname "$0")/.." || exit 2

# The areas that make lint checks. To add one, write its name here.
AREAS='docs include scripts src tools tests'

files() { # AREA
    case $1 in
    docs) ls README.md .ci/run docs/*.md docs/*.yaml docs/*.json docs/man/* tests/*/README.md ;;
    include) ls include/organ/*.h ;;
    src) find src -name '*.[ch]' ;;
    tools) find tools -name '*.[ch]' -o -name '*.txt' ;;
    scripts) find scripts Makefile -type f ! -name check-language.sh ;;
    tests) find tests -name node_modules -prune -o \( -name '*.[ch]' -o -name '*.sh' -o -name '*.mjs' \
        -o -name '*.py' \) -print ;;
    esac | sort
}

# One extended regular expression per line.
phrases() {
    cat << 'END'
any place that takes
builds? again only
[ (]an? (row|line|byte|value|second|name|word|record|thread|file|folder|process|time|weight) an? [a-z]+
held against
holds? [a-z]+ against
hold [a-z' ]+ against
stands
as they stand
is no 
are no (option|model|name|stranger)
decided no 
no longer one
looks at all
are not looked at
later in memory
not all pairs
it starts with
its [0-9a-zA-Z%]+ bytes at byte
without spaces; it is
what is
what it is
with a word
goes with
go with
is told
one that
but for the
be it that
in the place of
END
}

# Fragments that are fine: ordinary English, or quotations of a program's output.
allowed() {
    cat << 'END'
[Tt]here (is|are) no 
stands for
[Ww]hat is (in the model|wrong|written|rebuilt|purified|read|left out|new|this)
the one that
(answer|verdict) is no
END
}

search() { # FILES on stdin; prints hits
    phrases > "$T/phrases"
    allowed > "$T/allowed"
    # A line is compared with each phrase only if it contains any of them.
    tr '\n' '\0' | xargs -0 awk '
        FILENAME ~ /phrases$/ { phrase[++n] = $0; any = any (n > 1 ? "|" : "") "(" $0 ")"; next }
        FILENAME ~ /allowed$/ { fine[++m] = $0; next }
        FNR == 1 { last = "" }
        {
            line = $0
            sub(/^[ \t]*(\/\*+|\*|#|\/\/|\.\\")?[ \t]*/, "", line)
            # The rules themselves quote the phrases in a table.
            if ($0 ~ /language: ok/ || (FILENAME ~ /CONTRIBUTING/ && $0 ~ /^\|/)) line = ""
            whole = last " " line
            before = last
            last = line
            if (line == "" || tolower(whole) !~ any) next
            for (i = 1; i <= m; i++) gsub(fine[i], "", line)
            last = line
            both = line == "" ? "" : before " " line
            for (i = 1; i <= m; i++) gsub(fine[i], "", both)
            for (i = 1; i <= n; i++)
                if (tolower(line) ~ phrase[i]) print FILENAME ":" FNR ": \"" phrase[i] "\": " $0
                else if (tolower(both) ~ phrase[i] && tolower(before) !~ phrase[i])
                    print FILENAME ":" FNR - 1 ": \"" phrase[i] "\" over the line break: " before
        }' "$T/phrases" "$T/allowed"
}

T=$(mktemp -d "${TMPDIR:-/tmp}/language.XXXXXX") || exit 2
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP

case ${1:-} in
--count)
    for area in docs include src tools scripts tests; do
        printf '%s\t%s\n' "$area" "$(files $area | search | wc -l | tr -d ' ')"
    done
    exit 0 ;;
'') for area in $AREAS; do files "$area"; done > "$T/files" ;;
*) printf '%s\n' "$@" > "$T/files" ;;
esac
search < "$T/files" > "$T/hits"
if [ -s "$T/hits" ]; then
    cat "$T/hits"
    echo "check-language: see \"How we write\" in docs/CONTRIBUTING.md" >&2
    exit 1
fi
echo "language: $(wc -l < "$T/files" | tr -d ' ') files, nothing found"
