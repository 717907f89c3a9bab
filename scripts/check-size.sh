#!/bin/sh
# check-size.sh - checks that files of logic have at most 500 lines (or MAX=n), tests at
# most 600, lines of C at most 100 columns, and functions at most six parameters.
# Prints every violation and exits 1.
set -u
cd "$(dirname "$0")/.." || exit 2
MAX=${MAX:-500}

status=0 files=0 longest=0 which=
for f in src/*/*.[ch] src/*/*/*.[ch] include/organ/*.h tools/*.[ch] tools/api/*.[ch] tests/unit/*.[ch] tests/bench/*.c \
    tests/fuzz/*.c scripts/* scripts/lib/* scripts/web/* tests/*.sh tests/cli/*.sh; do
    [ -f "$f" ] || continue
    files=$((files + 1))
    lines=$(($(wc -l < "$f")))
    if [ "$lines" -gt "$longest" ]; then longest=$lines which=$f; fi
    most=$MAX
    case $f in tests/*) most=600 ;; esac
    if [ "$lines" -gt "$most" ]; then
        echo "$f: $lines lines; at most $most are allowed"
        status=1
    fi
    case $f in *.[ch])
        wide=$(awk 'length > 100 { print FILENAME ":" FNR ": " length " columns; 100 is the most" }' "$f")
        if [ -n "$wide" ]; then echo "$wide"; status=1; fi ;;
    esac
done

# Functions with more than six parameters, each group with its reason.
# All verbs have the same parameters: inputs, options and output, then run, report and error.
many='gg_plan_output gg_align gg_transplant gg_transplant_in_place gg_stack_blocks gg_lora_extract'
# Arrays with their lengths, which a struct would only rename; gg_encode is shaped as ggml's encoders.
many="$many gg_encode gg_gguf_read_pipe gg_header_emit check_encode"
# Helpers with one or two callers, whose local values they use.
many="$many same_set replace refuses choose_all gg_dtype_rules_apply"

# Definitions as clang-format lays them out: the name starts in the first column, and the brace
# of the body has a line to itself.
long=$(awk -v many=" $many " '
FNR == 1 { text = "" }
/^[a-zA-Z_]/ { text = ""; at = FNR }
/^[a-zA-Z_ \t]/ { text = text " " $0 }
/^\{$/ && text ~ /\)[ \t]*$/ {
    depth = 0
    for (i = length(text); i > 0; i--) { # back to the parenthesis that opens the parameters
        c = substr(text, i, 1)
        if (c == ")") depth++
        if (c == "(" && --depth == 0) break
    }
    name = substr(text, 1, i - 1)
    sub(/.*[ *]/, "", name)
    n = 1
    for (k = i + 1; k < length(text); k++) {
        c = substr(text, k, 1)
        if (c == "(") depth++
        if (c == ")") depth--
        if (c == "," && depth == 0) n++
    }
    if (n > 6 && index(many, " " name " ") == 0)
        print FILENAME ":" at ": " name " has " n " parameters; 6 is the most, or give the reason in scripts/check-size.sh"
    text = ""
}' src/*/*.[ch] src/*/*/*.[ch] tools/*.c tools/api/*.c tests/unit/*.[ch])
if [ -n "$long" ]; then echo "$long"; status=1; fi

[ $status -eq 0 ] && echo "size: $files files, the longest $which with $longest lines"
exit $status
