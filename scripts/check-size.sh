#!/bin/sh
# check-size.sh - checks that functions have at most 60 lines, six parameters and, if pmccabe is
# installed, a cyclomatic complexity of 20, and that lines of C have at most 100 columns and those of
# shell tests fewer than 120. A file may have any length, if it is about one thing. Prints every
# violation and exits 1.
set -u
cd "$(dirname "$0")/.." || exit 2

status=0
code='src/*/*.c src/*/*/*.c tools/*/*.c tools/*/*/*.c'
for f in src/*/*.[ch] src/*/*/*.[ch] include/organ/*.h tools/*/*.[ch] tools/*/*/*.[ch] tests/unit/*.[ch] \
    tests/bench/*.c tests/fuzz/*.c; do
    wide=$(awk 'length > 100 { print FILENAME ":" FNR ": " length " columns; 100 is the most" }' "$f")
    if [ -n "$wide" ]; then echo "$wide"; status=1; fi
done
wide=$(awk 'length > 119 { print FILENAME ":" FNR ": " length " columns; 119 are the most in a test" }' \
    tests/*.sh tests/*/*.sh)
if [ -n "$wide" ]; then echo "$wide"; status=1; fi

# Functions of tools and the library that are too long: from the line of the name to the brace that
# ends the body, which clang-format puts in the first column.
# shellcheck disable=SC2086 # $code is a list of patterns
long=$(awk '
FNR == 1 { at = 0 }
/^[a-zA-Z_].*\(/ { at = FNR; name = $0 }
/^\}/ {
    if (at && FNR - at + 1 > 60) print FILENAME ":" at ": " FNR - at + 1 " lines; a function may have 60: " name
    at = 0
}' $code)
if [ -n "$long" ]; then echo "$long"; status=1; fi

if command -v pmccabe > /dev/null; then
    # shellcheck disable=SC2086
    complex=$(pmccabe $code | awk '$1 > 20 { print $NF ": its complexity is " $1 "; 20 is the most: " $0 }')
    if [ -n "$complex" ]; then echo "$complex"; status=1; fi
fi

# Functions with more than six parameters, each group with its reason.
# All verbs have the same parameters: inputs, options and output, then run, report and error.
many='gg_plan_output gg_align gg_transplant gg_transplant_in_place gg_transplant_directory gg_stack_blocks gg_lora_extract'
# Arrays with their lengths, which a struct would only rename; gg_encode is shaped as ggml's encoders.
many="$many gg_encode gg_gguf_read_pipe gg_header_emit check_encode"
# Helpers with one or two callers, whose local values they use.
many="$many same_set replace refuses choose_all gg_rank_experts gg_dtype_rules_apply sample_tail add_tensor"

# Definitions as clang-format lays them out: the name starts in the first column, and the brace
# of the body has a line to itself.
wordy=$(awk -v many=" $many " '
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
}' src/*/*.[ch] src/*/*/*.[ch] tools/*/*.c tools/*/*/*.c tests/unit/*.[ch])
if [ -n "$wordy" ]; then echo "$wordy"; status=1; fi

[ $status -eq 0 ] && echo "size: every function and line is short enough"
exit $status
