#!/bin/sh
# check-options.sh - checks that no message or comment of the library names a command-line
# option, and that each tool that writes a model reviews it. Prints what does not and exits 1. Messages use a gg_hint instead, which
# tools/common/help.txt translates into an option.
set -u
cd "$(dirname "$0")/.." || exit 2
if grep -rnE "[ \"'(\`]--[a-z]" src include; then
    echo "the library must not name options; see gg_hint in include/organ/gg_status.h"
    exit 1
fi
missing=$(sed -n 's/^    \(GG_HINT_[A-Z_]*\),.*/\1/p' include/organ/gg_status.h | grep -vE '_NONE$|_COUNT$' |
    while read -r hint; do sed '1,/^words hints /d; /^$/,$d' tools/common/help.txt | grep -q "^${hint#GG_HINT_} " || echo "$hint"; done)
if [ -n "$missing" ]; then
    echo "tools/common/help.txt has no option for:" $missing
    exit 1
fi
# Every tool that writes a model has it reviewed.
silent=$(awk '/^\[/ { tool = substr($0, 2, length($0) - 2) } $3 == "new-model" || $1 == "in-place" { print tool }' \
    tools/common/help.txt | sort -u | while read -r tool; do
    case $tool in organ-compare) continue ;; esac # it writes patches
    grep -lq 'run.review = gg_check_review' tools/*/"$tool.c" || echo "$tool"
done)
if [ -n "$silent" ]; then
    echo "these tools write models without a review (run.review):" $silent
    exit 1
fi
echo "options: none in the library, and one in the tools for each hint"
